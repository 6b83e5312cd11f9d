"""Compressed text, unpacked within bounds."""

from __future__ import annotations

import mmap
import shutil
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from ltr_harness.errors import DataError, Problem
from ltr_harness.readers.cost import Bound

_IN_MEMORY = 64 << 20


def unpacked(path: Path, kind: str, blocks: Iterator[bytes]) -> NDArray[np.uint8]:
    """What is in a compressed file: in memory while it is small, in a nameless file, mapped, when it grows.

    Raises:
        DataError: the file is damaged, is empty, or becomes larger than it may.
        OSError: it cannot be read.
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
