"""Do we reproduce what others have published?"""

from __future__ import annotations

from collections.abc import Sequence

from ltr_harness.config.references import Reference
from ltr_harness.explanation import as_measured_here, differences_in_words
from ltr_harness.report.blocks import Block, Cell, Column, Estimate, Heading, Paragraph, Table, Text, code
from ltr_harness.report.data import ReportData
from ltr_harness.report.numbers.published import Published

HEADING = "Beside published numbers"


def section(data: ReportData) -> list[Block]:
    if not data.published:
        return []
    blocks: list[Block] = [
        Heading(HEADING),
        Paragraph(
            "The models here, evaluated as the publication evaluated, beside what it printed. The interval, "
            f"{data.confidence_label}, is that of our number for other queries. On the same test queries both numbers "
            "share much of that error, so a difference within the interval may still be one between the models."
        ),
    ]
    for at, reference in enumerate(data.references):
        rows = [row for row in data.published if row.reference == at]
        if rows:
            blocks += [_table(data, at, reference, rows), *_translation(rows)]
    return blocks


def _table(data: ReportData, at: int, reference: Reference, rows: Sequence[Published]) -> Table:
    translated = any(row.published_without_empty is not None for row in rows)
    columns = [
        Column("Model"),
        Column("Metric", "code"),
        Column("Published", "metric"),
        Column("Here", "metric", hint="The mean of the stored scores under the publication's conventions."),
        Column("Here less published", "difference", hint="With the interval of our mean."),
        Column(
            "Here, our definition",
            "metric",
            hint="The same scores, the same cutoff, this harness's conventions.",
        ),
    ]
    if translated:
        hint = "The published figure over the queries that have relevant documents, if their share was ours."
        columns.append(
            Column("Published, about, without queries that have nothing relevant", "metric", hint=hint)
        )
    cells: list[tuple[Cell, ...]] = [_cells(data, row)[: len(columns)] for row in rows]
    of = f": {reference.data}" if reference.data else ""
    return Table(
        name=f"published_{at + 1}",
        caption=f"{reference.source}{of}.",
        columns=tuple(columns),
        rows=tuple(cells),
        notes=_notes(data, reference, rows),
        sortable=False,
    )


def _cells(data: ReportData, row: Published) -> tuple[Cell, ...]:
    difference = None
    if row.difference is not None:
        difference = Estimate(row.difference, row.ci_low, row.ci_high)
    return (
        data.model_name(row.model),
        row.metric,
        row.published,
        row.mean,
        difference,
        row.own_mean,
        row.published_without_empty,
    )


def _notes(data: ReportData, reference: Reference, rows: Sequence[Published]) -> tuple[Text, ...]:
    notes: list[Text] = []
    if reference.note is not None:
        notes.append(reference.note)
    by_words: dict[str, list[str]] = {}
    for metric in dict.fromkeys(name for figures in reference.values.values() for name in figures):
        theirs = reference.measured(metric)
        words = "; ".join(differences_in_words(as_measured_here(theirs), theirs))
        by_words.setdefault(words, []).append(
            str(theirs.with_cutoff(None) if theirs.takes_cutoff else theirs)
        )
    for words, names in by_words.items():
        if words:
            notes.append((code(", ".join(dict.fromkeys(names))), f" differs from our definition: {words}."))
    notes += [
        f"Not computed: {reason}." for reason in dict.fromkeys(row.reason for row in rows if row.reason)
    ]
    if absent := [model for model in reference.values if model not in data.models]:
        notes.append(f"No finished run here: {', '.join(absent)}.")
    return tuple(notes)


def _translation(rows: Sequence[Published]) -> list[Block]:
    """One figure said both ways, the last that can be: the deepest cutoff."""
    said = [
        (row, without, share)
        for row in rows
        if (without := row.published_without_empty) is not None and (share := row.share_empty) is not None
    ]
    if not said:
        return []
    row, without, share = said[-1]
    counted = "1" if "empty=one" in row.metric else "0"
    return [
        Paragraph(
            f"{row.published:.4f} with queries that have no relevant document at {counted} is about {without:.4f} "
            f"without them: they are {100 * share:.1f} % of the test queries here."
        )
    ]
