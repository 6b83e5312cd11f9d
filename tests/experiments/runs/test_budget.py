"""The best model within a budget, of times that are given: the arithmetic by hand."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltr_harness.errors import UsageError
from ltr_harness.experiments.runs.record import Latency
from ltr_harness.experiments.runs.serving_cost import BudgetCandidate, best_first, best_within, parse_budget


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("800us", 800), ("800 µs", 800), ("800μs", 800), ("5ms", 5_000), (" 5 ms ", 5_000), ("2.5ms", 2_500),
        (".5ms", 500), ("5.ms", 5_000), ("0.2s", 200_000), ("1s", 1_000_000),
    ],
)  # fmt: skip
def test_budgets_have_units(text: str, microseconds: float) -> None:
    assert parse_budget(text) == pytest.approx(microseconds)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("5", "has no unit"), ("0.5", "has no unit"), ("ms", "is not a budget"), ("", "is not a budget"),
        ("-5ms", "is not a budget"), ("0ms", "is not a budget"), ("5min", "is not a budget"),
        ("5MS", "is not a budget"),
        ("1e3us", "is not a budget"), ("nanms", "is not a budget"), ("5ms 3us", "is not a budget"),
    ],
)  # fmt: skip
def test_what_has_no_unit_or_is_no_time_is_refused(text: str, found: str) -> None:
    message = f"--budget {text}: {found}; expected a time above 0 in us, ms or s, such as 800us, 5ms or 0.2s"
    with pytest.raises(UsageError, match=re.escape(message)):
        parse_budget(text)


def timer_by(
    p99: Callable[[BudgetCandidate], float | None], asked: list[BudgetCandidate]
) -> Callable[[BudgetCandidate], Latency]:
    def time_candidate(one: BudgetCandidate) -> Latency:
        asked.append(one)
        return Latency(documents=100, calls=300, p50=1.0, p99=p99(one))

    return time_candidate


BIG, HALF, SMALL = (
    BudgetCandidate(0, rounds, mean) for rounds, mean in ((100, 0.80), (50, 0.78), (10, 0.70))
)
OTHER, OTHER_HALF, LINEAR = (
    BudgetCandidate(1, 60, 0.79),
    BudgetCandidate(1, 30, 0.75),
    BudgetCandidate(2, None, 0.6),
)
ALL = best_first([LINEAR, SMALL, OTHER_HALF, BIG, OTHER, HALF], higher_is_better=True)


def test_the_best_come_first() -> None:
    assert ALL == [BIG, OTHER, HALF, OTHER_HALF, SMALL, LINEAR]
    losses = [one._replace(mean=-one.mean) for one in ALL]
    assert best_first(losses[::-1], higher_is_better=False) == losses
    level = [BudgetCandidate(1, 4, 0.5), BudgetCandidate(0, 9, 0.5), BudgetCandidate(2, 9, math.nan)]
    assert (
        best_first(level, higher_is_better=True) == level[:2]
    )  # of equal ones the cheaper; none without a mean


@pytest.mark.parametrize(
    ("budget", "chosen", "n_timed"),
    [
        (1000, BIG, 1),
        (999, OTHER, 2),
        (500, HALF, 3),
        (499, OTHER_HALF, 4),
        (299, SMALL, 5),
        (99, LINEAR, 6),
        (4, None, 6),
    ],
)
def test_ten_microseconds_a_round(budget: float, chosen: BudgetCandidate | None, n_timed: int) -> None:
    asked: list[BudgetCandidate] = []
    timed = timer_by(lambda one: 10.0 * (one.rounds or 0.5), asked)
    assert best_within(ALL, timed, budget) == chosen
    assert asked == ALL[:n_timed]


def test_more_rounds_than_were_too_slow_are_not_timed() -> None:
    asked: list[BudgetCandidate] = []
    falling = [
        BudgetCandidate(0, 10, 0.9),
        BudgetCandidate(0, 20, 0.8),
        BudgetCandidate(0, 5, 0.7),
        BudgetCandidate(1, 20, 0.6),
    ]
    assert (
        best_within(falling, timer_by(lambda one: 10.0 * (one.rounds or 0) + one.run, asked), 80.0)
        == falling[2]
    )
    assert asked == [falling[0], falling[2]]


def test_a_time_that_was_given_up_is_not_within() -> None:
    assert best_within([BIG], timer_by(lambda one: None, []), 1e9) is None


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(1, 9), st.integers(0, 9)),
        min_size=1,
        unique_by=lambda t: t[:2],
    ),
    st.integers(0, 12),
)
def test_it_is_the_best_of_all_that_are_within(drawn: list[tuple[int, int, int]], budget: int) -> None:
    ordered = best_first([BudgetCandidate(*one) for one in drawn], higher_is_better=True)

    def duration_of(one: BudgetCandidate) -> float:  # run 1 is twice as fast
        return (one.rounds or 0) / (1 + (one.run == 1))

    within = [one.mean for one in ordered if duration_of(one) <= budget]
    found = best_within(ordered, timer_by(duration_of, []), budget)
    assert (None if found is None else found.mean) == (max(within) if within else None)
