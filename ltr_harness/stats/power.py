"""How many queries, units and seeds does a difference take? What `detectable` says, for other numbers of them.

A true difference is found with the asked probability where it is as large as (t(1 - alpha / 2) + z(power)) standard
errors, if differences are symmetric. Where they are lopsided, the error and the mean of a sample go up and down
together, and the test may reach further to one side: with a = skewness / sqrt(n), c the t that the test asks for and
Z = -z + a (z**2 - 1) / 6 the mean's quantile (Cornish & Fisher), it is c - Z (1 - a c / 2) standard errors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri, stdtrit

from ltr_harness.stats.seeds import VarianceComponents
from ltr_harness.stats.skewness import unhall

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
        adjusted: whether the test and the interval allow for it; a verdict asks both.
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
    adjusted: frozenset[bool] = frozenset({True})
    queries_per_draw: float = 1.0
    seeds: VarianceComponents | None = None

    def detectable(self, n: int, *, alpha: float, power: float, seeds: int | None = None) -> float:
        """The smallest true difference that n draws show, with probability `power`, at level `alpha`.

        Where seeds count, both the trained models and the methods have to differ, so the larger of two.

        Args:
            n: draws, at least 2.
            alpha: level of the two-sided test; of its first step where several are corrected together.
            power: chance of a significant result.
            seeds: of each model that has any; None for those at hand.
        """
        freedom = n - 1.0
        if self.freedom is not None and self.n is not None:
            freedom = max((self.freedom + 1) * n / self.n - 1, 1.0)
        variance, components = self.variance, self.seeds
        lean = min(self.skewness / np.sqrt(n), TRUSTED)
        trained = self._errors(freedom, lean, alpha, power)
        if components is None:
            return trained * float(np.sqrt(variance / n))
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
        return max(trained * float(np.sqrt(variance / n)), both.detectable(alpha, power))

    def _errors(self, freedom: float, lean: float, alpha: float, power: float) -> float:
        """How many standard errors a difference has to be."""
        quantile, z = float(stdtrit(freedom, 1 - alpha / 2)), float(ndtri(power))
        asked = [
            float(unhall(np.array(quantile), np.array(lean))) if own else quantile for own in self.adjusted
        ]
        critical = max(asked)
        return critical + (z - lean * (z**2 - 1) / 6) * (1 - lean * critical / 2)

    def mirrored(self) -> Spread:
        """Of the differences with the other sign."""
        return replace(self, skewness=-self.skewness)

    def needed(
        self, difference: float, *, alpha: float, power: float, seeds: int | None = None
    ) -> int | None:
        """The fewest draws that find a true difference; None where no number of them does, for lack of seeds.

        Args:
            difference: above 0.
            alpha: level of the two-sided test.
            power: chance of a significant result.
            seeds: of each model that has any; None for those at hand.
        """
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

        Args:
            difference: above 0.
            most: draws.
            alpha: level of the two-sided test.
            power: chance of a significant result.
        """

        def enough(seeds: int) -> bool:
            n = self.needed(difference, alpha=alpha, power=power, seeds=seeds)
            return n is not None and n <= most

        return _smallest(enough, 1, MOST_SEEDS) if enough(MOST_SEEDS) else None


def _smallest(enough: Callable[[int], bool], low: int, high: int) -> int:
    """The smallest integer above `low` that is enough, where all larger ones up to `high` are too."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
