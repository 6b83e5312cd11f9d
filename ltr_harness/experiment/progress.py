"""Progress of a running experiment: a silent listener, and one that writes to stderr, live on a terminal."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from ltr_harness.boosting.stopping import Stopper, StoppingRule
from ltr_harness.experiment.check import each_once
from ltr_harness.experiment.job import Job, Plan, Study, Task, duration
from ltr_harness.report import ReportData
from ltr_harness.runs import Run
from ltr_harness.runs.record import Trial
from ltr_harness.wording import count_of, named, printable, without_commands


class Progress:
    """Listener to a running experiment; override what is of interest."""

    def planned(self, job: Job, plan: Plan) -> None:
        """The tasks are listed; nothing has been trained yet."""

    def tuning(self, study: Study) -> None:
        """A search for a model's options begins, or goes on; `planned` follows once all of them have ended."""

    def tried(self, study: Study, trial: Trial) -> None:
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


class LiveRun:
    """What one training looks like right now, on one line."""

    def __init__(self, head: str, rule: StoppingRule | None, metric: str, now: float) -> None:
        self._head = head
        self._stopper = None if rule is None else Stopper(rule)
        self._metric = metric
        self._began = now
        self._text = f"{head}: starting"

    def __str__(self) -> str:
        return self._text

    def round(self, number: int, values: Mapping[str, float], now: float) -> None:
        """A round has been evaluated.

        Example:
            >>> from ltr_harness.metrics import NDCG
            >>> rule = StoppingRule(NDCG(k=10), patience=20, max_rounds=100)
            >>> run = LiveRun("[1/2] xgb", rule, "ndcg@10", now=0.0)
            >>> run.round(30, {"ndcg@10": 0.81}, now=5.0)
            >>> run.round(40, {"ndcg@10": 0.8}, now=12.0)
            >>> print(run)
            [1/2] xgb: round 40, ndcg@10 0.8000, best 0.8100 at 30, patience 10 of 20, 12 s, 3 to 18 s left
        """
        elapsed = now - self._began
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


def interactive_progress() -> TerminalProgress | None:
    """Progress for a terminal or a notebook, without the table, which the result shows; None elsewhere."""
    progress = TerminalProgress(quiet=False, table=False)
    return progress if progress.is_watched else None


class TerminalProgress(Progress):
    """Says what is planned, what runs and how each run ended."""

    def __init__(self, quiet: bool, table: bool = True) -> None:
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._quiet = quiet
        self._table = table
        self._live: Live | None = None
        self._watched = ""
        self._rule: StoppingRule | None = None
        self._runs: dict[str, LiveRun] = {}
        self._todo = 0
        self._n_planned = 0
        self._over = 0
        self._began: dict[str, float] = {}
        self._best: dict[str, float | None] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop_live()

    @property
    def is_watched(self) -> bool:
        """Whether there is a terminal or a notebook."""
        return self._console.is_terminal or self._console.is_jupyter

    def say(self, text: str) -> None:
        """A plain line."""
        if not self._quiet:
            self._console.print(Text(without_commands(printable(text, lines=True))))

    def planned(self, job: Job, plan: Plan) -> None:
        if self._n_planned == 0:
            for features in dict.fromkeys(named("feature", fold.train.feature_names) for fold in job.folds):
                self.say(features)
            for finding in each_once(job.findings):
                if finding.severity != "note":
                    self.say(str(finding))
        self._n_planned += 1
        done, again, new = plan.count("done"), plan.count("score again"), plan.count("train")
        self._todo = again + new
        self._rule = job.stopping
        self._watched = str(job.decisive)
        if plan.open_studies:  # the runs that follow are not known yet: `planned` is called again
            self._say_searches(plan)
            return
        parts = [f"{count_of(len(plan.tasks), 'run')}: {new} to train"]
        if again:
            parts.append(f"{again} to score again")
        if done:
            parts.append(f"{done} done already")
        said = ", ".join(parts) + f"; {count_of(job.threads, 'thread')} each"
        self.say(f"{said}; {plan.left}" if str(plan.left) else said)
        constant = sorted({task.model for task in plan.tasks if not task.seed_matters})
        if constant:
            self.say(f"trained once, because the seed cannot matter: {', '.join(constant)}")

    def _say_searches(self, plan: Plan) -> None:
        todo = plan.open_studies
        begun = sum(study.n_trials for study in todo)
        more = f", {count_of(begun, 'trial')} done" if begun else ""
        left = [study.seconds_left for study in todo if study.seconds_left is not None]
        if len(left) == len(todo):
            more += f", about {duration(sum(left))} of training left"
        known = f", besides {count_of(len(plan.tasks), 'run')}" if plan.tasks else ""
        self.say(
            f"{count_of(len(todo), 'search')} to make{more}{known}; the runs of these models follow: "
            f"{', '.join(map(str, todo))}"
        )

    def tuning(self, study: Study) -> None:
        self._best[str(study)] = None
        self._start_live()

    def tried(self, study: Study, trial: Trial) -> None:
        best = self._best[str(study)]
        sign = 1 if study.metric.higher_is_better else -1
        value = trial.value if trial.status == "complete" else None
        if value is not None and (best is None or sign * value > sign * best):
            self._best[str(study)] = value
            self.say(f"tuning {study}: trial {trial.number}, {study.metric} {value:.4f} on validation data")
        elif trial.status == "failed":
            self.say(f"tuning {study}: trial {trial.number} FAILED: {trial.error}")
        if self._live is not None:
            self._live.update(Text(f"tuning {study}: {count_of(trial.number + 1, 'trial')}"))

    def started(self, task: Task) -> None:
        self._began[str(task)] = time.monotonic()
        self._start_live()
        head = f"[{self._over + len(self._runs) + 1}/{self._todo}] {task}"
        self._runs[str(task)] = LiveRun(head, self._rule, self._watched, self._began[str(task)])
        self._show()

    def round(self, task: Task, number: int, values: Mapping[str, float]) -> None:
        run = self._runs.get(str(task))
        if run is not None and self._live is not None:  # a worker's last message may come late
            run.round(number, values, time.monotonic())
            self._show()

    def lost(self, task: Task) -> None:
        self._runs.pop(str(task), None)
        self._show()
        self.say(f"{task}: its worker died (killed, or out of memory); it starts again")

    def finished(self, task: Task, run: Run) -> None:
        self._over += 1
        self._runs.pop(str(task), None)
        self._show()
        record = run.record
        seconds = time.monotonic() - self._began.pop(str(task), time.monotonic())
        head = f"[{self._over}/{self._todo}] {task}: "
        if record.status == "failed":
            self.say(f"{head}FAILED: {record.error}")
            return
        rounds = (
            "" if record.best_round is None else f"round {record.best_round} of {record.rounds_trained}, "
        )
        summary = record.metrics[record.primary]
        mean = "undefined" if summary.mean is None else f"{summary.mean:.4f}"
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

    def _show(self) -> None:
        if self._live is not None:
            lines = [
                Text(printable(str(run)), no_wrap=True, overflow="ellipsis")
                for run in list(self._runs.values())
            ]
            self._live.update(Group(*lines))

    def _start_live(self) -> None:
        if self._console.is_terminal and not self._quiet and self._live is None:
            self._live = Live(console=self._console, transient=True, refresh_per_second=8)
            self._live.start()

    def _stop_live(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
