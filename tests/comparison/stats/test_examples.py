"""Small examples of internals, which a reader can check by hand."""

import numpy as np

from ltr_harness.comparison.stats.betting import bounded_means
from ltr_harness.comparison.stats.cluster_sums import ClusterSums, LinearCombination, moments, win_tie_loss
from ltr_harness.comparison.stats.families import (
    furthest_against,
    outcomes,
    rare_kind,
    rare_share,
    rule_of_three,
)
from ltr_harness.comparison.stats.method import Method
from ltr_harness.comparison.stats.seeds import method_difference, seed_agreement
from ltr_harness.comparison.stats.two_samples import Sample, always_valid_p, difference, mean_estimate
from ltr_harness.comparison.stream import Drawn
from ltr_harness.experiments.compare.errors_in_variables import TrueEffects, variation_p
from ltr_harness.monitoring.stats.adjustment import KeyEffects, Regression, decompose
from ltr_harness.monitoring.stats.drift import bin_edges, distances, effective_sample_size
from ltr_harness.monitoring.stats.several_samples import (
    between_window_variance,
    bonferroni,
    same_shares_p,
    sample_ratio_p,
)


def test_regression_of() -> None:
    x = np.array([[-1.0], [0.0], [0.0], [1.0]])
    fit = Regression.of(np.array([0.2, 0.5, 0.5, 0.8]), x)
    assert round(float(fit.slopes[0]), 6) == 0.3
    assert round(fit.mean, 6) == 0.5


def test_true_effects_of() -> None:
    x = np.arange(-6.0, 7.0)
    found = TrueEffects.of(x, np.ones(13), x / 2 + np.cos(x), np.full(13, 0.7))
    assert str(found.interval(found.slope)) == "0.5216 [0.3757, 0.6646]"


def test_signs_of_effects_on_one_line() -> None:
    """Means of 1, one line: falling it is 2 - x, above 0 beside x from 0 to 2, within one standard deviation."""
    for covariance, share in (1.0, 1.0), (-1.0, 0.682689):
        one, given = np.ones(1), np.full(1, covariance)
        effects = TrueEffects(
            one, one, one, one, given, np.full(1, 1e6), np.zeros(1), one, np.zeros((1, 1)), np.zeros(1)
        )
        assert abs(effects.same_signs().value - share) < 1e-3


def test_variation_by_hand() -> None:
    """0 and 2 with errors 1 and 2 have the mean .4: Q = .16 + .64, with one degree of freedom."""
    assert round(variation_p(np.array([0.0, 2.0]), np.array([1.0, 2.0])), 4) == 0.6289


def test_key_effects_of() -> None:
    """Keys that differ, and whose values do not: each is believed at once. The fourth is unknown."""
    values = np.array([0.2, 0.2, 0.5, 0.5, 0.8, 0.8])
    fit = KeyEffects.of(values, np.array([0, 0, 1, 1, 2, 2]), 4)
    assert (fit.effects + 0.5).round(3).tolist() == [0.2, 0.5, 0.8, 0.5]
    assert (fit.leave_one_out + 0.5).round(3).tolist()[:2] == [0.2, 0.2]


def test_decompose() -> None:
    """Shares .7/.3 become .4/.6 at means .85/.65: all of the drop is mix."""
    now, before = (np.repeat([0, 1], shares) for shares in ([40, 60], [70, 30]))
    means = np.array([0.85, 0.65])
    d = decompose(Sample(means[now]), now, Sample(means[before]), before)
    assert round(d.total.value, 4) == -0.06
    assert round(d.mix.value, 4) == -0.06
    assert abs(round(d.within.value, 4)) == 0.0


def test_bounded_means() -> None:
    d = ClusterSums.of(np.full((400, 1), 0.1))
    p, _, low, high = bounded_means(d, np.array([-1.0]), np.array([1.0]), 0.05, seed=0)
    assert bool(p[0] < 0.05)
    assert bool(0 < low[0] < 0.1 < high[0])


def test_contributions() -> None:
    """Two users who agree with themselves: two numbers, however many queries."""
    users = np.array([0, 0, 1, 1])
    one = ClusterSums.of(np.array([[1.0], [1.0], [0.0], [0.0]]), users)
    assert one.mean.tolist() == [0.5]
    assert one.error.tolist() == [0.5]
    assert one.df.round(6).tolist() == [1.0]
    assert one.design_effect.tolist() == [3.0]


def test_contributions_of_ratios() -> None:
    one = ClusterSums.of_ratios(np.array([[0.1], [0.6], [0.0]]), np.array([[0.2], [0.8], [0.0]]))
    assert one.mean.round(9).tolist() == [0.7]
    assert one.units.tolist() == [2]


def test_weighted_sum() -> None:
    low, high = (ClusterSums.of(np.array([[v], [v + 0.2]])) for v in (0.1, 0.5))
    apart = LinearCombination((high, low), (1.0, -1.0))
    assert apart.mean.round(9).tolist() == [0.4]
    assert apart.error.round(6).tolist() == [0.141421]


def test_bin_edges() -> None:
    assert bin_edges(np.arange(100.0), 4).tolist() == [24.75, 49.5, 74.25]


def test_worth() -> None:
    """Four users of five queries each, all alike, are worth three values."""
    users = np.repeat(np.arange(4), 5)
    assert round(effective_sample_size(users % 2, 2, users), 1) == 3.0


def test_distances() -> None:
    ks, _, carried = distances(np.array([0.0, 1.0, 2.0]), np.array([0.5, 1.5, 2.5]))
    assert round(ks, 4) == 0.3333
    assert carried == 0.5


def test_outcomes() -> None:
    """Gains on four queries of fifty, small losses on the others: the sign is open."""
    d = np.r_[np.full(46, -0.05), 0.5, 0.6, 0.4, 0.1][:, None]
    one = outcomes(ClusterSums.of(d), Method(), seeds=(), widths=np.inf)
    assert bool(one.p_corrected[0] > 0.3)
    assert bool(one.low[0] < 0 < one.high[0])


def test_rare_share() -> None:
    assert round(float(rare_share(50, 0.05)), 4) == 0.0582


def test_rule_of_three() -> None:
    """Up to 5.8 % of 50 ones may be zeros; a mean of .5 lies half of that share off either way."""
    mean, units = np.array([1.0, 0.5]), np.array([50, 50])
    low, high = rule_of_three(mean, units, 0.0, 1.0, 0.05)
    assert low.round(4).tolist() == [0.9418, 0.4709]
    assert high.round(4).tolist() == [1.0, 0.5291]


def test_furthest_against() -> None:
    """Against a gain it is the largest loss; where all gain it is the smallest gain, below 0."""
    assert furthest_against(0.1, np.array([0.3, np.nan, -0.2])) == 0.2
    assert furthest_against(-0.1, np.array([0.3, np.nan, -0.2])) == 0.3
    assert furthest_against(0.1, np.array([0.3, 0.2])) == -0.2


def test_rare_kind() -> None:
    absent = "a query type below 5.8 % of traffic may be missing here"
    then = "it could flip the verdict only if it differed by 0.52"
    assert rare_kind(50, 0.03, 1.0, Method()) == f"{absent}; {then}"
    assert rare_kind(5000, 0.03, 1.0, Method()) == ""
    assert rare_kind(50, 0.03, 1.0, Method(), furthest=0.2) == "", "nothing seen comes near 0.52"
    assert rare_kind(50, 0.03, 1.0, Method(), furthest=0.3) == f"{absent}; {then}"


def test_method_describe() -> None:
    said = "paired t test, 95 % intervals"
    assert Method(test="t").describe() == said


def test_moments() -> None:
    m = moments(np.array([1.0, 2.0, 3.0, np.nan]))
    assert int(m.n) == 3
    assert float(m.mean) == 2.0
    assert float(m.sd) == 1.0
    assert float(m.skewness) == 0.0


def test_win_tie_loss() -> None:
    assert tuple(int(count) for count in win_tie_loss(np.array([0.5, 0.0, 1e-12, -0.1, np.nan]))) == (1, 2, 1)


def test_seed_agreement() -> None:
    assert seed_agreement(np.array([[0.5, 0.7], [0.1, 0.3]]), np.array([[0.3, 0.3]])) == 0.5


def test_method_difference() -> None:
    """Means of two seeds 0.4 and 0.6 against a fixed 0.3 on three queries alike: all variance is of the seeds."""
    methods = method_difference(np.array([[0.4] * 3, [0.6] * 3]), np.full((1, 3), 0.3), other_fixed=True)
    assert round(methods.difference, 9) == 0.2
    assert round(methods.standard_error, 9) == 0.1
    assert methods.df == 1.0


def test_always_valid_p() -> None:
    """A single test asks for 1.64 standard errors below 0, one that may be repeated for ever for 2.8 at best."""
    p = always_valid_p(np.array([-1.64, -2.80]), np.array([30.0, 30.0]), tightest=30)
    assert p.round(3).tolist() == [0.429, 0.046]


def test_sample_ratio_p() -> None:
    assert round(sample_ratio_p(np.array([4850, 5150]), np.array([0.5, 0.5])), 4) == 0.0027


def test_same_shares_p() -> None:
    assert same_shares_p(np.repeat([0, 1, 0, 1], [50, 50, 20, 80]), np.repeat([0, 1], 100)) < 0.001


def test_variance_between() -> None:
    """Four days of 100 queries, at .7, .8, .7, .8, whose queries are all alike."""
    days = np.repeat(np.arange(4), 100)
    between = between_window_variance(Sample(np.array([0.7, 0.8, 0.7, 0.8])[days]), days)
    assert round(between.variance, 6) == 0.003333
    assert between.df == 3.0


def test_bonferroni() -> None:
    assert repr(bonferroni([0.01, 0.04, np.nan]).tolist()) == "[0.02, 0.08, nan]"


def test_mean_estimate() -> None:
    e = mean_estimate(Sample(np.array([1.0, 2.0, 3.0])))
    assert round(e.low, 4) == -0.4841
    assert round(e.high, 4) == 4.4841


def test_difference() -> None:
    d = difference(Sample(np.array([0.1, 0.2, 0.3])), Sample(np.array([0.6, 0.7, 0.8, 0.9])))
    assert round(d.value, 3) == -0.55
    assert d.p < 0.01


def test_drawn_estimate() -> None:
    sample = Drawn(np.arange(4, dtype=np.uint64), 100)
    ends = sample.estimate(np.array([0.0, 1.0, 1.0, 0.0]), bounds=(0.0, 1.0))
    assert [round(end, 3) for end in ends] == [0.5, 0.0, 1.0]
