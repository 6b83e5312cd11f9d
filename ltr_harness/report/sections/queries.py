"""Which queries changed most, and what do their two ranked lists look like?"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ltr_harness.metrics.core.grammar import MetricName
from ltr_harness.report.blocks import Badge, Block, Cell, Column, Details, Heading, Paragraph, Table
from ltr_harness.report.data import ReportData
from ltr_harness.report.formats import difference as difference_text
from ltr_harness.report.formats import metric as metric_text
from ltr_harness.report.numbers.test_rows import TestRows
from ltr_harness.stats.paired import TIE
from ltr_harness.wording import count_of

EACH = 5
"""Largest gains shown per model, and as many losses."""

IN_ALL = 100
"""Upper bound of queries over all models, so that the page stays small; every model keeps one of each."""

DEPTH = 20
"""Documents shown of a list at most; K where it is smaller."""


class QueryChange(NamedTuple):
    """A query on which a model differs from the baseline."""

    model: str
    query: str
    baseline_value: float
    value: float
    rows: int | None
    relevant: int | None

    @property
    def difference(self) -> float:
        return self.value - self.baseline_value


def section(data: ReportData) -> list[Block]:
    gains = {model: changes(data, model) for model in data.rivals}
    changed = [change for pair in gains.values() for kind in pair for change in kind]
    if not changed:
        return []
    blocks: list[Block] = [Heading("Queries that changed most")]
    rows = data.rows
    table = _table(data, changed)
    if rows is None:
        return [*blocks, Paragraph(_introduction(data, lists=False)), table]
    blocks.append(Paragraph(_introduction(data, lists=True)))
    lists = _Lists(data, rows)
    for at, (model, (won, lost)) in enumerate(gains.items()):
        inside: list[Block] = []
        for title, kind in (("Largest gains", won), ("Largest losses", lost)):
            if kind:
                inside += [Heading(title, level=3), *(lists.side_by_side(change) for change in kind)]
        if inside:
            blocks.append(
                Details(f"{model} against {data.baseline}", tuple(inside), page_only=True, open=at == 0)
            )
    return [*blocks, Details("All of these queries as one table", (table,))]


def changes(data: ReportData, model: str) -> tuple[list[QueryChange], list[QueryChange]]:
    """The largest gains and the largest losses, largest first; ties in the order of query ids."""
    each = max(1, min(EACH, IN_ALL // (2 * len(data.rivals))))
    base = data.entrants[data.baseline]
    own, other = data.entrants[model].per_query(data.primary), base.per_query(data.primary)
    d = own - other if data.higher_is_better(data.primary) else other - own
    facts = [base.query_attributes.get(name) for name in ("rows", "n_relevant")]

    def pick(sign: int) -> list[QueryChange]:
        size = np.where(np.isnan(d), 0.0, sign * d)
        largest = np.argsort(-size, kind="stable")[:each]
        return [
            QueryChange(
                model,
                str(base.query_ids[at]),
                float(other[at]),
                float(own[at]),
                *(None if fact is None else int(fact[at]) for fact in facts),
            )
            for at in largest.tolist()
            if size[at] > TIE
        ]

    return pick(1), pick(-1)


def _introduction(data: ReportData, *, lists: bool) -> str:
    text = (
        f"Against {data.baseline} at {data.primary}. Single queries prove nothing about a model; they show what "
        "kind of query to look at. Values are averages over seeds."
    )
    if not lists:
        return text + " The scores of their documents are not stored, so the ranked lists cannot be shown."
    seeds = {data.entrants[name].replicates[0] for name in data.models}
    which = f"seed {next(iter(seeds))}" if len(seeds) == 1 else "each model's first seed"
    return (
        f"{text} A query opens to both ranked lists, those of {which}: the first {_depth(data)} documents with "
        "label and "
        "score, equal scores in the order of the file, and the place each has in the other list."
    )


def _depth(data: ReportData) -> int:
    k = MetricName.of(data.primary).k
    return DEPTH if k is None else min(k, DEPTH)


def _table(data: ReportData, changed: list[QueryChange]) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (
            data.model_name(change.model),
            change.query,
            change.baseline_value,
            change.value,
            change.difference,
            change.rows,
            change.relevant,
        )
        for change in changed
    ]
    return Table(
        name="changed_queries",
        caption=f"Largest gains and losses per query at {data.primary}.",
        columns=(
            Column("Model"),
            Column("Query", "code"),
            Column(data.baseline, "metric"),
            Column("Model's", "metric"),
            Column("Difference", "difference"),
            Column("Documents", "count"),
            Column("Relevant documents", "count"),
        ),
        rows=tuple(rows),
    )


class _Lists:
    """Draws the two lists of a query from the stored scores of the first seed."""

    def __init__(self, data: ReportData, rows: TestRows) -> None:
        self._data = data
        self._rows = rows
        self._depth = _depth(data)
        self._made = 0
        self._base = rows.scores(data.baseline)
        self._model = ""
        self._scores = self._base

    def side_by_side(self, change: QueryChange) -> Details:
        if change.model != self._model:
            self._model, self._scores = change.model, self._rows.scores(change.model)
        rows = self._rows.rows_of(change.query)
        labels = self._rows.judgments.labels[rows]
        documents = self._rows.judgments.document_ids
        names = (
            [f"row {at}" for at in range(labels.size)]
            if documents is None
            else [str(document) for document in documents[rows].tolist()]
        )
        sides = [_Ranked.of(scores[rows]) for scores in (self._base, self._scores)]
        lines = []
        for place in range(min(self._depth, labels.size)):
            line: list[Cell] = [place + 1]
            for one, other in (sides, sides[::-1]):
                row = int(one.order[place])
                line += [
                    names[row],
                    Badge(f"{labels[row]:g}", "good" if labels[row] > 0 else "muted"),
                    f"{one.scores[row]:.4g}",
                    int(other.rank[row]),
                ]
            lines.append(tuple(line))
        self._made += 1
        what = "Row" if documents is None else "Document"
        half = [(what, "text"), ("Label", "text"), ("Score", "tally")]
        groups = [(self._data.baseline, "there"), (change.model, "was")]
        return Details(
            f"{change.query}: {metric_text(change.baseline_value)} → {metric_text(change.value)} "
            f"({difference_text(change.difference)}), {count_of(labels.size, 'document')}, "
            f"{int((labels > 0).sum()):,} relevant",
            (
                Table(
                    name=f"lists_{self._made}",
                    caption=f"The first {len(lines)} of {count_of(labels.size, 'document')}.",
                    columns=(
                        Column("Rank", "count"),
                        *(
                            Column(label, form, group=group)  # type: ignore[arg-type]  # literals above
                            for group, rank in groups
                            for label, form in (*half, (rank, "count"))
                        ),
                    ),
                    rows=tuple(lines),
                    sortable=False,
                ),
            ),
            page_only=True,
        )


class _Ranked(NamedTuple):
    """One list: documents by falling score, and every document's rank from 1."""

    scores: NDArray[np.float64]
    order: NDArray[np.int64]
    rank: NDArray[np.int64]

    @classmethod
    def of(cls, scores: NDArray[np.float64]) -> _Ranked:
        order = np.argsort(-scores, kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(1, order.size + 1)
        return cls(scores, order, rank)
