"""How text files are compressed: known by the suffix where one is written, by its first bytes where one is read."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

_BLOCK = 1 << 20


@dataclass(frozen=True)
class Compression:
    """One kind of compressed files.

    `blocks` reads the content in pieces; it raises EOFError where it ends too early, zlib.error where it is damaged.
    """

    name: str
    suffix: str
    magic: bytes
    blocks: Callable[[Path], Iterator[bytes]]
    opened: Callable[[Path], Any]


def bare_name(name: str) -> str:
    """A file's name without the suffix that says how it is compressed.

    Example:
        >>> bare_name("a.csv.xz"), bare_name("a.csv")
        ('a.csv', 'a.csv')
    """
    return name.removesuffix(suffix_of(name))


def suffix_of(name: str) -> str:
    """The suffix that says how a file is compressed, or "".

    Example:
        >>> suffix_of("a.csv.bz2")
        '.bz2'
    """
    return next((name[-len(kind.suffix) :] for kind in KINDS if name.lower().endswith(kind.suffix)), "")


def compression_of(start: bytes) -> Compression | None:
    """What a file that starts with these bytes is compressed with; None where it is not."""
    return next((kind for kind in KINDS if start.startswith(kind.magic)), None)


@contextmanager
def opened_for_writing(path: Path, name: str) -> Iterator[Any]:
    """A stream for bytes, compressed as the name that the file will have says."""
    suffix = suffix_of(name).lower()
    kind = next((kind for kind in KINDS if kind.suffix == suffix), None)
    with open(path, "wb") if kind is None else kind.opened(path) as stream:
        yield stream


def _blocks(opened: Callable[[Path], Any]) -> Callable[[Path], Iterator[bytes]]:
    def blocks(path: Path) -> Iterator[bytes]:
        with opened(path) as stream:
            while True:
                try:
                    block = stream.read(_BLOCK)
                except lzma.LZMAError as problem:
                    raise zlib.error(str(problem)) from None
                except OSError as problem:
                    if problem.errno is not None:
                        raise
                    raise zlib.error(str(problem)) from None  # how gzip and bz2 say that a file is damaged
                if not block:
                    return
                yield block

    return blocks


def arrow_blocks(path: Path, codec: str, times: int = 1) -> Iterator[bytes]:
    """A file's content, piece by piece, with the errors that `Compression` names."""
    from pyarrow import ArrowException, CompressedInputStream, NativeFile, OSFile

    with ExitStack() as opened:
        stream: NativeFile = opened.enter_context(OSFile(str(path)))
        for _ in range(times):
            stream = opened.enter_context(CompressedInputStream(stream, codec))
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


@contextmanager
def _gzip_stream(path: Path) -> Iterator[Any]:
    with open(path, "wb") as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as stream:
        yield stream  # without name and time: the same rows give the same bytes


def _zstd_stream(path: Path) -> Any:
    from pyarrow import CompressedOutputStream

    return CompressedOutputStream(str(path), "zstd")


KINDS = (
    Compression("gzip", ".gz", b"\x1f\x8b", _blocks(gzip.GzipFile), _gzip_stream),
    Compression("zstd", ".zst", b"\x28\xb5\x2f\xfd", partial(arrow_blocks, codec="zstd"), _zstd_stream),
    Compression("bzip2", ".bz2", b"BZh", _blocks(bz2.BZ2File), partial(bz2.BZ2File, mode="wb")),
    Compression("xz", ".xz", b"\xfd7zXZ\x00", _blocks(lzma.LZMAFile), partial(lzma.LZMAFile, mode="wb")),
)
