"""How worker processes start: where the platform can, as copies of a process that has loaded everything.

A fork of the experiment's own process instead would inherit the boosters' thread pools, which OpenMP waits for
for ever. Light to import, so that the loading can begin before anything else does.
"""

from __future__ import annotations

import multiprocessing
import sys
from multiprocessing.context import BaseContext


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
