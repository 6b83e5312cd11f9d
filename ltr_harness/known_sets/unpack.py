"""An archive that somebody fetched: only the files that are wanted come out, each to where it belongs.

A member's own path never decides where anything is written, so none can escape; links and devices are not
files; and what grows far beyond the archive's size is a bomb.
"""

from __future__ import annotations

import os
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from ltr_harness.errors import DataError, HarnessError, Problem
from ltr_harness.files import unfinished

_BLOCK = 1 << 20
_MOST_GROWTH = 100
"""Text of ranking sets shrinks to a tenth or so; what unpacks to more than a hundred times is no such text."""
_SMALL = 1 << 20
_LONGEST_HEADER = 1 << 20
"""Bytes of a name or of attributes; read into memory at once."""
_RAR = (
    "unpack it with unrar, 7z or bsdtar, put the files into the folder and run the command without --archive"
)

Member = tuple[str, IO[bytes]]


def unpack(archive: Path, folder: Path, wanted: Sequence[str], inside: str = "") -> list[Path]:
    """Take the wanted files out of a zip or tar archive, wherever in it they are.

    Raises:
        DataError: no archive, a damaged one, a file that is in it twice, or one that never ends.
        OSError: the folder cannot be written.
    """
    allowed = _MOST_GROWTH * archive.stat().st_size + _SMALL if archive.is_file() else 0
    written: dict[str, Path] = {}
    with unfinished(folder) as scratch:
        with _damage_told(archive), _members(archive, allowed) as members:
            for path, stream in members:
                name = next(
                    (name for name in wanted if _ends_with(path, f"{inside}/{name}" if inside else name)),
                    None,
                )
                if name is None:
                    continue
                if name in written:
                    raise DataError(Problem(f"{archive}: {path}", f"is a second {name}", "one of each file"))
                written[name] = scratch / str(len(written))
                allowed = _copy(stream, written[name], allowed, f"{archive}: {path}")
        paths = []
        for name, temporary in written.items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(temporary, target)
            paths.append(target)
    return paths


@contextmanager
def _damage_told(archive: Path) -> Iterator[None]:
    """Whatever reading a damaged archive raises, which is nearly anything, as a message; not what a disk says."""
    try:
        yield
    except HarnessError:
        raise
    except Exception as problem:
        if isinstance(problem, OSError) and problem.errno is not None:
            raise
        reason = str(problem) or type(problem).__name__
        raise DataError(
            Problem(str(archive), f"the archive is damaged or locked ({reason})", cure="fetch it again")
        ) from None


class _Header(tarfile.TarInfo):
    """One that does not fill the memory."""

    def _proc_member(self, packed: tarfile.TarFile) -> tarfile.TarInfo | None:
        if not self.isreg() and self.size > _LONGEST_HEADER:
            raise tarfile.TarError(f"a header of {self.size:,} bytes")
        member: tarfile.TarInfo | None = super()._proc_member(packed)  # type: ignore[misc]
        return member


def _regular(packed: tarfile.TarFile, archive: Path, allowed: int) -> Iterator[Member]:
    """The regular files of a tar archive. Passing over one unpacks it, too."""
    for info in packed:
        if info.offset_data + info.size > allowed:
            raise _bomb(f"{archive}: {info.name}")
        if info.isreg() and (stream := packed.extractfile(info)) is not None:
            yield info.name, stream


@contextmanager
def _members(archive: Path, allowed: int) -> Iterator[Iterator[Member]]:
    """The regular files of an archive, one after the other."""
    if not archive.is_file():
        raise DataError(Problem(str(archive), "no such file", "an archive"))
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as packed:
            yield (
                (info.filename, packed.open(info))
                for info in packed.infolist()
                if not info.is_dir() and (info.external_attr >> 16) & 0o170000 in (0, 0o100000)
            )
        return
    with _tar(archive) as packed_tar:
        yield _regular(packed_tar, archive, allowed)


def _tar(archive: Path) -> tarfile.TarFile:
    try:
        return tarfile.open(archive, tarinfo=_Header)
    except tarfile.ReadError:
        with open(archive, "rb") as start:
            if start.read(4) == b"Rar!":
                raise DataError(Problem(str(archive), "is a RAR archive", "its files", _RAR)) from None
        raise DataError(
            Problem(str(archive), "is not an archive", "a .zip, .tar, .tar.gz, .tar.bz2 or .tar.xz")
        ) from None


def _ends_with(path: str, name: str) -> bool:
    parts, wanted = PurePosixPath(path.replace("\\", "/")).parts, PurePosixPath(name).parts
    return parts[-len(wanted) :] == wanted and not any(part.startswith("__MACOSX") for part in parts)


def _copy(stream: IO[bytes], target: Path, allowed: int, place: str) -> int:
    """Copy, and give what may still be written."""
    with open(target, "wb") as out:
        while block := stream.read(_BLOCK):
            allowed -= len(block)
            if allowed < 0:
                raise _bomb(place)
            out.write(block)
    return allowed


def _bomb(place: str) -> DataError:
    return DataError(
        Problem(
            place,
            f"unpacks to more than {_MOST_GROWTH} times the archive's size",
            "a ranking set",
            "nothing was kept",
        )
    )
