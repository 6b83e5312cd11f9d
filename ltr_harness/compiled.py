"""The one way a loop is compiled here: serial, cached on disk, with the interpreter lock released.

numba's parallel layers are not used: under ``fork`` they kill the child, under two Python threads they
abort the process, and they compete with the boosters' own thread pools.

numba's disk cache looks at the file of the function it compiles and at no other: kernels that call each
other therefore live in one file.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Compiled(Generic[P, R]):
    """A function that becomes machine code when it is first called, so that importing it costs nothing."""

    def __init__(self, function: Callable[P, R]) -> None:
        self._function = function
        self._machine: Callable[P, R] | None = None
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        self.__module__ = function.__module__

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        machine = self._machine or self.machine()
        return machine(*args, **kwargs)

    def machine(self) -> Callable[P, R]:
        """The compiled function itself."""
        if self._machine is None:
            import numba

            function = self._function
            assert isinstance(function, FunctionType)
            # numba must see the kernels this one calls as compiled functions, not as this class.
            known: dict[str, Any] = dict(function.__globals__)
            for name in function.__code__.co_names:
                if isinstance(known.get(name), Compiled):
                    known[name] = known[name].machine()
            copy = FunctionType(function.__code__, known, function.__name__, function.__defaults__)
            copy.__module__ = function.__module__
            copy.__qualname__ = function.__qualname__
            self._machine = numba.njit(cache=True, nogil=True)(copy)
        return self._machine


def compiled(function: Callable[P, R]) -> Compiled[P, R]:
    """Compile on first call; cache the machine code beside the source or in the user's cache folder."""
    return Compiled(function)
