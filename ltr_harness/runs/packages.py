"""Which installed packages a run used, and how to have exactly those again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from importlib.metadata import PackageMetadata, PackageNotFoundError, metadata

from packaging.requirements import Requirement
from packaging.utils import InvalidName, canonicalize_name
from packaging.version import InvalidVersion, Version

from ltr_harness.errors import DataError, Problem
from ltr_harness.runs.run import Run
from ltr_harness.wording import printable


@cache
def stood_on(names: tuple[str, ...]) -> dict[str, str]:
    """Distributions and whatever they need, directly or not, with the installed versions.

    Extras and what is for other platforms are left out, and what is not installed; ``name-cpu`` answers for ``name``.

    Example:
        >>> sorted(set(stood_on(("numba",))) & {"llvmlite", "numpy", "pandas"})
        ['llvmlite', 'numpy']
    """
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
            _check(run, name, version)
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
    return "\n".join([*map(printable, _heading(runs)), *pins]) + "\n"


def pins(run: Run, names: Iterable[str]) -> list[str]:
    """Some of the packages that a run used, pinned to their versions; ``name-cpu`` answers for ``name``.

    Raises:
        DataError: the record lists what is no package and its version.
    """
    used = run.record.packages
    wanted = [one for name in names for one in (name, f"{name}-cpu") if one in used]
    for name in wanted:
        _check(run, name, used[name])
    return [f"{name}=={used[name]}" for name in wanted]


def _check(run: Run, name: str, version: str) -> None:
    """Refuses what pip would take for an option, an address or another line.

    Raises:
        DataError: not the name of a package, or not a version.
    """
    try:
        canonicalize_name(name, validate=True)
        Version(version)
    except (InvalidName, InvalidVersion) as error:
        listed = f"its record lists {f'{name}=={version}'!r}, which is not a package and its version"
        raise DataError(Problem(str(run.path), listed)) from error


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
