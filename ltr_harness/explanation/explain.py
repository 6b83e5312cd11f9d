"""Explanation of one query's value, document by document, or of a mean, and why another tool's value differs."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ltr_harness.errors import DataError, MetricError
from ltr_harness.explanation.conventions import differing, in_words, other_definitions
from ltr_harness.groups import Judgments, QueryGroups, as_column
from ltr_harness.metrics.core.binding import Binding, as_seen, checked_scores, without_unlisted
from ltr_harness.metrics.core.custom import FunctionMetric
from ltr_harness.metrics.core.explanation import Explanation, MeanExplanation, PresetValue, number
from ltr_harness.metrics.core.metric import NO_CUTOFF, Metric
from ltr_harness.metrics.core.ranking import Ranking, RowRanker
from ltr_harness.subtopics import Subtopics


def explain(
    metric: Metric,
    labels: ArrayLike,  # (n_rows,) grades of the query's rows
    scores: ArrayLike,  # (n_rows,), higher ranks first
    document_ids: ArrayLike | None = None,  # (n_rows,); needed where ties are broken by them
    *,
    judged: ArrayLike | None = None,  # bool (n_rows,), rows somebody judged; None where all are
    retrieved: ArrayLike | None = None,  # bool (n_rows,), rows the ranking lists; None where all are
    subtopics: ArrayLike | None = None,  # (n_rows, n_subtopics) grades by subtopic; None where there are none
) -> Explanation:
    """Explanation of a metric's value on one query; see `Metric.explain`."""
    size = as_column(labels, "labels").size
    if size == 0:
        raise DataError("labels is empty; expected the documents of one query")
    groups = QueryGroups.from_sizes([size])
    pairs = None if subtopics is None else Subtopics.of_matrix(subtopics, size)
    judgments = Judgments.checked(labels, groups, document_ids=document_ids, judged=judged, subtopics=pairs)
    return explain_query(metric, judgments, scores, retrieved)


def explain_query(
    metric: Metric, judgments: Judgments, scores: ArrayLike, retrieved: ArrayLike | None = None
) -> Explanation:
    """`explain` from one query's judgments, scores (n_rows,) and, where not all are listed, bool (n_rows,)."""
    size = judgments.groups.n_rows
    query = _Asked(judgments, as_column(scores, "scores"), retrieved)
    metric = metric.resolved(judgments)
    ranking = query.ranked(metric)
    value = query.value(metric)
    n_listed = int(ranking.rows.size)
    n_counted = n_listed if metric.k is None else min(metric.k, n_listed)
    n_shown = int(ranking.tie_end[n_counted - 1]) if n_counted else 0
    columns, rows = _table(metric, judgments, ranking, n_shown)
    steps: tuple[str, ...] = ()
    sums = _sums(metric, judgments, ranking)
    if sums is not None:
        each, divisor_name, divisor = sums
        columns = (*columns, "contribution")
        rows = [(*row, each[i] if i < n_counted else "") for i, row in enumerate(rows)]
        steps = _steps(metric, float(each[:n_counted].sum()), divisor_name, divisor, value)
    elif isinstance(metric, FunctionMetric):
        steps = (f"{metric.name} is a function of these labels and scores; how it gets there, its code says",)
    if getattr(metric, "short_list", "") == "zero" and metric.k is not None and size < metric.k:
        steps = (*steps[:2], f"a list of {size} documents, shorter than {metric.k}, counts 0")
    if math.isnan(value):
        steps = ("undefined: no document of the query is relevant in the sense of this metric",)
    return Explanation(
        metric,
        value,
        columns,
        tuple(rows),
        n_listed - n_shown,
        steps,
        tuple(np.sort(judgments.labels)[::-1][: metric.k].tolist()),
        tuple(_presets(metric, value, query)),
        _interval(metric, query),
    )


def explain_mean(
    metric: Metric, judgments: Judgments, scores: ArrayLike, retrieved: ArrayLike | None = None
) -> MeanExplanation:
    """Explanation of a mean over many queries, with every tool's, from scores (n_rows,) and listed rows (n_rows,).

    Example:
        >>> from ltr_harness.metrics import NDCG
        >>> judgments = Judgments.checked([1, 0, 0, 0], QueryGroups.from_sizes([2, 2]))
        >>> print(explain_mean(NDCG(), judgments, [0.1, 0.2, 0.3, 0.4]).preset_texts[0])
        ['lightgbm', '0.8155', '2', 'no relevant document counts 1 (+0.1845)']
    """
    whole = _Asked(judgments, as_column(scores, "scores"), retrieved)
    metric = metric.resolved(judgments)
    mean = whole.value(metric)
    presets = tuple(_presets(metric, mean, whole, effects=True))
    others = other_definitions(metric)
    theirs = {one.tool: others[one.tool] for one in presets if one.value is not None}
    # whatever breaks ties: the ids it may take are not needed to know which queries count
    counts = {tool: whole.n_defined(dataclasses.replace(one, ties="stable")) for tool, one in theirs.items()}
    n_queries = judgments.groups.n_queries
    return MeanExplanation(
        metric, mean, n_queries, whole.n_defined(metric), presets, counts, _interval(metric, whole)
    )


@dataclass(frozen=True, eq=False)
class _Asked:
    """Queries to explain: the value of one, or the mean of many."""

    judgments: Judgments
    scores: NDArray[Any]
    retrieved: ArrayLike | None
    values: dict[Metric, float] = field(
        default_factory=dict
    )  # tools share conventions: some are asked for often

    def ranked(self, metric: Metric) -> Ranking:
        scores = checked_scores(self.scores, self.judgments.groups, self.retrieved)
        whole = RowRanker(self.judgments, metric.ties, None).rank(as_seen(scores, metric.score_precision))
        return whole if self.retrieved is None or metric.whole_order else without_unlisted(whole)

    def value(self, metric: Metric) -> float:
        if metric not in self.values:
            binding = Binding([metric], self.judgments)
            per_query = binding.per_query(self.scores, self.retrieved)
            self.values[metric] = float(binding.means_of(per_query)[0])
        return self.values[metric]

    def n_defined(self, metric: Metric) -> int:
        values = Binding([metric], self.judgments).per_query(self.scores, self.retrieved)
        return int(np.count_nonzero(~np.isnan(values)))


def _table(
    metric: Metric, judgments: Judgments, ranking: Ranking, n_shown: int
) -> tuple[tuple[str, ...], list[tuple[str | float, ...]]]:
    documents = judgments.document_ids
    row_facts, rank_facts = metric.row_facts(judgments), metric.rank_facts(n_shown)
    judged = None if judgments.judged is None or judgments.judged.all() else judgments.judged
    columns: tuple[str, ...] = (
        "rank",
        "tied ranks",
        "row" if documents is None else "document",
        "label",
        "score",
    )
    if judged is not None:
        columns = (*columns, "judged")
    rows: list[tuple[str | float, ...]] = []
    start = 0
    for i, row in enumerate(ranking.rows[:n_shown].tolist()):
        end = int(ranking.tie_end[i])
        if i > 0 and ranking.tie_end[i - 1] != end:
            start = i
        rows.append(
            (
                i + 1,
                f"{start + 1}-{end}" if end - start > 1 else "",
                row if documents is None else str(documents[row]),
                float(judgments.labels[row]),
                float(ranking.scores[row]),
                *(() if judged is None else (_plain(judged[row]),)),
                *(_plain(fact[row]) for fact in row_facts.values()),
                *(_plain(fact[i]) for fact in rank_facts.values()),
            )
        )
    return (*columns, *row_facts, *rank_facts), rows


def _sums(
    metric: Metric, judgments: Judgments, ranking: Ranking
) -> tuple[NDArray[np.float64], str, float] | None:
    """Each rank's contribution, the divisor's name and the divisor; None where the metric is no such sum.

    The metric is asked for its value at every cutoff: what one rank more adds to value times divisor is that
    rank's contribution, in expectation over ties, by the very code that evaluates.
    """
    size = ranking.rows.size
    if size == 0:
        return None
    if not metric.takes_cutoff:
        each = metric.contributions(judgments, ranking)
        if each is None:
            return None
        name, whole = metric.divisor_at(judgments, ranking, np.array([NO_CUTOFF])) or ("", np.ones(1))
        return each, name, float(whole[0])
    every = np.arange(1, size + 1)
    asked = dataclasses.replace(metric, empty="zero")
    values = asked.prepare(judgments, every)(ranking)[:, 0]
    divisor = asked.divisor_at(judgments, ranking, every)
    if divisor is None:
        return np.diff(values, prepend=0.0), "", 1.0
    name, by = divisor
    at = metric.k if metric.k is not None else NO_CUTOFF  # a list may be shorter than what is relevant
    beyond = metric.divisor_at(judgments, ranking, np.array([at]))
    assert beyond is not None  # the same metric as a line above
    return np.diff(values * by, prepend=0.0), name, float(beyond[1][0])


def _steps(metric: Metric, total: float, divisor_name: str, divisor: float, value: float) -> tuple[str, ...]:
    first = f"sum of contributions = {number(total, metric.counts)}"
    if not divisor_name:
        return (first,)
    by = number(divisor, whole=divisor == int(divisor))
    if divisor == 0.0:
        return (first, f"{divisor_name} = 0, and so is the value")
    return (first, f"{divisor_name} = {by}", f"{number(total)} / {by} = {number(value)}")


def _interval(metric: Metric, query: _Asked) -> tuple[float, float] | None:
    ends = _worst_and_best(metric, query)
    return None if ends is None or _same(*ends) else (min(ends), max(ends))


def _whatever_ties(metric: Metric, query: _Asked) -> float | None:
    """The value where no order of equal scores matters, so that document ids, for one, need not be known."""
    ends = _worst_and_best(metric, query)
    return ends[0] if ends is not None and _same(*ends) else None


def _worst_and_best(metric: Metric, query: _Asked) -> tuple[float, float] | None:
    try:
        worst, best = (query.value(dataclasses.replace(metric, ties=ties)) for ties in ("worst", "best"))
    except MetricError:  # a metric without a worst and a best order
        return None
    return worst, best


def _presets(metric: Metric, value: float, query: _Asked, effects: bool = False) -> list[PresetValue]:
    values = []
    for tool, theirs in other_definitions(metric).items():
        try:
            other = query.value(theirs)
        except MetricError as problem:
            settled = _whatever_ties(theirs, query)
            if settled is None:
                values.append(PresetValue(tool, str(theirs), None, str(problem)))
                continue
            other = settled
        reason = "" if _same(value, other) else _reason(metric, theirs, value, query, effects)
        values.append(PresetValue(tool, str(theirs), other, reason))
    return values


def _reason(metric: Metric, theirs: Metric, value: float, query: _Asked, effects: bool) -> str:
    """The conventions that move the value, each on its own; all that differ where only together."""
    differ = differing(metric, theirs)
    alone = {}
    for name, choice in differ.items():
        try:
            moved = query.value(dataclasses.replace(metric, **{name: choice}))
        except MetricError:
            continue  # it cannot stand alone, so it explains nothing alone
        if not _same(moved, value):
            by = moved - value
            alone[in_words(name, choice)] = f" ({by:+.4f})" if effects and math.isfinite(by) else ""
    if alone:
        return "; ".join(f"{words}{by}" for words, by in alone.items())
    return "; ".join(in_words(name, choice) for name, choice in differ.items())


def _same(one: float, other: float) -> bool:
    return (math.isnan(one) and math.isnan(other)) or abs(one - other) <= 1e-12


def _plain(value: Any) -> str | float:
    return ("yes" if value else "") if isinstance(value, bool | np.bool_) else float(value)
