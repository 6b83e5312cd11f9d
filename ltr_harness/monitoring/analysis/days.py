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

_LEAST_UNITS = 10  # for a correlation of neighbours
_ENOUGH = 28  # from so many on it is known well enough to allow for what it is off by
_MOST_ALIKE = 0.95  # a correlation beyond that cannot be told from a trend
_NEGLIGIBLE = 1e-4

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

        Shapes: `rows` (n_rows,), `rows_before` (m_rows,).
        """
        variance, source, correlation = None, "the baseline", 0.0
        if self.before is not None:
            theirs = self.before[rows_before]
            variance = variance_between(before, theirs)
            if variance is not None and not own:  # hours of a day have their season, and days hold them
                correlation = correlation_of_neighbours(without_season(before, before), theirs)
                variance = _hanging_together(variance, correlation)
        if variance is None:
            variance = variance_of_neighbours(without_season(now, before), coded(self.now[rows]))
            source = "production"
        if variance is None or (own and variance.freedom < _WINDOWS_OF_THEIR_OWN):
            return None
        of_before = self.share_of_before(rows_before, correlation)
        return DaysDiffer(self.name, source, variance, of_before, correlation)

    def share_of_now(self, rows: Codes, correlation: float) -> float:
        """By how much of the variance between units the mean of some of production's queries varies.

        Shapes: `rows` (n_rows,).
        """
        return share_of_variance(np.bincount(self.now[rows]) / rows.size, correlation)

    def share_of_before(self, rows: Codes, correlation: float, weights: Floats | None = None) -> float:
        """Likewise of the baseline; 0 where it has no times, and is taken as it is.

        Shapes: `rows` (n_rows,), `weights` (n_rows,).
        """
        if self.before is None:
            return 0.0
        each = np.full(rows.size, 1 / rows.size) if weights is None else weights
        return share_of_variance(np.bincount(self.before[rows], each).astype(np.float64), correlation)


@dataclass(frozen=True)
class DaysDiffer:
    """What is known of how much days differ by themselves.

    Attributes:
        unit: day, or the size of a window.
        source: the baseline, or production where the baseline has too few days.
        variance: between the units.
        of_before: by how much of it the mean of the baseline varies, with which every window is compared.
        correlation: of neighbouring units; 0 where it is not known.
    """

    unit: str
    source: str
    variance: WindowVariance
    of_before: float
    correlation: float

    @property
    def caveat(self) -> str:
        """What an alarm leaves open where too few units show whether neighbours are alike; empty where enough do."""
        if self.source == "the baseline" and self.variance.n >= _ENOUGH:
            return ""
        return (
            f"{self.variance.n} {self.unit}s of {self.source} do not show how alike neighbouring {self.unit}s are; "
            f"where they are alike, an alert may be a run of bad {self.unit}s; expected {_ENOUGH} in the baseline"
        )

    def __str__(self) -> str:
        spread, known = f"sd {self.variance.variance**0.5:.4f}", self.variance.n
        if self.correlation:
            spread += f", correlation of neighbours {self.correlation:.2f}"
        return f"{self.unit}s differ by themselves ({spread}, from {known} of {self.source})"


def share_of_variance(weights: Floats, correlation: float) -> float:
    """Variance of a weighted mean of units of variance 1 and correlation r**k at distance k: sum w_i w_j r**|i - j|.

    Shapes: `weights` (n_units,).

    Example:
        Two days that are .5 alike are worth one and a third.

        >>> share_of_variance(np.array([0.5, 0.5]), 0.5)
        0.75
    """
    total, factor = float((weights**2).sum()), correlation
    for lag in range(1, weights.size):
        if factor < _NEGLIGIBLE:
            break
        total += 2 * factor * float(weights[lag:] @ weights[:-lag])
        factor *= correlation
    return total


def correlation_of_neighbours(sample: Sample, units: Codes) -> float:
    """Correlation of the means of neighbouring units, at least 0; 0 from fewer units than can tell.

    The plain lag-1 correlation r of n units is too low by (1 + 4 r) / n on average; that is given back. From
    28 units on its standard error sqrt((1 - r**2) / n) is added where r is larger: an r too low makes means much surer
    than they are, one too high a little less sure.

    Shapes: `units` (n,).

    Source: F. Marriott, J. Pope, Biometrika 41 (1954).
    """
    counts = np.bincount(units)
    means = np.bincount(units, sample.values) / np.maximum(counts, 1)
    off = means[counts > 0] - means[counts > 0].mean()
    n, squares = off.size, float(off @ off)
    if n < _LEAST_UNITS or squares <= 0:
        return 0.0
    plain = float(off[1:] @ off[:-1]) / squares
    alike = float(np.clip((n * plain + 1) / (n - 4), 0.0, _MOST_ALIKE))
    error = float(np.sqrt((1 - alike**2) / n))
    return min(alike + error, _MOST_ALIKE) if n >= _ENOUGH and alike > error else alike


def _hanging_together(variance: WindowVariance, correlation: float) -> WindowVariance:
    """The variance between units with the correlation r of neighbours: from a shorter time they seem to differ less.

    Around their own mean, n units vary by 1 less the mean correlation of two of them; and they are worth
    (1 - r**2) / (1 + r**2) as many degrees of freedom.
    """
    n = variance.n
    alike = (n * share_of_variance(np.full(n, 1 / n), correlation) - 1) / max(n - 1, 1)
    worth = (1 - correlation**2) / (1 + correlation**2)
    return WindowVariance(
        variance.variance / (1 - alike), variance.mean_square / (1 - alike), variance.freedom * worth, n
    )


def units_of(now: Times | None, before: Times | None, config: MonitorConfig) -> list[Units]:
    """Days, and windows of another size: what may differ by itself.

    Shapes: `now` (n_now,), `before` (n_before,).
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
