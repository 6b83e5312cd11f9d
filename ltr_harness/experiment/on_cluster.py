"""The runs of a plan on a Dask cluster: this side of it, and what its workers do.

A worker trains in a folder of its own and sends the finished run folder back as bytes, so that no disk needs to
be shared; this process puts it in its place as it does with its own. Data go the other way only to workers that do
not see the files at the same path.
"""

from __future__ import annotations

import tempfile
import threading
import uuid
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from ltr_harness.config import as_mapping, load_experiment
from ltr_harness.config.experiment import Experiment
from ltr_harness.dataset import RankingDataset
from ltr_harness.errors import DataError, Problem, TrainingError, UsageError
from ltr_harness.experiment.cluster import Cluster, is_data_parallel, load_distributed
from ltr_harness.experiment.dispatch import Said, dispatch, now_and_then
from ltr_harness.experiment.execute import execute
from ltr_harness.experiment.facts import other_than
from ltr_harness.experiment.folds import Fold, FoldReader
from ltr_harness.experiment.plan import Plan, Task
from ltr_harness.experiment.progress import Progress
from ltr_harness.experiment.workers import run_here
from ltr_harness.rankers.ranker import Workers
from ltr_harness.runs import Run, load_run
from ltr_harness.runs.folder import receive
from ltr_harness.runs.identity import package_versions

NEW_WORKER_WITHIN = 120
"""Seconds after which a cluster that has lost its last worker is given up."""


def run_on_cluster(
    tasks: Sequence[Task],
    experiment: Experiment,
    plan: Plan,
    reader: FoldReader,
    cluster: Cluster,
    progress: Progress,
) -> Iterator[tuple[Task, Run]]:
    """Each run on one worker of the cluster, with all its threads; a task's result does not depend on which.

    Args:
        tasks: in the plan's order.
        experiment: the resolved configuration.
        plan: what the tasks are part of.
        reader: gives the folds.
        cluster: the workers and their threads.
        progress: told of what happens.

    Raises:
        UsageError: a worker has other versions of what grows the trees, or lacks a file.
        TrainingError: the cluster has lost all its workers.
    """
    here = [task for task in tasks if task.state == "score again"]  # the models are here, and it is quick
    yield from run_here(here, experiment, plan, reader, cluster.threads, progress)
    new = [task for task in tasks if task.state != "score again"]
    across = [task for task in new if is_data_parallel(experiment.models[task.model])]
    crew = DaskCrew(cluster, experiment, plan, reader)
    try:
        yield from dispatch([task for task in new if task not in across], crew, progress)
        for task in across:  # each takes the whole cluster
            progress.started(task)
            on_round = partial(progress.round, task)
            fold = reader.read(task.fold)
            yield (
                task,
                execute(
                    task, experiment, plan, fold, cluster.threads, on_round, workers=crew.for_parts(task.fold)
                ),
            )
    finally:
        crew.dismiss()


@dataclass(frozen=True)
class Job:
    """What a worker must know besides the task.

    Attributes:
        topic: names this command's runs among all that the cluster does.
        settings: the experiment as plain values: classes from a user's own file cannot be pickled.
        plan: without its tasks.
    """

    topic: str
    settings: Mapping[str, Any]
    plan: Plan
    threads: int


class DaskCrew:
    """The cluster's workers, for `dispatch`. Each trains one run at a time, whatever number of threads it has."""

    def __init__(self, cluster: Cluster, experiment: Experiment, plan: Plan, reader: FoldReader) -> None:
        self._client = cluster.client
        self._experiment, self._plan, self._reader = experiment, plan, reader
        self._job = Job(
            f"ltr-harness-{uuid.uuid4().hex[:12]}",
            as_mapping(experiment),
            replace(plan, tasks=()),
            cluster.threads,
        )
        self._sees_data: dict[str, bool] = {}
        self._sent: dict[str, tuple[str, Any]] = {}
        self._said: deque[Said] = deque()
        self._seen_worker = monotonic()
        self._client.subscribe_topic(self._job.topic, lambda event: self._said.append(event[1]))

    def workers(self) -> Collection[str]:
        present = list(self._client.nthreads())
        for worker in present:
            if worker not in self._sees_data:
                self._welcome(worker)
        if present:
            self._seen_worker = monotonic()
        elif monotonic() - self._seen_worker > NEW_WORKER_WITHIN:
            raise TrainingError(
                f"the cluster has had no worker for {NEW_WORKER_WITHIN} s; what finished is kept: run the same "
                "command again when it has"
            )
        return [worker for worker in present if worker in self._sees_data]

    def submit(self, worker: str, task: Task) -> Future[dict[str, bytes]]:
        data = None if self._sees_data[worker] else self._data_on(worker, task.fold)
        executor = self._client.get_executor(workers=[worker], pure=False)
        future: Future[dict[str, bytes]] = executor.submit(
            train_there, self._job, task, self._reader.read(task.fold).facts, data
        )
        return future

    def result(self, task: Task, future: Future[dict[str, bytes]]) -> Run:
        return load_run(receive(future.result(), task.folder))

    def deaths(self) -> tuple[type[BaseException], ...]:
        distributed = load_distributed()
        cancelled: type[BaseException] = distributed.client.FutureCancelledError
        return (distributed.KilledWorker, cancelled)

    def said(self) -> Iterable[Said]:
        while self._said:
            yield self._said.popleft()

    def replace(self, worker: str) -> None:
        """Whoever runs the cluster restarts its workers."""

    def lost(self, task: Task, problem: TrainingError) -> Run:
        fold = self._reader.read(task.fold)
        return execute(task, self._experiment, self._plan, fold, self._job.threads, failure=problem)

    def for_parts(self, fold: str) -> Workers:
        """The cluster for a model that is trained across it."""
        facts = self._reader.read(fold).facts

        def load(worker: str, split: str, first: int, end: int) -> Any:
            if worker not in self._sees_data:
                self._welcome(worker)
            there = {"workers": [worker], "allow_other_workers": False, "pure": False}
            if self._sees_data.get(worker):
                return self._client.submit(part_there, self._job, fold, facts, split, first, end, **there)
            part = self._reader.read(fold).splits[split].take(np.arange(first, end))
            return self._client.scatter(part, workers=[worker], hash=False)

        return Workers(self._client, load)

    def dismiss(self) -> None:
        """Have the workers stop at the next round whatever they still train for this command."""
        self._client.unsubscribe_topic(self._job.topic)
        self._client.run(stop, self._job.topic, on_error="ignore")

    def _welcome(self, worker: str) -> None:
        """Find out whether a worker can do the work, and whether it sees the data."""
        experiment = self._experiment
        packages = {"ltr-harness"}.union(*(model.ranker.packages for model in experiment.models.values()))
        here = package_versions(sorted(packages))
        inputs = self._inputs()
        try:
            answer = self._client.run(
                look_around, sorted(packages), inputs, dict(self._plan.files), workers=[worker]
            )
        except OSError:
            answer = {}
        except ModuleNotFoundError as problem:
            raise UsageError(
                f"worker {worker} cannot import {problem.name!r}; expected ltr-harness[dask] on every worker"
            ) from None
        if worker not in answer:  # it went away while it was asked
            return
        versions, sees_data, wrong = answer[worker]
        problems = [
            Problem(worker, f"has {name} {versions.get(name, 'not at all')}", f"{version}, as here")
            for name, version in here.items()
            if versions.get(name) != version
        ]
        problems += [Problem(worker, found, cure="share its folder") for found in wrong]
        if problems:
            raise UsageError(problems)
        self._sees_data[worker] = sees_data

    def _inputs(self) -> list[tuple[str, int]]:
        """The data files of all folds, and their sizes."""
        root = self._experiment.data.root
        paths = {
            root / name
            for fold in self._reader.names()
            for facts in self._reader.read(fold).facts.values()
            for name in facts.files
        }
        return [(str(path), path.stat().st_size if path.exists() else -1) for path in sorted(paths)]

    def _data_on(self, worker: str, name: str) -> Any:
        """A fold in a worker's memory: sent once, and gone when the worker goes on to another."""
        sent = self._sent.get(worker)
        if sent is None or sent[0] != name:
            self._sent.pop(worker, None)
            fold = self._client.scatter(self._reader.read(name), workers=[worker], hash=False)
            self._sent[worker] = sent = (name, fold)
        return sent[1]


# --- what happens on a worker ---

_one_at_a_time = threading.Lock()  # two experiments may use the same cluster
_opened: tuple[str, Experiment, FoldReader] | None = None
_stopped: set[str] = set()


def look_around(
    packages: Sequence[str], inputs: Sequence[tuple[str, int]], needed: Mapping[str, str]
) -> tuple[dict[str, str], bool, list[str]]:
    """A worker's versions, whether it sees the data files, and what is wrong with the other files there.

    Args:
        packages: whose versions are asked for.
        inputs: data files and their sizes.
        needed: other files and their digests.
    """
    sees_data = all(Path(path).is_file() and Path(path).stat().st_size == size for path, size in inputs)
    wrong = [
        f"sees another {path} than there is here" if Path(path).exists() else f"does not see {path}"
        for path in other_than(needed)
    ]
    return package_versions(packages), sees_data, wrong


def stop(topic: str) -> None:
    """End the run in progress at its next round, if it belongs to a command that is over."""
    _stopped.add(topic)


def train_there(job: Job, task: Task, facts: Mapping[str, Any], fold: Fold | None) -> dict[str, bytes]:
    """One run on a worker: name to content of the files in its folder.

    Args:
        job: what all tasks have in common.
        task: which run.
        facts: what this side knows of the fold's data.
        fold: the data, where the worker does not see the files.
    """
    worker = load_distributed().get_worker()

    def say(said: Said) -> None:
        if job.topic in _stopped:
            raise TrainingError("the command that asked for this run is over")
        worker.log_event(job.topic, said)

    with _one_at_a_time, tempfile.TemporaryDirectory(dir=worker.local_directory) as folder:
        experiment, reader = _experiment_of(job)
        if fold is None:
            fold = reader.read(task.fold)
            if fold.facts != facts:
                root = experiment.data.root
                raise DataError(
                    Problem(f"{worker.address}: {root}", "holds other data than the same path here")
                )
        there = replace(task, folder=Path(folder) / task.folder.name)
        execute(there, experiment, job.plan, fold, job.threads, now_and_then(task, say))
        return {path.name: path.read_bytes() for path in there.folder.iterdir()}


def part_there(
    job: Job, fold: str, facts: Mapping[str, Any], split: str, first: int, end: int
) -> RankingDataset:
    """Some queries of a split; of their features, nothing is read before they are used.

    Args:
        job: what all tasks have in common.
        fold: its name.
        facts: what this side knows of the fold's data.
        split: its name.
        first: the first query.
        end: the query after the last.
    """
    return _fold_seen(job, fold, facts).splits[split].take(np.arange(first, end))


def _fold_seen(job: Job, name: str, facts: Mapping[str, Any]) -> Fold:
    experiment, reader = _experiment_of(job)
    fold = reader.read(name)
    if fold.facts != facts:
        place = f"{load_distributed().get_worker().address}: {experiment.data.root}"
        raise DataError(Problem(place, "holds other data than the same path where the command was given"))
    return fold


def _experiment_of(job: Job) -> tuple[Experiment, FoldReader]:
    global _opened
    if _opened is None or _opened[0] != job.topic:
        experiment = load_experiment(job.settings, check_rankers=False)
        _opened = (job.topic, experiment, FoldReader(experiment.data))
    return _opened[1:]
