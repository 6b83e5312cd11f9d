"""Every window of production: its state, its difference to the baseline, and which differences are alerts.

Under `correct: sequence` the mean of all windows on record is tested after each of them, without an end: half
of alpha belongs to it, of which a fifth covers the error of the baseline, and the other half is spent on single
windows.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from ltr_harness._util.text import count_of
from ltr_harness.comparison.stats.betting import bounded_means
from ltr_harness.comparison.stats.cluster_sums import ClusterSums
from ltr_harness.comparison.stats.two_samples import (
    Estimate,
    Influence,
    Sample,
    always_valid,
    difference_of_means,
)
from ltr_harness.data.arrays import Bools, Floats, Ints
from ltr_harness.data.logs.settings import seconds
from ltr_harness.monitoring.calendar import Cut, UnitVariation, hours_of_week, part_of_season
from ltr_harness.monitoring.config import MonitorConfig
from ltr_harness.monitoring.periods import Periods, cluster_codes, mean_of
from ltr_harness.monitoring.queries import column_of, columns_of, mean_of_defined, primary_of
from ltr_harness.monitoring.result import Change, Examined, MonitorResult, Window, table_of
from ltr_harness.monitoring.stats.several_samples import bonferroni, widen
from ltr_harness.monitoring.stored import PastWindow
from ltr_harness.report import charts
from ltr_harness.report.blocks import Badge, Block, Chart, Column, Heading, Paragraph, Tone

RUNNING_SHARE_OF_ALPHA = 0.5  # the other half is spent on windows, their trailing means and the period
TIGHTEST_LOOK = 30  # windows, after which a difference is to be seen soonest
_MIN_QUERIES = 100


def add_running_means(
    windows: list[Window], members: Sequence[Ints], periods: Periods, past: Sequence[PastWindow]
) -> list[Window]:
    """Add to each window the mean of all windows up to it, against the baseline; `members` (n_queries,)."""
    compare = periods.config.compare
    earlier = past if periods.common is None else ()
    looks, n_earlier = len(earlier), sum(w.n for w in earlier)
    windows_with_means, rows_so_far = [], np.zeros(0, dtype=np.int64)
    for row, members_of_window in zip(windows, members, strict=True):
        windows_with_means.append(row)
        if row.status not in ("tested", "small") or not members_of_window.size:
            continue
        rows_so_far = np.sort(np.concatenate((rows_so_far, members_of_window)))
        looks += 1
        if rows_so_far.size + n_earlier < _MIN_QUERIES or row.status != "tested":
            continue
        running, p_corrected = always_valid(
            compare_with_past(rows_so_far, earlier, periods),
            looks,
            periods.baseline_error,
            tightest=TIGHTEST_LOOK,
            alpha=RUNNING_SHARE_OF_ALPHA * compare.alpha,
            confidence=periods.config.confidence,
            alternative=periods.alternative,
        )
        p_corrected = min(1.0, p_corrected / RUNNING_SHARE_OF_ALPHA)
        alert = bool(p_corrected <= compare.alpha and periods.matters(running.value))
        windows_with_means[-1] = dataclasses.replace(
            row, running=running, running_p_corrected=p_corrected, running_alert=alert
        )
    return windows_with_means


_MIN_OFF_CEILING = 15  # with fewer queries off the ceiling, a t interval is a guess
_MAX_BETTING_QUERIES = 20_000  # queries; beyond, 15 of them off the ceiling move nothing


@dataclass(frozen=True, eq=False)
class _WindowColumns:
    """The values of production's queries from which a window's row is made, (n,) each, or several by name."""

    primary: Floats
    clusters: Ints | None
    hours: Ints | None  # of the week
    n_items: Ints
    has_relevant: Bools
    metrics: Mapping[str, Floats]
    events: Mapping[str, Ints]
    online: Mapping[str, Floats]

    @classmethod
    def of(cls, table: pd.DataFrame, config: MonitorConfig) -> "_WindowColumns":
        cluster, time = column_of(table, "cluster"), column_of(table, "time")
        return cls(
            primary_of(table),
            None if cluster is None else cluster_codes(cluster),
            None if time is None else hours_of_week(time, config.windows.timezone),
            column_of(table, "n_items"),
            column_of(table, "has_relevant"),
            columns_of(table, "metric"),
            columns_of(table, "event"),
            columns_of(table, "online"),
        )

    def queries_by_hour(self, rows: Ints) -> dict[str, int]:
        """Return the number of queries among (n_rows,) in each hour of the week that has any."""
        if self.hours is None:
            return {}
        counts = np.bincount(self.hours[rows]).tolist()
        return {str(hour): n for hour, n in enumerate(counts) if n}


def window_rows(
    table: pd.DataFrame, cut: Cut, orphans: Sequence[int | None], config: MonitorConfig
) -> list[Window]:
    """Return every window's state, before anything is compared."""
    columns = _WindowColumns.of(table, config)
    return [
        _window_row(window, members, columns, cut, orphans[window], config)
        for window, members in enumerate(cut.members)
    ]


def _window_row(
    window: int, members: Ints, columns: _WindowColumns, cut: Cut, orphans: int | None, config: MonitorConfig
) -> Window:
    """Return the state of the window at a place of the calendar, with (n_members,) queries."""
    defined = members[~np.isnan(columns.primary[members])]
    values, (low, high) = columns.primary[defined], config.primary.bounds
    sample = Sample(values, None if columns.clusters is None else columns.clusters[defined])
    n_clusters = values.size if sample.clusters is None else np.unique(sample.clusters).size
    p10 = p50 = p90 = float("nan")
    if values.size:
        p10, p50, p90 = np.quantile(values, [0.1, 0.5, 0.9]).tolist()
    return Window(
        label=cut.labels[window],
        start_ns=int(cut.start[window]),
        end_ns=int(cut.end[window]),
        number=int(cut.number[window]),
        hours=float(cut.hours[window]),
        n_queries=int(members.size),
        n_defined=int(values.size),
        n_clusters=int(n_clusters),
        means={name: mean_of_defined(v[members]) for name, v in columns.metrics.items()},
        interval=mean_of(sample, config),
        bounded_interval=_bounded_interval(values, config),
        share_zero=mean_of_defined((values == low).astype(np.float64)),
        share_one=mean_of_defined((values >= high).astype(np.float64)),
        p10=p10,
        p50=p50,
        p90=p90,
        items_per_query=float(columns.n_items[members].mean()),
        relevant_share=float(columns.has_relevant[members].mean()),
        event_rates={name: float(n[members].mean()) for name, n in columns.events.items()},
        orphan_events=orphans,
        immature_share=float((~cut.mature[members]).mean()),
        online={name: mean_of_defined(v[members]) for name, v in columns.online.items()},
        status=_status_before_test(window, values.size, cut, config),
        hours_of_week=columns.queries_by_hour(defined),
    )


def _status_before_test(window: int, n_defined: int, cut: Cut, config: MonitorConfig) -> str:
    if cut.stray[window]:
        return "stray"
    if cut.immature[window]:
        return "immature"
    return "small" if n_defined < config.windows.min_queries else "untested"


def _bounded_interval(values: Floats, config: MonitorConfig) -> tuple[float, float] | None:
    """Return an interval for values that nearly all are at an end of the scale; None for others."""
    low, high = config.primary.bounds
    n_off = min(np.count_nonzero(values < high), np.count_nonzero(values > low))
    if n_off >= _MIN_OFF_CEILING or not 0 < values.size <= _MAX_BETTING_QUERIES or (low, high) != (0.0, 1.0):
        return None
    sample, bounds = ClusterSums.of(values[:, None]), (np.array([low]), np.array([high]))
    _, _, below, above = bounded_means(sample, *bounds, 1 - config.confidence, 0)
    return float(below[0]), float(above[0])


def compare_windows(
    rows: list[Window], cut: Cut, rows_of_now: Ints, periods: Periods, past: Sequence[PastWindow]
) -> list[Window]:
    """Compare each window with the baseline, by itself and with those before it; `rows_of_now` (n_now,)."""
    least = periods.config.windows.min_queries
    members = cut.members_of(rows_of_now)
    tested = []
    for row, queries in zip(rows, members, strict=True):
        if row.status != "untested" or queries.size < least:
            tested.append(row)
            continue
        change, adjusted = periods.compare(rows=queries), None
        if periods.prediction is not None:
            adjusted = mean_of(periods.sample_now(rows=queries), periods.config)
        tested.append(dataclasses.replace(row, status="tested", change=change, adjusted=adjusted))
    return _add_trailing_means(tested, members, cut, periods, past)


def _add_trailing_means(
    windows: list[Window],
    members: Sequence[Ints],
    cut: Cut,
    periods: Periods,
    past: Sequence[PastWindow],
) -> list[Window]:
    """Add to each window the mean of it and those before it, against the baseline; `members` (n_queries,)."""
    trailing, least = periods.config.windows.trailing, periods.config.windows.min_queries
    if trailing < 2:
        return windows
    rows, mature = [*windows], ~cut.immature & ~cut.stray
    for i, last in enumerate(cut.number):
        if not (mature[i] and members[i].size):
            continue
        near = np.flatnonzero((cut.number > last - trailing) & (cut.number <= last) & mature)
        earlier = [w for w in past if last - trailing < w.number < cut.number[0]]
        joined_rows = np.sort(np.concatenate([members[k] for k in near.tolist()]))
        if near.size + len(earlier) >= 2 and joined_rows.size >= least:
            rows[i] = dataclasses.replace(rows[i], trailing=compare_with_past(joined_rows, earlier, periods))
    return rows


def correct_p_values(
    change: Change, windows: list[Window], periods: Periods, past: Sequence[PastWindow] = ()
) -> tuple[Change, list[Window], str]:
    """Correct the p-values of period, windows and trailing means as one family; return it in words as well."""
    alpha = periods.config.compare.alpha
    p = _corrected_p(change, windows, periods, past)

    def alerts(difference: Estimate | None, p_value: float) -> bool:
        return difference is not None and p_value <= alpha and periods.matters(difference.value)

    significant, matters = p[0] <= alpha, periods.matters(change.difference.value)
    corrected_change = dataclasses.replace(
        change,
        p_corrected=float(p[0]),
        alert=bool(significant and matters),
        below_min_drop=bool(significant and not matters),
    )
    of_windows, of_trailing = p[1:].reshape(2, -1).tolist()
    rows = [
        dataclasses.replace(
            row,
            p_corrected=p_window,
            alert=alerts(row.change, p_window),
            trailing_p_corrected=p_trailing,
            trailing_alert=alerts(row.trailing, p_trailing),
        )
        for row, p_window, p_trailing in zip(windows, of_windows, of_trailing, strict=True)
    ]
    family = f"{np.count_nonzero(~np.isnan(p))} tests: the whole period, its windows and their trailing means"
    if periods.config.compare.correct == "sequence":
        family += ", and, asymptotically, the mean of all windows on record after each of them"
        family += f"; window {last_look(windows, past)} on record, of as many as may come"
    else:
        family += "; the period at half of alpha, the others at the other half, and at all of it once the period moved"
    return corrected_change, rows, family


def _corrected_p(
    change: Change, windows: list[Window], periods: Periods, past: Sequence[PastWindow]
) -> Floats:
    """Return p-values of one family: of the period, of every window, of every trailing mean; NaN without a test."""
    raw = np.full(1 + 2 * len(windows), np.nan)
    raw[0] = change.difference.p
    has_several = sum(w.status == "tested" for w in windows) > 1
    for i, window in enumerate(windows, start=1):
        if window.change and has_several:  # a single window is the period
            raw[i] = window.change.p
        if window.trailing:
            raw[len(windows) + i] = window.trailing.p
    if periods.config.compare.correct == "sequence":
        return _spend_alpha(raw, windows, past, 1 - RUNNING_SHARE_OF_ALPHA)
    p_of_others = bonferroni(raw[1:].tolist())
    if np.isnan(p_of_others).all():
        return raw
    # half of alpha for the first, half for the others, all once it passes (fallback, Wiens 2003)
    first = min(2 * raw[0], 1.0)
    if first <= periods.config.compare.alpha:
        return np.append(first, p_of_others)
    return np.append(first, np.minimum(2 * p_of_others, 1.0))


_MAX_FALL_ELSEWHERE = (
    0.5  # of the least fall in the windows with an alert: where the others fell as much, all fell
)


def windows_to_examine(windows: Sequence[Window], members: Sequence[Ints], periods: Periods) -> list[int]:
    """Return the windows that raised the alert, in which places and causes are sought; none for all of production."""
    counted = [i for i, w in enumerate(windows) if w.status in ("tested", "small") and members[i].size]
    chosen = _windows_with_alert(windows, counted, periods.config.windows.trailing)
    other_windows = [i for i in counted if i not in chosen]
    if not chosen or sum(members[i].size for i in other_windows) < periods.config.windows.min_queries:
        return []
    fall, rest = (
        periods.compare(rows=np.sort(np.concatenate([members[i] for i in selected])))
        for selected in (chosen, other_windows)
    )
    least = min(abs(fall.low), abs(fall.high))  # they were chosen for the fall, which makes it look larger
    did_not_fall_elsewhere = rest.value * np.sign(fall.value) < _MAX_FALL_ELSEWHERE * least
    return chosen if did_not_fall_elsewhere else []


def _windows_with_alert(windows: Sequence[Window], counted: Sequence[int], trailing: int) -> list[int]:
    """Return the windows with an alert of their own, else those behind the surest trailing mean."""
    with_own_alert = [i for i in counted if windows[i].alert]
    with_trailing_alert = [i for i in counted if windows[i].trailing_alert]
    if with_own_alert or not with_trailing_alert:
        return with_own_alert
    last = windows[min(with_trailing_alert, key=lambda i: windows[i].trailing_p_corrected)].number
    return [i for i in counted if last - trailing < windows[i].number <= last]


def examine_windows(windows: Sequence[Window], rows: Ints, periods: Periods) -> Examined:
    """Compare the chosen windows, with (n_rows,) queries of them, with the baseline."""
    difference = periods.compare(rows=rows)
    production = float(periods.sample_now(rows=rows).unweighted_mean[0])
    labels = tuple(w.label for w in windows)
    return Examined(labels, int(rows.size), production - difference.value, production, difference)


_DAY_SECONDS = 86_400


def compare_with_past(rows: Ints, past: Sequence[PastWindow], periods: Periods) -> Estimate:
    """Compare queries, (n_rows,), and windows of earlier runs with the baseline, each in its part of the season."""
    if not past or periods.common is not None:
        return periods.compare(rows=rows)
    mean, joint_influence = _joint_mean(rows, past, periods)
    reference, influence = _reference(rows, past, periods)
    if periods.prediction is not None:
        # all windows share it, and today's mean does not know the earlier ones'
        own_error = np.sqrt(influence.variance) + np.sqrt(periods.prediction.key_noise)
        influence = dataclasses.replace(influence, variance=float(own_error**2))
    confidence, side = periods.config.confidence, periods.alternative
    n_queries = joint_influence.units + len(periods.before)
    estimate = difference_of_means(
        mean - reference, joint_influence, influence, alternative=side, confidence=confidence, n=n_queries
    )
    for variation in periods.primary_variations:
        share = _share(variation, rows, past, periods)
        widened = widen(estimate, variation.variance, share, side, confidence)
        if widened.error >= estimate.error:
            estimate = widened
            break
    return estimate


def _joint_mean(rows: Ints, past: Sequence[PastWindow], periods: Periods) -> tuple[float, Influence]:
    """Return the mean of the queries and windows together, and its influence."""
    now = periods.sample_now(rows=rows)
    n = np.array([rows.size, *(w.n for w in past)], dtype=np.float64)
    weights, total = n / n.sum(), int(n.sum())
    mean = now.values.mean() if rows.size else 0.0
    variance = now.unweighted_mean[1].variance if rows.size > 1 else 0.0
    means = np.array([mean, *(w.mean for w in past)])
    variances = np.array([variance, *(w.error**2 for w in past)])
    influence = Influence(np.zeros(0), None, float((weights**2) @ variances), float(max(total - 1, 1)), total)
    return float(weights @ means), influence


def _reference(rows: Ints, past: Sequence[PastWindow], periods: Periods) -> tuple[float, Influence]:
    """Return the baseline's mean in the seasons of the queries and windows, and its influence."""
    sample, strata = periods.reference, periods.strata
    if periods.prediction is not None and rows.size:
        sample = periods.prediction.widen(sample, rows)
    if sample.strata is None or strata[0] is None:
        return sample.unweighted_mean
    size = int(max(sample.strata.max(), strata[0].max())) + 1
    counts = np.bincount(strata[0][rows], minlength=size).astype(np.float64)
    windows = periods.config.windows
    for window in past:
        hours = np.array([int(hour) for hour in window.hours], dtype=np.int64)
        n = np.array(list(window.hours.values()), dtype=np.float64)
        counts += np.bincount(part_of_season(hours, windows.season), n, minlength=size)[:size]
    return sample.weighted_mean(counts / counts.sum())


def _share(variation: UnitVariation, rows: Ints, past: Sequence[PastWindow], periods: Periods) -> float:
    """Return `Periods.share_of` with past windows among production's."""
    total = float(rows.size + sum(w.n for w in past))
    counts = np.bincount(variation.units.now[rows]) if rows.size else np.zeros(0)
    is_of_days = variation.units is periods.units[0]
    size = seconds(periods.config.windows.size)
    by_day: dict[int, float] = {}
    squares = 0.0
    days_per_window = max(1, size // _DAY_SECONDS) if is_of_days else 1
    for window in past:
        if is_of_days and size <= _DAY_SECONDS:
            day = window.number * size // _DAY_SECONDS
            by_day[day] = by_day.get(day, 0.0) + window.n
        else:  # a window of several days has them in equal parts
            squares += window.n**2 / days_per_window
    days = np.array([*(by_day[day] for day in sorted(by_day)), *counts])
    squares += total**2 * variation.share_of(days / total)
    all_rows = np.arange(len(periods.now))
    reference = periods.share_of(variation, all_rows, np.arange(len(periods.before)))
    return squares / total**2 + reference - variation.share_of_now(all_rows)


def shares_of_windows(windows: Sequence[Window], past: Sequence[PastWindow], config: MonitorConfig) -> Floats:
    """Return the share of alpha for the tests of each window, (n_windows,): all shares of all time add up to 1."""
    if config.compare.correct != "sequence":
        return np.ones(len(windows))
    return np.asarray(6 / (np.pi * _looks(windows, past)) ** 2)


def share_to_spend(windows: Sequence[Window], past: Sequence[PastWindow], config: MonitorConfig) -> float:
    """Return the share of alpha that a run may use for what it tests once, such as slices: they add up to 1."""
    if config.compare.correct != "sequence":
        return 1.0
    return float(6 / (np.pi * last_look(windows, past)) ** 2)


def last_look(windows: Sequence[Window], past: Sequence[PastWindow]) -> int:
    """Return the number on record of the last window that counts."""
    counted = [i for i, w in enumerate(windows) if w.status in ("tested", "untested")]
    last = counted[-1] if counted else -1
    return int(_looks(windows, past)[last])


def _looks(windows: Sequence[Window], past: Sequence[PastWindow]) -> Ints:
    """Return the number on record of each window, 1 for the first; counted on the calendar, with earlier runs."""
    numbers = np.array([w.number for w in windows])
    first = min([*(w.number for w in windows if w.status != "stray"), *(w.number for w in past)])
    look: Ints = np.maximum(numbers - first + 1, 1)
    return look


def _spend_alpha(
    raw: Floats, windows: Sequence[Window], past: Sequence[PastWindow], of_alpha: float
) -> Floats:
    """Correct p-values of looks without an end: the d-th window has alpha * 6 / (pi d)**2, which adds up to alpha.

    Its own test, its trailing mean and the period that ends with it share that evenly.

    Source: K. Lan, D. DeMets, Biometrika 70 (1983), with the spending of the Basel series.
    """
    look = _looks(windows, past).astype(np.float64)
    looks = np.concatenate(([last_look(windows, past)], look, look))
    return np.minimum(raw * 3 * (np.pi * looks) ** 2 / 6 / of_alpha, 1.0)


BLUE, ORANGE = charts.PALETTE[0], charts.PALETTE[1]


def section(result: MonitorResult) -> list[Block]:
    if len(result.windows) < 2:
        return []
    so_far = "All windows on record up to this one; holds at all times at once."
    table = table_of(
        "windows",
        "Every window of production.",
        result.windows,
        (Column("Window"), "label"),
        (Column("Verdict"), lambda w: status(w, result)),
        (Column("Queries", "count"), "n_defined"),
        (Column(f"{result.primary} [{result.interval_name}]", "metric"), "interval"),
        (
            Column("Bounded interval"),
            lambda w: "[{:.3f}, {:.3f}]".format(*w.bounded_interval) if w.bounded_interval else "",
        ),
        (Column(f"Difference [{result.test_name}]", "difference"), "change"),
        (Column("p corrected", "p", hint=result.family), "p_corrected"),
        (Column("Trailing", "difference", hint="This window and those before it, together."), "trailing"),
        (Column("p corrected ", "p"), "trailing_p_corrected"),
        (Column("So far", "difference", hint=so_far), "running"),
        (Column("p corrected  ", "p"), "running_p_corrected"),
        (Column("At 1", "percent"), "share_one") if any(w.share_one for w in result.windows) else None,
    )
    moved = sum(status(w, result).text == "alert" for w in result.windows)
    finding = f"{moved} of {count_of(len(result.windows), 'window')} with an alert"
    blocks: list[Block] = [Heading("Window by window", finding=finding, matters=bool(moved)), table]
    if any(w.bounded_interval for w in result.windows):
        text = (
            "Where fewer than 15 queries are off the ceiling, the interval in brackets is far too narrow; the "
            "bounded one holds whatever the values' distribution."
        )
        blocks.append(Paragraph(text, "note"))
    return blocks


_STATUS: dict[str, tuple[str, Tone]] = {
    "tested": ("no alert", "good"),
    "immature": ("immature", "neutral"),
    "small": ("too small", "neutral"),
    "stray": ("apart in time", "neutral"),
}


def status(window: Window, result: MonitorResult) -> Badge:
    if window.label in result.windows_below:
        return Badge("alert", "bad")
    return result.raised if window.moved else Badge(*_STATUS.get(window.status, ("not compared", "muted")))


def timeline(result: MonitorResult) -> Chart:
    """Draw the primary metric over time, with its baseline."""
    alerts = sum(status(w, result).text == "alert" for w in result.windows)
    description = f"{count_of(len(result.windows), 'window')}, {alerts} with an alert."
    tooltip_fields = [*charts.tooltip("window", mean=".4f", low=".4f", high=".4f"), {"field": "state"}]
    colour = {"condition": {"test": "datum.state === 'alert'", "value": charts.BAD}, "value": BLUE}
    line = {"type": "line", "color": BLUE, "strokeWidth": 1.2, "opacity": 0.6}
    dots = {"type": "point", "filled": True, "size": 45}
    layers = [
        charts.layer(line, x=charts.TIME_AXIS, y=_y("mean")),
        charts.layer({"type": "rule"}, x=charts.TIME_AXIS, y=_y("low"), y2={"field": "high"}, color=colour),
        charts.layer(dots, x=charts.TIME_AXIS, y=_y("mean"), color=colour, tooltip=tooltip_fields),
    ]
    title = f"{result.primary} by window, {result.interval_name}s"
    lines = []  # further lines of the chart, in words
    if result.changes:
        baseline = result.changes[0].baseline
        layers = [*_baseline_layers(baseline), *layers]
        description += f" The dashed line is the baseline, {baseline.value:.4f}."
        lines.append("the dashed line is the baseline")
    for limit in result.limits:
        if limit.metric == result.primary:
            layers.insert(0, _limit_layer(limit.limit))
            description += f" The dotted line is the limit, {limit.limit:g}."
            lines.append("the dotted line is the limit")
    if result.changes:
        title += "; red windows raised an alert, " + "; ".join(lines)
    else:
        title += "".join(f"; red windows raised an alert, {text}" for text in lines)
    points = [_timeline_point(w, result) for w in result.windows if not math.isnan(w.interval.value)]
    return Chart("windows", title, charts.wide(points, 220, layer=layers), description)


def _baseline_layers(baseline: Estimate) -> list[dict[str, Any]]:
    """Return the interval of the baseline's mean as a band, and the mean as a line."""
    data: dict[str, Any] = {"values": []}
    if not math.isnan(baseline.low):
        ends = {"base": baseline.value, "from": baseline.low, "to": baseline.high}
        data["values"].append({name: round(end, 5) for name, end in ends.items()})
    area = {"type": "rect", "opacity": 0.2, "color": ORANGE}
    dashed = {"type": "rule", "color": ORANGE, "strokeDash": [4, 3]}
    band = charts.layer(area, y=_y("from"), y2={"field": "to"})
    return [{"data": data, **band}, {"data": data, **charts.layer(dashed, y=_y("base"))}]


def _limit_layer(limit: float) -> dict[str, Any]:
    dotted = {"type": "rule", "color": charts.BAD, "strokeDash": [1, 3]}
    return {"data": {"values": [{"limit": limit}]}, **charts.layer(dotted, y=_y("limit"))}


def _timeline_point(window: Window, result: MonitorResult) -> dict[str, Any]:
    mean, low, high = (
        round(end, 5) for end in (window.interval.value, window.interval.low, window.interval.high)
    )
    state = status(window, result).text
    point = {"at": window.start_ns // 1_000_000, "window": window.label, "mean": mean, "state": state}
    return point if math.isnan(low) else point | {"low": low, "high": high}


_y = partial(charts.quantitative, title=None, scale={"zero": False})
