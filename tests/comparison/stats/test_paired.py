"""Tests and sizes of paired differences: by hand, against scipy, against published numbers."""

from __future__ import annotations

import csv
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from threadpoolctl import threadpool_info, threadpool_limits

from ltr_harness.comparison.stats.cluster_sums import (
    ClusterSums,
    moments,
    paired_differences,
    win_tie_loss,
)
from ltr_harness.comparison.stats.families import outcomes
from ltr_harness.comparison.stats.method import Method, Test
from tests.conftest import examples

A = np.array([1 / 2, 1 / 3, 1 / 2, 1 / 3])
B = np.array([1, 1 / 10, 1, 1 / 15])


def p_of(d: np.ndarray, test: Test, **options: int) -> np.ndarray:
    method = Method(test=test, **options)  # type: ignore[arg-type]
    return outcomes(ClusterSums.of(d.reshape(len(d), -1)), method, seeds=(), widths=np.inf).p.reshape(
        d.shape[1:]
    )


def sign_flip_p(d: np.ndarray, **options: int) -> np.ndarray:
    return p_of(d, "permutation", **options)


def paired_t_p(d: np.ndarray) -> np.ndarray:
    return p_of(d, "t")


def bootstrap_p(d: np.ndarray, **options: int) -> np.ndarray:
    return p_of(d, "bootstrap", **options)


ALL_P = [sign_flip_p, paired_t_p, bootstrap_p]


@pytest.fixture(scope="module")
def adhoc(shared_data: Path) -> np.ndarray:
    """Differences of average precision of two TREC-8 systems, whose p-values independent software published."""
    with open(shared_data / "reference" / "topic_scores" / "adhoc8_ap.csv", newline="") as stream:
        rows = list(csv.reader(stream))[1:]
    return np.array([float(row[124]) - float(row[125]) for row in rows])


class TestPublished:
    def test_t(self, adhoc: np.ndarray) -> None:
        assert float(paired_t_p(adhoc)) == pytest.approx(0.0013193972, abs=5e-11)
        assert float(paired_t_p(adhoc)) / 2 == pytest.approx(0.0006596986, abs=5e-11)

    @pytest.mark.long
    def test_permutation_within_monte_carlo_error(self, adhoc: np.ndarray) -> None:
        draws = 1_000_000
        p = float(sign_flip_p(adhoc, draws=draws))
        error = np.sqrt(2 * 0.001188 / draws)  # both sides drew a million
        assert abs(p - 0.001188) < 4 * error


class TestSignFlip:
    def test_reciprocal_ranks_by_hand(self) -> None:
        d = B - A
        assert float(d.mean()) == pytest.approx(0.125)
        sums = [
            abs(sum(sign * x for sign, x in zip(signs, d, strict=True)))
            for signs in product((1, -1), repeat=4)
        ]
        assert sum(total >= 0.5 - 1e-9 for total in sums) == 12
        assert float(sign_flip_p(d)) == 12 / 16

    @pytest.mark.long
    @pytest.mark.parametrize("n", [2, 5, 11])
    def test_exact_for_few(self, n: int) -> None:
        d = np.random.default_rng(n).normal(0.3, 1, n)
        oracle = stats.permutation_test(
            (d, np.zeros(n)),
            lambda x, y, axis: np.mean(x - y, axis=axis),
            permutation_type="samples",
            n_resamples=np.inf,
            vectorized=True,
        )
        assert float(sign_flip_p(d)) == pytest.approx(oracle.pvalue, abs=1e-12)

    def test_smallest_exact_p_is_the_two_extreme_patterns(self) -> None:
        assert float(sign_flip_p(np.arange(1.0, 17.0))) == 2 / 2**16

    @pytest.mark.long
    def test_sampled_agrees_with_exact(self) -> None:
        d = np.random.default_rng(3).normal(0.4, 1, 17)
        signs = 1 - 2 * (np.arange(2**17)[:, None] >> np.arange(17) & 1)
        sums = signs @ d
        exact = np.mean(np.abs(sums) >= abs(d.sum()) - 1e-9)
        assert abs(float(sign_flip_p(d, draws=200_000)) - exact) < 4 * np.sqrt(exact / 200_000)

    def test_never_zero_and_counts_the_observed_one(self) -> None:
        assert float(sign_flip_p(np.ones(500) + np.arange(500) / 500)) == 1 / 10_001
        assert float(sign_flip_p(np.ones(500) + np.arange(500) / 500, draws=999)) == 1 / 1000

    def test_zeros_change_nothing(self) -> None:
        d = np.random.default_rng(5).normal(0.5, 1, 10)
        assert float(sign_flip_p(np.concatenate([d, np.zeros(300)]))) == float(sign_flip_p(d))

    def test_all_zero_is_one(self) -> None:
        assert float(sign_flip_p(np.zeros(100))) == 1.0

    def test_ties_of_sums_do_not_hang_on_rounding(self) -> None:
        # Every |sum| of an even number of equal differences is a multiple of 2 x 0.1: exact ties everywhere.
        d = np.array([0.1] * 12 + [-0.1] * 4)
        noisy = d * (1 + 1e-14 * np.random.default_rng(0).normal(size=16))
        reach = sum(stats.binom.pmf(k, 16, 0.5) for k in range(17) if abs(2 * k - 16) >= 8)
        assert float(sign_flip_p(d)) == pytest.approx(reach, abs=1e-12)
        assert float(sign_flip_p(noisy)) == pytest.approx(reach, abs=1e-12)

    def test_sampled_ties_of_sums(self) -> None:
        d = np.array([0.1] * 60 + [-0.1] * 40)
        thirds = d / 3 + 1e-15
        assert float(sign_flip_p(d)) == float(sign_flip_p(thirds))
        exact = 2 * stats.binom.sf(59, 100, 0.5)
        assert abs(float(sign_flip_p(d)) - exact) < 4 * np.sqrt(exact / 10_000)

    @pytest.mark.long
    def test_other_columns_change_nothing(self) -> None:
        d = np.random.default_rng(1).normal(0.05, 1, size=(400, 7))
        together = sign_flip_p(d)
        alone = [float(sign_flip_p(column)) for column in d.T]
        assert together.tolist() == alone

    def test_seed(self) -> None:
        d = np.random.default_rng(1).normal(0.05, 1, size=400)
        assert float(sign_flip_p(d, seed=1)) == float(sign_flip_p(d, seed=1))
        assert float(sign_flip_p(d, seed=1)) != float(sign_flip_p(d, seed=2))

    @pytest.mark.long
    def test_block_size_changes_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        d = np.random.default_rng(1).normal(0.05, 1, size=(301, 3))
        before = sign_flip_p(d).tolist(), bootstrap_p(d).tolist()
        monkeypatch.setattr("ltr_harness.comparison.stats.reference._BLOCK_VALUES", 7_000)
        assert (sign_flip_p(d).tolist(), bootstrap_p(d).tolist()) == before

    @pytest.mark.long
    def test_any_number_of_threads(self) -> None:
        rng = np.random.default_rng(0)
        d = 1 / rng.integers(1, 12, (2000, 40)) - 1 / rng.integers(1, 12, (2000, 40))
        found = set()
        for threads in (1, 2, 3):
            with threadpool_limits(threads, user_api="blas"):
                pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
                assert {pool["num_threads"] for pool in pools} == {threads}
                p = p_of(d, "skew-adjusted", draws=500), p_of(d, "permutation", draws=500)
                found.add(np.stack(p).tobytes())
        assert len(found) == 1

    @pytest.mark.long
    @examples(50)
    @given(st.lists(st.floats(-1, 1), min_size=2, max_size=12))
    def test_properties(self, values: list[float]) -> None:
        d = paired_differences(np.array(values), np.zeros(len(values)))
        p = float(sign_flip_p(d))
        assert 2.0 ** (1 - len(values)) <= p <= 1
        assert p == float(sign_flip_p(-d)) == float(sign_flip_p(d[::-1])) == float(sign_flip_p(d * 4))


class TestOthers:
    @pytest.fixture
    def d(self) -> np.ndarray:
        return np.random.default_rng(8).normal(0.1, 1, size=(120, 4)).round(1)

    def test_t_as_scipy(self, d: np.ndarray) -> None:
        assert paired_t_p(d) == pytest.approx(stats.ttest_1samp(d, 0).pvalue, rel=1e-12)

    def test_bootstrap_close_to_t(self, d: np.ndarray) -> None:
        assert bootstrap_p(d) == pytest.approx(paired_t_p(d), abs=0.02)

    def test_effect_size_by_hand(self) -> None:
        assert float(moments(np.array([1.0, 2.0, 3.0])).effect_size) == 2.0  # mean 2, sd 1
        assert float(moments(np.zeros(3)).effect_size) == 0.0
        assert float(moments(np.full(3, 0.1)).effect_size) == np.inf

    def test_win_tie_loss_has_a_tolerance(self) -> None:
        d = np.array([1 / 3 + 1 / 3 - 2 / 3 + 1e-16, 5e-10, 2e-9, -0.5])
        assert [int(count) for count in win_tie_loss(d)] == [1, 2, 1]

    def test_each_column_of_the_bootstrap_has_its_own_unit(self) -> None:
        d = np.random.default_rng(6).normal(0.1, 1, 50)
        assert bootstrap_p(np.column_stack([d, d * 1e9])).tolist() == [float(bootstrap_p(d))] * 2

    def test_rounding_noise_is_no_difference(self) -> None:
        one = np.random.default_rng(0).random(200)
        d = paired_differences(one * (1 + 1e-15), one)
        assert [float(test(d)) for test in ALL_P] == [1.0] * 3

    def test_a_difference_of_just_the_tolerance_is_none(self) -> None:
        one, other = np.array([0.5, 0.5, 0.25]), np.array([0.25, 0.0, 0.5])
        assert paired_differences(one, other, tolerance=0.25).tolist() == [0.0, 0.5, 0.0]
        assert [int(count) for count in win_tie_loss(one - other, tolerance=0.25)] == [1, 2, 0]

    @pytest.mark.parametrize("test", ALL_P)
    def test_undefined_queries_are_left_out_of_their_column_only(self, test: object) -> None:
        d = np.random.default_rng(2).normal(0.2, 1, size=(60, 3))
        whole = test(d)  # type: ignore[operator]
        padded = np.concatenate([d, np.full((40, 3), np.nan)])
        p = test(padded)  # type: ignore[operator]
        assert p == pytest.approx(whole, rel=1e-12 if test is paired_t_p else 0.5)
        d[:, 1] = np.nan
        p = test(d)  # type: ignore[operator]
        assert np.isnan(p[1])
        assert p[[0, 2]].tolist() == whole[[0, 2]].tolist()

    @pytest.mark.long
    def test_p_is_never_zero(self) -> None:
        for n in (1, 2, 30, 200):
            d = np.full(n, 0.25) + np.arange(n) * 1e-6
            for test in ALL_P:
                p = float(test(d))
                assert p > 0 or (np.isnan(p) and n == 1), (test, n)


class TestLevel:
    """Under exchangeable systems the 5 % test rejects in 5 % of comparisons."""

    @staticmethod
    def exchangeable(n: int, comparisons: int, seed: int) -> np.ndarray:
        """Differences of skewed, zero-inflated scores whose two systems are swapped at random per query."""
        rng = np.random.default_rng(seed)
        one, other = (
            np.where(rng.random((n, comparisons)) < 0.4, 0.0, rng.beta(0.5, 1.5, (n, comparisons)))
            for _ in range(2)
        )
        swap = rng.random((n, comparisons)) < 0.5
        return np.where(swap, one - other, other - one)

    @pytest.mark.long
    @pytest.mark.parametrize("n", [50, 150])
    def test_level(self, n: int) -> None:
        d = self.exchangeable(n, 2000, n)
        for p in (paired_t_p(d), sign_flip_p(d, draws=1_000)):
            assert abs(np.mean(p < 0.05) - 0.05) < 0.015

    @pytest.mark.slow
    @pytest.mark.parametrize("n", [50, 500])
    @pytest.mark.parametrize("seed", range(5))
    def test_level_at_full_draws(self, n: int, seed: int) -> None:
        p = sign_flip_p(self.exchangeable(n, 2000, 100 + seed))
        assert abs(np.mean(p < 0.05) - 0.05) < 0.015

    @pytest.mark.slow
    def test_asymmetric_differences_hold_no_level_when_few(self) -> None:
        """Measured, not bounded: 60 % zeros, else exponential, centred; what `Comparison` warns of."""
        rng = np.random.default_rng(9)
        n = 50
        d = np.where(rng.random((n, 4000)) < 0.6, 0.0, rng.exponential(1, (n, 4000))) - 0.4
        rejected = np.mean(sign_flip_p(d, draws=2_000) < 0.05)
        assert 0.06 < rejected < 0.12


def test_two_differences_have_one_degree_of_freedom() -> None:
    """.1 and .3: t = .2 / .1 of Cauchy's distribution."""
    assert float(paired_t_p(np.array([0.1, 0.3]))) == pytest.approx(1 - 2 / np.pi * np.arctan(2))
