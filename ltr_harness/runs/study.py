"""Stored search for a model's options: every trial, and the best one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import Field

from ltr_harness.runs.record import MetricName
from ltr_harness.stored import Amount, Count, Stored, read_stored

STUDIES = "tuning"
"""Folder of studies in an experiment's folder of runs."""
STUDY = "study.json"
SCHEMA_VERSION: Final = 1


class Trial(Stored):
    """One point of the search space and what became of it."""

    number: Count  # from 0, in the order in which trials began
    status: Literal["complete", "pruned", "failed"]
    point: dict[str, Any]  # option -> value
    value: float | None  # on validation data; of a pruned trial the best so far; None if it failed
    best_round: Count | None = None
    rounds_trained: Count | None = None
    seconds: Amount
    error: str | None = None


class StudyRecord(Stored):
    """`study.json`: one model on one fold."""

    schema_version: Literal[1] = SCHEMA_VERSION
    model: str
    fold: str
    identity: str  # everything that decides what is tried and what comes of it, but the budget
    metric: MetricName
    higher_is_better: bool
    space: dict[str, Any]  # option -> list of values, or range
    sampler: str
    pruner: str
    inner_folds: Count | None
    seed: Count
    trials: list[Trial]
    importance: dict[str, float] = Field(
        default_factory=dict
    )  # option -> its share of what decides the value
    environment: dict[str, str]  # versions of what searches

    def within(self, trials: int | None, minutes: float | None) -> Sequence[Trial]:
        """The trials that a budget pays for: the first of them, until either is used up."""
        kept: list[Trial] = []
        spent = 0.0
        for trial in self.trials:
            if used_up(len(kept), spent, trials, minutes):
                break
            kept.append(trial)
            spent += trial.seconds
        return kept

    def best(self, trials: Sequence[Trial]) -> Trial | None:
        """The complete trial with the best value; of equals the first."""
        sign = -1 if self.higher_is_better else 1
        complete = [trial for trial in trials if trial.status == "complete" and trial.value is not None]
        return min(complete, key=lambda trial: (sign * (trial.value or 0.0), trial.number), default=None)


def used_up(n_trials: int, seconds: float, trials: int | None, minutes: float | None) -> bool:
    """Whether a budget pays for no further trial.

    Example:
        >>> used_up(3, 50.0, trials=4, minutes=1), used_up(3, 60.0, trials=4, minutes=1), used_up(4, 0.0, 4, None)
        (False, True, True)
    """
    return (trials is not None and n_trials >= trials) or (minutes is not None and seconds >= 60 * minutes)


def read_study(folder: Path) -> StudyRecord | None:
    """The record in a study's folder; None where there is none that can be read."""
    try:
        return read_stored(StudyRecord, folder, STUDY)
    except (OSError, ValueError):
        return None
