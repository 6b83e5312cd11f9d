"""Folds in time: where their boundaries are, and which queries are in them."""

from __future__ import annotations

import calendar
from datetime import date, timedelta
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ltr_harness.data.queries import QueryGroups
from ltr_harness.data.time_folds import CalendarSpan, TimeFolds, days_of, period_for, periods_of
from ltr_harness.errors import DataError
from tests.conftest import named_case


def spans(**texts: str) -> dict[str, Any]:
    return {name: CalendarSpan.of(text) for name, text in texts.items()}


def days(first: str, last: str) -> pd.DatetimeIndex:
    return pd.date_range(first, last, freq="D")


def numbers(index: pd.DatetimeIndex) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return index.to_numpy().astype("datetime64[D]").astype(np.int64)


def groups(n: int) -> QueryGroups:
    return QueryGroups.from_sizes([1] * n)


def test_quarters_of_a_year_by_hand() -> None:
    index = days("2023-01-01", "2024-12-31")
    found = TimeFolds(**spans(test="3 months", valid="1 month", gap="2 weeks"), at_most=3).divide(
        groups(len(index)), numbers(index)
    )
    assert [str(fold) for fold in found] == [
        "train 2023-01-01 to 2024-02-03, valid 2024-02-18 to 2024-03-17, test 2024-04-01 to 2024-06-30",
        "train 2023-01-01 to 2024-05-02, valid 2024-05-17 to 2024-06-16, test 2024-07-01 to 2024-09-30",
        "train 2023-01-01 to 2024-08-02, valid 2024-08-17 to 2024-09-16, test 2024-10-01 to 2024-12-31",
    ]
    assert [fold.name for fold in found] == ["2024-04-01", "2024-07-01", "2024-10-01"]
    tested = found[0].parts["test"].queries
    assert tested is not None
    assert index[tested[0]] == pd.Timestamp("2024-04-01")
    assert tested.size == 30 + 31 + 30


def day_before(day: date, span: CalendarSpan, times: int) -> date:
    """The calendar's arithmetic without pandas."""
    if span.unit in ("day", "week"):
        return day - timedelta(days=span.number * times * (7 if span.unit == "week" else 1))
    months = span.number * times * {"month": 1, "quarter": 3, "year": 12}[span.unit]
    year, month = divmod(day.year * 12 + day.month - 1 - months, 12)
    return date(year, month + 1, min(day.day, calendar.monthrange(year, month + 1)[1]))


def test_boundaries_are_the_calendars() -> None:
    for seed in range(30):
        with named_case(seed):
            rng = np.random.default_rng(seed)
            first = date(2011, 1, 1) + timedelta(days=int(rng.integers(0, 6000)))
            length = int(rng.integers(400, 900))
            present = rng.random(length) < 0.8  # days are missing
            present[[0, -1]] = True
            query_days = np.datetime64(first) + np.flatnonzero(present)
            last = query_days[-1].item() + timedelta(days=1)
            test = CalendarSpan.of(str(rng.choice(["10 days", "3 weeks", "1 month", "1 quarter"])))
            valid = CalendarSpan.of("2 weeks") if rng.random() < 0.5 else None
            gap = CalendarSpan.of(str(rng.choice(["5 days", "1 month"]))) if rng.random() < 0.6 else None
            train = CalendarSpan.of("4 months") if rng.random() < 0.5 else None
            rule = TimeFolds(test=test, valid=valid, gap=gap, train=train)
            found = rule.divide(groups(query_days.size), query_days.astype(np.int64))

            expected: list[dict[str, tuple[date, date]]] = []
            while True:
                end = day_before(last, test, len(expected))
                begin = day_before(end, test, 1)
                parts = {"test": (begin, end)}
                if valid is not None:
                    border = day_before(begin, gap, 1) if gap else begin
                    begin = day_before(border, valid, 1)
                    parts["valid"] = (begin, border)
                end = day_before(begin, gap, 1) if gap else begin
                begin = day_before(end, train, 1) if train else first
                tested = parts["test"][1] - parts["test"][0]
                if begin < first or end - begin < (timedelta(days=1) if train else tested):
                    break
                expected.append({**parts, "train": (begin, end)})
            assert len(found) == len(expected) > 0
            for fold, dates in zip(reversed(found), expected, strict=True):
                assert {name: (part.begin, part.end) for name, part in fold.parts.items()} == dates
                for name, (begin, end) in dates.items():
                    inside = (query_days >= np.datetime64(begin)) & (query_days < np.datetime64(end))
                    assert np.array_equal(fold.parts[name].queries, np.flatnonzero(inside))


def test_a_query_is_tested_once() -> None:
    index = days("2020-01-01", "2022-07-15")
    found = TimeFolds(**spans(test="1 month", step="2 months", train="6 months")).divide(
        groups(len(index)), numbers(index)
    )
    tested = np.concatenate([fold.parts["test"].queries for fold in found])
    assert np.unique(tested).size == tested.size


def test_parts_are_ascending_numbers_of_queries_in_any_order_of_their_days() -> None:
    rule = TimeFolds(**spans(test="1 week", valid="3 days", gap="1 day", train="20 days"))
    in_order = np.repeat(np.arange(19_000, 19_090), 3)
    for query_days in (in_order, np.random.default_rng(0).permutation(in_order)):
        for fold in rule.divide(groups(query_days.size), query_days):
            for part in fold.parts.values():
                begin, end = (np.datetime64(edge).astype(int) for edge in (part.begin, part.end))
                expected = np.flatnonzero((query_days >= begin) & (query_days < end))
                assert np.array_equal(part.queries, expected)


def test_days_are_those_of_the_time_zone() -> None:
    times = np.array(["2024-03-30T23:30:00Z", "2024-03-31T22:30:00Z", "2024-10-27T23:30:00Z"])
    found = days_of(
        times, "when", "Europe/Berlin", groups(3)
    )  # summer time begins and ends on two of these days
    assert found.astype("datetime64[D]").astype(str).tolist() == ["2024-03-31", "2024-04-01", "2024-10-28"]
    assert days_of(times, "when", "UTC", groups(3)).astype("datetime64[D]").astype(str).tolist() == [
        "2024-03-30",
        "2024-03-31",
        "2024-10-27",
    ]


def test_periods_and_the_one_for_a_comparison() -> None:
    index = days("2024-12-29", "2025-01-05")
    assert list(dict.fromkeys(periods_of(numbers(index), "week"))) == ["2024-W52", "2025-W01"]
    assert list(dict.fromkeys(periods_of(numbers(index), "month"))) == ["2024-12", "2025-01"]
    for last, period in (
        ("2024-02-09", "day"),
        ("2024-02-10", "week"),
        ("2024-10-06", "week"),
        ("2024-10-07", "month"),
    ):
        assert period_for(numbers(days("2024-01-01", last))) == period


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"test": "3 years"}, "is too short for a fold; expected 3 years and training data before it"),
        ({"test": "1 month", "gap": "3 years"}, r"too short for a fold; expected 3 years \+ 1 month"),
        ({"test": "1 month", "step": "1 week"}, "step is 1 week, shorter than test, 1 month"),
        ({"test": "1 month", "label_horizon": "30 days"}, "there is no gap, and labels look 30 days ahead"),
        (
            {"test": "1 month", "gap": "1 week", "label_horizon": "30 days"},
            "expected a gap of 30 days or longer",
        ),
    ],
)
def test_what_cannot_be_divided(given: dict[str, str], message: str) -> None:
    index = days("2023-01-01", "2024-12-31")
    with pytest.raises(DataError, match=message):
        TimeFolds(**spans(**given)).divide(groups(len(index)), numbers(index))


def test_a_hole_in_the_data_has_its_dates() -> None:
    index = days("2023-01-01", "2024-12-31")
    index = index[(index.year != 2024) | (index.month != 11)]
    with pytest.raises(
        DataError, match=r"fold 2024-11-01: test, 2024-11-01 to 2024-11-30, has 0 queries of 701"
    ):
        TimeFolds(**spans(test="1 month")).divide(groups(len(index)), numbers(index))


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (np.array([1700000000, 1700000001]), "which may be seconds or milliseconds"),
        (np.array(["2024-01-01", ""]), "query '1' has no when"),
        (np.array(["2024-01-01T00:00:00Z", "2024-01-01T00:00:00"]), "have no time zone"),
        (np.array(["2024-01-01", "soon"]), "text that is not a time"),
        (np.array(["2024-01-01", "NaT"], dtype="datetime64[D]"), "query '1' has no when"),
    ],
)
def test_times_that_are_none(times: np.ndarray[tuple[int], np.dtype[np.generic]], message: str) -> None:
    with pytest.raises(DataError, match=message):
        days_of(times, "when", "UTC", groups(2))


@pytest.mark.parametrize("text", ["", "month", "0 days", "1.5 days", "3 fortnights", "-1 day", "1 month ago"])
def test_what_is_no_span(text: str) -> None:
    with pytest.raises(ValueError, match="such as 3 months"):
        CalendarSpan.of(text)


def test_inner_folds_are_later_than_their_past() -> None:
    index = days("2024-01-01", "2024-01-12")
    rule = TimeFolds(**spans(test="1 month", gap="1 day"))
    found = [(past.tolist(), held.tolist()) for past, held in rule.inner(numbers(index), 3)]
    assert found == [([0, 1], [3, 4, 5]), ([0, 1, 2, 3, 4], [6, 7, 8]), ([*range(8)], [9, 10, 11])]
    with pytest.raises(DataError, match="20 inner folds of 12 training days are too many"):
        list(rule.inner(numbers(index), 20))
