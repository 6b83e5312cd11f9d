"""Means by unit: by hand, against the matrices of the textbook, and what the intervals cover."""

from __future__ import annotations

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version
from scipy.stats import t, ttest_ind

from ltr_harness.comparison.stats.cluster_sums import ClusterSums, LinearCombination
from ltr_harness.comparison.stats.families import outcomes
from ltr_harness.comparison.stats.method import Method

T_ERROR = (
    1e-12 if Version(scipy.__version__) >= Version("1.15") else 1e-10
)  # of quantiles with one degree of freedom
BY_USER = Method(draws=500, unit="user")


def t_interval(values: np.ndarray, level: float = 0.95) -> tuple[float, float]:
    n = len(values)
    reach = t.ppf((1 + level) / 2, n - 1) * values.std(ddof=1) / np.sqrt(n)
    return values.mean() - reach, values.mean() + reach


def draw_clusters(sizes: str, n_units: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Values of mean 0 whose correlation within a unit is .3, and whose they are."""
    counts = {
        "ten each": lambda: np.full(n_units, 10),
        "lognormal": lambda: np.ceil(np.exp(rng.normal(1.5, 1, n_units))),
        "Pareto(2)": lambda: np.ceil(3 * (rng.pareto(2, n_units) + 1)),
        "Pareto(1.1)": lambda: np.minimum(np.ceil(rng.pareto(1.1, n_units) + 1), 1e5),
    }[sizes]()
    units = np.repeat(np.arange(n_units), counts.astype(np.int64))
    alike = np.sqrt(0.3) * rng.normal(size=n_units)[units]
    return 0.1 * (alike + np.sqrt(0.7) * rng.normal(size=units.size)), units


def coverage(sizes: str, n_units: int, samples: int) -> tuple[float, float]:
    """The share of 95 % intervals that hold the mean: by unit, and by query."""
    rng = np.random.default_rng(n_units)
    by_unit = by_query = 0
    for _ in range(samples):
        values, units = draw_clusters(sizes, n_units, rng)
        found = outcomes(ClusterSums.of(values[:, None], units), BY_USER, seeds=(), widths=np.inf)
        by_unit += bool(found.low[0] < 0 < found.high[0])
        low, high = t_interval(values)
        by_query += bool(low < 0 < high)
    return by_unit / samples, by_query / samples


def test_units_of_one_size_are_their_means() -> None:
    """Then the mean of all values is that of the units' means, and its error theirs."""
    values = np.random.default_rng(1).normal(size=(60, 3))
    units = np.arange(60) % 6
    found = ClusterSums.of(values, units)
    means = np.stack([values[units == unit].mean(axis=0) for unit in range(6)])
    assert found.mean == pytest.approx(means.mean(axis=0))
    assert found.error == pytest.approx(means.std(axis=0, ddof=1) / np.sqrt(6))
    assert found.df == pytest.approx(5.0)
    ends = outcomes(
        found, Method(test="t"), families=[slice(at, at + 1) for at in range(3)], seeds=(), widths=np.inf
    )
    expected = [t_interval(column) for column in means.T]
    assert np.stack([ends.low, ends.high], axis=1) == pytest.approx(np.array(expected))


def test_a_unit_for_each_query_is_no_unit() -> None:
    values = np.random.default_rng(2).normal(size=(25, 2))
    found = ClusterSums.of(values, np.arange(25))
    assert found.error == pytest.approx(values.std(axis=0, ddof=1) / 5)
    assert found.design_effect == pytest.approx(1.0)
    assert found.sums == pytest.approx(values)
    assert found.skewness == pytest.approx(ClusterSums.of(values).skewness)


def test_error_and_degrees_of_freedom_are_those_of_the_matrices() -> None:
    """CR2 with symmetric square roots of I - H, and Satterthwaite for exchangeable values."""
    rng = np.random.default_rng(3)
    sizes = np.array([3, 7, 1, 12, 5])
    units = np.repeat(np.arange(5), sizes)
    n = units.size
    values = rng.normal(size=n) + rng.normal(size=5)[units]
    off, hat = values - values.mean(), np.full((n, n), 1 / n)
    variance, loads = 0.0, []
    for unit in range(5):
        own = np.flatnonzero(units == unit)
        roots, vectors = np.linalg.eigh(np.eye(own.size) - hat[np.ix_(own, own)])
        adjust = vectors @ np.diag(roots**-0.5) @ vectors.T
        variance += (adjust @ off[own]).sum() ** 2 / n**2
        loads.append((np.eye(n) - hat)[:, own] @ adjust @ np.ones(own.size) / n)
    found = ClusterSums.of(values[:, None], units)
    assert float(found.error[0]) == pytest.approx(np.sqrt(variance))
    totals = np.bincount(units, off)
    within = ((off**2).sum() - (totals**2 / sizes).sum()) / (n - 5)
    usual = (n - (sizes**2).sum() / n) / 4
    common = ((totals**2 / sizes).sum() / 4 - within) / usual  # the analysis of variance
    alike = common / (common + within)
    working = np.where(units[:, None] == units, alike, 0.0) + (1 - alike) * np.eye(n)
    roots = np.linalg.eigvalsh(np.array(loads) @ working @ np.array(loads).T)
    expected = roots.sum() ** 2 / (roots**2).sum()
    assert 0 < alike < 1
    assert float(found.df[0]) == pytest.approx(expected)


def test_flips_move_whole_units() -> None:
    """Four users, each with both of its differences alike: 2 of 16 patterns reach the sum, however many queries."""
    d = np.repeat([0.1, 0.2, 0.3, 0.4], 2)[:, None]
    flips = Method(test="permutation", unit="user")
    assert outcomes(
        ClusterSums.of(d, np.repeat(np.arange(4), 2)), flips, seeds=(), widths=np.inf
    ).p.tolist() == [2 / 16]
    assert outcomes(ClusterSums.of(d), Method(test="permutation"), seeds=(), widths=np.inf).p.tolist() == [
        2 / 256
    ]


@pytest.mark.long
@given(st.lists(st.integers(0, 4), min_size=2, max_size=30), st.floats(0.1, 10))
def test_the_mean_is_that_of_all_queries_and_scales(labels: list[int], factor: float) -> None:
    units = np.unique(labels, return_inverse=True)[1]
    values = np.sin(np.arange(len(labels)) + 1.0)[:, None]
    found, scaled = ClusterSums.of(values, units), ClusterSums.of(factor * values, units)
    assert float(found.mean[0]) == pytest.approx(float(values.mean()))
    assert float(found.sums.sum() / found.n[0]) == pytest.approx(float(values.mean()))
    if np.unique(units).size > 1:
        assert float(scaled.error[0]) == pytest.approx(factor * float(found.error[0]), rel=1e-6)
        assert float(scaled.df[0]) == pytest.approx(float(found.df[0]), rel=1e-6)
        assert 0 < float(found.df[0]) <= np.unique(units).size


def test_a_single_unit_has_no_error_and_undefined_queries_are_left_out() -> None:
    found = ClusterSums.of(np.array([[1.0], [2.0], [np.nan]]), np.array([0, 0, 1]))
    assert (found.mean.tolist(), found.units.tolist()) == ([1.5], [1])
    told = outcomes(found, Method(margin=1.0), seeds=(), widths=np.inf)
    assert np.isnan([found.error[0], found.t_p[0], told.p[0], told.p_equivalence[0], told.low[0]]).all()


@pytest.mark.long
def test_by_unit_the_mean_is_covered_and_by_query_it_is_not() -> None:
    by_unit, by_query = coverage("ten each", 20, 120)
    assert abs(by_unit - 0.95) < 0.035
    assert by_query < 0.8


@pytest.mark.slow
@pytest.mark.parametrize("n_units", [10, 20, 200])
@pytest.mark.parametrize("sizes", ["ten each", "lognormal", "Pareto(2)"])
def test_coverage_by_unit(sizes: str, n_units: int) -> None:
    """95 +- 1.5 %; the Monte Carlo error is 0.15 for ten units, whose intervals are wide, and 0.35 for many."""
    by_unit, by_query = coverage(sizes, n_units, max(200_000 // n_units, 4000))
    assert abs(by_unit - 0.95) <= 0.015
    assert by_query < 0.8


@pytest.mark.slow
@pytest.mark.parametrize("n_units", [50, 200])
@pytest.mark.parametrize("sizes", ["ten each", "lognormal", "Pareto(1.1)"])
def test_equal_models_are_called_different_in_one_case_of_twenty(sizes: str, n_units: int) -> None:
    """The default test over 1,500 pairs of models; the Monte Carlo error is 0.6."""
    rng = np.random.default_rng(n_units)
    called = 0
    for _ in range(1500):
        values, units = draw_clusters(sizes, n_units, rng)
        found = outcomes(ClusterSums.of(values[:, None], units), BY_USER, seeds=(), widths=np.inf)
        called += bool(found.p[0] < 0.05 and not found.low[0] < 0 < found.high[0])
    assert called / 1500 <= 0.065


def test_seeds_add_to_the_variance_of_units() -> None:
    """Ten units of ten queries, two seeds a side: the error is that of the units and what seeds add, as by query."""
    from ltr_harness.comparison.contrasts import Contrast, Sampling, SystemResult, over_seeds

    rng = np.random.default_rng(7)
    units = np.repeat(np.arange(10), 10)
    base = rng.normal(0, 0.1, 100)
    one = base + rng.normal(0, 0.1, 10)[units] + rng.normal(0, 0.02, (2, 1)) + rng.normal(0, 0.02, (2, 100))
    other = base + rng.normal(0, 0.02, (2, 1)) + rng.normal(0, 0.02, (2, 100))
    ids = np.arange(100).astype(str)
    cell = Contrast(
        *(
            SystemResult(name, ids, {"mrr": values}, ("1", "2"), {"mrr": True}, seeded=True)
            for name, values in (("one", one), ("other", other))
        ),
        "mrr",
    )
    d = cell.differences()[:, None]
    by_query = over_seeds(cell, ClusterSums.of(d), 0, Sampling())
    sample = ClusterSums.of(d, units)
    by_unit = over_seeds(cell, sample, 0, Sampling(units))
    assert by_query is not None
    assert by_unit is not None
    seeds = by_query.standard_error**2 - float(d.var(ddof=1)) / 100
    assert by_unit.standard_error**2 == pytest.approx(float(sample.error[0]) ** 2 + seeds)
    assert by_unit.standard_error > by_query.standard_error
    assert by_unit.df <= 9


def test_two_means_apart_are_welchs_where_every_query_is_a_unit() -> None:
    random = np.random.default_rng(3)
    one, other = random.exponential(size=(30, 1)), random.exponential(size=(90, 1))
    apart = LinearCombination((ClusterSums.of(one), ClusterSums.of(other)), (1.0, -1.0))
    oracle = ttest_ind(one[:, 0], other[:, 0], equal_var=False)
    found = outcomes(apart, Method(test="t"), seeds=(), widths=np.inf)
    assert (found.p[0], apart.df[0]) == pytest.approx((oracle.pvalue, oracle.df))
    assert (found.low[0], found.high[0]) == pytest.approx(oracle.confidence_interval(0.95))


def test_a_difference_is_skewed_by_unequal_numbers_of_skewed_units() -> None:
    """Poisson counts have mean = variance = third moment: 1 / sqrt(n) (n1 - n0) … of the difference, by hand."""
    random = np.random.default_rng(4)
    small, large = (ClusterSums.of(random.poisson(1, (n, 1)).astype(float)) for n in (2_000, 18_000))
    by_hand = (1 / 2_000**2 - 1 / 18_000**2) / (1 / 2_000 + 1 / 18_000) ** 1.5

    def skewness_of_difference(one: ClusterSums, other: ClusterSums) -> float:
        return float(LinearCombination((one, other), (1.0, -1.0)).skewness[0])

    assert skewness_of_difference(small, large) == pytest.approx(by_hand, rel=0.15)
    assert skewness_of_difference(large, small) == pytest.approx(-by_hand, rel=0.15)
    assert skewness_of_difference(small, small) == 0.0


def test_each_sample_has_its_own_skewness() -> None:
    """Version 0.2 took both arms for alike: the skewness of the one with the larger variance counted for the other."""
    skewed = ClusterSums.of(np.array([[0.0], [0.0], [0.0], [4.0]]))
    even = ClusterSums.of(np.array([[0.0], [4.0], [0.0], [4.0]]))
    third = (3 * (-1) ** 3 + 3**3) / 4**3 * (4 / 3) ** 1.5  # sum of cubes over n**3, small-sample factor
    variance = (3 * 1 + 9) / 3 / 4 + 16 / 3 / 4
    apart = LinearCombination((skewed, even), (1.0, -1.0))
    assert apart.skewness[0] == pytest.approx(third / variance**1.5)


def test_two_units_tested_by_hand() -> None:
    d, units = np.array([[1.0], [1.0], [0.0], [0.0]]), np.array([0, 0, 1, 1])
    method = Method(test="t", margin=1.0, confidence=0.5, unit="user_id")
    found = outcomes(ClusterSums.of(d, units), method, seeds=(), widths=np.inf)
    assert (found.p[0], found.p_corrected[0]) == pytest.approx((0.5, 0.5))  # one error off 0
    assert (found.low[0], found.high[0]) == pytest.approx(
        (0.0, 1.0), abs=T_ERROR
    )  # half lies within one error
    assert found.p_equivalence[0] == 1.0, "two units show no equivalence"


def test_six_units_show_equivalence_by_hand() -> None:
    """Mean 1/2 and error 1 / sqrt(20): the nearer end of a margin of 1 is sqrt(5) errors off, with 5 degrees."""
    d = np.array([[1.0], [1.0], [1.0], [0.0], [0.0], [0.0]])
    found = outcomes(ClusterSums.of(d), Method(test="t", margin=1.0), seeds=(), widths=np.inf)
    assert found.p_equivalence[0] == pytest.approx(2 * t.sf(5**0.5, 5))
    fewer = outcomes(ClusterSums.of(d[1:]), Method(test="t", margin=1.0), seeds=(), widths=np.inf)
    assert fewer.p_equivalence[0] == 1.0


def test_units_alike_have_no_error() -> None:
    one = ClusterSums.of(np.full((4, 1), 0.5), np.array([0, 0, 1, 1]))
    assert [float(part[0]) for part in (one.mean, one.error, one.df, one.skewness)] == [0.5, 0, 1, 0]
    assert (one.units.tolist(), np.isnan(one.design_effect[0])) == ([2], True)


def test_intervals_go_by_units_of_unlike_sizes() -> None:
    """Three users with 3, 1 and 1 queries: r = D - n mean = .75, -.5, -.25, each over 1 - n / 5."""
    d, units = np.array([[1.0], [0.5], [0.75], [0.0], [0.25]]), np.array([0, 0, 0, 1, 2])
    sample = ClusterSums.of(d, units)
    error = np.sqrt(0.75**2 / 0.4 + 0.5**2 / 0.8 + 0.25**2 / 0.8) / 5
    assert sample.error[0] == pytest.approx(error)
    found = outcomes(sample, Method(test="t", unit="user_id"), seeds=(), widths=np.inf)
    reach = t.ppf(0.975, sample.df[0]) * error
    assert (found.low[0], found.high[0]) == pytest.approx((0.5 - reach, 0.5 + reach))
