"""Families of comparisons: p-values, intervals and verdicts of several differences at once, all from the same draws,
which keep the family's largest statistic: p < alpha, "0 lies outside the interval" and the verdict are one fact.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from ltr_harness.comparison.stats import reference
from ltr_harness.comparison.stats.betting import bounded_means
from ltr_harness.comparison.stats.cluster_sums import (
    SMALLEST_P,
    ClusterSums,
    Floats,
    LinearCombination,
    SubsetSums,
    student_p,
)
from ltr_harness.comparison.stats.method import Method
from ltr_harness.comparison.stats.seeds import MethodDifference
from ltr_harness.data.arrays import Bools, Ints

_FEWEST = 2 - 1e-9  # effective units from which on there is a spread
_ENDLESS = 1e50  # standard errors: resamples of a few units may have no spread
_AT_ONCE = 64  # columns looked at one by one whose draws are kept, 5 MB for 10,000 of them


class FamilyResults(NamedTuple):
    """The results of every difference of every family, (m,) each; NaN where fewer than two units have a value."""

    p: Floats  # of each difference by itself
    p_corrected: Floats  # within its family
    p_equivalence: Floats  # of lying within the margin, within its family; NaN without a margin
    low: Floats  # of the interval, which holds 0 exactly where `p_corrected` is not below the level
    high: Floats

    @classmethod
    def assembled(cls, m: int, families: Iterable[tuple[Ints, Self]]) -> Self:
        """Return the results of m differences, from the columns of each family and its results; NaN elsewhere."""
        columns = np.full((5, m), np.nan)
        for which, results in families:
            columns[:, which] = results
        return cls(*columns)

    def columns(self, which: Ints) -> Self:
        """Return the results of some columns."""
        return type(self)(*(values[which] for values in self))

    def with_columns(self, which: Ints, results: Self) -> Self:
        """Return these results, with others for some columns."""
        columns = np.stack(self)
        columns[:, which] = results
        return type(self)(*columns)


def outcomes(
    estimate: LinearCombination | SubsetSums | ClusterSums,  # m columns
    method: Method,
    *,
    seeds: Sequence[MethodDifference | None],  # (m,) what other trainings add to a difference; () for nothing
    widths: Floats | float,  # (m,) how far apart two values of the metric can be, as far as that is known
    families: Sequence[slice | Ints] | None = None,  # which columns are tested together; None: all of them
) -> FamilyResults:
    """Test all differences, family by family.

    Nothing is found where fewer than two units count, or as much as two of equal weight would.
    """
    trained = _results_of_trained(estimate, method, widths, families)
    return over_trainings(trained, estimate, method, seeds=seeds, widths=widths, families=families)


def over_trainings(
    trained: FamilyResults,  # what `outcomes` finds without seeds
    estimate: LinearCombination | SubsetSums | ClusterSums,
    method: Method,
    *,
    seeds: Sequence[MethodDifference | None],
    widths: Floats | float,
    families: Sequence[slice | Ints] | None = None,
) -> FamilyResults:
    """Let the results of trained models hold for other trainings as well; see `outcomes`."""
    if not any(seeds):
        return trained
    m = trained.p.size
    limits = np.broadcast_to(np.asarray(widths, dtype=np.float64), m)

    def of_family(tested: Ints) -> FamilyResults:
        results = _with_seeds(trained.columns(tested), [seeds[j] for j in tested], method)
        low, high = np.maximum(results.low, -limits[tested]), np.minimum(results.high, limits[tested])
        return results._replace(low=low, high=high)

    return FamilyResults.assembled(
        m, ((tested, of_family(tested)) for tested in _tested_columns(estimate, families))
    )


def _tested_columns(
    estimate: LinearCombination | SubsetSums | ClusterSums, families: Sequence[slice | Ints] | None
) -> Iterator[Ints]:
    """Yield the columns of each family that can be tested."""
    for part in families or (slice(None),):
        family = np.arange(estimate.mean.size)[part]
        tested = family[estimate.effective_units[family] >= _FEWEST]
        if tested.size:
            yield tested


def _results_of_trained(
    estimate: LinearCombination | SubsetSums | ClusterSums,
    method: Method,
    widths: Floats | float,
    families: Sequence[slice | Ints] | None,
) -> FamilyResults:
    """Test all differences of models as they were trained."""
    combination = LinearCombination((estimate,)) if isinstance(estimate, ClusterSums) else estimate
    m = combination.mean.size
    all_widths = np.broadcast_to(np.asarray(widths, dtype=np.float64), m)
    tested = list(_tested_columns(combination, families))
    estimates = [combination.columns(columns) for columns in tested]
    results = _results_of_families(estimates, method, [all_widths[columns] for columns in tested])
    return FamilyResults.assembled(m, zip(tested, results, strict=True))


def _results_of_families(
    families: Sequence[LinearCombination | SubsetSums], method: Method, widths: Sequence[Floats]
) -> list[FamilyResults]:
    """Test all columns of each as one family, of models as they were trained."""
    if method.test == "bounded":
        results = [_by_bets(*family, method) for family in zip(families, widths, strict=True)]
    else:
        if method.test == "t":
            results = [by_t(family.mean, family.error, family.df, method) for family in families]
        else:
            draws = _draws_of(families, method)
            results = [_by_draws(*family, method) for family in zip(families, draws, strict=True)]
        results = [
            _of_equal_values(*family, method) for family in zip(results, families, widths, strict=True)
        ]
    return [_within_possible(*family) for family in zip(results, families, widths, strict=True)]


FEWEST_EQUIVALENT = 6
"""Units below which nothing is equivalent: two that are equal show nothing of the others."""


def _within_possible(
    results: FamilyResults, estimate: LinearCombination | SubsetSums, widths: Floats
) -> FamilyResults:
    """End intervals at the largest difference that there can be; few units show no equivalence."""
    low, high = np.maximum(results.low, -widths), np.minimum(results.high, widths)
    has_few_units = (estimate.units < FEWEST_EQUIVALENT) & ~np.isnan(results.p_equivalence)
    p_equivalence = np.where(has_few_units, 1.0, results.p_equivalence)
    return results._replace(low=low, high=high, p_equivalence=p_equivalence)


def mean_intervals(
    sample: ClusterSums,  # m columns
    method: Method,
    bounds: Sequence[tuple[float, float]] = (),  # (m,) of the metrics' values; infinite where there are none
    seeds: Sequence[MethodDifference | None] = (),  # (m,) the means as other trainings would vary them, too
) -> tuple[Floats, Floats]:
    """Return the ends of the intervals of the means, each by itself; of equal values by the rule of three."""
    if method.test == "bounded" and bounds:
        return _bounded_intervals(sample, method, bounds)
    low, high = np.full((2, sample.mean.size), np.nan)
    tested = np.flatnonzero(sample.effective_units >= _FEWEST)
    low[tested], high[tested] = _studentised_intervals(sample.columns(tested), method)
    for j, methods in enumerate(seeds):
        if methods is not None:
            lower, upper = methods.interval(method.confidence)
            low[j], high[j] = np.fmin(low[j], lower), np.fmax(high[j], upper)
    if not bounds:
        return low, high
    bottom, top = np.array(bounds, dtype=np.float64).T
    equal = tested[(sample.error[tested] == 0) & np.isfinite(top[tested] - bottom[tested])]
    low[equal], high[equal] = rule_of_three(
        sample.mean[equal], sample.units[equal], bottom[equal], top[equal], method.alpha
    )
    return np.maximum(low, bottom), np.minimum(high, top)


def _bounded_intervals(
    sample: ClusterSums, method: Method, bounds: Sequence[tuple[float, float]]
) -> tuple[Floats, Floats]:
    """Return the ends of the intervals of means by bets."""
    low, high = np.full((2, sample.mean.size), np.nan)
    tested = np.flatnonzero(sample.effective_units >= _FEWEST)
    columns = sample.columns(tested)
    bottom, top = np.array(bounds, dtype=np.float64)[tested].T
    width = top - bottom
    base = np.where(np.isfinite(bottom), bottom, 0.0)
    shifted = ClusterSums(columns.sums - columns.counts * base, columns.counts, columns.squares)
    least = np.where(np.isfinite(width), 0.0, -np.inf)
    _, _, lower, upper = bounded_means(shifted, least, width, method.alpha, method.seed)
    low[tested], high[tested] = lower + base, upper + base
    return low, high


def _studentised_intervals(sample: ClusterSums, method: Method) -> tuple[Floats, Floats]:
    if method.test == "t":
        reach = np.asarray(stdtrit(sample.df, (1 + method.confidence) / 2), dtype=np.float64)
        return _ends(sample.mean, sample.error, np.zeros_like(sample.mean), reach)
    # means of sparse values lie far from 0, where skewness costs coverage, and nothing is tested
    critical = _criticals(LinearCombination((sample.centred(),)), method)
    reach = reference.t_of_normal(critical, sample.df_of_sizes)
    return _ends(sample.mean, sample.error, sample.skewness, reach)


def rare_share(units: int | NDArray[np.integer], alpha: float) -> Floats:
    """Return the share of a kind of unit that so many units hold none of with probability alpha: 1 - alpha**(1/n)."""
    return np.asarray(1 - alpha ** (1 / np.asarray(units)))


def rule_of_three(
    mean: Floats,  # (m,) of what was seen
    units: NDArray[np.integer],  # (m,)
    bottom: Floats | float,  # what a value can be
    top: Floats | float,
    alpha: float,
) -> tuple[Floats, Floats]:
    """Return the ends of means, (m,) each, for any kind of unit that is absent from these units.

    A kind that n units hold none of with probability alpha makes up 1 - alpha**(1/n) of all, about 3/n at 5 %
    (Hanley & Lippman-Hand 1983). So the mean is at most that share of the way from the seen one to either bound.
    """
    share = rare_share(units, alpha)
    return mean - share * (mean - bottom), mean + share * (top - mean)


def furthest_against(estimate: float, d: Floats) -> float:
    """Return how far a value of (n,), NaN where undefined, goes against the sign of the estimate."""
    return float(np.fmax.reduce(-np.sign(estimate) * d, initial=-np.inf))


def rare_kind(
    n: int,  # queries, or units of `method.unit`
    shift: float,  # by how much the mean would have to move
    width: float,  # how far apart two values of the metric can be; infinite where it has no bounds
    method: Method,
    change: str = "flip the verdict",
    family: int = 1,  # comparisons that share the level
    furthest: float = np.inf,  # what a query seen here differs by in the other direction, at most
) -> str:
    """Return the line about a kind of unit rarer than 1 - level**(1/n), absent from n; "" where none could matter.

    Nor is there one where nothing seen comes near such a kind: differences half as large as it would have to be.
    """
    if method.test == "bounded" or not n or np.isnan(shift):
        return ""
    share = float(rare_share(n, method.level(family)))
    least = shift / share
    if least >= width or furthest < least / 2:
        return ""
    head = f"a {method.unit or 'query'} type below {100 * share:.2g} % of traffic may be missing here"
    if np.isinf(width):
        return f"{head}; the metric has no known bounds, so it could {change}"
    return f"{head}; it could {change} only if it differed by {least:.2g}"


def _ends(mean: Floats, error: Floats, skewness: Floats, reach: Floats) -> tuple[Floats, Floats]:
    """Return interval ends `reach` standard errors off before skewness counts; infinite where no reach is enough."""
    above = np.where(reach < _ENDLESS, reference.inverse_hall_transform(reach, skewness), np.inf)
    below = np.where(reach < _ENDLESS, reference.inverse_hall_transform(-reach, skewness), -np.inf)
    with np.errstate(invalid="ignore"):
        return mean - np.where(error > 0, above * error, 0.0), mean - np.where(error > 0, below * error, 0.0)


def _by_draws(
    estimate: LinearCombination | SubsetSums, draws: "_ReferenceDraws", method: Method
) -> FamilyResults:
    """Test all columns as one family, by flips or resamples."""
    mean, error, m = estimate.mean, estimate.error, estimate.mean.size
    critical = draws.critical(method.alpha)
    share: Callable[[Floats], Floats] = draws.family_p
    if np.isinf(critical):  # too few units differ for any p-value below the level
        critical = max(draws.largest * (1 + 1e-9), float(ndtri(1 - method.alpha / (2 * m))))

        def share(statistic: Floats) -> Floats:
            """Return p-values by the normal distribution, below the level exactly beyond the critical value."""
            p = np.clip(2 * m * ndtr(-statistic), SMALLEST_P, 1.0)
            return np.where(statistic > critical, p, np.maximum(p, method.alpha))

    p_corrected = np.maximum(draws.family_p(draws.observed), draws.smallest_p)
    reach = reference.t_of_normal(np.full(m, critical), estimate.df_of_sizes)
    low, high = _ends(mean, error, draws.skewness, reach)
    low, high = _with_zero(low, high, p_corrected >= method.alpha)
    p_equivalence = np.full(m, np.nan)
    if method.margin is not None:
        with np.errstate(invalid="ignore", divide="ignore"):
            above = reference.hall_transform((mean + method.margin) / error, draws.skewness)
            below = -reference.hall_transform((mean - method.margin) / error, draws.skewness)
        nearest = np.where(_lies_within(mean, method.margin), np.fmin(above, below), 0.0)
        capped = np.clip(np.nan_to_num(nearest), 0.0, 1e100)
        statistic = reference.normal_of_t(capped, estimate.df_of_sizes)
        p_equivalence = np.where(nearest > 0, share(statistic), 1.0)
        p_equivalence = _with_constants(p_equivalence, mean, error, method.margin)
    return FamilyResults(draws.p, p_corrected, p_equivalence, low, high)


def _with_zero(low: Floats, high: Floats, is_open: Bools) -> tuple[Floats, Floats]:
    """Return interval ends that hold 0 where the test is open."""
    return np.where(is_open, np.minimum(low, 0.0), low), np.where(is_open, np.maximum(high, 0.0), high)


@dataclass(frozen=True, eq=False)
class _ReferenceDraws:
    """Draws about 0 and draws about the estimate, of which the less favourable counts."""

    observed: Floats  # (m,)
    skewness: Floats  # (m,) for which the statistics have been adjusted
    tails: tuple[reference.Tail, ...]
    smallest_p: Floats | float = 0.0  # (m,) that a column's units can give

    @property
    def p(self) -> Floats:
        """The p-values of the columns, each by itself, (m,)."""
        return np.asarray(np.max([tail.p for tail in self.tails], axis=0).clip(min=self.smallest_p))

    @property
    def largest(self) -> float:
        """The largest statistic of all."""
        return float(max(self.observed.max(), *(tail.largest[-1] for tail in self.tails)))

    def family_p(self, statistics: Floats) -> Floats:
        """Return p-values within the family."""
        return np.asarray(np.max([tail.family_p(statistics) for tail in self.tails], axis=0))

    def critical(self, alpha: float) -> float:
        """Return the statistic beyond which `family_p` is below alpha."""
        return max(tail.critical(alpha) for tail in self.tails)


def _draws_of(families: Sequence[LinearCombination | SubsetSums], method: Method) -> list[_ReferenceDraws]:
    """Draw the reference of each family; all have the same flips.

    Flips about 0 are exact where no difference is true. Where differences are large they all flip alike, and what is
    left of the spread is too small: flips about the estimate have it.
    """
    if method.test == "bootstrap":
        return [_resampled(family.parts[0], method) for family in families]
    adjust = method.test == "skew-adjusted"
    flips = [_flips_of(family, adjust_skewness=adjust) for family in families]
    tails = reference.tails_of_both(flips, method.draws, method.seed, adjust_skewness=adjust)
    return [
        _ReferenceDraws(
            np.concatenate([drawn.observed for drawn in family]),
            np.concatenate([drawn.skewness for drawn in family]),
            family_tails,
            np.concatenate([drawn.smallest_p for drawn in family]),
        )
        for family, family_tails in zip(flips, tails, strict=True)
    ]


def _flips_of(family: LinearCombination | SubsetSums, *, adjust_skewness: bool) -> list[reference.Flips]:
    """Return the flips of a family: those of each subset, unless so few units differ that all patterns are taken."""
    if isinstance(family, LinearCombination):
        return [reference.Flips(family, adjust_skewness=adjust_skewness)]
    if family.n_differing <= reference.EXACT_UP_TO:
        return [reference.Flips(LinearCombination(family.parts), adjust_skewness=adjust_skewness)]
    return [
        reference.Flips(
            LinearCombination((subset,)), adjust_skewness=adjust_skewness, subset=(places, family.n_units)
        )
        for subset, places in zip(family.subsets, family.places, strict=True)
    ]


def _resampled(sample: ClusterSums, method: Method) -> _ReferenceDraws:
    """Draw the reference of a family by resamples."""
    drawn = reference.Resamples(sample)
    tail = reference.tail(drawn, method.draws, method.seed)
    return _ReferenceDraws(drawn.observed, np.zeros_like(drawn.observed), (tail,))


def _lies_within(mean: Floats, margin: float) -> Bools:
    """Return whether each mean lies within the margin, by more than rounding."""
    return np.abs(mean) < margin * (1 - reference.SAME_SUM)


def _of_equal_values(
    results: FamilyResults, estimate: LinearCombination | SubsetSums, widths: Floats, method: Method
) -> FamilyResults:
    """Widen the intervals of equal differences by the rule of three; p is the level at which 0 is an end."""
    equal = np.flatnonzero((estimate.error == 0) & np.isfinite(widths))
    if not equal.size:
        return results
    mean, width, n = estimate.mean[equal], widths[equal], estimate.units[equal]
    family = estimate.mean.size
    p = np.maximum((width / (width + np.abs(mean))) ** n, results.p[equal])
    corrected = np.minimum(np.maximum(family * p, results.p_corrected[equal]), 1.0)
    low, high = rule_of_three(mean, n, -width, width, method.level(family))
    low, high = _with_zero(low, high, corrected >= method.alpha)
    equivalence = np.full(equal.size, np.nan)
    if method.margin is not None:
        inside = _lies_within(mean, method.margin)
        beyond = np.maximum(width - method.margin, 0.0) / np.maximum(width - np.abs(mean), SMALLEST_P)
        equivalence = np.where(inside, np.clip(family * beyond**n, SMALLEST_P, 1.0), 1.0)
    return results.with_columns(equal, FamilyResults(p, corrected, equivalence, low, high))


def _criticals(estimate: LinearCombination, method: Method) -> Floats:
    """Return (m,) critical values of columns looked at one by one, finite always."""
    critical = np.zeros(estimate.mean.size)
    differing = sum(np.count_nonzero(part.sums, axis=0) for part in estimate.parts)
    few = np.flatnonzero(differing <= reference.EXACT_UP_TO)
    many = np.flatnonzero(differing > reference.EXACT_UP_TO)
    for block in (
        *few[:, None],
        *(many[start : start + _AT_ONCE] for start in range(0, many.size, _AT_ONCE)),
    ):
        drawn = reference.Flips(estimate.columns(block), adjust_skewness=True)
        critical[block] = reference.criticals(drawn, method.draws, method.seed, method.alpha)
    least = float(ndtri(1 - method.alpha / 2))
    return np.where(np.isinf(critical) | (differing == 0), least, critical)


def _with_constants(p: Floats, mean: Floats, error: Floats, margin: float) -> Floats:
    """Return p-values of equivalence: where nothing varies, the mean lies within the margin or it does not."""
    return np.where(error > 0, p, np.where(_lies_within(mean, margin), SMALLEST_P, 1.0))


def by_t(mean: Floats, error: Floats, df: Floats, method: Method) -> FamilyResults:
    """Test a family of (m,) estimates by Student's t, by Bonferroni."""
    family = mean.size
    p = student_p(mean, error, df)
    reach = stdtrit(df, 1 - method.alpha / (2 * family))
    low, high = mean - reach * error, mean + reach * error
    p_equivalence = np.full_like(p, np.nan)
    if method.margin is not None:
        with np.errstate(invalid="ignore", divide="ignore"):
            sides = stdtr(df, -(method.margin - np.abs(mean)) / error)
        p_of_sides = np.clip(2 * family * sides, SMALLEST_P, 1.0)
        p_equivalence = _with_constants(p_of_sides, mean, error, method.margin)
    return FamilyResults(p, np.minimum(family * p, 1.0), p_equivalence, low, high)


def _by_bets(estimate: LinearCombination | SubsetSums, ranges: Floats, method: Method) -> FamilyResults:
    """Test a family of bounded differences by bets, by Bonferroni."""
    family = ranges.size
    level = method.alpha / family
    (sample,) = estimate.parts
    p, inside, low, high = bounded_means(sample, -ranges, ranges, level, method.seed, method.margin or 0.0)
    p_equivalence = np.full_like(p, np.nan) if method.margin is None else np.minimum(family * inside, 1.0)
    return FamilyResults(p, np.minimum(family * p, 1.0), p_equivalence, low, high)


def _with_seeds(
    trained: FamilyResults, seeds: Sequence[MethodDifference | None], method: Method
) -> FamilyResults:
    """Return the results for other queries and other trainings, and for the trained models too.

    Bonferroni's correction holds over trainings.
    """
    family = len(seeds)
    p, p_equivalence, low, high = np.full((4, family), np.nan)
    for j, methods in enumerate(seeds):
        if methods is not None:
            p[j] = methods.p()
            low[j], high[j] = interval_over_trainings(methods, family, method)
            if method.margin is not None:
                p_equivalence[j] = methods.p_equivalence(method.margin)
    corrected, equivalence = np.minimum(family * p, 1.0), np.minimum(2 * family * p_equivalence, 1.0)
    over_seeds = FamilyResults(p, corrected, equivalence, low, high)
    return FamilyResults(*map(np.fmax, trained, over_seeds))._replace(low=np.fmin(trained.low, low))


def interval_over_trainings(methods: MethodDifference, family: int, method: Method) -> tuple[float, float]:
    """Return the interval of one of so many differences of methods, by Bonferroni."""
    return methods.interval(1 - method.alpha / family)
