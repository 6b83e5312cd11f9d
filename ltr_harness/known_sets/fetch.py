"""Files of public sets: fetched from the network, resumed and checked by digest, or taken out of an archive."""

import http.client
import os
import ssl
import tarfile
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from pathlib import Path, PurePosixPath
from typing import IO

from ltr_harness.errors import DataError, FetchError, HarnessError
from ltr_harness.files import file_digest, unfinished
from ltr_harness.known_sets import Download
from ltr_harness.wording import count_of

_BLOCK = 1 << 16
_TIMEOUT_S = 30
_FRUITLESS = 4  # give up after so many attempts in a row that brought hardly anything new
_MEANINGFUL = 1 << 20  # bytes that are always worth another attempt; of small files, a hundredth
_SLOWEST = 1000  # bytes per second; a server that sends fewer all the time keeps nobody waiting

_COPIED = 1 << 20
# Text of ranking sets shrinks to a tenth or so; what unpacks to more than a hundred times is no such text.
_MOST_GROWTH = 100
_SMALL = 1 << 20
_LONGEST_HEADER = 1 << 20  # bytes of a name or of attributes; read into memory at once

_NETWORK = (
    urllib.error.URLError,
    http.client.HTTPException,
    ConnectionError,
    TimeoutError,
    ssl.SSLError,
    ValueError,  # a redirection to what is no address
)

Progress = Callable[[int, int], None]
"""Told the bytes that are there and the bytes that there will be."""


def fetch(download: Download, folder: Path, progress: Progress | None = None, pause_s: float = 1.0) -> Path:
    """Fetch a file into a folder, unless it is there already; it appears under its name only when it is right."""
    path = folder / download.file
    if path.is_file() and path.stat().st_size == download.size and file_digest(path) == download.sha256:
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    fruitless, afresh = 0, False
    while True:
        before = _size(part)
        problem = _attempt(download, part, progress) if before < download.size else ""
        wrong = _wrong(download, part)
        if _size(part) == download.size and not wrong:
            os.replace(part, path)
            return path
        if wrong or _size(part) < before:  # what was there, or what came, is not what the server should have
            part.unlink(missing_ok=True)
            if wrong and (before == 0 or afresh):
                raise FetchError.at(download.url, *wrong)
            if afresh:
                raise FetchError.at(
                    download.url, problem, cure="what arrives does not fit together; nothing was kept"
                )
            afresh = True
        gained = _size(part) - before
        fruitless = 0 if gained >= min(download.size // 100 + 1, _MEANINGFUL) else fruitless + 1
        if fruitless >= _FRUITLESS:
            there = f"{count_of(download.size, 'byte')}, {_size(part):,} are there"
            raise FetchError.at(download.url, problem, there, "run the same command again to resume")
        if fruitless:
            time.sleep(pause_s * 2 ** (fruitless - 1))


def _wrong(download: Download, part: Path) -> tuple[str, str, str] | None:
    """What is wrong with a file of which enough is there: found, expected, cure."""
    size = count_of(download.size, "byte")
    if _size(part) > download.size:
        return f"is longer than {size}", size, ""
    if _size(part) < download.size or (digest := file_digest(part)) == download.sha256:
        return None
    changed = "the file there has changed, or something in between changed it; nothing was kept"
    return f"has the SHA-256 {digest}", download.sha256, changed


def _attempt(download: Download, part: Path, progress: Progress | None) -> str:
    """Fetch what is missing, as far as it comes; what went wrong, or ""."""
    have = _size(part)
    request = urllib.request.Request(download.url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
            range_ = answer.headers.get("Content-Range", "")
            goes_on = answer.status == 206 and range_.startswith(f"bytes {have}-")
            if answer.status == 206 and have and not goes_on:
                part.unlink()
                return "the server sent another range than asked for"
            have = had = have if goes_on else 0
            looked = time.monotonic()
            with open(part, "ab" if goes_on else "wb") as stream:
                while block := answer.read1(_BLOCK):
                    stream.write(block)
                    have += len(block)
                    if progress:
                        progress(min(have, download.size), download.size)
                    if have > download.size:
                        return "too long"
                    seconds = time.monotonic() - looked
                    if seconds > _TIMEOUT_S:
                        if have - had < _SLOWEST * seconds:
                            return f"the server sends fewer than {_SLOWEST:,} bytes per second"
                        looked, had = time.monotonic(), have
            return "" if have == download.size else "the connection ended early"
    except urllib.error.HTTPError as problem:
        with problem:  # its words are the server's, and may be anything
            answered = f"the server answers {problem.code} {http.client.responses.get(problem.code, '')}"
        if problem.code == 416:  # what is there is not the beginning of what the server has
            part.unlink(missing_ok=True)
            return "the server has no such range"
        if problem.code in (408, 425, 429) or problem.code >= 500:
            return answered.rstrip()
        raise FetchError.at(download.url, answered.rstrip()) from None
    except _NETWORK as problem:
        reason = getattr(problem, "reason", None) or str(problem) or type(problem).__name__
        return f"the connection broke off ({reason})"


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def unpack(archive: Path, folder: Path, wanted: Sequence[str], inside: str = "") -> list[Path]:
    """Take the wanted files out of a zip or tar archive, wherever in it they are; a member's path decides nothing."""
    allowed = _MOST_GROWTH * archive.stat().st_size + _SMALL if archive.is_file() else 0
    written: dict[str, Path] = {}
    named = {PurePosixPath(inside, name).parts: name for name in wanted}
    with unfinished(folder) as scratch:
        try:
            with closing(_members(archive, allowed)) as members:
                for path, stream in members:
                    parts = PurePosixPath(path.replace("\\", "/")).parts
                    name = next((name for ends, name in named.items() if parts[-len(ends) :] == ends), None)
                    if name is None or any(part.startswith("__MACOSX") for part in parts):
                        continue
                    if name in written:
                        raise DataError.at(f"{archive}: {path}", f"is a second {name}", "one of each file")
                    written[name] = scratch / str(len(written))
                    allowed = _copy(stream, written[name], allowed, f"{archive}: {path}")
        except HarnessError:
            raise
        except Exception as problem:  # reading a damaged archive raises nearly anything
            if isinstance(problem, OSError) and problem.errno is not None:
                raise  # what a disk says
            reason = str(problem) or type(problem).__name__
            found = f"the archive is damaged or locked ({reason})"
            raise DataError.at(archive, found, cure="fetch it again") from None
        paths = []
        for name, temporary in written.items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(temporary, target)
            paths.append(target)
    return paths


class _Header(tarfile.TarInfo):
    """Tar header of limited size."""

    def _proc_member(self, packed: tarfile.TarFile) -> tarfile.TarInfo | None:
        if not self.isreg() and self.size > _LONGEST_HEADER:
            raise tarfile.TarError(f"a header of {self.size:,} bytes")
        member: tarfile.TarInfo | None = super()._proc_member(packed)  # type: ignore[misc]
        return member


def _members(archive: Path, allowed: int) -> Generator[tuple[str, IO[bytes]]]:
    """Paths and content of the regular files of an archive, one after the other."""
    if not archive.is_file():
        raise DataError.at(archive, "no such file", "an archive")
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as packed:
            for entry in packed.infolist():
                if not entry.is_dir() and (entry.external_attr >> 16) & 0o170000 in (0, 0o100000):
                    yield entry.filename, packed.open(entry)
        return
    with _tar(archive) as packed_tar:
        for info in packed_tar:
            if info.offset_data + info.size > allowed:  # passing over one unpacks it, too
                raise _bomb(f"{archive}: {info.name}")
            if info.isreg() and (stream := packed_tar.extractfile(info)) is not None:
                yield info.name, stream


def _tar(archive: Path) -> tarfile.TarFile:
    try:
        return tarfile.open(archive, tarinfo=_Header)
    except tarfile.ReadError:
        with open(archive, "rb") as start:
            if start.read(4) == b"Rar!":
                cure = "unpack it with unrar, 7z or bsdtar, put the files into the folder and run the command without"
                raise DataError.at(archive, "is a RAR archive", "its files", f"{cure} --archive") from None
        expected = "a .zip, .tar, .tar.gz, .tar.bz2 or .tar.xz"
        raise DataError.at(archive, "is not an archive", expected) from None


def _copy(stream: IO[bytes], target: Path, allowed: int, place: str) -> int:
    """Copy, and give what may still be written."""
    with open(target, "wb") as out:
        while block := stream.read(_COPIED):
            allowed -= len(block)
            if allowed < 0:
                raise _bomb(place)
            out.write(block)
    return allowed


def _bomb(place: str) -> DataError:
    found = f"unpacks to more than {_MOST_GROWTH} times the archive's size"
    return DataError.at(place, found, "a ranking set", "nothing was kept")
