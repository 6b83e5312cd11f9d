"""Small charts of everything over windows: what they hold, counted by hand, and the windows that raised an alert."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from ltr_harness.monitoring.inputs import most_drifted
from ltr_harness.monitoring.over_time import section
from ltr_harness.monitoring.page import MONITOR_SECTIONS, build_monitor_report
from ltr_harness.monitoring.result import MonitorResult, OverTime
from ltr_harness.report.blocks import Chart, Paragraph

from .conftest import drift  # type: ignore[import-not-found]

Table = Callable[..., pd.DataFrame]
Analyse = Callable[..., MonitorResult]

DAYS, A_DAY = 6, 400
MILLISECONDS = 86_400_000
MONDAY = int(np.datetime64("2026-01-05", "ms").astype(np.int64))
SETTINGS = {"windows": {"min_queries": 100, "trailing": 1}, "slices": {"max_predicates": 1}}


def table(query_table: Table, *, bad: tuple[int, ...] = ()) -> pd.DataFrame:
    """Half of the queries are of country A and half of B; on bad days A has .5 and f is 3 higher."""
    n = DAYS * A_DAY
    days, of_a = np.repeat(np.arange(DAYS), A_DAY), np.arange(n) % 2 == 0
    values = 0.9 + 0.02 * ((np.arange(n) // 2) % 2 - 0.5)  # .89 and .91 in turns, .9 in each half
    values[np.isin(days, bad) & of_a] -= 0.4
    f = (np.arange(n) // 2 % 100) / 100 + 3 * np.isin(days, bad)
    segments = {"country": np.where(of_a, "A", "B")}
    return query_table(
        values, days=days, segments=segments, features={"f": f}, prefix=f"{len(bad)}-", relevant=of_a
    )


@pytest.fixture(scope="module")
def result(query_table: Table, analyse: Analyse) -> MonitorResult:
    return analyse(table(query_table, bad=(3, 4)), table(query_table), **SETTINGS)


def charts_by_name(result: MonitorResult) -> dict[str, Chart]:
    return {block.name: block for block in section(result) if isinstance(block, Chart)}


def test_the_worst_segment_comes_first(result: MonitorResult) -> None:
    first, second = result.over_time.segments
    assert (first.predicate, second.predicate) == ("country=A", "country=B")
    assert first.before == pytest.approx(0.9)
    assert first.means == pytest.approx([0.9, 0.9, 0.9, 0.5, 0.5, 0.9])
    assert second.means == pytest.approx([0.9] * DAYS)
    assert first.n_queries == (A_DAY // 2,) * DAYS


def test_a_feature_drifts_on_the_bad_days_alone(result: MonitorResult) -> None:
    by_name = {f.name: f for f in result.over_time.features}
    assert list(by_name) == ["f", "country"]  # by how far they moved
    f = by_name["f"]
    above = [psi > limit for psi, limit in zip(f.psi, f.psi_thresholds, strict=True)]
    assert above == [False, False, False, True, True, False]
    # nine of ten bins lost their tenth, down to the floor, and the last one has everything
    expected = 9 * (0.1 - 1e-4) * math.log(0.1 / 1e-4) + 0.9 * math.log(10)
    assert f.psi[3] == pytest.approx(expected, rel=0.02)
    assert f.psi[0] == pytest.approx(0, abs=1e-9)


def test_every_series_is_drawn_beside_its_baseline(result: MonitorResult) -> None:
    charts = charts_by_name(result)
    assert [*charts] == [f"{name}_over_time" for name in ("metrics", "segments", "features", "labels")]
    rows = charts["segments_over_time"].spec["data"]["values"]
    assert [row["0"] for row in rows] == [0.9, 0.9, 0.9, 0.5, 0.5, 0.9]
    assert [row["1"] for row in rows] == [0.9] * DAYS
    (lookup,) = [one["from"] for one in charts["segments_over_time"].spec["transform"] if "lookup" in one]
    about = lookup["data"]["values"]
    assert [(row["model"], row["baseline"]) for row in about] == [("country=A", 0.9), ("country=B", 0.9)]
    metrics = charts["metrics_over_time"].spec["data"]["values"]
    assert [row["0"] for row in metrics] == [0.9, 0.9, 0.9, 0.7, 0.7, 0.9]
    assert [row["at"] for row in metrics] == [MONDAY + int((day + 0.5) * MILLISECONDS) for day in range(DAYS)]
    labels = charts["labels_over_time"].spec["data"]["values"]
    assert [(row["0"], row["1"]) for row in labels] == [
        (0.5, A_DAY)
    ] * DAYS  # relevant, and how many there are


def test_the_windows_that_raised_an_alert_are_marked_in_all(result: MonitorResult) -> None:
    assert [w.label for w in result.windows if w.alert] == ["2026-01-08", "2026-01-09"]
    for chart in charts_by_name(result).values():
        bands = chart.spec["spec"]["layer"][0]
        assert bands["mark"]["type"] == "rect"
        assert bands["data"]["values"] == [{"at": MONDAY + 3 * MILLISECONDS, "to": MONDAY + 5 * MILLISECONDS}]
        assert "red bands raised an alert of a metric" in chart.title
        assert chart.text.startswith(
            "2 of 6 windows raised an alert of a metric, from 2026-01-08 to 2026-01-09. "
        )
    words = charts_by_name(result)["segments_over_time"].text
    assert "country=A: 0.9 in the baseline, 0.5 where the alert was raised, 0.9 in the others." in words
    assert "above its limit in 2 of 6 windows" in charts_by_name(result)["features_over_time"].text


def test_windows_whose_labels_raised_an_alert_are_marked(result: MonitorResult) -> None:
    """The metric raises no alert in windows whose labels are lost."""
    windows = tuple(
        replace(w, alert=False, trailing_alert=False, running_alert=False) for w in result.windows
    )
    tests = tuple(replace(test, alert=test.window in ("2026-01-06", "all")) for test in result.labels)
    alert = replace(result.alerts[0], kind="label_rate", window="")
    lost = replace(result, windows=windows, labels=tests, alerts=(alert,))
    chart = charts_by_name(lost)["labels_over_time"]
    assert chart.spec["spec"]["layer"][0]["data"]["values"] == [
        {"at": MONDAY + MILLISECONDS, "to": MONDAY + 2 * MILLISECONDS}
    ]
    assert "1 of 6 windows raised an alert of a label rate" in chart.text
    assert "its own alerts in 1 window." in chart.text


def test_a_healthy_log_has_no_bands(query_table: Table, analyse: Analyse) -> None:
    found = analyse(table(query_table), table(query_table), **SETTINGS)
    for chart in charts_by_name(found).values():
        assert all(layer["mark"]["type"] != "rect" for layer in chart.spec["spec"]["layer"])
        assert "alert" not in f"{chart.title} {chart.text}"


def test_without_a_baseline_the_lowest_segments_are_drawn(query_table: Table, analyse: Analyse) -> None:
    found = analyse(table(query_table, bad=(3, 4)), None, **SETTINGS)
    assert [s.predicate for s in found.over_time.segments] == ["country=A", "country=B"]
    assert math.isnan(found.over_time.segments[0].before)
    charts = charts_by_name(found)
    assert [*charts] == ["metrics_over_time", "segments_over_time", "labels_over_time"]
    assert "baseline" not in charts["metrics_over_time"].title


def test_a_pair_of_conditions_is_drawn(query_table: Table, analyse: Analyse) -> None:
    """A value may hold the word between the two conditions."""
    n = DAYS * A_DAY
    days, at = np.repeat(np.arange(DAYS), A_DAY), np.arange(n)
    segments = {"city": np.where(at % 2, "x & y", "z"), "device": np.where(at // 2 % 2, "mobile", "desktop")}
    values = 0.9 + 0.02 * (at // 4 % 2 - 0.5)
    fallen = values - 0.3 * (at % 4 == 3)  # x & y on a mobile
    before = query_table(values, days=days, segments=segments, prefix="b")
    found = analyse(query_table(fallen, days=days, segments=segments), before, windows={"min_queries": 100})
    assert found.slices[0].predicate == "city=x & y & device=mobile"
    first = found.over_time.segments[0]
    assert first.predicate == found.slices[0].predicate
    assert first.means == pytest.approx([0.6] * DAYS)
    assert first.n_queries == (A_DAY // 4,) * DAYS


def test_few_queries_have_no_drift(query_table: Table, analyse: Analyse) -> None:
    """With fewer than ten queries for each bin some bins are empty by chance, and PSI is far too high."""
    now = table(query_table).iloc[::5].reset_index(drop=True)
    found = analyse(now, table(query_table), **{**SETTINGS, "windows": {"min_queries": 20, "trailing": 1}})
    assert all(np.isnan(f.psi).all() for f in found.over_time.features)
    notes = [block.text for block in section(found) if isinstance(block, Paragraph)]
    assert notes == ["No window has queries enough for the drift of features."]
    assert "features_over_time" not in charts_by_name(found)


def test_hundreds_of_windows_are_lines_alone(result: MonitorResult) -> None:
    """Points of each would keep a browser busy for seconds; a row is a window, for all panels."""
    many = [result.windows[at % DAYS] for at in range(600)]
    series = tuple(
        replace(s, means=s.means * 100, n_queries=s.n_queries * 100) for s in result.over_time.segments
    )
    long = replace(result, windows=tuple(many), labels=(), over_time=OverTime(series))
    for chart in charts_by_name(long).values():
        assert all(layer["mark"]["type"] != "point" for layer in chart.spec["spec"]["layer"])
        assert len(json.dumps(chart.spec)) < 600 * 120


def test_one_window_is_no_series(query_table: Table, analyse: Analyse) -> None:
    one = table(query_table).query("time == time.min()")
    found = analyse(one, table(query_table), **SETTINGS)
    assert found.over_time == OverTime()
    assert section(found) == []


def test_the_first_screen_is_as_it_was(result: MonitorResult) -> None:
    sections = build_monitor_report(result).sections
    assert [section.name for section in sections][:4] == ["verdict", "metrics", "windows", "over_time"]
    assert [chart.name for chart in sections[0].charts] == ["windows"]
    assert "over_time" in MONITOR_SECTIONS


def test_of_a_feature_what_moved_most_is_drawn_and_broken_ones_first() -> None:
    """One panel is enough for all the statistics of one feature."""
    drifts = [
        drift("price", name="price:mean", psi=0.2),
        drift("price", name="price:std", psi=0.4),
        drift("f", psi=0.1, broken="is 0 in every query"),
        drift("g", psi=0.3),
    ]
    assert most_drifted(drifts) == ["f", "price:std", "g"]


def test_tables_of_all_of_production_have_names_of_their_own(result: MonitorResult) -> None:
    """The windows that raised the alert have tables too, with other captions."""
    captions = [table.caption for table in build_monitor_report(result).tables]
    assert len(set(captions)) == len(captions)
    assert "Features and segments, one value per query, in all of production." in captions


def test_a_limit_is_a_line_with_its_name_in_the_panel_of_its_metric(
    query_table: Table, analyse: Analyse
) -> None:
    settings = {**SETTINGS, "alerts": {"below": {"ndcg@10": 0.85}}}
    found = analyse(table(query_table, bad=(3, 4)), table(query_table), **settings)
    charts = charts_by_name(found)
    chart = charts["metrics_over_time"]
    assert chart.title.startswith(
        "Each metric by window, the dashed line is the baseline, the dotted line is the limit"
    )
    (lookup,) = [one["from"] for one in chart.spec["transform"] if "lookup" in one]
    assert [(row["model"], row["limit"]) for row in lookup["data"]["values"]] == [("ndcg@10", 0.85)]
    assert "limit" in lookup["fields"]
    rule, name, *_ = chart.spec["spec"]["layer"][-3:]
    assert rule["mark"]["type"] == "rule"
    assert rule["encoding"]["y"]["field"] == "min_limit"
    assert name["encoding"]["text"]["field"] == "name"
    assert "below its limit 0.85 in 2 of 6 windows" in chart.text  # .7 on both bad days
    assert "limit" not in charts["segments_over_time"].text


def test_without_limits_nothing_is_drawn_for_them(result: MonitorResult) -> None:
    chart = charts_by_name(result)["metrics_over_time"]
    assert "limit" not in json.dumps(chart.spec)
    assert "limit" not in f"{chart.title} {chart.text}"
