"""The one way a loop is compiled here: serial, cached on disk, with the interpreter lock released.

numba's parallel layers are not used: under ``fork`` they kill the child, under two Python threads they
abort the process, and they compete with the boosters' own thread pools.

numba's disk cache looks at the file of the function it compiles and at no other: kernels that call each
other therefore live in one file. What lies in the cache is machine code that numba runs unseen, so the files
here carry their digests; without a folder for them everything is compiled at every start.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from types import FunctionType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from ltr_harness.errors import Caution

if TYPE_CHECKING:
    from pathlib import Path

P = ParamSpec("P")
R = TypeVar("R")


class Compiled(Generic[P, R]):
    """A function that becomes machine code when it is first called, so that importing it costs nothing."""

    def __init__(self, function: Callable[P, R], **options: Any) -> None:
        self._function = function
        self._options = options
        self._machine: Callable[P, R] | None = None
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        self.__module__ = function.__module__

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self._machine is not None:
            return self._machine(*args, **kwargs)
        collects = gc.isenabled()
        gc.disable()  # looking for cycles among the objects that numba makes would take a tenth of its time
        try:
            return self.machine()(*args, **kwargs)
        finally:
            if collects:
                gc.enable()

    def machine(self) -> Callable[P, R]:
        """The compiled function itself."""
        if self._machine is None:
            import numba

            function = self._function
            assert isinstance(function, FunctionType)
            # numba must see the kernels this one calls as compiled functions, not as this class.
            names: dict[str, Any] = dict(function.__globals__)
            for name in function.__code__.co_names:
                if isinstance(names.get(name), Compiled):
                    names[name] = names[name].machine()
            copy = FunctionType(function.__code__, names, function.__name__, function.__defaults__)
            copy.__module__ = function.__module__
            copy.__qualname__ = function.__qualname__
            machine = numba.njit(nogil=True, **self._options)(copy)
            if not numba.config.DISABLE_JIT:
                try:
                    machine._cache = _cache_class()(copy)
                except RuntimeError:  # no folder beside the source, in the user's cache or in NUMBA_CACHE_DIR
                    _say_uncached()
            self._machine = machine
        return self._machine


def compiled(function: Callable[P, R]) -> Compiled[P, R]:
    """Compile on first call; cache the machine code beside the source or in the user's cache folder."""
    return Compiled(function)


def compiled_vectorized(function: Callable[P, R]) -> Compiled[P, R]:
    """`compiled` into vector instructions: sums are taken in parts, the same in the same order, each time."""
    return Compiled(function, error_model="numpy", fastmath={"reassoc"})


def compiled_elementwise(function: Callable[P, R]) -> Compiled[P, R]:
    """`compiled` without a check before each division, so that loops become vector instructions, to the same bits."""
    return Compiled(function, error_model="numpy")


@cache
def _say_uncached() -> None:
    import logging
    import multiprocessing

    if multiprocessing.parent_process() is None:
        text = "no folder for compiled code can be written: every start compiles the metrics again, which takes seconds"
        cure = "set NUMBA_CACHE_DIR to a folder that can be written"
        logging.getLogger(__name__).warning(Caution("uncached-code", "note", text, cure))


@cache
def _cache_class() -> type[Any]:
    """numba's cache of a function, with other files."""
    import hashlib
    from pathlib import Path

    from numba.core.caching import FunctionCache
    from numba.core.runtime import rtsys

    class CheckedCache(FunctionCache):  # type: ignore[misc]  # numba has no types
        def __init__(self, function: FunctionType) -> None:
            super().__init__(function)
            try:  # the content, as a file of the same content in another checkout is the same source
                stamp = hashlib.sha256(Path(function.__code__.co_filename).read_bytes()).hexdigest()
            except OSError:  # in an archive
                stamp = self._impl.locator.get_source_stamp()
            self._cache_file = _CacheFiles(Path(self._cache_path), self._impl.filename_base, stamp)

        def load_overload(self, signature: Any, target_context: Any) -> Any:
            """Return cached code before numba imports its compiler, which takes half a second."""
            rtsys.initialize(target_context)  # machine code allocates arrays through it
            with self._guard_against_spurious_io_errors():
                found = self._load_overload(signature, target_context)
            if found is None:
                target_context.refresh()
            return found

        def save_overload(self, signature: Any, data: Any) -> None:
            with suppress(OSError):  # a full disk: it is compiled again the next time
                super().save_overload(signature, data)

    return CheckedCache


class _CacheFiles:
    """A file for each signature of a function: the digest of its content, then the content."""

    def __init__(self, folder: Path, name: str, stamp: Any) -> None:
        self._folder = folder
        self._name = name
        self._stamp = stamp

    def load(self, key: Any) -> Any:
        """Return the saved value; None where it is absent, of another version or damaged."""
        import hashlib
        import logging
        import pickle

        path = self._path(key)
        try:
            stored = path.read_bytes()
        except OSError:
            return None
        digest, content = stored[:32], stored[32:]
        if hashlib.sha256(content).digest() != digest:
            logging.getLogger(__name__).warning(
                Caution("damaged-file", "note", f"{path} is damaged: it is compiled again")
            )
            return None
        made_of, data = pickle.loads(content)
        return pickle.loads(data) if made_of == self._made_of(key) else None

    def save(self, key: Any, data: Any) -> None:
        import hashlib
        import pickle

        from numba.core.serialize import dumps

        from ltr_harness._util.files import write_whole

        content = pickle.dumps((self._made_of(key), dumps(data)))
        write_whole(self._path(key), hashlib.sha256(content).digest() + content)

    def _path(self, key: Any) -> Path:
        import hashlib

        return self._folder / f"{self._name}.{hashlib.sha256(repr(key).encode()).hexdigest()[:12]}.nbk"

    def _made_of(self, key: Any) -> tuple[str, Any, str]:
        import numba

        return numba.__version__, self._stamp, repr(key)
