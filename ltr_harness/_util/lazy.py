"""Public names that are loaded on first use, so that a module which offers them costs nothing before."""

import importlib
import sys
from collections.abc import Callable
from typing import Any


def lazy_names(module: str) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__all__`, `__getattr__` and `__dir__` of a package, made of the imports in its ``__init__.pyi``.

    Editors and type checkers read that stub too, so each name stands once: ``from where import Name as Name``.
    """
    spec = sys.modules[module].__spec__
    # read by the package's own loader, since a package may be in an archive
    stub = spec.loader.get_data(f"{spec.origin}i").decode()  # type: ignore[union-attr]
    lines = [line.split() for line in stub.splitlines() if line.startswith("from ")]
    module_of_name = {name: source for _, source, _, name, *_ in lines}

    names = sorted(module_of_name)

    def load(name: str) -> Any:
        if name not in module_of_name:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return getattr(importlib.import_module(module_of_name[name]), name)

    return names, load, lambda: names
