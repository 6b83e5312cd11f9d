"""Explanation of one query's value, document by document, or of a mean, and why another tool's value differs."""

import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ltr_harness.data.judgments import Judgments, Subtopics
from ltr_harness.data.queries import Floats, QueryGroups, as_column
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
    query = _Asked.of(judgments, scores, retrieved)
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
        each, columns = sums[0], (*columns, "contribution")
        rows = [(*row, each[i] if i < n_counted else "") for i, row in enumerate(rows)]
    ideal = tuple(np.sort(judgments.labels)[::-1][: metric.k].tolist())
    others = tuple(_presets(metric, value, query)), _interval(metric, query)
    listed = columns, tuple(rows), n_listed - n_shown, steps, ideal
    return Explanation(metric, value, *listed, *others, *_missed(metric, judgments, ranking))


def explain_mean(
    metric: Metric, judgments: Judgments, scores: ArrayLike, retrieved: ArrayLike | None = None
) -> MeanExplanation:
    """Explanation of a mean over many queries, with every tool's, from scores (n_rows,) and listed rows (n_rows,)."""
    whole = _Asked.of(judgments, scores, retrieved)
    metric = metric.resolved(whole.judgments)
    mean = whole.value(metric)
    presets = tuple(_presets(metric, mean, whole, effects=True))
    others = other_definitions(metric)
    theirs = {one.tool: others[one.tool] for one in presets if one.value is not None}
    # whatever breaks ties: the ids it may take are not needed to know which queries count
    stable = {tool: replace(one, ties="stable") for tool, one in theirs.items()}
    counts = {tool: whole.seen_by(tool).n_defined(one) for tool, one in stable.items()}
    n_queries, n_defined = judgments.groups.n_queries, whole.n_defined(metric)
    return MeanExplanation(metric, mean, n_queries, n_defined, presets, counts, _interval(metric, whole))


@dataclass(frozen=True, eq=False)
class _Asked:
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

    def seen_by(self, tool: str) -> "_Asked":
        """What a tool is given; no query where it is given candidates alone, and there are none."""
        return self._candidates_alone if tool in OF_CANDIDATES else self

    @cached_property
    def _candidates_alone(self) -> "_Asked":
        if self.retrieved is None:
            return self
        judgments, listed = self.judgments, np.asarray(self.retrieved)
        sizes, rows = judgments.groups.sum(listed, np.int64), np.flatnonzero(listed)
        candidates = judgments.with_rows(rows, QueryGroups.from_counts(sizes, judgments.groups.ids))
        return _Asked(candidates.take(np.flatnonzero(sizes)), self.scores[rows], None)

    def ranked(self, metric: Metric) -> Ranking:
        scores = checked_scores(self.scores, self.judgments.groups, self.retrieved)
        whole = RowRanker(self.judgments, metric.ties, None).rank(as_seen(scores, metric.score_precision))
        return whole if self.retrieved is None or metric.uses_whole_order else without_unlisted(whole)

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
    tied = [f"{start + 1}-{end}" if end - start > 1 else "" for start, end in groups]
    ids, judged = judgments.document_ids, judgments.judged
    named = ("row", rows.tolist()) if ids is None else ("document", map(str, ids[rows]))
    columns: list[tuple[str, Iterable[str | float]]] = [
        *(("rank", range(1, n_shown + 1)), ("tied ranks", tied), named),
        *(("label", judgments.labels[rows].tolist()), ("score", ranking.scores[rows].tolist())),
        *(() if judged is None or judged.all() else [("judged", map(_plain, judged[rows]))]),
        *((name, map(_plain, fact[rows])) for name, fact in metric.row_facts(judgments).items()),
        *((name, map(_plain, fact[:n_shown])) for name, fact in metric.rank_facts(n_shown).items()),
    ]
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
    named: list[str | float] = [row if ids is None else str(ids[row]) for row in rows.tolist()]
    columns = (f"missed {'row' if ids is None else 'document'}", "label")
    labels = judgments.labels[rows].tolist()

    def divisor(n_known: int) -> tuple[str, float]:
        """What it would be if all but the first few had the label 0."""
        grades, pairs, without = judgments.labels.copy(), judgments.subtopics, rows[n_known:]
        grades[without] = 0.0
        if pairs is not None:
            keep = ~np.isin(pairs.rows, without)
            pairs = Subtopics(pairs.rows[keep], pairs.numbers[keep], pairs.grades[keep])
        known = replace(judgments, labels=grades, subtopics=pairs)
        found = metric.divisor_at(known, ranking, np.array([metric.cutoff]))
        return ("", 0.0) if found is None else (found[0], float(found[1][0]))

    (name, whole), (_, alone) = divisor(rows.size), divisor(0)
    if whole == alone:
        return columns, tuple(zip(named, labels, strict=True))
    n_worth = int(np.count_nonzero(judgments.labels[rows]))
    adds = np.diff([divisor(n_known)[1] for n_known in range(n_worth + 1)])
    added = [*adds.tolist(), *[0.0] * (rows.size - n_worth)]
    return (*columns, f"adds to {name}"), tuple(zip(named, labels, added, strict=True))


def _sums(metric: Metric, judgments: Judgments, ranking: Ranking) -> tuple[Floats, str, float] | None:
    """Each rank's contribution to value times divisor, at every cutoff by the very code that evaluates; the divisor's
    name and the divisor; None where the metric is no such sum.
    """
    size = ranking.rows.size
    if size == 0:
        return None
    # at the cutoff and not at the list's end: a list may be shorter than what is relevant
    name, whole = metric.divisor_at(judgments, ranking, np.array([metric.cutoff])) or ("", np.ones(1))
    if not metric.takes_cutoff:
        each = metric.contributions(judgments, ranking)
        return None if each is None else (each, name, float(whole[0]))
    every = np.arange(1, size + 1)
    values = replace(metric, empty="zero").prepare(judgments, every)(ranking)[:, 0]
    _, by = metric.divisor_at(judgments, ranking, every) or ("", np.ones(size))
    return np.diff(values * by, prepend=0.0), name, float(whole[0])


def _steps(
    metric: Metric, value: float, sums: tuple[Floats, str, float] | None, n_counted: int, size: int
) -> tuple[str, ...]:
    """Return the arithmetic from the contributions to the value; `sums` is what `_sums` returns."""
    if math.isnan(value):
        return ("undefined: no document of the query is relevant in the sense of this metric",)
    steps = []
    if sums is not None:
        each, divisor_name, divisor = sums
        total = float(each[:n_counted].sum())
        steps.append(f"sum of contributions = {number(total, metric.counts)}")
        if divisor_name and divisor == 0.0:
            steps.append(f"{divisor_name} = 0, and so is the value")
        elif divisor_name:
            by = number(divisor, whole=divisor == int(divisor))
            steps += [f"{divisor_name} = {by}", f"{number(total)} / {by} = {number(value)}"]
    elif isinstance(metric, FunctionMetric):
        steps.append(
            f"{metric.name} is a function of these labels and scores; how it gets there, its code says"
        )
    if getattr(metric, "short_list", "") == "zero" and metric.k is not None and size < metric.k:
        steps = [*steps[:2], f"a list of {size} documents, shorter than {metric.k}, counts 0"]
    return tuple(steps)


def _interval(metric: Metric, query: _Asked) -> tuple[float, float] | None:
    ends = _worst_and_best(metric, query)
    return None if not ends or _same(*ends) else (min(ends), max(ends))


def _worst_and_best(metric: Metric, query: _Asked) -> list[float]:
    """Nothing of a metric without a worst and a best order."""
    with suppress(MetricError):
        return [query.value(replace(metric, ties=ties)) for ties in ("worst", "best")]
    return []


def _presets(metric: Metric, value: float, query: _Asked, effects: bool = False) -> list[PresetValue]:
    values = []
    for tool, theirs in other_definitions(metric).items():
        seen = query.seen_by(tool)
        if not seen.judgments.groups.n_queries:
            values.append(PresetValue(tool, str(theirs), None, "it is given the candidates alone: none"))
            continue
        try:
            other, with_missed = (_whatever_ties(theirs, one) for one in (seen, query))
        except MetricError as problem:
            values.append(PresetValue(tool, str(theirs), None, str(problem)))
            continue
        reasons = []
        if not _same(value, with_missed):
            reasons.append(_reason(metric, theirs, value, query, effects))
        if not _same(with_missed, other):
            by = f" ({other - with_missed:+.4f})" if effects and math.isfinite(other - with_missed) else ""
            reasons.append(f"it is given the candidates alone{by}")
        said = "" if _same(value, other) else "; ".join(reasons)
        values.append(PresetValue(tool, str(theirs), other, said))
    return values


def _whatever_ties(metric: Metric, query: _Asked) -> float:
    """The value; that of any order where none of equal scores matters: document ids, for one, need not be known."""
    try:
        return query.value(metric)
    except MetricError:
        ends = _worst_and_best(metric, query)
        if not ends or not _same(*ends):
            raise
        return ends[0]


def _reason(metric: Metric, theirs: Metric, value: float, query: _Asked, effects: bool) -> str:
    """The conventions that move the value, each on its own; all that differ where only together."""
    alone = []
    for name, choice in differing(metric, theirs).items():
        try:
            moved = query.value(replace(metric, **{name: choice}))
        except MetricError:
            continue  # it cannot stand alone, so it explains nothing alone
        if not _same(moved, value):
            by = f" ({moved - value:+.4f})" if effects and math.isfinite(moved - value) else ""
            alone.append(f"{in_words(name, choice)}{by}")
    return "; ".join(alone or differences_in_words(metric, theirs))


def _same(one: float, other: float) -> bool:
    return (math.isnan(one) and math.isnan(other)) or abs(one - other) <= 1e-12


def _plain(value: Any) -> str | float:
    return ("yes" if value else "") if isinstance(value, bool | np.bool_) else float(value)


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
    defaults = {one.name: one.default for one in fields(metric) if one.name in _QUESTION}
    question = {name: own for name, default in defaults.items() if (own := getattr(metric, name)) != default}
    return type(metric).for_tool(tool, **question)


def differences_in_words(metric: Metric, theirs: Metric) -> tuple[str, ...]:
    """What the other definition does differently, one phrase per choice."""
    return tuple(in_words(name, choice) for name, choice in differing(metric, theirs).items())


def differing(metric: Metric, theirs: Metric) -> dict[str, Any]:
    """The choices of `theirs` that `metric` makes otherwise, by field."""
    return {
        field.name: getattr(theirs, field.name)
        for field in fields(metric)
        if getattr(theirs, field.name) not in (None, getattr(metric, field.name))
    }


def other_definitions(metric: Metric) -> dict[str, Metric]:
    """The question `metric` asks as others define the answer: by a name of its own, or the tool that has it."""
    named = {name: parse_metric(definition) for name, definition in DEFINITIONS.items()}
    same = {name: differing(type(one)(), one) for name, one in named.items() if one.name == metric.name}
    others = {name: replace(metric, **theirs) for name, theirs in same.items()}
    tools = [tool for tool, metrics in PRESETS.items() if metric.name in metrics]
    return others | {tool: as_measured_by(tool, metric) for tool in tools}


def in_words(name: str, choice: Any) -> str:
    """One choice as a phrase, such as "rank 2 is not discounted"."""
    return _WHY.get((name, choice), f"{name}={choice}")
