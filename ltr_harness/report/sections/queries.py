"""Which queries changed most, and what do their two ranked lists look like?"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ltr_harness._util.text import count_of
from ltr_harness.comparison.stats.cluster_sums import TIE
from ltr_harness.metrics.core.grammar import MetricName
from ltr_harness.report import formats
from ltr_harness.report.blocks import Badge, Block, Cell, Column, Details, Heading, Paragraph, Table
from ltr_harness.report.data import ReportData, at_each_metric, computed_once
from ltr_harness.report.stored_scores import TestRows

EACH = 5  # largest gains shown per model, and as many losses

IN_ALL = 100
"""Upper bound of queries over all models, so that the page stays small; every model keeps one of each."""

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
    """At the primary metric with the ranked lists, and on the page a table at all others of its K."""
    n = len(listed(gains_and_losses(data)))
    if not n:
        return []
    about = (
        f"Against {data.baseline}. Single queries prove nothing about a model; they show which "
        "kind of query to look at. Values are averages over seeds. "
    )
    if data.rows is None:
        about += "The scores of their documents are not stored, so the ranked lists cannot be shown."
    else:
        seeds = {data.comparison.system(name).replicates[0] for name in data.models}
        which = f"seed {next(iter(seeds))}" if len(seeds) == 1 else "each model's first seed"
        about += (
            f"A query opens to both ranked lists, those of {which}: the first {_depth(data)} documents with label "
            "and score, equal scores in the order of the file, and the rank of each in the other list."
        )
    heading = Heading("Queries that changed most", finding=count_of(n, "query"))
    return [heading, Paragraph(about), *at_each_metric(data, partial(_changed, data))]


Changes = tuple[list[ChangedQuery], list[ChangedQuery]]


@computed_once
def gains_and_losses(data: ReportData) -> dict[str, Changes]:
    """Every rival's at the primary metric."""
    return {model: changes(data, model) for model in data.rivals}


def listed(gains: Mapping[str, Changes]) -> list[ChangedQuery]:
    """Model by model, the gains first."""
    return [change for pair in gains.values() for kind in pair for change in kind]


def _changed(data: ReportData, metric: str, end: str) -> list[Block]:
    """A table; the lists of the primary metric's queries before it, where their scores are stored."""
    gains = gains_and_losses(data)
    if metric != data.primary:
        gains = {model: changes(data, model, metric) for model in data.rivals}
    changed = listed(gains)
    table = Table.of(
        f"changed_queries{end}",
        f"Largest gains and losses per query at {metric}.",
        changed,
        {
            Column("Model"): lambda change: data.model_name(change.model),
            Column("Query", "code"): lambda change: change.query,
            Column(data.baseline, "metric"): lambda change: change.baseline_value,
            Column("Model's", "metric"): lambda change: change.value,
            Column("Difference", "difference"): lambda change: change.difference,
            Column("Documents", "count"): lambda change: change.rows,
            Column("Relevant documents", "count"): lambda change: change.relevant,
        },
    )
    if not changed or metric != data.primary or data.rows is None:
        return [table] if changed else []
    blocks: list[Block] = []
    numbers = itertools.count(1)
    base = data.rows.scores(data.baseline)
    for at, (model, (won, lost)) in enumerate(gains.items()):
        inside: list[Block] = []
        for title, kind in (("Largest gains", won), ("Largest losses", lost)):
            if kind:
                both = (base, data.rows.scores(model))
                lists = (_side_by_side(data, data.rows, one, both, f"lists_{next(numbers)}") for one in kind)
                inside += [Heading(title, level=3), *lists]
        if inside:
            title = f"{model} against {data.baseline}"
            blocks.append(Details(title, tuple(inside), page_only=True, open=at == 0))
    return [*blocks, Details("All of these queries as one table", (table,))]


def changes(data: ReportData, model: str, metric: str | None = None) -> Changes:
    """The largest gains and the largest losses, largest first; ties in the order of query ids."""
    each = max(1, min(EACH, IN_ALL // (2 * len(data.rivals))))
    base = data.comparison.system(data.baseline)
    metric = metric or data.primary
    own, other = data.comparison.system(model).per_query(metric), base.per_query(metric)
    d = own - other if data.comparison.higher_is_better[metric] else other - own
    facts = [base.query_attributes.get(name) for name in ("rows", "n_relevant")]

    def changed(at: int) -> ChangedQuery:
        ours, theirs = float(own[at]), float(other[at])
        counts = (None if fact is None else int(fact[at]) for fact in facts)
        return ChangedQuery(model, str(base.query_ids[at]), theirs, ours, ours - theirs, *counts)

    def pick(sign: int) -> list[ChangedQuery]:
        size = np.where(np.isnan(d), 0.0, sign * d)
        largest = np.argsort(-size, kind="stable")[:each].tolist()
        return [changed(at) for at in largest if size[at] > TIE]

    return pick(1), pick(-1)


def _depth(data: ReportData) -> int:
    k = MetricName.of(data.primary).k
    return DEPTH if k is None else min(k, DEPTH)


def _side_by_side(
    data: ReportData, rows: TestRows, change: ChangedQuery, both: Sequence[NDArray[np.float64]], name: str
) -> Details:
    """The two lists of a query, from the first seed's scores (n_rows,) of the baseline and of the model."""
    own = rows.rows_of(change.query)
    labels, documents = rows.judgments.labels[own], rows.judgments.document_ids
    names = [f"row {at}" for at in range(labels.size)] if documents is None else documents[own].tolist()
    scores = [one[own] for one in both]
    orders = [np.argsort(-one, kind="stable") for one in scores]
    ranks = [np.argsort(order) + 1 for order in orders]  # every document's, from 1
    lines = []
    for place in range(min(_depth(data), labels.size)):
        line: list[Cell] = [place + 1]
        for one, other in ((0, 1), (1, 0)):
            row = int(orders[one][place])
            there = int(ranks[other][row])
            label = Badge(f"{labels[row]:g}", "good" if labels[row] > 0 else "muted")
            moved = " ↑" if place + 1 < there else " ↓" if place + 1 > there else ""
            line += [str(names[row]), label, f"{scores[one][row]:.4g}", f"{there}{moved}"]
        lines.append(tuple(line))
    columns = [Column("Rank", "count")]
    arrow = "The arrow points to where this list has the document."
    for group, rival in ((data.baseline, change.model), (change.model, data.baseline)):
        columns += [
            Column("Row" if documents is None else "Document", group=group),
            Column("Label", group=group),
            Column("Score", "tally", group=group),
            Column(f"Rank by {rival}", "tally", group=group, hint=arrow),
        ]
    count = count_of(labels.size, "document")
    unseen = rows.missed_of(change.query)
    shown = [f"{name} (label {label:g})" for name, label in unseen[: _depth(data)] if label > 0]
    if rest := len(unseen) - len(shown):
        shown.append(f"{rest:,} more")
    footnotes = (f"Missed: {', '.join(shown)}.",) if unseen else ()
    caption = f"The first {len(lines)} of {count}."
    table = Table(name, caption, tuple(columns), tuple(lines), footnotes=footnotes, sortable=False)
    return Details(
        f"{change.query}: {formats.metric(change.baseline_value)} → {formats.metric(change.value)} "
        f"({formats.difference(change.difference)}), {count}, {int((labels > 0).sum()):,} relevant",
        (table,),
        page_only=True,
    )
