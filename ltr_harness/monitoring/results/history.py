"""What later runs need to know of this one: its windows' numbers, without the raw logs.

Each run leaves one file, named by its content and written whole; nothing is ever rewritten. So two runs at
the same time cannot hurt each other, a killed one leaves nothing but a dot file, and the same run twice
leaves one file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from ltr_harness.errors import DataError, Problem
from ltr_harness.files import write_stored
from ltr_harness.stored import read_stored

if TYPE_CHECKING:
    from ltr_harness.monitoring.results.answers import Window

VERSION = 1


@dataclass(frozen=True)
class PastWindow:
    """One window of an earlier run: its place in the calendar, and its mean with what is behind it."""

    label: str
    number: int
    n: int
    mean: float
    error: float
    relevant_share: float
    seen_until: int
    """Time of that run's last query: of two runs about one window, the later one saw more labels."""
    hours: dict[str, int] = field(default_factory=dict)
    """Hour of the week to queries; empty in files of earlier versions."""

    @property
    def weekdays(self) -> set[int]:
        """0 Monday … 6 Sunday, as far as its hours are known."""
        return {int(hour) // 24 for hour in self.hours}


class _Kept(BaseModel):
    version: int
    key: str | None = None
    windows: Any = None


def read_history(folder: Path, key: str) -> list[PastWindow]:
    """The windows that earlier runs left under the same definition, each once, in order of time.

    Raises:
        DataError: a file in it is damaged or of a later version.
    """
    best: dict[int, PastWindow] = {}
    problems = []
    for path in sorted(folder.glob("windows-*.json")) if folder.is_dir() else []:
        try:
            kept = read_stored(_Kept, folder, path.name)
            if kept.version > VERSION:
                problems.append(
                    Problem(
                        str(path),
                        f"has version {kept.version}",
                        f"{VERSION} or lower",
                        "update ltr-harness",
                    )
                )
                continue
            if kept.key is None:
                raise ValueError("it has no key")
            if kept.key != key:
                continue
            windows = TypeAdapter(list[PastWindow]).validate_python(kept.windows)
        except (OSError, ValueError) as problem:
            told = str(problem)
            if isinstance(problem, ValidationError):
                first = problem.errors()[0]
                told = f"windows.{'.'.join(map(str, first['loc']))} is {first['input']!r:.60}"
            problems.append(Problem(str(path), f"is not a history of monitor: {told}", cure="move it away"))
            continue
        for window in windows:
            known = best.get(window.number)
            if known is None or (window.seen_until, window.n) > (known.seen_until, known.n):
                best[window.number] = window
    if problems:
        raise DataError(problems)
    return [best[number] for number in sorted(best)]


def append_history(folder: Path, key: str, windows: Iterable[Window], seen_until: int) -> Path | None:
    """Leave this run's mature windows; None where there are none.

    Raises:
        OSError: the folder cannot be written.
    """
    rows = [
        asdict(
            PastWindow(
                w.label,
                w.number,
                w.n_defined,
                (w.adjusted or w.interval).value,
                (w.adjusted or w.interval).error,
                w.relevant_share,
                seen_until,
                w.hours_of_week,
            )
        )
        for w in windows
        if w.status in ("tested", "untested") and w.n_defined >= 2
    ]
    if not rows:
        return None
    text = json.dumps({"version": VERSION, "key": key, "windows": rows}, indent=1, sort_keys=True) + "\n"
    target = folder / f"windows-{hashlib.sha256(text.encode()).hexdigest()[:20]}.json"
    if not target.exists():
        write_stored(target, text.encode())
    return target


def history_key(definition: Mapping[str, Any], size: str, timezone: str, adjust: Sequence[str] = ()) -> str:
    """What windows must share to stand in one row."""
    said: dict[str, Any] = {
        "primary": definition["metrics"][0],
        "relevance": definition["relevance"],
        "size": size,
        "zone": timezone,
    }
    if timezone != "UTC" and size[-1] in "smh":
        said["begins"] = "midnight"  # windows of hours were once cut from UTC's
    if adjust:
        said["adjust"] = sorted(adjust)
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()
