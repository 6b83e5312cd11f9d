"""Tasks in this process, or on several processes of this machine."""

import multiprocessing
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from queue import Empty
from typing import TYPE_CHECKING, Any, TypeAlias

from ltr_harness.errors import TrainingError
from ltr_harness.experiments.runs import Run
from ltr_harness.experiments.training import pool as processes
from ltr_harness.experiments.training.job import Job, SentJob, Task, received_job
from ltr_harness.experiments.training.train import OnRound, execute

if TYPE_CHECKING:
    from ltr_harness.experiments.training.progress import Progress

POLL_SECONDS = 0.2
"""Between two looks at the workers' messages and at which workers are left."""

LOST_TWICE = (
    "the worker that trained it died, and so did the next one (killed, or out of memory); run the same command again, "
    "with fewer --workers if memory was short"
)

Rounds: TypeAlias = tuple[str, list[tuple[int, dict[str, float]]]]
"""A worker's message: a task's name, and the rounds it has evaluated since its last message."""


class WorkerPool(ABC):
    """Workers, each of which trains one run at a time."""

    lost: tuple[type[BaseException], ...]  # what a future raises whose worker died

    def __init__(self, job: Job) -> None:
        self._job, self._sent = job, job.sent_job()

    @abstractmethod
    def workers(self) -> Collection[str]:
        """The names of those that are connected now."""

    @abstractmethod
    def submit(self, worker: str, task: Task) -> Future[Any]:
        """Train on a worker."""

    def result(self, task: Task, future: Future[Any]) -> Run:
        """Return the run that a worker has trained; raise errors that every other worker would have too."""
        run: Run = future.result()
        return run

    @abstractmethod
    def messages(self) -> Iterable[Rounds]:
        """Return the rounds that have arrived since the last call."""

    @abstractmethod
    def replace(self, worker: str) -> None:
        """Start another process for one that died, if that is this side's business."""

    def fail(self, task: Task, problem: TrainingError) -> Run:
        """Record that a run has failed."""
        return execute(task, self._job, self._job.fold_of(task.model, task.fold), failure=problem)


def dispatch(tasks: Sequence[Task], pool: WorkerPool, progress: "Progress") -> Iterator[tuple[Task, Run]]:
    """Every task as it finishes; one whose worker dies starts again elsewhere, and fails if a second worker dies."""
    queue = list(tasks)
    running: dict[str, tuple[Task, Future[Any]]] = {}
    last: dict[str, Task] = {}
    lost_once: set[Task] = set()
    try:
        while queue or running:
            present = pool.workers()
            for worker in present:
                running_tasks = [task for task, _ in running.values()]
                if (
                    worker not in running
                    and (task := _next(queue, last.get(worker), running_tasks)) is not None
                ):
                    queue.remove(task)
                    progress.started(task)
                    running[worker] = (task, pool.submit(worker, task))
                    last[worker] = task
            if running:
                wait([future for _, future in running.values()], POLL_SECONDS, FIRST_COMPLETED)
            else:
                time.sleep(POLL_SECONDS)
            names = {str(task): task for task, _ in running.values()}
            for name, rounds in pool.messages():
                if name not in names:  # a run's last message may come late
                    continue
                for number, values in rounds:
                    progress.round(names[name], number, values)
            for worker, (task, future) in list(running.items()):
                if not future.done() and worker in present:
                    continue
                del running[worker]
                died = not future.done() or future.cancelled()
                if died or isinstance(future.exception(), (CancelledError, *pool.lost)):
                    future.cancel()
                    pool.replace(worker)
                    last.pop(worker)
                    if task in lost_once:
                        yield task, pool.fail(task, TrainingError(LOST_TWICE))
                    else:
                        progress.worker_lost(task)
                        lost_once.add(task)
                        queue.insert(0, task)
                else:
                    yield task, pool.result(task, future)
    finally:
        for _, future in running.values():
            future.cancel()


def _next(queue: Sequence[Task], last: Task | None, running_tasks: Sequence[Task]) -> Task | None:
    """The task that shares most with what the worker has in memory, and least with what others have."""
    pending = {task.folder for task in (*queue, *running_tasks)}
    ready = [task for task in queue if pending.isdisjoint(task.parts.values())]  # its parts are trained
    # binned data belongs to a fold and a model, mapped data to a fold
    models = {(task.fold, task.model) for task in running_tasks}
    folds = {task.fold for task in running_tasks}

    def distance(task: Task) -> tuple[bool, bool, bool, bool]:
        same_fold = last is not None and task.fold == last.fold
        same_model = same_fold and last is not None and task.model == last.model
        return (not same_model, not same_fold, task.fold in folds, (task.fold, task.model) in models)

    return min(ready, key=distance, default=None)


def batched(task: Task, send: Callable[[Rounds], None]) -> OnRound:
    """A listener that sends several rounds in one message: a message may cost more than a round."""
    unsent: list[tuple[int, dict[str, float]]] = []
    sent_at = time.monotonic()

    def on_round(number: int, values: Mapping[str, float]) -> None:
        nonlocal sent_at
        unsent.append((number, dict(values)))
        if time.monotonic() - sent_at > POLL_SECONDS:
            send((str(task), unsent.copy()))
            unsent.clear()
            sent_at = time.monotonic()

    return on_round


Messages: TypeAlias = "multiprocessing.Queue[Rounds]"


def run_in_workers(
    tasks: Sequence[Task], job: Job, workers: int, progress: "Progress"
) -> Iterator[tuple[Task, Run]]:
    """In `workers` processes; each maps the data itself, and a task's result does not depend on which ran it."""
    pool = ProcessWorkerPool(job, workers)
    with processes.started(pool.processes.values()):
        yield from dispatch(tasks, pool, progress)


class ProcessWorkerPool(WorkerPool):
    """Processes of this machine, for `dispatch`. Each is a pool of one: its death breaks no other."""

    lost = (BrokenProcessPool,)

    def __init__(self, job: Job, workers: int) -> None:
        super().__init__(job)
        self.processes: dict[str, ProcessPoolExecutor] = {}  # by worker
        self._messages: dict[str, Messages] = {}
        for number in range(workers):
            self._start(f"worker {number + 1}")

    def workers(self) -> Collection[str]:
        return list(self.processes)

    def submit(self, worker: str, task: Task) -> Future[Run]:
        try:
            return self.processes[worker].submit(_train, self._sent, task)
        except BrokenProcessPool:  # it died while it had nothing to do
            self.replace(worker)
            return self.processes[worker].submit(_train, self._sent, task)

    def replace(self, worker: str) -> None:
        processes.shutdown_in_background(self.processes[worker])
        self._start(worker)

    def messages(self) -> Iterable[Rounds]:
        for messages in self._messages.values():
            with suppress(Empty):
                while True:
                    yield messages.get_nowait()

    def _start(self, worker: str) -> None:
        context = processes.worker_context()
        with processes.shared_memory():
            # its own: a process killed while it writes holds the lock for ever
            messages: Messages = context.Queue()
        self._messages[worker] = messages
        self.processes[worker] = processes.new_pool(1, context, _initialize, messages)


_messages: Messages


def _initialize(messages: Messages) -> None:
    global _messages
    messages.cancel_join_thread()  # messages that are not read must not keep a worker from ending
    _messages = messages


def _train(sent_job: SentJob, task: Task) -> Run:
    job = received_job(sent_job)
    return execute(task, job, job.fold_of(task.model, task.fold), batched(task, _messages.put))
