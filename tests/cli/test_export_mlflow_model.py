"""The model that `export mlflow` logs scores as the stored one does, to the bit, without the harness."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xgboost
from packaging.version import Version

from ltr_harness import Run, load_run, run_experiment
from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.errors import HarnessError
from ltr_harness.export import pyfunc
from ltr_harness.export.mlflow import _signature, example_rows, why_none, write_model
from ltr_harness.readers.memory import from_frame
from ltr_harness.runs import find_runs
from ltr_harness.runs.identity import pins

FROZEN = Path(__file__).parents[1] / "runs" / "frozen" / "v1"


def exported(run: Run, folder: Path) -> pyfunc.StoredModel:
    folder.mkdir()
    write_model(run, folder)
    return pyfunc._load_pyfunc(str(folder))


needs_3_1 = pytest.mark.skipif(
    Version(xgboost.__version__) < Version("3.1"), reason="the stored model is of XGBoost 3.1 or newer"
)


@pytest.mark.parametrize("model", ["lgbm", pytest.param("xgb", marks=needs_3_1)])
def test_a_stored_model_scores_as_it_did(model: str, tmp_path: Path) -> None:
    [run] = [run for run in find_runs(FROZEN) if run.record.model == model]
    rows = pd.read_csv(FROZEN / "rows.csv")
    expected = json.loads((FROZEN / "expected.json").read_text())["models"][model]["scores"]
    shuffled = rows.assign(more=1)[["more", *rows.columns[::-1]]]  # columns go by their names
    loaded = exported(run, tmp_path / "model")
    assert loaded.predict(shuffled).tolist() == expected == run.score(rows).tolist()
    assert loaded.predict(rows.iloc[:0]).shape == (0,)
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == [
        "model.txt" if model == "lgbm" else "model.ubj",
        "ranker.json",
    ]


def test_a_changed_model_is_not_exported(tmp_path: Path) -> None:
    run = find_runs(Path(shutil.copytree(FROZEN, tmp_path / "v1")))[0]
    path = run.path / "model.txt"
    path.write_text(path.read_text().replace("leaf_value=", "leaf_value=1", 1))
    (tmp_path / "model").mkdir()
    with pytest.raises(HarnessError, match="not the file its record"):
        write_model(run, tmp_path / "model")
    assert not list((tmp_path / "model").iterdir())


def test_a_model_that_would_score_otherwise_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = find_runs(FROZEN)[0]
    monkeypatch.setitem(pyfunc._READERS, run.record.ranker, lambda path: lambda matrix: matrix[:, 0])
    with pytest.raises(HarnessError, match=r"scores rows otherwise once it is exported; use --no-models"):
        exported(run, tmp_path / "model")


def test_which_runs_have_no_model_and_why() -> None:
    record = find_runs(FROZEN)[0].record
    assert why_none(record) == ""
    assert why_none(record.model_copy(update={"status": "failed"})) == "it failed"
    assert why_none(record.model_copy(update={"ranker": "./mine.py:Mine"})) == (
        "the ranker ./mine.py:Mine scores no features, or by a pickle or code of your own"
    )
    assert why_none(record.model_copy(update={"features": []})).endswith("older version, lists no features")
    assert why_none(record.model_copy(update={"packages": {}})).endswith("older version, lists no packages")


def test_packages_are_pinned_to_what_the_run_used() -> None:
    run = find_runs(FROZEN)[0]
    packages = {"xgboost-cpu": "3.2.0", "numpy": "2.0", "scipy": "1.15"}
    run = dataclasses.replace(run, record=run.record.model_copy(update={"packages": packages}))
    assert pins(run, ["numpy", "xgboost", "pandas"]) == ["numpy==2.0", "xgboost-cpu==3.2.0"]


# --- every ranker, on rows with texts, missing values and numbers that float32 does not hold ---

TREES: dict[str, Any] = {"preset": "small"}
MODELS: dict[str, dict[str, Any]] = {
    "lightgbm": {"ranker": "lightgbm", "objective": "lambdarank", **TREES},
    "xgboost": {"ranker": "xgboost", "objective": "rank:ndcg", **TREES},
    "catboost": {"ranker": "catboost", "objective": "YetiRank"},
    "lightgbm-classes": {"ranker": "lightgbm", "objective": "multiclass", **TREES},
    "xgboost-classes": {"ranker": "xgboost", "objective": "multi:softprob", **TREES},
    "catboost-classes": {"ranker": "catboost", "objective": "MultiClass"},
    "catboost-binary": {"ranker": "catboost", "objective": "Logloss", "relevant": 2},
    "linear": {"ranker": "linear", "weights": {"match": 0.7, "price": -0.1}, "standardise": True},
    "feature": {"ranker": "feature", "feature": "price", "ascending": True},
    "random": {"ranker": "random"},
}


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Path:
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
            "match": match,
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


def named(experiment: Path, model: str) -> Run:
    [run] = [run for run in find_runs(experiment / "runs" / "shop") if run.record.model == model]
    return run


@pytest.mark.long
@pytest.mark.parametrize("model", [name for name in MODELS if name != "random"])
def test_every_ranker_scores_to_the_bit(experiment: Path, model: str, tmp_path: Path) -> None:
    run, rows = named(experiment, model), pd.read_csv(experiment / "test.csv")
    assert (rows["match"] != rows["match"].astype(np.float32)).any()
    scores = exported(run, tmp_path / "model").predict(rows)
    assert np.array_equal(scores, run.test_scores["score"])
    assert len(np.unique(scores)) > 10
    if model in ("lightgbm", "xgboost"):  # the best round is not the last
        assert run.record.best_round < run.record.rounds_trained


@pytest.fixture(scope="module")
def by_shelf(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pd.DataFrame]:
    """A run of one feature, a whole number that is a category, and the frame that it learned from."""
    frame = pd.DataFrame({"query_id": np.repeat(np.arange(40), 5), "shelf": np.tile([7, 12, -3, 40, 7], 40)})
    frame["label"] = frame["shelf"].map({7: 0, 12: 3, -3: 1, 40: 2})
    train = from_frame(frame, categorical=["shelf"])
    test = from_frame(frame[::-1].assign(query_id=frame.query_id + 100), categorical=["shelf"])
    runs = tmp_path_factory.mktemp("by_shelf")
    trees = {"ranker": "lightgbm", "objective": "lambdarank", "rounds": 5}
    trees["params"] = {"min_data_per_group": 1, "min_data_in_leaf": 1, "cat_smooth": 0}
    run_experiment(
        {"name": "shelf", "data": {"train": train, "test": test}, "models": {"lgbm": trees}}, runs=runs
    )
    return runs, frame


def test_whole_numbers_as_categories(by_shelf: tuple[Path, pd.DataFrame], tmp_path: Path) -> None:
    runs, frame = by_shelf
    [run] = find_runs(runs / "shelf")
    expected = run.score(frame[["shelf"]])
    assert len(np.unique(expected)) == 4
    loaded = exported(run, tmp_path / "model")
    for kind in ("int64", "Int64", "float64", "str", object):  # float64 is what pandas makes of gaps
        assert np.array_equal(loaded.predict(frame.astype({"shelf": kind})), expected), kind
    gap = pd.DataFrame({"shelf": pd.array([12, None, 99], dtype="Int64")})
    assert loaded.predict(gap).tolist() == run.score(gap).tolist()


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::Warning")
def test_mlflow_takes_the_frame_that_was_trained_on(
    by_shelf: tuple[Path, pd.DataFrame], tmp_path: Path
) -> None:
    mlflow = pytest.importorskip("mlflow", reason="needs the extra mlflow")
    runs, frame = by_shelf
    [run] = find_runs(runs / "shelf")
    shutil.copyfile(pyfunc.__file__, tmp_path / "model_by_shelf.py")
    (tmp_path / "data").mkdir()
    write_model(run, tmp_path / "data")
    path = list(sys.path)
    try:
        mlflow.pyfunc.save_model(
            tmp_path / "model",
            loader_module="model_by_shelf",
            code_paths=[str(tmp_path / "model_by_shelf.py")],
            data_path=str(tmp_path / "data"),
            signature=_signature(run.record),
            input_example=example_rows(run.record),
            pip_requirements=["numpy"],
        )
        loaded = mlflow.pyfunc.load_model(str(tmp_path / "model"))
        assert loaded.predict(loaded.input_example).shape == (2,)
    finally:
        sys.path[:] = path
    gap = pd.DataFrame({"shelf": pd.array([12, None], dtype="Int64")})
    for rows in (frame[["shelf"]], frame[["shelf"]].astype(str), gap):
        assert np.array_equal(loaded.predict(rows), run.score(rows))


@pytest.fixture(scope="module")
def logged(experiment: Path) -> dict[str, Any]:
    """What `export mlflow --json` says."""
    pytest.importorskip("mlflow", reason="needs the extra mlflow")
    command = [sys.executable, "-m", "ltr_harness", "export", "mlflow", "runs/shop", "--json"]
    done = subprocess.run(
        [*command, "--to", "sqlite:///mlflow.db"], cwd=experiment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::Warning")
def test_mlflow_loads_each_model(
    experiment: Path, logged: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow

    monkeypatch.chdir(experiment)
    before, path = mlflow.get_tracking_uri(), list(sys.path)
    # MLflow refuses whole numbers for doubles, and its older versions know texts as objects alone
    rows = pd.read_csv("test.csv", dtype={"stock": "float64", "colour": object})
    random = next(name for name in logged["added"] if name.startswith("random--"))
    assert logged["without_model"] == {
        random: "the ranker random scores no features, or by a pickle or code of your own"
    }
    assert {*logged["models"], random} == set(logged["added"])
    mlflow.set_tracking_uri("sqlite:///mlflow.db")
    try:
        for name, uri in logged["models"].items():
            run = load_run(Path("runs/shop") / name)
            model = mlflow.pyfunc.load_model(uri)
            assert np.array_equal(model.predict(rows), run.test_scores["score"])
            assert model.metadata.signature.inputs.input_names() == ["match", "price", "colour", "stock"]
            assert [str(kind) for kind in model.metadata.signature.inputs.input_types()] == [
                "DataType.double", "DataType.double", "DataType.string", "DataType.double",
            ]  # fmt: skip
            assert model.predict(model.input_example).shape == (2,)
            files = Path(mlflow.artifacts.download_artifacts(uri, dst_path=str(tmp_path / name)))
            needs = (files / "requirements.txt").read_text().split()
            library = {"feature": [], "linear": []}.get(run.record.ranker, [run.record.ranker])
            assert [need.partition("==")[0] for need in needs] == [
                "numpy",
                "pandas",
                *library,
                "mlflow-skinny",
            ]
        with pytest.raises(mlflow.exceptions.MlflowException, match="missing inputs"):
            model.predict(rows.drop(columns="price"))
        # logged once: exported again from here, where nothing of it may be left behind
        uri = "sqlite:///mlflow.db"
        assert run_command(cli, ["export", "mlflow", "runs/shop", "--to", uri]) == 0
        [at] = {run.experiment_id for run in mlflow.search_experiments(filter_string="name = 'shop'")}
        assert len(mlflow.search_logged_models([at], output_format="list")) == len(logged["models"])
    finally:
        mlflow.set_tracking_uri(before)
        sys.path[:] = path


@pytest.mark.slow
@pytest.mark.parametrize("model", ["lightgbm", "linear"])
def test_it_loads_in_a_fresh_environment(
    experiment: Path, logged: dict[str, Any], model: str, tmp_path: Path
) -> None:
    """In one made of the model's own requirements: nothing of the harness is there."""
    run = named(experiment, model)
    fetch = "import mlflow, sys; mlflow.set_tracking_uri('sqlite:///mlflow.db'); "
    fetch += "mlflow.artifacts.download_artifacts(sys.argv[1], dst_path=sys.argv[2])"
    stored = tmp_path / "stored"
    stored.mkdir()
    subprocess.run(
        [sys.executable, "-c", fetch, logged["models"][run.path.name], stored], cwd=experiment, check=True
    )
    [folder] = {path.parent for path in stored.rglob("MLmodel")}
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "env"], check=True)
    python = tmp_path / "env" / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet", "-r", folder / "requirements.txt"]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    program = """
import sys, importlib.util, numpy, pandas, mlflow.pyfunc
assert importlib.util.find_spec("ltr_harness") is None
model = mlflow.pyfunc.load_model(sys.argv[1])
numpy.save("scores.npy", model.predict(pandas.read_csv(sys.argv[2], dtype={"stock": "float64"})))
"""
    command = [python, "-c", program, folder, experiment / "test.csv"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert np.array_equal(np.load(tmp_path / "scores.npy"), run.test_scores["score"])
