"""Idle threads of the boosters: they sleep. Light to import, as it comes before anything else."""

from __future__ import annotations

import os
import sys


def let_idle_threads_sleep() -> bool:
    """Wait for each other a little while, which small trees need, then sleep.

    By default they spin so long that small trainings take several times as long on a busy machine. OpenMP reads this
    when a booster loads.

    Returns:
        Whether that still lies ahead in this process; processes that it starts are in time anyway.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    return sys.modules.keys().isdisjoint(("lightgbm", "xgboost"))
