"""What did not finish, and why?"""

from __future__ import annotations

from ltr_harness.report.blocks import Block, Code, Column, Details, Heading, Table
from ltr_harness.report.data import ReportData


def section(data: ReportData) -> list[Block]:
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
    return [
        Heading("Failures"),
        Table(
            name="failures",
            caption="Runs that failed while training; the others were not touched by it.",
            columns=(Column("Model"), Column("Fold"), Column("Seed", "count"), Column("Error")),
            rows=tuple(rows),
        ),
        *logs,
    ]
