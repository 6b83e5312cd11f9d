"""Progress of a running experiment on stderr, live on a terminal."""

import time
from collections.abc import Mapping
from typing import Any, Self

from rich.console import Console
from rich.progress import Progress as Rows
from rich.progress import TextColumn
from rich.table import Column
from rich.text import Text

from ltr_harness._util.text import count_of, named, printable, without_commands
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
            for one in stopping_depth(job):
                self.say(f"caution: {one}")
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
