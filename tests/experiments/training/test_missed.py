"""An experiment on candidates with missed documents: stopping, tuning, test and reproduction are of the whole pool."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from ltr_harness import evaluate, run_experiment
from ltr_harness.errors import NotComparableError
from ltr_harness.experiments.runs.record import STUDIES, read_study
from ltr_harness.experiments.training.reproduce import reproduce
from ltr_harness.monitoring import monitor
from tests.conftest import reports_left_out

pytestmark = pytest.mark.long

METRICS = ["ndcg@10", "recall@10"]
FEATURES = ["f0", "f1", "f2", "f3"]
MODELS: dict[str, Any] = {
    "lambdarank": {"ranker": "lightgbm", "params": {"num_leaves": 7, "min_data_in_leaf": 5}},
    "of_ndcg": {
        "ranker": "lightgbm",
        "objective": {"metric": "ndcg@10"},
        "params": {"num_leaves": 7, "min_data_in_leaf": 5},
    },
    "xgb": {"ranker": "xgboost", "objective": "rank:ndcg", "params": {"max_depth": 3}},
    "xgb_of_ndcg": {
        "ranker": "xgboost",
        "objective": {"metric": "ndcg@10"},
        "params": {"max_depth": 3},
    },
}


def pool(seed: int, n_queries: int) -> pd.DataFrame:
    """Queries with their judged documents, of which a made-up retriever found some; of the second query none."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(4, 25, n_queries)
    frame = pd.DataFrame(rng.normal(size=(sizes.sum(), 4)), columns=FEATURES)
    frame.insert(0, "query", np.repeat([f"{seed}/{number}" for number in range(n_queries)], sizes))
    frame.insert(1, "doc", [f"d{number}" for number in range(len(frame))])
    worth = frame.f0 + frame.f1 * frame.f2 + rng.normal(size=len(frame))
    frame.insert(2, "label", np.clip(np.round(worth), 0, 3).astype(int))
    frame["found"] = (rng.random(len(frame)) < 0.7).astype(int)
    frame.loc[frame["query"] == f"{seed}/1", "found"] = 0
    frame.loc[frame.found == 0, FEATURES] = np.nan
    return frame


def means(frame: pd.DataFrame, scores: Any, metric: str) -> Any:
    """`evaluate`'s values of the candidates' scores, in the pool."""
    shown = (frame.found == 1).to_numpy()
    of_pool = np.zeros(len(frame))
    of_pool[shown] = scores
    found = evaluate(frame.label, of_pool, query_ids=frame["query"], retrieved=shown, metrics=[metric])
    return found[metric]


@pytest.fixture(scope="module")
def frames() -> dict[str, pd.DataFrame]:
    return {"train": pool(1, 60), "valid": pool(2, 40), "test": pool(3, 50)}


@pytest.fixture(scope="module")
def result(frames: dict[str, pd.DataFrame], tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("missed")
    for name, frame in frames.items():
        frame.to_csv(folder / f"{name}.csv", index=False)
    models = dict(MODELS)
    try:
        import catboost  # noqa: F401

        models["catboost"] = {"ranker": "catboost", "objective": "QueryRMSE", "params": {"depth": 3}}
    except ModuleNotFoundError:
        pass
    config = {
        "name": "missed",
        "seeds": [1],
        "data": {
            "reader": "csv",
            "root": str(folder),
            "query": "query",
            "document_id": "doc",
            "label": "label",
            "retrieved": "found",
            "features": FEATURES,
            "splits": {"all": {name: f"{name}.csv" for name in frames}},
        },
        "metrics": {"cutoffs": [10], "report": ["ndcg", "recall"], "primary": "ndcg@10"},
        "stopping": {"metric": "ndcg@10", "patience": 3, "max_rounds": 5},
        "models": models,
        "tune": {
            "trials": 3,
            "seed": 1,
            "models": {"lambdarank": {"params.learning_rate": [0.05, 0.2, 0.6]}},
        },
        "report": {"formats": ["json"]},
    }
    with reports_left_out():
        return run_experiment(config, runs=folder / "runs")


def test_curves_best_rounds_and_test_values_are_of_the_pool(
    result: Any, frames: dict[str, pd.DataFrame]
) -> None:
    valid, test = frames["valid"], frames["test"]
    features = valid.loc[valid.found == 1, FEATURES].to_numpy(np.float32)
    assert {run.record.model for run in result.runs} >= set(MODELS)
    for run in result.runs:
        curve = run.history.pivot(index="round", columns="metric", values="value")
        for at in range(1, run.record.best_round + 1):
            scores = run.model.score_after(features, at)
            for metric in METRICS:
                assert curve.loc[at, metric] == pytest.approx(means(valid, scores, metric).mean, rel=1e-9)
        assert run.record.best_round == curve["ndcg@10"].idxmax()
        table = run.per_query.set_index("query_id")
        assert table.loc["3/1", METRICS].tolist() == [0, 0]  # whose documents were all missed
        for metric in METRICS:
            values = means(test, run.test_scores.score, metric)
            np.testing.assert_array_equal(table[metric], values.per_query)
            assert run.record.metrics[metric].mean == values.mean


def test_trials_are_judged_by_the_pool(result: Any, frames: dict[str, pd.DataFrame]) -> None:
    valid = frames["valid"]
    (folder,) = (result.folder / STUDIES).iterdir()
    study = read_study(folder)
    assert study is not None
    [run] = [run for run in result.runs if run.record.model == "lambdarank"]
    scores = run.score(valid.loc[valid.found == 1, FEATURES].to_numpy(np.float32))
    best = max(trial.value for trial in study.trials if trial.value is not None)
    assert best == pytest.approx(means(valid, scores, "ndcg@10").mean, rel=1e-9)
    assert len({trial.value for trial in study.trials}) > 1


def test_a_run_is_reproduced(result: Any) -> None:
    for run in result.runs:
        if run.record.model in ("of_ndcg", "xgb_of_ndcg", "lambdarank"):
            assert reproduce(run.path).identical


def test_a_run_is_a_baseline_for_logs_that_say_what_was_missed(
    result: Any, frames: dict[str, pd.DataFrame]
) -> None:
    [run] = [run for run in result.runs if run.record.model == "xgb"]
    test = frames["test"].copy()
    test.loc[test.found == 1, "score"] = run.test_scores.score.to_numpy()
    test = test[test["query"] != "3/1"]  # it was shown nothing
    columns = {"query_id": "query", "score": "score", "retrieved": "found"}
    config = {
        "columns": columns,
        "relevance": {"label": "label", "mode": "label"},
        "metrics": ["ndcg@10"],
        "windows": {"min_queries": 10},
    }
    now = monitor(config, log=test, baseline=run.path)
    expected = means(test, test.loc[test.found == 1, "score"], "ndcg@10").mean
    assert now.changes[0].production.value == pytest.approx(expected, rel=1e-12)
    assert now.changes[0].baseline.value == pytest.approx(run.record.metrics["ndcg@10"].mean, rel=1e-12)
    blind = {**config, "columns": {"query_id": "query", "score": "score"}}
    with pytest.raises(NotComparableError, match="counts missed documents, and production does not"):
        monitor(blind, log=test[test.found == 1], baseline=run.path)
