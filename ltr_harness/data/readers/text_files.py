"""Input files: paths that exist, and their bytes, mapped or unpacked within a memory limit.

A few bytes can ask for all memory: one mistyped feature index, a table that says it has a billion rows, a compressed
file of nothing but zeros. So nothing may grow beyond `TIMES` the size of its file (small files may up to `SMALL`),
nor beyond the machine. ``LTR_HARNESS_READ_LIMIT=20GB`` allows as much for any one file, ``off`` whatever it takes.
"""

import difflib
import mmap
import os
import re
import shutil
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ltr_harness._util.files import compression_of
from ltr_harness.data.addresses import is_address, local_path
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
        """Return the bound of the memory that a file's content may take. Raises UsageError: `VARIABLE` is no size."""
        if setting := os.environ.get(VARIABLE, "").strip().lower():
            if setting == "off":
                return cls(float("inf"), VARIABLE)
            match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?i?)b?", setting)
            if match is None or match[2] not in _UNITS:
                raise UsageError.at(VARIABLE, f"found {setting!r}", "a size, such as 20GB, or off")
            return cls(float(match[1]) * _UNITS[match[2]], VARIABLE)
        available, reason = (memory(), "the memory of this machine") if room is None else room
        bound = cls(float("inf") if available is None else available, reason)
        times = max(SMALL, TIMES * size)
        if meant or times >= bound.most:
            return bound
        return cls(times, f"{TIMES} times the file" if times > SMALL else "enough for a small file")

    def refuse(self, place: str, found: str, needed: float, cure: str = "", *, more: bool = False) -> None:
        """Raise if so many bytes are too many. Raises DataError: with the option that allows it."""
        if needed <= self.most:
            return
        meant = f"if it is meant, set {VARIABLE} to a size, such as 20GB, or to off"
        size, most = in_words(needed), f"at most {in_words(self.most)}: {self.why}"
        if more:
            size = f"more than {size}"
        cure = f"{cure}; {meant}" if cure else meant
        raise DataError.at(place, f"{found} {size}", most, cure)


@cache
def memory() -> float | None:
    """Return the bytes of memory that this process may take at most; None where no limit is known."""
    limits: list[float] = []
    with suppress(ValueError, OSError, AttributeError):
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for name in ("memory.max", "memory/memory.limit_in_bytes"):  # of a container
        with suppress(ValueError, OSError):
            limits.append(int(Path("/sys/fs/cgroup", name).read_text()))
    with suppress(ImportError):
        import resource

        soft = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
        limits += [limit for limit in soft if limit != resource.RLIM_INFINITY]
    return min(limits, default=None)


def in_words(size: float) -> str:
    """Return a number of bytes for people."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{size / factor:,.1f} {unit}"
    return f"{size:.0f} B"


_IN_MEMORY = 64 << 20


def unpacked(path: Path, kind: str, blocks: Iterator[bytes]) -> NDArray[np.uint8]:
    """Unpack a compressed file: into memory while it is small, into a nameless, mapped file when it grows."""
    room = float(shutil.disk_usage(tempfile.gettempdir()).free), f"the room in {tempfile.gettempdir()}"
    bound = Bound.of_file(path.stat().st_size, room)
    size = 0
    with tempfile.SpooledTemporaryFile(_IN_MEMORY) as stream:
        try:
            for block in blocks:
                size += len(block)
                bound.refuse(str(path), "unpacked, the file has", size, more=True)
                stream.write(block)
        except (EOFError, zlib.error) as problem:
            early = isinstance(problem, EOFError)
            finding = "ends too early (truncated)" if early else f"is damaged ({problem})"
            raise DataError.at(path, f"the {kind} file {finding}", cure="copy or download it again") from None
        if not size:
            raise DataError.at(path, "the file is empty", "rows")
        if size > _IN_MEMORY:
            stream.flush()
            return mapped(stream.fileno())
        stream.seek(0)
        return np.frombuffer(stream.read(), dtype=np.uint8)


def mapped(file: int) -> NDArray[np.uint8]:
    """Map an open file's bytes; the map lives as long as the array does."""
    return np.frombuffer(mmap.mmap(file, 0, access=mmap.ACCESS_READ), dtype=np.uint8)


_LISTED = 12

# What a file starts with that is certainly not text, and what to do about it.
_NOT_TEXT = {
    b"PAR1": ("a Parquet file", "call it .parquet, or use `reader: parquet` if it is data"),
    b"ARROW1": ("an Arrow file", "call it .arrow, or use `reader: parquet` if it is data"),
    b"PK\x03\x04": ("a zip archive", "unpack it first"),
    b"\xff\xfe": ("UTF-16 text", "save it as UTF-8"),
    b"\xfe\xff": ("UTF-16 text", "save it as UTF-8"),
}


def located(files: Sequence[str], root: Path, *, folders: bool = False, alone: bool = True) -> list[Path]:
    """Return the paths of file names; files that are not `alone` have companions beside them."""
    if not files:
        raise DataError.at(root, "no file is given for this split", "at least one file")
    problems = []
    paths: list[Path] = []
    for name in files:
        if is_address(name) and not alone:
            cure = "copy the folder to a disk first"
            problems.append(Problem(name, "is an address, and other files belong to it", "a path", cure))
            continue
        try:
            path = root / local_path(name)
        except DataError as error:
            problems += error.problems
            continue
        if path in paths:
            problems.append(Problem(str(path), "is listed twice in one split", "each file once"))
        paths.append(path)
        if not (path.is_file() or (folders and path.is_dir())):
            problems.append(_problem_of(path))
    DataError.refuse(problems)
    return paths


def _problem_of(path: Path) -> Problem:
    """Return the problem of a path that is no file."""
    if path.is_dir():
        return Problem(str(path), "is a folder", "a file", f"the folder has {_listing(path)}")
    if path.exists():
        return _pipe(path)
    return Problem(str(path), "no such file", cure=_nearest(path))


def text_bytes(path: Path) -> NDArray[np.uint8]:
    """Return a text file's bytes, uint8 (n,): memory-mapped, or unpacked if compressed (gzip, zstd, bzip2, xz)."""
    try:
        refuse_pipe(path)
        with open(path, "rb") as stream:
            start = stream.read(8)
            if not start:
                raise DataError.at(path, "the file is empty", "rows")
            kind = compression_of(start)
            if kind is not None:
                return unpacked(path, kind.name, kind.blocks(path))
            for magic, (file_kind, cure) in _NOT_TEXT.items():
                if start.startswith(magic):
                    raise DataError.at(path, f"is {file_kind}", "a text file", cure)
            if not os.fstat(stream.fileno()).st_size:  # as the kernel's own files, such as those in /proc
                raise DataError.at(path, "has no known size", "a file on a disk", "copy it to one first")
            return mapped(stream.fileno())
    except OSError as problem:
        raise unreadable(path, problem) from None


def release(data: NDArray[np.uint8]) -> None:
    """Release the memory of a part (n_bytes,) of a mapped file; touched again, it comes back from the file."""
    base: object = data
    while isinstance(base, np.ndarray | memoryview):
        base = base.base if isinstance(base, np.ndarray) else base.obj
    if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED") and len(data):
        offset = data.ctypes.data - np.frombuffer(base, dtype=np.uint8).ctypes.data
        first = offset - offset % mmap.PAGESIZE
        base.madvise(mmap.MADV_DONTNEED, first, offset + len(data) - first)


def unreadable(path: Path, problem: OSError) -> DataError:
    """Return the error of an unreadable file, with the operating system's reason."""
    return DataError.at(path, f"cannot be read: {problem.strerror or problem}")


def refuse_pipe(path: Path) -> None:
    """Raise if a path leads to no file on a disk: opening a pipe waits for whoever writes to it."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise DataError(_pipe(path))


def _pipe(path: Path) -> Problem:
    found = "is a pipe or a device"
    return Problem(str(path), found, "a file on a disk", "write what comes out of it to one first")


def _nearest(path: Path) -> str:
    folder = path.parent
    if set(path.name) & set("*?["):
        matching = ", ".join(sorted(match.name for match in folder.glob(path.name))[:_LISTED])
        return f"patterns are not expanded; list the files: [{matching or 'a.csv, b.csv'}]"
    if folder.is_dir():
        names = [entry.name for entry in folder.iterdir()] if os.access(folder, os.R_OK) else []
        close = difflib.get_close_matches(path.name, names, n=1, cutoff=0.75)
        if close:
            return f"did you mean {close[0]!r}?"
        return f"{folder} has {_listing(folder)}"
    while not folder.is_dir() and folder != folder.parent:
        folder = folder.parent
    return f"there is no folder {path.parent}; {folder} has {_listing(folder)}"


def _listing(folder: Path) -> str:
    try:
        entries = [entry for entry in folder.iterdir() if entry.name[0] != "."]
        names = sorted(f"{entry.name}/" if entry.is_dir() else entry.name for entry in entries)
    except OSError:
        return "contents that cannot be listed"
    if not names:
        return "nothing in it"
    listed, more = ", ".join(names[:_LISTED]), len(names) - _LISTED
    return f"{listed} and {more} more" if more > 0 else listed
