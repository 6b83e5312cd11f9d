"""Rows, queries, grades and files of each part of the data."""

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

from ltr_harness._util.text import count_of, named
from ltr_harness.data.readers.words import grades_in_words
from ltr_harness.data.relevance.rule import Relevance
from ltr_harness.data.relevance.rule_in_words import describe
from ltr_harness.experiments.inspection.agreement import JudgmentAgreement
from ltr_harness.experiments.inspection.candidates import CandidateRecall
from ltr_harness.experiments.runs.record import SplitFacts
from ltr_harness.metrics.core.cautions import cautions
from ltr_harness.report.blocks import Block, Bullets, Cell, Column, Details, Heading, Paragraph, Table
from ltr_harness.report.data import ReportData

SPLITS = ("train", "valid", "test")


class _FoldSplit(NamedTuple):
    fold: str
    name: str
    facts: SplitFacts

    @property
    def title(self) -> str:
        return f"{self.fold} {self.name}"

    def per_query(self, number: int) -> float | None:
        return number / self.facts.n_queries if self.facts.n_queries else None


_COLUMN_CAUTIONS = ("ignored-columns", "text-in-numbers")  # cautions about columns that are no features


def section(data: ReportData) -> list[Block]:
    splits = _splits(data)
    if not splits:
        return []
    blocks: list[Block] = [Heading("Data", finding=_finding(data)), _size_table(splits)]
    blocks += recall_tables({split.title: split.facts.candidates for split in splits})
    blocks += agreement_blocks({split.title: split.facts.agreement for split in splits})
    blocks += [Paragraph(f"{note}.", "note") for note in _notes(data)]
    if len({split.title for split in splits}) < len(splits):
        warning = "Some splits appear more than once: models were trained on different versions of them."
        blocks.append(Paragraph(warning, "warning"))
    blocks.append(Details("Fingerprints and files", (_fingerprint_table(splits), _file_table(splits))))
    return blocks


def _finding(data: ReportData) -> str:
    """Return the number of test queries, and of those without relevant documents."""
    finding = count_of(data.comparison.n_queries, "test query")
    return f"{finding}, {data.n_empty:,} without relevant documents" if data.n_empty else finding


def _size_table(splits: Sequence[_FoldSplit]) -> Table:
    return Table.of(
        "data",
        "Splits as they were used. A query is never divided between splits.",
        splits,
        {
            Column("Fold"): lambda split: split.fold,
            Column("Split"): lambda split: split.name,
            Column("Queries", "count"): lambda split: split.facts.n_queries,
            Column("Rows", "count"): lambda split: split.facts.n_rows,
            Column("Rows per query", "number"): lambda split: split.per_query(split.facts.n_rows),
            Column("Without relevant documents", "count"): lambda split: split.facts.n_without_relevant,
            Column("Share", "percent"): lambda split: split.per_query(split.facts.n_without_relevant),
            Column("Features", "count"): lambda split: split.facts.n_features,
            Column("Source", "code"): lambda split: split.facts.source,
        },
    )


def _notes(data: ReportData) -> list[str]:
    """Return sentences on the changed labels, features and columns of the runs, each once."""
    mapping_text = "The files' labels are mapped to grades, alike in all splits"
    derivation_text = "Labels come from user events, alike in all splits"
    grade_notes, relevance_notes, feature_notes, column_notes = [], [], [], []
    for record in data.records:
        if grades := record.reading.get("grades"):
            grade_notes.append(f"{mapping_text}: {grades_in_words(grades)}")
        if rule := record.reading.get("relevance"):
            relevance_notes.append(f"{derivation_text}: {describe(Relevance.model_validate(rule))}")
        if record.features:
            feature_notes.append(named("feature", record.features))
        column_notes += [str(caution) for caution in record.cautions if caution.kind in _COLUMN_CAUTIONS]
    return list(dict.fromkeys([*grade_notes, *relevance_notes, *feature_notes, *column_notes]))


def _fingerprint_table(splits: Sequence[_FoldSplit]) -> Table:
    return Table.of(
        "fingerprints",
        "Digests of the models' input: equal digests mean equal arrays.",
        splits,
        {
            Column("Fold"): lambda split: split.fold,
            Column("Split"): lambda split: split.name,
            Column("Features, labels and queries", "code"): lambda split: split.facts.fingerprint,
            Column("Labels and queries", "code"): lambda split: split.facts.judgments_fingerprint,
        },
    )


def _file_table(splits: Sequence[_FoldSplit]) -> Table:
    return Table.of(
        "files",
        "Files and their SHA-256.",
        sorted({file for split in splits for file in split.facts.files.items()}),
        {Column("File", "code"): itemgetter(0), Column("SHA-256", "code"): itemgetter(1)},
    )


def recall_tables(recalls: Mapping[str, Sequence[CandidateRecall]]) -> list[Block]:
    """Return candidate recall by split, and by slice; nothing where the data do not name the candidates."""
    rows = [(split, recall) for split, split_recalls in recalls.items() for recall in split_recalls]
    split_rows = [row for row in rows if not row[1].attribute]
    slice_rows = [row for row in rows if row[1].attribute]
    if not split_rows:
        return []
    mean_recall = Column("Candidate recall", "metric", hint="the mean over queries with a relevant document")
    columns: dict[Column, Callable[[tuple[str, CandidateRecall]], Cell]] = {
        Column("Queries", "count"): lambda row: row[1].n_queries,
        Column("Without candidates", "percent"): lambda row: row[1].n_without_candidates / row[1].n_queries,
        Column("Judged documents", "count"): lambda row: row[1].n_judged,
        Column("Missed", "percent"): lambda row: row[1].n_missed / max(row[1].n_judged, 1),
        Column("Relevant documents", "count"): lambda row: row[1].n_relevant,
        mean_recall: lambda row: row[1].mean,
        Column("of all relevant documents", "metric"): lambda row: row[1].total,
    }
    split_column: dict[Column, Callable[[tuple[str, CandidateRecall]], Cell]] = {
        Column("Split"): itemgetter(0)
    }
    caption = (
        "Candidate recall: the share of the relevant documents, missed ones included, that are candidates."
    )
    blocks: list[Block] = [Table.of("candidates", caption, split_rows, split_column | columns)]
    if slice_rows:
        split_column |= {
            Column("Attribute"): lambda row: row[1].attribute,
            Column("Value"): lambda row: row[1].label,
        }
        table = Table.of(
            "candidates-by-slice", "Candidate recall by slice.", slice_rows, split_column | columns
        )
        blocks.append(Details("Candidate recall by slice", (table,)))
    return blocks


def agreement_blocks(agreements: Mapping[str, Sequence[JudgmentAgreement]]) -> list[Block]:
    """Return the agreement of several judgments of a document; nothing where documents have one by definition."""
    rows = [
        (split, agreement)
        for split, split_agreements in agreements.items()
        for agreement in split_agreements
        if agreement.n_documents
    ]
    if not rows:
        return []
    alpha_hint = "1: all judgments of a document are equal; 0: they agree as by chance"
    columns: dict[Column, Callable[[tuple[str, JudgmentAgreement]], Cell]] = {
        Column("Split"): itemgetter(0),
        Column("Queries"): lambda row: f"{row[1].attribute} {row[1].label}".strip() or "all",
        Column("Documents with several judgments", "count"): lambda row: row[1].n_documents,
        Column("Judgments", "count"): lambda row: row[1].n_judgments,
        Column("Pairs of equal grades", "percent"): lambda row: row[1].equal,
        Column("Alpha", "metric", hint=alpha_hint): lambda row: row[1].ordinal,
        Column("Nominal alpha", "metric", hint="of grades without their order"): lambda row: row[1].nominal,
    }
    alpha_text = "Krippendorff's alpha, undefined where all grades are equal"
    caption = f"Agreement of several judgments of a document: {alpha_text}."
    note = (
        "Labels that judges disagree on bound what any metric can tell: a part of each difference between models is a "
        "difference between judges. Krippendorff recommends an alpha of 0.8, and 0.667 for tentative conclusions."
    )
    return [Table.of("agreement", caption, rows, columns), Paragraph(note, "note")]


def _splits(data: ReportData) -> list[_FoldSplit]:
    """Return the splits of every fold, each once unless models saw different data."""
    splits: dict[tuple[str, str, str], _FoldSplit] = {}
    for fold in sorted({record.fold for record in data.records}):
        fold_records = [record for record in data.records if record.fold == fold]
        for name in SPLITS:
            for record in fold_records:
                if name in record.data:
                    facts = record.data[name]
                    splits.setdefault((fold, name, facts.fingerprint), _FoldSplit(fold, name, facts))
    return list(splits.values())


def cautions_section(data: ReportData) -> list[Block]:
    """Cautions about the data, the metrics and the models."""
    if data.rows is None:
        return []
    metric_cautions = cautions(list(data.own_metrics.values()), data.rows.judgments)
    if not metric_cautions:
        return []
    concerns_primary = any(
        caution.severity != "note" and (not caution.place or data.primary in caution.place.split(", "))
        for caution in metric_cautions
    )
    finding = count_of(len(metric_cautions), "caution")
    return [
        Heading("Before trusting a number", finding=finding, matters=concerns_primary),
        Paragraph("Effects of the test data's labels and list lengths on the metrics of this report."),
        Bullets(tuple(map(str, metric_cautions))),
    ]
