"""Models as a comparison sees them, the summary of each, and their paired differences in families."""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from ltr_harness._util.user_code import is_own_file
from ltr_harness.comparison.stats.contributions import (
    TIE,
    Codes,
    Contributions,
    moments,
    paired_differences,
    win_tie_loss,
)
from ltr_harness.comparison.stats.families import (
    Outcome,
    furthest_against,
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
from ltr_harness.data.queries import Array, Bools, Floats, Ints, KeepsArrays, Texts, as_column
from ltr_harness.errors import MetricError
from ltr_harness.metrics import parse_metric
from ltr_harness.metrics.core import judged_share
from ltr_harness.metrics.evaluation import Evaluation

Verdict = Literal["better", "worse", "equivalent", "not distinguishable", "baseline"]

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
    """What else is known of a model's values; saved comparisons keep it."""

    deterministic: bool = False  # the seed cannot matter, so one replicate stands for all
    judgments_fingerprint: Mapping[str, str] = field(default_factory=dict)  # by fold; empty when unknown
    # likewise, of the relevant documents alone; "" where candidates are not declared
    truth_fingerprint: Mapping[str, str] = field(default_factory=dict)
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
                shares = np.mean([one.judged_shares[metric] for one in evaluations], axis=0)
                headroom |= judged_share.columns(metric, shares)
        judgments = first.judgments
        weights = {} if judgments.query_weights is None else {WEIGHT: judgments.query_weights}
        values = ([one[metric].per_query for one in evaluations] for metric in first.metrics)
        return cls(
            name=name,
            query_ids=text_ids(first.query_ids),
            values=dict(zip(first.metrics, map(np.stack, values), strict=True)),
            replicates=tuple(str(number) for number in range(1, len(evaluations) + 1)),
            higher_is_better=dict(first.directions),
            judgments_fingerprint={"all": first.judgments_fingerprint},
            query_attributes={
                **(attributes or {}),
                "n_relevant": judgments.n_relevant,
                **weights,
                **headroom,
            },
        )

    @property
    def truth_declared(self) -> bool:
        """Whether it is known which documents are relevant, candidates or not."""
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
    within = all(not ((row < low) | (row > high)).any() for row in rows)
    return (low, high) if within else (-math.inf, math.inf)


@dataclass(frozen=True)
class Summary:
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


@dataclass(frozen=True)
class Estimated:
    """A difference in the metric's own sign, with its interval and p-value."""

    difference: float
    ci_low: float
    ci_high: float
    p: float  # by the chosen test


@dataclass(frozen=True)
class Difference(Estimated):
    """A difference, its p-value corrected for the family, and the word for it."""

    p_corrected: float
    verdict: Verdict


class Judged(Protocol):
    """What has a difference and a verdict."""

    @property
    def difference(self) -> float: ...

    @property
    def verdict(self) -> Verdict: ...


def rare_kind_of(
    found: Judged,
    d: Floats,  # (n_queries,) the differences behind it, NaN where undefined
    n: int,  # queries, or units of `method.unit`
    width: float,
    method: Method,
    family: int,
) -> str:
    """The line about a rare kind of query that could change a verdict; "" where nothing seen comes near one."""
    if found.verdict in ("not distinguishable", "baseline"):
        return ""
    room, furthest = abs(found.difference), furthest_against(found.difference, d)
    if found.verdict == "equivalent":
        room, furthest = (method.margin or 0.0) - room, float(np.nanmax(np.abs(d)))
    if np.nanmax(d) - np.nanmin(d) <= TIE and np.isinf(width):
        furthest = np.inf  # no bound of the metric can widen an interval without width
    return rare_kind(n, room, width, method, family=family, furthest=furthest)


@dataclass(frozen=True)
class Compared:
    """What a difference is of; the last base of a record, whose fields come first in tables and in JSON."""

    model: str
    other: str
    metric: str
    n: int  # queries defined for both


@dataclass(frozen=True)
class Paired(Estimated, Compared):
    """One model against another at one metric, on paired per-query differences `model - other`.

    Differences keep the metric's own sign; wins, losses and the verdict follow the metric's direction, so a
    win is a query on which the model is better, also where lower values are.

    Where a side was trained with several seeds, interval, p-values, detectable difference and verdict are of the two
    methods: of other queries and other seeds together. Else they are of these two models on other queries.
    """

    p_corrected: float
    p_t: float
    effect_size: float  # d_z
    wins: int
    ties: int
    losses: int
    detectable: float  # smallest difference this query set could have shown at 80 % power
    seed_agreement: float  # share of seed pairs whose mean difference has the sign of the whole; NaN with one
    skewness: float  # of the differences; large with small n means the p-value is optimistic
    verdict: Verdict
    relative: float = math.nan  # difference / |mean of the other|; never shown without the difference
    # with several seeds: of these trained models on other queries; else p is that
    trained_p: float = math.nan
    trained_p_corrected: float = math.nan
    trained_ci_low: float = math.nan
    trained_ci_high: float = math.nan
    model_mean: float = math.nan  # over the n queries of the pair, as the difference is
    other_mean: float = math.nan
    p_equivalence: float = math.nan  # two one-sided tests against the margin; NaN without a margin

    @property
    def is_significant(self) -> bool:
        """Whether the two differ, whatever the margin."""
        return self.verdict in ("better", "worse")

    @property
    def includes_seeds(self) -> bool:
        """Whether the verdict is of two methods: of other queries and other seeds together."""
        return not math.isnan(self.trained_ci_low)


class Sampling(NamedTuple):
    """How the queries of a comparison were drawn: which belong together, and how much each counts."""

    units: Codes | None = None  # (n_queries,); None where every query is its own
    weights: Floats | None = None  # (n_queries,); None where every query counts once

    def take(self, queries: Ints) -> "Sampling":
        """The given (n_kept,) queries alone."""
        units = None if self.units is None else self.units[queries]
        weights = None if self.weights is None else self.weights[queries]
        return Sampling(units, weights)

    def contributions(self, values: Floats, weights: Floats | None = None) -> Contributions:
        """What units add to the means of (n_queries, m) values, with further (n_queries,) weights."""
        both = self.weights if weights is None else weights * self.of_queries(weights.size)
        return Contributions.of(values, self.units, both)

    def of_queries(self, n: int) -> Floats:
        """(n_queries,): how much each query counts."""
        return np.ones(n) if self.weights is None else self.weights

    def means(self, values: Floats) -> Floats:
        """(m,): means of (n_queries, m) values, without those that are undefined; NaN where none is defined."""
        return Contributions.of(values, None, self.weights).mean


@dataclass(frozen=True, eq=False)
class Contrast:
    """One model against another at one metric, over all queries or some."""

    model: SystemResult
    other: SystemResult
    metric: str
    queries: Bools | None = None  # (n_queries,) which of them; None for all

    def values(self) -> tuple[Floats, Floats]:
        """(seeds, n_queries) of the model and of the other, NaN where a query is not among them."""
        sides = self.model.values[self.metric], self.other.values[self.metric]
        if self.queries is None:
            return sides
        one, other = (np.where(self.queries, side, np.nan) for side in sides)
        return one, other

    def differences(self) -> Floats:
        """(n_queries,): model minus other, averaged over seeds; NaN where undefined."""
        one, other = self.values()
        return paired_differences(one.mean(axis=0), other.mean(axis=0))


def contrast(
    families: Sequence[Sequence[Contrast]],
    directions: Mapping[str, bool],
    method: Method,
    sampling: Sampling = Sampling(),  # noqa: B008  # immutable
) -> tuple[Paired, ...]:
    """Test all contrasts of all families, one after the other: every verdict about two models comes from here."""
    cells = [cell for family in families for cell in family]
    if not cells:
        return ()
    d = np.column_stack([cell.differences() for cell in cells])
    if sampling.weights is not None:
        d[sampling.weights == 0] = np.nan
    ends = np.cumsum([0, *map(len, families)]).tolist()
    parts = [slice(start, stop) for start, stop in pairwise(ends) if stop > start]
    sample = sampling.contributions(d)
    models = [cell.model for cell in cells]
    bounds = {metric: value_bounds(models, metric) for metric in {cell.metric for cell in cells}}
    widths = np.array([bounds[cell.metric][1] - bounds[cell.metric][0] for cell in cells])
    components = [components_of(cell, sampling) for cell in cells]
    seeds = [of_methods(one, sample, j) for j, one in enumerate(components)]
    plain = outcomes(sample, method, families=parts, seeds=(), widths=widths)
    found = over_trainings(plain, sample, method, families=parts, seeds=seeds, widths=widths)
    trained = Outcome.unknown(len(cells))
    known = np.flatnonzero([one is not None for one in seeds])
    trained.put(known, plain.columns(known))
    facts = moments(d)
    sizes = np.concatenate([np.full(len(family), len(family)) for family in families]).tolist()
    detectable = []
    for j, cell in enumerate(cells):
        spread = spread_of(sample.columns(slice(j, j + 1)), int(facts.n[j]), components[j], method, widths[j])
        n, direction = int(sample.units[j]), directions[cell.metric]
        shown = detectable_difference(spread, n, method, widths[j], sizes[j], direction)
        gain = float(sample.mean[j]) if direction else -float(sample.mean[j])
        # not so where a larger gain was not found: another model of few queries, or too few draws, hides it
        refuted = gain > shown and not found.p_corrected[j] < method.alpha
        detectable.append(math.nan if np.isnan(plain.p[j]) or refuted else shown)
    effect = replace(facts, mean=sample.mean).effect_size
    above, ties, below = win_tie_loss(d)
    higher = [directions[cell.metric] for cell in cells]
    pairs = []
    for j, own in enumerate(differences_of(sample.mean, found, higher, method)):
        cell = cells[j]
        one, other = (side.mean(axis=0) for side in cell.values())
        same = ~np.isnan(d[:, [j]])
        means = sampling.means(np.where(same, np.column_stack([one, other]), np.nan)).tolist()
        wins, losses = (above, below) if higher[j] else (below, above)
        pairs.append(
            Paired(
                model=cell.model.name,
                other=cell.other.name,
                metric=cell.metric,
                n=int(facts.n[j]),
                **vars(own),
                p_t=float(sample.t_p[j]),
                effect_size=float(effect[j]),
                wins=int(wins[j]),
                ties=int(ties[j]),
                losses=int(losses[j]),
                detectable=detectable[j],
                seed_agreement=seed_agreement(*cell.values(), sampling.weights),
                skewness=float(facts.skewness[j]),
                relative=own.difference / abs(means[1]) if abs(means[1]) > 0 else math.nan,
                trained_p=float(trained.p[j]),
                trained_p_corrected=float(trained.p_corrected[j]),
                trained_ci_low=float(trained.low[j]),
                trained_ci_high=float(trained.high[j]),
                model_mean=means[0],
                other_mean=means[1],
                p_equivalence=float(found.p_equivalence[j]),
            )
        )
    return tuple(pairs)


def differences_of(
    mean: Floats, found: Outcome, higher_is_better: Sequence[bool], method: Method
) -> list[Difference]:
    """The (m,) differences with their verdicts, directed by their sign.

    What differs, differs, also by less than the margin; the rest is equivalent where the margin is proven.
    """
    columns = np.stack([mean, found.low, found.high, found.p, found.p_corrected], axis=1).tolist()
    differences = []
    for j, (difference, low, high, p, p_corrected) in enumerate(columns):
        verdict: Verdict = "not distinguishable"
        if p_corrected < method.alpha and difference:
            verdict = "better" if (difference > 0) == higher_is_better[j] else "worse"
        elif found.p_equivalence[j] < method.alpha:
            verdict = "equivalent"
        differences.append(Difference(difference, low, high, p, p_corrected, verdict))
    return differences


def over_seeds(cell: Contrast, sample: Contributions, j: int, sampling: Sampling) -> MethodDifference | None:
    """Two methods over queries, or units in their place, and seeds; None where nothing is known of seeds."""
    return of_methods(components_of(cell, sampling), sample, j)


def of_methods(one: VarianceComponents | None, sample: Contributions, j: int) -> MethodDifference | None:
    """The difference in column j of a sample as one of methods, from what its variance is made of."""
    if one is None:
        return None
    methods = one.at(one.n, one.seeds)
    if sample.columns(slice(j, j + 1)).even:  # whatever units other columns have
        return methods
    by_query = one.of_query(one.seeds) / one.n
    of_seeds = max(methods.standard_error**2 - by_query, 0.0)
    return replace(
        methods,
        standard_error=float(np.sqrt(sample.error[j] ** 2 + of_seeds)),
        freedom=float(min(sample.freedom[j], methods.freedom)),
    )


def components_of(cell: Contrast, sampling: Sampling) -> VarianceComponents | None:
    """What the variance of a contrast is made of; None where nothing is known of seeds."""
    return variance_components(
        *cell.values(),
        one_fixed=not cell.model.seeded,
        other_fixed=not cell.other.seeded,
        weights=sampling.weights,
    )


def spread_of(
    sample: Contributions,  # one column of differences
    n_queries: int,
    components: VarianceComponents | None,
    method: Method,
    width: float,  # how far apart two values of the metric can be
) -> Spread | None:
    """What makes the error of a difference, for plans and for what it could have shown; None without any spread."""
    n, error = int(sample.units[0]), float(sample.error[0])
    if n < 2 or not error > 0:
        return None
    squares = np.square(sample.off[sample.counts[:, 0] > 0, 0])
    return Spread(
        variance=error**2 * n,
        n=n,
        freedom=None if sample.even and method.unit is None else float(sample.freedom[0]),
        skewness=float(sample.lean[0]) * n**0.5,
        adjusted=method.test == "skew-adjusted",
        differing=np.count_nonzero(sample.sums) / n,
        mean=float(sample.mean[0]),
        kurtosis=float(np.square(squares).mean() / squares.mean() ** 2),
        width=width if sample.even else np.inf,
        strict=method.test == "bounded",
        queries_per_draw=n_queries / n,
        seeds=components,
    )


FEWEST_DIFFERING = 20
"""Queries, or units, that differ at least where a spread says what could have been shown; simulated."""


def detectable_difference(
    spread: Spread | None,
    n: int,  # queries, or units
    method: Method,
    width: float,
    family: int,  # comparisons that share the level
    higher_is_better: bool,
) -> float:
    """Return the smallest gain that these queries show with a probability of 80 %, as a plan has it.

    Of equal differences, one that a kind of query absent from them could not undo; NaN where too few differ to tell.
    """
    if spread is None:
        share = float(rare_share(max(n, 1), method.level(family)))
        return share / (1 - share) * width if n > 1 and math.isfinite(width) else math.nan
    gains = spread if higher_is_better else spread.mirrored()
    found = gains.detectable(n, alpha=method.level(family), power=0.8)
    is_known = math.isfinite(found) and spread.differing * n >= FEWEST_DIFFERING
    return found if is_known else math.nan


def summarise(
    systems: Sequence[SystemResult],
    metrics: Sequence[str],
    method: Method,
    sampling: Sampling = Sampling(),  # noqa: B008  # immutable
) -> tuple[Summary, ...]:
    """Summaries of all models at all metrics, metric by metric; the spread is of queries that count once each."""
    cells = [(system, metric) for metric in metrics for system in systems]
    columns = np.column_stack([system.per_query(metric) for system, metric in cells])
    if sampling.weights is not None:
        columns[sampling.weights == 0] = np.nan
    sample, facts = sampling.contributions(columns), moments(columns)
    bounds = [own for metric in metrics for own in [value_bounds(systems, metric)] * len(systems)]
    low, high = mean_intervals(sample, method, bounds)
    summaries = []
    for j, (system, metric) in enumerate(cells):
        defined = ~np.isnan(columns[:, j])
        values = columns[defined, j]
        nothing = values.size == 0
        p10, median, p90 = [np.nan] * 3 if nothing else np.quantile(values, [0.1, 0.5, 0.9])
        at_zero, at_one = (int(win_tie_loss(values - value)[1]) for value in (0, 1))
        by_seed = sampling.means(np.where(defined, system.values[metric], np.nan).T)
        summaries.append(
            Summary(
                model=system.name,
                metric=metric,
                mean=float(sample.mean[j]),
                ci_low=float(low[j]),
                ci_high=float(high[j]),
                n=values.size,
                n_undefined=int(np.isnan(system.per_query(metric)).sum()),
                sd=float(facts.sd[j]),
                minimum=np.nan if nothing else float(values.min()),
                p10=float(p10),
                median=float(median),
                p90=float(p90),
                share_zero=np.nan if nothing else at_zero / values.size,
                share_one=np.nan if nothing else at_one / values.size,
                n_replicates=len(system.replicates),
                seed_sd=float(by_seed.std(ddof=1)) if by_seed.size > 1 else np.nan,
                seed_min=float(by_seed.min()),
                seed_max=float(by_seed.max()),
            )
        )
    return tuple(summaries)


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
    place = {model: at for at, model in enumerate(models)}
    alike = np.ones((len(models), len(models)), dtype=bool)
    for pair in pairs:
        one, other = place[pair.model], place[pair.other]
        alike[one, other] = alike[other, one] = not pair.is_significant
    groups = dict(zip(models, _shared(alike.tolist()), strict=True))
    return Letters(groups, min(pair.n for pair in pairs))


def _shared(alike: Sequence[Sequence[bool]]) -> list[tuple[str, ...]]:
    """Letters of models by their means: a pair alike without one makes a group with every model like all in it."""
    groups: list[list[int]] = []
    for first in range(len(alike)):
        for second in range(first, len(alike)):
            if not alike[first][second] or any(first in group and second in group for group in groups):
                continue
            groups.append([first, second])
            for at in range(len(alike)):
                if all(alike[at][member] for member in groups[-1]):
                    groups[-1].append(at)
    return [
        tuple(_letter(number) for number, group in enumerate(groups) if at in group)
        for at in range(len(alike))
    ]


def _letter(number: int) -> str:
    """``a`` to ``z``, then ``aa``, ``ab`` …"""
    before, own = divmod(number, 26)
    return (_letter(before - 1) if before else "") + chr(ord("a") + own)
