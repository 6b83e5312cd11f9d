"""How worker processes start, and how they end.

They start, where the platform can, as copies of a process that has loaded everything.

A fork of the experiment's own process instead would inherit the boosters' thread pools, which OpenMP waits for
for ever. Light to import, so that the loading can begin before anything else does.
"""

from __future__ import annotations

import multiprocessing
import signal
import sys
import threading
from concurrent.futures import Executor, ProcessPoolExecutor
from multiprocessing.context import BaseContext

_leaving: list[threading.Thread] = []


def worker_context() -> BaseContext:
    """What makes processes and queues. Asked for early, workers load on another core while this process reads data."""
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["ltr_harness.experiment.preloaded"])
    _serve()
    return context


def _serve() -> None:
    """Start the process that workers are copies of, deaf to Ctrl-C: it is for the process that owns them to answer.

    A terminal sends Ctrl-C to all of them; each would print a traceback, also in the middle of an import.
    """
    from multiprocessing import forkserver, resource_tracker

    resource_tracker.ensure_running()  # first, because it unblocks what it finds blocked
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def stop(pool: ProcessPoolExecutor) -> None:
    """End a pool's workers at once: nobody waits for what they are doing. The caller's other processes go on."""
    for process in list((pool._processes or {}).values()):  # terminate_workers() from Python 3.14 on
        process.terminate()


def let_go(pool: Executor) -> None:
    """End a pool of processes without waiting for it: that takes a while, and the report need not wait."""
    thread = threading.Thread(target=pool.shutdown, kwargs={"wait": True, "cancel_futures": True})
    thread.start()
    _leaving.append(thread)


def wait_until_gone() -> None:
    """Wait for the pools that were let go: Python prints a traceback where it exits while one is closing."""
    while _leaving:
        _leaving.pop().join()
