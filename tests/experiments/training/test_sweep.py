"""Sweeps from the configuration to the report, the plan with what is done and to do, and how long it will take."""

from __future__ import annotations

import copy
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from ltr_harness import run_experiment
from ltr_harness.cli import cli
from ltr_harness.experiments.runs import find_runs, load_run
from ltr_harness.experiments.runs.folder import RECORD
from ltr_harness.experiments.training.job import Task
from ltr_harness.experiments.training.progress import time_left
from ltr_harness.report.blocks import Estimate, ModelName, Table
from ltr_harness.report.sections.tuning import sweep
from ltr_harness.workflow import ExperimentResult, prepare, read

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("one_core")]


SWEPT: dict[str, Any] = {
    "name": "small",
    "seeds": [1, 2],
    "data": {"reader": "synthetic", "n_queries": {"train": 60, "valid": 30, "test": 40}, "n_features": 12},
    "metrics": {"cutoffs": [10], "report": ["ndcg"], "primary": "ndcg@10"},
    "stopping": {"metric": "ndcg@10", "patience": 2, "max_rounds": 4},
    "models": {
        "lgb": {"ranker": "lightgbm", "params": {"bagging_fraction": 0.7, "bagging_freq": 1}},
        "xgb": {"ranker": "xgboost", "params": {"max_depth": 3, "subsample": 0.7}},
    },
    "sweep": {
        "grid": {"models.lgb.params.num_leaves": [3, 7], "models.lgb.params.learning_rate": [0.05, 0.2]}
    },
    "report": {"formats": ["json"]},
}


@pytest.fixture
def swept_config() -> dict[str, Any]:
    return copy.deepcopy(SWEPT)


@pytest.fixture(scope="module")
def trained_sweep(tmp_path_factory: pytest.TempPathFactory, one_core: None) -> ExperimentResult:
    """To be read; what changes it takes `trained_copy`."""
    config = SWEPT | {"report": {"formats": ["html", "json"]}}
    return run_experiment(config, runs=tmp_path_factory.mktemp("runs"))


@pytest.fixture
def trained_copy(trained_sweep: ExperimentResult, tmp_path: Path) -> Path:
    """A folder of runs of one's own, with those of `trained` in it."""
    runs = tmp_path / "trained"
    shutil.copytree(trained_sweep.folder.parent, runs)
    return runs


def run_cli(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli, list(arguments), standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result.return_value, result.stdout, result.stderr


def test_every_point_is_trained_with_every_seed(trained_sweep: ExperimentResult) -> None:
    assert not trained_sweep.failures
    points = {
        run.record.model: run.record.params for run in trained_sweep.runs if run.record.point is not None
    }
    assert {name: (params["num_leaves"], params["learning_rate"]) for name, params in points.items()} == {
        f"lgb num_leaves={leaves} learning_rate={rate}": (leaves, rate)
        for leaves in (3, 7)
        for rate in (0.05, 0.2)
    }
    assert len(trained_sweep.runs) == 2 * (4 + 1)  # two seeds of four points and of xgb
    assert len({run.path for run in trained_sweep.runs}) == 10


def test_nothing_is_trained_again_by_a_sweep_that_grew(
    trained_sweep: ExperimentResult, swept_config: dict[str, Any]
) -> None:
    swept_config["sweep"]["grid"]["models.lgb.params.num_leaves"].append(5)
    job = prepare(read(swept_config, runs=trained_sweep.folder.parent))
    assert (job.count("done"), job.count("train")) == (10, 4)


@pytest.mark.usefixtures("without_report")
def test_a_point_is_the_model_with_these_values(
    trained_sweep: ExperimentResult, swept_config: dict[str, Any], tmp_path: Path
) -> None:
    alone = {**swept_config, "name": "alone", "sweep": None}
    alone["models"] = {"lgb": json.loads(json.dumps(swept_config["models"]["lgb"]))}
    alone["models"]["lgb"]["params"] |= {"num_leaves": 3, "learning_rate": 0.2}
    by_hand = run_experiment(alone, runs=tmp_path)
    of_sweep = [run for run in trained_sweep.runs if run.record.model == "lgb num_leaves=3 learning_rate=0.2"]
    assert [run.record.identity for run in of_sweep] == [run.record.identity for run in by_hand.runs]
    assert [run.record.metrics for run in of_sweep] == [run.record.metrics for run in by_hand.runs]


def test_the_report_ranks_points_by_validation_and_warns(trained_sweep: ExperimentResult) -> None:
    assert trained_sweep.report is not None
    blocks = sweep(trained_sweep.report)
    assert "The best of many test means is optimistic, by luck" in str(blocks[1])
    (table,) = [block for block in blocks if isinstance(block, Table)]
    assert [column.label for column in table.columns] == [
        "Model", "params.num_leaves", "params.learning_rate", "Validation ndcg@10", "Test ndcg@10"
    ]  # fmt: skip
    validation = {}
    for run in trained_sweep.runs:
        curve = run.history.query("metric == 'ndcg@10'").set_index("round")["value"]
        validation.setdefault(run.record.model, []).append(curve[run.record.best_round])
    means = {model: sum(values) / 2 for model, values in validation.items() if model != "xgb"}
    shown = [(row[0].name, row[3]) for row in table.rows if isinstance(row[0], ModelName)]
    assert dict(shown) == pytest.approx(means)
    assert [name for name, _ in shown] == sorted(means, key=lambda name: -means[name])
    page = (trained_sweep.folder / "report" / "report.html").read_text(encoding="utf-8")
    assert "lgb num_leaves=3 learning_rate=0.05" in page
    assert not isinstance(table.rows[0][4], Estimate)


def test_without_a_sweep_the_report_is_silent_about_it(tmp_path: Path) -> None:
    result = run_experiment(
        {**SWEPT, "sweep": None, "models": {"chance": {"ranker": "random"}}}, runs=tmp_path
    )
    assert result.report is not None
    assert sweep(result.report) == []


def test_the_dry_run_prints_the_plan_and_trains_nothing(
    swept_config: dict[str, Any], trained_copy: Path, tmp_path: Path
) -> None:
    file = tmp_path / "small.yaml"
    file.write_text(yaml.safe_dump(swept_config, sort_keys=False))
    arguments = ["run", str(file), "--dry-run", "--workers", "1", "--runs"]
    code, out, err = run_cli(*arguments, str(tmp_path / "runs"))
    assert code == 0
    assert [line.partition("  ")[0] for line in out.splitlines()] == ["train"] * 10
    assert "lgb num_leaves=3 learning_rate=0.05, seed 1" in out
    assert "10 runs: 10 to train" in err
    assert "no estimate yet" in err
    assert not (tmp_path / "runs").exists()
    for run in (trained_copy / "small").glob("*--s2--*"):
        shutil.rmtree(run)
    code, out, err = run_cli(*arguments, str(trained_copy))
    assert [line.partition("  ")[0] for line in out.splitlines()] == ["done", "train"] * 5
    assert re.search(
        r"10 runs: 5 to train, 5 done already; \d+ threads? each; about \d+ s$", err, re.MULTILINE
    )


@pytest.mark.usefixtures("without_report")
def test_time_is_judged_by_the_runs_that_resemble_most(
    swept_config: dict[str, Any], trained_copy: Path
) -> None:
    for run in (trained_copy / "small").glob("*--s2--*"):
        shutil.rmtree(run)
    swept_config["models"]["wide"] = swept_config["models"]["lgb"]
    result = run_experiment({**swept_config, "seeds": [1]}, runs=trained_copy)
    points = (
        "num_leaves=3 learning_rate=0.05",
        "num_leaves=3 learning_rate=0.2",
        "num_leaves=7 learning_rate=0.05",
    )
    seconds = {f"lgb {point}": took for point, took in zip(points, (8.0, 10.0, 12.0), strict=True)}
    seconds |= {"lgb num_leaves=7 learning_rate=0.2": 14.0, "xgb": 100.0, "wide": 500.0}
    for run in result.runs:  # as if training had taken so long
        record = json.loads((run.path / RECORD).read_bytes())
        record["seconds"] = {"fit": seconds[run.record.model], "score": 1.0, "evaluate": 1.0}
        (run.path / RECORD).write_text(json.dumps(record))

    def runs_left(changes: dict[str, Any], workers: int = 1, **sweep: Any) -> tuple[float, int]:
        config = {**swept_config, **changes}
        if sweep:
            config["sweep"] = sweep
        prepared = prepare(read(config, runs=trained_copy))
        estimate = time_left(replace(prepared, workers=workers))
        return estimate.seconds, estimate.n_unknown

    assert runs_left({"seeds": [1]}) == (0.0, 0)
    assert runs_left({}) == (10 + 12 + 14 + 16 + 102 + 502, 0)  # a second seed of each
    assert runs_left({}, workers=2) == (502, 0)  # no sooner than the longest
    more = {"models.lgb.params.num_leaves": [9, 11]}
    assert runs_left({"seeds": [1]}, grid=more) == (2 * 13, 0)  # points nobody trained: the sweep's median
    other = {
        "other": {"ranker": "xgboost", "objective": "rank:ndcg"},
        "new": {"ranker": "lightgbm", "objective": "regression"},
    }
    assert runs_left({"seeds": [1], "models": other, "sweep": None}) == (102, 1)
    # new metrics: scored again, nothing is trained
    assert runs_left(
        {"seeds": [1], "metrics": {"report": ["map"], "cutoffs": [10], "primary": "map@10"}}
    ) == (
        6 * 2,
        0,
    )


def test_a_failed_run_says_nothing_about_time(swept_config: dict[str, Any], trained_copy: Path) -> None:
    for folder in (trained_copy / "small").glob("*--s2--*"):
        shutil.rmtree(folder)
    (run,) = (run for run in find_runs(trained_copy / "small") if run.record.model == "xgb")
    record = json.loads((run.path / RECORD).read_bytes())
    (run.path / RECORD).write_text(json.dumps({**record, "status": "failed", "error": "x"}))
    assert load_run(run.path).record.status == "failed"
    prepared = prepare(read({**swept_config, "sweep": None, "seeds": [1]}, runs=trained_copy))
    tasks = [task for task in prepared.tasks if task.model == "xgb"]
    assert [task.state for task in tasks] == ["train"]
    assert isinstance(tasks[0], Task)
    assert time_left(replace(prepared, tasks=tuple(tasks))).n_unknown == 1
