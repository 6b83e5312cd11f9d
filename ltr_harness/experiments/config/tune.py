"""The sections ``sweep:``, whose points are all compared, and ``tune:``, which chooses one on validation data."""

import math
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    WithJsonSchema,
    model_validator,
)

from ltr_harness.errors import MismatchError

BUILT_IN = "built-in"
MOST_POINTS = 1000  # that one model may become: all of them are compared with each other
Seed = Annotated[int, Field(ge=0, lt=2**31)]
Number = int | float


def list_validator(most: float = math.inf, *, repeated: bool = False) -> AfterValidator:
    """Return a validator of lists with at least one value, at most so many, and each once."""

    def check(values: Any) -> Any:
        if not values:
            raise ValueError("at least one")
        if len(values) > most:
            raise ValueError(f"at most {most:,}; found {len(values):,}")
        repeated_values = sorted(str(value) for value, count in Counter(list(values)).items() if count > 1)
        if repeated_values and not repeated:
            raise ValueError(f"each once; {', '.join(repeated_values)} was given more than once")
        return values

    return AfterValidator(check)


class ExperimentSection(BaseModel):
    """A part of an experiment: no other keys are accepted, and no value changes."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        arbitrary_types_allowed=True,
        use_attribute_docstrings=True,
        defer_build=True,
    )


def shown_value(value: Any) -> str:
    """Return a value as names and messages have it: YAML's words, no more digits than it was written with."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.12g}" if isinstance(value, float) else str(value)


class Range(ExperimentSection):
    """Numbers from `low` to `high`, both included; integers where both are written as such."""

    low: Number = Field(allow_inf_nan=False)
    """The smallest value."""
    high: Number = Field(allow_inf_nan=False)
    """The largest value."""
    log: bool = False
    """Search by factors instead of differences: 0.01, 0.1, 1."""
    step: Number | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Only low, low + step, low + 2 step …"""

    @model_validator(mode="after")
    def _check_bounds(self) -> Self:
        if not self.low < self.high:
            raise ValueError("low < high")
        if self.log and self.low <= 0:
            raise ValueError("low > 0 with log: true")
        if self.log and self.step is not None:
            raise ValueError("step or log: true, not both")
        if self.is_integer and isinstance(self.step, float):
            raise ValueError("an integer step between integers")
        return self

    @property
    def is_integer(self) -> bool:
        """True where only integers are meant."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    def value_at(self, share: float) -> Number:
        """Return the value at a share of the way from low to high, rounded to the four digits that names can carry."""
        if self.step is not None:
            steps = math.floor((self.high - self.low) / self.step + 1e-9)
            value = self.low + self.step * math.floor(share * (steps + 1))
            return value if self.is_integer else float(f"{value:.12g}")
        half = (
            0.5 if self.is_integer else 0.0
        )  # each integer owns the stretch from half below to half above it
        low, high = self.low - half, self.high + half
        value = low * (high / low) ** share if self.log else low + (high - low) * share
        rounded = round(value) if self.is_integer else float(f"{value:.4g}")
        return type(rounded)(min(max(rounded, self.low), self.high))


def _distinct(values: tuple[Any, ...]) -> tuple[Any, ...]:
    if not values:
        raise ValueError("at least one value")
    # by kind too: 1, 1.0 and true are equal in Python and different things to a library
    ordered = sorted((type(value).__name__, shown_value(value)) for value in values)
    repeated_values = [value for (kind, value), other in pairwise(ordered) if (kind, value) == other]
    if repeated_values:
        raise ValueError(
            f"each value once; {', '.join(dict.fromkeys(repeated_values))} was given more than once"
        )
    return values


def _kind(value: Any) -> str:
    return "list" if isinstance(value, list | tuple) else "range"


def _list_or_range(items: dict[str, Any]) -> WithJsonSchema:
    return WithJsonSchema(
        {"anyOf": [{"type": "array", "items": items, "minItems": 1}, Range.model_json_schema()]}
    )


TriedValues = Annotated[tuple[Any, ...], AfterValidator(_distinct)]  # values of any kind, each tried

Draws = Annotated[
    Annotated[TriedValues, Tag("list")] | Annotated[Range, Tag("range")],
    Discriminator(_kind),
    _list_or_range({}),
]
"""What random points are drawn from."""

OptionValue = bool | int | float | str
Space = Annotated[
    Annotated[tuple[OptionValue, ...], AfterValidator(_distinct), Tag("list")]
    | Annotated[Range, Tag("range")],
    Discriminator(_kind),
    _list_or_range({"anyOf": [{"type": "boolean"}, {"type": "number"}, {"type": "string"}]}),
]
"""What is searched: a list of plain values, or a range."""


class SweepConfig(ExperimentSection):
    """Options of models, each with several values; every combination becomes a model of its own."""

    grid: dict[str, TriedValues] = Field(default_factory=dict)
    """Every combination: {models.lgb.params.num_leaves: [15, 31, 63], …}."""
    random: dict[str, Draws] = Field(default_factory=dict)
    """Points drawn at random from lists and ranges: {models.xgb.params.eta: {low: 0.01, high: 0.3, log: true}, …}."""
    points: int | None = Field(default=None, ge=1, le=MOST_POINTS)
    """How many `random` points each model gets."""
    seed: Seed = 1
    """Decides which points are drawn."""

    @model_validator(mode="after")
    def _points_go_with_random(self) -> Self:
        if not self.grid and not self.random:
            raise MismatchError("nothing to sweep", "grid: {…} or random: {…}")
        if self.random and self.points is None:
            expected = "how many points to draw: points: 20"
            raise MismatchError("sweep.random without sweep.points", expected)
        if self.points is not None and not self.random:
            expected = "none: a grid has as many points as combinations"
            raise MismatchError("sweep.points without sweep.random", expected)
        shared_options = sorted(self.grid.keys() & self.random.keys())
        if shared_options:
            raise MismatchError(
                f"{', '.join(shared_options)} in sweep.grid and in sweep.random", "one of them"
            )
        return self


class TuneConfig(ExperimentSection):
    """Options of models, searched for the values that are best on validation data."""

    models: Annotated[dict[str, Literal["built-in"] | dict[str, Space]], list_validator()]
    """Model to what is searched: {params.num_leaves: {low: 7, high: 127, log: true}, …}, or built-in."""
    trials: int | None = Field(default=None, ge=1)
    """Budget: this many trials per model and fold."""
    minutes: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Budget: no trial begins once a model's trials on a fold have taken this long together."""
    sampler: Literal["tpe", "random"] = "tpe"
    """tpe learns from earlier trials where to look; random does not."""
    pruner: Literal["median", "none"] = "median"
    """median ends a trial whose best value so far is below the median of earlier trials at that round."""
    inner_folds: int | None = Field(
        default=None,
        ge=3,
        le=1000,
        description="Nested cross-validation: judge a trial on this many folds of the training queries instead of on "
        "the validation data.",
    )
    parallel: int = Field(default=1, ge=1, le=1000)
    """Trials of one model and fold at the same time. Beyond 1 the choice depends on their timing."""
    storage: Literal["journal", "sqlite"] = "journal"
    """How Optuna keeps the trials; several processes need a journal."""
    seed: Seed = 1
    """Decides what is tried, and trains every trial."""

    @model_validator(mode="after")
    def _budget(self) -> Self:
        if self.trials is None and self.minutes is None:
            raise MismatchError("tune has no budget", "trials: 50, minutes: 30, or both")
        if self.parallel > 1 and self.storage == "sqlite":
            raise MismatchError("tune.parallel beyond 1 with storage: sqlite", "storage: journal")
        return self

    def space(self, model: str) -> Mapping[str, Any]:
        """Return the options that are searched for a model; empty where it is not tuned."""
        space = self.models.get(model, {})
        return {} if isinstance(space, str) else space
