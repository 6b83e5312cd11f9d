"""CatBoost's objectives by their own strings: what it reads, what it reads over, and a metric among them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ltr_harness.metrics import bind
from ltr_harness.models.catboost import CatBoostRanker
from ltr_harness.models.objectives import CATBOOST
from ltr_harness.models.ranker import Training

pytest.importorskip("catboost", reason="the extra `catboost` is not installed")

SMALL = {"depth": 3, "learning_rate": 0.2}
# a parameter, or other labels: see test_pointwise.py
ASKS_FOR_MORE = {
    "StochasticRank",
    "RMSPE",
    "Huber",
    "Lq",
    "Expectile",
    "Tweedie",
    "Logloss",
    "Focal",
    "CrossEntropy",
}


def scores(train: Any, objective: Any, rounds: int = 2) -> Any:
    ranker = CatBoostRanker.model_validate({"objective": objective, "params": SMALL})
    return ranker.fit(Training(train=train, rounds=rounds)).score(train.features)


def problem(objective: Any, facts: Any = None) -> str:
    return "; ".join(map(str, CatBoostRanker.model_validate({"objective": objective}).check(facts)))


@pytest.mark.parametrize(
    "objective",
    [
        *(name for name in CATBOOST if name not in ASKS_FOR_MORE),
        "YetiRank:mode=MRR;top=10",
        "YetiRank:mode=NDCG;dcg_type=Exp",
        "LambdaMart:metric=NDCG;top=10;type=Exp;sigma=2;norm=false",
        "LambdaMart:metric=MAP",
        "StochasticRank:metric=NDCG;top=5",
        "PairLogit:max_pairs=100",
        "QuerySoftMax:beta=0.5",
    ],
)
def test_its_own_strings_reach_it(objective: str, train: Any) -> None:
    assert problem(objective) == ""
    model = CatBoostRanker(objective=objective, params=SMALL).fit(Training(train=train, rounds=1))
    assert model.params["loss_function"] == objective
    assert np.ptp(model.score(train.features)) > 0


@pytest.mark.parametrize(
    ("plain", "changed"),
    [
        ("YetiRank", "YetiRank:decay=0.5"),
        ("YetiRank:mode=NDCG", "YetiRank:mode=NDCG;dcg_type=Exp"),
        ("LambdaMart:metric=NDCG", "LambdaMart:metric=NDCG;type=Exp"),
        ("LambdaMart:metric=NDCG", "LambdaMart:metric=NDCG;top=3"),
        ("LambdaMart:metric=NDCG", "LambdaMart:metric=NDCG;sigma=2"),
        ("StochasticRank:metric=NDCG", "StochasticRank:metric=NDCG;mu=1"),
        ("Huber:delta=1", "Huber:delta=0.2"),
        ("Lq:q=2", "Lq:q=3"),
        ("Quantile", "Quantile:alpha=0.7"),
        ("Quantile", "Quantile:delta=0.01"),
        ("GroupQuantile", "GroupQuantile:alpha=0.7"),
        ("GroupQuantile", "GroupQuantile:delta=0.01"),
        ("LogLinQuantile", "LogLinQuantile:alpha=0.7"),
        ("Expectile:alpha=0.5", "Expectile:alpha=0.7"),
        ("Tweedie:variance_power=1.5", "Tweedie:variance_power=1.2"),
    ],
)
def test_parameters_that_are_let_through_change_the_model(plain: str, changed: str, train: Any) -> None:
    assert not np.array_equal(scores(train, plain), scores(train, changed))


@pytest.mark.parametrize(
    ("objective", "words"),
    [
        ("YetiRnk:mode=MRR", "unknown objective 'YetiRnk'; did you mean 'YetiRank'?"),
        ("YetiRank:mod=MRR", "YetiRank has no parameter 'mod'; did you mean 'mode'?"),
        ("YetiRank:mode=Nope", "Unknown weights mode Nope"),
        ("YetiRank:mode", "found 'mode'; expected name=value"),
        ("YetiRank:top=3", "CatBoost ignores top with mode=Classic"),
        ("LambdaMart:metric=MRR;top=3", "CatBoost ignores top with metric=MRR"),
        ("StochasticRank:metric=MRR;top=2", "with top, metric=MRR ends CatBoost's process"),
        ("StochasticRank", "StochasticRank requires metric param"),
        ("RMSE:x=1", "RMSE has no parameter 'x'; leave it out"),
    ],
)
def test_what_it_would_refuse_ignore_or_not_survive_is_told(objective: str, words: str) -> None:
    assert words in problem(objective)


def test_what_turns_its_lambdamart_round_is_refused(train: Any, problem_texts: Any) -> None:
    found = problem_texts(CatBoostRanker(objective="LambdaMart", params={"reg_lambda": 3.0}).check())
    assert "found 3.0: CatBoost's LambdaMart has the hessian's sign wrong" in found["params.l2_leaf_reg"]
    found = problem_texts(
        CatBoostRanker(objective="LambdaMart", params={"leaf_estimation_method": "Gradient"}).check()
    )
    assert "it would learn the worst order" in found["params.leaf_estimation_method"]
    params = CatBoostRanker(objective="LambdaMart").fit(Training(train=train, rounds=1)).params
    assert params["l2_leaf_reg"] == 0.01
    # a release that mends it is noticed
    import catboost

    pool = catboost.Pool(
        train.features, train.labels, group_id=np.repeat(range(train.n_queries), train.groups.sizes)
    )
    plain = {
        "loss_function": "LambdaMart",
        "iterations": 20,
        "allow_writing_files": False,
        "logging_level": "Silent",
    }
    turned = catboost.CatBoost({**plain, "leaf_estimation_method": "Gradient"}).fit(pool)
    binding = bind("ndcg@10", train.judgments)
    assert binding.means(turned.predict(train.features))[0] < binding.means(np.zeros(train.n_rows))[0]


def test_its_err_is_for_probabilities(facts: Any) -> None:
    assert problem("YetiRank:mode=ERR") == ""
    assert "takes labels for probabilities; the largest training label is 4" in problem(
        "YetiRank:mode=ERR", facts()
    )


@pytest.mark.parametrize(
    ("objective", "own"),
    [
        (
            {"metric": "ndcg@10", "sigma": 2.0},
            "LambdaMart:metric=NDCG;type=Exp;denominator=LogPosition;top=10;sigma=2;norm=true",
        ),
        (
            {"metric": "ndcg(gain=linear)", "norm": False},
            "LambdaMart:metric=NDCG;type=Base;denominator=LogPosition;sigma=1;norm=false",
        ),
        ({"metric": "mrr"}, "LambdaMart:metric=MRR;sigma=1;norm=true"),
        ({"metric": "map"}, "LambdaMart:metric=MAP;sigma=1;norm=true"),
    ],
)
def test_a_metric_that_it_has_is_translated(objective: Any, own: str, train: Any, facts: Any) -> None:
    ranker = CatBoostRanker.model_validate({"objective": objective, "params": SMALL, "preset": "small"})
    assert ranker.check(facts()) == []
    model = ranker.fit(Training(train=train, rounds=10))
    assert model.params["loss_function"] == own
    metric = objective["metric"]
    binding = bind(metric, train.judgments)
    assert binding.means(model.score(train.features))[0] > binding.means(np.zeros(train.n_rows))[0]


@pytest.mark.parametrize(
    ("objective", "words"),
    [
        (
            {"metric": "err@10"},
            "CatBoost has no objective for err@10: its LambdaMart has ndcg, mrr and map",
        ),
        ({"metric": "mrr@10"}, "its LambdaMart has mrr of whole lists alone"),
        ({"metric": "mrr(relevant=2)"}, "every label above 0 is relevant to it"),
        ({"metric": "ndcg(gain=0_1_5)"}, "and no table"),
        ({"metric": "ndcg(discount=letor)"}, "its LambdaMart has discount=log2 alone"),
        (
            {"metric": "ndcg@10", "truncation_level": 20},
            "objective.truncation_level: CatBoost's LambdaMart has no",
        ),
        (
            {"metric": "ndcg@10", "weighting": "ndcg_loss2++"},
            "objective.weighting: CatBoost's LambdaMart has no",
        ),
    ],
)
def test_a_metric_that_it_does_not_have_is_refused(objective: Any, words: str) -> None:
    assert words in problem(objective)


def test_its_dcg_is_ndcg(train: Any) -> None:
    dcg, ndcg = (
        scores(train, f"LambdaMart:metric={metric};type=Exp;norm=false") for metric in ("DCG", "NDCG")
    )
    np.testing.assert_array_equal(dcg, ndcg)
    assert "CatBoost has no objective for dcg@5" in problem({"metric": "dcg@5"})


def test_every_label_above_0_is_relevant_to_its_mrr(train: Any) -> None:
    from dataclasses import replace

    binary = replace(train, judgments=replace(train.judgments, labels=(train.labels > 0).astype(float)))
    np.testing.assert_array_equal(scores(train, {"metric": "mrr"}), scores(binary, {"metric": "mrr"}))
