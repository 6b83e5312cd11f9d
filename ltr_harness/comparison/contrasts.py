"""Models as a comparison sees them, the summary of each, and their paired differences in families."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import chain, combinations_with_replacement, groupby, pairwise
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from ltr_harness._util.display import DisplayedRecord, DisplayedRecords
from ltr_harness._util.number_text import interval_text, p_equals
from ltr_harness._util.text import count_of
from ltr_harness._util.user_code import is_own_file
from ltr_harness.comparison.stats.cluster_sums import (
    TIE,
    ClusterSums,
    ColumnMoments,
    SubsetSums,
    UnitCodes,
    moments,
    paired_differences,
    win_tie_loss,
)
from ltr_harness.comparison.stats.families import (
    FamilyResults,
    furthest_against,
    interval_over_trainings,
    mean_intervals,
    outcomes,
    over_trainings,
    rare_kind,
    rare_share,
)
from ltr_harness.comparison.stats.method import Method
from ltr_harness.comparison.stats.seeds import (
    MethodDifference,
    VarianceComponents,
    seed_agreement,
    variance_components,
)
from ltr_harness.comparison.stats.spread import Spread
from ltr_harness.data.arrays import Array, Bools, Floats, Ints, KeepsArrays, Texts, as_column
from ltr_harness.errors import MetricError
from ltr_harness.metrics import parse_metric
from ltr_harness.metrics.core import judged_share
from ltr_harness.metrics.evaluation import Evaluation

PairVerdict = Literal["better", "worse", "equivalent", "not distinguishable", "baseline"]

WEIGHT = "query_weight"  # the query attribute that says how much a query counts in weighted means

SMALLEST = 5
"""Parts with fewer defined queries are counted and not compared: their interval would say nothing."""


@lru_cache(maxsize=1024)
def bounds_of(metric: str) -> tuple[float, float]:
    """The lowest and highest value that a metric of this name can have; infinite where it is not known."""
    try:
        return (-math.inf, math.inf) if is_own_file(metric) else parse_metric(metric).bounds
    except MetricError:
        return -math.inf, math.inf


@dataclass(frozen=True, eq=False, kw_only=True)
class Origin:
    """Further facts about a model's values, which saved comparisons keep."""

    deterministic: bool = False  # the seed cannot matter, so one replicate stands for all
    judgments_fingerprint: Mapping[str, str] = field(default_factory=dict)  # by fold; empty when unknown
    # likewise, of the relevant documents alone; "" where candidates are not declared
    truth_fingerprint: Mapping[str, str] = field(default_factory=dict)
    document_rules: str = ""  # which documents of its rankings counted, in words; "" for all that are listed
    source: str = ""  # where it came from, for messages


@dataclass(frozen=True, eq=False)
class SystemResult(Origin, KeepsArrays):
    """One model as a comparison sees it: per-query values of every replicate, folds already pooled."""

    name: str
    # (n_queries,), unique; ``fold/id`` where folds are pooled and ids could repeat
    query_ids: Texts
    values: Mapping[str, Floats]  # canonical metric name to (n_replicates, n_queries); NaN where undefined
    replicates: tuple[str, ...]  # (n_replicates,) what tells the rows apart, such as seeds "1", "2"
    higher_is_better: Mapping[str, bool]  # canonical metric name to direction
    # another seed would have given another model; False where nothing is known of its training
    seeded: bool = False
    # (n_queries,) each, for slices
    query_attributes: Mapping[str, Array] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        name: str,
        evaluations: Sequence[Evaluation],
        attributes: Mapping[str, Array] | None = None,
        primary: Any = None,
    ) -> "SystemResult":
        """From the evaluations of one model on one test set, one per seed; with the headroom of one metric."""
        first = evaluations[0]
        headroom: dict[str, Array] = {}
        with suppress(MetricError):  # it was not evaluated, which the comparison refuses
            metric = str(first[primary or first.metrics[0]].metric)
            found = first.headroom(metric)
            headroom = {} if found is None else found.columns(metric)
            if metric in first.judged_shares:
                shares = np.mean([evaluation.judged_shares[metric] for evaluation in evaluations], axis=0)
                headroom |= judged_share.columns(metric, shares)
        judgments = first.judgments
        weights = {} if judgments.query_weights is None else {WEIGHT: judgments.query_weights}
        values = ([evaluation[metric].per_query for evaluation in evaluations] for metric in first.metrics)
        return cls(
            name=name,
            query_ids=text_ids(first.query_ids),
            values=dict(zip(first.metrics, map(np.stack, values), strict=True)),
            replicates=tuple(str(number) for number in range(1, len(evaluations) + 1)),
            higher_is_better=dict(first.directions),
            judgments_fingerprint={"all": first.judgments_fingerprint},
            document_rules=first.document_rules,
            query_attributes={
                **(attributes or {}),
                "n_relevant": judgments.n_relevant,
                **weights,
                **headroom,
            },
        )

    @property
    def truth_declared(self) -> bool:
        """True where the relevant documents are known, candidates or not."""
        return bool(self.truth_fingerprint) and all(self.truth_fingerprint.values())

    def per_query(self, metric: str) -> Floats:
        """(n_queries,): each query's value averaged over replicates."""
        return np.asarray(self.values[metric].mean(axis=0))

    def take(self, queries: Ints) -> "SystemResult":
        """The given (n_kept,) queries alone, in the given order."""
        return replace(
            self,
            query_ids=self.query_ids[queries],
            values={metric: rows[:, queries] for metric, rows in self.values.items()},
            query_attributes={name: column[queries] for name, column in self.query_attributes.items()},
        )


def text_ids(ids: Array, name: str = "query_id") -> Texts:
    """(n_queries,) ids of any kind as text; DataError where one is too long, or has none."""
    return as_column([str(query) for query in as_column(ids, name).tolist()], name)


def value_bounds(systems: Sequence[SystemResult], metric: str) -> tuple[float, float]:
    """The lowest and highest value that a query can have; infinite where unknown, or where values lie beyond."""
    low, high = bounds_of(metric)
    rows = [system.values[metric] for system in systems]
    is_within = all(not ((row < low) | (row > high)).any() for row in rows)
    return (low, high) if is_within else (-math.inf, math.inf)


@dataclass(frozen=True)
class Summary(DisplayedRecord):
    """One model at one metric: a mean never travels without n and an interval."""

    model: str
    metric: str
    mean: float
    ci_low: float
    ci_high: float
    n: int
    n_undefined: int
    sd: float
    minimum: float
    p10: float
    median: float
    p90: float
    share_zero: float
    share_one: float
    n_replicates: int
    seed_sd: float  # NaN with one replicate
    seed_min: float
    seed_max: float

    def __repr__(self) -> str:
        interval = f"({interval_text(self.ci_low, self.ci_high, '')})"
        return f"{self.model}: {self.metric} {self.mean:.4f} {interval} over {count_of(self.n, 'query')}"


class Estimated(Protocol):
    """A difference in the metric's own sign, with its interval and p-value."""

    @property
    def difference(self) -> float: ...

    @property
    def ci_low(self) -> float: ...

    @property
    def ci_high(self) -> float: ...

    @property
    def p(self) -> float: ...


class JudgedShare(Protocol):
    """A difference and its verdict."""

    @property
    def difference(self) -> float: ...

    @property
    def verdict(self) -> PairVerdict: ...


@dataclass(frozen=True)
class Difference(DisplayedRecord):
    """A difference, its p-value corrected for the family, and the word for it."""

    difference: float  # in the metric's own sign, as the interval
    ci_low: float
    ci_high: float
    p: float  # by the chosen test
    p_corrected: float
    verdict: PairVerdict

    def __repr__(self) -> str:
        return difference_text(self, self.p_corrected)


def difference_text(difference: Estimated, p: float) -> str:
    """Return a difference with its interval and its p-value."""
    interval = f"({interval_text(difference.ci_low, difference.ci_high)})"
    return f"{difference.difference:+.4f} {interval}, {p_equals(p)}"


def rare_kind_of(
    judged: JudgedShare,
    d: Floats,  # (n_queries,) the differences behind it, NaN where undefined
    n: int,  # queries, or units of `method.unit`
    width: float,
    method: Method,
    family: int,
) -> str:
    """Return the line about a rare kind of query that could change a verdict; "" where nothing seen comes near one."""
    if judged.verdict in ("not distinguishable", "baseline"):
        return ""
    shift, furthest = abs(judged.difference), furthest_against(judged.difference, d)
    if judged.verdict == "equivalent":
        shift, furthest = (method.margin or 0.0) - shift, float(np.nanmax(np.abs(d)))
    if np.nanmax(d) - np.nanmin(d) <= TIE and np.isinf(width):
        furthest = np.inf  # no bound of the metric can widen an interval without width
    return rare_kind(n, shift, width, method, family=family, furthest=furthest)


@dataclass(frozen=True)
class Paired(DisplayedRecord):
    """One model against another at one metric, on paired per-query differences `model - other`.

    Differences keep the metric's own sign; wins, losses and the verdict follow the metric's direction, so a
    win is a query on which the model is better, also where lower values are.

    Where a side was trained with several seeds, interval, p-values, detectable difference and verdict are of the two
    methods: of other queries and other seeds together. Else they are of these two models on other queries.
    """

    model: str
    other: str
    metric: str
    n: int  # queries defined for both
    difference: float
    ci_low: float
    ci_high: float
    p: float  # by the chosen test
    p_corrected: float
    p_t: float
    effect_size: float  # d_z
    wins: int
    ties: int
    losses: int
    detectable: float  # smallest difference this query set could have shown at 80 % power
    seed_agreement: float  # share of seed pairs whose mean difference has the sign of the whole; NaN with one
    skewness: float  # of the differences; large with small n means the p-value is optimistic
    verdict: PairVerdict
    relative: float = math.nan  # difference / |mean of the other|; never shown without the difference
    # with several seeds: of these trained models on other queries; else p is that
    trained_p: float = math.nan
    trained_p_corrected: float = math.nan
    trained_ci_low: float = math.nan
    trained_ci_high: float = math.nan
    model_mean: float = math.nan  # over the n queries of the pair, as the difference is
    other_mean: float = math.nan
    p_equivalence: float = math.nan  # two one-sided tests against the margin; NaN without a margin

    def __repr__(self) -> str:
        size = difference_text(self, self.p_corrected)
        return (
            f"{self.model} against {self.other}: {self.metric} {size}, {self.verdict}, "
            f"over {count_of(self.n, 'query')}"
        )

    @property
    def is_significant(self) -> bool:
        """True where the two differ, whatever the margin."""
        return self.verdict in ("better", "worse")

    @property
    def includes_seeds(self) -> bool:
        """True where the verdict is of two methods: of other queries and other seeds together."""
        return not math.isnan(self.trained_ci_low)


class Sampling(NamedTuple):
    """The design of a comparison's queries: which belong together, and how much each counts."""

    units: UnitCodes | None = None  # (n_queries,); None where every query is its own
    weights: Floats | None = None  # (n_queries,); None where every query counts once

    def take(self, queries: Ints) -> "Sampling":
        """The given (n_kept,) queries alone."""
        units = None if self.units is None else self.units[queries]
        weights = None if self.weights is None else self.weights[queries]
        return Sampling(units, weights)

    def contributions(self, values: Floats, weights: Floats | None = None) -> ClusterSums:
        """Return the sums by unit of (n_queries, m) values, with further (n_queries,) weights."""
        combined = self.weights if weights is None else weights * self.of_queries(weights.size)
        return ClusterSums.of(values, self.units, combined)

    def of_queries(self, n: int) -> Floats:
        """(n_queries,): how much each query counts."""
        return np.ones(n) if self.weights is None else self.weights

    def means(self, values: Floats) -> Floats:
        """(m,): means of (n_queries, m) values, without those that are undefined; NaN where none is defined."""
        return ClusterSums.of(values, None, self.weights).mean


@dataclass(frozen=True, eq=False)
class Contrast:
    """One model against another at one metric, over all queries or some."""

    model: SystemResult
    other: SystemResult
    metric: str
    queries: Bools | None = None  # (n_queries,) which of them; None for all

    def values(self) -> tuple[Floats, Floats]:
        """(seeds, n_kept) of the model and of the other, of the queries that are among them."""
        model_values, other_values = self.model.values[self.metric], self.other.values[self.metric]
        if self.queries is None:
            return model_values, other_values
        places = np.flatnonzero(self.queries)
        return model_values.take(places, axis=1), other_values.take(places, axis=1)

    def weights(self, sampling: Sampling) -> Floats | None:
        """(n_kept,): how much each of these queries counts; None where every query counts once."""
        if sampling.weights is None or self.queries is None:
            return sampling.weights
        return sampling.weights[self.queries]

    def differences(self) -> Floats:
        """(n_queries,): model minus other, averaged over seeds; NaN where undefined."""
        (means,) = seed_means([self])
        return self.restrict(means.differences)

    def restrict(self, values: Floats) -> Floats:
        """(n_queries,): the values, NaN where a query is not among these."""
        return values if self.queries is None else np.where(self.queries, values, np.nan)


class SeedMeans(NamedTuple):
    """The means over seeds of a contrast's two models for every query, (n_queries,) each, and their differences."""

    model: Floats
    other: Floats
    differences: Floats


def seed_means(cells: Sequence[Contrast]) -> list[SeedMeans]:
    """Return the means of each contrast, of all queries: contrasts of parts of them share their arrays."""
    means: dict[tuple[SystemResult, str], Floats] = {}
    pairs: dict[tuple[SystemResult, SystemResult, str], SeedMeans] = {}
    for cell in cells:
        for system in (cell.model, cell.other):
            if (system, cell.metric) not in means:
                means[system, cell.metric] = system.values[cell.metric].mean(axis=0)
        if (cell.model, cell.other, cell.metric) not in pairs:
            sides = means[cell.model, cell.metric], means[cell.other, cell.metric]
            pairs[cell.model, cell.other, cell.metric] = SeedMeans(*sides, paired_differences(*sides))
    return [pairs[cell.model, cell.other, cell.metric] for cell in cells]


class MeanDifference(NamedTuple):
    """A contrast's difference, the means that it is of, and their number of queries."""

    n: int
    model_mean: float
    other_mean: float
    difference: Difference


def mean_differences(
    cells: Sequence[Contrast], directions: Mapping[str, bool], method: Method, sampling: Sampling
) -> list[MeanDifference]:
    """Test contrasts as `contrast` does, those of a metric as one family, without the numbers beside the verdict.

    Contrasts of the same queries stand one after the other.
    """
    if not cells:
        return []
    sides = seed_means(cells)
    n_queries = sides[0].model.size
    all_units = np.arange(n_queries) if sampling.units is None else np.unique(sampling.units)
    means, n, subsets, places = [], [], [], []
    for start, stop in _runs_of_queries(cells):
        queries = cells[start].queries
        rows = np.arange(n_queries) if queries is None else np.flatnonzero(queries)
        design = sampling.take(rows)
        d = _difference_columns(sides[start:stop], rows, design)
        n += np.count_nonzero(~np.isnan(d), axis=0).tolist()
        means += _means_of_models(sides[start:stop], rows, design, d)
        subsets.append(design.contributions(d))
        if design.units is not None:
            rows = np.searchsorted(all_units, np.unique(design.units))
        places.append(rows)
    sample = SubsetSums(tuple(subsets), tuple(places), all_units.size)
    metrics = np.array([cell.metric for cell in cells])
    families = [np.flatnonzero(metrics == metric) for metric in dict.fromkeys(metrics.tolist())]
    tested = _TestedFamilies.of(cells, sample, families, directions, method, sampling)
    return [
        MeanDifference(n_of_cell, model_mean, other_mean, difference)
        for n_of_cell, (model_mean, other_mean), difference in zip(n, means, tested.differences, strict=True)
    ]


def _difference_columns(sides: Sequence[SeedMeans], rows: Ints | slice, design: Sampling) -> Floats:
    """Return the differences of some queries, (n_rows, m), NaN where one does not count."""
    d = np.stack([side.differences[rows] for side in sides], axis=1)
    if design.weights is not None:
        d[design.weights == 0] = np.nan
    return d


def _means_of_models(
    sides: Sequence[SeedMeans], rows: Ints | slice, design: Sampling, d: Floats
) -> list[tuple[float, float]]:
    """Return the means of each contrast's two models over the queries that both have, by their differences."""
    columns = [values[rows] for side in sides for values in (side.model, side.other)]
    values = np.where(np.repeat(np.isnan(d), 2, axis=1), np.nan, np.stack(columns, axis=1))
    means = design.means(values).reshape(-1, 2)
    return [(model_mean, other_mean) for model_mean, other_mean in means.tolist()]


def _runs_of_queries(cells: Sequence[Contrast]) -> Iterator[tuple[int, int]]:
    """Yield where contrasts of the same queries start and stop."""
    start = 0
    for _, run in groupby(cells, key=lambda cell: id(cell.queries)):
        stop = start + len(list(run))
        yield start, stop
        start = stop


def contrast(
    families: Sequence[Sequence[Contrast]],
    directions: Mapping[str, bool],
    method: Method,
    sampling: Sampling = Sampling(),  # noqa: B008  # immutable
) -> DisplayedRecords[Paired]:
    """Test all contrasts of all families, one after the other: every verdict about two models comes from here."""
    if not any(families):
        return DisplayedRecords()
    table = _DifferenceTable.of([*chain.from_iterable(families)], sampling)
    columns = _columns_of(families)
    tested = _TestedFamilies.of(table.cells, table.sample, columns, directions, method, sampling)
    components, seeds, widths = tested.components, tested.seeds, tested.widths
    trained, results = tested.trained, tested.results
    higher = [directions[cell.metric] for cell in table.cells]
    family_sizes = [len(family) for family in families for _ in family]
    pairs = []
    for j, (cell, difference) in enumerate(zip(table.cells, tested.differences, strict=True)):
        detectable = math.nan
        if not np.isnan(trained.p[j]):
            level, spread = method.level(family_sizes[j]), table.spread(j, components[j], method, widths[j])
            detectable = detectable_difference(spread, table.n_units(j), level, widths[j], higher[j])
            if _is_refuted(detectable, difference, higher[j], method.alpha):
                detectable = math.nan
        pair = Paired(
            model=cell.model.name,
            other=cell.other.name,
            metric=cell.metric,
            **vars(difference),
            **table.description(j, higher[j]),
            detectable=detectable,
            seed_agreement=seed_agreement(*cell.values(), cell.weights(sampling)),
            p_equivalence=float(results.p_equivalence[j]),
        )
        if seeds[j] is not None:
            pair = replace(
                pair,
                trained_p=float(trained.p[j]),
                trained_p_corrected=float(trained.p_corrected[j]),
                trained_ci_low=float(trained.low[j]),
                trained_ci_high=float(trained.high[j]),
            )
        pairs.append(pair)
    return DisplayedRecords(pairs)


def _is_refuted(detectable: float, difference: Difference, higher: bool, alpha: float) -> bool:
    """Return whether a larger gain was not significant: another model of few queries, or too few draws, hid it."""
    gain = difference.difference if higher else -difference.difference
    return gain > detectable and not difference.p_corrected < alpha


def _columns_of(families: Sequence[Sequence[Contrast]]) -> list[slice]:
    """Return the columns of each family that has any, where all contrasts stand one after the other."""
    ends = np.cumsum([0, *map(len, families)]).tolist()
    return [slice(start, stop) for start, stop in pairwise(ends) if stop > start]


@dataclass(frozen=True, eq=False)
class _TestedFamilies:
    """All contrasts of some families, m columns one after the other, with the results of their tests."""

    widths: Floats  # (m,) how far apart two values of the metric can be
    components: Sequence[VarianceComponents | None]
    seeds: Sequence[MethodDifference | None]
    trained: FamilyResults  # of these trainings alone
    results: FamilyResults
    differences: Sequence[Difference]

    @classmethod
    def of(
        cls,
        cells: Sequence[Contrast],
        sample: ClusterSums | SubsetSums,  # of their differences
        families: Sequence[slice | Ints],  # the columns of each
        directions: Mapping[str, bool],
        method: Method,
        sampling: Sampling,
    ) -> "_TestedFamilies":
        models = list(dict.fromkeys(cell.model for cell in cells))
        bounds = {metric: value_bounds(models, metric) for metric in {cell.metric for cell in cells}}
        widths = np.array([bounds[cell.metric][1] - bounds[cell.metric][0] for cell in cells])
        components = [components_of(cell, sampling) for cell in cells]
        seeds = [method_difference_of(each, sample, j) for j, each in enumerate(components)]
        trained = outcomes(sample, method, families=families, seeds=(), widths=widths)
        results = over_trainings(trained, sample, method, families=families, seeds=seeds, widths=widths)
        higher = [directions[cell.metric] for cell in cells]
        differences = differences_of(sample.mean, results, higher, method)
        return cls(widths, components, seeds, trained, results, differences)


@dataclass(frozen=True, eq=False)
class _DifferenceTable:
    """The differences of m contrasts of all queries, a column for each, and the numbers that need no test."""

    cells: Sequence[Contrast]
    sampling: Sampling
    d: Floats  # (n_queries, m), NaN where undefined
    sample: ClusterSums
    sides: Sequence[SeedMeans]  # of each contrast

    @classmethod
    def of(cls, cells: Sequence[Contrast], sampling: Sampling) -> "_DifferenceTable":
        sides = seed_means(cells)
        d = _difference_columns(sides, slice(None), sampling)
        return cls(cells, sampling, d, sampling.contributions(d), sides)

    @cached_property
    def moments(self) -> ColumnMoments:
        return moments(self.d)

    @cached_property
    def effect_sizes(self) -> Floats:
        """d_z of each column, (m,), of the weighted mean."""
        return replace(self.moments, mean=self.sample.mean).effect_size

    @cached_property
    def tally(self) -> tuple[Ints, Ints, Ints]:
        """The numbers of queries above 0, at 0 and below, (m,) each."""
        return win_tie_loss(self.d)

    def n_units(self, j: int) -> int:
        """Return how many queries, or units, have a difference in column j."""
        return int(self.sample.units[j])

    def spread(
        self, j: int, components: VarianceComponents | None, method: Method, width: float
    ) -> Spread | None:
        """Return what makes the error of column j; None without any spread."""
        column = self.sample.columns(np.array([j]))  # a copy, as a column of a table is slow to read
        return spread_of(column, int(self.moments.n[j]), components, method, width)

    def description(self, j: int, higher_is_better: bool) -> dict[str, Any]:
        """Return the numbers of column j that no test is needed for, as fields of `Paired`."""
        model_mean, other_mean = self.means[j]
        above, ties, below = (int(counts[j]) for counts in self.tally)
        wins, losses = (above, below) if higher_is_better else (below, above)
        relative = math.nan
        if abs(other_mean) > 0:
            relative = float(self.sample.mean[j]) / abs(other_mean)
        return {
            "n": int(self.moments.n[j]),
            "p_t": float(self.sample.t_p[j]),
            "effect_size": float(self.effect_sizes[j]),
            "wins": wins,
            "ties": ties,
            "losses": losses,
            "skewness": float(self.moments.skewness[j]),
            "relative": relative,
            "model_mean": model_mean,
            "other_mean": other_mean,
        }

    @cached_property
    def means(self) -> list[tuple[float, float]]:
        """The means of each contrast's two models over the queries that both have."""
        return _means_of_models(self.sides, slice(None), self.sampling, self.d)


def differences_of(
    mean: Floats, results: FamilyResults, higher_is_better: Sequence[bool], method: Method
) -> list[Difference]:
    """Return the (m,) differences with their verdicts, directed by their sign.

    A significant difference is called so, also below the margin; the rest is equivalent where the margin is proven.
    """
    columns = np.stack([mean, results.low, results.high, results.p, results.p_corrected], axis=1).tolist()
    differences = []
    for j, (difference, low, high, p, p_corrected) in enumerate(columns):
        verdict: PairVerdict = "not distinguishable"
        if p_corrected < method.alpha and difference:
            verdict = "better" if (difference > 0) == higher_is_better[j] else "worse"
        elif results.p_equivalence[j] < method.alpha:
            verdict = "equivalent"
        differences.append(Difference(difference, low, high, p, p_corrected, verdict))
    return differences


def over_seeds(cell: Contrast, sample: ClusterSums, j: int, sampling: Sampling) -> MethodDifference | None:
    """Return two methods over queries, or units in their place, and seeds; None where nothing is known of seeds."""
    return method_difference_of(components_of(cell, sampling), sample, j)


def method_difference_of(
    components: VarianceComponents | None, sample: ClusterSums | SubsetSums, j: int
) -> MethodDifference | None:
    """Return the difference in column j of a sample as one of methods, from the components of its variance."""
    if components is None:
        return None
    methods = components.difference_at(components.n, components.seeds)
    if sample.largest_counts[j] <= 1:  # whatever units other columns have
        return methods
    by_query = components.of_query(components.seeds) / components.n
    of_seeds = max(methods.standard_error**2 - by_query, 0.0)
    return replace(
        methods,
        standard_error=float(np.sqrt(sample.error[j] ** 2 + of_seeds)),
        df=float(min(sample.df[j], methods.df)),
    )


def narrower_with_seeds(
    pair: Paired, cell: Contrast, fewest: int, family: int, method: Method, sampling: Sampling
) -> float:
    """Return how many times narrower a pair's interval would be, had each side at least so many seeds.

    It is 1 where there are more degrees of freedom than one, or where nothing is known of seeds.
    """
    components = components_of(cell, sampling)
    if components is None or components.df_of_seeds > 1:
        return 1.0
    sample = sampling.contributions(cell.differences()[:, None])
    methods = method_difference_of(components.with_seeds(fewest), sample, 0)
    assert methods is not None
    low, high = interval_over_trainings(methods, family, method)
    low, high = min(low, pair.trained_ci_low), max(high, pair.trained_ci_high)
    return (pair.ci_high - pair.ci_low) / (high - low) if high > low else 1.0


def components_of(cell: Contrast, sampling: Sampling) -> VarianceComponents | None:
    """Return the components of a contrast's variance; None where nothing is known of seeds."""
    return variance_components(
        *cell.values(),
        one_fixed=not cell.model.seeded,
        other_fixed=not cell.other.seeded,
        weights=cell.weights(sampling),
    )


def spread_of(
    sample: ClusterSums,  # one column of differences
    n_queries: int,
    components: VarianceComponents | None,
    method: Method,
    width: float,  # how far apart two values of the metric can be
) -> Spread | None:
    """Return the spread behind the error of a difference, for plans and detectable gains; None without any spread."""
    n, error = int(sample.units[0]), float(sample.error[0])
    if n < 2 or not error > 0:
        return None
    squares = np.square(sample.residuals[sample.counts[:, 0] > 0, 0])
    return Spread(
        variance=error**2 * n,
        n=n,
        df=None if sample.one_value_per_unit and method.unit is None else float(sample.df[0]),
        skewness=float(sample.skewness[0]) * n**0.5,
        adjusted=method.test == "skew-adjusted",
        differing=np.count_nonzero(sample.sums) / n,
        mean=float(sample.mean[0]),
        kurtosis=float(np.square(squares).mean() / squares.mean() ** 2),
        width=width if sample.one_value_per_unit else np.inf,
        strict=method.test == "bounded",
        queries_per_draw=n_queries / n,
        seeds=components,
    )


FEWEST_DIFFERING = 20
"""Queries, or units, that differ at least where a spread says what could have been shown; simulated."""


def detectable_difference(
    spread: Spread | None,
    n: int,  # queries, or units
    level: float,  # of one comparison of its family
    width: float,
    higher_is_better: bool,
) -> float:
    """Return the smallest gain that these queries show with a probability of 80 %, as a plan has it.

    Of equal differences, one that a kind of query absent from them could not undo; NaN where too few differ to tell,
    and where it is larger than any difference of the metric.
    """
    if spread is None:
        if n < 2 or math.isinf(width):
            return math.nan
        share = float(rare_share(n, level))
        gain = share / (1 - share) * width
        return gain if gain <= width else math.nan
    gains = spread if higher_is_better else spread.mirrored()
    gain = gains.detectable(n, alpha=level, power=0.8)
    is_known = gain <= width and math.isfinite(gain) and spread.differing * n >= FEWEST_DIFFERING
    return gain if is_known else math.nan


def summarise(
    systems: Sequence[SystemResult],
    metrics: Sequence[str],
    method: Method,
    sampling: Sampling = Sampling(),  # noqa: B008  # immutable
) -> DisplayedRecords[Summary]:
    """Return summaries of all models at all metrics, metric by metric; the spread counts each query once."""
    cells = [(system, metric) for metric in metrics for system in systems]
    columns = np.column_stack([system.per_query(metric) for system, metric in cells])
    if sampling.weights is not None:
        columns[sampling.weights == 0] = np.nan
    sample, spread = sampling.contributions(columns), moments(columns)
    bounds_of_metrics = {metric: value_bounds(systems, metric) for metric in metrics}
    low, high = mean_intervals(sample, method, [bounds_of_metrics[metric] for _, metric in cells])
    return DisplayedRecords(
        Summary(
            model=system.name,
            metric=metric,
            mean=float(sample.mean[j]),
            ci_low=float(low[j]),
            ci_high=float(high[j]),
            n_undefined=int(np.isnan(system.per_query(metric)).sum()),
            sd=float(spread.sd[j]),
            **_distribution(columns[:, j]),
            **_seed_spread(system.values[metric], columns[:, j], sampling),
        )
        for j, (system, metric) in enumerate(cells)
    )


def _distribution(column: Floats) -> dict[str, Any]:
    """Return the number and the distribution of (n_queries,) values, NaN left out, as fields of `Summary`."""
    values = column[~np.isnan(column)]
    if not values.size:
        names = ("minimum", "p10", "median", "p90", "share_zero", "share_one")
        return {"n": 0, **dict.fromkeys(names, math.nan)}
    p10, median, p90 = np.quantile(values, [0.1, 0.5, 0.9])
    at_zero, at_one = (int(win_tie_loss(values - value)[1]) for value in (0, 1))
    return {
        "n": values.size,
        "minimum": float(values.min()),
        "p10": float(p10),
        "median": float(median),
        "p90": float(p90),
        "share_zero": at_zero / values.size,
        "share_one": at_one / values.size,
    }


def _seed_spread(replicates: Floats, column: Floats, sampling: Sampling) -> dict[str, Any]:
    """Return how the means of (n_replicates, n_queries) values vary, as fields of `Summary`."""
    means = sampling.means(np.where(np.isnan(column), np.nan, replicates).T)
    sd = float(means.std(ddof=1)) if means.size > 1 else math.nan
    return {
        "n_replicates": len(replicates),
        "seed_sd": sd,
        "seed_min": float(means.min()),
        "seed_max": float(means.max()),
    }


@dataclass(frozen=True)
class Letters:
    """All pairs of models at one metric, tested together."""

    # model to its letters, best mean first; () where nothing could be tested
    groups: Mapping[str, tuple[str, ...]]
    n: int  # queries of the pair that has the fewest


def letters(
    models: Sequence[str],  # best first
    pairs: Sequence[Paired],  # every two of them, one family
) -> Letters:
    """Give models that are not shown to differ a common letter."""
    if not pairs or not any(pair.n > 1 for pair in pairs):
        return Letters(dict.fromkeys(models, ()), 0)
    place = {model: number for number, model in enumerate(models)}
    similar = np.ones((len(models), len(models)), dtype=bool)
    for pair in pairs:
        first, second = place[pair.model], place[pair.other]
        similar[first, second] = similar[second, first] = not pair.is_significant
    groups = dict(zip(models, _common_letters(similar), strict=True))
    return Letters(groups, min(pair.n for pair in pairs))


def _common_letters(similar: Bools) -> list[tuple[str, ...]]:
    """Return the letters of each model from a (n_models, n_models) table of the pairs that share one."""
    groups = _similar_groups(similar)
    return [
        tuple(_letter(number) for number, group in enumerate(groups) if model in group)
        for model in range(len(similar))
    ]


def _similar_groups(similar: Bools) -> list[list[int]]:
    """Return groups of models, all similar to each other, such that every two similar models share a group."""
    groups: list[list[int]] = []
    for first, second in combinations_with_replacement(range(len(similar)), 2):
        if not similar[first, second] or any(first in group and second in group for group in groups):
            continue
        group = [first, second]
        for model in range(len(similar)):
            if similar[model, group].all():
                group.append(model)
        groups.append(group)
    return groups


def _letter(number: int) -> str:
    """Return ``a`` to ``z``, then ``aa``, ``ab`` …"""
    cycle, position = divmod(number, 26)
    letter = chr(ord("a") + position)
    return _letter(cycle - 1) + letter if cycle else letter
