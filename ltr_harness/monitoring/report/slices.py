"""Where is it worse?"""

from __future__ import annotations

from ltr_harness.monitoring.report.verdict import estimate, label
from ltr_harness.monitoring.results.result import MonitorResult
from ltr_harness.report.blocks import Block, Column, Heading, Paragraph, Table
from ltr_harness.wording import count_of


def section(result: MonitorResult) -> list[Block]:
    if not result.n_slice_candidates:
        return []
    blocks: list[Block] = [Heading("Slices")]
    compared = "changed" if result.changes else "is worse"
    if not result.slices:
        text = (
            f"None of {count_of(result.n_slice_candidates, 'segment')} {compared} beyond what the rest did."
        )
        return [*blocks, Paragraph(text)]
    confirmed = any(s.confirmed for s in result.slices)
    columns = [
        Column("Slice", "code"),
        Column("Queries", "count"),
        Column("Share", "percent"),
        *((Column("Before", "metric"),) if result.changes else ()),
        Column("Now", "metric"),
        *((Column("Rest", "difference", hint="How the other queries changed."),) if result.changes else ()),
        Column(
            f"Excess [{label(result)} interval]",
            "difference",
            hint="Change beyond the rest's." if result.changes else "Mean against the rest's.",
        ),
        Column("Impact", "difference", hint="Share times excess: points of the overall metric."),
        Column("q", "p", hint="False discovery rate over all candidates."),
    ]
    if confirmed:
        columns.append(
            Column("Other half", "difference", hint="The excess on the queries that did not choose it.")
        )
    rows = tuple(
        (
            s.predicate, s.n_now, s.share, *((s.before,) if result.changes else ()), s.now,
            *((s.rest_change,) if result.changes else ()), estimate(s.excess), s.impact, s.q,
            *((estimate(s.confirmed),) if confirmed else ()),
        )
        for s in result.slices
    )  # fmt: skip
    note = (
        f"Chosen by evidence among {count_of(result.n_slice_candidates, 'candidate')}, each found after setting "
        "the queries of "
        "those before it aside; ordered by impact. The intervals are optimistic: slices are here because they look bad."
    )
    blocks.append(
        Table(
            "slices",
            f"Segments whose {result.primary} {'fell beyond' if result.changes else 'is below'} the rest's.",
            tuple(columns),
            rows,
            notes=(note,),
        )
    )
    return blocks
