"""Weights that differ within a query: each library alone, given the same weights, grows the same trees."""

from dataclasses import replace
from typing import Any

import lightgbm
import numpy as np
import pytest
import xgboost

from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.judgments import Judgments
from ltr_harness.experiments.training.dask import local_cluster
from ltr_harness.models.catboost import CatBoostRanker
from ltr_harness.models.dask import Workers
from ltr_harness.models.lightgbm import LightGBMRanker
from ltr_harness.models.ranker import Training
from ltr_harness.models.xgboost import XGBoostRanker

SMALL: dict[str, Any] = {
    "lightgbm": {"num_leaves": 7, "learning_rate": 0.2},
    "xgboost": {"max_depth": 3, "eta": 0.2},
    "catboost": {"depth": 3, "learning_rate": 0.2, "boost_from_average": False},
}
ROUNDS = 8
SAID = "takes one weight per query, the mean of its rows'"


@pytest.fixture(scope="module")
def rows(make_dataset: Any) -> RankingDataset:
    """Training rows with a weight each."""
    plain = make_dataset(1)
    weights = np.random.default_rng(7).uniform(0.1, 3, plain.n_rows)
    return replace(of_queries(plain, weights), row_weights=weights)


def of_queries(plain: RankingDataset, weights: Any) -> RankingDataset:
    """The same where a query has the mean of its rows' weights, and rows have none."""
    means = plain.groups.sum(weights) / plain.groups.sizes
    judgments = Judgments.checked(plain.labels, plain.groups, query_weights=means)
    return replace(plain, judgments=judgments, row_weights=None)


def fitted(kind: Any, objective: Any, train: RankingDataset, **fields: Any) -> Any:
    ranker = kind.model_validate({"objective": objective, "params": SMALL[kind.library], **fields})
    return ranker.fit(Training(train=train, seed=5, rounds=ROUNDS))


@pytest.mark.parametrize("objective", ["lambdarank", "rank_xendcg", "regression", "multiclass", "poisson"])
def test_lightgbm_weighs_rows(objective: str, rows: RankingDataset) -> None:
    model = fitted(LightGBMRanker, objective, rows)
    data = lightgbm.Dataset(
        rows.features, label=rows.labels, group=rows.groups.sizes, weight=rows.weights_of_rows()
    )
    own = {"objective": objective, "metric": "None", "seed": 5, "verbosity": -1, "num_threads": 1}
    own |= {"deterministic": True, "force_row_wise": True}
    own |= {"num_class": int(rows.labels.max()) + 1} if objective == "multiclass" else {}
    alone = lightgbm.train({**SMALL["lightgbm"], **own}, data, ROUNDS)
    trees = [str(one.model_to_string()).partition("Tree=0")[2] for one in (model.booster, alone)]
    trees = [text.partition("end of trees")[0] for text in trees]
    assert trees[0] == trees[1]
    assert not any(SAID in note for note in map(str, model.cautions))
    other = fitted(LightGBMRanker, objective, of_queries(rows, rows.row_weights))
    assert (other.score(rows.features) != model.score(rows.features)).any()


def xgboost_alone(objective: str, train: RankingDataset, **fields: Any) -> Any:
    data = xgboost.DMatrix(train.features, label=train.labels, **fields)
    own: dict[str, Any] = {"objective": objective, "seed": 5, "nthread": 1, "tree_method": "hist"}
    own |= {"num_class": int(train.labels.max()) + 1} if objective == "multi:softprob" else {}
    return xgboost.train({**SMALL["xgboost"], **own}, data, ROUNDS)


def dump(booster: Any) -> list[str]:
    booster = booster.copy()
    booster.feature_names = None
    return list(booster.get_dump(with_stats=True, dump_format="json"))


@pytest.mark.parametrize("objective", ["reg:squarederror", "multi:softprob", "count:poisson"])
def test_xgboost_weighs_rows_where_it_looks_at_one_at_a_time(objective: str, rows: RankingDataset) -> None:
    model = fitted(XGBoostRanker, objective, rows)
    assert dump(model.booster) == dump(xgboost_alone(objective, rows, weight=rows.weights_of_rows()))
    assert not any(SAID in note for note in map(str, model.cautions))


def test_xgboost_ranks_with_one_weight_per_query_and_says_so(rows: RankingDataset) -> None:
    model = fitted(XGBoostRanker, "rank:ndcg", rows)
    means = rows.judgments.query_weights
    assert dump(model.booster) == dump(
        xgboost_alone("rank:ndcg", rows, group=rows.groups.sizes, weight=means)
    )
    assert f"the objective rank:ndcg {SAID}" in map(str, model.cautions)


@pytest.mark.parametrize(
    ("kind", "objective", "name"),
    [
        (LightGBMRanker, {"metric": "mrr@5"}, "mrr@5"),
        (XGBoostRanker, {"metric": "mrr@5"}, "mrr@5"),
        (XGBoostRanker, "rank_xendcg", "rank_xendcg"),
        (CatBoostRanker, "YetiRank", "YetiRank"),
        (CatBoostRanker, "QueryRMSE", "QueryRMSE"),
    ],
)
def test_others_take_the_mean_and_say_so(kind: Any, objective: Any, name: str, rows: RankingDataset) -> None:
    if kind is CatBoostRanker:
        pytest.importorskip("catboost")
    fields = {} if kind is not CatBoostRanker else {"params": {"depth": 3}}
    model = fitted(kind, objective, rows, **fields)
    queries = fitted(kind, objective, of_queries(rows, rows.row_weights), **fields)
    scores = model.score(rows.features)
    # LightGBM has weights in float32
    np.testing.assert_allclose(scores, queries.score(rows.features), rtol=0, atol=1e-4)
    equal = of_queries(rows, np.ones(rows.n_rows))
    assert np.abs(scores - fitted(kind, objective, equal, **fields).score(rows.features)).max() > 1e-3
    assert f"the objective {name} {SAID}" in map(str, model.cautions)
    assert not any(SAID in note for note in map(str, queries.cautions))


@pytest.mark.parametrize("objective", ["RMSE", "MultiClass", "Poisson"])
def test_catboost_weighs_rows_where_it_looks_at_one_at_a_time(objective: str, rows: RankingDataset) -> None:
    catboost = pytest.importorskip("catboost")
    params = {"depth": 3, "learning_rate": 0.2}
    model = fitted(CatBoostRanker, objective, rows, params=params)
    pool = catboost.Pool(rows.features, label=rows.labels, weight=rows.weights_of_rows())
    own = {"loss_function": objective, "random_seed": 5, "thread_count": 1, "logging_level": "Silent"}
    alone = catboost.CatBoost({**params, **own, "iterations": ROUNDS, "allow_writing_files": False}).fit(pool)
    for one in (model.booster.get_leaf_values, model.booster.get_tree_leaf_counts):
        np.testing.assert_array_equal(one(), getattr(alone, one.__name__)())
    np.testing.assert_array_equal(
        model.booster.predict(rows.features, prediction_type="RawFormulaVal"),
        alone.predict(rows.features, prediction_type="RawFormulaVal"),
    )
    assert not any(SAID in note for note in map(str, model.cautions))


@pytest.mark.long
def test_lightgbm_weighs_rows_across_workers(rows: RankingDataset) -> None:
    pytest.importorskip("distributed", reason="needs ltr-harness[dask]")
    with local_cluster(1) as started:
        client = started.client

        def scores_across(train: RankingDataset) -> Any:
            def load(address: str, name: str, first: int, end: int) -> Any:
                return client.scatter(train.take(np.arange(first, end)), workers=[address], hash=False)

            fields = {"params": SMALL["lightgbm"], "data_parallel": True}
            training = Training(train=train, seed=5, rounds=ROUNDS, workers=Workers(client, load))
            return LightGBMRanker.model_validate(fields).fit(training).score(train.features)

        here = fitted(LightGBMRanker, "lambdarank", rows).score(rows.features)
        np.testing.assert_allclose(scores_across(rows), here, rtol=0, atol=1e-9)
        assert np.abs(scores_across(of_queries(rows, rows.row_weights)) - here).max() > 1e-3
