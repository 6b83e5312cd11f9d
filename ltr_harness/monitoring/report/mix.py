"""Did the queries get worse results, or are there only more of the hard ones?"""

from __future__ import annotations

from ltr_harness.monitoring.report.verdict import estimate, label
from ltr_harness.monitoring.results.result import MonitorResult
from ltr_harness.report.blocks import Block, Column, Details, Heading, Paragraph, Table
from ltr_harness.report.formats import p_value
from ltr_harness.wording import count_of


def section(result: MonitorResult) -> list[Block]:
    blocks: list[Block] = []
    if result.splits:
        blocks.append(
            Table(
                "mix",
                "The change, divided by each segment column: total = within + mix + unmatched.",
                (
                    Column("Segment column", "code"),
                    Column(
                        f"Within [{label(result)} interval]",
                        "difference",
                        hint="From changes inside the segments.",
                    ),
                    Column(
                        f"Mix [{label(result)} interval]",
                        "difference",
                        hint="From changed shares of the segments.",
                    ),
                    Column(
                        f"Unmatched [{label(result)} interval]",
                        "difference",
                        hint="From values that only one period has: nobody knows what the other would have there.",
                    ),
                    Column("Adjusted", "metric", hint="Production's mean with the baseline's shares."),
                ),
                tuple(
                    (s.column, estimate(s.within), estimate(s.mix), estimate(s.unmatched), s.adjusted)
                    for s in result.splits
                ),
            )
        )
        for split in result.splits:
            cells = tuple(
                (c.value, c.share_before, c.share_now, c.mean_before, c.mean_now) for c in split.cells
            )
            table = Table(
                f"mix_{result.splits.index(split) + 1}",
                f"Segments of {split.column}, the most frequent first.",
                (
                    Column("Value", "code"),
                    Column("Share before", "percent"),
                    Column("Share now", "percent"),
                    Column("Before", "metric"),
                    Column("Now", "metric"),
                ),
                cells,
            )
            blocks.append(Details(f"Segments of {split.column}", (table,)))
    if result.keyed is not None:
        k = result.keyed
        blocks.append(
            Paragraph(
                f"Over {count_of(k.n, 'key')} that recur in both periods, each counted once: {k.value:+.4f} "
                f"[{k.low:+.4f}, {k.high:+.4f}], p {p_value(k.p)}."
            )
        )
    return [Heading("Within or mix"), *blocks] if blocks else []
