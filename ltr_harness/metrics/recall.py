"""Recall: the share of the relevant documents that was shown."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ltr_harness.metrics.core import Ints
from ltr_harness.metrics.core.metric import Cutoffs
from ltr_harness.metrics.precision import HitsMetric


@dataclass(frozen=True, kw_only=True)
class Recall(HitsMetric):
    """Share of the query's relevant documents that is among the first K.

    R@K = (relevant documents in the first K) / R. Never falls as K grows, and is 1 once everything is shown.

    Attributes:
        denominator: ``total`` divides by R, ``min_rk`` by min(R, K), so that 1 can be reached at any K.

    Source: Cleverdon 1966; expectation under ties: McSherry & Najork 2008.

    When to use: For what a later stage needs to find in the list: candidates for re-ranking, passages for
        a language model. Say it with a K that the later stage really reads.

    When not: As the only number of a final ranking: it ignores order, and showing more never lowers it.

    Missed documents: They count in R: the value falls.

    Example:
        >>> from ltr_harness import evaluate
        >>> ev = evaluate([1, 0, 1], [3.0, 2.0, 1.0], group_sizes=[3], metrics=["recall@2"])
        >>> ev.means["recall@2"]
        0.5
    """

    denominator: Literal["total", "min_rk"] = "total"

    name = "recall"
    divisor_name = "relevant documents to be had"
    source = "Cleverdon 1966"

    def divisor(self, lengths: Ints, n_relevant: Ints, cutoffs: Cutoffs) -> Ints:
        return n_relevant if self.denominator == "total" else np.minimum(n_relevant, cutoffs)
