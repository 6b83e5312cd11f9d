"""Killed at any time and run again, an experiment ends in the numbers of an undisturbed one."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ltr_harness.runs import find_runs


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


def kill_and_go_on(config: Path, tmp_path: Path, moments: list[float], *more: str) -> None:
    undisturbed = tmp_path / "undisturbed"
    began = time.monotonic()
    table = finish(config, undisturbed, *more)
    seconds = time.monotonic() - began
    disturbed = tmp_path / "disturbed"
    for moment in moments:
        process = start(config, disturbed, *more)
        time.sleep(moment * seconds)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        if (disturbed / "small").is_dir():
            find_runs(disturbed / "small")  # whatever is there can be read
    assert finish(config, disturbed, *more).replace(str(disturbed), str(undisturbed)) == table
    assert numbers(disturbed) == numbers(undisturbed)
    left = {path.name for path in (disturbed / "small").iterdir()}
    assert not any(name.startswith(".unfinished") for name in left)


def test_killed_twice(small_file: Path, tmp_path: Path) -> None:
    kill_and_go_on(small_file, tmp_path, [0.45, 0.65])


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["1", "2"])
def test_killed_at_many_random_moments(small_file: Path, tmp_path: Path, workers: str) -> None:
    draw = random.Random(20261120)
    moments = [draw.uniform(0.1, 1.0) for _ in range(15)]
    kill_and_go_on(small_file, tmp_path, moments, "--workers", workers)


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
