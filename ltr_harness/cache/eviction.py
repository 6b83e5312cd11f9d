"""What a cache holds, and making room in it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ltr_harness.cache.entries import FACTS
from ltr_harness.files import unfinished
from ltr_harness.wording import count_of


@dataclass(frozen=True)
class KeptEntry:
    """One stored dataset.

    Attributes:
        folder: where it is.
        title: what it was made from.
        size: bytes on disk.
        used: when it was last opened, seconds since 1970.
    """

    folder: Path
    title: str
    size: int
    used: float


def kept_entries(folder: Path) -> list[KeptEntry]:
    """The entries of a cache, the last used first; unfinished and damaged ones too: they take room as well."""
    entries = []
    with suppress(OSError):
        for entry in (folder / "sets").iterdir():
            with suppress(OSError):
                files = [file.stat() for file in entry.iterdir() if file.is_file()]
                # reading an entry touches its page of facts
                page = entry / FACTS
                used = (page if page.is_file() else entry).stat().st_mtime
                entries.append(KeptEntry(entry, _title(page), sum(file.st_size for file in files), used))
    return sorted(entries, key=lambda entry: -entry.used)


def remove_entries(folder: Path, entries: Sequence[KeptEntry], *, everything: bool = False) -> None:
    """Remove entries; each disappears in one step, and who has it mapped keeps it.

    Raises:
        OSError: they cannot be removed.
    """
    if entries:
        with unfinished(folder / "sets", private=True) as aside:
            for number, entry in enumerate(entries):
                with suppress(FileNotFoundError):  # another process was faster
                    os.rename(entry.folder, aside / str(number))
    if everything:
        for kept in ("files", "facts", "charts"):
            shutil.rmtree(folder / kept, ignore_errors=True)


def _title(page: Path) -> str:
    try:
        facts = json.loads(json.loads(page.read_text(encoding="utf-8"))["facts"])
        n_features = len(facts["feature_names"])
        return f"{facts['source'] or 'no name'} ({count_of(n_features, 'feature')})"
    except (OSError, ValueError, KeyError, TypeError):
        return "unfinished or damaged"
