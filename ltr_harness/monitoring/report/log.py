"""Is the log fit to be judged?"""

from __future__ import annotations

from ltr_harness.monitoring.results.result import MonitorResult
from ltr_harness.report.blocks import Badge, Block, Column, Heading, Paragraph, Table, Tone

_TONES: dict[str, Tone] = {"error": "bad", "warning": "neutral", "note": "muted"}


def section(result: MonitorResult) -> list[Block]:
    blocks: list[Block] = [Heading("The log"), _lengths(result)]
    if not result.findings:
        return [*blocks, Paragraph("Every check of the contract passed.")]
    rows = tuple(
        (
            f.check,
            f.log,
            Badge(f.severity, _TONES[f.severity]),
            f.count,
            f.total,
            f.share,
            f.meaning,
            ", ".join(f.examples),
        )
        for f in result.findings
    )
    columns = (
        Column("Check", "code"), Column("Log"), Column("Severity"), Column("Count", "count"), Column("Of", "count"),
        Column("Share", "percent"), Column("Meaning"), Column("Examples", "code"),
    )  # fmt: skip
    return [
        *blocks,
        Table(
            "contract",
            "What the checks found; warnings more frequent than in the baseline raise alerts.",
            columns,
            rows,
        ),
    ]


def _lengths(result: MonitorResult) -> Table:
    return Table(
        "list_lengths",
        "Items per query.",
        (
            Column("Log"),
            Column("Shortest", "count"),
            Column("p10", "number"),
            Column("Median", "number"),
            Column("p90", "number"),
            Column("Longest", "count"),
        ),
        tuple((n.log, n.shortest, n.p10, n.median, n.p90, n.longest) for n in result.list_lengths),
        sortable=False,
    )
