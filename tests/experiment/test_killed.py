"""Killed at any time and run again, an experiment ends in the numbers of an undisturbed one; so with its workers."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from ltr_harness import run_experiment
from ltr_harness.cli import cli
from ltr_harness.cli.ending import run_command
from ltr_harness.experiment.pool import wait_for_shutdowns
from ltr_harness.experiment.progress import Progress
from ltr_harness.experiment.task import Task
from ltr_harness.runs import Run, find_runs

pytestmark = pytest.mark.long


def start(config: Path, runs: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "ltr_harness", "run", str(config), "--runs", str(runs), *more]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def finish(config: Path, runs: Path, *more: str) -> str:
    process = start(config, runs, *more)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out


def numbers(runs: Path) -> dict[str, object]:
    return {run.path.name: (run.record.metrics, run.record.files) for run in find_runs(runs / "small")}


Moment = Callable[[subprocess.Popen[str]], None]


def kill_and_go_on(config: Path, disturbed: Path, moments: Sequence[Moment], *more: str) -> str:
    """What the command says that ends what others, killed at these moments, began."""
    for wait in moments:
        process = start(config, disturbed, *more)
        wait(process)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        if (disturbed / "small").is_dir():
            find_runs(disturbed / "small")  # whatever is there can be read
    said = finish(config, disturbed, *more)
    left = {path.name for path in (disturbed / "small").iterdir()}
    assert not any(name.startswith(".unfinished") for name in left)
    return said


def test_killed_twice(small_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(cli, ["run", str(small_file), "--runs", str(tmp_path / "undisturbed")]) == 0
    table, _ = capsys.readouterr()

    def after(line: str) -> Moment:
        def wait(process: subprocess.Popen[str]) -> None:
            assert process.stderr is not None
            while not process.stderr.readline().startswith(line):
                assert process.poll() is None

        return wait

    disturbed = tmp_path / "disturbed"
    said = kill_and_go_on(small_file, disturbed, [after("[2/"), after("[1/")])
    assert said.replace(str(disturbed), str(tmp_path / "undisturbed")) == table
    assert numbers(disturbed) == numbers(tmp_path / "undisturbed")


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["1", "2"])
def test_killed_at_many_random_moments(small_file: Path, tmp_path: Path, workers: str) -> None:
    undisturbed, disturbed = tmp_path / "undisturbed", tmp_path / "disturbed"
    began = time.monotonic()
    table = finish(small_file, undisturbed, "--workers", workers)
    seconds = time.monotonic() - began
    draw = random.Random(20261120)
    moments = [partial(lambda at, _: time.sleep(at * seconds), draw.uniform(0.1, 1.0)) for _ in range(15)]
    said = kill_and_go_on(small_file, disturbed, moments, "--workers", workers)
    assert said.replace(str(disturbed), str(undisturbed)) == table
    assert numbers(disturbed) == numbers(undisturbed)


def test_interrupted_by_ctrl_c_keeps_what_finished_and_says_so(small_file: Path, tmp_path: Path) -> None:
    process = start(
        small_file, tmp_path / "runs", "--set", "seeds=[1,2,3,4,5,6,7,8]", "--set", "stopping.patience=12"
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("[1/"):
            process.send_signal(signal.SIGINT)
            break
    _, rest = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "interrupted; finished runs are kept" in rest
    assert "Traceback" not in rest
    kept = find_runs(tmp_path / "runs" / "small")
    assert kept
    assert all(run.record.status == "complete" for run in kept)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere workers are not copies of one process")
@pytest.mark.parametrize(
    "training", [False, True], ids=["while workers load", "while they train for minutes"]
)
def test_ctrl_c_in_a_terminal_reaches_all_processes_and_one_answers(
    small_file: Path, tmp_path: Path, training: bool
) -> None:
    rounds = ["--set", "stopping.max_rounds=100000", "--set", "stopping.patience=99999"]
    process = start(small_file, tmp_path, "--workers", "2", *rounds)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")

    def ready() -> bool:
        if training:
            return bool(list(tmp_path.glob("small/.unfinished*")))
        own = children.read_text().split()
        return any(b"forkserver" in Path(f"/proc/{child}/cmdline").read_bytes() for child in own)

    until = time.monotonic() + 60
    while not ready() and time.monotonic() < until:
        time.sleep(0.01)
    time.sleep(0.3)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)  # and long before the models are trained
    # the same to a shell: Python ends by the signal itself if Ctrl-C came while a library was in `exec("…")`
    assert process.returncode in (130, -signal.SIGINT)
    assert "Traceback" not in said
    assert said.count("interrupted; finished runs are kept") == 1


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere workers are not copies of one process")
def test_a_worker_that_begins_while_its_owner_ends_is_silent(tmp_path: Path) -> None:
    script = """
        import _multiprocessing
        from ltr_harness.experiment.pool import worker_context

        context = worker_context()
        lock = context.Lock()
        _multiprocessing.sem_unlink(lock._semlock.name)  # as when its owner has ended
        worker = context.Process(target=print, args=(lock,))
        worker.start()
        worker.join()
        print(worker.exitcode)
    """
    done = subprocess.run(
        [sys.executable, "-c", dedent(script)], capture_output=True, text=True, timeout=120, cwd=tmp_path
    )
    assert done.stdout == "1\n"
    assert "SemLock" not in done.stderr


class Interrupted(Progress):
    """Ctrl-C after the first run."""

    def finished(self, task: Task, run: Run) -> None:
        raise KeyboardInterrupt


def test_an_interrupted_experiment_ends_its_own_workers_alone(small: dict[str, Any], tmp_path: Path) -> None:
    other = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(300,))
    other.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            run_experiment(small, runs=tmp_path, workers=2, progress=Interrupted())
        wait_for_shutdowns()
        assert multiprocessing.active_children() == [other]
    finally:
        other.kill()
        other.join()


class Log(Progress):
    """Remembers whose worker died, and what finished."""

    def __init__(self) -> None:
        self.lost_tasks: list[str] = []
        self.ran: list[str] = []

    def lost(self, task: Task) -> None:
        self.lost_tasks.append(str(task))

    def finished(self, task: Task, run: Run) -> None:
        self.ran.append(str(task))


def test_a_killed_worker_costs_one_run_which_starts_again(
    small: dict[str, Any], killer: Path, tmp_path: Path
) -> None:
    killer.write_text("1")
    log = Log()
    disturbed = run_experiment(small, runs=tmp_path / "disturbed", workers=2, progress=log)
    assert len(log.lost_tasks) == 1
    assert log.lost_tasks[0].startswith("lgbm")
    assert not disturbed.failures
    assert len(log.ran) == 6
    run_experiment(small, runs=tmp_path / "undisturbed")
    assert numbers(tmp_path / "disturbed") == numbers(tmp_path / "undisturbed")
    assert not list((tmp_path / "disturbed" / "small").glob(".unfinished*/record.json"))


def test_a_run_that_kills_two_workers_is_recorded_as_failed_and_tried_by_the_next_command(
    small: dict[str, Any], killer: Path, tmp_path: Path
) -> None:
    small["report"] = {"formats": ["html", "json"]}
    killer.write_text("9")
    result = run_experiment(small, runs=tmp_path / "runs", workers=2, on_failure="keep")
    assert killer.read_text() == "5"  # two runs, two workers each
    assert {run.record.model for run in result.runs} == {"xgb", "random"}
    assert [run.record.model for run in result.failures] == ["lgbm", "lgbm"]
    error = result.failures[0].record.error
    assert error is not None
    assert "worker that trained it died, and so did the next one (killed, or out of memory)" in error
    assert result.report_path is not None
    assert "and so did the next one" in result.report_path.read_text()
    killer.write_text("0")
    mended = run_experiment(small, runs=tmp_path / "runs", workers=2)
    assert not mended.failures
    assert mended.reused == 4


def test_a_killed_worker_is_said_on_the_terminal(small: dict[str, Any], killer: Path, tmp_path: Path) -> None:
    import yaml

    killer.write_text("1")
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump(small, sort_keys=False))
    process = start(path, tmp_path / "runs", "--workers", "2")
    _, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    assert "its worker died (killed, or out of memory); it starts again" in said
    assert "Traceback" not in said
