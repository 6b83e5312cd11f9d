"""Rule of relevance, as configured: how events become the relevance of a row."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Literal, Self

from pydantic import AliasChoices, Field, model_validator

from ltr_harness._util.catalog import did_you_mean
from ltr_harness.data.logs.settings import (
    ConfigSection,
    Duration,
    ListColumns,
    NonEmptyText,
    NonEmptyTexts,
    seconds,
)
from ltr_harness.errors import Caution, MismatchError


class Rung(ConfigSection):
    """One condition of a ladder and the grade it is worth."""

    when: str = Field(description="An event's name, or `column >= number`.")
    grade: float = Field(ge=0)

    @property
    def condition(self) -> tuple[str, float] | None:
        """(column, least value), or None for an event."""
        parsed = re.fullmatch(r"\s*(\w+)\s*>=\s*([-+.0-9eE]+)\s*", self.when)
        return (parsed[1], float(parsed[2])) if parsed else None


class Dwell(ConfigSection):
    """A click counts only when the user stayed."""

    column: str = Field(
        description="Seconds on the item; missing on a query's last click counts as satisfied: the visit ended there."
    )
    event: str = Field(default="click", description="The event that needs it.")
    satisfied: float = Field(default=30.0, gt=0, description="From this many seconds on.")
    by: dict[str, dict[str, float]] = Field(
        {}, description="Other thresholds by segment: {device: {mobile: 20}}."
    )


class EventLog(ConfigSection):
    """A table of events, one row each, joined to the impressions."""

    path: str
    baseline_path: str | None = Field(
        default=None, description="The baseline's events, where they lie elsewhere."
    )
    event: NonEmptyText = Field(default="event", description="Column with the event's name.")
    query_id: NonEmptyText | None = Field(
        default="query_id",
        description="Null: an event goes to the latest earlier impression of the item by that user.",
    )
    item_id: NonEmptyText = "item_id"
    user: NonEmptyText | None = Field(
        default=None,
        description="Needed, with `timestamp`, where events carry no query id; the log's column is cluster_id.",
    )
    timestamp: NonEmptyText | None = None
    window: Duration = Field(
        default="7d", description="How long after the impression an event still belongs to it."
    )
    ubi: bool = Field(
        default=False,
        description="The events are documents of User Behavior Insights, joined by their query_id and object_id; "
        "actions that do not count are left alone.",
    )

    @model_validator(mode="after")
    def _refuse_names_beside_ubi(self) -> Self:
        fields = type(self).model_fields
        options = ("event", "query_id", "item_id", "user", "timestamp")
        changed_options = [name for name in options if getattr(self, name) != fields[name].default]
        if self.ubi and changed_options:
            raise MismatchError(
                f"{', '.join(changed_options)} beside ubi; expected none of them: its documents name them"
            )
        return self


class PropensityLog(ConfigSection):
    """An experiment that gave ranks at random: one row per item shown."""

    path: str = Field(description="Parquet, CSV, Arrow or JSON lines, file or folder.")
    design: Literal["swaps", "random_order"] = Field(
        description="swaps: rank 1 exchanged with another rank, or not; random_order: the top shuffled."
    )
    baseline_path: str | None = Field(
        default=None, description="The experiment on the baseline's page, where it differs."
    )
    query_id: str = Field(default="query_id", description="Identifier of the row's list.")
    rank: str = Field(default="rank", description="Position shown, from 1.")
    original: str = Field(default="original_rank", description="Position before randomisation.")
    click: str = Field(default="click", description="How often it was clicked.")


class Propensity(ConfigSection):
    """The probability that a position is looked at, which corrects clicks for the place of a row."""

    column: str | None = Field(default=None, description="A column with each row's examination probability.")
    table: tuple[float, ...] = Field(
        default=(), description="By rank from 1; the last value stands for all later ranks."
    )
    baseline_table: tuple[float, ...] = Field(
        default=(), description="The baseline's page, where it differs."
    )
    errors: tuple[float, ...] = Field(
        default=(),
        description="Standard errors of the logarithms of `table`, rank 1's common to all ranks; they enter the "
        "interval of IPS-DCG. `estimate` measures them.",
    )
    baseline_errors: tuple[float, ...] = Field(default=(), description="Likewise of `baseline_table`.")
    estimate: PropensityLog | None = Field(
        default=None, description="Measure the table in an experiment; never in clicks by rank."
    )
    source: str | None = Field(default=None, description="Where the table comes from, for the report.")
    clip: float = Field(default=0.01, gt=0, le=1, description="Smaller propensities count as this.")

    @model_validator(mode="after")
    def _of_one_source(self) -> Self:
        sources = [name for name in ("column", "table", "estimate") if getattr(self, name)]
        if len(sources) != 1:
            found = f"{' and '.join(sources) or 'nothing'} given"
            raise MismatchError(f"{found}; expected one of column, table, estimate")
        if self.baseline_table and not self.table:
            raise MismatchError(
                "baseline_table without table; expected both, or estimate: {baseline_path: …}"
            )
        _refuse_errors("errors", self.errors, self.table)
        _refuse_errors("baseline_errors", self.baseline_errors, self.baseline_table)
        _refuse_table("table", self.table)
        _refuse_table("baseline_table", self.baseline_table)
        return self


def _refuse_errors(name: str, errors: Sequence[float], table: Sequence[float]) -> None:
    """Raise where there are standard errors, and not one from 0 for each rank of the table."""
    if not errors:
        return
    if len(errors) != len(table) or not all(0 <= error < math.inf for error in errors):
        raise MismatchError(f"{name} {list(errors)}; expected a number from 0 for each rank of its table")


def _refuse_table(name: str, table: Sequence[float]) -> None:
    """Raise where a value is 0 or less, or above 1."""
    for rank, value in enumerate(table, start=1):
        found = f"{name} has {value:g} at rank {rank}"
        if value > 1:
            raise MismatchError(found, "probabilities, at most 1; divide all by the largest")
        if value <= 0:
            cure = "leave out ranks at the end that nobody measured"
            raise MismatchError(found, f"probabilities above 0; {cure}")


class Relevance(ConfigSection):
    """From what users did to how relevant a row was. Part of every metric's definition."""

    mode: (
        Literal["label", "match", "quantiles", "sum", "max", "weighted_sum", "ladder", "ips", "doubly_robust"]
        | None
    ) = Field(
        default=None,
        description="label where no events are given, else max, the highest weight that happened. ips and "
        "doubly_robust estimate it as if users had examined every row alike. quantiles makes grades of numbers.",
    )
    label: NonEmptyText = Field(
        default="relevance",
        validation_alias=AliasChoices("label", "column"),
        description="Column with the ready grade (label), the class that was right (match), or numbers such as returns "
        "(quantiles, where it may be called `column`).",
    )
    bins: int | None = Field(
        default=None,
        ge=2,
        le=31,
        description="quantiles: how many grades. Of a query's n rows, one with m rows of smaller numbers has the grade "
        "floor(bins m / n), so that ties share the lower one.",
    )
    within: Literal["query"] | None = Field(
        default=None, description="quantiles: among the rows of a query, as always."
    )
    prediction: NonEmptyText | None = Field(
        default=None, description="match: column with the predicted class."
    )
    events: dict[str, float] = Field(
        default={},
        description="Event to weight; each is a column of counts unless list_column or event_log is given.",
    )
    positive: NonEmptyTexts = Field(
        default=(), description="sum, match: what counts as relevant; all events unless given."
    )
    negative: NonEmptyTexts = Field(
        default=(), description="Events such as hide or return: counted, worth 0, never less."
    )
    list_column: NonEmptyText | None = Field(
        default=None, description="One column with a list of the events' names."
    )
    event_log: EventLog | None = None
    ladder: tuple[Rung, ...] = Field(
        default=(), description="Conditions and grades, the first that holds wins."
    )
    propensity: Propensity | None = Field(
        default=None, description="ips, doubly_robust: how likely users examined each rank."
    )
    count: Literal["any", "log1p"] = Field(default="any", description="Two clicks: one, or log(1 + 2).")
    dwell: Dwell | None = None
    unseen: Literal["zero", "ignore_below_last_click"] = Field(
        default="zero",
        description="ignore_below_last_click: rows below the last one with an event are not judged. "
        "Moves what counts rows without an event (precision, f1, bpref), not ndcg, mrr, map, err or recall.",
    )
    clip: float | None = Field(default=None, gt=0, description="Largest grade of weighted_sum.")
    max_grade: float | None = Field(
        default=None, gt=0, description=("Top of the scale of grades; ERR needs it with mode label.")
    )
    unlabelled: Literal["refuse", "zero", "ignore"] = Field(
        default="refuse",
        description="label, quantiles: a row without a label is an error, not relevant, or left out of its list.",
    )
    maturity: Duration = Field(
        default="0d", description="Windows younger than this still gather labels: shown, never alerted."
    )

    @property
    def chosen(self) -> str:
        if self.mode:
            return self.mode
        if self.ladder:
            return "ladder"
        return "max" if self.events else "label"

    @property
    def from_events(self) -> bool:
        return self.chosen not in ("label", "match", "quantiles")

    @property
    def estimates(self) -> bool:
        """True where labels are unbiased estimates of relevance."""
        return self.chosen in ("ips", "doubly_robust")

    @property
    def cuts_lists(self) -> bool:
        """True where rows without a judgment are left out of their lists."""
        return self.unseen == "ignore_below_last_click" or self.unlabelled == "ignore"

    @property
    def event_names(self) -> tuple[str, ...]:
        """Every event of the log that is counted."""
        rungs = [rung.when for rung in self.ladder if rung.condition is None]
        positive = self.positive if self.from_events else ()
        return tuple(dict.fromkeys([*self.events, *positive, *rungs, *self.negative]))

    @property
    def needs_rank(self) -> bool:
        """True where propensities are looked up by the rank at which a row was shown."""
        return self.propensity is not None and not self.propensity.column

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column of the rows that the rule reads."""
        names: list[str | None] = []
        if not self.from_events:
            names.append(self.label)
            if self.chosen == "match":
                names.append(self.prediction)
        elif self.list_column:
            names.append(self.list_column)
        elif self.event_log is None:
            names += self.event_names
        if self.propensity:
            names.append(self.propensity.column)
        names += [rung.condition[0] for rung in self.ladder if rung.condition]
        if self.dwell:
            names.append(self.dwell.column)
        return tuple(_distinct(names))

    @property
    def dwell_segments(self) -> tuple[str, ...]:
        """The columns by which thresholds of dwell times differ."""
        return tuple(self.dwell.by) if self.dwell else ()

    @property
    def named_columns(self) -> tuple[str, ...]:
        """`columns`, and those by which thresholds of dwell times differ: none is a feature."""
        return tuple(_distinct([*self.columns, *self.dwell_segments]))

    @property
    def logs(self) -> list[str]:
        """Tables that the rule reads beside the rows: events, and the experiment that propensities are measured in."""
        experiment = self.propensity.estimate if self.propensity else None
        return [log.path for log in (self.event_log, experiment) if log is not None]

    def with_logs(self, paths: Sequence[str]) -> Self:
        """Return the same rule with other paths of its `logs`."""
        remaining = list(paths)
        changed: dict[str, ConfigSection] = {}
        if self.event_log is not None:
            changed["event_log"] = self.event_log.model_copy(update={"path": remaining.pop(0)})
        if self.propensity is not None and self.propensity.estimate is not None:
            experiment = self.propensity.estimate.model_copy(update={"path": remaining.pop(0)})
            changed["propensity"] = self.propensity.model_copy(update={"estimate": experiment})
        return self.model_copy(update=changed)

    @property
    def definition(self) -> dict[str, Any]:
        """The settings that two data sets must share to be labelled alike.

        They are all but the paths and the age of events, and the propensities of a page's ranks.
        """
        fields = self.model_dump(mode="json", exclude={"maturity", "event_log", "within"})
        fields["mode"] = self.chosen
        fields["propensity"] = {"clip": self.propensity.clip} if self.propensity else None
        return {key: value for key, value in fields.items() if value not in (None, {}, [], (), "refuse")}

    @property
    def by_list(self) -> bool:
        """True where a row's grade depends on the rows above and below it."""
        return self.dwell is not None or self.unseen != "zero"

    @property
    def scale(self) -> float | None:
        """The highest grade possible, where the rule fixes one."""
        if self.max_grade is not None:
            return self.max_grade
        return {
            "match": 1.0,
            "quantiles": (self.bins or 1) - 1.0,
            "max": max(self.events.values(), default=1.0),
            "ladder": max((rung.grade for rung in self.ladder), default=1.0),
            "weighted_sum": self.clip,
        }.get(self.chosen)

    @model_validator(mode="after")
    def _refuse_contradictions(self) -> Self:
        contradictions = chain(
            self._missing_parts(), self._idle_parts(), self._unread_events(), self._odd_events()
        )
        first = next(contradictions, None)
        if first is not None:
            raise MismatchError(first)
        return self

    def _missing_parts(self) -> Iterator[str]:
        """Yield the parts that the mode lacks."""
        mode = self.chosen
        parts, found = _PARTS.get(mode, ((), ""))
        if not all(getattr(self, part) for part in parts):
            yield f"mode {mode} {found}"
        if mode == "sum" and not (self.events or self.positive):
            yield "mode sum without events; expected such as positive: [click, buy]"

    def _idle_parts(self) -> Iterator[str]:
        """Yield parts that the mode would leave unused."""
        mode = self.chosen
        if self.propensity and not self.estimates:
            yield f"propensity with mode {mode}; expected mode ips or doubly_robust"
        if self.estimates and self.unseen != "zero":
            yield f"unseen with mode {mode}; expected none: propensities model examination"
        if mode == "quantiles" and self.max_grade is not None:
            yield "max_grade with mode quantiles; expected none: the highest grade is bins - 1"
        if mode != "quantiles" and (self.bins or self.within):
            yield f"bins or within with mode {mode}; expected mode quantiles"
        if self.unlabelled != "refuse" and mode not in ("label", "quantiles"):
            yield f"unlabelled with mode {mode}; expected none: a row without an event is worth 0"

    def _unread_events(self) -> Iterator[str]:
        """Yield parts about events where the mode does not look at any."""
        mode = self.chosen
        if self.from_events:
            return
        if self.unseen != "zero":
            yield f"unseen {self.unseen} with mode {mode}, which does not use clicks; expected zero"
        if self.list_column or self.event_log or self.dwell or self.ladder:
            found = f"mode {mode} does not look at events; expected no list_column, event_log, dwell, ladder"
            if mode == "label":
                found += "; or say what events are worth, as in events: {click: 1, buy: 4}, or mode: sum"
            yield found

    def _odd_events(self) -> Iterator[str]:
        """Yield weights and names of events that do not fit together, and two sources of events."""
        if any(weight < 0 for weight in self.events.values()):
            yield "a negative weight; expected weights >= 0, and the event under negative, worth 0"
        if self.chosen == "sum" and self.events:
            for name in self.positive:
                if name not in self.events:
                    cure = did_you_mean(name, self.events)
                    yield f"positive event {name!r} is not among events; expected one of them; {cure}"
        if self.list_column and self.event_log:
            yield "list_column with event_log; expected one of them"
        if self.dwell and self.dwell.event not in self.event_names:
            cure = did_you_mean(self.dwell.event, self.event_names)
            yield f"dwell.event {self.dwell.event!r} is not an event; expected one of the rule's; {cure}"


_WITHOUT_EVENTS = "without events; expected such as events: {click: 1, buy: 4}"
_WITHOUT_PROPENSITY = "lacks a part; expected events, and propensity: how likely each rank is examined"
_PARTS = {
    "max": (("events",), _WITHOUT_EVENTS),
    "weighted_sum": (("events",), _WITHOUT_EVENTS),
    "ips": (("events", "propensity"), _WITHOUT_PROPENSITY),
    "doubly_robust": (("events", "propensity"), _WITHOUT_PROPENSITY),
    "ladder": (("ladder",), "without ladder; expected such as ladder: [{when: buy, grade: 4}]"),
    "match": (
        ("prediction", "positive"),
        "lacks a part; expected prediction: (a column), positive: (the class that counts)",
    ),
    "quantiles": (("bins",), "without bins; expected such as bins: 5"),
}
"""The fields that each mode needs, and what is found and expected where one is absent."""


def columns_to_read(rule: Relevance, columns: ListColumns) -> tuple[list[str], list[str]]:
    """Return the columns that make labels: those of numbers, and those of text, lists and times."""
    texts: list[str | None] = [columns.query_id]
    if rule.event_log is not None:
        texts.append(columns.item_id)
        if not rule.event_log.query_id:
            texts += [columns.cluster_id, columns.timestamp]
    if seconds(rule.maturity):
        texts.append(columns.timestamp)
    if rule.chosen == "match":
        texts += rule.columns
    texts.append(rule.list_column)
    texts += rule.dwell_segments
    distinct_texts = _distinct(texts)
    numbers: list[str | None] = [*rule.columns]
    if rule.by_list or rule.needs_rank:
        numbers.append(columns.rank)
    return [name for name in _distinct(numbers) if name not in distinct_texts], distinct_texts


def _distinct(names: Iterable[str | None]) -> list[str]:
    """Return the names of columns, each once, without those that are not configured."""
    return [name for name in dict.fromkeys(names) if name]


def lacking(rule: Relevance, columns: ListColumns) -> Iterator[str]:
    """Yield what the rule needs and no option names."""
    if rule.event_log is not None:
        yield from _lacking_of_log(rule.event_log, columns)
    if rule.by_list and columns.rank is None:
        yield "relevance.dwell and relevance.unseen without position; expected the column with the rank shown"
    if rule.needs_rank and columns.rank is None:
        yield f"relevance.mode {rule.chosen} without position; expected the column with the rank shown"
    if seconds(rule.maturity) and columns.timestamp is None:
        yield "relevance.maturity without timestamp; expected the column with the time"


def _lacking_of_log(log: EventLog, columns: ListColumns) -> Iterator[str]:
    if columns.item_id is None:
        yield "relevance.event_log without document_id; expected the column that names the item"
    is_joined_by_user = log.user and log.timestamp and columns.cluster_id and columns.timestamp
    if log.query_id is None and not is_joined_by_user:
        yield "relevance.event_log without query_id; expected user and timestamp there and in data"
    if log.baseline_path:
        yield "relevance.event_log.baseline_path is of monitor; expected one log of events for all splits"


EVENT_COUNTS = "event-counts"
MOST_ROWS = 0.5
"""With more than one event in a larger share of rows, a column has the counts of many users."""


def event_counts(shares: Mapping[str, float]) -> Iterator[Caution]:
    """A caution about columns of events, with the share of rows in which each is above 1."""
    if not shares:
        return
    listed = ", ".join(f"{name} in {share:.0%} of the rows" for name, share in shares.items())
    rate, first = "`relevance: {mode: quantiles, column: RATE, bins: 5}`", next(iter(shares))
    yield Caution(
        EVENT_COUNTS,
        "warning",
        f"above 1 ({listed}), so they count many users, and being above 0 means little",
        f"make grades of a rate, such as clicks per impression, {rate}; or of counts, by `count: log1p` or by steps: "
        f"`ladder: [{{when: {first} >= 10, grade: 1}}]`",
    )
