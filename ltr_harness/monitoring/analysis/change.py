"""Production against the baseline: the difference, the windows, and what the mix of queries has to do with it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import fdtrc

from ltr_harness.logs.columns import codes_of, together
from ltr_harness.monitoring.analysis.inputs import query_features, segment_column, segments_of
from ltr_harness.monitoring.analysis.periods import Periods, interval, of_mean
from ltr_harness.monitoring.analysis.windows import hours_of_week, local_days
from ltr_harness.monitoring.queries import column_of, columns_of, primary_of
from ltr_harness.monitoring.results.answers import Adjustment, Cell, Change, Interval, Split
from ltr_harness.stats.decomposition import Decomposition
from ltr_harness.stats.paired import paired_differences
from ltr_harness.stats.two_samples import Alternative, Codes, Estimate, Sample, mean_estimate

_AT_LEAST = 10  # queries of a day, or of its hour, to say something of it
_CERTAIN = 0.005  # for a recommendation that nobody asked for

Floats = NDArray[np.float64]


def changes(periods: Periods, tested: Periods) -> list[Change]:
    """Every metric's difference; the first is the one that may raise an alert."""
    answers = []
    confidence = periods.config.compare.confidence
    for at, metric in enumerate(columns_of(periods.now, "metric")):
        column = f"metric:{metric}"
        now = periods.sample_now(column_of(periods.now, column))
        before = periods.reference if at == 0 else periods.sample_before(column_of(periods.before, column))
        higher = periods.config.resolved_metrics[at].higher_is_better
        side: Alternative = "drop" if higher else "rise"
        values = None if at == 0 else (column_of(tested.now, column), column_of(tested.before, column))
        estimate = tested.compare(
            values, alternative=side if periods.config.compare.alternative == "drop" else "change"
        )
        a, b = mean_estimate(now, confidence), mean_estimate(before, confidence)
        answers.append(
            Change(
                metric,
                of_mean(a),
                of_mean(b),
                interval(estimate),
                estimate.value / b.value if b.value else float("nan"),
                _method(tested, estimate),
            )
        )
    return answers


def _method(periods: Periods, tested: Estimate) -> str:
    if periods.common is not None:
        return f"paired t over {tested.n:,} queries that both periods scored"
    parts = ["Welch's t over different queries"]
    if periods.clusters[0] is not None:
        parts.append("robust to clusters")
    season = {
        "weekday": "weekday by weekday",
        "hour": "hour by hour",
        "hour_of_week": "hour by hour of the week",
    }
    if periods.prediction is not None:
        parts.append(f"adjusted for {', '.join(periods.config.compare.adjust)}")
    if periods.strata[0] is not None:
        parts.append(season[periods.config.windows.season])
    parts += [str(known) for known in periods.primary_days if known is not None]
    return ", ".join(parts)


def adjustment(periods: Periods, difference: Interval) -> Adjustment | None:
    """What adjusting made of the primary metric's difference; None where it is as it is."""
    if not periods.config.compare.adjust or periods.common is not None:
        return None
    plain = interval(periods.compare())
    gone = 1 - difference.error**2 / plain.error**2 if plain.error > 0 else float("nan")
    return Adjustment(periods.config.compare.adjust, plain, gone)


def paired_by_key(periods: Periods) -> Interval | None:
    """The change over keys (query texts) that recur in both periods, each counted once; None without keys."""
    tables = periods.now, periods.before
    one, two = (column_of(table, "pair_key") for table in tables)
    if one is None or two is None:
        return None
    means = []
    for table, key in zip(tables, together(one, two), strict=True):
        known = codes_of(key) >= 0
        keys, values = codes_of(key)[known], primary_of(table)[known]
        n = np.bincount(keys, minlength=key.categories.size)
        with np.errstate(invalid="ignore", divide="ignore"):
            means.append(np.bincount(keys, values, minlength=key.categories.size) / n)
    d = paired_differences(means[0], means[1])
    d = d[~np.isnan(d)]
    if d.size < 2:
        return None
    return interval(mean_estimate(Sample(d), periods.config.compare.confidence, periods.alternative))


def splits(periods: Periods) -> list[Split]:
    """The change divided by every segment column."""
    names = segments_of(periods)
    m = max(1, len(names) + len(query_features(periods)))
    answers = []
    for name in names:
        column = segment_column(name, periods, periods.spent * periods.config.drift.alpha / m)
        answers.append(_split(name, column.parts(periods), [*column.names, "(missing)"], periods, m))
    return answers


def _split(column: str, parts: Decomposition, names: Sequence[str], periods: Periods, m: int) -> Split:
    shares = parts.counts / parts.counts.sum(axis=1, keepdims=True)
    order = np.argsort(-parts.counts.sum(axis=0), kind="stable")[:20]
    cells = tuple(
        Cell(
            names[c],
            float(shares[1, c]),
            float(shares[0, c]),
            float(parts.means[1, c]),
            float(parts.means[0, c]),
        )
        for c in order.tolist()
    )
    sign = 1.0 if periods.higher_is_better else -1.0
    both = (parts.counts >= periods.config.slices.min_queries).all(axis=0)
    moved = sign * (parts.means[0] - parts.means[1])[both]
    improved = bool(both.sum() >= 2 and (moved > 0).all() and sign * parts.total.value < 0)
    return Split(
        column=column,
        within=interval(parts.within),
        mix=interval(parts.mix),
        unmatched=interval(parts.unmatched),
        mix_chance=min(1.0, m * parts.mix_chance),
        lacking=parts.lacking,
        adjusted=parts.adjusted,
        cells=cells,
        improved_inside=improved,
    )


def season_advice(table: pd.DataFrame, timezone: str) -> str | None:
    """Which season the metric has, far beyond how days differ anyway; None where it shows none.

    Days are the unit, not their queries: seven days that differ are no week.
    """
    time, values = column_of(table, "time"), primary_of(table)
    if time is None:
        return None
    hours = hours_of_week(time, timezone)
    known = ~np.isnan(values)
    days = np.unique(local_days(time, timezone), return_inverse=True)[1]
    weekly = _season_p(values[known], hours[known] // 24, days[known])
    daily = _season_p(values[known], hours[known] % 24, days[known], within_days=True)
    seasons = [name for name, p in (("day of the week", weekly), ("hour of the day", daily)) if p < _CERTAIN]
    if not seasons:
        return None
    option = "hour_of_week" if len(seasons) == 2 else "weekday" if "week" in seasons[0] else "hour"
    like = {"weekday": "Mondays with Mondays", "hour": "mornings with mornings"}.get(option, "like with like")
    return f"the metric depends on the {' and the '.join(seasons)}; windows.season: {option} would compare {like}"


def _season_p(values: Floats, parts: Codes, days: Codes, within_days: bool = False) -> float:
    """The F test of parts of the season over means: of days, or of hours against their own day's mean."""
    size = int(parts.max(initial=0)) + 1
    cell, of = np.unique(days * size + parts, return_inverse=True)
    n = np.bincount(of)
    means, day, part = np.bincount(of, values) / n, cell // size, cell % size
    enough = n >= _AT_LEAST
    means, day, part = means[enough], np.unique(day[enough], return_inverse=True)[1], part[enough]
    if not means.size:
        return float("nan")
    freedom = means.size
    if within_days:
        means = means - (np.bincount(day, means) / np.bincount(day))[day]
        freedom -= int(day.max())
    _, group = np.unique(part, return_inverse=True)
    counts = np.bincount(group)
    centre = means.mean()
    by_part = np.bincount(group, means) / counts
    explained = float((counts * (by_part - centre) ** 2).sum())
    rest = float(((means - by_part[group]) ** 2).sum())
    left = freedom - counts.size
    if counts.size < 2 or left < 3 or rest <= 0:
        return float("nan")
    return float(fdtrc(counts.size - 1, left, explained / (counts.size - 1) / (rest / left)))
