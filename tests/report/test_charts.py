"""Charts are valid Vega-Lite, carry what the tables carry, and say it in words."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest

from ltr_harness.comparison.contrasts import SystemResult
from ltr_harness.report import ReportData, build_report
from ltr_harness.report.blocks import Chart, Report
from ltr_harness.report.chart_engine import VEGALITE_VERSION
from ltr_harness.report.charts import BASELINE, PALETTE, colour_of, file_spec, model_dash, svg
from ltr_harness.report.sections.cost import _FRONT_HEIGHT, _NAME_HEIGHT, _name_offsets
from ltr_harness.report.writing import catalog

from .conftest import system

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def charts(report: Report) -> dict[str, Chart]:
    return {chart.name: chart for chart in report.charts}


def test_the_charts_of_a_full_report(charts: dict[str, Chart]) -> None:
    assert list(charts) == [
        "difference_over_k",
        "paired_differences",
        "difference_distribution",
        "value_distribution",
        "learning_curves",
        "pareto_front",
    ]


def test_specs_follow_the_schema(charts: dict[str, Chart], chart_schema: Any) -> None:
    for chart in charts.values():
        chart_schema.validate(file_spec(chart.spec))
    wrong = {**file_spec(charts["difference_over_k"].spec), "datum": 3}
    assert not chart_schema.is_valid(wrong)


def test_intervals_drawn_are_the_intervals_computed(charts: dict[str, Chart], data: ReportData) -> None:
    drawn = charts["paired_differences"].spec["data"]["values"]
    assert [row["model"] for row in drawn] == list(data.rivals)
    for row in drawn:
        pair = data.paired(row["model"], data.primary)
        assert pair is not None
        found = (row["difference"], row["low"], row["high"])
        assert found == pytest.approx((pair.difference, pair.ci_low, pair.ci_high), abs=1e-6)


def test_histograms_hold_every_query_once(charts: dict[str, Chart], data: ReportData) -> None:
    for name, models in (("value_distribution", data.models), ("difference_distribution", data.rivals)):
        rows = charts[name].spec["data"]["values"]
        assert {row["model"]: sum(row["count"]) for row in rows} == dict.fromkeys(models, data.n_defined)
        assert all(row["n"] == data.n_defined and len(row["from"]) == len(row["count"]) for row in rows)


def test_differences_over_k_are_those_of_the_table(charts: dict[str, Chart], data: ReportData) -> None:
    rows = charts["difference_over_k"].spec["data"]["values"]
    assert {row["k"] for row in rows} == {1, 3, 5, 10}
    for row in rows:
        assert row["metric"] == f"ndcg@{row['k']}"  # the primary metric's alone
        pair = data.paired(row["model"], row["metric"])
        assert pair is not None
        found = (row["difference"], row["low"], row["high"])
        assert found == pytest.approx((pair.difference, pair.ci_low, pair.ci_high), abs=1e-6)


def test_differences_over_k_are_one_panel_within_the_range_of_the_metric(
    make_data: Callable[..., ReportData], make_system: Callable[..., SystemResult]
) -> None:
    """With two queries the interval of a difference is far wider than a metric in [0, 1] can differ."""
    metrics = ["ndcg@5", "ndcg@10"]
    systems = [make_system(name, 0.2 * at, n=6, empty=0, metrics=metrics) for at, name in enumerate("AB")]
    (chart,) = (
        block
        for block in catalog.load("cutoffs")(make_data(systems=systems, with_runs=False))
        if isinstance(block, Chart)
    )
    assert "facet" not in chart.spec
    (domain,) = {
        tuple(channel["scale"]["domain"])
        for layer in chart.spec["layer"]
        if "domain" in (channel := layer["encoding"]["y"]).get("scale", {})
    }
    assert -1 <= domain[0] < domain[1] <= 1


def test_words_name_every_model(charts: dict[str, Chart], data: ReportData) -> None:
    for chart in charts.values():
        drawn = {row["model"] for row in chart.spec["data"]["values"]}
        assert all(name in chart.text for name in drawn)


def test_names_never_become_program_text(
    make_data: Callable[..., ReportData], make_system: Callable[..., SystemResult], hostile_names: list[str]
) -> None:
    """Compiled to Vega, names stand in data and in lists of values, never in an expression."""
    import vl_convert

    def expressions(value: object, key: str = "") -> list[str]:
        if isinstance(value, dict):
            return [
                text for k, v in value.items() if k not in ("values", "domain") for text in expressions(v, k)
            ]
        if isinstance(value, list):
            return [text for item in value for text in expressions(item, key)]
        return [value] if isinstance(value, str) and key in ("expr", "signal", "test", "update") else []

    half = len(hostile_names) // 2
    pairs = [
        f"{first}{second}" for first, second in zip(hostile_names[:half], hostile_names[half:], strict=True)
    ]
    metrics = [*(f"{name}@1" for name in pairs), f"{pairs[3]}@2"]  # the primary one over K
    systems = [make_system(name, 0.01 * at, n=60, empty=10, metrics=metrics) for at, name in enumerate(pairs)]
    data = make_data(systems=systems, draws=200)
    names = [name for name in hostile_names if name.strip()]
    drawn = build_report(data).charts
    assert "difference_over_k" in [chart.name for chart in drawn]
    for chart in drawn:
        found = expressions(vl_convert.vegalite_to_vega(dict(chart.spec), vl_version=VEGALITE_VERSION))
        assert len(found) > 5
        for text in found:
            assert not any(name in text or json.dumps(name)[1:-1] in text for name in names), text


def test_pictures_need_no_network_and_are_repeatable(charts: dict[str, Chart]) -> None:
    chart = charts["paired_differences"]
    first = svg(chart)
    assert first.startswith("<svg ")
    assert "xgb-ndcg" in first
    assert first == svg(chart)


def test_a_far_off_model_does_not_squeeze_the_others(make_data: Callable[..., ReportData]) -> None:
    models = {"lambdarank": 0.1, "xendcg": 0.107, "ndcg": 0.13, "random": -0.6, "best-feature": -0.3}
    systems = [system(name, quality, seeds=4) for name, quality in models.items()]
    data = make_data(models, systems=systems)  # two seeds know too little for any model to be far off
    chart = {one.name: one for one in build_report(data).charts}["paired_differences"]
    rows = {row["model"]: row for row in chart.spec["data"]["values"]}
    assert rows["random"]["beyond"].startswith("◂ -0.")
    assert [name for name, row in rows.items() if "beyond" in row] == ["best-feature", "random"]
    dots = chart.spec["layer"][2]
    low, high = dots["encoding"]["x"]["scale"]["domain"]
    assert rows["random"]["left"] == low > rows["random"]["high"]
    assert all(low < row["low"] and row["high"] < high for row in rows.values() if "beyond" not in row)
    # pictures in files are not clipped: what lies outside must not be drawn there
    assert dots["transform"] == [{"filter": "!isValid(datum.beyond)"}]
    assert "arrows point to models far outside" in str(chart.title)
    assert "random: -0." in chart.text


def test_an_axis_for_all_where_no_sign_is_open(make_data: Callable[..., ReportData]) -> None:
    data = make_data({"base": 0.0, "near": 0.2, "far": -0.6})
    chart = {one.name: one for one in build_report(data).charts}["paired_differences"]
    assert not [row for row in chart.spec["data"]["values"] if "beyond" in row]
    assert "scale" not in chart.spec["layer"][2]["encoding"]["x"]
    assert "arrows" not in str(chart.title)


def test_models_have_seven_hues_and_then_dashes_and_the_baseline_is_grey(
    make_data: Callable[..., ReportData], make_system: Callable[..., SystemResult]
) -> None:
    metrics = ["ndcg@5", "ndcg@10"]
    systems = [make_system(f"m{at}", 0.005 * at, metrics=metrics) for at in range(10)]
    data = make_data(systems=systems, baseline="m4", draws=200, with_runs=False)
    colours = {name: colour_of(number) for name, number in data.colours.items()}
    assert colours["m4"] == BASELINE
    assert len({colours[name] for name in data.rivals}) == len(PALETTE) == 7
    drawn = [name for name in data.comparison.models if name != "m4"]
    assert [colours[name] for name in drawn] == [*PALETTE, *PALETTE[:2]]
    dash = model_dash(data, drawn)["strokeDash"]["scale"]["range"]
    assert dash == [[1, 0]] * 7 + [[6, 3]] * 2
    assert model_dash(data, drawn[:7]) == {}


def test_names_beside_the_cost_chart_do_not_overlap() -> None:
    ends = [0.89, 0.8899, 0.8898, 0.75, 0.89]
    offsets = _name_offsets(ends, [*ends, 0.6])
    places = sorted(
        (0.89 - end) * _FRONT_HEIGHT / 0.29 + offset for end, offset in zip(ends, offsets, strict=True)
    )
    gaps = [after - before for before, after in itertools.pairwise(places)]
    assert min(gaps) >= _NAME_HEIGHT - 0.2
    assert places[0] >= 0
    assert _name_offsets([0.5], [0.5, 0.7]) == [0.0]
