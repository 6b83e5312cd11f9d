"""Where queries belong together: means of queries whose chance is that of users, sessions or shops.

A hundred queries of one user are alike; as if they were a hundred independent ones, intervals come out too narrow. Here
the mean stays the mean of all queries, and what varies by chance is which units there are: the influences of
`two_samples.Influence`, which monitoring's clusters go by too, with the corrections that few or unequal units need.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtr, stdtrit

from ltr_harness.stats.moments import Floats
from ltr_harness.stats.skewness import unhall
from ltr_harness.stats.two_samples import Codes, Influence, correlation_within, satterthwaite

_SMALLEST_P = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, eq=False)
class UnitMeans:
    """Means of columns over queries, with errors that go by units; (m,) each, NaN where fewer than two units are.

    Attributes:
        mean: over the defined queries.
        error: standard error, bias-reduced (CR2).
        freedom: Satterthwaite's degrees of freedom of that error.
        skewness: of the units' influences, over the root of their number.
        units: units with a defined query.
        design_effect: variance of the mean as a multiple of what independent queries would have.
    """

    mean: Floats
    error: Floats
    freedom: Floats
    skewness: Floats
    units: NDArray[np.int64]
    design_effect: Floats

    def interval(self, confidence: Floats | float, *, adjusted: bool) -> tuple[Floats, Floats]:
        """Ends of the intervals of the means.

        Args:
            confidence: (m,) or one number.
            adjusted: allow for skewness by Hall's transformation.
        """
        reach = stdtrit(self.freedom, (1 + np.asarray(confidence)) / 2)
        lean = self.skewness if adjusted else np.zeros_like(self.mean)
        return self.mean - unhall(reach, lean) * self.error, self.mean - unhall(-reach, lean) * self.error

    def p(self) -> Floats:
        """(m,): two-sided, of the t test of a mean of 0."""
        with np.errstate(invalid="ignore", divide="ignore"):
            t = np.where(self.mean == 0, 0.0, np.abs(self.mean) / self.error)
        return np.where(self.units > 1, np.maximum(2 * stdtr(self.freedom, -t), _SMALLEST_P), np.nan)

    def equivalence_p(self, margin: float) -> Floats:
        """(m,): the larger of two one-sided t tests, of the mean lying within the margin."""
        with np.errstate(invalid="ignore", divide="ignore"):
            nearest = (margin - np.abs(self.mean)) / self.error
        return np.where(self.units > 1, np.maximum(stdtr(self.freedom, -nearest), _SMALLEST_P), np.nan)

    def detectable(self, alpha: Floats | float, power: float = 0.8) -> Floats:
        """(m,): see `paired.detectable_difference`."""
        return np.asarray((stdtrit(self.freedom, 1 - np.asarray(alpha) / 2) + ndtri(power)) * self.error)


def unit_means(values: Floats, units: Codes) -> UnitMeans:
    """Means over queries with cluster-robust errors by unit.

    With D_c the sum and n_c the number of unit c's values, N values in all, d = sum D_c / N and r_c = D_c - d n_c:
    error**2 = sum r_c**2 / (1 - n_c / N) / N**2 (CR2; for units of one size the usual G / (G - 1) sum r_c**2 / N**2).
    Its degrees of freedom are Satterthwaite's, for units whose values have the correlation that these have.

    Args:
        values: (n, m) per-query values or differences; NaN where undefined.
        units: (n,) codes >= 0 of whom each query belongs to.

    Example:
        Two users who agree with themselves: two numbers, however many queries.

        >>> one = unit_means(np.array([[1.0], [1.0], [0.0], [0.0]]), np.array([0, 0, 1, 1]))
        >>> one.mean.tolist(), one.error.tolist(), one.freedom.round(6).tolist(), one.design_effect.tolist()
        ([0.5], [0.5], [1.0], [3.0])

    Source: R. Bell, D. McCaffrey, Survey Methodology 28 (2002); G. Imbens, M. Kolesar, Review of Economics and
    Statistics 98 (2016), for the degrees of freedom under correlation.
    """
    columns = [_one(column[~np.isnan(column)], units[~np.isnan(column)]) for column in values.T]
    facts = np.array(columns, dtype=np.float64).reshape(-1, 6).T
    return UnitMeans(facts[0], facts[1], facts[2], facts[3], facts[4].astype(np.int64), facts[5])


def units_apart(one: UnitMeans, other: UnitMeans) -> UnitMeans:
    """`one - other` of two sets of queries that share no unit: Welch's test with cluster-robust errors.

    Its `skewness` is the one that the difference has where the units of both sets are alike: 0 for as many units on
    both sides. Beyond about .2 the t interval covers too little.

    Args:
        one: of one set of queries.
        other: of the other, the same columns.

    Example:
        >>> users = np.array([0, 0, 1, 1])
        >>> one, other = (unit_means(np.array(v)[:, None], users) for v in ([1.0, 1, 0, 0], [3.0, 3, 2, 2]))
        >>> apart = units_apart(one, other)
        >>> apart.mean.tolist(), apart.error.round(4).tolist(), apart.freedom.round(6).tolist()
        ([-2.0], [0.7071], [2.0])
    """
    variances = np.array([one.error**2, other.error**2])
    variance = variances.sum(axis=0)
    n = np.array([one.units, other.units], dtype=np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        freedom = variance**2 / (variances**2 / np.array([one.freedom, other.freedom])).sum(axis=0)
        thirds = np.array([one.skewness * one.error**3, other.skewness * other.error**3]) * n**3
        third, alike = thirds.sum(axis=0) / n.sum(axis=0), (variances * n**2).sum(axis=0) / n.sum(axis=0)
        lean = third * (1 / n[0] ** 2 - 1 / n[1] ** 2) / (alike * (1 / n).sum(axis=0)) ** 1.5
        independent = variances[0] / one.design_effect + variances[1] / other.design_effect
        effect = variance / independent
    return UnitMeans(
        one.mean - other.mean, np.sqrt(variance), freedom, lean, np.minimum(one.units, other.units), effect
    )


def unit_totals(values: Floats, units: Codes) -> Floats:
    """(units, m): sums of each unit's values, scaled so that their mean is the mean of all values.

    Flipping their signs moves whole units; NaN for a unit without a defined value.

    Args:
        values: (n, m); NaN where undefined.
        units: (n,) codes >= 0.

    Example:
        >>> unit_totals(np.array([[1.0], [2.0], [6.0]]), np.array([0, 0, 1])).tolist()
        [[2.0], [4.0]]
    """
    defined = ~np.isnan(values)
    size = int(units.max(initial=-1)) + 1
    totals = np.full((size, values.shape[1]), np.nan)
    for j, column in enumerate(values.T):
        own = units[defined[:, j]]
        counts = np.bincount(own, minlength=size)
        there = counts > 0
        sums = np.bincount(own, column[defined[:, j]], minlength=size)
        totals[there, j] = sums[there] * (np.count_nonzero(there) / max(own.size, 1))
    return totals


def _one(values: Floats, units: Codes) -> tuple[float, ...]:
    """Mean, error, degrees of freedom, skewness / sqrt(G), G and design effect of one column."""
    mean = float(values.mean()) if values.size else np.nan
    counts = np.bincount(units)
    sizes: Floats = counts[counts > 0].astype(np.float64)
    if sizes.size < 2:
        return mean, np.nan, np.nan, np.nan, float(sizes.size), np.nan
    n = values.size
    off = values - mean
    influence = Influence.of(off, units).totals[counts > 0]
    variance = float((influence**2 / (1 - sizes / n)).sum())
    independent = float((off**2).sum()) / (n - 1) / n
    if variance <= (1e-15 * mean) ** 2:  # constants
        return mean, 0.0, sizes.size - 1.0, 0.0, float(sizes.size), np.nan
    within = correlation_within(influence * n, off, sizes)
    freedom = satterthwaite(sizes, sizes * (1 + (sizes - 1) * within))
    spread = float((influence**2).mean())
    lean = float((influence**3).mean()) / spread**1.5 / np.sqrt(sizes.size)
    effect = variance / independent if independent > 0 else np.nan
    return mean, float(np.sqrt(variance)), freedom, lean, float(sizes.size), effect
