"""Sign flips of the skewness-adjusted t: by hand, exact under symmetry, and its level where a few queries decide."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltr_harness.stats.paired import paired_t_p, sign_flip_p
from ltr_harness.stats.skewness import hall, skew_adjusted, unhall, unseen_p

World = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]

SYMMETRIC: dict[str, World] = {
    "normal": lambda r, s: r.normal(0, 0.1, s),
    "discrete": lambda r, s: r.choice([-0.5, -0.25, 0, 0.25, 0.5], s, p=[0.05, 0.1, 0.7, 0.1, 0.05]),
    "sparse": lambda r, s: r.choice([-0.5, 0, 0.5], s, p=[0.05, 0.9, 0.05]),
    "heavy": lambda r, s: 0.05 * r.standard_t(3, s),
}
SKEWED: dict[str, World] = {
    "rare gains": lambda r, s: np.where(r.random(s) < 0.05, r.uniform(0.5, 1, s), 0) - 0.0375,
    "rare gains, small losses": lambda r, s: (
        np.where(r.random(s) < 0.02, 0.4, np.where(r.random(s) < 0.4, -0.02, 0))
        - (0.02 * 0.4 - 0.98 * 0.4 * 0.02)
    ),
    "exponential": lambda r, s: 0.1 * (r.exponential(1, s) - 1),
    "zeros, else exponential": lambda r, s: 0.1 * (np.where(r.random(s) < 0.4, r.exponential(1, s), 0) - 0.4),
    "lognormal": lambda r, s: 0.05 * (np.exp(r.normal(0, 1, s)) - np.exp(0.5)),
    "zeros, else lognormal": lambda r, s: (
        0.05 * (np.where(r.random(s) < 0.4, np.exp(r.normal(0, 1, s)), 0) - 0.4 * np.exp(0.5))
    ),
    "mixture": lambda r, s: np.where(r.random(s) < 0.1, r.normal(0.4, 0.1, s), r.normal(0, 0.05, s)) - 0.04,
}
"""Differences with mean 0 in all of them, none of which the test was made from."""


def rejected(world: World, n: int, samples: int, draws: int = 1000) -> float:
    d = world(np.random.default_rng(n), (n, samples))
    return float(np.mean(skew_adjusted(d, 1.0, draws=draws).p < 0.05))


def test_by_hand() -> None:
    """Four differences, all sixteen sign patterns, the statistic written out."""
    d = [0.5, -0.2, 0.3, 0.4]

    def statistic(values: list[float]) -> float:
        mean = sum(values) / 4
        off = [value - mean for value in values]
        sd = sqrt(sum(one**2 for one in off) / 3)
        lean = (sum(one**3 for one in off) / 4) / (sum(one**2 for one in off) / 4) ** 1.5 / sqrt(4)
        t = mean / sd * sqrt(4)
        return abs(t + lean * t**2 / 3 + lean**2 * t**3 / 27 + lean / 6)

    patterns = [
        statistic([a * b for a, b in zip(signs, d, strict=True)]) for signs in product((1, -1), repeat=4)
    ]
    expected = np.mean([one >= statistic(d) - 1e-9 for one in patterns])
    assert skew_adjusted(np.array(d)[:, None]).p.tolist() == [expected]


@pytest.mark.long
@given(st.floats(-8, 8), st.floats(-1, 1))
def test_unhall_undoes_hall(t: float, lean: float) -> None:
    assert float(unhall(hall(np.array(t), np.array(lean)), np.array(lean))) == pytest.approx(t, abs=1e-5)


@pytest.mark.long
@pytest.mark.parametrize("n", [30, 400, 3000])
def test_symmetric_differences_are_tested_as_by_plain_flips(n: int) -> None:
    half = np.random.default_rng(n).normal(0, 1, (n // 2, 5))
    d = np.concatenate([half, -half]) + 1.5 / sqrt(n)
    assert skew_adjusted(d).p == pytest.approx(sign_flip_p(d), abs=0.01)


@pytest.mark.parametrize(("n", "together"), [(10, False), (60, False), (900, False), (60, True), (900, True)])
def test_the_interval_excludes_zero_where_significant(n: int, together: bool) -> None:
    rng = np.random.default_rng(n)
    d = rng.exponential(1, (n, 40)) - 1 + np.linspace(-1, 1, 40) * 3 / sqrt(n)
    found = skew_adjusted(d, 5.0, draws=999, together=together)
    significant = found.p < 0.05
    assert 0 < significant.sum() < 40
    assert ((found.low > 0) | (found.high < 0)).tolist() == significant.tolist()


def test_other_columns_and_undefined_queries_change_nothing() -> None:
    d = np.random.default_rng(3).exponential(1, size=(90, 3)) - 1
    d[:10, 1] = np.nan
    d[:, 2] = np.nan
    found, alone = skew_adjusted(d), skew_adjusted(d[:, 1:2])
    assert np.isnan([found.p[2], found.low[2], found.high[2]]).all()
    assert found.p[1] == alone.p[0]
    assert found.low[1] == pytest.approx(alone.low[0])


@pytest.mark.parametrize("together", [False, True])
def test_nothing_differs_and_nothing_to_test(together: bool) -> None:
    found = skew_adjusted(np.zeros((30, 2)), 1.0, together=together)
    assert found.p.tolist() == [1.0, 1.0]
    assert (found.low <= 0).all()
    assert (found.high >= 0).all()
    assert skew_adjusted(np.empty((9, 0)), together=together).p.size == 0
    assert np.isnan(skew_adjusted(np.array([[0.5], [np.nan]]), together=together).p).all()


@pytest.mark.long
def test_together_is_never_easier() -> None:
    d = np.random.default_rng(2).exponential(1, size=(200, 8)) - 0.9
    each, joint = skew_adjusted(d, 9.0), skew_adjusted(d, 9.0, together=True)
    assert (joint.p >= each.p - 0.005).all()
    assert (joint.high - joint.low > each.high - each.low).all()


def test_what_was_not_seen() -> None:
    d = np.full((50, 1), -0.0375)
    assert unseen_p(d, 1.0)[0] == pytest.approx((1 - 0.0375) ** 50)
    found = skew_adjusted(d, 1.0)
    assert found.p[0] == pytest.approx((1 - 0.0375) ** 50)
    assert found.high[0] == pytest.approx(-0.0375 + 1 - 0.05 ** (1 / 50))
    assert unseen_p(d, np.inf).tolist() == [0.0]
    assert skew_adjusted(10 * d, 1.0).p[0] < 0.001  # nothing rare makes up for so much
    both = d.copy()
    both[:25] *= -1
    assert unseen_p(both, 1.0).tolist() == [0.0]


@pytest.mark.long
@pytest.mark.parametrize("world", ["normal", "heavy"])
def test_level_where_differences_are_symmetric(world: str) -> None:
    assert abs(rejected(SYMMETRIC[world], 50, 1000) - 0.05) < 0.02  # three standard errors


@pytest.mark.long
@pytest.mark.parametrize("world", SKEWED)
def test_level_where_they_are_not(world: str) -> None:
    """Plain sign flips reject in 6 to 14 %."""
    assert rejected(SKEWED[world], 100, 600) < 0.075  # 5 % and three standard errors


@pytest.mark.long
def test_power_is_that_of_plain_flips_where_they_are_symmetric() -> None:
    d = np.random.default_rng(5).normal(2.8 / sqrt(50), 1, (50, 1000))
    plain, adjusted = (
        np.mean(p < 0.05) for p in (sign_flip_p(d, draws=1000), skew_adjusted(d, 10.0, draws=1000).p)
    )
    assert 0.75 < plain < 0.85
    assert abs(plain - adjusted) < 0.02
    assert np.mean(paired_t_p(d) < 0.05) - adjusted < 0.02


@pytest.mark.slow
@pytest.mark.parametrize("n", [50, 100, 200, 500])
@pytest.mark.parametrize("world", [*SYMMETRIC, *SKEWED])
def test_level(world: str, n: int) -> None:
    assert rejected({**SYMMETRIC, **SKEWED}[world], n, 4000, draws=4000) < 0.065
