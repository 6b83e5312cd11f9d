"""The metric over time and in each fold."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ltr_harness._util.json_values import none_if_undefined
from ltr_harness.comparison.contrasts import SMALLEST
from ltr_harness.comparison.over_time import FOLD, PeriodResult, sign, signs_cautions
from ltr_harness.data.time_folds import period_in
from ltr_harness.report import charts, formats
from ltr_harness.report.blocks import Block, Chart, Column, Estimate, Heading, Paragraph, Table, axis_of
from ltr_harness.report.data import ReportData
from ltr_harness.report.sections.verdict import near_models

Ends = tuple[float, float, float]  # an estimate with both ends of its interval


def section(data: ReportData) -> list[Block]:
    rows = data.comparison.over_time
    periods = [row for row in rows if row.unit != FOLD and row.n]
    folds = [row for row in rows if row.unit == FOLD]
    if not periods:
        return []
    introduction = Paragraph(_introduction(data, periods[0].unit))
    blocks: list[Block] = [_heading(data, periods), introduction, _mean_chart(data, periods, folds)]
    if near_models(data):
        blocks.append(_difference_chart(data, periods, folds))
    if folds and data.rivals:
        blocks.append(_table(data, folds))
    return blocks


def _introduction(data: ReportData, unit: str) -> str:
    """Return the sentences on points and bands; a point is of one `unit`, such as a week."""
    unit_attribute = data.comparison.method.unit
    over = "queries" if unit_attribute is None or period_in(unit_attribute) else f"units of {unit_attribute}"
    text = (
        f"A point is the {data.weighted}mean of a {unit}, and the band its {data.confidence_label} interval over "
        f"{over}, each by itself and from {SMALLEST} {over} on. The spread of the {unit}s shows how much the next one "
        "can differ."
    )
    if data.over_seeds:
        text += (
            " Bands and intervals of folds are of these trained models; the verdict allows for other seeds."
        )
    return text


def _heading(data: ReportData, periods: list[PeriodResult]) -> Heading:
    """Return the heading with the fewest folds in which a model's difference has the sign of the whole.

    Without folds in time it has the means of the best model; with them, time is what the experiment is about.
    """
    signs = data.comparison.fold_signs
    if not signs:
        best = [row for row in periods if row.model == data.models[0]]
        low, high = min(row.mean for row in best), max(row.mean for row in best)
        finding = (
            f"{data.models[0]} from {formats.metric(low)} to {formats.metric(high)} in a {periods[0].unit}"
        )
        return Heading("Over time", finding=finding)
    weakest = min(signs, key=lambda model: model.agreeing / model.folds)
    cautions = signs_cautions(signs, [data.comparison.paired(name) for name in data.rivals])
    finding = f"the sign agrees in {weakest} folds"
    if len(signs) > 1:
        finding += " for all" if weakest.agreeing == weakest.folds else f" for {weakest.model}"
    return Heading("Over time", finding=finding, matters=bool(cautions), asked=True)


def _mean(row: PeriodResult) -> Ends:
    return row.mean, row.ci_low, row.ci_high


def _difference(row: PeriodResult) -> Ends:
    return row.difference, row.difference_ci_low, row.difference_ci_high


def _points(
    models: Sequence[str],
    periods: list[PeriodResult],
    folds: list[PeriodResult],
    estimate: Callable[[PeriodResult], Ends],
) -> dict[str, list[dict[str, Any]]]:
    """Return the points of each model that has any, in the middle of their periods, with the begins of folds."""
    points = {}
    fold_begins = sorted({_milliseconds(row.period) for row in folds})
    for name in models:
        model_rows = [row for row in periods if row.model == name]
        if not model_rows:
            continue
        points[name] = [_point(row, estimate(row)) for row in model_rows]
        step = max(
            1, math.ceil(len(fold_begins) / len(model_rows))
        )  # a point has one begin of a fold at most
        for point, begin in zip(points[name], fold_begins[::step], strict=False):
            point["fold"] = begin
    return points


def _point(row: PeriodResult, estimate: Ends) -> dict[str, Any]:
    value, low, high = (none_if_undefined(round(number, 6)) for number in estimate)
    middle = (_milliseconds(row.first_day) + _milliseconds(row.last_day)) // 2
    labels = {"model": row.model, "period": row.period, "at": middle, "queries": row.n}
    return {**labels, "value": value, "low": low, "high": high}


def _milliseconds(day: str) -> int:
    return int(np.datetime64(day, "ms").astype(np.int64))


def _mean_chart(data: ReportData, periods: list[PeriodResult], folds: list[PeriodResult]) -> Chart:
    """Return the means of all models in one picture."""
    points = _points(data.models, periods, folds, _mean)
    rows = _rows(points)
    axis = {"minExtent": 44, "tickCount": 5}
    colour = charts.named_colour(data, list(points))
    spec = charts.wide(
        rows,
        190,
        autosize=charts.FIT,
        layer=_layers(axis, colour, ".4f", charts.model_dash(data, list(points))),
    )
    title = f"{data.weighted}{data.primary} by {periods[0].unit}"
    descriptions = [
        f"{name}: {_range(model_points, formats.metric)}" for name, model_points in points.items()
    ]
    return Chart("over_time", title + _fold_note(folds), spec, " ".join(descriptions))


def _difference_chart(data: ReportData, periods: list[PeriodResult], folds: list[PeriodResult]) -> Chart:
    """Return the differences on the same axis of time, each of several models in a panel of its own."""
    points = _points(near_models(data), periods, folds, _difference)
    rows = _rows(points)
    axis = {"minExtent": 44, "tickCount": 5, "format": "+.3~f"}
    zero = charts.layer(charts.DASHED, y={"datum": 0})
    layers = [zero, *_layers(axis, charts.model_colour(data, list(points)), "+.4f")]
    title = f"Difference in {data.weighted}{data.primary} to {data.baseline} by {periods[0].unit}"
    spec = charts.wide(rows, 150, autosize=charts.FIT, layer=layers)
    if len(points) > 1:  # panels have the names above them
        spec = charts.small_multiples(list(points), rows, {"layer": layers}, y_axis_width=44)
        title += ", each model on its own scale"
    descriptions = []
    for name, model_points in points.items():
        n_above = sum(point["value"] > 0 for point in model_points)
        above_text = f"above 0 in {n_above:,} of {len(model_points):,}"
        descriptions.append(f"{name}: {above_text}, {_range(model_points, formats.difference)}")
    return Chart("difference_over_time", title + _fold_note(folds), spec, " ".join(descriptions))


def _rows(points: Mapping[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return charts.with_places(
        [point for model_points in points.values() for point in model_points], list(points)
    )


def _layers(
    axis: dict[str, Any], colour: dict[str, Any], number_format: str, dash: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """Return the begins of folds, bands, lines and points; `dash` is the channel of lines that share a hue."""
    y = charts.quantitative("value", title=None, scale={"zero": False}, axis=axis)
    shared = {"x": charts.TIME_AXIS, "y": y, "color": colour}
    tooltip = charts.tooltip("model", "period", "queries")
    tooltip += charts.tooltip(value=number_format, low=number_format, high=number_format)
    line, rule = {"type": "line", "strokeWidth": 1.6}, {"type": "rule", "strokeDash": [2, 3]}
    band = {**shared, "y": {**y, "field": "low"}, "y2": {"field": "high"}, "opacity": charts.fade(0.16, 0.03)}
    begins = charts.layer(rule, x={**charts.TIME_AXIS, "field": "fold"})
    return [
        {"transform": [{"filter": "isValid(datum.fold)"}], **begins},
        charts.layer({"type": "area"}, **band),
        charts.layer(line, **shared, **(dash or {}), opacity=charts.fade()),
        charts.layer(charts.dots(16), **shared, opacity=charts.fade(), tooltip=tooltip),
    ]


def _range(points: list[dict[str, Any]], write: Callable[[float], str]) -> str:
    low, high = (pick(points, key=lambda point: point["value"]) for pick in (min, max))
    return f"from {write(low['value'])} in {low['period']} to {write(high['value'])} in {high['period']}."


def _fold_note(folds: list[PeriodResult]) -> str:
    return "; folds begin at the dotted lines" if folds else ""


def _table(data: ReportData, folds: list[PeriodResult]) -> Table:
    overall_signs = {name: sign(data.comparison.paired(name).difference) for name in data.rivals}
    near_names = near_models(data)
    near_rows = [row for row in folds if row.model in near_names]
    axis = axis_of(end for row in near_rows for end in (row.difference_ci_low, row.difference_ci_high))
    over = data.comparison.method.unit or "query"
    caution = "each by itself; a fold that is picked afterwards proves less"
    return Table.of(
        "folds",
        f"The test parts of the folds in time at {data.weighted}{data.primary}, against {data.baseline}.",
        [row for name in data.rivals for row in folds if row.model == name],
        {
            Column("Model"): lambda row: data.model_name(row.model),
            Column("Tested from", hint="First day with a query."): lambda row: row.first_day,
            Column("to", hint="Last day with a query."): lambda row: row.last_day,
            Column("Queries", "count", hint="With a value for both."): lambda row: row.n,
            Column(f"Difference [{data.confidence_label} CI]", "difference", axis=axis): lambda row: Estimate(
                *_difference(row)
            ),
            Column("Sign", hint="Beside that over all folds."): lambda row: (
                "agrees" if sign(row.difference) == overall_signs[row.model] else "other"
            ),
        },
        footnotes=(f"Intervals go by {over} within a fold, {caution}.",),
        ten_rows=True,
    )
