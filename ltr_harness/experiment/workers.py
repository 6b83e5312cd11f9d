"""Tasks on several processes of this machine."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from queue import Empty
from typing import Any, TypeAlias

from ltr_harness.config import as_mapping, load_experiment
from ltr_harness.config.experiment import Experiment
from ltr_harness.errors import TrainingError
from ltr_harness.experiment.dispatch import Said, dispatch, now_and_then
from ltr_harness.experiment.execute import execute
from ltr_harness.experiment.facts import other_than, refuse_changed
from ltr_harness.experiment.folds import FoldReader
from ltr_harness.experiment.plan import Plan, Task
from ltr_harness.experiment.pool import let_go, new_pool, stop, wait_for_start, worker_context
from ltr_harness.experiment.progress import Progress
from ltr_harness.runs import Run

Rounds: TypeAlias = "multiprocessing.Queue[Said]"

SMALL_DATA = 64_000_000
"""Values of a training set up to which a core trains a model of its own better than it helps with another's."""


def available_cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def sensible_workers(n_runs: int, n_values: int) -> int:
    """How many processes finish first, where nobody has said.

    On small data threads spend much of a round waiting for each other: on two cores one model per core trains about a
    fifth faster, and other work on the machine slows it less. On large data threads wait little, and each further
    process would need its own binned copy.

    Args:
        n_runs: how many the plan has, whether done or not: an identity must not depend on what is done.
        n_values: rows times features of the largest training set.
    """
    return 1 if n_values > SMALL_DATA else max(1, min(available_cores(), n_runs // 2))


def run_here(
    tasks: Sequence[Task],
    experiment: Experiment,
    plan: Plan,
    reader: FoldReader,
    threads: int,
    progress: Progress,
) -> Iterator[tuple[Task, Run]]:
    """One after the other, in this process.

    Args:
        tasks: in the plan's order.
        experiment: the resolved configuration.
        plan: what the tasks are part of.
        reader: gives the folds.
        threads: to train with.
        progress: told of what happens.
    """
    for task in tasks:
        progress.started(task)
        yield (
            task,
            execute(
                task,
                experiment,
                plan,
                reader.read(task.fold),
                threads,
                lambda number, values, task=task: progress.round(task, number, values),  # type: ignore[misc]
            ),
        )


def run_in_workers(
    tasks: Sequence[Task],
    experiment: Experiment,
    plan: Plan,
    reader: FoldReader,
    threads: int,
    workers: int,
    progress: Progress,
) -> Iterator[tuple[Task, Run]]:
    """In `workers` processes; each maps the data itself, and a task's result does not depend on which ran it.

    Args:
        tasks: in the plan's order.
        experiment: the resolved configuration.
        plan: what the tasks are part of.
        reader: gives the folds.
        threads: of each process.
        workers: processes.
        progress: told of what happens.
    """
    crew = LocalCrew(experiment, plan, reader, threads, workers)
    try:
        crew.wait_for_start()
        yield from dispatch(tasks, crew, progress)
    except BaseException:  # Ctrl-C, a defect, a caller who wants no more
        crew.stop()
        raise
    finally:
        crew.dismiss()


class LocalCrew:
    """Processes of this machine, for `dispatch`. Each is a pool of one: its death breaks no other."""

    def __init__(
        self, experiment: Experiment, plan: Plan, reader: FoldReader, threads: int, workers: int
    ) -> None:
        self._experiment, self._plan, self._reader, self._threads = experiment, plan, reader, threads
        # The configuration travels as plain values: classes from a user's own file cannot be pickled.
        self._settings = (as_mapping(experiment), plan, threads)
        self._pools = {f"worker {number + 1}": self._hired() for number in range(workers)}

    def wait_for_start(self) -> None:
        """Until all of them can work; UsageError where they cannot start."""
        wait_for_start(pool for pool, _ in self._pools.values())

    def workers(self) -> Collection[str]:
        return list(self._pools)

    def submit(self, worker: str, task: Task) -> Future[Run]:
        try:
            return self._pools[worker][0].submit(_work, task)
        except BrokenProcessPool:  # it died while it had nothing to do
            self.replace(worker)
            return self._pools[worker][0].submit(_work, task)

    def result(self, task: Task, future: Future[Run]) -> Run:
        return future.result()

    def deaths(self) -> tuple[type[BaseException], ...]:
        return (BrokenProcessPool,)

    def replace(self, worker: str) -> None:
        let_go(self._pools[worker][0])
        self._pools[worker] = self._hired()

    def said(self) -> Iterable[Said]:
        for _, rounds in self._pools.values():
            with suppress(Empty):
                while True:
                    yield rounds.get_nowait()

    def lost(self, task: Task, problem: TrainingError) -> Run:
        fold = self._reader.read(task.fold)
        return execute(task, self._experiment, self._plan, fold, self._threads, failure=problem)

    def stop(self) -> None:
        for pool, _ in self._pools.values():
            stop(pool)

    def dismiss(self) -> None:
        for pool, _ in self._pools.values():
            let_go(pool)

    def _hired(self) -> tuple[ProcessPoolExecutor, Rounds]:
        context = worker_context()
        rounds: Rounds = context.Queue()  # its own: who is killed while speaking holds its lock for ever
        pool = new_pool(1, context, _start, (*self._settings, rounds))
        return pool, rounds


_worker: tuple[Experiment, Plan, FoldReader, int, Rounds] | None = None
_changed: list[str] = []


def _start(settings: Mapping[str, Any], plan: Plan, threads: int, rounds: Rounds) -> None:
    global _worker, _changed
    rounds.cancel_join_thread()  # words that nobody reads must not keep a worker from ending
    _changed = other_than(plan.files)
    if not _changed:
        experiment = load_experiment(settings, check_rankers=False)
        _worker = (experiment, plan, FoldReader(experiment.data), threads, rounds)


def _work(task: Task) -> Run:
    refuse_changed(_changed)  # what it would train is not what the plan says
    assert _worker is not None
    experiment, plan, reader, threads, rounds = _worker
    on_round = now_and_then(task, rounds.put)
    return execute(task, experiment, plan, reader.read(task.fold), threads, on_round)
