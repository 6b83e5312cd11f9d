"""Code from outside, mostly Python files of the user's own: what it is, and when it may be executed."""

import ast
import hashlib
import importlib
import importlib.util
import os
import re
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import lru_cache
from importlib.metadata import EntryPoint, PackageNotFoundError, distributions, entry_points, version
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from ltr_harness._util.files import file_digest
from ltr_harness.errors import UsageError

_PREFIX = "ltr_harness_own_"


class _Loaded(NamedTuple):
    digest: str
    modules: tuple[Path, ...]
    module: ModuleType


_loaded: dict[Path, _Loaded] = {}
_named: dict[str, Path] = {}
"""The files that the caller has named in this process, by the digest of each alone."""


def is_own_file(name: str) -> bool:
    """True for ``./my_metric.py:MyMetric``."""
    return ".py:" in name


def is_own_module(name: str) -> bool:
    """True for the name of a module that `own_module` has made."""
    return name.startswith(_PREFIX)


def own_file_digest(name: str) -> str:
    """SHA-256 of the code behind ``path.py:Attribute``, which belongs to the identity of whatever uses it."""
    return code_digest(Path(name.rpartition(":")[0]).expanduser().resolve())


def code_digest(path: Path) -> str:
    """SHA-256 of a Python file and the modules of its folder that it imports, directly or not."""
    digest, modules = file_digest(path), imported_modules(path)
    if not modules:
        return digest
    lines = [f"{file.relative_to(path.parent).as_posix()} {file_digest(file)}\n" for file in modules]
    return hashlib.sha256("".join([f"{digest}\n", *lines]).encode()).hexdigest()


def installed_version(module: str) -> str:
    """The version of the installed package that a module belongs to."""
    try:
        return version(distribution_of(module) or "")
    except (ValueError, PackageNotFoundError):
        return "of unknown version"


def distribution_of(module: str) -> str | None:
    """The installed package that a module, or what it holds, belongs to; None where there is none."""
    return _distribution_of(_places(), module.partition(".")[0])


def installed_names(group: str) -> Mapping[str, EntryPoint]:
    """The names that installed packages add to a group of entry points."""
    return _names(_places(), group)


_SearchPaths = tuple[tuple[str, int], ...]


def _places() -> _SearchPaths:
    """The folders where packages are found, and when each last changed: what is installed meanwhile is found."""
    changed = dict.fromkeys(sys.path, 0)
    for place in changed:
        with suppress(OSError):  # not there
            changed[place] = os.stat(place or ".").st_mtime_ns
    return tuple(changed.items())


@lru_cache(maxsize=64)
def _distribution_of(_: _SearchPaths, top: str) -> str | None:
    """Find the first package of a module, as `packages_distributions` does, which looks for all files of all."""
    installed = re.compile(rf"^{re.escape(top)}(?:/.*\.py|\.[^/]*),", re.MULTILINE)
    for package in distributions():
        declared = (package.read_text("top_level.txt") or "").split()
        if top in declared or (not declared and installed.search(package.read_text("RECORD") or "")):
            return package.metadata["Name"]
    return None


@lru_cache(maxsize=64)
def _names(_: _SearchPaths, group: str) -> Mapping[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=group)}


def imported_modules(path: Path) -> tuple[Path, ...]:
    """The files of a Python file's folder, and below it, that its code says it imports, directly or not; sorted."""
    folder, modules, left = path.parent, {path}, [path]
    while left:
        file = left.pop()
        for name in _imports(file.read_bytes(), file.relative_to(folder).parent.parts):
            new = [module for module in _files_of(folder, name) if module not in modules]
            modules.update(new)
            left += new
    return tuple(sorted(modules - {path}))


def resolve_trusted(name: str, folder: Path, trust: bool) -> str:
    """The name of code in a stored folder, as it may be loaded: a file of somebody else's is not executed unasked.

    A file whose content is that of a file that the caller has named becomes the caller's file.
    """
    if trust or not is_own_file(name):
        return name
    path, _, attribute = name.rpartition(":")
    with suppress(OSError):
        named_file = _named.get(file_digest(Path(path).expanduser()))
        if named_file is not None:
            return f"{named_file}:{attribute}"
    found = f"needs code from {path}, which is executed only if you trust it"
    raise UsageError.at(folder, found, cure="read that file, then add --trust (in Python: trust=True)")


_untrusted: ContextVar[Path | None] = ContextVar("untrusted", default=None)


@contextmanager
def trusting(trust: bool, folder: Path) -> Iterator[None]:
    """Set the trust with which stored folders are read and their models trained again; see `require_trust`."""
    before = _untrusted.set(None if trust else folder)
    try:
        yield
    finally:
        _untrusted.reset(before)


def require_trust(found: str) -> None:
    """Refuse what executes code of a stored folder that is not trusted; what the caller names himself is."""
    if (folder := _untrusted.get()) is not None:
        cure = "if you trust its maker, add --trust (in Python: trust=True)"
        raise UsageError.at(folder, found, cure=cure)


def own_module(path: Path) -> ModuleType:
    """The module that a file is, under a name of its own; executed again where it or what it imports has changed."""
    path = path.resolve()
    source = path.read_bytes()
    digest = code_digest(path)
    loaded = _loaded.get(path)
    if loaded is not None and loaded.digest == digest:
        return loaded.module
    modules = imported_modules(path)
    _forget(modules, () if loaded is None else loaded.modules)
    name = f"{_PREFIX}{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None  # a .py path always has a loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:  # compiled from what the digest is of: Python's own cache goes by size and second
        exec(compile(source, str(path), "exec"), vars(module))
    except BaseException:
        del sys.modules[name]
        raise
    finally:
        sys.dont_write_bytecode = before
    _loaded[path] = _Loaded(digest, modules, module)
    _named[hashlib.sha256(source).hexdigest()] = path
    return module


def own_line(error: BaseException) -> str:
    """The last line of a user's own file that an error passed through, as ``path.py:31``; empty where none did."""
    lines = [
        f"{frame.f_code.co_filename}:{line}"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if is_own_module(str(frame.f_globals.get("__name__", "")))
    ]
    return lines[-1] if lines else ""


def _forget(files: tuple[Path, ...], before: tuple[Path, ...]) -> None:
    """Have modules imported anew: those that a file imported before it changed, and their namesakes of other files."""
    importlib.invalidate_caches()
    other_files = {file for loaded in _loaded.values() for file in loaded.modules} - {*files}
    names = {_stem(file) for file in (*before, *files)}
    stale = {file.resolve() for file in (*before, *other_files) if _stem(file) in names}
    for name, module in sys.modules.copy().items():  # one step: the garbage collector may import between two
        file, namesake = getattr(module, "__file__", None), name.rpartition(".")[2] in names
        if file is not None and name != "__main__" and namesake and Path(file).resolve() in stale:
            del sys.modules[name]


def _stem(file: Path) -> str:
    return file.parent.name if file.stem == "__init__" else file.stem


_ModuleName = tuple[str, ...]  # a.b.c, part by part


@lru_cache(maxsize=1024)
def _imports(source: bytes, package: _ModuleName) -> frozenset[_ModuleName]:
    """Return the modules that a source imports, or may: after ``from a import b``, a and a.b."""
    try:
        tree = _parse(source)
    except (SyntaxError, ValueError):  # raised where the source is executed
        return frozenset()
    names: set[_ModuleName] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(tuple(alias.name.split(".")) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.update(_modules_of_from_import(node, package))
        elif isinstance(node, ast.Call):
            names.update(_modules_of_call(node))
    # the version of this package counts already
    return frozenset(name for name in names if name and name[0] != "ltr_harness")


def _parse(source: bytes) -> ast.Module:
    try:
        return ast.parse(source)
    except SystemError:  # of CPython 3.11, where another thread parses, too (python/cpython#106905)
        return ast.parse(source)


def _modules_of_from_import(node: ast.ImportFrom, package: _ModuleName) -> Iterator[_ModuleName]:
    """Yield a, and a.b for each name b that is taken from it; nothing where the dots lead out of the package."""
    n_outer = len(package) + 1 - node.level
    if n_outer < 0:
        return
    base = package[:n_outer] if node.level else ()
    if node.module:
        base += tuple(node.module.split("."))
    yield base
    for alias in node.names:
        yield (*base, alias.name)


def _modules_of_call(node: ast.Call) -> Iterator[_ModuleName]:
    """Yield the module that a call of `importlib.import_module` or ``__import__`` names in plain text."""
    function = getattr(node.func, "attr", getattr(node.func, "id", ""))
    if function not in ("import_module", "__import__") or not node.args:
        return
    name = node.args[0]
    if isinstance(name, ast.Constant) and isinstance(name.value, str):
        yield tuple(name.value.split("."))


def _files_of(folder: Path, name: tuple[str, ...]) -> Iterator[Path]:
    """The files that importing a.b.c executes, as far as they are in the folder."""
    place = folder
    for part in name:
        place = place / part
        for file in (place / "__init__.py", place.with_name(f"{part}.py")):
            if file.is_file():
                yield file
                break
        if not place.is_dir():
            return
