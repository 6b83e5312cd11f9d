"""The same models on several data sets: on average, on each, and which of them may be best."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import NamedTuple

import numpy as np

from ltr_harness._util.display import Displayed
from ltr_harness._util.number_text import interval_text, p_equals
from ltr_harness._util.text import count_of
from ltr_harness.comparison.caution_choice import ONE_TRAINING
from ltr_harness.comparison.comparability import require_means
from ltr_harness.comparison.comparison import Comparison
from ltr_harness.comparison.contrasts import Contrast, Difference, differences_of, over_seeds, rare_kind_of
from ltr_harness.comparison.stats.cluster_sums import ClusterSums, Floats, LinearCombination
from ltr_harness.comparison.stats.families import (
    FamilyResults,
    furthest_against,
    outcomes,
    rare_kind,
    rule_of_three,
)
from ltr_harness.comparison.stats.method import Method
from ltr_harness.comparison.stats.seeds import MethodDifference, weighted_difference
from ltr_harness.data.arrays import Bools
from ltr_harness.errors import Caution, NotComparableError, Problem, UsageError

_WORDS = ("better", "worse")
_FEWEST = 3  # queries of a data set that differ, below which their spread is not known (simulated)


@dataclass(frozen=True)
class AcrossModel:
    """One model over all data sets."""

    model: str
    means: tuple[float, ...]  # on each data set
    mean: float  # their weighted mean; never shown without them
    first_rank: int  # which it may have by the weighted mean, for all models at once
    last_rank: int
    average: Difference | None  # weighted mean of its differences from the baseline; None for the baseline
    # corrected over models and data sets together; empty for the baseline
    by_data_set: tuple[Difference, ...]
    same_sign: int  # on how many data sets the difference has the sign of the average


@dataclass(frozen=True)
class AcrossDataSets(Displayed):
    """Models on several data sets.

    Attributes:
        metric, baseline: what is compared.
        data_sets: their names.
        weights: of each, adding up to 1.
        n_queries: of each.
        models: best average first.
        method: in words.
        cautions: what these queries cannot show of the average, and those of the single comparisons.
    """

    metric: str
    baseline: str
    data_sets: tuple[str, ...]
    weights: tuple[float, ...]
    n_queries: tuple[int, ...]
    models: tuple[AcrossModel, ...]
    method: str
    cautions: tuple[Caution, ...]

    def __repr__(self) -> str:
        return "\n".join(self.lines())

    @property
    def losers(self) -> tuple[str, ...]:
        """The models that are worse than the baseline on average, but for the closest one where all others are."""
        averages = {model.model: model.average for model in self.models if model.average is not None}
        losers = [model for model, average in averages.items() if average.verdict == "worse"]
        return tuple(losers if len(losers) < len(averages) else losers[1:])

    def lines(self) -> list[str]:
        """One sentence for each model, and one for those that may be best."""
        sentences = [
            self._sentence(model, model.average) for model in self.models if model.average is not None
        ]
        best = [model.model for model in self.models if model.first_rank == 1]
        return [*sentences, f"Possibly best on average: {', '.join(best)}."]

    def _sentence(self, model: AcrossModel, average: Difference) -> str:
        verdict = "is not distinguishable from"
        if average.verdict in _WORDS:
            verdict = f"is {average.verdict} than"
        parts = []
        for name, difference in zip(self.data_sets, model.by_data_set, strict=True):
            part = f"{name} {difference.difference:+.4f}"
            if difference.verdict in _WORDS:
                part += f" ({difference.verdict})"
            parts.append(part)
        k = len(self.data_sets)
        interval = interval_text(average.ci_low, average.ci_high)
        return (
            f"{model.model} {verdict} {self.baseline} at {self.metric} on average over {count_of(k, 'data set')}: "
            f"{average.difference:+.4f} ({interval}, {p_equals(average.p_corrected)}); the sign is the same on "
            f"{model.same_sign} of {k}: {', '.join(parts)}."
        )


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
        >>> from ltr_harness import compare
        >>> def measured(n, gain):
        ...     first = pd.DataFrame({"query_id": [f"{n}-{at}" for at in range(n)], "mrr": [0.5, 0.4] * (n // 2)})
        ...     return compare({"old": first, "new": first.assign(mrr=first.mrr + [gain, gain / 2] * (n // 2))})
        >>> across = across_data_sets({"small": measured(20, 0.1), "large": measured(60, 0.2)})
        >>> across.models[0].model, across.models[0].same_sign, round(across.models[0].average.difference, 4)
        ('new', 2, 0.1125)
    """
    _check(comparisons)
    names, each = list(comparisons), list(comparisons.values())
    shares = _shares(names, weights)
    first = each[0]
    rivals = [model for model in first.models if model != first.baseline]
    # every pair of models; those with the baseline come first, and have it second
    pairs = [*((model, first.baseline) for model in rivals), *combinations(rivals, 2)]
    cells = [_Cells.of(comparison, pairs) for comparison in each]
    higher = first.higher_is_better[first.primary]
    width = max(comparison.value_range() for comparison in each)
    averages = _average(cells, shares, higher, first.method, len(rivals), width)
    average_of = dict(zip(rivals, averages, strict=True))
    averages_of_pairs = _average(cells, shares, higher, first.method, len(pairs), width)
    average_of_pair = dict(zip(pairs, averages_of_pairs, strict=True))
    ranks = _possible_ranks(first.models, average_of_pair)
    by_set = _on_each(each, rivals, cells, higher)
    rows = []
    for model in first.models:
        means = tuple(comparison.summary(model).mean for comparison in each)
        average, parts = average_of.get(model), by_set.get(model, ())
        same_sign = 0
        if average is not None:
            same_sign = sum(np.sign(part.difference) == np.sign(average.difference) for part in parts)
        mean = float(np.dot(shares, means))
        rows.append(AcrossModel(model, means, mean, *ranks[model], average, parts, int(same_sign)))
    rows.sort(key=lambda row: _lead(row, higher))
    test = f"{first.method.test_text} within data sets{first.method.weights_text}"
    differences = dict(zip(pairs, np.concatenate([part.d for part in cells]).T, strict=True))  # on all sets
    rare_kinds = _rare_kinds(each, average_of, average_of_pair, differences, width)
    return AcrossDataSets(
        metric=first.primary,
        baseline=first.baseline,
        data_sets=tuple(names),
        weights=tuple(shares),
        n_queries=tuple(comparison.n_queries for comparison in each),
        models=tuple(rows),
        method=f"{test}, {first.method.percent} % intervals",
        cautions=(*rare_kinds, *_sparse(names, cells, rivals), *_of_each(comparisons)),
    )


def _shares(names: Sequence[str], weights: Mapping[str, float] | None) -> list[float]:
    """Return the share of each data set in the average; a UsageError names sets without a weight above 0."""
    if weights is None:
        return [1 / len(names) for _ in names]
    weighted = {name for name in names if 0 < weights.get(name, 0) < np.inf}
    unmatched = {*weights, *names} - weighted
    if unmatched:
        found = f"none above 0 for {', '.join(sorted(unmatched))}"
        raise UsageError.at("weights", found, f"one for each of {', '.join(names)}")
    return [weights[name] / sum(weights.values()) for name in names]


def _possible_ranks(
    models: Sequence[str], average_of_pair: Mapping[tuple[str, str], Difference]
) -> dict[str, tuple[int, int]]:
    """Return the first and the last rank that each model may have by the average, in the family of all pairs."""
    n_better, n_worse = dict.fromkeys(models, 0), dict.fromkeys(models, 0)  # than the model
    for pair, average in average_of_pair.items():
        if average.verdict in _WORDS:
            winner, loser = pair if average.verdict == "better" else reversed(pair)
            n_worse[winner] += 1
            n_better[loser] += 1
    return {model: (1 + n_better[model], len(models) - n_worse[model]) for model in models}


def _rare_kinds(
    each: Sequence[Comparison],
    average_of: Mapping[str, Difference],
    average_of_pair: Mapping[tuple[str, str], Difference],
    differences: Mapping[tuple[str, str], Floats],  # (n_queries,) of all sets, by pair
    width: float,  # of the metric's values
) -> Iterator[Caution]:
    """The cautions on what the smallest data set may lack that would change a verdict on the average, or the ranks."""
    baseline, method = each[0].baseline, each[0].method
    n_units = {
        model: min(comparison.n_independent_units(comparison.paired(model)) for comparison in each)
        for model in average_of
    }
    for model, average in average_of.items():
        d = differences[model, baseline]
        line = rare_kind_of(average, d, n_units[model], width, method, len(average_of))
        if line:
            yield Caution("rare-kind", "warning", line, place=model)
    decisive = {pair: average for pair, average in average_of_pair.items() if average.verdict in _WORDS}
    if not decisive:
        return
    closest = min(abs(average.difference) for average in decisive.values())
    furthest = max(
        furthest_against(average.difference, differences[pair]) for pair, average in decisive.items()
    )
    fewest, n_pairs = min(n_units.values()), len(average_of_pair)
    line = rare_kind(fewest, closest, width, method, "change the ranks", n_pairs, furthest)
    if line:
        yield Caution("rare-kind", "warning", line, place="average ranks")


def _sparse(names: Sequence[str], cells: Sequence[_Cells], rivals: Sequence[str]) -> Iterator[Caution]:
    """The cautions on models that hardly differ from the baseline on a data set."""
    for name, cell in zip(names, cells, strict=True):
        differing = np.count_nonzero(cell.sample.sums, axis=0)
        for j in np.flatnonzero(_few_differ(cell.sample)[: len(rivals)]).tolist():
            few = f"{differing[j]} of {count_of(int(cell.sample.units[j]), 'query')} differ"
            text = f"only {few}, so the average's interval allows for queries that are missing here"
            yield Caution("few-queries", "warning", text, "evaluate more queries", f"{name}: {rivals[j]}")


def _of_each(comparisons: Mapping[str, Comparison]) -> Iterator[Caution]:
    """The cautions of the single comparisons, but for the one that is about their verdicts' sentences."""
    for name, comparison in comparisons.items():
        for caution in comparison.cautions:
            if caution.kind != ONE_TRAINING:
                yield replace(caution, place=f"{name}: {caution.place}" if caution.place else name)


def _lead(row: AcrossModel, higher: bool) -> float:
    """Return the average difference from the baseline, the best lowest; 0 for the baseline itself."""
    if row.average is None:
        return 0.0
    return -row.average.difference if higher else row.average.difference


def _check(comparisons: Mapping[str, Comparison]) -> None:
    """Raise unless these are the same models, measured alike, on different data sets."""
    if len(comparisons) < 2:
        raise UsageError(f"{count_of(len(comparisons), 'data set')}; several are compared")
    names = list(comparisons)
    first = comparisons[names[0]]
    everyone = list(
        dict.fromkeys(model for comparison in comparisons.values() for model in comparison.models)
    )
    problems = []
    for name, comparison in comparisons.items():
        lacking = [model for model in everyone if model not in comparison.models]
        if lacking:
            problems.append(Problem(name, f"has no {', '.join(lacking)}", "every model on every data set"))
        if comparison.primary != first.primary:
            found = f"{comparison.primary} decides, {first.primary} on {names[0]}"
            problems.append(Problem(name, found, "one metric"))
        if comparison.baseline != first.baseline:
            found = f"the baseline is {comparison.baseline}, {first.baseline} on {names[0]}"
            problems.append(Problem(name, found, "one baseline"))
    for before, again in combinations(names, 2):
        if _are_same_data(comparisons[before], comparisons[again]):
            found = f"is {before} again: the same queries and values"
            problems.append(Problem(again, found, "each data set once"))
    NotComparableError.refuse(problems)
    require_means(first.method, "over several data sets")


def _are_same_data(first: Comparison, second: Comparison) -> bool:
    """Return whether the baselines of two comparisons have the same queries and values."""
    baseline, second_baseline = first.system(first.baseline), second.system(second.baseline)
    if not np.array_equal(baseline.query_ids, second_baseline.query_ids):
        return False
    values, second_values = baseline.per_query(first.primary), second_baseline.per_query(second.primary)
    return np.array_equal(values, second_values, equal_nan=True)


class _Cells(NamedTuple):
    """Pairs of models on one data set."""

    d: Floats  # (n_queries, pairs) differences
    sample: ClusterSums  # of them
    seeds: tuple[MethodDifference | None, ...]  # (pairs,) what other trainings add

    @classmethod
    def of(cls, comparison: Comparison, pairs: Sequence[tuple[str, str]]) -> _Cells:
        contrasts = [
            Contrast(comparison.system(a), comparison.system(b), comparison.primary) for a, b in pairs
        ]
        d = np.column_stack([contrast.differences() for contrast in contrasts]) if pairs else np.empty((0, 0))
        sample = comparison.sampling.contributions(d)
        seeds = (over_seeds(cell, sample, j, comparison.sampling) for j, cell in enumerate(contrasts))
        return cls(d, sample, tuple(seeds))


def _average(
    cells: Sequence[_Cells],
    weights: Sequence[float],
    higher: bool,
    method: Method,
    n_pairs: int,
    width: float,  # of the metric's values
) -> list[Difference]:
    """The weighted means of the first pairs, tested as one family."""
    if not n_pairs:
        return []
    total = LinearCombination(tuple(cell.sample.columns(slice(n_pairs)) for cell in cells), tuple(weights))
    samples, every = (
        [cell.sample for cell in cells],
        zip(*(cell.seeds[:n_pairs] for cell in cells), strict=True),
    )
    seeds = [weighted_difference(of_pair, samples, j, weights) for j, of_pair in enumerate(every)]
    tested = _of_sparse_sets(outcomes(total, method, seeds=seeds, widths=width), total, width, method)
    return differences_of(total.mean, tested, [higher for _ in range(n_pairs)], method)


def _of_sparse_sets(
    tested: FamilyResults, total: LinearCombination, width: float, method: Method
) -> FamilyResults:
    """Widen averages by the rule of three for each data set on which few queries differ."""
    low, high = tested.low.copy(), tested.high.copy()
    widened = (total.error == 0) & np.isfinite(width)  # where no query differs on any data set
    for weight, part in zip(total.factors, total.parts, strict=True):
        few = np.flatnonzero(_few_differ(part) & ~widened)
        mean, units = part.mean[few], part.units[few]
        least, most = rule_of_three(mean, units, -width, width, method.level(low.size))
        low[few] -= weight * (mean - least)
        high[few] += weight * (most - mean)
    held = (low <= 0) & (high >= 0)
    return tested._replace(
        p=np.where(held, np.fmax(tested.p, method.alpha), tested.p),
        p_corrected=np.where(held, np.fmax(tested.p_corrected, method.alpha), tested.p_corrected),
        low=low,
        high=high,
    )


def _few_differ(sample: ClusterSums) -> Bools:
    """(m,): whether the sample has queries, of which too few differ for their spread to be known."""
    differing = np.count_nonzero(sample.sums, axis=0)
    return np.asarray((sample.units > 1) & (differing < _FEWEST))


def _on_each(
    each: Sequence[Comparison], rivals: Sequence[str], cells: Sequence[_Cells], higher: bool
) -> dict[str, tuple[Difference, ...]]:
    """Test each model against the baseline on each data set, as another family."""
    if not rivals:
        return {}
    m, method = len(rivals), each[0].method
    sample = _side_by_side(each, cells, m)
    seeds = [seed for cell in cells for seed in cell.seeds[:m]]
    widths = np.repeat([comparison.value_range() for comparison in each], m)
    results = outcomes(sample, method, seeds=seeds, widths=widths)
    is_higher_better = [higher for _ in widths]
    differences = differences_of(sample.mean, results, is_higher_better, method)
    return {model: tuple(differences[j::m]) for j, model in enumerate(rivals)}


def _side_by_side(each: Sequence[Comparison], cells: Sequence[_Cells], m: int) -> ClusterSums:
    """Return the first m differences of each data set as columns of their own; the queries of all sets are the rows."""
    sizes = [len(cell.d) for cell in cells]
    d, units = np.full((sum(sizes), m * len(each)), np.nan), np.arange(sum(sizes))
    weights = np.concatenate(
        [comparison.sampling.of_queries(size) for comparison, size in zip(each, sizes, strict=True)]
    )
    start = 0
    for j, (comparison, cell) in enumerate(zip(each, cells, strict=True)):
        stop = start + len(cell.d)
        d[start:stop, j * m : (j + 1) * m] = cell.d[:, :m]
        if comparison.units is not None:
            units[start:stop] = start + comparison.units
        start = stop
    has_units = any(comparison.units is not None for comparison in each)
    has_weights = any(comparison.weights is not None for comparison in each)
    return ClusterSums.of(d, units if has_units else None, weights if has_weights else None)
