"""How did training go, where did it stop, what did it cost?"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ltr_harness.report.blocks import Block, Cell, Chart, Column, Heading, Paragraph, Table
from ltr_harness.report.charts import PANEL, fade, model_colour, small_multiples, zoom
from ltr_harness.report.data import ReportData
from ltr_harness.runs.record import Record

if TYPE_CHECKING:
    from ltr_harness.runs import Run

POINTS = 8_000
"""Upper bound of points drawn over all curves: the page stays small however many runs there are."""


def section(data: ReportData) -> list[Block]:
    if not data.runs:
        return []
    blocks: list[Block] = [
        Heading("Training"),
        Paragraph(
            "One stopping rule decides for every library, on validation data only; the stored model has "
            "exactly the chosen number of rounds."
        ),
        _table(data),
    ]
    chart = _curves(data)
    if chart is not None:
        blocks.append(chart)
    return blocks


def _table(data: ReportData) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for model in data.models:
        records = data.records_of(model)
        if not records:
            continue
        chosen = [record.best_round for record in records if record.best_round is not None]
        trained = [record.rounds_trained for record in records if record.rounds_trained is not None]
        rows.append(
            (
                data.model_name(model),
                records[0].ranker,
                records[0].objective or "–",
                len(records),
                _range(chosen),
                _range(trained),
                _median_seconds(records, "fit"),
                _median_seconds(records, "score"),
            )
        )
    return Table(
        name="training",
        caption="Medians over folds and seeds; ranges where they differ.",
        columns=(
            Column("Model"),
            Column("Ranker", "code"),
            Column("Objective", "code"),
            Column("Runs", "count"),
            Column("Chosen round"),
            Column("Rounds trained"),
            Column("Fit, s", "seconds"),
            Column("Score, s", "seconds"),
        ),
        rows=tuple(rows),
    )


def _range(values: list[int]) -> str:
    if not values:
        return "–"
    low, high = min(values), max(values)
    if low == high:
        return f"{low:,}"
    median = f" (median {statistics.median_low(values):,})" if len(values) > 2 else ""
    return f"{low:,} to {high:,}{median}"


def _median_seconds(records: Sequence[Record], what: str) -> float | None:
    values = [record.seconds[what] for record in records if what in record.seconds]
    return statistics.median(values) if values else None


def _curves(data: ReportData) -> Chart | None:
    """The stopping metric on validation data over rounds, one thin line per run, a dot where it stopped."""
    known = [run for run in data.ordered_runs if run.record.model in data.colours]
    curves = [(run, points) for run in known if (points := _curve(run, data.primary)) is not None]
    if not curves:
        return None
    budget = max(12, min(200, POINTS // len(curves)))
    rows: list[dict[str, Any]] = []
    for run, points in curves:
        record = run.record
        drawn = _thinned(points, budget, record.best_round)
        rows.append(
            {
                "model": record.model,
                "run": f"{record.fold}, seed {record.seed}",
                "chosen": record.best_round,
                "round": [at for at, _ in drawn],
                "value": [round(value, 5) for _, value in drawn],
            }
        )
    names = [name for name in data.models if any(run.record.model == name for run, _ in curves)]
    metric = stopping_metric(curves[0][0].record, data.primary)
    x = {"field": "round", "type": "quantitative", "title": "round", "axis": {"tickCount": 4, "grid": False}}
    y = {"field": "value", "type": "quantitative", "title": None, "scale": {"zero": False}}
    tooltip = [
        {"field": "model"},
        {"field": "run"},
        {"field": "round", "title": "chosen round"},
        {"field": "value", "type": "quantitative", "format": ".4f"},
    ]
    panel: dict[str, Any] = {
        "height": PANEL["height"] + 20,
        "transform": [{"flatten": ["round", "value"]}],
        "encoding": {"x": x, "y": y, "color": model_colour(data, names)},
        "layer": [
            {
                "params": [zoom("x", "y")],
                "mark": {"type": "line", "strokeWidth": 1.1, "clip": True},
                "encoding": {"detail": {"field": "run", "type": "nominal"}, "opacity": fade(0.55)},
            },
            {
                "transform": [{"filter": "datum.round === datum.chosen"}],
                "mark": {"type": "point", "filled": True, "size": 36, "clip": True},
                "encoding": {"opacity": fade(), "tooltip": tooltip},
            },
        ],
    }
    words = []
    for name in names:
        rounds = [run.record.best_round for run, _ in curves if run.record.model == name]
        words.append(f"{name}: chosen round {_range([at for at in rounds if at is not None])}.")
    return Chart(
        name="learning_curves",
        title=f"{metric} on validation data over rounds; a line is one fold and seed, "
        "its dot the chosen round",
        spec=small_multiples(names, rows, panel),
        text=" ".join(words),
    )


def chosen_value(run: Run, primary: str) -> float | None:
    """The value on validation data at the chosen round; None where nothing was watched."""
    return dict(_curve(run, primary) or ()).get(run.record.best_round or 0)


def stopping_metric(record: Record, primary: str) -> str:
    """What was watched on validation data: the metric that stops, else the primary one."""
    return record.stopping.metric if record.stopping is not None else primary


def _curve(run: Run, primary: str) -> list[tuple[int, float]] | None:
    """(round, value) of the metric that stopped, or else the primary one, on the set that was watched."""
    history = run.history
    if history is None or history.empty:
        return None
    record = run.record
    split = record.stopping.on if record.stopping is not None else "valid"
    rows = history[(history["metric"] == stopping_metric(record, primary)) & (history["split"] == split)]
    rows = rows[rows["value"].notna()]
    if rows.empty:
        return None
    rounds, values = rows["round"].tolist(), rows["value"].tolist()
    return [(int(at), float(value)) for at, value in zip(rounds, values, strict=True)]


def _thinned(points: list[tuple[int, float]], budget: int, keep: int | None) -> list[tuple[int, float]]:
    """At most about `budget` points, evenly spaced, the ends and the chosen round always among them."""
    if len(points) <= budget:
        return points
    step = (len(points) - 1) / (budget - 1)
    wanted = {round(number * step) for number in range(budget)}
    return [point for number, point in enumerate(points) if number in wanted or point[0] == keep]
