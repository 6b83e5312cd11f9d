"""What is to be trained: models x folds x seeds, each with an identity; what exists already is reused."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ltr_harness.boosting.stopping import StoppingRule
from ltr_harness.config.experiment import Experiment
from ltr_harness.config.point import model_at
from ltr_harness.config.tune import probes
from ltr_harness.dataset import RankingDataset
from ltr_harness.errors import HarnessError, Problem, UsageError
from ltr_harness.experiment.estimate import time_left
from ltr_harness.experiment.facts import definition, other_files, ranker_facts, stopping_facts
from ltr_harness.experiment.folds import Fold, FoldReader, largest_label
from ltr_harness.experiment.studies import study_of
from ltr_harness.experiment.task import Plan as Plan
from ltr_harness.experiment.task import State as State
from ltr_harness.experiment.task import Task as Task
from ltr_harness.fingerprint import fingerprint_arrays
from ltr_harness.metrics import Metric, bind
from ltr_harness.rankers.ranker import Facts
from ltr_harness.runs.folder import LOG, RECORD, damaged_files, encoded, folder_name, read_record
from ltr_harness.runs.identity import evaluation_identity, package_versions, training_identity
from ltr_harness.runs.record import TuningFacts
from ltr_harness.runs.run import PER_QUERY, TEST_SCORES

log = logging.getLogger(__name__)


def plan(
    experiment: Experiment,
    reader: FoldReader,
    runs: Path,
    *,
    threads: int,
    workers: int = 1,
    force: bool = False,
    tuned: bool = False,
) -> Plan:
    """Read the data, check every model against it, and list what has to be done.

    Args:
        experiment: the resolved configuration.
        reader: the experiment's data.
        runs: folder in which the experiment's folder is.
        threads: of each model; part of the identity of those that they can move.
        workers: processes side by side, for the estimate of the time.
        force: train everything again, searches included.
        tuned: the searches have just been made.

    Raises:
        UsageError: every problem of data, metrics and models that can be known before training.
    """
    folds = [reader.read(name) for name in reader.names()]
    scale = experiment.data.max_grade
    scale = largest_label(folds) if scale is None else scale
    metrics = tuple(metric.on_scale(scale) for metric in experiment.metrics.metrics)
    primary = experiment.metrics.primary.on_scale(scale)
    stopping = None
    if experiment.stopping is not None:
        rule = experiment.stopping
        stopping = StoppingRule(
            rule.metric.on_scale(scale), rule.patience, rule.min_delta, rule.every, rule.max_rounds
        )
    problems = [
        *(_metric_problems(metrics, stopping, folds) or _undefined_everywhere(primary, stopping, folds)),
        *_model_problems(experiment, stopping, folds),
    ]
    if problems:
        raise UsageError(problems)
    parent = runs / encoded(experiment.name)
    tune = experiment.tune
    decisive = stopping.metric if stopping else primary
    studies = [
        study_of(experiment, model, fold, decisive, stopping, parent, threads, anew=force and not tuned)
        for fold in folds
        for model in (tune.models if tune else ())
    ]
    choices = {(study.model, study.fold): study.choice for study in studies if study.choice is not None}
    unknown = {(study.model, study.fold) for study in studies if study.choice is None}
    listed = Plan(
        (),
        metrics,
        primary,
        stopping,
        folder=parent,
        studies=tuple(studies),
        choices=choices,
        files=other_files(experiment),
    )
    # a search may end in chance on one fold and not on another: then every fold has every seed
    matters = {
        model: any(listed.config(experiment, model, fold.name).ranker.seed_matters for fold in folds)
        for model in experiment.models
    }
    tasks = [
        _task(experiment, listed, model, seed, fold, parent, threads, force)
        for fold in folds
        for model in experiment.models
        if (model, fold.name) not in unknown
        for seed in (experiment.seeds if matters[model] else experiment.seeds[:1])
    ]
    return replace(listed, tasks=tuple(tasks), left=time_left(tasks, experiment, parent, workers))


def _task(
    experiment: Experiment,
    listed: Plan,
    model: str,
    seed: int,
    fold: Fold,
    parent: Path,
    threads: int,
    force: bool,
) -> Task:
    config = listed.config(experiment, model, fold.name)
    choice = listed.choices.get((model, fold.name))
    ranker, stopping = config.ranker, listed.stopping
    facts = ranker_facts(config)
    if choice is not None and choice.error:  # nothing that could be trained has this identity
        facts["tuning"] = choice.error
    identity = training_identity(
        ranker=facts,
        seed=seed if ranker.seed_matters else None,
        rounds=config.rounds,
        stopping=None
        if stopping is None
        else stopping_facts(stopping) | {"metric": definition(stopping.metric)},
        train=fold.facts["train"].fingerprint,
        valid=fold.facts["valid"].fingerprint if "valid" in fold.facts else None,
        packages=package_versions(ranker.packages),
        threads=threads if ranker.threads_matter else None,
    )
    test = fold.facts["test"].fingerprint
    if fold.test.file_rows is not None:  # scores in a file may be in the order of the data's file
        test = f"{test} {fingerprint_arrays(fold.test.file_rows)}"
    evaluation = evaluation_identity(identity, [definition(metric) for metric in listed.metrics], test)
    folder = parent / folder_name(model, fold.name, seed, identity)
    tuning = None if choice is None else choice.facts
    state = "train" if force else _state(folder, identity, evaluation, tuning)
    return Task(model, fold.name, seed, ranker.seed_matters, identity, evaluation, folder, state)


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


def _metric_problems(
    metrics: Sequence[Metric], stopping: StoppingRule | None, folds: Sequence[Fold]
) -> list[Problem]:
    """Labels outside a metric's domain, found before the first tree."""
    problems = []
    for fold in folds:
        for split in ("valid", "test"):
            part = fold.splits.get(split)
            if part is None:
                continue
            wanted = list(metrics) + ([stopping.metric] if stopping and split == "valid" else [])
            try:
                bind(wanted, part.judgments)
            except HarnessError as problem:
                problems.append(Problem(part.source, str(problem)))
    return _each_once(problems)


def _undefined_everywhere(
    primary: Metric, stopping: StoppingRule | None, folds: Sequence[Fold]
) -> list[Problem]:
    """A metric that decides and has no value for any query: there would be nothing to compare, or to stop on."""
    tests = [fold.test for fold in folds if _is_undefined(primary, fold.test)]
    found = [(primary, part) for part in tests] if len(tests) == len(folds) else []
    if stopping is not None:
        found += [
            (stopping.metric, fold.valid)
            for fold in folds
            if fold.valid is not None and _is_undefined(stopping.metric, fold.valid)
        ]
    problems = [
        Problem(
            part.source,
            f"{metric} is undefined for every query",
            "at least one query with a relevant document",
            "look at the labels",
        )
        for metric, part in found
    ]
    return _each_once(problems)


def _is_undefined(metric: Metric, part: RankingDataset) -> bool:
    return bool(np.isnan(bind(metric, part.judgments).means(np.zeros(part.n_rows))).all())


def _model_problems(
    experiment: Experiment, stopping: StoppingRule | None, folds: Sequence[Fold]
) -> list[Problem]:
    """What a library would reject, ignore or misread, found before the first tree."""
    problems: list[Problem] = []
    facts = {fold.name: Facts.of(fold.train, stopping is not None) for fold in folds}
    for name, config in experiment.models.items():
        space = experiment.tune.space(name) if experiment.tune else {}
        for fold in folds:
            wrong = config.ranker.check(facts[fold.name]) or config.ranker.check_scoring(fold.test)
            problems += _placed(f"models.{name}", wrong)
            for probe in () if wrong else probes(space):
                refused = model_at(config, probe).ranker.check(facts[fold.name])
                problems += _placed(f"tune.models.{name}", refused)
    return _each_once(problems)


def _placed(where: str, problems: Sequence[Problem]) -> list[Problem]:
    return [replace(one, place=f"{where}.{one.place}" if one.place else where) for one in problems]


def _each_once(problems: list[Problem]) -> list[Problem]:
    return list(dict.fromkeys(problems))
