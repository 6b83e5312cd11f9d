"""Input files: paths that exist, and their bytes, mapped or unpacked within a memory limit."""

from __future__ import annotations

import difflib
import mmap
import os
import shutil
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from ltr_harness.compression import compression_of
from ltr_harness.errors import DataError, Problem
from ltr_harness.readers.cost import Bound

_IN_MEMORY = 64 << 20


def unpacked(path: Path, kind: str, blocks: Iterator[bytes]) -> NDArray[np.uint8]:
    """What is in a compressed file: in memory while it is small, in a nameless file, mapped, when it grows.

    Raises DataError: the file is damaged, is empty, or becomes larger than it may. Raises OSError: it cannot be read.
    """
    room = float(shutil.disk_usage(tempfile.gettempdir()).free), f"the room in {tempfile.gettempdir()}"
    bound = Bound.of_file(path.stat().st_size, room)
    text = bytearray()
    try:
        for block in blocks:
            text += block
            bound.refuse(str(path), "unpacked, the file has", len(text), more=True)
            if len(text) > _IN_MEMORY:
                with tempfile.TemporaryFile() as stream:
                    stream.write(text)
                    return _on_disk(stream, len(text), blocks, bound, str(path))
    except (EOFError, zlib.error) as problem:
        early = isinstance(problem, EOFError)
        what = "ends too early (truncated)" if early else f"is damaged ({problem})"
        raise DataError(
            Problem(str(path), f"the {kind} file {what}", cure="copy or download it again")
        ) from None
    if not text:
        raise DataError(Problem(str(path), "the file is empty", "rows"))
    return np.frombuffer(bytes(text), dtype=np.uint8)


def mapped(stream: IO[bytes]) -> NDArray[np.uint8]:
    """A file's bytes without reading them; the map lives as long as the array does."""
    return np.frombuffer(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ), dtype=np.uint8)


def _on_disk(
    stream: IO[bytes], size: int, blocks: Iterator[bytes], bound: Bound, place: str
) -> NDArray[np.uint8]:
    for block in blocks:
        size += len(block)
        bound.refuse(place, "unpacked, the file has", size, more=True)
        stream.write(block)
    stream.flush()
    return mapped(stream)


_LISTED = 12

# What a file starts with that is certainly not text, and what to do about it.
_NOT_TEXT = {
    b"PAR1": ("a Parquet file", "call it .parquet, or use `reader: parquet` if it is data"),
    b"ARROW1": ("an Arrow file", "call it .arrow, or use `reader: parquet` if it is data"),
    b"PK\x03\x04": ("a zip archive", "unpack it first"),
    b"\xff\xfe": ("UTF-16 text", "save it as UTF-8"),
    b"\xfe\xff": ("UTF-16 text", "save it as UTF-8"),
}


def located(files: Sequence[str], root: Path, *, folders: bool = False) -> list[Path]:
    """The paths behind file names.

    Raises DataError: no file is given, one is given twice, or some do not exist; says what is there instead.
    """
    if not files:
        raise DataError(Problem(str(root), "no file is given for this split", "at least one file"))
    problems = []
    paths: list[Path] = []
    for name in files:
        path = root / Path(name).expanduser()
        if path in paths:
            problems.append(Problem(str(path), "is listed twice in one split", "each file once"))
        paths.append(path)
        if path.is_file() or (folders and path.is_dir()):
            continue
        if path.is_dir():
            problems.append(Problem(str(path), "is a folder", "a file", f"the folder has {_listing(path)}"))
        elif path.exists():
            problems.append(_pipe(path))
        else:
            problems.append(Problem(str(path), "no such file", cure=_nearest(path)))
    if problems:
        raise DataError(problems)
    return paths


def text_bytes(path: Path) -> NDArray[np.uint8]:
    """A text file's bytes, uint8 (n,): memory-mapped, or unpacked where it is compressed (gzip, zstd, bzip2, xz).

    Raises DataError: the file cannot be read, is empty, is no text, is a damaged archive, or one of too much.
    """
    try:
        refuse_pipe(path)
        with open(path, "rb") as stream:
            start = stream.read(8)
            if not start:
                raise DataError(Problem(str(path), "the file is empty", "rows"))
            kind = compression_of(start)
            if kind is not None:
                return unpacked(path, kind.name, kind.blocks(path))
            for magic, (what, cure) in _NOT_TEXT.items():
                if start.startswith(magic):
                    raise DataError(Problem(str(path), f"is {what}", "a text file", cure))
            if not os.fstat(stream.fileno()).st_size:  # as the kernel's own files, such as those in /proc
                raise DataError(
                    Problem(str(path), "does not say its size", "a file on a disk", "copy it to one first")
                )
            return mapped(stream)
    except OSError as problem:
        raise unreadable(path, problem) from None


def release(data: NDArray[np.uint8]) -> None:
    """Let go of the memory that a part of a mapped file takes; touched again, it comes back from the file.

    Shapes: `data` (n_bytes,).
    """
    base: object = data
    while isinstance(base, np.ndarray | memoryview):
        base = base.base if isinstance(base, np.ndarray) else base.obj
    if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED") and len(data):
        offset = data.ctypes.data - np.frombuffer(base, dtype=np.uint8).ctypes.data
        first = offset - offset % mmap.PAGESIZE
        base.madvise(mmap.MADV_DONTNEED, first, offset + len(data) - first)


def unreadable(path: Path, problem: OSError) -> DataError:
    """The operating system's reason, in one line."""
    return DataError(Problem(str(path), f"cannot be read: {problem.strerror or problem}"))


def refuse_pipe(path: Path) -> None:
    """Raise if a path leads to no file on a disk: opening a pipe waits for whoever writes to it."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise DataError(_pipe(path))


def _pipe(path: Path) -> Problem:
    found = "is a pipe or a device"
    return Problem(str(path), found, "a file on a disk", "write what comes out of it to one first")


def _nearest(path: Path) -> str:
    folder = path.parent
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
        names = sorted(
            entry.name + "/" * entry.is_dir() for entry in folder.iterdir() if entry.name[0] != "."
        )
    except OSError:
        return "contents that cannot be listed"
    if not names:
        return "nothing in it"
    more = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {more} more" if more > 0 else "")
