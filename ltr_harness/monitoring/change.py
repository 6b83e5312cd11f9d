"""Production against the baseline: the difference, its season, the mix of queries behind it, and online measures."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from scipy.special import fdtrc

from ltr_harness._util.text import count_of
from ltr_harness.comparison.stats.cluster_sums import paired_differences
from ltr_harness.comparison.stats.two_samples import Alternative, Estimate, Sample, mean_estimate
from ltr_harness.data.arrays import Floats, Ints
from ltr_harness.data.columns import codes_of, with_common_categories
from ltr_harness.data.times import local_days
from ltr_harness.errors import Caution
from ltr_harness.monitoring.calendar import hours_of_week
from ltr_harness.monitoring.inputs import ComparedColumn, difference_parts
from ltr_harness.monitoring.periods import Periods, mean_of
from ltr_harness.monitoring.queries import column_of, columns_of, mean_of_defined, primary_of
from ltr_harness.monitoring.result import (
    Adjustment,
    Cell,
    Change,
    MonitorResult,
    Online,
    SegmentDecomposition,
    Window,
    table_of,
)
from ltr_harness.monitoring.stats.adjustment import Decomposition
from ltr_harness.monitoring.stats.several_samples import bonferroni
from ltr_harness.report.blocks import Block, Column, Details, Heading, Paragraph, Table
from ltr_harness.report.formats import p_value

_MIN_QUERIES = 10  # queries of a day, or of its hour, to say something of it
_SEASON_ALPHA = 0.005  # for a recommendation that nobody asked for
_MIN_WINDOWS = 4  # windows; fewer have some rank correlation or other

_SEASONS = {
    "weekday": "weekday by weekday",
    "hour": "hour by hour",
    "hour_of_week": "hour by hour of the week",
}


def changes(periods: Periods, tested: Periods) -> list[Change]:
    """Compare every metric; the first is the one that may raise an alert."""
    metric_changes = []
    metrics = zip(columns_of(periods.now, "metric"), periods.config.resolved_metrics, strict=True)
    for number, (name, metric) in enumerate(metrics):
        column = f"metric:{name}"
        alternative: Alternative = "drop" if metric.higher_is_better else "rise"
        if periods.config.compare.alternative == "change":
            alternative = "change"
        now, before = periods.sample_now(column_of(periods.now, column)), periods.reference
        values: tuple[Floats, Floats] | None = None
        if number > 0:  # the samples of the primary metric are at hand
            before = periods.sample_before(column_of(periods.before, column))
            values = column_of(tested.now, column), column_of(tested.before, column)
        estimate = tested.compare(values, alternative=alternative)
        mean, mean_before = mean_of(now, periods.config), mean_of(before, periods.config)
        relative = estimate.value / mean_before.value if mean_before.value else float("nan")
        method = _method_text(tested, estimate)
        metric_changes.append(Change(name, mean, mean_before, estimate, relative, method))
    return metric_changes


def _method_text(periods: Periods, estimate: Estimate) -> str:
    if periods.common is not None:
        return f"paired t over {estimate.n:,} queries that both periods scored"
    parts = ["Welch's t over different queries"]
    if periods.clusters[0] is not None:
        parts.append("robust to clusters")
    if periods.prediction is not None:
        parts.append(f"adjusted for {', '.join(periods.config.compare.adjust)}")
    if periods.strata[0] is not None:
        parts.append(_SEASONS[periods.config.windows.season])
    return ", ".join([*parts, *map(str, periods.primary_variations)])


def adjustment(periods: Periods, difference: Estimate) -> Adjustment | None:
    """Return the effect of adjusting on the primary metric's difference; None where nothing is adjusted."""
    if not periods.config.compare.adjust or periods.common is not None:
        return None
    unadjusted = periods.compare()
    removed_share = 1 - difference.error**2 / unadjusted.error**2 if unadjusted.error > 0 else float("nan")
    return Adjustment(periods.config.compare.adjust, unadjusted, removed_share)


def paired_by_key(periods: Periods) -> Estimate | None:
    """Return the change over keys (query texts) that recur in both periods, each counted once; None without keys."""
    tables = periods.now, periods.before
    keys_now, keys_before = (column_of(table, "pair_key") for table in tables)
    if keys_now is None or keys_before is None:
        return None
    means = []
    for table, key in zip(tables, with_common_categories(keys_now, keys_before), strict=True):
        has_key = codes_of(key) >= 0
        keys, values = codes_of(key)[has_key], primary_of(table)[has_key]
        n = np.bincount(keys, minlength=key.categories.size)
        with np.errstate(invalid="ignore", divide="ignore"):
            means.append(np.bincount(keys, values, minlength=key.categories.size) / n)
    d = paired_differences(means[0], means[1])
    d = d[~np.isnan(d)]
    if d.size < 2:
        return None
    return mean_estimate(Sample(d), periods.config.confidence, periods.alternative)


def decompositions(columns: Sequence[ComparedColumn], periods: Periods) -> list[SegmentDecomposition]:
    """Divide the change by every segment column."""
    segments = [column for column in columns if column.kind == "segment"]
    return [_decomposition(c.name, c.parts, [*c.names, "(missing)"], periods, len(columns)) for c in segments]


def _decomposition(
    column: str, parts: Decomposition, names: Sequence[str], periods: Periods, m: int
) -> SegmentDecomposition:
    shares = parts.counts / parts.counts.sum(axis=1, keepdims=True)
    order = np.argsort(-parts.counts.sum(axis=0), kind="stable")[:20]
    numbers = np.stack([shares[1], shares[0], parts.means[1], parts.means[0]], axis=1)
    is_large = (parts.counts >= periods.config.slices.min_queries).all(axis=0)
    moved = periods.sign * (parts.means[0] - parts.means[1])[is_large]
    return SegmentDecomposition(
        **difference_parts(parts, m),
        column=column,
        adjusted=parts.adjusted,
        cells=tuple(Cell(names[c], *numbers[c].tolist()) for c in order),
        simpsons_paradox=bool(
            is_large.sum() >= 2 and (moved > 0).all() and periods.sign * parts.total.value < 0
        ),
    )


def season_advice(table: pd.DataFrame, timezone: str) -> Caution | None:
    """Return a caution where the metric has a season; days count, not queries: seven days that differ are no week."""
    time, values = column_of(table, "time"), primary_of(table)
    if time is None:
        return None
    hours = hours_of_week(time, timezone)
    days = np.unique(local_days(time, timezone), return_inverse=True)[1]
    is_defined = ~np.isnan(values)
    values, hours, days = values[is_defined], hours[is_defined], days[is_defined]
    weekly = _season_p(values, hours // 24, days) < _SEASON_ALPHA
    daily = _season_p(values, hours % 24, days, within_days=True) < _SEASON_ALPHA
    if weekly and daily:
        part, season, comparison = "day of the week and the hour of the day", "hour_of_week", "like with like"
    elif weekly:
        part, season, comparison = "day of the week", "weekday", "Mondays with Mondays"
    elif daily:
        part, season, comparison = "hour of the day", "hour", "mornings with mornings"
    else:
        return None
    cure = f"windows.season: {season} would compare {comparison}"
    return Caution("season", "note", f"the metric depends on the {part}", cure)


def _season_p(values: Floats, parts: Ints, days: Ints, within_days: bool = False) -> float:
    """Return the p of the F test of parts of the season, over means of days, or of hours less their day's mean."""
    size = int(parts.max(initial=0)) + 1
    cell, cell_codes = np.unique(days * size + parts, return_inverse=True)
    n = np.bincount(cell_codes)
    means, day, part = np.bincount(cell_codes, values) / n, cell // size, cell % size
    is_large = n >= _MIN_QUERIES
    means, day, part = means[is_large], np.unique(day[is_large], return_inverse=True)[1], part[is_large]
    if not means.size:
        return float("nan")
    df = means.size
    if within_days:
        means = means - (np.bincount(day, means) / np.bincount(day))[day]
        df -= int(day.max())
    _, group = np.unique(part, return_inverse=True)
    counts = np.bincount(group)
    centre = means.mean()
    by_part = np.bincount(group, means) / counts
    explained = float((counts * (by_part - centre) ** 2).sum())
    rest = float(((means - by_part[group]) ** 2).sum())
    df_left = df - counts.size
    if counts.size < 2 or df_left < 3 or rest <= 0:
        return float("nan")
    return float(fdtrc(counts.size - 1, df_left, explained / (counts.size - 1) / (rest / df_left)))


def online(
    production: pd.DataFrame, periods: Periods | None, windows: Sequence[Window], alpha_share: float = 1.0
) -> tuple[Online, ...]:
    """Compare what users did, and correlate it with the metric: an offline metric is a proxy, and this its check."""
    rows = []
    for name, values in columns_of(production, "online").items():
        pairs = pd.DataFrame([(w.interval.value, w.online[name]) for w in windows]).dropna()
        before = None if periods is None else column_of(periods.before, f"online:{name}")
        base, difference = float("nan"), None
        if periods is not None and before is not None:
            values, base = column_of(periods.now, f"online:{name}"), mean_of_defined(before)
            difference = periods.compare((values, before), alternative="change")
        mean = mean_of_defined(values)
        rows.append(Online(name, _rank_correlation(pairs), len(pairs), difference, before=base, now=mean))
    raw = np.full(len(rows), np.nan)  # NaN where nothing was tested
    for number, row in enumerate(rows):
        if row.difference is not None:
            raw[number] = row.difference.p
    p = np.minimum(bonferroni(raw) / alpha_share, 1.0).tolist()
    return tuple(replace(row, p_corrected=p_row) for row, p_row in zip(rows, p, strict=True))


def _rank_correlation(pairs: pd.DataFrame) -> float:
    """Return Spearman's correlation of two columns; NaN of few rows, or where one column is constant."""
    if len(pairs) < _MIN_WINDOWS or (pairs.nunique() < 2).any():
        return float("nan")
    ranks = pairs.rank()
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def section(result: MonitorResult) -> list[Block]:
    if not (result.decompositions or result.paired_by_key):
        return []
    blocks: list[Block] = [Heading("Within or mix", matters=result.verdict.cause == "mix")]
    if result.examined_text:
        blocks.append(Paragraph(result.examined_text, "note"))
    if result.decompositions:
        blocks.append(_mix_table(result, result.decompositions, "mix"))
    for number, segment in enumerate(result.decompositions, start=1):
        cells = table_of(
            f"mix_{number}",
            f"Segments of {segment.column}, the most frequent first.",
            segment.cells,
            (Column("Value", "code"), "value"),
            (Column("Share before", "percent"), "share_before"),
            (Column("Share now", "percent"), "share_now"),
            (Column("Before", "metric"), "mean_before"),
            (Column("Now", "metric"), "mean_now"),
        )
        blocks.append(Details(f"Segments of {segment.column}", (cells,)))
    if result.whole is not None and result.whole.decompositions:
        table = _mix_table(result, result.whole.decompositions, "mix_whole")
        blocks.append(Details("All of production", (table,)))
    if result.paired_by_key is not None:
        k = result.paired_by_key
        keys = f"Over {count_of(k.n, 'key')} that recur in both periods, each counted once"
        blocks.append(Paragraph(f"{keys}: {k}, p {p_value(k.p)}."))
    return blocks


def _mix_table(result: MonitorResult, parts: Sequence[SegmentDecomposition], name: str) -> Table:
    interval = f"[{result.interval_name}]"
    scope = " in all of production" if name == "mix_whole" else ""
    within_column = Column(f"Within {interval}", "difference", hint="From changes inside the segments.")
    mix = Column(f"Mix {interval}", "difference", hint="From changed shares of the segments.")
    adjusted = Column("Adjusted", "metric", hint="Production's mean with the baseline's shares.")
    unmatched = "From values that only one period has, so that there is nothing to compare."
    return table_of(
        name,
        f"The change{scope}, divided by each segment column: total = within + mix + unmatched.",
        parts,
        (Column("Segment column", "code"), "column"),
        (within_column, "within"),
        (mix, "mix"),
        (Column(f"Unmatched {interval}", "difference", hint=unmatched), "unmatched"),
        (adjusted, "adjusted"),
    )


def online_section(result: MonitorResult) -> list[Block]:
    """Does the metric move with what users do?"""
    if not result.online:
        return []
    corrected = Column("p corrected", "p", hint="Bonferroni over these columns.")
    correlation = "Spearman's, over the windows' means; from four windows on."
    means = table_of(
        "online",
        "User behaviour: means over queries.",
        result.online,
        (Column("Column", "code"), "name"),
        (Column("Before", "number"), "before"),
        (Column("Now", "number"), "now"),
        (Column(f"Difference [{result.interval_name}]", "difference"), "difference"),
        (corrected, "p_corrected"),
        (Column(f"Rank correlation with {result.primary}", "number", hint=correlation), "correlation"),
        (Column("Windows", "count"), "n_windows"),
    )
    by_window = table_of(
        "online_windows",
        f"{result.primary} and user behaviour in every window.",
        result.windows,
        (Column("Window"), "label"),
        (Column(result.primary, "metric"), lambda w: w.interval.value),
        *((Column(o.name, "number"), lambda w, name=o.name: w.online[name]) for o in result.online),
    )
    proxy = f"{result.primary} is a proxy. Where user behaviour moves apart from it, one of them is measured wrongly."
    return [Heading("Online"), Paragraph(proxy), means, Details("Window by window", (by_window,))]
