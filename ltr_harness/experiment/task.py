"""Tasks, and the plan that lists them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ltr_harness.config.experiment import Experiment, ModelConfig
from ltr_harness.config.point import model_at
from ltr_harness.experiment.studies import Choice, Study
from ltr_harness.wording import count_of

State = Literal["done", "score again", "train"]


@dataclass(frozen=True)
class Task:
    """One run to be: a model on a fold with a seed."""

    model: str
    fold: str
    seed: int
    seed_matters: bool  # False where every seed gives the same model, so that one run stands for all
    identity: str
    evaluation_identity: str
    folder: Path
    # ``done``; ``score again`` where metrics or test data changed but no tree can have; ``train``
    state: State
    # what a search has chosen; None where the model is not tuned
    choice: Choice | None = field(default=None, compare=False)

    def __str__(self) -> str:
        parts = [self.model]
        if self.fold != "all":
            parts.append(self.fold)
        if self.seed_matters:
            parts.append(f"seed {self.seed}")
        return ", ".join(parts)


@dataclass(frozen=True)
class TimeLeft:
    """What is still to be done, in seconds by the clock.

    Example:
        >>> print(TimeLeft(199, 2)), print(TimeLeft(0, 5)), print(TimeLeft(0, 0))
        about 3 min; no estimate yet for 2 runs
        no estimate yet
        <BLANKLINE>
        (None, None, None)
    """

    seconds: float  # of the runs that can be judged, side by side on all workers
    n_unknown: int  # runs that resemble none that has finished

    def __str__(self) -> str:
        if not self.seconds:
            return "no estimate yet" if self.n_unknown else ""
        left_out = f"; no estimate yet for {count_of(self.n_unknown, 'run')}" if self.n_unknown else ""
        return f"about {duration(self.seconds)}{left_out}"


def duration(seconds: float) -> str:
    """Seconds as people say them.

    Example:
        >>> duration(0.4), duration(48), duration(199), duration(8000)
        ('1 s', '48 s', '3 min', '2 h 13 min')
    """
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


@dataclass(frozen=True)
class Plan:
    """What is to be done."""

    tasks: tuple[Task, ...]  # in the order in which they run
    # the searches of models that are tuned. The runs of one that is not over are not among the tasks: what they
    # would train is not known yet.
    studies: tuple[Study, ...] = ()
    left: TimeLeft = TimeLeft(0.0, 0)  # how long what is to be done will take

    def count(self, state: State) -> int:
        return sum(task.state == state for task in self.tasks)

    @property
    def open_studies(self) -> tuple[Study, ...]:
        """The searches that have budget left."""
        return tuple(study for study in self.studies if study.choice is None)


def config_of(experiment: Experiment, model: str, choice: Choice | None) -> ModelConfig:
    """A model as it is trained: with what was chosen for it, if it is tuned."""
    config = experiment.models[model]
    return config if choice is None else model_at(config, choice.point)
