"""Explanation of one query's value, document by document, or of a mean, and why another tool's value differs."""

import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ltr_harness.data.arrays import Floats, as_column
from ltr_harness.data.judgments import Judgments, Subtopics
from ltr_harness.data.queries import QueryGroups
from ltr_harness.errors import MetricError
from ltr_harness.metrics.core.binding import Binding, as_seen, checked_scores, pool_rows, without_unlisted
from ltr_harness.metrics.core.custom import FunctionMetric
from ltr_harness.metrics.core.explanation import Explanation, MeanExplanation, PresetValue, number
from ltr_harness.metrics.core.grammar import parse_metric
from ltr_harness.metrics.core.metric import Metric
from ltr_harness.metrics.core.presets import OF_CANDIDATES, PRESETS
from ltr_harness.metrics.core.ranking import Ranking, RowRanker
from ltr_harness.metrics.table import DEFINITIONS


def explain_query(
    metric: Metric, judgments: Judgments, scores: ArrayLike, retrieved: ArrayLike | None = None
) -> Explanation:
    """Explanation of a metric's value on one query: scores (n_rows,) and, where not all are listed, bool (n_rows,)."""
    query = _AskedQueries.of(judgments, scores, retrieved)
    judgments = query.judgments
    size = judgments.groups.n_rows
    metric = metric.resolved(judgments)
    ranking = query.ranked(metric)
    value = query.value(metric)
    n_listed = int(ranking.rows.size)
    n_counted = n_listed if metric.k is None else min(metric.k, n_listed)
    n_shown = int(ranking.tie_end[n_counted - 1]) if n_counted else 0
    columns, rows = _table(metric, judgments, ranking, n_shown)
    sums = _sums(metric, judgments, ranking)
    steps = _steps(metric, value, sums, n_counted, size)
    if sums is not None:
        contributions, columns = sums[0], (*columns, "contribution")
        contributed: list[str | float] = [*contributions[:n_counted], *("" for _ in rows[n_counted:])]
        rows = [(*row, contribution) for row, contribution in zip(rows, contributed, strict=True)]
    ideal = tuple(np.sort(judgments.labels)[::-1][: metric.k].tolist())
    other_tools = tuple(_presets(metric, value, query)), _interval(metric, query)
    listed = columns, tuple(rows), n_listed - n_shown, steps, ideal
    return Explanation(metric, value, *listed, *other_tools, *_missed(metric, judgments, ranking))


def explain_mean(
    metric: Metric, judgments: Judgments, scores: ArrayLike, retrieved: ArrayLike | None = None
) -> MeanExplanation:
    """Explanation of a mean over many queries, with every tool's, from scores (n_rows,) and listed rows (n_rows,)."""
    asked_queries = _AskedQueries.of(judgments, scores, retrieved)
    metric = metric.resolved(asked_queries.judgments)
    mean = asked_queries.value(metric)
    presets = tuple(_presets(metric, mean, asked_queries, effects=True))
    definitions = other_definitions(metric)
    measured = {preset.tool: definitions[preset.tool] for preset in presets if preset.value is not None}
    # whatever breaks ties: the ids it may take are not needed to know which queries count
    stable = {tool: replace(definition, ties="stable") for tool, definition in measured.items()}
    counts = {tool: asked_queries.seen_by(tool).n_defined(definition) for tool, definition in stable.items()}
    n_queries, n_defined = judgments.groups.n_queries, asked_queries.n_defined(metric)
    return MeanExplanation(
        metric, mean, n_queries, n_defined, presets, counts, _interval(metric, asked_queries)
    )


@dataclass(frozen=True, eq=False)
class _AskedQueries:
    """Queries to explain: the value of one, or the mean of many."""

    judgments: Judgments
    scores: NDArray[Any]
    retrieved: ArrayLike | None
    # tools share conventions: some are asked for often
    values: dict[Metric, float] = field(default_factory=dict)

    @classmethod
    def of(cls, judgments: Judgments, scores: ArrayLike, retrieved: ArrayLike | None) -> Self:
        """Missed documents are rows that the ranking does not list."""
        if judgments.missed is None:
            return cls(judgments, as_column(scores, "scores"), retrieved)
        checked = checked_scores(scores, judgments.groups, retrieved)
        listed = np.ones(checked.size, dtype=bool) if retrieved is None else np.asarray(retrieved)
        flags = np.zeros(judgments.pool.groups.n_rows, dtype=bool)
        flags[judgments.pool_rows] = listed
        return cls(judgments.pool, pool_rows(checked, judgments), flags)

    def seen_by(self, tool: str) -> "_AskedQueries":
        """Return the rows that a tool is given; no query where it is given candidates alone, and there are none."""
        return self._candidates_alone if tool in OF_CANDIDATES else self

    @cached_property
    def _candidates_alone(self) -> "_AskedQueries":
        if self.retrieved is None:
            return self
        judgments, listed = self.judgments, np.asarray(self.retrieved)
        sizes, rows = judgments.groups.count(listed), np.flatnonzero(listed)
        candidates = judgments.with_rows(rows, QueryGroups.from_counts(sizes, judgments.groups.ids))
        return _AskedQueries(candidates.take(np.flatnonzero(sizes)), self.scores[rows], None)

    def ranked(self, metric: Metric) -> Ranking:
        scores = checked_scores(self.scores, self.judgments.groups, self.retrieved)
        ranking = RowRanker(self.judgments, metric.ties, None).rank(as_seen(scores, metric.score_precision))
        return ranking if self.retrieved is None or metric.uses_whole_order else without_unlisted(ranking)

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
    """Headings and rows, one for each rank that is shown."""
    rows, ends = ranking.rows[:n_shown], ranking.tie_end[:n_shown]
    groups = zip(np.searchsorted(ends, ends).tolist(), ends.tolist(), strict=True)
    tied = []
    for start, end in groups:
        tied.append(f"{start + 1}-{end}" if end - start > 1 else "")
    ids, judged = judgments.document_ids, judgments.judged
    documents = ("row", rows.tolist()) if ids is None else ("document", map(str, ids[rows]))
    columns: list[tuple[str, Iterable[str | float]]] = [
        ("rank", range(1, n_shown + 1)),
        ("tied ranks", tied),
        documents,
        ("label", judgments.labels[rows].tolist()),
        ("score", ranking.scores[rows].tolist()),
    ]
    if judged is not None and not judged.all():
        columns.append(("judged", map(_cell_value, judged[rows])))
    for name, fact in metric.row_facts(judgments).items():
        columns.append((name, map(_cell_value, fact[rows])))
    for name, fact in metric.rank_facts(n_shown).items():
        columns.append((name, map(_cell_value, fact[:n_shown])))
    names, values = zip(*columns, strict=True)
    return names, list(zip(*values, strict=True))


def _missed(
    metric: Metric, judgments: Judgments, ranking: Ranking
) -> tuple[tuple[str, ...], tuple[tuple[str | float, ...], ...]]:
    """The judged documents without a rank, as `Explanation` has them: headings and rows."""
    judged = judgments.judged
    unranked = np.ones(judgments.groups.n_rows, dtype=bool) if judged is None else judged.copy()
    unranked[ranking.rows] = False
    rows = np.flatnonzero(unranked)
    rows = rows[np.argsort(-judgments.labels[rows], kind="stable")]
    ids = judgments.document_ids
    names: list[str | float] = []
    if ids is None:
        columns = ("missed row", "label")
        names.extend(rows.tolist())
    else:
        columns = ("missed document", "label")
        names.extend(str(ids[row]) for row in rows.tolist())
    labels = judgments.labels[rows].tolist()

    def divisor(n_known: int) -> tuple[str, float]:
        """Return the divisor if all but the first few of these rows had the label 0."""
        grades, pairs, unknown_rows = judgments.labels.copy(), judgments.subtopics, rows[n_known:]
        grades[unknown_rows] = 0.0
        if pairs is not None:
            keep = ~np.isin(pairs.rows, unknown_rows)
            pairs = Subtopics(pairs.rows[keep], pairs.numbers[keep], pairs.grades[keep])
        known_judgments = replace(judgments, labels=grades, subtopics=pairs)
        named_divisor = metric.divisor_at(known_judgments, ranking, np.array([metric.cutoff]))
        return ("", 0.0) if named_divisor is None else (named_divisor[0], float(named_divisor[1][0]))

    (name, full_divisor), (_, divisor_without) = divisor(rows.size), divisor(0)
    if full_divisor == divisor_without:
        return columns, tuple(zip(names, labels, strict=True))
    n_positive = int(np.count_nonzero(judgments.labels[rows]))
    increments = np.diff([divisor(n_known)[1] for n_known in range(n_positive + 1)])
    added = np.zeros(rows.size)
    added[:n_positive] = increments
    return (*columns, f"adds to {name}"), tuple(zip(names, labels, added.tolist(), strict=True))


def _sums(metric: Metric, judgments: Judgments, ranking: Ranking) -> tuple[Floats, str, float] | None:
    """Each rank's contribution to value times divisor, at every cutoff by the very code that evaluates; the divisor's
    name and the divisor; None where the metric is no such sum.
    """
    size = ranking.rows.size
    if size == 0:
        return None
    # at the cutoff and not at the list's end: a list may be shorter than what is relevant
    name, divisor = metric.divisor_at(judgments, ranking, np.array([metric.cutoff])) or ("", np.ones(1))
    if not metric.takes_cutoff:
        added = metric.contributions(judgments, ranking)
        return None if added is None else (added, name, float(divisor[0]))
    all_cutoffs = np.arange(1, size + 1)
    values = replace(metric, empty="zero").prepare(judgments, all_cutoffs)(ranking)[:, 0]
    _, divisors = metric.divisor_at(judgments, ranking, all_cutoffs) or ("", np.ones(size))
    return np.diff(values * divisors, prepend=0.0), name, float(divisor[0])


def _steps(
    metric: Metric, value: float, sums: tuple[Floats, str, float] | None, n_counted: int, size: int
) -> tuple[str, ...]:
    """Return the arithmetic from the contributions to the value; `sums` is what `_sums` returns."""
    if math.isnan(value):
        return ("undefined: no document of the query is relevant in the sense of this metric",)
    steps = []
    if sums is not None:
        contributions, divisor_name, divisor = sums
        total = float(contributions[:n_counted].sum())
        steps.append(f"sum of contributions = {number(total, metric.counts)}")
        if divisor_name and divisor == 0.0:
            steps.append(f"{divisor_name} = 0, and so is the value")
        elif divisor_name:
            divisor_text = number(divisor, as_integer=divisor == int(divisor))
            steps += [
                f"{divisor_name} = {divisor_text}",
                f"{number(total)} / {divisor_text} = {number(value)}",
            ]
    elif isinstance(metric, FunctionMetric):
        steps.append(
            f"{metric.name} is a function of these labels and scores; how it gets there, its code says"
        )
    if getattr(metric, "short_list", "") == "zero" and metric.k is not None and size < metric.k:
        steps = [*steps[:2], f"a list of {size} documents, shorter than {metric.k}, counts 0"]
    return tuple(steps)


def _interval(metric: Metric, query: _AskedQueries) -> tuple[float, float] | None:
    ends = _worst_and_best(metric, query)
    return None if not ends or _same(*ends) else (min(ends), max(ends))


def _worst_and_best(metric: Metric, query: _AskedQueries) -> list[float]:
    """Nothing of a metric without a worst and a best order."""
    with suppress(MetricError):
        return [query.value(replace(metric, ties=ties)) for ties in ("worst", "best")]
    return []


def _presets(metric: Metric, value: float, query: _AskedQueries, effects: bool = False) -> list[PresetValue]:
    values = []
    for tool, definition in other_definitions(metric).items():
        candidates = query.seen_by(tool)
        if not candidates.judgments.groups.n_queries:
            values.append(PresetValue(tool, str(definition), None, "it is given the candidates alone: none"))
            continue
        try:
            tool_value, with_missed = (
                _value_by_any_order(definition, queries) for queries in (candidates, query)
            )
        except MetricError as problem:
            values.append(PresetValue(tool, str(definition), None, str(problem)))
            continue
        reasons = []
        if not _same(value, with_missed):
            reasons.append(_reason(metric, definition, value, query, effects))
        if not _same(with_missed, tool_value):
            effect = (
                f" ({tool_value - with_missed:+.4f})"
                if effects and math.isfinite(tool_value - with_missed)
                else ""
            )
            reasons.append(f"it is given the candidates alone{effect}")
        reason = "" if _same(value, tool_value) else "; ".join(reasons)
        values.append(PresetValue(tool, str(definition), tool_value, reason))
    return values


def _value_by_any_order(metric: Metric, query: _AskedQueries) -> float:
    """The value; that of any order where none of equal scores matters: document ids, for one, need not be known."""
    try:
        return query.value(metric)
    except MetricError:
        ends = _worst_and_best(metric, query)
        if not ends or not _same(*ends):
            raise
        return ends[0]


def _reason(metric: Metric, definition: Metric, value: float, query: _AskedQueries, effects: bool) -> str:
    """The conventions that move the value, each on its own; all that differ where only together."""
    reasons = []
    for name, choice in differing(metric, definition).items():
        try:
            moved = query.value(replace(metric, **{name: choice}))
        except MetricError:
            continue  # it cannot stand alone, so it explains nothing alone
        if not _same(moved, value):
            effect = f" ({moved - value:+.4f})" if effects and math.isfinite(moved - value) else ""
            reasons.append(f"{in_words(name, choice)}{effect}")
    return "; ".join(reasons or differences_in_words(metric, definition))


def _same(a: float, b: float) -> bool:
    return (math.isnan(a) and math.isnan(b)) or abs(a - b) <= 1e-12


def _cell_value(value: Any) -> str | float:
    """Return a fact as a cell holds it: "yes" or nothing for a truth value."""
    if isinstance(value, bool | np.bool_):
        return "yes" if value else ""
    return float(value)


# These ask the question; everything else is a convention of answering it, and another tool may have its own.
_QUESTION = ("k", "relevant", "max_grade", "p", "graded", "b")

_WHY: Mapping[tuple[str, Any], str] = {
    ("ideal", "pool"): "the ideal order is of missed documents too",
    ("ideal", "shown"): "the ideal order is of the listed documents alone",
    ("gain", "linear"): "a label gains its grade, not 2^grade - 1",
    ("gain", "exp"): "a label gains 2^grade - 1",
    ("gain", "exp_real"): "a label gains 2^grade - 1, fractions too",
    ("discount", "letor"): "rank 2 is not discounted",
    ("discount", "log2"): "rank r is discounted by log2(1 + r)",
    ("ties", "expected"): "equal scores: the mean over their orders",
    ("ties", "stable"): "equal scores keep row order",
    ("ties", "worst"): "equal scores: low labels first",
    ("ties", "best"): "equal scores: high labels first",
    ("ties", "id"): "equal scores: by document id, descending",
    ("empty", "skip"): "no relevant document: the query is left out",
    ("empty", "zero"): "no relevant document counts 0",
    ("empty", "one"): "no relevant document counts 1",
    ("score_precision", "float32"): "scores that float32 cannot tell apart tie",
    ("score_precision", "float64"): "scores keep their full precision",
    ("short_list", "zero"): "a list shorter than K counts 0",
    ("short_list", "truncate"): "a short list is measured as it is",
    ("denominator", "total"): "divided by all relevant documents, R",
    ("denominator", "min_rk"): "divided by min(R, K)",
    ("denominator", "retrieved"): "divided by the relevant documents within K",
    ("stop", "label"): "a label is the probability that its document satisfies",
    ("normalized", True): "divided by what perfect documents would reach",
    ("denominator", "k"): "divided by K, even where the list is shorter",
    ("denominator", "min_kn"): "divided by min(K, n)",
}


def as_measured_by(tool: str, metric: Metric) -> Metric:
    """The question `metric` asks, its cutoff and scale, answered with another tool's conventions."""
    defaults = {field.name: field.default for field in fields(metric) if field.name in _QUESTION}
    question = {
        name: chosen for name, default in defaults.items() if (chosen := getattr(metric, name)) != default
    }
    return type(metric).for_tool(tool, **question)


def differences_in_words(metric: Metric, definition: Metric) -> tuple[str, ...]:
    """Return the choices of the other definition that differ, one phrase for each."""
    return tuple(in_words(name, choice) for name, choice in differing(metric, definition).items())


def differing(metric: Metric, definition: Metric) -> dict[str, Any]:
    """The choices of `theirs` that `metric` makes otherwise, by field."""
    return {
        field.name: getattr(definition, field.name)
        for field in fields(metric)
        if getattr(definition, field.name) not in (None, getattr(metric, field.name))
    }


def other_definitions(metric: Metric) -> dict[str, Metric]:
    """The question `metric` asks as others define the answer: by a name of its own, or the tool that has it."""
    named = {name: parse_metric(definition) for name, definition in DEFINITIONS.items()}
    same = {
        name: differing(type(named_metric)(), named_metric)
        for name, named_metric in named.items()
        if named_metric.name == metric.name
    }
    definitions = {name: replace(metric, **choices) for name, choices in same.items()}
    tools = [tool for tool, metrics in PRESETS.items() if metric.name in metrics]
    return definitions | {tool: as_measured_by(tool, metric) for tool in tools}


def in_words(name: str, choice: Any) -> str:
    """One choice as a phrase, such as "rank 2 is not discounted"."""
    return _WHY.get((name, choice), f"{name}={choice}")
