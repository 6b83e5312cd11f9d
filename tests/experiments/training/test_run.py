"""From a configuration to run folders, a comparison and a report; and the same again without training."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ltr_harness import evaluate, load_run, run_experiment
from ltr_harness.errors import TrainingError, UsageError
from ltr_harness.experiments.runs import Run
from ltr_harness.experiments.training.folds import FoldReader
from ltr_harness.experiments.training.job import Task
from ltr_harness.experiments.training.progress import Progress
from ltr_harness.workflow import ExperimentResult, prepare, read

from .conftest import SMALL  # type: ignore[import-not-found]

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("one_core")]


class Log(Progress):
    """Remembers which tasks ran."""

    def __init__(self) -> None:
        self.ran: list[tuple[str, str]] = []

    def finished(self, task: Task, run: Run) -> None:
        self.ran.append((str(task), task.state))


def numbers(runs: tuple[Run, ...]) -> dict[str, Any]:
    """Everything of a run that must be the same next time, by folder name."""
    return {
        run.path.name: (
            run.record.metrics,
            run.record.best_round,
            run.record.rounds_trained,
            dict(run.record.files),
        )
        for run in runs
    }


def states(config: dict[str, Any], runs: Path) -> set[str]:
    """Return the states of the tasks."""
    return {task.state for task in prepare(read(config, runs=runs)).tasks}


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory, one_core: None) -> ExperimentResult:
    """The small experiment with a report in all formats."""
    config = {name: value for name, value in SMALL.items() if name != "report"}
    return run_experiment(config, runs=tmp_path_factory.mktemp("reported"))


def test_the_folder_is_laid_out_as_documented(reported: ExperimentResult) -> None:
    result, folder = reported, reported.folder
    assert folder.name == "small"
    assert result.report_path == folder / "report" / "report.html"
    assert (folder / "experiment.yaml").is_file()
    assert {"report.html", "report.md", "report.json"} <= {
        path.name for path in (folder / "report").iterdir()
    }
    assert list((folder / "report" / "tables").glob("*.tex"))
    assert list((folder / "report" / "charts").glob("*.svg"))
    models = {"lgbm": "model.txt", "xgb": "model.ubj", "random": "model.json"}
    for model, file in models.items():
        for seed in (1, 2):
            (run,) = folder.glob(f"{model}--all--s{seed}--*")
            wanted = {
                "record.json",
                file,
                "history.parquet",
                "test_scores.parquet",
                "per_query.parquet",
                "log.txt",
                "ranges.parquet",
            }
            if model != "random":
                wanted.add("importance.parquet")
            assert {path.name for path in run.iterdir()} == wanted
    assert len(result.runs) == 6
    assert not result.failures


def test_records_say_what_happened(trained_experiment: ExperimentResult) -> None:
    run = next(run for run in trained_experiment.runs if run.record.model == "lgbm")
    record = run.record
    assert record.primary == "ndcg@10"
    assert set(record.metrics) == {"ndcg@3", "ndcg@10", "err(max_grade=4)@3", "err(max_grade=4)@10"}
    assert record.best_round is not None
    assert record.rounds_trained is not None
    assert 1 <= record.best_round <= record.rounds_trained <= 6
    assert record.rounds_trained in (6, record.best_round + 2)
    assert record.data["test"].n_queries == 40
    assert record.environment["lightgbm"]
    scores = run.test_scores
    again = evaluate(
        scores["label"].to_numpy(), scores["score"].to_numpy(), query_ids=scores["query_id"].to_numpy(),
        metrics=["ndcg@10"],
    )  # fmt: skip
    assert again.means["ndcg@10"] == pytest.approx(record.metrics["ndcg@10"].mean, abs=1e-12)
    np.testing.assert_array_equal(run.per_query["ndcg@10"], again["ndcg@10"].per_query)
    assert list(run.per_query.columns[:3]) == ["query_id", "rows", "n_relevant"]


@pytest.mark.parametrize("model", ["lgbm", "xgb"])
def test_the_stored_model_is_the_best_round_of_the_curve(
    small_config: dict[str, Any], trained_experiment: ExperimentResult, model: str
) -> None:
    run = next(run for run in trained_experiment.runs if run.record.model == model)
    curve = run.history.query("metric == 'ndcg@10' and split == 'valid'").set_index("round")["value"]
    assert curve.idxmax() == run.record.best_round
    from ltr_harness.experiments.config import load_experiment

    valid = FoldReader(load_experiment(small_config).data).read("all").valid
    assert valid is not None
    stored = load_run(run.path)
    reached = evaluate(
        valid.labels, stored.score(valid.features), group_sizes=valid.groups.sizes, metrics=["ndcg@10"]
    )
    assert reached.means["ndcg@10"] == pytest.approx(curve.max(), abs=1e-9)


def test_a_second_run_trains_nothing_and_writes_the_same_report(
    small_config: dict[str, Any], reported: ExperimentResult
) -> None:
    del small_config["report"]
    first = reported
    assert first.report_path is not None
    pages = {path: path.read_bytes() for path in first.report_path.parent.rglob("*") if path.is_file()}
    log = Log()
    second = run_experiment(small_config, runs=first.folder.parent, progress=log)
    assert log.ran == []
    assert second.reused == 6
    assert numbers(second.runs) == numbers(first.runs)
    assert {path: path.read_bytes() for path in pages} == pages


@pytest.mark.usefixtures("without_report")
def test_an_added_metric_scores_again_and_does_not_train(
    small_config: dict[str, Any], trained_experiment: ExperimentResult, trained_copy: Path, tmp_path: Path
) -> None:
    models = {run.path.name: run.record.files.get("model.txt") for run in trained_experiment.runs}
    small_config["metrics"]["report"].append("mrr(relevant=2)")
    log = Log()
    second = run_experiment(small_config, runs=trained_copy, progress=log)
    assert {state for _, state in log.ran} == {"score again"}
    assert "mrr(relevant=2)@10" in second.runs[0].record.metrics
    assert {run.path.name: run.record.files.get("model.txt") for run in second.runs} == models
    fresh = run_experiment(small_config, runs=tmp_path / "fresh")
    assert [run.record.metrics for run in second.runs] == [run.record.metrics for run in fresh.runs]
    cautions = [run.record.cautions for run in second.runs]
    assert cautions == [run.record.cautions for run in fresh.runs], "those of training are kept"
    assert any(one.kind == "stopped-by-limit" for own in cautions for one in own)


@pytest.mark.usefixtures("without_report")
def test_the_first_seed_of_a_model_of_trees_is_timed(
    small_config: dict[str, Any], trained_experiment: ExperimentResult, trained_copy: Path
) -> None:
    def means(runs: tuple[Run, ...], metric: str) -> dict[tuple[str, int], float]:
        timed = {(run.record.model, run.record.seed): run.record for run in runs if run.record.latency}
        for record in timed.values():
            assert [one.documents for one in record.latency[:3]] == [10, 100, 1000]
            assert {one.rounds for one in record.latency[:3]} == {record.best_round}
            assert {one.mean for one in record.latency[:3]} == {record.metrics[metric].mean}
            assert all(one.documents == 100 for one in record.latency[3:])
        return {of: record.latency[-1].mean or 0.0 for of, record in timed.items()}

    first = means(trained_experiment.runs, "ndcg@10")
    assert {seed for _, seed in first} == {small_config["seeds"][0]}
    assert {model for model, _ in first} == {"lgbm", "xgb"}
    small_config["metrics"] |= {"report": ["ndcg", "err", "mrr(relevant=2)"], "primary": "mrr(relevant=2)@10"}
    again = means(run_experiment(small_config, runs=trained_copy).runs, "mrr(relevant=2)@10")
    assert again.keys() == first.keys()
    assert again != first


@pytest.mark.usefixtures("without_report")
def test_what_can_move_a_tree_lands_in_another_folder(
    small_config: dict[str, Any], trained_experiment: ExperimentResult, trained_copy: Path
) -> None:
    small_config["models"]["lgbm"]["params"]["num_leaves"] = 5
    log = Log()
    second = run_experiment(small_config, runs=trained_copy, progress=log)
    assert log.ran == [("lgbm, seed 1", "train"), ("lgbm, seed 2", "train")]
    assert {run.path.name for run in trained_experiment.runs if run.record.model == "lgbm"}.isdisjoint(
        run.path.name for run in second.runs
    )
    assert all((trained_copy / "small" / run.path.name).is_dir() for run in trained_experiment.runs)


@pytest.mark.usefixtures("without_report")
@pytest.mark.parametrize(
    "file",
    [
        "model.txt",
        "per_query.parquet",
        "record.json",
        "test_scores.parquet",
        "history.parquet",
        "importance.parquet",
    ],
)
def test_damaged_runs_are_repaired(
    small_config: dict[str, Any],
    trained_experiment: ExperimentResult,
    trained_copy: Path,
    file: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    small_config["models"] = {"lgbm": small_config["models"]["lgbm"]}
    first = tuple(run for run in trained_experiment.runs if run.record.model == "lgbm")
    cut, lost = (trained_copy / "small" / run.path.name for run in first)
    whole = (cut / file).read_bytes()
    (cut / file).write_bytes(whole[: len(whole) // 2])
    (lost / file).unlink()
    log = Log()
    second = run_experiment(small_config, runs=trained_copy, progress=log)
    scores = file in ("per_query.parquet", "test_scores.parquet")
    state = "score again" if scores else "train"
    assert log.ran == [("lgbm, seed 1", state), ("lgbm, seed 2", state)]
    again = "scored" if scores else "trained"
    assert caplog.messages == [
        f"{path}: damaged or missing: {file}; it is {again} again" for path in (cut, lost)
    ]
    assert numbers(second.runs) == numbers(first)
    assert all(one.history.equals(other.history) for one, other in zip(second.runs, first, strict=True))
    assert states(small_config, trained_copy) == {"done"}


def test_a_lost_log_costs_nothing(
    small_config: dict[str, Any], trained_experiment: ExperimentResult, trained_copy: Path
) -> None:
    (trained_copy / "small" / trained_experiment.runs[0].path.name / "log.txt").unlink()
    assert states(small_config, trained_copy) == {"done"}


BROKEN_RANKER = '''
from ltr_harness.models.random import RandomRanker

class Broken(RandomRanker):
    """Fails while training."""

    def fit(self, training):
        raise ZeroDivisionError("the seventh tree")
'''


def test_one_failing_model_does_not_cost_the_others(
    small_config: dict[str, Any], trained_copy: Path, tmp_path: Path
) -> None:
    file = tmp_path / "broken.py"
    file.write_text(BROKEN_RANKER)
    for run in (trained_copy / "small").glob("random--*"):
        shutil.rmtree(run)
    small_config["report"] = {"formats": ["md"]}
    small_config["models"] = {"broken": {"ranker": f"{file}:Broken"}, **small_config["models"]}
    small_config["compare"] = {"baseline": "lgbm"}
    log = Log()
    result = run_experiment(small_config, runs=trained_copy, on_failure="keep", progress=log)
    assert [name for name, _ in log.ran] == [
        "broken, seed 1", "broken, seed 2", "random, seed 1", "random, seed 2"
    ]  # fmt: skip
    assert len(result.runs) == 6
    assert [run.record.error for run in result.failures] == ["ZeroDivisionError: the seventh tree"] * 2
    assert "the seventh tree" in (result.folder / "report" / "report.md").read_text()
    assert "Traceback" in (result.failures[0].path / "log.txt").read_text()
    # mended, it is trained; the others are not
    file.write_text(
        BROKEN_RANKER.replace('raise ZeroDivisionError("the seventh tree")', "return super().fit(training)")
    )
    for name in [name for name in sys.modules if name.startswith("ltr_harness_own_broken")]:
        del sys.modules[name]
    small_config["report"] = {"formats": ["json"]}
    log = Log()
    mended = run_experiment(small_config, runs=trained_copy, progress=log)
    assert [name for name, _ in log.ran] == ["broken, seed 1", "broken, seed 2"]
    assert not mended.failures


def test_fail_fast_stops_at_the_first(small_config: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "broken_fast.py"
    file.write_text(BROKEN_RANKER)
    small_config["models"] = {"broken": {"ranker": f"{file}:Broken"}, **small_config["models"]}
    log = Log()
    with pytest.raises(TrainingError, match="the seventh tree; stopped because of --fail-fast"):
        run_experiment(small_config, runs=tmp_path, fail_fast=True, progress=log)
    assert len(log.ran) == 1


def test_seeds_that_cannot_matter_run_once(small_config: dict[str, Any], tmp_path: Path) -> None:
    small_config["report"] = {"formats": ["md"]}
    small_config["models"] = {
        "fixed": {"ranker": "lightgbm", "objective": "lambdarank", "params": {"num_leaves": 7}},
        "random": {"ranker": "random"},
    }
    result = run_experiment(small_config, runs=tmp_path)
    fixed = [run.record for run in result.runs if run.record.model == "fixed"]
    assert [(record.seed, record.deterministic) for record in fixed] == [(1, True)]
    assert "deterministic" in (result.folder / "report" / "report.md").read_text()


@pytest.mark.usefixtures("without_report")
def test_err_takes_the_largest_label_of_all_splits(small_config: dict[str, Any], tmp_path: Path) -> None:
    del small_config["data"]["max_grade"]
    small_config["models"] = {"random": small_config["models"]["random"]}
    result = run_experiment(small_config, runs=tmp_path)
    assert "err(max_grade=4)@10" in result.runs[0].record.metrics


def test_every_problem_is_named_before_the_first_tree(small_config: dict[str, Any], tmp_path: Path) -> None:
    small_config["models"]["lgbm"]["params"] = {"num_leafs": 3, "n_jobs": 2}
    small_config["models"]["xgb"]["objective"] = "rank:ndgc"
    with pytest.raises(UsageError) as caught:
        run_experiment(small_config, runs=tmp_path)
    text = str(caught.value)
    assert "num_leafs" in text
    assert "did you mean 'num_leaves'" in text
    assert "n_jobs" in text
    assert "rank:ndgc" in text
    assert not (tmp_path / "small").exists()


def test_labels_outside_a_metric_are_named_before_the_first_tree(
    small_config: dict[str, Any], tmp_path: Path
) -> None:
    rows = ["2 qid:1 1:1", "0 qid:1 1:2", "0.5 qid:2 1:1", "1 qid:2 1:3"]
    for name in ("train.txt", "test.txt"):
        (tmp_path / name).write_text("\n".join(rows) + "\n")
    small_config["data"] = {
        "reader": "letor",
        "root": str(tmp_path),
        "splits": {"train": "train.txt", "valid": {"holdout": 0.5, "seed": 1}, "test": "test.txt"},
    }
    small_config["models"] = {"random": {"ranker": "random"}}
    with pytest.raises(UsageError, match=r"label 0.5 in query '2'.*exp needs integer labels.*gain=linear"):
        run_experiment(small_config, runs=tmp_path)


def test_the_plan_is_in_the_order_of_folds_models_and_seeds(
    small_config: dict[str, Any], tmp_path: Path
) -> None:
    job = prepare(read(small_config, runs=tmp_path))
    assert [str(task) for task in job.tasks] == [
        "lgbm, seed 1", "lgbm, seed 2", "xgb, seed 1", "xgb, seed 2", "random, seed 1", "random, seed 2",
    ]  # fmt: skip


def test_report_json_holds_the_means_at_full_precision(
    small_config: dict[str, Any], trained_experiment: ExperimentResult
) -> None:
    result = trained_experiment
    assert result.report_path is not None
    assert result.comparison is not None
    document = json.loads((result.report_path.parent / "report.json").read_text())
    text = json.dumps(document)
    for model in small_config["models"]:
        assert repr(result.comparison.summary(model, "ndcg@10").mean) in text
