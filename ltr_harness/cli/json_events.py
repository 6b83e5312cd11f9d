"""The lines that `--json` writes to stderr, JSON objects of five kinds; `schema events` publishes them."""

import logging
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, Union

import click
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, TypeAdapter

from ltr_harness import __version__
from ltr_harness._util.escapes import printable, without_commands
from ltr_harness.cli.exit_codes import INTERRUPTED, as_problems, came_from_ctrl_c
from ltr_harness.cli.output import LoggedCautions, echo
from ltr_harness.errors import Caution

SCHEMA_VERSION: Final = 2


class _Event(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_serialization_defaults_required=True)

    time: AwareDatetime = Field(
        default_factory=lambda: datetime.now(UTC), description="When it happened, UTC."
    )


class Started(_Event):
    """The command begins, on the first line, or a run does."""

    event: Literal["started"] = "started"
    schema_version: Literal[2] = SCHEMA_VERSION
    command: str = Field(description="run or monitor.")
    version: str = Field(default=__version__, description="Of ltr-harness.")
    run: str | None = Field(default=None, description="Name of the run's folder; null for the command.")
    model: str | None = None
    fold: str | None = None
    seed: int | None = None


class Finished(_Event):
    """A run is complete and its folder is written."""

    event: Literal["finished"] = "finished"
    run: str
    best_round: int | None = Field(description="null where there are no rounds.")
    rounds_trained: int | None
    metrics: dict[str, float | None] = Field(description="Means on test; null where undefined.")
    seconds: dict[str, float] = Field(description="Seconds of training, scoring and evaluation.")


class Failed(_Event):
    """A run failed, or a problem ends the command; there may be several."""

    event: Literal["failed"] = "failed"
    run: str | None = Field(default=None, description="Name of the run's folder; null for the command.")
    place: str = Field(description="File and line, option, query, run; empty where there is none.")
    found: str
    expected: str = ""
    cure: str = ""


class Compared(_Event):
    """The report is written."""

    event: Literal["compared"] = "compared"
    report: str = Field(description="Path of report.html; report.json is beside it.")


class Done(_Event):
    """The last line."""

    event: Literal["done"] = "done"
    exit_code: int
    cautions: list[Caution] = Field(
        description="What to keep in mind, each once, in the order of its first time."
    )


Event: Any = Union[tuple(_Event.__subclasses__())]  # noqa: UP007


def schema() -> dict[str, Any]:
    """JSON Schema of one line."""
    event = TypeAdapter(Annotated[Event, Field(discriminator="event")]).json_schema(mode="serialization")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "One line that --json writes to stderr",
        **event,
    }


class EventStream:
    """Errors become events too, and end the command with their exit code, so that stderr holds nothing else."""

    def __init__(self, command: str, quiet: bool) -> None:
        self.command = command
        self.exit_code = 0
        self._quiet = quiet
        self._cautions: dict[Caution, None] = {}
        self._replaced: list[logging.Handler] = []

    def emit(self, event: _Event) -> None:
        """Write a line, whole, at once."""
        if self._quiet and not isinstance(event, Failed | Done):
            return
        sys.stderr.write(without_commands(printable(event.model_dump_json())) + "\n")
        sys.stderr.flush()

    def caution(self, caution: Caution) -> None:
        """Keep a caution for the last line."""
        self._cautions[caution] = None

    def print_report(self, report: Path | None) -> None:
        """Print the report.json beside a report to stdout, and emit the report's event; nothing without a report."""
        if report is not None:
            echo(report.with_name("report.json").read_text(encoding="utf-8"), nl=False)
            self.emit(Compared(report=str(report)))

    def __enter__(self) -> Self:
        self._replaced = logging.getLogger("ltr_harness").handlers[:]
        logging.getLogger("ltr_harness").handlers[:] = [LoggedCautions(self.caution)]
        self.emit(Started(command=self.command))
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        logging.getLogger("ltr_harness").handlers[:] = self._replaced
        if came_from_ctrl_c(error):
            self.exit_code = INTERRUPTED
        elif isinstance(error, click.exceptions.Exit):
            self.exit_code = error.exit_code
        elif isinstance(error, Exception) and not isinstance(error, BrokenPipeError):
            self.exit_code, problems = as_problems(error)
            for problem in problems:
                self.emit(
                    Failed(
                        place=problem.place,
                        found=problem.found,
                        expected=problem.expected,
                        cure=problem.cure,
                    )
                )
        elif error is not None:
            return
        self.emit(Done(exit_code=self.exit_code, cautions=list(self._cautions)))
        if error is not None:
            raise click.exceptions.Exit(self.exit_code) from error
