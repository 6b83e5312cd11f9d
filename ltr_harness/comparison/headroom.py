"""The headroom of a metric, and the share of it that each model has gained."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ltr_harness.comparison.contrasts import Sampling, SystemResult
from ltr_harness.comparison.stats.cluster_sums import ClusterSums
from ltr_harness.comparison.stats.families import mean_intervals, rule_of_three
from ltr_harness.comparison.stats.method import Method
from ltr_harness.comparison.stats.seeds import MethodDifference, method_difference
from ltr_harness.data.arrays import Floats
from ltr_harness.errors import Caution
from ltr_harness.metrics.core.headroom import (
    LITTLE_TO_GAIN,
    Headroom,
    MeanHeadroom,
    sign_against_random,
    worse_than_random,
)

FEWEST = 10
"""Degrees of freedom below which the share has no interval: simulated, it holds less often than it says."""


@dataclass(frozen=True)
class ModelHeadroom(MeanHeadroom):
    """One model at the primary metric, beside a random and the best order of its candidates; of the same queries."""

    model: str
    share: float  # (mean - random) / (ceiling - random); NaN where no order changes anything
    ci_low: float  # NaN where too few queries decide
    ci_high: float


def model_headroom(
    systems: Sequence[SystemResult], metric: str, method: Method, sampling: Sampling
) -> dict[str, ModelHeadroom]:
    """Every model whose random order and ceiling are known; shares are means weighted by what order can change."""
    means_by_model: dict[str, MeanHeadroom] = {}
    shares: list[Floats] = []  # (seeds, n_queries) each
    weights: list[Floats] = []  # (n_queries,) each
    for system in systems:
        headroom = Headroom.of_columns(metric, system.query_attributes)
        if headroom is None:
            continue
        values = system.per_query(metric)
        means = headroom.means(values, sampling.weights)
        if means is None:
            continue
        means_by_model[system.name] = means
        weights.append(headroom.headroom * sampling.of_queries(values.size))
        with np.errstate(invalid="ignore", divide="ignore"):
            shares.append(
                np.where(
                    headroom.headroom > 0,
                    (system.values[metric] - headroom.random) / headroom.headroom,
                    np.nan,
                )
            )
    if not means_by_model:
        return {}
    # a column a model, each contiguous: NumPy then adds it up as it does one by itself, to the last digit
    mean_shares = np.stack([model_shares.mean(axis=0) for model_shares in shares]).T
    sample = ClusterSums.of(mean_shares, sampling.units, np.stack(weights).T)
    low, high = np.full((2, len(shares)), np.nan)
    # bets are on values within bounds, and a share may be as far below 0 as it likes
    if method.test != "bounded":
        many = np.flatnonzero(sample.df >= FEWEST)
        chosen_means = [list(means_by_model.values())[j] for j in many]
        bottoms = np.array([-means.random / (means.ceiling - means.random) for means in chosen_means])
        seeds = [_over_seeds(shares[j], weights[j]) for j in many]
        low[many], high[many] = _intervals(sample.columns(many), bottoms, method, seeds)
    return {
        name: ModelHeadroom(
            **vars(means),
            model=name,
            share=float(sample.mean[j]),
            ci_low=float(low[j]),
            ci_high=float(high[j]),
        )
        for j, (name, means) in enumerate(means_by_model.items())
    }


def _over_seeds(shares: Floats, weights: Floats) -> MethodDifference | None:
    """Return the mean of (seeds, n_queries) shares as other seeds would vary it."""
    nothing = np.zeros((1, weights.size))
    return method_difference(shares, nothing, other_fixed=True, weights=np.nan_to_num(weights))


def _intervals(
    sample: ClusterSums, bottoms: Floats, method: Method, seeds: Sequence[MethodDifference | None]
) -> tuple[Floats, Floats]:
    """Ends of the intervals of (m,) shares between `bottoms` and 1, over queries and seeds, whatever test models have.

    They reach as far as a kind of query that is absent from these could move the share: shares near 1 vary little
    until a query falls.
    """
    bounds = [(bottom, 1.0) for bottom in bottoms.tolist()]
    low, high = mean_intervals(sample, replace(method, test="skew-adjusted"), bounds, seeds)
    least, most = rule_of_three(sample.mean, sample.units, bottoms, 1.0, method.alpha)
    return np.maximum(np.minimum(low, least), bottoms), np.minimum(np.maximum(high, most), 1.0)


def headroom_lines(headroom: Iterable[ModelHeadroom], metric: str) -> list[str]:
    """Random order, ceiling and what retrieval costs: one line for all, or one a model where candidates differ."""
    models = _by_line((item.model, str(item)) for item in headroom)
    if len(models) == 1:
        return [f"{metric}: {line}." for line in models]
    return [f"{names}: {line}." for line, names in models.items()]


def shares_sentence(headroom: Iterable[ModelHeadroom]) -> str:
    """Every model's share of what lies between a random and the best order, with its interval."""
    shares = []
    for item in headroom:
        ends = "" if math.isnan(item.ci_low) else f" ({item.ci_low:.2f} to {item.ci_high:.2f})"
        if not math.isnan(item.share):
            shares.append(f"{item.model} {item.share:.2f}{ends}")
    return f"Of what can be gained: {', '.join(shares)}." if shares else ""


def little_to_gain(systems: Sequence[SystemResult], metric: str) -> list[Caution]:
    """Return a caution for models whose candidates leave order little to decide."""
    lines = []
    for system in systems:
        headroom = Headroom.of_columns(metric, system.query_attributes)
        line = "" if headroom is None else headroom.little_to_gain(metric)
        lines.append((system.name, line))
    models = _by_line(lines)
    return [
        Caution(LITTLE_TO_GAIN, "warning", line, place="" if len(models) == 1 else names)
        for line, names in models.items()
        if line
    ]


def beside_random_order(systems: Sequence[SystemResult], metric: str) -> dict[str, int]:
    """Model to -1 where random order beats it beyond chance, 1 where it beats random order; of those known."""
    found = {}
    for system in systems:
        headroom = Headroom.of_columns(metric, system.query_attributes)
        if headroom is not None and system.higher_is_better[metric]:
            found[system.name] = sign_against_random(headroom.random, system.per_query(metric))
    return found


def worse_than_random_order(systems: Sequence[SystemResult], metric: str) -> list[Caution]:
    """Return a caution for each model that random order beats."""
    sides = beside_random_order(systems, metric)
    cautions = []
    for system in systems:
        headroom = Headroom.of_columns(metric, system.query_attributes)
        if headroom is not None and sides.get(system.name) == -1:
            cautions.append(worse_than_random(metric, headroom.random, system.per_query(metric), system.name))
    return cautions


def _by_line(lines: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return each line with the models that have it."""
    models: dict[str, str] = {}
    for model, line in lines:
        models[line] = f"{models[line]}, {model}" if line in models else model
    return models
