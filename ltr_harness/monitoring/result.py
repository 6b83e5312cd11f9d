"""The result of a monitoring run: each stage's answer as values, and all of them together, as JSON and in tables.

Intervals are [low, high] at the configured confidence. NaN is "cannot be told" and null in JSON.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import pandas as pd
from pydantic import TypeAdapter

from ltr_harness._util.display import Displayed
from ltr_harness._util.escapes import printable
from ltr_harness._util.json_values import json_value
from ltr_harness._util.stored import SCHEMA_VERSION, harness_version
from ltr_harness._util.text import count_of
from ltr_harness.comparison.stats.two_samples import Estimate
from ltr_harness.data.logs.contract import LogCheck
from ltr_harness.errors import Caution
from ltr_harness.monitoring.config import MonitorConfig
from ltr_harness.monitoring.stats.adjustment import DifferenceParts
from ltr_harness.report import blocks
from ltr_harness.report.blocks import Badge, Column, Table


@dataclass(frozen=True)
class Window:
    """One window of production."""

    label: str  # its first day, or hour
    number: int  # its place in the calendar
    start_ns: int
    end_ns: int
    hours: float  # its length
    n_queries: int
    n_defined: int  # with a value of the primary metric
    n_clusters: int  # independent units
    means: dict[str, float]  # metric to mean
    interval: Estimate  # of the primary metric's mean
    bounded_interval: (
        tuple[float, float] | None
    )  # an interval that holds where nearly all queries are at the ceiling
    share_zero: float  # of the primary metric's values, as the next four
    share_one: float
    p10: float
    p50: float
    p90: float
    items_per_query: float
    relevant_share: float
    event_rates: dict[str, float]
    orphan_events: (
        int | None
    )  # events of the event log that belong to no impression; None where it has no times
    immature_share: float  # of the queries, those whose labels are still arriving
    online: dict[str, float]  # column to mean over queries
    # tested, small, immature, stray (apart from the log in time), or untested (no baseline, or none of it)
    status: str
    # hours since Monday 00:00 to queries with a value: what later runs need to know of the season
    hours_of_week: dict[str, int] = field(default_factory=dict)
    # the mean as the baseline's mix would have it, which `change` is about; None where nothing is adjusted
    adjusted: Estimate | None = None
    change: Estimate | None = None  # against the baseline; p before correction
    p_corrected: float = float("nan")
    alert: bool = False  # with `min_drop`; a caution where `MonitorResult.alerts` does not hold it
    trailing: Estimate | None = None  # the same for the window and those before it
    trailing_p_corrected: float = float("nan")
    trailing_alert: bool = False
    running: Estimate | None = None  # the same for all windows on record up to it, at all times at once
    running_p_corrected: float = float("nan")
    running_alert: bool = False

    @property
    def moved(self) -> bool:
        """True where one of its differences is significant and noticeable."""
        return self.alert or self.trailing_alert or self.running_alert


@dataclass(frozen=True)
class Change:
    """One metric, production against the baseline, over all mature queries."""

    metric: str
    production: Estimate
    baseline: Estimate
    difference: Estimate
    relative: float
    method: str
    p_corrected: float = float("nan")
    alert: bool = False
    below_min_drop: bool = False


@dataclass(frozen=True)
class Adjustment:
    """The primary metric's difference without adjusting for columns, and the share of its variance that is gone."""

    columns: tuple[str, ...]
    unadjusted: Estimate
    variance_removed: float


@dataclass(frozen=True)
class Cell:
    """One value of a segment, before and now."""

    value: str
    share_before: float
    share_now: float
    mean_before: float
    mean_now: float


@dataclass(frozen=True, kw_only=True)
class SegmentDecomposition(DifferenceParts):
    """The change divided by one segment column; `adjusted` is production's mean with the baseline's shares."""

    column: str
    adjusted: float
    cells: tuple[Cell, ...]
    simpsons_paradox: bool  # every segment improved, and the whole fell


@dataclass(frozen=True)
class Slice:
    """A segment whose change stands out from the rest."""

    predicate: str  # in words
    n_now: int
    n_before: int
    share: float
    before: float
    now: float
    rest_change: float
    excess: Estimate  # its change beyond the rest's change
    impact: float  # share times excess, in points of the overall metric
    p_corrected: float  # by Bonferroni over all candidates of its round
    confirmed: Estimate | None = None


@dataclass(frozen=True)
class SearchedColumn:
    """The number of a segment's values with queries enough to be tested, and the worst of the others."""

    column: str
    n_values: int
    n_searched: int
    least: int  # queries
    lowest: str = ""
    lowest_mean: float = float("nan")
    lowest_n: int = 0


@dataclass(frozen=True, kw_only=True)
class FeatureDrift(DifferenceParts):
    """One feature or segment: how far it moved, and how much of the change that explains."""

    name: str  # of the feature or segment, or what was made of it per query
    column: str  # of the log
    kind: str
    n_now: int
    n_before: int
    psi: float  # population stability index, and from which value on it is called drift
    psi_threshold: float
    drifted: bool
    distance: float  # Kolmogorov-Smirnov of a number; Jensen-Shannon divergence of a segment, without p
    p: float = float("nan")
    # of the mean, in the baseline's standard deviations (of items, where the feature is one of items)
    shift: float = float("nan")
    wasserstein: float = float("nan")  # Wasserstein distance, in the baseline's standard deviations
    missing_before: float  # share of the rows without a value
    missing_now: float
    share_of_change: float  # the mix's share of the change
    unmatched_p: float  # as `mix_p`
    broken: str = ""  # what is wrong with the input, as a predicate; empty where nothing is
    gain_share: float = float("nan")  # its share of the model's gain, NaN where no model is given


@dataclass(frozen=True, kw_only=True)
class BeforeAndNow:
    """A mean over queries before and now, with the corrected p of their difference."""

    before: float  # NaN without a baseline
    now: float
    p_corrected: float = float("nan")


@dataclass(frozen=True)
class LabelTest(BeforeAndNow):
    """Labels before and now: the share of queries with a relevant document, or events per query."""

    measure: str
    window: str
    difference: Estimate
    alert: bool = False


@dataclass(frozen=True)
class RankRow:
    """One rank, before and now: how many lists reach it, and how often its item is positive."""

    rank: int
    shown_before: int
    shown_now: int
    rate_before: float
    rate_now: float


@dataclass(frozen=True)
class Presentation:
    """Positive rows by rank: does the drop come from the page?"""

    rows: tuple[RankRow, ...]
    shape_p: float  # whether the share of positives per rank moved, and by how much (total variation)
    shape_distance: float
    changed: bool  # significant and of a size that matters
    rank_1_change: Estimate  # change of the rate at rank 1, which every user looks at
    # none, page (rank 1 shown to be as before, others not), proportional (all ranks alike), ranking (rank 1
    # too, or nobody can tell)
    signature: str
    # the logarithm of the positives at rank 1 per positive below it: about 0 where labels are lost evenly; and that of
    # all positives
    rank_1_against_rest: Estimate | None = None
    positives_change: float = float("nan")
    ips: Estimate | None = None  # change of IPS-DCG; None without propensities
    ips_before: float = float("nan")
    ips_now: float = float("nan")
    ips_normalised: Estimate | None = None  # change of IPS-DCG per unit of weighted gain
    ips_normalised_before: float = float("nan")
    ips_normalised_now: float = float("nan")
    # effective number of weighted gains, (sum w)**2 / sum w**2, before and now
    effective_gains: tuple[float, float] | None = None

    @property
    def is_uneven(self) -> bool:
        """True where rank 1 for certain lost another share of its positives than the others."""
        return self.rank_1_against_rest is not None and bool(self.rank_1_against_rest.direction)


@dataclass(frozen=True)
class Alert:
    """One line on stdout: what, by how much, how sure; `window` is empty where it is about all of production."""

    kind: str
    text: str
    window: str = ""

    def __str__(self) -> str:
        return f"ALERT {self.kind} {self.text}"


@dataclass(frozen=True)
class Verdict:
    """Three sentences and a word."""

    # healthy, improved, mix, slice, covariate, input, everywhere, labels, immature, presentation, contract,
    # serving, limit, unclear (page, ranking or labels) or none
    cause: str
    what: str
    where: str
    caution: Caution | None  # what cannot be concluded
    # where there are two causes, the part of the change that each explains; they add up to it
    parts: dict[str, float] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return " ".join(part for part in (self.what, self.where, str(self.caution or "")) if part)


@dataclass(frozen=True)
class Arm:
    """One arm: the queries and units (users, or queries) that are compared, and the share that it was to get."""

    name: str
    n_queries: int
    n_units: int
    expected: float


@dataclass(frozen=True)
class ArmDifference:
    """One measure of one arm, against the control."""

    arm: str
    measure: str  # a metric, `queries with <event>`, or a column of `columns.online`: means over queries
    mean: float  # of the arm, of the control, and the difference as a share of that
    control: float
    difference: Estimate  # with an interval for all measures and arms at once, and its own p-value, by units
    relative: float
    p_corrected: float
    n_queries: int
    # better, worse, higher, lower (of columns, of which nobody says what is good), not distinguishable, or
    # too little to tell
    verdict: str


@dataclass(frozen=True)
class ArmComparison:
    """All arms against the control."""

    column: str
    control: str
    unit: str  # what was given an arm at random, in words: a column's name, or query
    arms: tuple[Arm, ...]
    sample_ratio_p: float  # chance of shares as far from the expected ones
    same_shares_p: float  # chance of shares as different from window to window
    differences: tuple[ArmDifference, ...]
    family: str
    withheld: str  # why there is no verdict; empty where there is one
    verdict: str
    cautions: tuple[Caution, ...]

    @property
    def worse(self) -> list[ArmDifference]:
        return [d for d in self.differences if d.verdict == "worse"]


@dataclass(frozen=True)
class ParityWindow:
    """The scores of one window, or of all of production."""

    label: str
    n_queries: int  # with a logged score
    n_rows: int
    # of the rows, those served another score than the model's; p of more than `Parity.max_share`
    share: Estimate
    # difference of scores, the largest and the median over queries with such rows of their largest
    largest_difference: float
    median_difference: float
    reordered: float  # share of the queries that the model would have ordered otherwise
    # mean of what the primary metric has by the logged scores less what it would have by the model's
    effect: float
    incomplete: float  # share of rows without some feature, of those that differ and of the others
    incomplete_others: float
    p_corrected: float = float("nan")
    alert: bool = False

    @property
    def state(self) -> Badge:
        if self.alert:
            return Badge("alert", "bad")
        tested = self.p_corrected == self.p_corrected
        return Badge("no alert", "good") if tested else Badge("not tested", "neutral")

    @property
    def share_text(self) -> str:
        low, high = self.share.low, self.share.high
        ends = f" [{100 * low:.1f} %, {100 * high:.1f} %]" if low == low else ""
        return f"{100 * self.share.value:.1f} %{ends}"

    @property
    def share_interval(self) -> str | None:
        low, high = self.share.low, self.share.high
        return f"{100 * low:.1f} to {100 * high:.1f} %" if low == low else None


@dataclass(frozen=True)
class ParityExample:
    """A query, and its row of which the scores differ most."""

    query: str
    window: str
    logged: float
    model: float


@dataclass(frozen=True)
class ParityFeature:
    """A watched feature that is missing more, or less, in queries with rows that differ: share of their rows."""

    name: str
    missing: float
    missing_others: float


@dataclass(frozen=True)
class Parity:
    """The logged scores beside those of the model (a run) for the logged features; `whole` is all windows together."""

    model: str
    tolerance: float
    max_share: float
    n_unscored: int
    whole: ParityWindow
    windows: tuple[ParityWindow, ...]
    features: tuple[ParityFeature, ...]
    examples: tuple[ParityExample, ...]
    verdict: str

    @property
    def alerts(self) -> list[ParityWindow]:
        return [window for window in (self.whole, *self.windows) if window.alert]


@dataclass(frozen=True)
class EmptyRules:
    """The primary metric's mean under each rule for queries without a relevant document."""

    log: str
    n_queries: int
    n_without_relevant: int
    skip: float
    zero: float
    one: float


@dataclass(frozen=True)
class ListLengths:
    """The lengths of the lists of a log's queries, in items."""

    log: str
    shortest: int
    p10: float
    median: float
    p90: float
    longest: int


@dataclass(frozen=True)
class Online(BeforeAndNow):
    """The actions of users beside the metric, window by window; beside a baseline, mature queries count."""

    name: str
    correlation: float  # Spearman's, of the windows' means with the primary metric's; NaN below four windows
    n_windows: int
    # now against before, tested as the metric is, both sides; None without a baseline
    difference: Estimate | None = None


@dataclass(frozen=True)
class WorstQuery:
    """A query to read: its grades in the order shown."""

    query: str
    window: str
    value: float
    before: float
    grades: str


@dataclass(frozen=True)
class LimitTest:
    """A metric's mean in one part of production, held against its limit."""

    part: str  # all, a window, or a value of a segment such as country=D
    mean: (
        Estimate  # with an interval that holds for all tests of limits at once; none where it was not tested
    )
    below: bool  # whether the mean lies below the limit
    alert: bool  # whether the interval does

    @property
    def state(self) -> Badge:
        if self.alert:
            return Badge("alert", "bad")
        if self.mean.low != self.mean.low:
            return Badge("not tested", "neutral")
        return Badge("notice", "neutral") if self.below else Badge("no alert", "good")


@dataclass(frozen=True)
class Limit:
    """A metric that must reach a limit: over all of production, in windows where there are several, in segments."""

    metric: str
    limit: float
    whole: LimitTest
    windows: tuple[LimitTest, ...]
    segments: tuple[LimitTest, ...]
    n_small_segments: int  # with too few queries to be tested

    @property
    def is_tested(self) -> bool:
        return self.whole.mean.low == self.whole.mean.low

    @property
    def why_not(self) -> str:
        """The reason why all of production was not tested."""
        n = count_of(self.whole.mean.n, "query")
        return f"{n} with a value are too few, or too much alike (windows.min_queries has the least number)"

    @property
    def listed_tests(self) -> list[LimitTest]:
        """All of production, and the parts of which the mean lies below."""
        return [self.whole, *(test for test in (*self.windows, *self.segments) if test.below)]


@dataclass(frozen=True)
class Examined:
    """The windows that raised the alert, in which places and causes were looked for."""

    windows: tuple[str, ...]
    n_queries: int
    baseline: float  # means of the primary metric
    production: float
    difference: Estimate


@dataclass(frozen=True)
class SegmentOverTime:
    """One segment in every window: mean of the primary metric, NaN without a query, and how many queries."""

    predicate: str
    before: float  # its mean in the baseline; NaN without one
    means: tuple[float, ...]
    n_queries: tuple[int, ...]


@dataclass(frozen=True)
class FeatureOverTime:
    """One feature or segment in every window: PSI, and from which value on it is drift; NaN of few queries."""

    name: str
    psi: tuple[float, ...]
    psi_thresholds: tuple[float, ...]


@dataclass(frozen=True)
class OverTime:
    """The worst segments and the most drifted features, a value for each window."""

    segments: tuple[SegmentOverTime, ...] = ()
    features: tuple[FeatureOverTime, ...] = ()


@dataclass(frozen=True, kw_only=True)
class WherePart:
    """The places and causes of a change in one part of production."""

    decompositions: tuple[SegmentDecomposition, ...] = ()
    slices: tuple[Slice, ...] = ()
    n_slice_candidates: int = 0  # how many were looked at
    searched: tuple[SearchedColumn, ...] = ()
    drift: tuple[FeatureDrift, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Findings(WherePart):
    """The findings of all topics; without a baseline most of them are empty."""

    log_checks: tuple[LogCheck, ...] = ()  # of both logs, those that did not pass
    n_immature: int = 0  # queries whose labels are still arriving
    empty_rules: tuple[EmptyRules, ...] = ()
    list_lengths: tuple[ListLengths, ...] = ()
    worst_queries: tuple[WorstQuery, ...] = ()
    windows: tuple[Window, ...] = ()
    family: str = "nothing was tested over time"  # the tests that were corrected together, in words
    # of every metric, of which the first one raises alerts; and over recurring keys
    changes: tuple[Change, ...] = ()
    paired_by_key: Estimate | None = None
    adjustment: Adjustment | None = None
    # the part that where and why are about, and all of production beside it; None where that is the part
    examined: Examined | None = None
    whole: WherePart | None = None
    over_time: OverTime = OverTime()
    labels: tuple[LabelTest, ...] = ()
    presentation: Presentation | None = None
    online: tuple[Online, ...] = ()
    limits: tuple[Limit, ...] = ()  # of `alerts.below`
    arms: ArmComparison | None = None
    parity: Parity | None = None

    @property
    def new_defects(self) -> list[LogCheck]:
        """Warnings of production's log, more frequent than in the baseline's by more than a hundredth."""
        before = {check.check: check.share for check in self.log_checks if check.log == "baseline"}
        return [
            check
            for check in self.log_checks
            if check.log == "production"
            and check.severity == "warning"
            and check.share > before.get(check.check, 0.0) + 0.01
        ]


@dataclass(frozen=True, kw_only=True)
class MonitorResult(Displayed, Findings):
    """All findings, and the settings they were made under."""

    _html: ClassVar = "ltr_harness.monitoring.page:notebook_html"

    name: str
    metrics: tuple[str, ...]
    definition: dict[str, Any]
    relevance: str
    config_sha256: str
    production_sha256: str
    baseline_sha256: str | None
    n_queries: int
    n_rows: int
    baseline_kind: str | None
    alternative: str
    confidence: float
    alpha: float
    min_drop: float
    higher_is_better: bool
    season: str
    alerts: tuple[Alert, ...]
    cautions: tuple[Caution, ...]
    verdict: Verdict
    # why a loss is neither shown nor excluded, and what would decide it; empty where that is decided
    undecided: str = ""
    schema_version: int = SCHEMA_VERSION
    written_by: str = field(default_factory=harness_version)
    config: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"{self.name}: {self.verdict.text}"

    @property
    def primary(self) -> str:
        return self.metrics[0]

    @property
    def healthy(self) -> bool | None:
        """None where nothing alerted and a loss is not excluded."""
        if self.alerts:
            return False
        return None if self.undecided else True

    @property
    def exit_code(self) -> int:
        return 4 if self.alerts else 0

    def n_alerts(self, kind: str) -> int:
        return sum(alert.kind == kind for alert in self.alerts)

    def mean(self, metric: str) -> float:
        """Return the mean over all queries with a value; NaN where none has one."""
        defined_windows = [w for w in self.windows if w.means[metric] == w.means[metric]]
        total = sum(w.n_defined for w in defined_windows)
        return sum(w.means[metric] * w.n_defined for w in defined_windows) / total if total else float("nan")

    @property
    def examined_text(self) -> str:
        """The windows whose places and causes are sought, in words; empty where they are all of production."""
        if self.examined is None:
            return ""
        labels = self.examined.windows
        which = labels[0] if len(labels) == 1 else f"{labels[0]} to {labels[-1]}"
        n_windows = f"{len(labels)} of {count_of(len(self.windows), 'window')}"
        return f"Of {count_of(self.examined.n_queries, 'query')} in {n_windows} ({which}), which raised the alert."

    @property
    def interval_name(self) -> str:
        return f"{100 * self.confidence:g} % interval"

    @property
    def one_sided_name(self) -> str:
        """The name of the interval of one-sided tests, whose ends are bounds at `confidence` each."""
        return f"{100 * (2 * self.confidence - 1):g} % interval"

    @property
    def test_name(self) -> str:
        """The name of the interval of the primary metric's tests."""
        return self.interval_name if self.alternative == "change" else self.one_sided_name

    @property
    def windows_below(self) -> set[str]:
        """Labels of the windows with a metric below its limit."""
        return {alert.window for alert in self.alerts if alert.kind == "limit" and alert.window}

    @property
    def raised(self) -> Badge:
        """The badge of a difference that is significant and large: an alert, unless something else explains it."""
        demoted = not any(alert.kind == "change" for alert in self.alerts)
        return Badge("caution", "neutral") if demoted else Badge("alert", "bad")

    @cached_property
    def document(self) -> dict[str, Any]:
        """The result in JSON types at full precision; null is what cannot be told."""
        body: dict[str, Any] = json_value(self)
        body["healthy"] = self.healthy
        body["verdict"]["text"] = self.verdict.text
        return body

    def to_json(self) -> str:
        text = json.dumps(self.document, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
        return printable(text, lines=True) + "\n"


@dataclass(frozen=True, eq=False)
class Watched:
    """A result and the table it was made from."""

    result: MonitorResult  # all answers
    config: MonitorConfig  # under which configuration
    production: pd.DataFrame  # query by query


def table_of(
    name: str,
    caption: str,
    records: Iterable[Any],
    *columns: tuple[Column, str | Callable[[Any], Any]] | None,
    **options: Any,
) -> Table:
    """Return a table of records: a column shows an attribute, or a function's value, and empty ones are left out."""
    shown_columns = [column for column in columns if column]

    def cell(record: Any, attribute: str | Callable[[Any], Any]) -> blocks.Cell:
        value = getattr(record, attribute) if isinstance(attribute, str) else attribute(record)
        return blocks.Estimate(value.value, value.low, value.high) if isinstance(value, Estimate) else value

    rows = [[cell(record, attribute) for _, attribute in shown_columns] for record in records]
    filled = _filled_columns(rows) if rows else range(len(shown_columns))
    cells = tuple(tuple(row[index] for index in filled) for row in rows)
    return Table(name, caption, tuple(shown_columns[index][0] for index in filled), cells, **options)


def _filled_columns(rows: Sequence[Sequence[blocks.Cell]]) -> Sequence[int]:
    """Return the places of the columns with a value in some row."""
    columns = enumerate(zip(*rows, strict=True))
    return [i for i, cells in columns if any(blocks.sort_value(cell) not in (None, "") for cell in cells)]


def marked_estimate(estimate: Estimate, *, alert: bool) -> blocks.Estimate:
    """Return an estimate with its mark, for a column with an axis."""
    return blocks.Estimate(estimate.value, estimate.low, estimate.high, "worse" if alert else "")


def json_schema() -> dict[str, Any]:
    """Return the schema of ``report.json``, read off these classes."""
    schema = _null_for_nan(TypeAdapter(MonitorResult).json_schema(mode="serialization"))
    schema["properties"] |= {"healthy": {"type": ["boolean", "null"]}}
    schema["title"] = "ltr-harness monitor result"
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _null_for_nan(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_null_for_nan(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    schema_of_values = {key: _null_for_nan(value) for key, value in schema.items() if key != "default"}
    if schema_of_values.get("type") == "number":
        schema_of_values["type"] = ["number", "null"]
    return schema_of_values
