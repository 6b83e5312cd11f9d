"""Bets against means of bounded values, valid at every n. Source: I. Waudby-Smith, A. Ramdas, JRSS B 86 (2024).

The capital at the end is averaged over orders of the values: as the capital of each is 1 on average under the
hypothesis, so is theirs, and hardly anything is left of any order. The most that one ever had would depend on it.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from ltr_harness._util.compiled import compiled
from ltr_harness.comparison.stats.cluster_sums import SMALLEST_P, ClusterSums, Floats
from ltr_harness.data.arrays import Ints

_ORDERS = 50  # and each reversed
_STAKES = 5_000_000  # of them, 40 MB, as of the reversed: more than 100,000 values have fewer orders
_PRECISION = 2.0**-50  # of an end, as a share of the range


def bounded_means(
    sample: ClusterSums,  # m columns whose units have one value each
    lowest: Floats,  # (m,) bounds of the values, as the highest
    highest: Floats,
    alpha: float,  # of each interval
    seed: int,  # of the orders in which values are bet on, which must not carry a trend
    margin: float = 0.0,
) -> tuple[Floats, Floats, Floats, Floats]:
    """(m,) p-values of a mean of 0 and of one at least the margin from 0 (1 without one), lower and upper ends."""
    m = sample.mean.size
    p, inside = np.ones((2, m))
    low, high = np.array(lowest, dtype=np.float64), np.array(highest, dtype=np.float64)
    for j in range(m):
        values = sample.sums[sample.counts[:, j] > 0, j]
        width = highest[j] - lowest[j]
        if not np.isfinite(width) or width <= 0 or not values.size:
            continue
        x = np.clip((values - lowest[j]) / width, 0.0, 1.0)
        bets = _Bets.on(x, alpha, seed)
        low[j] += width * bets.end(below=True)
        high[j] = lowest[j] + width * bets.end(below=False)
        null = -lowest[j] / width
        if bets.mean != null:
            p[j] = bets.p(null, below=null < bets.mean)
        if abs(bets.mean - null) < margin / width:
            inside[j] = max(
                bets.p(null - margin / width, below=True), bets.p(null + margin / width, below=False)
            )
    return p, inside, low, high


@dataclass(frozen=True, eq=False)
class _Bets:
    """Stakes on n values from 0 to 1 in several orders: one random order, begun at several places, and its reverse.

    Each order by itself is a random one, and together they have every value early as often as late.
    """

    mean: float  # of the values
    wanted: float  # log of the capital that rejects a mean
    rows: Floats  # (2, 2 n) the values in an order and in its reverse, each twice in a row
    starts: Ints  # (orders / 2,) where orders begin in a row
    stakes: Floats  # (orders, n), of the first row and then of the second

    @classmethod
    def on(cls, x: Floats, alpha: float, seed: int) -> Self:
        """Bets on (n,) values."""
        log_wealth = float(np.log(2 / alpha))
        order = np.random.Generator(np.random.PCG64(seed)).permutation(x.size)
        rows = np.stack([np.tile(x[order], 2), np.tile(x[order[::-1]], 2)])
        number = max(min(_ORDERS, x.size, _STAKES // x.size), 1)
        starts = np.arange(number) * x.size // number
        return cls(float(x.mean()), log_wealth, rows, starts, _stakes(rows, starts, log_wealth))

    def log_capital(self, m: float, *, below: bool) -> float:
        """Log of the capital at the end, averaged over the orders, of bets on a mean above m, or below it."""
        logs = _log_capitals(self.rows, self.starts, self.stakes, m, below)
        return float(np.logaddexp.reduce(logs) - np.log(logs.size))

    def p(self, m: float, *, below: bool) -> float:
        """Two-sided p-value of a mean of m by bets on one above it, or below."""
        if not 0 <= m <= 1:
            return SMALLEST_P
        return float(np.clip(2 * np.exp(-self.log_capital(m, below=below)), SMALLEST_P, 1.0))

    def end(self, *, below: bool) -> float:
        """The mean furthest from the sample's against which the capital stays at or below what is wanted."""
        from scipy.optimize import brentq  # takes a while to import, and only bets need it

        far = 0.0 if below else 1.0
        if _log_surplus(far, self, below) <= 0:
            return far
        if _log_surplus(self.mean, self, below) >= 0:
            return self.mean
        return float(brentq(_log_surplus, far, self.mean, args=(self, below), xtol=_PRECISION))


def _log_surplus(m: float, bets: _Bets, below: bool) -> float:
    """Return the log of the capital of bets on a mean above m, or below it, over the capital that is wanted.

    The bets are an argument: `brentq` keeps a function, with what it closes over, until the garbage collector comes.
    """
    return bets.log_capital(m, below=below) - bets.wanted


@compiled
def _stakes(rows: Floats, starts: Ints, log_wealth: float) -> Floats:
    """(orders, n): what is staked on each value, from the values before it."""
    orders, n = 2 * len(starts), rows.shape[1] // 2
    stakes = np.empty((orders, n))
    for order in range(orders):
        row, start = rows[order // len(starts)], starts[order % len(starts)]
        total, squares, variance = 0.5, 0.25, 0.25
        for t in range(n):
            stakes[order, t] = np.sqrt(2 * log_wealth / (n * variance))
            value = row[start + t]
            total += value
            squares += (value - total / (t + 2)) ** 2
            variance = squares / (t + 2)
    return stakes


@compiled
def _log_capitals(rows: Floats, starts: Ints, stakes: Floats, m: float, below: bool) -> Floats:
    """(orders,): log of the capital at the end of bets on a mean above m, or below it."""
    orders, n = stakes.shape
    logs = np.zeros(orders)
    most = 0.5 / max(m if below else 1 - m, 1e-12)
    for order in range(orders):
        row, start = rows[order // len(starts)], starts[order % len(starts)]
        capital = 1.0
        for t in range(n):
            stake = min(stakes[order, t], most)
            if not below:
                stake = -stake
            capital *= 1 + stake * (row[start + t] - m)
            if t % 32 == 31:  # long before it is too large or small for a number
                logs[order] += np.log(capital)
                capital = 1.0
        logs[order] += np.log(capital)
    return logs
