"""Does it hold at all times, and in every fold?"""

from typing import Any

import numpy as np

from ltr_harness._util.text import none_if_undefined
from ltr_harness.comparison.contrasts import SMALLEST
from ltr_harness.comparison.over_time import FOLD, PeriodResult, sign, signs_cautions
from ltr_harness.data.time_folds import period_in
from ltr_harness.report import charts, formats
from ltr_harness.report.blocks import Block, Chart, Column, Estimate, Heading, Paragraph, Table, axis_of
from ltr_harness.report.data import ReportData
from ltr_harness.report.sections.verdict import near_models

_CHARACTERS = 46  # of names beside each other in a legend on a narrow page


def section(data: ReportData) -> list[Block]:
    rows = data.comparison.over_time
    periods = [row for row in rows if row.unit != FOLD and row.n]
    folds = [row for row in rows if row.unit == FOLD]
    if not periods:
        return []
    unit, by = periods[0].unit, data.comparison.method.unit
    over = "queries" if by is None or period_in(by) else f"units of {by}"
    about = (
        f"A point is the {data.weighted}mean of a {unit}, and the band its {data.confidence_label} interval over "
        f"{over}, each by itself and from {SMALLEST} {over} on. The spread of the {unit}s shows how much the next one "
        "can differ."
    )
    if data.over_seeds:
        about += (
            " Bands and intervals of folds are of these trained models; the verdict allows for other seeds."
        )
    heading, signs = Heading("Over time"), data.comparison.fold_signs
    if signs:
        least = min(signs, key=lambda one: one.agreeing / one.folds)
        whom = " for all" if least.agreeing == least.folds else f" for {least.model}"
        cautions = signs_cautions(signs, [data.comparison.paired(name) for name in data.rivals])
        finding = f"the sign agrees in {least} folds{whom if signs[1:] else ''}"
        heading = Heading("Over time", finding=finding, matters=bool(cautions))
    blocks: list[Block] = [_chart(data, periods, folds, list(data.models), differences=False)]
    if names := near_models(data):
        blocks.append(_chart(data, periods, folds, names, differences=True))
    if folds and data.rivals:
        blocks.append(_table(data, folds))
    return [heading, Paragraph(about), *blocks]


def _points(
    periods: list[PeriodResult], folds: list[PeriodResult], name: str, *, differences: bool
) -> list[dict[str, Any]]:
    """A row for each period of a model in the middle of its days, and in each the begin of a fold while there are."""
    own = [row for row in periods if row.model == name]
    begins = sorted({_milliseconds(row.period) for row in folds})
    begins = begins[:: max(1, -(-len(begins) // max(1, len(own))))]
    points = []
    for at, row in enumerate(own):
        mean = (row.mean, row.ci_low, row.ci_high)
        found = (row.difference, row.difference_ci_low, row.difference_ci_high) if differences else mean
        value, low, high = (none_if_undefined(round(one, 6)) for one in found)
        middle = (_milliseconds(row.first_day) + _milliseconds(row.last_day)) // 2
        about = {"model": name, "period": row.period, "at": middle, "queries": row.n}
        fold = {"fold": begins[at]} if at < len(begins) else {}
        points.append({**about, "value": value, "low": low, "high": high, **fold})
    return points


def _milliseconds(day: str) -> int:
    return int(np.datetime64(day, "ms").astype(np.int64))


def _chart(
    data: ReportData,
    periods: list[PeriodResult],
    folds: list[PeriodResult],
    names: list[str],
    *,
    differences: bool,
) -> Chart:
    """Means of all models in one picture, or below it differences on the same axis, each of several in a panel."""
    points = {name: _points(periods, folds, name, differences=differences) for name in names}
    points = {name: own for name, own in points.items() if own}
    rows = charts.placed([row for own in points.values() for row in own], list(points))
    unit, form = periods[0].unit, "+.4f" if differences else ".4f"
    title = f"{data.weighted}{data.primary} by {unit}"
    axis: dict[str, Any] = {"minExtent": 44, "tickCount": 5, **({"format": "+.3~f"} if differences else {})}
    y = charts.quantitative("value", title=None, scale={"zero": False}, axis=axis)
    colour = charts.model_colour(data, list(points))
    if not differences:  # panels have the names above them
        columns = max(1, _CHARACTERS // (5 + min(36, max(map(len, points)))))
        colour |= {"field": "model", "title": None, "sort": charts.BY_PLACE}
        colour["scale"] = {"range": colour["scale"]["range"]}
        colour["legend"] = {"orient": "top", "columns": columns, "symbolOpacity": 1}
    shared = {"x": charts.TIME_AXIS, "y": y, "color": colour}
    about = [*charts.tooltip("model", "period", "queries"), *charts.tooltip(value=form, low=form, high=form)]
    line, rule = {"type": "line", "strokeWidth": 1.6}, {"type": "rule", "strokeDash": [2, 3]}
    write = formats.difference if differences else formats.metric
    band = {**shared, "y": {**y, "field": "low"}, "y2": {"field": "high"}, "opacity": charts.fade(0.16, 0.03)}
    begins = charts.layer(rule, x={**charts.TIME_AXIS, "field": "fold"})
    layers = [
        {"transform": [{"filter": "isValid(datum.fold)"}], **begins},
        charts.layer({"type": "area"}, **band),
        charts.layer(line, **shared, opacity=charts.fade()),
        charts.layer(charts.dots(16), **shared, opacity=charts.fade(), tooltip=about),
    ]
    if differences:
        title = f"Difference in {data.weighted}{data.primary} to {data.baseline} by {unit}"
        layers.insert(0, charts.layer(charts.DASHED, y={"datum": 0}))
    spec = charts.wide(rows, 150 if differences else 190, autosize=charts.FIT, layer=layers)
    if differences and len(points) > 1:
        spec = charts.small_multiples(list(points), rows, {"layer": layers}, own_y=44)
        title += ", each model on a scale of its own"
    words = []
    for name, own in points.items():
        both = [pick(own, key=lambda row: row["value"]) for pick in (min, max)]
        ends = (f"{write(row['value'])} in {row['period']}" for row in both)
        above = f"above 0 in {sum(row['value'] > 0 for row in own):,} of {len(own):,}, " * differences
        words.append(f"{name}: {above}from {' to '.join(ends)}.")
    title += "; folds begin at the dotted lines" if folds else ""
    return Chart("difference_over_time" if differences else "over_time", title, spec, " ".join(words))


def _table(data: ReportData, folds: list[PeriodResult]) -> Table:
    def difference(row: PeriodResult) -> Estimate:
        return Estimate(row.difference, row.difference_ci_low, row.difference_ci_high)

    whole = {name: sign(data.comparison.paired(name).difference) for name in data.rivals}
    close = near_models(data)
    shown = [row for row in folds if row.model in close]
    axis = axis_of(end for row in shown for end in (row.difference_ci_low, row.difference_ci_high))
    over = data.comparison.method.unit or "query"
    picked = "each by itself: a fold picked after looking proves less"
    return Table.of(
        "folds",
        f"The test parts of the folds in time at {data.weighted}{data.primary}, against {data.baseline}.",
        [row for name in data.rivals for row in folds if row.model == name],
        {
            Column("Model"): lambda row: data.model_name(row.model),
            Column("Tested from", hint="First day with a query."): lambda row: row.first_day,
            Column("to", hint="Last day with a query."): lambda row: row.last_day,
            Column("Queries", "count", hint="With a value for both."): lambda row: row.n,
            Column(f"Difference [{data.confidence_label} CI]", "difference", axis=axis): difference,
            Column("Sign", hint="Beside that over all folds."): lambda row: (
                "agrees" if sign(row.difference) == whole[row.model] else "other"
            ),
        },
        footnotes=(f"Intervals go by {over} within a fold, {picked}.",),
    )
