"""Precision: the share of relevant documents in what was shown."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from ltr_harness.metrics.core import Ints, Judgments, Ranking, SwapChange
from ltr_harness.metrics.core.metric import NO_CUTOFF, BinaryMetric, Cutoffs, Divisor, Prepared, Values
from ltr_harness.metrics.dcg import cumulated


@dataclass(frozen=True, kw_only=True)
class HitsMetric(BinaryMetric):
    """Base of precision, recall and F1: a multiple of the hits in the first K, over a divisor they choose."""

    multiple: ClassVar[float] = 1.0
    divisor_name: ClassVar[str]

    @abstractmethod
    def divisor(self, lengths: Ints, n_relevant: Ints, cutoffs: Cutoffs) -> Ints:
        """int64, broadcastable to (n_cutoffs, n_queries).

        Args:
            lengths: (n_queries,), documents that each query lists.
            n_relevant: (n_queries,), relevant documents of each.
            cutoffs: (n_cutoffs, 1), ascending.
        """
        raise NotImplementedError

    def prepare(self, judgments: Judgments, cutoffs: Cutoffs) -> Prepared:
        is_relevant, n_relevant = self.relevant_labels(judgments)
        gain = is_relevant.astype(np.float64)
        factors = np.ones(min(judgments.groups.longest, int(cutoffs[-1])))

        def values(ranking: Ranking) -> Values:
            out = cumulated(ranking, cutoffs, gain, factors, by_label=True)
            out *= self.multiple
            out /= np.maximum(self.divisor(np.diff(ranking.offsets), n_relevant, cutoffs[:, np.newaxis]), 1)
            np.minimum(out, 1.0, out=out)  # a count of expected hits may exceed the whole by a rounding error
            return self.apply_empty(out, n_relevant == 0)

        return values

    def swap_change(self, judgments: Judgments) -> SwapChange:
        is_relevant, n_relevant = self.relevant_rows(judgments)
        by = self.divisor(judgments.groups.sizes, n_relevant, np.array([self.cutoff]))
        return SwapChange(
            form="sum",
            worth=is_relevant.astype(np.float64),
            scale=self.multiple / np.maximum(by, 1),
            rank_worth=np.ones(self.n_counted_ranks(judgments)),
        )

    def divisor_at(self, judgments: Judgments, ranking: Ranking, cutoffs: Cutoffs) -> Divisor:
        _, n_relevant = self.relevant_rows(judgments)
        by = self.divisor(np.diff(ranking.offsets), n_relevant, cutoffs[:, np.newaxis])
        return self.divisor_name, np.broadcast_to(by, (cutoffs.size, 1))[:, 0] / self.multiple


def rows_looked_at(lengths: Ints, cutoffs: Cutoffs, denominator: str) -> Ints:
    """Return the number of documents that precision divides by.

    Args:
        lengths: (n_queries,), documents that each query lists.
        cutoffs: (n_cutoffs, 1), ascending.
        denominator: ``k`` K, even where the list is shorter; ``min_kn`` min(K, n).
    """
    shorter = np.minimum(lengths, cutoffs)
    return shorter if denominator == "min_kn" else np.where(cutoffs == NO_CUTOFF, shorter, cutoffs)


@dataclass(frozen=True, kw_only=True)
class Precision(HitsMetric):
    """Share of the first K documents that is relevant, in whatever order.

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

    Missed documents: They have no rank: the value stays. It is 0, not undefined, where every relevant document
        was missed.

    Example:
        >>> from ltr_harness import evaluate
        >>> ev = evaluate([1, 0, 1], [3.0, 2.0, 1.0], group_sizes=[3], metrics=["precision@2"])
        >>> ev.means["precision@2"]
        0.5
    """

    denominator: Literal["k", "min_kn"] = "k"

    name = "precision"
    counts_worthless_rows = True
    divisor_name = "documents looked at"
    source = "Cleverdon 1966"

    def divisor(self, lengths: Ints, n_relevant: Ints, cutoffs: Cutoffs) -> Ints:
        return rows_looked_at(lengths, cutoffs, self.denominator)
