"""Would the result hold for another training seed?"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import stdtrit

from ltr_harness.comparison.stats.cluster_sums import (
    TIE,
    ClusterSums,
    effective_number,
    paired_differences,
    student_p,
)
from ltr_harness.comparison.stats.two_samples import one_sided
from ltr_harness.data.arrays import Bools, Floats


def seed_agreement(
    first: Floats,  # (seeds, n_queries), as `other`
    second: Floats,
    weights: Floats | None = None,  # (n_queries,)
    tolerance: float = TIE,
) -> float:
    """Return the share of pairs of seeds, one of each, with the overall sign, which ties lack; NaN for one pair."""
    defined = _defined(first, second, weights)
    if len(first) * len(second) < 2 or not defined.any():
        return float("nan")
    shares = None if weights is None else weights[defined]
    first_means, second_means = (
        np.average(side[:, defined], axis=1, weights=shares) for side in (first, second)
    )
    each = np.sign(paired_differences(first_means[:, None], second_means, tolerance))
    overall = np.sign(
        paired_differences(first_means.mean(keepdims=True), second_means.mean(keepdims=True), tolerance)
    )
    return float(np.mean(each == overall))


@dataclass(frozen=True)
class MethodDifference:
    """A difference of two methods, as it would vary with other queries and other training seeds together."""

    difference: float  # of the means over all queries and seeds
    standard_error: float  # of it, from both
    df: float  # of the standard error, for Student's t

    def p(self, value: float = 0.0) -> float:
        """Two-sided p-value of the true difference being `value`."""
        return float(student_p(*np.array([self.difference - value, self.standard_error, self.df])))

    def p_equivalence(self, margin: float) -> float:
        """Two one-sided tests: the larger p-value of the true difference being beyond -margin or margin."""
        with np.errstate(divide="ignore", invalid="ignore"):
            nearest = np.divide(margin - abs(self.difference), self.standard_error)
        return float(one_sided(-nearest, np.array(self.df), "drop"))

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Lower and upper end."""
        reach = float(stdtrit(self.df, (1 + confidence) / 2)) * self.standard_error
        return self.difference - reach, self.difference + reach

    def detectable(self, alpha: float = 0.05, power: float = 0.8) -> float:
        """The smallest true difference that is found significant at level `alpha` with probability `power`."""
        reach = stdtrit(self.df, 1 - alpha / 2) + stdtrit(self.df, power)
        return float(reach) * self.standard_error


def weighted_difference(
    parts: Sequence[MethodDifference | None],
    samples: Sequence[ClusterSums],
    j: int,
    weights: Sequence[float],
) -> MethodDifference | None:
    """The weighted mean of independent differences, in column j of each data set; None where no seeds are known."""
    if not any(parts):
        return None
    differences = [
        part or MethodDifference(float(sample.mean[j]), float(sample.error[j]), float(sample.df[j]))
        for part, sample in zip(parts, samples, strict=True)
    ]
    terms = [(w * part.standard_error) ** 2 for w, part in zip(weights, differences, strict=True)]
    denominator = sum(term**2 / part.df for term, part in zip(terms, differences, strict=True))
    df = sum(part.df for part in differences)
    if denominator:
        df = sum(terms) ** 2 / denominator
    difference = sum(w * part.difference for w, part in zip(weights, differences, strict=True))
    return MethodDifference(difference, float(np.sqrt(sum(terms))), df)


@dataclass(frozen=True)
class VarianceComponents:
    """The components of the variance of a difference of two methods: queries, seeds, and both together."""

    difference: float  # of the means over all queries and seeds
    n: int  # queries
    queries: float  # variance of one query's difference, without what seeds make of it
    # of each side that varies over seeds: variance of a seed's mean over endless queries, below 0 where so estimated
    between: tuple[float, ...]
    within: tuple[float, ...]  # likewise, the variance of query and seed together
    seeds: tuple[int, ...]  # likewise, how many there are; 1 where the other side's seeds speak for it
    effective_share: float = 1.0  # share of the queries that tell as much, were all of equal weight

    def difference_at(self, n: int, seeds: Sequence[int]) -> MethodDifference:
        """The difference as so many queries, and seeds of each side that varies, would know it."""
        sides = list(zip(self.between, self.within, seeds, strict=True))
        of_seeds = [
            max(between_seeds + within_seeds / n, 0.0) / r for between_seeds, within_seeds, r in sides
        ]
        if min(seeds) < 2:
            terms = [(sum(of_seeds), max(seeds) - 1)]
        else:
            terms = [(term, r - 1) for term, r in zip(of_seeds, seeds, strict=True)]
        queries = self.queries / n
        variance = queries + sum(of_seeds)
        of_queries = max(n * self.effective_share - 1, 1.0)
        df = _degrees_of_freedom(queries, of_queries, terms) if variance > 0 else of_queries
        return MethodDifference(self.difference, float(np.sqrt(variance)), float(df))

    @property
    def df_of_seeds(self) -> int:
        """The degrees of freedom of the variance over seeds, of the side that has fewest."""
        fewest = min(self.seeds)
        return fewest - 1 if fewest > 1 else max(self.seeds) - 1

    def with_seeds(self, fewest: int) -> "VarianceComponents":
        """Return the same components, had each side at least so many seeds."""
        return replace(self, seeds=tuple(max(n_seeds, fewest) for n_seeds in self.seeds))

    @property
    def narrowing(self) -> tuple[float, float]:
        """Shares by which endless seeds, and endless queries, would narrow the interval at hand."""
        of_seeds = sum(
            max(between_seeds, 0.0) / r for between_seeds, r in zip(self.between, self.seeds, strict=True)
        )
        variance = self.difference_at(self.n, self.seeds).standard_error ** 2
        if not variance > 0:
            return 0.0, 0.0
        left = (self.queries / self.n / variance, of_seeds / variance)
        with_seeds, with_queries = (1 - min(share, 1.0) ** 0.5 for share in left)
        return with_seeds, with_queries

    def of_query(self, seeds: Sequence[int]) -> float:
        """The variance of one query's difference of means over so many seeds."""
        return self.queries + sum(
            within_seeds / r for within_seeds, r in zip(self.within, seeds, strict=True)
        )


def method_difference(
    first: Floats,  # (seeds, n_queries); queries undefined in any row are left out
    second: Floats,  # (seeds, n_queries), with its own number of seeds
    *,
    one_fixed: bool = False,  # no seed can matter there; else a single row varies as the other side does
    other_fixed: bool = False,
    weights: Floats | None = None,  # (n_queries,)
) -> MethodDifference | None:
    """The difference of two methods by a crossed random-effects model: queries x seeds, the seeds nested in each side.

    By the method of moments, with Satterthwaite's degrees of freedom and one change: two or three seeds against
    something much better known leave intervals that cover 87 % instead of 95 %, so such a side's share counts more
    (`_freedom`). None where nothing is known about seeds.

    Source: S. Searle, G. Casella, C. McCulloch, Variance Components (1992).
    """
    components = variance_components(
        first, second, one_fixed=one_fixed, other_fixed=other_fixed, weights=weights
    )
    return None if components is None else components.difference_at(components.n, components.seeds)


def variance_components(
    first: Floats,
    second: Floats,
    *,
    one_fixed: bool = False,
    other_fixed: bool = False,
    weights: Floats | None = None,
) -> VarianceComponents | None:
    """The components that `method_difference` adds up; None where no side has two seeds, or too few queries count.

    Of queries with weights w the variances are of w / mean(w) times what a query is off by, as in that of a ratio.
    """
    if max(len(first), len(second)) < 2:
        return None
    defined = _defined(first, second, weights)
    n = int(defined.sum())
    if n < 2:
        return None
    shares = np.ones(n) if weights is None else weights[defined] / weights[defined].mean()
    sides = first[:, defined], second[:, defined]
    means = [side.mean(axis=0) for side in sides]
    d = paired_differences(*means)
    difference = float((shares * d).mean())
    varies = [len(side) > 1 or not fixed for side, fixed in zip(sides, (one_fixed, other_fixed), strict=True)]
    variances = [
        _variances(side, mean, shares) for side, mean in zip(sides, means, strict=True) if len(side) > 1
    ]
    varying = [side for side, moves in zip(sides, varies, strict=True) if moves]
    if len(variances) == 1:  # one side's seeds speak for those of the other, where that has any
        variances *= len(varying)
    seeds = tuple(map(len, varying))
    interaction = sum(within_seeds / r for (_, within_seeds), r in zip(variances, seeds, strict=True))
    spread = float((np.square(shares * _without_ties(d - difference))).sum()) / (n - 1)
    return VarianceComponents(
        difference=difference,
        n=n,
        queries=max(spread - interaction, 0.0),
        between=tuple(between_seeds - within_seeds / n for between_seeds, within_seeds in variances),
        within=tuple(within_seeds for _, within_seeds in variances),
        seeds=seeds,
        effective_share=effective_number(shares) / n,
    )


def _defined(first: Floats, second: Floats, weights: Floats | None) -> Bools:
    """(n_queries,): the queries that have a value in every row of both sides, and count."""
    defined = np.asarray(~(np.isnan(first).any(axis=0) | np.isnan(second).any(axis=0)))
    return defined if weights is None else defined & (weights > 0)


def _variances(values: Floats, seed_mean: Floats, shares: Floats) -> tuple[float, float]:
    """Return the variance of the seeds' means, and the interaction's mean square; `seed_mean` is (n_queries,)."""
    means = (shares * values).mean(axis=1)
    rest = shares * _without_ties(values - seed_mean - means[:, None] + means.mean())
    of_rest = float((rest**2).sum() / (len(values) - 1) / (values.shape[1] - 1))
    if np.ptp(means) <= TIE:
        return 0.0, of_rest
    return float(np.square(means.std(ddof=1))), of_rest


def _without_ties(deviations: Floats) -> Floats:
    """Return the deviations with 0 for those that are a tie of metric values: their size is rounding."""
    return np.where(np.abs(deviations) <= TIE, 0.0, deviations)


def _degrees_of_freedom(queries: float, of_queries: float, terms: Sequence[tuple[float, int]]) -> float:
    """Degrees of freedom of the sum of the queries' term and those of the sides with seeds, each (term, freedom)."""
    total = queries + sum(term for term, _ in terms)
    inverse = (queries / total) ** 2 / of_queries
    for j, (term, df) in enumerate(terms):
        other_terms = [pair for place, pair in enumerate(terms) if place != j]
        rest = queries + sum(other_term for other_term, _ in other_terms)  # total - term may round to 0
        spread = queries**2 / of_queries + sum(
            other_term**2 / other_df for other_term, other_df in other_terms
        )
        of_rest = rest**2 / spread if spread > 0 else np.inf
        better_known = max(1 - df / of_rest, 0.0)
        # more than Satterthwaite's 1 where seeds are few and the rest is better known, simulated: see
        # docs/maintainers/promises.md
        weight = 1 + 8 / df**4 * better_known**4
        inverse += min(weight * (term / total) ** 2, 1.0) / df
    return 1 / min(inverse, 1 / min(other_df for _, other_df in terms))
