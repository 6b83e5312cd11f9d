"""SHA-256 of files, remembered as long as the file system says that a file is the same."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from ltr_harness.errors import DataError, Problem
from ltr_harness.files import file_digest, write_whole

Stamp = Mapping[str, int]


def stamp(path: Path) -> Stamp:
    """What a file system changes when a file changes: size, times in nanoseconds, inode, device."""
    seen = os.stat(path)
    return {
        "size": seen.st_size,
        "mtime_ns": seen.st_mtime_ns,
        "ctime_ns": seen.st_ctime_ns,
        "inode": seen.st_ino,
        "device": seen.st_dev,
    }


class FileDigests:
    """Digests by path."""

    def __init__(self, folder: Path | None, *, verify: bool = False) -> None:
        self._folder = folder
        self._verify = verify
        self._seen: dict[Path, tuple[Stamp, str]] = {}

    def of(self, path: Path) -> str:
        """The digest of a file's bytes.

        Raises:
            DataError: the file cannot be read, or changes while it is read.
        """
        path = path.resolve()
        try:
            before = stamp(path)
            if path in self._seen and self._seen[path][0] == before:
                return self._seen[path][1]
            digest = None if self._verify else self._remembered(path, before)
            if digest is None:
                started = time.time_ns()
                digest = file_digest(path)
                if stamp(path) != before:
                    raise _changed(path)
                if _settled(before, started):
                    self._remember(path, before, digest)
        except OSError as problem:
            raise DataError(Problem(str(path), f"cannot be read: {problem.strerror or problem}")) from None
        self._seen[path] = before, digest
        return digest

    def check_unchanged(self, path: Path) -> None:
        """That a file is still the one whose digest was given.

        Raises:
            DataError: it has changed in the meantime.
        """
        path = path.resolve()
        try:
            now = stamp(path)
        except OSError:
            raise _changed(path) from None
        if self._seen[path][0] != now:
            raise _changed(path)

    def _note(self, path: Path) -> Path | None:
        if self._folder is None:
            return None
        return self._folder / f"{hashlib.sha256(os.fsencode(path)).hexdigest()[:32]}.json"

    def _remembered(self, path: Path, now: Stamp) -> str | None:
        note = self._note(path)
        if note is None:
            return None
        try:
            kept = json.loads(note.read_text(encoding="utf-8"))
            if kept["path"] == str(path) and kept["stamp"] == now and len(kept["digest"]) == 64:
                return str(kept["digest"])
        except (OSError, ValueError, TypeError, KeyError):
            pass  # absent or damaged: the file is hashed again
        return None

    def _remember(self, path: Path, now: Stamp, digest: str) -> None:
        note = self._note(path)
        if note is None:
            return
        text = json.dumps({"path": str(path), "stamp": dict(now), "digest": digest})
        # Nothing is lost but time; the entry itself, written next, says what is wrong with the disk.
        with suppress(OSError):
            write_whole(note, text)


def _settled(seen: Stamp, now: int) -> bool:
    """Whether a further write would surely show: clocks of file systems tick in milliseconds to seconds."""
    latest = max(seen["mtime_ns"], seen["ctime_ns"])
    coarse = seen["mtime_ns"] % 1_000_000_000 == 0
    return now - latest > (2_000_000_000 if coarse else 50_000_000)


def _changed(path: Path) -> DataError:
    return DataError(
        Problem(str(path), "changed while it was being read", cure="run again when it is written")
    )
