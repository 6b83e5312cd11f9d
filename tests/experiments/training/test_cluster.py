"""Runs on a real Dask cluster of two processes: the same bytes as here, also when one of them is killed."""

from __future__ import annotations

import copy
import gc
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from ltr_harness import run_experiment
from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.errors import UsageError
from ltr_harness.experiments.runs import Run
from ltr_harness.experiments.training import dask as cluster_module
from ltr_harness.experiments.training.dask import Cluster, local_cluster
from ltr_harness.experiments.training.job import Job, Task
from ltr_harness.experiments.training.progress import Progress
from ltr_harness.workflow import ExperimentResult, prepare, read, run_prepared
from tests.experiments.training.conftest import SMALL, of_session, runs_of

dask = pytest.importorskip("dask", reason="needs ltr-harness[dask]")
pytest.importorskip("distributed", reason="needs ltr-harness[dask]")
pytestmark = [
    pytest.mark.long,
    pytest.mark.usefixtures("module_without_report"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with local_cluster(2) as started:
        yield started


ONE_SEED = {**SMALL, "seeds": [1]}


@pytest.fixture
def small_config() -> dict[str, Any]:
    """The small experiment, whose three runs keep two workers busy."""
    return copy.deepcopy(ONE_SEED)


@pytest.fixture(scope="module")
def trained_here(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """The runs of the small experiment, trained in this process. To be read."""
    return runs_of(ONE_SEED, tmp_path_factory.mktemp("here"))


class Log(Progress):
    """Remembers what happened."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.lost_: list[str] = []
        self.rounds: list[str] = []

    def round(self, task: Task, number: int, values: Any) -> None:
        self.rounds.append(str(task))

    def worker_lost(self, task: Task) -> None:
        self.lost_.append(str(task))

    def finished(self, task: Task, run: Any) -> None:
        self.ran.append(str(task))


def run_on(
    cluster: Cluster, config: dict[str, Any], runs: Path, progress: Progress | None = None
) -> ExperimentResult:
    return run_prepared(prepare(read(config, runs=runs, cluster=cluster)), progress=progress)


def contents(runs: Iterable[Run]) -> dict[str, Any]:
    """Everything of the runs that must be the same wherever they were trained, by folder name."""
    return {
        run.path.name: (run.record.identity, run.record.metrics, run.record.best_round, run.record.files)
        for run in runs
    }


def test_a_cluster_gives_the_bytes_that_one_process_gives(
    cluster: Cluster, small_config: dict[str, Any], trained_here: list[Run], tmp_path: Path
) -> None:
    log = Log()
    there = run_on(cluster, small_config, tmp_path / "there", log)
    assert not there.failures
    assert contents(there.runs) == contents(trained_here)
    assert sorted(log.ran) == sorted(str(task) for task in prepare(read(small_config, runs=tmp_path)).tasks)
    assert not list((tmp_path / "there" / "small").glob(".unfinished*"))
    again = Log()
    assert run_on(cluster, small_config, tmp_path / "there", again).reused == 3
    assert again.ran == []


def test_a_local_cluster_listens_to_this_machine_alone(cluster: Cluster) -> None:
    addresses = [cluster.client.scheduler.address, *cluster.client.scheduler_info()["workers"]]
    assert len(addresses) == 3
    assert all(address.startswith("tcp://127.0.0.1:") for address in addresses)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere processes do not start as copies")
def test_a_local_clusters_workers_are_copies_of_one_that_has_loaded_everything(cluster: Cluster) -> None:
    assert min(cluster.client.run(lambda: gc.get_freeze_count()).values()) > 100_000
    watched = cluster.client.run(lambda: dask.config.get("distributed.worker.profile.enabled"))
    assert list(watched.values()) == [False, False]


def test_an_added_metric_is_evaluated_from_stored_models(
    cluster: Cluster, small_config: dict[str, Any], trained_here: list[Run], tmp_path: Path
) -> None:
    shutil.copytree(trained_here[0].path.parents[1], tmp_path / "copied")
    small_config["metrics"]["report"].append("mrr")
    second = run_on(cluster, small_config, tmp_path / "copied")
    assert all("mrr@10" in run.record.metrics for run in second.runs)
    before, after = (
        {
            (run.record.model, run.record.seed, name): file
            for run in runs
            for name, file in run.record.files.items()
            if "model" in name
        }
        for runs in (trained_here, second.runs)
    )
    assert before
    assert before == after


def test_a_killed_worker_loses_nothing(
    cluster: Cluster, small_config: dict[str, Any], killer: Path, tmp_path: Path
) -> None:
    killer.write_text("1")
    log = Log()
    disturbed = runs_of(small_config, tmp_path / "disturbed", cluster, log)
    assert killer.read_text() == "0"
    assert len(log.lost_) == 1
    assert not any(run.record.error for run in disturbed)
    assert contents(disturbed) == contents(runs_of(small_config, tmp_path / "undisturbed"))


def test_a_run_that_costs_two_workers_has_failed_and_the_others_go_on(
    cluster: Cluster, small_config: dict[str, Any], killer: Path, tmp_path: Path
) -> None:
    killer.write_text("9")
    runs = runs_of(small_config, tmp_path / "runs", cluster)
    assert killer.read_text() == "7"
    assert {run.record.model for run in runs if run.record.error is None} == {"xgb", "random"}
    (failure,) = (run for run in runs if run.record.error is not None)
    assert failure.record.error is not None
    assert "worker that trained it died, and so did the next one" in failure.record.error


def test_a_blend_is_made_of_parts_that_the_cluster_trains(
    cluster: Cluster, small_config: dict[str, Any], tmp_path: Path
) -> None:
    small_config["models"] = {
        "blend": {"ranker": "blend", "of": ["xgb", "bm25"], "how": "z-scores"},
        "xgb": small_config["models"]["xgb"],
        "bm25": {"ranker": "feature", "feature": "match_1"},
    }
    there, here = (runs_of(small_config, tmp_path / name, on) for name, on in (("2", cluster), ("1", None)))
    assert [run.record.status for run in there] == ["complete"] * 3
    for one, other in zip(
        *(sorted(runs, key=lambda run: run.path.name) for runs in (there, here)), strict=True
    ):
        assert one.path.name == other.path.name
        assert one.record.metrics == other.record.metrics


def test_data_that_workers_do_not_see_are_sent(
    cluster: Cluster, small_config: dict[str, Any], tmp_path: Path
) -> None:
    rows = "\n".join(f"{i % 3} qid:{i // 6} 1:{i % 7} 2:{i % 5}" for i in range(240))
    (tmp_path / "rows.txt").write_text(rows + "\n")
    small_config["data"] = {
        "reader": "letor",
        "root": str(tmp_path),
        "folds": 3,
        "files": "rows.txt",
        "max_grade": 4,
    }
    small_config["models"] = {"xgb": small_config["models"]["xgb"]}
    here = runs_of(small_config, tmp_path / "here")

    class Remove(Progress):
        def planned(self, job: Job) -> None:
            (tmp_path / "rows.txt").unlink()

    there = runs_of(small_config, tmp_path / "there", cluster, Remove())
    assert not any(run.record.error for run in there)
    assert contents(there) == contents(here)


def test_other_data_under_the_same_path_are_refused(
    cluster: Cluster, small_config: dict[str, Any], tmp_path: Path
) -> None:
    rows = "\n".join(f"{i % 3} qid:{i // 6} 1:{i % 7} 2:{i % 5}" for i in range(240))
    (tmp_path / "rows.txt").write_text(rows + "\n")
    small_config["data"] = {
        "reader": "letor",
        "root": str(tmp_path),
        "folds": 3,
        "files": "rows.txt",
        "max_grade": 4,
    }

    class Change(Progress):
        def planned(self, job: Job) -> None:
            (tmp_path / "rows.txt").write_text(rows.replace("1:6", "1:5") + "\n")

    with pytest.raises(UsageError, match="holds other data than the same path"):
        run_on(cluster, small_config, tmp_path / "runs", Change())


def test_workers_with_other_versions_are_refused(
    cluster: Cluster, small_config: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = cluster_module.package_versions
    monkeypatch.setattr(cluster_module, "package_versions", lambda names: here(names) | {"xgboost": "9.9"})
    with pytest.raises(UsageError, match=r"has xgboost \d.*; expected 9.9, as here"):
        run_on(cluster, small_config, tmp_path)


def test_workers_of_another_layout_are_refused(
    cluster: Cluster, small_config: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raise_of_older_worker(function: Any, *_: Any, **__: Any) -> None:
        if function is cluster_module.inspect_worker:
            raise ModuleNotFoundError("No module named 'ltr_harness.newer'", name="ltr_harness.newer")

    monkeypatch.setattr(cluster.client, "run", raise_of_older_worker)
    with pytest.raises(
        UsageError, match=r"cannot import 'ltr_harness\.newer'; expected ltr-harness \d.*, as here"
    ):
        run_on(cluster, small_config, tmp_path)


def test_without_the_extra_it_says_what_to_install(
    small_config: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UsageError, match=r"pip install 'dask\[array,dataframe\]>=2025\.3' 'distributed>="):
        run_experiment(small_config, runs=tmp_path, workers="dask:2")


def test_messages(
    small_config: dict[str, Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ltr_harness.experiments.training.dask.CONNECT_WITHIN", 0.5)
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump(small_config))
    said = {}
    for options in (
        ["--dask", "tcp://127.0.0.1:9"],
        ["--dask", "nonsense://x"],
        ["--dask", "tcp://127.0.0.1:9", "--workers", "dask:2"],
        ["--workers", "dask:0"],
        ["--workers", "slurm:3"],
    ):
        assert run_command(cli, ["run", str(path), "--runs", str(tmp_path / "runs"), *options]) == 2
        said[" ".join(options)] = capsys.readouterr().err
    assert "no Dask scheduler answers there" in said["--dask tcp://127.0.0.1:9"]
    assert "no Dask scheduler answers there" in said["--dask nonsense://x"]
    assert "expected one of the two" in said["--dask tcp://127.0.0.1:9 --workers dask:2"]
    assert "or dask:N" in said["--workers dask:0"]
    assert "or dask:N" in said["--workers slurm:3"]
    assert not any("Traceback" in text for text in said.values())
    assert not (tmp_path / "runs").exists()


def test_the_command_line_starts_a_cluster_and_joins_one(
    small_config: dict[str, Any], cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump(small_config))
    address = cluster.client.scheduler.address
    arguments = ["run", str(path), "--runs", str(tmp_path / "runs")]
    assert run_command(cli, [*arguments, "--dask", address]) == 0
    capsys.readouterr()
    assert run_command(cli, [*arguments, "--workers", "dask:1"]) == 0
    assert "every run exists already" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
@pytest.mark.parametrize("training", [False, True], ids=["while workers start", "while they train"])
def test_ctrl_c_in_a_terminal_is_answered_once(small_file: Path, tmp_path: Path, training: bool) -> None:
    command = ["run", str(small_file), "--runs", str(tmp_path), "--workers", "dask:2"]
    rounds = ["--set", "stopping.max_rounds=100000", "--set", "stopping.patience=99999"]
    process = subprocess.Popen(  # no copy of another process: those leave out what Python does when it exits
        [sys.executable, "-m", "ltr_harness", *command, *rounds],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    if training:
        while "to train" not in process.stderr.readline():
            assert process.poll() is None
    else:  # itself, what clears away after others, and what workers are to be copies of
        until = time.monotonic() + 60
        while len(of_session(process.pid)) < 3 and time.monotonic() < until:
            time.sleep(0.05)
    time.sleep(0.3)
    os.killpg(process.pid, signal.SIGINT)
    try:
        said = process.communicate(timeout=60)[1]
    finally:  # what does not answer must not train beside the tests that follow
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode in (130, -signal.SIGINT)
    assert "Traceback" not in said
    assert said.count("interrupted; finished runs are kept") == 1
