"""A command's events on stderr while it works, from `began` to `ended`, however it ends."""

from __future__ import annotations

import logging
import sys
import threading
from types import TracebackType
from typing import Self

import click

from ltr_harness import __version__
from ltr_harness.cli import events
from ltr_harness.cli.ending import INTERRUPTED, as_problems, came_from_ctrl_c
from ltr_harness.wording import printable, without_commands


class EventStream:
    """Errors become events too, and end the command with their exit code, so that stderr holds nothing else."""

    def __init__(self, command: str, quiet: bool) -> None:
        self._command = command
        self._quiet = quiet
        self._lock = threading.Lock()
        self._warnings = _Warnings(self)
        self._replaced: list[logging.Handler] = []
        self.exit_code = 0

    def emit(self, event: events.Event) -> None:
        """One line, whole, at once."""
        if self._quiet and not isinstance(event, events.ProblemFound | events.Ended):
            return
        with self._lock:
            sys.stderr.write(without_commands(printable(event.model_dump_json())) + "\n")
            sys.stderr.flush()

    def say(self, text: str) -> None:
        """What other listeners print as a line."""
        self.emit(events.Said(text=text))

    def __enter__(self) -> Self:
        self._replaced = logging.getLogger("ltr_harness").handlers[:]
        logging.getLogger("ltr_harness").handlers[:] = [self._warnings]
        self.emit(events.Began(command=self._command, version=__version__))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        logging.getLogger("ltr_harness").handlers[:] = self._replaced
        if came_from_ctrl_c(error):
            self.exit_code = INTERRUPTED
        elif isinstance(error, click.exceptions.Exit):
            self.exit_code = error.exit_code
        elif isinstance(error, Exception) and not isinstance(error, BrokenPipeError):
            self.exit_code, problems = as_problems(error)
            for problem in problems:
                self.emit(
                    events.ProblemFound(
                        place=problem.place, found=problem.found, expected=problem.expected, cure=problem.cure
                    )
                )
        elif error is not None:
            return
        self.emit(events.Ended(exit_code=self.exit_code))
        if error is not None:
            raise click.exceptions.Exit(self.exit_code) from error


class _Warnings(logging.Handler):
    """What the harness warns of, as events."""

    def __init__(self, stream: EventStream) -> None:
        super().__init__(logging.WARNING)
        self._stream = stream

    def emit(self, record: logging.LogRecord) -> None:
        self._stream.say(record.getMessage())
