"""Windows of earlier runs beside today's: only their numbers are left, and the season they were in."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ltr_harness.logs.settings import seconds
from ltr_harness.monitoring.analysis.days import Units, share_of_variance
from ltr_harness.monitoring.analysis.periods import Periods
from ltr_harness.monitoring.analysis.windows import THURSDAY, part_of_season
from ltr_harness.monitoring.results.history import PastWindow
from ltr_harness.stats.between_windows import widened
from ltr_harness.stats.two_samples import Estimate, Influence, between, weighted_mean

_DAY_SECONDS = 86_400
_HOURS = 168

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


def with_past(rows: Codes, past: Sequence[PastWindow], periods: Periods) -> Estimate:
    """The difference of some queries and windows of earlier runs, together, to the baseline.

    Each window is compared with the part of the season that it was in, as today's queries are.

    Shapes: `rows` (n_rows,).
    """
    now = periods.sample_now(rows=rows)
    n = np.array([rows.size, *(w.n for w in past)], dtype=np.float64)
    weights = n / n.sum()
    means = np.array([now.values.mean() if rows.size else 0.0, *(w.mean for w in past)])
    own = now.plain[1].variance if rows.size > 1 else 0.0
    errors = np.array([own, *(w.error**2 for w in past)])
    reference, influence = _reference(rows, past, periods)
    if (
        periods.prediction is not None
    ):  # all windows share it, and today's mean does not know the earlier ones'
        own_error = np.sqrt(influence.variance) + np.sqrt(periods.prediction.key_noise)
        influence = dataclasses.replace(influence, variance=float(own_error**2))
    together = Influence(
        np.zeros(0), None, float((weights**2) @ errors), float(max(n.sum() - 1, 1)), int(n.sum())
    )
    confidence, side = periods.config.compare.confidence, periods.alternative
    estimate = between(
        float(weights @ means) - reference,
        together,
        influence,
        alternative=side,
        confidence=confidence,
        n=int(n.sum()) + len(periods.before),
    )
    for unit, known in zip(periods.units, periods.primary_days, strict=True):
        if known is None:
            continue
        share = _share(unit, rows, past, periods, known.correlation)
        wide = widened(estimate, known.variance, share, side, confidence)
        if wide.error >= estimate.error:
            estimate = wide
            break
    return estimate


def _reference(rows: Codes, past: Sequence[PastWindow], periods: Periods) -> tuple[float, Influence]:
    """The baseline's mean in the seasons of the queries and windows, and its influence."""
    sample, strata = periods.reference, periods.strata
    if periods.prediction is not None and rows.size:
        sample = periods.prediction.widened(sample, rows)
    if sample.strata is None or strata[0] is None:
        return sample.plain
    size = int(max(sample.strata.max(), strata[0].max())) + 1
    counts = np.bincount(strata[0][rows], minlength=size).astype(np.float64)
    for window in past:
        parts, n = _season(window, periods)
        counts += np.bincount(parts, n, minlength=size)[:size]
    return weighted_mean(sample, sample.strata, counts / counts.sum())


def _season(window: PastWindow, periods: Periods) -> tuple[Codes, Floats]:
    """Which parts of the season a past window was in, and how many queries of each."""
    windows = periods.config.windows
    if window.hours:
        hours = np.array([int(hour) for hour in window.hours], dtype=np.int64)
        n = np.array(list(window.hours.values()), dtype=np.float64)
    else:  # of an earlier version: the calendar knows its weekday, and its day was like the baseline's
        day = window.number * seconds(windows.size) // _DAY_SECONDS
        hours = np.arange(24) + 24 * ((day + THURSDAY) % 7)
        n = np.full(24, window.n / 24)
    return part_of_season(hours, windows.season), n


def _share(
    unit: Units, rows: Codes, past: Sequence[PastWindow], periods: Periods, correlation: float
) -> float:
    """`Periods.share_of` with past windows among production's."""
    total = float(rows.size + sum(w.n for w in past))
    counts = np.bincount(unit.now[rows]) if rows.size else np.zeros(0)
    size = seconds(periods.config.windows.size)
    by_day: dict[int, float] = {}
    squares = 0.0
    for window in past:
        if unit is periods.units[0] and size <= _DAY_SECONDS:
            day = window.number * size // _DAY_SECONDS
            by_day[day] = by_day.get(day, 0.0) + window.n
        else:  # a window of several days has them in equal parts
            squares += window.n**2 / max(1, size // _DAY_SECONDS if unit is periods.units[0] else 1)
    days = np.array([*(by_day[day] for day in sorted(by_day)), *counts])
    squares += total**2 * share_of_variance(days / total, correlation)
    everything = np.arange(len(periods.now))
    reference = periods.share_of(unit, everything, np.arange(len(periods.before)), correlation)
    own = unit.share_of_now(everything, correlation)
    return squares / total**2 + reference - own
