"""How many relevant documents the first K hold, in expectation over ties: what the set metrics are fractions of."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ltr_harness.groups import Judgments
from ltr_harness.metrics.core.metric import BinaryMetric, Values
from ltr_harness.metrics.core.ranking import Ranking
from ltr_harness.metrics.core.swap_change import SwapChange
from ltr_harness.metrics.dcg import cumulated


@dataclass(frozen=True, kw_only=True)
class HitsMetric(BinaryMetric):
    """Base of precision, recall and F1: a multiple of the hits in the first K, over a divisor they choose."""

    multiple: ClassVar[float] = 1.0
    divisor_name: ClassVar[str]

    @abstractmethod
    def divisor(
        self, lengths: NDArray[np.int64], n_relevant: NDArray[np.int64], cutoffs: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """int64, broadcastable to (n_cutoffs, n_queries); `lengths` are the documents each query lists.

        Shapes: `lengths` (n_queries,), `n_relevant` (n_queries,), `cutoffs` (n_cutoffs,).
        """
        raise NotImplementedError

    def prepare(self, judgments: Judgments, cutoffs: NDArray[np.int64]) -> Callable[[Ranking], Values]:
        is_relevant, n_relevant = self.relevant_rows(judgments)
        gain = is_relevant.astype(np.float64)
        even = np.ones(int(min(judgments.groups.sizes.max(), cutoffs[-1])))

        def values(ranking: Ranking) -> Values:
            out = cumulated(ranking, cutoffs, gain, even)
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
            rank_worth=np.ones(self.ranks_counted(judgments)),
        )

    def divisor_at(
        self, judgments: Judgments, ranking: Ranking, cutoffs: NDArray[np.int64]
    ) -> tuple[str, NDArray[np.float64]]:
        _, n_relevant = self.relevant_rows(judgments)
        by = self.divisor(np.diff(ranking.offsets), n_relevant, cutoffs[:, np.newaxis])
        return self.divisor_name, np.broadcast_to(by, (cutoffs.size, 1))[:, 0] / self.multiple


def rows_looked_at(
    lengths: NDArray[np.int64], cutoffs: NDArray[np.int64], denominator: str
) -> NDArray[np.int64]:
    """What precision divides by: ``k`` K, even where the list is shorter; ``min_kn`` min(K, n).

    Shapes: `lengths` (n_queries,), `cutoffs` (n_cutoffs,).
    """
    shorter = np.minimum(lengths, cutoffs)
    return (
        shorter if denominator == "min_kn" else np.where(cutoffs == np.iinfo(np.int64).max, shorter, cutoffs)
    )
