"""Running an experiment: read, check, list tasks, execute, compare, report."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median_low
from typing import Any, Literal

from ltr_harness._util.catalog import did_you_mean
from ltr_harness._util.cores import let_idle_threads_sleep, sensible_workers, threads_of
from ltr_harness._util.digests import sha256
from ltr_harness._util.files import sweep_unfinished, write_stored
from ltr_harness._util.stored import DERIVED
from ltr_harness.comparison.comparison import Comparison
from ltr_harness.data.cache import DataCache
from ltr_harness.data.readers.truth import judgment_files
from ltr_harness.errors import DataError, Problem, RankerError, TrainingError, UsageError
from ltr_harness.experiments.compare.ledger import LEDGER, Look, added_only, ledger_content
from ltr_harness.experiments.config import Experiment, as_mapping, load_experiment, resolved_yaml
from ltr_harness.experiments.config.load import settings
from ltr_harness.experiments.config.schema import ModelConfig
from ltr_harness.experiments.runs import Run, load_run
from ltr_harness.experiments.runs.folder import LOG, RECORD, encoded
from ltr_harness.experiments.runs.record import Record
from ltr_harness.experiments.runs.run import PLAN, plan_document
from ltr_harness.experiments.training.check import check, problems_of_options, refuse_errors
from ltr_harness.experiments.training.dask import cluster_at, local_cluster, local_size, run_on_cluster
from ltr_harness.experiments.training.folds import FoldReader, largest_label, with_files
from ltr_harness.experiments.training.job import Cluster, Job, Task, list_tasks, other_files
from ltr_harness.experiments.training.pool import refuse_in_worker, wait_for_shutdowns
from ltr_harness.experiments.training.progress import Progress
from ltr_harness.experiments.training.search import require_optuna, tune
from ltr_harness.experiments.training.study import with_second_wave
from ltr_harness.experiments.training.train import run_here
from ltr_harness.experiments.training.workers import run_in_workers
from ltr_harness.metrics import Metric
from ltr_harness.metrics.core.softmax import TEMPERATURE, ProbabilityMetric
from ltr_harness.models.boosted import DataParallelRanker
from ltr_harness.models.ranker import Ranker, medians
from ltr_harness.report.data import ReportData, experiment_data
from ltr_harness.report.terminal_progress import TerminalProgress
from ltr_harness.report.writing import warm_up, write_files


@dataclass(frozen=True, eq=False)
class Materials:
    """Jobs and files behind a result.

    Attributes:
        jobs: the job, and the one that a study added to it.
        files: the files of the runs, the ledger of comparisons, the stored configuration and plan, and the report, with
            the SHA-256 of what was read from them or written to them.
    """

    jobs: tuple[Job, ...]
    files: Mapping[Path, str]


@dataclass(frozen=True, eq=False)
class ExperimentResult:
    """The result of an experiment.

    Attributes:
        runs: the finished runs, in the plan's order.
        failures: runs that failed; their `record.error` has the reason.
        report: what the report is made from; None if no model finished.
        report_path: the HTML report; None if no model finished.
        folder: the experiment's folder of runs.
        reused: how many runs existed already.
        materials: what the result was made from; None if no model finished, or other commands wrote there meanwhile.
    """

    runs: tuple[Run, ...]
    failures: tuple[Run, ...]
    report: ReportData | None
    report_path: Path | None
    folder: Path
    reused: int = 0
    materials: Materials | None = None

    @property
    def comparison(self) -> Comparison | None:
        """All models at the primary metric and every other; None if no model finished."""
        return self.report.comparison if self.report else None

    def _repr_html_(self) -> str:
        return self.report._repr_html_() if self.report else "<p>no model finished</p>"


def chosen_cluster(workers: int | str | None, dask: str | None) -> AbstractContextManager[Cluster | None]:
    """The cluster that ``dask:N`` workers or a scheduler's address asks for; UsageError where both do."""
    n_local = local_size(workers) if isinstance(workers, str) else None
    if dask is not None and isinstance(workers, str):
        raise UsageError(f"both --dask {dask} and --workers {workers} are given; expected one of the two")
    if dask is not None:
        return cluster_at(dask)
    return nullcontext() if n_local is None else local_cluster(n_local)


def read(
    config: str | Path | Mapping[str, Any],
    *,
    overrides: Sequence[str] = (),
    runs: str | Path = "runs",
    force: bool = False,
    verify: bool = False,
    workers: int | None = 1,
    cluster: Cluster | None = None,
) -> Job:
    """Read an experiment and its data; UsageError where one of them is wrong."""
    if workers is not None and workers < 1:
        raise UsageError(f"workers={workers}; expected at least 1")
    source = config if isinstance(config, Mapping) else Path(config)
    experiment = load_experiment(source, overrides)
    _refuse_missing(experiment, source, overrides)
    reader = FoldReader(experiment.data, DataCache(verify=verify))
    if cluster is not None:
        workers = cluster.n_workers
    elif workers is None:
        workers = _sensible_workers(experiment, reader)
    scale = experiment.data.max_grade
    if scale is None:
        scale = largest_label(reader.read(name) for name in reader.names())
    models = {name: model.with_max_grade(scale) for name, model in _with_features(experiment, reader).items()}
    if cluster is not None:
        models = {name: _with_n_workers(model, cluster.n_workers) for name, model in models.items()}
    experiment = experiment.model_copy(update={"models": models})
    return Job(
        experiment=experiment,
        reader=reader,
        folder=Path(runs).expanduser() / encoded(experiment.name),
        metrics=tuple(metric.with_max_grade(scale) for metric in experiment.metrics.metrics),
        primary=experiment.metrics.primary.with_max_grade(scale),
        stopping=None if experiment.stopping is None else experiment.stopping.rule(scale),
        threads=threads_of(workers) if cluster is None else cluster.threads,
        workers=workers,
        cluster=cluster,
        force=force,
        files=other_files(experiment),
    )


def _sensible_workers(experiment: Experiment, reader: FoldReader) -> int:
    """Return how many processes train as many models as finish first."""
    n_models = 0  # of each fold
    for model in experiment.models.values():
        n_models += len(experiment.seeds) if model.ranker.seed_matters else 1
    largest = max(reader.read(name).train.features.size for name in reader.names())
    return sensible_workers(len(reader.names()) * n_models, largest)


def _with_features(experiment: Experiment, reader: FoldReader) -> dict[str, ModelConfig]:
    """Return the models with names of the data's features in the place of patterns; refuse patterns of none."""
    if not any(model.ranker.selects_features for model in experiment.models.values()):
        return experiment.models
    all_names = [name for fold in reader.names() for name in reader.read(fold).train.feature_names]
    names, models = list(dict.fromkeys(all_names)), {}
    problems: list[Problem] = []
    for name, model in experiment.models.items():
        try:
            models[name] = model.with_features(names)
        except RankerError as error:
            problems += problems_of_options(name, model, error.problems)
    UsageError.refuse(dict.fromkeys(problems))
    return models


def _with_n_workers(model: ModelConfig, n_workers: int) -> ModelConfig:
    """Return the model, trained across the workers of a cluster where its ranker is."""
    if not isinstance(model.ranker, DataParallelRanker):
        return model
    return model.model_copy(update={"ranker": model.ranker.with_n_workers(n_workers)})


def _refuse_missing(
    experiment: Experiment, source: Path | Mapping[str, Any], overrides: Sequence[str]
) -> None:
    """Refuse files that are not there, at the line of the configuration that names them."""
    data, problems = experiment.data, []
    inputs: list[tuple[str, Any, Callable[..., Any]]] = [
        (f"data.splits.{fold}.{part}", getattr(split, part), data.reader.inputs)
        for fold, split in data.splits.items()
        for part in ("train", "valid", "test")
    ]
    inputs.append(("data.files", data.files, data.reader.inputs))
    if data.judgments is not None:
        judged = {**data.judgments.by_split, "files": data.judgments.files}
        inputs += [(f"data.judgments.{key}", files, judgment_files) for key, files in judged.items()]
    for key, files, look_for in inputs:
        try:
            if isinstance(files, tuple):  # neither a hold-out nor nothing
                look_for(files, data.root)
        except DataError as error:
            origins = {path: origin for path, _, origin in settings(source, overrides)}
            place = origins.get(key, "")
            problems += [
                replace(problem, place=f"{place}: {problem.place}".lstrip(": ")) for problem in error.problems
            ]
    DataError.refuse(dict.fromkeys(problems))


def prepare(job: Job, accept: Collection[str] = ()) -> Job:
    """Everything between reading and training: check models and metrics against the data, lint it, list the tasks."""
    job = list_tasks(check(job, accept))
    if job.open_studies:
        require_optuna()
    return job


def run_experiment(
    config: str | Path | Mapping[str, Any],
    *,
    overrides: Sequence[str] = (),
    runs: str | Path = "runs",
    workers: int | str | None = None,
    dask: str | None = None,
    force: bool = False,
    fail_fast: bool = False,
    on_failure: Literal["raise", "keep"] = "raise",
    accept: Collection[str] = (),
    progress: Progress | None = None,
) -> ExperimentResult:
    """Train what is missing, compare, report: `ltr-harness run` in Python.

    Args:
        config: an experiment file, or the same as a mapping, whose ``data`` may hold `RankingDataset` s as ``train``,
            ``valid``, ``test`` or ``files``: they are kept as Parquet beside the runs.
        overrides: ``"a.b=value"`` texts, applied last.
        runs: folder under which the experiment's folder of runs is kept.
        workers: processes; each gets its share of the cores. None: as many as finish first, as the command has it;
            1: this process. ``"dask:4"``: a Dask cluster of so many processes on this machine; in a script of your
            own, call that below ``if __name__ == "__main__":``, because its processes import the script.
        dask: address of a Dask cluster's scheduler, or its scheduler file, to train there.
        force: train everything again.
        fail_fast: stop at the first model that fails; otherwise the others go on.
        on_failure: whether a model that failed is an error once the others are compared, or is found in `failures`.
        accept: data lints whose errors are meant, such as ``["leaking-feature"]``: they stand in the records and
            beside the result instead of ending it.
        progress: called with each event; None shows it on a terminal and in a notebook. ``Progress()`` is silent.

    Raises:
        UsageError: configuration, data or models are wrong, or a data lint finds an error; nothing was run.
        TrainingError: runs failed; those that finished are kept, compared and reported.
    """
    if on_failure not in ("raise", "keep"):
        raise UsageError(f"on_failure={on_failure!r}; expected 'raise' or 'keep'")
    if workers != 1:
        refuse_in_worker()
    in_time = let_idle_threads_sleep()
    # in Python, the result shows the table
    watching = TerminalProgress(quiet=False, table=False) if progress is None else None
    listener_context = watching if watching and watching.is_watched else nullcontext(progress or Progress())
    with chosen_cluster(workers, dask) as cluster, listener_context as listener:
        n_workers = workers if isinstance(workers, int) else None
        config = with_files(config, runs)
        job = read(config, overrides=overrides, runs=runs, force=force, workers=n_workers, cluster=cluster)
        in_processes = workers is None and not in_time
        result = run_prepared(
            prepare(job, accept), fail_fast=fail_fast, progress=listener, in_processes=in_processes
        )
    if on_failure == "raise":
        records = [run.record for run in result.failures]
        TrainingError.refuse(_failure(record) for record in records)
    return result


def _failure(record: Record) -> Problem:
    return Problem(f"{record.model}, {record.fold}, seed {record.seed}", str(record.error))


@dataclass(frozen=True, eq=False)
class _TrainingPlan:
    """An experiment whose searches are over: what is trained, and that its folder says so."""

    job: Job
    configuration: str  # as stored, in YAML
    written: Mapping[Path, bytes]  # the stored configuration and plan
    todo: tuple[Task, ...]
    first_wave: _TrainingPlan | None = None  # of a study that trains models once more

    @property
    def waves(self) -> list[_TrainingPlan]:
        """The plan, after that of a study's first wave."""
        return [self] if self.first_wave is None else [self.first_wave, self]

    @property
    def is_tested(self) -> bool:
        """True where every fold has rows to test on; a final model's data have none."""
        return all("test" in fold.splits for fold in self.job.folds)


def run_prepared(
    job: Job, *, fail_fast: bool = False, progress: Progress | None = None, in_processes: bool = False
) -> ExperimentResult:
    """The part of `run_experiment` that trains; without a report where no rows are left to test on."""
    progress = progress or Progress()
    _refuse_unfit(job)
    plan = _plan(job, progress)
    runs = _train(plan, progress, fail_fast, in_processes)
    further = with_second_wave(plan.job, runs)
    if further is not None:
        plan = replace(_plan(further, progress), first_wave=plan)
        runs = _train(plan, progress, fail_fast, in_processes)
    progress.reporting()
    return _report(plan, runs, progress)


def _refuse_unfit(job: Job) -> None:
    """Refuse models that need a cluster where there is none, and data in which lints found errors."""
    cure = "add --dask ADDRESS or --workers dask:N"
    UsageError.refuse(
        Problem(f"models.{name}.data_parallel", "needs a Dask cluster", cure=cure)
        for name, model in job.experiment.models.items()
        if job.cluster is None and getattr(model.ranker, "data_parallel", False)
    )
    refuse_errors(job.cautions)


def _plan(job: Job, progress: Progress) -> _TrainingPlan:
    """Store the configuration, use up the budgets of searches, and store the plan of runs."""
    job.folder.mkdir(parents=True, exist_ok=True)
    sweep_unfinished(job.folder)
    text = resolved_yaml(job.experiment)
    configuration = text.encode("utf-8", "backslashreplace")
    write_stored(job.folder / "experiment.yaml", configuration)
    progress.planned(job)
    if job.open_studies:
        tune(job, progress)
        job = list_tasks(job, tuned=True)
        progress.planned(job)
    plan = plan_document([task.folder.name for task in job.tasks])
    write_stored(job.folder / PLAN, plan)
    written = {job.folder / "experiment.yaml": configuration, job.folder / PLAN: plan}
    return _TrainingPlan(job, text, written, tuple(task for task in job.tasks if task.state != "done"))


def _train(plan: _TrainingPlan, progress: Progress, fail_fast: bool, in_processes: bool) -> list[Run]:
    """Train what is to be trained; the runs of all tasks, in the plan's order."""
    job, todo = plan.job, plan.todo
    if todo and plan.is_tested:  # the report's libraries are loaded meanwhile
        threading.Thread(target=warm_up, args=(job.experiment.report.formats,)).start()
    workers = min(job.workers, len(todo))
    if job.cluster is not None:
        trained = run_on_cluster(todo, job, job.cluster, progress)
    elif workers > 1 or (in_processes and todo):
        trained = run_in_workers(todo, job, workers, progress)
    else:
        trained = run_here(todo, job, progress)
    ended: list[Task] = []
    with _explain_removal(job.folder, ended):
        for task, run in trained:
            ended.append(task)
            progress.finished(task, run)
            if run.record.status == "failed" and fail_fast:
                raise TrainingError(f"{task}: {run.record.error}; stopped because of --fail-fast")
        return [load_run(task.folder) for task in job.tasks]


def _report(plan: _TrainingPlan, runs: Sequence[Run], progress: Progress) -> ExperimentResult:
    """Compare the models of the runs and write the report."""
    job, data, path, materials = plan.job, None, None, None
    ledger = ledger_content(job.folder.parent)
    if plan.is_tested:
        data = experiment_data(job.experiment, plan.configuration, runs)
    if data is not None:
        progress.compared(data)
        path, report = write_files(data, job.folder / "report", job.experiment.report.formats)
        materials = _materials(plan, runs, data, ledger, report)
    wait_for_shutdowns()
    return ExperimentResult(
        runs=tuple(run for run in runs if run.record.status == "complete"),
        failures=tuple(run for run in runs if run.record.status == "failed"),
        report=data,
        report_path=path,
        folder=job.folder,
        reused=len(job.tasks) - sum(len(wave.todo) for wave in plan.waves),
        materials=materials,
    )


def _materials(
    plan: _TrainingPlan, runs: Sequence[Run], data: ReportData, ledger: bytes, report: Mapping[Path, bytes]
) -> Materials | None:
    """Return what a report was made from; None where another command has added to the ledger since it was read."""
    files = {path: sha256(content) for path, content in [*plan.written.items(), *report.items()]}
    for run in runs:
        files |= {run.path / name: digest for name, digest in run.record.files.items() if name != LOG}
        files[run.path / RECORD] = run.record_digest
    look = Look.of([run.record for run in data.runs], data.primary)
    if plan.job.experiment.compare.ledger and look is not None:
        folder = plan.job.folder.parent
        content = ledger_content(folder)
        if not content or not added_only(look, ledger, content, folder):
            return None
        files[folder / LEDGER] = sha256(content)
    return Materials(tuple(wave.job for wave in plan.waves), files)


@contextmanager
def _explain_removal(folder: Path, ended: Sequence[Task]) -> Iterator[None]:
    """Name the removal of runs as the cause of errors while others were trained; something was run."""
    try:
        yield
    except (OSError, DataError):
        removed_folders = [task.folder for task in ended if not task.folder.is_dir()]
        if folder.is_dir() and not removed_folders:
            raise
        place = removed_folders[0] if removed_folders else folder
        found, cure = "was removed while models were trained", "run the same command again"
        raise TrainingError.at(place, found, cure=cure) from None


def check_final(experiment: Experiment, model: str) -> None:
    """Raise a UsageError for what can be known before anything is trained: no such model, or several splits."""
    if model not in experiment.models:
        raise UsageError(f"--final: {model!r} is not a model; {did_you_mean(model, experiment.models)}")
    if len(experiment.data.splits) > 1:
        raise UsageError(
            "--final: the data have several splits, each with other test queries; "
            "expected one split into train, valid and test, or `folds:` of one set of files"
        )


def _learned(run: Run, ranker: Ranker) -> Mapping[str, Any]:
    """Return what a run learned, with what its library derived, which earlier versions did not record."""
    learned = run.record.learned
    if DERIVED in learned:
        return learned
    derived = ranker.derived_params(run.record.params, partial(run.load_model_as, type(ranker)))
    return {**learned, DERIVED: derived} if derived else learned


def final_experiment(experiment: Experiment, runs: Sequence[Run], model: str) -> dict[str, Any]:
    """An experiment of the one model, which stops nowhere: it takes the median of the rounds that stopping found.

    So it does with parameters that a library derived, and with temperatures. A blend comes with its parts and the mean
    weights. Test queries of a split stay unseen; with `folds`, `train_on_all` trains it.
    """
    check_final(experiment, model)
    mapping, models = as_mapping(experiment), {}
    for name in (*experiment.models[model].ranker.parts(), model):
        finished = [run for run in runs if run.record.model == name]
        models[name] = mapping["models"][name] | _final_options(experiment, name, finished)
    for split in mapping["data"].get("splits", {}).values():
        valid = split.pop("valid", None)
        if isinstance(valid, list):  # a share of the training queries is among them anyway
            split["train"] = [*split["train"], *valid]
            judgments = mapping["data"].get("judgments", {})
            if "valid" in judgments:
                judgments["train"] = [*judgments.get("train", []), *judgments.pop("valid")]
    mapping.pop("tune", None)
    return mapping | {
        "name": f"{experiment.name}-final",
        "stopping": None,
        "models": models,
        "compare": mapping["compare"] | {"baseline": model},
    }


def _final_options(experiment: Experiment, name: str, runs: Sequence[Run]) -> dict[str, Any]:
    """Return the options that a final model takes from the finished runs of the compared one."""
    records, ranker = [run.record for run in runs], experiment.models[name].ranker
    if not records:
        raise UsageError(f"--final: no run of {name} has finished; expected at least one")
    if any(record.tuning is not None for record in records):
        raise UsageError(
            f"--final: {name} was tuned, and each seed and fold may have other options; "
            "expected a model with its options written out"
        )
    options = dict(ranker.carried(_learned(run, ranker) for run in runs))
    rounds = [record.best_round for record in records if record.best_round is not None]
    if rounds:
        options["rounds"] = int(median_low(rounds))
    temperatures = _temperatures(experiment.metrics.metrics, records)
    if temperatures:
        options["carried"] = {TEMPERATURE: temperatures}
    return options


def _temperatures(metrics: Sequence[Metric], records: Sequence[Record]) -> dict[str, float]:
    """The median T of each of the metrics that takes one, where all records have it."""
    names = [
        str(metric) for metric in metrics if isinstance(metric, ProbabilityMetric) and metric.takes_fitted
    ]
    if not names:
        return {}
    fitted = []
    for record in records:
        fitted.append({name: t for name, t in record.temperatures.items() if name in names})
    return medians(fitted)


def train_on_all(config: Mapping[str, Any], runs: Path) -> ExperimentResult:
    """Train an experiment's models on all rows that its folds divide; none is left to evaluate them on."""
    job = read(config, runs=runs)
    return run_prepared(list_tasks(replace(job, reader=FoldReader(job.experiment.data, undivided=True))))
