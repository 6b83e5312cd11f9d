"""The one way a loop is compiled here: serial, cached on disk, with the interpreter lock released.

numba's parallel layers are not used: under ``fork`` they kill the child, under two Python threads they
abort the process, and they compete with the boosters' own thread pools.

numba's disk cache looks at the file of the function it compiles and at no other: kernels that call each
other therefore live in one file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numba

F = TypeVar("F", bound=Callable[..., object])


def compiled(function: F) -> F:
    """Compile on first call; cache the machine code beside the source or in the user's cache folder."""
    jitted: F = numba.njit(cache=True, nogil=True)(function)
    return jitted
