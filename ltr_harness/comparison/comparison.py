"""What a comparison ends in: every number, the families they were corrected in, and one sentence."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ltr_harness.catalog import did_you_mean
from ltr_harness.comparison import tables
from ltr_harness.comparison.comparable import aligned, require_comparable
from ltr_harness.comparison.contrasts import Contrast, contrast
from ltr_harness.comparison.letters import Letters, letters
from ltr_harness.comparison.method import Method
from ltr_harness.comparison.result import WEIGHT, Entrant, Paired, Summary
from ltr_harness.comparison.sentence import family_text, verdict_sentence
from ltr_harness.comparison.summaries import summarise
from ltr_harness.errors import NotComparableError, Problem, UsageError
from ltr_harness.stats.paired import paired_differences

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Comparison:
    """Models over the same queries, by the same metrics, each against one baseline.

    Attributes:
        entrants: the models' per-query values, all in one order of queries.
        metrics: canonical names; the primary metric is one of them.
        primary: the metric, and so the K, that carries the verdict.
        baseline: the model the others are compared with.
        summaries: one per metric and model.
        pairs: one per metric and model except the baseline.
        method: test, correction, confidence, and how they were computed.
        families: which hypotheses were corrected together, in words, primary first.
        n_queries: size of the query set.
        n_without_relevant: queries without a relevant row, where the inputs tell; else undefined ones.
        n_undefined: metric to the number of queries undefined for at least one model.
        notes: what a reader must know: replicates left out, warnings about small or lopsided samples …
    """

    entrants: tuple[Entrant, ...]
    metrics: tuple[str, ...]
    primary: str
    baseline: str
    summaries: tuple[Summary, ...]
    pairs: tuple[Paired, ...]
    method: Method
    families: tuple[str, ...]
    n_queries: int
    n_without_relevant: int
    n_undefined: Mapping[str, int]
    notes: tuple[str, ...] = ()

    @property
    def models(self) -> tuple[str, ...]:
        """Names, in the order given."""
        return tuple(entrant.name for entrant in self.entrants)

    @property
    def test(self) -> str:
        return self.method.test

    @property
    def correction(self) -> str:
        return self.method.correction

    @property
    def confidence(self) -> float:
        return self.method.confidence

    @property
    def family(self) -> str:
        """The families of hypotheses, in words.

        Such as ``"3 comparisons: 3 models against lgbm-lambdarank at ndcg@10"``.
        """
        return "; ".join(self.families)

    @property
    def higher_is_better(self) -> Mapping[str, bool]:
        """Metric to direction."""
        return {metric: self.entrants[0].higher_is_better[metric] for metric in self.metrics}

    @property
    def knows_relevant(self) -> bool:
        """Whether the inputs told how many relevant rows each query has."""
        return any("n_relevant" in entrant.query_attributes for entrant in self.entrants)

    def entrant(self, model: str) -> Entrant:
        """One model's per-query values."""
        for entrant in self.entrants:
            if entrant.name == model:
                return entrant
        raise UsageError(f"no model {model!r} in this comparison; {did_you_mean(model, self.models)}")

    def summary(self, model: str, metric: str | None = None) -> Summary:
        """One model at one metric, the primary one if none is named.

        Raises:
            UsageError: no such model or metric.
        """
        name = self._metric(metric)
        self.entrant(model)
        return self._summaries[model, name]

    def paired(self, model: str, metric: str | None = None) -> Paired:
        """One model against the baseline at one metric, the primary one if none is named.

        Raises:
            UsageError: no such model or metric, or the model is the baseline.
        """
        name = self._metric(metric)
        self.entrant(model)
        if model == self.baseline:
            raise UsageError(f"{model} is the baseline: there is nothing to compare it with")
        return self._pairs[model, name]

    def query_differences(self, model: str, metric: str | None = None) -> NDArray[np.float64]:
        """(n_queries,): model minus baseline, query by query in the entrants' order; NaN where undefined."""
        name = self._metric(metric)
        values = self.entrant(model).per_query(name)
        return paired_differences(values, self.entrant(self.baseline).per_query(name))

    def all_pairs(self, metric: str | None = None) -> tuple[Paired, ...]:
        """Every model against every other at one metric, as one family: n (n - 1) / 2 comparisons.

        The better mean comes first in each pair, so differences have one sign. The correction is the
        comparison's own; ``max-t`` loses least where there are many models, since their pairs are related.
        """
        name = self._metric(metric)
        sign = -1 if self.higher_is_better[name] else 1
        means = {entrant.name: sign * self._summaries[entrant.name, name].mean for entrant in self.entrants}
        ordered = sorted(
            self.entrants, key=lambda entrant: (np.isnan(means[entrant.name]), means[entrant.name])
        )
        family = [
            Contrast(one, other, name) for place, one in enumerate(ordered) for other in ordered[place + 1 :]
        ]
        return contrast([family], self.higher_is_better, self.method)

    def letters(self, metric: str | None = None) -> Letters:
        """Which models differ from each other, as compact letters: those that share one do not.

        Tukey's test over all pairs with queries as blocks (`stats.blocked_tukey`), at the comparison's level, on
        values averaged over seeds. It stands beside the verdict, which is about the baseline alone.

        Example:
            >>> import pandas as pd
            >>> from ltr_harness.comparison import compare
            >>> first = pd.DataFrame({"query_id": list("abcdef"), "mrr": [0.5, 0.4, 0.3, 0.5, 0.6, 0.4]})
            >>> noise = pd.Series([0.01, -0.01, 0.02, -0.02, 0.0, 0.0])
            >>> others = {"alike": first.assign(mrr=first.mrr + noise), "far": first.assign(mrr=first.mrr - 0.3)}
            >>> compare({"first": first, **others}).letters().groups
            {'first': ('a',), 'alike': ('a',), 'far': ('b',)}
        """
        return letters(self, self._metric(metric))

    @cached_property
    def ranking(self) -> tuple[str, ...]:
        """Models by their mean at the primary metric, best first; equal means in the order given."""
        sign = -1 if self.higher_is_better[self.primary] else 1
        means = {model: sign * self.summary(model).mean for model in self.models}
        return tuple(sorted(self.models, key=lambda model: (np.isnan(means[model]), means[model])))

    @cached_property
    def verdict(self) -> str:
        """One sentence: which model, by how much, how sure, at which metric and K, over how many queries."""
        return verdict_sentence(self)

    @property
    def table(self) -> pd.DataFrame:
        """One row per model at the primary metric, best mean first."""
        return tables.primary_table(self)

    def frame(self) -> pd.DataFrame:
        """Everything, tidy: one row per metric and model, columns as in `Summary` and `Paired`."""
        return tables.tidy_frame(self)

    def __repr__(self) -> str:
        return "\n".join([self.verdict, *(f"note: {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        return tables.html(self)

    def _metric(self, metric: str | None) -> str:
        name = self.primary if metric is None else str(metric)
        if name not in self.metrics:
            raise UsageError(f"{name} was not compared; {did_you_mean(name, self.metrics)}")
        return name

    @cached_property
    def _summaries(self) -> dict[tuple[str, str], Summary]:
        return {(summary.model, summary.metric): summary for summary in self.summaries}

    @cached_property
    def _pairs(self) -> dict[tuple[str, str], Paired]:
        return {(pair.model, pair.metric): pair for pair in self.pairs}


def compare_entrants(
    entrants: Sequence[Entrant],
    metrics: Sequence[str],
    *,
    primary: str | None = None,
    baseline: str | None = None,
    method: Method | None = None,
    notes: Sequence[str] = (),
) -> Comparison:
    """The comparison of models whose per-query values are at hand.

    The p-values of the models at the primary metric are one family and carry the verdict; those at all other
    metrics together are another.

    Args:
        metrics: canonical names that all entrants have.
        primary: one of them; the first if none is named.
        baseline: a model's name; the first if none is named.

    Raises:
        NotComparableError: they differ in K, definition, labels or queries; the whole list.
        UsageError: no such baseline or primary metric.
    """
    method = method or Method()
    primary = primary or metrics[0]
    names = [entrant.name for entrant in entrants]
    if primary not in metrics:
        raise UsageError(f"primary metric {primary} is not compared; {did_you_mean(primary, metrics)}")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise NotComparableError(
            [Problem(name, "two results have this name", "one name for each", "rename one") for name in twice]
        )
    baseline = names[0] if baseline is None else baseline
    if baseline not in names:
        raise UsageError(f"no model {baseline!r} to serve as the baseline; {did_you_mean(baseline, names)}")
    require_comparable(entrants, metrics)
    ordered = aligned(entrants)
    reference = ordered[names.index(baseline)]
    told = [entrant for entrant in ordered if "n_relevant" in entrant.query_attributes]
    grouped = [part for part in ([primary], [metric for metric in metrics if metric != primary]) if part]
    directions = {metric: reference.higher_is_better[metric] for metric in metrics}
    undefined = {
        metric: np.any([np.isnan(entrant.per_query(metric)) for entrant in ordered], axis=0)
        for metric in metrics
    }
    others = [entrant for entrant in ordered if entrant is not reference]
    families = [
        [Contrast(entrant, reference, metric) for metric in part for entrant in others] for part in grouped
    ]
    comparison = Comparison(
        entrants=tuple(ordered),
        metrics=tuple(metrics),
        primary=primary,
        baseline=baseline,
        summaries=summarise(ordered, metrics, method),
        pairs=contrast(families, directions, method),
        method=method,
        families=tuple(family_text(len(others), baseline, part, primary) for part in grouped if others),
        n_queries=len(reference.query_ids),
        n_without_relevant=_without_relevant(told, undefined[primary]),
        n_undefined={metric: int(queries.sum()) for metric, queries in undefined.items()},
    )
    return dataclasses.replace(comparison, notes=(*notes, *_warnings(comparison)))


def _without_relevant(told: Sequence[Entrant], undefined: NDArray[np.bool_]) -> int:
    return int(np.sum(told[0].query_attributes["n_relevant"] == 0 if told else undefined))


def _weighted_means(comparison: Comparison) -> list[str]:
    """What the means would be by the queries' weights, which the tests do not use."""
    weights = comparison.entrant(comparison.baseline).query_attributes.get(WEIGHT)
    if weights is None or weights.dtype.kind not in "iuf" or np.all(weights == weights[0]):
        return []
    said = []
    for model in comparison.ranking[:5]:
        values = comparison.entrant(model).per_query(comparison.primary)
        counted = ~np.isnan(values) & (weights > 0)
        if counted.any():
            said.append(f"{model} {np.average(values[counted], weights=weights[counted]):.4f}")
    more = f" and {len(comparison.models) - 5} more" if len(comparison.models) > 5 else ""
    return [
        f"the queries have weights; here every query counts once. Weighted, {comparison.primary} is "
        f"{', '.join(said) or 'undefined'}{more}"
    ]


def _warnings(comparison: Comparison) -> list[str]:
    """What makes the numbers less sure than they look, at the primary metric."""
    metric, method = comparison.primary, comparison.method
    notes = _weighted_means(comparison)
    pairs = [pair for pair in comparison.pairs if pair.metric == metric]
    for metric_name in comparison.metrics:
        counts = {summary.n_undefined for summary in comparison.summaries if summary.metric == metric_name}
        if len(counts) > 1:
            notes.append(
                f"{metric_name} is undefined for {min(counts)} to {max(counts)} queries depending on the model; "
                "each pair is compared over the queries defined for both"
            )
    small = [pair for pair in pairs if pair.n and 2.0 ** (1 - pair.n) >= method.alpha]
    if small and method.test == "permutation":
        n = min(pair.n for pair in small)
        notes.append(
            f"n = {n}: the smallest p-value {n} queries can give is {2.0 ** (1 - n):g}; "
            "no difference could have been significant"
        )
    # Cochran's rule: the normal approximation of a mean needs n > 25 times the squared skewness.
    for pair in pairs:
        if pair.n <= 25 * pair.skewness**2:
            notes.append(
                f"{pair.model}: n = {pair.n:,} is small for differences as lopsided as these (skewness "
                f"{pair.skewness:+.1f}); interval and p-value are too optimistic"
            )
    return notes
