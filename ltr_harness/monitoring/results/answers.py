"""What each stage answers, as values; `MonitorResult` holds them all.

Intervals are [low, high] at the configured confidence. NaN is "cannot be told" and null in JSON.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Interval:
    """A number, its interval, its p-value where something was tested, its standard error and degrees of freedom."""

    value: float
    low: float = float("nan")
    high: float = float("nan")
    p: float = float("nan")
    error: float = float("nan")
    n: int = 0
    freedom: float = float("nan")

    def __str__(self) -> str:
        return f"{self.value:+.4f} [{self.low:+.4f}, {self.high:+.4f}]"

    @property
    def direction(self) -> Literal["fell", "rose", ""]:
        """In which direction the interval shows a change; empty where it holds 0."""
        return "fell" if self.high < 0 else "rose" if self.low > 0 else ""


@dataclass(frozen=True)
class Window:
    """One window of production.

    Attributes:
        label: its first day, or hour.
        hours: its length.
        n_queries, n_defined, n_clusters: all, with a value of the primary metric, independent units.
        means: metric to mean.
        interval: of the primary metric's mean.
        bounded: an interval that holds where nearly all queries are at the ceiling; None elsewhere.
        share_zero, share_one, p10, p50, p90: of the primary metric's values.
        items_per_query, relevant_share, event_rates: the state of the labels; events per query.
        orphans: events of the event log that belong to no impression; None where it has no times.
        immature_share: of the queries, those whose labels are still arriving.
        online: column to mean over queries, such as clicks per row, dwell time or conversion.
        hours_of_week: hours since Monday 00:00 to queries with a value: what later runs need to know of the season.
        status: tested, small, immature, stray (apart from the log in time), or untested (no
            baseline, or none of its weekday).
        adjusted: the mean as the baseline's mix would have it, which `change` is about; None where nothing is adjusted.
        change: against the baseline; p before correction.
        p_corrected, alert: after correction, with `min_drop` and all; a notice instead of an alert where
            `MonitorResult.alerts` does not hold it, because the page changed, say.
        trailing, trailing_p_corrected, trailing_alert: the same for the window and those before it.
        running, running_p_corrected, running_alert: the same for all windows on record up to this one, under
            `correct: sequence`; interval and p hold at all times at once.
        cusum: cumulated small drops in standard errors; trouble above the level in `MonitorResult.cusum_level`.
    """

    label: str
    start_ns: int
    end_ns: int
    number: int
    hours: float
    n_queries: int
    n_defined: int
    n_clusters: int
    means: dict[str, float]
    interval: Interval
    bounded: tuple[float, float] | None
    share_zero: float
    share_one: float
    p10: float
    p50: float
    p90: float
    items_per_query: float
    relevant_share: float
    event_rates: dict[str, float]
    orphans: int | None
    immature_share: float
    online: dict[str, float]
    status: str
    hours_of_week: dict[str, int] = field(default_factory=dict)
    adjusted: Interval | None = None
    change: Interval | None = None
    p_corrected: float = float("nan")
    alert: bool = False
    trailing: Interval | None = None
    trailing_p_corrected: float = float("nan")
    trailing_alert: bool = False
    running: Interval | None = None
    running_p_corrected: float = float("nan")
    running_alert: bool = False
    cusum: float = float("nan")


@dataclass(frozen=True)
class Change:
    """One metric, production against the baseline, over all mature queries."""

    metric: str
    production: Interval
    baseline: Interval
    difference: Interval
    relative: float
    method: str
    p_corrected: float = float("nan")
    alert: bool = False
    below_min_drop: bool = False


@dataclass(frozen=True)
class Adjustment:
    """What adjusting made of the primary metric's difference over all of production.

    Attributes:
        columns: whose relation to the metric was taken out.
        plain: the difference without adjusting.
        variance_removed: share of the plain difference's variance that is gone; below 0 where it grew.
    """

    columns: tuple[str, ...]
    plain: Interval
    variance_removed: float


@dataclass(frozen=True)
class Cell:
    """One value of a segment, before and now."""

    value: str
    share_before: float
    share_now: float
    mean_before: float
    mean_now: float


@dataclass(frozen=True)
class Split:
    """The change divided by one segment column: within + mix + unmatched.

    Attributes:
        within, mix: from changes inside the values that both periods have, and from other shares of them.
        unmatched: from values that only one period has; no mix, as nobody knows the other's mean there.
        mix_chance: p-value, corrected over all inputs: how often the mix would be as large in shuffled data.
        lacking: share of production's queries with a value that the baseline lacks.
        adjusted: production's mean over common values with the baseline's shares.
    """

    column: str
    within: Interval
    mix: Interval
    unmatched: Interval
    mix_chance: float
    lacking: float
    adjusted: float
    cells: tuple[Cell, ...]
    improved_inside: bool


@dataclass(frozen=True)
class Slice:
    """A segment whose change stands out from the rest.

    Attributes:
        predicate: in words.
        excess: its change beyond the rest's change.
        impact: share times excess, in points of the overall metric.
        q: of the false discovery rate over all candidates (first slice), or corrected in its round.
    """

    predicate: str
    n_now: int
    n_before: int
    share: float
    before: float
    now: float
    rest_change: float
    excess: Interval
    impact: float
    q: float
    confirmed: Interval | None = None


@dataclass(frozen=True)
class FeatureDrift:
    """One feature or segment: how far it moved, and how much of the change that explains.

    Attributes:
        name: of the feature or segment, or what was made of it per query; column: of the log.
        psi, psi_threshold, drifted: population stability index, and from which value on it is called drift.
        distance, p: Kolmogorov-Smirnov of a number; Jensen-Shannon divergence of a segment, without p.
        shift: of the mean, in the baseline's standard deviations (of items, where the feature is one of items).
        carried: Wasserstein distance likewise.
        missing_before, missing_now: share of the rows without a value.
        mix, explains: the part of the change due to other shares of its bins, and its share of the change.
        mix_chance: p-value, corrected over all inputs: how often the mix would be as large in shuffled data.
        unmatched, unmatched_chance: likewise of the part that lies where only one period has values.
        lacking: share of production's queries in values that the baseline lacks.
        within: the part of the change inside the bins that both periods have.
        broken: what is wrong with the input, as a predicate; empty where nothing is.
        gain: its share of the model's gain, NaN where no model is given.
    """

    name: str
    kind: str
    n_now: int
    n_before: int
    psi: float
    psi_threshold: float
    drifted: bool
    distance: float
    p: float
    shift: float
    carried: float
    missing_before: float
    missing_now: float
    mix: Interval
    explains: float
    mix_chance: float
    unmatched: Interval
    unmatched_chance: float
    lacking: float
    column: str
    broken: str = ""
    gain: float = float("nan")
    within: Interval = Interval(float("nan"))


@dataclass(frozen=True)
class LabelTest:
    """Labels before and now: the share of queries with a relevant document, or events per query."""

    what: str
    window: str
    before: float
    now: float
    difference: Interval
    p_corrected: float
    alert: bool


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
    """Positive rows by rank: does the drop come from the page?

    Attributes:
        shape_p, shape_distance: whether the share of positives per rank moved, and by how much (total variation).
        changed: significant and of a size that matters.
        top: change of the rate at rank 1, which every user looks at.
        signature: none, page (rank 1 shown to be as before, others not), proportional (all ranks alike), ranking
            (rank 1 too, or nobody can tell).
        ips: change of IPS-DCG; None without propensities.
        ips_normalised: change of IPS-DCG per unit of weighted gain.
        effective: effective number of weighted gains, (sum w)**2 / sum w**2, before and now.
    """

    rows: tuple[RankRow, ...]
    shape_p: float
    shape_distance: float
    changed: bool
    top: Interval
    signature: str
    ips: Interval | None = None
    ips_before: float = float("nan")
    ips_now: float = float("nan")
    ips_normalised: Interval | None = None
    effective: tuple[float, float] | None = None


@dataclass(frozen=True)
class Alert:
    """One line on stdout, or, demoted, a notice in the report.

    Attributes:
        kind: change, slice, label_rate, input, contract, arm or parity.
        text: what, by how much, how sure.
        window: the one it is about; empty where it is about all of production.
    """

    kind: str
    text: str
    window: str = ""

    def __str__(self) -> str:
        return f"ALERT {self.kind} {self.text}"


@dataclass(frozen=True)
class Verdict:
    """Three sentences and a word.

    Attributes:
        cause: healthy, improved, mix, slice, covariate, input, everywhere, labels, immature, presentation, contract,
            serving or none.
        parts: where there are two causes, the part of the change that each explains; they add up to it.
    """

    cause: str
    what: str
    where: str
    untold: str
    parts: dict[str, float] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return " ".join(part for part in (self.what, self.where, self.untold) if part)
