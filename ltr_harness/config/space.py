"""The values that one option of a model may take: a list of them, or a range."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Annotated, Any, Self

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

Number = int | float


def shown_value(value: Any) -> str:
    """A value as names and messages have it: YAML's words, no more digits than it was written with.

    Example:
        >>> [shown_value(value) for value in (True, None, 0.05, 1.0, "rank:ndcg", [0, 1, 3])]
        ['true', 'null', '0.05', '1', 'rank:ndcg', '[0, 1, 3]']
    """
    if isinstance(value, bool) or value is None:
        return str({True: "true", False: "false", None: "null"}[value])
    return f"{value:.12g}" if isinstance(value, float) else str(value)


class Range(BaseModel):
    """Numbers from `low` to `high`, both included; integers where both are written as such.

    Example:
        >>> Range(low=4, high=64, log=True).ends
        (4, 64)
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    low: Number = Field(description="The smallest value.", allow_inf_nan=False)
    high: Number = Field(description="The largest value.", allow_inf_nan=False)
    log: bool = Field(default=False, description="Search by factors instead of differences: 0.01, 0.1, 1.")
    step: Number | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="Only low, low + step, low + 2 step …"
    )

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if not self.low < self.high:
            raise ValueError("low < high")
        if self.log and self.low <= 0:
            raise ValueError("low > 0 with log: true")
        if self.log and self.step is not None:
            raise ValueError("step or log: true, not both")
        if self.whole and isinstance(self.step, float):
            raise ValueError("an integer step between integers")
        return self

    @property
    def whole(self) -> bool:
        """Only integers are meant."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    @property
    def ends(self) -> tuple[Number, Number]:
        """The values at both ends: what a check asks a library about."""
        return self.low, self.high

    def drawn(self, share: float) -> Number:
        """The value at a share of the way, rounded to what a name can carry: four digits.

        Example:
            >>> [Range(low=1, high=4).drawn(u) for u in (0.0, 0.25, 0.99)]
            [1, 2, 4]
            >>> Range(low=0.01, high=1.0, log=True).drawn(0.5)
            0.1
        """
        if self.step is not None:
            steps = math.floor((self.high - self.low) / self.step + 1e-9)
            value = self.low + self.step * math.floor(share * (steps + 1))
            return value if self.whole else float(f"{value:.12g}")
        if self.whole:  # each integer owns the stretch from half below to half above it
            low, high = self.low - 0.5, self.high + 0.5
            value = low * (high / low) ** share if self.log else low + (high - low) * share
            return min(max(round(value), int(self.low)), int(self.high))
        value = (
            self.low * (self.high / self.low) ** share
            if self.log
            else self.low + (self.high - self.low) * share
        )
        return min(max(float(f"{value:.4g}"), float(self.low)), float(self.high))


def _distinct(values: tuple[Any, ...]) -> tuple[Any, ...]:
    if not values:
        raise ValueError("at least one value")
    # by kind too: 1, 1.0 and true are equal in Python and different things to a library
    ordered = sorted((type(value).__name__, shown_value(value)) for value in values)
    twice = [value for (kind, value), other in pairwise(ordered) if (kind, value) == other]
    if twice:
        raise ValueError(f"each value once; {', '.join(dict.fromkeys(twice))} was given more than once")
    return values


def _kind(value: Any) -> str:
    return "list" if isinstance(value, list | tuple) else "range"


def _list_or_range(items: dict[str, Any]) -> WithJsonSchema:
    return WithJsonSchema(
        {"anyOf": [{"type": "array", "items": items, "minItems": 1}, Range.model_json_schema()]}
    )


Values = Annotated[tuple[Any, ...], AfterValidator(_distinct)]
"""Values of any kind, each tried."""

Draws = Annotated[
    Annotated[Values, Tag("list")] | Annotated[Range, Tag("range")],
    Discriminator(_kind),
    _list_or_range({}),
]
"""What random points are drawn from."""

Choice = bool | int | float | str
Space = Annotated[
    Annotated[tuple[Choice, ...], AfterValidator(_distinct), Tag("list")] | Annotated[Range, Tag("range")],
    Discriminator(_kind),
    _list_or_range({"anyOf": [{"type": "boolean"}, {"type": "number"}, {"type": "string"}]}),
]
"""What is searched: a list of plain values, or a range."""
