"""Days, hours or weeks in the user's time zone: which query falls where, and which windows count."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ltr_harness.errors import Problem, UsageError
from ltr_harness.logs.settings import seconds
from ltr_harness.monitoring.config import MonitorConfig, Windows

_DAY = 86_400 * 10**9
_AT_MOST = 10_000  # windows with a query: nobody looks at more
_FEW = 0.05  # of the usual number of queries: a window at the log's end with fewer does not say where it ends
THURSDAY = 3  # 1970-01-01


@dataclass(frozen=True, eq=False)
class Cut:
    """Queries in windows."""

    codes: NDArray[np.int64]  # (n,) window of each query, 0 … in order of time
    number: NDArray[np.int64]  # (w,) place in the calendar: neighbours differ by 1, gaps by more
    labels: tuple[str, ...]  # (w,) how a window is called: its first day, or hour
    start: NDArray[np.int64]  # (w,) int64 nanoseconds UTC
    end: NDArray[np.int64]
    weekday: NDArray[np.int64]  # (n,) 0 Monday … 6 Sunday, in the time zone
    mature: NDArray[np.bool_]  # (n,) whether the query's labels had time to arrive
    # (w,) windows with next to no queries, apart from the log's others in time: a clock was wrong
    stray: NDArray[np.bool_]
    until: int = 0  # nanoseconds UTC of the log's last query, strays apart; 0 without times

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def hours(self) -> NDArray[np.float64]:
        """(w,) length; a day is 23 or 25 hours long when the clocks change."""
        return (self.end - self.start) / 3.6e12

    @cached_property
    def members(self) -> list[NDArray[np.int64]]:
        """The queries of each window."""
        return self.members_of(np.arange(self.codes.size))

    def members_of(self, rows: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Where the queries of each window stand among some, (n_rows,)."""
        codes = self.codes[rows]
        order = np.argsort(codes, kind="stable")
        return np.split(order, np.searchsorted(codes[order], np.arange(1, len(self))))

    @property
    def n_immature(self) -> int:
        """Queries whose labels are still arriving."""
        return int((~self.mature & ~self.stray[self.codes]).sum())

    @cached_property
    def immature(self) -> NDArray[np.bool_]:
        """(w,) windows that hold a query whose labels are still arriving."""
        young = np.zeros(len(self), dtype=bool)
        np.logical_or.at(young, self.codes[~self.mature], True)
        return young


def cut(time: NDArray[np.int64] | None, n: int, config: MonitorConfig) -> Cut:
    """Windows of queries asked at (n,) times; without times there is one window.

    Labels are as old as the log's last query; no clock is asked, so a report can be made again.
    """
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


def _ends(number: NDArray[np.int64], counts: NDArray[np.int64]) -> tuple[int, NDArray[np.bool_]]:
    """The last window that is not nearly empty, and which are stray: apart before the first such or after the last."""
    usual = np.flatnonzero(counts >= _FEW * np.median(counts))
    first, last = int(usual[0]), int(usual[-1])
    apart = np.diff(number) > 1
    stray = np.zeros(number.size, dtype=bool)
    stray[last + 1 :] = np.logical_or.accumulate(apart[last:])
    stray[:first] = np.logical_or.accumulate(apart[:first][::-1])[::-1]
    return last, stray


def window_numbers(time: NDArray[np.int64], windows: Windows) -> NDArray[np.int64]:
    """(n,) the place in the calendar of the window that each moment falls into."""
    return local_clock(time, windows.timezone) // (seconds(windows.size) * 10**9)


def season_of(time: NDArray[np.int64], windows: Windows) -> NDArray[np.int64]:
    """(n,) the part of the season that each moment falls into: weekday, hour, or hour of the week."""
    return part_of_season(hours_of_week(time, windows.timezone), windows.season)


def hours_of_week(time: NDArray[np.int64], timezone: str) -> NDArray[np.int64]:
    """(n,) hours since Monday 00:00, on the clocks of the time zone."""
    hours = local_clock(time, timezone) // (_DAY // 24)
    return (hours + 24 * THURSDAY) % 168


def part_of_season(hours: NDArray[np.int64], season: str) -> NDArray[np.int64]:
    """(n,) weekday, hour or hour of the week."""
    return hours // 24 if season == "weekday" else hours % 24 if season == "hour" else hours


def local_days(time: NDArray[np.int64], timezone: str) -> NDArray[np.int64]:
    """(n,) days since 1970-01-01 on the calendar of the time zone."""
    return local_clock(time, timezone) // _DAY


def local_clock(time: NDArray[np.int64], timezone: str) -> NDArray[np.int64]:
    """(n,) nanoseconds since 1970-01-01 00:00 as the clocks of the time zone show them."""
    if timezone == "UTC":
        return time
    local = pd.DatetimeIndex(time.astype("datetime64[ns]")).tz_localize("UTC").tz_convert(timezone)
    naive: NDArray[np.int64] = local.tz_localize(None).to_numpy().astype("datetime64[ns]").astype(np.int64)
    return naive


def _edge(number: int, windows: Windows) -> tuple[int, str]:
    """Where a window begins, in nanoseconds UTC, and its label."""
    size = seconds(windows.size) * 10**9
    clock = pd.Timestamp(number * size, unit="ns")
    # the hour that occurs twice belongs to the window in which it begins; one that does not exist moves forward
    start = clock.tz_localize(windows.timezone, ambiguous=True, nonexistent="shift_forward").tz_convert("UTC")
    if size >= _DAY:
        return int(start.value), clock.strftime("%Y-%m-%d")
    local = start.tz_convert(windows.timezone)
    return int(start.value), local.strftime(f"%Y-%m-%dT%H:%M{'Z' if windows.timezone == 'UTC' else '%z'}")
