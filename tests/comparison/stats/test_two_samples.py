"""Welch's test and its relatives, against SciPy, brute force and planted truths."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ltr_harness.comparison.stats.betting import bounded_means
from ltr_harness.comparison.stats.cluster_sums import ClusterSums
from ltr_harness.comparison.stats.two_samples import (
    Alternative,
    Influence,
    Sample,
    difference,
    mean_estimate,
    profile_p,
)
from ltr_harness.monitoring.stats.adjustment import decompose
from ltr_harness.monitoring.stats.drift import bin_codes, bin_edges, distances, jensen_shannon, psi

RANDOM = np.random.default_rng(1)


@pytest.mark.parametrize(
    ("alternative", "theirs"), [("drop", "less"), ("rise", "greater"), ("change", "two-sided")]
)
def test_welch_is_scipys(alternative: str, theirs: str) -> None:
    one, other = RANDOM.normal(0, 1, 40), RANDOM.normal(0.3, 3, 90)
    ours = difference(Sample(one), Sample(other), alternative=alternative)  # type: ignore[arg-type]
    reference = stats.ttest_ind(one, other, equal_var=False, alternative=theirs)
    assert ours.p == pytest.approx(reference.pvalue, rel=1e-9)
    # scipy's interval of a one-sided test has one end: ours has it, and the other test's
    level = 0.95 if alternative == "change" else 0.9
    low, high = stats.ttest_ind(one, other, equal_var=False).confidence_interval(level)
    of_test = reference.confidence_interval()
    assert of_test.low in (-np.inf, pytest.approx(low))
    assert of_test.high in (np.inf, pytest.approx(high))
    assert (ours.low, ours.high) == (pytest.approx(low), pytest.approx(high))
    assert (ours.n, sum(Sample(side).unweighted_mean[1].units for side in (one, other))) == (130, 130)


def test_the_mean_of_independent_queries_has_the_usual_interval() -> None:
    values = RANDOM.random(30)
    found = mean_estimate(Sample(values))
    assert (found.low, found.high) == pytest.approx(
        stats.t.interval(0.95, 29, values.mean(), stats.sem(values))
    )


def test_one_stratum_is_no_stratum() -> None:
    one, other = RANDOM.random(20), RANDOM.random(30)
    plain = difference(Sample(one), Sample(other))
    strata = difference(
        Sample(one, strata=np.zeros(20, dtype=int)), Sample(other, strata=np.zeros(30, dtype=int))
    )
    assert (
        difference(Sample(one), Sample(other, strata=np.arange(30))) == plain
    )  # strata of one side alone are none
    assert strata.value == pytest.approx(plain.value, abs=1e-15)
    assert (strata.p, strata.low) == (pytest.approx(plain.p), pytest.approx(plain.low))


def test_strata_are_weighted_as_in_the_first_sample() -> None:
    one = Sample(np.array([1.0, 1.0, 1.0, 0.0]), strata=np.array([0, 0, 0, 1]))
    other = Sample(np.array([0.5, 0.5, 0.0, 0.0]), strata=np.array([0, 0, 1, 1]))
    assert difference(one, other).value == pytest.approx(3 / 4 * 0.5 + 1 / 4 * 0.0)
    lacking = difference(one, Sample(np.array([0.5, 0.5]), strata=np.array([0, 0])))
    assert np.isnan(lacking.p)


def test_equal_values_of_a_cluster_count_once() -> None:
    values = RANDOM.random(20)
    repeated = Sample(np.repeat(values, 5), clusters=np.repeat(np.arange(20), 5))
    once, many = mean_estimate(Sample(values)), mean_estimate(repeated)
    assert many.error == pytest.approx(once.error)
    assert (repeated.unweighted_mean[1].units, many.n) == (20, 100)


def test_users_in_both_periods_sharpen_the_difference() -> None:
    user = RANDOM.normal(0, 1, 200)
    one = Sample(user + RANDOM.normal(0, 0.2, 200), np.arange(200))
    other = Sample(user + RANDOM.normal(0, 0.2, 200), np.arange(200))
    shared = difference(one, other)
    assert shared.error == pytest.approx(stats.sem(one.values - other.values), rel=0.01)
    assert shared.error < 0.4 * difference(Sample(one.values), Sample(other.values)).error


@pytest.mark.long
def test_coverage_of_clustered_means() -> None:
    """200 users with 10 queries each: 95 % hold about 95 %, and without clusters far fewer."""
    random = np.random.default_rng(2)
    hits, naive = 0, 0
    for _ in range(400):
        who = np.repeat(np.arange(200), 10)
        values = random.normal(0, 0.5, 200)[who] + random.normal(0, 1, 2000)
        robust, plain = mean_estimate(Sample(values, who)), mean_estimate(Sample(values))
        hits += robust.low <= 0 <= robust.high
        naive += plain.low <= 0 <= plain.high
    assert hits >= 0.92 * 400
    assert naive <= 0.85 * 400


@pytest.mark.parametrize("size", [0, 1])
def test_too_little_to_tell(size: int) -> None:
    little, enough = Sample(np.full(size, 3.0)), Sample(np.ones(5))
    for found, sign in ((difference(little, enough), 1), (difference(enough, little), -1)):
        assert np.isnan([found.p, found.low, found.high]).all()
        assert found.value == 2.0 * sign if size else np.isnan(found.value)


def test_constants_differ_for_certain_or_not_at_all() -> None:
    same = difference(Sample(np.ones(5)), Sample(np.ones(5)))
    assert (same.value, same.p) == (0.0, 1.0)
    lower = difference(Sample(np.zeros(5)), Sample(np.ones(5)))
    assert lower.p < 1e-300
    assert difference(Sample(np.ones(5)), Sample(np.zeros(5))).p == 1.0  # a rise is no drop


@pytest.mark.long
def test_betting_intervals_hold_near_the_ceiling() -> None:
    """2 % bad queries, n = 30: t covers about half the time, betting always."""
    random = np.random.default_rng(3)
    bet = student = 0
    for _ in range(200):
        values = np.where(random.random(30) < 0.02, random.random(30) * 0.5, 1.0)
        truth = 1 - 0.02 * 0.75
        _, _, low, high = bounded_means(ClusterSums.of(values[:, None]), np.zeros(1), np.ones(1), 0.05, 0)
        bet += low[0] <= truth <= high[0]
        ends = mean_estimate(Sample(values))
        student += ends.low <= truth <= ends.high
    assert bet >= 0.95 * 200
    assert student <= 0.65 * 200


@pytest.mark.long
def test_profiles_ignore_the_total() -> None:
    random = np.random.default_rng(4)
    rates = np.array([0.4, 0.2, 0.1, 0.05])
    one, same = (random.random((5000, 4)) < scale * rates for scale in (1.0, 0.7))
    other = random.random((5000, 4)) < rates * [1, 1.4, 1.7, 2]
    assert profile_p(same.astype(float), one.astype(float))[0] > 0.01
    p, distance = profile_p(other.astype(float), one.astype(float))
    assert p < 1e-6
    assert distance > 0.05
    rejected = sum(
        profile_p(
            (random.random((300, 4)) < rates).astype(float), (random.random((400, 4)) < rates).astype(float)
        )[0]
        <= 0.05
        for _ in range(300)
    )
    assert rejected <= 0.09 * 300


def test_strata_without_a_share_in_the_first_sample_say_nothing() -> None:
    """No Sundays in `one`: the Sundays of `other` neither move the reference nor add to what is known of it."""
    one = Sample(np.array([0.4, 0.9, 0.1]), strata=np.array([0, 0, 1]))
    week, who = np.array([0, 0, 1, 1, 1, 2, 2]), np.array([0, 1, 0, 1, 2, 5, 6])
    values = np.array([0.2, 0.3, 0.5, 0.8, 0.6, 1.0, 0.0])
    for clusters in (None, who):
        known = week < 2
        among = Sample(values[known], None if clusters is None else clusters[known], week[known])
        expected = difference(one, among)
        found = difference(one, Sample(values, clusters, week))
        assert (found.value, found.error) == pytest.approx((expected.value, expected.error), rel=1e-12)
        assert found.df == pytest.approx(expected.df)
        of_all = Sample(values, clusters, week).weighted_mean(np.array([2 / 3, 1 / 3, 0]))[1]
        of_known = among.weighted_mean(np.array([2 / 3, 1 / 3]))[1]
        assert of_all.units == of_known.units


def test_the_error_of_a_weighted_mean_by_hand() -> None:
    one = Sample(np.array([1.0, 0.5, 0.0, 0.2]), strata=np.array([0, 0, 0, 1]))  # shares 3/4 and 1/4
    other = Sample(np.array([0.1, 0.5, 0.3, 0.7]), strata=np.array([0, 0, 1, 1]))
    # each query pulls by share / number in its stratum * (value - mean of its stratum); n / (n - 1) of the squares
    ours = 4 / 3 * (1 / 16 * 0.5**2 + 0 + 1 / 16 * 0.5**2 + 0)
    theirs = 4 / 3 * (2 * (3 / 8 * 0.2) ** 2 + 2 * (1 / 8 * 0.2) ** 2)
    assert difference(one, other).error == pytest.approx(np.sqrt(ours + theirs))


def test_only_users_of_both_periods_covary() -> None:
    one = Influence.of(np.array([2.0, -1.0, -1.0]), np.array([0, 1, 1]))  # totals 2/3, -2/3
    other = Influence.of(
        np.array([3.0, 1.0, -2.0, -2.0]), np.array([1, 2, 3, 3])
    )  # totals 3/4, 1/4, -1 from 1 on
    by_hand = (-2 / 3 * 3 / 4) * 3 / 2  # user 1 alone; units / (units - 1) of the larger side
    assert one.covariance(other) == other.covariance(one) == pytest.approx(by_hand)
    nobody = Influence.of(np.array([1.0, -1.0]))  # whose queries are nobody's in particular
    assert one.covariance(nobody) == nobody.covariance(one) == 0.0
    alone = Influence.of(np.array([1.0, -1.0]), np.array([0, 0]))
    assert alone.covariance(alone) == 0.0


def test_a_missing_side_still_says_how_many_queries_there_were() -> None:
    assert np.isnan(mean_estimate(Sample(np.empty(0))).p)
    found = difference(Sample(np.empty(0)), Sample(np.ones(3)))
    assert (found.n, np.isnan([found.value, found.p, found.df]).all()) == (3, True)


@pytest.mark.parametrize(
    ("alternative", "of_equals", "of_a_rise"),
    [("drop", 1.0, 1.0), ("rise", 1.0, 0.0), ("change", 1.0, 0.0)],
)
def test_constants_for_each_alternative(alternative: Alternative, of_equals: float, of_a_rise: float) -> None:
    low, high = Sample(np.zeros(5)), Sample(np.ones(4))
    assert difference(low, low, alternative=alternative).p == of_equals
    found = difference(high, low, alternative=alternative)
    assert found.p == pytest.approx(of_a_rise, abs=1e-300)
    assert (found.low, found.high, found.df) == (1.0, 1.0, 4 + 3)


def test_two_places_are_a_test_of_one_share() -> None:
    """The share of place one is a ratio, clicks there / clicks, so Wald's chi-square is the square of its z."""
    one = np.array([[3, 0], [1, 1], [2, 0], [0, 2], [1, 0]], dtype=float)
    other = np.array([[1, 2], [0, 1], [1, 1], [0, 0]], dtype=float)
    shares, variance = [], 0.0
    for counts in (one, other):
        share = counts[:, 0].sum() / counts.sum()
        shares.append(share)
        variance += sum((a - (a + b) * share) ** 2 for a, b in counts) / counts.sum() ** 2
    z = (shares[0] - shares[1]) / np.sqrt(variance)
    assert profile_p(one, other) == pytest.approx((2 * stats.norm.sf(abs(z)), shares[0] - shares[1]))
    assert profile_p(one, one) == (1.0, 0.0)


def test_of_shares_that_add_up_to_one_any_may_be_left_out() -> None:
    random = np.random.default_rng(6)
    one, other = (random.poisson(rates, (40, 3)).astype(float) for rates in ([3, 2, 1], [2, 2, 2]))
    shares, covariance = [], np.zeros((3, 3))
    for counts in (one, other):
        shares.append(counts.sum(axis=0) / counts.sum())
        pull = counts - counts.sum(axis=1, keepdims=True) * shares[-1]
        covariance += pull.T @ pull / counts.sum() ** 2
    apart = (shares[0] - shares[1])[:2]
    p = stats.chi2.sf(apart @ np.linalg.inv(covariance[:2, :2]) @ apart, 2)
    assert profile_p(one, other)[0] == pytest.approx(p, rel=1e-6)
    unseen = np.zeros((40, 1))  # a place that nobody ever clicks is no further place
    assert profile_p(np.hstack([one, unseen]), np.hstack([other, unseen]))[0] == pytest.approx(p, rel=1e-6)


def test_profiles_of_too_little() -> None:
    some = np.array([[1.0, 0.0], [0.0, 1.0]])
    assert np.isnan(profile_p(some, np.zeros((5, 2)))).all()
    assert np.isnan(profile_p(some[:1], some)).all()
    assert profile_p(some, some) == (1.0, 0.0)


def test_profiles_without_any_spread_are_the_same_or_differ_for_certain() -> None:
    first, second = np.tile([1.0, 0.0, 0.0], (50, 1)), np.tile([0.0, 1.0, 0.0], (50, 1))
    assert profile_p(first, first) == (1.0, 0.0)
    p, distance = profile_p(first, second)
    assert (0 < p < 1e-300, distance) == (True, 1.0)
    varied = np.eye(3)[[0, 1] * 25]  # places one and two, against the third alone
    p, distance = profile_p(varied, np.tile([0.0, 0.0, 1.0], (50, 1)))
    assert (0 < p < 1e-300, distance) == (True, 1.0)


cells = st.lists(st.tuples(st.integers(0, 3), st.floats(0, 1)), min_size=1, max_size=30)


@pytest.mark.long
@settings(deadline=None)
@given(cells, cells)
def test_within_and_mix_add_up(one: list[tuple[int, float]], other: list[tuple[int, float]]) -> None:
    (a, x), (b, y) = (np.array(list(zip(*side, strict=True))) for side in (one, other))
    found = decompose(Sample(x), a.astype(int), Sample(y), b.astype(int))
    assert found.total.value == pytest.approx(x.mean() - y.mean(), abs=1e-12)
    if set(a) & set(b):  # otherwise there is nothing to compare
        parts = found.within.value + found.mix.value + found.unmatched.value
        assert parts == pytest.approx(found.total.value, abs=1e-12)


def test_the_published_decomposition() -> None:
    """Shares .7/.3 -> .4/.6 at .85/.65, and segment 1 lower by .05: -.08 = -.0275 - .0525."""
    before = Sample(np.repeat([0.85, 0.65], [700, 300])), np.repeat([0, 1], [700, 300])
    now = Sample(np.repeat([0.80, 0.65], [400, 600])), np.repeat([0, 1], [400, 600])
    found = decompose(*now, *before)
    assert found.total.value == pytest.approx(-0.08)
    assert (found.within.value, found.mix.value) == (pytest.approx(-0.0275), pytest.approx(-0.0525))
    assert found.adjusted == pytest.approx(0.7 * 0.80 + 0.3 * 0.65)


@pytest.mark.long
def test_the_interval_of_the_mix_is_what_resampling_gives() -> None:
    random = np.random.default_rng(5)
    sides = []
    for shares in ((0.4, 0.6), (0.7, 0.3)):
        where = random.choice(2, 1500, p=shares)
        sides.append((np.array([0.85, 0.65])[where] + 0.1 * random.standard_normal(1500), where))
    (x, a), (y, b) = sides
    ours = decompose(Sample(x), a, Sample(y), b)
    draws = []
    for _ in range(200):
        i, j = random.integers(0, 1500, 1500), random.integers(0, 1500, 1500)
        again = decompose(Sample(x[i]), a[i], Sample(y[j]), b[j])
        draws.append((again.mix.value, again.within.value))
    assert ours.mix.error == pytest.approx(np.std(draws, axis=0)[0], rel=0.15)
    assert ours.within.error == pytest.approx(np.std(draws, axis=0)[1], rel=0.15)


def test_influences_without_clusters_share_nothing() -> None:
    one = Influence.of(np.array([1.0, -1.0]))
    assert one.covariance(one) == 0.0


def test_drift_measures() -> None:
    one, other = RANDOM.normal(0, 1, 500), RANDOM.normal(0.1, 1, 400)
    distance, p, _ = distances(one, other)
    reference = stats.ks_2samp(one, other, method="asymp")
    assert distance == pytest.approx(reference.statistic)
    assert p == pytest.approx(reference.pvalue, rel=0.1)
    assert jensen_shannon(np.array([1.0, 0.0]), np.array([0.0, 1.0])) == 1.0
    assert jensen_shannon(np.array([3.0, 1.0]), np.array([3.0, 1.0])) == 0.0
    edges = bin_edges(one, 10)
    assert np.bincount(bin_codes(one, edges)).tolist() == [50] * 10
    assert bin_codes(np.array([np.nan, -9.0, 9.0]), edges).tolist() == [10, 0, 9]
    assert psi(np.array([10.0, 10.0]), np.array([10.0, 10.0])) == 0.0
    assert psi(np.array([10.0, 0.0]), np.array([0.0, 10.0])) > 10


def test_the_wasserstein_distance_is_scipys() -> None:
    from scipy.stats import wasserstein_distance

    random = np.random.default_rng(8)
    for n, m in ((1, 1), (7, 30), (400, 90)):
        one, other = random.normal(0, 1, n).round(1), random.normal(0.5, 2, m).round(1)
        missing = np.append(other, np.nan)
        assert distances(one, missing)[2] == pytest.approx(wasserstein_distance(one, other), abs=1e-12)
