"""Tasks on several processes of this machine."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from ltr_harness.config import as_mapping, load_experiment
from ltr_harness.config.experiment import Experiment
from ltr_harness.errors import TrainingError
from ltr_harness.experiment.execute import execute
from ltr_harness.experiment.folds import FoldReader
from ltr_harness.experiment.plan import Plan, Task
from ltr_harness.experiment.progress import Progress
from ltr_harness.runs import Run


def available_cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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
    context = multiprocessing.get_context("spawn")  # a fork would inherit the boosters' thread pools
    # The configuration travels as plain values: classes from a user's own file cannot be pickled.
    settings = (as_mapping(experiment), plan, threads)
    with ProcessPoolExecutor(workers, context, _start, settings) as pool:
        waiting: dict[Future[Run], Task] = {}
        queue = list(tasks)
        try:
            while queue or waiting:
                while queue and len(waiting) < workers:
                    task = queue.pop(0)
                    progress.started(task)
                    waiting[pool.submit(_work, task)] = task
                done, _ = wait(waiting, return_when=FIRST_COMPLETED)
                for future in done:
                    yield waiting.pop(future), future.result()
        except BrokenProcessPool:
            lost = ", ".join(str(task) for task in waiting.values())
            raise TrainingError(
                f"a worker process died while training {lost} (killed, or out of memory); what finished is kept: "
                "run the same command again, with fewer --workers if memory was short"
            ) from None
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


_worker: tuple[Experiment, Plan, FoldReader, int] | None = None


def _start(settings: Mapping[str, Any], plan: Plan, threads: int) -> None:
    global _worker
    experiment = load_experiment(settings, check_rankers=False)
    _worker = (experiment, plan, FoldReader(experiment.data), threads)


def _work(task: Task) -> Run:
    assert _worker is not None
    experiment, plan, reader, threads = _worker
    return execute(task, experiment, plan, reader.read(task.fold), threads)
