"""Intervals of means: by hand, against scipy, and whether they cover what they claim."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from ltr_harness.stats.intervals import bootstrap_interval, t_interval
from ltr_harness.stats.moments import moments
from ltr_harness.stats.resampling import bootstrap_means


def test_moments_as_scipy_and_nan_left_out() -> None:
    values = np.random.default_rng(0).exponential(size=(50, 3))
    values[7, 1] = np.nan
    found = moments(values)
    assert found.n.tolist() == [50, 49, 50]
    for j in range(3):
        kept = values[~np.isnan(values[:, j]), j]
        assert found.mean[j] == pytest.approx(kept.mean(), rel=1e-13)
        assert found.sd[j] == pytest.approx(kept.std(ddof=1), rel=1e-12)
        assert found.skewness[j] == pytest.approx(stats.skew(kept), rel=1e-10)


def test_a_constant_column_beside_others_has_no_spread_at_all() -> None:
    # three times 0.7 has a mean of 0.6999999999999998
    found = moments(np.column_stack([np.full(3, 0.7), [0.0, 1.0, 2.0], [0.7, 0.7, np.nan]]))
    assert found.sd.tolist() == [0.0, 1.0, 0.0]
    assert found.standard_error.tolist() == [0.0, 1 / np.sqrt(3), 0.0]
    assert found.skewness.tolist() == [0.0, 0.0, 0.0]


def test_moments_of_little() -> None:
    found = moments(np.array([[np.nan, 0.1, 0.1], [np.nan, np.nan, 0.1], [np.nan, np.nan, 0.1]]))
    assert found.n.tolist() == [0, 1, 3]
    assert np.isnan(found.mean[0])
    assert np.isnan(found.sd[:2]).all()
    assert np.isnan(found.skewness[:2]).all()
    assert (found.sd[2], found.skewness[2]) == (0.0, 0.0)


def test_t_interval_as_scipy() -> None:
    values = np.random.default_rng(1).normal(size=(30, 2))
    low, high = t_interval(values, 0.9)
    oracle = stats.ttest_1samp(values, 0).confidence_interval(0.9)
    assert low == pytest.approx(oracle.low, rel=1e-12)
    assert high == pytest.approx(oracle.high, rel=1e-12)


@pytest.mark.long
@pytest.mark.parametrize("method", ["bca", "percentile"])
def test_bootstrap_as_scipy(method: str) -> None:
    values = np.random.default_rng(2).exponential(size=40)
    oracle = stats.bootstrap(
        (values,), np.mean, n_resamples=40_000, method=method, rng=np.random.default_rng(3)
    ).confidence_interval
    low, high = bootstrap_interval(values, method=method, draws=40_000)  # type: ignore[arg-type]
    assert float(low) == pytest.approx(oracle.low, abs=0.01)
    assert float(high) == pytest.approx(oracle.high, abs=0.01)


def test_bca_leans_where_the_values_do() -> None:
    values = np.random.default_rng(2).exponential(size=40)
    bca, percentile = bootstrap_interval(values), bootstrap_interval(values, method="percentile")
    assert bca[0] > percentile[0]
    assert bca[1] > percentile[1]


def test_bca_by_its_formula() -> None:
    """Whole sixteenths, so that resampled means equal to the mean are found to be equal."""
    values = np.array([0, 0, 0, 1, 1, 2, 3, 9]) / 16
    means = bootstrap_means(values[:, None], 2000, 5)[:, 0]
    assert 0.02 < np.mean(means == values.mean()) < 0.2
    z0 = stats.norm.ppf(np.mean(means < values.mean()) + np.mean(means == values.mean()) / 2)
    off = values - values.mean()
    a = (off**3).sum() / (6 * (off**2).sum() ** 1.5)
    shares = [stats.norm.cdf(z0 + (z0 + z) / (1 - a * (z0 + z))) for z in stats.norm.ppf([0.05, 0.95])]
    low, high = bootstrap_interval(values, 0.9, draws=2000, seed=5)
    assert [float(low), float(high)] == pytest.approx(np.quantile(means, shares), abs=1e-12)


@pytest.mark.parametrize("sign", [1, -1])
def test_bca_where_every_resample_is_on_one_side(sign: int) -> None:
    values = sign * np.array([0.0] * 19 + [1.0])
    one_sided = 0
    for seed in range(60):
        means = bootstrap_means(values[:, None], 3, seed)
        one_sided += bool((sign * means < sign * values.mean()).all())
        low, high = bootstrap_interval(values, draws=3, seed=seed)
        assert means.min() <= float(low) <= float(high) <= means.max()
    assert one_sided


def test_bootstrap_of_each_column_is_its_own() -> None:
    values = np.random.default_rng(4).random((50, 3))
    values[:5, 1] = np.nan
    low, high = bootstrap_interval(values, draws=1000)
    for j in range(3):
        alone = bootstrap_interval(values[:, j], draws=1000)
        assert (low[j], high[j]) == (float(alone[0]), float(alone[1]))


def test_two_values_have_one_degree_of_freedom() -> None:
    low, high = t_interval(np.array([0.0, 1.0]))
    assert (float(low), float(high)) == pytest.approx((0.5 - 12.7062 / 2, 0.5 + 12.7062 / 2), abs=1e-4)


def test_the_middle_share_of_what_two_queries_can_become() -> None:
    # Their resampled mean is 0, 1/2 or 1 in a quarter, a half and a quarter of the draws.
    for confidence, ends in ((0.95, (0.0, 1.0)), (0.4, (0.5, 0.5))):
        low, high = bootstrap_interval(np.array([0.0, 1.0]), confidence, method="percentile")
        assert (float(low), float(high)) == ends


def test_bootstrap_edges() -> None:
    constant = bootstrap_interval(np.full(20, 0.25), draws=200)
    assert (float(constant[0]), float(constant[1])) == (0.25, 0.25)
    for few in (np.array([0.5]), np.array([np.nan, np.nan])):
        assert np.isnan(bootstrap_interval(few, draws=200)).all()
        assert np.isnan(t_interval(few)).all()


@pytest.mark.long
@pytest.mark.parametrize("n", [50, 500])
def test_t_interval_covers(n: int) -> None:
    d = np.random.default_rng(n).normal(0.02, 0.2, size=(n, 2000))
    low, high = t_interval(d)
    assert 0.935 <= np.mean((low <= 0.02) & (high >= 0.02)) <= 0.965


@pytest.mark.slow
@pytest.mark.parametrize("method", ["bca", "percentile"])
def test_bootstrap_interval_covers(method: str) -> None:
    d = np.random.default_rng(12).normal(0.02, 0.2, size=(200, 2000))
    low, high = bootstrap_interval(d, method=method, draws=10_000)  # type: ignore[arg-type]
    assert 0.935 <= np.mean((low <= 0.02) & (high >= 0.02)) <= 0.965


@pytest.mark.parametrize("sign", [1, -1])
def test_a_share_of_no_resample_or_of_all_is_half_of_one(sign: int) -> None:
    values = sign * np.array([0.0, 1.0, 2.0, 4.0, 8.0])
    drawn = {seed: bootstrap_means(values[:, None], 3, seed)[:, 0] for seed in range(60)}
    on_one_side = {seed for seed, means in drawn.items() if (sign * means < sign * values.mean()).all()}
    seed = next(seed for seed in on_one_side if len(set(drawn[seed])) == 3)
    z0 = sign * stats.norm.ppf(1 - 0.5 / 3)
    a = stats.skew(values) / (6 * np.sqrt(5))
    shares = [stats.norm.cdf(z0 + (z0 + z) / (1 - a * (z0 + z))) for z in stats.norm.ppf([0.025, 0.975])]
    low, high = bootstrap_interval(values, draws=3, seed=seed)
    assert [float(low), float(high)] == pytest.approx(np.quantile(drawn[seed], shares), abs=1e-12)


def test_a_constant_column_with_gaps_has_no_spread_at_all() -> None:
    facts = moments(np.array([0.1, np.nan, 0.1, 0.1]))  # their mean is rounded
    assert (int(facts.n), float(facts.sd), float(facts.skewness)) == (3, 0.0, 0.0)
