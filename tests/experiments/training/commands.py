"""`ltr-harness` in a process of its own that starts in no time, for tests that end it."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import resource_tracker
from multiprocessing.process import BaseProcess
from pathlib import Path

TRAP = "from pathlib import Path\nPath({marker!r}).open('a').write(__name__ + ' ')\nraise ImportError(__name__)\n"
"""A module that writes to a file that it was imported."""

STANDARD_NAMES = (
    "random",
    "statistics",
    "numpy",
    "signal",
    "selectors",
    "socket",
    "tempfile",
    "pickle",
    "struct",
    "heapq",
)


def folder_of_traps(folder: Path) -> tuple[Path, Path]:
    """A folder of modules that nobody may import, under names that everybody does, and the file that says who did."""
    here, executed = folder / "here", folder / "executed"
    here.mkdir()
    for name in STANDARD_NAMES:
        (here / f"{name}.py").write_text(TRAP.format(marker=str(executed)))
    return here, executed


class Command:
    """The command as a copy of the process that workers are copies of, in a session of its own.

    A new Python imports for a second what such a copy has; from then on they are the same.
    """

    def __init__(
        self, folder: Path, *arguments: str | Path, prepare: Callable[[], object] | None = None
    ) -> None:
        from ltr_harness.experiments.training.pool import worker_context

        folder.mkdir(parents=True, exist_ok=True)
        self.out, self.err = folder / "stdout", folder / "stderr"
        texts = [str(argument) for argument in arguments]
        self.process: BaseProcess = worker_context().Process(
            target=_command, args=(texts, str(self.out), str(self.err), dict(os.environ), prepare)
        )
        self.process.start()
        self.wait_until(self.err.exists)

    @property
    def stderr(self) -> str:
        return self.err.read_text(encoding="utf-8")

    def wait_until(self, ready: Callable[[], object]) -> None:
        """Until it is so, or the command is over."""
        until = time.monotonic() + 120
        while not ready() and self.process.is_alive():
            assert time.monotonic() < until, self.stderr
            time.sleep(0.01)

    def send(self, number: int, *, to_all: bool = False) -> None:
        """A signal to the command, or to all processes of its session."""
        assert self.process.pid is not None
        (os.killpg if to_all else os.kill)(self.process.pid, number)

    def wait(self) -> tuple[int | None, str, str]:
        """Its exit code, stdout and stderr once it and all that it has started are over."""
        self.process.join(120)
        until = time.monotonic() + 60
        with suppress(ProcessLookupError):
            while time.monotonic() < until:
                self.send(0, to_all=True)
                time.sleep(0.01)
        return self.process.exitcode, self.out.read_text(encoding="utf-8"), self.stderr


def stay_on_one_core() -> None:
    """For `prepare`: as many threads as a test has in this process, where it has `one_core`."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def make_shared_memory_read_only() -> None:
    """For `prepare`: mount /dev/shm so that this process, alone, cannot write to it."""
    user, library = os.getuid(), ctypes.CDLL(None, use_errno=True)
    own_users_and_mounts = 0x10020000  # CLONE_NEWUSER | CLONE_NEWNS
    if library.unshare(own_users_and_mounts):
        raise OSError(ctypes.get_errno(), "needs mounts of its own")
    Path("/proc/self/uid_map").write_text(f"0 {user} 1")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "none", "/dev/shm"], check=True)


def _command(
    arguments: list[str],
    out: str,
    err: str,
    environment: dict[str, str],
    prepare: Callable[[], object] | None,
) -> None:
    """Do what a shell does before a program begins, and run the program."""
    os.setsid()
    for number, path in ((1, out), (2, err)):
        opened = os.open(path, os.O_WRONLY | os.O_CREAT)
        os.dup2(opened, number)
        os.close(opened)
    os.environ.clear()
    os.environ.update(environment)
    resource_tracker._resource_tracker._fd = None  # one of its own, which ends with it
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    if prepare is not None:
        prepare()
    from ltr_harness.cli import main

    sys.argv = ["ltr-harness", *arguments]
    main()
