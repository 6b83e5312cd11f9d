"""How many cores this process may use."""

from __future__ import annotations

import os


def available_cores() -> int:
    """Cores that this process may use: fewer than the machine has, where somebody has set its affinity."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
