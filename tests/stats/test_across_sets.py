"""Several data sets: sign flips within them, weighted sums, and ranks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ltr_harness.stats.across_sets import critical_of_pairs, flips_within_p, rank_intervals, spread_of_models
from ltr_harness.stats.estimates import MeanEstimate, weighted_sum
from ltr_harness.stats.moments import moments
from ltr_harness.stats.paired import sign_flip_p
from ltr_harness.stats.units import unit_means


def test_one_data_set_is_the_sign_flip_test() -> None:
    """|T| and |mean| order the flipped samples alike: the sum of squares is the same for all of them."""
    d = np.random.default_rng(1).normal(0.02, 0.1, (60, 3))
    assert flips_within_p([d], [1.0], draws=2000, seed=4) == pytest.approx(sign_flip_p(d, draws=2000, seed=4))


def test_two_data_sets_whose_differences_cancel_prove_nothing() -> None:
    d = np.abs(np.random.default_rng(2).normal(0.1, 0.03, (50, 1)))
    assert flips_within_p([d, -d], [0.5, 0.5], draws=1000, seed=0)[0] == 1.0
    assert flips_within_p([d, d], [0.5, 0.5], draws=1000, seed=0)[0] < 0.002
    assert np.isnan(flips_within_p([d, d[:1]], [0.5, 0.5], draws=1000, seed=0)[0])
    assert flips_within_p([0 * d, 0 * d], [0.5, 0.5], draws=1000, seed=0)[0] == 1.0


def test_a_small_data_set_weighs_what_its_weight_says() -> None:
    """.9 * .01 + .1 * (-.2) < 0, whatever the numbers of queries."""
    large, small = MeanEstimate(0.01, 0.001, 9999, 0.0), MeanEstimate(-0.2, 0.02, 19, 0.3)
    found = weighted_sum([large, small], [0.9, 0.1])
    assert found.mean == pytest.approx(-0.011)
    assert found.error == pytest.approx(np.hypot(0.0009, 0.002))
    assert 19 < found.freedom < 40  # the small one makes most of the error
    assert found.lean == pytest.approx(0.3 * (0.002 / found.error) ** 3)


def test_the_covariance_of_means_is_that_of_queries_or_of_units() -> None:
    rng = np.random.default_rng(3)
    values, units = rng.normal(size=(40, 2)), np.repeat(np.arange(8), 5)
    plain = spread_of_models([values, values], [None, None], [0.5, 0.5])
    assert plain == pytest.approx(np.cov(values.T, bias=True) / 40 / 2)
    by_unit = spread_of_models([values], [units], [1.0])
    error = unit_means(values, units).error  # 8 units of one size: 8 / 7 corrects for the mean
    assert np.sqrt(np.diag(by_unit) * 8 / 7) == pytest.approx(error)


def test_two_models_have_the_quantile_of_t() -> None:
    reach = critical_of_pairs(np.eye(2), 10.0, 0.95, draws=200_000, seed=0)
    assert reach == pytest.approx(2.228, abs=0.02)  # two-sided t of 10 degrees of freedom
    assert critical_of_pairs(np.eye(5), 1e12, 0.95, draws=100_000, seed=0) == pytest.approx(
        3.858 / np.sqrt(2), abs=0.02
    )
    assert critical_of_pairs(np.ones((2, 2)), 10.0, 0.95, draws=100, seed=0) == 0.0


def test_ranks_by_hand() -> None:
    """Model 0 is surely above the others, of which nothing is known."""
    sure, unsure = MeanEstimate(0.5, 0.1, 99, 0.0), MeanEstimate(0.1, 0.1, 99, 0.0)
    assert rank_intervals({(0, 1): sure, (0, 2): sure, (1, 2): unsure}, 3, 2.4, True) == [
        (1, 1),
        (2, 3),
        (2, 3),
    ]
    assert rank_intervals({(0, 1): unsure}, 2, 2.4, True) == [(1, 2), (1, 2)]


MEANS = np.array([0.02, 0.02, 0.0, -0.03, -0.03])
"""Of five models: two may be best."""


def drawn(rng: np.random.Generator, sizes: tuple[int, ...]) -> list[np.ndarray]:
    """Two data sets: one shared difficulty, means that differ by data set and average to MEANS, lopsided noise."""
    parts = []
    for number, n in enumerate(sizes):
        apart = 0.05 * np.array([1, -1, 0, 0, 0]) * (-1) ** number
        parts.append(MEANS + apart + rng.normal(0, 0.2, (n, 1)) + 0.1 * (rng.exponential(size=(n, 5)) - 1))
    return parts


def ranked(runs: int, sizes: tuple[int, ...]) -> tuple[float, float, float]:
    """The share of all ranks covered at once, of false verdicts by flips, and of intervals that cover."""
    rng, held, false, covered = np.random.default_rng(7), 0, 0, 0
    for _ in range(runs):
        parts = drawn(rng, sizes)
        pairs = {}
        for i in range(5):
            for j in range(i + 1, 5):
                own = []
                for part in parts:
                    d = part[:, i] - part[:, j]
                    skewness = ((d - d.mean()) ** 3).mean() / d.std() ** 3
                    own.append(
                        MeanEstimate(
                            d.mean(), d.std(ddof=1) / d.size**0.5, d.size - 1, skewness / d.size**0.5
                        )
                    )
                pairs[i, j] = weighted_sum(own, [0.5, 0.5])
        covariance = spread_of_models(parts, [None, None], [0.5, 0.5])
        reach = critical_of_pairs(
            covariance, min(one.freedom for one in pairs.values()), 0.95, draws=1000, seed=1
        )
        ranks = rank_intervals(pairs, 5, reach, True)
        # of equal models each may have either rank
        held += all(low <= best and worst <= high for (low, high), (best, worst) in zip(
            ranks, [(1, 2), (1, 2), (3, 3), (4, 5), (4, 5)], strict=True))  # fmt: skip
        low, high = pairs[0, 1].interval(0.95)
        covered += low < 0 < high
        d = [(part[:, 0] - part[:, 1])[:, None] for part in parts]
        p = max(float(flips_within_p(d, [0.5, 0.5], draws=300, seed=2)[0]), pairs[0, 1].p())
        false += p < 0.05
    return held / runs, false / runs, covered / runs


@pytest.mark.long
def test_ranks_are_covered() -> None:
    held, false, covered = ranked(60, (60, 200))
    assert held >= 0.85
    assert false <= 0.15
    assert covered >= 0.85


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(50, 100), (100, 1000), (500, 500)])
def test_ranks_are_covered_at_length(sizes: tuple[int, ...]) -> None:
    held, false, covered = ranked(1500, sizes)
    assert held >= 0.935
    assert false <= 0.065
    assert 0.935 <= covered <= 0.965


NULLS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "70 % ties": lambda rng, n: np.where(rng.random(n) < 0.7, 0, rng.normal(size=n)),
    "exponential": lambda rng, n: rng.exponential(size=n) - 1,
    "lognormal": lambda rng, n: rng.lognormal(size=n) - np.exp(0.5),
    "5 % large gains": lambda rng, n: (
        np.where(rng.random(n) < 0.05, rng.uniform(0.5, 1, n), 0) + rng.normal(0, 0.02, n) - 0.0375
    ),
}


def called_different(world: str, sizes: tuple[int, ...], runs: int) -> float:
    """How often the average over data sets of a mean of 0 is called different, by flips and t together."""
    rng, false, weights = np.random.default_rng(31), 0, [1 / len(sizes)] * len(sizes)
    for _ in range(runs):
        parts = [NULLS[world](rng, n)[:, None] for n in sizes]
        estimates = []
        for part in parts:
            own = moments(part)
            error, lean = float(own.standard_error[0]), float(own.skewness[0]) / np.sqrt(len(part))
            estimates.append(MeanEstimate(float(own.mean[0]), error, len(part) - 1, lean))
        average = weighted_sum(estimates, weights)
        flips = float(flips_within_p(parts, weights, draws=300, seed=1)[0])
        low, high = average.interval(0.95)
        false += max(flips, average.p()) < 0.05 and not low < 0 < high
    return false / runs


@pytest.mark.parametrize("world", ["exponential", "5 % large gains"])
def test_equal_models_are_called_different_in_few_cases(world: str) -> None:
    assert called_different(world, (50, 200), 60) <= 0.13


@pytest.mark.slow
@pytest.mark.parametrize("world", list(NULLS))
@pytest.mark.parametrize("sizes", [(50, 50), (50, 200), (100, 100, 100)])
def test_equal_models_are_called_different_in_5_percent(world: str, sizes: tuple[int, ...]) -> None:
    assert called_different(world, sizes, 600) <= 0.085  # 6.5 and twice its Monte Carlo error
