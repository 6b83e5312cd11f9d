"""Which installed packages a run used, and how to have exactly those again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.metadata import PackageMetadata, PackageNotFoundError, metadata

from ltr_harness.errors import DataError, Problem
from ltr_harness.runs.run import Run

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@cache
def stood_on(names: tuple[str, ...]) -> dict[str, str]:
    """Distributions and whatever they need, directly or not, with the installed versions; extras are left out.

    What is not installed is left out too, and ``name-cpu`` answers for ``name``.

    Example:
        >>> sorted(set(stood_on(("numba",))) & {"llvmlite", "numpy", "pandas"})
        ['llvmlite', 'numpy']
    """
    found: dict[str, str] = {}
    waiting = list(names)
    while waiting:
        package = _metadata(waiting.pop())
        if package is None or _normal(package["Name"]) in found:
            continue
        found[_normal(package["Name"])] = package["Version"]
        needs = [need for need in package.get_all("Requires-Dist", ()) if "extra ==" not in need]
        waiting += [match.group() for need in needs if (match := _NAME.match(need))]
    return dict(sorted(found.items()))


def requirements(runs: Sequence[Run]) -> str:
    """A requirements file: every package that the runs used, pinned to its version; no address of an index.

    Raises:
        DataError: the runs used different versions, or a record is too old to say.
    """
    wanted: dict[str, dict[str, str]] = {}  # package -> version -> the first run with it
    for run in runs:
        if not run.record.packages:
            raise DataError(
                Problem(
                    str(run.path),
                    "its record does not list packages",
                    cure="it was made by an older version; its `environment` names the libraries that count",
                )
            )
        for name, version in run.record.packages.items():
            wanted.setdefault(name, {}).setdefault(version, run.path.name)
    problems = [
        Problem(
            name,
            "the runs used " + ", ".join(f"{version} ({run})" for version, run in versions.items()),
            "one version",
            "export each run by itself",
        )
        for name, versions in wanted.items()
        if len(versions) > 1
    ]
    if problems:
        raise DataError(problems)
    pins = [f"{name}=={version}" for name, [version] in sorted(wanted.items())]
    return "\n".join([*_heading(runs), *pins]) + "\n"


def _heading(runs: Sequence[Run]) -> Iterable[str]:
    made = {
        ", ".join(
            f"{name} {run.record.environment[name]}"
            for name in ("python", "platform", "machine")
            if name in run.record.environment
        )
        for run in runs
    }
    names = ", ".join(run.path.name for run in runs[:3]) + (f" and {len(runs) - 3} more" if runs[3:] else "")
    return (f"# {names}", *(f"# made with {where}" for where in sorted(made)))


@cache
def _metadata(name: str) -> PackageMetadata | None:
    for candidate in (name, f"{name}-cpu"):
        try:
            return metadata(candidate)  # a file that is parsed each time
        except PackageNotFoundError:
            pass
    return None


def _normal(name: str) -> str:
    """One spelling of names that packaging tools take for the same."""
    return re.sub(r"[-_.]+", "-", name).lower()
