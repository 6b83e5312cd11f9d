"""Memory limits of reading: what a file would take is compared with its size and the machine before it is taken.

A few bytes can ask for all memory: one mistyped feature index, a table that says it has a billion rows, a compressed
file of nothing but zeros. So nothing may grow beyond `TIMES` the size of its file (small files may up to `SMALL`),
nor beyond the machine. ``LTR_HARNESS_READ_LIMIT=20GB`` allows as much for any one file, ``off`` whatever it takes.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Self

from ltr_harness.errors import DataError, Problem, UsageError

VARIABLE = "LTR_HARNESS_READ_LIMIT"
TIMES = 100
SMALL = 256_000_000
"""Bytes; less is not worth a question."""

_UNITS = {"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


@dataclass(frozen=True)
class Bound:
    """Limit in bytes, and its reason."""

    most: float
    why: str

    @classmethod
    def of_file(cls, size: int, room: tuple[float, str] | None = None, *, meant: bool = False) -> Self:
        """The bound of what is made of a file. Raises UsageError: `VARIABLE` is no size."""
        given = _given()
        if given is not None:
            return cls(given, VARIABLE)
        available = memory() if room is None else room[0]
        most = float("inf") if available is None else available
        bound = cls(most, "the memory of this machine" if room is None else room[1])
        times = max(SMALL, TIMES * size)
        if meant or times >= most:
            return bound
        return cls(times, f"{TIMES} times the file" if times > SMALL else "enough for a small file")

    def refuse(self, place: str, found: str, needed: float, cure: str = "", *, more: bool = False) -> None:
        """Raise if so many bytes are too many. Raises DataError: with the option that allows it."""
        if needed <= self.most:
            return
        meant = f"if it is meant, set {VARIABLE} to a size, such as 20GB, or to off"
        raise DataError(
            Problem(
                place,
                f"{found} {'more than ' * more}{in_words(needed)}",
                f"at most {in_words(self.most)}: {self.why}",
                f"{cure}; {meant}" if cure else meant,
            )
        )


@cache
def memory() -> float | None:
    """Bytes of memory that this process may take at most; None where nothing says."""
    limits: list[float] = []
    with suppress(ValueError, OSError, AttributeError):
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for name in ("memory.max", "memory/memory.limit_in_bytes"):  # of a container
        with suppress(ValueError, OSError):
            limits.append(int(Path("/sys/fs/cgroup", name).read_text()))
    with suppress(ImportError):
        import resource

        soft = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
        limits += [one for one in soft if one != resource.RLIM_INFINITY]
    return min(limits, default=None)


def in_words(size: float) -> str:
    """A number of bytes for people."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{size / factor:,.1f} {unit}"
    return f"{size:.0f} B"


def _given() -> float | None:
    text = os.environ.get(VARIABLE, "").strip().lower()
    if not text:
        return None
    if text == "off":
        return float("inf")
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?i?)b?", text)
    if match is None or match[2] not in _UNITS:
        raise UsageError(Problem(VARIABLE, f"found {text!r}", "a size, such as 20GB, or off"))
    return float(match[1]) * _UNITS[match[2]]
