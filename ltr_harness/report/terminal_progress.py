"""Progress of a running experiment on stderr, live on a terminal."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

from rich.console import Console
from rich.progress import Progress as Rows
from rich.progress import TextColumn
from rich.table import Column
from rich.text import Text

from ltr_harness._util.escapes import printable, without_commands
from ltr_harness._util.text import count_of, named
from ltr_harness.boosting.stopping import StoppingRule
from ltr_harness.experiments.runs import Run
from ltr_harness.experiments.runs.record import StudyRecord, Trial
from ltr_harness.experiments.training.check import stopping_depth
from ltr_harness.experiments.training.job import Job, Task
from ltr_harness.experiments.training.progress import (
    LiveRun,
    Progress,
    duration,
    failed_trial,
    lost_worker,
    seconds_left,
    shown_cautions,
    time_left,
)
from ltr_harness.report.data import ReportData
from ltr_harness.report.terminal import show

_NOTHING_TO_TRAIN = "every run exists already; nothing to train"
_REPORTING = "comparing and writing the report"


class TerminalProgress(Progress):
    """Prints the plan, the run in progress and how each run ended."""

    def __init__(self, quiet: bool, table: bool = True, *, verbose: bool = False) -> None:
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._quiet = quiet
        self._table = table
        self._verbose = verbose
        self._live: Rows | None = None
        self._watched = ""
        self._rule: StoppingRule | None = None
        self._runs: dict[str, LiveRun] = {}
        self._n_to_do = 0
        self._n_planned = 0
        self._n_ended = 0
        self._searches: dict[str, tuple[Any, float | None]] = {}  # by search: its row, and its best value

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._stop_live()

    @property
    def is_watched(self) -> bool:
        """True on a terminal and in a notebook."""
        return self._console.is_terminal or self._console.is_jupyter

    def say(self, text: str) -> None:
        """Print a line."""
        if not self._quiet:
            self._console.print(Text(without_commands(printable(text, lines=True))))

    def planned(self, job: Job) -> None:
        if self._n_planned == 0:
            for line in _caution_lines(job):
                self.say(line)
        self._n_planned += 1
        for row, _ in self._searches.values():
            if self._live is not None:
                self._live.remove_task(row)
        self._searches.clear()
        self._n_to_do = self._n_ended + job.count("score again") + job.count("train")
        self._rule = job.stopping
        self._watched = str(job.decision_metric)
        if job.open_studies:  # the runs that follow are not known yet: `planned` is called again
            self._say_searches(job)
        else:
            for line in _run_lines(job):
                self.say(line)

    def _say_searches(self, job: Job) -> None:
        """Print how many searches are to be made, and the training that they still need where it is known."""
        studies = job.open_studies
        text = f"{count_of(len(studies), 'search')} to make"
        if n_trials := sum(len(job.trials_of(study)) for study in studies):
            text += f", {count_of(n_trials, 'trial')} done"
        seconds = [left for study in studies if (left := seconds_left(job, study)) is not None]
        if len(seconds) == len(studies):
            text += f", about {duration(sum(seconds))} of training left"
        if job.tasks:
            text += f", besides {count_of(len(job.tasks), 'run')}"
        self.say(f"{text}; the runs of these models follow: {', '.join(map(str, studies))}")

    def tuning(self, study: StudyRecord) -> None:
        self._searches[str(study)] = (self._new_row(f"tuning {study}"), None)

    def trial_ended(self, study: StudyRecord, trial: Trial) -> None:
        row, best = self._searches[str(study)]
        sign = 1 if study.higher_is_better else -1
        value = trial.value if trial.status == "complete" else None
        if value is not None and (best is None or sign * value > sign * best):
            self._searches[str(study)] = (row, value)
            self.say(f"tuning {study}: trial {trial.number}, {study.metric} {value:.4f} on validation data")
        elif trial.status == "failed":
            self.say(str(failed_trial(study, trial)))
        self._show(row, f"tuning {study}: {count_of(trial.number + 1, 'trial')}")

    def started(self, task: Task) -> None:
        head = f"[{self._n_ended + len(self._runs) + 1}/{self._n_to_do}] {task}"
        run = self._runs[str(task)] = LiveRun(head, self._rule, self._watched, time.monotonic())
        run.row = self._new_row(str(run))

    def round(self, task: Task, number: int, values: Mapping[str, float]) -> None:
        run = self._runs.get(str(task))
        if run is not None and self._live is not None:  # a worker's last message may come late
            run.round(number, values, time.monotonic())
            self._show(run.row, str(run))

    def worker_lost(self, task: Task) -> None:
        self._seconds_of(task)
        self.say(str(lost_worker(task)))

    def finished(self, task: Task, run: Run) -> None:
        self._n_ended += 1
        record, seconds = run.record, self._seconds_of(task)
        head = f"[{self._n_ended}/{self._n_to_do}] {task}: "
        if record.status == "failed":
            self.say(f"{head}FAILED: {record.error}")
            return
        rounds = ""
        if record.best_round is not None:
            rounds = f"round {record.best_round} of {record.rounds_trained}, "
        mean = record.metrics[record.primary].mean_text
        self.say(f"{head}{rounds}test {record.primary} {mean} ({seconds:.1f} s)")

    def reporting(self) -> None:
        self._stop_live()
        if not self._n_to_do:
            self.say(_NOTHING_TO_TRAIN)
        self.say(_REPORTING)

    def compared(self, data: ReportData) -> None:
        if self._table:
            self.table_text = show(data, verbose=self._verbose)

    def _seconds_of(self, task: Task) -> float:
        """Remove the line of a task that is over; return how long it took."""
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


def _caution_lines(job: Job) -> list[str]:
    """Return what the reader should know before anything is trained."""
    depth = [f"caution: {caution}" for caution in stopping_depth(job)]
    features = dict.fromkeys(named("feature", fold.train.feature_names) for fold in job.folds)
    return [*depth, *features, *(f"{caution.severity}: {caution}" for caution in shown_cautions(job))]


def _run_lines(job: Job) -> list[str]:
    """Return how many runs are to be trained, to score again and done, and the time that they need."""
    text = f"{count_of(len(job.tasks), 'run')}: {job.count('train')} to train"
    if n_again := job.count("score again"):
        text += f", {n_again} to score again"
    if n_done := job.count("done"):
        text += f", {n_done} done already"
    text += f"; {count_of(job.threads, 'thread')} each"
    if remaining := str(time_left(job)):
        text += f"; {remaining}"
    if constant := sorted({task.model for task in job.tasks if not task.seed_matters}):
        return [text, f"trained once, because the seed has no effect: {', '.join(constant)}"]
    return [text]


def lines_without_training(jobs: Sequence[Job]) -> list[str]:
    """Return what is printed about jobs, the first and what a study added to it, once all of their runs exist."""
    lines = _caution_lines(jobs[0])
    for job in jobs:
        lines += _run_lines(replace(job, tasks=tuple(replace(task, state="done") for task in job.tasks)))
    return [*lines, _NOTHING_TO_TRAIN, _REPORTING]
