"""What a reader wants to know beside the tests, as values: means by rule, lengths of lists, queries to read."""

from __future__ import annotations

from dataclasses import dataclass

from ltr_harness.monitoring.results.answers import Interval


@dataclass(frozen=True)
class Conventions:
    """The primary metric's mean under each rule for queries without a relevant document."""

    log: str
    n_queries: int
    n_without_relevant: int
    skip: float
    zero: float
    one: float


@dataclass(frozen=True)
class ListLengths:
    """How many items a query lists."""

    log: str
    shortest: int
    p10: float
    median: float
    p90: float
    longest: int


@dataclass(frozen=True)
class Online:
    """What users did, beside what the metric says, window by window.

    Attributes:
        name: the column.
        before, now: its mean over queries, mature ones beside a baseline; before is NaN without one.
        correlation: Spearman's, of the windows' means with the primary metric's; NaN below four windows.
        n_windows: behind the correlation.
        difference: now against before, tested as the metric is, both sides; None without a baseline.
        p_corrected: by Holm over all such columns.
    """

    name: str
    before: float
    now: float
    correlation: float
    n_windows: int
    difference: Interval | None = None
    p_corrected: float = float("nan")


@dataclass(frozen=True)
class WorstQuery:
    """A query to read: its grades in the order shown."""

    query: str
    window: str
    value: float
    before: float
    grades: str
