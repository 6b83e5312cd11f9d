"""The configuration of monitoring; `load_monitor_config` reads one."""

import dataclasses
import hashlib
import json
from functools import lru_cache
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    WithJsonSchema,
    model_validator,
)

from ltr_harness.data.logs.settings import (
    ConfigSection,
    ListColumns,
    NonEmptyText,
    NonEmptyTexts,
    TimeZone,
    duration,
    seconds,
)
from ltr_harness.data.logs.ubi import Ubi
from ltr_harness.data.relevance.rule import Propensity, Relevance
from ltr_harness.errors import MismatchError
from ltr_harness.metrics import F1, Metric, Precision, parse_metric
from ltr_harness.monitoring.synthetic import SyntheticLog


def _window_size(text: str) -> str:
    duration(text)
    if seconds(text) == 0 or (seconds(text) < 86_400 and 86_400 % seconds(text)):
        raise ValueError("a size that divides a day, such as 1h or 6h, or whole days: 1d, 7d")
    if seconds(text) > 86_400 and seconds(text) % 86_400:
        raise ValueError("whole days: 1d, 7d")
    return text


def _check_not_empty(value: Any) -> Any:
    if value in ([], ()):
        raise ValueError("at least one metric; the first one raises alerts")
    return tuple(value) if isinstance(value, list) else value


MetricField = Annotated[
    Metric,
    BeforeValidator(parse_metric),
    PlainSerializer(lambda metric: metric.spelling, return_type=str),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "object"}], "examples": ["ndcg@10"]}),
]


class Columns(ListColumns, use_attribute_docstrings=True):
    """The columns of the log by their roles."""

    retrieved: NonEmptyText | None = Field(
        default=None,
        description="1 for what was shown; 0 for an item that was not, such as one bought elsewhere: it has no rank, "
        "and counts in what metrics divide by.",
    )
    pair_key: NonEmptyText | None = None
    """Key that recurs in both periods, such as the query's text."""
    segments: NonEmptyTexts = Field(
        default=(), description="Columns that describe the query, equal in all its rows."
    )
    features: NonEmptyTexts = ()
    """Numeric columns to watch for drift; item features become mean, max and std per query."""
    online: NonEmptyTexts = ()
    """User behaviour (clicks, dwell time, conversion): shown beside the metric, window by window."""
    subtopics: NonEmptyTexts = ()
    """Columns with the row's grade for a subtopic of its query each, for alpha_ndcg and err_ia."""

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        roles = [*self.segments, *self.features]
        repeated_names = sorted({name for name in roles if roles.count(name) > 1})
        if repeated_names:
            found = f"{', '.join(map(repr, repeated_names))} given twice"
            raise MismatchError(found, "each once among segments and features")
        return self


class Windows(ConfigSection, use_attribute_docstrings=True):
    """The windows of time."""

    size: Annotated[str, AfterValidator(_window_size)] = "1d"
    timezone: TimeZone = Field(default="UTC", description="Days begin at its midnight.")
    trailing: int = Field(default=7, ge=0, le=10_000)
    """Windows averaged to find small lasting drops; 0 for none."""
    min_queries: int = Field(default=200, ge=1, description="Windows with fewer are shown and not tested.")
    season: Literal["none", "weekday", "hour", "hour_of_week"] = "none"
    """weekday: Mondays are compared with Mondays; hour: mornings with mornings; hour_of_week: both."""


class Compare(ConfigSection, use_attribute_docstrings=True):
    """The rule by which a difference counts."""

    alternative: Literal["drop", "change"] = "drop"
    alpha: float = Field(default=0.05, gt=0, lt=1)
    min_drop: float = Field(default=0.01, ge=0)
    """Smaller drops are reported and raise no alert, however significant."""
    correct: Literal["bonferroni", "sequence"] = Field(
        default="bonferroni",
        description="bonferroni: over the tests of one run; sequence: over all future runs, and the mean of all "
        "windows is watched as well. With a history, sequence unless given.",
    )
    confidence: float = Field(default=0.95, gt=0.5, lt=1)
    """Of intervals, at each end where the test is one-sided; at most 1 - alpha, so that no alert's interval holds 0."""
    adjust: NonEmptyTexts = Field(
        default=(),
        description="Covariates: segments, features and the pair_key. Their relation to the metric in the baseline is "
        "removed from every value before windows are tested, so differences have less variance and no effect of "
        "another mix. Leave out what the ranker influences.",
    )


class Labels(ConfigSection, use_attribute_docstrings=True):
    """The rule by which labels, rather than the ranking, changed."""

    alpha: float = Field(default=0.01, gt=0, lt=1)
    min_drop: float = Field(default=0.1, gt=0)
    """Relative fall of the share of queries with a relevant document, or of an event's rate."""


class Slices(ConfigSection, use_attribute_docstrings=True):
    """The search for the segments behind a drop."""

    max_predicates: Literal[1, 2] = 2
    min_queries: int = Field(default=50, ge=10)
    alpha: float = Field(default=0.05, gt=0, lt=1)
    numeric_bins: int = Field(default=4, ge=2, le=20)
    features: bool = Field(default=True, description="Also cut by the watched features.")
    confirm_split: bool = False
    """Search one half of the queries, report the other half's numbers."""


class Drift(ConfigSection, use_attribute_docstrings=True):
    """Feature drift."""

    bins: int = Field(default=10, ge=2, le=50)
    psi_floor: float = Field(default=0.1, gt=0)
    alpha: float = Field(default=0.05, gt=0, lt=1)
    model: str | None = None
    """Run folder of the model: its gain importance stands beside each feature."""


ArmName = Annotated[
    NonEmptyText, BeforeValidator(lambda arm: str(arm).lower() if isinstance(arm, int) else arm)
]
"""As the log's column says it, where YAML makes a number or a truth value of it."""


class Arms(ConfigSection, use_attribute_docstrings=True):
    """Rankers that production's users, or queries, were given at random: an A/B test."""

    column: NonEmptyText = Field(description="Column with the arm, equal in all rows of a query.")
    control: ArmName = Field(description="The arm that the others are compared with.")
    shares: dict[ArmName, Annotated[float, Field(gt=0, allow_inf_nan=False)]] = Field(default={})
    """Arm to the share that it was to get, in any unit: {A: 90, B: 10}; equal ones unless given."""

    @model_validator(mode="after")
    def _with_control(self) -> Self:
        if self.shares and (self.control not in self.shares or len(self.shares) < 2):
            expected = f"one of {self.control!r}, the control, and of every other arm"
            raise MismatchError(f"shares of {', '.join(self.shares)}", expected)
        return self


class Parity(ConfigSection, use_attribute_docstrings=True):
    """The logged score against that of a stored model for the logged features."""

    model: NonEmptyText = Field(description="Run folder of the model that serves.")
    score: NonEmptyText | None = None
    """Column with the score that was served; columns.score unless given."""
    features: dict[NonEmptyText, NonEmptyText] = Field(default={})
    """Feature of the model to the log's column, where their names differ."""
    tolerance: float = Field(
        default=1e-5,
        ge=0,
        allow_inf_nan=False,
        description="Scores are equal up to this times the model's score, or times the standard deviation of its "
        "scores on test rows where that is larger.",
    )
    max_share: float = Field(default=0.01, ge=0, lt=1)
    """More of the rows with another score are an alert."""
    trust: bool = Field(default=False, description="Execute code of the run: a ranker from a file, a pickle.")


AlertKind = Literal["change", "slice", "label_rate", "input", "contract", "arm", "parity", "limit"]


class Alerts(ConfigSection, use_attribute_docstrings=True):
    """The alerts, which end in exit code 4."""

    on: tuple[AlertKind, ...] = get_args(AlertKind)
    below: dict[NonEmptyText, float] = Field(default={}, examples=[{"ndcg@10": 0.85}])
    """Metric to its absolute limit: an alert where the interval of the mean lies below, a notice where the mean does;
    of all of production, each window and each segment, with a baseline and without."""


PLACES: Any = {
    "log": True,
    "baseline": True,
    "history": True,
    "drift": {"model"},
    "parity": {"model"},
    "propensity": {"estimate": {"path", "baseline_path"}},
}
"""Fields that say where files lie: the digest of the configuration leaves them out."""


class MonitorConfig(ConfigSection, use_attribute_docstrings=True):
    """Everything `ltr-harness monitor` needs to know beside the log itself."""

    name: str = "monitor"
    log: str | SyntheticLog | None = None
    """Production: a file or folder of Parquet, CSV, Arrow or JSON lines, or a made-up log; --log overrides it."""
    baseline: str | SyntheticLog | None = None
    """A log, a run of this harness, or the folder of an earlier result."""
    history: str | None = None
    """Folder of the windows of earlier runs; this run adds its own."""
    columns: Columns
    relevance: Relevance = Relevance()
    metrics: Annotated[tuple[MetricField, ...], BeforeValidator(_check_not_empty), Field(min_length=1)] = (
        tuple(map(parse_metric, ("ndcg@10", "ndcg@3", "mrr@10")))
    )
    empty: Literal["skip", "zero", "one"] = "skip"
    """Value of a query without a relevant document; the other rules are shown beside it."""
    windows: Windows = Windows()
    compare: Compare = Compare()
    labels: Labels = Labels()
    slices: Slices = Slices()
    drift: Drift = Drift()
    propensity: Propensity | None = None
    arms: Arms | None = None
    parity: Parity | None = None
    ubi: Ubi | None = None
    alerts: Alerts = Alerts()

    @property
    def resolved_metrics(self) -> tuple[Metric, ...]:
        """The metrics with the rule for empty queries, unjudged rows and the scale of grades; the first one alerts."""
        return _resolved(self.metrics, self.empty, self.relevance.cuts_lists, self.relevance.scale)

    def resolved(self, metric: Metric) -> Metric:
        """Return a metric as `resolved_metrics` has it."""
        return _resolved((metric,), self.empty, self.relevance.cuts_lists, self.relevance.scale)[0]

    @property
    def primary(self) -> Metric:
        return self.resolved_metrics[0]

    @property
    def limits(self) -> dict[Metric, float]:
        """Each limited metric, as in `resolved_metrics`, with the value that it must reach."""
        return {self.resolved(parse_metric(name)): limit for name, limit in self.alerts.below.items()}

    @property
    def confidence(self) -> float:
        """The confidence of all intervals, at most that of the tests, as else an alert's interval could hold 0."""
        alpha = max(self.compare.alpha, self.slices.alpha, self.labels.alpha)
        return min(self.compare.confidence, 1 - alpha)

    @property
    def depth(self) -> int:
        """Ranks whose labels are kept for the tables by rank."""
        return min(max(10, self.primary.k or 10), 50)

    def over_all_runs(self) -> "MonitorConfig":
        """Return the configuration of a run with a history: one alpha for all runs, unless the file says otherwise."""
        if "correct" in self.compare.model_fields_set:
            return self
        compare = self.compare.model_copy(update={"correct": "sequence"})
        return self.model_copy(update={"compare": compare})

    def definition(self) -> dict[str, Any]:
        """Return what two results must share to be compared: metrics, and the rules of relevance and empty queries."""
        relevance = self.relevance.definition
        if self.columns.retrieved:  # nothing without it: older results keep their definition
            relevance = {**relevance, "missed": "count"}
        clip = None if self.propensity is None else self.propensity.clip
        metrics = [str(metric) for metric in self.resolved_metrics]
        return {"metrics": metrics, "relevance": relevance, "ips": clip}

    def digest(self) -> str:
        """Return the SHA-256 of the configuration without the places of files."""
        settings = self.model_dump(mode="json", exclude=PLACES)
        return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


@lru_cache(maxsize=64)  # every test of every window asks for it
def _resolved(
    metrics: tuple[Metric, ...], empty: str, cuts_lists: bool, scale: float | None
) -> tuple[Metric, ...]:
    resolved = []
    for metric in metrics:
        chosen: dict[str, Any] = {}
        if metric.empty == "skip" and empty != "skip":
            chosen["empty"] = empty
        if cuts_lists and isinstance(metric, Precision | F1):
            chosen["denominator"] = "min_kn"
        resolved.append(dataclasses.replace(metric, **chosen).with_max_grade(scale))
    return tuple(dict.fromkeys(resolved))


HIGHEST_GRADE = 30  # with exponential gain: LightGBM's table of gains and XGBoost's check of labels end there


def needs_whole_grades(metric: Metric) -> bool:
    """Return whether grades enter as powers of two: NDCG's default gain, ERR's stopping probability."""
    return "exp" in (getattr(metric, "gain", ""), getattr(metric, "stop", ""))
