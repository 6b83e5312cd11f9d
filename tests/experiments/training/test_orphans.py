"""Worker processes end with the process that owns them, and import nothing from the folder they happen to be in."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from ltr_harness.experiments.training.pool import isolated, new_pool, worker_context
from tests.experiments.training.conftest import of_session

from .commands import TRAP, Command, folder_of_traps  # type: ignore[import-not-found]

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")


def start_command(config: Path, folder: Path, *more: str) -> subprocess.Popen[str]:
    """The command as its console script runs it: the script's folder is a place of modules, the current one is not."""
    script = config.with_name("bin") / "ltr-harness"
    script.parent.mkdir()
    script.write_text("from ltr_harness.cli import main\n\nif __name__ == '__main__':\n    main()\n")
    command = [sys.executable, str(script), "run", str(config), "--runs", str(folder / "runs"), *more]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, cwd=folder
    )


def wait_for(ready: Callable[[], bool], seconds: float) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if ready():
            return True
        time.sleep(0.05)
    return False


def nobody_writes(pipe: int) -> bool:
    """Return whether the other end of the pipe is closed, after reading all that was written."""
    try:
        while os.read(pipe, 65536):
            pass
    except BlockingIOError:
        return False
    return True


@pytest.mark.long
@LINUX
@pytest.mark.parametrize(
    ("workers", "processes", "config"),
    [
        pytest.param("2", 5, "small", id="workers that train"),
        pytest.param("2", 5, "tuned", id="workers that tune"),
        pytest.param("dask:2", 4, "small", id="a local cluster", marks=pytest.mark.slow),
    ],
)
def test_a_killed_command_leaves_no_process_and_lets_go_of_its_output(
    small_config: dict[str, Any],
    tuned_config: dict[str, Any],
    tmp_path: Path,
    workers: str,
    processes: int,
    config: str,
) -> None:
    tuned_config["tune"]["parallel"] = 2
    path = tmp_path / "experiment.yaml"
    path.write_text(yaml.safe_dump({"small": small_config, "tuned": tuned_config}[config], sort_keys=False))
    rounds = ["--set", "stopping.max_rounds=100000", "--set", "stopping.patience=99999"]
    pipes = []
    for name in ("stdout", "stderr"):
        os.mkfifo(tmp_path / name)
        pipes.append(os.open(tmp_path / name, os.O_RDONLY | os.O_NONBLOCK))
    command = Command(tmp_path, "run", path, "--runs", tmp_path / "runs", "--workers", workers, *rounds)
    session = command.process.pid
    assert session is not None
    try:
        assert wait_for(lambda: len(of_session(session)) >= processes, 120)
        time.sleep(0.2)
        command.send(signal.SIGKILL)
        assert wait_for(lambda: all(nobody_writes(pipe) for pipe in pipes), 30)
        assert wait_for(lambda: not of_session(session), 30)
    finally:
        for left in of_session(session):
            os.kill(left, signal.SIGKILL)
        for pipe in pipes:
            os.close(pipe)
        command.process.join()


@pytest.mark.slow
@LINUX
def test_workers_of_a_cluster_import_nothing_from_the_current_folder(
    small_file: Path, tmp_path: Path
) -> None:
    """Those of another process do not either: `test_forked_workers.py`."""
    folder, executed = folder_of_traps(tmp_path)
    quick = ["--set", "stopping.max_rounds=2", "--set", "seeds=[1]"]
    process = start_command(small_file, folder, "--workers", "dask:2", *quick)
    _, said = process.communicate()
    assert not executed.exists(), executed.read_text()
    assert process.returncode == 0, said


PATH_AND_WISH = "__import__('sys').path[0], __import__('os').environ.get('PYTHONSAFEPATH')"
"""An expression: to find a function of this module, a worker would import it."""


@pytest.mark.long
def test_where_workers_do_not_start_as_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that start anew, as on macOS and Windows, have the places of modules that this one has."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "random.py").write_text(TRAP.format(marker=str(tmp_path / "executed")))
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path != str(tmp_path)])
    worker_context()
    with new_pool(1, multiprocessing.get_context("spawn")) as pool:
        first, wish = pool.submit(eval, PATH_AND_WISH).result(60)
    assert first == sys.path[0]
    assert wish == os.environ.get("PYTHONSAFEPATH")  # what a worker starts itself is its own affair
    assert not (tmp_path / "executed").exists()


def test_the_wish_is_gone_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    for before in (None, "", "1"):
        if before is None:
            monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
        else:
            monkeypatch.setenv("PYTHONSAFEPATH", before)
        with isolated():
            assert os.environ["PYTHONSAFEPATH"] == "1"
        assert os.environ.get("PYTHONSAFEPATH") == before


def test_what_workers_import_is_what_this_process_imports() -> None:
    with new_pool(1, worker_context()) as pool:
        first, _ = pool.submit(eval, PATH_AND_WISH).result(60)
    assert first == sys.path[0]
