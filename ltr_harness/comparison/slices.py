"""For which queries: the comparison within parts of the query set, with intervals that hold for all parts together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ltr_harness._util.display import DisplayedRecord, DisplayedRecords
from ltr_harness._util.text import count_of
from ltr_harness.comparison.comparison import Comparison
from ltr_harness.comparison.contrasts import SMALLEST as SMALLEST
from ltr_harness.comparison.contrasts import (
    Contrast,
    MeanDifference,
    PairVerdict,
    SeedMeans,
    SystemResult,
    difference_text,
    mean_differences,
    rare_kind_of,
    seed_means,
)
from ltr_harness.comparison.query_slices import QuerySlice


@dataclass(frozen=True)
class SliceResult(DisplayedRecord):
    """One model against the baseline on one part, at the primary metric: of methods where a side has several seeds."""

    attribute: str
    label: str
    model: str
    n: int  # queries of the part that both models have a value for
    baseline_mean: float  # over those, as the model's
    model_mean: float
    difference: float
    ci_low: float  # of all models and parts together, as p; NaN where n is too small
    ci_high: float
    p: float
    verdict: PairVerdict

    def __repr__(self) -> str:
        size = difference_text(self, self.p)
        part = f"{self.attribute} {self.label}"
        return f"{part}: {self.model} {size}, {self.verdict}, over {count_of(self.n, 'query')}"


_VALUES_AT_ONCE = 1 << 21  # differences of all metrics that share their flips: 16 MB for each array of them


def slice_results(comparison: Comparison, metric: str | None = None) -> DisplayedRecords[SliceResult]:
    """Compare every model with the baseline on every part, as one family: looking into twenty parts is paid for."""
    name = metric or comparison.primary
    return slice_results_at([name], comparison)[name]


def slice_results_at(
    metrics: Sequence[str], comparison: Comparison
) -> dict[str, DisplayedRecords[SliceResult]]:
    """Return the results of each metric, a family of its own; as many as memory allows share their flips."""
    rivals = [comparison.system(model) for model in comparison.ranking if model != comparison.baseline]
    n_values = len(rivals) * sum(int(np.count_nonzero(part.queries)) for part in comparison.parts)
    at_once = max(1, _VALUES_AT_ONCE // max(1, n_values))
    results: dict[str, DisplayedRecords[SliceResult]] = {}
    for start in range(0, len(metrics), at_once):
        results |= _results_at(metrics[start : start + at_once], rivals, comparison)
    return results


def _results_at(
    metrics: Sequence[str], rivals: Sequence[SystemResult], comparison: Comparison
) -> dict[str, DisplayedRecords[SliceResult]]:
    """Return the results of metrics that share their flips."""
    baseline = comparison.system(comparison.baseline)
    cells = {
        (part, metric, model): Contrast(model, baseline, metric, part.queries)
        for part in comparison.parts
        for metric in metrics
        for model in rivals
    }
    sides = dict(zip(cells, seed_means([*cells.values()]), strict=True))
    has_weight = comparison.sampling.of_queries(comparison.n_queries) > 0
    sizes = {
        (part, metric, model): int(np.count_nonzero(part.queries & has_weight & ~np.isnan(means.differences)))
        for (part, metric, model), means in sides.items()
    }
    large = {key: cell for key, cell in cells.items() if sizes[key] >= SMALLEST}
    method = replace(comparison.method, margin=None)
    differences = mean_differences(
        [*large.values()], comparison.higher_is_better, method, comparison.sampling
    )
    tested = dict(zip(large, differences, strict=True))

    def result(part: QuerySlice, metric: str, model: SystemResult) -> SliceResult:
        key = part, metric, model
        if key in tested:
            return _result(part, cells[key], tested[key])
        return _untested_result(part, cells[key], sizes[key], sides[key], comparison)

    return {
        metric: DisplayedRecords(result(part, metric, model) for model in rivals for part in comparison.parts)
        for metric in metrics
    }


def with_rare_kinds(comparison: Comparison, results: Sequence[SliceResult], metric: str) -> list[SliceResult]:
    """Return the results that a rare kind of query, of which a part may hold none, could change."""
    queries = {(part.attribute, part.label): np.flatnonzero(part.queries) for part in comparison.parts}
    differences = {
        model: comparison.query_differences(model, metric) for model in {result.model for result in results}
    }
    family = sum(result.n >= SMALLEST for result in results)
    width, method = comparison.value_range(metric), comparison.method
    unsure = []
    for result in results:
        part = queries[result.attribute, result.label]
        d = differences[result.model][part]
        (n,) = comparison.sampling.take(part).contributions(d[:, None]).units.tolist()
        if rare_kind_of(result, d, n, width, method, family):
            unsure.append(result)
    return unsure


def _result(part: QuerySlice, cell: Contrast, tested: MeanDifference) -> SliceResult:
    """Return the result of a part that was tested."""
    difference = tested.difference
    return SliceResult(
        attribute=part.attribute,
        label=part.label,
        model=cell.model.name,
        n=tested.n,
        baseline_mean=tested.other_mean,
        model_mean=tested.model_mean,
        difference=difference.difference,
        ci_low=difference.ci_low,
        ci_high=difference.ci_high,
        p=difference.p_corrected,
        verdict=difference.verdict,
    )


def _untested_result(
    part: QuerySlice, cell: Contrast, size: int, means: SeedMeans, comparison: Comparison
) -> SliceResult:
    """Return the means of a part that is too small to be tested."""
    values = np.column_stack([cell.restrict(means.model), cell.restrict(means.other)])
    values[np.isnan(values).any(axis=1)] = np.nan
    model_mean, baseline_mean = comparison.sampling.means(values).tolist()
    return SliceResult(
        attribute=part.attribute,
        label=part.label,
        model=cell.model.name,
        n=size,
        baseline_mean=baseline_mean,
        model_mean=model_mean,
        difference=model_mean - baseline_mean,
        ci_low=math.nan,
        ci_high=math.nan,
        p=math.nan,
        verdict="not distinguishable",
    )
