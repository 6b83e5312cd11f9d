"""Corrections within a family: by hand, invariants, family-wise error, simultaneous intervals."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ltr_harness.stats.corrections import bh, bonferroni, holm, max_t, uncorrected
from ltr_harness.stats.paired import paired_t_p, sign_flip_p

P_VALUES = st.lists(st.floats(1e-12, 1), min_size=1, max_size=40)


def test_holm_by_hand() -> None:
    # 0.01 x 4, 0.013 x 3 -> not below 0.04, 0.03 x 2, 0.2 x 1
    assert holm([0.03, 0.01, 0.2, 0.013]) == pytest.approx([0.06, 0.04, 0.2, 0.04])


def test_bh_as_scipy() -> None:
    p = np.random.default_rng(0).random(30) ** 2
    assert bh(p) == pytest.approx(stats.false_discovery_control(p), rel=1e-12)


@pytest.mark.parametrize("correct", [holm, bh, bonferroni, uncorrected])
def test_nan_is_no_member_of_the_family(correct: object) -> None:
    p = [0.01, np.nan, 0.04, np.nan, 0.03]
    found = correct(p)  # type: ignore[operator]
    assert np.isnan(found[[1, 3]]).all()
    assert found[[0, 2, 4]].tolist() == correct([0.01, 0.04, 0.03]).tolist()  # type: ignore[operator]


def test_empty_and_all_nan_families() -> None:
    for correct in (holm, bh, bonferroni, uncorrected):
        assert correct([]).size == 0
        assert np.isnan(correct([np.nan, np.nan])).all()


@pytest.mark.long
@given(P_VALUES)
def test_order_and_bounds(p: list[float]) -> None:
    raw = np.array(p)
    for correct in (holm, bh, bonferroni):
        found = correct(p)
        assert (found >= raw).all()
        assert (found <= 1).all()
        order = np.argsort(raw, kind="stable")
        assert (np.diff(found[order]) >= 0).all()
    assert (holm(p) <= bonferroni(p)).all()
    assert (bh(p) <= holm(p) + 1e-15).all()


def test_input_is_left_alone() -> None:
    p = np.array([0.01, 0.02])
    holm(p)
    assert p.tolist() == [0.01, 0.02]


class TestMaxT:
    def test_of_one_column_is_the_sign_flip_test(self) -> None:
        for n in (12, 80):
            d = np.random.default_rng(n).normal(0.25, 1, size=(n, 1))
            assert max_t(d).p.tolist() == sign_flip_p(d).tolist()

    @pytest.mark.long
    @pytest.mark.parametrize("confidence", [0.1, 0.6, 0.95])
    def test_by_student_t_of_every_sign_pattern(self, confidence: float) -> None:
        d = np.random.default_rng(7).normal(0.5, 1, size=(8, 3))
        d[:2, 1] = d[5, 2] = np.nan  # each column's t is that of its own defined queries

        def t_of(flipped: np.ndarray) -> np.ndarray:
            return np.abs(stats.ttest_1samp(flipped, 0, nan_policy="omit").statistic)

        largest = np.array([t_of(d * np.array(signs)[:, None]).max() for signs in product((1, -1), repeat=8)])
        found = max_t(d, confidence=confidence)
        assert found.p.tolist() == [np.mean(largest >= t - 1e-9) for t in t_of(d)]
        reached = [np.mean(largest >= t - 1e-9) for t in largest]
        insignificant = largest[np.array(reached) >= 1 - confidence - 1e-9]
        assert found.critical == pytest.approx(insignificant.max())

    def test_identical_columns_cost_nothing(self) -> None:
        column = np.random.default_rng(1).normal(0.2, 1, size=(100, 1))
        assert max_t(np.repeat(column, 10, axis=1)).p == pytest.approx(np.full(10, float(max_t(column).p[0])))

    def test_between_uncorrected_and_bonferroni(self) -> None:
        d = np.random.default_rng(2).normal(0.15, 1, size=(200, 8))
        p, found = sign_flip_p(d), max_t(d).p
        assert (found >= p - 1e-9).all()
        assert (found <= bonferroni(p) + 0.02).all()

    @pytest.mark.parametrize("n", [10, 60])
    def test_interval_excludes_zero_where_significant(self, n: int) -> None:
        d = np.random.default_rng(n).normal(0.0, 1, size=(n, 40)) + np.linspace(0, 1.2, 40)
        found = max_t(d, draws=999)
        significant = found.p < 0.05
        assert 0 < significant.sum() < 40
        assert ((found.low > 0) | (found.high < 0)).tolist() == significant.tolist()

    @pytest.mark.parametrize("reached", [2, 4, 6, 8])
    def test_interval_touches_zero_where_p_is_just_the_level(self, reached: int) -> None:
        """Of the 32 sign patterns of five queries, each |t| is reached by an even number."""
        rng = np.random.default_rng(reached)
        at_the_level = 0
        for _ in range(60):
            found = max_t(rng.normal(0.6, 1, size=(5, 1)), confidence=1 - reached / 32)
            excluded = bool(found.low[0] > 1e-12 or found.high[0] < -1e-12)
            assert excluded == (found.p[0] < reached / 32 - 1e-12)
            at_the_level += found.p[0] == reached / 32
        assert at_the_level

    def test_zeros_change_nothing(self) -> None:
        d = np.random.default_rng(5).normal(0.5, 1, size=(10, 1))
        assert max_t(np.concatenate([d, np.zeros((300, 1))])).p.tolist() == max_t(d).p.tolist()

    def test_no_difference_of_means_is_reached_by_every_draw(self) -> None:
        assert max_t(np.array([[1.0], [-1.0], [0.5], [-0.5]])).p.tolist() == [1.0]

    @pytest.mark.long
    def test_equal_differences_have_a_largest_t(self) -> None:
        """|sum| / sqrt(n sum of squares) is 1 there, and in the last digit often more: no root of a negative."""
        for n in range(2, 17):
            for value in (0.01, 0.15, 0.3, 0.7, 1 / 3):
                found = max_t(np.full((n, 1), value))
                assert found.p.tolist() == [2 / 2**n], (n, value)
                assert not np.isnan(found.critical)

    def test_ties_do_not_hang_on_rounding(self) -> None:
        d = np.array([0.1] * 12 + [-0.1] * 4)[:, None]
        noisy = d * (1 + 1e-14 * np.random.default_rng(0).normal(size=d.shape))
        reach = sum(stats.binom.pmf(k, 16, 0.5) for k in range(17) if abs(2 * k - 16) >= 8)
        assert max_t(d).p[0] == pytest.approx(reach, abs=1e-12)
        assert max_t(noisy).p[0] == pytest.approx(reach, abs=1e-12)

    def test_undefined_queries_and_columns(self) -> None:
        d = np.random.default_rng(3).normal(0.3, 1, size=(90, 3))
        d[:10, 1] = np.nan
        d[:, 2] = np.nan
        found = max_t(d)
        assert np.isnan([found.p[2], found.low[2], found.high[2]]).all()
        assert found.p[:2].tolist() == max_t(d[:, :2]).p.tolist()

    @pytest.mark.parametrize("n", [12, 90])
    def test_a_single_query_is_no_hypothesis(self, n: int) -> None:
        d = np.random.default_rng(4).normal(0.5, 1, size=(n, 3))
        d[:, 1] = [3.0] + [np.nan] * (n - 1)
        found, without = max_t(d), max_t(d[:, [0, 2]])
        assert np.isnan([found.p[1], found.low[1], found.high[1]]).all()
        assert found.p[[0, 2]].tolist() == without.p.tolist()
        assert found.low[[0, 2]] == pytest.approx(without.low)

    @pytest.mark.parametrize("n", [12, 90])
    def test_no_columns(self, n: int) -> None:
        assert max_t(np.empty((n, 0))).p.tolist() == []

    def test_all_zero(self) -> None:
        found = max_t(np.zeros((30, 2)))
        assert found.p.tolist() == [1.0, 1.0]
        assert found.low.tolist() == [0.0, 0.0]

    def test_too_few_draws_prove_nothing(self) -> None:
        found = max_t(np.random.default_rng(0).normal(5, 1, size=(50, 2)), draws=10)
        assert found.critical == np.inf
        assert (found.p >= 0.05).all()


def null_family(n: int, models: int, rng: np.random.Generator) -> np.ndarray:
    """Models that are exchangeable within each query, all against the first of them."""
    scores = np.where(rng.random((n, models)) < 0.4, 0.0, rng.beta(0.5, 1.5, (n, models)))
    return scores[:, 1:] - scores[:, :1]


def family_wise_error(n: int, comparisons: int, seed: int) -> tuple[float, float]:
    rng = np.random.default_rng(seed)
    families = [null_family(n, 6, rng) for _ in range(comparisons)]
    p = sign_flip_p(np.concatenate(families, axis=1), draws=2000).reshape(comparisons, 5)
    by_holm = np.mean([holm(row).min() < 0.05 for row in p])
    by_max_t = np.mean([max_t(family, draws=400).p.min() < 0.05 for family in families[:500]])
    return float(by_holm), float(by_max_t)


@pytest.mark.long
def test_family_wise_error() -> None:
    by_holm, by_max_t = family_wise_error(100, 1000, 21)
    assert by_holm <= 0.06
    assert by_max_t <= 0.08  # of 500: 5 % and three standard errors


@pytest.mark.slow
@pytest.mark.parametrize("n", [50, 500])
def test_family_wise_error_of_2000(n: int) -> None:
    by_holm, _ = family_wise_error(n, 2000, n)
    assert by_holm <= 0.06


@pytest.mark.long
def test_simultaneous_intervals_cover_together() -> None:
    rng = np.random.default_rng(5)
    covered = 0
    for _ in range(300):
        d = rng.normal(0.3, 1, size=(60, 5)) + rng.normal(0, 1, size=(60, 1))
        found = max_t(d, draws=400)
        covered += bool(np.all((found.low <= 0.3) & (found.high >= 0.3)))
    assert covered / 300 >= 0.91
    assert np.mean(paired_t_p(rng.normal(0, 1, size=(60, 300))) < 0.05) < 0.1


def test_columns_without_any_difference_take_nothing_from_the_others() -> None:
    d = np.array([0.25, 0.5, 0.25, 0.75, 0.5, -0.25, 0.5, 0.25])[:, None]
    single = np.r_[1.0, np.full(7, np.nan)][:, None]  # of one value there is no t
    alone, beside = max_t(d), max_t(np.hstack([d, np.zeros((8, 1)), single]))
    assert 0 < alone.p[0] < 0.05
    assert beside.p[:2].tolist() == [alone.p[0], 1.0]
    assert np.isnan(beside.p[2])
    assert beside.low[0] == alone.low[0]


def test_queries_without_a_difference_add_nothing_to_the_others() -> None:
    d = np.array([0.25, 0.5, 0.25, 0.75, 0.5, -0.25, 0.5, 0.25])[:, None]
    gaps = max_t(np.vstack([d, np.full((3, 1), np.nan)]))
    assert gaps.critical == pytest.approx(max_t(d).critical)
    assert gaps.low == pytest.approx(max_t(d).low)
