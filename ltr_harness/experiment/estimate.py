"""Time estimate of a plan, by what finished runs of the same experiment took."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence

from ltr_harness.config.experiment import Experiment
from ltr_harness.experiment.job import Job
from ltr_harness.experiment.task import Task, TimeLeft
from ltr_harness.runs.folder import RECORD, read_record


def time_left(tasks: Sequence[Task], job: Job) -> TimeLeft:
    """Judge every run that is to be done by the finished ones that resemble it most.

    A run resembles those of the same model and fold, then of the same model, of the same sweep, of the same ranker
    and objective; of several, their median counts. Threads and machine are taken to be the same.
    """
    todo = [task for task in tasks if task.state != "done"]
    if not todo:
        return TimeLeft(0.0, 0)
    trained: dict[Hashable, list[float]] = defaultdict(list)
    scored: dict[Hashable, list[float]] = defaultdict(list)
    for path in job.folder.glob(f"*/{RECORD}"):
        record = read_record(path.parent)
        if record is None or record.status != "complete":
            continue
        of = record.model if record.point is None else record.point.of
        total = sum(record.seconds.values())
        for likeness in _likenesses(record.model, record.fold, of, record.ranker, record.objective):
            trained[likeness].append(total)
            scored[likeness].append(total - record.seconds.get("fit", 0.0))
    known, n_unknown = [], 0
    for task in todo:
        seconds = _like(task, job.experiment, trained if task.state == "train" else scored)
        if seconds is None:
            n_unknown += 1
        else:
            known.append(seconds)
    side_by_side = max(1, min(job.workers, len(todo)))
    return TimeLeft(max(sum(known) / side_by_side, max(known, default=0.0)), n_unknown)


def _like(task: Task, experiment: Experiment, seconds: dict[Hashable, list[float]]) -> float | None:
    config = experiment.models[task.model]
    of = task.model if config.point is None else config.point.of
    for likeness in _likenesses(task.model, task.fold, of, config.ranker_name, config.objective):
        if likeness in seconds:
            return statistics.median(seconds[likeness])
    return None


def _likenesses(model: str, fold: str, of: str, ranker: str, objective: str | None) -> Iterator[Hashable]:
    """The closest first."""
    yield "model and fold", model, fold
    yield "model", model
    yield "sweep", of
    yield "ranker", ranker, objective
