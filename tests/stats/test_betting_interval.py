"""The interval by betting, against the wealth of the two bettors written out bet by bet."""

from __future__ import annotations

from math import log, sqrt

import numpy as np
import pytest

from ltr_harness.stats.two_samples import betting_interval


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
    assert betting_interval(values, confidence) == pytest.approx(by_bets(values, 1 - confidence), abs=1e-12)


def test_who_has_seen_nothing_knows_nothing() -> None:
    assert betting_interval(np.array([])) == (0.0, 1.0)


def test_where_every_mean_is_refuted_the_mean_itself_remains() -> None:
    """Bad queries first, good ones after: chance would not deal them so, and both bettors become rich on each m."""
    dealt = np.repeat([0.0, 1.0], 100)
    values = np.empty(200)
    values[np.random.Generator(np.random.PCG64(0)).permutation(200)] = dealt
    assert betting_interval(values) == (0.5, 0.5)
