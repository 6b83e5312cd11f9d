"""Which models differ from each other, and not only from the baseline?"""

from __future__ import annotations

from ltr_harness.report.blocks import Block, Cell, Column, Heading, Paragraph, Table
from ltr_harness.report.data import ReportData


def section(data: ReportData) -> list[Block]:
    if len(data.rivals) < 2:  # the verdict has told the one pair there is
        return []
    letters = data.letters
    if not all(letters.groups.values()):
        return []
    models = [model for model in data.models if model in letters.groups]
    last = max(len(letter) for group in letters.groups.values() for letter in group)
    rows: list[tuple[Cell, ...]] = [
        (
            data.model_name(model),
            data.summary(model, data.primary).mean,
            ("" if last == 1 else " ").join(letters.groups[model]),
        )
        for model in models
    ]
    method = data.comparison.method
    pairs = len(models) * (len(models) - 1) // 2
    return [
        Heading("All pairs"),
        Paragraph(
            f"Models that share a letter do not differ at {data.primary}: {method.test_text} on the paired "
            f"differences of all {pairs} pairs, {data.confidence_label} confidence for all of them jointly, "
            f"over the {letters.n:,} queries with a value for every model. Sharing a letter does not prove equality."
        ),
        *([Paragraph(letters.note)] if letters.note else []),
        Table(
            name="all_pairs",
            caption=f"Letters at {data.primary}; two models without a common one differ.",
            columns=(Column("Model"), Column(data.primary, "metric"), Column("Letters")),
            rows=tuple(rows),
        ),
    ]
