"""Spread of differences, and what it takes to find one: queries, users, seeds.

It is (t(1 - alpha / 2) + z(power)) standard errors, by Cornish & Fisher where differences are lopsided. Where only a
share p of all draws differs, a mean of D adds D**2 (1 / p - 1) to the variance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from scipy.special import chdtri, ndtri, stdtrit

from ltr_harness.comparison.stats.reference import inverse_hall_transform
from ltr_harness.comparison.stats.seeds import VarianceComponents

LARGEST = 10**9  # so many draws stand for endless ones; what takes more cannot be had
MOST_SEEDS = 10_000  # likewise of seeds
# the largest a that shortens a plan: beyond it the expansion ends, and heavy tails look lopsided
TRUSTED = 0.1
_GRID = [*sorted({round(2 ** (half / 2)) for half in range(2, 59)}), LARGEST]


@dataclass(frozen=True)
class Spread:
    """The error of a difference, for other numbers of draws (queries, users, pairs of users) and seeds."""

    variance: float  # of one draw: the squared standard error of n draws is this / n
    n: int | None = None  # draws at hand; None where the variance was given
    df: float | None = None  # of n draws' error; None for n - 1
    skewness: float = 0.0  # of a draw's differences, counted so that what gains reach far is above 0
    adjusted: bool = True  # whether the test allows for it
    differing: float = 1.0  # share of draws that differ at all; a difference is one of these
    mean: float = 0.0  # of the draws at hand, whose part of the variance is not that of another difference
    kurtosis: float = 3.0  # of a draw's differences; how well the variance of n draws is known
    width: float = np.inf  # the largest difference that a draw can have, which `test: bounded` goes by
    strict: bool = False  # whether it is that test that is planned for
    queries_per_draw: float = 1.0
    # what seeds add; None where nothing is known, or they cannot matter
    seeds: VarianceComponents | None = None

    def detectable(self, n: int, *, alpha: float, power: float, seeds: int | None = None) -> float:
        """The smallest true difference, of trained models and of methods, that n draws show with this probability."""
        df = n - 1.0
        if self.df is not None and self.n is not None:
            df = max((self.df + 1) * n / self.n - 1, 1.0)
        variance, components = self.variance, self.seeds
        skewness, ties = min(self.skewness / float(np.sqrt(n)), TRUSTED), 1 / self.differing - 1
        quantile, z = float(stdtrit(df, 1 - alpha / 2)), float(ndtri(power))
        critical = (
            float(inverse_hall_transform(np.array(quantile), np.array(skewness)))
            if self.adjusted
            else quantile
        )
        errors = critical + (z - skewness * (z**2 - 1) / 6) * (1 - skewness * critical / 2)
        variance = max(variance - self.mean * self.mean * ties, 0.0)
        left = 1 - errors**2 * ties / n
        if left <= 0 or (self.strict and not np.isfinite(self.width)):
            return float("inf")
        trained = errors * float(np.sqrt(variance / n / left))
        if self.strict:
            sd = float(np.sqrt(variance + trained**2 * ties)) / (2 * self.width)
            trained = 2 * self.width * _found_by_bets(n, sd, alpha, power)
        if components is None:
            return trained
        variance += trained**2 * ties
        n_seeds = components.seeds
        if seeds is not None:
            n_seeds = tuple(seeds for _ in n_seeds)
        queries = n * self.queries_per_draw
        variance += (
            components.of_query(n_seeds) - components.of_query(components.seeds)
        ) / self.queries_per_draw
        variance = max(variance, 0.0)
        methods = components.difference_at(max(round(queries), 2), n_seeds)
        added = max(methods.standard_error**2 - components.of_query(n_seeds) / queries, 0.0)
        with_seeds = replace(
            methods,
            standard_error=max(float(np.sqrt(variance / n + added)), methods.standard_error),
            df=min(methods.df, df),
        )
        return max(trained, with_seeds.detectable(alpha, power))

    def extremes(self, confidence: float = 0.9) -> tuple[Spread, Spread]:
        """The least and the most spread that the draws at hand allow for: chi-squared, by their kurtosis."""
        df, ties = 2 * (self.n or np.inf) / max(self.kurtosis - 1, 1e-9), 1 / self.differing - 1
        variance = max(self.variance - self.mean * self.mean * ties, 0.0)
        factors = (df / float(chdtri(df, (1 + side * confidence) / 2)) for side in (-1, 1))
        low, high = (
            replace(self, variance=factor * variance, mean=0.0, differing=1 / (1 + factor * ties))
            for factor in factors
        )
        return low, high

    def mirrored(self) -> Spread:
        """Return the spread of the differences with the other sign."""
        return replace(self, skewness=-self.skewness, mean=-self.mean)

    def needed(
        self, difference: float, *, alpha: float, power: float, seeds: int | None = None
    ) -> int | None:
        """The fewest draws that find a true difference; None where no number of them does, for lack of seeds."""

        def is_enough(n: int) -> bool:
            return self.detectable(n, alpha=alpha, power=power, seeds=seeds) <= difference

        # where seeds take over, their few degrees of freedom make more draws find less
        steps = pairwise((1, *_GRID))
        return next((_smallest(is_enough, before, n) for before, n in steps if is_enough(n)), None)

    def seeds_needed(
        self, difference: float, most: int = LARGEST, *, alpha: float, power: float
    ) -> int | None:
        """The fewest seeds with which no more than so many draws find a true difference; None where no number does."""

        def is_enough(seeds: int) -> bool:
            n = self.needed(difference, alpha=alpha, power=power, seeds=seeds)
            return n is not None and n <= most

        return _smallest(is_enough, 1, MOST_SEEDS) if is_enough(MOST_SEEDS) else None


def _found_by_bets(n: int, sd: float, alpha: float, power: float) -> float:
    """Return how far the mean of values in [0, 1] has to be from 1/2 for bets, as of `betting`, to make 2 / alpha of 1.

    The log of the capital has mean (sum b) m - (sum b**2) sd**2 / 2 and variance (sum b**2) sd**2.
    """
    log_wealth = float(np.log(2 / alpha))
    t = np.geomspace(1, n, min(n, 2000))  # far out a stake is like its neighbours
    steps = np.gradient(t) if t.size > 1 else np.ones(1)
    steps *= n / steps.sum()
    bets = np.minimum(np.sqrt(2 * log_wealth * (t + 1) / (n * (0.25 + sd**2 * t))), 1.0)
    spread = sd**2 * float((steps * bets**2).sum())
    return (log_wealth + spread / 2 + float(ndtri(power)) * float(np.sqrt(spread))) / float(
        (steps * bets).sum()
    )


def _smallest(is_enough: Callable[[int], bool], low: int, high: int) -> int:
    """The smallest integer above `low` that is enough, where all larger ones up to `high` are too."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high
