"""Does the metric move with what users do?"""

from __future__ import annotations

from ltr_harness.monitoring.report.verdict import estimate, label
from ltr_harness.monitoring.results.result import MonitorResult
from ltr_harness.monitoring.results.summaries import Online
from ltr_harness.report.blocks import Block, Cell, Column, Details, Heading, Paragraph, Table


def section(result: MonitorResult) -> list[Block]:
    if not result.online:
        return []
    against = any(o.difference for o in result.online)
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
                *(
                    (
                        Column(f"Difference [{label(result)} interval]", "difference"),
                        Column("p corrected", "p", hint="Holm over these columns."),
                    )
                    if against
                    else ()
                ),
                Column(
                    f"Rank correlation with {result.primary}",
                    "number",
                    hint="Spearman's, over the windows' means; from four windows on.",
                ),
                Column("Windows", "count"),
            ),
            tuple(_row(o, against) for o in result.online),
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


def _row(row: Online, against: bool) -> tuple[Cell, ...]:
    difference = (estimate(row.difference), row.p_corrected) if against else ()
    return (row.name, row.before, row.now, *difference, row.correlation, row.n_windows)
