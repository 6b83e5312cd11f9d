"""A metric as the objective of LightGBM and XGBoost: every way in, the model outside, what is refused."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pytest
import xgboost

from ltr_harness.boosting import lightgbm as for_lightgbm
from ltr_harness.boosting import swap_gradients
from ltr_harness.boosting import xgboost as for_xgboost
from ltr_harness.errors import DataError, MetricError, UsageError
from ltr_harness.metrics import ERR, NDCG, bind

LIGHTGBM: dict[str, Any] = {
    "metric": "None",
    "verbosity": -1,
    "num_threads": 1,
    "min_data_in_leaf": 5,
    "num_leaves": 8,
}
XGBOOST: dict[str, Any] = {
    "base_score": 0.0,
    "disable_default_eval_metric": 1,
    "max_depth": 3,
    "nthread": 1,
    "verbosity": 0,
}


def dataset(split: Any, **more: Any) -> Any:
    return lightgbm.Dataset(split.X, label=split.labels, group=split.sizes, params=LIGHTGBM, **more)


def matrix(split: Any, **more: Any) -> Any:
    return xgboost.DMatrix(split.X, label=split.labels, group=split.sizes, nthread=1, **more)


def train_lightgbm(split: Any, objective: Any, rounds: int = 10, **more: Any) -> Any:
    return lightgbm.train({**LIGHTGBM, "objective": objective}, dataset(split, **more), rounds)


def train_xgboost(split: Any, objective: Any, rounds: int = 10, **more: Any) -> Any:
    return xgboost.train(XGBOOST, matrix(split, **more), rounds, obj=objective)


def value(split: Any, scores: Any, metric: str) -> float:
    return float(bind(metric, for_xgboost.judgments_of(matrix(split))).means(scores)[0])


@pytest.mark.parametrize(
    "metric", ["ndcg@5", "mrr", "map", "err(max_grade=4)@5", "precision@3", "q", "rprec"]
)
@pytest.mark.long
def test_training_raises_the_metric_in_both(train: Any, metric: str) -> None:
    trees = train_lightgbm(train, for_lightgbm.objective(metric)).predict(train.X, raw_score=True)
    margins = train_xgboost(train, for_xgboost.objective(metric)).predict(matrix(train), output_margin=True)
    nothing = value(train, np.zeros(len(train.X)), metric)
    assert value(train, trees, metric) > nothing + 0.1
    assert value(train, margins, metric) > nothing + 0.1


def test_every_way_into_lightgbm_gives_the_same_model(train: Any) -> None:
    objective = for_lightgbm.objective(ERR(k=5, max_grade=4), threads=1)
    scores = train_lightgbm(train, objective).predict(train.X, raw_score=True)
    ranker = lightgbm.LGBMRanker(
        objective=objective, n_estimators=10, n_jobs=1, verbosity=-1, min_child_samples=5, num_leaves=8
    ).fit(train.X, train.labels, group=train.sizes)
    np.testing.assert_array_equal(ranker.predict(train.X), scores)
    for copied in (pickle.loads(pickle.dumps(objective)), copy.deepcopy(objective)):
        np.testing.assert_array_equal(train_lightgbm(train, copied).predict(train.X, raw_score=True), scores)
    booster = lightgbm.Booster({**LIGHTGBM, "objective": "none"}, dataset(train))
    for _ in range(10):
        booster.update(fobj=objective)
    np.testing.assert_array_equal(booster.predict(train.X, raw_score=True), scores)


def test_every_way_into_xgboost_gives_the_same_model(train: Any) -> None:
    objective = for_xgboost.objective(ERR(k=5, max_grade=4), threads=1)
    scores = train_xgboost(train, objective).predict(matrix(train), output_margin=True)
    query = np.repeat(np.arange(train.sizes.size), train.sizes)
    for loss in ("rank:ndcg", "rank:pairwise"):
        ranker = xgboost.XGBRanker(
            objective=loss, callbacks=[objective], n_estimators=10, n_jobs=1, max_depth=3, base_score=0.0
        ).fit(train.X, train.labels, qid=query)
        np.testing.assert_array_equal(ranker.predict(train.X, output_margin=True), scores)
        pickle.dumps(ranker)
    copied = pickle.loads(pickle.dumps(objective))
    np.testing.assert_array_equal(
        train_xgboost(train, copied).predict(matrix(train), output_margin=True), scores
    )


def test_cross_validation_takes_it(train: Any) -> None:
    ndcg = NDCG(k=5)
    found = lightgbm.cv(
        {**LIGHTGBM, "objective": for_lightgbm.objective(ndcg)},
        dataset(train),
        5,
        nfold=3,
        feval=for_lightgbm.feval(ndcg),
    )
    assert len(found["valid ndcg@5-mean"]) == 5
    assert found["valid ndcg@5-mean"][-1] > found["valid ndcg@5-mean"][0]
    table = xgboost.cv(
        XGBOOST,
        matrix(train),
        5,
        nfold=3,
        obj=for_xgboost.objective(ndcg),
        custom_metric=for_xgboost.custom_metric(ndcg),
        as_pandas=False,
    )
    assert table["test-ndcg@5-mean"][-1] > table["test-ndcg@5-mean"][0]


def test_the_stored_model_scores_in_the_plain_library(train: Any, tmp_path: Path) -> None:
    trees = train_lightgbm(train, for_lightgbm.objective("mrr"))
    trees.save_model(tmp_path / "model.txt")
    stored = lightgbm.Booster(model_file=tmp_path / "model.txt")
    np.testing.assert_array_equal(stored.predict(train.X), trees.predict(train.X, raw_score=True))
    booster = train_xgboost(train, for_xgboost.objective("mrr"))
    booster.save_model(tmp_path / "model.ubj")
    plain = xgboost.Booster(model_file=tmp_path / "model.ubj")
    np.testing.assert_array_equal(
        plain.predict(matrix(train)), booster.predict(matrix(train), output_margin=True)
    )


def test_neither_threads_nor_row_order_move_a_model(train: Any) -> None:
    one, two = (
        train_lightgbm(train, for_lightgbm.objective("map", threads=threads)).predict(train.X, raw_score=True)
        for threads in (1, 2)
    )
    np.testing.assert_array_equal(one, two)


def test_weights_of_queries_count(train: Any) -> None:
    weights = np.where(np.arange(train.sizes.size) % 2, 1.0, 0.0)
    kept = np.repeat(weights, train.sizes) > 0
    gradient, hessian = for_xgboost.objective("ndcg")(np.zeros(len(train.X)), matrix(train, weight=weights))
    assert (gradient[~kept] == 0).all()
    assert (hessian[~kept] == 0).all()
    assert np.count_nonzero(gradient[kept])
    rows = np.repeat(weights, train.sizes)
    data = dataset(train, weight=rows).construct()
    np.testing.assert_array_equal(for_lightgbm.objective("ndcg")(np.zeros(len(train.X)), data)[0], gradient)


def test_a_scale_taken_from_the_first_data_is_kept(train: Any) -> None:
    objective = for_lightgbm.objective("err@5")
    with pytest.warns(UserWarning, match="taking the largest label seen, 4"):
        objective(np.zeros(len(train.X)), dataset(train).construct())
    low = lightgbm.Dataset(np.eye(3), label=[0, 1, 2], group=[3], params=LIGHTGBM).construct()
    fixed = for_lightgbm.objective("err(max_grade=4)@5")(np.zeros(3), low)[0]
    np.testing.assert_array_equal(objective(np.zeros(3), low)[0], fixed)


def test_new_labels_of_a_dataset_count() -> None:
    data = lightgbm.Dataset(np.eye(3), label=[0, 1, 0], group=[3], params=LIGHTGBM).construct()
    objective = for_lightgbm.objective("mrr")
    assert objective(np.zeros(3), data)[0].argmin() == 1
    data.set_label([0, 0, 1])
    assert objective(np.zeros(3), data)[0].argmin() == 2


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
def test_data_that_cannot_be_ranked_is_refused(library: str) -> None:
    def gradients(labels: Any, metric: str = "ndcg", scores: Any = None, **more: Any) -> Any:
        rows, at = np.eye(len(labels)), np.zeros(len(labels)) if scores is None else scores
        if library == "lightgbm":
            data = lightgbm.Dataset(rows, label=labels, params=LIGHTGBM, **more).construct()
            return for_lightgbm.objective(metric)(at, data)
        return for_xgboost.objective(metric)(at, xgboost.DMatrix(rows, label=labels, **more))

    with pytest.raises(DataError, match="has no query groups"):
        gradients([0, 1])
    with pytest.raises(DataError, match="expected finite scores"):
        gradients([0, 1], group=[2], scores=np.array([0.0, np.inf]))
    with pytest.raises(MetricError, match="is above max_grade"):
        gradients([0, 3], "err(max_grade=2)", group=[2])
    if library == "xgboost":
        with pytest.raises(xgboost.core.XGBoostError, match="Label contains NaN"):
            gradients([0, np.nan], group=[2])
    else:  # it has put 0 in its place before anybody can see it
        np.testing.assert_array_equal(gradients([1, np.nan], group=[2]), gradients([1, 0], group=[2]))


def test_a_ranker_without_queries_is_refused() -> None:
    with pytest.raises(UsageError, match="was given no query groups"):
        for_lightgbm.objective("ndcg")(np.zeros(2), np.zeros(2))


@pytest.mark.parametrize("library", [for_lightgbm, for_xgboost])
def test_what_cannot_be_optimised_is_refused(library: Any) -> None:
    with pytest.raises(MetricError, match="bpref cannot be an objective"):
        library.objective("bpref")
    with pytest.raises(MetricError, match="truncation_level=0"):
        library.objective("ndcg", truncation_level=0)


def test_gradients_are_prepared_once_for_each_of_sixteen_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[float] = []

    class Counted(swap_gradients.Gradients):
        def __init__(self, objective: Any, judgments: Any, threads: int = 1) -> None:
            made.append(float(judgments.labels[0]))
            super().__init__(objective, judgments, threads)

    monkeypatch.setattr(swap_gradients, "Gradients", Counted)
    objective = for_lightgbm.objective("mrr", threads=1)
    sets = [(np.array([float(number), 0.0]), np.array([2])) for number in range(1, 18)]

    def ask(numbers: Any) -> list[float]:
        made.clear()
        for number in numbers:
            labels, sizes = sets[number - 1]
            objective(labels, np.zeros(2), None, sizes)
        return list(made)

    assert ask(range(1, 17)) == list(range(1, 17))
    assert ask(range(1, 17)) == []
    assert ask([1, 17]) == [17]  # in the place of the second, which was not used for longest
    assert ask([1, 3, 17, 2]) == [2]
    labels, sizes = sets[0]
    made.clear()
    objective(labels, np.zeros(2), np.array([1.0, 1.0]), sizes)  # other weights
    assert made == [1]
