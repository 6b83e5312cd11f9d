"""From comparable entrants to their comparison, and what makes its numbers less sure than they look."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ltr_harness.catalog import did_you_mean
from ltr_harness.comparison.cautions import cautions
from ltr_harness.comparison.comparable import aligned, require_comparable
from ltr_harness.comparison.comparison import Comparison
from ltr_harness.comparison.contrasts import Contrast, contrast
from ltr_harness.comparison.result import WEIGHT, Entrant, Paired, value_bounds
from ltr_harness.comparison.sentence import family_text
from ltr_harness.comparison.summaries import summarise
from ltr_harness.comparison.units import unit_codes, unit_notes
from ltr_harness.errors import DataError, NotComparableError, Problem, UsageError
from ltr_harness.stats.method import FLIPS, Method
from ltr_harness.wording import count_of


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

    Raises:
        NotComparableError: they differ in K, definition, labels or queries; the whole list.
        DataError: infinite values, the first query of each model and metric; or the test is ``bounded`` and a
            metric's values have no known bounds.
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
    _require_finite(entrants, metrics)
    if method.test == "bounded":
        _require_bounds(entrants, metrics)
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
    units = None if method.unit is None else unit_codes(ordered, method.unit)
    comparison = Comparison(
        entrants=tuple(ordered),
        metrics=tuple(metrics),
        primary=primary,
        baseline=baseline,
        summaries=summarise(ordered, metrics, method, units),
        pairs=contrast(families, directions, method, units),
        method=method,
        families=tuple(family_text(len(others), baseline, part, primary) for part in grouped if others),
        n_queries=len(reference.query_ids),
        n_without_relevant=_without_relevant(told, undefined[primary]),
        n_undefined={metric: int(queries.sum()) for metric, queries in undefined.items()},
        units=units,
    )
    return dataclasses.replace(comparison, notes=(*notes, *_warnings(comparison)))


def _require_finite(entrants: Sequence[Entrant], metrics: Sequence[str]) -> None:
    """An infinite value has no mean, and of what is made from it everything is NaN: it is named instead."""
    problems = []
    for entrant in entrants:
        for metric in metrics:
            infinite = np.isinf(entrant.values[metric]).any(axis=0)
            if infinite.any():
                query = entrant.query_ids[int(np.argmax(infinite))]
                problems.append(
                    Problem(
                        entrant.name,
                        f"{metric} of query {str(query)!r} is infinite"
                        + (f", as of {int(infinite.sum()) - 1} more" if infinite.sum() > 1 else ""),
                        "a finite number, or an empty field where the metric is undefined",
                    )
                )
    if problems:
        raise DataError(problems)


def _require_bounds(entrants: Sequence[Entrant], metrics: Sequence[str]) -> None:
    """Bets on values without bounds cannot be made."""
    problems = [
        Problem(
            metric,
            "test bounded, and the bounds of its values are not known",
            "a metric of the harness whose values lie within bounds, such as ndcg@10",
            "leave the metric out, or use test skew-adjusted",
        )
        for metric in metrics
        if not np.isfinite(value_bounds(entrants, metric)).all()
    ]
    if problems:
        raise DataError(problems)


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


def _one_seed_among_several(comparison: Comparison, pairs: Sequence[Paired]) -> list[str]:
    """Whose spread over seeds had to be taken from another model."""
    once = [
        name
        for name in comparison.models
        if comparison.entrant(name).seeded
        and len(comparison.entrant(name).replicates) == 1
        and any(pair.over_seeds and name in (pair.model, pair.other) for pair in pairs)
    ]
    if not once:
        return []
    return [
        f"{', '.join(once)}: trained with one seed; beside a model with several its spread over seeds is taken to be "
        "that model's"
    ]


def _range(counts: Sequence[int]) -> str:
    low, high = min(counts), max(counts)
    return (
        f"{low:,} to {count_of(high, 'query')}"
        if low < high
        else f"{count_of(low, 'query')}, not the same ones,"
    )


def _means_of(pairs: Sequence[Paired]) -> str:
    """The means that the differences are of, which are not those of the table."""
    said = [
        f"{pair.model} {pair.model_mean:.4f} against {pair.other_mean:.4f} over {pair.n:,}"
        if pair.n
        else f"{pair.model} none"
        for pair in pairs[:5]
    ]
    return ", ".join(said) + (f" and {len(pairs) - 5} more" if len(pairs) > 5 else "")


def _warnings(comparison: Comparison) -> list[str]:
    """What makes the numbers less sure than they look, at the primary metric."""
    metric, method = comparison.primary, comparison.method
    notes = _weighted_means(comparison) + unit_notes(comparison)
    pairs = [pair for pair in comparison.pairs if pair.metric == metric]
    notes += _one_seed_among_several(comparison, pairs)
    for metric_name in comparison.metrics:
        apart = comparison.on_other_queries(metric_name)
        if apart:
            counts = [one.n_undefined for one in comparison.summaries if one.metric == metric_name]
            notes.append(
                f"{metric_name} is undefined for {_range(counts)} depending on "
                f"the model; each pair is compared over the queries defined for both: {_means_of(apart)}"
            )
    counts_of_flips = [comparison.n_independent(pair) for pair in pairs if pair.n]
    n = min(counts_of_flips, default=0)
    if counts_of_flips and 2.0 ** (1 - n) >= method.alpha and method.test in FLIPS:
        what = count_of(n, "query") if method.unit is None else f"{n} of {method.unit}"
        notes.append(
            f"n = {n}: the smallest p-value {what} can give is {2.0 ** (1 - n):g}; "
            "no difference could have been significant"
        )
    return notes + cautions(comparison, pairs)
