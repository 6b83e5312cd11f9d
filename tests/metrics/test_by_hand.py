"""Short lists computed by hand: absolute values, where ratios would hide a factor, and what lies just at an edge."""

from __future__ import annotations

from math import log2

import numpy as np
import pytest

from ltr_harness import evaluate
from ltr_harness.data.judgments import Judgments
from ltr_harness.data.queries import QueryGroups
from ltr_harness.errors import DataError, MetricError
from ltr_harness.metrics import (
    CG,
    DCG,
    ERR,
    GAUC,
    MRR,
    NDCG,
    NERR,
    RBP,
    BPref,
    KendallTauDistance,
    Metric,
    PFound,
    Spearman,
    TauAP,
    function_metric,
    parse_metric,
)
from ltr_harness.metrics.core.binding import bind
from ltr_harness.metrics.core.gains import discounts
from ltr_harness.metrics.core.ranking import RowRanker


def of_one_query(metric: Metric, labels: list[float], scores: list[float] | None = None) -> float:
    """The metric of one query, whose rows come in the order of the list unless scores are given."""
    order = list(range(len(labels), 0, -1)) if scores is None else scores
    return float(evaluate(labels, order, group_sizes=[len(labels)], metrics=[metric])[metric].per_query[0])


def test_letors_discount_leaves_two_ranks_whole() -> None:
    dcg = DCG(gain="linear", discount="letor")
    assert of_one_query(dcg, [1, 1, 1, 1]) == pytest.approx(1 + 1 + 1 / log2(3) + 1 / log2(4))


def test_cumulative_gain_is_dcg_without_a_discount() -> None:
    assert of_one_query(CG(k=2), [2, 0, 1]) == 3.0
    assert of_one_query(CG(), [2, 0, 1]) == 4.0
    assert of_one_query(CG(k=2, gain="linear"), [2, 1, 1]) == 3.0
    assert of_one_query(CG(k=2, gain=[0, 1, 5]), [2, 1, 1]) == 6.0
    assert of_one_query(CG(k=1), [2, 0], [1.0, 1.0]) == 1.5  # tied: the mean of 3 and 0
    assert of_one_query(CG(k=2), [2, 0, 1]) == of_one_query(DCG(k=2, discount=[1, 1]), [2, 0, 1])


def test_a_list_is_never_shorter_than_itself() -> None:
    """Without a cutoff, `short_list=zero` means the list's own length: it made every list 0."""
    whole = parse_metric("ndcg(as=letor)")
    ideal = 3 + 1 + 0 / log2(3)  # grades 2, 1, 0; ranks 1 and 2 whole
    assert of_one_query(whole, [1, 2, 0]) == pytest.approx((1 + 3) / ideal)
    assert of_one_query(whole, [0, 1, 2]) == pytest.approx((1 + 3 / log2(3)) / ideal)
    ev = evaluate([0, 1, 2], [3, 2, 1], group_sizes=[3], metrics=[whole, whole.with_cutoff(4), "ndcg@3"])
    assert list(ev.means.values())[:2] == [pytest.approx((1 + 3 / log2(3)) / ideal), 0.0]


def test_a_table_of_discounts_may_be_longer_than_the_list() -> None:
    assert discounts("1_0.5_0.25", 2, "dcg").tolist() == [1.0, 0.5]
    dcg = DCG(gain="linear", discount=[1, 0.5, 0.25], k=2)
    assert of_one_query(dcg, [1, 1, 1, 1]) == 1.5


def test_grades_up_to_a_thousand_have_an_exponential_gain() -> None:
    assert of_one_query(DCG(k=1), [1000]) == 2.0**1000
    with pytest.raises(MetricError, match=r"label 1001 in query .* overflows"):
        of_one_query(DCG(k=1), [1001])


def test_a_grade_just_beyond_the_table_has_no_gain() -> None:
    assert of_one_query(DCG(gain=[0, 5], k=1), [1, 0]) == 5.0
    with pytest.raises(
        MetricError, match=r"label 2 in query .* the gain table ends at grade 1; add its gain"
    ):
        of_one_query(DCG(gain=[0, 5]), [2, 0])


def test_how_many_users_look_at_each_rank() -> None:
    assert RBP(p=0.75).rank_facts(3)["weight"].tolist() == [1 / 4, 3 / 16, 9 / 64]
    assert of_one_query(RBP(p=0.75, k=2), [1, 0, 1]) == 1 / 4
    graded = RBP(p=0.75, graded=True, max_grade=4)
    assert (
        of_one_query(graded, [1, 8, 4]) == 1 / 4 * 1 / 4 + 3 / 16 * 1 + 9 / 64
    )  # grades above the highest are full


SHOWN = NDCG(gain="linear", ideal="shown", k=3)


def test_the_ideal_of_what_was_shown() -> None:
    # of grades 1, 2, 4, the last was never shown: the best list of the others is 2, 1
    scores = [2.0, 1.0, -np.inf]
    assert of_one_query(SHOWN, [1, 2, 4], scores) == pytest.approx((1 + 2 / log2(3)) / (2 + 1 / log2(3)))
    # a query whose relevant documents were not shown is as undefined as one that has none
    assert np.isnan(of_one_query(SHOWN, [0, 0, 4], scores))
    assert of_one_query(NDCG(k=3), [0, 0, 4], scores) == pytest.approx(1 / log2(4))
    # half a grade is little, but not nothing
    assert of_one_query(SHOWN, [0.5, 0, 4], scores) == 1.0


def test_the_divisor_of_what_was_shown() -> None:
    judgments = Judgments.checked([1, 2, 4], QueryGroups.from_sizes([3]))
    ranking = RowRanker(judgments, "expected", None).rank(np.array([2.0, 1.0, -np.inf]))
    said, divisor = SHOWN.divisor_at(judgments, ranking, np.array([1, 3]))
    assert (said, divisor.tolist()) == ("ideal DCG", pytest.approx([2, 2 + 1 / log2(3)]))


def test_what_each_relevant_row_adds_to_bpref() -> None:
    judgments = Judgments.checked([1, 0, 1, 0], QueryGroups.from_sizes([4]))
    ranker, bpref = RowRanker(judgments, "expected", None), BPref()
    in_order = ranker.rank(np.array([4.0, 3.0, 2.0, 1.0]))  # of two against, 0 and 1 above
    assert bpref.contributions(judgments, in_order).tolist() == [1, 0, 1 - 1 / 2, 0]
    tied = ranker.rank(np.array([4.0, 4.0, 2.0, 1.0]))  # the first row has 0 or 1 above, on average a half
    by_row = dict(zip(tied.rows.tolist(), bpref.contributions(judgments, tied).tolist(), strict=True))
    assert by_row == {0: 1 - 1 / 4, 1: 0, 2: 1 - 1 / 2, 3: 0}
    said, divisor = bpref.divisor_at(judgments, tied, np.array([4]))
    assert (said, divisor.tolist()) == ("R", [2])


def test_a_whole_is_never_exceeded_by_rounding() -> None:
    """Each of n tied documents, r of them relevant, is expected to be r / n of a hit: together r or a bit more."""
    shares = [(n, r) for n in range(1, 41) for r in range(1, n + 1)]
    assert any(sum([r / n] * n) > r for n, r in shares)
    rows = np.concatenate([np.arange(n) < r for n, r in shares])
    ev = evaluate(
        rows.astype(float),
        np.zeros(rows.size),
        group_sizes=[n for n, _ in shares],
        judged=rows,
        metrics=[
            "recall",
            "judged(ties=stable)",
            "rprec",
            "map",
            "bpref",
            "q",
            "nerr(max_grade=1)",
            "ndcg",
            "success",
        ],
    )
    for metric in ev.metrics:
        assert ev[metric].per_query.max() <= 1.0, metric
    assert (
        of_one_query(NDCG(gain="linear"), [0.1] * 3, [0, 0, 0]) == 1.0
    )  # of three times 0.1, a third is more
    assert ev["recall"].per_query == pytest.approx(np.ones(len(shares)), abs=1e-12)


def test_a_list_of_just_k_rows_is_not_short() -> None:
    strict = NDCG(k=2, short_list="zero")
    assert [of_one_query(strict, [1] * n) for n in (1, 2, 3)] == [0.0, 1.0, 1.0]


def test_scores_tie_in_float32_only_where_asked_for() -> None:
    scores = [1.0, 1.0 + 1e-9]
    assert of_one_query(MRR(), [1, 0], scores) == 1 / 2
    assert of_one_query(MRR(score_precision="float32"), [1, 0], scores) == (1 + 1 / 2) / 2


def test_means_carry_what_sums_would_lose() -> None:
    queries = QueryGroups.from_sizes([1] * 4)
    plain = bind("mrr", Judgments.checked([1] * 4, queries))
    assert plain.means_of(np.array([[1.0, 1e16, 1.0, -1e16]])).tolist() == [2 / 4]
    weighted = bind("mrr", Judgments.checked([1] * 4, queries, query_weights=[1e16, 1, 1, 1]))
    assert weighted.means_of(np.array([[0.0, 1.0, 1.0, np.nan]])).tolist() == [2 / (1e16 + 2)]


def test_scores_and_retrieved_rows_of_different_lengths() -> None:
    two = bind("mrr", Judgments.checked([1, 0], QueryGroups.from_sizes([2])))
    with pytest.raises(DataError, match=r"1 score for 2 rows"):
        two.per_query([1.0], retrieved=[True, True])


def test_orders_of_two_rows() -> None:
    for agrees, labels in ((True, [1.0, 0.0]), (False, [0.0, 1.0])):
        assert of_one_query(TauAP(), labels) == (1 if agrees else -1)
        for normalized in (False, True):
            assert of_one_query(KendallTauDistance(normalized=normalized), labels) == (0 if agrees else 1)
    for metric in (TauAP(), KendallTauDistance(), KendallTauDistance(normalized=True)):
        assert np.isnan(of_one_query(metric, [1, 1]))  # nothing to put in order


def test_the_best_list_and_one_without_relevant_rows() -> None:
    nerr = NERR(max_grade=4)
    assert of_one_query(nerr, [4, 2, 2, 0]) == 1.0
    assert np.isnan(of_one_query(nerr, [0, 0]))
    assert of_one_query(NERR(max_grade=4, empty="one"), [0, 0]) == 1.0
    assert of_one_query(NERR(max_grade=4, empty="zero"), [0, 0]) == 0.0


def test_what_each_rank_is_worth_in_explanations() -> None:
    for metric in (MRR(), ERR(max_grade=1)):
        assert metric.rank_facts(3)["1 / rank"].tolist() == [1, 1 / 2, 1 / 3]


def test_a_tie_across_the_cutoff_of_what_is_all_the_same() -> None:
    """Its order decides nothing, so that the number of relevant documents retrieved is known."""
    retrieved = parse_metric("map(denominator=retrieved)@2")
    assert of_one_query(retrieved, [1, 0, 0], [2, 1, 1]) == 1.0
    assert of_one_query(retrieved, [0, 1, 1], [2, 1, 1]) == 1 / 2
    with pytest.raises(MetricError, match="documents of query '0' tie across the cutoff"):
        of_one_query(retrieved, [0, 0, 1], [2, 1, 1])


def test_the_first_hit_within_a_tie_below_the_top() -> None:
    # two of the three rows at ranks 2 to 4 are relevant: the first is at rank 2 in 2 of 3 orders, else at rank 3
    assert of_one_query(MRR(), [0, 1, 0, 1], [2, 1, 1, 1]) == pytest.approx(2 / 3 / 2 + 1 / 3 / 3)
    assert of_one_query(MRR(k=2), [0, 1, 0, 1], [2, 1, 1, 1]) == pytest.approx(2 / 3 / 2)
    # one of them: each rank in 1 of 3
    assert of_one_query(MRR(), [0, 0, 0, 1], [2, 1, 1, 1]) == pytest.approx((1 / 2 + 1 / 3 + 1 / 4) / 3)


def test_who_reads_on_below_a_tie() -> None:
    # grade 1 satisfies half of the users, half of the others read on; rank 3 is reached by 1/8 in either order
    metric = ERR(max_grade=1, continuation=0.5)
    assert of_one_query(metric, [1, 0, 1]) == pytest.approx(1 / 2 + 1 / 8 * 1 / 2 / 3)
    assert of_one_query(metric, [0, 1, 1]) == pytest.approx(1 / 2 * 1 / 2 / 2 + 1 / 8 * 1 / 2 / 3)
    assert of_one_query(metric, [1, 0, 1], [1, 1, 0]) == pytest.approx((1 / 2 + 1 / 8) / 2 + 1 / 48)


def test_the_first_row_above_the_scale_is_named() -> None:
    with pytest.raises(MetricError, match=r"label 2 in query '0' is above max_grade \(2 such rows\)"):
        evaluate([2, 0, 3], [3, 2, 1], group_sizes=[2, 1], metrics=[ERR(max_grade=1)])


@pytest.mark.parametrize("largest", [0.5, 1])
def test_no_scale_ends_below_one(largest: float) -> None:
    with pytest.warns(UserWarning, match="taking the largest label seen, 1, from here on"):
        ev = evaluate([largest, 0], [2.0, 1.0], group_sizes=[2], metrics=["err"])
    assert ev.metrics == ("err(max_grade=1)",)


def test_a_scale_that_nobody_named_is_the_largest_label_and_is_said() -> None:
    with pytest.warns(UserWarning, match="taking the largest label seen, 4, from here on"):
        ev = evaluate([4, 2], [2.0, 1.0], group_sizes=[2], metrics=[RBP(p=0.5, graded=True)])
    assert ev.means["rbp(graded=true,max_grade=4,p=0.5)"] == 1 / 2 + 1 / 4 * 1 / 2


def test_err_with_another_utility_of_a_rank() -> None:
    """Grade 1 of 1 satisfies with 1/2; ranks 1 and 3 do."""
    labels = [1.0, 0.0, 1.0]
    assert of_one_query(ERR(max_grade=1), labels) == 1 / 2 + 1 / 2 * 1 / 2 * 1 / 3
    assert of_one_query(ERR(max_grade=1, discount="log2"), labels) == 1 / 2 + 1 / 4 * 1 / 2
    assert of_one_query(ERR(max_grade=1, discount="none"), labels) == 1 / 2 + 1 / 4
    assert of_one_query(ERR(max_grade=1, discount=[1, 0.5, 0.1]), labels) == pytest.approx(0.525)
    assert of_one_query(ERR(max_grade=1, discount="log2"), [1, 1], [0, 0]) == pytest.approx(
        1 / 2 + 1 / 4 / log2(3)
    )
    assert of_one_query(NERR(max_grade=1, discount="log2"), [0, 1]) == pytest.approx(1 / log2(3))
    assert str(parse_metric("err(discount=1_0.5,max_grade=1)@2")) == "err(discount=1_0.5,max_grade=1)@2"
    assert str(ERR(k=5, max_grade=4, discount="reciprocal")) == "err(max_grade=4)@5"


def test_utilities_that_err_refuses() -> None:
    with pytest.raises(MetricError, match=r"err: discount=1_2; expected factors from 0 to 1"):
        ERR(discount=[1, 2])
    with pytest.raises(MetricError, match="expected reciprocal, log2, letor, none, or a table"):
        ERR(discount="sqrt")
    with pytest.raises(MetricError, match="err: the discount table ends at rank 1; expected a factor"):
        of_one_query(ERR(max_grade=1, discount=[1]), [1, 0])


def test_pfound_is_patience_and_satisfaction() -> None:
    """Grades 0, 1, 2 of 2 have the probabilities 0, 1/4, 3/4."""
    assert of_one_query(PFound(max_grade=2), [0, 1, 2]) == pytest.approx(
        0.85 * 1 / 4 + 0.85**2 * 3 / 4 * 3 / 4
    )
    assert (
        of_one_query(PFound(max_grade=2, continuation=1), [1, 2]) == 1 - 3 / 4 * 1 / 4
    )  # found, or not at all
    assert str(PFound(k=10, max_grade=2)) == "pfound(max_grade=2)@10"


def test_err_of_a_query_of_which_nothing_was_retrieved() -> None:
    """Without a cutoff it looked for the largest tie of an empty list, and ended in NumPy's words."""
    for metric in (ERR(max_grade=1), PFound(max_grade=1)):
        measured = evaluate([1, 0], [2.0, 1.0], group_sizes=[2], metrics=[metric], retrieved=[False, False])
        assert measured[metric].per_query.tolist() == [0.0]


def test_spearman_by_the_squares_of_distances() -> None:
    assert of_one_query(Spearman(), [3, 2, 1, 0]) == 1.0
    assert of_one_query(Spearman(), [0, 1, 2, 3]) == -1.0
    assert of_one_query(Spearman(), [2, 3, 0, 1]) == pytest.approx(1 - 6 * 4 / (4 * 15))
    # ranks by label 2.5, 2.5, 1 beside 3, 2, 1: 1.5 / sqrt(1.5 * 2)
    assert of_one_query(Spearman(), [1, 1, 0]) == pytest.approx(1.5 / 3**0.5)
    assert of_one_query(Spearman(), [2, 0, 1], [1, 1, 1]) == 0.0  # a constant model is chance
    assert np.isnan(of_one_query(Spearman(), [1, 1]))


def test_gauc_by_counting_pairs() -> None:
    assert of_one_query(GAUC(), [1, 0, 1, 0]) == 3 / 4
    assert of_one_query(GAUC(), [1, 0, 1, 0], [2, 2, 2, 1]) == (1 / 2 + 1 + 1 / 2 + 1) / 4
    assert of_one_query(GAUC(), [0, 1, 2], [1, 1, 1]) == 1 / 2
    assert of_one_query(GAUC(relevant=2), [1, 2, 0]) == 1 / 2
    for without_a_pair in ([1, 1], [0, 0]):
        assert np.isnan(of_one_query(GAUC(), without_a_pair))
    unlisted = evaluate(
        [1, 0, 0], [1, 2, 0], group_sizes=[3], metrics=["gauc"], retrieved=[False, True, False]
    )
    assert unlisted.means["gauc"] == 1 / 4  # tied at the end with the other document that was not retrieved


def test_the_exponential_gain_of_fractions_where_it_is_asked_for() -> None:
    """2^1/2 - 1 and 2^2 - 1."""
    half, top = 2**0.5 - 1, 3.0
    assert of_one_query(CG(gain="exp_real"), [0.5, 2]) == pytest.approx(half + top)
    expected = (half + top / log2(3)) / (top + half / log2(3))
    assert of_one_query(NDCG(gain="exp_real"), [0.5, 2]) == pytest.approx(expected)
    assert of_one_query(NDCG(gain="exp_real"), [1, 2, 0]) == of_one_query(NDCG(), [1, 2, 0])
    with pytest.raises(MetricError, match="gain=exp needs integer labels; use gain=linear or gain=exp_real"):
        of_one_query(NDCG(), [0.5, 2])
    with pytest.raises(MetricError, match=r"2\^g - 1 overflows"):
        of_one_query(NDCG(gain="exp_real"), [1000.5, 2])


def test_average_precision_of_what_was_retrieved_has_a_name_of_its_own() -> None:
    """Hits at ranks 1, 3 and 4, and a fourth relevant document below the cutoff."""
    labels, scores = [1, 0, 1, 1, 0, 1], [6, 5, 4, 3, 2, 1]
    metric = parse_metric("map_retrieved@5")
    assert str(metric) == "map(denominator=retrieved)@5"
    assert of_one_query(metric, labels) == pytest.approx((1 + 2 / 3 + 3 / 4) / 3)
    assert of_one_query(parse_metric("map@5"), labels) == pytest.approx((1 + 2 / 3 + 3 / 4) / 4)
    rows = {row.tool: row for row in parse_metric("map@5").explain(labels, scores).presets}
    assert rows["map_retrieved"].value == pytest.approx(0.8055555556)
    assert rows["map_retrieved"].reason == "divided by the relevant documents within K"
    with pytest.raises(
        MetricError, match=r"map_retrieved is map\(denominator=retrieved\); leave out denominator"
    ):
        parse_metric("map_retrieved(denominator=total)@5")
    with pytest.raises(MetricError, match="'map_retrieved' already names another metric"):
        function_metric(lambda labels, scores: 0.0, name="map_retrieved", higher_is_better=True)


def test_what_a_swap_of_rows_is_worth_to_q() -> None:
    """Grades 2 0 1 and 1 0: the ideal lists have cumulated gains 2 3 3 and 1 1, and two and one relevant documents."""
    judgments = Judgments.checked(np.array([2.0, 0, 1, 1, 0]), QueryGroups.from_sizes([3, 2]))
    change = parse_metric("q").swap_change(judgments)
    assert change.per_query
    assert change.worth.tolist() == [2, 0, 1, 1, 0]
    assert change.scale.tolist() == [1 / 2, 1]
    assert change.rank_worth.tolist() == [1 / (2 + 1), 1 / (3 + 2), 1 / (3 + 3), 1 / (1 + 1), 1 / (1 + 2)]
    assert change.depth is not None
    assert change.depth.tolist() == [3, 2]
    cut = parse_metric("q(b=2)@1").swap_change(judgments)
    assert (cut.scale.tolist(), cut.blend) == ([1, 1], 2)
    assert cut.depth is not None
    assert cut.depth.tolist() == [1, 1]
    assert cut.rank_worth[:2].tolist() == [1 / (2 * 2 + 1), 1 / (2 * 3 + 2)]


def test_labels_that_are_probabilities() -> None:
    """As CatBoost has them: 1/2 + 1/2 1/2 1 for ERR, 1/2 + .85 1/2 1 for pFound; no grade, no scale."""
    metrics = ["err(stop=label)", "pfound(as=catboost,max_grade=4)"]
    ev = evaluate([0.5, 1, 0.25], [3, 2, 1], metrics, group_sizes=[3])
    assert ev.metrics == ("err(stop=label)", "pfound(empty=zero,stop=label,ties=worst)")
    assert list(ev.means.values()) == pytest.approx([0.75, 0.925])
    with pytest.raises(
        MetricError,
        match=r"label 2 in query '0' is above 1, and stop=label takes labels for probabilities \(2 such rows\); "
        "stop=exp takes grades",
    ):
        evaluate([2, 0, 3], [3, 2, 1], metrics, group_sizes=[3])
