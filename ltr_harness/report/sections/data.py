"""What data is this about?"""

from __future__ import annotations

from ltr_harness.readers.values import grades_in_words
from ltr_harness.relevance.attribution import describe
from ltr_harness.relevance.rule import Relevance
from ltr_harness.report.blocks import Block, Cell, Column, Details, Heading, Paragraph, Table
from ltr_harness.report.data import ReportData
from ltr_harness.runs.record import SplitFacts

SPLITS = ("train", "valid", "test")


def section(data: ReportData) -> list[Block]:
    facts = split_facts(data)
    if not facts:
        return []
    rows: list[tuple[Cell, ...]] = []
    for (fold, split), variants in facts.items():
        for split_fact in variants:
            rows.append(
                (
                    fold,
                    split,
                    split_fact.n_queries,
                    split_fact.n_rows,
                    split_fact.n_rows / split_fact.n_queries if split_fact.n_queries else None,
                    split_fact.n_without_relevant,
                    split_fact.n_without_relevant / split_fact.n_queries if split_fact.n_queries else None,
                    split_fact.n_features,
                    split_fact.source,
                )
            )
    blocks: list[Block] = [
        Heading("Data"),
        Table(
            name="data",
            caption="Splits as they were used. A query is never divided between splits.",
            columns=(
                Column("Fold"),
                Column("Split"),
                Column("Queries", "count"),
                Column("Rows", "count"),
                Column("Rows per query", "number"),
                Column("Without relevant documents", "count"),
                Column("Share", "percent"),
                Column("Features", "count"),
                Column("Source", "code"),
            ),
            rows=tuple(rows),
        ),
    ]
    for mapped in dict.fromkeys(
        grades_in_words(record.reading["grades"]) for record in data.records if record.reading.get("grades")
    ):
        blocks.append(
            Paragraph(f"The files' labels are mapped to grades, alike in all splits: {mapped}.", "note")
        )
    for rule in dict.fromkeys(
        describe(Relevance.model_validate(record.reading["relevance"]))
        for record in data.records
        if record.reading.get("relevance")
    ):
        blocks.append(Paragraph(f"Labels come from what users did, alike in all splits: {rule}.", "note"))
    if any(len(variants) > 1 for variants in facts.values()):
        blocks.append(
            Paragraph(
                "Some splits appear more than once: models were trained on different versions of them.",
                "warning",
            )
        )
    blocks.append(Details("Fingerprints and files", (_fingerprints(facts), _files(facts))))
    return blocks


def split_facts(data: ReportData) -> dict[tuple[str, str], list[SplitFacts]]:
    """(fold, split) to its facts: one entry each unless models saw different data."""
    facts_of: dict[tuple[str, str], list[SplitFacts]] = {}
    for fold in sorted({record.fold for record in data.records}):
        for split in SPLITS:
            for record in data.records:
                facts = record.data.get(split) if record.fold == fold else None
                if facts is None:
                    continue
                seen = facts_of.setdefault((fold, split), [])
                if facts.fingerprint not in {known.fingerprint for known in seen}:
                    seen.append(facts)
    return facts_of


def _fingerprints(facts: dict[tuple[str, str], list[SplitFacts]]) -> Table:
    return Table(
        name="fingerprints",
        caption="Digests of what the models saw: equal digests mean equal arrays.",
        columns=(
            Column("Fold"),
            Column("Split"),
            Column("Features, labels and queries", "code"),
            Column("Labels and queries", "code"),
        ),
        rows=tuple(
            (fold, split, one.fingerprint, one.judgments_fingerprint)
            for (fold, split), variants in facts.items()
            for one in variants
        ),
    )


def _files(facts: dict[tuple[str, str], list[SplitFacts]]) -> Table:
    files = {
        (path, digest)
        for variants in facts.values()
        for one in variants
        for path, digest in one.files.items()
    }
    return Table(
        name="files",
        caption="Files and their SHA-256.",
        columns=(Column("File", "code"), Column("SHA-256", "code")),
        rows=tuple(sorted(files)),
    )
