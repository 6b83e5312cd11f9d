"""The queries that changed most, with both ranked lists."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ltr_harness._util.text import count_of
from ltr_harness.comparison.comparability import LABEL_FACTS
from ltr_harness.comparison.contrasts import WEIGHT
from ltr_harness.comparison.stats.cluster_sums import TIE
from ltr_harness.metrics.core.grammar import MetricName
from ltr_harness.metrics.core.headroom import is_computed_column
from ltr_harness.report import formats
from ltr_harness.report.blocks import Badge, Block, Cell, Column, Details, Heading, Paragraph, Table, TwoForms
from ltr_harness.report.data import ReportData, at_each_metric, computed_once
from ltr_harness.report.stored_scores import TestRows

N_PER_MODEL = 5  # largest gains shown per model, and as many losses

N_IN_TOTAL = 100
"""Upper bound of queries over all models, so that the report stays small; every model keeps one of each."""

N_LISTS = 16
"""Upper bound of queries whose ranked lists the page has, over all contenders; each keeps one of each."""

LONGEST = 60  # characters of a query's text, or of another attribute

DEPTH = 20  # documents shown of a list at most; K where it is smaller


@dataclass(frozen=True)
class ChangedQuery:
    """A query that a model serves better or worse than the baseline does."""

    model: str
    query: str
    baseline_value: float
    value: float
    difference: float
    rows: int | None
    relevant: int | None


def section(data: ReportData) -> list[Block]:
    """Return the changes at the primary metric with the ranked lists, and on the page a table at others of its K."""
    n = len(all_changes(gains_and_losses(data)))
    if not n:
        return []
    introduction = (
        f"Against {data.baseline}. Single queries prove nothing about a model; they show which "
        "queries to look at. Values are averages over seeds. "
    )
    if data.rows is None:
        introduction += "The scores of their documents are not stored, so the ranked lists cannot be shown."
    else:
        seeds = {data.comparison.system(name).replicates[0] for name in data.models}
        seed = f"seed {next(iter(seeds))}" if len(seeds) == 1 else "each model's first seed"
        introduction += (
            f"A query opens to both ranked lists, those of {seed}: the first {_depth(data)} documents with label "
            "and score, equal scores in the order of the file, and the rank of each in the other list, with an arrow "
            "to where this list has it."
        )
    heading = Heading("Queries that changed most", finding=_finding(data))
    return [heading, Paragraph(introduction), *at_each_metric(data, partial(_changed_query_blocks, data))]


def _finding(data: ReportData) -> str:
    """Return the largest loss and the largest gain of the contenders."""
    gains = gains_and_losses(data)
    differences = [change.difference for name in data.contenders for side in gains[name] for change in side]
    if not differences:
        return count_of(len(all_changes(gains)), "query")
    low, high = formats.difference(min(differences)), formats.difference(max(differences))
    return f"a query changes by {low}" if low == high else f"single queries change by {low} to {high}"


Changes = tuple[list[ChangedQuery], list[ChangedQuery]]


@computed_once
def gains_and_losses(data: ReportData) -> dict[str, Changes]:
    """Return every rival's changes at the primary metric."""
    return {model: changes(data, model) for model in data.rivals}


def all_changes(gains: Mapping[str, Changes]) -> list[ChangedQuery]:
    """Return the queries of all models, model by model, the gains first."""
    return [change for model_changes in gains.values() for side in model_changes for change in side]


def _changed_query_blocks(data: ReportData, metric: str, suffix: str) -> list[Block]:
    """Return a table; before it the lists of the primary metric's queries, where their scores are stored."""
    gains = gains_and_losses(data)
    if metric != data.primary:
        gains = {model: changes(data, model, metric) for model in data.rivals}
    queries = all_changes(gains)
    if not queries:
        return []
    contenders_queries = [change for change in queries if change.model in data.contenders]
    table, complete = (_table(data, changes, metric, suffix) for changes in (contenders_queries, queries))
    if metric != data.primary or data.rows is None:
        return [TwoForms((table,), (complete,))]
    summary = "All of these queries as one table"
    forms = TwoForms((Details(summary, (table,)),), (Details(summary, (complete,)),))
    return [*_ranked_lists(data, data.rows, gains), forms]


def _table(data: ReportData, queries: Sequence[ChangedQuery], metric: str, suffix: str) -> Table:
    attributes_of = _attributes_in_words(data)
    columns: dict[Column, Callable[[ChangedQuery], Cell]] = {
        Column("Difference", "difference"): lambda change: change.difference,
        Column("Query", "code"): lambda change: change.query,
    }
    if any(attributes_of.values()):
        columns[Column("Attributes")] = lambda change: attributes_of[change.query]
    columns |= {
        Column("Model"): lambda change: data.model_name(change.model),
        Column(data.baseline, "metric"): lambda change: change.baseline_value,
        Column("Model's", "metric"): lambda change: change.value,
        Column("Documents", "count"): lambda change: change.rows,
        Column("Relevant documents", "count"): lambda change: change.relevant,
    }
    caption = f"Largest gains and losses per query at {metric}."
    return Table.of(
        f"changed_queries{suffix}",
        caption,
        queries,
        columns,
        sortable=metric == data.primary,
        ten_rows=True,
    )


@computed_once
def _attributes_in_words(data: ReportData) -> dict[str, str]:
    """Return the attributes of each query by its id: its text first, then names with values."""
    baseline = data.comparison.system(data.baseline)
    parts: list[list[str]] = [[] for _ in range(len(baseline.query_ids))]
    for name, values in baseline.query_attributes.items():
        if name in LABEL_FACTS or name == WEIGHT or is_computed_column(name):
            continue
        is_text = values.dtype.kind not in "biufM" and 2 * len(set(values.tolist())) > values.size
        for query_parts, value in zip(parts, values.tolist(), strict=True):
            text = f"{value:g}" if isinstance(value, float) else str(value)
            if is_text:
                query_parts.insert(0, f"“{_shortened(text)}”")
            else:
                query_parts.append(f"{name} {_shortened(text)}")
    return {
        str(query): ", ".join(query_parts)
        for query, query_parts in zip(baseline.query_ids.tolist(), parts, strict=True)
    }


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _ranked_lists(data: ReportData, rows: TestRows, gains: Mapping[str, Changes]) -> list[Block]:
    """Return the ranked lists of each contender's changed queries beside the baseline's."""
    blocks: list[Block] = []
    numbers = itertools.count(1)  # in the names of tables
    baseline_scores = rows.scores(data.baseline)
    n_each = max(1, N_LISTS // (2 * len(data.contenders)))
    for model in data.contenders:
        largest_gains, largest_losses = (side[:n_each] for side in gains[model])
        model_blocks: list[Block] = []
        for heading, queries in (("Largest gains", largest_gains), ("Largest losses", largest_losses)):
            if not queries:
                continue
            model_blocks.append(Heading(heading, level=3))
            scores = (baseline_scores, rows.scores(model))
            for change in queries:
                model_blocks.append(_side_by_side(data, rows, change, scores, f"lists_{next(numbers)}"))
        if model_blocks:
            title = f"{model} against {data.baseline}"
            is_first = model == data.contenders[0]
            blocks.append(Details(title, tuple(model_blocks), page_only=True, open=is_first))
    return blocks


def changes(data: ReportData, model: str, metric: str | None = None) -> Changes:
    """Return the largest gains and the largest losses, largest first; ties in the order of query ids."""
    metric = metric or data.primary
    baseline = data.comparison.system(data.baseline)
    values, baseline_values = data.comparison.system(model).per_query(metric), baseline.per_query(metric)
    gains = values - baseline_values
    if not data.comparison.higher_is_better[metric]:
        gains = baseline_values - values
    n_rows, n_relevant = baseline.query_attributes.get("rows"), baseline.query_attributes.get("n_relevant")
    n_each = max(1, min(N_PER_MODEL, N_IN_TOTAL // (2 * len(data.rivals))))

    def change_at(position: int) -> ChangedQuery:
        value, baseline_value = float(values[position]), float(baseline_values[position])
        rows = None if n_rows is None else int(n_rows[position])
        relevant = None if n_relevant is None else int(n_relevant[position])
        difference = value - baseline_value
        return ChangedQuery(
            model, str(baseline.query_ids[position]), baseline_value, value, difference, rows, relevant
        )

    def largest(sizes: NDArray[np.float64]) -> list[ChangedQuery]:
        changed = np.flatnonzero(sizes > TIE)
        order = np.argsort(-sizes[changed], kind="stable")[:n_each]
        return [change_at(position) for position in changed[order].tolist()]

    return largest(gains), largest(-gains)


def _depth(data: ReportData) -> int:
    k = MetricName.of(data.primary).k
    return DEPTH if k is None else min(k, DEPTH)


class _RankedList(NamedTuple):
    """A model's list of one query."""

    scores: NDArray[np.float64]  # of its rows
    order: NDArray[np.int64]  # of its rows, best first
    ranks: NDArray[np.int64]  # of its rows, from 1

    @classmethod
    def from_scores(cls, scores: NDArray[np.float64]) -> "_RankedList":
        order = np.argsort(-scores, kind="stable")
        return cls(scores, order, np.argsort(order) + 1)


def _side_by_side(
    data: ReportData,
    rows: TestRows,
    change: ChangedQuery,
    scores: tuple[NDArray[np.float64], NDArray[np.float64]],
    name: str,
) -> Details:
    """Return the two lists of a query, from the first seed's scores (n_rows,) of the baseline and of the model."""
    query_rows = rows.rows_of(change.query)
    labels, document_ids = rows.judgments.labels[query_rows], rows.judgments.document_ids
    heading, names = "Row", [f"row {number}" for number in range(labels.size)]
    if document_ids is not None:
        heading, names = "Document", [str(document_id) for document_id in document_ids[query_rows].tolist()]
    baseline, model = (_RankedList.from_scores(all_scores[query_rows]) for all_scores in scores)
    lines = []
    for position in range(min(_depth(data), labels.size)):
        cells = _document_cells(baseline, model, position, names, labels)
        other_cells = _document_cells(model, baseline, position, names, labels)
        lines.append((position + 1, *cells, *other_cells))
    columns = [Column("Rank", "count")]
    columns += _list_columns(heading, data.baseline) + _list_columns(heading, change.model)
    n_documents = count_of(labels.size, "document")
    table = Table(
        name,
        f"The first {len(lines)} of {n_documents}.",
        tuple(columns),
        tuple(lines),
        footnotes=_missed_documents(data, rows, change.query),
        sortable=False,
    )
    attributes = _attributes_in_words(data)[change.query]
    query_text = f"{change.query}, {attributes}" if attributes else change.query
    return Details(
        f"({formats.difference(change.difference)}) {query_text}: {formats.metric(change.baseline_value)} → "
        f"{formats.metric(change.value)}, {n_documents}, {int((labels > 0).sum()):,} relevant",
        (table,),
        page_only=True,
    )


def _document_cells(
    ranked: _RankedList, other: _RankedList, position: int, names: Sequence[str], labels: NDArray[np.float64]
) -> tuple[Cell, ...]:
    """Return a document's name, label and score, and its rank in the other list with the way it moved from there."""
    row = int(ranked.order[position])
    rank, other_rank = position + 1, int(other.ranks[row])
    arrow = ""
    if rank < other_rank:
        arrow = " ↑"
    elif rank > other_rank:
        arrow = " ↓"
    label_text = f"{labels[row]:g}"
    label = Badge(label_text, "good") if labels[row] > 0 else label_text
    return names[row], label, f"{ranked.scores[row]:.4g}", f"{other_rank}{arrow}"


def _list_columns(heading: str, model: str) -> list[Column]:
    return [
        Column(heading, group=model),
        Column("Label", "tally", group=model),
        Column("Score", "tally", group=model),
        Column("Other rank", "tally", group=model),
    ]


def _missed_documents(data: ReportData, rows: TestRows, query: str) -> tuple[str, ...]:
    """Return the footnote about a query's missed documents, the relevant ones by name."""
    missed = rows.missed_of(query)
    if not missed:
        return ()
    documents = [f"{name} (label {label:g})" for name, label in missed[: _depth(data)] if label > 0]
    if n_others := len(missed) - len(documents):
        documents.append(f"{n_others:,} more")
    return (f"Missed: {', '.join(documents)}.",)
