"""Default numbers of workers and threads."""

from __future__ import annotations

from ltr_harness.cores import available_cores

SMALL_DATA = 64_000_000
"""Values of a training set up to which a core trains a model of its own better than it helps with another's."""


def sensible_workers(n_runs: int, n_values: int) -> int:
    """How many processes finish first, where nobody has said.

    On small data threads spend much of a round waiting for each other: on two cores one model per core trains about a
    fifth faster, and other work on the machine slows it less. On large data threads wait little, and each further
    process would need its own binned copy.
    """
    return 1 if n_values > SMALL_DATA else max(1, min(available_cores(), n_runs // 2))


def threads_of(workers: int) -> int:
    """Threads that a model is trained with when so many are trained at once."""
    return max(1, available_cores() // workers)
