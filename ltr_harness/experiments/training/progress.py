"""Progress of a running experiment: a silent listener, and what one that speaks can say."""

import statistics
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ltr_harness._util.text import count_of
from ltr_harness.boosting.stopping import Stopper, StoppingRule
from ltr_harness.errors import Caution, merge_by_cause
from ltr_harness.experiments.runs import Run
from ltr_harness.experiments.runs.folder import RECORD, read_record
from ltr_harness.experiments.runs.record import StudyRecord, Trial
from ltr_harness.experiments.training.check import each_once
from ltr_harness.experiments.training.job import Job, Task


class Progress:
    """Listener to a running experiment; override what is of interest."""

    table_text = ""
    """The comparison as it was printed; empty where it was not."""

    def planned(self, job: Job) -> None:
        """The tasks are listed; nothing has been trained yet."""

    def tuning(self, study: StudyRecord) -> None:
        """A search for a model's options begins, or goes on; `planned` follows once all of them have ended."""

    def trial_ended(self, study: StudyRecord, trial: Trial) -> None:
        """One of its trials is over."""

    def started(self, task: Task) -> None:
        """A task begins."""

    def round(self, task: Task, number: int, values: Mapping[str, float]) -> None:
        """A boosting round has been evaluated."""

    def worker_lost(self, task: Task) -> None:
        """The worker that trained it has died; the task starts again."""

    def finished(self, task: Task, run: Run) -> None:
        """A task is over; `run.record.status` says how it ended."""

    def reporting(self) -> None:
        """All runs are there; comparison and report begin."""

    def compared(self, data: Any) -> None:
        """The comparison stands, as `report.data.ReportData`; its report is written next."""


def shown_cautions(job: Job) -> list[Caution]:
    """Return the cautions of the data lints, without mere notes."""
    return [caution for caution in merge_by_cause(each_once(job.cautions)) if caution.severity != "note"]


def failed_trial(study: StudyRecord, trial: Trial) -> Caution:
    """A trial's failure."""
    text = f"trial {trial.number} FAILED: {trial.error}"
    return Caution("failed-trial", "warning", text, place=f"tuning {study}")


def lost_worker(task: Task) -> Caution:
    """The loss of the worker that trained a run."""
    text = "its worker died (killed, or out of memory); it starts again"
    return Caution("lost-worker", "note", text, place=str(task))


class LiveRun:
    """The state of one training at this moment, on one line."""

    def __init__(self, head: str, rule: StoppingRule | None, metric: str, now: float) -> None:
        self._head = head
        self._stopper = None if rule is None else Stopper(rule)
        self._metric = metric
        self.began = now
        self.row: Any = None  # where it is shown, if it is
        self._text = f"{head}: starting"

    def __str__(self) -> str:
        return self._text

    def round(self, number: int, values: Mapping[str, float], now: float) -> None:
        """A round has been evaluated."""
        elapsed = now - self.began
        parts = [f"round {number}"]
        value = values.get(self._metric)
        if value is not None:
            parts.append(f"{self._metric} {value:.4f}")
        left = ""
        if self._stopper is not None and value is not None and value == value:
            self._stopper.update(number, value)
            rule, best = self._stopper.rule, self._stopper.best_round
            patience = max(0, rule.patience - (number - best))
            parts.append(f"best {self._stopper.best_value:.4f} at {best}")
            parts.append(f"patience {patience} of {rule.patience}")
            last = max(0, rule.max_rounds - number)
            soonest, latest = (f"{rounds * elapsed / number:.0f}" for rounds in (min(patience, last), last))
            left = f", {soonest} to {latest} s left" if soonest != latest else f", {latest} s left"
        self._text = f"{self._head}: {', '.join(parts)}, {elapsed:.0f} s{left}"


@dataclass(frozen=True)
class TimeLeft:
    """The time that the remaining runs will take, in seconds by the clock."""

    seconds: float  # of the runs that can be judged, side by side on all workers
    n_unknown: int  # runs that resemble none that has finished

    def __str__(self) -> str:
        if not self.seconds:
            return "no estimate yet" if self.n_unknown else ""
        left_out = f"; no estimate yet for {count_of(self.n_unknown, 'run')}" if self.n_unknown else ""
        return f"about {duration(self.seconds)}{left_out}"


def duration(seconds: float) -> str:
    """Seconds as people say them."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def _seconds_taken(folder: Path) -> dict[str, dict[Hashable, list[float]]]:
    """Return the seconds of the runs in a folder, to train and to score again, by each thing that runs share."""
    took: dict[str, dict[Hashable, list[float]]] = {"train": {}, "score again": {}}
    for path in folder.glob(f"*/{RECORD}"):
        record = read_record(path.parent)
        if record is None or record.status != "complete":
            continue
        swept_model = record.model if record.point is None else record.point.of
        total = sum(record.seconds.values())
        for likeness in _likenesses(record.model, record.fold, swept_model, record.ranker, record.objective):
            took["train"].setdefault(likeness, []).append(total)
            took["score again"].setdefault(likeness, []).append(total - record.seconds.get("fit", 0.0))
    return took


def time_left(job: Job, tasks: Sequence[Task] | None = None) -> TimeLeft:
    """Judge every run that is to be done by the median of the finished ones that resemble it most.

    Only `tasks`, where they are given.
    """
    planned = job.tasks if tasks is None else tasks
    todo = [task for task in planned if task.state != "done"]
    if not todo:
        return TimeLeft(0.0, 0)
    took = _seconds_taken(job.folder)
    estimates = []
    for task in todo:
        config = job.experiment.models[task.model]
        source = config.point or config.variant
        swept_model = task.model if source is None else source.of
        likenesses = _likenesses(task.model, task.fold, swept_model, config.ranker_name, config.objective)
        found = [took[task.state][likeness] for likeness in likenesses if likeness in took[task.state]]
        estimates += [statistics.median(found[0])] if found else []
    side_by_side = max(1, min(job.workers, len(todo)))
    return TimeLeft(
        max(sum(estimates) / side_by_side, max(estimates, default=0.0)), len(todo) - len(estimates)
    )


def _likenesses(
    model: str, fold: str, swept_model: str, ranker: str, objective: str | None
) -> list[Hashable]:
    """The closest first."""
    return [
        ("model and fold", model, fold),
        ("model", model),
        ("sweep", swept_model),
        ("ranker", ranker, objective),
    ]


def seconds_left(job: Job, study: StudyRecord) -> float | None:
    """Return the seconds that the rest of a search's budget will take, by the trials so far; None if unknown."""
    trials = job.trials_of(study)
    seconds_used = sum(trial.seconds for trial in trials)
    limits = [] if job.tune.minutes is None else [60 * job.tune.minutes - seconds_used]
    if job.tune.trials is not None:
        if not trials:
            return None
        limits.append(seconds_used / len(trials) * (job.tune.trials - len(trials)))
    return min(limits)
