"""How did training go, where did it stop, what did it cost?"""

import statistics
from typing import Any

from ltr_harness._util.text import count_of
from ltr_harness.experiments.runs import Run
from ltr_harness.experiments.runs.record import Record
from ltr_harness.report import charts
from ltr_harness.report.blocks import Block, Chart, Code, Column, Details, Heading, Paragraph, Table
from ltr_harness.report.data import ReportData

POINTS = 8_000
"""Upper bound of points drawn over all curves: the page stays small however many runs there are."""


def section(data: ReportData) -> list[Block]:
    if not data.runs:
        return []
    of = {model: records for model in data.models if (records := data.records_of(model))}

    def rounds(model: str, which: str) -> str:
        return _range([at for record in of[model] if (at := getattr(record, which)) is not None])

    def seconds(model: str, what: str) -> float | None:
        values = [record.seconds[what] for record in of[model] if what in record.seconds]
        return statistics.median(values) if values else None

    about = (
        "One stopping rule decides for every library, on validation data only; the stored model has exactly the "
        "chosen number of rounds."
    )
    table = Table.of(
        "training",
        "Medians over folds and seeds; ranges where they differ.",
        of,
        {
            Column("Model"): data.model_name,
            Column("Ranker", "code"): lambda model: of[model][0].ranker,
            Column("Objective", "code"): lambda model: of[model][0].objective or "–",
            Column("Runs", "count"): lambda model: len(of[model]),
            Column("Chosen round"): lambda model: rounds(model, "best_round"),
            Column("Rounds trained"): lambda model: rounds(model, "rounds_trained"),
            Column("Fit, s", "seconds"): lambda model: seconds(model, "fit"),
            Column("Score, s", "seconds"): lambda model: seconds(model, "score"),
        },
    )
    return [Heading("Training"), Paragraph(about), table, *_curves(data)]


def _range(values: list[int]) -> str:
    if not values:
        return "–"
    low, high = min(values), max(values)
    if low == high:
        return f"{low:,}"
    median = f" (median {statistics.median_low(values):,})" if len(values) > 2 else ""
    return f"{low:,} to {high:,}{median}"


def _curves(data: ReportData) -> list[Chart]:
    """The stopping metric on validation data over rounds, one thin line per run, a dot where it stopped."""
    known = [run for run in data.ordered_runs if run.record.model in data.colours]
    curves = [(run, points) for run in known if (points := _curve(run, data.primary))]
    if not curves:
        return []
    budget = max(12, min(200, POINTS // len(curves)))
    rows: list[dict[str, Any]] = []
    for run, points in curves:
        record = run.record
        drawn = _thinned(points, budget, record.best_round)
        rounds, values = [at for at, _ in drawn], [round(value, 5) for _, value in drawn]
        about = {"model": record.model, "run": f"{record.fold}, seed {record.seed}"}
        rows.append({**about, "chosen": record.best_round, "round": rounds, "value": values})
    names = [name for name in data.models if any(run.record.model == name for run, _ in curves)]
    metric = stopping_metric(curves[0][0].record, data.primary)
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
    panel: dict[str, Any] = {
        "height": charts.PANEL["height"] + 20,
        "transform": [{"flatten": ["round", "value"]}],
        "encoding": {"x": x, "y": y, "color": charts.model_colour(data, names)},
        "layer": [
            {"params": [charts.zoom("x", "y")], **line},
            {"transform": [{"filter": "datum.round === datum.chosen"}], **dot},
        ],
    }
    words = []
    for name in names:
        best = [run.record.best_round for run, _ in curves if run.record.model == name]
        words.append(f"{name}: chosen round {_range([at for at in best if at is not None])}.")
    title = f"{metric} on validation data over rounds; a line is one fold and seed, its dot the chosen round"
    return [Chart("learning_curves", title, charts.small_multiples(names, rows, panel), " ".join(words))]


def chosen_value(run: Run, primary: str) -> float | None:
    """The value on validation data at the chosen round; None where nothing was watched."""
    return dict(_curve(run, primary)).get(run.record.best_round or 0)


def stopping_metric(record: Record, primary: str) -> str:
    """What was watched on validation data: the metric that stops, else the primary one."""
    return record.stopping.metric if record.stopping is not None else primary


def _curve(run: Run, primary: str) -> list[tuple[int, float]]:
    """(round, value) of the metric that stopped, or else the primary one, on the set that was watched."""
    history = run.history
    if history is None or history.empty:
        return []
    record = run.record
    split = record.stopping.on if record.stopping is not None else "valid"
    rows = history[(history["metric"] == stopping_metric(record, primary)) & (history["split"] == split)]
    rows = rows[rows["value"].notna()]
    rounds, values = rows["round"].tolist(), rows["value"].tolist()
    return [(int(at), float(value)) for at, value in zip(rounds, values, strict=True)]


def _thinned(points: list[tuple[int, float]], budget: int, keep: int | None) -> list[tuple[int, float]]:
    """At most about `budget` points, evenly spaced, the ends and the chosen round always among them."""
    if len(points) <= budget:
        return points
    step = (len(points) - 1) / (budget - 1)
    wanted = {round(number * step) for number in range(budget)}
    return [point for number, point in enumerate(points) if number in wanted or point[0] == keep]


def failures(data: ReportData) -> list[Block]:
    """What did not finish, and why?"""
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
