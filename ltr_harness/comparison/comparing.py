"""Compare systems by their per-query values: all models against a baseline, in families of metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ltr_harness._util.catalog import did_you_mean
from ltr_harness.comparison import comparability as comparable
from ltr_harness.comparison.cautions import cautions as comparison_cautions
from ltr_harness.comparison.cautions import one_training
from ltr_harness.comparison.comparison import Comparison, family_text
from ltr_harness.comparison.contrasts import WEIGHT, Contrast, Sampling, SystemResult, contrast, summarise
from ltr_harness.comparison.over_time import in_periods, signs_cautions
from ltr_harness.comparison.stats.method import UNWEIGHTED, Method
from ltr_harness.errors import Caution, NotComparableError, Problem, UsageError


def compare_systems(
    systems: Sequence[SystemResult],
    metrics: Sequence[str],
    *,
    primary: str | None = None,
    baseline: str | None = None,
    method: Method | None = None,
    cautions: Sequence[Caution] = (),
) -> Comparison:
    """The comparison of models by their per-query values: the primary metric is one family, all others are another."""
    method = method or Method()
    primary = primary or metrics[0]
    names = [system.name for system in systems]
    if primary not in metrics:
        raise UsageError(f"primary metric {primary} is not compared; {did_you_mean(primary, metrics)}")
    twice = sorted({name for name in names if names.count(name) > 1})
    NotComparableError.refuse(
        Problem(name, "two results have this name", "one name for each", "rename one") for name in twice
    )
    baseline = names[0] if baseline is None else baseline
    if baseline not in names:
        raise UsageError(f"no model {baseline!r} to serve as the baseline; {did_you_mean(baseline, names)}")
    NotComparableError.refuse(comparable.differences(systems, metrics))
    comparable.require_finite(systems, metrics)
    if method.test == "bounded":
        comparable.require_bounds(systems, metrics)
    ordered = comparable.aligned(systems)
    weights = comparable.weights_of_queries(ordered, method.weights)
    ordered, unit = in_periods(ordered, method.unit, baseline, primary, weights)
    method = replace(method, unit=unit)
    reference = ordered[names.index(baseline)]
    told = [system for system in ordered if "n_relevant" in system.query_attributes]
    grouped = [part for part in ([primary], [metric for metric in metrics if metric != primary]) if part]
    directions = {metric: reference.higher_is_better[metric] for metric in metrics}
    undefined = {
        metric: np.any([np.isnan(one.per_query(metric)) for one in ordered], axis=0) for metric in metrics
    }
    others = [system for system in ordered if system is not reference]
    families = [[Contrast(one, reference, metric) for metric in part for one in others] for part in grouped]
    without = told[0].query_attributes["n_relevant"] == 0 if told else undefined[primary]
    units = None if method.unit is None else comparable.unit_codes(ordered, method.unit)
    sampling = Sampling(units, weights)
    if weights is None:
        method = replace(method, weights=UNWEIGHTED)
    elif method.weights is None:
        method = replace(method, weights=WEIGHT)
    comparison = Comparison(
        systems=tuple(ordered),
        metrics=tuple(metrics),
        primary=primary,
        baseline=baseline,
        summaries=summarise(ordered, metrics, method, sampling),
        pairs=contrast(families, directions, method, sampling),
        method=method,
        families=tuple(family_text(len(others), baseline, part, primary) for part in grouped if others),
        n_queries=len(reference.query_ids),
        n_without_relevant=int(np.sum(without)),
        n_undefined={metric: int(queries.sum()) for metric, queries in undefined.items()},
        units=units,
        weights=weights,
    )
    decisive = [pair for pair in comparison.pairs if pair.metric == primary]
    found = (*signs_cautions(comparison.fold_signs, decisive), *comparison_cautions(comparison))
    return replace(comparison, cautions=(*one_training(comparison), *cautions, *found))
