"""Number of OpenMP threads, held at what was asked for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ltr_harness.errors import Problem, TrainingError


@contextmanager
def fixed_threads(library: Any) -> Iterator[None]:
    """OpenMP gives a library as many threads as it asks for, whatever ``OMP_DYNAMIC`` says.

    With fewer, sums are added in another order, which moves trees, and XGBoost reads beyond its own memory.
    """
    try:
        before = library.omp_get_dynamic()
        library.omp_set_dynamic(0)
    except AttributeError:
        if os.environ.get("OMP_DYNAMIC", "").strip().lower() in ("true", "1"):
            raise TrainingError(
                Problem(
                    "OMP_DYNAMIC",
                    "is set, so OpenMP may train with fewer threads than the run's record says",
                    cure="unset it",
                )
            ) from None
        yield
        return
    try:
        yield
    finally:
        library.omp_set_dynamic(before)
