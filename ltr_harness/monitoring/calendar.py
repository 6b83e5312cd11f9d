"""Days, hours or weeks in the user's time zone: the windows of queries, and the variation between days."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from ltr_harness.comparison.stats.two_samples import Sample
from ltr_harness.data.arrays import Bools, Floats, Ints
from ltr_harness.data.logs.settings import seconds
from ltr_harness.data.times import local_clock, local_days
from ltr_harness.errors import Caution, Problem, UsageError
from ltr_harness.monitoring.config import MonitorConfig, Windows
from ltr_harness.monitoring.stats.several_samples import (
    WindowVariance,
    between_window_variance,
    variance_of_neighbours,
)

_DAY = 86_400 * 10**9
_MAX_WINDOWS = 10_000  # windows with a query: nobody looks at more
# of the usual number: a window at the log's end with fewer does not say where it ends
_MIN_SHARE_OF_USUAL = 0.05
THURSDAY = 3  # 1970-01-01
_MIN_WINDOW_DF = 4.0  # degrees of freedom, to estimate the variation of windows beside that of days

_MIN_UNITS = 10  # for a correlation of neighbours
_ENOUGH_UNITS = 28  # from so many on it is known well enough to allow for what it is off by
_MAX_CORRELATION = 0.95  # a correlation beyond that cannot be told from a trend
_NEGLIGIBLE = 1e-4


@dataclass(frozen=True, eq=False)
class Cut:
    """Queries in windows."""

    codes: Ints  # (n,) window of each query, 0 … in order of time
    number: Ints  # (w,) place in the calendar: neighbours differ by 1, gaps by more
    labels: tuple[str, ...]  # (w,) the name of each window: its first day, or hour
    start: Ints  # (w,) int64 nanoseconds UTC
    end: Ints
    weekday: Ints  # (n,) 0 Monday … 6 Sunday, in the time zone
    mature: Bools  # (n,) whether the query's labels had time to arrive
    # (w,) windows with next to no queries, apart from the log's others in time: a clock was wrong
    stray: Bools
    until: int = 0  # nanoseconds UTC of the log's last query, strays apart; 0 without times

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def hours(self) -> Floats:
        """The length of each window, (w,); a day is 23 or 25 hours long when the clocks change."""
        return (self.end - self.start) / 3.6e12

    @cached_property
    def members(self) -> list[Ints]:
        """The queries of each window."""
        return self.members_of(np.arange(self.codes.size))

    def members_of(self, rows: Ints) -> list[Ints]:
        """Return the places of each window's queries in `rows`, (n_rows,)."""
        codes = self.codes[rows]
        order = np.argsort(codes, kind="stable")
        return np.split(order, np.searchsorted(codes[order], np.arange(1, len(self))))

    @property
    def n_immature(self) -> int:
        """The number of queries whose labels are still arriving."""
        return int((~self.mature & ~self.stray[self.codes]).sum())

    @cached_property
    def immature(self) -> Bools:
        """True for windows with a query whose labels are still arriving, (w,)."""
        is_immature = np.zeros(len(self), dtype=bool)
        np.logical_or.at(is_immature, self.codes[~self.mature], True)
        return is_immature


def cut(time: Ints | None, n: int, config: MonitorConfig) -> Cut:
    """Cut queries into windows by their times, (n,), labels as old as the log's last query; into one without times."""
    if time is None:
        zeros = np.zeros(n, dtype=np.int64)
        zero = np.zeros(1, dtype=np.int64)
        return Cut(zeros, zero, ("all",), zero, zero, zeros, np.ones(n, dtype=bool), np.zeros(1, dtype=bool))
    numbers, codes = np.unique(window_numbers(time, config.windows), return_inverse=True)
    if numbers.size > _MAX_WINDOWS:
        found = f"windows.size {config.windows.size} cuts the log into {numbers.size:,} windows"
        raise UsageError(Problem("", found, f"at most {_MAX_WINDOWS:,}", "choose a larger windows.size"))
    starts, labels = zip(*(_window_start(int(number), config.windows) for number in numbers), strict=True)
    ends = [_window_start(int(number) + 1, config.windows)[0] for number in numbers]
    last, stray = _find_ends(numbers, np.bincount(codes))
    until = int(time[codes <= last].max())
    young_ns = seconds(config.relevance.maturity) * 10**9
    mature = (time <= until - young_ns) | (young_ns == 0)
    return Cut(
        codes.astype(np.int64),
        numbers,
        labels,
        np.array(starts),
        np.array(ends),
        hours_of_week(time, config.windows.timezone) // 24,
        mature & ~stray[codes],
        stray,
        until,
    )


def _find_ends(number: Ints, counts: Ints) -> tuple[int, Bools]:
    """Find the last window that is not nearly empty, and strays: beyond a gap before the first or after the last."""
    usual = np.flatnonzero(counts >= _MIN_SHARE_OF_USUAL * np.median(counts))
    first, last = int(usual[0]), int(usual[-1])
    is_gap = np.diff(number) > 1
    stray = np.zeros(number.size, dtype=bool)
    stray[last + 1 :] = np.logical_or.accumulate(is_gap[last:])
    stray[:first] = np.logical_or.accumulate(is_gap[:first][::-1])[::-1]
    return last, stray


def window_numbers(time: Ints, windows: Windows) -> Ints:
    """Return the place in the calendar of the window that each moment falls into, (n,)."""
    return local_clock(time, windows.timezone) // (seconds(windows.size) * 10**9)


def hours_of_week(time: Ints, timezone: str) -> Ints:
    """Return hours since Monday 00:00, on the clocks of the time zone, (n,)."""
    hours = local_clock(time, timezone) // (_DAY // 24)
    return (hours + 24 * THURSDAY) % 168


def part_of_season(hours: Ints, season: str) -> Ints:
    """Return the weekday, hour or hour of the week, (n,)."""
    if season == "weekday":
        return hours // 24
    return hours % 24 if season == "hour" else hours


def _window_start(number: int, windows: Windows) -> tuple[int, str]:
    """Return the start of a window, in nanoseconds UTC, and its label."""
    size = seconds(windows.size) * 10**9
    clock = pd.Timestamp(number * size, unit="ns")
    # the hour that occurs twice belongs to the window in which it begins; one that does not exist moves forward
    start = clock.tz_localize(windows.timezone, ambiguous=True, nonexistent="shift_forward").tz_convert("UTC")
    if size >= _DAY:
        return int(start.value), clock.strftime("%Y-%m-%d")
    zone = "Z" if windows.timezone == "UTC" else "%z"
    return int(start.value), start.tz_convert(windows.timezone).strftime(f"%Y-%m-%dT%H:%M{zone}")


@dataclass(frozen=True, eq=False)
class Units:
    """The days, or windows, of both periods: a code per query, 0 … in order of time."""

    name: str  # of one: day, or 1h window
    now: Ints
    before: Ints | None = None  # None where the baseline has no times

    def estimate_variation(
        self, now: Sample, rows: Ints, before: Sample, rows_before: Ints, *, is_window: bool
    ) -> "UnitVariation | None":
        """Estimate how much the units vary by themselves in values of (n_rows,) queries; None where nobody can tell."""
        variance, source, correlation = None, "the baseline", 0.0
        if self.before is not None:
            units_before = self.before[rows_before]
            variance = between_window_variance(before, units_before)
            if variance is not None and not is_window:  # hours of a day have their season, and days hold them
                correlation = correlation_of_neighbours(without_season(before, before), units_before)
                n = variance.n
                share_of_mean = share_of_variance(np.full(n, 1 / n), correlation)
                # around their own mean such neighbours vary less
                remaining_share = 1 - (n * share_of_mean - 1) / max(n - 1, 1)
                effective_df = variance.df * ((1 - correlation**2) / (1 + correlation**2))
                variance = WindowVariance(
                    variance.variance / remaining_share,
                    variance.mean_square / remaining_share,
                    effective_df,
                    n,
                )
        if variance is None:
            variance = variance_of_neighbours(without_season(now, before), dense_codes(self.now[rows]))
            source = "production"
        if variance is None or (is_window and variance.df < _MIN_WINDOW_DF):
            return None
        return UnitVariation(self, source, variance, correlation, rows_before)


@dataclass(frozen=True, eq=False)
class UnitVariation:
    """The variation between days, or other units, without any change of the ranker."""

    units: Units
    source: str  # the baseline, or production where the baseline has too few days
    variance: WindowVariance  # between the units
    correlation: float  # of neighbouring units; 0 where it is not known
    rows_before: Ints  # (n_rows,) the baseline's queries, with whose mean every window is compared

    def share_of_now(self, rows: Ints) -> float:
        """Return the share of the variance between units in the mean of production's queries, (n_rows,)."""
        return self.share_of(np.bincount(self.units.now[rows]) / rows.size)

    def share_of_before(self, rows: Ints, weights: Floats | None = None) -> float:
        """Return that share in the mean of the baseline's queries, (n_rows,); 0 of a baseline without times."""
        if self.units.before is None:
            return 0.0
        query_weights = np.full(rows.size, 1 / rows.size) if weights is None else weights
        shares = np.bincount(self.units.before[rows], query_weights).astype(np.float64)
        return self.share_of(shares)

    def share_of(self, weights: Floats) -> float:
        """Return that share in a mean with these weights of the units, in order of time, (n_units,)."""
        return share_of_variance(weights, self.correlation)

    @cached_property
    def whole_baseline_share(self) -> float:
        """The same share in the mean of all queries of the baseline that have a value."""
        return self.share_of_before(self.rows_before)

    @property
    def caution(self) -> Caution | None:
        """The caution beside an alert where too few units show whether neighbours are alike."""
        if self.source == "the baseline" and self.variance.n >= _ENOUGH_UNITS:
            return None
        unit = self.units.name
        text = f"with {self.variance.n} {unit}s of {self.source}, a run of bad {unit}s cannot be told from a change"
        return Caution("few-days", "warning", text, f"use a baseline of {_ENOUGH_UNITS} {unit}s or more")

    def __str__(self) -> str:
        unit, n, spread = self.units.name, self.variance.n, f"sd {self.variance.variance**0.5:.4f}"
        if self.correlation:
            spread += f", correlation of neighbours {self.correlation:.2f}"
        return f"{unit}-to-{unit} variation: {spread} ({n} {unit}s of {self.source})"


def share_of_variance(weights: Floats, correlation: float) -> float:
    """Return the variance of a mean of units of variance 1 and correlation r**k at lag k: sum w_i w_j r**|i - j|."""
    total, factor = float((weights**2).sum()), correlation
    for lag in range(1, weights.size):
        if factor < _NEGLIGIBLE:
            break
        total += 2 * factor * float(weights[lag:] @ weights[:-lag])
        factor *= correlation
    return total


def correlation_of_neighbours(sample: Sample, units: Ints) -> float:
    """Return the correlation of neighbouring units' means, at least 0; 0 where there are too few units, (n,).

    The lag-1 correlation r of n units is too low by (1 + 4 r) / n on average, which is corrected for. From
    28 units on its standard error sqrt((1 - r**2) / n) is added where r is larger than two of them: an r too low makes
    means much surer than they are, one too high a little less sure.

    Source: F. Marriott, J. Pope, Biometrika 41 (1954).
    """
    counts = np.bincount(units)
    means = np.bincount(units, sample.values) / np.maximum(counts, 1)
    deviations = means[counts > 0] - means[counts > 0].mean()
    n, squares = deviations.size, float(deviations @ deviations)
    if n < _MIN_UNITS or squares <= 0:
        return 0.0
    lag_1 = float(deviations[1:] @ deviations[:-1]) / squares
    correlation = float(np.clip((n * lag_1 + 1) / (n - 4), 0.0, _MAX_CORRELATION))
    error = float(np.sqrt((1 - correlation**2) / n))
    if n >= _ENOUGH_UNITS and correlation > 2 * error:
        return min(correlation + error, _MAX_CORRELATION)
    return correlation


def units_of(now: Ints | None, before: Ints | None, config: MonitorConfig) -> list[Units]:
    """Return the days, and windows of another size, of moments, (n_now,) and (n_before,), that vary by themselves."""
    if now is None:
        return []
    windows, times = config.windows, [time for time in (now, before) if time is not None]
    numbers = {"day": [local_days(time, windows.timezone) for time in times]}
    if seconds(windows.size) != 86_400:
        numbers[f"{windows.size} window"] = [window_numbers(time, windows) for time in times]
    return [Units(name, *map(dense_codes, of_times)) for name, of_times in numbers.items()]


def without_season(now: Sample, before: Sample) -> Sample:
    """Subtract the season's means in the other period from one period's values; leave them without a season."""
    if now.strata is None or before.strata is None:
        return now
    size = int(max(now.strata.max(initial=0), before.strata.max(initial=0))) + 1
    n = np.bincount(before.strata, minlength=size)
    means = np.bincount(before.strata, before.values, minlength=size) / np.maximum(n, 1)
    return Sample(now.values - means[now.strata], now.clusters)


def dense_codes(numbers: Ints) -> Ints:
    """Return codes 0 … in increasing order of the numbers, (n,)."""
    return np.asarray(np.unique(numbers, return_inverse=True)[1])
