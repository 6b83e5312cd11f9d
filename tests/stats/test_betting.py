"""The interval by betting, against the wealth of the two bettors written out bet by bet."""

from __future__ import annotations

from math import log, sqrt

import numpy as np
import pytest

from ltr_harness.stats.betting import bounded_means
from ltr_harness.stats.contributions import Contributions


def interval(values: np.ndarray, confidence: float = 0.95) -> tuple[float, float]:
    one = np.ones(1)
    _, _, low, high = bounded_means(Contributions.of(values[:, None]), 0 * one, one, 1 - confidence, seed=0)
    return float(low[0]), float(high[0])


def by_bets(values: np.ndarray, alpha: float) -> tuple[float, float]:
    order = np.random.Generator(np.random.PCG64(0)).permutation(values.size)
    x = values[order].tolist()
    n = len(x)
    held = []
    for step in range(501):
        m = step / 500
        rich = False
        wealth_above = wealth_below = 1.0  # of who bets that the mean is above m, and below
        total, squares, variance = 0.5, 0.25, 0.25
        for t, value in enumerate(x, start=1):
            bet = sqrt(2 * log(2 / alpha) / (n * variance))  # from what was seen before this query
            wealth_above *= 1 + min(bet, 0.5 / max(m, 1e-12)) * (value - m)
            wealth_below *= 1 - min(bet, 0.5 / max(1 - m, 1e-12)) * (value - m)
            rich = rich or max(wealth_above, wealth_below) >= 2 / alpha
            total += value
            squares += (value - total / (t + 1)) ** 2
            variance = squares / (t + 1)
        if not rich:
            held.append(step)
    return max(held[0] - 1, 0) / 500, min(held[-1] + 1, 500) / 500


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
    """Bad queries first, good ones after: chance would not deal them so, and both bettors become rich on each m."""
    dealt = np.repeat([0.0, 1.0], 100)
    values = np.empty(200)
    values[np.random.Generator(np.random.PCG64(0)).permutation(200)] = dealt
    low, high = interval(values)
    assert low < 0.5 < high


def test_a_share_that_is_rarely_seen_is_never_denied() -> None:
    """1 % of queries lose .6 and 100 or 400 are looked at: what no sample of them can exclude is never excluded."""
    rng = np.random.default_rng(0)
    for n in (100, 400):
        d = np.where(rng.random((n, 100)) < 0.01, -0.6, 0.001)
        edge = np.ones(100)
        _, _, low, _ = bounded_means(Contributions.of(d), -edge, edge, 0.05, seed=0)
        assert (low < -0.006).all()


@pytest.mark.long
def test_p_is_below_the_level_exactly_where_zero_lies_outside() -> None:
    rng = np.random.default_rng(1)
    d = np.clip(rng.normal(np.linspace(-0.3, 0.3, 60), 0.3, (150, 60)), -1, 1)
    edge = np.ones(60)
    p, _, low, high = bounded_means(Contributions.of(d), -edge, edge, 0.05, seed=0)
    assert ((p < 0.05) == ((low > 0) | (high < 0))).all()
    assert 5 < (p < 0.05).sum() < 55


def test_units_without_a_value_are_not_bet_on() -> None:
    values = np.array([0.3, -0.2, 0.4, 0.1, 0.5, 0.2])
    sparse = np.full((9, 1), np.nan)
    sparse[[0, 2, 3, 5, 6, 8], 0] = values
    bounds = np.array([-1.0]), np.array([1.0])
    found, expected = (
        bounded_means(Contributions.of(column), *bounds, 0.05, 7) for column in (sparse, values[:, None])
    )
    assert [part.tolist() for part in found] == [part.tolist() for part in expected]
