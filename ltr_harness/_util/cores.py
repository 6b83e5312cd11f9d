"""Cores: how many this process may use, and how workers, threads and idle threads share them."""

import mmap
import os
import sys


def available_cores() -> int:
    """Cores that this process may use: fewer than the machine has, where somebody has set its affinity."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def let_idle_threads_sleep() -> bool:
    """Have idle threads of OpenMP sleep after a moment; whether it reads that in time, before a booster is loaded."""
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    return sys.modules.keys().isdisjoint(("lightgbm", "xgboost"))


SMALL_DATA = 64_000_000
"""Values of a training set up to which a core trains a model of its own better than it helps with another's."""


def sensible_workers(n_runs: int, n_values: int) -> int:
    """Return the fastest number of processes: several on small data, where threads wait for each other, else one."""
    return 1 if n_values > SMALL_DATA else max(1, min(available_cores(), n_runs // 2))


def threads_of(workers: int) -> int:
    """Threads that a model is trained with when so many are trained at once."""
    return max(1, available_cores() // workers)


_STACK = 8  # MiB of addresses that a thread takes, as most systems have it


def require_room(n_threads: int, megabytes: int = 64) -> None:
    """Raise MemoryError where so many threads have no room to start with so much left, as under `ulimit -v`.

    Arrow and OpenBLAS wait without end for a thread of theirs that could not start.
    """
    try:
        mmap.mmap(
            -1, (megabytes + _STACK * n_threads) << 20
        ).close()  # addresses alone: nothing is written there
    except OSError:
        raise MemoryError from None
