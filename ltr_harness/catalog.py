"""From a name to the thing it names: explicit tables, imported on first use, with "did you mean"."""

from __future__ import annotations

import difflib
import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from ltr_harness.errors import Problem, UsageError

_named: dict[str, Path] = {}
"""The own files that the caller has named in this process, by their digests."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A cure naming the closest known name and the full list.

    Example:
        >>> did_you_mean("ndgc", ["ndcg", "mrr"])
        "did you mean 'ndcg'? (known: mrr, ndcg)"
    """
    names = sorted(known)
    lowered = {candidate.lower(): candidate for candidate in names}
    close = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.6)
    listing = f"known: {', '.join(names)}"
    return f"did you mean {lowered[close[0]]!r}? ({listing})" if close else listing


class Catalog:
    """One family of named things: a literal table, then entry points, then a user's own file.

    Args:
        family: singular noun for messages, such as ``"metric"``.
        table: name to ``"module:attribute"``; nothing is imported before it is asked for.
        entry_point_group: where installed packages may add names.
    """

    def __init__(self, family: str, table: Mapping[str, str], entry_point_group: str) -> None:
        self.family = family
        self.table = table
        self.entry_point_group = entry_point_group

    def names(self) -> list[str]:
        """All names, built in and installed, sorted."""
        return sorted({*self.table, *self._installed()})

    def load(self, name: str, error: type[UsageError] = UsageError) -> Any:
        """The object behind a name, or behind ``path/to/file.py:Attribute``.

        Raises:
            UsageError: (or the subclass given as `error`) the name is unknown.
        """
        if is_own_file(name):
            return load_own_file(name, error)
        if name in self.table:
            return _load_target(self.table[name])
        installed = self._installed()
        if name in installed:
            return installed[name].load()
        raise error(f"unknown {self.family} {name!r}; {did_you_mean(name, self.names())}")

    def _installed(self) -> dict[str, Any]:
        return {point.name: point for point in entry_points(group=self.entry_point_group)}


def is_own_file(name: str) -> bool:
    """True for ``./my_metric.py:MyMetric``."""
    return ".py:" in name


def own_file_digest(name: str) -> str:
    """SHA-256 of the file in ``path.py:Attribute``: it belongs to the identity of whatever uses it."""
    return hashlib.sha256(Path(name.rpartition(":")[0]).read_bytes()).hexdigest()


def admitted(name: str, folder: Path, trust: bool) -> str:
    """What a stored folder names, as it may be loaded: code of somebody else's is not executed unasked.

    Args:
        name: of the catalog, or ``path.py:Attribute``.
        folder: the stored folder, for the message.
        trust: the caller trusts whatever the folder names.

    Returns:
        The name; for a file whose content is that of a file that the caller has named, the caller's file.

    Raises:
        UsageError: it is any other file.
    """
    if trust or not is_own_file(name):
        return name
    with suppress(OSError):
        known = _named.get(own_file_digest(name))
        if known is not None:
            return f"{known}:{name.rpartition(':')[2]}"
    raise UsageError(
        Problem(
            str(folder),
            f"needs code from {name.rpartition(':')[0]}, which is executed only if you trust it",
            cure="read that file, then add --trust (in Python: trust=True)",
        )
    )


def load_own_file(name: str, error: type[UsageError] = UsageError) -> Any:
    """Import ``path.py:Attribute`` under a module name that two different files never share."""
    path_text, _, attribute = name.rpartition(":")
    path = Path(path_text).resolve()
    if not path.is_file():
        raise error(f"{path_text}: no such file; expected a Python file that defines {attribute!r}")
    module_name = f"ltr_harness_own_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    module = sys.modules.get(module_name)
    if module is None:
        spec = importlib.util.spec_from_file_location(module_name, path)
        assert spec is not None  # a .py path always has a loader
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[module_name] = module
        try:
            spec.loader.exec_module(module)
        except Exception as problem:
            del sys.modules[module_name]
            raise error(f"{path_text}: cannot be imported: {type(problem).__name__}: {problem}") from problem
        _named[own_file_digest(name)] = path
    try:
        return getattr(module, attribute)
    except AttributeError:
        public = [key for key in vars(module) if not key.startswith("_")]
        raise error(f"{path_text}: has no {attribute!r}; {did_you_mean(attribute, public)}") from None


def _load_target(target: str) -> Any:
    module_name, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module_name), attribute)
