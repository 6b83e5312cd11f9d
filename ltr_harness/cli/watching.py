"""Progress of a running experiment on stderr: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from ltr_harness.experiment.plan import Plan, Task
from ltr_harness.experiment.progress import Progress
from ltr_harness.runs import Run


class TerminalProgress(Progress):
    """Says what is planned, what runs and how each run ended."""

    def __init__(self, quiet: bool) -> None:
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._quiet = quiet
        self._live: Live | None = None
        self._watched = ""
        self._todo = 0
        self._over = 0
        self._began: dict[str, float] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop_live()

    def say(self, text: str) -> None:
        """A plain line."""
        if not self._quiet:
            self._console.print(Text(text))

    def planned(self, plan: Plan, threads: int) -> None:
        done, again, new = plan.count("done"), plan.count("score again"), plan.count("train")
        self._todo = again + new
        self._watched = str(plan.stopping.metric if plan.stopping else plan.primary)
        parts = [f"{len(plan.tasks)} runs: {new} to train"]
        if again:
            parts.append(f"{again} to score again")
        if done:
            parts.append(f"{done} done already")
        self.say(", ".join(parts) + f"; {threads} thread{'s' if threads > 1 else ''} each")
        constant = sorted({task.model for task in plan.tasks if not task.seed_matters})
        if constant:
            self.say(f"trained once, because the seed cannot matter: {', '.join(constant)}")

    def started(self, task: Task) -> None:
        self._began[str(task)] = time.monotonic()
        if self._console.is_terminal and not self._quiet and self._live is None:
            self._live = Live(console=self._console, transient=True, refresh_per_second=8)
            self._live.start()
        self._show(f"[{self._over + 1}/{self._todo}] {task}")

    def round(self, task: Task, number: int, values: Mapping[str, float]) -> None:
        if self._live is not None:
            seconds = time.monotonic() - self._began[str(task)]
            value = values.get(self._watched)
            shown = "" if value is None else f", {self._watched} {value:.4f}"
            self._show(f"[{self._over + 1}/{self._todo}] {task}: round {number}{shown} ({seconds:.0f} s)")

    def finished(self, task: Task, run: Run) -> None:
        self._over += 1
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

    def _show(self, text: str) -> None:
        if self._live is not None:
            self._live.update(Text(text, no_wrap=True, overflow="ellipsis"))

    def _stop_live(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
