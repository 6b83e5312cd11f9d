"""Folds in time: train on the past, test on what follows, several times, back from the data's last midnight."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any, Literal

import numpy as np

from ltr_harness._util.text import count_of
from ltr_harness.data.arrays import Array, Ints, Texts
from ltr_harness.data.queries import QueryGroups
from ltr_harness.errors import DataError

Days = Ints
"""int64 (n_queries,), days since 1970-01-01 on the calendar of a time zone."""

DAY, PERIOD = "day", "period"
"""The query attribute that folds in time have, and the unit of a comparison that is made of it."""
Period = Literal["day", "week", "month"]
PERIODS: tuple[Period, ...] = ("day", "week", "month")
_DAYS = {"day": 1, "week": 7, "month": 365.25 / 12, "quarter": 365.25 / 4, "year": 365.25}
_EPOCH = date(1970, 1, 1)
_FEW_QUERIES = 2
MOST_FOLDS = 1000


@dataclass(frozen=True)
class CalendarSpan:
    """A length of time in calendar units, such as ``3 months``."""

    number: int
    unit: Literal["day", "week", "month", "quarter", "year"]

    @classmethod
    def of(cls, text: str) -> "CalendarSpan":
        """Read ``3 months``, ``1 day`` or ``2 weeks``; ValueError for anything else."""
        found = re.fullmatch(rf"\s*([1-9][0-9]{{0,4}})\s*({'|'.join(_DAYS)})s?\s*", text)
        if found is None:
            raise ValueError("a number of days, weeks, months, quarters or years, such as 3 months")
        return cls(int(found[1]), found[2])  # type: ignore[arg-type]

    def __str__(self) -> str:
        return count_of(self.number, self.unit)

    @property
    def days(self) -> float:
        """Its length where no calendar says it: a year has 365.25 days, and a month is a twelfth of it."""
        return self.number * _DAYS[self.unit]

    def before(self, day: date, times: int = 1) -> date:
        """The day that lies this long, `times` times, before another."""
        import pandas as pd

        unit, months = ("month", 3) if self.unit == "quarter" else (self.unit, 1)
        units: dict[str, Any] = {f"{unit}s": months * self.number * times}
        try:
            return (pd.Timestamp(day) - pd.DateOffset(**units)).date()
        except (OverflowError, ValueError, pd.errors.OutOfBoundsDatetime):
            return date.min


@dataclass(frozen=True, kw_only=True)
class TimeFolds:
    """A division of time: ``train | gap | valid | gap | test``, from the newest fold back to the oldest."""

    test: CalendarSpan  # how long each test part is
    valid: CalendarSpan | None = None  # how long each validation part is; None for none
    gap: CalendarSpan | None = None  # what is left out between two parts; None for nothing
    # of the training part; None where it begins with the data, and expands: then at least as long as the test part
    train: CalendarSpan | None = None
    # from one test part to the next; None for as long as the test part; a shorter one is refused
    step: CalendarSpan | None = None
    at_most: int | None = None  # the newest so many folds; None for all
    label_horizon: CalendarSpan | None = (
        None  # how far after its query a label looks; the gap must be as long
    )

    def divide(self, groups: QueryGroups, days: Days) -> "list[TimeFold]":
        """The folds, oldest first, with the numbers of their queries; DataError, with dates, where they cannot be."""
        folds = self._newest_first(_date(int(days.min())), _date(int(days.max()) + 1))
        order = np.argsort(days, kind="stable").astype(np.int64)
        ascending_days = days[order]
        in_order = np.array_equal(ascending_days, days)

        def queries_of(part: FoldPart) -> Ints:
            edges = [(edge - _EPOCH).days for edge in (part.begin, part.end)]
            first, after = np.searchsorted(ascending_days, edges)
            queries = order[first:after]
            return queries if in_order else np.sort(queries)  # in order, parts share memory

        return [_with_queries(fold, groups, queries_of) for fold in reversed(folds)]

    def _newest_first(self, first: date, end: date) -> "list[TimeFold]":
        """Return the folds of data from the day `first` to before the day `end`, still without queries."""
        folds: list[TimeFold] = []
        while self.at_most is None or len(folds) < self.at_most:
            fold = self._fold(first, end, len(folds))
            if fold is None:
                break
            folds.append(fold)
            if len(folds) > MOST_FOLDS:
                most = f"{count_of(MOST_FOLDS, 'fold')} {self.step or self.test} apart"
                found = f"{FoldPart(first, end)} has more than {most}"
                cure = "use a longer test part or step, or keep the newest with at_most"
                raise DataError.at("data.folds", found, f"at most {MOST_FOLDS:,}", cure)
        if not folds:
            spans = (self.train, self.gap, self.valid, self.valid and self.gap, self.test)
            needed = " + ".join(str(span) for span in spans if span)
            if not self.train:
                needed += " and training data before it"
            raise DataError.at("data.folds", f"{FoldPart(first, end)} is too short for a fold", needed)
        return folds

    def newest(self, days: Days) -> Ints:
        """The queries of the newest training window, which ends with the data; int64 (n,)."""
        if self.train is None:
            return np.arange(days.size)
        begin = self.train.before(_date(int(days.max()) + 1))
        return np.flatnonzero(days >= (begin - _EPOCH).days).astype(np.int64)

    def inner(self, days: Days, n: int) -> Iterator[tuple[Ints, Ints]]:
        """Pairs of past and held-out queries: n of n + 1 parts of the days, each without the past's last `gap`."""
        for part in np.array_split(np.unique(days), n + 1)[1:]:
            held = np.flatnonzero(np.isin(days, part)).astype(np.int64)
            begin = _date(int(part[0])) if part.size else _EPOCH
            end = self._before_gap(begin)
            past = np.flatnonzero(days < (end - _EPOCH).days).astype(np.int64)
            if min(past.size, held.size) < _FEW_QUERIES:
                found = f"{n} inner folds of {count_of(np.unique(days).size, 'training day')} are too many"
                cure = "fewer inner_folds, a smaller gap, or a longer training part"
                raise DataError.at("tune.inner_folds", found, cure)
            yield past, held

    def _before_gap(self, day: date) -> date:
        return day if self.gap is None else self.gap.before(day)

    def _refuse_overlap(self, begin: date, end: date) -> None:
        """Raise for test parts that overlap, and for labels that look beyond the gap; the part is `begin` to `end`."""
        if self.step is not None and self.step.before(end) > begin:
            found = f"step is {self.step}, shorter than test, {self.test}: queries would be tested twice"
            raise DataError.at("data.folds", found, f"a step of {self.test} or longer")
        if self.label_horizon is not None and self._before_gap(begin) > self.label_horizon.before(begin):
            found = "there is no gap" if self.gap is None else f"gap is {self.gap}"
            found += f", and labels look {self.label_horizon} ahead: training labels would know the next part"
            raise DataError.at("data.folds", found, f"a gap of {self.label_horizon} or longer")

    def _fold(self, first: date, end: date, number: int) -> "TimeFold | None":
        """The fold whose test part ends `number` steps before the data; None where too little is left to train on."""
        end = (self.step or self.test).before(end, number)
        begin = self.test.before(end)
        parts, tested = {"test": FoldPart(begin, end)}, end - begin
        self._refuse_overlap(begin, end)
        if self.valid is not None:
            border = self._before_gap(begin)
            begin = self.valid.before(border)
            parts["valid"] = FoldPart(begin, border)
        end = self._before_gap(begin)
        begin, least = first, tested
        if self.train is not None:
            begin, least = self.train.before(end), timedelta(days=1)
        if begin < first or end - begin < least:
            return None
        return TimeFold({"train": FoldPart(begin, end), **dict(reversed(parts.items()))})


def _with_queries(
    fold: "TimeFold", groups: QueryGroups, queries_of: Callable[["FoldPart"], Ints]
) -> "TimeFold":
    """Return a fold with the numbers of each part's queries; raise where a part has few."""
    parts = {}
    for name, part in fold.parts.items():
        queries = queries_of(part)
        if queries.size < _FEW_QUERIES:
            found = f"{name}, {part}, has {count_of(queries.size, 'query')} of {groups.n_queries:,}"
            cure = "a longer part, fewer folds (at_most), or data without such holes"
            raise DataError.at(f"data.folds, fold {fold.name}", found, cure)
        parts[name] = replace(part, queries=queries)
    return TimeFold(parts)


@dataclass(frozen=True, eq=False)
class FoldPart:
    """One part of a fold: from the day `begin` to before the day `end`."""

    begin: date
    end: date
    queries: Ints | None = None  # int64 (n,), ascending

    def __str__(self) -> str:
        return f"{self.begin} to {self.end - timedelta(days=1)}"


@dataclass(frozen=True, eq=False)
class TimeFold:
    """Train, valid (if any) and test, in the order of time."""

    parts: dict[str, FoldPart]

    @property
    def name(self) -> str:
        """The test part's first day."""
        return str(self.parts["test"].begin)

    def __str__(self) -> str:
        return ", ".join(f"{name} {part}" for name, part in self.parts.items())


def days_of(times: Array, name: str, time_zone: str, groups: QueryGroups, source: str = "") -> Days:
    """The day of each query on the calendar of a time zone, from times, dates or ISO 8601 text (n_queries,)."""
    from ltr_harness.data.times import local_days, moments_of

    return local_days(moments_of(times, name, time_zone, groups.name, source), time_zone)


def period_in(unit: str) -> tuple[Period, int | None] | None:
    """The period that a unit is made of, and how many where that is said; None for another unit."""
    if unit in PERIODS:
        return unit, None
    found = re.fullmatch(rf"([1-9][0-9]{{0,3}}) ({'|'.join(PERIODS)})s?", unit)
    return found and (found[2], int(found[1]))  # type: ignore[return-value]


def periods_of(days: Days, period: Period) -> Texts:
    """Return the name of each day's period: ``2024-03-31``, ``2024-W13`` or ``2024-03``."""
    dates = days.astype("datetime64[D]")
    if period == "day":
        return dates.astype(np.str_)
    if period == "month":
        return dates.astype("datetime64[M]").astype(np.str_)
    distinct, which = np.unique(dates, return_inverse=True)
    weeks = [day.isocalendar() for day in distinct.tolist()]
    return np.array([f"{week.year}-W{week.week:02}" for week in weeks])[which]


def period_for(days: Days) -> Period:
    """The shortest unit that is at least 1/40 of the time between the first and the last day."""
    span = int(days.max() - days.min()) + 1
    if span <= 40:
        return "day"
    return "week" if span <= 280 else "month"


def _date(day: int) -> date:
    return _EPOCH + timedelta(days=day)
