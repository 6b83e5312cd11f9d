"""A small experiment that trains in a second, one that has been trained, and what a search leaves behind."""

from __future__ import annotations

import copy
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ltr_harness.experiments.runs.record import STUDIES, StudyRecord, read_study

if TYPE_CHECKING:
    from ltr_harness.experiments.runs import Run
    from ltr_harness.experiments.training.dask import Cluster
    from ltr_harness.experiments.training.progress import Progress
    from ltr_harness.workflow import ExperimentResult

SMALL: dict[str, Any] = {
    "name": "small",
    "seeds": [1, 2],
    "data": {
        "reader": "synthetic",
        "n_queries": {"train": 60, "valid": 30, "test": 40},
        "n_features": 12,
        "max_grade": 4,
    },
    "metrics": {"cutoffs": [3, 10], "report": ["ndcg", "err"], "primary": "ndcg@10"},
    "stopping": {"metric": "ndcg@10", "patience": 2, "max_rounds": 6},
    "models": {
        "lgbm": {
            "ranker": "lightgbm",
            "objective": "lambdarank",
            "params": {
                "num_leaves": 7,
                "bagging_fraction": 0.7,
                "bagging_freq": 1,
                "feature_fraction": 0.7,
            },
        },
        "xgb": {
            "ranker": "xgboost",
            "objective": "rank:ndcg",
            "params": {"max_depth": 3, "subsample": 0.7},
        },
        "random": {"ranker": "random"},
    },
    "report": {
        "formats": ["json"]
    },  # pages and charts cost as much as the trainings; what reads them asks for them
}


@pytest.fixture
def small_config() -> dict[str, Any]:
    return copy.deepcopy(SMALL)


@pytest.fixture(scope="session")
def trained_experiment(tmp_path_factory: pytest.TempPathFactory) -> ExperimentResult:
    """The small experiment, trained in this process. To be read; what changes it takes `trained_copy`."""
    from ltr_harness import run_experiment

    return run_experiment(copy.deepcopy(SMALL), runs=tmp_path_factory.mktemp("trained"))


@pytest.fixture
def trained_copy(trained_experiment: ExperimentResult, tmp_path: Path) -> Path:
    """A folder of runs of one's own, with those of `trained` in it."""
    runs = tmp_path / "trained"
    shutil.copytree(trained_experiment.folder.parent, runs)
    return runs


@pytest.fixture
def small_file(small_config: dict[str, Any], tmp_path: Path) -> Path:
    import yaml

    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump(small_config, sort_keys=False))
    return path


KILLER = '''
import fcntl, os, signal
from dataclasses import replace
from pathlib import Path
from ltr_harness.models.lightgbm import LightGBMRanker

class Killer(LightGBMRanker):
    """Kills its process at the fourth round, as often as its file says."""

    left: Path

    def fit(self, training):
        def progress(number, values):
            with self.left.open("r+") as file:
                fcntl.flock(file, fcntl.LOCK_EX)  # two workers may die at once
                left = int(file.read())
                if number == 4 and left:
                    self.left.write_text(str(left - 1))
                    os.kill(os.getpid(), signal.SIGKILL)
        return super().fit(replace(training, progress=progress))
'''


@pytest.fixture
def killer(small_config: dict[str, Any], tmp_path: Path) -> Path:
    """Makes the model lgbm of the small experiment cost as many workers as stands in the file returned."""
    (tmp_path / "killer.py").write_text(KILLER)
    left = tmp_path / "left"
    left.write_text("0")
    small_config["models"]["lgbm"] |= {"ranker": f"{tmp_path}/killer.py:Killer", "left": str(left)}
    return left


TUNED: dict[str, Any] = {
    "name": "tuned",
    "seeds": [1],
    "data": {
        "reader": "synthetic",
        "n_queries": {"train": 60, "valid": 30, "test": 40},
        "n_features": 12,
        "max_grade": 4,
    },
    "metrics": {"cutoffs": [10], "report": ["ndcg"], "primary": "ndcg@10"},
    "stopping": {"metric": "ndcg@10", "patience": 3, "max_rounds": 6},
    "models": {
        "lgb": {
            "ranker": "lightgbm",
            "params": {"num_leaves": 31, "bagging_fraction": 0.8, "bagging_freq": 1},
        },
        "xgb": {"ranker": "xgboost", "params": {"subsample": 0.8}},
    },
    "tune": {
        "trials": 4,
        "models": {
            "lgb": {
                "params.num_leaves": {"low": 3, "high": 31, "log": True},
                "params.learning_rate": {"low": 0.01, "high": 0.5, "log": True},
                "objective": ["lambdarank", "rank_xendcg"],
            },
        },
    },
    "report": {"formats": ["json"]},
}


@pytest.fixture
def tuned_config() -> dict[str, Any]:
    """A model whose options are searched beside one that is as it is written."""
    return copy.deepcopy(TUNED)


@pytest.fixture(scope="module")
def one_core() -> Iterator[None]:
    """A machine of one core, where a test is not about workers: to start two takes longer than a tiny model trains."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ltr_harness._util.cores.available_cores", lambda: 1)
        yield


@pytest.fixture
def few_timed_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """`show trees` times as many calls as a 99th percentile needs, where nobody reads the times."""
    from ltr_harness.experiments.runs.serving_cost import ENOUGH

    for calls in ("_CALLS", "_CALLS_OF_EACH"):
        monkeypatch.setattr(f"ltr_harness.cli.commands.show_trees.{calls}", ENOUGH)


def studies(runs: Path) -> dict[str, StudyRecord]:
    found = {}
    for folder in sorted((runs / "tuned" / STUDIES).iterdir()):
        record = read_study(folder)
        assert record is not None
        found[f"{record.model}, {record.fold}"] = record
    return found


def trial_outcomes(runs: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Whatever must be the same next time: all but how long it took."""
    return {
        name: [(t.number, t.status, t.point, t.value, t.best_round, t.error) for t in record.trials]
        for name, record in studies(runs).items()
    }


def of_session(session: int) -> list[int]:
    """The processes of a session that still run."""
    found = []
    for process in map(int, filter(str.isdigit, os.listdir("/proc"))):
        with suppress(OSError):  # it has ended since
            if os.getsid(process) == session and b") Z" not in Path(f"/proc/{process}/stat").read_bytes():
                found.append(process)
    return found


def runs_of(
    config: dict[str, Any], runs: Path, cluster: Cluster | None = None, progress: Progress | None = None
) -> list[Run]:
    """The runs alone, trained here or on a cluster, neither compared nor reported: that takes as long again."""
    from ltr_harness.experiments.training.dask import run_on_cluster
    from ltr_harness.experiments.training.progress import Progress
    from ltr_harness.experiments.training.train import run_here
    from ltr_harness.workflow import prepare, read

    prepared = prepare(read(config, runs=runs, cluster=cluster, workers=None if cluster else 1))
    tasks, job, progress = prepared.tasks, prepared, progress or Progress()
    job.folder.mkdir(parents=True)
    progress.planned(job)
    trained = run_on_cluster(tasks, job, cluster, progress) if cluster else run_here(tasks, job, progress)
    return [run for _, run in trained]
