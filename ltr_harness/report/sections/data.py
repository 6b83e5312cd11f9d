"""What data is this about?"""

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

from ltr_harness._util.text import count_of, named
from ltr_harness.data.readers.reader import grades_in_words
from ltr_harness.data.relevance.labels import describe
from ltr_harness.data.relevance.rule import Relevance
from ltr_harness.experiments.inspection.agreement import Agreement
from ltr_harness.experiments.inspection.candidates import CandidateRecall
from ltr_harness.experiments.runs.record import SplitFacts
from ltr_harness.metrics.core.cautions import cautions
from ltr_harness.report.blocks import Block, Bullets, Cell, Column, Details, Heading, Paragraph, Table
from ltr_harness.report.data import ReportData

SPLITS = ("train", "valid", "test")


class _Split(NamedTuple):
    fold: str
    name: str
    facts: SplitFacts

    def per_query(self, number: int) -> float | None:
        return number / self.facts.n_queries if self.facts.n_queries else None


_COLUMNS = ("ignored-columns", "text-in-numbers")  # cautions about columns that are no features


def section(data: ReportData) -> list[Block]:
    splits = _splits(data)
    if not splits:
        return []
    blocks: list[Block] = [
        Heading("Data"),
        Table.of(
            "data",
            "Splits as they were used. A query is never divided between splits.",
            splits,
            {
                Column("Fold"): lambda one: one.fold,
                Column("Split"): lambda one: one.name,
                Column("Queries", "count"): lambda one: one.facts.n_queries,
                Column("Rows", "count"): lambda one: one.facts.n_rows,
                Column("Rows per query", "number"): lambda one: one.per_query(one.facts.n_rows),
                Column("Without relevant documents", "count"): lambda one: one.facts.n_without_relevant,
                Column("Share", "percent"): lambda one: one.per_query(one.facts.n_without_relevant),
                Column("Features", "count"): lambda one: one.facts.n_features,
                Column("Source", "code"): lambda one: one.facts.source,
            },
        ),
    ]
    blocks += recall_tables({f"{one.fold} {one.name}": one.facts.candidates for one in splits})
    blocks += agreement_blocks({f"{one.fold} {one.name}": one.facts.agreement for one in splits})
    grades, rules = (
        [record.reading[what] for record in data.records if record.reading.get(what)]
        for what in ("grades", "relevance")
    )
    mapped = "The files' labels are mapped to grades, alike in all splits"
    said = [f"{mapped}: {grades_in_words(one)}" for one in grades]
    derived = "Labels come from user events, alike in all splits"
    said += [f"{derived}: {describe(Relevance.model_validate(rule))}" for rule in rules]
    said += [named("feature", record.features) for record in data.records if record.features]
    said += [str(one) for record in data.records for one in record.cautions if one.kind in _COLUMNS]
    blocks += [Paragraph(f"{text}.", "note") for text in dict.fromkeys(said)]
    if len({(one.fold, one.name) for one in splits}) < len(splits):
        several = "Some splits appear more than once: models were trained on different versions of them."
        blocks.append(Paragraph(several, "warning"))
    fingerprints = Table.of(
        "fingerprints",
        "Digests of the models' input: equal digests mean equal arrays.",
        splits,
        {
            Column("Fold"): lambda one: one.fold,
            Column("Split"): lambda one: one.name,
            Column("Features, labels and queries", "code"): lambda one: one.facts.fingerprint,
            Column("Labels and queries", "code"): lambda one: one.facts.judgments_fingerprint,
        },
    )
    files = Table.of(
        "files",
        "Files and their SHA-256.",
        sorted({pair for one in splits for pair in one.facts.files.items()}),
        {Column("File", "code"): itemgetter(0), Column("SHA-256", "code"): itemgetter(1)},
    )
    blocks.append(Details("Fingerprints and files", (fingerprints, files)))
    return blocks


def recall_tables(recalls: Mapping[str, Sequence[CandidateRecall]]) -> list[Block]:
    """Candidate recall by split, and by slice; nothing where nobody said which documents were candidates."""
    rows = [(place, one) for place, own in recalls.items() for one in own]
    whole, parts = ([row for row in rows if bool(row[1].attribute) == sliced] for sliced in (False, True))
    if not whole:
        return []
    mean = Column("Candidate recall", "metric", hint="the mean over queries with a relevant document")
    columns: dict[Column, Callable[[tuple[str, CandidateRecall]], Cell]] = {
        Column("Queries", "count"): lambda row: row[1].n_queries,
        Column("Without candidates", "percent"): lambda row: row[1].n_without_candidates / row[1].n_queries,
        Column("Judged documents", "count"): lambda row: row[1].n_judged,
        Column("Missed", "percent"): lambda row: row[1].n_missed / max(row[1].n_judged, 1),
        Column("Relevant documents", "count"): lambda row: row[1].n_relevant,
        mean: lambda row: row[1].mean,
        Column("of all relevant documents", "metric"): lambda row: row[1].total,
    }
    split: dict[Column, Callable[[tuple[str, CandidateRecall]], Cell]] = {Column("Split"): itemgetter(0)}
    said = "Candidate recall: the share of the relevant documents, missed ones included, that are candidates."
    blocks: list[Block] = [Table.of("candidates", said, whole, split | columns)]
    if parts:
        split |= {
            Column("Attribute"): lambda row: row[1].attribute,
            Column("Value"): lambda row: row[1].label,
        }
        table = Table.of("candidates-by-slice", "Candidate recall by slice.", parts, split | columns)
        blocks.append(Details("Candidate recall by slice", (table,)))
    return blocks


def agreement_blocks(agreements: Mapping[str, Sequence[Agreement]]) -> list[Block]:
    """Agreement of several judgments of a document; nothing where documents have one by definition."""
    rows = [(place, one) for place, own in agreements.items() for one in own if one.n_documents]
    if not rows:
        return []
    alpha = "1: all judgments of a document are equal; 0: they agree as by chance"
    columns: dict[Column, Callable[[tuple[str, Agreement]], Cell]] = {
        Column("Split"): itemgetter(0),
        Column("Queries"): lambda row: f"{row[1].attribute} {row[1].label}".strip() or "all",
        Column("Documents with several judgments", "count"): lambda row: row[1].n_documents,
        Column("Judgments", "count"): lambda row: row[1].n_judgments,
        Column("Pairs of equal grades", "percent"): lambda row: row[1].equal,
        Column("Alpha", "metric", hint=alpha): lambda row: row[1].ordinal,
        Column("Nominal alpha", "metric", hint="of grades without their order"): lambda row: row[1].nominal,
    }
    said = "Agreement of several judgments of a document: Krippendorff's alpha, undefined where all grades are equal."
    bound = (
        "Labels that judges disagree on bound what any metric can tell: a part of each difference between models is a "
        "difference between judges. Krippendorff recommends an alpha of 0.8, and 0.667 for tentative conclusions."
    )
    return [Table.of("agreement", said, rows, columns), Paragraph(bound, "note")]


def _splits(data: ReportData) -> list[_Split]:
    """The splits of every fold, each once unless models saw different data."""
    found: dict[tuple[str, str, str], _Split] = {}
    for fold in sorted({record.fold for record in data.records}):
        for name in SPLITS:
            for record in data.records:
                facts = record.data.get(name) if record.fold == fold else None
                if facts is not None:
                    found.setdefault((fold, name, facts.fingerprint), _Split(fold, name, facts))
    return list(found.values())


def cautions_section(data: ReportData) -> list[Block]:
    """What can these metrics not be trusted with on these data?"""
    if data.rows is None:
        return []
    found = cautions(list(data.own_metrics.values()), data.rows.judgments)
    if not found:
        return []
    return [
        Heading("Before trusting a number", finding=count_of(len(found), "caution"), matters=True),
        Paragraph("Effects of the test data's labels and list lengths on the metrics of this report."),
        Bullets(tuple(map(str, found))),
    ]
