"""Digests of files that are hashed once for as long as they stay as they are, and pages with a digest of their own."""

import hashlib
import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ltr_harness._util.files import file_digest, write_whole
from ltr_harness.errors import DataError

Stamp = Mapping[str, int]


def stamp(path: Path) -> Stamp:
    """Return what changes with a file: size, times in nanoseconds, inode, device."""
    seen = os.stat(path)
    times = {"mtime_ns": seen.st_mtime_ns, "ctime_ns": seen.st_ctime_ns}
    return {"size": seen.st_size, **times, "inode": seen.st_ino, "device": seen.st_dev}


def changed_while_read(path: Path) -> DataError:
    """Return the error of a file that was written while it was read."""
    found, cure = "changed while it was being read", "run again when it is written"
    return DataError.at(path, found, cure=cure)


class FileDigests:
    """Digests of files, noted in a folder of the cache; a note counts while its file has the stamp that it had."""

    def __init__(self, folder: Path | None, *, verify: bool = False) -> None:
        self._folder = folder  # of the cache; None without one
        self._verify = verify
        self._seen: dict[Path, tuple[Stamp, str]] = {}

    def digest(self, path: Path) -> str:
        """SHA-256 of a file, hashed once while its stamp is the same; DataError: unreadable, or changed meanwhile."""
        path = path.resolve()
        try:
            before = stamp(path)
            if path in self._seen and self._seen[path][0] == before:
                return self._seen[path][1]
            digest = self._noted_digest(path, before) or self._fresh_digest(path, before)
        except OSError as problem:
            raise DataError.at(path, f"cannot be read: {problem.strerror or problem}") from None
        self._seen[path] = before, digest
        return digest

    def is_unchanged(self, path: Path) -> bool:
        """Return whether a file still has the stamp that it had when `digest` returned its digest."""
        path = path.resolve()
        with suppress(OSError):
            return self._seen[path][0] == stamp(path)
        return False

    def _note_of(self, path: Path) -> Path | None:
        """Return the file in which a digest is kept; None without a cache."""
        if self._folder is None:
            return None
        return self._folder / "files" / f"{sha256(os.fsencode(path))[:32]}.json"

    def _noted_digest(self, path: Path, before: Stamp) -> str | None:
        """Return the digest of a file with this stamp; None where the note is absent, damaged or of another state."""
        note = self._note_of(path)
        if note is None or self._verify:
            return None
        with suppress(OSError, ValueError, TypeError, KeyError):
            facts = json.loads(note.read_text(encoding="utf-8"))
            if facts["path"] == str(path) and facts["stamp"] == before and len(facts["digest"]) == 64:
                return str(facts["digest"])
        return None

    def _fresh_digest(self, path: Path, before: Stamp) -> str:
        """Hash a file with this stamp, and keep the digest where a further write would show."""
        started = time.time_ns()
        digest = file_digest(path)
        if stamp(path) != before:
            raise changed_while_read(path)
        age = started - max(before["mtime_ns"], before["ctime_ns"])
        # clocks of file systems tick in milliseconds to seconds
        is_coarse = before["mtime_ns"] % 1_000_000_000 == 0
        tick = 2_000_000_000 if is_coarse else 50_000_000
        note = self._note_of(path)
        if note is not None and age > tick:
            text = json.dumps({"path": str(path), "stamp": dict(before), "digest": digest})
            # Nothing is lost but time; the entry itself, written next, says what is wrong with the disk.
            with suppress(OSError):
                write_whole(note, text)
        return digest


def as_page(facts: Any) -> str:
    """Return facts as JSON with their own digest."""
    text = json.dumps(facts)
    return json.dumps({"sha256": sha256(text.encode()), "facts": text})


def read_page(path: Path) -> Any:
    """Return the facts of a page; None where they are not what was written."""
    page = json.loads(path.read_text(encoding="utf-8"))
    return json.loads(page["facts"]) if sha256(page["facts"].encode()) == page["sha256"] else None


def sha256(content: bytes) -> str:
    """Return the SHA-256 of bytes, as 64 hex digits."""
    return hashlib.sha256(content).hexdigest()
