"""Can the labels be trusted?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ltr_harness.monitoring.report.verdict import estimate, label
from ltr_harness.monitoring.report.windows import time_axis
from ltr_harness.monitoring.results.answers import LabelTest
from ltr_harness.monitoring.results.result import MonitorResult
from ltr_harness.report.blocks import Badge, Block, Chart, Column, Details, Heading, Paragraph, Table
from ltr_harness.report.charts import PALETTE, spec
from ltr_harness.wording import count_of, plural


def section(result: MonitorResult) -> list[Block]:
    blocks: list[Block] = [Heading("Label health"), *_coverage(result)]
    shown = [test for test in result.labels if test.window == "all" or test.alert]
    if shown:
        blocks.append(_tests(shown, result))
    if len(result.windows) > 1:
        blocks += [_chart(result), Details("Labels window by window", (_windows(result),))]
    return blocks if len(blocks) > 1 else []


def _coverage(result: MonitorResult) -> list[Block]:
    """How much of the log has labels, and what that means."""
    blocks: list[Block] = []
    if result.n_immature:
        blocks.append(
            Paragraph(
                f"{count_of(result.n_immature, 'query')} {plural('is', result.n_immature)} younger than the "
                "labels' maturity: shown, never tested.",
                "note",
            )
        )
    without = {f.log: f for f in result.findings if f.check == "no_event"}
    if without:
        unseen = {f.log: f.share for f in result.findings if f.check == "not_judged"}
        covered = ", ".join(
            f"{1 - f.share - unseen.get(log, 0.0):.1%} of {log}'s rows"
            + (
                f" ({unseen[log]:.1%} lie below the last one of their list and are not judged)"
                if log in unseen
                else ""
            )
            for log, f in without.items()
        )
        blocks.append(
            Paragraph(
                f"Users did something with {covered}; all others count as not relevant, looked at or not.",
                "note",
            )
        )
    missing = {f.log: f for f in result.findings if f.check == "grade_missing"}
    if missing:
        covered = ", ".join(f"{1 - f.share:.1%} of {log}'s rows" for log, f in missing.items())
        blocks.append(
            Paragraph(
                f"Labels cover {covered}. Labels are not missing by chance: what stood low was looked at less, so the "
                "metric flatters the ranking that chose what was labelled.",
                "warning",
            )
        )
    return blocks


def _tests(tests: Sequence[LabelTest], result: MonitorResult) -> Table:
    rows = tuple(
        (
            t.what,
            t.window,
            t.before,
            t.now,
            estimate(t.difference),
            t.p_corrected,
            Badge("alert", "bad") if t.alert else Badge("no alert", "good"),
        )
        for t in tests
    )
    return Table(
        "labels",
        "Labels in the baseline and now; single windows only where they raise an alert.",
        (
            Column("What"),
            Column("Window"),
            Column("Before", "metric"),
            Column("Now", "metric"),
            Column(f"Difference [{label(result)} interval]", "difference"),
            Column("p corrected", "p"),
            Column("Verdict"),
        ),
        rows,
    )


def _windows(result: MonitorResult) -> Table:
    events = list(result.windows[0].event_rates)
    placed = any(w.orphans is not None for w in result.windows)
    return Table(
        "label_windows",
        "The state of the labels in every window, whatever its size.",
        (
            Column("Window"),
            Column("Queries", "count"),
            Column("Items per query", "number"),
            Column("With a relevant document", "percent"),
            *(Column(f"{name} per query", "number") for name in events),
            *((Column("Orphan events", "count", hint="They belong to no impression."),) if placed else ()),
            Column("Immature", "percent", hint="Queries whose labels are still arriving."),
        ),
        tuple(
            (
                w.label, w.n_queries, w.items_per_query, w.relevant_share, *(w.event_rates[e] for e in events),
                *((w.orphans,) if placed else ()), w.immature_share,
            )
            for w in result.windows
        ),
    )  # fmt: skip


def _chart(result: MonitorResult) -> Chart:
    rows = [
        {
            "at": w.start_ns // 1_000_000,
            "window": w.label,
            "share": round(w.relevant_share, 5),
            "queries": w.n_queries,
        }
        for w in result.windows
    ]
    body: dict[str, Any] = {
        "data": {"values": rows},
        "width": "container",
        "height": 120,
        "mark": {"type": "line", "point": True, "color": PALETTE[3]},
        "encoding": {
            "x": time_axis(result),
            "y": {
                "field": "share",
                "type": "quantitative",
                "title": None,
                "axis": {"format": "%"},
                "scale": {"domainMin": 0},
            },
            "tooltip": [
                {"field": "window"},
                {"field": "share", "type": "quantitative", "format": ".1%"},
                {"field": "queries", "type": "quantitative"},
            ],
        },
    }
    low, high = min(w.relevant_share for w in result.windows), max(w.relevant_share for w in result.windows)
    return Chart(
        "labels",
        "Share of queries with a relevant document, by window",
        spec(body),
        f"Between {low:.1%} and {high:.1%}.",
    )
