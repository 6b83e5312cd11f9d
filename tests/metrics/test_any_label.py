"""Labels that are no grades, such as returns: what takes them, what they are worth, and who refuses them."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from ltr_harness import evaluate
from ltr_harness.boosting.lightgbm import objective
from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.judgments import Judgments
from ltr_harness.data.queries import QueryGroups
from ltr_harness.errors import MetricError
from ltr_harness.metrics import Binding, bind, function_metric, parse_metric
from ltr_harness.metrics.core.cautions import cautions
from ltr_harness.metrics.table import METRICS, catalog
from ltr_harness.models.catboost import CatBoostRanker
from ltr_harness.models.lightgbm import LightGBMRanker
from ltr_harness.models.ranker import TrainingFacts
from ltr_harness.models.xgboost import XGBoostRanker
from tests.conftest import examples, named_case


def returns(
    seed: int = 1, n_queries: int = 40
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """Labels, scores without ties, and sizes of 3 to 30 rows."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(3, 31, n_queries)
    return rng.normal(0, 0.05, sizes.sum()), rng.permutation(sizes.sum()) / 7, sizes


def test_mean_label_is_what_pandas_has() -> None:
    labels, scores, sizes = returns(n_queries=20)
    frame = pd.DataFrame({"ret": labels, "score": scores, "date": np.repeat(np.arange(sizes.size), sizes)})
    ordered = frame.sort_values("score", ascending=False).groupby("date")["ret"]
    for k in (1, 2, 5, 25, 100):
        names = [f"mean_label@{k}", f"mean_label(minus=bottom)@{k}"]
        ev = evaluate(labels, scores, names, group_sizes=sizes)
        top = ordered.apply(lambda ret, k=k: ret.head(k).mean())
        spread = top - ordered.apply(lambda ret, k=k: ret.tail(k).mean())
        np.testing.assert_allclose(ev[names[0]].per_query, top, rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(ev[names[1]].per_query, spread, rtol=1e-12, atol=1e-15)


def test_the_others_are_what_scipy_and_sklearn_have() -> None:
    labels, scores, sizes = returns(seed=2, n_queries=20)
    names = ["spearman", "kendall_tau_distance(normalized=true)", "gauc(relevant=0.01)"]
    ev = evaluate(labels, scores, names, group_sizes=sizes)
    parts = [np.split(column, np.cumsum(sizes)[:-1]) for column in (labels, scores)]
    for query, (own, ranked) in enumerate(zip(*parts, strict=True)):
        assert ev[names[0]].per_query[query] == pytest.approx(scipy.stats.spearmanr(own, ranked)[0])
        tau = scipy.stats.kendalltau(own, ranked)[0]
        assert ev[names[1]].per_query[query] == pytest.approx((1 - tau) / 2)
        relevant = own >= 0.01
        if 0 < relevant.sum() < relevant.size:
            assert ev[names[2]].per_query[query] == pytest.approx(roc_auc_score(relevant, ranked))
        else:
            assert np.isnan(ev[names[2]].per_query[query])


def test_by_hand() -> None:
    labels, scores = [0.04, -0.01, 0.02, -0.05, 0.1], [4.0, 3.0, 3.0, 2.0, 9.0]
    ev = evaluate(
        labels, scores, ["mean_label", "mean_label@3", "mean_label(minus=bottom)@3"], group_sizes=[4, 1]
    )
    assert ev["mean_label"].per_query.tolist() == pytest.approx([0.0, 0.1], abs=1e-15)
    # ranks 2 and 3 tie: whatever their order, the first three are those three
    assert ev["mean_label@3"].per_query.tolist() == pytest.approx([0.05 / 3, 0.1])
    assert ev["mean_label(minus=bottom)@3"].per_query.tolist() == pytest.approx([0.09 / 3, 0.0])
    tied = evaluate(
        [0.3, -0.1, 0.2], [1, 1, 1], ["mean_label@1", "mean_label(minus=bottom)@1"], group_sizes=[3]
    )
    assert tied["mean_label@1"].mean == pytest.approx(0.4 / 3)
    assert tied["mean_label(minus=bottom)@1"].mean == pytest.approx(0)
    for ties, value in (("worst", -0.4), ("best", 0.4), ("stable", 0.1)):
        name = f"mean_label(minus=bottom,ties={ties})@1"
        assert evaluate([0.3, -0.1, 0.2], [1, 1, 1], [name], group_sizes=[3])[name].mean == pytest.approx(
            value
        )


values = st.lists(st.tuples(st.floats(-100, 100, width=16), st.integers(0, 2)), min_size=1, max_size=6)


@examples(60)
@given(rows=values, k=st.integers(1, 8))
def test_mean_over_all_orders_of_equal_scores(rows: list[tuple[float, int]], k: int) -> None:
    labels, scores = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    names = [f"mean_label@{k}", f"mean_label(minus=bottom)@{k}"]
    found = evaluate(labels, scores, names, group_sizes=[len(rows)])
    orders = [
        order
        for order in itertools.permutations(range(len(rows)))
        if (np.diff(scores[list(order)]) <= 0).all()
    ]
    tops = [labels[list(order)][:k].mean() for order in orders]
    bottoms = [labels[list(order)][::-1][:k].mean() for order in orders]
    assert found[names[0]].mean == pytest.approx(np.mean(tops), abs=1e-9)
    assert found[names[1]].mean == pytest.approx(np.mean(tops) - np.mean(bottoms), abs=1e-9)
    # reversed scores turn the spread around; a shift of all labels moves the mean alone
    shifted = evaluate(labels + 7, -scores, names, group_sizes=[len(rows)])
    assert shifted[names[1]].mean == pytest.approx(-found[names[1]].mean, abs=1e-9)
    assert shifted[names[0]].mean == pytest.approx(np.mean(bottoms) + 7, abs=1e-9)


def test_missed_documents_and_empty_lists() -> None:
    groups = QueryGroups.from_sizes([3, 2])
    judgments = Judgments.checked([0.5, -1, 2, 1, 1], groups, retrieved=[True, True, False, False, False])
    metrics = [parse_metric(name) for name in ("mean_label@1", "mean_label(minus=bottom)@1")]
    np.testing.assert_array_equal(
        Binding(metrics, judgments).per_query([1.0, 2.0]), [[-1, np.nan], [-1.5, np.nan]]
    )
    assert judgments.lowest == -1
    late = Judgments.checked([0.5, 1, -2, 1, 1], groups, retrieved=[True, True, False, True, False])
    with pytest.raises(MetricError, match=r"label -2 is not a grade, in query '0', its row 2 \(1 such row\)"):
        bind(["ndcg"], late)


def test_which_metrics_take_any_label() -> None:
    taking = {name for name in METRICS if catalog.load(name).takes_any_label}
    assert taking == {
        *("gauc", "kendall_tau_distance", "mean_label", "spearman", "tau_ap"),
        *("brier", "judged", "log_loss", "n_relevant"),
    }
    labels, scores, sizes = returns()
    for name in taking:
        text = f"{name}(relevant=0.05)" if name in ("brier", "gauc", "log_loss") else name
        assert np.isfinite(evaluate(labels, scores, [text], group_sizes=sizes)[text].mean)
    for name in METRICS.keys() - taking:
        text = {"rbp": "rbp(p=0.8)", "rbp_residual": "rbp_residual(p=0.8)"}.get(name, name)
        with pytest.raises(MetricError, match="is not a grade, in query '0', its row"):
            evaluate(labels, scores, [text], group_sizes=sizes)


def test_all_that_need_grades_are_refused_at_once() -> None:
    with pytest.raises(MetricError) as refused:
        evaluate([0.5, -0.25, -1], [3, 2, 1], ["ndcg@10", "spearman", "mrr"], query_ids=["a", "b", "b"])
    assert str(refused.value) == (
        "ndcg@10, mrr: label -0.25 is not a grade, in query 'b', its row 0 (2 such rows); expected labels >= 0; in "
        "Python `np.clip(labels, 0, None)` makes losses 0, in an experiment "
        "`relevance: {mode: quantiles, column: ret, bins: 5, within: query}` makes grades of returns, and "
        "`unjudged: -1` marks documents as not judged; spearman, kendall_tau_distance, tau_ap, gauc and mean_label "
        "take any label"
    )


def test_a_function_of_ones_own_takes_any_label() -> None:
    metric = function_metric(lambda labels, scores: labels.min(), name="low", higher_is_better=True)
    assert evaluate([1, -2], [1, 2], [metric], group_sizes=[2])[metric].mean == -2


def test_nothing_is_said_of_grades_that_are_none() -> None:
    labels, _, sizes = returns()
    judgments = Judgments.checked(labels, QueryGroups.from_sizes(sizes))
    metrics = [parse_metric("spearman"), parse_metric("mean_label@2")]
    assert [one.kind for one in cautions(metrics, judgments)] == []
    assert judgments.grades is None
    assert Judgments.checked([-1.0, 255], QueryGroups.from_sizes([2])).grades is None


def training_facts(labels: NDArray[np.float64], sizes: NDArray[np.int64]) -> TrainingFacts:
    rng = np.random.default_rng(0)
    judgments = Judgments.checked(labels, QueryGroups.from_sizes(sizes))
    features = rng.normal(size=(labels.size, 2)).astype(np.float32)
    return TrainingFacts.of(RankingDataset(features, judgments, ("a", "b")), stopping=False)


REFUSING: list[tuple[Any, str]] = [
    *((LightGBMRanker, objective) for objective in ("lambdarank", "rank_xendcg", "multiclass")),
    *((XGBoostRanker, objective) for objective in ("rank:ndcg", "rank_xendcg", "multi:softprob")),
    *(
        (CatBoostRanker, objective)
        for objective in ("YetiRank:mode=NDCG", "QuerySoftMax", "StochasticRank:metric=DCG")
    ),
]
TAKING: list[tuple[Any, str]] = [
    (LightGBMRanker, "regression"),
    *((XGBoostRanker, objective) for objective in ("reg:squarederror", "rank:pairwise")),
    *((CatBoostRanker, objective) for objective in ("YetiRank", "PairLogit", "RMSE", "QueryRMSE")),
]


@pytest.mark.parametrize("whole", [False, True])
def test_objectives_of_grades_refuse_them_before_training(whole: bool) -> None:
    labels, _, sizes = returns()
    facts = training_facts(np.round(40 * labels) if whole else labels, sizes)
    lowest = facts.judgments.lowest if facts.judgments else 0
    for ranker, name in [*REFUSING, *TAKING]:
        refusal = (
            f"objective: {name} needs grades; the lowest training label is {lowest:g}; expected labels >= 0; "
            "use a regression or a pairwise objective, or make grades: `relevance: {mode: quantiles, column: ret, "
            "bins: 5, within: query}`"
        )
        said = [str(one) for one in ranker(objective=name).check(facts) if one.place == "objective"]
        with named_case(name):
            assert said == ([] if (ranker, name) in TAKING else [refusal])


def test_a_metric_as_the_objective() -> None:
    labels, _, sizes = returns()
    facts = training_facts(labels, sizes)
    refused = LightGBMRanker(objective={"metric": "ndcg@5"}).check(facts)
    assert ["ndcg@5: label" in str(one) and "is not a grade" in str(one) for one in refused] == [True]
    for name in ("mean_label@3", "mean_label(minus=bottom)@3", "spearman"):
        assert LightGBMRanker(objective={"metric": name}).check(facts) == []
        assert callable(objective(name))
