"""Memory estimate of an experiment."""

from __future__ import annotations

import os
from dataclasses import dataclass

from ltr_harness.experiment.job import Job

BINNED = 1  # bytes of a value in both libraries' binned training data
PLAIN = 8  # bytes of a value in the plain DMatrix that XGBoost predicts validation rows from: index and value
PROCESS = 300e6  # interpreter, libraries, compiled metrics
WORK = 1.3  # gradients, scores, histograms and trees on top; measured with `scripts/bench full_size`


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes, of the fold that needs most."""

    mapped: float  # features in the cache's files, which all processes share and the kernel can take back
    own: float  # of each worker, beyond that
    workers: int
    available: float | None  # what the machine has free; None where it does not say

    @property
    def short(self) -> bool:
        """Whether the workers' own memory does not fit."""
        return self.available is not None and self.own * self.workers > self.available

    def __str__(self) -> str:
        each = "" if self.workers == 1 else f" for each of {self.workers} workers"
        have = "" if self.available is None else f", {_gigabytes(self.available)} available"
        return f"about {_gigabytes(self.own)}{each}, and {_gigabytes(self.mapped)} of mapped data{have}"


def memory_estimate(job: Job) -> MemoryEstimate:
    """What training will take, from the sizes of the data and the libraries in use."""
    libraries = {getattr(model.ranker, "library", None) for model in job.experiment.models.values()} - {None}
    most = MemoryEstimate(0, 0, job.workers, _available())
    for fold in job.folds:
        train = fold.train.features.size
        valid = 0 if fold.valid is None else fold.valid.features.size
        plain = PLAIN * valid if "xgboost" in libraries else 0
        own = PROCESS + WORK * (BINNED * (train + valid) * len(libraries) + plain)
        mapped = sum(part.features.nbytes for part in fold.splits.values())
        if own + mapped > most.own + most.mapped:
            most = MemoryEstimate(mapped, own, job.workers, most.available)
    return most


def _available() -> float | None:
    try:
        return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (ValueError, OSError, AttributeError):
        return None


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:.1f} GB"
