"""Tasks on several processes of this machine."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from queue import Empty
from typing import Any, TypeAlias

from ltr_harness.config import as_mapping, load_experiment
from ltr_harness.config.experiment import Experiment
from ltr_harness.errors import TrainingError
from ltr_harness.experiment.execute import execute
from ltr_harness.experiment.folds import FoldReader
from ltr_harness.experiment.plan import Plan, Task
from ltr_harness.experiment.progress import Progress
from ltr_harness.experiment.starting import worker_context
from ltr_harness.runs import Run

LOOK_AFTER = 0.2
"""Seconds between two looks at what the workers say."""

# A task's name, and the rounds it has evaluated since it last spoke.
Rounds: TypeAlias = "multiprocessing.Queue[tuple[str, list[tuple[int, dict[str, float]]]]]"


SMALL_DATA = 64_000_000
"""Values of a training set up to which a core trains a model of its own better than it helps with another's."""


def available_cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def sensible_workers(n_runs: int, n_values: int) -> int:
    """How many processes finish first, where nobody has said.

    On small data threads spend much of a round waiting for each other, and one model per core is faster by half.
    On large data they do not, and each further process would need its own binned copy.

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
    """One after the other, in this process."""
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
    threads: int,
    workers: int,
    progress: Progress,
) -> Iterator[tuple[Task, Run]]:
    """In `workers` processes; each reads the data itself, and a task's result does not depend on which ran it."""
    context = worker_context()
    rounds: Rounds = context.Queue()
    # The configuration travels as plain values: classes from a user's own file cannot be pickled.
    settings = (as_mapping(experiment), plan, threads, rounds)
    pool = ProcessPoolExecutor(workers, context, _start, settings)
    waiting: dict[Future[Run], Task] = {}
    queue = list(tasks)
    try:
        while queue or waiting:
            while queue and len(waiting) < workers:
                task = queue.pop(0)
                progress.started(task)
                waiting[pool.submit(_work, task)] = task
            done, _ = wait(waiting, LOOK_AFTER, FIRST_COMPLETED)
            _pass_on(rounds, {str(task): task for task in waiting.values()}, progress)
            for future in done:
                yield waiting.pop(future), future.result()
    except BrokenProcessPool:
        lost = ", ".join(str(task) for task in waiting.values())
        raise TrainingError(
            f"a worker process died while training {lost} (killed, or out of memory); what finished is kept: "
            "run the same command again, with fewer --workers if memory was short"
        ) from None
    finally:
        # Workers take a while to end; the report need not wait for that.
        pool.shutdown(wait=False, cancel_futures=True)


def _pass_on(rounds: Rounds, running: Mapping[str, Task], progress: Progress) -> None:
    """Tell the listener what the workers have said since."""
    while True:
        try:
            name, said = rounds.get_nowait()
        except Empty:
            return
        if name in running:  # the last words of a run that is over come late
            for number, values in said:
                progress.round(running[name], number, values)


_worker: tuple[Experiment, Plan, FoldReader, int, Rounds] | None = None


def _start(settings: Mapping[str, Any], plan: Plan, threads: int, rounds: Rounds) -> None:
    global _worker
    rounds.cancel_join_thread()  # words that nobody reads must not keep a worker from ending
    experiment = load_experiment(settings, check_rankers=False)
    _worker = (experiment, plan, FoldReader(experiment.data), threads, rounds)


def _work(task: Task) -> Run:
    assert _worker is not None
    experiment, plan, reader, threads, rounds = _worker
    unsaid: list[tuple[int, dict[str, float]]] = []
    spoke = time.monotonic()

    def on_round(number: int, values: Mapping[str, float]) -> None:
        nonlocal spoke
        unsaid.append((number, dict(values)))
        if time.monotonic() - spoke > LOOK_AFTER:
            rounds.put((str(task), unsaid.copy()))
            unsaid.clear()
            spoke = time.monotonic()

    return execute(task, experiment, plan, reader.read(task.fold), threads, on_round)
