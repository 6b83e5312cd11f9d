"""From a name to the thing it names: explicit tables, imported on first use, with "did you mean"."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

from ltr_harness._util.retired import retirement
from ltr_harness.errors import UsageError


def did_you_mean(name: str, names: Iterable[str], synonyms: Mapping[str, str | None] | None = None) -> str:
    """Return a cure that names the closest name, if one is close, and all of them."""
    import difflib

    names = sorted(names)
    lowered = {candidate.lower(): candidate for candidate in names}
    small = name.lower()
    listing = f"known: {', '.join(names)}"
    close = difflib.get_close_matches(small, lowered, n=1, cutoff=0.6)
    best = lowered[close[0]] if close else None
    if synonyms and small in synonyms and synonyms[small] in (None, *names):
        best = synonyms[small]
    return listing if best is None else f"did you mean {best!r}? ({listing})"


@dataclass(eq=False)
class Catalog:
    """A family of named things: a literal table, then entry points, then a user's own file; imported when asked for."""

    family: str  # a singular noun, such as ``metric``
    table: Mapping[str, str]  # name to ``module:attribute``
    entry_point_group: str
    base: str = ""
    synonyms: Mapping[str, str | None] | None = None  # suggested, not accepted

    def names(self) -> list[str]:
        """All names, built in and installed, sorted."""
        from ltr_harness._util.user_code import installed_names

        return sorted({*self.table, *installed_names(self.entry_point_group)})

    def checked_name(self, name: str, error: type[UsageError] = UsageError) -> str:
        """Return a name that exists; the error names the nearest one and all of them."""
        if name not in (names := self.names()):
            if sentence := retirement(f"{self.family} {name}"):
                raise error(f"{self.family} {name}: {sentence}")
            raise error(f"unknown {self.family} {name!r}; {did_you_mean(name, names, self.synonyms)}")
        return name

    def load(self, name: str, error: type[UsageError] = UsageError) -> Any:
        """The object behind a name, or behind ``path/to/file.py:Attribute``."""
        if name in self.table:
            return load_target(self.table[name])
        from ltr_harness._util.user_code import installed_names, is_own_file

        if is_own_file(name):
            target = load_own_file(name, error)
        else:
            installed = installed_names(self.entry_point_group)[self.checked_name(name, error)]
            try:
                target = installed.load()
            except Exception as problem:
                raise error(f"{name}: cannot be imported: {type(problem).__name__}: {problem}") from problem
        if self.base:
            place, base = name.rpartition(":")[0] or name, load_target(self.base)
            if not (isinstance(target, type) and issubclass(target, base)):
                found = f"{getattr(target, '__name__', type(target).__name__)} is not a {self.family}"
                raise error(f"{place}: {found}; expected a subclass of {self.base.replace(':', '.')}")
            require_methods(target, place, error)
        return target


def require_methods(kind: type, place: str, error: type[UsageError] = UsageError) -> None:
    """Refuse a class that has yet to define a method its bases ask for."""
    import inspect

    members = {name: inspect.getattr_static(kind, name, None) for name in dir(kind)}
    missing = [name for name, member in members.items() if getattr(member, "__isabstractmethod__", False)]
    if missing:
        bases = [next(base.__name__ for base in kind.__mro__ if name in vars(base)) for name in missing]
        expected = f"the methods of {', '.join(dict.fromkeys(bases))}"
        raise error(f"{place}: {kind.__name__} does not define {', '.join(missing)}; expected {expected}")


def load_own_file(name: str, error: type[UsageError] = UsageError) -> Any:
    """The attribute behind ``path.py:Attribute``."""
    from pathlib import Path

    from ltr_harness._util.user_code import own_module

    text, _, attribute = name.rpartition(":")
    path = Path(text).expanduser()
    if not path.is_file():
        raise error(f"{text}: no such file; expected a Python file that defines {attribute!r}")
    return attribute_of(partial(own_module, path), attribute, text, error)


def attribute_of(
    module: Callable[[], ModuleType], attribute: str, place: str, error: type[UsageError]
) -> Any:
    """The attribute of a module that is imported now; an error says where that fails."""
    try:
        imported = module()
        if hasattr(imported, attribute):
            return getattr(imported, attribute)
    except (Exception, SystemExit) as problem:
        raise error(f"{place}: cannot be imported: {type(problem).__name__}: {problem}") from problem
    public = [key for key in vars(imported) if not key.startswith("_")]
    raise error(f"{place}: has no {attribute!r}; {did_you_mean(attribute, public)}")


def load_target(target: str) -> Any:
    """Import and return the object that ``"module:attribute"`` names."""
    module_name, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module_name), attribute)
