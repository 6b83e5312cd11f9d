"""The number of processes, and their start."""

from __future__ import annotations

import gc
import multiprocessing
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from ltr_harness._util import cores as cores
from ltr_harness._util.cores import SMALL_DATA, sensible_workers
from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.errors import UsageError
from ltr_harness.experiments.training.pool import new_pool, worker_context
from ltr_harness.experiments.training.progress import Progress
from ltr_harness.experiments.training.workers import run_in_workers
from ltr_harness.workflow import prepare, read

pytestmark = pytest.mark.long


def test_one_per_core_on_small_data_and_one_alone_on_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cores, "available_cores", lambda: 8)
    assert sensible_workers(n_runs=65, n_values=450_000) == 8
    assert (
        sensible_workers(n_runs=9, n_values=450_000) == 4
    )  # two runs each, or starting them costs what they gain
    assert sensible_workers(n_runs=1, n_values=450_000) == 1
    assert sensible_workers(n_runs=65, n_values=SMALL_DATA + 1) == 1


def test_the_number_is_chosen_by_the_plan_not_by_what_is_done(
    small_config: dict[str, Any], tmp_path: Path
) -> None:
    first = prepare(read(small_config, runs=tmp_path, workers=None))
    (first.tasks[0].folder).mkdir(parents=True)
    assert prepare(read(small_config, runs=tmp_path, workers=None)).workers == first.workers
    with pytest.raises(UsageError, match="workers=0; expected at least 1"):
        prepare(read(small_config, runs=tmp_path, workers=0))


def test_zero_workers_are_refused_with_the_range(
    small_config: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump(small_config))
    assert run_command(cli, ["run", str(path), "--workers", "0"]) == 2
    assert "expected at least 1, or dask:N" in capsys.readouterr().err


def test_workers_may_use_several_threads_each(small_config: dict[str, Any], tmp_path: Path) -> None:
    # A worker is forked from a process that has the boosters loaded. Had one of them started its threads there,
    # OpenMP in the worker would wait for threads that it does not have, for ever.
    prepared = prepare(read(small_config, runs=tmp_path))
    prepared.folder.mkdir(parents=True)
    job = replace(prepared, threads=2)

    done = threading.Event()

    def end_workers() -> None:
        waits = not done.wait(120)
        while waits:  # a worker that is lost is replaced
            for worker in multiprocessing.active_children():
                worker.kill()
            waits = not done.wait(1)

    threading.Thread(target=end_workers).start()
    try:
        runs = [run for _, run in run_in_workers(prepared.tasks, job, workers=2, progress=Progress())]
    finally:
        done.set()
    assert {run.record.status for run in runs} == {"complete"}
    assert {run.record.threads for run in runs} == {2}


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere processes do not start as copies")
def test_what_is_loaded_before_the_fork_is_no_work_for_the_garbage_collector() -> None:
    with new_pool(1, worker_context()) as pool:
        assert pool.submit(gc.isenabled).result(60)
        assert pool.submit(gc.get_freeze_count).result(60) > 100_000
        assert pool.submit(eval, PREPARED).result(60) == (1, 2)


PREPARED = """(
    len(__import__("ltr_harness.metrics.core.binding", fromlist=["_"])._write_means.machine().signatures),
    __import__("ltr_harness.experiments.runs.identity", fromlist=["_"]).installed_requirements.cache_info().currsize,
)"""
"""The loop of means and the lists of requirements that a new worker has, which each worker would load otherwise."""


UNGUARDED = """
from ltr_harness import run_experiment

print("once")
for workers in {workers!r}:
    result = run_experiment({path!r}, runs={runs!r} + str(workers), workers=workers)
    print("comparison", result.comparison.models)
"""


@pytest.mark.slow
def test_searches_of_a_script_need_no_main_guard(small_config: dict[str, Any], tmp_path: Path) -> None:
    """Processes that import the script which starts them would run the experiment again."""
    small_config["tune"] = {"models": {"lgbm": "built-in"}, "trials": 2, "parallel": 2}
    small_config["seeds"] = [1]
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump(small_config))
    file = tmp_path / "script.py"
    file.write_text(UNGUARDED.format(path=str(path), runs=str(tmp_path / "runs"), workers=[None, 2]))
    said = subprocess.run([sys.executable, file], capture_output=True, text=True, timeout=240, check=False)
    assert said.returncode == 0, said.stderr
    assert said.stdout.startswith("once\ncomparison (")
    assert said.stdout.count("once") == 1
    assert said.stdout.count("\ncomparison (") == 2
    assert said.stderr == ""


@pytest.mark.slow
def test_a_cluster_without_a_main_guard_is_told_so(small_file: Path, tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    file = tmp_path / "script.py"
    file.write_text(UNGUARDED.format(path=str(small_file), runs=str(tmp_path / "runs"), workers=["dask:1"]))
    said = subprocess.run([sys.executable, file], capture_output=True, text=True, timeout=120, check=False)
    last = said.stderr.strip().splitlines()[-1]
    assert (said.returncode, "cannot be started" in last, "`if __name__" in last) == (1, True, True)
