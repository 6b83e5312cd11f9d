"""What later runs need to know of this one: its windows' numbers, without the raw logs; and what they make of it.

Each run leaves one file, named by its content and written whole; nothing is ever rewritten, so runs at the same time
cannot hurt each other.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, TypeAdapter, ValidationError

from ltr_harness.errors import DataError, Problem
from ltr_harness.files import write_stored
from ltr_harness.logs.settings import seconds
from ltr_harness.monitoring.calendar import THURSDAY, Units, part_of_season, share_of_variance
from ltr_harness.monitoring.config import MonitorConfig
from ltr_harness.monitoring.periods import Periods
from ltr_harness.monitoring.queries import Floats, Ints
from ltr_harness.monitoring.result import Window
from ltr_harness.stats.several_samples import widened
from ltr_harness.stats.two_samples import Estimate, Influence, between, weighted_mean
from ltr_harness.stored import read_stored

VERSION = 1


@dataclass(frozen=True)
class PastWindow:
    """One window of an earlier run: its mean with what is behind it."""

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
    """The windows that earlier runs left under the same definition, each once, in order of time."""
    best: dict[int, PastWindow] = {}
    problems = []
    for path in sorted(folder.glob("windows-*.json")) if folder.is_dir() else []:
        try:
            kept = read_stored(_Kept, folder, path.name)
            if kept.version > VERSION:
                found, expected = f"has version {kept.version}", f"{VERSION} or lower"
                problems.append(Problem(str(path), found, expected, "update ltr-harness"))
                continue
            if kept.key is None:
                raise ValueError("it has no key")
            if kept.key != key:
                continue
            windows = TypeAdapter(list[PastWindow]).validate_python(kept.windows)
        except (OSError, ValueError) as problem:
            said = str(problem)
            if isinstance(problem, ValidationError):
                first = problem.errors()[0]
                said = f"windows.{'.'.join(map(str, first['loc']))} is {first['input']!r:.60}"
            problems.append(Problem(str(path), f"is not a history of monitor: {said}", cure="move it away"))
            continue
        for window in windows:
            known = best.get(window.number)
            if known is None or (window.seen_until, window.n) > (known.seen_until, known.n):
                best[window.number] = window
    DataError.refuse(problems)
    return [best[number] for number in sorted(best)]


def append_history(folder: Path, key: str, windows: Iterable[Window], seen_until: int) -> Path | None:
    """Leave this run's mature windows; None where there are none."""
    rows = [
        {
            "label": w.label,
            "number": w.number,
            "n": w.n_defined,
            "mean": (w.adjusted or w.interval).value,
            "error": (w.adjusted or w.interval).error,
            "relevant_share": w.relevant_share,
            "seen_until": seen_until,
            "hours": w.hours_of_week,
        }
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


def history_key(config: MonitorConfig) -> str:
    """What windows must share to stand in one row."""
    definition, windows = config.definition(), config.windows
    said: dict[str, Any] = {
        "primary": definition["metrics"][0],
        "relevance": definition["relevance"],
        "size": windows.size,
        "zone": windows.timezone,
    }
    if windows.timezone != "UTC" and windows.size[-1] in "smh":
        said["begins"] = "midnight"  # windows of hours were once cut from UTC's
    if config.compare.adjust:
        said["adjust"] = sorted(config.compare.adjust)
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


_DAY_SECONDS = 86_400


def with_past(rows: Ints, past: Sequence[PastWindow], periods: Periods) -> Estimate:
    """The difference of some queries and windows of earlier runs, together, to the baseline; `rows` (n_rows,).

    Each window is compared with the part of the season that it was in, as today's queries are. Queries that meet
    themselves meet no earlier run.
    """
    if not past or periods.common is not None:
        return periods.compare(rows=rows)
    now = periods.sample_now(rows=rows)
    n = np.array([rows.size, *(w.n for w in past)], dtype=np.float64)
    weights = n / n.sum()
    means = np.array([now.values.mean() if rows.size else 0.0, *(w.mean for w in past)])
    own = now.plain[1].variance if rows.size > 1 else 0.0
    errors = np.array([own, *(w.error**2 for w in past)])
    reference, influence = _reference(rows, past, periods)
    if periods.prediction is not None:
        # all windows share it, and today's mean does not know the earlier ones'
        own_error = np.sqrt(influence.variance) + np.sqrt(periods.prediction.key_noise)
        influence = dataclasses.replace(influence, variance=float(own_error**2))
    total = int(n.sum())
    together = Influence(np.zeros(0), None, float((weights**2) @ errors), float(max(total - 1, 1)), total)
    confidence, side = periods.config.compare.confidence, periods.alternative
    value, everything = float(weights @ means) - reference, total + len(periods.before)
    estimate = between(value, together, influence, alternative=side, confidence=confidence, n=everything)
    for unit, known in zip(periods.units, periods.primary_days, strict=True):
        if known is None:
            continue
        share = _share(unit, rows, past, periods, known.correlation)
        wide = widened(estimate, known.variance, share, side, confidence)
        if wide.error >= estimate.error:
            estimate = wide
            break
    return estimate


def _reference(rows: Ints, past: Sequence[PastWindow], periods: Periods) -> tuple[float, Influence]:
    """The baseline's mean in the seasons of the queries and windows, and its influence."""
    sample, strata = periods.reference, periods.strata
    if periods.prediction is not None and rows.size:
        sample = periods.prediction.widened(sample, rows)
    if sample.strata is None or strata[0] is None:
        return sample.plain
    size = int(max(sample.strata.max(), strata[0].max())) + 1
    counts = np.bincount(strata[0][rows], minlength=size).astype(np.float64)
    for window in past:
        parts, n = _season(window, periods)
        counts += np.bincount(parts, n, minlength=size)[:size]
    return weighted_mean(sample, sample.strata, counts / counts.sum())


def _season(window: PastWindow, periods: Periods) -> tuple[Ints, Floats]:
    """Which parts of the season a past window was in, and how many queries of each."""
    windows = periods.config.windows
    if window.hours:
        hours = np.array([int(hour) for hour in window.hours], dtype=np.int64)
        n = np.array(list(window.hours.values()), dtype=np.float64)
    else:  # of an earlier version: the calendar knows its weekday, and its day was like the baseline's
        day = window.number * seconds(windows.size) // _DAY_SECONDS
        hours = np.arange(24) + 24 * ((day + THURSDAY) % 7)
        n = np.full(24, window.n / 24)
    return part_of_season(hours, windows.season), n


def _share(
    unit: Units, rows: Ints, past: Sequence[PastWindow], periods: Periods, correlation: float
) -> float:
    """`Periods.share_of` with past windows among production's."""
    total = float(rows.size + sum(w.n for w in past))
    counts = np.bincount(unit.now[rows]) if rows.size else np.zeros(0)
    size = seconds(periods.config.windows.size)
    by_day: dict[int, float] = {}
    squares = 0.0
    for window in past:
        if unit is periods.units[0] and size <= _DAY_SECONDS:
            day = window.number * size // _DAY_SECONDS
            by_day[day] = by_day.get(day, 0.0) + window.n
        else:  # a window of several days has them in equal parts
            squares += window.n**2 / max(1, size // _DAY_SECONDS if unit is periods.units[0] else 1)
    days = np.array([*(by_day[day] for day in sorted(by_day)), *counts])
    squares += total**2 * share_of_variance(days / total, correlation)
    everything = np.arange(len(periods.now))
    reference = periods.share_of(unit, everything, np.arange(len(periods.before)), correlation)
    own = unit.share_of_now(everything, correlation)
    return squares / total**2 + reference - own
