"""Would another training seed have said the same?"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t as t_distribution
from scipy.stats import ttest_ind

from ltr_harness.comparison.stats.cluster_sums import ClusterSums, Floats
from ltr_harness.comparison.stats.seeds import (
    MethodDifference,
    _degrees_of_freedom,
    method_difference,
    seed_agreement,
    weighted_difference,
)


def test_agreement_by_hand() -> None:
    one = np.array([[0.6, 0.6], [0.4, 0.4], [0.7, 0.7]])
    other = np.array([[0.5, 0.5], [0.65, 0.65]])
    # means .6 .4 .7 against .5 .65: +, -, -, -, +, + ; overall .5667 - .575 < 0
    assert seed_agreement(one, other) == 3 / 6


def test_agreement_needs_more_than_one_pair() -> None:
    assert np.isnan(seed_agreement(np.ones((1, 4)), np.zeros((1, 4))))
    assert seed_agreement(np.ones((2, 4)), np.zeros((1, 4))) == 1.0


def test_agreement_over_common_queries() -> None:
    one, other = np.array([[0.1, 0.9], [0.1, 0.9]]), np.array([[0.2, np.nan]])
    assert seed_agreement(one, other) == 1.0
    assert np.isnan(seed_agreement(one, np.full((1, 2), np.nan)))


def test_a_difference_within_the_tolerance_has_no_sign() -> None:
    one, others = np.array([[0.5, 0.5]]), np.array([[0.5, 0.5], [0.75, 0.75]])
    assert (
        seed_agreement(one, others) == seed_agreement(others, one) == 0.5
    )  # one pair is equal, the other decides
    assert seed_agreement(one, others, tolerance=0.25) == 1.0  # now all are equal, as the means are


def world(
    rng: np.random.Generator, seeds: tuple[int, int], of_seeds: float, together: float, n: int = 120
) -> tuple[Floats, Floats]:
    """Two methods alike, over new queries and new seeds; a side with 0 seeds is fixed.

    Args:
        rng: of everything.
        seeds: trained on each side.
        of_seeds: variance of the difference that comes of seeds, as a multiple of what comes of queries.
        together: variance of what is neither, as a share of that of the differences over queries.
        n: queries.
    """
    sd, hard = 0.1, rng.normal(0.5, 0.2, n)
    moving = sum(number > 0 for number in seeds)
    sides = []
    for number in seeds:
        rows = max(number, 1)
        own = hard + rng.normal(0, sd / np.sqrt(2), n)
        if number:
            spread = np.sqrt(of_seeds * sd**2 / n * number / moving)
            own = own + rng.normal(0, spread, (rows, 1)) + rng.normal(0, sd * np.sqrt(together), (rows, n))
        sides.append(np.broadcast_to(own, (rows, n)))
    return sides[0], sides[1]


def t_interval(d: np.ndarray) -> tuple[float, float]:
    reach = float(t_distribution.ppf(0.975, d.size - 1)) * float(d.std(ddof=1)) / d.size**0.5
    return float(d.mean()) - reach, float(d.mean()) + reach


def covers(seeds: tuple[int, int], of_seeds: float, together: float, worlds: int) -> tuple[float, float]:
    """Shares of the intervals that hold the true difference, 0: of the methods, and of the trained models."""
    rng = np.random.default_rng(11)
    methods = models = 0
    for _ in range(worlds):
        one, other = world(rng, seeds, of_seeds, together)
        found = method_difference(one, other, one_fixed=seeds[0] == 0, other_fixed=seeds[1] == 0)
        assert found is not None
        low, high = found.interval()
        methods += low <= 0 <= high
        low, high = t_interval(one.mean(axis=0) - other.mean(axis=0))
        models += low <= 0 <= high
    return methods / worlds, models / worlds


def test_by_hand() -> None:
    """Seed means .2 and .4 (variance .02), a fixed side, no interaction; differences -.1 .1 .3 .5 + .1 over queries."""
    query = np.array([-0.3, -0.1, 0.1, 0.3])
    one = query + np.array([[0.2], [0.4]])
    found = method_difference(one, np.zeros((1, 4)), other_fixed=True)
    assert found is not None
    of_queries, of_seeds = query.var(ddof=1) / 4, 0.02 / 2
    assert found.difference == pytest.approx(0.3)
    assert found.standard_error == pytest.approx(np.sqrt(of_queries + of_seeds))
    share, weight = (
        of_seeds / (of_queries + of_seeds),
        1 + 8 * (1 - 1 / 3) ** 4,
    )  # 3 degrees of freedom beside 1
    assert 1 / found.df == pytest.approx(weight * share**2 + (1 - share) ** 2 / 3)
    assert found.p() == pytest.approx(2 * t_distribution.sf(0.3 / found.standard_error, found.df))


def test_two_seeds_on_each_side_by_hand() -> None:
    """Seed means -.05 and .05 on both sides (variance .005 each), no interaction; differences are of the queries."""
    query, seeds = np.array([-0.3, -0.1, 0.1, 0.3]), np.array([[-0.05], [0.05]])
    found = method_difference(query + seeds, np.repeat(seeds, 4, axis=1))
    assert found is not None
    of_queries, of_seeds = query.var(ddof=1) / 4, 0.005 / 2
    total = of_queries + 2 * of_seeds
    assert found.standard_error == pytest.approx(np.sqrt(total))
    of_rest = (of_queries + of_seeds) ** 2 / (of_queries**2 / 3 + of_seeds**2)
    weight = 1 + 8 * (1 - 1 / of_rest) ** 4
    assert 1 / found.df == pytest.approx((of_queries / total) ** 2 / 3 + 2 * weight * (of_seeds / total) ** 2)


def test_interaction_is_counted_once() -> None:
    """The mean squares of a two-way table by loops: A - C + B, term by term."""
    rng = np.random.default_rng(2)
    one, other = rng.random((3, 7)) + rng.normal(0, 2, 7), rng.random((4, 7))
    found = method_difference(one, other)
    assert found is not None
    variance = (one.mean(axis=0) - other.mean(axis=0)).var(ddof=1) / 7
    for side in (one, other):
        r = len(side)
        rest = [
            (side[i, q] - side[i].mean() - side[:, q].mean() + side.mean()) ** 2
            for i in range(r)
            for q in range(7)
        ]
        variance += side.mean(axis=1).var(ddof=1) / r - sum(rest) / ((r - 1) * 6) / (r * 7)
    assert found.standard_error == pytest.approx(np.sqrt(variance))


def test_seeds_alone_are_a_welch_test() -> None:
    rng = np.random.default_rng(3)
    means = rng.normal(0.5, 0.01, 12), rng.normal(0.5, 0.03, 9)
    found = method_difference(*(np.repeat(own[:, None], 5, axis=1) for own in means))
    assert found is not None
    welch = ttest_ind(*means, equal_var=False)
    assert (found.p(), found.df) == pytest.approx((float(welch.pvalue), float(welch.df)), rel=0.005)


def test_seeds_that_change_nothing_leave_the_t_test_over_queries() -> None:
    rng = np.random.default_rng(4)
    one, other = rng.random((2, 50))
    found = method_difference(np.tile(one, (3, 1)), np.tile(other, (2, 1)))
    assert found is not None
    assert found.df == pytest.approx(49)
    assert found.p() == pytest.approx(float(ClusterSums.of((one - other)[:, None]).t_p[0]))
    assert found.interval() == pytest.approx(t_interval(one - other))


def test_nothing_is_known_of_seeds_from_one_each_or_from_one_query() -> None:
    values = np.random.default_rng(0).random((4, 50))
    assert method_difference(values[:1], values[1:2]) is None
    assert method_difference(values[:2, :1], values[2:, :1]) is None
    values[0, 1:] = np.nan
    assert method_difference(values[:2], values[2:]) is None


def test_queries_undefined_for_any_seed_are_left_out() -> None:
    values = np.random.default_rng(3).random((6, 50))
    holed = values.copy()
    holed[1, 7] = holed[4, 9] = np.nan
    known = np.delete(values, [7, 9], axis=1)
    assert method_difference(holed[:3], holed[3:]) == method_difference(known[:3], known[3:])
    assert seed_agreement(holed[:3], holed[3:]) == seed_agreement(known[:3], known[3:]) > 0


def test_one_seed_beside_several_varies_as_they_do() -> None:
    several = np.array([[0.4] * 3, [0.5] * 3, [0.6] * 3])  # variance .01 over seeds
    found, fixed = (
        method_difference(several, np.full((1, 3), 0.5), other_fixed=is_fixed) for is_fixed in (False, True)
    )
    assert found is not None
    assert fixed is not None
    assert found.standard_error**2 == pytest.approx(0.01 * (1 / 3 + 1))
    assert fixed.standard_error**2 == pytest.approx(0.01 / 3)


def test_no_variance_at_all() -> None:
    same = method_difference(np.full((2, 3), 0.5), np.full((2, 3), 0.5))
    apart = method_difference(np.full((2, 3), 0.5), np.full((2, 3), 0.25))
    assert same is not None
    assert apart is not None
    assert (same.p(), same.interval()) == (1.0, (0.0, 0.0))
    assert (0 < apart.p() < 1e-300, apart.interval()) == (True, (0.25, 0.25))


def test_what_p_interval_equivalence_and_detectable_say_is_one_thing() -> None:
    rng = np.random.default_rng(5)
    found = method_difference(rng.random((3, 40)), rng.random((2, 40)))
    assert found is not None
    low, high = found.interval(0.9)
    assert found.p(low) == pytest.approx(0.1)
    assert found.p(high) == pytest.approx(0.1)
    assert found.p_equivalence(max(-low, high)) == pytest.approx(0.05)
    reach = t_distribution.ppf(0.975, found.df) + t_distribution.ppf(0.8, found.df)
    assert found.detectable() == pytest.approx(reach * found.standard_error)


@pytest.mark.long
@pytest.mark.parametrize("seeds", [(2, 2), (2, 5), (3, 0)])
def test_new_seeds_and_queries_are_covered(seeds: tuple[int, int]) -> None:
    """Seeds matter three times as much as queries: the interval of the trained models holds 60 to 70 %."""
    of_methods, of_models = covers(seeds, 3.0, 0.3, 300)
    assert 0.91 <= of_methods <= 0.995  # 93.5 to 98 %, and three standard errors of 300 worlds
    assert of_models < 0.8


SEEDS = [
    (2, 2),
    (2, 3),
    (2, 5),
    (2, 10),
    (3, 3),
    (3, 10),
    (5, 5),
    (5, 10),
    (10, 10),
    (2, 0),
    (3, 0),
    (5, 0),
    (10, 0),
]


@pytest.mark.slow
@pytest.mark.parametrize("seeds", SEEDS)
def test_coverage_for_any_number_of_seeds(seeds: tuple[int, int]) -> None:
    """93.5 to 96.5 % from seeds that do not matter to seeds that are everything; two against few may cover more."""
    error = 3 * np.sqrt(0.05 * 0.95 / 1500)
    most = 0.985 if seeds in [(2, 2), (2, 3), (2, 5), (2, 10)] else 0.97
    for of_seeds in (0.0, 0.3, 1.0, 3.0, 10.0, 100.0):
        for together in (0.0, 0.5):
            share = covers(seeds, of_seeds, together, 1500)[0]
            assert 0.935 - error <= share <= most + error, (of_seeds, together, share)


def test_agreement_of_one_seed_with_several() -> None:
    one, others = np.array([[0.5, 0.5]]), np.array([[0.4, 0.4], [0.3, 0.3], [0.6, 0.6]])
    assert seed_agreement(one, others) == pytest.approx(2 / 3)  # mean .5 against .433: two of three agree
    assert seed_agreement(others, one) == pytest.approx(2 / 3)


def test_seeds_that_shift_every_query_alike_are_all_of_the_error() -> None:
    """Queries add nothing but rounding, some 1e-34 of the variance: it ended in a division by zero."""
    rng = np.random.default_rng(0)
    for r, s in ((4, 1), (4, 2), (5, 5)) * 20:
        base = rng.normal(0, 0.1, 20) * rng.integers(2)
        one, other = base + rng.normal(0, 0.1, (r, 1)), base + rng.normal(0, 0.01, (s, 1))
        found = method_difference(one, other, other_fixed=s == 1)
        assert found is not None
        between = one.mean(axis=1).var(ddof=1) / r + (other.mean(axis=1).var(ddof=1) / s if s > 1 else 0)
        assert found.standard_error == pytest.approx(between**0.5)
        assert min(r, s if s > 1 else r) - 1 <= found.df <= r + s


def test_a_side_that_is_nearly_all_of_the_error_keeps_its_own_freedom() -> None:
    """Three seeds beside 21 that add next to nothing have 2 degrees of freedom, and not a little less."""
    assert _degrees_of_freedom(0.0, 99, [(0.95, 2), (0.05, 20)]) == 2


def test_a_weighted_difference_by_hand() -> None:
    """Data set one knows of seeds: .2 with error .1 and 4 degrees of freedom; the other has its queries alone."""
    other = ClusterSums.of(np.array([[0.1], [0.3], [0.2], [0.6]]))
    mean, error = 0.3, np.sqrt(0.14 / 3 / 4)
    found = weighted_difference([MethodDifference(0.2, 0.1, 4.0), None], [other, other], 0, [0.25, 0.75])
    assert found is not None
    terms = 0.025**2, (0.75 * error) ** 2
    assert found.difference == pytest.approx(0.25 * 0.2 + 0.75 * mean)
    assert found.standard_error == pytest.approx(np.sqrt(sum(terms)))
    assert found.df == pytest.approx(sum(terms) ** 2 / (terms[0] ** 2 / 4 + terms[1] ** 2 / 3))
    assert weighted_difference([None, None], [other, other], 0, [0.5, 0.5]) is None
