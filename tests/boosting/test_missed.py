"""Missed documents count wherever a library evaluates our metrics: every value is `evaluate`'s of the whole pool."""

from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass
from typing import Any

import lightgbm
import numpy as np
import pytest
import xgboost
from numpy.typing import NDArray

from ltr_harness import evaluate
from ltr_harness.boosting import lightgbm as for_lightgbm
from ltr_harness.boosting import xgboost as for_xgboost
from ltr_harness.data.judgments import Judgments
from ltr_harness.data.queries import QueryGroups
from ltr_harness.errors import DataError, UsageError
from tests.boosting.conftest import evaluation_arguments, make_split

METRICS = ("ndcg@5", "recall@3", "map(denominator=total)")
QUIET = {"verbosity": -1, "num_threads": 1, "min_data_in_leaf": 5, "num_leaves": 8}


@dataclass(frozen=True)
class Retrieved:
    """Candidates as a library gets them, and the pool that they are from."""

    X: NDArray[np.float32]
    labels: NDArray[np.float64]
    sizes: NDArray[np.int64]  # of the queries with candidates
    judgments: Judgments
    pool: tuple[NDArray[np.float64], NDArray[np.int64]]
    flags: NDArray[np.bool_]

    def means(self, scores: NDArray[np.floating]) -> list[float]:
        """`evaluate`'s means of the candidates' scores, the other documents of the pool being not retrieved."""
        labels, sizes = self.pool
        of_pool = np.zeros(labels.size)
        of_pool[self.flags] = scores
        found = evaluate(labels, of_pool, group_sizes=sizes, retrieved=self.flags, metrics=METRICS)
        return [found[name].mean for name in METRICS]


def retrieved(seed: int) -> Retrieved:
    split, rng = make_split(seed), np.random.default_rng(seed)
    share = np.repeat(rng.choice([0.0, 0.5, 0.8, 1.0], split.sizes.size, p=[0.1, 0.3, 0.3, 0.3]), split.sizes)
    flags = rng.random(split.labels.size) < share
    groups = QueryGroups.from_sizes(split.sizes)
    judgments = Judgments.checked(split.labels, groups, retrieved=flags)
    sizes = judgments.groups.sizes
    assert (sizes == 0).any()
    return Retrieved(
        split.X[flags], split.labels[flags], sizes[sizes > 0], judgments, (split.labels, split.sizes), flags
    )


@pytest.fixture(scope="module")
def train() -> Retrieved:
    return retrieved(1)


@pytest.fixture(scope="module")
def valid() -> Retrieved:
    return retrieved(2)


def dataset(split: Retrieved, **more: Any) -> Any:
    return lightgbm.Dataset(split.X, label=split.labels, group=split.sizes, params=QUIET, **more)


def matrix(split: Retrieved) -> Any:
    return xgboost.DMatrix(split.X, label=split.labels, group=split.sizes, nthread=1)


def test_feval_counts_them_in_every_round_and_set(train: Retrieved, valid: Retrieved) -> None:
    data, curves = dataset(train), {}
    metrics = for_lightgbm.feval(*METRICS, judgments=[valid.judgments, train.judgments])
    booster = lightgbm.train(
        {**QUIET, "objective": "lambdarank", "metric": "None"},
        data,
        5,
        valid_sets=[data, dataset(valid, reference=data)],
        valid_names=["train", "valid"],
        feval=metrics,
        callbacks=[lightgbm.record_evaluation(curves)],
    )
    for name, split in (("train", train), ("valid", valid)):
        for at in range(5):
            expected = split.means(booster.predict(split.X, num_iteration=at + 1))
            found = [curves[name][metric][at] for metric in METRICS]
            np.testing.assert_allclose(found, expected, rtol=1e-12)
    twin = pickle.loads(pickle.dumps(metrics))
    scores = booster.predict(valid.X)
    assert twin(scores, dataset(valid).construct()) == metrics(scores, dataset(valid).construct())


def test_eval_metric_counts_them_in_every_round(train: Retrieved, valid: Retrieved) -> None:
    ranker = lightgbm.LGBMRanker(n_estimators=4, metric="None", n_jobs=1, verbosity=-1, min_child_samples=5)
    ranker.fit(
        train.X,
        train.labels,
        group=train.sizes,
        **evaluation_arguments(valid),
        eval_group=[valid.sizes],
        eval_metric=for_lightgbm.eval_metric(*METRICS, judgments=valid.judgments),
    )
    curve = ranker.evals_result_["valid_0"]
    for at in range(4):
        expected = valid.means(ranker.predict(valid.X, num_iteration=at + 1))
        np.testing.assert_allclose([curve[name][at] for name in METRICS], expected, rtol=1e-12)


def test_custom_metric_counts_them_in_every_round(train: Retrieved, valid: Retrieved) -> None:
    curves: dict[str, Any] = {}
    data = matrix(train)
    booster = xgboost.train(
        {"objective": "rank:ndcg", "disable_default_eval_metric": 1, "max_depth": 3, "nthread": 1},
        data,
        4,
        evals=[(matrix(valid), "valid")],
        custom_metric=for_xgboost.custom_metric("ndcg@5", "recall@3", judgments=valid.judgments),
        evals_result=curves,
        verbose_eval=False,
    )
    for at in range(4):
        scores = booster.predict(matrix(valid), output_margin=True, iteration_range=(0, at + 1))
        found = [curves["valid"][name][at] for name in METRICS[:2]]
        np.testing.assert_allclose(found, valid.means(scores)[:2], atol=1e-6)  # XGBoost prints six decimals


def test_a_worker_of_many_counts_them(valid: Retrieved, monkeypatch: pytest.MonkeyPatch) -> None:
    collective = "ltr_harness.boosting.xgboost_metrics.collective"
    monkeypatch.setattr(f"{collective}.get_world_size", lambda: 2)
    monkeypatch.setattr(
        f"{collective}.allreduce", lambda totals, _: 2 * totals
    )  # the other has the same queries
    scores = np.random.default_rng(1).normal(size=valid.labels.size).astype(np.float32)
    found = for_xgboost.custom_metric("ndcg@5", "recall@3", judgments=valid.judgments)(scores, matrix(valid))
    np.testing.assert_allclose([value for _, value in found], valid.means(scores)[:2], rtol=1e-12)


@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
def test_a_watch_stops_by_what_was_missed(library: str, train: Retrieved, valid: Retrieved) -> None:
    judgments = {"valid": valid.judgments}
    if library == "lightgbm":
        lgb_watch = for_lightgbm.Watch(
            *METRICS, data={"valid": dataset(valid)}, judgments=judgments, patience=3
        )
        params = {**QUIET, "objective": "lambdarank", "metric": "None"}
        lightgbm.train(params, dataset(train), 30, callbacks=[lgb_watch])
        whole = lightgbm.train(params, dataset(train), 30)
        history, best = lgb_watch.history, lgb_watch.best_round
        stages = [whole.predict(valid.X, num_iteration=at) for at in range(1, 31)]
    else:
        xgb_watch = for_xgboost.Watch(
            *METRICS, data={"valid": matrix(valid)}, judgments=judgments, patience=3
        )
        params = {"objective": "rank:ndcg", "max_depth": 3, "nthread": 1}
        xgboost.train(params, matrix(train), 30, callbacks=[xgb_watch])
        other = xgboost.train(params, matrix(train), 30)
        history, best = xgb_watch.history, xgb_watch.best_round
        stages = [
            other.predict(matrix(valid), output_margin=True, iteration_range=(0, at)) for at in range(1, 31)
        ]
    expected = [valid.means(scores) for scores in stages[: history[-1].round]]
    np.testing.assert_allclose([one.value for one in history], np.ravel(expected), rtol=1e-12)
    assert best == 1 + int(np.argmax([row[0] for row in expected]))


def test_best_round_of_catboost_counts_them(train: Retrieved, valid: Retrieved) -> None:
    catboost = pytest.importorskip("catboost")
    from ltr_harness.boosting.catboost import best_round

    def pool(split: Retrieved) -> Any:
        queries = np.repeat(np.arange(split.sizes.size), split.sizes)
        return catboost.Pool(split.X, label=split.labels, group_id=queries)

    model = catboost.CatBoost(
        {
            "loss_function": "QueryRMSE",
            "iterations": 8,
            "thread_count": 1,
            "random_seed": 1,
            "logging_level": "Silent",
            "allow_writing_files": False,
        }
    ).fit(pool(train))
    best = best_round(model, pool(valid), *METRICS, judgments=valid.judgments)
    expected = [valid.means(scores) for scores in model.staged_predict(pool(valid))]
    np.testing.assert_allclose([one.value for one in best.history], np.ravel(expected), rtol=1e-12)
    assert best.round == 1 + int(np.argmax([row[0] for row in expected]))


def gradient_of(library: str, objective: Any, labels: list[float]) -> tuple[Any, Any]:
    scores, X = np.zeros(len(labels), np.float32), np.zeros((len(labels), 1))
    if library == "lightgbm":
        data = lightgbm.Dataset(X, label=labels, group=[len(labels)], params={"verbosity": -1}).construct()
        return objective(scores.astype(np.float64), data)
    return objective(scores, xgboost.DMatrix(X, label=labels, group=[len(labels)]))


LIBRARIES = {"lightgbm": for_lightgbm, "xgboost": for_xgboost}


@pytest.mark.parametrize("library", LIBRARIES)
def test_gradients_by_hand(library: str) -> None:
    # candidates with grades 1 and 0 in this order; a document of grade 3 was missed, another query has no candidate
    groups = QueryGroups.from_sizes([1, 3])
    judgments = Judgments.checked([2, 1, 0, 3], groups, retrieved=[False, True, True, False])
    objective = LIBRARIES[library].objective("ndcg@5", norm=False, judgments=judgments)
    gradient, hessian = gradient_of(library, objective, [1, 0])
    discount = 1 / np.log2(3)
    change = (1 - discount) * (2**1 - 1) / ((2**3 - 1) + discount)  # over the ideal list 3, 1, 0
    np.testing.assert_allclose(gradient, [-change / 2, change / 2], rtol=1e-6)  # p is 1/2
    np.testing.assert_allclose(hessian, [change / 4, change / 4], rtol=1e-6)
    alone, _ = gradient_of(library, LIBRARIES[library].objective("ndcg@5", norm=False), [1, 0])
    np.testing.assert_allclose(alone, np.array(gradient) * (7 + discount), rtol=1e-6)


@pytest.mark.parametrize("library", LIBRARIES)
def test_trees_of_a_metric_are_those_of_the_pool_and_the_librarys_own_are_the_same(
    library: str, train: Retrieved
) -> None:
    def trees(judgments: Judgments | None) -> str:
        objective = LIBRARIES[library].objective("ndcg@5", norm=False, judgments=judgments)
        if library == "lightgbm":
            booster = lightgbm.train({**QUIET, "objective": objective, "metric": "None"}, dataset(train), 3)
            return str(booster.model_to_string())
        params = {"base_score": 0.0, "disable_default_eval_metric": 1, "max_depth": 3, "nthread": 1}
        return "".join(xgboost.train(params, matrix(train), 3, obj=objective).get_dump())

    with_all = Judgments.checked(
        train.labels, QueryGroups.from_sizes(train.sizes), retrieved=np.ones(train.labels.size, dtype=bool)
    )
    assert trees(with_all) == trees(None)
    assert trees(train.judgments) != trees(None)
    assert trees(train.judgments) == trees(copy.deepcopy(train.judgments))


def test_judgments_of_other_rows_are_refused(train: Retrieved, valid: Retrieved) -> None:
    scores, data = np.zeros(valid.labels.size), dataset(valid).construct()
    n_rows, n_queries = train.labels.size, train.sizes.size
    said = (
        f"the judgments given are of {n_queries} queries with {n_rows} rows, but a set of {valid.sizes.size} queries "
        f"with {valid.labels.size} rows is evaluated, whose rows and labels match none; expected exactly one"
    )
    with pytest.raises(DataError, match=said):
        for_lightgbm.feval("ndcg@5", judgments=train.judgments)(scores, data)
    with pytest.raises(DataError, match="labels match none"):
        for_xgboost.objective("ndcg@5", judgments=train.judgments)(scores.astype(np.float32), matrix(valid))
    other = Judgments.checked(valid.labels[::-1], QueryGroups.from_sizes(valid.sizes))
    with pytest.raises(DataError, match="labels match none"):  # as many rows, and other labels
        for_xgboost.custom_metric("ndcg@5", judgments=other)(scores.astype(np.float32), matrix(valid))
    with pytest.raises(DataError, match=r"the 2 judgments given .* match 2;"):
        for_lightgbm.feval("ndcg@5", judgments=[valid.judgments] * 2)(scores, data)
    with pytest.raises(UsageError, match="judgments has a ndarray; expected Judgments of each evaluated set"):
        for_lightgbm.feval("ndcg@5", judgments=[valid.labels])  # type: ignore[list-item]
    folds = for_lightgbm.feval("ndcg@5", judgments=train.judgments)
    with pytest.raises(DataError, match=r"as its cv does, have none"):
        lightgbm.cv({**QUIET, "objective": "lambdarank", "metric": "None"}, dataset(train), 2, feval=folds)
