"""Identities of runs: digests of everything that can move a tree, and of nothing else."""

import hashlib
import json
import platform
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.metadata import PackageMetadata, PackageNotFoundError, metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import InvalidName, canonicalize_name
from packaging.version import InvalidVersion, Version

from ltr_harness._util.escapes import printable
from ltr_harness.errors import DataError, Problem
from ltr_harness.experiments.runs.run import Run

# Raise this when the harness itself starts to train all models differently from the same inputs; of some models alone,
# `revisions` has the number.
TRAINING_REVISION = 1

_BOOSTERS = ("lightgbm", "xgboost", "catboost")
_COUNTING = ("ltr-harness", *_BOOSTERS, "numpy", "numba", "llvmlite", "scipy", "pandas", "pyarrow")


def training_identity(
    *,
    ranker: Mapping[str, Any],  # name and every field, defaults included
    seed: int | None,  # None where the seed cannot matter
    rounds: int | None,  # boosting rounds where nothing stops training earlier
    stopping: Mapping[str, Any] | None,  # the stopping rule, with its metric's canonical name
    train: str,  # fingerprint of the training split
    valid: str | None,  # fingerprint of the validation split, None if it is not used
    packages: Mapping[str, str],  # versions of the libraries that grow the trees
    threads: int | None,  # None where the number of threads cannot matter
) -> str:
    """Return 64 hex digits over everything that can move a tree."""
    return _digest({"revision": TRAINING_REVISION, **locals()})


def evaluation_identity(identity: str, metrics: Sequence[str], test: str) -> str:
    """Return 64 hex digits over a training identity, the metrics' names and the test split's fingerprint."""
    return _digest({"training": identity, "metrics": list(metrics), "test": test})


def study_identity(training: str, search: Mapping[str, Any]) -> str:
    """Return 64 hex digits over a training identity and the search for its options."""
    return _digest({"training": training, "search": dict(search)})


@cache
def environment() -> dict[str, str]:
    """Return Python, platform, processor and the versions of everything whose change could change a number."""
    try:  # libraries choose their instructions by the processor's model, and with them the last bit of a sum
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return {
        "python": platform.python_version(),
        "platform": sys.platform,
        "machine": platform.machine(),
        "processor": next(named, "") or platform.processor() or "unknown",
        **package_versions(_COUNTING),
    }


def package_versions(names: Sequence[str]) -> dict[str, str]:
    """Return installed versions; packages that are not installed are left out (xgboost-cpu answers for xgboost)."""
    return {name: package["Version"] for name in names if (package := _metadata(name)) is not None}


def _digest(value: Mapping[str, Any]) -> str:
    def encode(part: object) -> Any:
        if isinstance(part, set | frozenset):
            return sorted(part)
        raise TypeError(f"{type(part).__name__} cannot be part of an identity")

    text = json.dumps(value, sort_keys=True, ensure_ascii=True, allow_nan=False, default=encode)
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def installed_requirements(names: tuple[str, ...]) -> dict[str, str]:
    """Return distributions and their requirements with installed versions; ``name-cpu`` answers for ``name``."""
    versions: dict[str, str] = {}
    waiting = list(names)
    while waiting:
        package = _metadata(waiting.pop())
        if package is None or canonicalize_name(package["Name"]) in versions:
            continue
        versions[canonicalize_name(package["Name"])] = package["Version"]
        needs = [Requirement(need) for need in package.get_all("Requires-Dist", ())]
        waiting += [need.name for need in needs if need.marker is None or need.marker.evaluate({"extra": ""})]
    return dict(sorted(versions.items()))


def requirements(runs: Sequence[Run]) -> str:
    """Return a requirements file: every package that the runs used, pinned to its version; no address of an index."""
    versions_by_package: dict[str, dict[str, str]] = {}  # package -> version -> the first run with it
    for run in runs:
        for name, number in run.record.packages.items():
            _check(run, name, number)
            versions_by_package.setdefault(name, {}).setdefault(number, run.path.name)
    _refuse_several_versions(versions_by_package)
    facts = ("python", "platform", "machine")
    environments = [run.record.environment for run in runs]
    environment_texts = {
        ", ".join(f"{fact} {values[fact]}" for fact in facts if fact in values) for values in environments
    }
    names = ", ".join(run.path.name for run in runs[:3])
    if len(runs) > 3:
        names += f" and {len(runs) - 3} more"
    heading = [f"# {names}", *(f"# made with {text}" for text in sorted(environment_texts))]
    pins = [f"{name}=={version}" for name, [version] in sorted(versions_by_package.items())]
    return "\n".join([*map(printable, heading), *pins]) + "\n"


def _refuse_several_versions(versions_by_package: Mapping[str, Mapping[str, str]]) -> None:
    problems = []
    for name, run_of_version in versions_by_package.items():
        if len(run_of_version) > 1:
            listed = ", ".join(f"{version} ({run})" for version, run in run_of_version.items())
            problems.append(
                Problem(name, f"the runs used {listed}", "one version", "export each run by itself")
            )
    DataError.refuse(problems)


def pins(run: Run, names: Iterable[str]) -> list[str]:
    """Return some of the packages that a run used, pinned to their versions; ``name-cpu`` answers for ``name``."""
    used = run.record.packages
    pinned = [package for name in names for package in (name, f"{name}-cpu") if package in used]
    for name in pinned:
        _check(run, name, used[name])
    return [f"{name}=={used[name]}" for name in pinned]


def _check(run: Run, name: str, version: str) -> None:
    """Refuse text that pip would take for an option, an address or another line."""
    try:
        canonicalize_name(name, validate=True)
        Version(version)
    except (InvalidName, InvalidVersion) as error:
        listed = f"its record lists {f'{name}=={version}'!r}, which is not a package and its version"
        raise DataError(Problem(str(run.path), listed)) from error


@cache
def _metadata(name: str) -> PackageMetadata | None:
    for candidate in (name, f"{name}-cpu"):
        try:
            return metadata(candidate)  # a file that is parsed each time
        except PackageNotFoundError:
            pass
    return None
