"""One query's arithmetic, row by row, and why another tool's number differs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ltr_harness.errors import DataError, MetricError
from ltr_harness.groups import Judgments, QueryGroups, as_column
from ltr_harness.metrics.binding import Binding, as_seen, checked_scores, without_unlisted
from ltr_harness.metrics.custom import FunctionMetric
from ltr_harness.metrics.metric import NO_CUTOFF, Metric, plain_number
from ltr_harness.metrics.presets import PRESETS
from ltr_harness.metrics.ranking import Ranker, Ranking

# These ask the question; everything else is a convention of answering it, and another tool may have its own.
_QUESTION = ("k", "relevant", "max_grade", "p", "graded", "b")

_WHY: Mapping[tuple[str, Any], str] = {
    ("gain", "linear"): "a label gains its grade, not 2^grade - 1",
    ("gain", "exp"): "a label gains 2^grade - 1",
    ("discount", "letor"): "rank 2 is not discounted",
    ("discount", "log2"): "rank r is discounted by log2(1 + r)",
    ("ties", "expected"): "equal scores: the mean over their orders",
    ("ties", "stable"): "equal scores keep row order",
    ("ties", "worst"): "equal scores: low labels first",
    ("ties", "best"): "equal scores: high labels first",
    ("ties", "id"): "equal scores: by document id, descending",
    ("empty", "skip"): "no relevant row: the query is left out",
    ("empty", "zero"): "no relevant row counts 0",
    ("empty", "one"): "no relevant row counts 1",
    ("score_precision", "float32"): "scores that float32 cannot tell apart tie",
    ("score_precision", "float64"): "scores keep their full precision",
    ("short_list", "zero"): "a list shorter than K counts 0",
    ("short_list", "truncate"): "a short list is measured as it is",
    ("denominator", "total"): "divided by all relevant rows, R",
    ("denominator", "min_rk"): "divided by min(R, K)",
    ("denominator", "retrieved"): "divided by the relevant rows within K",
    ("denominator", "k"): "divided by K, even where the list is shorter",
    ("denominator", "min_kn"): "divided by min(K, n)",
}


@dataclass(frozen=True)
class PresetValue:
    """The same query as another tool measures it.

    Attributes:
        tool: name of the preset.
        name: the metric with the tool's conventions, spelt out.
        value: None where the tool cannot compute it; NaN where it leaves the query out.
        reason: the conventions that make the difference; empty where the value is the same.
    """

    tool: str
    name: str
    value: float | None
    reason: str


@dataclass(frozen=True)
class Explanation:
    """What a metric does with one query.

    Attributes:
        metric: the metric, with everything it takes from the data fixed.
        value: its value; NaN where it is undefined.
        columns: headings of `rows`.
        rows: one per rank, best first: rank, tie group, row or document, label, score, whether anybody judged it
            (where not all are), what the metric sees.
        n_hidden: rows below the cutoff that are not shown.
        steps: from the contributions to the value, one line each.
        ideal: labels of the ideal order, as far as the cutoff.
        presets: the same under every tool that computes the metric.
        interval: the smallest and the largest value over the orders of equal scores; None where none matters.
    """

    metric: Metric
    value: float
    columns: tuple[str, ...]
    rows: tuple[tuple[str | float, ...], ...]
    n_hidden: int
    steps: tuple[str, ...]
    ideal: tuple[float, ...]
    presets: tuple[PresetValue, ...]
    interval: tuple[float, float] | None

    @property
    def remarks(self) -> tuple[str, ...]:
        """What is said below the rows: from the contributions to the value, and what ties could make of it."""
        if self.interval is None:
            return self.steps
        low, high = map(self.text_of, self.interval)
        return (*self.steps, f"from {low} to {high} over the orders of equal scores")

    def __str__(self) -> str:
        parts = [f"{self.metric} = {self.text_of(self.value)}", "", *_text_table(self.columns, self.rows)]
        if self.n_hidden:
            parts.append(f"({self.n_hidden:,} more rows below the cutoff)")
        parts += [
            "",
            f"ideal order of labels: {' '.join(_cell(label) for label in self.ideal)}",
            *self.remarks,
        ]
        if self.presets:
            parts += ["", *_text_table(_PRESET_COLUMNS, self._preset_rows())]
        return "\n".join(parts)

    def _repr_html_(self) -> str:
        parts = [f"<p><b>{escape(str(self.metric))} = {self.text_of(self.value)}</b></p>"]
        parts.append(_html_table(self.columns, self.rows))
        if self.n_hidden:
            parts.append(f"<p>{self.n_hidden:,} more rows below the cutoff</p>")
        steps = [f"ideal order of labels: {' '.join(_cell(label) for label in self.ideal)}", *self.remarks]
        parts.append(f"<p>{'<br>'.join(escape(step) for step in steps)}</p>")
        if self.presets:
            parts.append(_html_table(_PRESET_COLUMNS, self._preset_rows()))
        return "".join(parts)

    def text_of(self, value: float | None) -> str:
        """A value of this metric for people: counts whole, shares with four decimals."""
        return _number(value, self.metric.counts)

    def _preset_rows(self) -> tuple[tuple[str, ...], ...]:
        return tuple(
            (preset.tool, self.text_of(preset.value), preset.reason or "the same") for preset in self.presets
        )


_PRESET_COLUMNS = ("as", "value", "why")


def explain(
    metric: Metric,
    labels: ArrayLike,
    scores: ArrayLike,
    document_ids: ArrayLike | None = None,
    *,
    judged: ArrayLike | None = None,
    retrieved: ArrayLike | None = None,
) -> Explanation:
    """What `metric` does with one query; see `Metric.explain`."""
    size = as_column(labels, "labels").size
    if size == 0:
        raise DataError("labels is empty; expected the rows of one query")
    groups = QueryGroups.from_sizes([size])
    judgments = Judgments.checked(labels, groups, document_ids=document_ids, judged=judged)
    query = _Query(judgments, as_column(scores, "scores"), retrieved)
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
        steps = (*steps[:2], f"a list of {size} rows, shorter than {metric.k}, counts 0")
    if math.isnan(value):
        steps = ("undefined: no row of the query is relevant in the sense of this metric",)
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


@dataclass(frozen=True, eq=False)
class _Query:
    judgments: Judgments
    scores: NDArray[Any]
    retrieved: ArrayLike | None

    def ranked(self, metric: Metric) -> Ranking:
        scores = checked_scores(self.scores, self.judgments.groups, self.retrieved)
        whole = Ranker(self.judgments, metric.ties, None).rank(as_seen(scores, metric.score_precision))
        return whole if self.retrieved is None or metric.whole_order else without_unlisted(whole)

    def value(self, metric: Metric) -> float:
        return float(Binding([metric], self.judgments).per_query(self.scores, self.retrieved)[0, 0])


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
    asked = dataclasses.replace(metric, empty="zero", **_whole_lists(metric))
    values = asked.prepare(judgments, every)(ranking)[:, 0]
    divisor = asked.divisor_at(judgments, ranking, every)
    if divisor is None:
        return np.diff(values, prepend=0.0), "", 1.0
    name, by = divisor
    at = metric.k if metric.k is not None else NO_CUTOFF  # a list may be shorter than what is relevant
    beyond = metric.divisor_at(judgments, ranking, np.array([at]))
    assert beyond is not None  # the same metric as a line above
    return np.diff(values * by, prepend=0.0), name, float(beyond[1][0])


def _whole_lists(metric: Metric) -> dict[str, Any]:
    return {"short_list": "truncate"} if hasattr(metric, "short_list") else {}


def _steps(metric: Metric, total: float, divisor_name: str, divisor: float, value: float) -> tuple[str, ...]:
    first = f"sum of contributions = {_number(total, metric.counts)}"
    if not divisor_name:
        return (first,)
    by = _number(divisor, whole=divisor == int(divisor))
    if divisor == 0.0:
        return (first, f"{divisor_name} = 0, and so is the value")
    return (first, f"{divisor_name} = {by}", f"{_number(total)} / {by} = {_number(value)}")


def as_measured_by(tool: str, metric: Metric) -> Metric:
    """The question `metric` asks, its cutoff and scale, answered with another tool's conventions.

    Raises:
        MetricError: the tool does not compute it.

    Example:
        >>> from ltr_harness.metrics import NDCG
        >>> str(as_measured_by("sklearn", NDCG(k=5, ties="stable")))
        'ndcg(empty=zero,gain=linear)@5'
    """
    fields = {field.name: field for field in dataclasses.fields(metric)}
    question = {
        name: getattr(metric, name)
        for name in _QUESTION
        if name in fields and getattr(metric, name) != fields[name].default
    }
    return type(metric).like(tool, **question)


def differences_in_words(metric: Metric, theirs: Metric) -> tuple[str, ...]:
    """What the other definition does differently, one phrase per choice.

    Example:
        >>> from ltr_harness.metrics import NDCG
        >>> differences_in_words(NDCG(k=5), NDCG(k=5, gain="linear", empty="zero"))
        ('no relevant row counts 0', 'a label gains its grade, not 2^grade - 1')
    """
    return tuple(_word(name, choice) for name, choice in _differing(metric, theirs).items())


def _differing(metric: Metric, theirs: Metric) -> dict[str, Any]:
    return {
        field.name: getattr(theirs, field.name)
        for field in dataclasses.fields(metric)
        if getattr(theirs, field.name) != getattr(metric, field.name)
    }


def _word(name: str, choice: Any) -> str:
    return _WHY.get((name, choice), f"{name}={choice}")


def _interval(metric: Metric, query: _Query) -> tuple[float, float] | None:
    ends = _worst_and_best(metric, query)
    return None if ends is None or _same(*ends) else (min(ends), max(ends))


def _whatever_ties(metric: Metric, query: _Query) -> float | None:
    """The value where no order of equal scores matters, so that document ids, for one, need not be known."""
    ends = _worst_and_best(metric, query)
    return ends[0] if ends is not None and _same(*ends) else None


def _worst_and_best(metric: Metric, query: _Query) -> tuple[float, float] | None:
    try:
        worst, best = (query.value(dataclasses.replace(metric, ties=ties)) for ties in ("worst", "best"))
    except MetricError:  # a metric without a worst and a best order
        return None
    return worst, best


def _presets(metric: Metric, value: float, query: _Query) -> list[PresetValue]:
    found = []
    for tool, metrics in PRESETS.items():
        if metric.name not in metrics:
            continue
        theirs = as_measured_by(tool, metric)
        try:
            other = query.value(theirs)
        except MetricError as problem:
            settled = _whatever_ties(theirs, query)
            if settled is None:
                found.append(PresetValue(tool, str(theirs), None, str(problem)))
                continue
            other = settled
        reason = "" if _same(value, other) else _reason(metric, theirs, value, query)
        found.append(PresetValue(tool, str(theirs), other, reason))
    return found


def _reason(metric: Metric, theirs: Metric, value: float, query: _Query) -> str:
    """The conventions that move this query's value, each on its own; all that differ where only together."""
    differ = _differing(metric, theirs)
    alone = {}
    for name, choice in differ.items():
        try:
            moved = query.value(dataclasses.replace(metric, **{name: choice}))
        except MetricError:
            continue  # it cannot stand alone, so it explains nothing alone
        if not _same(moved, value):
            alone[name] = choice
    return "; ".join(_word(name, choice) for name, choice in (alone or differ).items())


def _same(one: float, other: float) -> bool:
    return (math.isnan(one) and math.isnan(other)) or abs(one - other) <= 1e-12


def _plain(value: Any) -> str | float:
    return ("yes" if value else "") if isinstance(value, bool | np.bool_) else float(value)


def _number(value: float | None, whole: bool = False) -> str:
    if value is None:
        return "-"
    if math.isnan(value):
        return "undefined"
    return str(int(value)) if whole and value == int(value) else f"{value:.4f}"


def _cell(value: str | float) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int) or (math.isfinite(value) and value == int(value) and abs(value) < 1e15):
        return str(int(value))
    return plain_number(value) if len(plain_number(value)) <= 8 else f"{value:.5g}"


def _cells(columns: Sequence[str], row: Sequence[str | float]) -> list[str]:
    return [
        f"{value:.4f}" if column == "contribution" and not isinstance(value, str) else _cell(value)
        for column, value in zip(columns, row, strict=True)
    ]


def _text_table(columns: Sequence[str], rows: Sequence[Sequence[str | float]]) -> list[str]:
    cells = [list(columns), *(_cells(columns, row) for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    words = {"why", "as", "document"}
    return [
        "  ".join(
            cell.ljust(width) if columns[i] in words else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]


def _html_table(columns: Sequence[str], rows: Sequence[Sequence[str | float]]) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in _cells(columns, row))}</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
