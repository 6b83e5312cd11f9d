"""Numbers of the reference articles, recomputed; where an article is wrong, the note says in what."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from ltr_harness import evaluate, parse_metric
from ltr_harness.errors import MetricError
from ltr_harness.metrics import MAP, NDCG, Metric
from ltr_harness.metrics.table import METRICS, catalog


def metric_of_ranking(labels: Sequence[float], metric: str | Metric) -> float:
    """The metric of one query whose rows are listed in rank order."""
    scores = -np.arange(len(labels), dtype=float)
    return evaluate(labels, scores, group_sizes=[len(labels)], metrics=[metric])[metric].mean


def approx(value: float) -> object:
    return pytest.approx(value, abs=1e-9)


def hit_at(*ranks: int) -> tuple[list[int], list[int], list[int]]:
    """Queries with one relevant document each: labels, scores, sizes."""
    labels = [int(r == rank) for rank in ranks for r in range(1, 21)]
    return labels, [-r for _ in ranks for r in range(20)], [20] * len(ranks)


class TestPitfalls:
    """S0: ranking metrics, pitfalls and best practices."""

    def test_mrr_and_its_spread(self) -> None:
        for ranks, mrr, harmonic, sd, worst, early in (
            ((2, 3, 2, 3), 0.4166666667, 2.4, 0.0962250449, 1 / 3, 1.0),
            ((1, 10, 1, 15), 0.5416666667, 1.8461538462, 0.5294126725, 1 / 15, 0.5),
        ):
            labels, scores, sizes = hit_at(*ranks)
            ev = evaluate(labels, scores, group_sizes=sizes, metrics=["mrr", "success@3"])
            per_query = ev["mrr"].per_query
            assert ev.means["mrr"] == approx(mrr)
            # X17: MRR is 1 / harmonic mean of ranks only because every query has a hit
            assert 1 / ev.means["mrr"] == approx(harmonic)
            assert per_query.std(ddof=1) == approx(sd)
            assert per_query.min() == approx(worst)
            assert ev.means["success@3"] == early

    def test_reciprocal_rank_is_hyperbolic(self) -> None:
        def rr(rank: int) -> float:
            return metric_of_ranking([0] * (rank - 1) + [1], "mrr")

        assert rr(1) - rr(2) == 0.5
        assert rr(100) - rr(101) == approx(0.0000990099)
        assert (rr(1), rr(2), rr(9), rr(10)) == (1.0, 0.5, 1 / 9, 0.1)  # S3

    def test_linear_and_exponential_gain_differ(self) -> None:
        # X18: the article sorts with argsort(scores)[::-1], which reverses ties; there are none here
        labels, scores = [10, 0, 0, 1, 5], [0.1, 0.2, 0.3, 4, 70]
        names = ["ndcg(gain=linear)", "ndcg", "dcg(gain=linear)", "dcg"]
        ev = evaluate(labels, scores, group_sizes=[5], metrics=names)
        assert [ev.means[name] for name in names] == [
            approx(0.6956940444),
            approx(0.4097384945),
            approx(9.4994578259),
            approx(427.3813515545),
        ]
        assert metric_of_ranking([10, 5, 1, 0, 0], "dcg(gain=linear)") == approx(13.6546487679)
        assert metric_of_ranking([10, 5, 1, 0, 0], "dcg") == approx(1043.0588223607)

    def test_larger_cutoffs_score_higher_although_the_tail_is_wrong(self) -> None:
        labels, scores = [10, 0, 0, 1, 5], [0.1, 0.2, 0.3, 4, 70]
        for gain, expected in (
            ("linear", [0.5, 0.4280562600, 0.4123818818, 0.4123818818, 0.6956940444]),
            ("exp", [0.0303030303, 0.0303397075, 0.0303251639, 0.0303251639, 0.4097384945]),
        ):
            metrics = [NDCG(gain=gain, k=k) for k in range(1, 6)]
            ev = evaluate(labels, scores, group_sizes=[5], metrics=metrics)
            assert [ev[metric].mean for metric in metrics] == [approx(value) for value in expected]

    def test_groups_may_lack_grades(self) -> None:
        """A2: {4, 1} only, {0} only, a single row."""
        ev = evaluate([4, 1, 0, 0, 2], [1, 2, 2, 1, 1], group_sizes=[2, 2, 1], metrics=["ndcg"])
        assert np.isnan(ev["ndcg"].per_query[1])
        assert ev["ndcg"].per_query[2] == 1.0
        assert ev["ndcg"].n_undefined == 1

    def test_the_gain_is_in_the_name_where_it_is_not_the_default(self) -> None:
        """A13; and different cutoffs have different names (A16)."""
        assert str(NDCG(k=10, gain="linear")) == "ndcg(gain=linear)@10"
        assert NDCG(k=10) != NDCG(k=5)


class TestMonitoring:
    """S1: NDCG for monitoring ranking models."""

    X, Y, Z = [0, 0, 1, 1, 1], [1, 0, 1, 0, 1], [1, 0, 0, 0, 0]

    @pytest.mark.parametrize(
        ("labels", "dcg", "ndcg", "dcg3", "ndcg3", "ndcg1", "rr", "ap"),
        [
            # X1: the article prints DCG@3 of x as 1.88685, which is y's DCG; its NDCG@3 is right
            # X2: it truncates 1.3175293653 and 0.6182885020 to 1.31752 and 0.61828
            (X, 1.3175293653, 0.6182885020, 0.5, 0.2346393630, 0, 0.3333333333, 0.4777777778),
            (Y, 1.8868528072, 0.8854598816, 1.5, 0.7039180890, 1, 1, 0.7555555556),
            (Z, 1, 1, 1, 1, 1, 1, 1),
        ],
        ids="xyz",
    )
    def test_three_search_groups(
        self,
        labels: list[int],
        dcg: float,
        ndcg: float,
        dcg3: float,
        ndcg3: float,
        ndcg1: float,
        rr: float,
        ap: float,
    ) -> None:
        expected = {"dcg(gain=linear)": dcg, "ndcg(gain=linear)": ndcg, "dcg(gain=linear)@3": dcg3}
        # X3: AP averages precision at relevant positions, not "at each position", or even z would miss 1
        expected |= {"ndcg(gain=linear)@3": ndcg3, "ndcg(gain=linear)@1": ndcg1, "mrr": rr, "map": ap}
        for name, value in expected.items():
            assert metric_of_ranking(labels, name) == approx(value), name
        assert metric_of_ranking(labels, "ndcg") == metric_of_ranking(
            labels, "ndcg(gain=linear)"
        )  # the same for grades 0 and 1
        cumulated_gain = metric_of_ranking(labels, "dcg(discount=1_1_1_1_1,gain=linear)")
        assert cumulated_gain == sum(labels)

    def test_x1_is_not_what_the_slip_would_give(self) -> None:
        assert metric_of_ranking(self.X, "ndcg@3") == pytest.approx(0.5 / 2.1309297536)
        assert metric_of_ranking(self.X, "ndcg@3") != pytest.approx(1.88685 / 2.13093, abs=1e-3)

    def test_means_over_search_groups(self) -> None:
        labels = self.X + self.Y + self.Z
        scores = [5, 4, 3, 2, 1] * 3
        names = ["ndcg@5", "ndcg@3", "mrr", "map@5", "map@3"]
        ev = evaluate(labels, scores, group_sizes=[5, 5, 5], metrics=names)
        assert ev.means["ndcg@5"] == approx(0.8345827945)
        assert ev.means["ndcg@3"] == approx(0.6461858173)
        assert ev.means["mrr"] == approx(0.7777777778)
        assert ev.means["map@5"] == approx(0.7444444444)
        assert ev.means["map@3"] == pytest.approx(0.55556, abs=5e-6)  # both boosters print this

    @pytest.mark.parametrize(("empty", "mean"), [("skip", 0.61829), ("zero", 0.30914), ("one", 0.80914)])
    def test_a_query_without_relevant_rows(self, empty: str, mean: float) -> None:
        metric = f"ndcg(empty={empty})@5"
        ev = evaluate([*self.X, 0, 0, 0, 0, 0], [5, 4, 3, 2, 1] * 2, group_sizes=[5, 5], metrics=[metric])
        assert ev.means[metric] == pytest.approx(mean, abs=5e-6)

    def test_first_and_last_swapped(self) -> None:
        """X4: the article's 0.993 -> 0.646 comes from no list of 3 to 6 items, so this one is ours."""
        assert metric_of_ranking([3, 2, 2, 1, 0], "ndcg@5") == 1.0
        swapped = [0, 2, 2, 1, 3]
        assert metric_of_ranking(swapped, "ndcg@5") == approx(0.6034513878)
        assert metric_of_ranking(swapped, "ndcg(gain=linear)@5") == approx(0.6768678218)
        assert metric_of_ranking(swapped, "ndcg@3") == approx(0.3264560818)
        assert metric_of_ranking(swapped, "ndcg@1") == 0.0


class TestGuide:
    """S2: guide to ranking evaluation metrics."""

    def test_precision_and_recall(self) -> None:
        assert metric_of_ranking([1, 0, 1, 0, 1], "precision@5") == 0.6
        assert metric_of_ranking([1, 1, 0, 0, 1, 1], "recall@5") == 0.75

    def test_average_precision(self) -> None:
        # X16: the article divides by the relevant documents found in the top K
        assert metric_of_ranking([1, 0, 1, 1, 0], "map(denominator=retrieved)@5") == approx(0.8055555556)
        assert metric_of_ranking([0, 1, 0, 1, 1], "map(denominator=retrieved)@5") == approx(0.5333333333)
        one_outside = [1, 0, 1, 1, 0, 1]
        assert metric_of_ranking(one_outside, "map(denominator=retrieved)@5") == approx(0.8055555556)
        assert metric_of_ranking(one_outside, "map@5") == approx(0.6041666667)

    def test_precision_cannot_tell_the_top_from_the_bottom_and_ap_can(self) -> None:
        """X6: the article says precision at 10 tells ranks (1, 2) from (9, 10); it does not."""
        top, bottom = [1, 1] + [0] * 8, [0] * 8 + [1, 1]
        assert metric_of_ranking(top, "precision@10") == metric_of_ranking(bottom, "precision@10") == 0.2
        assert metric_of_ranking(top, "map@10") == 1.0
        assert metric_of_ranking(bottom, "map@10") == approx(0.1555555556)

    def test_recall_never_decreases(self) -> None:
        """X7: it does not "always increase"; and it is 1 once everything is shown."""
        labels = [0, 1, 0, 0, 1, 0]
        values = [metric_of_ranking(labels, f"recall@{k}") for k in range(1, 7)]
        assert values == [0.0, 0.5, 0.5, 0.5, 1.0, 1.0]

    def test_fewer_inversions_and_a_worse_list(self) -> None:
        """C2: rebuilt to match the article's text."""
        first, second = [1, 0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 1, 1, 0]
        assert metric_of_ranking(first, "kendall_tau_distance") == 9
        assert metric_of_ranking(second, "kendall_tau_distance") == 8
        assert metric_of_ranking(first, "kendall_tau_distance(normalized=true)") == 9 / 12
        assert metric_of_ranking(first, "mrr") == 1.0
        assert metric_of_ranking(second, "mrr") == 1 / 3
        assert metric_of_ranking(first, "ndcg") == pytest.approx(0.81058, abs=5e-6)
        assert metric_of_ranking(second, "ndcg") == pytest.approx(0.65339, abs=5e-6)

    def test_lower_squared_error_and_a_worse_list(self) -> None:
        y = np.array([1.0, 0, 0, 0, 0])
        a, b = np.array([0.6, 0.5, 0.4, 0.4, 0.4]), np.array([0.1, 0.15, 0.12, 0.12, 0.12])
        assert ((y - a) ** 2).mean() == approx(0.178)
        assert ((y - b) ** 2).mean() == approx(0.17514)
        assert evaluate(y, a, group_sizes=[5], metrics=["mrr"]).means["mrr"] == 1.0
        assert evaluate(y, b, group_sizes=[5], metrics=["mrr"]).means["mrr"] == 0.2

    def test_gains_of_grades(self) -> None:
        # X10: one grade more is worth 3, 2.33, 2.14, 2.07 times as much, not "double"
        assert [metric_of_ranking([g], "dcg@1") for g in range(1, 6)] == [1, 3, 7, 15, 31]

    @pytest.mark.parametrize(("p", "value"), [(0.5, 0.640625), (0.8, 0.393536), (0.95, 0.1338140469)])
    def test_rbp(self, p: float, value: float) -> None:
        assert metric_of_ranking([1, 0, 1, 0, 0, 1], f"rbp(p={p})") == approx(value)

    def test_rbp_reaches_one_only_in_an_infinite_list(self) -> None:
        """X12: n relevant documents give 1 - p^n, and the residual says so."""
        assert metric_of_ranking([1] * 5, "rbp(p=0.8)") == approx(0.67232)
        assert metric_of_ranking([1] * 5, "rbp_residual(p=0.8)") == approx(0.8**5)

    def test_relevance_of_rbp_may_be_any_share(self) -> None:
        assert metric_of_ranking([0.5, 0.25], "rbp(graded=true,max_grade=1,p=0.5)") == approx(
            0.5 * (0.5 + 0.5 * 0.25)
        )

    def test_err_goes_on_with_a_probability(self) -> None:
        """X8: ERR is an expectation within a query, not an average reciprocal rank over queries."""
        assert metric_of_ranking([3, 2, 0, 1, 2], "err(continuation=0.85,max_grade=4)") == approx(
            0.4950970929
        )

    def test_gain_may_be_real_valued_or_a_table(self) -> None:
        assert metric_of_ranking([0.5, 2.5], "dcg(gain=linear)") == approx(0.5 + 2.5 / np.log2(3))
        assert metric_of_ranking([1, 2], NDCG(gain={0: 0, 1: 1, 2: 5})) == approx(
            (1 + 5 / np.log2(3)) / (5 + 1 / np.log2(3))
        )


class TestTextbook:
    """S3: textbook chapter on ranking metrics."""

    GRADES = (3, 2, 0, 1, 2)

    def test_worked_example(self) -> None:
        # X13: the article's 10.485, 10.824, 0.969 sum rounded terms; right to the digits it prints
        assert metric_of_ranking(self.GRADES, "dcg@5") == approx(10.4840242405)
        assert metric_of_ranking(sorted(self.GRADES, reverse=True), "dcg@5") == approx(10.8234658188)
        assert metric_of_ranking(self.GRADES, "ndcg@5") == approx(0.9686383656)
        assert metric_of_ranking(self.GRADES, "ndcg@3") == approx(0.8556691604)
        assert metric_of_ranking(self.GRADES, "ndcg(gain=linear)@5") == approx(0.9602471758)
        assert metric_of_ranking(self.GRADES, "dcg@5") == pytest.approx(10.485, abs=2e-3)
        assert metric_of_ranking(self.GRADES, "ndcg@5") == pytest.approx(0.969, abs=5e-4)

    def test_contributions(self) -> None:
        sums = [0.0] + [metric_of_ranking(self.GRADES, f"dcg@{k}") for k in range(1, 6)]
        assert np.diff(sums) == pytest.approx([7, 1.8927892607, 0, 0.4306765581, 1.1605584217], abs=1e-9)

    def test_discounts(self) -> None:
        found = [metric_of_ranking([0] * (r - 1) + [1], "dcg") for r in range(1, 6)]
        assert found == pytest.approx([1, 0.6309297536, 0.5, 0.4306765581, 0.3868528072], abs=1e-9)
        assert metric_of_ranking([0] * 9 + [1], "dcg") == pytest.approx(
            0.289, abs=5e-4
        )  # gentler than 1/10 (D10)

    def test_the_pool_of_the_ideal_list(self) -> None:
        """X14: the article says "all items" and sorts the five retrieved; both are here, by name."""
        labels = [*self.GRADES, 3]
        scores = [5, 4, 3, 2, 1, -np.inf]  # the sixth was never shown
        ev = evaluate(labels, scores, group_sizes=[6], metrics=["ndcg@5", "ndcg(ideal=shown)@5"])
        assert ev.means["ndcg@5"] == approx(0.7183106239)
        assert ev.means["ndcg(ideal=shown)@5"] == approx(0.9686383656)
        assert metric_of_ranking([3, 3, 2, 2, 1], "dcg@5") == approx(14.5953907565)

    def test_three_denominators_of_average_precision(self) -> None:
        """X16: found in the top K, all relevant, or the fewer of both (as both boosters)."""
        labels = [1, 0, 1, 1, 1]
        assert metric_of_ranking(labels, MAP(k=3, denominator="retrieved")) == approx(0.8333333333)
        assert metric_of_ranking(labels, MAP(k=3, denominator="total")) == approx(0.4166666667)
        assert metric_of_ranking(labels, MAP(k=3)) == approx(0.5555555556)

    def test_average_precision_and_mrr(self) -> None:
        assert metric_of_ranking([1, 0, 1, 0, 0, 1], "map") == approx(0.7222222222)
        assert metric_of_ranking([1, 1, 1, 0, 0, 0], "map") == 1.0
        labels, scores, sizes = hit_at(1, 3, 2)
        ev = evaluate(labels, scores, group_sizes=sizes, metrics=["mrr"])
        assert ev.means["mrr"] == approx(0.6111111111)

    def test_nothing_relevant_in_the_top_k(self) -> None:
        """D4."""
        assert metric_of_ranking([0, 0, 1], "mrr@2") == 0.0

    def test_mrr_is_blind_after_the_first_hit_and_err_is_not(self) -> None:
        """D6."""
        one, three = [4, 0, 0], [4, 4, 4]
        assert metric_of_ranking(one, "mrr") == metric_of_ranking(three, "mrr") == 1.0
        assert metric_of_ranking(one, "err(max_grade=4)") == 0.9375
        assert metric_of_ranking(three, "err(max_grade=4)") == approx(0.968017578125)

    def test_precision_ignores_the_order_within_k(self) -> None:
        """D7."""
        rng = np.random.default_rng(0)
        labels = np.array([1, 0, 0, 1, 1, 0, 1, 0])
        for _ in range(5):
            top = rng.permutation(5)
            shuffled = np.concatenate([labels[:5][top], labels[5:]])
            assert metric_of_ranking(shuffled.tolist(), "precision@5") == metric_of_ranking(
                labels.tolist(), "precision@5"
            )


class TestRecap:
    """S4: recap of ranking evaluation metrics. X15: sorting by true labels gives the ideal DCG, not the DCG."""

    def test_satisfaction_by_grade(self) -> None:
        found = [metric_of_ranking([g], "err(max_grade=4)") for g in (1, 2, 3, 4)]
        assert found == [0.0625, 0.1875, 0.4375, 0.9375]
        assert metric_of_ranking([0], "err(empty=zero,max_grade=4)") == 0.0

    @pytest.mark.parametrize(
        ("grades", "value"),
        [([4], 0.9375), ([0, 4], 0.46875), ([4, 4], 0.966796875), ([3, 2, 4], 0.633056640625)],
    )
    def test_err(self, grades: list[int], value: float) -> None:
        assert metric_of_ranking(grades, "err(max_grade=4)") == approx(value)

    def test_the_scale_belongs_to_the_experiment(self) -> None:
        """The same list on a scale to 4 and to 3: never taken from the query."""
        grades = [3, 2, 0, 1, 2]
        assert metric_of_ranking(grades, "err(max_grade=4)") == approx(0.5134429932)
        assert metric_of_ranking(grades, "err(max_grade=3)") == approx(0.9060058594)
        assert metric_of_ranking(grades, "err(max_grade=4)@3") == approx(0.490234375)
        assert metric_of_ranking([3, 2, 2, 1, 0], "err(max_grade=4)") == approx(0.5246009827)

    def test_every_metric_says_whether_it_uses_grades(self) -> None:
        """E1."""
        graded = {name for name in METRICS if catalog.load(name).graded}
        assert graded == {
            *("ndcg", "dcg", "cg", "err", "err_ia", "nerr", "pfound", "q"),
            *("kendall_tau_distance", "spearman", "tau_ap", "mean_label"),
        }


class TestTies:
    """Needed by D23, from no article: the mean over all orders, and its extremes."""

    @pytest.mark.parametrize(
        ("gain", "mean", "worst", "best"),
        [("linear", 0.6909785335, 0.4776330006, 1.0), ("exp", 0.5964427516, 0.3926925177, 1.0)],
    )
    def test_a_constant_model(self, gain: str, mean: float, worst: float, best: float) -> None:
        labels = [10, 0, 0, 1, 5]
        for ties, value in (("expected", mean), ("worst", worst), ("best", best)):
            metric = NDCG(gain=gain, ties=ties)  # type: ignore[arg-type]
            ev = evaluate(labels, [1.0] * 5, group_sizes=[5], metrics=[metric])
            assert ev[metric].mean == approx(value)


class TestWhatBoostersAccept:
    """2.7: integer labels >= 0 for exponential gain; nothing negative."""

    def test_fractions_need_linear_gain(self) -> None:
        with pytest.raises(
            MetricError, match=r"label 0.5 in query '0'.*gain=exp needs integer labels; use gain=linear"
        ):
            metric_of_ranking([0.5, 1], "ndcg")
        assert metric_of_ranking([1, 0.5], "ndcg(gain=linear)") == 1.0

    def test_negative_labels_are_refused(self) -> None:
        with pytest.raises(ValueError, match=r"label -1 is not a grade, in query '0'.*expected labels >= 0"):
            metric_of_ranking([-1, 1], "ndcg(gain=linear)")

    def test_grades_above_thirty_are_exact(self) -> None:
        assert metric_of_ranking([5, 31], "dcg@1") == 31
        assert metric_of_ranking([31, 5], "ndcg") == 1.0
        assert metric_of_ranking([40], "dcg") == 2.0**40 - 1


def test_what_no_preset_of_metrics_asks_for() -> None:
    """A raw DCG is not comparable between queries, and inversions mislead: neither is anybody's default."""
    from ltr_harness.experiments.config.expand import PRESETS

    asked = {name for preset in PRESETS.values() for name in (*preset["report"], preset["primary"])}
    assert not {parse_metric(name).name for name in asked} & {"dcg", "kendall_tau_distance", "tau_ap"}


def test_average_precision_over_what_was_retrieved_by_hand() -> None:
    def ap(*labels: int) -> float:
        scores = range(len(labels), 0, -1)
        found = evaluate(
            labels, list(scores), group_sizes=[len(labels)], metrics=["map(denominator=retrieved)@3"]
        )
        return found.means["map(denominator=retrieved)@3"]

    assert ap(1, 0, 0, 1) == 1.0  # one hit among three, at rank 1: 1/1 over 1
    assert ap(0, 1, 1, 1) == pytest.approx((1 / 2 + 2 / 3) / 2)
    assert ap(0, 0, 0, 1) == 0.0  # no hit: no division by 0
