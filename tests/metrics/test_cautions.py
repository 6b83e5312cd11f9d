"""Cautions about data on which a metric misleads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ltr_harness import evaluate, evaluate_runs, parse_metric
from ltr_harness.data.judgments import Judgments
from ltr_harness.data.queries import QueryGroups
from ltr_harness.errors import Caution
from ltr_harness.metrics.core.cautions import cautions


def cautions_by_kind(
    metrics: Sequence[str], labels: Sequence[float], sizes: Sequence[int]
) -> dict[str, Caution]:
    judgments = Judgments.checked(labels, QueryGroups.from_sizes(sizes))
    return {
        caution.kind: caution for caution in cautions([parse_metric(name) for name in metrics], judgments)
    }


def test_nothing_is_said_about_an_ordinary_set() -> None:
    labels = ([1] + [0] * 9 + [1] + [0] * 19) * 5
    assert cautions_by_kind(["ndcg@5", "mrr@10", "map@5", "err(max_grade=1)@5"], labels, [30] * 5) == {}


def test_many_grades_with_exponential_gain() -> None:
    """A24: here the median positive gain is 7 and the largest 1023."""
    labels = [10, 5, 3, 3, 2, 1, 0]
    found = cautions_by_kind(["ndcg@5", "ndcg(gain=linear)@5"], labels, [7])
    assert found["fine-grades"].text.startswith("the labels have 6 distinct grades, 0 to 10;")
    steep = found["steep-gain"]
    assert (steep.place, steep.severity) == ("ndcg@5", "warning")
    assert "the largest gain is 146 times the median positive one" in steep.text  # 1023 / 7
    gains = np.array([1023, 31, 7, 7, 3, 1, 0]) / np.log2(np.arange(2, 9))
    assert f"10, make up {gains[0] / gains.sum():.0%} of all ideal DCG" in steep.text
    assert "steep-gain" not in cautions_by_kind(["ndcg(gain=linear)@5"], labels, [7])


def test_an_evaluation_says_that_its_gain_is_steep() -> None:
    """Grades to 20: 2^20 - 1 is 149,796 times 2^3 - 1."""
    labels, scores = [20, 3, 3, 1, 0], [5, 4, 3, 2, 1]
    ev = evaluate(labels, scores, ["ndcg@5", "ndcg(gain=linear)@5"], group_sizes=[5])
    (caution,) = ev.cautions
    assert str(caution).startswith(
        "ndcg@5: with exponential gain the largest gain is 149,796 times the median positive one"
    )
    assert repr(ev).splitlines()[2:] == [f"warning: {caution}"]
    assert evaluate(labels, scores, ["ndcg(gain=linear)@5"], group_sizes=[5]).cautions == ()
    qrels = {"q": {f"d{at}": grade for at, grade in enumerate(labels)}}
    run = {"q": {f"d{at}": score for at, score in enumerate(scores)}}
    assert evaluate_runs(qrels, run, ["ndcg@5"]).cautions == (caution,)


def test_five_grades_are_not_many() -> None:
    assert cautions_by_kind(["ndcg@2"], [0, 1, 2, 3, 4], [5]) == {}
    assert set(cautions_by_kind(["ndcg@2"], [0, 1, 2, 3, 4, 5], [6])) == {"fine-grades", "steep-gain"}


def test_few_grades_may_be_steep_too() -> None:
    """Judgments of 0, 1 and 6: one row of the top grade outweighs 62 of the other."""
    assert "63 times the median" in cautions_by_kind(["ndcg@3"], [6, 1, 1, 0], [4])["steep-gain"].text
    assert "steep-gain" not in cautions_by_kind(
        ["ndcg@3"], [5, 1, 1, 0], [4]
    )  # 31 times, what five grades always allow
    assert (
        "63 times the median" in cautions_by_kind(["ndcg@3"], [6, 1, 1], [3])["steep-gain"].text
    )  # also without a 0
    assert cautions_by_kind(["ndcg@2"], [0, 0], [2]) == {}  # nothing gains anything


def test_the_top_share_counts_each_query_on_its_own() -> None:
    labels = [0, 6, 1, 1, 2, 3, 4, 5]
    found = cautions_by_kind(["dcg"], labels, [4, 4])
    first = np.array([63, 1, 1, 0]) / np.log2(np.arange(2, 6))
    second = np.array([31, 15, 7, 3]) / np.log2(np.arange(2, 6))
    assert f"{first[0] / (first.sum() + second.sum()):.0%} of all ideal DCG" in found["steep-gain"].text


def test_large_cutoffs() -> None:
    """A21: above the median list length, or above 20."""
    short = cautions_by_kind(["ndcg@10", "ndcg@3", "mrr@10"], [1, 0, 0] * 4, [3] * 4)["large-cutoff"]
    assert (short.place, short.cure) == ("ndcg@10, mrr@10", "compare at a smaller K")
    assert short.text.startswith("the cutoff is above the median list length, 3 documents")
    long = cautions_by_kind(["ndcg@50"], [1] + [0] * 99, [100])["large-cutoff"]
    assert str(long).startswith("ndcg@50: few users look at 50 documents")
    assert "large-cutoff" not in cautions_by_kind(["ndcg@20", "ndcg"], [1] + [0] * 99, [100])


def test_mrr_saturates_where_most_rows_are_relevant() -> None:
    found = cautions_by_kind(["mrr@10", "mrr(relevant=2)@10"], [1, 1, 2, 0] * 5, [20])
    assert found["saturation"].place == "mrr@10"
    assert found["saturation"].text.startswith("75% of the documents have a label of 1 or more")
    assert "saturation" in cautions_by_kind(["mrr@10"], [1] * 11 + [0] * 9, [20])
    assert "saturation" not in cautions_by_kind(
        ["mrr@10"], [1] * 10 + [0] * 10, [20]
    )  # more than half, not half


def test_binary_metrics_collapse_grades() -> None:
    """D9."""
    found = cautions_by_kind(
        ["map", "precision@1", "ndcg", "rbp(graded=true,max_grade=2,p=0.5)"], [2, 1, 0, 0], [4]
    )
    assert found["collapsed-grades"].place == "map, precision@1"
    assert "counts all grades from 1 to 2 alike" in found["collapsed-grades"].text
    assert "collapsed-grades" not in cautions_by_kind(["map(relevant=2)"], [2, 1, 0, 0], [4])
    assert "collapsed-grades" not in cautions_by_kind(
        ["n_relevant"], [2, 1, 0, 0], [4]
    )  # counting is all it is for
    judgments = Judgments.checked([3, 2, 1, 0], QueryGroups.from_sizes([4]))
    both = cautions([parse_metric("map"), parse_metric("map(relevant=2)")], judgments)
    assert [(one.place, "all grades from 2 to 3 alike" in one.text) for one in both] == [
        ("map", False),
        ("map(relevant=2)", True),
    ]


def test_rows_nobody_judged() -> None:
    judgments = Judgments.checked([1, 0, 0, 0], QueryGroups.from_sizes([4]), judged=[True, True, True, False])
    (caution,) = cautions([], judgments)
    assert str(caution).startswith(
        "1 of 4 documents are unjudged; every metric but bpref counts them as not relevant"
    )


def test_what_rbp_leaves_open() -> None:
    found = cautions_by_kind(["mrr", "rbp(p=0.5)@2"], [1, 0, 0, 1], [3, 1])["residual"]
    assert found.place == "rbp(p=0.5)@2"
    assert "could still add up to 0.3750 to its mean" in str(found)  # (1/4 + 1/2) / 2
    ev = evaluate([1, 0, 0, 1], [4, 3, 2, 1], group_sizes=[3, 1], metrics=["rbp_residual(p=0.5)@2"])
    assert ev.means["rbp_residual(p=0.5)@2"] == 0.375
    assert "residual" not in cautions_by_kind(["rbp_residual(p=0.5)@2"], [1, 0, 0, 1], [3, 1])
