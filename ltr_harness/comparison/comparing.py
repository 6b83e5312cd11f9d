"""Compare systems by their per-query values: all models against a baseline, in families of metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ltr_harness._util.catalog import did_you_mean
from ltr_harness.comparison import comparability, units_and_weights
from ltr_harness.comparison.cautions import cautions as comparison_cautions
from ltr_harness.comparison.cautions import one_training, two_seeds
from ltr_harness.comparison.comparison import Comparison, family_text
from ltr_harness.comparison.contrasts import WEIGHT, Contrast, Sampling, SystemResult, contrast, summarise
from ltr_harness.comparison.over_time import in_periods, signs_cautions
from ltr_harness.comparison.stats.method import UNWEIGHTED, Method
from ltr_harness.data.arrays import Bools
from ltr_harness.errors import Caution, NotComparableError, Problem, UsageError


def compare_systems(
    systems: Sequence[SystemResult],
    metrics: Sequence[str] | None = None,
    *,
    primary: str | None = None,
    baseline: str | None = None,
    method: Method | None = None,
    cautions: Sequence[Caution] = (),
) -> Comparison:
    """Compare models by their per-query values: the primary metric is one family, all others are another.

    Without `metrics`, all systems must have the same ones, and are compared at all of these.
    """
    method = method or Method()
    NotComparableError.refuse(comparability.incompatibilities(systems, metrics))
    if metrics is None:
        metrics = list(systems[0].values)
    primary = primary or metrics[0]
    if baseline is None:
        baseline = systems[0].name
    _refuse_names(systems, metrics, primary, baseline)
    _refuse_values(systems, metrics, method)
    ordered, method, sampling = _sampled(systems, method, baseline, primary)
    reference = next(system for system in ordered if system.name == baseline)
    rivals = [system for system in ordered if system is not reference]
    families = _families(metrics, primary) if rivals else []
    contrasts = [_contrasts(rivals, reference, family) for family in families]
    directions = {metric: reference.higher_is_better[metric] for metric in metrics}
    undefined = {metric: _undefined_queries(ordered, metric) for metric in metrics}
    comparison = Comparison(
        systems=tuple(ordered),
        metrics=tuple(metrics),
        primary=primary,
        baseline=baseline,
        summaries=summarise(ordered, metrics, method, sampling),
        pairs=contrast(contrasts, directions, method, sampling),
        method=method,
        families=tuple(family_text(len(rivals), baseline, family, primary) for family in families),
        n_queries=len(reference.query_ids),
        n_without_relevant=_n_without_relevant(ordered, undefined[primary]),
        n_undefined={metric: int(queries.sum()) for metric, queries in undefined.items()},
        units=sampling.units,
        weights=sampling.weights,
    )
    primary_pairs = [pair for pair in comparison.pairs if pair.metric == primary]
    all_cautions = (
        *two_seeds(comparison),
        *one_training(comparison),
        *cautions,
        *signs_cautions(comparison.fold_signs, primary_pairs),
        *comparison_cautions(comparison),
    )
    return replace(comparison, cautions=all_cautions)


def _contrasts(
    rivals: Sequence[SystemResult], reference: SystemResult, metrics: Sequence[str]
) -> list[Contrast]:
    """Return every rival against the reference, metric by metric."""
    return [Contrast(rival, reference, metric) for metric in metrics for rival in rivals]


def _refuse_names(
    systems: Sequence[SystemResult], metrics: Sequence[str], primary: str, baseline: str
) -> None:
    """Raise where the primary metric or the baseline is not among those compared, or two systems have one name."""
    if primary not in metrics:
        raise UsageError(f"primary metric {primary} is not compared; {did_you_mean(primary, metrics)}")
    names = [system.name for system in systems]
    repeated = sorted({name for name in names if names.count(name) > 1})
    NotComparableError.refuse(
        Problem(name, "two results have this name", "one name for each", "rename one") for name in repeated
    )
    if baseline not in names:
        raise UsageError(f"no model {baseline!r} to serve as the baseline; {did_you_mean(baseline, names)}")


def _refuse_values(systems: Sequence[SystemResult], metrics: Sequence[str], method: Method) -> None:
    """Raise where systems have values that the test cannot take."""
    comparability.require_finite(systems, metrics)
    if method.test == "bounded":
        comparability.require_bounds(systems, metrics)


def _sampled(
    systems: Sequence[SystemResult], method: Method, baseline: str, primary: str
) -> tuple[list[SystemResult], Method, Sampling]:
    """Return the systems in one order of queries, the method with the units and weights in use, and these."""
    ordered = comparability.aligned(systems)
    weights = units_and_weights.weights_of_queries(ordered, method.weights)
    ordered, unit = in_periods(ordered, method.unit, baseline, primary, weights)
    units = None if unit is None else units_and_weights.unit_codes(ordered, unit)
    attribute = UNWEIGHTED if weights is None else method.weights or WEIGHT
    return ordered, replace(method, unit=unit, weights=attribute), Sampling(units, weights)


def _families(metrics: Sequence[str], primary: str) -> list[list[str]]:
    """Return the metrics whose hypotheses are corrected together: the primary one by itself, then all others."""
    secondary = [metric for metric in metrics if metric != primary]
    return [[primary], secondary] if secondary else [[primary]]


def _undefined_queries(systems: Sequence[SystemResult], metric: str) -> Bools:
    """Return which queries (n_queries,) have no value of a metric for some system."""
    return np.asarray(np.any([np.isnan(system.per_query(metric)) for system in systems], axis=0))


def _n_without_relevant(systems: Sequence[SystemResult], undefined: Bools) -> int:
    """Return the number of queries without relevant documents, or of undefined ones where nobody counted these."""
    for system in systems:
        if "n_relevant" in system.query_attributes:
            return int(np.sum(system.query_attributes["n_relevant"] == 0))
    return int(np.sum(undefined))
