"""The number of relevant documents of a query."""

from dataclasses import dataclass

import numpy as np

from ltr_harness.metrics.core import Judgments, Ranking
from ltr_harness.metrics.core.metric import BinaryMetric, Cutoffs, Prepared, Values


@dataclass(frozen=True, kw_only=True)
class NRelevant(BinaryMetric):
    """Number of relevant documents of the query: the R of every other definition, whatever the ranking.

    Says nothing about a ranking; it explains why metrics differ between data sets. 0 is a count like any other,
    so no query is undefined.

    Source: trec_eval's ``num_rel``.

    When to use: To explain differences between data sets, markets and slices: with more relevant documents,
        NDCG and MRR are higher by themselves.

    When not: To choose between models: it is the same for all of them.

    Missed documents: They count like candidates: the value rises.

    Example:
        >>> from ltr_harness import evaluate
        >>> evaluate([2, 0, 1], [3.0, 2.0, 1.0], group_sizes=[3], metrics=["n_relevant"]).means["n_relevant"]
        2.0
    """

    name = "n_relevant"
    bounds = (0.0, float("inf"))
    takes_cutoff = False
    diagnostic = True
    takes_any_label = True
    source = "trec_eval (num_rel)"

    @property
    def counts(self) -> bool:
        return True

    def prepare(self, judgments: Judgments, cutoffs: Cutoffs) -> Prepared:
        counts = self.relevant_rows(judgments)[1].astype(np.float64)

        def values(ranking: Ranking) -> Values:
            return np.tile(counts, (cutoffs.size, 1))

        return values
