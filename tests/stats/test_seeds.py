"""Would another training seed have said the same?"""

from __future__ import annotations

import numpy as np
import pytest

from ltr_harness.stats.intervals import bootstrap_interval, t_interval
from ltr_harness.stats.seeds import seed_agreement, two_level_interval


def test_agreement_by_hand() -> None:
    one = np.array([[0.6, 0.6], [0.4, 0.4], [0.7, 0.7]])
    other = np.array([[0.5, 0.5], [0.65, 0.65]])
    # means .6 .4 .7 against .5 .65: +, -, -, -, +, + ; overall .5667 - .575 < 0
    assert seed_agreement(one, other) == 3 / 6


def test_agreement_needs_more_than_one_pair() -> None:
    assert np.isnan(seed_agreement(np.ones((1, 4)), np.zeros((1, 4))))
    assert seed_agreement(np.ones((2, 4)), np.zeros((1, 4))) == 1.0


def test_agreement_over_common_queries() -> None:
    one, other = np.array([[0.1, 0.9], [0.1, 0.9]]), np.array([[0.2, np.nan]])
    assert seed_agreement(one, other) == 1.0
    assert np.isnan(seed_agreement(one, np.full((1, 2), np.nan)))


def test_two_level_is_wider_when_seeds_matter() -> None:
    rng = np.random.default_rng(0)
    query = rng.random(300)
    steady = query + 0.02 + rng.normal(0, 1e-3, (3, 300))
    moody = query + np.array([[-0.05], [0.02], [0.09]])
    base = query[None, :] + rng.normal(0, 0.05, (1, 300))
    narrow, wide = two_level_interval(steady, base), two_level_interval(moody, base)
    t_low, t_high = t_interval(steady.mean(axis=0) - base[0])
    assert narrow == pytest.approx((float(t_low), float(t_high)), abs=0.001)
    assert wide[1] - wide[0] > 5 * (narrow[1] - narrow[0])


def test_two_level_needs_seeds() -> None:
    values = np.random.default_rng(0).random((4, 50))
    assert np.isnan(two_level_interval(values[:1], values[1:2])).all()
    assert np.isnan(two_level_interval(values[:2], values[:3])).all()
    assert not np.isnan(two_level_interval(values[:3], values[3:])).any()


def test_two_level_same_seed_same_interval() -> None:
    values = np.random.default_rng(0).random((6, 50))
    assert two_level_interval(values[:3], values[3:]) == two_level_interval(values[:3], values[3:])
    swapped = two_level_interval(values[:3], values[3:], seed=1)
    assert swapped != two_level_interval(values[:3], values[3:])


@pytest.mark.parametrize(("seeds", "least"), [(3, 0.85), (10, 0.9)])
def test_two_level_coverage(seeds: int, least: float) -> None:
    """Over new seeds and queries: t over queries alone misses most of it, three seeds some of it."""
    rng = np.random.default_rng(7)
    covered = alone = 0
    for _ in range(200):
        one, other = (rng.normal(0, 0.02, (seeds, 1)) + rng.normal(0, 0.05, (seeds, 100)) for _ in range(2))
        one = one + 0.01
        low, high = two_level_interval(one, other, draws=400)
        covered += low <= 0.01 <= high
        t_low, t_high = t_interval(one.mean(axis=0) - other.mean(axis=0))
        alone += bool(t_low <= 0.01 <= t_high)
    assert covered / 200 >= least
    assert alone / 200 < 0.5


def test_two_level_spreads_as_far_as_seeds_do() -> None:
    # All three draws hit the same outer seed once in 27, so the 2.5 % quantile is that seed, widened.
    one = np.repeat([[-0.1], [0.0], [0.1]], 50, axis=1)
    low, high = two_level_interval(one, np.zeros((1, 50)))
    assert (low, high) == pytest.approx((-0.1 * np.sqrt(3 / 2), 0.1 * np.sqrt(3 / 2)))


def test_seeds_that_are_all_alike_leave_the_bootstrap_over_queries() -> None:
    rng = np.random.default_rng(6)
    one, other = rng.exponential(size=(2, 60))
    found = two_level_interval(
        np.tile(one, (3, 1)), np.tile(other, (4, 1)), confidence=0.9, draws=2000, seed=3
    )
    wanted = bootstrap_interval(one - other, 0.9, method="percentile", draws=2000, seed=3)
    assert found == pytest.approx([float(end) for end in wanted], abs=1e-9)


def test_agreement_of_one_seed_with_several() -> None:
    one, others = np.array([[0.5, 0.5]]), np.array([[0.4, 0.4], [0.3, 0.3], [0.6, 0.6]])
    assert seed_agreement(one, others) == pytest.approx(2 / 3)  # mean .5 against .433: two of three agree
    assert seed_agreement(others, one) == pytest.approx(2 / 3)
