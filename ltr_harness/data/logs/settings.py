"""Settings that configurations of logs share: strict sections, durations, and the roles of columns."""

import re
from typing import Annotated, Any, Self
from zoneinfo import available_timezones

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from ltr_harness._util.catalog import did_you_mean
from ltr_harness.data.time_folds import CalendarSpan
from ltr_harness.errors import MismatchError

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_LONGEST, _DIGITS = 36_525 * 86_400, 20


def seconds(text: str) -> int:
    """Return the seconds of a duration such as 7d or 12h."""
    return int(text[:-1]) * _UNITS[text[-1]]


def duration(text: str) -> str:
    if not re.fullmatch(r"[0-9]+[smhdw]", text):
        raise ValueError("an integer and a unit: 30m, 12h, 7d, 2w")
    if len(text) > _DIGITS or seconds(text) > _LONGEST:
        raise ValueError(f"at most 100 years, {_LONGEST // _UNITS['d']}d")
    return text


def _time_zone(name: str) -> str:
    zones = available_timezones()
    if name not in zones:
        cities = {zone.rpartition("/")[2].lower(): zone for zone in sorted(zones, key=len, reverse=True)}
        city = cities.get(name.lower())
        hint = f"did you mean {city!r}?" if city else did_you_mean(name, zones).partition(" (known")[0]
        expected = "a time zone such as UTC or Europe/Berlin"
        raise ValueError(f"{expected}; {hint}" if "?" in hint else expected)
    return name


def one_or_many(value: Any) -> Any:
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, list) else value


Duration = Annotated[str, AfterValidator(duration)]
SpanText = Annotated[str, AfterValidator(lambda text: str(CalendarSpan.of(text)))]
TimeZone = Annotated[str, AfterValidator(_time_zone)]
NonEmptyText = Annotated[str, Field(min_length=1)]
NonEmptyTexts = Annotated[tuple[NonEmptyText, ...], BeforeValidator(one_or_many)]


class ConfigSection(BaseModel):
    """A section of the configuration: unknown keys are errors, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True, allow_inf_nan=False)


class ListColumns(ConfigSection):
    """The columns that record what was shown to whom, where and when."""

    query_id: NonEmptyText = Field(default="query_id", description="One search: one list shown to one user.")
    item_id: NonEmptyText | None = Field(
        default=None, description="What was shown; needed to find duplicates and to join events."
    )
    rank: NonEmptyText | None = Field(
        default=None,
        description="Position from 1. This or `score` is needed; both are checked against each other.",
    )
    score: NonEmptyText | None = Field(default=None, description="The model's score, higher ranks first.")
    timestamp: NonEmptyText | None = Field(
        default=None, description="When the query was asked; without it everything is one window."
    )
    cluster_id: NonEmptyText | None = Field(
        default=None, description="Whom queries belong to, such as the user: their queries are alike."
    )

    @model_validator(mode="after")
    def _a_ranking(self) -> Self:
        if self.rank is None and self.score is None:
            raise MismatchError("neither rank nor score", "the column with the position or the score")
        return self
