"""The chosen model on training and validation rows: `ltr-harness run --final`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from ltr_harness import run_experiment
from ltr_harness.cli import cli
from ltr_harness.cli.data_source import read_files
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.data.readers.memory import from_arrays
from ltr_harness.data.writers import write_dataset
from ltr_harness.errors import UsageError
from ltr_harness.experiments.config import load_experiment
from ltr_harness.experiments.runs import find_runs
from ltr_harness.workflow import final_experiment


def rows(seed: int, n_queries: int) -> Any:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(3, 12, n_queries)
    X = rng.normal(size=(int(sizes.sum()), 3))
    labels = np.clip(np.round(X[:, 0] + rng.normal(size=len(X))), 0, 3)
    ids = np.repeat(1_000 * seed + np.arange(n_queries), sizes)
    return from_arrays(X, labels, query_ids=ids, feature_names=["a", "b", "c"])


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    for seed, (name, n) in enumerate({"train": 60, "valid": 25, "test": 30}.items()):
        write_dataset(rows(seed, n), tmp_path / f"{name}.parquet")
    config = {
        "name": "shop",
        "seeds": [1, 2],
        "data": {
            "reader": "parquet",
            "splits": {"train": "train.parquet", "valid": "valid.parquet", "test": "test.parquet"},
        },
        "stopping": {"metric": "ndcg@10", "patience": 3, "max_rounds": 8},
        "models": {
            "lgbm": {"ranker": "lightgbm", "objective": "lambdarank", "preset": "small"},
            "a": {"ranker": "feature", "feature": "a"},
        },
        "report": {"formats": ["json"]},
    }
    path = tmp_path / "shop.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.mark.long
@pytest.mark.usefixtures("without_report")
def test_the_chosen_model_learns_from_validation_rows_too_with_the_rounds_that_were_found(
    experiment: Path, tmp_path: Path, capsys: Any
) -> None:
    runs = tmp_path / "runs"
    arguments = ["run", str(experiment), "--runs", str(runs), "--workers", "1", "--quiet"]
    assert run_command(cli, [*arguments, "--final", "lgbm"]) == 0
    said = capsys.readouterr().out
    found = [run.record.best_round for run in find_runs(runs / "shop") if run.record.model == "lgbm"]
    finals = find_runs(runs / "shop-final")
    assert len(finals) == 2
    for run in finals:
        record = run.record
        assert (record.rounds, record.best_round, record.stopping) == (min(found), min(found), None)
        assert record.data["train"].n_queries == 85
        assert record.data["test"].n_queries == 30
        assert "valid" not in record.data
        mean = record.metrics["ndcg@10"].mean
        assert f"final: lgbm, seed {record.seed}, test ndcg@10 {mean:.4f}: {run.path}" in said
    assert finals[0].score(np.zeros((2, 3))).shape == (2,)


@pytest.mark.long
@pytest.mark.usefixtures("without_report")
def test_a_model_without_rounds_and_a_holdout(experiment: Path, tmp_path: Path) -> None:
    config = yaml.safe_load(experiment.read_text())
    config["data"]["root"] = str(tmp_path)
    config["data"]["splits"]["valid"] = {"holdout": 0.3, "seed": 1}
    result = run_experiment(config, runs=tmp_path / "runs")
    final = final_experiment(load_experiment(config), result.runs, "a")
    assert "rounds" not in final["models"]["a"]
    assert final["data"]["splits"]["all"]["train"] == ["train.parquet"]
    (run,) = run_experiment(final, runs=tmp_path / "runs").runs
    assert run.record.data["train"].n_queries == 60


@pytest.mark.long
def test_what_has_no_final_model_is_refused(experiment: Path, tmp_path: Path, capsys: Any) -> None:
    config = yaml.safe_load(experiment.read_text())
    loaded = load_experiment(config)
    with pytest.raises(UsageError, match="'lgmb' is not a model; did you mean 'lgbm'"):
        final_experiment(loaded, [], "lgmb")
    with pytest.raises(UsageError, match="no run of lgbm has finished"):
        final_experiment(loaded, [], "lgbm")
    split = config["data"]["splits"]
    two = config | {"data": {"reader": "parquet", "splits": {"one": split, "two": split}}}
    with pytest.raises(UsageError, match="several splits, each with other test queries"):
        final_experiment(load_experiment(two), [], "lgbm")
    assert run_command(cli, ["run", str(experiment), "--runs", str(tmp_path / "no"), "--final", "lgmb"]) == 2
    assert "'lgmb' is not a model" in capsys.readouterr().err
    assert not (tmp_path / "no").exists()
    for other in ("--json", "--dry-run"):
        assert run_command(cli, ["run", str(experiment), "--final", "lgbm", other]) == 2
        assert f"--final: has no meaning with {other}" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.usefixtures("without_report", "few_timed_calls")
def test_with_folds_it_learns_from_all_rows(experiment: Path, tmp_path: Path, capsys: Any) -> None:
    config = yaml.safe_load(experiment.read_text())
    config["data"] = {"reader": "parquet", "files": ["train.parquet", "test.parquet"], "folds": 3}
    experiment.write_text(yaml.safe_dump(config))
    runs = tmp_path / "runs"
    arguments = ["run", str(experiment), "--runs", str(runs), "--workers", "1", "--quiet", "--final", "lgbm"]
    assert run_command(cli, arguments) == 0
    said = capsys.readouterr().out
    found = sorted(run.record.best_round for run in find_runs(runs / "shop") if run.record.model == "lgbm")
    assert len(found) == 6  # three folds, two seeds
    finals = find_runs(runs / "shop-final")
    assert [run.record.seed for run in finals] == [1, 2]
    everything = read_files([tmp_path / "train.parquet", tmp_path / "test.parquet"], None)
    for run in finals:
        record = run.record
        assert record.rounds == record.best_round == found[2]  # of two in the middle the smaller
        assert list(record.data) == ["train"]
        assert record.data["train"].n_queries == 90
        assert record.metrics == {}
        assert f"final: lgbm, seed {record.seed}, all 90 queries: {run.path}" in said
        assert np.unique(run.score_split(everything)).size > 10
    data = ["--data", str(tmp_path / "valid.parquet"), "--documents", "5"]
    assert run_command(cli, ["predict", str(finals[0].path), data[1], "-o", str(tmp_path / "new.csv")]) == 0
    assert run_command(cli, ["show", "trees", str(finals[0].path), *data]) == 0
    assert run_command(cli, ["show", "run", str(finals[0].path)]) == 0
    capsys.readouterr()
    for command in (["compare"], ["reproduce"], ["report"], ["show", "worst"]):
        assert run_command(cli, [*command, str(finals[0].path)]) == 2
        assert "was trained on all rows and has no test queries" in capsys.readouterr().err
    budget = ["show", "trees", "--budget", "10s"]
    assert run_command(cli, [*budget, str(finals[0].path), *data]) == 0
    capsys.readouterr()
    for command in (["show", "trees"], budget, ["show", "importance"]):
        assert run_command(cli, [*command, str(finals[0].path)]) == 2
        assert "name labelled rows with --data" in capsys.readouterr().err
    stored = [run.path.stat().st_mtime_ns for run in finals]
    assert run_command(cli, arguments) == 0  # again: what exists is reused
    assert [run.path.stat().st_mtime_ns for run in find_runs(runs / "shop-final")] == stored
