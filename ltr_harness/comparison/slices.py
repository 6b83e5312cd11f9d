"""For which queries: the comparison within parts of the query set, with intervals that hold for all parts together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ltr_harness.comparison.comparison import Comparison
from ltr_harness.comparison.contrasts import SMALLEST as SMALLEST
from ltr_harness.comparison.contrasts import Contrast, Estimated, Paired, Verdict, contrast, rare_kind_of
from ltr_harness.comparison.over_time import days_of_queries
from ltr_harness.comparison.query_slices import QuerySlice, query_slices
from ltr_harness.data.time_folds import DAY
from ltr_harness.metrics.core.headroom import is_computed_column


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
    """One model against the baseline on one part, at the primary metric: of methods where a side has several seeds."""

    # interval and p are of all models and parts together, NaN where n is too small
    verdict: Verdict


def slice_results(comparison: Comparison, metric: str | None = None) -> tuple[SliceResult, ...]:
    """Every model against the baseline on every part, as one family: looking into twenty parts is paid for."""
    metric = metric or comparison.primary
    baseline = comparison.system(comparison.baseline)
    rivals = [comparison.system(model) for model in comparison.ranking if model != comparison.baseline]
    parts = _parts(comparison)
    cells = [(part, Contrast(model, baseline, metric, part.queries)) for model in rivals for part in parts]
    large = [cell for _, cell in cells if _size(cell, comparison) >= SMALLEST]
    method = replace(comparison.method, margin=None)
    tested = contrast([large], comparison.higher_is_better, method, comparison.sampling)
    results = dict(zip(map(id, large), tested, strict=True))
    return tuple(_result(part, cell, results.get(id(cell)), comparison) for part, cell in cells)


def with_rare_kinds(comparison: Comparison, results: Sequence[SliceResult], metric: str) -> list[SliceResult]:
    """Return the results that a rare kind of query, of which a part may hold none, could change."""
    queries = {(part.attribute, part.label): part.queries for part in _parts(comparison)}
    family = sum(result.n >= SMALLEST for result in results)
    width, method = comparison.value_range(metric), comparison.method
    found = []
    for result in results:
        d = comparison.query_differences(result.model, metric)
        d = np.where(queries[result.attribute, result.label], d, np.nan)
        (n,) = comparison.sampling.contributions(d[:, None]).units.tolist()
        if rare_kind_of(result, d, n, width, method, family):
            found.append(result)
    return found


def _parts(comparison: Comparison) -> list[QuerySlice]:
    """The parts of the query set: by what the baseline's queries have, but for units and the course of time."""
    baseline = comparison.system(comparison.baseline)
    unit = comparison.method.unit
    dated = DAY if days_of_queries([baseline]) is not None else None  # the course over time has them
    rows = baseline.query_attributes.get("rows", ())
    declared = (one.query_attributes.get("rows", ()) for one in comparison.systems if one.truth_declared)
    other_candidates = None if all(np.array_equal(own, rows) for own in declared) else "rows"
    facts = {
        name: values
        for name, values in baseline.query_attributes.items()
        if name not in (unit, dated, other_candidates) and not is_computed_column(name)
    }
    return list(query_slices(facts))


def _size(cell: Contrast, comparison: Comparison) -> int:
    """How many queries of a part count."""
    counts = ~np.isnan(cell.differences())
    return int(np.count_nonzero(counts & (comparison.sampling.of_queries(counts.size) > 0)))


def _result(part: QuerySlice, cell: Contrast, pair: Paired | None, comparison: Comparison) -> SliceResult:
    """A part's pair, or the means of one that is too small to be tested."""
    what = (part.attribute, part.label, cell.model.name)
    if pair is not None:
        means = (pair.n, pair.other_mean, pair.model_mean)
        return SliceResult(
            *what, *means, pair.difference, pair.ci_low, pair.ci_high, pair.p_corrected, pair.verdict
        )
    values = np.column_stack([side.mean(axis=0) for side in cell.values()])
    values[np.isnan(values).any(axis=1)] = np.nan
    model, baseline = comparison.sampling.means(values).tolist()
    n, nothing = _size(cell, comparison), (math.nan, math.nan, math.nan)
    return SliceResult(*what, n, baseline, model, model - baseline, *nothing, "not distinguishable")
