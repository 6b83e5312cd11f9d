"""Bets against means of bounded values, valid at every n. Source: I. Waudby-Smith, A. Ramdas, JRSS B 86 (2024)."""

import numpy as np

from ltr_harness.compiled import compiled
from ltr_harness.stats.contributions import SMALLEST_P, Contributions, Floats

_STEPS = 50  # of the bisection: 2**-50 of the range


def bounded_means(
    sample: Contributions,  # m columns whose units have one value each
    lowest: Floats,  # (m,) bounds of the values, as the highest
    highest: Floats,
    alpha: float,  # of each interval
    seed: int,  # of the order in which values are bet on, which must not carry a trend
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
        order = np.random.Generator(np.random.PCG64(seed)).permutation(values.size)
        x = np.clip((values[order] - lowest[j]) / width, 0.0, 1.0)
        mean = float(x.mean())
        wanted = np.log(2 / alpha)
        t = np.arange(1, x.size + 1)
        running = (0.5 + np.cumsum(x)) / (t + 1)
        variance = (0.25 + np.cumsum((x - running) ** 2)) / (t + 1)
        before = np.concatenate(([0.25], variance[:-1]))  # stakes come from the values before
        bets = np.asarray(np.sqrt(2 * wanted / (x.size * before)))
        low[j] += width * _end(x, bets, mean, wanted, True)
        high[j] = lowest[j] + width * _end(x, bets, mean, wanted, False)
        null = -lowest[j] / width
        if mean != null:
            p[j] = _p(x, bets, null, null < mean)
        if abs(mean - null) < margin / width:
            sides = (null - margin / width, True), (null + margin / width, False)
            inside[j] = max(_p(x, bets, edge, below) for edge, below in sides)
    return p, inside, low, high


def _p(x: Floats, bets: Floats, m: float, below: bool) -> float:
    """Two-sided p-value of a mean of m by bets on one above it, or below."""
    if not 0 <= m <= 1:
        return SMALLEST_P
    return float(np.clip(2 * np.exp(-_log_capital(x, bets, m, below)), SMALLEST_P, 1.0))


@compiled
def _log_capital(x: Floats, bets: Floats, m: float, below: bool) -> float:
    """Log of the most capital that bets on a mean above m, or below it, ever had."""
    capital = most = 0.0
    for value, bet in zip(x, bets):  # noqa: B905  # numba has no strict
        stake = min(bet, 0.5 / max(m if below else 1 - m, 1e-12))
        capital += np.log1p((stake if below else -stake) * (value - m))
        most = max(most, capital)
    return most


def _end(x: Floats, bets: Floats, mean: float, wanted: float, below: bool) -> float:
    """The mean furthest from the sample's against which the capital stays at or below what is wanted."""
    far = 0.0 if below else 1.0
    if _log_capital(x, bets, far, below) <= wanted:
        return far
    near = mean
    for _ in range(_STEPS):
        middle = (far + near) / 2
        if _log_capital(x, bets, middle, below) > wanted:
            far = middle
        else:
            near = middle
    return far
