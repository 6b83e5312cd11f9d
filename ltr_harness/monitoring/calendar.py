"""Days, hours or weeks in the user's time zone: which query falls where, which windows count, and how days differ."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from ltr_harness.comparison.stats.two_samples import Sample
from ltr_harness.data.logs.settings import seconds
from ltr_harness.data.queries import Bools, Floats, Ints
from ltr_harness.data.times import local_clock, local_days
from ltr_harness.errors import Caution, Problem, UsageError
from ltr_harness.monitoring.config import MonitorConfig, Windows
from ltr_harness.monitoring.stats.several_samples import (
    WindowVariance,
    between_window_variance,
    variance_of_neighbours,
)

_DAY = 86_400 * 10**9
_AT_MOST = 10_000  # windows with a query: nobody looks at more
_FEW = 0.05  # of the usual number of queries: a window at the log's end with fewer does not say where it ends
THURSDAY = 3  # 1970-01-01
_WINDOWS_OF_THEIR_OWN = 4.0  # degrees of freedom, to ask of windows what days have been asked already

_LEAST_UNITS = 10  # for a correlation of neighbours
_ENOUGH = 28  # from so many on it is known well enough to allow for what it is off by
_MOST_ALIKE = 0.95  # a correlation beyond that cannot be told from a trend
_NEGLIGIBLE = 1e-4


@dataclass(frozen=True, eq=False)
class Cut:
    """Queries in windows."""

    codes: Ints  # (n,) window of each query, 0 … in order of time
    number: Ints  # (w,) place in the calendar: neighbours differ by 1, gaps by more
    labels: tuple[str, ...]  # (w,) how a window is called: its first day, or hour
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
        """(w,) length; a day is 23 or 25 hours long when the clocks change."""
        return (self.end - self.start) / 3.6e12

    @cached_property
    def members(self) -> list[Ints]:
        """The queries of each window."""
        return self.members_of(np.arange(self.codes.size))

    def members_of(self, rows: Ints) -> list[Ints]:
        """Where the queries of each window stand among some, (n_rows,)."""
        codes = self.codes[rows]
        order = np.argsort(codes, kind="stable")
        return np.split(order, np.searchsorted(codes[order], np.arange(1, len(self))))

    @property
    def n_immature(self) -> int:
        """Queries whose labels are still arriving."""
        return int((~self.mature & ~self.stray[self.codes]).sum())

    @cached_property
    def immature(self) -> Bools:
        """(w,) windows that hold a query whose labels are still arriving."""
        young = np.zeros(len(self), dtype=bool)
        np.logical_or.at(young, self.codes[~self.mature], True)
        return young


def cut(time: Ints | None, n: int, config: MonitorConfig) -> Cut:
    """Windows of queries asked at (n,) times, labels as old as the log's last query; one window without times."""
    if time is None:
        zeros = np.zeros(n, dtype=np.int64)
        one = np.zeros(1, dtype=np.int64)
        return Cut(zeros, one, ("all",), one, one, zeros, np.ones(n, dtype=bool), np.zeros(1, dtype=bool))
    present, codes = np.unique(window_numbers(time, config.windows), return_inverse=True)
    if present.size > _AT_MOST:
        found = f"windows.size {config.windows.size} cuts the log into {present.size:,} windows"
        raise UsageError(Problem("", found, f"at most {_AT_MOST:,}", "choose a larger windows.size"))
    starts, labels = zip(*(_edge(int(at), config.windows) for at in present), strict=True)
    ends = [_edge(int(at) + 1, config.windows)[0] for at in present]
    last, stray = _ends(present, np.bincount(codes))
    until = int(time[codes <= last].max())
    young = seconds(config.relevance.maturity) * 10**9
    mature = (time <= until - young) | (young == 0)
    return Cut(
        codes.astype(np.int64),
        present,
        labels,
        np.array(starts),
        np.array(ends),
        hours_of_week(time, config.windows.timezone) // 24,
        mature & ~stray[codes],
        stray,
        until,
    )


def _ends(number: Ints, counts: Ints) -> tuple[int, Bools]:
    """The last window that is not nearly empty, and which are stray: apart before the first such or after the last."""
    usual = np.flatnonzero(counts >= _FEW * np.median(counts))
    first, last = int(usual[0]), int(usual[-1])
    apart = np.diff(number) > 1
    stray = np.zeros(number.size, dtype=bool)
    stray[last + 1 :] = np.logical_or.accumulate(apart[last:])
    stray[:first] = np.logical_or.accumulate(apart[:first][::-1])[::-1]
    return last, stray


def window_numbers(time: Ints, windows: Windows) -> Ints:
    """(n,) the place in the calendar of the window that each moment falls into."""
    return local_clock(time, windows.timezone) // (seconds(windows.size) * 10**9)


def hours_of_week(time: Ints, timezone: str) -> Ints:
    """(n,) hours since Monday 00:00, on the clocks of the time zone."""
    hours = local_clock(time, timezone) // (_DAY // 24)
    return (hours + 24 * THURSDAY) % 168


def part_of_season(hours: Ints, season: str) -> Ints:
    """(n,) weekday, hour or hour of the week."""
    if season == "weekday":
        return hours // 24
    return hours % 24 if season == "hour" else hours


def _edge(number: int, windows: Windows) -> tuple[int, str]:
    """Where a window begins, in nanoseconds UTC, and its label."""
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

    name: str  # what one is called
    now: Ints
    before: Ints | None = None  # None where the baseline has no times

    def differ(
        self, now: Sample, rows: Ints, before: Sample, rows_before: Ints, *, own: bool
    ) -> "DaysDiffer | None":
        """How much the units differ by themselves in values of (n_rows,) queries; None where nobody can tell."""
        variance, source, correlation = None, "the baseline", 0.0
        if self.before is not None:
            theirs = self.before[rows_before]
            variance = between_window_variance(before, theirs)
            if variance is not None and not own:  # hours of a day have their season, and days hold them
                correlation = correlation_of_neighbours(without_season(before, before), theirs)
                n, alike = variance.n, share_of_variance(np.full(variance.n, 1 / variance.n), correlation)
                left = 1 - (n * alike - 1) / max(n - 1, 1)  # around their own mean such neighbours vary less
                freedom = variance.df * ((1 - correlation**2) / (1 + correlation**2))
                variance = WindowVariance(variance.variance / left, variance.mean_square / left, freedom, n)
        if variance is None:
            variance = variance_of_neighbours(without_season(now, before), coded(self.now[rows]))
            source = "production"
        if variance is None or (own and variance.df < _WINDOWS_OF_THEIR_OWN):
            return None
        return DaysDiffer(self, source, variance, correlation, rows_before)


@dataclass(frozen=True, eq=False)
class DaysDiffer:
    """What is known of how much days differ by themselves."""

    units: Units
    source: str  # the baseline, or production where the baseline has too few days
    variance: WindowVariance  # between the units
    correlation: float  # of neighbouring units; 0 where it is not known
    rows_before: Ints  # (n_rows,) the baseline's queries, with whose mean every window is compared

    def share_of_now(self, rows: Ints) -> float:
        """By how much of the variance between units the mean of (n_rows,) of production's queries varies."""
        return self.share_of(np.bincount(self.units.now[rows]) / rows.size)

    def share_of_before(self, rows: Ints, weights: Floats | None = None) -> float:
        """Likewise of (n_rows,) of the baseline's; 0 where it has no times, and is taken as it is."""
        if self.units.before is None:
            return 0.0
        each = np.full(rows.size, 1 / rows.size) if weights is None else weights
        shares = np.bincount(self.units.before[rows], each).astype(np.float64)
        return self.share_of(shares)

    def share_of(self, weights: Floats) -> float:
        """Likewise of a mean whose weights are spread over neighbouring units so, (n_units,)."""
        return share_of_variance(weights, self.correlation)

    @cached_property
    def of_before(self) -> float:
        """Likewise of all queries of the baseline that have a value."""
        return self.share_of_before(self.rows_before)

    @property
    def caution(self) -> Caution | None:
        """The caution beside an alert where too few units show whether neighbours are alike."""
        if self.source == "the baseline" and self.variance.n >= _ENOUGH:
            return None
        unit = self.units.name
        text = (
            f"{self.variance.n} {unit}s of {self.source} are too few for the correlation of neighbouring {unit}s: an "
            f"alert may be a run of bad {unit}s"
        )
        return Caution("few-days", "warning", text, f"give the baseline {_ENOUGH} {unit}s")

    def __str__(self) -> str:
        unit, n, spread = self.units.name, self.variance.n, f"sd {self.variance.variance**0.5:.4f}"
        if self.correlation:
            spread += f", correlation of neighbours {self.correlation:.2f}"
        return f"{unit}-to-{unit} variation: {spread} ({n} {unit}s of {self.source})"


def share_of_variance(weights: Floats, correlation: float) -> float:
    """Variance of a weighted mean of units of variance 1 and correlation r**k at distance k: sum w_i w_j r**|i - j|."""
    total, factor = float((weights**2).sum()), correlation
    for lag in range(1, weights.size):
        if factor < _NEGLIGIBLE:
            break
        total += 2 * factor * float(weights[lag:] @ weights[:-lag])
        factor *= correlation
    return total


def correlation_of_neighbours(sample: Sample, units: Ints) -> float:
    """Correlation of the means of neighbouring units, at least 0; 0 from fewer units than can tell; `units` (n,).

    The plain lag-1 correlation r of n units is too low by (1 + 4 r) / n on average; that is given back. From
    28 units on its standard error sqrt((1 - r**2) / n) is added where r is larger than two of them: an r too low makes
    means much surer than they are, one too high a little less sure.

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
    return min(alike + error, _MOST_ALIKE) if n >= _ENOUGH and alike > 2 * error else alike


def units_of(now: Ints | None, before: Ints | None, config: MonitorConfig) -> list[Units]:
    """Days, and windows of another size, of (n_now,) and (n_before,) moments: what may differ by itself."""
    if now is None:
        return []
    windows, times = config.windows, [time for time in (now, before) if time is not None]
    numbers = {"day": [local_days(time, windows.timezone) for time in times]}
    if seconds(windows.size) != 86_400:
        numbers[f"{windows.size} window"] = [window_numbers(time, windows) for time in times]
    return [Units(name, *map(coded, of_times)) for name, of_times in numbers.items()]


def without_season(now: Sample, before: Sample) -> Sample:
    """One period's values as distances to the season's means in the other; as they are without a season."""
    if now.strata is None or before.strata is None:
        return now
    size = int(max(now.strata.max(initial=0), before.strata.max(initial=0))) + 1
    n = np.bincount(before.strata, minlength=size)
    means = np.bincount(before.strata, before.values, minlength=size) / np.maximum(n, 1)
    return Sample(now.values - means[now.strata], now.clusters)


def coded(numbers: Ints) -> Ints:
    """Codes 0 … in increasing order of (n,) numbers."""
    return np.asarray(np.unique(numbers, return_inverse=True)[1])
