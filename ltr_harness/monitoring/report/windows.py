"""When did it move?"""

from __future__ import annotations

import math
from typing import Any

from ltr_harness.monitoring.report.verdict import estimate, label, raised
from ltr_harness.monitoring.results.answers import Interval, Window
from ltr_harness.monitoring.results.result import MonitorResult
from ltr_harness.report.blocks import Badge, Block, Cell, Chart, Column, Heading, Paragraph, Table
from ltr_harness.report.charts import PALETTE, spec
from ltr_harness.wording import count_of

BLUE, ORANGE, RED = PALETTE[0], PALETTE[1], PALETTE[2]


def section(result: MonitorResult) -> list[Block]:
    if len(result.windows) < 2:
        return []
    blocks: list[Block] = [Heading("Over time"), _chart(result), _table(result)]
    if any(w.bounded for w in result.windows):
        blocks.append(
            Paragraph(
                "Where fewer than 15 queries are off the ceiling, the interval in brackets is far too narrow; "
                "the bounded one holds whatever the values' distribution.",
                "note",
            )
        )
    return blocks


def status(window: Window, result: MonitorResult) -> Badge:
    if window.alert or window.trailing_alert or window.running_alert:
        return raised(result)
    tones = {
        "tested": ("no alert", "good"),
        "immature": ("immature", "neutral"),
        "small": ("too small", "neutral"),
        "stray": ("apart in time", "neutral"),
    }
    text, tone = tones.get(window.status, ("not compared", "muted"))
    return Badge(text, tone)  # type: ignore[arg-type]


def _table(result: MonitorResult) -> Table:
    bounded = any(w.bounded for w in result.windows)
    columns = [
        Column("Window"),
        Column("Verdict"),
        Column("Queries", "count"),
        Column(f"{result.primary} [{label(result)} interval]", "metric"),
        Column("Difference", "difference"),
        Column("p corrected", "p", hint=result.family),
        Column("Trailing", "difference", hint="This window and those before it, together."),
        Column("p corrected ", "p"),
        Column("At 1", "percent"),
    ]
    running = any(w.running for w in result.windows)
    if running:
        columns[-1:-1] = [
            Column(
                "So far",
                "difference",
                hint="All windows on record up to this one; holds at all times at once.",
            ),
            Column("p corrected  ", "p"),
        ]
    if bounded:
        columns.insert(4, Column("Bounded interval"))
    rows = []
    for w in result.windows:
        cells: list[Cell] = [
            w.label, status(w, result), w.n_defined, estimate(w.interval), estimate(w.change), w.p_corrected,
            estimate(w.trailing), w.trailing_p_corrected,
            *((estimate(w.running), w.running_p_corrected) if running else ()), w.share_one,
        ]  # fmt: skip
        if bounded:
            cells.insert(4, "" if w.bounded is None else f"[{w.bounded[0]:.3f}, {w.bounded[1]:.3f}]")
        rows.append(tuple(cells))
    return Table("windows", "Every window of production.", tuple(columns), tuple(rows))


def time_axis(result: MonitorResult) -> dict[str, Any]:
    """The horizontal axis of charts over windows."""
    return {
        "field": "at",
        "type": "temporal",
        "scale": {"type": "utc"},
        "title": None,
        "axis": {"grid": False, "tickCount": 6},
    }


def _chart(result: MonitorResult) -> Chart:
    alerts = sum(status(w, result).text == "alert" for w in result.windows)
    words = f"{count_of(len(result.windows), 'window')}, {alerts} with an alert."
    layers = _means_layers(result)
    if result.changes:
        baseline = result.changes[0].baseline
        layers = [*_baseline_layers(baseline), *layers]
        words += f" The dashed line is the baseline, {baseline.value:.4f}."
    body = {"data": {"values": _points(result)}, "width": "container", "height": 220, "layer": layers}
    return Chart(
        "windows",
        (
            f"{result.primary} by window, {label(result)} intervals; red windows raised an alert, the "
            "dashed line is the baseline"
        ),
        spec(body),
        words,
    )


def _points(result: MonitorResult) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for w in result.windows:
        if math.isnan(w.interval.value):
            continue
        row: dict[str, Any] = {
            "at": w.start_ns // 1_000_000,
            "window": w.label,
            "mean": round(w.interval.value, 5),
            "state": status(w, result).text,
        }
        if not math.isnan(w.interval.low):
            row |= {"low": round(w.interval.low, 5), "high": round(w.interval.high, 5)}
        rows.append(row)
    return rows


def _means_layers(result: MonitorResult) -> list[dict[str, Any]]:
    tooltip = [
        {"field": "window"},
        {"field": "mean", "type": "quantitative", "format": ".4f"},
        {"field": "low", "type": "quantitative", "format": ".4f"},
        {"field": "high", "type": "quantitative", "format": ".4f"},
        {"field": "state"},
    ]
    x = time_axis(result)
    colour = {
        "condition": {"test": "datum.state === 'alert'", "value": RED},
        "value": BLUE,
    }
    return [
        {
            "mark": {"type": "line", "color": BLUE, "strokeWidth": 1.2, "opacity": 0.6},
            "encoding": {"x": x, "y": _y("mean")},
        },
        {
            "mark": {"type": "rule"},
            "encoding": {"x": x, "y": _y("low"), "y2": {"field": "high"}, "color": colour},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 45},
            "encoding": {"x": x, "y": _y("mean"), "color": colour, "tooltip": tooltip},
        },
    ]


def _baseline_layers(base: Interval) -> list[dict[str, Any]]:
    band = (
        [{"base": round(base.value, 5), "from": round(base.low, 5), "to": round(base.high, 5)}]
        if not math.isnan(base.low)
        else []
    )
    return [
        {
            "data": {"values": band},
            "mark": {"type": "rect", "opacity": 0.2, "color": ORANGE},
            "encoding": {"y": _y("from"), "y2": {"field": "to"}},
        },
        {
            "data": {"values": band},
            "mark": {"type": "rule", "color": ORANGE, "strokeDash": [4, 3]},
            "encoding": {"y": _y("base")},
        },
    ]


def _y(field: str) -> dict[str, Any]:
    return {"field": field, "type": "quantitative", "title": None, "scale": {"zero": False}}
