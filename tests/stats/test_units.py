"""Means by unit: by hand, against the matrices of the textbook, and what the intervals cover."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_ind

from ltr_harness.stats.by_unit import outcomes_by_unit
from ltr_harness.stats.intervals import t_interval
from ltr_harness.stats.method import Method
from ltr_harness.stats.paired import detectable_difference, sign_flip_p
from ltr_harness.stats.units import unit_means, unit_totals, units_apart


def drawn(sizes: str, n_units: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
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


def covered(sizes: str, n_units: int, samples: int) -> tuple[float, float]:
    """The share of 95 % intervals that hold the mean: by unit, and by query."""
    rng = np.random.default_rng(n_units)
    by_unit = by_query = 0
    for _ in range(samples):
        values, units = drawn(sizes, n_units, rng)
        low, high = unit_means(values[:, None], units).interval(0.95, adjusted=True)
        by_unit += bool(low[0] < 0 < high[0])
        low, high = t_interval(values)
        by_query += bool(low < 0 < high)
    return by_unit / samples, by_query / samples


def test_units_of_one_size_are_their_means() -> None:
    """Then the mean of all values is that of the units' means, and its error theirs."""
    values = np.random.default_rng(1).normal(size=(60, 3))
    units = np.arange(60) % 6
    found = unit_means(values, units)
    means = np.stack([values[units == unit].mean(axis=0) for unit in range(6)])
    assert found.mean == pytest.approx(means.mean(axis=0))
    assert found.error == pytest.approx(means.std(axis=0, ddof=1) / np.sqrt(6))
    assert found.freedom == pytest.approx(5.0)
    assert np.stack(found.interval(0.95, adjusted=False)) == pytest.approx(np.stack(t_interval(means)))


def test_a_unit_for_each_query_is_no_unit() -> None:
    values = np.random.default_rng(2).normal(size=(25, 2))
    found = unit_means(values, np.arange(25))
    assert found.error == pytest.approx(values.std(axis=0, ddof=1) / 5)
    assert found.design_effect == pytest.approx(1.0)
    assert unit_totals(values, np.arange(25)) == pytest.approx(values)
    assert found.detectable(0.02) == pytest.approx(detectable_difference(values, alpha=0.02))


def test_error_and_degrees_of_freedom_are_those_of_the_matrices() -> None:
    """CR2 with symmetric square roots of I - H, and Satterthwaite for exchangeable values."""
    from ltr_harness.stats.two_samples import correlation_within, satterthwaite

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
    found = unit_means(values[:, None], units)
    assert float(found.error[0]) == pytest.approx(np.sqrt(variance))
    alike = correlation_within(np.bincount(units, off), off, sizes.astype(np.float64))
    working = np.where(units[:, None] == units, alike, 0.0) + (1 - alike) * np.eye(n)
    roots = np.linalg.eigvalsh(np.array(loads) @ working @ np.array(loads).T)
    expected = roots.sum() ** 2 / (roots**2).sum()
    assert 0 < alike < 1
    assert float(found.freedom[0]) == pytest.approx(expected)
    assert satterthwaite(sizes.astype(np.float64), sizes * (1 + (sizes - 1) * alike)) == pytest.approx(
        expected
    )


def test_flips_move_whole_units() -> None:
    """Four users, each with both of its differences alike: 2 of 16 patterns reach the sum, however many queries."""
    d = np.repeat([0.1, 0.2, 0.3, 0.4], 2)[:, None]
    found = outcomes_by_unit(
        d,
        np.array([np.inf]),
        [slice(0, 1)],
        Method(test="permutation", unit="user"),
        np.repeat(np.arange(4), 2),
    )
    assert found.p.tolist() == [2 / 16]
    assert sign_flip_p(d).tolist() == [2 / 256]


@pytest.mark.long
@given(st.lists(st.integers(0, 4), min_size=2, max_size=30), st.floats(0.1, 10))
def test_the_mean_is_that_of_all_queries_and_scales(labels: list[int], factor: float) -> None:
    units = np.unique(labels, return_inverse=True)[1]
    values = np.sin(np.arange(len(labels)) + 1.0)[:, None]
    found, scaled = unit_means(values, units), unit_means(factor * values, units)
    assert float(found.mean[0]) == pytest.approx(float(values.mean()))
    assert float(np.nanmean(unit_totals(values, units))) == pytest.approx(float(values.mean()))
    if np.unique(units).size > 1:
        assert float(scaled.error[0]) == pytest.approx(factor * float(found.error[0]), rel=1e-6)
        assert float(scaled.freedom[0]) == pytest.approx(float(found.freedom[0]), rel=1e-6)
        assert 0 < float(found.freedom[0]) <= np.unique(units).size


def test_a_single_unit_has_no_error_and_undefined_queries_are_left_out() -> None:
    found = unit_means(np.array([[1.0], [2.0], [np.nan]]), np.array([0, 0, 1]))
    assert (found.mean.tolist(), found.units.tolist()) == ([1.5], [1])
    assert np.isnan([found.error[0], found.freedom[0], found.p()[0], found.equivalence_p(1.0)[0]]).all()
    assert np.isnan(unit_totals(np.array([[1.0], [np.nan]]), np.array([0, 1]))[1, 0])


@pytest.mark.long
def test_by_unit_the_mean_is_covered_and_by_query_it_is_not() -> None:
    by_unit, by_query = covered("ten each", 20, 400)
    assert abs(by_unit - 0.95) < 0.035
    assert by_query < 0.8


@pytest.mark.slow
@pytest.mark.parametrize("n_units", [10, 20, 200])
@pytest.mark.parametrize("sizes", ["ten each", "lognormal", "Pareto(2)"])
def test_coverage_by_unit(sizes: str, n_units: int) -> None:
    """95 +- 1.5 %; the Monte Carlo error of 4,000 samples is 0.35."""
    by_unit, by_query = covered(sizes, n_units, 4000)
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
        values, units = drawn(sizes, n_units, rng)
        found = outcomes_by_unit(
            values[:, None], np.array([np.inf]), [slice(0, 1)], Method(draws=500, unit="user"), units
        )
        called += bool(found.p[0] < 0.05 and not found.low[0] < 0 < found.high[0])
    assert called / 1500 <= 0.065


def test_seeds_add_to_the_variance_of_units() -> None:
    """Ten units of ten queries, two seeds a side: the error is that of the units and what seeds add, as by query."""
    from ltr_harness.stats.by_unit import seeds_by_unit
    from ltr_harness.stats.seeds import method_difference

    rng = np.random.default_rng(7)
    units = np.repeat(np.arange(10), 10)
    base = rng.normal(0, 0.1, 100)
    one = base + rng.normal(0, 0.1, 10)[units] + rng.normal(0, 0.02, (2, 1)) + rng.normal(0, 0.02, (2, 100))
    other = base + rng.normal(0, 0.02, (2, 1)) + rng.normal(0, 0.02, (2, 100))
    d = (one.mean(axis=0) - other.mean(axis=0))[:, None]
    by_query = method_difference(one, other)
    (by_unit,) = seeds_by_unit([by_query], d, units)
    assert by_query is not None
    assert by_unit is not None
    seeds = by_query.standard_error**2 - float(d.var(ddof=1)) / 100
    assert by_unit.standard_error**2 == pytest.approx(float(unit_means(d, units).error[0]) ** 2 + seeds)
    assert by_unit.standard_error > by_query.standard_error
    assert by_unit.freedom <= 9
    assert seeds_by_unit([by_query], d, None) == [by_query]


def test_two_means_apart_are_welchs_where_every_query_is_a_unit() -> None:
    random = np.random.default_rng(3)
    one, other = random.exponential(size=(30, 1)), random.exponential(size=(90, 1))
    apart = units_apart(unit_means(one, np.arange(30)), unit_means(other, np.arange(90)))
    oracle = ttest_ind(one[:, 0], other[:, 0], equal_var=False)
    assert (apart.p()[0], apart.freedom[0]) == pytest.approx((oracle.pvalue, oracle.df))
    low, high = apart.interval(0.95, adjusted=False)
    assert (low[0], high[0]) == pytest.approx(oracle.confidence_interval(0.95))
    assert apart.design_effect[0] == pytest.approx(1.0)


def test_a_difference_is_skewed_by_unequal_numbers_of_skewed_units() -> None:
    """Poisson counts have mean = variance = third moment: 1 / sqrt(n) (n1 - n0) … of the difference, by hand."""
    random = np.random.default_rng(4)
    small, large = (
        unit_means(random.poisson(1, (n, 1)).astype(float), np.arange(n)) for n in (2_000, 18_000)
    )
    by_hand = (1 / 2_000**2 - 1 / 18_000**2) / (1 / 2_000 + 1 / 18_000) ** 1.5
    assert units_apart(small, large).skewness[0] == pytest.approx(by_hand, rel=0.15)
    assert units_apart(large, small).skewness[0] == pytest.approx(-by_hand, rel=0.15)
    assert units_apart(small, small).skewness[0] == 0.0


def test_equivalence_of_two_units_by_hand() -> None:
    """A mean of .5 with an error of .5 and one degree of freedom, Cauchy's: one or three errors off the margin."""
    one = unit_means(np.array([[1.0], [1.0], [0.0], [0.0]]), np.array([0, 0, 1, 1]))
    assert one.equivalence_p(1.0) == pytest.approx([1 / 4])
    assert one.equivalence_p(2.0) == pytest.approx([1 / 2 - np.arctan(3) / np.pi])
    assert one.equivalence_p(0.5) == pytest.approx([1 / 2])


def test_two_units_tested_by_hand() -> None:
    d, units = np.array([[1.0], [1.0], [0.0], [0.0]]), np.array([0, 0, 1, 1])
    method = Method(test="t", interval="t", correction="none", margin=1.0, confidence=0.5, unit="user_id")
    found = outcomes_by_unit(d, np.array([1.0]), [slice(0, 1)], method, units)
    assert (found.p[0], found.p_corrected[0]) == pytest.approx((0.5, 0.5))  # one error off 0
    assert (found.low[0], found.high[0]) == pytest.approx((0.0, 1.0))  # half lies within one error
    assert found.p_equivalence[0] == pytest.approx(2 * 0.25)


def test_units_alike_have_no_error() -> None:
    one = unit_means(np.full((4, 1), 0.5), np.array([0, 0, 1, 1]))
    assert [float(part[0]) for part in (one.mean, one.error, one.freedom, one.skewness)] == [0.5, 0, 1, 0]
    assert (one.units.tolist(), np.isnan(one.design_effect[0])) == ([2], True)


def test_intervals_go_by_units_of_unlike_sizes() -> None:
    """The t interval of the units' totals would be another one."""
    d, units = np.array([[1.0], [0.5], [0.75], [0.0], [0.25]]), np.array([0, 0, 0, 1, 2])
    method = Method(test="t", interval="t", correction="none", unit="user_id")
    found, means = outcomes_by_unit(d, np.array([1.0]), [slice(0, 1)], method, units), unit_means(d, units)
    assert (found.low, found.high) == means.interval(0.95, adjusted=False)
    totals = t_interval(unit_totals(d, units)[:, 0], 0.95)
    assert found.low[0] != pytest.approx(float(totals[0]))
    assert found.detectable.tolist() == means.detectable(0.05).tolist()
