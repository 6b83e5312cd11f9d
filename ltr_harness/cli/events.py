"""What `--json` writes to stderr: one JSON object per line, each of these kinds; `schema events` publishes them."""

import logging
import sys
import threading
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal, Self, Union

import click
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, TypeAdapter
from pydantic.dataclasses import dataclass

from ltr_harness import __version__
from ltr_harness.cli.exit_codes import INTERRUPTED, as_problems, came_from_ctrl_c
from ltr_harness.cli.output import Notes
from ltr_harness.inspection import Finding
from ltr_harness.wording import printable, without_commands

SCHEMA_VERSION: Final = 1


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_serialization_defaults_required=True)


class _Event(_Part):
    time: AwareDatetime = Field(
        default_factory=lambda: datetime.now(UTC), description="When it happened, UTC."
    )


class Began(_Event):
    """The first line."""

    event: Literal["began"] = "began"
    schema_version: Literal[1] = SCHEMA_VERSION
    command: str = Field(description="run or monitor.")
    version: str = Field(description="Of ltr-harness.")


class Said(_Event):
    """Something for people: what is being done, a warning."""

    event: Literal["said"] = "said"
    text: str


class PlannedRun(_Part):
    """One model on one fold with one seed."""

    run: str = Field(description="Name of its folder; the same in all events about it.")
    model: str
    fold: str
    seed: int
    state: Literal["done", "score again", "train"] = Field(description="The work to do.")


class PlannedSearch(_Part):
    """The search for a tuned model's options on one fold."""

    search: str = Field(description="Name of its folder; the same in all events about it.")
    model: str
    fold: str
    trials: int = Field(description="That are over already.")
    over: bool = Field(description="Its budget is used up: its runs are among `runs`.")


@dataclass(config=ConfigDict(extra="forbid"), frozen=True)
class DataFinding(Finding):
    """What a lint found in the data."""

    lint: Annotated[str, Field(description="Its name, as --accept takes it.")]
    place: Annotated[str, Field(description="Split or splits, with the fold where there are several.")]
    accepted: bool = Field(description="An error that was named by --accept.")


class Planned(_Event):
    """What the experiment consists of, what exists already included; said again once all searches are over."""

    event: Literal["planned"] = "planned"
    folder: str = Field(description="Where the folders of the runs are.")
    threads: int = Field(description="Of each training.")
    searches: list[PlannedSearch] = Field(description="One for each tuned model on each fold.")
    runs: list[PlannedRun]
    findings: list[DataFinding] = Field(description="Of the data lints, the worst first.")


class Tried(_Event):
    """A trial of a search is over."""

    event: Literal["tried"] = "tried"
    search: str
    trial: int = Field(ge=0)
    status: Literal["complete", "pruned", "failed"]
    error: str | None = Field(description="Why it failed.")
    options: dict[str, Any] = Field(description="What was tried.")
    value: float | None = Field(description="On validation data; of a pruned trial the best so far.")
    seconds: float


class Started(_Event):
    """A run begins."""

    event: Literal["started"] = "started"
    run: str


class Round(_Event):
    """A boosting round has been evaluated on the validation split."""

    event: Literal["round"] = "round"
    run: str
    round: int = Field(ge=1)
    values: dict[str, float | None] = Field(description="Mean of each metric; null where it is undefined.")


class Lost(_Event):
    """The worker that trained a run has died; the run starts again."""

    event: Literal["lost"] = "lost"
    run: str


class Finished(_Event):
    """A run is over and its folder is written."""

    event: Literal["finished"] = "finished"
    run: str
    status: Literal["complete", "failed"]
    error: str | None = Field(description="Why it failed.")
    best_round: int | None = Field(description="null where there are no rounds.")
    rounds_trained: int | None
    metrics: dict[str, float | None] = Field(description="Means on test; null where undefined.")
    seconds: dict[str, float] = Field(description="Seconds of training, scoring and evaluation.")


class Reporting(_Event):
    """All runs are there; comparison and report begin."""

    event: Literal["reporting"] = "reporting"


class Reported(_Event):
    """The report is written."""

    event: Literal["reported"] = "reported"
    report: str = Field(description="Path of report.html; report.json is beside it.")


class Alerted(_Event):
    """The monitor raised an alert."""

    event: Literal["alerted"] = "alerted"
    kind: str
    text: str


class ProblemFound(_Event):
    """What keeps the command from going on; there may be several."""

    event: Literal["problem"] = "problem"
    place: str = Field(description="File and line, option, query; empty where there is none.")
    found: str
    expected: str
    cure: str


class Ended(_Event):
    """The last line."""

    event: Literal["ended"] = "ended"
    exit_code: int


Event: Any = Union[tuple(_Event.__subclasses__())]  # noqa: UP007


def taken(value: object, *names: str) -> dict[str, Any]:
    """What an event has from a value under the value's own names."""
    return {name: getattr(value, name) for name in names}


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
        self._command = command
        self._quiet = quiet
        self._lock = threading.Lock()
        self._warnings = Notes(self.say)
        self._replaced: list[logging.Handler] = []
        self.exit_code = 0

    def emit(self, event: _Event) -> None:
        """One line, whole, at once."""
        if self._quiet and not isinstance(event, ProblemFound | Ended):
            return
        with self._lock:
            sys.stderr.write(without_commands(printable(event.model_dump_json())) + "\n")
            sys.stderr.flush()

    def say(self, text: str) -> None:
        """What other listeners print as a line."""
        self.emit(Said(text=text))

    def __enter__(self) -> Self:
        self._replaced = logging.getLogger("ltr_harness").handlers[:]
        logging.getLogger("ltr_harness").handlers[:] = [self._warnings]
        self.emit(Began(command=self._command, version=__version__))
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
                self.emit(ProblemFound(**taken(problem, "place", "found", "expected", "cure")))
        elif error is not None:
            return
        self.emit(Ended(exit_code=self.exit_code))
        if error is not None:
            raise click.exceptions.Exit(self.exit_code) from error
