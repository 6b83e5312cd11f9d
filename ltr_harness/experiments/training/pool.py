"""Worker processes: how they start and end.

They start, where the platform can, as copies of a process that has loaded everything.

A fork of the experiment's own process instead would inherit the boosters' thread pools, which OpenMP waits for
for ever. Light to import, so that the loading can begin before anything else does.
"""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.context import BaseContext
from typing import Any, TypeVar

from ltr_harness.errors import MAIN_GUARD, Problem, UsageError

T = TypeVar("T")

_shutdowns: list[threading.Thread] = []
_script_lock = threading.Lock()


_SAFE_PATH = "PYTHONSAFEPATH"
SOCKETS = "LTR_HARNESS_SOCKETS"
"""Environment variable with the forkserver's folder of sockets, for the forkserver alone."""
WITHOUT_SKLEARN = "LTR_HARNESS_WITHOUT_SKLEARN"
"""Environment variable of a forkserver whose boosters load without scikit-learn."""


@contextmanager
def isolated() -> Iterator[None]:
    """Python processes that start within import nothing from the current folder, as ``python -c`` otherwise does."""
    before = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        _set_safe_path(before)


def _set_safe_path(value: str | None) -> None:
    os.environ.pop(_SAFE_PATH, None)
    if value is not None:
        os.environ[_SAFE_PATH] = value


@contextmanager
def without_script() -> Iterator[None]:
    """Processes that start within do not import this one's script, and so do not run it up to where it starts them."""
    script = vars(sys.modules["__main__"])
    with _script_lock:
        before: dict[str, Any] = {name: script[name] for name in ("__spec__", "__file__") if name in script}
        script.pop("__file__", None)
        script["__spec__"] = None
        try:
            yield
        finally:
            script.update(before)


class _IsolatedPool(ProcessPoolExecutor):
    """A pool whose processes, which start as work comes, import nothing from the current folder and no script."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        with isolated(), without_script():
            return super().submit(fn, *args, **kwargs)


def new_pool(
    workers: int, context: BaseContext, start: Callable[..., None] | None = None, *settings: Any
) -> ProcessPoolExecutor:
    """A pool whose processes end when this one does, however it ends."""
    arguments = (os.environ.get(_SAFE_PATH), start, settings)
    with shared_memory():
        return _IsolatedPool(workers, context, _initialize, arguments)


@contextmanager
def shared_memory() -> Iterator[None]:
    """Raise an error that names the needs of locks and queues between processes, where they cannot be made."""
    try:
        yield
    except OSError as problem:
        found = f"processes cannot share a lock: {problem.strerror or problem}"
        expected = "shared memory that can be written (/dev/shm on Linux)"
        raise UsageError(Problem("workers", found, expected, "--workers 1 needs none")) from None


def _initialize(safe_path: str | None, start: Callable[..., None] | None, settings: tuple[Any, ...]) -> None:
    _set_safe_path(safe_path)
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    if start is not None:
        start(*settings)


def _exit_with_parent() -> None:
    """A process that is killed cannot end its workers: they would wait for work for ever, and hold its output open."""
    owner = multiprocessing.parent_process()
    if owner is not None:
        owner.join()
        os._exit(1)


def worker_context(*modules: str, sklearn: bool = True) -> BaseContext:
    """A way to make processes and queues. Asked for early, workers load on another core while data are read.

    LightGBM and XGBoost import scikit-learn where there is one, for classes that the harness never calls. It takes a
    third of all imports, so workers for which `sklearn` is False load the boosters as if it were not installed.
    """
    if os.name == "posix":  # first of all: it unblocks signals that it finds blocked
        from multiprocessing import resource_tracker

        with isolated():
            resource_tracker.ensure_running()
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["ltr_harness.experiments.training.preloaded", *modules])
    from multiprocessing import forkserver, util

    if multiprocessing.parent_process() is None:  # a worker has its owner's folder
        os.environ[SOCKETS] = util.get_temp_dir()
    if not sklearn:
        os.environ[WITHOUT_SKLEARN] = "1"
    # the process that workers are copies of starts with Ctrl-C blocked: the process that owns them handles it
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with isolated():
            forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.environ.pop(SOCKETS, None)
        os.environ.pop(WITHOUT_SKLEARN, None)
    return context


def refuse_in_worker() -> None:
    """Refuse to begin in a process that is being started, and imports the script that started it."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise UsageError(
            f"a worker process is asked to start further workers: {MAIN_GUARD}; or use workers=1"
        )


@contextmanager
def started(pools: Collection[ProcessPoolExecutor]) -> Iterator[None]:
    """Pools that have a worker each, or a UsageError where these end at once; an error within ends them at once."""
    try:
        for start in [pool.submit(len, ()) for pool in pools]:
            try:
                start.result()
            except BrokenExecutor:
                raise UsageError(
                    f"the worker processes ended while they started: {MAIN_GUARD}; or use workers=1"
                ) from None
        yield
    except BaseException:  # Ctrl-C, a defect, a caller who wants no more: what workers are doing is lost
        for pool in pools:
            for process in list((pool._processes or {}).values()):  # terminate_workers() from Python 3.14 on
                process.terminate()
        raise
    finally:
        for pool in pools:
            shutdown_in_background(pool)


def shutdown_in_background(pool: Executor) -> None:
    """End a pool of processes without waiting for it: that takes a while, and the report need not wait."""
    thread = threading.Thread(target=pool.shutdown, kwargs={"wait": True, "cancel_futures": True})
    thread.start()
    _shutdowns.append(thread)


def wait_for_shutdowns() -> None:
    """Wait for `shutdown_in_background`: Python prints a traceback where it exits while one is closing."""
    while _shutdowns:
        _shutdowns.pop().join()
