"""How much of a number is decided by the order of equally scored rows, which nobody chose."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ltr_harness.groups import Judgments
from ltr_harness.metrics.core.binding import BoundOnce, as_seen, checked_scores, slices_of
from ltr_harness.metrics.core.grammar import parse_metric
from ltr_harness.metrics.core.metric import Metric
from ltr_harness.metrics.core.ranking import RowRanker


@dataclass(frozen=True, eq=False)
class TieAudit:
    """The interval a metric can take over all orders of equal scores.

    Attributes:
        metric: the metric, with everything it takes from the data fixed.
        low: float64 (n_queries,), the smallest value any order gives; NaN where undefined.
        high: float64 (n_queries,), the largest.
        mean: mean of the metric itself.
        mean_low: mean of `low`.
        mean_high: mean of `high`.
        share_touched: share of the defined queries whose value depends on the order of ties; NaN without any.
        share_tied_positions: share of the positions within the cutoff whose document has an equal.
    """

    metric: Metric
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    mean: float
    mean_low: float
    mean_high: float
    share_touched: float
    share_tied_positions: float

    def __str__(self) -> str:
        where = "positions" if self.metric.k is None else f"top-{self.metric.k} positions"
        return (
            f"{self.metric} {self.mean:z.4f}, from {self.mean_low:z.4f} to {self.mean_high:z.4f} over the orders of "
            f"equal scores, which touch {self.share_touched:.1%} of the queries; "
            f"{self.share_tied_positions:.1%} of the {where} are tied"
        )


def tie_audit(
    metric: Metric | str, judgments: Judgments, scores: ArrayLike, retrieved: ArrayLike | None = None
) -> TieAudit:
    """Evaluate under the worst and the best order of equal scores, beside the metric itself.

    Args:
        metric: the metric, or its name, under whatever tie rule.
        judgments: the queries.
        scores: (n_rows,) in the judgments' row order.
        retrieved: bool (n_rows,), rows the ranking lists; None where all are.

    Raises:
        MetricError: the metric has no worst and best order.

    Example:
        >>> from ltr_harness.groups import QueryGroups
        >>> judgments = Judgments.checked([1, 0, 1, 0], QueryGroups.from_sizes([2, 2]))
        >>> audit = tie_audit("mrr", judgments, [1.0, 1.0, 2.0, 1.0])
        >>> (audit.mean_low, audit.mean, audit.mean_high, audit.share_touched)
        (0.75, 0.875, 1.0, 0.5)
    """
    own = parse_metric(metric).resolved(judgments)
    rules = [own, *(dataclasses.replace(own, ties=ties) for ties in ("worst", "best"))]
    share = share_tied(own, judgments, scores, retrieved)
    if not (share or own.whole_order):  # nothing that counts ties: every order is the same one
        rules = rules[:1]
    binding = BoundOnce(rules, judgments)
    per_query = binding.per_query(scores, retrieved)
    means = binding.means_of(per_query).tolist()
    if len(rules) == 1:
        per_query, means = np.repeat(per_query, 3, axis=0), 3 * means
    mean, worst, best = means
    low, high = np.minimum(per_query[1], per_query[2]), np.maximum(per_query[1], per_query[2])
    defined = ~np.isnan(low)
    return TieAudit(
        own,
        low,
        high,
        mean,
        min(worst, best),
        max(worst, best),
        float((low[defined] < high[defined]).mean()) if defined.any() else float("nan"),
        share,
    )


def share_tied(metric: Metric, judgments: Judgments, scores: ArrayLike, retrieved: ArrayLike | None) -> float:
    """Share of the positions within the cutoff whose document has an equal.

    Shapes: `scores` (n_rows,), `retrieved` (n_rows,).
    """
    parts = [
        _n_tied(metric, part, checked_scores(own, part.groups, listed))
        for _, part, own, listed in slices_of(judgments, scores, retrieved)
    ]
    tied, listed = np.sum(parts, axis=0)
    return float(tied / listed) if listed else 0.0


def _n_tied(metric: Metric, judgments: Judgments, scores: NDArray[np.float64]) -> tuple[int, int]:
    """Positions of tied documents, and all positions."""
    ranking = RowRanker(judgments, "expected", metric.k).rank(as_seen(scores, metric.score_precision))
    rank = np.arange(ranking.rows.size) - np.repeat(ranking.offsets[:-1], np.diff(ranking.offsets))
    listed = ranking.scores[ranking.rows] > -np.inf  # what was not retrieved holds no position
    if metric.k is not None:
        listed &= rank < metric.k
    # a document is alone if its group ends right after it and the document above, if any, belongs to another group
    new_group = np.concatenate(([True], (ranking.tie_end[1:] != ranking.tie_end[:-1]) | (rank[1:] == 0)))
    alone = new_group & (ranking.tie_end == rank + 1)
    return int((listed & ~alone).sum()), int(listed.sum())
