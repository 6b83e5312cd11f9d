"""Plan of an experiment: models x folds x seeds, each with an identity; existing runs are reused."""

from __future__ import annotations

import logging
from pathlib import Path

from ltr_harness.experiment.estimate import time_left
from ltr_harness.experiment.folds import Fold
from ltr_harness.experiment.identities import evaluation_identity_of, identity_of
from ltr_harness.experiment.job import Job
from ltr_harness.experiment.studies import Choice, study_of
from ltr_harness.experiment.task import Plan, State, Task, config_of
from ltr_harness.runs.folder import LOG, RECORD, damaged_files, folder_name, read_record
from ltr_harness.runs.record import TuningFacts
from ltr_harness.runs.run import PER_QUERY, TEST_SCORES

log = logging.getLogger(__name__)


def list_tasks(job: Job, *, tuned: bool = False) -> Plan:
    """What has to be done; listed again after the searches, whose models are not known before."""
    experiment, folds = job.experiment, job.folds
    tune = experiment.tune
    studies = tuple(
        study_of(job, model, fold, anew=job.force and not tuned)
        for fold in folds
        for model in (tune.models if tune else ())
    )
    chosen = {(study.model, study.fold): study.choice for study in studies}
    unknown = {key for key, choice in chosen.items() if choice is None}
    # a search may end in chance on one fold and not on another: then every fold has every seed
    matters = {
        model: any(
            config_of(experiment, model, chosen.get((model, fold.name))).ranker.seed_matters for fold in folds
        )
        for model in experiment.models
    }
    tasks = tuple(
        _task(job, model, seed, fold, chosen.get((model, fold.name)))
        for fold in folds
        for model in experiment.models
        if (model, fold.name) not in unknown
        for seed in (experiment.seeds if matters[model] else experiment.seeds[:1])
    )
    return Plan(tasks, studies, time_left(tasks, job))


def _task(job: Job, model: str, seed: int, fold: Fold, choice: Choice | None) -> Task:
    config = config_of(job.experiment, model, choice)
    matters = config.ranker.seed_matters
    error = choice.error if choice else ""
    identity = identity_of(job, config, fold, seed if matters else None, error=error)
    evaluation = evaluation_identity_of(job, identity, fold)
    folder = job.folder / folder_name(model, fold.name, seed, identity)
    tuning = None if choice is None else choice.facts
    state = "train" if job.force else _state(folder, identity, evaluation, tuning)
    return Task(model, fold.name, seed, matters, identity, evaluation, folder, state, choice)


def _state(folder: Path, identity: str, evaluation: str, tuning: TuningFacts | None) -> State:
    record = read_record(folder)
    if record is None and folder.is_dir():
        log.warning("%s: damaged or missing: %s; it is trained again", folder, RECORD)
    if record is None or record.status != "complete" or record.identity != identity or not record.files:
        return "train"
    damaged = [name for name in damaged_files(folder, record) if name != LOG]  # which nothing reads
    if damaged:
        lost = not {TEST_SCORES, PER_QUERY}.issuperset(damaged)
        again = "trained" if lost else "scored"
        log.warning("%s: damaged or missing: %s; it is %s again", folder, ", ".join(damaged), again)
        if lost:
            return "train"
    # the same options may have been found by another search: the record must say by which
    other = record.evaluation_identity != evaluation or record.tuning != tuning
    return "score again" if damaged or other else "done"
