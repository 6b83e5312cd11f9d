"""Job, tasks and plan of an experiment: what its runs share, and what is to be done."""

from __future__ import annotations

import logging
import statistics
import uuid
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from ltr_harness.boosting.stopping import StoppingRule
from ltr_harness.config import as_mapping, load_experiment
from ltr_harness.config.experiment import Experiment, ModelConfig
from ltr_harness.config.point import model_at
from ltr_harness.config.search import TuneConfig
from ltr_harness.errors import Problem, UsageError
from ltr_harness.experiment.cluster import Cluster
from ltr_harness.experiment.folds import Fold, FoldReader
from ltr_harness.files import file_digest
from ltr_harness.fingerprint import fingerprint_arrays
from ltr_harness.inspection import Finding
from ltr_harness.metrics import Metric
from ltr_harness.own_files import imported_modules, installed_version, is_own_file, own_file_digest
from ltr_harness.runs.folder import LOG, RECORD, damaged_files, encoded, folder_name, read_record
from ltr_harness.runs.identity import TrainingInputs, evaluation_identity, package_versions, study_identity
from ltr_harness.runs.record import STUDIES, StudyRecord, TuningFacts, read_study, used_up
from ltr_harness.runs.run import PER_QUERY, TEST_SCORES
from ltr_harness.wording import count_of


def ranker_definition(config: ModelConfig) -> dict[str, Any]:
    """A ranker's name and every field, with the digest or the version of its code if that is not the harness's own."""
    definition: dict[str, Any] = {"ranker": config.ranker_name, **config.ranker.definition()}
    module = type(config.ranker).__module__
    if is_own_file(config.ranker_name):
        definition["ranker"] = own_file_digest(config.ranker_name)
    elif not module.startswith("ltr_harness."):
        definition["ranker"] = f"{config.ranker_name} {module} {installed_version(module)}"
    return definition


def metric_definition(metric: Metric) -> str:
    """A metric's canonical name, with the digest of its code where that is not the harness's own."""
    return str(metric) if metric.digest is None else f"{metric} {metric.digest}"


def stopping_definition(rule: StoppingRule) -> dict[str, Any]:
    """A stopping rule as records keep it."""
    return {
        "metric": str(rule.metric),
        "on": "valid",
        "patience": rule.patience,
        "min_delta": rule.min_delta,
        "every": rule.every,
        "max_rounds": rule.max_rounds,
    }


def other_files(experiment: Experiment) -> dict[str, str]:
    """Files besides the data that models, metrics and code of the user's own come from, and their digests."""
    paths = {path for model in experiment.models.values() for path in model.ranker.inputs()}
    names = [experiment.data.reader_name, *(model.ranker_name for model in experiment.models.values())]
    metrics = [*experiment.metrics.metrics, *([experiment.stopping.metric] if experiment.stopping else [])]
    metrics += [metric for model in experiment.models.values() for metric in model.ranker.metrics()]
    names += [metric.origin or "" for metric in metrics]
    for own in {Path(name.rpartition(":")[0]) for name in names if is_own_file(name)}:
        paths |= {own, *imported_modules(own)}
    return {str(path): file_digest(path) for path in sorted(paths)}


def changed_files(files: Mapping[str, str]) -> list[str]:
    """Those of the files whose content is another here and now, or that are not there."""
    return [path for path, digest in files.items() if not Path(path).is_file() or file_digest(path) != digest]


def refuse_changed(files: Mapping[str, str]) -> None:
    """Raises UsageError where a file is not what it was when the plan was made."""
    problems = [
        Problem(path, "has changed since the command began", cure="run it again")
        for path in changed_files(files)
    ]
    if problems:
        raise UsageError(problems)


def identity_of(
    job: Job, model: ModelConfig, fold: Fold, seed: int | None, *, valid: bool = True, error: str = ""
) -> str:
    """What decides every tree of a model."""
    ranker, stopping = model.ranker, job.stopping
    facts = ranker_definition(model)
    if error:
        facts["tuning"] = error
    inputs = TrainingInputs(
        ranker=facts,
        seed=seed,
        rounds=model.rounds,
        stopping=None
        if stopping is None
        else stopping_definition(stopping) | {"metric": metric_definition(stopping.metric)},
        train=fold.facts["train"].fingerprint,
        valid=fold.facts["valid"].fingerprint if valid and "valid" in fold.facts else None,
        packages=package_versions(ranker.packages),
        threads=job.threads if ranker.threads_matter else None,
    )
    return inputs.identity


def evaluation_identity_of(job: Job, identity: str, fold: Fold) -> str:
    """What decides every value of a trained model on the fold's test split."""
    test = fold.facts["test"].fingerprint
    if fold.test.file_rows is not None:  # scores in a file may be in the order of the data's file
        test = f"{test} {fingerprint_arrays(fold.test.file_rows)}"
    return evaluation_identity(identity, [metric_definition(metric) for metric in job.metrics], test)


def study_identity_of(job: Job, model: str, fold: Fold) -> str:
    """What decides every trial of a search; not its budget, because more of it goes on from the trials there are."""
    tune = job.experiment.tune
    assert tune is not None
    training = identity_of(job, job.experiment.models[model], fold, tune.seed, valid=tune.inner_folds is None)
    facts = tune.model_dump(mode="json", include={"sampler", "pruner", "inner_folds", "storage", "seed"})
    return study_identity(
        training, {**facts, "space": tune.plain_space(model), "metric": metric_definition(job.decisive)}
    )


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


def study_of(job: Job, model: str, fold: Fold, *, restart: bool = False) -> Study:
    """The search for a model's options on a fold, with what is known of it already."""
    tune = job.experiment.tune
    assert tune is not None
    identity, metric = study_identity_of(job, model, fold), job.decisive
    folder = job.folder / STUDIES / f"{encoded(model)}--{encoded(fold.name)}--{identity[:12]}"
    record = None if restart else read_study(folder)
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


State = Literal["done", "score again", "train"]


@dataclass(frozen=True)
class Task:
    """One run to be: a model on a fold with a seed."""

    model: str
    fold: str
    seed: int
    seed_matters: bool  # False where every seed gives the same model, so that one run stands for all
    identity: str
    evaluation_identity: str
    folder: Path
    # ``done``; ``score again`` where metrics or test data changed but no tree can have; ``train``
    state: State
    # what a search has chosen; None where the model is not tuned
    choice: Choice | None = field(default=None, compare=False)

    def __str__(self) -> str:
        parts = [self.model]
        if self.fold != "all":
            parts.append(self.fold)
        if self.seed_matters:
            parts.append(f"seed {self.seed}")
        return ", ".join(parts)


@dataclass(frozen=True)
class TimeLeft:
    """What is still to be done, in seconds by the clock.

    Example:
        >>> print(TimeLeft(199, 2)), print(TimeLeft(0, 5)), print(TimeLeft(0, 0))
        about 3 min; no estimate yet for 2 runs
        no estimate yet
        <BLANKLINE>
        (None, None, None)
    """

    seconds: float  # of the runs that can be judged, side by side on all workers
    n_unknown: int  # runs that resemble none that has finished

    def __str__(self) -> str:
        if not self.seconds:
            return "no estimate yet" if self.n_unknown else ""
        left_out = f"; no estimate yet for {count_of(self.n_unknown, 'run')}" if self.n_unknown else ""
        return f"about {duration(self.seconds)}{left_out}"


def duration(seconds: float) -> str:
    """Seconds as people say them.

    Example:
        >>> duration(0.4), duration(48), duration(199), duration(8000)
        ('1 s', '48 s', '3 min', '2 h 13 min')
    """
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


@dataclass(frozen=True)
class Plan:
    """What is to be done."""

    tasks: tuple[Task, ...]  # in the order in which they run
    # the searches of models that are tuned. The runs of one that is not over are not among the tasks: what they
    # would train is not known yet.
    studies: tuple[Study, ...] = ()
    left: TimeLeft = TimeLeft(0.0, 0)  # how long what is to be done will take

    def count(self, state: State) -> int:
        return sum(task.state == state for task in self.tasks)

    @property
    def open_studies(self) -> tuple[Study, ...]:
        """The searches that have budget left."""
        return tuple(study for study in self.studies if study.choice is None)


@dataclass(frozen=True, eq=False)
class Job:
    """An experiment whose data is read."""

    experiment: Experiment
    reader: FoldReader
    folder: Path
    metrics: tuple[Metric, ...]  # this, primary and stopping: with the scale of grades fixed
    primary: Metric
    stopping: StoppingRule | None
    threads: int  # of each training; part of the identity of those that they can move
    workers: int = 1  # processes that train side by side
    cluster: Cluster | None = None  # where training takes place instead
    force: bool = False  # train everything again, searches included
    # those besides the data that models, metrics and code come from, and their digests
    files: Mapping[str, str] = field(default_factory=dict)
    # fold to what the data lints say of it; empty before the check
    findings: Mapping[str, tuple[Finding, ...]] = field(default_factory=dict)
    plan: Plan = Plan(())  # empty before the tasks are listed

    @property
    def decisive(self) -> Metric:
        """What decides on validation data: the stopping rule's metric, else the primary one."""
        return self.primary if self.stopping is None else self.stopping.metric

    @property
    def folds(self) -> list[Fold]:
        return [self.reader.read(name) for name in self.reader.names()]

    def serialized(self) -> SerializedJob:
        """What another process needs to train; cluster and plan are this process's own."""
        rest = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in _LOADED}
        return SerializedJob(as_mapping(self.experiment), rest)


_LOADED = ("experiment", "reader", "cluster", "plan")


@dataclass(frozen=True)
class SerializedJob:
    """A job as plain values: classes from a user's own file cannot be pickled."""

    settings: Mapping[str, Any]  # the experiment
    rest: Mapping[str, Any]  # the other fields by name
    # the name of this command's runs among all that a cluster does
    topic: str = field(default_factory=lambda: f"ltr-harness-{uuid.uuid4().hex[:12]}")

    @cached_property
    def loaded(self) -> Job:
        """The job in this process, which reads the data itself; made when the first task asks for it.

        Raises:
            UsageError: a file that the plan was made with has changed since, or is not here.
        """
        refuse_changed(self.rest["files"])  # what it would train is not what the plan says
        experiment = load_experiment(self.settings, check_rankers=False)
        return Job(experiment, FoldReader(experiment.data), **self.rest)


def config_of(experiment: Experiment, model: str, choice: Choice | None) -> ModelConfig:
    """A model as it is trained: with what was chosen for it, if it is tuned."""
    config = experiment.models[model]
    return config if choice is None else model_at(config, choice.point)


def time_left(tasks: Sequence[Task], job: Job) -> TimeLeft:
    """Judge every run that is to be done by the finished ones that resemble it most.

    A run resembles those of the same model and fold, then of the same model, of the same sweep, of the same ranker
    and objective; of several, their median counts. Threads and machine are taken to be the same.
    """
    todo = [task for task in tasks if task.state != "done"]
    if not todo:
        return TimeLeft(0.0, 0)
    trained: dict[Hashable, list[float]] = defaultdict(list)
    scored: dict[Hashable, list[float]] = defaultdict(list)
    for path in job.folder.glob(f"*/{RECORD}"):
        record = read_record(path.parent)
        if record is None or record.status != "complete":
            continue
        of = record.model if record.point is None else record.point.of
        total = sum(record.seconds.values())
        for likeness in _likenesses(record.model, record.fold, of, record.ranker, record.objective):
            trained[likeness].append(total)
            scored[likeness].append(total - record.seconds.get("fit", 0.0))
    known, n_unknown = [], 0
    for task in todo:
        seconds = _like(task, job.experiment, trained if task.state == "train" else scored)
        if seconds is None:
            n_unknown += 1
        else:
            known.append(seconds)
    side_by_side = max(1, min(job.workers, len(todo)))
    return TimeLeft(max(sum(known) / side_by_side, max(known, default=0.0)), n_unknown)


def _like(task: Task, experiment: Experiment, seconds: dict[Hashable, list[float]]) -> float | None:
    config = experiment.models[task.model]
    of = task.model if config.point is None else config.point.of
    for likeness in _likenesses(task.model, task.fold, of, config.ranker_name, config.objective):
        if likeness in seconds:
            return statistics.median(seconds[likeness])
    return None


def _likenesses(model: str, fold: str, of: str, ranker: str, objective: str | None) -> Iterator[Hashable]:
    """The closest first."""
    yield "model and fold", model, fold
    yield "model", model
    yield "sweep", of
    yield "ranker", ranker, objective


log = logging.getLogger(__name__)


def list_tasks(job: Job, *, tuned: bool = False) -> Plan:
    """What has to be done; listed again after the searches, whose models are not known before."""
    experiment, folds = job.experiment, job.folds
    tune = experiment.tune
    studies = tuple(
        study_of(job, model, fold, restart=job.force and not tuned)
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
