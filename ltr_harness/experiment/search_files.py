"""Files of a search: locked for one process, repaired before Optuna reads them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path

from ltr_harness.errors import HarnessError, TrainingError
from ltr_harness.experiment.studies import Study

FILES = {"journal": "journal.log", "sqlite": "study.db"}
LOCK = "lock"


@contextmanager
def alone(study: Study) -> Iterator[None]:
    """A lock of the operating system's on the search's folder; it ends with the process, however that ends.

    Raises:
        TrainingError: another process has it.
    """
    from filelock import FileLock, Timeout

    try:
        with FileLock(study.folder / LOCK, timeout=0):
            yield
    except Timeout:
        raise TrainingError(
            f"{study} is being tuned by another process in {study.folder}; run the same command again once that "
            "has ended"
        ) from None


def mended(journal: Path) -> None:
    """What a process that was killed or a power cut left: a lock that nobody holds, half a line, foreign bytes.

    What comes next depends on the trials before it alone, so those that stood behind are found again.
    """
    lock = journal.with_name(f"{journal.name}.lock")
    if lock.is_symlink() or lock.exists():
        lock.unlink()
    if journal.is_file():
        *lines, rest = journal.read_bytes().split(b"\n")
        whole = list(takewhile(_is_entry, lines))
        if rest or len(whole) < len(lines):
            os.truncate(journal, sum(len(line) + 1 for line in whole))


def _is_entry(line: bytes) -> bool:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(entry, dict) and isinstance(entry.get("op_code"), int) and "worker_id" in entry


def is_damage(problem: Exception) -> bool:
    """Not a full disk, a lock of somebody else's or a folder that cannot be read: those pass."""
    from sqlalchemy.exc import OperationalError

    return not isinstance(problem, OSError | OperationalError | HarnessError)
