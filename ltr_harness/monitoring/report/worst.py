"""Which queries should somebody read?"""

from __future__ import annotations

from ltr_harness.monitoring.results.result import MonitorResult
from ltr_harness.report.blocks import Block, Column, Details, Heading, Table


def section(result: MonitorResult) -> list[Block]:
    if not result.worst:
        return []
    paired = any(w.before == w.before for w in result.worst)
    columns = [
        Column("Query", "code"),
        Column("Day"),
        Column(result.primary, "metric"),
        Column("Grades in the order shown", "code"),
    ]
    if paired:
        columns.insert(3, Column("Before", "metric"))
    rows = tuple(
        (w.query, w.window, w.value, w.before, w.grades) if paired else (w.query, w.window, w.value, w.grades)
        for w in result.worst
    )
    caption = (
        "The largest losses against the same query before."
        if paired
        else "The lowest values among mature queries."
    )
    return [
        Heading("Worst queries"),
        Details("Queries to read", (Table("worst", caption, tuple(columns), rows),)),
    ]
