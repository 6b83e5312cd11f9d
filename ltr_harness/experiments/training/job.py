"""Job and tasks of an experiment: what its runs share, and what is to be done."""

import logging
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from ltr_harness._util.files import file_digest
from ltr_harness._util.text import count_of
from ltr_harness._util.user_code import imported_modules, installed_version, is_own_file, own_file_digest
from ltr_harness.boosting.stopping import StoppingRule
from ltr_harness.data.dataset import fingerprint_arrays
from ltr_harness.errors import Caution, Problem, UsageError
from ltr_harness.experiments.config import as_mapping, load_experiment
from ltr_harness.experiments.config.schema import Experiment, ModelConfig, model_at
from ltr_harness.experiments.config.tune import TuneConfig
from ltr_harness.experiments.runs import identity as identities
from ltr_harness.experiments.runs import revisions
from ltr_harness.experiments.runs.folder import LOG, RECORD, damaged_files, encoded, folder_name, read_record
from ltr_harness.experiments.runs.record import (
    STUDIES,
    Record,
    StudyRecord,
    Trial,
    TuningFacts,
    read_study,
    used_up,
)
from ltr_harness.experiments.runs.run import MISSED, PER_QUERY, TEST_SCORES
from ltr_harness.experiments.training.folds import Fold, FoldReader
from ltr_harness.metrics import Metric
from ltr_harness.metrics.core.softmax import ProbabilityMetric

log = logging.getLogger(__name__)


def ranker_definition(config: ModelConfig) -> dict[str, Any]:
    """A ranker's name and every field, with the digest or the version of its code if that is not the harness's own."""
    definition: dict[str, Any] = {"ranker": config.ranker_name, **config.ranker.definition()}
    module = type(config.ranker).__module__
    if is_own_file(config.ranker_name):
        definition["ranker"] = own_file_digest(config.ranker_name)
    elif not module.startswith("ltr_harness."):
        definition["ranker"] = f"{config.ranker_name} {module} {installed_version(module)}"
    return definition


def revised_definition(
    job: "Job", model: ModelConfig, searched: Iterable[Mapping[str, Any]] = (), *, pruned: bool = False
) -> dict[str, Any]:
    """A model's definition, with the revisions of its training, and of what is searched, where there are any."""
    definition, metric = ranker_definition(model), job.decision_metric
    watched, of_probabilities = pruned or job.stopping is not None, isinstance(metric, ProbabilityMetric)
    numbers: dict[str, int] = {}
    for variant in (definition, *searched):
        numbers |= revisions.revisions(revisions.Setting(variant, watched, str(metric), of_probabilities))
    return definition | {revisions.KEY: numbers} if numbers else definition


def metric_definition(metric: Metric) -> str:
    """A metric's canonical name, with the digest of its code where that is not the harness's own."""
    return str(metric) if metric.digest is None else f"{metric} {metric.digest}"


def other_files(experiment: Experiment) -> dict[str, str]:
    """Files besides the data that models, metrics and code of the user's own come from, and their digests."""
    metrics = list(experiment.metrics.metrics)
    if experiment.stopping is not None:
        metrics.append(experiment.stopping.metric)
    paths: set[Path] = set()
    names = [experiment.data.reader_name]
    for model in experiment.models.values():
        paths.update(model.ranker.inputs())
        names.append(model.ranker_name)
        metrics += model.ranker.metrics()
    names += [metric.origin or "" for metric in metrics]
    for code in {Path(name.rpartition(":")[0]) for name in names if is_own_file(name)}:
        paths |= {code, *imported_modules(code)}
    return {str(path): file_digest(path) for path in sorted(paths)}


def changed_files(files: Mapping[str, str]) -> list[str]:
    """Return the files whose content has changed, or that are absent."""
    return [path for path, digest in files.items() if not Path(path).is_file() or file_digest(path) != digest]


def identities_of(
    job: "Job",
    model: ModelConfig,
    definition: Mapping[str, Any],
    fold: Fold,
    seed: int | None,
    *,
    valid: bool = True,
    **facts: Any,
) -> list[str]:
    """Return what decides every tree of a model, and the identity that earlier versions gave the same training.

    Besides the model's definition, those `facts` are part of it that are not empty. Earlier versions had the stopping
    rule in the identity of every model, also of one that nothing stops.
    """
    rules = list(dict.fromkeys([job.stopping_of(model), job.stopping]))
    return [_identity(job, model, definition, fold, seed, rule, valid=valid, **facts) for rule in rules]


def _identity(
    job: "Job",
    model: ModelConfig,
    definition: Mapping[str, Any],
    fold: Fold,
    seed: int | None,
    stopping: StoppingRule | None,
    *,
    valid: bool,
    **facts: Any,
) -> str:
    ranker, rule = model.ranker, None
    if stopping is not None:
        rule = {**stopping.used_options(), "metric": metric_definition(stopping.metric), "on": "valid"}
    return identities.training_identity(
        ranker={**definition, **{name: fact for name, fact in facts.items() if fact}},
        seed=seed,
        rounds=model.rounds,
        stopping=rule,
        train=fold.facts["train"].fingerprint,
        valid=fold.facts["valid"].fingerprint if valid and "valid" in fold.facts else None,
        packages=identities.package_versions(ranker.packages),
        threads=job.threads if ranker.threads_matter else None,
    )


def study_of(job: "Job", model: str, fold: Fold, *, restart: bool = False) -> StudyRecord:
    """The search for a model's options on a fold: with the trials there are, or with none yet."""
    studies = _new_studies(job, model, fold, _searched_definition(job, model))
    if restart:
        return studies[0]
    return _first_stored(job, studies) or studies[0]


def _new_studies(job: "Job", model: str, fold: Fold, definition: Mapping[str, Any]) -> list[StudyRecord]:
    """Return a search without trials, under each of its identities."""
    tune, metric, config = job.tune, job.decision_metric, job.experiment.models[model]
    valid = tune.inner_folds is None
    trainings = identities_of(job, config, definition, fold, tune.seed, valid=valid)
    # not its budget: more of that goes on from the trials there are
    how = tune.model_dump(mode="json", include={"sampler", "pruner", "inner_folds", "seed"})
    how["space"] = _space(job, model)
    search = {**how, "storage": tune.storage, "metric": metric_definition(metric)}
    study = StudyRecord(
        model=model,
        fold=fold.name,
        identity="",
        metric=str(metric),
        higher_is_better=metric.higher_is_better,
        **how,
        trials=[],
        environment=identities.package_versions(("ltr-harness", "optuna")),
    )
    found = [identities.study_identity(training, search) for training in trainings]
    return [study.model_copy(update={"identity": identity}) for identity in found]


def _space(job: "Job", model: str) -> dict[str, Any]:
    space: dict[str, Any] = job.tune.model_dump(mode="json", exclude_none=True)["models"][model]
    return space


def _searched_definition(job: "Job", model: str) -> dict[str, Any]:
    """A model's definition with the revisions of all models that a search may try."""
    config, tune = job.experiment.models[model], job.tune
    lists = {option: values for option, values in _space(job, model).items() if isinstance(values, list)}
    tried_models = [model_at(config, {option: value}) for option, values in lists.items() for value in values]
    pruned = tune.inner_folds is None and tune.pruner != "none"
    return revised_definition(job, config, map(ranker_definition, tried_models), pruned=pruned)


def _first_stored(job: "Job", studies: Iterable[StudyRecord]) -> StudyRecord | None:
    """Return the first of the searches that is stored, with its trials."""
    for study in studies:
        stored = read_study(job.folder_of(study))
        if stored is not None and stored.identity == study.identity:
            return stored
    return None


SearchOutcome = TuningFacts | str
"""The end of a search: the trial that was chosen, or the reason that there is none."""


def choice_of(job: "Job", study: StudyRecord) -> SearchOutcome | None:
    """The best of the trials that the budget pays for; None until it is used up."""
    trials = job.trials_of(study)
    seconds = sum(trial.seconds for trial in trials)
    if not used_up(len(trials), seconds, job.tune.trials, job.tune.minutes):
        return None
    best = study.best(trials)
    if best is None or best.value is None:
        first = next((trial.error for trial in trials if trial.error), "no reason given")
        return f"tuning found nothing: none of {count_of(len(trials), 'trial')} could be trained ({first})"
    counts = Counter(trial.status for trial in trials)
    return TuningFacts(
        study=job.folder_of(study).name,
        value=best.value,
        trial=best.number,
        chosen=best.point,
        n_trials=len(trials),
        n_complete=counts["complete"],
        n_pruned=counts["pruned"],
        n_failed=counts["failed"],
        seconds=seconds,
        **job.tune.model_dump(include={"trials", "minutes"}),
        **study.model_dump(include={"metric", "sampler", "inner_folds", "seed"}),
    )


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
    choice: SearchOutcome | None = field(default=None, compare=False)  # None where the model is not tuned
    # of a model that is made of others, the folders of their runs
    parts: Mapping[str, Path] = field(default_factory=dict, compare=False)

    def __str__(self) -> str:
        parts = [self.model]
        if self.fold != "all":
            parts.append(self.fold)
        if self.seed_matters:
            parts.append(f"seed {self.seed}")
        return ", ".join(parts)


@dataclass(frozen=True, eq=False)
class Cluster:
    """A connected cluster."""

    client: Any
    threads: int  # of each run: what the smallest worker has
    n_workers: int  # when it was connected; workers that come later are used too


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
    cautions: Mapping[str, tuple[Caution, ...]] = field(default_factory=dict)
    tasks: tuple[Task, ...] = ()  # in the order in which they run; empty before they are listed
    # the searches of models that are tuned. The runs of one that is not over are not among the tasks, nor are those
    # of models made of it: what they would train is not known yet.
    studies: tuple[StudyRecord, ...] = ()
    # the name of this command's runs among all that a cluster does
    topic: str = field(default_factory=lambda: f"ltr-harness-{uuid.uuid4().hex[:12]}")

    @property
    def decision_metric(self) -> Metric:
        """The metric that decides on validation data: the stopping rule's, else the primary one."""
        return self.primary if self.stopping is None else self.stopping.metric

    @property
    def folds(self) -> list[Fold]:
        return [self.reader.read(name) for name in self.reader.names()]

    def fold_of(self, model: str, name: str) -> Fold:
        """Return a fold with the training queries of a model, which may take a share of them."""
        return self.reader.read(name, self.experiment.models[model].training_queries)

    def searched_model(self, model: str) -> str:
        """Return the model whose search chooses a model's options: of a variant, that which is studied."""
        variant = self.experiment.models[model].variant
        return model if variant is None else variant.of

    def count(self, state: State) -> int:
        return sum(task.state == state for task in self.tasks)

    def stopping_of(self, config: ModelConfig) -> StoppingRule | None:
        """The rule that stops a model's training; nothing stops one that is not trained in rounds."""
        return self.stopping if config.ranker.boosted else None

    def config_of(self, task: Task) -> ModelConfig:
        """The model as it is trained: with what was chosen for it, if it is tuned."""
        return chosen(self.experiment.models[task.model], task.choice)

    @property
    def tune(self) -> TuneConfig:
        """The search for options, of an experiment that has one."""
        assert self.experiment.tune is not None
        return self.experiment.tune

    @property
    def open_studies(self) -> list[StudyRecord]:
        """The searches that have budget left."""
        return [study for study in self.studies if choice_of(self, study) is None]

    def trials_of(self, study: StudyRecord) -> Sequence[Trial]:
        """The trials that the budget has paid for."""
        return study.trials_within(self.tune.trials, self.tune.minutes)

    def folder_of(self, study: StudyRecord) -> Path:
        name = f"{encoded(study.model)}--{encoded(study.fold)}--{study.identity[:12]}"
        return self.folder / STUDIES / name

    def sent_job(self) -> "SentJob":
        """Return what another process needs to train; it reads the data itself."""
        left_out = ("experiment", "reader", "cluster", "tasks", "studies")
        names = [part.name for part in fields(self) if part.name not in left_out]
        return SentJob(self.topic, as_mapping(self.experiment), {name: getattr(self, name) for name in names})


@dataclass(frozen=True)
class SentJob:
    """A job on its way to another process, as plain values: a user's own classes cannot be pickled."""

    topic: str
    experiment: Mapping[str, Any] = field(compare=False)
    parts: Mapping[str, Any] = field(compare=False)  # the other fields of the job

    def load(self) -> Job:
        """Return the job in another process; refused where a file has changed since it was sent."""
        UsageError.refuse(  # what it would train is not what was listed
            Problem(path, "has changed since the command began", cure="run it again")
            for path in changed_files(self.parts["files"])
        )
        experiment = load_experiment(self.experiment, check_rankers=False)
        return Job(experiment=experiment, reader=FoldReader(experiment.data), **self.parts)


@cache
def received_job(sent_job: SentJob) -> Job:
    """Return the job of a worker process, which is loaded once for all its tasks."""
    return sent_job.load()


def chosen(config: ModelConfig, choice: SearchOutcome | None) -> ModelConfig:
    """A model with what a search has chosen for it."""
    if choice is None:
        return config
    return model_at(config, {} if isinstance(choice, str) else choice.chosen)


def list_tasks(job: Job, *, tuned: bool = False) -> Job:
    """The job with what has to be done; listed again after the searches, whose models are not known before."""
    studies = _studies_of(job, restart=job.force and not tuned)
    choices = {(study.model, study.fold): choice_of(job, study) for study in studies}
    listed = replace(job, tasks=tuple(_tasks(job, choices)), studies=studies)
    cautions = list(_searches_not_reused(listed))
    if None not in choices.values():  # else tasks are listed again
        cautions += _runs_not_reused(listed)
    for caution in cautions:
        log.warning(caution)
    return listed


def _tasks(job: Job, choices: Mapping[tuple[str, str], SearchOutcome | None]) -> Iterable[Task]:
    """Return the runs of all models, folds and seeds, but those whose searches, by model and fold, are open."""
    open_searches = {key for key, choice in choices.items() if choice is None}
    parts_of = {name: model.ranker.parts() for name, model in job.experiment.models.items()}
    models = sorted(parts_of, key=lambda name: bool(parts_of[name]))  # parts come before what is made of them
    seeds = _seeds_of(job, choices)
    tasks: dict[tuple[str, str, int], Task] = {}
    for fold in job.folds:
        for model in models:
            parts = parts_of[model]
            searched = [job.searched_model(name) for name in (model, *parts)]
            if not open_searches.isdisjoint((name, fold.name) for name in searched):
                continue
            for seed in seeds[model]:
                part_tasks = {}
                for name in parts:  # one that has a single seed is a part of the models of all seeds
                    part_seed = seed if seed in seeds[name] else seeds[name][0]
                    part_tasks[name] = tasks[name, fold.name, part_seed]
                choice = choices.get((job.searched_model(model), fold.name))
                own_fold = job.fold_of(model, fold.name)
                tasks[model, fold.name, seed] = _task(job, model, seed, own_fold, choice, part_tasks)
    return tasks.values()


def _studies_of(job: Job, *, restart: bool) -> tuple[StudyRecord, ...]:
    """Return the searches of all folds."""
    tune = job.experiment.tune
    if tune is None:
        return ()
    names = [(fold.name, model) for fold in job.folds for model in tune.models]
    return tuple(study_of(job, model, job.fold_of(model, fold), restart=restart) for fold, model in names)


def _seeds_of(
    job: Job, choices: Mapping[tuple[str, str], SearchOutcome | None]
) -> dict[str, tuple[int, ...]]:
    """Return the seeds that each model is trained with: the first alone where no seed matters.

    A search may end in chance on one fold and not on another: then every fold has every seed.
    """
    experiment = job.experiment
    is_random = {
        name: any(
            chosen(model, choices.get((job.searched_model(name), fold))).ranker.seed_matters
            for fold in job.reader.names()
        )
        for name, model in experiment.models.items()
    }
    seeds = {}
    for name, model in experiment.models.items():
        matters = any(is_random[part] for part in (name, *model.ranker.parts()))
        seeds[name] = experiment.seeds if matters else experiment.seeds[:1]
    return seeds


def _searches_not_reused(job: Job) -> Iterable[Caution]:
    """Return cautions about outdated searches in the place of those that are to begin."""
    if job.force:
        return []
    found: dict[Caution, None] = {}  # of several folds each once
    for study in job.studies:
        definition = _searched_definition(job, study.model)
        if study.trials or revisions.KEY not in definition:
            continue
        definition_untuned = ranker_definition(job.experiment.models[study.model])
        former = _new_studies(job, study.model, job.fold_of(study.model, study.fold), definition_untuned)
        if _first_stored(job, former) is not None:
            cure = "the stored search is not reused, but made again"
            cautions = revisions.cautions_about(definition, f"tuning {study.model}", cure)
            found |= dict.fromkeys(cautions)
    return found


def _runs_not_reused(job: Job) -> list[Caution]:
    """Return cautions about outdated runs of what is to be trained, as long as no other run took their place."""
    todo = {_all_but_identity(task.folder): task.model for task in job.tasks if task.state == "train"}
    if job.force or not todo:
        return []
    stored: dict[str, list[Record]] = defaultdict(list)
    for path in job.folder.glob(f"*/{RECORD}"):
        name = _all_but_identity(path.parent)
        record = read_record(path.parent) if name in todo else None
        if record is not None and record.status == "complete":
            stored[name].append(record)
    runs: dict[str, list[Record]] = defaultdict(list)
    for name, records in stored.items():
        if all(map(revisions.outdated, records)):
            runs[todo[name]] += records
    return revisions.cautions_of(runs, "stored runs are not reused, but trained again")


def _all_but_identity(folder: Path) -> str:
    return folder.name.rpartition("--")[0]


def _task(
    job: Job, model: str, seed: int, fold: Fold, choice: SearchOutcome | None, parts: Mapping[str, Task]
) -> Task:
    config = chosen(job.experiment.models[model], choice)
    matters = config.ranker.seed_matters or any(part.seed_matters for part in parts.values())
    tuning, error = (None, choice) if isinstance(choice, str) else (choice, "")
    facts: dict[str, Any] = {"tuning": error, "parts": {name: part.identity for name, part in parts.items()}}
    if config.ranker.needs_valid:
        facts["decisive"] = metric_definition(job.decision_metric)  # the key of all stored identities
    definition = revised_definition(job, config)
    identity, *former = identities_of(job, config, definition, fold, seed if matters else None, **facts)
    folders = {
        run_identity: job.folder / folder_name(model, fold.name, seed, run_identity)
        for run_identity in (identity, *former)
    }
    identity = next((run_identity for run_identity, folder in folders.items() if folder.is_dir()), identity)
    evaluation = _evaluation_identity(job, config, identity, fold)
    folder = folders[identity]
    state = "train" if job.force else _state(folder, identity, evaluation, tuning)
    made_of = {name: part.folder for name, part in parts.items()}
    return Task(model, fold.name, seed, matters, identity, evaluation, folder, state, choice, made_of)


def _evaluation_identity(job: Job, config: ModelConfig, identity: str, fold: Fold) -> str:
    """Return what decides the numbers of a trained model: metrics and test queries, T where no validation data does."""
    temperatures: list[str] = []
    if "valid" not in fold.facts:
        temperatures = [f"{name} at {t!r}" for name, t in config.temperatures.items()]
    if "test" in fold.facts:
        test = fold.facts["test"].fingerprint
        if fold.test.file_rows is not None:  # scores in a file may be in the order of the data's file
            test = f"{test} {fingerprint_arrays(fold.test.file_rows)}"
        metrics = [metric_definition(metric) for metric in job.metrics]
        return identities.evaluation_identity(identity, [*metrics, *temperatures], test)
    if temperatures:
        return identities.evaluation_identity(identity, temperatures, "")
    return identity


def _state(folder: Path, identity: str, evaluation: str, tuning: TuningFacts | None) -> State:
    record = read_record(folder)
    if record is None:
        if folder.is_dir():
            log.warning(_damaged(folder, [RECORD], "trained"))
        return "train"
    if record.status != "complete" or record.identity != identity or not record.files:
        return "train"
    damaged = [name for name in damaged_files(folder, record) if name != LOG]  # which nothing reads
    if not {TEST_SCORES, MISSED, PER_QUERY}.issuperset(damaged):
        log.warning(_damaged(folder, damaged, "trained"))
        return "train"
    if damaged:
        log.warning(_damaged(folder, damaged, "scored"))
        return "score again"
    # the same options may have been found by another search: the record must say by which
    if record.evaluation_identity != evaluation or record.tuning != tuning:
        return "score again"
    return "done"


def _damaged(folder: Path, files: Sequence[str], again: str) -> Caution:
    text = f"damaged or missing: {', '.join(files)}; it is {again} again"
    return Caution("damaged-run", "note", text, place=str(folder))
