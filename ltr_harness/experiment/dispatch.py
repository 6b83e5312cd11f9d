"""Which worker trains what, and what becomes of a run whose worker dies. Knows no processes and no cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from typing import Any, Protocol, TypeAlias

from ltr_harness.errors import TrainingError
from ltr_harness.experiment.execute import OnRound
from ltr_harness.experiment.plan import Task
from ltr_harness.experiment.progress import Progress
from ltr_harness.runs import Run

LOOK_AFTER = 0.2
"""Seconds between two looks at what the workers say and who is still there."""

LOST_TWICE = (
    "the worker that trained it died, and so did the next one (killed, or out of memory); run the same command again, "
    "with fewer --workers if memory was short"
)

Said: TypeAlias = tuple[str, list[tuple[int, dict[str, float]]]]
"""A task's name, and the rounds it has evaluated since it last spoke."""


class Crew(Protocol):
    """Workers, each of which trains one run at a time."""

    def workers(self) -> Collection[str]:
        """Who is there now."""

    def submit(self, worker: str, task: Task) -> Future[Any]:
        """Have a worker train."""

    def result(self, task: Task, future: Future[Any]) -> Run:
        """What a worker has trained; an error that no other worker would be spared."""

    def deaths(self) -> tuple[type[BaseException], ...]:
        """What a future raises whose worker died."""

    def said(self) -> Iterable[Said]:
        """The rounds evaluated since the last call."""

    def replace(self, worker: str) -> None:
        """Get another process for one that died, if that is this side's business."""

    def lost(self, task: Task, problem: TrainingError) -> Run:
        """Record that a run has failed."""


def dispatch(tasks: Sequence[Task], crew: Crew, progress: Progress) -> Iterator[tuple[Task, Run]]:
    """Every task and what became of it, as they finish.

    A worker that dies costs the one run it was training. That run starts again elsewhere; if it takes a second
    worker with it, it is recorded as failed and the others go on.

    Args:
        tasks: in the plan's order.
        crew: the workers.
        progress: told of what happens.
    """
    queue = list(tasks)
    running: dict[str, tuple[Task, Future[Any]]] = {}
    last: dict[str, Task] = {}
    lost: set[Task] = set()
    try:
        while queue or running:
            present = crew.workers()
            for worker in present:
                if queue and worker not in running:
                    task = _next(queue, last.get(worker), [last[one] for one in running])
                    progress.started(task)
                    running[worker] = (task, crew.submit(worker, task))
                    last[worker] = task
            if running:
                wait([future for _, future in running.values()], LOOK_AFTER, FIRST_COMPLETED)
            else:
                time.sleep(LOOK_AFTER)
            _pass_on(crew, {str(task): task for task, _ in running.values()}, progress)
            for worker, (task, future) in list(running.items()):
                if not future.done() and worker in present:
                    continue
                del running[worker]
                if not future.done() or _died(future, crew):
                    future.cancel()
                    crew.replace(worker)
                    last.pop(worker)
                    if task in lost:
                        yield task, crew.lost(task, TrainingError(LOST_TWICE))
                    else:
                        progress.lost(task)
                        lost.add(task)
                        queue.insert(0, task)
                else:
                    yield task, crew.result(task, future)
    finally:
        for _, future in running.values():
            future.cancel()


def _next(queue: list[Task], last: Task | None, others: Sequence[Task]) -> Task:
    """Take the task that shares most with what the worker has in memory, and least with what others have.

    Binned data belongs to a fold and a model, mapped data to a fold. So a worker goes on with the model it has,
    then with its fold, then with a fold that nobody has; and helps another worker only when nothing else is left.
    """
    models = {(task.fold, task.model) for task in others}
    folds = {task.fold for task in others}

    def distance(task: Task) -> tuple[bool, bool, bool, bool]:
        same_fold = last is not None and task.fold == last.fold
        same_model = same_fold and last is not None and task.model == last.model
        return (not same_model, not same_fold, task.fold in folds, (task.fold, task.model) in models)

    return queue.pop(min(range(len(queue)), key=lambda place: distance(queue[place])))


def _died(future: Future[Any], crew: Crew) -> bool:
    return future.cancelled() or isinstance(future.exception(), (CancelledError, *crew.deaths()))


def _pass_on(crew: Crew, running: Mapping[str, Task], progress: Progress) -> None:
    """Tell the listener what the workers have said since."""
    for name, said in crew.said():
        if name in running:  # the last words of a run that is over come late
            for number, values in said:
                progress.round(running[name], number, values)


def now_and_then(task: Task, say: Callable[[Said], None]) -> OnRound:
    """What a worker tells of the rounds it evaluates, not each by itself: a message may cost more than a round."""
    unsaid: list[tuple[int, dict[str, float]]] = []
    spoke = time.monotonic()

    def on_round(number: int, values: Mapping[str, float]) -> None:
        nonlocal spoke
        unsaid.append((number, dict(values)))
        if time.monotonic() - spoke > LOOK_AFTER:
            say((str(task), unsaid.copy()))
            unsaid.clear()
            spoke = time.monotonic()

    return on_round
