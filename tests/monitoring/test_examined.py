"""Places and causes concern the windows that raised the alert, and a negative sentence names the searched part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ltr_harness.monitoring.page import build_monitor_report
from ltr_harness.monitoring.result import MonitorResult
from ltr_harness.report.blocks import Details, Paragraph, Table

Table_ = Callable[..., pd.DataFrame]
Analyse = Callable[..., MonitorResult]
DAYS, PER_DAY = 10, 300


def sides(table: Table_, drop: Any) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Ten days of three countries, of which production falls by (days, countries) `drop`."""
    random = np.random.default_rng(4)
    day, country = np.repeat(np.arange(DAYS), PER_DAY), np.tile(np.arange(3), DAYS * PER_DAY // 3)
    tables = []
    for prefix in "nb":
        values = (
            0.8 + 0.1 * random.standard_normal(day.size) - (prefix == "n") * np.asarray(drop)[day, country]
        )
        f = random.standard_normal(day.size) + (prefix == "n") * (np.asarray(drop)[day].max(axis=1) > 0)
        names = np.array(list("ABC"))[country]
        tables.append(table(values, days=day, segments={"country": names}, features={"f": f}, prefix=prefix))
    return tables[0], tables[1]


def falls(days: Any, countries: Any, by: float) -> Any:
    drop = np.zeros((DAYS, 3))
    drop[np.ix_(days, countries)] = by
    return drop


def test_two_bad_days_of_ten_are_not_averaged_over_ten(query_table: Table_, analyse: Analyse) -> None:
    found = analyse(*sides(query_table, falls([8, 9], [2], 0.5)))
    part = found.examined
    assert part is not None
    assert part.windows == ("2026-01-13", "2026-01-14")
    assert part.n_queries == 2 * PER_DAY
    assert part.difference.value == pytest.approx(-0.5 / 3, abs=0.02)
    assert part.production - part.baseline == pytest.approx(part.difference.value)
    (worst,) = found.slices
    assert worst.predicate == "country=C"
    assert worst.before - worst.now == pytest.approx(0.5, abs=0.03)  # and not a tenth over all days
    assert found.whole is not None
    assert found.whole.slices[0].before - found.whole.slices[0].now == pytest.approx(0.1, abs=0.03)
    (drift,) = (f for f in found.drift if f.name == "f")
    (averaged,) = (f for f in found.whole.drift if f.name == "f")
    assert drift.drifted
    assert drift.psi > 5 * averaged.psi
    assert found.verdict.what.startswith("ndcg@10 fell in 2 of 10 windows, first 2026-01-13: ")
    assert {w.window for w in found.worst_queries} <= {"2026-01-13", "2026-01-14"}


def test_the_page_says_which_days_and_has_the_whole_beside(query_table: Table_, analyse: Analyse) -> None:
    found = analyse(*sides(query_table, falls([8, 9], [2], 0.5)))
    said = "Of 600 queries in 2 of 10 windows (2026-01-13 to 2026-01-14), which raised the alert."
    shown = {section.name: section.blocks for section in build_monitor_report(found).sections}
    for name, whole in (("slices", "slices_whole"), ("mix", "mix_whole"), ("drift", "drift_whole")):
        assert any(isinstance(b, Paragraph) and b.text == said for b in shown[name]), name
        inner = [table for b in shown[name] if isinstance(b, Details) for table in b.blocks]
        assert any(isinstance(table, Table) and table.name == whole for table in inner), name


@pytest.mark.parametrize("days", [range(10), [0, 2, 4, 6, 8]])
def test_where_all_days_fell_all_are_examined(days: Any, query_table: Table_, analyse: Analyse) -> None:
    drop = falls(range(10), range(3), 0.05) + falls(days, range(3), 0.02)
    found = analyse(*sides(query_table, drop))
    assert found.alerts
    assert (found.examined, found.whole) == (None, None)


def test_without_an_alert_all_is_examined(query_table: Table_, analyse: Analyse) -> None:
    found = analyse(*sides(query_table, falls([], [], 0)))
    assert (found.examined, found.whole, found.healthy) == (None, None, True)


def test_a_small_lasting_fall_is_examined_where_the_trailing_mean_saw_it(
    query_table: Table_, analyse: Analyse
) -> None:
    """None of the three days behind the surest trailing mean is significant by itself."""
    found = analyse(*sides(query_table, falls([7, 8, 9], range(3), 0.017)), windows={"trailing": 3})
    assert not any(w.alert for w in found.windows)
    assert any(w.trailing_alert for w in found.windows)
    assert found.examined is not None
    assert found.examined.windows == ("2026-01-12", "2026-01-13", "2026-01-14")


def test_small_segments_of_a_short_period_are_searched(query_table: Table_, analyse: Analyse) -> None:
    """One of eight countries is reversed on one day: 26 queries, and the limit was 50."""
    random = np.random.default_rng(3)
    sides = []
    for prefix, n in (("n", 26), ("b", 260)):
        country = np.tile(list("ABCDEFGH"), n)
        values = (
            0.9 + 0.05 * random.standard_normal(country.size) - 0.4 * ((prefix == "n") & (country == "C"))
        )
        sides.append(query_table(values, segments={"country": country}, prefix=prefix))
    found = analyse(*sides)
    assert [s.predicate for s in found.slices] == ["country=C"]
    # field by field: from Python 3.13 on, classes with the same NaN, as in lowest_mean, are no longer equal
    (column,) = found.searched
    assert (column.column, column.n_values, column.n_searched, column.least) == ("country", 8, 8, 20)
    assert column.lowest == ""


def test_segments_too_small_to_search_are_counted_and_the_worst_is_named(
    query_table: Table_, analyse: Analyse
) -> None:
    """The 213 queries are of three countries of 60, one of 16 at .5, one of 15 at .6, and two of one query at .1."""
    sizes = {"A": 60, "B": 60, "C": 60, "D": 16, "E": 15, "F": 1, "G": 1}
    means = {"D": 0.5, "E": 0.6, "F": 0.1, "G": 0.1}
    country = np.repeat(list(sizes), list(sizes.values()))
    wave = 0.01 * (-1.0) ** np.arange(country.size)
    now = np.array([means.get(name, 0.7) for name in country]) + wave
    found = analyse(
        query_table(now, segments={"country": country}),
        query_table(np.full(country.size, 0.9) + wave, segments={"country": country}, prefix="b"),
    )
    (column,) = found.searched
    assert (column.n_values, column.n_searched, column.least) == (7, 3, 20)
    assert (column.lowest, column.lowest_n) == ("D", 16)
    assert column.lowest_mean == pytest.approx(0.5, abs=0.001)
    too_small = "4 of 7 values of country have fewer than 20 queries and were not tested"
    said = f"{too_small}; the lowest is D, 0.50 (16 queries)."
    paragraphs = [
        b.text
        for s in build_monitor_report(found).sections
        if s.name == "slices"
        for b in s.blocks
        if isinstance(b, Paragraph)
    ]
    assert said in paragraphs
