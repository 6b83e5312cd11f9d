"""How worker processes start, and how they end.

They start, where the platform can, as copies of a process that has loaded everything.

A fork of the experiment's own process instead would inherit the boosters' thread pools, which OpenMP waits for
for ever. Light to import, so that the loading can begin before anything else does.
"""

from __future__ import annotations

import multiprocessing
import sys
import threading
from concurrent.futures import Executor
from multiprocessing.context import BaseContext

_leaving: list[threading.Thread] = []


def worker_context() -> BaseContext:
    """What makes processes and queues."""
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["ltr_harness.experiment.preloaded"])
    return context


def begin_loading() -> None:
    """Load what workers need on another core while this process still reads configuration and data."""
    if worker_context().get_start_method() == "forkserver":
        from multiprocessing.forkserver import ensure_running

        ensure_running()


def let_go(pool: Executor) -> None:
    """End a pool of processes without waiting for it: that takes a while, and the report need not wait."""
    thread = threading.Thread(target=pool.shutdown, kwargs={"wait": True, "cancel_futures": True})
    thread.start()
    _leaving.append(thread)


def wait_until_gone() -> None:
    """Wait for the pools that were let go: Python prints a traceback where it exits while one is closing."""
    while _leaving:
        _leaving.pop().join()
