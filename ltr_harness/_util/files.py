"""Files and folders that are there whole or not at all, digests, and how text files are compressed.

Everything is made in a hidden folder beside what it will become, locked by the process that fills it. A killed process
leaves that folder and no lock; the next one that writes there removes it.
"""

import bz2
import errno
import gzip
import hashlib
import lzma
import os
import secrets
import shutil
import socket
import stat
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

UNFINISHED = ".unfinished-"
CACHE_VARIABLE = "LTR_HARNESS_CACHE"

Temporary = Callable[[Path], Path]


def cache_folder() -> Path | None:
    """Return the cache folder: ``$LTR_HARNESS_CACHE`` (``off``: None), else the user's cache folder."""
    given = os.environ.get(CACHE_VARIABLE)
    if given == "off":
        return None
    base = os.environ.get("XDG_CACHE_HOME")
    for name, folder in ((CACHE_VARIABLE, given), ("XDG_CACHE_HOME", base)):
        if folder and "://" in folder:  # else its password would be the name of a folder here
            raise OSError(errno.EINVAL, "is an address; expected a folder of this machine", name)
    if given:
        return Path(given)
    caches = Path(base) if base else Path.home() / ".cache"
    return caches / "ltr-harness"


@contextmanager
def unfinished(parent: Path, *, private: bool = False) -> Iterator[Path]:
    """A temporary folder to fill, beside what it becomes; removed at the end; a private one is for its owner alone."""
    parent.mkdir(parents=True, exist_ok=True)
    _swept(parent.resolve())
    while True:
        name = f"{UNFINISHED}{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        folder = parent.absolute() / name  # pyarrow takes what has a colon for an address
        folder.mkdir(mode=0o700 if private else 0o777)
        with suppress(FileNotFoundError):  # swept before it was locked
            lock = _lock(folder, wait=True)
            if folder.exists():
                break
            _unlock(lock)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        _unlock(lock)


def temporary_folder() -> AbstractContextManager[Path]:
    """A folder of this process alone in the system's temporary one, where the next such process sweeps."""
    return unfinished(Path(tempfile.gettempdir()), private=True)


@contextmanager
def whole_files(main: Path) -> Iterator[Temporary]:
    """Gives a function from a final path to the one to write to; at the end all are put in place."""
    final: dict[Path, Path] = {}
    with errors_naming(main), unfinished(main.parent) as folder:

        def temporary(path: Path) -> Path:
            final[path] = folder / path.name
            return final[path]

        yield temporary
        for path, written in reversed(final.items()):  # companions first: the main file announces them
            path.parent.mkdir(exist_ok=True)
            written.replace(path)


@contextmanager
def errors_naming(path: Path) -> Iterator[None]:
    """Errors of the system name a file where they would name the hidden folder, of which nobody has heard."""
    try:
        yield
    except OSError as problem:
        if problem.filename is None or UNFINISHED in str(problem.filename):
            problem.filename = str(path)
        raise


def write_whole(path: Path, content: str | bytes) -> None:
    """Put a file in place in one step, an older one untouched on any error; a pipe is written to as it is."""
    data = content if isinstance(content, bytes) else content.encode("utf-8", "backslashreplace")
    if path.exists() and not path.is_file():
        path.write_bytes(data)
    else:
        write_stored(path, data)


def write_stored(path: Path, content: bytes) -> None:
    """As `write_whole`, in a folder of our own: a pipe or a link under this name is replaced."""
    with whole_files(path) as temporary, temporary(path).open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())  # else a power cut could leave an empty file under its name


def stored_file(folder: Path, name: str) -> Path:
    """The path of a file of a folder that anybody may have handed over, before it is opened."""
    path = folder / name
    if name in ("", ".", "..") or "\0" in name or Path(name).name != name:
        raise OSError(errno.EINVAL, "is not the name of a file in this folder", str(path))
    if path.is_symlink() or not path.is_file():
        real = os.path.realpath(path, strict=True)
        if os.path.dirname(real) != os.path.realpath(folder):
            raise OSError(errno.EINVAL, "is a link to outside of its folder", str(path))
        if not stat.S_ISREG(os.stat(real).st_mode):
            raise OSError(errno.EINVAL, "is a pipe, a device or a folder, not a file", str(path))
    return path


def sweep_unfinished(parent: Path) -> int:
    """Remove what killed processes of this machine left behind; returns how many folders."""
    removed = 0
    for folder in parent.glob(f"{UNFINISHED}*"):
        host, _, pid = folder.name.removeprefix(UNFINISHED).rpartition("-")[0].rpartition("-")
        if host != socket.gethostname() or not (pid.isascii() and pid.isdigit()):
            continue
        # locked, swept by another, another's
        with suppress(BlockingIOError, FileNotFoundError, PermissionError):
            lock = _lock(folder, wait=False)
            if lock is not None or not _is_alive(int(pid)):
                shutil.rmtree(folder, ignore_errors=True)
                removed += 1
            _unlock(lock)
    return removed


_swept = cache(sweep_unfinished)  # once is enough for a process


def _lock(folder: Path, *, wait: bool) -> int | None:
    """An open file that holds the folder's lock until this process ends; None where there are no locks."""
    if sys.platform == "win32":
        return None
    import fcntl

    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as problem:
        os.close(lock)
        if isinstance(problem, BlockingIOError):
            raise
        return None  # a file system without
    return lock


def _unlock(lock: int | None) -> None:
    if lock is not None:
        os.close(lock)


def _is_alive(pid: int) -> bool:
    if sys.platform == "win32":  # signal 0 is Ctrl-C there; what a killed process left stays
        return True
    with suppress(PermissionError):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
    return True


def file_digest(path: str | Path) -> str:
    """SHA-256 of a file's bytes, as ``sha256sum`` prints it."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def sources_digest(*files: Path) -> str:
    """SHA-256 of source files, one after the other: what a version of the code makes is not another's."""
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


_BLOCK = 1 << 20


@dataclass(frozen=True)
class Compression:
    """One kind of compressed files, known by its suffix where one is written, by its first bytes where one is read."""

    name: str
    suffix: str
    magic: bytes
    blocks: Callable[[Path], Iterator[bytes]]  # EOFError: it ends too early; zlib.error: it is damaged
    opened: Callable[[Path], Any]


def bare_name(name: str) -> str:
    """A file's name without the suffix that says how it is compressed."""
    return name.removesuffix(suffix_of(name))


def stem_of(path: Path) -> str:
    """A file's name without its last suffix, and without that of its compression."""
    return bare_name(path.name).rpartition(".")[0] or path.name


def suffix_of(name: str) -> str:
    """The suffix that says how a file is compressed, or ""."""
    return next((name[-len(kind.suffix) :] for kind in KINDS if name.lower().endswith(kind.suffix)), "")


def compression_of(start: bytes) -> Compression | None:
    """Return the compression of a file that starts with these bytes; None where it has none."""
    return next((kind for kind in KINDS if start.startswith(kind.magic)), None)


def opened_for_writing(path: Path, name: str) -> Any:
    """A stream for bytes, to be used with `with`, compressed as the name that the file will have says."""
    suffix = suffix_of(name).lower()
    kind = next((kind for kind in KINDS if kind.suffix == suffix), None)
    return open(path, "wb") if kind is None else kind.opened(path)


def _blocks(opened: Callable[[Path], Any]) -> Callable[[Path], Iterator[bytes]]:
    def blocks(path: Path) -> Iterator[bytes]:
        with opened(path) as stream:
            try:
                while block := stream.read(_BLOCK):
                    yield block
            except lzma.LZMAError as problem:
                raise zlib.error(str(problem)) from None
            except OSError as problem:
                if problem.errno is not None:
                    raise
                raise zlib.error(str(problem)) from None  # how gzip and bz2 say that a file is damaged

    return blocks


def arrow_blocks(path: Path, codec: str, times: int = 1) -> Iterator[bytes]:
    """A file's content, piece by piece, with the errors that `Compression` names."""
    from pyarrow import ArrowException, CompressedInputStream, NativeFile, OSFile

    with ExitStack() as opened:
        stream: NativeFile = opened.enter_context(OSFile(str(path)))
        for _ in range(times):
            stream = opened.enter_context(CompressedInputStream(stream, codec))
        try:
            while block := stream.read(_BLOCK):
                yield block
        except (ArrowException, OSError) as problem:
            # pyarrow says of a file that stops in the middle of a frame that it is truncated
            if "truncated" in str(problem).lower():
                raise EOFError from None
            raise zlib.error(str(problem)) from None


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
