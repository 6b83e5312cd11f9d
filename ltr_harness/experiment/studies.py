"""Studies: the searches of an experiment, one for each tuned model on each fold, found again by their identity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ltr_harness.config.search import TuneConfig
from ltr_harness.experiment.folds import Fold
from ltr_harness.experiment.identities import study_identity_of
from ltr_harness.experiment.job import Job
from ltr_harness.metrics import Metric
from ltr_harness.runs.folder import encoded
from ltr_harness.runs.record import TuningFacts
from ltr_harness.runs.study import STUDIES, StudyRecord, read_study, used_up
from ltr_harness.wording import count_of


@dataclass(frozen=True)
class Choice:
    """What a search ended in."""

    point: Mapping[str, Any]  # option to value; empty where there is an error
    facts: TuningFacts | None  # what the records of the runs say of the search
    error: str = ""  # why there is no choice


@dataclass(frozen=True)
class Study:
    """A search that is to be made, or has been."""

    model: str
    fold: str
    identity: str
    folder: Path  # where its trials are
    metric: Metric  # what decides, on validation data
    n_trials: int  # that the budget has paid for so far
    # what the rest of the budget will take, by the trials so far; None where nobody can tell
    seconds_left: float | None
    choice: Choice | None  # None until the budget is used up

    def __str__(self) -> str:
        return self.model if self.fold == "all" else f"{self.model}, {self.fold}"


def study_of(job: Job, model: str, fold: Fold, *, anew: bool = False) -> Study:
    """The search for a model's options on a fold, with what is known of it already."""
    tune = job.experiment.tune
    assert tune is not None
    identity, metric = study_identity_of(job, model, fold), job.decisive
    folder = job.folder / STUDIES / f"{encoded(model)}--{encoded(fold.name)}--{identity[:12]}"
    record = None if anew else read_study(folder)
    if record is None or record.identity != identity:
        left = None if tune.minutes is None or tune.trials is not None else 60 * tune.minutes
        return Study(model, fold.name, identity, folder, metric, 0, left, None)
    paid = record.within(tune.trials, tune.minutes)
    spent = sum(trial.seconds for trial in paid)
    if used_up(len(paid), spent, tune.trials, tune.minutes):
        return Study(
            model, fold.name, identity, folder, metric, len(paid), 0.0, choice_of(record, tune, folder.name)
        )
    limits = [] if tune.minutes is None else [60 * tune.minutes - spent]
    if tune.trials is not None and paid:
        limits.append(spent / len(paid) * (tune.trials - len(paid)))
    return Study(model, fold.name, identity, folder, metric, len(paid), min(limits, default=None), None)


def choice_of(record: StudyRecord, tune: TuneConfig, folder: str) -> Choice:
    """The best of the trials that the budget pays for."""
    trials = record.within(tune.trials, tune.minutes)
    best = record.best(trials)
    counts = {
        status: sum(trial.status == status for trial in trials) for status in ("complete", "pruned", "failed")
    }
    if best is None or best.value is None:
        first = next((trial.error for trial in trials if trial.error), "no reason given")
        return Choice(
            {},
            None,
            f"tuning found nothing: none of {count_of(len(trials), 'trial')} could be trained ({first})",
        )
    facts = TuningFacts(
        study=folder,
        metric=record.metric,
        value=best.value,
        trial=best.number,
        chosen=best.point,
        trials=tune.trials,
        minutes=tune.minutes,
        n_trials=len(trials),
        n_complete=counts["complete"],
        n_pruned=counts["pruned"],
        n_failed=counts["failed"],
        seconds=sum(trial.seconds for trial in trials),
        sampler=record.sampler,
        inner_folds=record.inner_folds,
        seed=record.seed,
    )
    return Choice(best.point, facts)
