"""From the names in an experiment file to paths that exist and bytes that are whole."""

from __future__ import annotations

import gzip
import mmap
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from ltr_harness.errors import DataError, Problem

_LISTED = 12
_BLOCK = 1 << 20
_IN_MEMORY = 64 << 20

# What a file starts with that is certainly not text, and what to do about it.
_NOT_TEXT = {
    b"PAR1": ("a Parquet file", "use `reader: parquet`"),
    b"ARROW1": ("an Arrow file", "use `reader: parquet`, which reads Arrow files too"),
    b"PK\x03\x04": ("a zip archive", "unpack it first"),
    b"BZh": ("compressed with bzip2", "unpack it first, or compress it with gzip or zstd"),
    b"\xfd7zXZ\x00": ("compressed with xz", "unpack it first, or compress it with gzip or zstd"),
    b"\xff\xfe": ("UTF-16 text", "save it as UTF-8"),
    b"\xfe\xff": ("UTF-16 text", "save it as UTF-8"),
}


def located(files: Sequence[str], root: Path, *, folders: bool = False) -> list[Path]:
    """The paths behind file names.

    Args:
        files: names, relative to `root` or absolute.
        root: the folder of the data.
        folders: a folder may stand for the files in it.

    Raises:
        DataError: no file is given, one is given twice, or some do not exist; says what is there instead.
    """
    if not files:
        raise DataError(Problem(str(root), "no file is given for this split", "at least one file"))
    problems = []
    paths: list[Path] = []
    for name in files:
        path = root / name
        if path in paths:
            problems.append(Problem(str(path), "is listed twice in one split", "each file once"))
        paths.append(path)
        if path.is_file() or (folders and path.is_dir()):
            continue
        if path.is_dir():
            problems.append(Problem(str(path), "is a folder", "a file", f"the folder has {_listing(path)}"))
        elif path.exists():
            problems.append(Problem(str(path), "is not a regular file", "a file"))
        else:
            problems.append(Problem(str(path), "no such file", cure=_nearest(path)))
    if problems:
        raise DataError(problems)
    return paths


def text_bytes(path: Path) -> NDArray[np.uint8]:
    """A text file's bytes, uint8 (n,): memory-mapped, or unpacked where it is compressed with gzip or zstd.

    Raises:
        DataError: the file cannot be read, is empty, is no text, or is a damaged archive.
    """
    try:
        with open(path, "rb") as stream:
            start = stream.read(8)
            if not start:
                raise DataError(Problem(str(path), "the file is empty", "rows"))
            for magic, (kind, unpacked) in _PACKED.items():
                if start.startswith(magic):
                    return _unpacked(path, kind, unpacked(path))
            for magic, (what, cure) in _NOT_TEXT.items():
                if start.startswith(magic):
                    raise DataError(Problem(str(path), f"is {what}", "a text file", cure))
            return _mapped(stream)
    except OSError as problem:
        raise unreadable(path, problem) from None


def release(data: NDArray[np.uint8]) -> None:
    """Let go of the memory that a part of a mapped file takes; touched again, it comes back from the file."""
    base: object = data
    while isinstance(base, np.ndarray | memoryview):
        base = base.base if isinstance(base, np.ndarray) else base.obj
    if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED") and len(data):
        offset = data.ctypes.data - np.frombuffer(base, dtype=np.uint8).ctypes.data
        first = offset - offset % mmap.PAGESIZE
        base.madvise(mmap.MADV_DONTNEED, first, offset + len(data) - first)


def _mapped(stream: IO[bytes]) -> NDArray[np.uint8]:
    # The map stays alive as long as the array does.
    return np.frombuffer(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ), dtype=np.uint8)


def unreadable(path: Path, problem: OSError) -> DataError:
    """The operating system's reason, in one line."""
    return DataError(Problem(str(path), f"cannot be read: {problem.strerror or problem}"))


def _unpacked(path: Path, kind: str, blocks: Iterator[bytes]) -> NDArray[np.uint8]:
    """What was unpacked: in memory while it is small, in a nameless file, mapped, when it grows."""
    text = bytearray()
    try:
        for block in blocks:
            text += block
            if len(text) > _IN_MEMORY:
                with tempfile.TemporaryFile() as stream:
                    stream.write(text)
                    text.clear()
                    for later in blocks:
                        stream.write(later)
                    stream.flush()
                    return _mapped(stream)
    except (EOFError, gzip.BadGzipFile, zlib.error) as problem:
        early = isinstance(problem, EOFError)
        what = "ends too early (truncated)" if early else f"is damaged ({problem})"
        raise DataError(
            Problem(str(path), f"the {kind} file {what}", cure="copy or download it again")
        ) from None
    if not text:
        raise DataError(Problem(str(path), "the file is empty", "rows"))
    return np.frombuffer(bytes(text), dtype=np.uint8)


def _gzip_blocks(path: Path) -> Iterator[bytes]:
    with gzip.open(path, "rb") as stream:
        while block := stream.read(_BLOCK):
            yield block


def _zstd_blocks(path: Path) -> Iterator[bytes]:
    from pyarrow import ArrowException, CompressedInputStream, OSFile

    with OSFile(str(path)) as packed, CompressedInputStream(packed, "zstd") as stream:
        while True:
            try:
                block = stream.read(_BLOCK)
            except (ArrowException, OSError) as problem:
                # pyarrow says of a file that stops in the middle of a frame that it is truncated
                if "truncated" in str(problem).lower():
                    raise EOFError from None
                raise zlib.error(str(problem)) from None
            if not block:
                return
            yield block


_PACKED: dict[bytes, tuple[str, Callable[[Path], Iterator[bytes]]]] = {
    b"\x1f\x8b": ("gzip", _gzip_blocks),
    b"\x28\xb5\x2f\xfd": ("zstd", _zstd_blocks),
}


def _nearest(path: Path) -> str:
    folder = path.parent
    if folder.is_dir():
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
