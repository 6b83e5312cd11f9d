"""Worlds that were not made to keep the promise: weekdays that a baseline lacks, days that hang together, few users."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ltr_harness.errors import UsageError
from ltr_harness.monitoring.results.result import MonitorResult

Table = Callable[..., pd.DataFrame]
Analyse = Callable[..., MonitorResult]

EVERY = {"compare": {"min_drop": 0.0}}
ALPHA, BEYOND = 0.05, 0.015


def few(runs: int) -> float:
    """More false alarms than this happen in one simulation of a hundred where alpha and 1.5 points are kept."""
    rate = ALPHA + BEYOND
    return rate * runs + 2.4 * np.sqrt(rate * (1 - rate) * runs)


# ---- weekdays that the baseline lacks -----------------------------------------------------------------------


def weeks(mean: Any, days: Any, n: int = 200) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """n queries a day, half of them .01 above the day's mean and half .01 below."""
    day = np.repeat(days, n)
    return np.repeat(np.broadcast_to(mean, len(days)), n) + np.where(
        np.arange(day.size) % 2, 0.01, -0.01
    ), day


WORKDAYS = np.flatnonzero(np.arange(14) % 7 < 5)  # the tables begin on a Monday
WEEKEND = np.where(np.arange(14) % 7 < 5, 0.8, 0.7)


def test_days_that_the_baseline_never_saw_are_not_compared(query_table: Table, analyse: Analyse) -> None:
    values, day = weeks(0.8, WORKDAYS)
    before = query_table(values, days=day, prefix="b")
    values, day = weeks(WEEKEND, np.arange(14))
    found = analyse(query_table(values, days=day), before)
    assert found.healthy
    assert found.changes[0].production.n == 10 * 200
    assert [w.status for w in found.windows] == (["tested"] * 5 + ["untested"] * 2) * 2
    said = "the baseline has no Saturday, Sunday: these days are shown and not compared"
    assert any(notice.startswith(said) for notice in found.notices)
    weekly = analyse(query_table(values, days=day), before, windows={"size": "7d"})
    assert [w.change.value for w in weekly.windows if w.change] == pytest.approx([0.0, 0.0, 0.0], abs=1e-12)
    worse, day = weeks(WEEKEND - 0.1 * (np.arange(14) == 8), np.arange(14))
    assert [w.label for w in analyse(query_table(worse, days=day), before).windows if w.alert] == [
        "2026-01-13"
    ]


def test_a_short_baseline_is_compared_and_said(query_table: Table, analyse: Analyse) -> None:
    values, day = weeks(0.8, np.arange(2))
    before = query_table(values, days=day, prefix="b")
    values, day = weeks(0.7, np.arange(2, 4))
    found = analyse(query_table(values, days=day), before)
    assert not found.healthy
    said = "the baseline has no Wednesday, Thursday: how these days differ by themselves counts as change"
    assert any(notice.startswith(said) for notice in found.notices)


def test_of_a_weekend_alone_nothing_can_be_said(query_table: Table, analyse: Analyse) -> None:
    values, day = weeks(0.8, WORKDAYS)
    before = query_table(values, days=day, prefix="b")
    values, day = weeks(0.8, np.array([5, 6]))
    with pytest.raises(UsageError, match=r"the baseline has no Saturday, Sunday.*whole weeks"):
        analyse(query_table(values, days=day), before)


@pytest.mark.slow
@pytest.mark.parametrize("weekend", [0.0, 0.04, 0.1])
def test_a_working_week_as_the_baseline_of_whole_weeks(
    weekend: float, query_table: Table, analyse: Analyse
) -> None:
    """No season is configured, weekends are worse: 201 of 201 healthy runs alarmed."""
    random = np.random.default_rng(9)
    alarmed, runs = 0, 201
    for _ in range(runs):
        tables = []
        for prefix, days in ("n", np.arange(14)), ("b", WORKDAYS):
            mean = 0.8 - weekend * (days % 7 >= 5) + 0.01 * random.standard_normal(days.size)
            day = np.repeat(days, 300)
            values = np.clip(np.repeat(mean, 300) + 0.15 * random.standard_normal(day.size), 0, 1)
            tables.append(query_table(values, days=day, prefix=prefix))
        alarmed += not analyse(*tables, **EVERY).healthy
    assert alarmed <= few(runs)
