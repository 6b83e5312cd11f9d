"""Corrections within a family: by hand, invariants, family-wise error."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltr_harness.comparison.stats.cluster_sums import ClusterSums
from ltr_harness.comparison.stats.families import outcomes
from ltr_harness.comparison.stats.method import Method
from ltr_harness.errors import UsageError
from ltr_harness.monitoring.stats.several_samples import bonferroni

P_VALUES = st.lists(st.floats(1e-12, 1), min_size=1, max_size=40)


def test_nan_is_no_member_of_the_family() -> None:
    p = [0.01, np.nan, 0.04, np.nan, 0.03]
    found = bonferroni(p)
    assert np.isnan(found[[1, 3]]).all()
    assert found[[0, 2, 4]].tolist() == bonferroni([0.01, 0.04, 0.03]).tolist()


def test_empty_and_all_nan_families() -> None:
    assert bonferroni([]).size == 0
    assert np.isnan(bonferroni([np.nan, np.nan])).all()


@pytest.mark.long
@given(P_VALUES)
def test_order_and_bounds(p: list[float]) -> None:
    raw = np.array(p)
    found = bonferroni(p)
    assert (found >= raw).all()
    assert (found <= 1).all()
    order = np.argsort(raw, kind="stable")
    assert (np.diff(found[order]) >= 0).all()


def test_input_is_left_alone() -> None:
    p = np.array([0.01, 0.02])
    bonferroni(p)
    assert p.tolist() == [0.01, 0.02]


def null_family(n: int, models: int, rng: np.random.Generator) -> np.ndarray:
    """Models that are exchangeable within each query, all against the first of them."""
    scores = np.where(rng.random((n, models)) < 0.4, 0.0, rng.beta(0.5, 1.5, (n, models)))
    return scores[:, 1:] - scores[:, :1]


def family_wise_error(n: int, families: int, seed: int) -> float:
    rng, method = np.random.default_rng(seed), Method(test="permutation", draws=400)
    drawn = (
        outcomes(ClusterSums.of(null_family(n, 6, rng)), method, seeds=(), widths=np.inf)
        for _ in range(families)
    )
    return float(np.mean([found.p_corrected.min() < 0.05 for found in drawn]))


def test_family_wise_error_over_all_signs() -> None:
    """All patterns of signs are equally likely without a difference: the error is counted, not sampled."""
    d, method = np.random.default_rng(21).normal(size=(7, 5)), Method(test="permutation")
    signs = np.array(list(product((1,), *[(1, -1)] * 6)))  # the opposite pattern has the same p-values
    found = [
        outcomes(ClusterSums.of(d * pattern[:, None]), method, seeds=(), widths=np.inf) for pattern in signs
    ]
    single, joint = np.array([(each.p.min(), each.p_corrected.min()) for each in found]).T
    for level in (0.05, 0.1, 0.2, 0.5):
        assert 0 < np.mean(joint <= level) <= level < np.mean(single <= level)


@pytest.mark.slow
@pytest.mark.parametrize("n", [50, 500])
def test_family_wise_error_of_2000(n: int) -> None:
    assert family_wise_error(n, 2000, n) <= 0.06


@pytest.mark.parametrize(("typed", "meant"), [("randomization", "permutation"), ("t-test", "t")])
def test_what_a_test_is_also_called_is_suggested(typed: str, meant: str) -> None:
    with pytest.raises(UsageError, match=f"unknown test '{typed}'; did you mean '{meant}'"):
        Method(test=typed)  # type: ignore[arg-type]
