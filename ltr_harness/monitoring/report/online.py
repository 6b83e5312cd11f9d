"""Does the metric move with what users do?"""

from __future__ import annotations

from ltr_harness.monitoring.results.result import MonitorResult
from ltr_harness.report.blocks import Block, Column, Details, Heading, Paragraph, Table


def section(result: MonitorResult) -> list[Block]:
    if not result.online:
        return []
    names = [o.name for o in result.online]
    return [
        Heading("Online"),
        Paragraph(
            f"{result.primary} is a proxy. If it and what users do go different ways, one of them is measured wrongly."
        ),
        Table(
            "online",
            "What users did: means over queries.",
            (
                Column("Column", "code"),
                Column("Before", "number"),
                Column("Now", "number"),
                Column(
                    f"Rank correlation with {result.primary}",
                    "number",
                    hint="Spearman's, over the windows' means; from four windows on.",
                ),
                Column("Windows", "count"),
            ),
            tuple((o.name, o.before, o.now, o.correlation, o.n_windows) for o in result.online),
        ),
        Details(
            "Window by window",
            (
                Table(
                    "online_windows",
                    f"{result.primary} and what users did in every window.",
                    (
                        Column("Window"),
                        Column(result.primary, "metric"),
                        *(Column(n, "number") for n in names),
                    ),
                    tuple((w.label, w.interval.value, *(w.online[n] for n in names)) for w in result.windows),
                ),
            ),
        ),
    ]
