"""Would another training seed have said the same?"""

from __future__ import annotations

import numpy as np
import pytest

from ltr_harness.stats.intervals import bootstrap_interval, t_interval
from ltr_harness.stats.resampling import bootstrap_means, uniform_below
from ltr_harness.stats.seeds import interval_of_resamples, seed_agreement, two_level_interval


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


def test_a_difference_within_the_tolerance_has_no_sign() -> None:
    one, others = np.array([[0.5, 0.5]]), np.array([[0.5, 0.5], [0.75, 0.75]])
    assert (
        seed_agreement(one, others) == seed_agreement(others, one) == 0.5
    )  # one pair is equal, the other decides
    assert seed_agreement(one, others, tolerance=0.25) == 1.0  # now all are equal, as the means are


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


def test_two_level_needs_two_queries() -> None:
    values = np.random.default_rng(0).random((6, 2))
    assert not np.isnan(two_level_interval(values[:3], values[3:])).any()
    values[2, 1] = np.nan
    assert np.isnan(two_level_interval(values[:3], values[3:])).all()


def test_two_level_leaves_out_queries_undefined_for_any_seed() -> None:
    values = np.random.default_rng(3).random((6, 50))
    holed = values.copy()
    holed[1, 7] = holed[4, 9] = np.nan
    known = np.delete(values, [7, 9], axis=1)
    assert two_level_interval(holed[:3], holed[3:]) == two_level_interval(known[:3], known[3:])
    assert seed_agreement(holed[:3], holed[3:]) == seed_agreement(known[:3], known[3:]) > 0


def test_two_level_is_the_interval_of_resampled_queries() -> None:
    values = np.random.default_rng(4).random((6, 50))
    means = bootstrap_means(values.T, 500, 5)
    found = two_level_interval(values[:3], values[3:], confidence=0.9, draws=500, seed=5)
    assert found == interval_of_resamples(means[:, :3], means[:, 3:], confidence=0.9, seed=5)
    undefined = np.full_like(means, np.nan)
    assert np.isnan(interval_of_resamples(means, undefined)).all()
    assert np.isnan(interval_of_resamples(undefined, means)).all()


def test_seeds_are_drawn_from_a_stream_of_their_own() -> None:
    means = np.random.default_rng(5).random((400, 3))
    drawn = uniform_below(np.random.PCG64([6, 1]), 3, 400, 3)  # for each resample, three of the three seeds
    picked = np.array([row[seeds].mean() for row, seeds in zip(means, drawn, strict=True)])
    spread = means.mean(axis=1) + np.sqrt(3 / 2) * (picked - means.mean(axis=1))
    found = interval_of_resamples(means, np.zeros((400, 1)), confidence=0.9, seed=6)
    assert found == pytest.approx(tuple(np.quantile(spread, [0.05, 0.95])))


def test_two_level_same_seed_same_interval() -> None:
    values = np.random.default_rng(0).random((6, 50))
    assert two_level_interval(values[:3], values[3:]) == two_level_interval(values[:3], values[3:])
    swapped = two_level_interval(values[:3], values[3:], seed=1)
    assert swapped != two_level_interval(values[:3], values[3:])


@pytest.mark.long
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


def test_two_level_is_as_lopsided_as_seeds_are() -> None:
    # Two seeds at 0 and one at 1: three draws have the mean 0 in 8 of 27 cases, and 1 in one of 27 (3.7 %).
    one = np.repeat([[0.0], [0.0], [1.0]], 50, axis=1)
    found = two_level_interval(one, np.zeros((1, 50)))
    assert found == pytest.approx((1 / 3 - np.sqrt(3 / 2) * 1 / 3, 1 / 3 + np.sqrt(3 / 2) * 2 / 3))


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
