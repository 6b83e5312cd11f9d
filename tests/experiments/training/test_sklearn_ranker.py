"""Estimators of scikit-learn from the configuration to `predict`: resumed, tuned, in folds, final, trusted."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

pytest.importorskip("sklearn", reason="the extra `sklearn` is not installed")
import sklearn
from sklearn.linear_model import LogisticRegression

from ltr_harness import load_run, run_experiment
from ltr_harness.errors import ConfigError, DataError, UsageError
from ltr_harness.experiments.config import load_experiment
from ltr_harness.experiments.runs import find_runs
from ltr_harness.experiments.training.reproduce import reproduce

from .conftest import SMALL  # type: ignore[import-not-found]

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("one_core", "module_without_report")]

Ltr = Callable[..., tuple[int, str, str]]
OWN = """
from sklearn.base import BaseEstimator, RegressorMixin

class First(RegressorMixin, BaseEstimator):
    def __init__(self, sign=1): self.sign = sign
    def fit(self, X, y): self.n_ = len(X); return self
    def predict(self, X): return self.sign * X[:, 0]
"""
MODELS: dict[str, Any] = {
    "logistic": {
        "ranker": "sklearn",
        "estimator": "sklearn.linear_model.LogisticRegression",
        "params": {"C": 0.5, "max_iter": 500, "random_state": 0},
        "relevant": 1,
    },
    "forest": {
        "ranker": "sklearn",
        "estimator": ["sklearn.impute.SimpleImputer", "sklearn.ensemble.RandomForestRegressor"],
        "params": {"randomforestregressor__n_estimators": 5},
    },
    "own": {"ranker": "sklearn", "estimator": "./mine.py:First", "params": {"sign": -1}},
}


def write_experiment(folder: Path, **changes: Any) -> Path:
    (folder / "mine.py").write_text(OWN)
    path = folder / "small.yaml"
    path.write_text(yaml.safe_dump({**SMALL, "models": MODELS, **changes}, sort_keys=False))
    return path


@pytest.fixture(scope="module")
def finished_folder(
    tmp_path_factory: pytest.TempPathFactory, one_core: None, module_without_report: None
) -> Path:
    """A finished experiment's folder of runs. To be read."""
    folder = tmp_path_factory.mktemp("finished")
    return run_experiment(write_experiment(folder), runs=folder / "runs").folder


def run_of(folder: Path, model: str) -> Path:
    return sorted(folder.glob(f"{model}--*"))[0]


def test_it_is_a_run_like_any_other(finished_folder: Path) -> None:
    records = [run.record for run in find_runs(finished_folder)]
    assert [(one.model, one.seed) for one in records] == [
        ("logistic", 1),  # whose seed is given
        ("forest", 1),
        ("forest", 2),
        ("own", 1),
    ]
    for one in records:
        assert (one.status, one.best_round, one.stopping) == ("complete", None, None)
        assert one.packages["scikit-learn"] == sklearn.__version__
    forests = [one.metrics["ndcg@10"].mean for one in records if one.model == "forest"]
    assert forests[0] != forests[1]


def test_scores_are_those_of_the_estimator_trained_outside(finished_folder: Path) -> None:
    from ltr_harness.experiments.training.reproduce import fold_of

    run = load_run(run_of(finished_folder, "logistic"))
    fold = fold_of(run)
    X, y = fold.train.features.astype(float), fold.train.labels >= 1
    outside = LogisticRegression(C=0.5, max_iter=500, random_state=0).fit(X, y)
    stored = run.score_columns("score")["score"]
    np.testing.assert_array_equal(stored, outside.decision_function(fold.test.features.astype(float)))


def test_a_second_run_trains_nothing_and_a_new_metric_trains_nothing(tmp_path: Path) -> None:
    two = {name: MODELS[name] for name in ("logistic", "own")}
    path, runs = write_experiment(tmp_path, models=two), tmp_path / "runs"
    run_experiment(path, runs=runs)
    models = {one: (one.stat().st_mtime_ns, one.read_bytes()) for one in runs.glob("*/*/model.pickle")}
    assert run_experiment(path, runs=runs).reused == len(models) == 2
    more = "metrics.report=[ndcg, mrr]"
    again = run_experiment(path, runs=runs, overrides=[more])
    assert {one: (one.stat().st_mtime_ns, one.read_bytes()) for one in models} == models
    assert all("mrr@10" in run.record.metrics for run in again.runs)
    changed = run_experiment(path, runs=runs, overrides=[more, "models.logistic.params.C=0.4"])
    assert changed.reused == 1
    (tmp_path / "mine.py").write_text(OWN + "# changed\n")
    assert run_experiment(path, runs=runs, overrides=[more]).reused == 1


def test_workers_train_the_same(finished_folder: Path, tmp_path: Path) -> None:
    run_experiment(write_experiment(tmp_path, seeds=[1]), runs=tmp_path / "runs", workers=2)
    for model in ("logistic", "forest"):
        one, other = (run_of(folder, model) for folder in (finished_folder, tmp_path / "runs" / "small"))
        assert (one / "model.pickle").read_bytes() == (other / "model.pickle").read_bytes()


def test_a_pickle_is_read_where_its_maker_is_trusted(finished_folder: Path, tmp_path: Path, ltr: Ltr) -> None:
    for model in MODELS:
        path, out, rows = run_of(finished_folder, model), tmp_path / f"{model}.txt", tmp_path / "rows.csv"
        named = load_run(path).record.features
        values = np.random.default_rng(0).normal(size=(6, len(named)))
        table = pd.DataFrame(values, columns=list(named))
        table.assign(query_id=list("aaabbb"), label=0).to_csv(rows, index=False)
        arguments = ("predict", path, rows, "-o", out)
        code, _, err = ltr(*arguments)
        assert code == 2
        assert f"{path}: its model is a pickle, and reading one executes code that it holds; if you trust its maker, "
        assert "add --trust (in Python: trust=True)" in err
        assert not out.exists()
        assert ltr(*arguments, "--trust")[0] == 0
        with pytest.raises(UsageError, match="its model is a pickle"):
            load_run(path).score(values)
        scores = load_run(path, trust=True).score(values)
        np.testing.assert_allclose(np.loadtxt(out), scores)


def test_no_pickle_is_opened_that_is_not_the_records(finished_folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "run"
    shutil.copytree(run_of(finished_folder, "logistic"), path)
    trap = b"cbuiltins\nopen\n(V" + str(tmp_path / "executed").encode() + b"\nVw\ntR."
    (path / "model.pickle").write_bytes(trap)
    with pytest.raises(DataError, match=r"model\.pickle: not the file its record\.json describes"):
        _ = load_run(path, trust=True).model
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("model", list(MODELS))
def test_a_run_is_reproduced_to_the_byte(finished_folder: Path, model: str) -> None:
    with pytest.raises(
        UsageError, match="executes code that the record names; if you trust its maker, add --trust"
    ):
        reproduce(run_of(finished_folder, model))
    found = reproduce(run_of(finished_folder, model), trust=True)
    assert found.identical, found
    assert found.reasons == ()


def test_requirements_name_the_packages(finished_folder: Path, ltr: Ltr) -> None:
    code, out, _ = ltr("export", "requirements", run_of(finished_folder, "logistic"))
    assert code == 0
    assert f"scikit-learn=={sklearn.__version__}\n" in out
    assert "threadpoolctl==" in out


def test_options_are_tuned(tmp_path: Path) -> None:
    pytest.importorskip("optuna", reason="needs the extra `tune`")
    tune = {"trials": 2, "models": {"logistic": {"params.C": {"low": 0.01, "high": 1.0, "log": True}}}}
    models = {"logistic": MODELS["logistic"]}
    path = write_experiment(tmp_path, tune=tune, models=models)
    [record] = [run.record for run in run_experiment(path, runs=tmp_path / "runs", workers=1).runs]
    assert record.tuning is not None
    assert record.tuning.n_complete == 2
    assert record.params["C"] == record.tuning.chosen["params.C"] != 0.5
    wrong = {**tune, "models": {"logistic": {"params.D": [1, 2]}}}
    with pytest.raises(ConfigError, match=r"logistic: params\.D: LogisticRegression has no parameter 'D'"):
        load_experiment(write_experiment(tmp_path, tune=wrong))


def test_folds_sweeps_and_the_final_model(tmp_path: Path, ltr: Ltr) -> None:
    data: dict[str, Any] = {"reader": "synthetic", "files": ["train", "valid"], "folds": 3, "max_grade": 4}
    data |= {"n_queries": {"train": 20, "valid": 20}, "n_features": 12}
    sweep = {"grid": {"models.own.params.sign": [-1, 1]}}
    models = {name: MODELS[name] for name in ("forest", "own")}
    path = write_experiment(tmp_path, data=data, models=models, sweep=sweep, seeds=[1])
    code, _, err = ltr("run", path, "--runs", tmp_path / "runs", "--quiet", "--final", "forest")
    assert code == 0, err
    records = [run.record for run in find_runs(tmp_path / "runs" / "small")]
    assert {one.model for one in records} == {"own sign=-1", "own sign=1", "forest"}
    assert len(records) == 3 * (2 + 1)
    finals = find_runs(tmp_path / "runs" / "small-final")
    assert {run.record.model for run in finals} == {"forest"}
    assert load_run(finals[0].path, trust=True).model is not None


def test_a_model_that_fails_costs_no_other(tmp_path: Path, ltr: Ltr) -> None:
    bad = {**MODELS["logistic"], "params": {"C": -1}}
    path = write_experiment(tmp_path, models={"bad": bad, "own": MODELS["own"]})
    code, _, err = ltr("run", path, "--runs", tmp_path / "runs", "--quiet")
    assert code == 1
    assert "LogisticRegression: The 'C' parameter of LogisticRegression must be a float in the range" in err
    record = json.loads((run_of(tmp_path / "runs" / "small", "bad") / "record.json").read_text())
    assert record["status"] == "failed"
    assert load_run(run_of(tmp_path / "runs" / "small", "own")).record.status == "complete"


def test_rounds_are_refused(tmp_path: Path) -> None:
    models = {"own": {**MODELS["own"], "rounds": 3}}
    with pytest.raises(ConfigError, match="ranker 'sklearn' is not trained in rounds; leave it out"):
        load_experiment(write_experiment(tmp_path, models=models))


def test_a_blend_holds_the_pickles_of_its_parts(tmp_path: Path) -> None:
    """Also where its record names other parts than the archive has."""
    models = {name: MODELS[name] for name in ("logistic", "own")}
    models["both"] = {"ranker": "blend", "of": ["logistic", "own"], "how": "scores"}
    result = run_experiment(write_experiment(tmp_path, models=models), runs=tmp_path / "runs", workers=1)
    path = run_of(result.folder, "both")
    for parts in (None, {}):
        if parts is not None:
            record = json.loads((path / "record.json").read_text())
            (path / "record.json").write_text(json.dumps({**record, "parts": parts}))
        with pytest.raises(UsageError, match="its model is a pickle") as told:
            _ = load_run(path).model
        assert str(told.value).startswith(str(path))
        assert load_run(path, trust=True).model is not None
