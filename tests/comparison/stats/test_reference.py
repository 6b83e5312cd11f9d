"""Sign flips of the studentised mean: by hand, exact under symmetry, and its level where a few queries decide."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm, t

from ltr_harness.comparison.stats.cluster_sums import ClusterSums, LinearCombination
from ltr_harness.comparison.stats.families import FamilyResults, mean_intervals, outcomes, rare_kind
from ltr_harness.comparison.stats.method import Method
from ltr_harness.comparison.stats.reference import (
    Flips,
    criticals,
    hall_transform,
    inverse_hall_transform,
    normal_of_t,
    t_of_normal,
    tail,
)

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

DEFAULT = Method(test="skew-adjusted")


def separate_results(d: np.ndarray, method: Method = DEFAULT) -> FamilyResults:
    """Each column by itself, a family of one."""
    return outcomes(
        ClusterSums.of(d),
        method,
        families=[slice(at, at + 1) for at in range(d.shape[1])],
        seeds=(),
        widths=np.inf,
    )


def compared_jointly(d: np.ndarray, method: Method = DEFAULT) -> FamilyResults:
    return outcomes(ClusterSums.of(d), method, seeds=(), widths=np.inf)


def shares_rejected(world: World, n: int, samples: int, draws: int = 1000) -> list[tuple[float, float]]:
    """The shares of samples with a verdict and, of those, beside which a line says what may be absent.

    Of all, and of those alone that are below 0, and above.
    """
    d = world(np.random.default_rng(n), (n, samples))
    method = Method(test="skew-adjusted", draws=draws)
    found, means = compared_jointly(d, method), d.mean(axis=0)  # `p` is of each by itself
    shares = []
    for side in (means != 0, means < 0, means > 0):
        false = means[(found.p < 0.05) & side]
        said = [bool(rare_kind(n, abs(mean), 1.0, method)) for mean in false.tolist()]
        shares.append((false.size / samples, float(np.mean(said)) if said else 1.0))
    return shares


def statistic(values: list[float]) -> float:
    n = len(values)
    mean = sum(values) / n
    off = [value - mean for value in values]
    sd = sqrt(sum(one**2 for one in off) / (n - 1))
    lean = (sum(one**3 for one in off) / n) / (sum(one**2 for one in off) / n) ** 1.5 / sqrt(n)
    ratio = mean / sd * sqrt(n)
    return abs(ratio + lean * ratio**2 / 3 + lean**2 * ratio**3 / 27 + lean / 6)


def test_by_hand() -> None:
    """Four differences, all sixteen sign patterns, the statistic written out."""
    d = [0.5, -0.2, 0.3, 0.4]
    patterns = [
        statistic([a * b for a, b in zip(signs, d, strict=True)]) for signs in product((1, -1), repeat=4)
    ]
    expected = np.mean([one >= statistic(d) - 1e-9 for one in patterns])
    assert separate_results(np.array(d)[:, None]).p.tolist() == [expected]


def test_plain_flips_by_hand() -> None:
    """Reciprocal ranks 1/2, 1/3, 1/2, 1/3 against 1, 1/10, 1, 1/15: 12 of 16 patterns reach the sum."""
    a, b = np.array([1 / 2, 1 / 3, 1 / 2, 1 / 3]), np.array([1, 1 / 10, 1, 1 / 15])
    assert separate_results((b - a)[:, None], Method(test="permutation")).p.tolist() == [0.75]


def test_the_largest_of_the_family_counts() -> None:
    """Two columns, all eight patterns of three queries: of each the larger |t|."""
    d = np.array([[1.0, 0.5], [2.0, -0.4], [4.0, 0.7]])

    def flipped_statistic(values: np.ndarray) -> np.ndarray:
        return np.abs(values.mean(axis=0)) / values.std(axis=0, ddof=1) * sqrt(3)

    signs = np.array(list(product((1, -1), repeat=3)))
    largest = [flipped_statistic(row[:, None] * d).max() for row in signs]
    expected = [float(np.mean([one >= own - 1e-9 for one in largest])) for own in flipped_statistic(d)]
    found = compared_jointly(d, Method(test="permutation"))
    assert found.p_corrected.tolist() == expected
    assert (found.p <= found.p_corrected).all()


@pytest.mark.long
@given(st.floats(-8, 8), st.floats(-1, 1))
def test_unhall_undoes_hall(ratio: float, lean: float) -> None:
    assert float(
        inverse_hall_transform(hall_transform(np.array(ratio), np.array(lean)), np.array(lean))
    ) == pytest.approx(ratio, abs=1e-5)


@pytest.mark.long
@given(st.floats(0, 8), st.floats(1, 1e6))
def test_normal_deviates_of_t(ratio: float, freedom: float) -> None:
    z = normal_of_t(np.array(ratio), np.array(freedom))
    assert float(t_of_normal(z, np.array(freedom))) == pytest.approx(ratio, rel=1e-9, abs=1e-9)
    if freedom >= 3 and ratio < 5:
        assert norm.sf(float(z)) == pytest.approx(t.sf(ratio, freedom), rel=0.08)


@pytest.mark.long
@pytest.mark.parametrize("n", [30, 400, 3000])
def test_symmetric_differences_are_tested_as_by_plain_flips(n: int) -> None:
    half = np.random.default_rng(n).normal(0, 1, (n // 2, 5))
    d = np.concatenate([half, -half]) + 1.5 / sqrt(n)
    plain = separate_results(d, Method(test="permutation"))
    assert separate_results(d).p == pytest.approx(plain.p, abs=0.01 + 0.1 / n)


@pytest.mark.parametrize(
    ("n", "tested"),
    [
        (10, separate_results),
        (60, separate_results),
        (900, separate_results),
        (60, compared_jointly),
        (900, compared_jointly),
    ],
)
def test_the_interval_excludes_zero_where_significant(n: int, tested: Callable[..., FamilyResults]) -> None:
    rng = np.random.default_rng(n)
    d = rng.exponential(1, (n, 40)) - 1 + np.linspace(-1, 1, 40) * 3 / sqrt(n)
    found = tested(d, Method(draws=999))
    significant = found.p_corrected < 0.05
    assert 0 < significant.sum() < 40
    assert ((found.low > 0) | (found.high < 0)).tolist() == significant.tolist()


def test_other_columns_and_undefined_queries_change_nothing() -> None:
    d = np.random.default_rng(3).exponential(1, size=(90, 3)) - 1
    d[:10, 1] = np.nan
    d[:, 2] = np.nan
    found, alone = separate_results(d), separate_results(d[:, 1:2])
    assert np.isnan([found.p[2], found.low[2], found.high[2]]).all()
    assert found.p[1] == alone.p[0]
    assert found.low[1] == pytest.approx(alone.low[0])


@pytest.mark.parametrize("tested", [separate_results, compared_jointly])
def test_nothing_differs_and_nothing_to_test(tested: Callable[..., FamilyResults]) -> None:
    found = tested(np.zeros((30, 2)))
    assert found.p.tolist() == [1.0, 1.0]
    assert found.low.tolist() == found.high.tolist() == [0.0, 0.0]
    assert tested(np.empty((9, 0))).p.size == 0
    assert np.isnan(tested(np.array([[0.5], [np.nan]])).p).all()


@pytest.mark.long
def test_together_is_never_easier() -> None:
    d = np.random.default_rng(2).exponential(1, size=(200, 8)) - 0.9
    each, joint = separate_results(d), compared_jointly(d)
    assert (joint.p_corrected >= each.p - 0.005).all()
    assert (joint.high - joint.low > each.high - each.low).all()


def test_columns_of_few_and_of_many_units_share_a_family() -> None:
    """Without the normal deviates, five queries' heavy tails would cost the columns of 500 their power."""
    rng = np.random.default_rng(6)
    d = np.full((500, 12), np.nan)
    d[:, 0] = rng.normal(3.6 / sqrt(500), 1, 500)
    d[:5, 1:] = rng.normal(0, 1, (5, 11))
    flips = Flips(LinearCombination((ClusterSums.of(d),)))
    bonferroni = float(norm.ppf(1 - 0.05 / 24))
    assert tail(flips, 4000, 0).critical(0.05) < 1.25 * bonferroni
    assert float(np.quantile(t.rvs(4, size=(11, 4000), random_state=1).max(axis=0), 0.975)) > 1.9 * bonferroni


def test_a_sum_of_samples_is_tested_about_the_closest_means_that_make_it_zero() -> None:
    """Two arms of the same mean: shifting both by one number changes nothing."""
    rng = np.random.default_rng(9)
    one, other = rng.exponential(1, (40, 1)), rng.exponential(1, (90, 1))
    found, moved = (
        outcomes(
            LinearCombination((ClusterSums.of(one + by), ClusterSums.of(other + by)), (1.0, -1.0)),
            Method(),
            seeds=(),
            widths=np.inf,
        )
        for by in (0.0, 5.0)
    )
    assert moved.p == pytest.approx(found.p, abs=1e-3)
    assert moved.low == pytest.approx(found.low, abs=1e-6)


def test_means_that_do_not_vary_have_an_interval() -> None:
    """Twenty ones: a kind of query of less than 14 % can be absent, and may be at 0. Version 0.2 said [1, 1]."""
    ones = ClusterSums.of(np.ones((20, 1)))
    low, high = mean_intervals(ones, Method(), [(0.0, 1.0)])
    assert (low[0], high[0]) == pytest.approx((0.05 ** (1 / 20), 1.0))
    low, high = mean_intervals(ones, Method(), [(0.0, np.inf)])
    assert (low[0], high[0]) == (1.0, 1.0)


@pytest.mark.long
@pytest.mark.parametrize("share", [0.9, 0.95])
def test_means_of_mostly_equal_values_are_covered(share: float) -> None:
    """Hall's interval by Student's t covered 82 to 90 %, where 95 were promised."""
    rng = np.random.default_rng(int(100 * share))
    values = np.where(rng.random((150, 400)) < share, 0.0, rng.random((150, 400)))
    low, high = mean_intervals(ClusterSums.of(values), Method(draws=1000))
    truth = (1 - share) / 2
    assert np.mean((low <= truth) & (truth <= high)) > 0.92


@pytest.mark.long
def test_level_where_differences_are_symmetric() -> None:
    assert abs(shares_rejected(SYMMETRIC["heavy"], 50, 1000)[0][0] - 0.05) < 0.02  # three standard errors


@pytest.mark.long
@pytest.mark.parametrize("world", ["rare gains", "lognormal"])
def test_level_where_they_are_not(world: str) -> None:
    """Plain sign flips reject in 6 to 14 %."""
    share, said = shares_rejected(SKEWED[world], 100, 600)[0]
    assert share < 0.075 or said > 0.99  # 5 % and three standard errors


@pytest.mark.long
def test_power_is_that_of_plain_flips_where_they_are_symmetric() -> None:
    d = np.random.default_rng(5).normal(2.8 / sqrt(50), 1, (50, 400))
    plain, adjusted, by_t = (
        np.mean(compared_jointly(d, Method(test=test, draws=1000)).p < 0.05)  # each by itself
        for test in ("permutation", "skew-adjusted", "t")
    )
    assert 0.75 < plain < 0.85
    assert abs(plain - adjusted) < 0.02
    assert by_t - adjusted < 0.02


@pytest.mark.slow
@pytest.mark.parametrize("n", [50, 100, 200, 500])
@pytest.mark.parametrize("world", [*SYMMETRIC, *SKEWED])
def test_level(world: str, n: int) -> None:
    """Or each side has its half of the level, or the line: 8 % of samples of 50 queries hold no rare gain, and lose.

    Beside a false gain the line stands where a kind rarer than 1 in 17 could undo it, by a difference of at most 1.
    """
    (share, said), *sides = shares_rejected({**SYMMETRIC, **SKEWED}[world], n, 4000, draws=4000)
    assert share < 0.065 or said > 0.99 or all(of < 0.0325 or line > 0.99 for of, line in sides)


def test_a_flip_of_the_sample_is_one_of_its_own_draws() -> None:
    """So a family's test is exact; degrees of freedom by the correlation within users would change with a flip."""
    rng, users = np.random.default_rng(8), np.repeat(np.arange(6), [1, 1, 2, 3, 5, 12])
    values = rng.normal(size=(users.size, 2)) + rng.normal(size=(6, 2))[users]

    def flips(signs: np.ndarray) -> Flips:
        return Flips(LinearCombination((ClusterSums.of(values * signs[users, None], users),)))

    seen = flips(np.ones(6))
    patterns = np.concatenate(list(seen.blocks(100, 0)), axis=1).T
    drawn = np.stack([seen.normal(statistics) for statistics in patterns], axis=1)
    assert drawn.shape == (2, 32)  # of 64 patterns half: the opposite has the same
    for signs in np.array(list(product((-1.0, 1.0), repeat=6))):
        found = flips(signs).observed
        assert np.isclose(drawn, found[:, None], rtol=1e-9).all(axis=0).any()


def test_flips_of_units_of_unlike_size_by_hand() -> None:
    """Six users of one to twelve queries: 64 patterns, each with the mean and the error that its sample has."""
    users = np.repeat(np.arange(6), [1, 1, 2, 3, 5, 12])
    values = np.random.default_rng(4).normal(0.3, 1.0, (users.size, 8))

    def flipped_statistic(signs: tuple[int, ...]) -> np.ndarray:
        sample = ClusterSums.of(values * np.array(signs)[users, None], users)
        return np.abs(sample.mean / sample.error)

    patterns, own = (
        np.stack([flipped_statistic(signs) for signs in product((1, -1), repeat=6)]),
        flipped_statistic((1,) * 6),
    )
    expected = (patterns >= own - 1e-9).mean(axis=0)
    method = Method(test="permutation", unit="user")
    assert (
        outcomes(ClusterSums.of(values, users), method, seeds=(), widths=np.inf).p.tolist()
        == expected.tolist()
    )


def test_hall_by_hand() -> None:
    """2 + .3 * 4 / 3 + .09 * 8 / 27 + .3 / 6."""
    assert float(hall_transform(np.array(2.0), np.array(0.3))) == pytest.approx(2 + 0.4 + 0.08 / 3 + 0.05)


@pytest.mark.parametrize(("spread", "share"), [(0.1, 1.0), (1e-2, 1.0), (1e-4, 0.0), (1e-6, 0.0)])
def test_differences_that_are_all_but_equal_have_no_skewness(spread: float, share: float) -> None:
    """Too few digits of the third cumulant are left there: the statistic was wrong by a third at 1e-4."""
    shape = np.array([0.0, 0.1, 0.15, 0.3, 0.5, 2.0])[:, None]
    estimate = LinearCombination((ClusterSums.of(0.05 + spread * shape),))
    flips = Flips(estimate)
    assert flips.skewness == pytest.approx(share * estimate.skewness)
    transformed = hall_transform(estimate.mean / estimate.error, flips.skewness)
    assert flips.observed == pytest.approx(normal_of_t(transformed, np.array([5.0])), rel=1e-4)


def test_a_critical_value_is_the_first_with_too_many_draws_beyond_it() -> None:
    """At most 25 of 512 patterns may reach a statistic whose p is below .05; the 26th largest is at most as large."""
    flips = Flips(LinearCombination((ClusterSums.of(np.random.default_rng(3).normal(size=(10, 3))),)))
    every = np.sort(np.concatenate(list(flips.blocks(4000, 0)), axis=1), axis=1)
    assert every.shape == (3, 512)
    found, expected = criticals(flips, 4000, 0, 0.05), flips.normal(every[:, -26])
    assert (found > expected).all()
    assert found == pytest.approx(expected)


def test_too_few_units_for_the_level_have_the_interval_of_the_normal_deviate() -> None:
    """.1, .2, .3: T = .2 / .0577 = 3.46, p = 2/8; an interval that ends at 0 there would be one of 75 %."""
    found = outcomes(
        ClusterSums.of(np.array([[0.1], [0.2], [0.3]])), Method(margin=1.0), seeds=(), widths=np.inf
    )
    reach = float(t_of_normal(np.array(1.959964), np.array(2.0))) * 0.1 / np.sqrt(3)
    assert found.p.tolist() == [2 / 8]
    assert found.low == pytest.approx(0.2 - reach, abs=1e-6)
    assert found.high == pytest.approx(0.2 + reach, abs=1e-6)
    assert found.p_equivalence[0] == 1.0, "three queries show no equivalence"
