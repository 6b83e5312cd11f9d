"""The model that `export mlflow` logs is of MLflow's own flavour, and scores as the stored one does."""

from __future__ import annotations

import dataclasses
import io
import json
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import chdir, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ltr_harness import Run, run_experiment
from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.experiments.runs import find_runs
from ltr_harness.experiments.runs.identity import pins
from ltr_harness.integrations.mlflow_export import reason_without_model
from tests.experiments.training.test_cautions_in_json import cautions_in

FROZEN = Path(__file__).parents[1] / "experiments" / "runs" / "frozen" / "v1"


def test_which_runs_have_no_model_and_why() -> None:
    record = find_runs(FROZEN)[0].record
    assert reason_without_model(record) == ""
    assert reason_without_model(record.model_copy(update={"status": "failed"})) == "it failed"
    assert reason_without_model(record.model_copy(update={"ranker": "./mine.py:Mine"})) == (
        "models of lightgbm, xgboost, catboost are logged; what ./mine.py:Mine stores is among the run's artifacts"
    )


def test_packages_are_pinned_to_what_the_run_used() -> None:
    run = find_runs(FROZEN)[0]
    packages = {"xgboost-cpu": "3.2.0", "numpy": "2.0", "scipy": "1.15"}
    run = dataclasses.replace(run, record=run.record.model_copy(update={"packages": packages}))
    assert pins(run, ["numpy", "xgboost", "pandas"]) == ["numpy==2.0", "xgboost-cpu==3.2.0"]


# --- every flavour, on rows with texts, missing values and numbers that float32 does not hold ---

TREES: dict[str, Any] = {"preset": "small"}
MODELS: dict[str, dict[str, Any]] = {
    "lightgbm": {"ranker": "lightgbm", "objective": "lambdarank", **TREES},
    "xgboost": {"ranker": "xgboost", "objective": "rank:ndcg", **TREES},
    "catboost": {"ranker": "catboost", "objective": "YetiRank"},
    "lightgbm-classes": {"ranker": "lightgbm", "objective": "multiclass", **TREES},
    "xgboost-binary": {"ranker": "xgboost", "objective": "binary:logistic", "relevant": 2, **TREES},
    "catboost-binary": {"ranker": "catboost", "objective": "Logloss", "relevant": 2},
    "linear": {"ranker": "linear", "weights": {"match [0 to 1]": 0.7, "price": -0.1}, "standardise": True},
}


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory, module_without_report: None) -> Path:
    """An experiment's folder of runs; its test rows are in test.csv beside it."""
    pytest.importorskip("catboost", reason="needs ltr-harness[catboost]")
    folder = tmp_path_factory.mktemp("export")
    random = np.random.default_rng(21)
    for split, n_queries in (("train", 60), ("valid", 20), ("test", 30)):
        n = 8 * n_queries
        match, price = random.random(n), np.round(random.lognormal(3, 1, n), 2)
        colour = random.choice(["red", "green", "blue", ""], n)
        grade = np.clip(3 * match + (colour == "red") - 0.01 * price + random.normal(0, 0.3, n), 0, 3)
        rows = {
            "query_id": np.repeat([f"q{i}" for i in range(n_queries)], 8),
            "label": grade.round().astype(int),
            "match [0 to 1]": match,
            "price": np.where(random.random(n) < 0.2, np.nan, price),
            "colour": colour,
            "stock": random.integers(0, 9, n),
        }
        pd.DataFrame(rows).to_csv(folder / f"{split}.csv", index=False)
    run_experiment(
        {
            "name": "shop",
            "data": {
                "reader": "csv",
                "root": str(folder),
                "categorical": ["colour"],
                "splits": {"all": {name: [f"{name}.csv"] for name in ("train", "valid", "test")}},
            },
            "metrics": {"report": ["ndcg"], "primary": "ndcg@5"},
            "stopping": {"metric": "ndcg@5", "patience": 3, "max_rounds": 12},
            "models": MODELS,
            "report": {"formats": ["json"]},
        },
        runs=folder / "runs",
    )
    return folder


def run_named(experiment: Path, model: str) -> Run:
    [run] = [run for run in find_runs(experiment / "runs" / "shop") if run.record.model == model]
    return run


def as_the_library_takes(experiment: Path, run: Run) -> pd.DataFrame:
    """The test rows by the rules of docs/reproduce.md: float32, codes for texts, and names without brackets."""
    rows = pd.read_csv(experiment / "test.csv")
    assert (rows["match [0 to 1]"] != rows["match [0 to 1]"].astype(np.float32)).any()
    [(name, texts)] = run.record.categories.items()
    codes = rows[name].map({text: at for at, text in enumerate(texts)})
    rows[name] = codes.fillna(-1).astype(np.int64) if run.record.ranker == "catboost" else codes
    taken = rows[["stock", "colour", "price", "match [0 to 1]"]]  # columns go by their names
    taken = taken.astype({one: np.float32 for one in taken if taken[one].dtype != np.int64 or one == "stock"})
    return taken.rename(columns={"match [0 to 1]": "match__0_to_1_"})


@pytest.fixture(scope="module")
def exported_runs(experiment: Path, mlflow_store: Path) -> Iterator[dict[str, Any]]:
    """Yield the output of `export mlflow --json`, while MLflow looks into the store that it filled."""
    import mlflow

    shutil.copy(mlflow_store, experiment / "mlflow.db")
    uri = f"sqlite:///{experiment}/mlflow.db"
    printed = io.StringIO()
    # artifacts of a store in a file lie in ./mlruns
    with chdir(experiment), redirect_stdout(printed), warnings.catch_warnings(action="ignore"):
        assert (
            run_command(cli, ["export", "mlflow", str(experiment / "runs/shop"), "--json", "--to", uri]) == 0
        )
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(uri)
    yield json.loads(printed.getvalue())
    mlflow.set_tracking_uri(before)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::Warning")
@pytest.mark.parametrize("model", [name for name in MODELS if name != "linear"])
def test_a_loaded_model_predicts_what_docs_say(
    experiment: Path, exported_runs: dict[str, Any], model: str
) -> None:
    import mlflow

    run = run_named(experiment, model)
    rows, scores = as_the_library_takes(experiment, run), run.test_scores["score"].to_numpy()
    loaded = mlflow.pyfunc.load_model(exported_runs["models"][run.path.name])
    found = loaded.predict(rows)
    if model == "lightgbm-classes":  # the share of each grade
        assert found.shape == (len(rows), 4)
        np.testing.assert_allclose(found @ np.arange(4), scores, rtol=1e-12)
    elif model == "xgboost-binary":
        np.testing.assert_allclose(np.log(found / (1 - found)), scores, rtol=0, atol=1e-5)
    else:
        assert np.array_equal(found, scores)
        assert len(np.unique(scores)) > 10
    if model in ("lightgbm", "xgboost"):  # the best round is not the last
        assert run.record.best_round < run.record.rounds_trained


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::Warning")
@pytest.mark.parametrize("library", ["lightgbm", "xgboost", "catboost"])
def test_what_stands_beside_a_model(
    experiment: Path, exported_runs: dict[str, Any], library: str, tmp_path: Path
) -> None:
    import mlflow

    uri = exported_runs["models"][run_named(experiment, library).path.name]
    model = mlflow.pyfunc.load_model(uri)
    booster = getattr(mlflow, library).load_model(uri)  # in the library itself
    assert type(booster).__module__.partition(".")[0] == library
    inputs = model.metadata.signature.inputs
    assert inputs.input_names() == ["match__0_to_1_", "price", "colour", "stock"]
    code = "DataType.long" if library == "catboost" else "DataType.float"
    assert [str(kind) for kind in inputs.input_types()] == [
        "DataType.float",
        "DataType.float",
        code,
        "DataType.float",
    ]
    assert model.predict(model.input_example).shape == (2,)
    files = Path(mlflow.artifacts.download_artifacts(uri, dst_path=str(tmp_path)))
    needs = [need.partition("==")[0] for need in (files / "requirements.txt").read_text().split()]
    assert needs == ["numpy", "pandas", library, "mlflow-skinny"]


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::Warning")
def test_rows_of_other_columns_or_types_are_refused(experiment: Path, exported_runs: dict[str, Any]) -> None:
    import mlflow

    run = run_named(experiment, "lightgbm")
    model, rows = (
        mlflow.pyfunc.load_model(exported_runs["models"][run.path.name]),
        as_the_library_takes(experiment, run),
    )
    for wrong, said in (
        (rows.drop(columns="price"), "missing inputs"),
        (rows.astype({"price": "float64"}), "Can not safely convert float64 to float32"),
        (rows.assign(colour="red"), "Incompatible input types"),
    ):
        with pytest.raises(mlflow.exceptions.MlflowException, match=said):
            model.predict(wrong)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::Warning")
def test_a_model_is_logged_once(experiment: Path, exported_runs: dict[str, Any]) -> None:
    """Exported again from here, where nothing of it may be left behind."""
    import mlflow

    linear = run_named(experiment, "linear").path.name
    assert exported_runs["without_model"] == {
        linear: "models of lightgbm, xgboost, catboost are logged; what linear stores is among the run's artifacts"
    }
    assert {*exported_runs["models"], linear} == set(exported_runs["added"])
    cautions_in(exported_runs)
    uri, path = mlflow.get_tracking_uri(), list(sys.path)
    mlflow.set_tracking_uri("sqlite:///elsewhere.db")
    assert run_command(cli, ["export", "mlflow", str(experiment / "runs/shop"), "--to", uri]) == 0
    assert (mlflow.get_tracking_uri(), sys.path) == ("sqlite:///elsewhere.db", path)
    mlflow.set_tracking_uri(uri)
    [at] = {run.experiment_id for run in mlflow.search_experiments(filter_string="name = 'shop'")}
    assert len(mlflow.search_logged_models([at], output_format="list")) == len(exported_runs["models"])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::Warning")
def test_it_loads_in_a_fresh_environment(
    experiment: Path, exported_runs: dict[str, Any], tmp_path: Path
) -> None:
    """In one made of the model's own requirements: nothing of the harness is there."""
    import mlflow

    run = run_named(experiment, "lightgbm")
    folder = mlflow.artifacts.download_artifacts(
        exported_runs["models"][run.path.name], dst_path=str(tmp_path / "stored")
    )
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "env"], check=True)
    python = tmp_path / "env" / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet", "-r", Path(folder) / "requirements.txt"]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    as_the_library_takes(experiment, run).to_csv(tmp_path / "rows.csv", index=False)
    program = """
import sys, importlib.util, numpy, pandas, mlflow.pyfunc
assert importlib.util.find_spec("ltr_harness") is None
model = mlflow.pyfunc.load_model(sys.argv[1])
numpy.save("scores.npy", model.predict(pandas.read_csv(sys.argv[2], dtype="float32")))
"""
    command = [python, "-I", "-c", program, folder, tmp_path / "rows.csv"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert np.array_equal(np.load(tmp_path / "scores.npy"), run.test_scores["score"])
