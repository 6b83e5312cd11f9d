"""The same models on several data sets: on average, on each, and which of them may be best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from ltr_harness.comparison.comparison import Comparison
from ltr_harness.comparison.contrasts import Contrast, over_seeds, verdict_of
from ltr_harness.comparison.result import Paired, Verdict
from ltr_harness.comparison.sentence import p_text
from ltr_harness.errors import NotComparableError, Problem, UsageError
from ltr_harness.stats.across_sets import critical_of_pairs, flips_within_p, rank_intervals, spread_of_models
from ltr_harness.stats.by_unit import seeds_by_unit
from ltr_harness.stats.estimates import MeanEstimate, weighted_sum
from ltr_harness.stats.families import corrected, of_one_sign
from ltr_harness.stats.method import CORRECTIONS, Method
from ltr_harness.stats.moments import moments
from ltr_harness.stats.units import unit_means, unit_totals
from ltr_harness.wording import count_of

_WORDS = ("better", "worse")


@dataclass(frozen=True)
class Difference:
    """Of a model and the baseline, on one data set or on average; fields as in `Paired`."""

    difference: float
    ci_low: float
    ci_high: float
    p: float
    p_corrected: float
    verdict: Verdict


@dataclass(frozen=True)
class AcrossModel:
    """One model over all data sets.

    Attributes:
        model: its name.
        means: on each data set.
        mean: their weighted mean; never shown without them.
        first_rank, last_rank: which it may have by the weighted mean, for all models at once.
        average: the weighted mean of its differences from the baseline; None for the baseline.
        by_data_set: the difference on each data set, corrected over models and data sets together; empty likewise.
        same_sign: on how many data sets the difference has the sign of the average.
    """

    model: str
    means: tuple[float, ...]
    mean: float
    first_rank: int
    last_rank: int
    average: Difference | None
    by_data_set: tuple[Difference, ...]
    same_sign: int


@dataclass(frozen=True)
class AcrossDataSets:
    """Models on several data sets.

    Attributes:
        metric, baseline: what is compared.
        data_sets: their names.
        weights: of each, adding up to 1.
        n_queries: of each.
        models: best average first.
        method: in words.
        notes: of the single comparisons.
    """

    metric: str
    baseline: str
    data_sets: tuple[str, ...]
    weights: tuple[float, ...]
    n_queries: tuple[int, ...]
    models: tuple[AcrossModel, ...]
    method: str
    notes: tuple[str, ...]

    def lines(self) -> list[str]:
        """One sentence for each model, and one for those that may be best."""
        said = []
        k = len(self.data_sets)
        for model in self.models:
            if model.average is None:
                continue
            one = model.average
            word = f"is {one.verdict} than" if one.verdict in _WORDS else "is not distinguishable from"
            each = ", ".join(
                f"{name} {part.difference:+.4f}" + (f" ({part.verdict})" if part.verdict in _WORDS else "")
                for name, part in zip(self.data_sets, model.by_data_set, strict=True)
            )
            said.append(
                f"{model.model} {word} {self.baseline} at {self.metric} on average over {count_of(k, 'data set')}: "
                f"{one.difference:+.4f} ({one.ci_low:+.4f} to {one.ci_high:+.4f}, p = {p_text(one.p_corrected)}); the "
                f"sign is the same on {model.same_sign} of {k}: {each}."
            )
        best = [model.model for model in self.models if model.first_rank == 1]
        return [*said, f"Best on average may be: {', '.join(best)}."]


def across_data_sets(
    comparisons: Mapping[str, Comparison], weights: Mapping[str, float] | None = None
) -> AcrossDataSets:
    """The models of several comparisons, one for each data set, by the weighted mean of their differences.

    The average is over these data sets, not over data sets that might be: chance is that of queries (and seeds, and
    units) within each.

    Args:
        comparisons: data set to comparison; the same models, primary metric, baseline and method in each.
        weights: of each data set; equal ones if None.

    Raises:
        NotComparableError: a model is missing on a data set, metrics or baselines differ, or two data sets are one.
        UsageError: fewer than two data sets, weights that are none, or options that this is not known for.

    Example:
        >>> import pandas as pd
        >>> from ltr_harness.comparison import compare
        >>> def measured(n, gain):
        ...     first = pd.DataFrame({"query_id": [f"{n}-{at}" for at in range(n)], "mrr": [0.5, 0.4] * (n // 2)})
        ...     return compare({"old": first, "new": first.assign(mrr=first.mrr + [gain, gain / 2] * (n // 2))})
        >>> across = across_data_sets({"small": measured(20, 0.1), "large": measured(60, 0.2)})
        >>> across.models[0].model, across.models[0].same_sign, round(across.models[0].average.difference, 4)
        ('new', 2, 0.1125)
    """
    names = list(comparisons)
    _check(comparisons)
    each = [comparisons[name] for name in names]
    first = each[0]
    w = _weights(names, weights)
    models = list(first.models)
    cells = {
        pair: [_estimate(one, *pair) for one in each]
        for pair in [*combinations(models, 2), *((model, first.baseline) for model in models)]
        if pair[0] != pair[1]
    }
    rivals = [model for model in models if model != first.baseline]
    average, by_set = _differences(each, rivals, w, cells)
    ranks = _ranks(each, w, {pair: weighted_sum(parts, w) for pair, parts in cells.items()})
    rows = []
    for model in models:
        means = tuple(one.summary(model).mean for one in each)
        own = average.get(model)
        sign = 0.0 if own is None else np.sign(own.difference)
        rows.append(
            AcrossModel(
                model=model,
                means=means,
                mean=float(np.dot(w, means)),
                first_rank=ranks[model][0],
                last_rank=ranks[model][1],
                average=own,
                by_data_set=tuple(by_set.get(model, ())),
                same_sign=sum(bool(np.sign(part.difference) == sign) for part in by_set.get(model, ())),
            )
        )
    better = -1 if first.higher_is_better[first.primary] else 1
    rows.sort(key=lambda one: better * (one.average.difference if one.average is not None else 0.0))
    return AcrossDataSets(
        metric=first.primary,
        baseline=first.baseline,
        data_sets=tuple(names),
        weights=tuple(w),
        n_queries=tuple(one.n_queries for one in each),
        models=tuple(rows),
        method=f"{first.method.test_text} within data sets, {CORRECTIONS[first.method.correction]}, "
        f"{first.method.percent} % intervals",
        notes=tuple(f"{name}: {note}" for name, one in comparisons.items() for note in one.notes),
    )


def _check(comparisons: Mapping[str, Comparison]) -> None:
    """Raises where these are not the same models, measured alike, on different data sets."""
    if len(comparisons) < 2:
        raise UsageError(f"{count_of(len(comparisons), 'data set')}; several are compared")
    names = list(comparisons)
    first = comparisons[names[0]]
    everyone = list(dict.fromkeys(model for one in comparisons.values() for model in one.models))
    problems = []
    for name, one in comparisons.items():
        lacking = [model for model in everyone if model not in one.models]
        if lacking:
            problems.append(Problem(name, f"has no {', '.join(lacking)}", "every model on every data set"))
        if one.primary != first.primary:
            problems.append(
                Problem(name, f"{one.primary} decides, {first.primary} on {names[0]}", "one metric")
            )
        if one.baseline != first.baseline:
            problems.append(
                Problem(
                    name, f"the baseline is {one.baseline}, {first.baseline} on {names[0]}", "one baseline"
                )
            )
    for before, again in combinations(names, 2):
        if _same_set(comparisons[before], comparisons[again]):
            problems.append(
                Problem(again, f"is {before} again: the same queries and values", "each data set once")
            )
    if problems:
        raise NotComparableError(problems)
    _check_method(first.method)


def _same_set(one: Comparison, other: Comparison) -> bool:
    """Whether two data sets are one: the same queries, and the same values of the baselines."""
    mine, theirs = one.entrant(one.baseline), other.entrant(other.baseline)
    return np.array_equal(mine.query_ids, theirs.query_ids) and np.array_equal(
        mine.per_query(one.primary), theirs.per_query(other.primary), equal_nan=True
    )


def _check_method(method: Method) -> None:
    problems = []
    where = "over several data sets"
    if method.test not in ("skew-adjusted", "permutation", "t"):
        problems.append(Problem("test", f"{method.test} {where}", "test skew-adjusted, permutation or t"))
    if method.correction == "max-t":
        problems.append(Problem("correction", f"max-t {where}", "holm, bonferroni, bh or none"))
    if method.interval not in ("skew-adjusted", "t"):
        problems.append(Problem("interval", f"{method.interval} {where}", "skew-adjusted or t"))
    if method.margin is not None:
        problems.append(Problem("margin", f"equivalence {where}", "no margin"))
    if problems:
        raise UsageError(problems)


def _weights(names: Sequence[str], weights: Mapping[str, float] | None) -> list[float]:
    """Adding up to 1."""
    if weights is None:
        return [1 / len(names)] * len(names)
    wrong = [
        name for name in {*weights, *names} if not 0 < weights.get(name, 0) < np.inf or name not in names
    ]
    if wrong:
        raise UsageError(
            Problem(
                "weights",
                f"none above 0 for {', '.join(sorted(wrong))}",
                f"one for each of {', '.join(names)}",
            )
        )
    total = sum(weights.values())
    return [weights[name] / total for name in names]


def _estimate(comparison: Comparison, model: str, other: str) -> MeanEstimate:
    """A mean difference on one data set, with the error that units and seeds give it."""
    metric = comparison.primary
    cell = Contrast(comparison.entrant(model), comparison.entrant(other), metric)
    d = cell.differences()[:, None]
    facts = moments(d)
    if comparison.units is None:
        n = float(facts.n[0])
        error, freedom = float(facts.standard_error[0]), n - 1
        lean = float(facts.skewness[0]) / np.sqrt(n)
    else:
        means = unit_means(d, comparison.units)
        error, freedom, lean = (float(one[0]) for one in (means.error, means.freedom, means.skewness))
    estimate = MeanEstimate(float(facts.mean[0]), error, freedom, lean)
    (seeds,) = seeds_by_unit([over_seeds(cell)], d, comparison.units)
    if seeds is None or not seeds.standard_error > error:
        return estimate
    return replace(
        estimate,
        error=seeds.standard_error,
        freedom=seeds.freedom,
        lean=lean * (error / seeds.standard_error) ** 3,
    )


def _differences(
    each: Sequence[Comparison],
    rivals: Sequence[str],
    weights: Sequence[float],
    cells: Mapping[tuple[str, str], Sequence[MeanEstimate]],
) -> tuple[dict[str, Difference], dict[str, list[Difference]]]:
    """Of each model and the baseline: on average, one family; and on each data set, another."""
    if not rivals:
        return {}, {}
    first = each[0]
    method, baseline = first.method, first.baseline
    averages = [weighted_sum(cells[model, baseline], weights) for model in rivals]
    p = np.array([one.p(method.test == "skew-adjusted") for one in averages])
    if method.test != "t":
        parts = []
        for one in each:
            d = np.column_stack([one.query_differences(model) for model in rivals])
            parts.append(d if one.units is None else unit_totals(d, one.units))
        flipped = flips_within_p(parts, weights, draws=method.draws, seed=method.seed)
        seeded = any(one.paired(model).over_seeds for one in each for model in rivals)
        p = np.fmax(p, flipped) if method.test == "skew-adjusted" or seeded else flipped
    average = dict(zip(rivals, _said(averages, p, first), strict=True))
    flat = [part for model in rivals for part in cells[model, baseline]]
    pairs = [one.paired(model) for model in rivals for one in each]
    said = _said(flat, np.array([pair.p for pair in pairs]), first, pairs)
    k = len(each)
    return average, {model: said[at * k : (at + 1) * k] for at, model in enumerate(rivals)}


def _said(
    estimates: Sequence[MeanEstimate], p: np.ndarray, comparison: Comparison, pairs: Sequence[Paired] = ()
) -> list[Difference]:
    """The differences of one family; no interval says more than that of the pair by itself, where there is one."""
    method = comparison.method
    p_corrected = corrected(p, method)
    confidence = 1 - method.level(len(estimates)) if method.simultaneous else method.confidence
    ends = np.array([one.interval(confidence, method.interval == "skew-adjusted") for one in estimates])
    low, high = ends.T
    if pairs:
        low = np.fmin(low, [pair.ci_low for pair in pairs])
        high = np.fmax(high, [pair.ci_high for pair in pairs])
    if method.simultaneous:
        low, high = of_one_sign(low, high, p_corrected < method.alpha)
    higher = comparison.higher_is_better[comparison.primary]
    return [
        Difference(
            difference=one.mean,
            ci_low=float(low[at]),
            ci_high=float(high[at]),
            p=float(p[at]),
            p_corrected=float(p_corrected[at]),
            verdict=verdict_of(p_corrected[at], low[at], high[at], higher, method),
        )
        for at, one in enumerate(estimates)
    ]


def _ranks(
    each: Sequence[Comparison], weights: Sequence[float], pairs: Mapping[tuple[str, str], MeanEstimate]
) -> dict[str, tuple[int, int]]:
    """First and last rank of each model by the average, for all models at once."""
    first = each[0]
    models, method = list(first.models), first.method
    if len(models) < 2:
        return dict.fromkeys(models, (1, 1))
    sign = 1 if first.higher_is_better[first.primary] else -1
    values = [
        np.column_stack([one.entrant(model).per_query(first.primary) for model in models]) for one in each
    ]
    covariance = spread_of_models(values, [one.units for one in each], weights)
    chosen = {
        (i, j): replace(pairs[models[i], models[j]], mean=sign * pairs[models[i], models[j]].mean,
                        lean=sign * pairs[models[i], models[j]].lean)
        for i, j in combinations(range(len(models)), 2)
    }  # fmt: skip
    freedom = min(one.freedom for one in chosen.values())
    reach = critical_of_pairs(covariance, freedom, method.confidence, draws=method.draws, seed=method.seed)
    intervals = rank_intervals(chosen, len(models), reach, method.interval == "skew-adjusted")
    return dict(zip(models, intervals, strict=True))
