"""Each training's curve, its stopping round and its time."""

import math
import statistics
from collections.abc import Sequence
from typing import Any

from ltr_harness._util.text import count_of
from ltr_harness.experiments.runs import Run
from ltr_harness.experiments.runs.record import Record
from ltr_harness.experiments.runs.run import HISTORY
from ltr_harness.report import charts
from ltr_harness.report.blocks import Block, Chart, Code, Column, Details, Heading, Paragraph, Table
from ltr_harness.report.data import ReportData

POINTS = 8_000
"""Upper bound of points drawn over all curves: the page stays small however many runs there are."""

LearningCurve = list[tuple[int, float]]
"""The value of each round."""


def section(data: ReportData) -> list[Block]:
    if not data.runs:
        return []
    records_by_model = {model: records for model in data.models if (records := data.records_of(model))}

    def rounds(model: str, field: str) -> str:
        return _range(
            [value for record in records_by_model[model] if (value := getattr(record, field)) is not None]
        )

    def seconds(model: str, step: str) -> float | None:
        values = [record.seconds[step] for record in records_by_model[model] if step in record.seconds]
        return statistics.median(values) if values else None

    introduction = (
        "One stopping rule decides for every library, on validation data only; the stored model has exactly the "
        "chosen number of rounds."
    )
    table = Table.of(
        "training",
        "Medians over folds and seeds; ranges where they differ.",
        records_by_model,
        {
            Column("Model"): data.model_name,
            Column("Ranker", "code"): lambda model: records_by_model[model][0].ranker,
            Column("Objective", "code"): lambda model: records_by_model[model][0].objective or "–",
            Column("Runs", "count"): lambda model: len(records_by_model[model]),
            Column("Chosen round"): lambda model: rounds(model, "best_round"),
            Column("Rounds trained"): lambda model: rounds(model, "rounds_trained"),
            Column("Fit, s", "seconds"): lambda model: seconds(model, "fit"),
            Column("Score, s", "seconds"): lambda model: seconds(model, "score"),
        },
    )
    all_rounds = [record.best_round for record in data.records if record.best_round is not None]
    finding = count_of(len(data.records), "run")
    if all_rounds:
        finding += f", chosen rounds {_range(all_rounds)}"
    return [Heading("Training", finding=finding), Paragraph(introduction), table, *_curves(data)]


def _range(values: list[int]) -> str:
    if not values:
        return "–"
    low, high = min(values), max(values)
    if low == high:
        return f"{low:,}"
    median = f" (median {statistics.median_low(values):,})" if len(values) > 2 else ""
    return f"{low:,} to {high:,}{median}"


def _curves(data: ReportData) -> list[Chart]:
    """Return the stopping metric on validation data over rounds, a line for each run, a dot where it stopped."""
    runs = [run for run in data.ordered_runs if run.record.model in data.colours]
    curves = [(run.record, points) for run in runs if (points := _curve(run, data.primary))]
    if not curves:
        return []
    names = [name for name in data.models if any(record.model == name for record, _ in curves)]
    spec = charts.small_multiples(names, _curve_rows(curves), _curve_panel(data, names))
    descriptions = []
    for name in names:
        best_rounds = [record.best_round for record, _ in curves if record.model == name]
        chosen_rounds = [number for number in best_rounds if number is not None]
        descriptions.append(f"{name}: chosen round {_range(chosen_rounds)}.")
    metric = stopping_metric(curves[0][0], data.primary)
    title = f"{metric} on validation data over rounds; a line is one fold and seed, its dot the chosen round"
    return [Chart("learning_curves", title, spec, " ".join(descriptions))]


def _curve_rows(curves: Sequence[tuple[Record, LearningCurve]]) -> list[dict[str, Any]]:
    """Return a row for each run, with lists of its rounds and values, thinned where many curves share the page."""
    budget = max(12, min(200, POINTS // len(curves)))
    rows = []
    for record, points in curves:
        drawn_points = thin(points, budget, record.best_round)
        rows.append(
            {
                "model": record.model,
                "run": f"{record.fold}, seed {record.seed}",
                "chosen": record.best_round,
                "round": [number for number, _ in drawn_points],
                "value": [round(value, 5) for _, value in drawn_points],
            }
        )
    return rows


def _curve_panel(data: ReportData, names: Sequence[str]) -> dict[str, Any]:
    """Return the panel of one model: a line for each run, and a dot at its chosen round."""
    x = charts.quantitative("round", title="round", axis={"tickCount": 4, "grid": False})
    y = charts.quantitative("value", title=None, scale={"zero": False})
    chosen = [{"field": "round", "title": "chosen round"}, *charts.tooltip(value=".4f")]
    line = charts.layer(
        {"type": "line", "strokeWidth": 1.1, "clip": True},
        detail={"field": "run", "type": "nominal"},
        opacity=charts.fade(0.55),
    )
    dot = charts.layer(
        charts.dots(36, clip=True), opacity=charts.fade(), tooltip=[*charts.tooltip("model", "run"), *chosen]
    )
    return {
        "height": charts.PANEL["height"] + 20,
        "transform": [{"flatten": ["round", "value"]}],
        "encoding": {"x": x, "y": y, "color": charts.model_colour(data, names)},
        "layer": [
            {"params": [charts.zoom("x", "y")], **line},
            {"transform": [{"filter": "datum.round === datum.chosen"}], **dot},
        ],
    }


def chosen_value(run: Run, primary: str) -> float | None:
    """Return the value on validation data at the chosen round; None where no metric was watched."""
    return dict(_curve(run, primary)).get(run.record.best_round or 0)


def stopping_metric(record: Record, primary: str) -> str:
    """Return the metric that was watched on validation data: the one that stops, else the primary one."""
    return record.stopping.metric if record.stopping is not None else primary


def _curve(run: Run, primary: str) -> LearningCurve:
    """Return (round, value) of the metric that stopped, else the primary one, on the watched split."""
    record, history = run.record, run.stored_columns(HISTORY)
    split = record.stopping.on if record.stopping is not None else "valid"
    watched = split, stopping_metric(record, primary)
    columns = (history[name].tolist() for name in ("split", "metric", "round", "value"))
    return [
        (int(number), float(value))
        for *split_and_metric, number, value in zip(*columns, strict=True)
        if tuple(split_and_metric) == watched and not math.isnan(value)
    ]


def thin(points: LearningCurve, budget: int, chosen_round: int | None) -> LearningCurve:
    """Return at most about `budget` points, evenly spaced, always with the ends and the chosen round."""
    if len(points) <= budget:
        return points
    step = (len(points) - 1) / (budget - 1)
    numbers = {round(number * step) for number in range(budget)}
    return [point for number, point in enumerate(points) if number in numbers or point[0] == chosen_round]


def failures(data: ReportData) -> list[Block]:
    """Models and folds that did not finish, with their errors."""
    if not data.failures:
        return []
    failures = sorted(data.failures, key=lambda record: (record.model, record.fold, record.seed))
    rows = []
    logs: list[Block] = []
    for record in failures:
        lines = (record.error or "no message was recorded").strip().splitlines()
        rows.append((record.model, record.fold, record.seed, lines[0]))
        if len(lines) > 1:
            title = f"{record.model}, fold {record.fold}, seed {record.seed}"
            logs.append(Details(title, (Code("\n".join(lines)),)))
    heading = Heading("Failures", finding=count_of(len(data.failures), "run"), matters=True)
    caption = "Runs that failed in training; the others are not affected."
    columns = (Column("Model"), Column("Fold"), Column("Seed", "count"), Column("Error"))
    return [heading, Table("failures", caption, columns, tuple(rows)), *logs]
