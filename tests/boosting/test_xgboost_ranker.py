"""Our metrics in XGBoost's scikit-learn class, alone and in a search."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xgboost

from ltr_harness import evaluate
from ltr_harness.boosting.xgboost import Watch, custom_metric
from ltr_harness.errors import MetricError, UsageError
from ltr_harness.metrics import MAP, NDCG

pytest.importorskip("sklearn", reason="needs scikit-learn")

OPTIONS: dict[str, Any] = {
    "objective": "rank:ndcg",
    "disable_default_eval_metric": 1,
    "n_estimators": 60,
    "max_depth": 4,
    "learning_rate": 0.3,
    "n_jobs": 1,
}
METRICS = (NDCG(k=10), MAP())


def frame(split: Any) -> pd.DataFrame:
    table = pd.DataFrame(split.X, columns=[f"f{i}" for i in range(split.X.shape[1])])
    return table.assign(qid=np.repeat(np.arange(len(split.sizes)), split.sizes))


def matrix(split: Any) -> Any:
    return xgboost.DMatrix(frame(split).drop(columns="qid"), split.labels, group=split.sizes)


def mean(split: Any, scores: Any) -> float:
    found = evaluate(split.labels, scores, group_sizes=split.sizes, metrics=["ndcg@10"])
    return found.means["ndcg@10"]


def test_a_ranker_is_watched_on_its_own_sets_with_the_query_as_a_column(train: Any, valid: Any) -> None:
    watch = Watch(*METRICS, patience=5)
    ranker = xgboost.XGBRanker(**OPTIONS, callbacks=[watch]).fit(
        frame(train), train.labels, eval_set=[(frame(valid), valid.labels)]
    )
    assert ranker.best_iteration + 1 == watch.best_round == ranker.get_booster().num_boosted_rounds() < 50
    assert watch.best_value == pytest.approx(mean(valid, ranker.predict(frame(valid))), abs=1e-12)
    history = [one.value for one in watch.history if one.metric == "ndcg@10"]
    assert ranker.evals_result()["validation_0"]["ndcg@10"] == history


def test_the_class_passes_its_metric_no_groups_and_the_refusal_names_watch(train: Any, valid: Any) -> None:
    ranker = xgboost.XGBRanker(**OPTIONS, eval_metric=custom_metric("ndcg@10"))
    with pytest.raises(UsageError, match=r"expected XGBRanker\(callbacks=\[Watch\(…\)\]\)"):
        ranker.fit(frame(train), train.labels, eval_set=[(frame(valid), valid.labels)])


@pytest.mark.long
@pytest.mark.parametrize("own_data", [False, True])
def test_a_ranker_with_a_watch_can_be_cloned_and_pickled(train: Any, valid: Any, own_data: bool) -> None:
    from sklearn.base import clone

    watch = Watch(*METRICS, data={"valid": matrix(valid)} if own_data else None, patience=5)
    ranker = xgboost.XGBRanker(**OPTIONS, callbacks=[watch])
    evals = {} if own_data else {"eval_set": [(frame(valid), valid.labels)]}
    ranker.fit(frame(train), train.labels, **evals)
    again = pickle.loads(pickle.dumps(ranker))
    np.testing.assert_array_equal(again.predict(frame(valid)), ranker.predict(frame(valid)))
    assert again.callbacks[0].history == watch.history
    assert again.callbacks[0].best_round == watch.best_round
    for twin in (clone(ranker), clone(again)):
        assert twin.callbacks[0] is not watch
        twin.fit(frame(train), train.labels, **evals)
        assert twin.callbacks[0].history == watch.history
        np.testing.assert_array_equal(twin.predict(frame(valid)), ranker.predict(frame(valid)))


@pytest.mark.long
def test_a_grid_search_stops_each_candidate_on_the_watched_set(train: Any, valid: Any) -> None:
    from sklearn.model_selection import GridSearchCV, GroupKFold

    watch = Watch(*METRICS, data={"valid": matrix(valid)}, patience=5)
    options = {**OPTIONS, "disable_default_eval_metric": 0}  # XGBRanker.score asks for it
    ranker = xgboost.XGBRanker(**options, callbacks=[watch])
    search = GridSearchCV(ranker, {"max_depth": [2, 4]}, cv=GroupKFold(2))
    search.fit(frame(train), train.labels, groups=frame(train).qid)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    best = search.best_estimator_
    assert best.callbacks[0].best_value == pytest.approx(mean(valid, best.predict(frame(valid))), abs=1e-12)
    assert watch.history == []


def test_custom_metric_can_be_pickled_and_copied(train: Any) -> None:
    data = matrix(train)
    scores = np.linspace(1, 0, len(train.labels)).astype(np.float32)
    for one in (custom_metric(*METRICS), pickle.loads(pickle.dumps(custom_metric(*METRICS)))):
        assert dict(one(scores, data))["ndcg@10"] == pytest.approx(mean(train, scores), abs=1e-12)
        assert pickle.loads(pickle.dumps(one))(scores, data) == one(scores, data)


def test_pickled_sets_keep_weights_names_missing_values_and_categories(train: Any) -> None:
    features = frame(train).drop(columns="qid")
    features.loc[::7, "f0"] = np.nan
    features["kind"] = pd.Categorical(np.where(features.f1 > 0, "a", "b"))
    weight = np.random.default_rng(3).uniform(0.5, 2, len(train.sizes))
    data = xgboost.DMatrix(
        features,
        train.labels,
        group=train.sizes,
        weight=weight,
        base_margin=np.linspace(0, 1, len(features)),
        enable_categorical=True,
    )
    twin = pickle.loads(pickle.dumps(Watch("mrr", data={"valid": data})))._given["valid"]
    options = {"objective": "rank:ndcg", "tree_method": "hist", "nthread": 1}
    booster = xgboost.train(options, data, 4)
    np.testing.assert_array_equal(booster.predict(twin), booster.predict(data))
    np.testing.assert_array_equal(twin.get_weight(), data.get_weight())
    np.testing.assert_array_equal(twin.get_group(), data.get_group())
    assert (twin.feature_names, twin.feature_types) == (data.feature_names, data.feature_types)


def test_a_metric_that_takes_a_parameter_from_data_is_refused_across_workers(train: Any) -> None:
    from ltr_harness.boosting.xgboost_metrics import AcrossWorkers

    with (
        pytest.warns(UserWarning, match="has no max_grade"),
        pytest.raises(
            MetricError, match=r"err@10 takes a parameter from data, .* such as err\(max_grade=4\)@10"
        ),
    ):
        AcrossWorkers(custom_metric("err@10")._metrics, matrix(train))
