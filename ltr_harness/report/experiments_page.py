"""All experiments of a folder as blocks: a table with links to their reports, and each metric over time."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ltr_harness.numbers import four_decimals, json_value
from ltr_harness.report.blocks import (
    Block,
    Bullets,
    Cell,
    Chart,
    Column,
    Estimate,
    Heading,
    Link,
    Report,
    Section,
    Table,
    code,
)
from ltr_harness.report.charts import PALETTE, ZOOM_X, spec
from ltr_harness.report.experiments import Experiment, Experiments
from ltr_harness.report.formats import interval
from ltr_harness.wording import count_of

SHORT = 8
"""Hex digits of a fingerprint that are shown."""


def report(listed: Experiments, page: Path | None = None) -> Report:
    """The page, with everything in its JSON."""
    series: dict[tuple[str, str, str], list[Experiment]] = {}
    for one in listed.experiments:
        if one.mean is not None:
            series.setdefault(one.question, []).append(one)
    charts = [_chart(group, at) for at, group in enumerate(series.values()) if len(group) > 1]
    sections = [Section("experiments", (Heading("Experiments"), _table(listed, page)))]
    if charts:
        sections.append(Section("over_time", (Heading("Over time"), *charts)))
    if listed.left_out:
        blocks: tuple[Block, ...] = (Heading("Not read"), Bullets(listed.left_out))
        sections.append(Section("not_read", blocks))
    runs = sum(one.complete + one.failed for one in listed.experiments)
    facts = (count_of(len(listed.experiments), "experiment"), count_of(runs, "run"))
    return Report(f"Experiments of {listed.folder}", facts, tuple(sections), lambda: document(listed))


def document(listed: Experiments) -> str:
    """All of it as JSON."""
    return json.dumps(json_value(listed), indent=2)


def _table(listed: Experiments, page: Path | None) -> Table:
    return Table(
        name="experiments",
        caption="Oldest first: the best model's mean with the interval of its report, and the difference from the "
        "experiment before with the same test data and metric, and from no other.",
        columns=(
            Column("Experiment"),
            Column("Metric"),
            Column("Best model"),
            Column("Mean", "metric"),
            Column("Difference", "difference"),
            Column("From"),
            Column(
                "Test data", hint="Its source, and the digest of its judgments: queries, labels and weights."
            ),
            Column("Written (UTC)", "tally"),
            Column("Models x seeds x folds", "tally"),
            Column("Runs"),
            Column("MB", "number"),
        ),
        rows=tuple(_row(one, listed, page) for one in listed.experiments),
        notes=(
            "Means of other test data or another metric answer another question: nothing is subtracted there.",
        ),
    )


def _row(one: Experiment, listed: Experiments, page: Path | None) -> tuple[Cell, ...]:
    counts = ((one.complete, "complete"), (one.failed, "failed"), (one.missing, "missing"))
    return (
        one.title if page is None or not one.report else Link(one.title, _address(one, listed.folder, page)),
        one.metric,
        one.best or "none with a value",
        None if one.mean is None else Estimate(one.mean, one.low, one.high),
        one.change,
        next((last.title for last in listed.experiments if last.folder == one.previous), "first of its kind"),
        f"{one.data} {one.test[:SHORT]}",
        one.written[:16].replace("T", " "),
        f"{one.models} x {one.seeds} x {one.folds}",
        ", ".join(f"{number} {word}" for number, word in counts if number),
        one.size / 1e6,
    )


def _address(one: Experiment, folder: str, page: Path) -> str:
    """Of the experiment's report, relative to the page; bytes of a name that are no text are kept."""
    target = Path(folder) / one.folder / "report" / "report.html"
    return quote(os.fsencode(os.path.relpath(target, page.parent).replace(os.sep, "/")))


def _chart(group: list[Experiment], at: int) -> Chart:
    """One metric on one set of judgments; names stand in data alone, as in every chart."""
    rows = [
        {
            "experiment": one.title,
            "model": one.best,
            "at": one.written,
            "mean": one.mean,
            "low": one.low,
            "high": one.high,
        }
        for one in group
    ]
    x: dict[str, Any] = {
        "field": "at",
        "type": "temporal",
        "title": "written (UTC)",
        "scale": {"type": "utc", "padding": 24},
        "axis": {"tickCount": 6},
    }
    y: dict[str, Any] = {
        "field": "mean",
        "type": "quantitative",
        "title": "mean",
        "scale": {"zero": False},
        "axis": {"format": ".3f"},
    }
    told = [{"field": name} for name in ("experiment", "model")]
    told += [{"field": name, "type": "quantitative", "format": ".4f"} for name in ("mean", "low", "high")]
    look = {"color": PALETTE[at % len(PALETTE)], "clip": True}
    layers = [
        {"params": [ZOOM_X], "mark": {**look, "type": "line", "opacity": 0.4}, "encoding": {"x": x, "y": y}},
        {
            "transform": [{"filter": "isValid(datum.low)"}],
            "mark": {**look, "type": "rule", "strokeWidth": 2},
            "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}, "tooltip": told},
        },
        {
            "mark": {**look, "type": "point", "filled": True, "size": 70},
            "encoding": {"x": x, "y": y, "tooltip": told},
        },
    ]
    first = group[0]
    words = (
        f"{one.title}, {one.written[:10]}: {one.best} {four_decimals(one.mean)} {interval(one.low, one.high)}".rstrip()
        for one in group
    )
    return Chart(
        name=f"over_time_{at + 1}",
        title=("Best mean ", code(first.metric), f" on {first.data}, digest ", code(first.test[:SHORT])),
        spec=spec({"width": "container", "height": 200, "data": {"values": rows}, "layer": layers}),
        text=". ".join(words) + ".",
    )
