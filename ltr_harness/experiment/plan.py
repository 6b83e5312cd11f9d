"""What is to be trained: models x folds x seeds, each with an identity; what exists already is reused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ltr_harness.boosting.stopping import StoppingRule
from ltr_harness.config.experiment import Experiment, with_max_grade
from ltr_harness.errors import HarnessError, Problem, UsageError
from ltr_harness.experiment.estimate import time_left
from ltr_harness.experiment.facts import definition, ranker_facts, stopping_facts
from ltr_harness.experiment.folds import Fold, FoldReader, largest_label
from ltr_harness.experiment.task import Plan as Plan
from ltr_harness.experiment.task import State as State
from ltr_harness.experiment.task import Task as Task
from ltr_harness.metrics import Metric, bind
from ltr_harness.rankers.ranker import Facts
from ltr_harness.runs.folder import damaged_files, encoded, folder_name, read_record
from ltr_harness.runs.identity import evaluation_identity, package_versions, training_identity


def plan(
    experiment: Experiment,
    reader: FoldReader,
    runs: Path,
    *,
    threads: int,
    workers: int = 1,
    force: bool = False,
) -> Plan:
    """Read the data, check every model against it, and list what has to be done.

    Args:
        experiment: the resolved configuration.
        reader: the experiment's data.
        runs: folder in which the experiment's folder is.
        threads: of each model; part of the identity of those that they can move.
        workers: processes side by side, for the estimate of the time.
        force: train everything again.

    Raises:
        UsageError: every problem of data, metrics and models that can be known before training.
    """
    folds = [reader.read(name) for name in reader.names()]
    scale = experiment.data.max_grade
    scale = largest_label(folds) if scale is None else scale
    metrics = tuple(with_max_grade(metric, scale) for metric in experiment.metrics.metrics)
    primary = with_max_grade(experiment.metrics.primary, scale)
    stopping = None
    if experiment.stopping is not None:
        rule = experiment.stopping
        stopping = StoppingRule(
            with_max_grade(rule.metric, scale), rule.patience, rule.min_delta, rule.every, rule.max_rounds
        )
    problems = [*_metric_problems(metrics, stopping, folds), *_model_problems(experiment, stopping, folds)]
    if problems:
        raise UsageError(problems)
    parent = runs / encoded(experiment.name)
    tasks = [
        _task(experiment, model, seed, fold, metrics, stopping, parent, threads, force)
        for fold in folds
        for model, config in experiment.models.items()
        for seed in (experiment.seeds if config.ranker.seed_matters else experiment.seeds[:1])
    ]
    left = time_left(tasks, experiment, parent, workers)
    return Plan(tuple(tasks), metrics, primary, stopping, left)


def _task(
    experiment: Experiment,
    model: str,
    seed: int,
    fold: Fold,
    metrics: Sequence[Metric],
    stopping: StoppingRule | None,
    parent: Path,
    threads: int,
    force: bool,
) -> Task:
    config = experiment.models[model]
    ranker = config.ranker
    identity = training_identity(
        ranker=ranker_facts(config),
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
    evaluation = evaluation_identity(
        identity, [definition(metric) for metric in metrics], fold.facts["test"].fingerprint
    )
    folder = parent / folder_name(model, fold.name, seed, identity)
    state = "train" if force else _state(folder, identity, evaluation)
    return Task(model, fold.name, seed, ranker.seed_matters, identity, evaluation, folder, state)


def _state(folder: Path, identity: str, evaluation: str) -> State:
    record = read_record(folder)
    if record is None or record.status != "complete" or record.identity != identity:
        return "train"
    damaged = damaged_files(folder, record)
    if any(name.startswith("model.") for name in damaged) or not record.files:
        return "train"
    return "score again" if damaged or record.evaluation_identity != evaluation else "done"


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


def _model_problems(
    experiment: Experiment, stopping: StoppingRule | None, folds: Sequence[Fold]
) -> list[Problem]:
    """What a library would reject, ignore or misread, found before the first tree."""
    problems: list[Problem] = []
    for name, config in experiment.models.items():
        for fold in folds:
            wrong = config.ranker.check(Facts.of(fold.train, stopping is not None))
            for problem in wrong or config.ranker.check_scoring(fold.test):
                place = f"models.{name}" + (f".{problem.place}" if problem.place else "")
                problems.append(Problem(place, problem.found, problem.expected, problem.cure))
    return _each_once(problems)


def _each_once(problems: list[Problem]) -> list[Problem]:
    return list(dict.fromkeys(problems))
