"""The interval beside a test is the test's: it holds 0 exactly where the test is not significant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ltr_harness.comparison.stats.two_samples import Alternative, estimate_of
from ltr_harness.monitoring.load import load_monitor_config
from ltr_harness.monitoring.result import MonitorResult

Table = Callable[..., pd.DataFrame]
Analyse = Callable[..., MonitorResult]


@pytest.mark.parametrize("alternative", ["drop", "rise", "change"])
@pytest.mark.parametrize("value", [-0.3, -0.19, -0.18, -0.17, -0.16, 0.16, 0.17, 0.19, 0.3])
def test_an_interval_holds_0_where_p_is_above_alpha(alternative: Alternative, value: float) -> None:
    """An error of .1 and 1,000 degrees of freedom: one-sided p is .05 at .1646, two-sided at .1962."""
    found = estimate_of(value, 0.01, 1000.0, alternative, 0.95, 1000)
    beyond = {"drop": found.high < 0, "rise": found.low > 0, "change": found.direction != ""}[alternative]
    assert beyond == (found.p < 0.05)


def test_no_interval_is_surer_than_the_tests() -> None:
    def confidence(**sections: Any) -> float:
        return load_monitor_config({"columns": {"rank": "rank"}, **sections}).confidence

    assert confidence() == 0.95
    assert confidence(compare={"alpha": 0.2}) == 0.8
    assert confidence(compare={"confidence": 0.99}) == 0.95
    assert confidence(compare={"confidence": 0.9}) == 0.9
    assert confidence(slices={"alpha": 0.1}) == pytest.approx(0.9)


def alert_intervals(table: Table, analyse: Analyse, logs: int, shift: float) -> list[float]:
    """The upper ends of the intervals of alerts, of logs without times whose mean fell by about two errors."""
    random, ends = np.random.default_rng(16), []
    for _ in range(logs):
        sides = [
            table(0.7 - drop + 0.1 * random.standard_normal(400), prefix=p)
            for drop, p in ((shift, "n"), (0, "b"))
        ]
        found = analyse(*sides)
        ends += [found.changes[0].difference.high] if found.alerts else []
    return ends


@pytest.mark.long
def test_the_interval_of_an_alert_of_a_log_without_times_leaves_out_0(
    query_table: Table, analyse: Analyse
) -> None:
    ends = alert_intervals(query_table, analyse, 30, 0.013)
    assert len(ends) > 5
    assert max(ends) < 0


@pytest.mark.slow
def test_the_intervals_of_many_alerts_leave_out_0(query_table: Table, analyse: Analyse) -> None:
    """8 of 55 alerts had an interval that holds 0."""
    ends = alert_intervals(query_table, analyse, 500, 0.013)
    assert len(ends) > 100
    assert max(ends) < 0
