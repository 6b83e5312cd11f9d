"""Dask clusters, somewhere else or of processes of this machine, and runs that are trained on them.

A worker trains in a folder of its own and sends the finished run folder back as bytes, so that no disk needs to
be shared; this process puts it in its place as it does with its own. Data go the other way only to workers that do
not see the files at the same path.
"""

import atexit
import logging
import signal
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from multiprocessing import resource_tracker
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np

from ltr_harness._util.cores import available_cores
from ltr_harness._util.stored import TrainingQueries
from ltr_harness.data.addresses import refuse_secrets
from ltr_harness.data.dataset import RankingDataset
from ltr_harness.errors import MAIN_GUARD, DataError, Problem, TrainingError, UsageError, optional_module
from ltr_harness.experiments.runs import Run, load_run
from ltr_harness.experiments.runs.folder import receive
from ltr_harness.experiments.runs.identity import package_versions
from ltr_harness.experiments.training.folds import Fold
from ltr_harness.experiments.training.job import Cluster, Job, SentJob, Task, changed_files
from ltr_harness.experiments.training.pool import isolated, worker_context
from ltr_harness.experiments.training.train import execute, run_here
from ltr_harness.experiments.training.workers import Rounds, WorkerPool, batched, dispatch
from ltr_harness.models.ranker import Workers

if TYPE_CHECKING:
    from ltr_harness.experiments.training.progress import Progress


CONNECT_WITHIN = 10
"""Seconds a scheduler has to answer."""
FIRST_WORKER_WITHIN = 60
"""Seconds the first worker has to appear."""

_LOCAL = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "5s",
}
"""Dask's settings of a local cluster. By default two idle workers take a tenth of a core, to watch themselves."""


def local_size(workers: str) -> int:
    """N of ``dask:N``; UsageError for anything else."""
    head, _, number = workers.partition(":")
    if head != "dask" or not (number.isascii() and number.isdigit()) or int(number) < 1:
        raise UsageError(
            f"workers {workers!r}; expected a number >= 1, or dask:N for a local Dask cluster of N"
        )
    return int(number)


@contextmanager
def cluster_at(address: str) -> Iterator[Cluster]:
    """The cluster whose scheduler is at an address such as ``tcp://host:8786``, or in a scheduler file."""
    distributed = load_distributed()
    refuse_secrets(address, "--dask", "Dask has no passwords: its clusters are protected by certificates")
    address_option = {"scheduler_file": address} if Path(address).is_file() else {"address": address}
    try:
        client = distributed.Client(**address_option, timeout=CONNECT_WITHIN)
    except (OSError, ValueError) as problem:  # a TimeoutError is an OSError
        raise UsageError(
            f"--dask {address}: no Dask scheduler answers there ({_first_line(problem)}); expected an address "
            "such as tcp://host:8786, or a scheduler file"
        ) from None
    with client:
        yield _connected(client, address)


@contextmanager
def local_cluster(n_workers: int) -> Iterator[Cluster]:
    """A cluster of so many processes on this machine, gone at the end."""
    distributed = load_distributed()
    import dask

    settings: dict[str, Any] = dict(_LOCAL)
    if sys.platform == "linux":  # copies of a process that has loaded everything
        worker_context("distributed")
        settings["distributed.worker.multiprocessing-method"] = "forkserver"
    # until the end: a worker that dies is replaced
    with isolated(), dask.config.set(settings), _loop_without_interrupts() as loop:
        try:
            processes = distributed.LocalCluster(
                loop=loop,
                n_workers=n_workers,
                threads_per_worker=max(1, available_cores() // n_workers),
                dashboard_address="127.0.0.1:0",  # whichever port is free
                silence_logs=logging.CRITICAL,  # a lost worker is told of here
            )
        except (RuntimeError, OSError) as problem:
            raise UsageError(
                f"--workers dask:{n_workers}: cannot be started ({_first_line(problem)}); {MAIN_GUARD}"
            ) from None
        except KeyboardInterrupt:  # half a cluster cannot be closed; its processes end with this one
            atexit.unregister(distributed.deploy.spec.close_clusters)
            loop.asyncio_loop.set_exception_handler(lambda *_: None)  # nor say what did not get ready
            raise
        with processes, distributed.Client(processes) as client:
            yield _connected(client, f"dask:{n_workers}", n_workers)


@contextmanager
def _loop_without_interrupts() -> Iterator[Any]:
    """An event loop in a thread that blocks Ctrl-C, and so do the processes it starts: this process ends them."""
    from distributed.utils import LoopRunner

    runner = LoopRunner(asynchronous=False)
    mask = getattr(signal, "pthread_sigmask", None)  # not on Windows
    if mask:
        resource_tracker.ensure_running()  # started later, by that thread, it would unblock them again
    before = mask(signal.SIG_BLOCK, {signal.SIGINT}) if mask else None
    try:
        runner.start()  # the thread begins with the mask of this one
    finally:
        if mask:
            mask(signal.SIG_SETMASK, before)
    try:
        yield runner.loop
    finally:
        runner.stop()


def load_distributed() -> Any:
    """The package `distributed`; MissingExtraError where it is not installed."""
    return optional_module("distributed", "a cluster needs the package distributed", "dask")


def _connected(client: Any, name: str, n_workers: int = 1) -> Cluster:
    try:
        client.wait_for_workers(n_workers, timeout=FIRST_WORKER_WITHIN)
    except TimeoutError:
        raise UsageError(
            f"--dask {name}: the scheduler has no worker after {FIRST_WORKER_WITHIN} s; expected at least one"
        ) from None
    threads = client.nthreads()
    return Cluster(client, min(threads.values()), len(threads))


def _first_line(problem: BaseException) -> str:
    return (str(problem) or type(problem).__name__).splitlines()[0]


NEW_WORKER_WITHIN = 120
"""Seconds after which a cluster that has lost its last worker is given up."""


def run_on_cluster(
    tasks: Sequence[Task], job: Job, cluster: Cluster, progress: "Progress"
) -> Iterator[tuple[Task, Run]]:
    """Each run on one worker of the cluster, with all its threads; a task's result does not depend on which."""
    again = [task for task in tasks if task.state == "score again"]  # the models are here, and it is quick
    yield from run_here(again, job, progress)
    new = [task for task in tasks if task.state != "score again"]
    parallel_tasks = [task for task in new if getattr(job.config_of(task).ranker, "data_parallel", False)]
    combined_tasks = [task for task in new if task.parts]  # of models that are here by then
    pool = DaskWorkerPool(cluster, job)
    try:
        yield from dispatch(
            [task for task in new if task not in (*parallel_tasks, *combined_tasks)], pool, progress
        )
        for task in parallel_tasks:  # each takes the whole cluster
            progress.started(task)
            fold = job.fold_of(task.model, task.fold)
            workers = pool.workers_for(task)
            yield task, execute(task, job, fold, partial(progress.round, task), workers=workers)
        yield from run_here(combined_tasks, job, progress)
    finally:
        pool.shutdown()


_FoldKey = tuple[str, TrainingQueries | None]
"""The data of a fold: its name, and the share of its training queries."""


class DaskWorkerPool(WorkerPool):
    """The cluster's workers, for `dispatch`. Each trains one run at a time, whatever number of threads it has."""

    def __init__(self, cluster: Cluster, job: Job) -> None:
        super().__init__(job)
        distributed = load_distributed()
        self.lost = (distributed.KilledWorker, distributed.client.FutureCancelledError)
        self._client = cluster.client
        self._sees_data: dict[str, bool] = {}
        # worker to the fold it has, with all training queries or a share: one at a time
        self._sent_folds: dict[str, tuple[_FoldKey | None, Any]] = {}
        self._messages: deque[Rounds] = deque()
        self._last_connected = monotonic()
        self._client.subscribe_topic(self._job.topic, lambda event: self._messages.append(event[1]))

    def workers(self) -> Collection[str]:
        present = list(self._client.nthreads())
        for worker in present:
            if worker not in self._sees_data:
                self._register(worker)
        if present:
            self._last_connected = monotonic()
        elif monotonic() - self._last_connected > NEW_WORKER_WITHIN:
            raise TrainingError(
                f"the cluster has had no worker for {NEW_WORKER_WITHIN} s; what finished is kept: run the same "
                "command again when it has"
            )
        return [worker for worker in present if worker in self._sees_data]

    def submit(self, worker: str, task: Task) -> Future[dict[str, bytes]]:
        data, fold = None, self._job.fold_of(task.model, task.fold)
        if not self._sees_data[worker]:  # a fold is sent once, and gone when the worker goes on to another
            key: _FoldKey = (task.fold, self._job.experiment.models[task.model].training_queries)
            sent_key, data = self._sent_folds.get(worker, (None, None))
            if sent_key != key:
                self._sent_folds.pop(worker, None)
                data = self._client.scatter(fold, workers=[worker], hash=False)
                self._sent_folds[worker] = (key, data)
        executor = self._client.get_executor(workers=[worker], pure=False)
        future: Future[dict[str, bytes]] = executor.submit(
            train_on_worker, self._sent, task, fold.facts, data
        )
        return future

    def result(self, task: Task, future: Future[dict[str, bytes]]) -> Run:
        return load_run(receive(future.result(), task.folder))

    def messages(self) -> Iterable[Rounds]:
        while self._messages:
            yield self._messages.popleft()

    def replace(self, worker: str) -> None:
        """Whoever runs the cluster restarts its workers."""

    def workers_for(self, task: Task) -> Workers:
        """The cluster for a model that is trained across it."""
        fold = self._job.fold_of(task.model, task.fold)

        def load(worker: str, split: str, first: int, end: int) -> Any:
            if worker not in self._sees_data:
                self._register(worker)
            pinned = {"workers": [worker], "allow_other_workers": False, "pure": False}
            if self._sees_data.get(worker):
                return self._client.submit(
                    load_part, self._sent, task, fold.facts, split, first, end, **pinned
                )
            part = fold.splits[split].take(np.arange(first, end))
            return self._client.scatter(part, workers=[worker], hash=False)

        return Workers(self._client, load)

    def shutdown(self) -> None:
        """Have the workers end at the next round whatever they still train for this command."""
        self._client.unsubscribe_topic(self._job.topic)
        self._client.run(cancel, self._job.topic, on_error="ignore")

    def _register(self, worker: str) -> None:
        """Find out whether a worker can do the work, and whether it sees the data."""
        models = self._job.experiment.models.values()
        packages = {"ltr-harness"}.union(*(model.ranker.packages for model in models))
        versions_here = package_versions(sorted(packages))
        arguments = (sorted(packages), self._sizes_of_inputs(), dict(self._job.files))
        try:
            answer = self._client.run(inspect_worker, *arguments, workers=[worker])
        except OSError:
            answer = {}
        except ModuleNotFoundError as problem:
            expected = "the extra `dask` on every worker"
            if str(problem.name).startswith(
                "ltr_harness"
            ):  # the functions of another version stand elsewhere
                expected = f"ltr-harness {versions_here['ltr-harness']}, as here"
            raise UsageError(f"worker {worker} cannot import {problem.name!r}; expected {expected}") from None
        if worker not in answer:  # it went away while it was asked
            return
        versions, sees_data, findings = answer[worker]
        problems = [
            Problem(worker, f"has {name} {versions.get(name, 'not at all')}", f"{version}, as here")
            for name, version in versions_here.items()
            if versions.get(name) != version
        ]
        problems += [Problem(worker, found, cure="share its folder") for found in findings]
        UsageError.refuse(problems)
        self._sees_data[worker] = sees_data

    def _sizes_of_inputs(self) -> list[tuple[str, int]]:
        """Return the path and the size of every data file, -1 for one that is not there."""
        root = self._job.experiment.data.root
        facts = [facts for fold in self._job.folds for facts in fold.facts.values()]
        paths = sorted({root / name for of_part in facts for name in of_part.files})
        return [(str(path), _bytes_of(path)) for path in paths]


def _bytes_of(path: Path) -> int:
    return path.stat().st_size if path.exists() else -1


# --- what happens on a worker ---

_EXTENSION = "ltr-harness-runs"


class WorkerState:
    """The objects that a worker keeps between runs, by the name of the command that they belong to."""

    def __init__(self) -> None:
        self.cancelled: set[str] = set()  # commands that are over
        self.one_at_a_time = threading.Lock()  # two experiments may use the same cluster
        self._job: Job | None = None

    def job_of(self, sent_job: SentJob) -> Job:
        """The job, loaded once for all its runs."""
        if self._job is None or self._job.topic != sent_job.topic:
            self._job = sent_job.load()
        return self._job


def _state(worker: Any) -> WorkerState:
    state: WorkerState = worker.extensions.setdefault(_EXTENSION, WorkerState())
    return state


def inspect_worker(
    packages: Sequence[str], inputs: Sequence[tuple[str, int]], needed: Mapping[str, str]
) -> tuple[dict[str, str], bool, list[str]]:
    """A worker's versions, whether it sees the data files, and what is wrong with the other files there."""
    sees_data = all(Path(path).is_file() and Path(path).stat().st_size == size for path, size in inputs)
    differing_files = list(map(_difference_of_file, changed_files(needed)))
    return package_versions(packages), sees_data, differing_files


def _difference_of_file(path: str) -> str:
    if Path(path).exists():
        return f"sees another {path} than there is here"
    return f"does not see {path}"


def cancel(topic: str, dask_worker: Any) -> None:
    """End the run in progress at its next round, if it belongs to a command that is over; Dask gives the worker."""
    _state(dask_worker).cancelled.add(topic)


def train_on_worker(
    sent_job: SentJob, task: Task, facts: Mapping[str, Any], fold: Fold | None
) -> dict[str, bytes]:
    """One run on a worker: name to content of the files in its folder."""
    worker = load_distributed().get_worker()
    state, topic = _state(worker), sent_job.topic

    def send(rounds: Rounds) -> None:
        if topic in state.cancelled:
            raise TrainingError("the command of this run has ended")
        worker.log_event(topic, rounds)

    with state.one_at_a_time, tempfile.TemporaryDirectory(dir=worker.local_directory) as folder:
        job = state.job_of(sent_job)
        if fold is None:
            fold = _fold_of(job, task, facts)
        own_task = replace(task, folder=Path(folder) / task.folder.name)
        execute(own_task, job, fold, batched(task, send))
        return {path.name: path.read_bytes() for path in own_task.folder.iterdir()}


def load_part(
    sent_job: SentJob, task: Task, facts: Mapping[str, Any], split: str, first: int, end: int
) -> RankingDataset:
    """Some queries of a split; of their features, nothing is read before they are used."""
    job = _state(load_distributed().get_worker()).job_of(sent_job)
    return _fold_of(job, task, facts).splits[split].take(np.arange(first, end))


def _fold_of(job: Job, task: Task, facts: Mapping[str, Any]) -> Fold:
    fold = job.fold_of(task.model, task.fold)
    if fold.facts != facts:
        place = f"{load_distributed().get_worker().address}: {job.experiment.data.root}"
        raise DataError(Problem(place, "holds other data than the same path where the command was given"))
    return fold
