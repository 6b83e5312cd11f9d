"""Precision: the share of relevant documents in what was shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ltr_harness.metrics.core.hits import HitsMetric, rows_looked_at


@dataclass(frozen=True, kw_only=True)
class Precision(HitsMetric):
    """Which share of the first K documents is relevant, in whatever order.

    P@K = (relevant documents in the first K) / K. Shuffling the first K changes nothing, and a query with fewer than
    K relevant documents cannot reach 1. Without a cutoff, the whole list is the K.

    Attributes:
        denominator: ``k`` divides by K (trec_eval), ``min_kn`` by min(K, n) where the list is shorter (XGBoost,
            CatBoost, RankLib).

    Source: Cleverdon 1966; expectation under ties: McSherry & Najork 2008.

    When to use: The first K documents are shown at once, in no order that matters: a carousel, a grid, a batch
        for reviewers.

    When not: Where order within the first K matters: a hit at rank 1 and one at rank K count the same.
        Where queries have fewer than K relevant documents: the best value is then below 1 and differs between
        queries.

    Example:
        >>> from ltr_harness import evaluate
        >>> ev = evaluate([1, 0, 1], [3.0, 2.0, 1.0], group_sizes=[3], metrics=["precision@2"])
        >>> ev.means["precision@2"]
        0.5
    """

    denominator: Literal["k", "min_kn"] = "k"

    name: ClassVar[str] = "precision"
    divisor_name: ClassVar[str] = "documents looked at"
    source: ClassVar[str] = "Cleverdon 1966"

    def divisor(
        self, lengths: NDArray[np.int64], n_relevant: NDArray[np.int64], cutoffs: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        return rows_looked_at(lengths, cutoffs, self.denominator)
