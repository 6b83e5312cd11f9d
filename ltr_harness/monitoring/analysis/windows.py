"""Days, hours or weeks in the user's time zone: which query falls where, and which windows count."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ltr_harness.errors import Problem, UsageError
from ltr_harness.monitoring.config import MonitorConfig, Windows
from ltr_harness.monitoring.relevance.rule import seconds

_DAY = 86_400 * 10**9
_AT_MOST = 10_000  # windows, empty ones included: nobody looks at more
THURSDAY = 3  # 1970-01-01


@dataclass(frozen=True, eq=False)
class Cut:
    """Queries in windows.

    Attributes:
        codes: (n,) window of each query, 0 … in order of time.
        number: (w,) place in the calendar: neighbours differ by 1, gaps by more.
        labels: (w,) how a window is called: its first day, or hour.
        start, end: (w,) int64 nanoseconds UTC.
        weekday: (n,) 0 Monday … 6 Sunday, in the time zone.
        mature: (n,) whether the query's labels had time to arrive.
    """

    codes: NDArray[np.int64]
    number: NDArray[np.int64]
    labels: tuple[str, ...]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    weekday: NDArray[np.int64]
    mature: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def hours(self) -> NDArray[np.float64]:
        """(w,) length; a day is 23 or 25 hours long when the clocks change."""
        return (self.end - self.start) / 3.6e12

    @cached_property
    def members(self) -> list[NDArray[np.int64]]:
        """The queries of each window."""
        order = np.argsort(self.codes, kind="stable")
        return np.split(order, np.searchsorted(self.codes[order], np.arange(1, len(self))))

    @cached_property
    def immature(self) -> NDArray[np.bool_]:
        """(w,) windows that hold a query whose labels are still arriving."""
        found = np.zeros(len(self), dtype=bool)
        np.logical_or.at(found, self.codes[~self.mature], True)
        return found


def cut(time: NDArray[np.int64] | None, n: int, config: MonitorConfig) -> Cut:
    """Windows of queries asked at these times; without times there is one window.

    Labels are as old as the log's last query; no clock is asked, so a report can be made again.
    """
    if time is None:
        zeros = np.zeros(n, dtype=np.int64)
        one = np.zeros(1, dtype=np.int64)
        return Cut(zeros, one, ("all",), one, one, zeros, np.ones(n, dtype=bool))
    day = local_days(time, config.windows.timezone)
    present, codes = np.unique(window_numbers(time, config.windows), return_inverse=True)
    span = int(present[-1] - present[0]) + 1
    if span > _AT_MOST:
        raise UsageError(
            Problem(
                "",
                f"windows.size {config.windows.size} cuts the log into {span:,} windows",
                f"at most {_AT_MOST:,}",
                "choose a larger windows.size",
            )
        )
    starts, labels = zip(*(_edge(int(at), config.windows) for at in present), strict=True)
    ends = [_edge(int(at) + 1, config.windows)[0] for at in present]
    mature = time <= time.max() - seconds(config.relevance.maturity) * 10**9
    return Cut(
        codes.astype(np.int64),
        present,
        labels,
        np.array(starts),
        np.array(ends),
        (day + THURSDAY) % 7,
        mature,
    )


def window_numbers(time: NDArray[np.int64], windows: Windows) -> NDArray[np.int64]:
    """The place in the calendar of the window that each moment falls into."""
    size = seconds(windows.size) * 10**9
    return local_days(time, windows.timezone) // (size // _DAY) if size >= _DAY else time // size


def local_days(time: NDArray[np.int64], timezone: str) -> NDArray[np.int64]:
    """Days since 1970-01-01 on the calendar of the time zone."""
    if timezone == "UTC":
        return time // _DAY
    import pandas as pd

    local = pd.DatetimeIndex(time.astype("datetime64[ns]")).tz_localize("UTC").tz_convert(timezone)
    naive: NDArray[np.int64] = local.tz_localize(None).to_numpy().astype("datetime64[ns]").astype(np.int64)
    return naive // _DAY


def _edge(number: int, windows: Windows) -> tuple[int, str]:
    """Where a window begins, in nanoseconds UTC, and its label."""
    import pandas as pd

    size = seconds(windows.size) * 10**9
    if size < _DAY:
        begin = number * size
        local = pd.Timestamp(begin, unit="ns", tz="UTC").tz_convert(windows.timezone)
        return begin, local.strftime("%Y-%m-%dT%H:%M%z" if windows.timezone != "UTC" else "%Y-%m-%dT%H:%MZ")
    date = pd.Timestamp(number * (size // _DAY) * _DAY, unit="ns")
    start = date.tz_localize(windows.timezone, ambiguous=True, nonexistent="shift_forward").tz_convert("UTC")
    return int(start.value), date.strftime("%Y-%m-%d")
