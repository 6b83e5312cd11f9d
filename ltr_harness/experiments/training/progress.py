"""Progress of a running experiment: a silent listener, and one that writes to stderr, live on a terminal."""

import statistics
import time
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from rich.console import Console
from rich.progress import Progress as Rows
from rich.progress import TextColumn
from rich.table import Column
from rich.text import Text

from ltr_harness._util.text import count_of, named, printable, without_commands
from ltr_harness.boosting.stopping import Stopper, StoppingRule
from ltr_harness.errors import Caution
from ltr_harness.experiments.inspection.lints import one_a_cause
from ltr_harness.experiments.runs import Run
from ltr_harness.experiments.runs.folder import RECORD, read_record
from ltr_harness.experiments.runs.record import StudyRecord, Trial
from ltr_harness.experiments.training.check import each_once
from ltr_harness.experiments.training.job import Job, Task
from ltr_harness.report.data import ReportData


class Progress:
    """Listener to a running experiment; override what is of interest."""

    def planned(self, job: Job) -> None:
        """The tasks are listed; nothing has been trained yet."""

    def tuning(self, study: StudyRecord) -> None:
        """A search for a model's options begins, or goes on; `planned` follows once all of them have ended."""

    def tried(self, study: StudyRecord, trial: Trial) -> None:
        """One of its trials is over."""

    def started(self, task: Task) -> None:
        """A task begins."""

    def round(self, task: Task, number: int, values: Mapping[str, float]) -> None:
        """A boosting round has been evaluated."""

    def lost(self, task: Task) -> None:
        """The worker that trained it has died; the task starts again."""

    def finished(self, task: Task, run: Run) -> None:
        """A task is over; `run.record.status` says how it ended."""

    def reporting(self) -> None:
        """All runs are there; comparison and report begin."""

    def compared(self, data: ReportData) -> None:
        """The comparison stands; its report is written next."""


def shown_cautions(job: Job) -> list[Caution]:
    """What the data lints found, without mere notes."""
    return [one for one in one_a_cause(each_once(job.cautions)) if one.severity != "note"]


def failed_trial(study: StudyRecord, trial: Trial) -> Caution:
    """A trial's failure."""
    text = f"trial {trial.number} FAILED: {trial.error}"
    return Caution("failed-trial", "warning", text, place=f"tuning {study}")


def lost_worker(task: Task) -> Caution:
    """The loss of the worker that trained a run."""
    text = "its worker died (killed, or out of memory); it starts again"
    return Caution("lost-worker", "note", text, place=str(task))


class LiveRun:
    """What one training looks like right now, on one line."""

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
    """What is still to be done, in seconds by the clock."""

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


def time_left(job: Job) -> TimeLeft:
    """Judge every run that is to be done by the median of the finished ones that resemble it most."""
    todo = [task for task in job.tasks if task.state != "done"]
    if not todo:
        return TimeLeft(0.0, 0)
    took: dict[str, dict[Hashable, list[float]]] = {"train": {}, "score again": {}}
    for path in job.folder.glob(f"*/{RECORD}"):
        record = read_record(path.parent)
        if record is None or record.status != "complete":
            continue
        of = record.model if record.point is None else record.point.of
        total = sum(record.seconds.values())
        for likeness in _likenesses(record.model, record.fold, of, record.ranker, record.objective):
            took["train"].setdefault(likeness, []).append(total)
            took["score again"].setdefault(likeness, []).append(total - record.seconds.get("fit", 0.0))
    known = []
    for task in todo:
        config = job.experiment.models[task.model]
        of = task.model if config.point is None else config.point.of
        alike = _likenesses(task.model, task.fold, of, config.ranker_name, config.objective)
        found = [took[task.state][likeness] for likeness in alike if likeness in took[task.state]]
        known += [statistics.median(found[0])] if found else []
    side_by_side = max(1, min(job.workers, len(todo)))
    return TimeLeft(max(sum(known) / side_by_side, max(known, default=0.0)), len(todo) - len(known))


def _likenesses(model: str, fold: str, of: str, ranker: str, objective: str | None) -> list[Hashable]:
    """The closest first."""
    return [("model and fold", model, fold), ("model", model), ("sweep", of), ("ranker", ranker, objective)]


def seconds_left(job: Job, study: StudyRecord) -> float | None:
    """What the rest of a search's budget will take, by the trials so far; None where nobody can tell."""
    trials = job.trials_of(study)
    spent = sum(trial.seconds for trial in trials)
    limits = [] if job.tune.minutes is None else [60 * job.tune.minutes - spent]
    if job.tune.trials is not None:
        if not trials:
            return None
        limits.append(spent / len(trials) * (job.tune.trials - len(trials)))
    return min(limits)


class TerminalProgress(Progress):
    """Says what is planned, what runs and how each run ended."""

    def __init__(self, quiet: bool, table: bool = True) -> None:
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._quiet = quiet
        self._table = table
        self._live: Rows | None = None
        self._watched = ""
        self._rule: StoppingRule | None = None
        self._runs: dict[str, LiveRun] = {}
        self._todo = 0
        self._n_planned = 0
        self._over = 0
        self._best: dict[str, tuple[Any, float | None]] = {}  # of a search: its row, and its best value

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._stop_live()

    @property
    def is_watched(self) -> bool:
        """Whether there is a terminal or a notebook."""
        return self._console.is_terminal or self._console.is_jupyter

    def say(self, text: str) -> None:
        """A plain line."""
        if not self._quiet:
            self._console.print(Text(without_commands(printable(text, lines=True))))

    def planned(self, job: Job) -> None:
        if self._n_planned == 0:
            for features in dict.fromkeys(named("feature", fold.train.feature_names) for fold in job.folds):
                self.say(features)
            for one in shown_cautions(job):
                self.say(f"{one.severity}: {one}")
        self._n_planned += 1
        for row, _ in self._best.values():
            if self._live is not None:
                self._live.remove_task(row)
        self._best.clear()
        done, again, new = job.count("done"), job.count("score again"), job.count("train")
        self._todo = again + new
        self._rule = job.stopping
        self._watched = str(job.decision_metric)
        if job.open_studies:  # the runs that follow are not known yet: `planned` is called again
            todo = job.open_studies
            begun = sum(len(job.trials_of(study)) for study in todo)
            more = f", {count_of(begun, 'trial')} done" if begun else ""
            left = [seconds for study in todo if (seconds := seconds_left(job, study)) is not None]
            if len(left) == len(todo):
                more += f", about {duration(sum(left))} of training left"
            known = f", besides {count_of(len(job.tasks), 'run')}" if job.tasks else ""
            called = ", ".join(map(str, todo))
            self.say(
                f"{count_of(len(todo), 'search')} to make{more}{known}; the runs of these models follow: {called}"
            )
            return
        parts = [f"{count_of(len(job.tasks), 'run')}: {new} to train"]
        if again:
            parts.append(f"{again} to score again")
        if done:
            parts.append(f"{done} done already")
        said = ", ".join(parts) + f"; {count_of(job.threads, 'thread')} each"
        remaining = str(time_left(job))
        self.say(f"{said}; {remaining}" if remaining else said)
        constant = sorted({task.model for task in job.tasks if not task.seed_matters})
        if constant:
            self.say(f"trained once, because the seed cannot matter: {', '.join(constant)}")

    def tuning(self, study: StudyRecord) -> None:
        self._best[str(study)] = (self._new_row(f"tuning {study}"), None)

    def tried(self, study: StudyRecord, trial: Trial) -> None:
        row, best = self._best[str(study)]
        sign = 1 if study.higher_is_better else -1
        value = trial.value if trial.status == "complete" else None
        if value is not None and (best is None or sign * value > sign * best):
            self._best[str(study)] = (row, value)
            self.say(f"tuning {study}: trial {trial.number}, {study.metric} {value:.4f} on validation data")
        elif trial.status == "failed":
            self.say(str(failed_trial(study, trial)))
        self._show(row, f"tuning {study}: {count_of(trial.number + 1, 'trial')}")

    def started(self, task: Task) -> None:
        head = f"[{self._over + len(self._runs) + 1}/{self._todo}] {task}"
        run = self._runs[str(task)] = LiveRun(head, self._rule, self._watched, time.monotonic())
        run.row = self._new_row(str(run))

    def round(self, task: Task, number: int, values: Mapping[str, float]) -> None:
        run = self._runs.get(str(task))
        if run is not None and self._live is not None:  # a worker's last message may come late
            run.round(number, values, time.monotonic())
            self._show(run.row, str(run))

    def lost(self, task: Task) -> None:
        self._seconds_of(task)
        self.say(str(lost_worker(task)))

    def finished(self, task: Task, run: Run) -> None:
        self._over += 1
        record, seconds = run.record, self._seconds_of(task)
        head = f"[{self._over}/{self._todo}] {task}: "
        if record.status == "failed":
            self.say(f"{head}FAILED: {record.error}")
            return
        counted = f"round {record.best_round} of {record.rounds_trained}, "
        rounds = "" if record.best_round is None else counted
        mean = record.metrics[record.primary].mean_text
        self.say(f"{head}{rounds}test {record.primary} {mean} ({seconds:.1f} s)")

    def reporting(self) -> None:
        self._stop_live()
        if not self._todo:
            self.say("every run exists already; nothing to train")
        self.say("comparing and writing the report")

    def compared(self, data: ReportData) -> None:
        if not self._table:
            return
        from ltr_harness.report.terminal import show

        show(data)

    def _seconds_of(self, task: Task) -> float:
        """Take the line of a task that is over away; how long it took."""
        run = self._runs.pop(str(task), None)
        if run is None:
            return 0.0
        if self._live is not None:
            self._live.remove_task(run.row)
        return time.monotonic() - run.began

    def _new_row(self, text: str) -> Any:
        if self._console.is_terminal and not self._quiet and self._live is None:
            line = TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True))
            self._live = Rows(line, console=self._console, transient=True, refresh_per_second=8)
            self._live.start()
        return None if self._live is None else self._live.add_task(printable(text), total=None)

    def _show(self, row: Any, text: str) -> None:
        if self._live is not None:
            self._live.update(row, description=printable(text))

    def _stop_live(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
