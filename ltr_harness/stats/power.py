"""How many queries, units and seeds does a difference take? What `detectable` says, for other numbers of them.

A true difference is found with the asked probability where it is as large as (t(1 - alpha / 2) + z(power)) standard
errors, if differences are symmetric. Where they are lopsided, the error and the mean of a sample go up and down
together, and the test may reach further to one side: with a = skewness / sqrt(n), c the t that the test asks for and
Z = -z + a (z**2 - 1) / 6 the mean's quantile (Cornish & Fisher), it is c - Z (1 - a c / 2) standard errors.

Where only a share p of all draws differs, a mean of D is one of D / p among those that differ, and adds
D**2 (1 / p - 1) to the variance: with fewer than some 8 differing draws no difference is found, however large.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import chdtri, ndtri, stdtrit

from ltr_harness.stats.reference import unhall
from ltr_harness.stats.seeds import VarianceComponents

LARGEST = 10**9
"""So many draws stand for endless ones; what takes more cannot be had."""

_GRID = [*sorted({round(2 ** (half / 2)) for half in range(2, 59)}), LARGEST]

MOST_SEEDS = 10_000
"""Likewise of seeds."""

TRUSTED = 0.1
"""The largest a that shortens a plan: beyond it the expansion ends, and heavy tails look lopsided in a sample."""


@dataclass(frozen=True)
class Spread:
    """What makes the error of a difference, known well enough to tell it for other numbers of draws and seeds.

    A draw is what chance draws as a whole: a query, a unit such as a user, a pair of users of an A/B test.

    Attributes:
        variance: of one draw: the squared standard error of n draws is this / n.
        n: draws at hand; None where the variance was given.
        freedom: degrees of freedom of n draws' error; None for n - 1.
        skewness: of a draw's differences, counted so that what gains reach far is above 0.
        adjusted: whether the test allows for it.
        differing: share of draws that differ at all; a difference is one of these.
        mean: of the draws at hand, whose part of the variance is not that of another difference.
        kurtosis: of a draw's differences, 3 for normal ones; how well the variance of n draws is known.
        width: the largest difference that a draw can have, which `test: bounded` goes by.
        strict: whether it is that test that is planned for.
        queries_per_draw: how many queries a draw brings.
        seeds: what seeds add; None where nothing is known of them, or they cannot matter.

    Example:
        >>> Spread(variance=0.1**2).needed(0.005, alpha=0.05, power=0.8)
        3142
    """

    variance: float
    n: int | None = None
    freedom: float | None = None
    skewness: float = 0.0
    adjusted: bool = True
    differing: float = 1.0
    mean: float = 0.0
    kurtosis: float = 3.0
    width: float = np.inf
    strict: bool = False
    queries_per_draw: float = 1.0
    seeds: VarianceComponents | None = None

    def detectable(self, n: int, *, alpha: float, power: float, seeds: int | None = None) -> float:
        """The smallest true difference that n draws show, with probability `power`, at level `alpha`.

        Where seeds count, both the trained models and the methods have to differ, so the larger of two.
        """
        freedom = n - 1.0
        if self.freedom is not None and self.n is not None:
            freedom = max((self.freedom + 1) * n / self.n - 1, 1.0)
        variance, components = self.variance, self.seeds
        lean = min(self.skewness / np.sqrt(n), TRUSTED)
        errors, ties = self._errors(freedom, lean, alpha, power), 1 / self.differing - 1
        variance = max(variance - self.mean**2 * ties, 0.0)
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
        own = components.seeds if seeds is None else (seeds,) * len(components.seeds)
        queries = n * self.queries_per_draw
        variance += (components.of_query(own) - components.of_query(components.seeds)) / self.queries_per_draw
        variance = max(variance, 0.0)
        methods = components.at(max(round(queries), 2), own)
        added = max(methods.standard_error**2 - components.of_query(own) / queries, 0.0)
        both = replace(
            methods,
            standard_error=max(float(np.sqrt(variance / n + added)), methods.standard_error),
            freedom=min(methods.freedom, freedom),
        )
        return max(trained, both.detectable(alpha, power))

    def _errors(self, freedom: float, lean: float, alpha: float, power: float) -> float:
        """How many standard errors a difference has to be."""
        quantile, z = float(stdtrit(freedom, 1 - alpha / 2)), float(ndtri(power))
        critical = float(unhall(np.array(quantile), np.array(lean))) if self.adjusted else quantile
        return critical + (z - lean * (z**2 - 1) / 6) * (1 - lean * critical / 2)

    def extremes(self, confidence: float = 0.9) -> tuple[Spread, Spread]:
        """The least and the most spread that the draws at hand allow for: chi-squared, by their kurtosis."""
        freedom = 2 * (self.n or np.inf) / max(self.kurtosis - 1, 1e-9)
        low, high = (freedom / float(chdtri(freedom, (1 + side * confidence) / 2)) for side in (-1, 1))
        return self._times(low), self._times(high)

    def _times(self, factor: float) -> Spread:
        ties = 1 / self.differing - 1
        variance = factor * max(self.variance - self.mean**2 * ties, 0.0)
        return replace(self, variance=variance, mean=0.0, differing=1 / (1 + factor * ties))

    def mirrored(self) -> Spread:
        """Of the differences with the other sign."""
        return replace(self, skewness=-self.skewness, mean=-self.mean)

    def needed(
        self, difference: float, *, alpha: float, power: float, seeds: int | None = None
    ) -> int | None:
        """The fewest draws that find a true difference; None where no number of them does, for lack of seeds."""
        before = 1
        for n in _GRID:  # where seeds take over, their few degrees of freedom make more draws find less
            if self.detectable(n, alpha=alpha, power=power, seeds=seeds) <= difference:
                return _smallest(
                    lambda n: self.detectable(n, alpha=alpha, power=power, seeds=seeds) <= difference,
                    before,
                    n,
                )
            before = n
        return None

    def seeds_needed(
        self, difference: float, most: int = LARGEST, *, alpha: float, power: float
    ) -> int | None:
        """The fewest seeds of each model with which no more than so many draws find a true difference.

        None where no number of seeds does.
        """

        def enough(seeds: int) -> bool:
            n = self.needed(difference, alpha=alpha, power=power, seeds=seeds)
            return n is not None and n <= most

        return _smallest(enough, 1, MOST_SEEDS) if enough(MOST_SEEDS) else None


def _found_by_bets(n: int, sd: float, alpha: float, power: float) -> float:
    """How far the mean of values in [0, 1] has to be from 1/2 for bets against 1/2 to make 2 / alpha of 1.

    The stakes of `betting` are b(t) = sqrt(2 log(2 / alpha) / (n v(t))), at most 1, with v(t) the variance so far,
    which begins at 1/4. The log of the capital has mean (sum b) m - (sum b**2) sd**2 / 2 and variance (sum b**2) sd**2.
    """
    wanted = float(np.log(2 / alpha))
    t = np.geomspace(1, n, min(n, 2000))  # far out a stake is like its neighbours
    steps = np.gradient(t) if t.size > 1 else np.ones(1)
    steps *= n / steps.sum()
    bets = np.minimum(np.sqrt(2 * wanted * (t + 1) / (n * (0.25 + sd**2 * t))), 1.0)
    spread = sd**2 * float((steps * bets**2).sum())
    return (wanted + spread / 2 + float(ndtri(power)) * float(np.sqrt(spread))) / float((steps * bets).sum())


def _smallest(enough: Callable[[int], bool], low: int, high: int) -> int:
    """The smallest integer above `low` that is enough, where all larger ones up to `high` are too."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
