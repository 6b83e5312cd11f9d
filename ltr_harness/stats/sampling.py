"""Samples of queries drawn by hash, stratified, and the mean over all queries that a sample estimates."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ltr_harness.stats.contributions import Floats

Codes = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Drawn:
    """Queries of a sample and the strata that they are from, in ascending order of their hashes.

    A larger sample of the same queries contains the smaller. Of each stratum it has two queries or all, the others in
    proportion to the strata's sizes (Webster's method, so that no stratum loses a query when the sample grows).
    """

    hashes: NDArray[np.uint64]  # (n_drawn,)
    strata: Codes  # int64 (n_drawn,), the number of each query's stratum
    drawn: Codes  # int64 (n_strata,), queries of the sample in each stratum
    sizes: Codes  # int64 (n_strata,), all queries in each stratum

    @classmethod
    def of(cls, hashes: NDArray[np.uint64], strata: Codes, n: int) -> "Drawn":
        """The sample of `n` queries from all (n_queries,), of which each stratum 0, 1, 2 … has at least one."""
        sizes = np.bincount(strata)
        order = np.lexsort((hashes, strata))
        rank = np.arange(order.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        turn = (rank + 0.5) / sizes[strata[order]]
        chosen = order[np.lexsort((hashes[order], turn, rank >= 2))[:n]]
        chosen = chosen[np.argsort(hashes[chosen])]
        own = strata[chosen]
        return cls(hashes[chosen], own, np.bincount(own, minlength=sizes.size), sizes)

    @property
    def weighted(self) -> bool:
        """Whether the queries of some strata stand for more of all queries than those of others."""
        return self.sizes.size > 1 and bool((self.drawn < self.sizes).any())

    def estimate(
        self, values: Floats, confidence: float = 0.95, counts: Floats | float = 1.0
    ) -> tuple[float, float, float]:
        """The mean over all queries where a metric is defined, and its interval: 0 wide where all were drawn.

        With weights w = size / drawn of a stratum and counts c, mean = sum(w c y) / sum(w c); the variance is the
        ratio's, linearised: the sum over strata of size^2 (1 - drawn / size) s^2 / drawn of e = c (y - mean), over
        sum(w c)^2; t with one degree of freedom for each query but one per stratum.
        `values` and `counts` are in the order of `hashes`.
        """
        from scipy.stats import t

        counts = np.where(np.isnan(values), 0.0, counts)
        values = np.nan_to_num(values)
        weights = self.sizes / np.maximum(self.drawn, 1)
        total = (weights[self.strata] * counts).sum()
        if not total:
            return np.nan, np.nan, np.nan
        mean = float((weights[self.strata] * counts * values).sum() / total)
        off = counts * (values - mean)
        off -= (np.bincount(self.strata, off) / np.maximum(self.drawn, 1))[self.strata]
        squares = np.bincount(self.strata, off**2) / np.maximum(self.drawn - 1, 1)
        lacking = (self.sizes - self.drawn) * weights
        freedom = max(int((self.drawn - 1).clip(0).sum()), 1)
        half = t.ppf(0.5 + confidence / 2, freedom) * np.sqrt((lacking * squares).sum()) / total
        return mean, float(mean - half), float(mean + half)
