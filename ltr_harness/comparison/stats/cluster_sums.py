"""Moments of columns, and what each independent unit, such as a query or user, adds to a mean: with S_g the sum of its
n_g values, the mean is sum S_g / sum n_g, and its error comes from r_g = S_g - mean n_g. NaN is left out everywhere.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from ltr_harness.data.arrays import Array, Ints
from ltr_harness.data.arrays import Floats as Floats

UnitCodes = NDArray[np.integer]

TIE = 1e-9  # metric values this close are equal: 1/3 + 1/3 must not lose to 2/3
SMALLEST_P = float(np.finfo(np.float64).tiny)  # a p-value of 0 claims more than any sample can

_ROUNDING = 1e-13  # of a value: what means of equal values may differ by


@dataclass(frozen=True, eq=False)
class ClusterSums:
    """The sums of G independent units, of which the means of m columns are made."""

    sums: Floats  # (G, m) sum of a unit's values; 0 where it has none
    counts: Floats  # (G, m) how many values those are
    squares: Floats  # (m,) sum of all squared values, from which the correlation within units is estimated

    @classmethod
    def of(
        cls, values: Floats, units: UnitCodes | None = None, weights: Floats | None = None
    ) -> "ClusterSums":
        """Sum up values by unit.

        Args:
            values: (n, m), NaN where undefined.
            units: (n,) codes >= 0; None where each row is its own.
            weights: (n,) how much each row counts, >= 0, or (n, m); None where each counts once.
        """
        if weights is not None:
            below = np.broadcast_to(weights[:, None] if weights.ndim == 1 else weights, values.shape)
            return cls.of_ratios(values * below, below, units)
        defined = ~np.isnan(values)
        filled = np.where(defined, values, 0.0)
        return cls._by_unit(filled, defined.astype(np.float64), np.square(filled), units)

    @classmethod
    def of_ratios(cls, above: Floats, below: Floats, units: UnitCodes | None = None) -> "ClusterSums":
        """Return sums whose mean is sum(above) / sum(below), (n, m) both, `below` >= 0, NaN where undefined.

        A ratio of means is the mean of the rows' ratios, each with the weight of what stands below: as if a row held
        so many equal values. The weights are scaled, which changes nothing else, so that they are 2 on average.
        """
        defined = ~np.isnan(above) & ~np.isnan(below)
        weights = np.where(defined, below, 0.0)
        scale = 2 * np.count_nonzero(weights, axis=0) / np.maximum(weights.sum(axis=0), SMALLEST_P)
        sums, weights = np.where(defined & (below > 0), above, 0.0) * scale, weights * scale
        squares = np.divide(sums**2, weights, out=np.zeros_like(sums), where=weights > 0)
        return cls._by_unit(sums, weights, squares, units)

    @classmethod
    def _by_unit(
        cls, sums: Floats, counts: Floats, squares: Floats, units: UnitCodes | None
    ) -> "ClusterSums":
        """Return the sums of units from what each row adds, (n, m) each."""
        if units is None:
            return cls(sums, counts, squares.sum(axis=0))
        codes = np.unique(units, return_inverse=True)[1].reshape(-1)
        size = int(codes.max(initial=-1)) + 1

        def sum_by_unit(columns: Floats) -> Floats:
            totals = [np.bincount(codes, column, minlength=size) for column in columns.T]
            return np.stack(totals, axis=1) if totals else np.empty((size, 0))

        totals = sum_by_unit(sums)
        cancels = np.abs(totals) <= _ROUNDING * sum_by_unit(np.abs(sums))
        totals[cancels] = 0.0
        return cls(totals, sum_by_unit(counts), squares.sum(axis=0))

    def columns(self, which: NDArray[np.integer] | slice) -> "ClusterSums":
        """Some of the columns."""
        return ClusterSums(self.sums[:, which], self.counts[:, which], self.squares[which])

    def centred(self) -> "ClusterSums":
        """The same units about their own mean, whose estimate is 0."""
        return ClusterSums(self.residuals, self.counts, self.squares - self.n * np.nan_to_num(self.mean) ** 2)

    @cached_property
    def n(self) -> Floats:
        """The number of values of each column, (m,)."""
        return np.asarray(self.counts.sum(axis=0))

    @cached_property
    def units(self) -> NDArray[np.int64]:
        """(m,): units that have a value."""
        return np.asarray(np.count_nonzero(self.counts, axis=0), dtype=np.int64)

    @cached_property
    def effective_units(self) -> Floats:
        """(m,): how many units of equal weight would tell as much."""
        if self.one_value_per_unit:
            return self.units.astype(np.float64)
        return np.array([effective_number(column) for column in self.counts.T])

    @cached_property
    def one_value_per_unit(self) -> bool:
        """True where no unit has more than one value."""
        return bool(self.largest_counts.max(initial=0.0) <= 1)

    @cached_property
    def largest_counts(self) -> Floats:
        """(m,): how many values the largest unit has."""
        return np.asarray(self.counts.max(axis=0, initial=0.0))

    @cached_property
    def mean(self) -> Floats:
        """(m,): of all values; NaN where there is none, and 0 where they cancel but for rounding."""
        total = self.sums.sum(axis=0)
        cancels = np.abs(total) <= _ROUNDING * np.abs(self.sums).sum(axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(np.where(cancels, 0.0, total) / self.n)

    @cached_property
    def residuals(self) -> Floats:
        """(G, m): what each unit adds beyond the mean of its values; 0 throughout where all values are equal."""
        residuals = self.sums - self.counts * np.nan_to_num(self.mean)
        with np.errstate(invalid="ignore", divide="ignore"):
            means = self.sums / self.counts  # NaN for a unit without values, whose sum is 0
        highest = np.fmax.reduce(means, axis=0, initial=-np.inf)
        lowest = np.fmin.reduce(means, axis=0, initial=np.inf)
        with np.errstate(invalid="ignore"):
            residuals[:, highest - lowest <= _ROUNDING * np.abs(highest)] = 0.0
        return residuals

    @cached_property
    def weights(self) -> Floats:
        """(G, m): by which squares are multiplied in the variance, 1 / (1 - n_g / n) (CR2); any where those are 0."""
        with np.errstate(invalid="ignore", divide="ignore"):
            if self.one_value_per_unit:
                of_one_value = np.where(self.n > 1, 1 / (1 - 1 / self.n), 0.0)
                return np.broadcast_to(of_one_value, self.counts.shape)
            return np.where(self.counts < self.n, 1 / (1 - self.counts / self.n), 0.0)

    @cached_property
    def error(self) -> Floats:
        """(m,): standard error of the mean (Bell & McCaffrey 2002); NaN with fewer than two units."""
        with np.errstate(invalid="ignore", divide="ignore"):
            error = np.sqrt((self.weights * self.residuals * self.residuals).sum(axis=0)) / self.n
        return np.where(self.units > 1, error, np.nan)

    @cached_property
    def third_cumulant(self) -> Floats:
        """(m,): third cumulant of the mean, sum r_g**3 / n**3 (G / (G - 1))**1.5."""
        with np.errstate(invalid="ignore", divide="ignore"):
            small = (self.units / (self.units - 1)) ** 1.5
            return np.asarray(
                (self.residuals * self.residuals * self.residuals).sum(axis=0) / self.n**3 * small
            )

    @cached_property
    def skewness(self) -> Floats:
        """(m,): skewness of the mean."""
        return skewness_of(self.error**2, self.third_cumulant)

    @cached_property
    def df(self) -> Floats:
        """(m,): of the error: units - 1, or Satterthwaite's where units are of unlike size."""
        if self.one_value_per_unit:
            return np.asarray(np.maximum(self.units - 1.0, 1.0))
        df = np.ones(self.sums.shape[1])
        for j in np.flatnonzero(self.units > 1):
            has_rows = self.counts[:, j] > 0
            sizes = self.counts[has_rows, j]
            correlation = correlation_within(self.residuals[has_rows, j], float(self._spread[j]), sizes)
            df[j] = satterthwaite(sizes, sizes * (1 + (sizes - 1) * correlation))
        return df

    @cached_property
    def df_of_sizes(self) -> Floats:
        """(m,): likewise for values without correlation, so by sizes alone: no flip of a unit's signs changes it."""
        if self.one_value_per_unit:
            return self.df
        sizes = [column[column > 0] for column in self.counts.T]
        return np.array([satterthwaite(column, column) if column.size > 1 else 1.0 for column in sizes])

    @cached_property
    def t_p(self) -> Floats:
        """(m,): two-sided p-values of Student's t test against 0."""
        return np.where(self.units > 1, student_p(self.mean, self.error, self.df), np.nan)

    @cached_property
    def design_effect(self) -> Floats:
        """(m,): variance of the mean as a multiple of what independent values would have."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(self.error**2 / (self._spread / (self.n - 1) / self.n))

    @cached_property
    def _spread(self) -> Floats:
        """(m,): sum of squared values about the mean; 0 where it is no more than rounding."""
        spread = self.squares - self.n * np.nan_to_num(self.mean) ** 2
        return np.where(spread > _ROUNDING * self.squares, spread, 0.0)


def effective_number(weights: Floats) -> float:
    """Return how many rows of equal weight would tell as much: (sum w)**2 / sum w**2 (Kish); 0 where nothing counts."""
    squares = float(np.square(weights).sum())
    return float(weights.sum()) ** 2 / squares if squares > 0 else 0.0


def student_p(mean: Floats, error: Floats, df: Floats) -> Floats:
    """(m,): two-sided p-values of means against 0, never 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        t = np.where(mean == 0, 0.0, np.abs(mean) / error)
    return np.asarray(np.maximum(2 * stdtr(df, -t), SMALLEST_P))


def skewness_of(variance: Floats, third_cumulant: Floats) -> Floats:
    """Skewness from a variance and a third cumulant; 0 where nothing varies."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(variance > 0, third_cumulant / variance**1.5, 0.0)


@dataclass(frozen=True, eq=False)
class LinearCombination:
    """A weighted sum of the means of independent samples: a single mean, data sets, one arm less the other."""

    parts: tuple[ClusterSums, ...]  # with the same columns
    factors: tuple[float, ...] = (1.0,)  # by which their means are multiplied

    def columns(self, which: NDArray[np.integer] | slice) -> "LinearCombination":
        """Some of the columns."""
        return LinearCombination(tuple(part.columns(which) for part in self.parts), self.factors)

    def centred(self) -> "LinearCombination":
        """The same samples, each about its own mean, whose estimate is 0."""
        return LinearCombination(tuple(part.centred() for part in self.parts), self.factors)

    @cached_property
    def mean(self) -> Floats:
        """(m,): the estimate."""
        return self._sum([part.mean for part in self.parts], 1)

    @cached_property
    def error(self) -> Floats:
        """(m,): its standard error."""
        return np.sqrt(self._sum([part.error**2 for part in self.parts], 2))

    @cached_property
    def skewness(self) -> Floats:
        """(m,): its skewness, each sample's own."""
        return skewness_of(self.error**2, self._sum([part.third_cumulant for part in self.parts], 3))

    @cached_property
    def df(self) -> Floats:
        """(m,): Satterthwaite's degrees of freedom."""
        return self._satterthwaite([part.df for part in self.parts])

    @cached_property
    def df_of_sizes(self) -> Floats:
        """(m,): likewise from those of the samples' sizes."""
        return self._satterthwaite([part.df_of_sizes for part in self.parts])

    @cached_property
    def units(self) -> NDArray[np.int64]:
        """(m,): of the smallest sample."""
        return np.asarray(np.min([part.units for part in self.parts], axis=0))

    @cached_property
    def effective_units(self) -> Floats:
        """(m,): likewise, as many as so many of equal weight."""
        return np.asarray(np.min([part.effective_units for part in self.parts], axis=0))

    def _satterthwaite(self, each: Sequence[Floats]) -> Floats:
        """Combine the degrees of freedom of the parts, (m,) each."""
        if len(each) == 1:
            return each[0]
        terms = [(f * part.error) ** 2 for f, part in zip(self.factors, self.parts, strict=True)]
        below = [term**2 / df for term, df in zip(terms, each, strict=True)]
        with np.errstate(invalid="ignore", divide="ignore"):
            df = sum(terms) ** 2 / sum(below)
        return np.where(np.isnan(df), sum(each), df)

    def _sum(self, terms: Sequence[Floats], power: int) -> Floats:
        return np.asarray(sum(factor**power * term for factor, term in zip(self.factors, terms, strict=True)))


@dataclass(frozen=True, eq=False)
class SubsetSums:
    """The sums of subsets of some units, of which the means of m columns are made, those of a subset side by side."""

    subsets: tuple[ClusterSums, ...]
    places: tuple[Ints, ...]  # of each subset's units among all
    n_units: int  # of all

    def columns(self, which: Ints) -> "SubsetSums":
        """Some of the columns, in ascending order."""
        ends = np.cumsum([0, *(subset.squares.size for subset in self.subsets)])
        columns = np.split(which, np.searchsorted(which, ends[1:-1]))
        chosen = [number for number, of_subset in enumerate(columns) if of_subset.size]
        return SubsetSums(
            tuple(self.subsets[number].columns(columns[number] - ends[number]) for number in chosen),
            tuple(self.places[number] for number in chosen),
            self.n_units,
        )

    @property
    def parts(self) -> tuple[ClusterSums]:
        """The sums of all units, as a combination of one sample has them."""
        sums, counts = np.zeros((2, self.n_units, self.mean.size))
        start = 0
        for subset, places in zip(self.subsets, self.places, strict=True):
            stop = start + subset.squares.size
            sums[places, start:stop], counts[places, start:stop] = subset.sums, subset.counts
            start = stop
        return (ClusterSums(sums, counts, np.concatenate([subset.squares for subset in self.subsets])),)

    @property
    def n_differing(self) -> int:
        """The number of units that have a sum other than 0 in any column."""
        differing = [
            places[subset.sums.any(axis=1)] for subset, places in zip(self.subsets, self.places, strict=True)
        ]
        return np.unique(np.concatenate(differing)).size

    @cached_property
    def mean(self) -> Floats:
        """(m,): as of the sums of all units, like the next ones."""
        return self._joined(lambda subset: subset.mean)

    @cached_property
    def error(self) -> Floats:
        return self._joined(lambda subset: subset.error)

    @cached_property
    def df(self) -> Floats:
        return self._joined(lambda subset: subset.df)

    @cached_property
    def df_of_sizes(self) -> Floats:
        return self._joined(lambda subset: subset.df_of_sizes)

    @cached_property
    def units(self) -> NDArray[np.int64]:
        return self._joined(lambda subset: subset.units)

    @cached_property
    def effective_units(self) -> Floats:
        return self._joined(lambda subset: subset.effective_units)

    @cached_property
    def largest_counts(self) -> Floats:
        return self._joined(lambda subset: subset.largest_counts)

    def _joined(self, numbers: Callable[[ClusterSums], Array]) -> Array:
        return np.concatenate([numbers(subset) for subset in self.subsets])


def correlation_within(totals: Floats, squares: float, sizes: Floats) -> float:
    """Return the intraclass correlation by the analysis of variance, 0 or more.

    Shapes: `totals` (units,) sums of values about their mean, whose squares add up to `squares`, `sizes` (units,).
    """
    n, groups = float(sizes.sum()), sizes.size
    if n == groups:
        return 0.0
    between_squares = float((totals**2 / sizes).sum())
    within_variance = max(squares - between_squares, 0.0) / (n - groups)
    usual = (n - float((sizes**2).sum()) / n) / (groups - 1)
    common = max((between_squares / (groups - 1) - within_variance) / usual, 0.0)
    return common / (common + within_variance) if common > 0 else 0.0


def satterthwaite(sizes: Floats, variances: Floats) -> float:
    """2 E(V)**2 / Var(V) of the CR2 variance V, where the units' sums are normal with these variances.

    V is a quadratic form of the sums with the matrix Q = (I - 1 p') A (I - p 1'), p = sizes / n, A = diag(1 / (1 - p)).
    """
    p = sizes / sizes.sum()
    a = 1 / (1 - p)
    q, k = a * p, float((a * p**2).sum())
    diagonal = a - 2 * q + k
    s0, s1, s2 = (float((variances * power).sum()) for power in (np.ones_like(q), q, q**2))
    squares = k**2 * s0**2 + 2 * s2 * s0 + 2 * s1**2 - 4 * k * s1 * s0
    squares += float((variances**2 * (diagonal**2 - (k - 2 * q) ** 2)).sum())
    return float((variances * diagonal).sum()) ** 2 / squares


@dataclass(frozen=True, eq=False)
class ColumnMoments:
    """Moments of the defined values of each column."""

    n: NDArray[np.int64]  # how many values are defined
    mean: Floats  # NaN where none is
    sd: Floats  # with n - 1 below the line; NaN where fewer than two are defined
    skewness: Floats  # third standardised moment; 0 for a constant column, NaN for n < 2

    @property
    def effect_size(self) -> Floats:
        """d_z of differences, mean / sd: 0 where all are 0, infinite where all are equal, NaN for n < 2."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where((self.mean == 0) & (self.n > 1), 0.0, self.mean / self.sd)


def moments(values: Floats) -> ColumnMoments:
    """Moments over the first axis, NaN left out; of values that are all equal the standard deviation is exactly 0."""
    defined = ~np.isnan(values)
    n = np.asarray(defined.sum(axis=0), dtype=np.int64)
    is_complete = bool(defined.all())
    with np.errstate(invalid="ignore", divide="ignore"):
        counted = values if is_complete else np.where(defined, values, 0.0)
        mean = np.asarray(counted.sum(axis=0) / n)
        residuals = values - mean
        if not is_complete:
            residuals[~defined] = 0.0
        highest = np.fmax.reduce(values, axis=0, initial=-np.inf)
        constant = np.asarray(highest == np.fmin.reduce(values, axis=0, initial=np.inf))
        if constant.any():
            residuals[:, constant] = 0.0
        squares = residuals * residuals
        square = squares.sum(axis=0)
        sd = np.where(n > 1, np.sqrt(square / (n - 1)), np.nan)
        cubes = np.multiply(squares, residuals, out=squares)
        skewness = np.where(square > 0, (cubes.sum(axis=0) / n) / (square / n) ** 1.5, 0.0)
    return ColumnMoments(n, mean, sd, np.where(n > 1, skewness, np.nan))


def paired_differences(minuend: Floats, subtrahend: Floats, tolerance: float = TIE) -> Floats:
    """``one - other`` per query, (n,), with exactly 0 within the tolerance: rounding noise must not be significant."""
    d: Floats = minuend - subtrahend
    return np.where(np.abs(d) <= tolerance, 0.0, d)


def win_tie_loss(
    d: Floats, tolerance: float = TIE
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Count the differences above, within and below the tolerance; undefined ones are in none."""
    wins, losses = d > tolerance, d < -tolerance
    ties = np.abs(d) <= tolerance
    return tuple(np.asarray(part.sum(axis=0), dtype=np.int64) for part in (wins, ties, losses))  # type: ignore[return-value]
