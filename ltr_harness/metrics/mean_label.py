"""Mean label: what the first K documents are worth on average."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from ltr_harness.metrics.core import Ints, Judgments, Ranking, SwapChange
from ltr_harness.metrics.core.metric import NO_CUTOFF, Cutoffs, Divisor, Metric, Prepared, Values
from ltr_harness.metrics.dcg import cumulated


@dataclass(frozen=True, kw_only=True)
class MeanLabel(Metric):
    """The mean label of the first K documents, such as the mean return of the K shares on top, each held alike.

    mean_label@K = sum over ranks r <= K of label_r / min(K, n). A tie group counts its mean label at each of its ranks.
    Labels are any numbers, below 0 too; the value is in their unit. Queries that list no document are undefined.

    Attributes:
        minus: ``bottom`` takes the mean label of the last min(K, n) documents away: the spread between those on top
            and those at the bottom, 0 where K >= n.

    Source: the top-minus-bottom portfolios of Fama & French 1993; equal scores: exact mean over their orders.

    When to use: Labels in a unit of their own, such as returns, profit or minutes, where the first K are taken
        alike; `minus=bottom` where the last K are sold, and for labels whose level differs from query to query.

    When not: For grades: `cg(gain=linear)` says the same in sums, `ndcg` divides by what is possible. Where the order
        within the first K matters: use `dcg` of grades. One outlier among the labels can decide a query.

    Missed documents: They have no rank: the value stays.

    Example:
        >>> from ltr_harness import evaluate
        >>> returns, scores = [0.04, -0.01, 0.02, -0.05], [4.0, 3.0, 2.0, 1.0]
        >>> ev = evaluate(returns, scores, group_sizes=[4], metrics=["mean_label@2", "mean_label(minus=bottom)@1"])
        >>> [round(mean, 3) for mean in ev.means.values()]  # (0.04 - 0.01) / 2, and 0.04 + 0.05
        [0.015, 0.09]
    """

    minus: Literal["nothing", "bottom"] = "nothing"

    name = "mean_label"
    graded = True
    bounds = (-float("inf"), float("inf"))
    takes_any_label = True
    counts_worthless_rows = True
    source = "Fama & French 1993 (top minus bottom)"

    @property
    def depth(self) -> int:
        return self.cutoff if self.minus == "nothing" else NO_CUTOFF

    @property
    def is_linear_sum(self) -> bool:
        return True

    def prepare(self, judgments: Judgments, cutoffs: Cutoffs) -> Prepared:
        factors = np.ones(min(judgments.groups.longest, int(cutoffs[-1])))

        def values(ranking: Ranking) -> Values:
            listed = np.diff(ranking.offsets)
            out = cumulated(ranking, cutoffs, judgments.labels, factors)
            if self.minus == "bottom":
                out -= cumulated(_from_below(ranking), cutoffs, judgments.labels, factors)
            out /= np.maximum(np.minimum(listed[np.newaxis, :], cutoffs[:, np.newaxis]), 1)
            return self.apply_empty(out, listed == 0)

        return values

    def swap_change(self, judgments: Judgments) -> SwapChange:
        sizes = judgments.groups.sizes
        n_held = np.minimum(sizes, self.cutoff)
        top = np.ones(self.n_counted_ranks(judgments))
        change = SwapChange(
            form="sum", worth=judgments.labels, scale=1.0 / np.maximum(n_held, 1), rank_worth=top
        )
        if self.minus == "nothing":
            return change
        rank = np.arange(judgments.groups.n_rows) - np.repeat(judgments.groups.boundaries[:-1], sizes)
        rank_weights = (rank < self.cutoff).astype(np.float64) - (rank >= np.repeat(sizes - n_held, sizes))
        return replace(change, rank_worth=rank_weights, per_query=True)

    def divisor_at(self, judgments: Judgments, ranking: Ranking, cutoffs: Cutoffs) -> Divisor:
        return "min(K, n)", np.maximum(np.minimum(ranking.rows.size, cutoffs), 1).astype(np.float64)


def _from_below(ranking: Ranking) -> Ranking:
    """The ranking of whole lists from its end: each query's rows and tie groups in reverse."""
    sizes = np.repeat(np.diff(ranking.offsets), np.diff(ranking.offsets))
    starts = np.repeat(ranking.offsets[:-1], np.diff(ranking.offsets))
    rank = np.arange(sizes.size) - starts
    first = rank == 0
    first[1:] |= np.diff(ranking.tie_end) != 0
    group_start = np.maximum.accumulate(np.where(first, np.arange(sizes.size), 0)) - starts
    mirrored: Ints = starts + sizes - 1 - rank
    return replace(ranking, rows=ranking.rows[mirrored], tie_end=(sizes - group_start)[mirrored])
