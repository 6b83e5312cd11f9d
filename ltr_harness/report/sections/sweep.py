"""What do the swept options do, and which point would validation data have chosen?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ltr_harness.config.space import shown_value
from ltr_harness.report.blocks import Best, Block, Cell, Column, Heading, Paragraph, Table
from ltr_harness.report.data import ReportData
from ltr_harness.report.metric_names import file_names
from ltr_harness.report.sections.training import chosen_value, stopping_metric


def section(data: ReportData) -> list[Block]:
    swept = _points(data)
    if not swept:
        return []
    files = file_names(list(swept))
    return [
        Heading("Sweep"),
        Paragraph(
            "Every point was trained and judged on the test queries. The best of many test means is better than "
            "its model, by luck: choose a point by its validation value, or let `tune` choose.",
            "warning",
        ),
        *(_table(data, model, points, f"sweep_{files[model]}") for model, points in swept.items()),
    ]


def _points(data: ReportData) -> dict[str, dict[str, Mapping[str, Any]]]:
    """Swept model to its points: name to the options that differ."""
    swept: dict[str, dict[str, Mapping[str, Any]]] = {}
    for model in data.models:
        point = next((record.point for record in data.records_of(model) if record.point), None)
        if point is not None:
            swept.setdefault(point.of, {})[model] = point.at
    return swept


def _table(data: ReportData, swept: str, points: Mapping[str, Mapping[str, Any]], name: str) -> Table:
    options = list(dict.fromkeys(option for at in points.values() for option in at))
    values = {model: _validation(data, model) for model in points}
    watched = stopping_metric(data.records_of(next(iter(points)))[0], data.primary)
    higher = data.comparison.higher_is_better.get(watched, True)

    def order(model: str) -> tuple[bool, float]:
        value = values[model]
        return math.isnan(value), -value if higher else value

    rows: list[tuple[Cell, ...]] = [
        (
            data.model_name(model),
            *(shown_value(points[model][option]) for option in options),
            values[model],
            data.summary(model, data.primary).mean,
        )
        for model in sorted(points, key=order)
    ]
    best: tuple[Best, Best] = (
        "max" if higher else "min",
        "max" if data.higher_is_better(data.primary) else "min",
    )
    return Table(
        name=name,
        caption=f"Points of {swept}, best on validation data first; means over folds and seeds.",
        columns=(
            Column("Model"),
            *(Column(option, "code") for option in options),
            Column(f"Validation {watched}", "metric", best=best[0], hint="At the chosen round."),
            Column(f"Test {data.primary}", "metric", best=best[1]),
        ),
        rows=tuple(rows),
    )


def _validation(data: ReportData, model: str) -> float:
    chosen = [chosen_value(run, data.primary) for run in data.runs_of(model)]
    values = [value for value in chosen if value is not None]
    return math.fsum(values) / len(values) if values else math.nan
