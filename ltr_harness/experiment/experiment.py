"""The whole road: configuration, data, plan, runs, comparison, report."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ltr_harness.atomic import sweep_unfinished, write_whole
from ltr_harness.cache import DataCache
from ltr_harness.comparison import Comparison
from ltr_harness.config import Experiment, load_experiment, outline_of, resolved_yaml
from ltr_harness.config.load import settings
from ltr_harness.errors import DataError, Problem, TrainingError, UsageError
from ltr_harness.experiment.cluster import Cluster, across_all, chosen_cluster, refuse_without_cluster
from ltr_harness.experiment.findings import findings_of, refuse_errors
from ltr_harness.experiment.folds import FoldReader
from ltr_harness.experiment.on_cluster import run_on_cluster
from ltr_harness.experiment.plan import Plan, Task, plan
from ltr_harness.experiment.pool import refuse_in_worker, wait_until_gone
from ltr_harness.experiment.progress import Progress
from ltr_harness.experiment.search import require_optuna
from ltr_harness.experiment.tuning import tune
from ltr_harness.experiment.workers import (
    available_cores,
    run_here,
    run_in_workers,
    sensible_workers,
)
from ltr_harness.report import ReportData, warm_up, write_report
from ltr_harness.report.stored import experiment_data
from ltr_harness.runs import Run, load_run
from ltr_harness.runs.folder import encoded
from ltr_harness.runs.run import write_plan


@dataclass(frozen=True, eq=False)
class ExperimentResult:
    """What running an experiment gives.

    Attributes:
        runs: the finished runs, in the plan's order.
        failures: runs that failed; their `record.error` says why.
        report: what the report is made from; None if no model finished.
        report_path: the HTML report; None if no model finished.
        folder: the experiment's folder of runs.
        reused: how many runs existed already.
    """

    runs: tuple[Run, ...]
    failures: tuple[Run, ...]
    report: ReportData | None
    report_path: Path | None
    folder: Path
    reused: int = 0

    @property
    def comparison(self) -> Comparison | None:
        """All models at the primary metric and every other; None if no model finished."""
        return self.report.comparison if self.report else None

    def _repr_html_(self) -> str:
        return self.comparison._repr_html_() if self.comparison else "<p>no model finished</p>"


@dataclass(frozen=True, eq=False)
class Prepared:
    """An experiment whose data is read and whose plan stands; nothing has been trained."""

    experiment: Experiment
    reader: FoldReader
    plan: Plan
    folder: Path
    workers: int = 1
    cluster: Cluster | None = None
    force: bool = False

    @property
    def threads(self) -> int:
        """Each worker's share of the cores."""
        return self.cluster.threads if self.cluster else threads_of(self.workers)


def threads_of(workers: int) -> int:
    """Threads that a model is trained with when so many are trained at once."""
    return max(1, available_cores() // workers)


def prepare(
    config: str | Path | Mapping[str, Any],
    *,
    overrides: Sequence[str] = (),
    runs: str | Path = "runs",
    force: bool = False,
    verify: bool = False,
    workers: int | None = 1,
    cluster: Cluster | None = None,
    accept: Collection[str] = (),
) -> Prepared:
    """Everything but training: parse, resolve, read data, check models and metrics against it, lint it, plan.

    Args:
        config: an experiment file, or the same as a mapping.
        overrides: ``"a.b=value"`` texts, applied last.
        runs: folder under which the experiment's folder of runs is kept.
        force: plan to train everything again.
        verify: hash all data again, whatever the cache remembers of the files.
        workers: processes; each gets its share of the cores, which some settings depend on. None: as many as
            finish first.
        cluster: train there instead, with the threads that its workers have.
        accept: data lints whose errors are meant. What the others find stands in the plan; `run_prepared` refuses.

    Raises:
        UsageError: every problem found.
    """
    if workers is not None and workers < 1:
        raise UsageError(f"workers={workers}; expected at least 1")
    source = config if isinstance(config, Mapping) else Path(config)
    experiment = load_experiment(source, overrides)
    _refuse_missing(experiment, source, overrides)
    reader = FoldReader(experiment.data, DataCache(verify=verify))
    runs = Path(runs).expanduser()
    folder = runs / encoded(experiment.name)
    if cluster is not None:
        experiment, workers = across_all(experiment, cluster), cluster.n_workers
    elif workers is None:
        workers = _workers_for(experiment, reader)
    threads = cluster.threads if cluster else threads_of(workers)
    planned = plan(experiment, reader, runs, threads=threads, workers=workers, force=force)
    if planned.open_studies:
        require_optuna()
    planned = replace(planned, findings=findings_of(reader, planned.metrics, accept))
    return Prepared(experiment, reader, planned, folder, workers, cluster, force)


def _refuse_missing(
    experiment: Experiment, source: Path | Mapping[str, Any], overrides: Sequence[str]
) -> None:
    """Refuse files that are not there, at the line of the configuration that names them."""
    data = experiment.data
    named = {
        f"data.splits.{fold}.{part}": getattr(split, part)
        for fold, split in data.splits.items()
        for part in ("train", "valid", "test")
    }
    problems: list[Problem] = []
    for key, files in {**named, "data.files": data.files}.items():
        if not isinstance(files, tuple):  # a hold-out, or nothing
            continue
        try:
            data.reader.inputs(files, data.root)
        except DataError as error:
            origins = {setting.path: setting.origin for setting in settings(source, overrides)}
            place = origins.get(key, "")
            problems += [replace(one, place=f"{place}: {one.place}".lstrip(": ")) for one in error.problems]
    if problems:
        raise DataError(list(dict.fromkeys(problems)))


def _workers_for(experiment: Experiment, reader: FoldReader) -> int:
    n_runs = len(reader.names()) * sum(
        len(experiment.seeds) if model.ranker.seed_matters else 1 for model in experiment.models.values()
    )
    largest = max(reader.read(name).train.features.size for name in reader.names())
    return sensible_workers(n_runs, largest)


def run_experiment(
    config: str | Path | Mapping[str, Any],
    *,
    overrides: Sequence[str] = (),
    runs: str | Path = "runs",
    workers: int | str | None = 1,
    dask: str | None = None,
    force: bool = False,
    fail_fast: bool = False,
    accept: Collection[str] = (),
    progress: Progress | None = None,
) -> ExperimentResult:
    """Train what is missing, compare, report.

    Args:
        config: an experiment file, or the same as a mapping.
        overrides: ``"a.b=value"`` texts, applied last.
        runs: folder under which the experiment's folder of runs is kept.
        workers: processes; each gets its share of the cores. None: as many as finish first. ``"dask:4"``: a Dask
            cluster of so many processes on this machine. With other than 1 in a script of your own, call this below
            ``if __name__ == "__main__":``, because new processes import the script.
        dask: address of a Dask cluster's scheduler, or its scheduler file, to train there.
        force: train everything again.
        fail_fast: stop at the first model that fails; otherwise the others go on.
        accept: data lints whose errors are meant, such as ``["leaking-feature"]``: they stand in the records and
            beside the result instead of ending it.
        progress: told what happens.

    Raises:
        UsageError: configuration, data or models are wrong, or a data lint finds an error; nothing was run.
        TrainingError: with `fail_fast`, the first failure.
    """
    if workers != 1:
        refuse_in_worker()
    with chosen_cluster(workers, dask) as cluster:
        n_workers = workers if isinstance(workers, int) else None
        prepared = prepare(
            config,
            overrides=overrides,
            runs=runs,
            force=force,
            workers=n_workers,
            cluster=cluster,
            accept=accept,
        )
        return run_prepared(prepared, fail_fast=fail_fast, progress=progress)


def run_prepared(
    prepared: Prepared, *, fail_fast: bool = False, progress: Progress | None = None
) -> ExperimentResult:
    """The part of `run_experiment` that trains.

    Args:
        prepared: from `prepare`.
        fail_fast: stop at the first model that fails.
        progress: told of what happens.
    """
    watcher = progress or Progress()
    folder = prepared.folder
    refuse_without_cluster(prepared.experiment, prepared.cluster)
    refuse_errors(prepared.plan.findings)
    folder.mkdir(parents=True, exist_ok=True)
    sweep_unfinished(folder)
    write_whole(folder / "experiment.yaml", resolved_yaml(prepared.experiment))
    watcher.planned(prepared.plan, prepared.threads)
    if prepared.plan.open_studies:
        prepared = _tuned(prepared, watcher)
        watcher.planned(prepared.plan, prepared.threads)
    plan_ = prepared.plan
    write_plan(folder, [task.folder.name for task in plan_.tasks])
    todo = [task for task in plan_.tasks if task.state != "done"]
    if todo:
        threading.Thread(target=warm_up).start()
    for task, run in _trained(prepared, todo, watcher):
        watcher.finished(task, run)
        if run.record.status == "failed" and fail_fast:
            raise TrainingError(f"{task}: {run.record.error}; stopped because of --fail-fast")
    watcher.reporting()
    result = _concluded(prepared, watcher, reused=len(plan_.tasks) - len(todo))
    wait_until_gone()
    return result


def _tuned(prepared: Prepared, watcher: Progress) -> Prepared:
    """The same with every search made, so that all runs are known."""
    tune(
        prepared.plan,
        prepared.experiment,
        prepared.reader,
        threads=prepared.threads,
        workers=1 if prepared.cluster else prepared.workers,
        progress=watcher,
        anew=prepared.force,
    )
    planned = plan(
        prepared.experiment,
        prepared.reader,
        prepared.folder.parent,
        threads=prepared.threads,
        workers=prepared.workers,
        force=prepared.force,
        tuned=True,
    )
    return replace(prepared, plan=replace(planned, findings=prepared.plan.findings))


def _trained(prepared: Prepared, todo: list[Task], watcher: Progress) -> Iterator[tuple[Task, Run]]:
    """What is to do, done: on a cluster, in processes, or here."""
    parts = (prepared.experiment, prepared.plan, prepared.reader)
    if prepared.cluster is not None:
        return run_on_cluster(todo, *parts, prepared.cluster, watcher)
    workers = min(prepared.workers, len(todo))
    if workers > 1:
        return run_in_workers(todo, *parts, prepared.threads, workers, watcher)
    return run_here(todo, *parts, prepared.threads, watcher)


def _concluded(prepared: Prepared, watcher: Progress, reused: int) -> ExperimentResult:
    """Compare and report what the plan's folders hold."""
    found = [load_run(task.folder) for task in prepared.plan.tasks]
    runs = tuple(run for run in found if run.record.status == "complete")
    failures = tuple(run for run in found if run.record.status == "failed")
    data = experiment_data(outline_of(prepared.experiment), found)
    path = None
    if data is not None:
        watcher.compared(data)
        path = write_report(data, prepared.folder / "report")
    return ExperimentResult(runs, failures, data, path, prepared.folder, reused)
