"""Absolute limits: does a metric's mean lie below what it must reach, over all of production, in a window, a segment?

Limits need no baseline, and their tests share an alpha of their own. Each interval is the test's, at the level at
which all intervals together hold; a mean whose interval holds the limit is a notice.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from ltr_harness._util.text import count_of
from ltr_harness.comparison.stats.betting import bounded_means
from ltr_harness.comparison.stats.cluster_sums import ClusterSums
from ltr_harness.comparison.stats.two_samples import Estimate, Sample, mean_estimate
from ltr_harness.data.arrays import Floats, Ints
from ltr_harness.data.columns import codes_of
from ltr_harness.metrics import Metric
from ltr_harness.monitoring.calendar import Cut
from ltr_harness.monitoring.config import MonitorConfig
from ltr_harness.monitoring.periods import cluster_codes
from ltr_harness.monitoring.queries import column_of, columns_of
from ltr_harness.monitoring.result import Limit, LimitTest, MonitorResult, marked_estimate, table_of
from ltr_harness.monitoring.slices import least_queries
from ltr_harness.report.blocks import Block, Column, Heading, Paragraph

ALL = "all"
_MIN_OFF_AN_END = 15  # with fewer queries off an end of the metric's scale, a t interval is a guess


def check_limits(
    table: pd.DataFrame, cut: Cut, config: MonitorConfig, shares: Floats, alpha_share: float
) -> tuple[Limit, ...]:
    """Hold the mean of each limited metric against its limit.

    Args:
        table: production's queries.
        cut: their windows.
        config: which metrics have limits.
        shares: (n_windows,) of alpha, what tests of each window may use.
        alpha_share: the same share, for what is tested once.
    """
    return tuple(_limit(table, cut, config, shares, alpha_share, metric) for metric in config.limits)


def _limit(
    table: pd.DataFrame, cut: Cut, config: MonitorConfig, shares: Floats, alpha_share: float, metric: Metric
) -> Limit:
    values, clusters = columns_of(table, "metric")[str(metric)], column_of(table, "cluster")
    counted = np.flatnonzero(cut.mature & ~np.isnan(values))
    clusters_of_counted = None if clusters is None else cluster_codes(clusters)[counted]
    limited = _LimitedMetric(values[counted], clusters_of_counted, metric.bounds, config.limits[metric])
    least = config.windows.min_queries
    windows = [] if len(cut) < 2 else _testable_windows(cut, counted, least)
    segments, n_small = _testable_segments(table, counted, config)
    # of alpha: limits share it evenly, and so do the whole, the windows and the segments of each
    alpha = config.compare.alpha / len(config.limits) / sum(map(bool, (True, windows, segments)))
    in_family = 1 if config.compare.correct == "sequence" else max(1, len(windows))
    return Limit(
        metric=str(metric),
        limit=limited.limit,
        whole=limited.test(ALL, np.arange(counted.size), alpha * alpha_share, least),
        windows=tuple(
            limited.test(cut.labels[window], rows, alpha * shares[window] / in_family)
            for window, rows in windows
        ),
        segments=tuple(
            limited.test(name, rows, alpha * alpha_share / len(segments)) for name, rows in segments
        ),
        n_small_segments=n_small,
    )


def _testable_windows(cut: Cut, counted: Ints, least: int) -> list[tuple[int, Ints]]:
    """Return the windows with queries enough among (n_counted,), with the places of these."""
    fit = ~(cut.immature | cut.stray)
    return [
        (window, rows)
        for window, rows in enumerate(cut.members_of(counted))
        if fit[window] and rows.size >= least
    ]


def _testable_segments(
    table: pd.DataFrame, counted: Ints, config: MonitorConfig
) -> tuple[list[tuple[str, Ints]], int]:
    """Return the segments' values with queries enough among (n_counted,), and how many have fewer."""
    least, segments, n_small = least_queries(counted.size, config), list[tuple[str, Ints]](), 0
    for name, column in columns_of(table, "segment").items():
        codes = codes_of(column)[counted]
        order = np.argsort(codes, kind="stable")
        values, starts = np.unique(codes[order], return_index=True)
        for value, rows in zip(values.tolist(), np.split(order, starts[1:]), strict=True):
            if value >= 0 and rows.size >= least:
                segments.append((f"{name}={column.categories[value]}", np.sort(rows)))
            elif value >= 0:
                n_small += 1
    return segments, n_small


@dataclass(frozen=True, eq=False)
class _LimitedMetric:
    """One metric's values, (n_counted,), and the limit that their means are held against."""

    values: Floats
    clusters: Ints | None
    bounds: tuple[float, float]
    limit: float

    def test(self, part: str, rows: Ints, alpha: float, least: int = 1) -> LimitTest:
        values = self.values[rows]
        clusters = None if self.clusters is None else self.clusters[rows]
        if rows.size < max(2, least):
            mean = Estimate(float(values.mean()) if rows.size else float("nan"), n=int(rows.size))
        else:
            mean = self._mean(Sample(values, clusters), alpha)
        return LimitTest(part, mean, below=mean.value < self.limit, alert=mean.high < self.limit)

    def _mean(self, sample: Sample, alpha: float) -> Estimate:
        """Return the mean with an interval of which each end is a bound at alpha."""
        mean = replace(mean_estimate(sample, 1 - alpha, "drop"), p=float("nan"))
        low, high = self.bounds
        n_off_an_end = min(np.count_nonzero(sample.values < high), np.count_nonzero(sample.values > low))
        if n_off_an_end >= _MIN_OFF_AN_END:
            return mean
        if not np.isfinite(high - low):
            return replace(mean, low=float("nan"), high=float("nan"))
        units = sample.values
        if sample.clusters is not None:
            _, codes = np.unique(sample.clusters, return_inverse=True)
            units = np.bincount(codes, sample.values) / np.bincount(codes)
        ends = np.array([low], np.float64), np.array([high], np.float64)
        _, _, below, above = bounded_means(ClusterSums.of(units[:, None]), *ends, min(2 * alpha, 1.0), 0)
        return replace(mean, low=float(np.fmin(mean.low, below[0])), high=float(np.fmax(mean.high, above[0])))


def _numbers(test: LimitTest) -> str:
    mean = test.mean
    ends = "" if mean.low != mean.low else f" [{mean.low:.4f}, {mean.high:.4f}]"
    return f"{mean.value:.4f}{ends}"


def lowest(tests: Sequence[LimitTest]) -> LimitTest:
    return min(tests, key=lambda test: test.mean.value)


def alert_lines(limit: Limit) -> Iterator[tuple[str, str]]:
    """Yield the text and window of each alert: the whole, every window, and the segments together."""
    below = f"below {limit.limit:g}"
    if limit.whole.alert:
        yield f"{limit.metric} {_numbers(limit.whole)} {below} over all of production", ""
    for test in limit.windows:
        if test.alert:
            yield f"{limit.metric} {_numbers(test)} {below} in window {test.part}", test.part
    if alerts := [test for test in limit.segments if test.alert]:
        worst, n_below = lowest(alerts), f"{len(alerts)} of {count_of(len(limit.segments), 'segment')}"
        place = f"in {worst.part} ({n_below} below)"
        yield f"{limit.metric} {_numbers(worst)} {below} {place}", ""


def caution_texts(limit: Limit) -> Iterator[str]:
    """Yield a text on each part with a mean below the limit and an interval that holds it, or without a test."""
    name, below = limit.metric, f"its limit {limit.limit:g}"
    may_be_chance = "its interval holds the limit"
    if not limit.is_tested:
        yield f"{name} was not held against {below}: {limit.why_not}"
    elif limit.whole.below and not limit.whole.alert:
        yield f"{name} {_numbers(limit.whole)} lies below {below} over all of production, and {may_be_chance}"
    if tests := [test for test in limit.windows if test.below and not test.alert]:
        place = f"{len(tests)} of {count_of(len(limit.windows), 'window')}, first {tests[0].part}"
        yield f"{name} lies below {below} in {place}: {_numbers(tests[0])}, and {may_be_chance}"
    if tests := [test for test in limit.segments if test.below and not test.alert]:
        worst, n_below = lowest(tests), f"{len(tests)} of {count_of(len(limit.segments), 'segment')}"
        yield f"{name} lies below {below} in {n_below}, lowest {worst.part}: {_numbers(worst)}, and {may_be_chance}"


def open_question(limits: Sequence[Limit]) -> str:
    """Return why it is open whether all of production lies below a limit, and what would decide it; or empty."""
    for limit in limits:
        name, mean = limit.metric, limit.whole.mean
        if not limit.is_tested:
            return f"{name} was not held against its limit {limit.limit:g}: {limit.why_not}"
        if limit.whole.below and not limit.whole.alert:
            text = f"{name} {_numbers(limit.whole)} lies below its limit {limit.limit:g}, and chance may have done it"
            times = ((mean.high - mean.value) / max(limit.limit - mean.value, 1e-12)) ** 2
            more = f"about {max(2.0, times):,.0f} times as many queries" if times < 1e6 else "more queries"
            return f"{text}; {more} would decide it"
    return ""


def sentence(limit: Limit) -> str:
    """Return a sentence on the mean of all of production and the limit."""
    way = "below" if limit.whole.below else "above"
    if not limit.is_tested:
        return f"{limit.metric} was not held against its limit {limit.limit:g}: {limit.why_not}."
    return f"{limit.metric} is {way} its limit {limit.limit:g}: {_numbers(limit.whole)}."


def relation(limit: Limit) -> str:
    """Return the same in few words, for the headline."""
    way = "below" if limit.whole.below else "above"
    if not limit.is_tested:
        way = "not held against"
    return f"{way} its limit {limit.limit:g}"


def alert_sentence(limits: Sequence[Limit]) -> str:
    """Return which metrics lie below their limits, and where; empty where none does for certain."""
    sentences = []
    for limit in limits:
        lines = [text for text, window in alert_lines(limit) if not window]
        windows = [test for test in limit.windows if test.alert]
        if windows:
            place = f"{len(windows)} of {count_of(len(limit.windows), 'window')}, first {windows[0].part}"
            lines.insert(1 if limit.whole.alert else 0, f"{limit.metric} below {limit.limit:g} in {place}")
        sentences += [f"{line}." for line in lines]
    return f"Below a limit: {' '.join(sentences)}" if sentences else ""


def headline(limits: Sequence[Limit]) -> str:
    """Return the first alert of a limit in at most twenty words; empty where there is none."""
    for limit in limits:
        below = f"{limit.metric} is below its limit {limit.limit:g}"
        windows = [test for test in limit.windows if test.alert]
        segments = [test for test in limit.segments if test.alert]
        if limit.whole.alert:
            return f"{below}: {limit.whole.mean.value:.4f}"
        if windows:
            return f"{below} in {len(windows)} of {count_of(len(limit.windows), 'window')}"
        if segments:
            return f"{below} in {len(segments)} of {count_of(len(limit.segments), 'segment')}"
    return ""


def section(result: MonitorResult) -> list[Block]:
    """Does a metric lie below what it must reach?"""
    if not result.limits:
        return []
    rows = [(limit, test) for limit in result.limits for test in limit.listed_tests]
    table = table_of(
        "limits",
        "Metrics and their limits: all of production, and each window and segment whose mean lies below.",
        rows,
        (Column("Metric", "code"), lambda row: row[0].metric),
        (Column("Where", "code"), lambda row: row[1].part),
        (Column("Verdict"), lambda row: row[1].state),
        (Column("Limit", "metric"), lambda row: row[0].limit),
        (
            Column("Mean [interval of the test]", "metric"),
            lambda row: marked_estimate(row[1].mean, alert=row[1].alert),
        ),
        (Column("Queries", "count"), lambda row: row[1].mean.n),
        footnotes=(
            f"All intervals hold at once, at alpha {result.alpha:g} of their own: these tests take nothing from "
            "those against a baseline.",
        ),
    )
    n = sum(test.alert for _, test in rows)
    blocks: list[Block] = [
        Heading("Limits", finding=f"{n or 'none'} below for certain", matters=bool(n)),
        table,
    ]
    for limit in result.limits:
        tested = f"{count_of(len(limit.windows), 'window')} and {count_of(len(limit.segments), 'segment')} were tested"
        if limit.n_small_segments:
            tested += f"; {count_of(limit.n_small_segments, 'segment')} with fewer queries not"
        blocks.append(Paragraph(f"{limit.metric}: {tested}.", "note"))
    return blocks
