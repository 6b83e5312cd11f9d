"""Tukey's test over all pairs, with queries as blocks."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from ltr_harness.stats.blocked_tukey import blocked_tukey
from ltr_harness.stats.intervals import t_interval
from ltr_harness.stats.paired import paired_t_p
from ltr_harness.stats.studentized_range import studentized_range_quantile, studentized_range_sf


@pytest.fixture(scope="module")
def values() -> np.ndarray:
    """Queries that differ a lot, rankers that differ a little."""
    rng = np.random.default_rng(0)
    return rng.normal(0, 1, size=(60, 1)) + rng.normal(0, 0.1, size=(60, 4)) + [0.0, 0.0, 0.03, 0.08]


def test_blocks_remove_what_queries_differ_by(values: np.ndarray) -> None:
    unpaired = stats.tukey_hsd(*values.T)
    blocked = blocked_tukey(values)
    assert unpaired.pvalue[0, 3] > 0.5
    assert blocked.p[0, 3] < 0.01
    assert blocked.difference[3, 0] == pytest.approx(np.mean(values[:, 3] - values[:, 0]))


def test_by_the_formula(values: np.ndarray) -> None:
    n, k = values.shape
    fitted = values.mean(axis=1, keepdims=True) + values.mean(axis=0) - values.mean()
    error = np.sqrt(((values - fitted) ** 2).sum() / ((n - 1) * (k - 1)) / n)
    q = abs(values[:, 3].mean() - values[:, 0].mean()) / error
    found = blocked_tukey(values)
    assert found.p[0, 3] == pytest.approx(stats.studentized_range.sf(q, k, (n - 1) * (k - 1)), rel=1e-9)
    assert found.low[0, 3] <= found.difference[0, 3] <= found.high[0, 3]
    assert found.low[0, 3] == pytest.approx(-found.high[3, 0])


def test_two_rankers_are_the_paired_t_test(values: np.ndarray) -> None:
    two = values[:, [0, 3]]
    assert blocked_tukey(two).p[0, 1] == pytest.approx(float(paired_t_p(two[:, 1] - two[:, 0])), rel=1e-9)


def test_only_whole_queries_count(values: np.ndarray) -> None:
    holed = np.concatenate([values, values[:3]])
    holed[[60, 61, 62], [0, 1, 2]] = np.nan
    found = blocked_tukey(holed)
    assert (found.n_queries, found.n_dropped) == (60, 3)
    assert np.array_equal(found.p, blocked_tukey(values).p, equal_nan=True)


def test_little_to_go_by() -> None:
    assert np.isnan(blocked_tukey(np.array([[1.0, 2.0]])).p).all()
    same = blocked_tukey(np.repeat(np.arange(5.0)[:, None], 3, axis=1))
    assert same.p[0, 1] == pytest.approx(1.0)
    shifted = blocked_tukey(np.add.outer(np.arange(5.0), [0.0, 0.1]))
    assert 0 < shifted.p[0, 1] < 1e-100


def test_no_whole_query_says_nothing() -> None:
    found = blocked_tukey(np.array([[1.0, np.nan], [np.nan, 2.0]]))
    assert (found.n_queries, found.n_dropped) == (0, 2)
    for matrix in (found.difference, found.p, found.low, found.high):
        assert np.isnan(matrix).all()


def test_two_queries_of_two_rankers_are_enough() -> None:
    two = np.array([[0.1, 0.2], [0.3, 0.7]])
    assert blocked_tukey(two).p[0, 1] == pytest.approx(float(paired_t_p(two[:, 1] - two[:, 0])), rel=1e-9)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_rankers_that_differ_by_constants_differ_by_exactly_these(scale: float) -> None:
    found = blocked_tukey(scale * np.add.outer(np.arange(9.0), [0.0, 0.1, 1 / 3]))
    assert np.isnan(found.p.diagonal()).all()
    apart = ~np.eye(3, dtype=bool)
    assert (found.p[apart] < 1e-300).all()
    assert (found.low[apart] == found.difference[apart]).all()
    assert (found.high[apart] == found.difference[apart]).all()


@pytest.mark.long
def test_many_rankers() -> None:
    values = np.random.default_rng(1).normal(size=(200, 40))
    found = blocked_tukey(values)
    assert np.count_nonzero(~np.isnan(found.p)) == 40 * 39
    assert np.nanmin(found.p) > 0


@pytest.mark.long
@pytest.mark.parametrize(("k", "freedom"), [(2, 5), (3, 2), (4, 177), (10, 441), (40, 7761)])
def test_studentized_range_as_scipy(k: int, freedom: int) -> None:
    q = np.array([0.5, 2.0, 3.0, 4.0, 5.0])
    oracle = stats.studentized_range.sf(q, k, freedom)
    assert studentized_range_sf(q, k, freedom) == pytest.approx(oracle, rel=1e-7)
    quantile = studentized_range_quantile(0.05, k, freedom)
    assert quantile == pytest.approx(stats.studentized_range.ppf(0.95, k, freedom), rel=1e-5)


def test_studentized_range_of_two_is_t_far_into_the_tail() -> None:
    q = np.array([0.0, 1.0, 8.0, 20.0])
    exact = 2 * stats.t.sf(q / np.sqrt(2), 59)
    assert studentized_range_sf(q, 2, 59) == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("p", [1e-9, 0.05, 0.99])
@pytest.mark.parametrize(("k", "freedom"), [(2, 1), (3, 2), (10, 441), (100, 7)])
def test_the_quantile_is_exceeded_with_its_probability_to_the_last_digits(
    p: float, k: int, freedom: int
) -> None:
    q = studentized_range_quantile(p, k, freedom)
    assert studentized_range_sf(np.array([q]), k, freedom)[0] == pytest.approx(p, rel=1e-11)


@pytest.mark.parametrize("k", range(2, 40, 3))
def test_no_range_is_certain_to_be_exceeded(k: int) -> None:
    assert 1 - 1e-12 < studentized_range_sf(np.zeros(1), k, 30)[0] <= 1.0


def test_studentized_range_with_one_degree_of_freedom() -> None:
    # The range of two over s is sqrt(2) |t|, and t with one degree of freedom is Cauchy's.
    assert studentized_range_quantile(0.01, 2, 1) == pytest.approx(
        np.sqrt(2) * stats.t.ppf(0.995, 1), rel=1e-6
    )
    assert 0 < float(studentized_range_sf(np.array([np.inf]), 3, 4)[0]) < 1e-300


@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_the_interval_of_two_rankers_is_that_of_the_paired_t_test(confidence: float) -> None:
    values = np.random.default_rng(9).normal(size=(25, 2))
    found = blocked_tukey(values, confidence)
    low, high = t_interval(values[:, 1] - values[:, 0], confidence)
    assert found.low[1, 0] == pytest.approx(float(low), abs=1e-6)
    assert found.high[1, 0] == pytest.approx(float(high), abs=1e-6)
    assert (found.low[0, 1], found.high[0, 1]) == pytest.approx((-float(high), -float(low)), abs=1e-6)
    assert np.isnan(found.low.diagonal()).all()


def test_the_interval_excludes_zero_where_p_is_small() -> None:
    values = np.random.default_rng(10).normal(size=(40, 5)) + np.linspace(0, 1.2, 5)
    found = blocked_tukey(values, 0.9)
    apart = ~np.eye(5, dtype=bool)
    significant = found.p[apart] < 0.1
    assert 0 < significant.sum() < significant.size
    assert ((found.low[apart] > 0) | (found.high[apart] < 0)).tolist() == significant.tolist()
