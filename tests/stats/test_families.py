"""Families of comparisons: what is promised of a single one is kept by all of them together."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from ltr_harness.stats.corrections import holm
from ltr_harness.stats.families import Outcome, of_one_sign, outcomes
from ltr_harness.stats.method import Method

SD = 0.1
"""Of each difference; half of its variance is shared, as by models that have one baseline."""


def differences(rng: np.random.Generator, n: int, models: int) -> np.ndarray:
    shared = rng.normal(0, SD / np.sqrt(2), (n, 1))
    return np.asarray(shared + rng.normal(0, SD / np.sqrt(2), (n, models)))


def family(d: np.ndarray, method: Method) -> Outcome:
    return outcomes(d, np.full(d.shape[1], 1.0), [slice(0, d.shape[1])], method)


RUNS = [40, pytest.param(1000, marks=pytest.mark.slow)]


@pytest.mark.long
@pytest.mark.parametrize("runs", RUNS)
@pytest.mark.parametrize("models", [1, 4, 9])
def test_the_detectable_difference_is_found_four_times_in_five(models: int, runs: int) -> None:
    """At the level of a single comparison it was found in 65 % among four and 49 % among nine."""
    # a thousand draws cost nine models 3 points of power: their first step has five draws beyond it
    rng, method, n = np.random.default_rng(models), Method(draws=10_000 if runs >= 1000 else 1000), 200
    there = float(np.mean([family(differences(rng, n, models), method).detectable.mean() for _ in range(20)]))
    found = 0
    for _ in range(runs):
        d = differences(rng, n, models)
        d[:, 0] += there
        found += family(d, method).p_corrected[0] < 0.05
    assert abs(found / runs - 0.8) < (0.05 if runs >= 1000 else 0.2)  # three standard errors and 1


@pytest.mark.long
@pytest.mark.parametrize("runs", RUNS)
def test_any_false_equivalence_among_nine(runs: int) -> None:
    """All differ by just the margin. Each at its own level, one of nine was called equivalent in 21.5 % of cases."""
    rng, method = np.random.default_rng(4), Method(draws=1000, margin=0.02)
    false, covered = 0, 0
    for _ in range(runs):
        found = family(differences(rng, 400, 9) + 0.02, method)
        false += bool((found.p_equivalence < 0.05).any())
        covered += bool(((found.low <= 0.02) & (found.high >= 0.02)).all())
    assert false / runs <= (0.05 if runs >= 1000 else 0.13)
    assert covered / runs >= (0.935 if runs >= 1000 else 0.88)  # each by itself: 72 to 89 %


@pytest.mark.long
def test_equivalence_and_interval_agree() -> None:
    rng = np.random.default_rng(8)
    for interval in ("skew-adjusted", "t"):
        method = Method(
            margin=0.015, interval=interval, correction="bonferroni" if interval != "t" else "none"
        )
        for _ in range(5):
            found = family(differences(rng, 400, 3), method)
            inside = (found.low > -0.015) & (found.high < 0.015)
            near = np.abs(found.p_equivalence - 0.05) < 0.01  # one is from draws, the other from Student's t
            assert (inside == (found.p_equivalence < 0.05))[~near].all()


@pytest.mark.long
def test_a_difference_that_holm_finds_is_not_contradicted_by_its_interval() -> None:
    rng, method, touched = np.random.default_rng(2), Method(draws=1000), 0
    for _ in range(30):
        d = differences(rng, 200, 6)
        d[:, :5] += 0.05
        d[:, 5] += 0.016
        found = family(d, method)
        assert found.p_corrected.tolist() == holm(found.p).tolist()
        significant = found.p_corrected < 0.05
        assert not ((found.low < 0) & (found.high > 0))[significant].any()
        touched += int((found.low[significant] == 0).sum())
    assert touched  # found by a later step: its interval ends at 0


@pytest.mark.parametrize("test", ["skew-adjusted", "permutation", "bootstrap"])
def test_hundreds_of_models_can_be_better(test: str) -> None:
    """200 of 300 draws' smallest p, 1/301, is above 0.05: nobody could be better, whatever the models."""
    rng = np.random.default_rng(1)
    d = rng.normal(0, SD, (60, 50))
    d[:, 0] += 0.2
    found = family(d, Method(test=test, draws=300, interval="t"))
    assert found.p_corrected[0] < 0.05
    assert found.p[0] < 1 / 301
    assert found.p_corrected[1:].min() > 0.05


def test_undefined_columns_are_no_members() -> None:
    d = differences(np.random.default_rng(0), 80, 3)
    d[:, 1] = np.nan
    with_it, without = family(d, Method()), family(d[:, [0, 2]], Method())
    assert np.isnan([with_it.p[1], with_it.p_corrected[1], with_it.low[1]]).all()
    assert with_it.p_corrected[[0, 2]].tolist() == without.p_corrected.tolist()
    assert with_it.detectable[[0, 2]] == pytest.approx(without.detectable)


def test_intervals_end_at_zero_where_a_later_step_found_a_difference() -> None:
    low, high = of_one_sign(
        np.array([-1.0, -3.0, -1.0, 1.0, -2.0]),
        np.array([3.0, 1.0, 3.0, 2.0, 2.0]),
        np.array([True, True, False, True, True]),
    )
    assert low.tolist() == [0, -3, -1, 1, -2]
    assert high.tolist() == [3, 0, 3, 2, 2]


def test_a_family_that_the_draws_are_enough_for_is_not_drawn_again() -> None:
    d = 0.5 + np.random.default_rng(1).normal(0, 0.1, (40, 1))
    few = Method(test="permutation", draws=200, interval="t")
    assert family(d, few).p.tolist() == [1 / 201]
    assert family(d, Method(test="permutation", draws=100, interval="t", confidence=0.99)).p.tolist() == [
        1 / 201
    ]


def test_intervals_hold_together_or_each_by_itself() -> None:
    """Of two alike columns, at 97.5 % where they are simultaneous and at 95 % where they are not."""
    d = np.tile(np.where(np.arange(200) % 2, 1.0, -1.0)[:, None], 2)
    error = 1 / np.sqrt(199)
    for correction, quantile in (("holm", stats.t.ppf(0.9875, 199)), ("none", stats.t.ppf(0.975, 199))):
        found = family(d, Method(correction=correction, draws=2000))
        assert found.high == pytest.approx(np.full(2, quantile * error), rel=0.04)


def test_no_p_of_equivalence_is_above_one() -> None:
    d = np.array([[0.9], [1.0], [1.1], [1.0]])
    for options in ({"test": "t", "interval": "t"}, {}):
        method = Method(correction="none", margin=0.01, **options)
        assert family(d, method).p_equivalence.tolist() == [1.0]
