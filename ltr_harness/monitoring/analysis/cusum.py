"""Small drops that add up: the cumulated sum of the windows' differences, and how large it gets in healthy times."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ltr_harness.monitoring.analysis.past import with_past
from ltr_harness.monitoring.analysis.periods import Periods
from ltr_harness.monitoring.results.answers import Interval, Window
from ltr_harness.monitoring.results.history import PastWindow
from ltr_harness.stats.two_samples import Estimate

_ALLOWANCE = 0.5  # standard errors that are forgiven every window
_LEAST = 5  # windows
_DRAWS = 4000

Floats = NDArray[np.float64]


def with_cusum(
    windows: list[Window], periods: Periods, past: Sequence[PastWindow]
) -> tuple[list[Window], float]:
    """Windows with their cumulated drop, and the level that healthy windows rarely reach.

    S = max(0, S - z - 1/2) over the windows' differences in standard errors. A notice, never an alert.

    Returns:
        The windows, and the (1 - alpha) quantile of the largest S among as many healthy windows.

    Source: E. Page, Biometrika 41 (1954).
    """
    earlier = past if periods.common is None else []
    before = [with_past(np.zeros(0, dtype=np.int64), [w], periods) for w in earlier if w.n > 1]
    tested = [
        w.change for w in windows if w.change is not None and w.status == "tested" and w.change.error > 0
    ]
    everything: list[Estimate | Interval] = [*before, *tested]
    if len(everything) < _LEAST:
        return windows, float("nan")
    sign = -1.0 if periods.higher_is_better else 1.0
    sums = np.zeros(1)
    for estimate in before:
        sums = _next(sums, sign * estimate.value / estimate.error) if estimate.error > 0 else sums
    rows = []
    for row in windows:
        if row.change is not None and row.status == "tested" and row.change.error > 0:
            sums = _next(sums, sign * row.change.value / row.change.error)
            rows.append(dataclasses.replace(row, cusum=float(sums[0])))
        else:
            rows.append(row)
    error = np.array([e.error for e in everything])
    freedom = min(e.freedom for e in everything)
    largest = _largest_of_healthy(error, periods.baseline_error, freedom, periods.config.seed)
    return rows, float(np.quantile(largest, 1 - periods.config.compare.alpha))


def _next(sums: Floats, z: float | Floats) -> Floats:
    return np.maximum(0.0, sums + z - _ALLOWANCE)


def _largest_of_healthy(error: Floats, shared: float, freedom: float, seed: int) -> Floats:
    """The largest sum of each of many healthy series.

    All windows are compared with one baseline: what it is off by, all of them are. And where the errors are
    themselves estimated from few days, all are too small or too large together.
    """
    random = np.random.Generator(np.random.PCG64([seed, error.size]))
    common = np.sqrt(np.minimum((shared / np.where(error > 0, error, np.inf)) ** 2, 1.0))
    own = np.sqrt(1 - common**2)
    baseline = random.standard_normal(_DRAWS)
    scale = np.sqrt(random.chisquare(freedom, _DRAWS) / freedom) if freedom < 1e4 else np.ones(_DRAWS)
    sums, largest = np.zeros(_DRAWS), np.zeros(_DRAWS)
    for at in range(error.size):
        z = (own[at] * random.standard_normal(_DRAWS) + common[at] * baseline) / scale
        sums = _next(sums, z)
        largest = np.maximum(largest, sums)
    return largest
