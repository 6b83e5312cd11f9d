"""Killed at any time and run again, an experiment ends in the numbers of an undisturbed one; so with its workers."""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import yaml

from ltr_harness import run_experiment
from ltr_harness.experiments.runs import Run, find_runs
from ltr_harness.experiments.training.job import Task
from ltr_harness.experiments.training.pool import wait_for_shutdowns
from ltr_harness.experiments.training.progress import Progress

from .commands import Command  # type: ignore[import-not-found]

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
    """Kill the command at these moments, finish its work with another one, and return that one's output."""
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


def test_killed_twice(small_file: Path, trained_copy: Path, tmp_path: Path, ltr: Any) -> None:
    _, table, _ = ltr("run", small_file, "--runs", trained_copy)
    disturbed = tmp_path / "disturbed"
    for number in (2, 1):
        command = Command(tmp_path / f"killed at {number}", "run", small_file, "--runs", disturbed)
        command.wait_until(lambda command=command, number=number: f"\n[{number}/" in command.stderr)
        command.wait_until(lambda: list(disturbed.glob("small/.unfinished*")))  # the next has begun
        command.send(signal.SIGKILL, to_all=True)
        assert command.wait()[0] == -signal.SIGKILL
        find_runs(disturbed / "small")  # whatever is there can be read
    code, said, _ = ltr("run", small_file, "--runs", disturbed)
    assert (code, said.replace(str(disturbed), str(trained_copy))) == (0, table)
    assert not list((disturbed / "small").glob(".unfinished*"))
    assert numbers(disturbed) == numbers(trained_copy)


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
    long = ["--set", "seeds=[1,2,3,4,5,6,7,8]", "--set", "stopping.patience=12"]
    command = Command(tmp_path, "run", small_file, "--runs", tmp_path / "runs", "--workers", "1", *long)
    command.wait_until(lambda: "\n[1/" in command.stderr)
    command.send(signal.SIGINT)
    code, _, said = command.wait()
    assert code == 130
    assert "interrupted; finished runs are kept" in said
    assert "Traceback" not in said
    kept = find_runs(tmp_path / "runs" / "small")
    assert kept
    assert all(run.record.status == "complete" for run in kept)


MINUTES = ["--workers", "2", "--set", "stopping.max_rounds=100000", "--set", "stopping.patience=99999"]
COPIES = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere workers are not copies of one process")


def answered_once(code: int | None, said: str) -> None:
    # the same to a shell: Python ends by the signal itself if Ctrl-C came while a library was in `exec("…")`
    assert code in (130, -signal.SIGINT)
    assert "Traceback" not in said
    assert said.count("interrupted; finished runs are kept") == 1


@COPIES
def test_ctrl_c_in_a_terminal_while_workers_load_is_answered_once(small_file: Path, tmp_path: Path) -> None:
    process = start(small_file, tmp_path, *MINUTES)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")

    until = time.monotonic() + 60
    while b"forkserver" not in _command_lines(children) and time.monotonic() < until:
        time.sleep(0.01)
    time.sleep(0.2)  # what workers will be copies of is loading
    os.killpg(process.pid, signal.SIGINT)
    try:
        _, said = process.communicate(timeout=60)  # and long before the models are trained
    finally:  # what does not answer must not train beside the tests that follow
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    answered_once(process.returncode, said)


def _command_lines(children: Path) -> bytes:
    return b"".join(Path(f"/proc/{child}/cmdline").read_bytes() for child in children.read_text().split())


@COPIES
def test_ctrl_c_in_a_terminal_reaches_all_processes_and_one_answers(small_file: Path, tmp_path: Path) -> None:
    command = Command(tmp_path, "run", small_file, "--runs", tmp_path, *MINUTES)
    command.wait_until(lambda: list(tmp_path.glob("small/.unfinished*")))
    time.sleep(0.1)
    command.send(signal.SIGINT, to_all=True)
    code, _, said = command.wait()  # long before the models are trained
    answered_once(code, said)


class Interrupted(Progress):
    """Ctrl-C after the first run."""

    def finished(self, task: Task, run: Run) -> None:
        raise KeyboardInterrupt


def test_an_interrupted_experiment_ends_its_own_workers_alone(
    small_config: dict[str, Any], tmp_path: Path
) -> None:
    other = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(300,))
    other.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            run_experiment(small_config, runs=tmp_path, workers=2, progress=Interrupted())
        wait_for_shutdowns()
        assert multiprocessing.active_children() == [other]
        kept = find_runs(tmp_path / "small")
        assert kept
        assert all(run.record.status == "complete" for run in kept)
    finally:
        other.kill()
        other.join()


@pytest.mark.usefixtures("without_report")
def test_a_killed_worker_costs_one_run_which_starts_again_and_is_said(
    small_config: dict[str, Any], killer: Path, trained_copy: Path, tmp_path: Path
) -> None:
    killer.write_text("1")
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump(small_config, sort_keys=False))
    code, _, said = Command(tmp_path, "run", path, "--runs", tmp_path / "disturbed", "--workers", "2").wait()
    assert code == 0, said
    (lost,) = [line for line in said.splitlines() if "its worker died" in line]
    assert lost.startswith("lgbm")
    assert "its worker died (killed, or out of memory); it starts again" in lost
    assert "Traceback" not in said
    finished = [line.partition(" ")[0] for line in said.splitlines() if line.startswith("[")]
    assert finished == [f"[{number}/6]" for number in range(1, 7)]
    run_experiment(small_config, runs=trained_copy)
    disturbed, undisturbed = numbers(tmp_path / "disturbed"), numbers(trained_copy)
    assert len(disturbed) == 6
    assert disturbed == {name: undisturbed[name] for name in disturbed}
    assert not list((tmp_path / "disturbed" / "small").glob(".unfinished*/record.json"))


def test_a_run_that_kills_two_workers_is_recorded_as_failed_and_tried_by_the_next_command(
    small_config: dict[str, Any], killer: Path, trained_copy: Path
) -> None:
    small_config |= {"seeds": [1], "report": {"formats": ["md"]}}
    [random_run] = trained_copy.glob("small/random--all--s1--*")
    shutil.rmtree(random_run)  # one model to train alone would kill this process
    killer.write_text("9")
    result = run_experiment(small_config, runs=trained_copy, workers=2, on_failure="keep")
    assert killer.read_text() == "7"
    assert {run.record.model for run in result.runs} == {"xgb", "random"}
    (failure,) = result.failures
    error = failure.record.error
    assert failure.record.model == "lgbm"
    assert error is not None
    assert "worker that trained it died, and so did the next one (killed, or out of memory)" in error
    assert "and so did the next one" in (result.folder / "report" / "report.md").read_text()
    killer.write_text("0")
    small_config["report"] = {"formats": ["json"]}
    mended = run_experiment(small_config, runs=trained_copy, workers=2)
    assert not mended.failures
    assert mended.reused == 2


@COPIES
def test_a_process_that_ends_leaves_workers_silent_and_no_folder_of_sockets(tmp_path: Path) -> None:
    """A worker that starts workers itself leaves the folder to its owner, and a kill leaves none."""
    script = """
        import os, signal, time
        from multiprocessing import util

        import _multiprocessing
        from ltr_harness.experiments.training.pool import new_pool, worker_context

        nested = (
            "from ltr_harness.experiments.training.pool import worker_context\\n"
            "inner = worker_context().Process(target=abs, args=(1,))\\n"
            "inner.start(); inner.join()"
        )
        if __name__ == "__main__":
            context = worker_context()
            lock = context.Lock()
            _multiprocessing.sem_unlink(lock._semlock.name)  # as when its owner has ended
            for target, argument in ((exec, nested), (print, lock)):
                worker = context.Process(target=target, args=(argument,))
                worker.start()
                worker.join()
                print(worker.exitcode)
            time.sleep(1)
            print(os.path.isdir(util.get_temp_dir()))
            pool = new_pool(1, context)
            assert pool.submit(abs, -1).result() == 1
            print(*os.listdir(os.environ["TMPDIR"]), flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
    """
    (tmp_path / "a.py").write_text(dedent(script))
    (tmp_path / "t").mkdir()
    environment = os.environ | {"TMPDIR": str(tmp_path / "t")}
    done = subprocess.run(
        [sys.executable, "a.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    nested, silent, has_folder, names = done.stdout.splitlines()
    assert (nested, silent, has_folder) == ("0", "1", "True"), done.stderr
    assert names.startswith("pymp-")
    until = time.monotonic() + 20
    while any((tmp_path / "t").iterdir()) and time.monotonic() < until:
        time.sleep(0.05)
    assert list((tmp_path / "t").iterdir()) == []
    warnings = ("resource_tracker: ", "warnings.warn(")  # of what the killed process did not give back
    assert [line for line in done.stderr.splitlines() if not any(word in line for word in warnings)] == []
