"""Q-measure: average precision for graded labels."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ltr_harness._util.compiled import compiled
from ltr_harness.errors import MetricError
from ltr_harness.metrics.core import Floats, Ints, Judgments, Lists, Ranking, RowRanker, SwapChange
from ltr_harness.metrics.core.gains import GainMetric
from ltr_harness.metrics.core.metric import Cutoffs, Divisor, Prepared, Values


@dataclass(frozen=True, kw_only=True)
class Q(GainMetric):
    """Average precision with grades: relevance that fills the top, a high grade counting more.

    Q@K = (1/min(R, K)) * sum over relevant ranks r <= K of (b cg(r) + count(r)) / (b cg*(r) + r), with count(r)
    the relevant documents and cg(r) the gain in the first r, cg*(r) the gain of the ideal list's first r, and R the
    documents with a positive gain. With b = 0 it is average precision.

    Attributes:
        gain: ``linear`` g, ``exp`` 2^g - 1 (integer labels; ``exp_real`` any), or a table ``{0: 0, 1: 1, 2: 5}``.
        b: how much the grades count beside the mere number of relevant documents.

    Source: Sakai 2004, cut at K as NTCIREVAL cuts it; ties: exact mean over their orders.

    When to use: Graded labels and a need for many relevant documents: `map` that sees grades, `ndcg` that sees
        precision.

    When not: For a handful of documents at the top, and where it is unknown: `ndcg` is what readers
        expect.

    Missed documents: They stand in the ideal list: the value falls.

    Example:
        >>> from ltr_harness import evaluate
        >>> ev = evaluate([0, 2, 1], [3.0, 2.0, 1.0], group_sizes=[3], metrics=["q"])
        >>> round(ev.means["q"], 6)  # 1/2 ((2 + 1) / (3 + 2) + (3 + 2) / (3 + 3))
        0.716667
    """

    gain: Any = "linear"
    b: float = 1

    name = "q"
    source = "Sakai 2004"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.b < 0:
            raise MetricError(f"q: b={self.b}; expected a number >= 0")

    def prepare(self, judgments: Judgments, cutoffs: Cutoffs) -> Prepared:
        gain, n_relevant, ideal = self._judged(judgments)
        divisor = np.maximum(np.minimum(n_relevant[np.newaxis, :], cutoffs[:, np.newaxis]), 1)

        def values(ranking: Ranking) -> Values:
            out = np.empty(divisor.shape)
            bounds = judgments.groups.boundaries
            _blended_ratios(ranking.lists, cutoffs, gain, bounds, ideal, float(self.b), out)
            out /= divisor
            np.minimum(out, 1.0, out=out)
            return self.apply_empty(out, n_relevant == 0)

        return values

    def _judged(self, judgments: Judgments) -> tuple[Floats, Ints, Ints]:
        """The gain of each row, the relevant rows of each query, and its rows in ideal order."""
        gain = self.gains(judgments)
        n_relevant = judgments.groups.count(gain > 0.0)
        return gain, n_relevant, RowRanker(judgments, "stable", None).rank(gain).rows

    def swap_change(self, judgments: Judgments) -> SwapChange:
        gain, n_relevant, ideal = self._judged(judgments)
        depth = np.minimum(judgments.groups.sizes, self.cutoff)
        return SwapChange(
            form="precision",
            worth=gain,
            scale=1.0 / np.maximum(np.minimum(n_relevant, self.cutoff), 1),
            rank_worth=_ideal_ratios(judgments.groups.boundaries, gain[ideal], float(self.b)),
            per_query=True,
            depth=depth,
            blend=float(self.b),
        )

    def divisor_at(self, judgments: Judgments, ranking: Ranking, cutoffs: Cutoffs) -> Divisor:
        relevant = np.count_nonzero(self.gains(judgments) > 0.0)
        return "min(R, K)", np.minimum(cutoffs, relevant).astype(np.float64)


@compiled
def _ideal_ratios(boundaries: Ints, ideal: Floats, b: float) -> Floats:
    """1 / (b cg*(r) + r) for each rank of each query."""
    out = np.empty(ideal.size)
    for query in range(boundaries.size - 1):
        gained = 0.0
        for i in range(boundaries[query], boundaries[query + 1]):
            gained += ideal[i]
            out[i] = 1.0 / (b * gained + (i + 1 - boundaries[query]))
    return out


@compiled
def _blended_ratios(
    lists: Lists, cutoffs: Ints, gain: Floats, boundaries: Ints, ideal_rows: Ints, b: float, out: Floats
) -> None:
    """Expected sum of blended ratios: each of the group's documents is equally likely at each of its ranks."""
    offsets, rows, tie_end, _ = lists
    for query in range(offsets.size - 1):
        first = offsets[query]
        n = min(offsets[query + 1] - first, cutoffs[-1])
        total = 0.0
        gained = 0.0  # above the tie group
        ideal = 0.0
        count = cutoff = i = 0
        while i < n:
            start = i
            end = tie_end[first + i]
            size = end - start
            group_gain = 0.0
            relevant = 0
            for j in range(start, end):
                row_gain = gain[rows[first + j]]
                group_gain += row_gain
                if row_gain > 0.0:
                    relevant += 1
            while i < end and i < n:
                ideal += gain[ideal_rows[boundaries[query] + i]]
                if relevant > 0:
                    earlier = (i - start) / (size - 1) if size > 1 else 0.0  # chance to stand above this rank
                    relevant_before = earlier * (relevant - 1)
                    blended = relevant * (b * gained + count + 1 + relevant_before) + b * group_gain * (
                        1.0 + relevant_before
                    )
                    total += blended / size / (b * ideal + i + 1)
                i += 1
                if i == cutoffs[cutoff]:
                    out[cutoff, query] = total
                    cutoff += 1
            gained += group_gain
            count += relevant
        for beyond in range(cutoff, cutoffs.size):
            out[beyond, query] = total
