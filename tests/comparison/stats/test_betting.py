"""The interval by betting, against the wealth of the two bettors written out bet by bet."""

from __future__ import annotations

import gc
import tracemalloc
from math import log, sqrt

import numpy as np
import pytest

from ltr_harness.comparison.stats.betting import bounded_means
from ltr_harness.comparison.stats.cluster_sums import ClusterSums


def interval(values: np.ndarray, confidence: float = 0.95) -> tuple[float, float]:
    one = np.ones(1)
    _, _, low, high = bounded_means(ClusterSums.of(values[:, None]), 0 * one, one, 1 - confidence, seed=0)
    return float(low[0]), float(high[0])


def final_wealths(x: list[float], m: np.ndarray, alpha: float) -> np.ndarray:
    """Return the final wealth of bets on values in this order: that the mean is above each m, and that it is below."""
    above = below = np.ones(m.size)
    total, squares, variance = 0.5, 0.25, 0.25
    for t, value in enumerate(x, start=1):
        bet = sqrt(2 * log(2 / alpha) / (len(x) * variance))  # from what was seen before this query
        above = above * (1 + np.minimum(bet, 0.5 / np.maximum(m, 1e-12)) * (value - m))
        below = below * (1 - np.minimum(bet, 0.5 / np.maximum(1 - m, 1e-12)) * (value - m))
        total += value
        squares += (value - total / (t + 1)) ** 2
        variance = squares / (t + 1)
    return np.stack([above, below])


def by_bets(values: np.ndarray, alpha: float) -> tuple[float, float]:
    x = values[np.random.Generator(np.random.PCG64(0)).permutation(values.size)].tolist()
    number = min(50, len(x))
    starts = [at * len(x) // number for at in range(number)]
    orders = [row[start:] + row[:start] for row in (x, x[::-1]) for start in starts]
    wealths = np.mean([final_wealths(x, np.arange(501) / 500, alpha) for x in orders], axis=0)
    held = np.flatnonzero(wealths.max(axis=0) < 2 / alpha).tolist()
    return max(held[0] - 1, 0) / 500, min(held[-1] + 1, 500) / 500


def p_of(values: np.ndarray, seed: int, alpha: float = 0.05) -> np.ndarray:
    """Return the p-values of the means of (n, m) differences, against means of 0. Shape (m,)."""
    edge = np.ones(values.shape[1])
    return bounded_means(ClusterSums.of(values), -edge, edge, alpha, seed)[0]


def test_two_values_in_both_orders_by_hand() -> None:
    """Bets at a level of .9 that the mean of .9 and .4 is above .2, with stakes of sqrt(2 log(2 / .9) / (2 v))."""
    values, low, high = np.array([[0.7], [0.2]]), np.array([-0.2]), np.array([0.8])  # less .2, as p is of 0
    wanted = log(2 / 0.9)
    first = sqrt(wanted / 0.25)
    second = sqrt(
        wanted / ((0.25 + 0.2**2) / 2)
    )  # after .9, beside the .5 that all begin with: .7, off by .2
    one = (1 + first * 0.7) * (1 + second * 0.2)
    other = (1 + first * 0.2) * (1 + 0.5 / 0.2 * 0.7)  # after .4 more than that would be staked
    for seed in range(3):
        p = bounded_means(ClusterSums.of(values), low, high, 0.9, seed)[0]
        assert p[0] == pytest.approx(2 / ((one + other) / 2))


def test_p_hardly_depends_on_the_seed() -> None:
    d = np.random.default_rng(2).normal(0.04, 0.1, (200, 5))
    p = np.array([p_of(d, seed) for seed in range(10)])
    assert (p.max(axis=0) / p.min(axis=0) < 1.05).all()


@pytest.mark.slow
def test_verdicts_do_not_depend_on_the_seed() -> None:
    """The best moment of one order found 75 %, and one seed in ten disagreed in 14 % of the samples."""
    d = np.clip(np.random.default_rng(500).normal(0.02, 0.1, (500, 1000)), -1, 1)
    found = np.array([p_of(d, seed) < 0.05 for seed in range(10)])
    assert 0.68 < found.mean() < 0.76
    assert (found == found[0]).all(axis=0).mean() >= 0.99


@pytest.mark.slow
@pytest.mark.parametrize("n", [5, 20, 100, 1000])
def test_few_intervals_miss_at_any_n(n: int) -> None:
    """Coins of all kinds, rare losses and values near an end: each world in at most 5 %."""
    rng = np.random.default_rng(n)
    edge = np.ones(400)
    coins = [(rng.random((n, 400)) < p, p) for p in (0.02, 0.1, 0.5, 0.8)]
    losses = np.where(rng.random((n, 400)) < 0.04, -0.48, 0.02), 0.0
    for values, truth in [*coins, losses, (rng.beta(0.5, 3, (n, 400)), 1 / 7)]:
        _, _, low, high = bounded_means(ClusterSums.of(values * 1.0), -edge, edge, 0.05, seed=0)
        assert ((low > truth) | (high < truth)).mean() <= 0.05


@pytest.mark.parametrize("confidence", [0.8, 0.95])
@pytest.mark.parametrize("n", [1, 7, 60])
def test_by_the_bets(n: int, confidence: float) -> None:
    values = np.random.default_rng(n).beta(4, 2, n).round(3)
    assert interval(values, confidence) == pytest.approx(
        by_bets(values, 1 - confidence), abs=0.0021
    )  # its grid


def test_who_has_seen_nothing_knows_nothing() -> None:
    assert interval(np.array([])) == (0.0, 1.0)


def test_the_mean_itself_always_remains() -> None:
    """Bad queries in a row, then good ones: chance would not deal them so, and both bettors become rich."""
    dealt = np.repeat([0.0, 1.0], 100)
    values = np.empty(200)
    values[np.random.Generator(np.random.PCG64(0)).permutation(200)] = dealt
    low, high = interval(values)
    assert low <= 0.5 <= high


def test_a_share_that_is_rarely_seen_is_never_denied() -> None:
    """1 % of queries lose .6 and 100 or 400 are looked at: what no sample of them can exclude is never excluded."""
    rng = np.random.default_rng(0)
    for n in (100, 400):
        d = np.where(rng.random((n, 100)) < 0.01, -0.6, 0.001)
        edge = np.ones(100)
        _, _, low, _ = bounded_means(ClusterSums.of(d), -edge, edge, 0.05, seed=0)
        assert (low < -0.006).all()


@pytest.mark.long
def test_p_is_below_the_level_exactly_where_zero_lies_outside() -> None:
    rng = np.random.default_rng(1)
    d = np.clip(rng.normal(np.linspace(-0.3, 0.3, 60), 0.3, (150, 60)), -1, 1)
    edge = np.ones(60)
    p, _, low, high = bounded_means(ClusterSums.of(d), -edge, edge, 0.05, seed=0)
    assert ((p < 0.05) == ((low > 0) | (high < 0))).all()
    assert 5 < (p < 0.05).sum() < 55


def test_units_without_a_value_are_not_bet_on() -> None:
    values = np.array([0.3, -0.2, 0.4, 0.1, 0.5, 0.2])
    sparse = np.full((9, 1), np.nan)
    sparse[[0, 2, 3, 5, 6, 8], 0] = values
    bounds = np.array([-1.0]), np.array([1.0])
    found, expected = (
        bounded_means(ClusterSums.of(column), *bounds, 0.05, 7) for column in (sparse, values[:, None])
    )
    assert [part.tolist() for part in found] == [part.tolist() for part in expected]


def test_the_stakes_are_gone_with_the_interval() -> None:
    """A comparison of many models by bets has no more memory than that of one needs at a time."""
    values = np.random.default_rng(0).uniform(size=500)
    interval(values)
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        for _ in range(4):
            interval(values)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        gc.enable()
    assert kept < 100_000
