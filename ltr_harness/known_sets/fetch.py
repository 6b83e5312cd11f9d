"""One file from the network: resumed where it broke off, and believed only when its digest is right."""

from __future__ import annotations

import hashlib
import http.client
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from ltr_harness.errors import FetchError, Problem
from ltr_harness.known_sets.known_set import Download
from ltr_harness.wording import count_of

_BLOCK = 1 << 16
_TIMEOUT_S = 30
_FRUITLESS = 4
"""Give up after so many attempts in a row that brought nothing new."""

Progress = Callable[[int, int], None]
"""Told the bytes that are there and the bytes that there will be."""


def is_there(download: Download, folder: Path) -> bool:
    """Whether the file is in the folder, whole."""
    path = folder / download.file
    return path.is_file() and path.stat().st_size == download.size and _digest(path) == download.sha256


def fetch(download: Download, folder: Path, progress: Progress | None = None, pause_s: float = 1.0) -> Path:
    """Fetch a file into a folder, unless it is there already; it appears under its name only when it is right.

    Args:
        download: what to fetch.
        folder: made if missing.
        progress: told how it goes.
        pause_s: wait so long before the second attempt, twice as long before the third, …

    Raises:
        FetchError: the server says no, breaks off again and again, or sends something else.
        OSError: the folder cannot be written.
    """
    path = folder / download.file
    if is_there(download, folder):
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    fruitless, last = 0, ""
    while True:
        before = _size(part)
        if before < download.size:
            last = _attempt(download, part, progress)
        if _size(part) == download.size:
            if _digest(part) == download.sha256:
                os.replace(part, path)
                return path
            found = _digest(part)
            part.unlink()
            if before == 0:  # nothing old was in it: the server itself has other content
                raise _failed(
                    download,
                    f"has the SHA-256 {found}",
                    download.sha256,
                    "the file there has changed, or something in between changed it; nothing was kept",
                )
            continue
        if _size(part) > download.size:
            part.unlink()
            raise _failed(
                download,
                f"is longer than {count_of(download.size, 'byte')}",
                f"{count_of(download.size, 'byte')}",
            )
        fruitless = 0 if _size(part) > before else fruitless + 1
        if fruitless >= _FRUITLESS:
            raise _failed(
                download,
                last,
                f"{count_of(download.size, 'byte')}, {_size(part):,} are there",
                "run the same command again, it goes on from there",
            )
        if fruitless:
            time.sleep(pause_s * 2 ** (fruitless - 1))


def _attempt(download: Download, part: Path, progress: Progress | None) -> str:
    """Fetch what is missing, as far as it comes; what went wrong, or ""."""
    have = _size(part)
    request = urllib.request.Request(download.url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
            goes_on = answer.status == 206 and answer.headers.get("Content-Range", "").startswith(
                f"bytes {have}-"
            )
            if answer.status == 206 and have and not goes_on:
                part.unlink()
                return "the server sent another range than asked for"
            with open(part, "ab" if goes_on else "wb") as stream:
                have = have if goes_on else 0
                while block := answer.read(_BLOCK):
                    stream.write(block)
                    have += len(block)
                    if progress:
                        progress(min(have, download.size), download.size)
                    if have > download.size:
                        return "too long"
    except urllib.error.HTTPError as problem:
        if problem.code == 416:  # what is there is not the beginning of what the server has
            part.unlink(missing_ok=True)
            return "the server has no such range"
        if problem.code in (408, 425, 429) or problem.code >= 500:
            return f"the server answers {problem.code} {problem.reason}"
        raise _failed(download, f"the server answers {problem.code} {problem.reason}") from None
    except (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError) as problem:
        reason = getattr(problem, "reason", None) or str(problem) or type(problem).__name__
        return f"the connection broke off ({reason})"
    return "" if have == download.size else "the connection ended early"


def _failed(download: Download, found: str, expected: str = "", cure: str = "") -> FetchError:
    return FetchError(Problem(download.url, found, expected, cure))


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _digest(path: Path) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
