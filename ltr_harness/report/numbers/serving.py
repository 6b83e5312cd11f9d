"""What ranking a query costs with each model, and with its first rounds alone: pooled over folds."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

from ltr_harness.runs.latency import TYPICAL
from ltr_harness.runs.record import Record


class ListTime(NamedTuple):
    """Of one call for a list, in microseconds; medians over folds.

    Attributes:
        documents: in the list.
        p50, p99: what so many of 100 calls did not exceed; None where too few were timed.
    """

    documents: int
    p50: float
    p99: float | None


class Cut(NamedTuple):
    """A model's first rounds alone.

    Attributes:
        rounds: how many, the median over folds.
        mean: of the primary metric over all folds' queries; None where it is undefined.
        p50: microseconds of a call for 100 documents, the median over folds.
    """

    rounds: int
    mean: float | None
    p50: float


def list_times(records: Sequence[Record]) -> list[ListTime]:
    """Each length by the whole model."""
    measured = _measured(records)
    listed = []
    for folds in zip(
        *([one for one in r.latency if one.rounds == r.best_round] for r in measured), strict=False
    ):
        p99 = [one.p99 for one in folds if one.p99 is not None]
        p50 = statistics.median(one.p50 for one in folds)
        listed.append(ListTime(folds[0].documents, p50, statistics.median(p99) if p99 else None))
    return listed


def cuts(records: Sequence[Record]) -> list[Cut]:
    """The whole model first, then fewer and fewer rounds, as many cuts as all folds have."""
    measured = _measured(records)
    queries = [record.metrics[record.primary] for record in measured]
    listed = []
    for folds in zip(
        *([one for one in r.latency if one.documents == TYPICAL] for r in measured), strict=False
    ):
        sums = [
            (one.mean * (of.n_queries - of.n_undefined), of.n_queries - of.n_undefined)
            for one, of in zip(folds, queries, strict=True)
            if one.mean is not None
        ]
        n = sum(weight for _, weight in sums)
        listed.append(
            Cut(
                statistics.median_low(one.rounds or 0 for one in folds),
                sum(total for total, _ in sums) / n if n else None,
                statistics.median(one.p50 for one in folds),
            )
        )
    return listed


def _measured(records: Sequence[Record]) -> list[Record]:
    """The records of the first seed that was timed."""
    timed = [record for record in records if record.latency]
    first = min((record.seed for record in timed), default=None)
    return [record for record in timed if record.seed == first]


def pareto_front(points: Sequence[tuple[float, float]], higher_is_better: bool = True) -> list[bool]:
    """Whether no other point costs no more and is no worse, and is better in one of both.

    Shapes: `points` (cost, quality).

    Example:
        >>> pareto_front([(1.0, 0.5), (2.0, 0.4), (3.0, 0.7), (3.0, 0.6)])
        [True, False, True, False]
    """
    sign = 1.0 if higher_is_better else -1.0
    goods = [(cost, sign * quality) for cost, quality in points]
    return [
        not any(
            other <= cost and better >= good and (other, better) != (cost, good) for other, better in goods
        )
        for cost, good in goods
    ]
