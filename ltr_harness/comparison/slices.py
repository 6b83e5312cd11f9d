"""For which queries: the comparison within parts of the query set, with intervals that hold for all parts together."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ltr_harness.comparison.comparison import Comparison
from ltr_harness.comparison.over_time import days_of_queries
from ltr_harness.comparison.pairs import SMALLEST as SMALLEST
from ltr_harness.comparison.pairs import Estimated, Verdict, differences_of
from ltr_harness.inspection.slices import query_slices
from ltr_harness.metrics.core.headroom import Headroom
from ltr_harness.stats.contributions import Contributions
from ltr_harness.stats.families import outcomes
from ltr_harness.time_folds import DAY


@dataclass(frozen=True)
class Part:
    """One model and the baseline on one part of the queries."""

    attribute: str
    label: str
    model: str
    n: int  # queries of the part that both models have a value for
    baseline_mean: float  # over those, as the model's
    model_mean: float


@dataclass(frozen=True)
class SliceResult(Estimated, Part):
    """One model against the baseline on one part, at the primary metric."""

    # interval and p are of all models and parts together, NaN where n is too small
    verdict: Verdict


def slice_results(comparison: Comparison, metric: str | None = None) -> tuple[SliceResult, ...]:
    """Every model against the baseline on every part, as one family: looking into twenty parts is paid for."""
    metric = metric or comparison.primary
    baseline = comparison.system(comparison.baseline)
    unit = comparison.method.unit
    dated = DAY if days_of_queries([baseline]) is not None else None  # the course over time has them
    rows = baseline.query_attributes.get("rows", ())
    declared = (one.query_attributes.get("rows", ()) for one in comparison.systems if one.truth_declared)
    other_candidates = None if all(np.array_equal(own, rows) for own in declared) else "rows"
    facts = {
        name: values
        for name, values in baseline.query_attributes.items()
        if name not in (unit, dated, other_candidates) and not Headroom.is_column(name)
    }
    parts = query_slices(facts)
    rivals = [model for model in comparison.ranking if model != comparison.baseline]
    base = baseline.per_query(metric)
    places = [
        (model, part, np.where(part.queries, comparison.query_differences(model, metric), np.nan))
        for model in rivals
        for part in parts
    ]
    if not places:
        return ()
    columns = np.stack([column for _, _, column in places], axis=1)
    n = np.count_nonzero(~np.isnan(columns), axis=0)
    columns[:, n < SMALLEST] = np.nan
    method = replace(comparison.method, margin=None)
    ranges = np.full(len(places), comparison.value_range(metric))
    tested = outcomes(Contributions.of(columns, comparison.units), method, ranges=ranges)
    base_means, means = np.full((2, len(places)), math.nan)
    for at, (_, _, column) in enumerate(places):
        known = ~np.isnan(column)
        if known.any():
            base_means[at], means[at] = base[known].mean(), column[known].mean()
    higher = [comparison.higher_is_better[metric]] * len(places)
    found = differences_of(means, tested, higher, method)
    results = []
    for (model, part, _), one, size, mean in zip(places, found, n.tolist(), base_means.tolist(), strict=True):
        what = (part.attribute, part.label, model, size, mean, mean + one.difference)
        results.append(
            SliceResult(*what, one.difference, one.ci_low, one.ci_high, one.p_corrected, one.verdict)
        )
    return tuple(results)
