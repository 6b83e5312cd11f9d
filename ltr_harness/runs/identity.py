"""Identities of runs: digests of everything that can move a tree, and of nothing else."""

from __future__ import annotations

import hashlib
import json
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

# Raise this when the harness itself starts to train differently from the same inputs.
TRAINING_REVISION = 1

_COUNTING = (
    "ltr-harness",
    "lightgbm",
    "xgboost",
    "catboost",
    "numpy",
    "numba",
    "llvmlite",
    "scipy",
    "pandas",
    "pyarrow",
)


@dataclass(frozen=True, kw_only=True)
class TrainingInputs:
    """Everything that can move a tree."""

    ranker: Mapping[str, Any]  # name and every field, defaults included
    seed: int | None  # None where the seed cannot matter
    rounds: int | None  # boosting rounds where nothing stops training earlier
    stopping: Mapping[str, Any] | None  # the stopping rule, with its metric's canonical name
    train: str  # fingerprint of the training split
    valid: str | None  # fingerprint of the validation split, None if it is not used
    packages: Mapping[str, str]  # versions of the libraries that grow the trees
    threads: int | None  # None where the number of threads cannot matter

    @property
    def identity(self) -> str:
        """64 hex digits over all of it."""
        return _digest({"revision": TRAINING_REVISION, **vars(self)})


def evaluation_identity(identity: str, metrics: Sequence[str], test: str) -> str:
    """64 hex digits over a training identity, the metrics' spellings and the test split's fingerprint."""
    return _digest({"training": identity, "metrics": list(metrics), "test": test})


def study_identity(training: str, search: Mapping[str, Any]) -> str:
    """64 hex digits over a training identity and how its options are searched for."""
    return _digest({"training": training, "search": dict(search)})


@cache
def environment() -> dict[str, str]:
    """Python, platform, processor and the versions of everything whose change could change a number."""
    facts = {
        "python": platform.python_version(),
        "platform": sys.platform,
        "machine": platform.machine(),
        "processor": _processor(),
    }
    return facts | package_versions(_COUNTING)


def package_versions(names: Sequence[str]) -> dict[str, str]:
    """Installed versions; a package that is not installed is left out (xgboost-cpu answers for xgboost)."""
    versions = {name: _installed(name) or _installed(f"{name}-cpu") for name in names}
    return {name: version_ for name, version_ in versions.items() if version_ is not None}


def _processor() -> str:
    """The processor's model: libraries choose their instructions by it, and with them the last bit of a sum."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or platform.processor() or "unknown"


@cache
def _installed(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _digest(value: Mapping[str, Any]) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, allow_nan=False, default=_plain)
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: object) -> Any:
    if isinstance(value, set | frozenset):
        return sorted(value)
    if isinstance(value, tuple):
        return list(value)
    raise TypeError(f"{type(value).__name__} cannot be part of an identity")
