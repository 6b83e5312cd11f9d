"""Days, or windows of another size, that differ by themselves: which there are, and by how much they do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ltr_harness.logs.settings import seconds
from ltr_harness.monitoring.analysis.windows import local_days, window_numbers
from ltr_harness.monitoring.config import MonitorConfig
from ltr_harness.stats.between_windows import WindowVariance, variance_between, variance_of_neighbours
from ltr_harness.stats.two_samples import Codes, Sample

_WINDOWS_OF_THEIR_OWN = 4.0  # degrees of freedom, to ask of windows what days have been asked already

Floats = NDArray[np.float64]
Times = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Units:
    """The days, or windows, of both periods.

    Attributes:
        name: what one is called.
        now: (n,) code of each query's unit, 0 … in order of time.
        before: likewise of the baseline; None where it has no times.
    """

    name: str
    now: Codes
    before: Codes | None

    def differ(
        self, now: Sample, rows: Codes, before: Sample, rows_before: Codes, *, own: bool
    ) -> DaysDiffer | None:
        """How much the units differ by themselves in some values; None where nobody can tell.

        Args:
            now: production's values.
            rows: int64 (n_rows,), the queries behind them.
            before: the baseline's values.
            rows_before: int64 (m_rows,), the queries behind those.
            own: whether days have been asked already, and these units need to say more than they do.
        """
        variance, source = None, "the baseline"
        if self.before is not None:
            variance = variance_between(before, self.before[rows_before])
        if variance is None:
            variance = variance_of_neighbours(without_season(now, before), coded(self.now[rows]))
            source = "production"
        if variance is None or (own and variance.freedom < _WINDOWS_OF_THEIR_OWN):
            return None
        return DaysDiffer(self.name, source, variance, self.share_of_before(rows_before))

    def share_of_now(self, rows: Codes) -> float:
        """By how much of the variance between units the mean of some of production's queries varies.

        Args:
            rows: int64 (n_rows,), the queries.
        """
        return float(((np.bincount(self.now[rows]) / rows.size) ** 2).sum())

    def share_of_before(self, rows: Codes, weights: Floats | None = None) -> float:
        """Likewise of the baseline; 0 where it has no times, and is taken as it is.

        Args:
            rows: int64 (n_rows,), the queries.
            weights: float64 (n_rows,), adding up to 1; equal ones unless given.
        """
        if self.before is None:
            return 0.0
        each = np.full(rows.size, 1 / rows.size) if weights is None else weights
        return float((np.bincount(self.before[rows], each) ** 2).sum())


@dataclass(frozen=True)
class DaysDiffer:
    """What is known of how much days differ by themselves.

    Attributes:
        unit: day, or the size of a window.
        source: the baseline, or production where the baseline has too few days.
        variance: between the units.
        of_before: by how much of it the mean of the baseline varies, with which every window is compared.
    """

    unit: str
    source: str
    variance: WindowVariance
    of_before: float

    def __str__(self) -> str:
        return (
            f"{self.unit}s differ by themselves (sd {self.variance.variance**0.5:.4f}, from {self.variance.n} of "
            f"{self.source})"
        )


def units_of(now: Times | None, before: Times | None, config: MonitorConfig) -> list[Units]:
    """Days, and windows of another size: what may differ by itself.

    Args:
        now: int64 (n_now,), nanoseconds UTC of production's queries; without times there are no units.
        before: int64 (n_before,), of the baseline's.
        config: how time is cut.
    """
    if now is None:
        return []
    windows = config.windows

    def unit(name: str, number: Callable[[Times], Times]) -> Units:
        return Units(name, coded(number(now)), None if before is None else coded(number(before)))

    units = [unit("day", lambda time: local_days(time, windows.timezone))]
    if seconds(windows.size) != 86_400:
        units.append(unit(f"{windows.size} window", lambda time: window_numbers(time, windows)))
    return units


def without_season(now: Sample, before: Sample) -> Sample:
    """One period's values as distances to the season's means in the other; as they are without a season."""
    if now.strata is None or before.strata is None:
        return now
    size = int(max(now.strata.max(initial=0), before.strata.max(initial=0))) + 1
    n = np.bincount(before.strata, minlength=size)
    means = np.bincount(before.strata, before.values, minlength=size) / np.maximum(n, 1)
    return Sample(now.values - means[now.strata], now.clusters)


def coded(numbers: Codes) -> Codes:
    """Codes 0 … in increasing order of (n,) numbers."""
    codes: Codes = np.unique(numbers, return_inverse=True)[1]
    return codes
