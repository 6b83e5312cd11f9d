"""Welch's analysis of variance against SciPy's, Welch's t test, and chance."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from scipy import stats

from ltr_harness.stats.several_samples import same_shares_p, sample_ratio_p, welch_anova_p


def world(
    seed: int, sizes: tuple[int, ...], sds: tuple[float, ...], means: tuple[float, ...]
) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    groups = np.repeat(np.arange(len(sizes)), sizes)
    return np.array(means)[groups] + np.array(sds)[groups] * random.standard_normal(groups.size), groups


@pytest.mark.skipif(
    "equal_var" not in inspect.signature(stats.f_oneway).parameters, reason="needs SciPy 1.16"
)
@pytest.mark.parametrize("seed", range(5))
def test_as_scipy(seed: int) -> None:
    values, groups = world(seed, (30, 7, 90, 4), (1, 3, 0.5, 2), (0, 0.4, 0.1, 1))
    oracle = stats.f_oneway(*(values[groups == g] for g in range(4)), equal_var=False).pvalue
    shuffled = np.random.default_rng(seed).permutation(values.size)
    assert welch_anova_p(values[shuffled], groups[shuffled]) == pytest.approx(oracle, rel=1e-10)


def test_two_groups_are_welchs_t_test() -> None:
    values, groups = world(1, (12, 40), (1, 3), (0, 1))
    oracle = stats.ttest_ind(values[groups == 0], values[groups == 1], equal_var=False).pvalue
    assert welch_anova_p(values, groups) == pytest.approx(oracle, rel=1e-10)


def test_by_hand() -> None:
    # means 2, 4, 6; variances 1, 4, 4; n 3, 3, 3: w = 3, 3/4, 3/4; m = 3; h = (1/9 + 25/36 + 25/36) / 2 = 3/4
    values = np.array([1, 2, 3, 2, 4, 6, 4, 6, 8], dtype=float)
    f = (3 * 1 + 0.75 * 1 + 0.75 * 9) / 2 / (1 + 2 * 1 / 8 * 0.75)
    expected = stats.f.sf(f, 2, 8 / (3 * 0.75))
    assert welch_anova_p(values, np.repeat([0, 1, 2], 3)) == pytest.approx(expected)


def test_what_cannot_be_told() -> None:
    values, groups = world(2, (5, 5), (1, 1), (0, 9))
    assert np.isnan(welch_anova_p(values, np.zeros(10, dtype=int)))
    assert np.isnan(welch_anova_p(np.repeat([1.0, 2.0], 5), groups))
    assert np.isnan(welch_anova_p(np.empty(0), np.empty(0, dtype=int)))
    holes = np.append(values, [np.nan, 50.0])  # undefined, and a group that is too small
    assert welch_anova_p(holes, np.append(groups, [0, 4]), least=3) == welch_anova_p(values, groups)


def test_days_of_unequal_size_and_spread_are_rarely_told_apart_by_chance() -> None:
    p = [welch_anova_p(*world(seed, (20, 200, 50), (3, 1, 2), (0, 0, 0))) for seed in range(600)]
    assert np.mean(np.array(p) <= 0.05) == pytest.approx(0.05, abs=0.025)


# ---- shares -----------------------------------------------------------------------------------------------


def test_the_sample_ratio_is_pearsons() -> None:
    counts, shares = np.array([480, 310, 210]), np.array([0.5, 0.3, 0.2])
    assert sample_ratio_p(counts, shares) == pytest.approx(stats.chisquare(counts, 1000 * shares).pvalue)
    assert sample_ratio_p(np.array([9, 1]), np.array([0.9, 0.1])) == 1.0
    assert np.isnan(sample_ratio_p(np.array([0, 0]), np.array([0.5, 0.5])))


def test_the_same_shares_at_all_places() -> None:
    table = np.array([[40, 60], [50, 50], [70, 30]])
    places, groups = (np.repeat(codes.reshape(-1), table.reshape(-1)) for codes in np.indices(table.shape))
    p = stats.chi2_contingency(table, correction=False).pvalue
    assert same_shares_p(groups, places) == pytest.approx(p)
    with_a_small_place = np.append(groups, [0, 1, 1]), np.append(places, [3, 3, 3])
    assert same_shares_p(*with_a_small_place) == pytest.approx(p)
    assert np.isnan(same_shares_p(groups, np.zeros_like(groups)))
    assert np.isnan(same_shares_p(groups[:0], places[:0]))
