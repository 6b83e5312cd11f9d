"""Production beside its baseline: the samples of every test, the test itself, and days that differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ltr_harness.logs.columns import codes_of, together
from ltr_harness.logs.settings import seconds
from ltr_harness.monitoring.adjustment import Prediction, adjusted_tables
from ltr_harness.monitoring.calendar import local_days, season_of, window_numbers
from ltr_harness.monitoring.config import MonitorConfig
from ltr_harness.monitoring.queries import column_of, places_of, primary_of
from ltr_harness.monitoring.values import Interval
from ltr_harness.stats.moments import paired_differences
from ltr_harness.stats.several_samples import (
    WindowVariance,
    variance_between,
    variance_of_neighbours,
    widened,
)
from ltr_harness.stats.two_samples import Alternative, Codes, Estimate, Sample, difference, mean_estimate

_WINDOWS_OF_THEIR_OWN = 4.0  # degrees of freedom, to ask of windows what days have been asked already

_LEAST_UNITS = 10  # for a correlation of neighbours
_ENOUGH = 28  # from so many on it is known well enough to allow for what it is off by
_MOST_ALIKE = 0.95  # a correlation beyond that cannot be told from a trend
_NEGLIGIBLE = 1e-4

Floats = NDArray[np.float64]
Times = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Units:
    """The days, or windows, of both periods: a code per query, 0 … in order of time."""

    name: str  # what one is called
    now: Codes
    before: Codes | None  # None where the baseline has no times

    def differ(
        self, now: Sample, rows: Codes, before: Sample, rows_before: Codes, *, own: bool
    ) -> DaysDiffer | None:
        """How much the units differ by themselves in values of (n_rows,) queries; None where nobody can tell."""
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
        """By how much of the variance between units the mean of (n_rows,) of production's queries varies."""
        return share_of_variance(np.bincount(self.now[rows]) / rows.size, correlation)

    def share_of_before(self, rows: Codes, correlation: float, weights: Floats | None = None) -> float:
        """Likewise of (n_rows,) of the baseline's; 0 where it has no times, and is taken as it is."""
        if self.before is None:
            return 0.0
        each = np.full(rows.size, 1 / rows.size) if weights is None else weights
        return share_of_variance(np.bincount(self.before[rows], each).astype(np.float64), correlation)


@dataclass(frozen=True)
class DaysDiffer:
    """What is known of how much days differ by themselves."""

    unit: str  # day, or the size of a window
    source: str  # the baseline, or production where the baseline has too few days
    variance: WindowVariance  # between the units
    of_before: float  # by how much of it the mean of the baseline varies, with which every window is compared
    correlation: float  # of neighbouring units; 0 where it is not known

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
    """Correlation of the means of neighbouring units, at least 0; 0 from fewer units than can tell; `units` (n,).

    The plain lag-1 correlation r of n units is too low by (1 + 4 r) / n on average; that is given back. From
    28 units on its standard error sqrt((1 - r**2) / n) is added where r is larger: an r too low makes means much surer
    than they are, one too high a little less sure.

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
    """The variance between units with the correlation r of neighbours: around their own mean they vary less.

    They are worth (1 - r**2) / (1 + r**2) as many degrees of freedom.
    """
    n = variance.n
    alike = (n * share_of_variance(np.full(n, 1 / n), correlation) - 1) / max(n - 1, 1)
    worth = (1 - correlation**2) / (1 + correlation**2)
    return WindowVariance(
        variance.variance / (1 - alike), variance.mean_square / (1 - alike), variance.freedom * worth, n
    )


def units_of(now: Times | None, before: Times | None, config: MonitorConfig) -> list[Units]:
    """Days, and windows of another size, of (n_now,) and (n_before,) moments: what may differ by itself."""
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


_COMMON = 0.5  # from this share of common query ids on, the baseline is a replay
_OF_THE_SAME_QUERIES = ("common", "times", "strata", "units")  # whatever their values


@dataclass(frozen=True, eq=False)
class Periods:
    """Queries that count on both sides: mature, and with a value of the primary metric."""

    now: pd.DataFrame
    before: pd.DataFrame
    config: MonitorConfig
    # share of every alpha that this run may use; less than 1 where there are more runs to come
    spent: float = 1.0
    # of the baseline's part in adjusted values; None where values are as they are
    prediction: Prediction | None = None
    # (n_now,), as `places_of` says of production among the baseline, where that is known already
    places: NDArray[np.int64] | None = None

    def adjusted(self) -> Periods:
        """With values less what is known of the queries; itself where nothing is, or queries meet themselves."""
        if not self.config.compare.adjust or self.common is not None:
            return self
        now, before, prediction = adjusted_tables(self.now, self.before, self.config)
        adjusted = replace(self, now=now, before=before, prediction=prediction)
        vars(adjusted).update({name: getattr(self, name) for name in _OF_THE_SAME_QUERIES})
        return adjusted

    @property
    def sign(self) -> float:
        """1 where higher values of the primary metric are better, else -1."""
        return 1.0 if self.config.primary.higher_is_better else -1.0

    @property
    def alternative(self) -> Alternative:
        """The direction in which the metric gets worse, or either."""
        if self.config.compare.alternative == "change":
            return "change"
        return "drop" if self.sign > 0 else "rise"

    def matters(self, difference: float) -> bool:
        """Whether a difference is of the direction and size that an alert needs."""
        worse = {"change": abs(difference), "drop": -difference, "rise": difference}[self.alternative]
        return worse >= self.config.compare.min_drop

    # ---- samples ------------------------------------------------------------------------------------------

    @cached_property
    def clusters(self) -> tuple[Codes, Codes] | tuple[None, None]:
        """Codes of whom each query belongs to, the same coding on both sides."""
        one, two = (column_of(side, "cluster") for side in (self.now, self.before))
        if one is None or two is None:
            return None, None
        one, two = together(one, two)
        return own_clusters(one), own_clusters(two, len(self.now))

    @cached_property
    def values(self) -> tuple[Floats, Floats]:
        """(n_now,) and (n_before,), of the primary metric."""
        return primary_of(self.now), primary_of(self.before)

    @cached_property
    def times(self) -> tuple[NDArray[np.int64] | None, NDArray[np.int64] | None]:
        """(n_now,) and (n_before,), nanoseconds UTC; None without timestamps."""
        return column_of(self.now, "time"), column_of(self.before, "time")

    @cached_property
    def strata(self) -> tuple[Codes, Codes] | tuple[None, None]:
        """The season: weekdays, where Mondays are to be compared with Mondays, or hours."""
        one, two = self.times
        if self.config.windows.season == "none" or one is None or two is None:
            return None, None
        return season_of(one, self.config.windows), season_of(two, self.config.windows)

    def sample_now(self, values: Floats | None = None, rows: NDArray[Any] | None = None) -> Sample:
        """Production's defined values, or those of some queries."""
        return self._sample(0, values, rows)

    def sample_before(self, values: Floats | None = None) -> Sample:
        """The baseline's defined values."""
        return self._sample(1, values)

    def _sample(self, side: int, values: Floats | None, rows: NDArray[Any] | None = None) -> Sample:
        values = self.values[side] if values is None else values
        keep, clusters, strata = _known(values, rows), self.clusters[side], self.strata[side]
        if keep.size == values.size:
            return Sample(values, clusters, strata)
        return Sample(values[keep], _some(clusters, keep), _some(strata, keep))

    @cached_property
    def common(self) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        """Where the same queries stand in both periods, if enough of them do to call it a replay."""
        at = self.places
        if at is None:
            at = places_of(self.now["query_id"], self.before["query_id"])
        known = np.flatnonzero(at >= 0)
        if known.size < max(2, _COMMON * min(len(self.now), len(self.before))):
            return None
        return known, at[known]

    def differences(
        self, values: tuple[Floats, Floats] | None = None, pairs: tuple[Codes, Codes] | None = None
    ) -> Sample:
        """Of a replay, how much each query differs from itself."""
        ours, theirs = self.values if values is None else values
        chosen = self.common if pairs is None else pairs
        assert chosen is not None
        d = paired_differences(ours[chosen[0]], theirs[chosen[1]])
        known = ~np.isnan(d)
        return Sample(d[known], _some(self.clusters[0], chosen[0][known]))

    @cached_property
    def reference(self) -> Sample:
        """The baseline's values of the primary metric, asked for by every window."""
        return self.sample_before()

    # ---- days that differ ---------------------------------------------------------------------------------

    @cached_property
    def units(self) -> list[Units]:
        """Days, and windows of another size where there are enough: what may differ by itself."""
        now, before = self.times
        return [] if now is None else units_of(now, before, self.config)

    def days_differ(self, ours: Floats, theirs: Floats) -> list[DaysDiffer | None]:
        """For each of `units` how much it differs by itself in (n_now,), (n_before,) values; None: nobody knows."""
        now, before = self.sample_now(ours), self.sample_before(theirs)
        return [
            unit.differ(now, _known(ours, None), before, _known(theirs, None), own=at > 0)
            for at, unit in enumerate(self.units)
        ]

    @cached_property
    def primary_days(self) -> list[DaysDiffer | None]:
        """`days_differ` of the primary metric."""
        return self.days_differ(*self.values)

    # ---- the test -----------------------------------------------------------------------------------------

    def compare(
        self,
        values: tuple[Floats, Floats] | None = None,
        rows: NDArray[Any] | None = None,
        alternative: Alternative | None = None,
        days: Sequence[DaysDiffer | None] | None = None,
    ) -> Estimate:
        """Production against the baseline, as all that is known of both asks for.

        The same queries are compared in pairs. Different ones by Welch's t, users together, weekday by weekday where
        a season is set, and with the variance between days in it. Unless given, (n_now,) and (n_before,) values are
        the primary metric's, (n_rows,) rows all of production's, and the alternative is that it gets worse; `days`
        are `days_differ` of values that are compared several times.
        """
        side = self.alternative if alternative is None else alternative
        confidence = self.config.compare.confidence
        ours, theirs = self.values if values is None else values
        pairs = self._pairs(rows)
        if pairs is not None:
            return mean_estimate(self.differences((ours, theirs), pairs), confidence, side)
        now = self.sample_now(ours, rows)
        before = self.reference if values is None else self.sample_before(theirs)
        if self.prediction is not None:
            before = self.prediction.widened(before, rows)
        plain = difference(now, before, alternative=side, confidence=confidence)
        if not self.units or np.isnan(plain.error):  # nothing to widen: a side has no value, or one
            return plain
        if days is None:
            days = self.primary_days if values is None else self.days_differ(ours, theirs)
        kept, theirs_kept = _known(ours, rows), None if self.strata[1] is None else _known(theirs, None)
        widest = plain  # of what the units make of it: hours of a day share the day
        for unit, known in zip(self.units, days, strict=True):
            if known is None:
                continue
            if theirs_kept is None:
                share = unit.share_of_now(kept, known.correlation) + known.of_before
            else:
                share = self.share_of(unit, kept, theirs_kept, known.correlation)
            wide = widened(plain, known.variance, share, side, confidence)
            if wide.error > widest.error or widest is plain:
                widest = wide
        return widest

    def share_of(self, unit: Units, rows: Codes, rows_before: Codes, correlation: float) -> float:
        """By how much of the variance between units the difference of (n_rows,) and (m_rows,) queries varies."""
        own = unit.share_of_now(rows, correlation)
        if self.strata[0] is None or self.strata[1] is None:
            return own + unit.share_of_before(rows_before, correlation)
        strata, theirs = self.strata[0][rows], self.strata[1][rows_before]
        size = int(max(strata.max(), theirs.max())) + 1
        shares = np.bincount(strata, minlength=size) / rows.size
        weights = shares / np.maximum(np.bincount(theirs, minlength=size), 1)
        return own + unit.share_of_before(rows_before, correlation, weights[theirs])

    @property
    def days_unknown(self) -> bool:
        """Whether nobody can tell how much days differ by themselves, although it may matter."""
        return self.common is None and bool(self.units) and not any(self.primary_days)

    @property
    def effective_users(self) -> float:
        """How many users of one size those of the smaller period are worth; infinite where none are known."""
        if self.clusters[0] is None:
            return float("inf")
        return 1 + min(side.plain[1].freedom for side in (self.sample_now(), self.reference))

    @property
    def days_caveat(self) -> str:
        """What an alarm leaves open, as too few days are known; empty where enough are, or none matter."""
        known = None if self.common is not None or not self.units else self.primary_days[0]
        return "" if known is None else known.caveat

    @cached_property
    def baseline_error(self) -> float:
        """The part of a window's error that is the baseline's, and so the same in every window."""
        if self.common is not None:
            return 0.0
        variance = self.reference.plain[1].variance
        everything = np.arange(len(self.now))
        of_days = [0.0]
        for unit, known in zip(self.units, self.primary_days, strict=True):
            if known is not None:
                alike = known.correlation
                share = self.share_of(unit, everything, np.arange(len(self.before)), alike)
                of_days.append((share - unit.share_of_now(everything, alike)) * known.variance.variance)
        return float(np.sqrt(variance + max(of_days)))

    def _pairs(self, rows: NDArray[Any] | None) -> tuple[Codes, Codes] | None:
        """The queries that both periods have, among some of production's; None where most of those are new."""
        if self.common is None:
            return None
        ours, theirs = self.common
        if rows is None:
            return ours, theirs
        wanted = np.zeros(len(self.now), dtype=bool)
        wanted[rows] = True
        chosen = wanted[ours]
        if np.count_nonzero(chosen) < max(2, _COMMON * rows.size):
            return None
        return ours[chosen], theirs[chosen]


def _known(values: Floats, rows: NDArray[Any] | None) -> Codes:
    keep = np.arange(values.size) if rows is None else rows
    known: Codes = keep[~np.isnan(values[keep])]
    return known


def _some(codes: Codes | None, rows: Codes) -> Codes | None:
    return None if codes is None else codes[rows]


def own_clusters(category: pd.Categorical, offset: int = 0) -> Codes:
    """(n,) codes of whom each query belongs to; a query of nobody known is a cluster of its own."""
    codes = codes_of(category)
    missing = np.flatnonzero(codes < 0)
    codes[missing] = category.categories.size + offset + missing
    return codes


def interval(estimate: Estimate) -> Interval:
    """A tested difference."""
    e = estimate
    return Interval(e.value, e.low, e.high, e.p, e.error, e.n, e.freedom)


def of_mean(estimate: Estimate) -> Interval:
    """A mean: nobody asks whether it is 0."""
    return replace(interval(estimate), p=float("nan"))
