"""Tasks in this process, or on several processes of this machine."""

from __future__ import annotations

import multiprocessing
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from functools import partial
from queue import Empty
from typing import TypeAlias

from ltr_harness.errors import TrainingError
from ltr_harness.experiment.dispatch import Rounds, batched, dispatch
from ltr_harness.experiment.execute import execute
from ltr_harness.experiment.job import Job, SerializedJob
from ltr_harness.experiment.pool import (
    new_pool,
    shared_memory,
    shutdown_in_background,
    terminate,
    wait_for_start,
    worker_context,
)
from ltr_harness.experiment.progress import Progress
from ltr_harness.experiment.task import Task
from ltr_harness.runs import Run

Messages: TypeAlias = "multiprocessing.Queue[Rounds]"


def run_here(tasks: Sequence[Task], job: Job, progress: Progress) -> Iterator[tuple[Task, Run]]:
    """One after the other, in this process."""
    for task in tasks:
        progress.started(task)
        yield task, execute(task, job, job.reader.read(task.fold), partial(progress.round, task))


def run_in_workers(
    tasks: Sequence[Task], job: Job, workers: int, progress: Progress
) -> Iterator[tuple[Task, Run]]:
    """In `workers` processes; each maps the data itself, and a task's result does not depend on which ran it."""
    pool = ProcessWorkerPool(job, workers)
    try:
        pool.wait_for_start()
        yield from dispatch(tasks, pool, progress)
    except BaseException:  # Ctrl-C, a defect, a caller who wants no more
        pool.terminate()
        raise
    finally:
        pool.shutdown()


class ProcessWorkerPool:
    """Processes of this machine, for `dispatch`. Each is a pool of one: its death breaks no other."""

    def __init__(self, job: Job, workers: int) -> None:
        self._job = job
        self._serialized = job.serialized()
        self._pools = {f"worker {number + 1}": self._new_worker() for number in range(workers)}

    def wait_for_start(self) -> None:
        """Until all of them can work; UsageError where they cannot start."""
        wait_for_start(pool for pool, _ in self._pools.values())

    def workers(self) -> Collection[str]:
        return list(self._pools)

    def submit(self, worker: str, task: Task) -> Future[Run]:
        try:
            return self._pools[worker][0].submit(_train, task)
        except BrokenProcessPool:  # it died while it had nothing to do
            self.replace(worker)
            return self._pools[worker][0].submit(_train, task)

    def result(self, task: Task, future: Future[Run]) -> Run:
        return future.result()

    def worker_errors(self) -> tuple[type[BaseException], ...]:
        return (BrokenProcessPool,)

    def replace(self, worker: str) -> None:
        shutdown_in_background(self._pools[worker][0])
        self._pools[worker] = self._new_worker()

    def messages(self) -> Iterable[Rounds]:
        for _, messages in self._pools.values():
            with suppress(Empty):
                while True:
                    yield messages.get_nowait()

    def fail(self, task: Task, problem: TrainingError) -> Run:
        return execute(task, self._job, self._job.reader.read(task.fold), failure=problem)

    def terminate(self) -> None:
        for pool, _ in self._pools.values():
            terminate(pool)

    def shutdown(self) -> None:
        for pool, _ in self._pools.values():
            shutdown_in_background(pool)

    def _new_worker(self) -> tuple[ProcessPoolExecutor, Messages]:
        context = worker_context()
        with shared_memory():
            # its own: a process killed while it writes holds the lock for ever
            messages: Messages = context.Queue()
        pool = new_pool(1, context, _initialize, (self._serialized, messages))
        return pool, messages


_job: SerializedJob
_messages: Messages


def _initialize(job: SerializedJob, messages: Messages) -> None:
    global _job, _messages
    messages.cancel_join_thread()  # messages that are not read must not keep a worker from ending
    _job, _messages = job, messages


def _train(task: Task) -> Run:
    job = _job.loaded
    return execute(task, job, job.reader.read(task.fold), batched(task, _messages.put))
