"""What do training and scoring cost, and what is a cheaper model worth?"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ltr_harness.report.blocks import Badge, Block, Cell, Chart, Column, Details, Heading, Table
from ltr_harness.report.charts import fade, model_colour, placed, spec
from ltr_harness.report.data import ReportData
from ltr_harness.report.numbers.serving import Cut, ListTime, cuts, list_times, pareto_front
from ltr_harness.runs.latency import DOCUMENTS, ENOUGH, TYPICAL
from ltr_harness.wording import count_of

if TYPE_CHECKING:
    from ltr_harness.runs.record import Record


def section(data: ReportData) -> list[Block]:
    costs = {model: cost(data.records_of(model)) for model in data.models if data.records_of(model)}
    if not costs:
        return []
    blocks: list[Block] = [Heading("Cost"), _cost_table(data, costs)]
    times = {model: found for model in costs if (found := list_times(data.records_of(model)))}
    if times:
        blocks.append(_serving_table(data, times))
    if points := front(data):
        blocks += [_front_chart(data, points), Details("The cuts as a table", (_front_table(data, points),))]
    return blocks


class MedianCost(NamedTuple):
    """Medians over a model's runs; None where a model has no such thing."""

    fit_seconds: float | None
    trees: int | None
    leaves: int | None
    microseconds_per_row: float | None
    threads: int


def cost(records: Sequence[Record]) -> MedianCost:
    per_row = [
        1e6 * record.seconds["score"] / record.data["test"].n_rows
        for record in records
        if "score" in record.seconds and "test" in record.data and record.data["test"].n_rows
    ]
    fit = [record.seconds["fit"] for record in records if "fit" in record.seconds]
    trees = [record.best_round for record in records if record.best_round is not None]
    leaves = [record.n_leaves for record in records if record.n_leaves is not None]
    return MedianCost(
        statistics.median(fit) if fit else None,
        statistics.median_low(trees) if trees else None,
        statistics.median_low(leaves) if leaves else None,
        statistics.median(per_row) if per_row else None,
        max(record.threads for record in records),
    )


def _cost_table(data: ReportData, costs: dict[str, MedianCost]) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (
            data.model_name(model),
            data.summary(model, data.primary).mean,
            one.fit_seconds,
            one.trees,
            one.leaves,
            one.microseconds_per_row,
            one.threads,
        )
        for model, one in costs.items()
    ]
    return Table(
        name="cost",
        caption="What training and scoring cost, medians over folds and seeds.",
        columns=(
            Column("Model"),
            Column(data.primary, "metric", best="max" if data.higher_is_better(data.primary) else "min"),
            Column("Fit, s", "seconds", hint="Evaluation of every round on validation data included."),
            Column("Trees", "count"),
            Column("Leaves", "count", hint="Of all trees together."),
            Column("Score, µs per row", "number", hint="One pass over the test rows in one call."),
            Column("Threads", "count"),
        ),
        rows=tuple(rows),
        notes=("Times are of this machine and what else it did meanwhile; trees and leaves are not.",),
    )


# ---- serving --------------------------------------------------------------------------------------------


class Point(NamedTuple):
    """A cut of a model, and whether no other is both as cheap and as good."""

    model: str
    cut: Cut
    whole: bool
    on_front: bool


def front(data: ReportData) -> list[Point]:
    """Every model's cuts whose quality is by the primary metric of this comparison, the front marked."""
    known = [
        (model, cut, place == 0)
        for model in data.models
        if {record.primary for record in data.records_of(model)} == {data.primary}
        for place, cut in enumerate(cuts(data.records_of(model)))
        if cut.mean is not None
    ]
    costs = [(cut.p50, cut.mean or 0.0) for _, cut, _ in known]
    marks = pareto_front(costs, data.higher_is_better(data.primary))
    return [Point(*one, on_front) for one, on_front in zip(known, marks, strict=True)]


def _serving_table(data: ReportData, times: Mapping[str, Sequence[ListTime]]) -> Table:
    columns = [
        Column(f"{name}, µs", "seconds", group=f"{documents:,} documents")
        for documents in DOCUMENTS
        for name in ("p50", "p99")
    ]
    return Table(
        name="serving",
        caption="Microseconds per query, by the number of documents; one thread.",
        columns=(Column("Model"), *columns),
        rows=tuple(
            (data.model_name(model), *(value for one in found for value in (one.p50, one.p99)))
            for model, found in times.items()
        ),
        notes=(
            "Taken right after training by the library that trained the model, with the first of the seeds, beside "
            "whatever else the machine did: medians bear that, p99 does not, and is left out where fewer than "
            f"{ENOUGH} calls were timed. On a machine that does nothing else: ltr-harness show trees RUN.",
        ),
    )


def _front_table(data: ReportData, points: Sequence[Point]) -> Table:
    return Table(
        name="pareto_front",
        caption=f"Each model's first rounds alone: microseconds per query of {TYPICAL} documents (p50), one thread.",
        columns=(
            Column("Model"),
            Column("Rounds", "count"),
            Column(data.primary, "metric"),
            Column("p50, µs", "seconds"),
            Column("Pareto", hint="On the front, no other cut of any model is as cheap and as good."),
        ),
        rows=tuple(
            (
                data.model_name(point.model),
                point.cut.rounds,
                point.cut.mean,
                point.cut.p50,
                Badge("front", "good") if point.on_front else Badge("dominated", "muted"),
            )
            for point in points
        ),
    )


def _front_chart(data: ReportData, points: Sequence[Point]) -> Chart:
    names = list(dict.fromkeys(point.model for point in points))
    rows = [
        {
            "model": model,
            "rounds": cut.rounds,
            "p50": round(cut.p50, 1),
            "mean": round(cut.mean or 0.0, 6),
            "whole": whole,
            "front": on_front,
        }
        for model, cut, whole, on_front in points
    ]
    x = {
        "field": "p50",
        "type": "quantitative",
        "title": f"microseconds per query of {TYPICAL} documents",
        "scale": {"type": "log", "nice": False, "padding": 30},
        "axis": {"tickCount": 4, "format": "~g", "grid": False},
    }
    y = {"field": "mean", "type": "quantitative", "title": None, "scale": {"zero": False}}
    body: dict[str, Any] = {
        "width": "container",
        "height": 240,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "data": {"values": placed(rows, names)},
        "encoding": {"x": x, "y": y},
        "layer": _front_layers(model_colour(data, names)),
    }
    cheapest_first = sorted((one for one in points if one.on_front), key=lambda one: one.cut.p50)
    named = [f"{one.model} with {count_of(one.cut.rounds, 'round')}" for one in cheapest_first]
    return Chart(
        name="pareto_front",
        title=f"{data.primary} over the cost of a query, by each model's first rounds alone; filled and dashed: the "
        "front, where nothing else is as cheap and as good",
        spec=spec(body),
        text=f"On the front, from the cheapest: {'; '.join(named)}.",
    )


def _front_layers(colour: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The front, each model's line, points, filled on the front, and names."""
    tooltip = [
        {"field": "model"},
        {"field": "rounds", "type": "quantitative", "format": ","},
        {"field": "p50", "type": "quantitative", "format": ",.3~r", "title": "µs per query"},
        {"field": "mean", "type": "quantitative", "format": ".4f"},
    ]
    front_line = {"type": "line", "interpolate": "step-after", "strokeDash": [4, 3], "color": "#8a9099"}
    by_rounds = {"field": "rounds", "type": "quantitative"}
    return [
        {"transform": [{"filter": "datum.front"}], "mark": front_line},
        {
            "mark": {"type": "line", "strokeWidth": 1},
            "encoding": {"color": colour, "opacity": fade(0.5), "order": by_rounds},
        },
        # one layer, not one for each kind: a layer of a kind that there is none of has no scale
        {
            "mark": {"type": "point", "filled": True, "size": 60},
            "encoding": {
                "fill": colour,
                "stroke": colour,
                "fillOpacity": {"condition": {"test": "datum.front", "value": 1}, "value": 0},
                "opacity": fade(),
                "tooltip": tooltip,
            },
        },
        {  # names above and below in turn: neighbours are often close
            "mark": {
                "type": "text",
                "align": "left",
                "dx": 7,
                "dy": {"expr": "datum.place % 2 ? 11 : -9"},
                "limit": 180,
            },
            "encoding": {
                "text": {"condition": {"test": "datum.whole", "field": "model"}, "value": ""},
                "color": colour,
                "opacity": fade(),
            },
        },
    ]
