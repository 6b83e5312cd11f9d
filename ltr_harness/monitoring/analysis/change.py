"""Production against the baseline: the difference, the windows, and what the mix of queries has to do with it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ltr_harness.monitoring.analysis.inputs import query_features, segment_column, segments_of
from ltr_harness.monitoring.analysis.periods import Periods, interval, of_mean
from ltr_harness.monitoring.analysis.windows import THURSDAY, local_days
from ltr_harness.monitoring.queries import QueryTable, together
from ltr_harness.monitoring.results.answers import Cell, Change, Interval, Split
from ltr_harness.stats.decomposition import Decomposition
from ltr_harness.stats.paired import paired_differences
from ltr_harness.stats.several_samples import welch_anova_p
from ltr_harness.stats.two_samples import Sample, difference, mean_estimate
from ltr_harness.wording import count_of

_DAY_AT_LEAST = 20  # queries of a weekday to say something of it
_CERTAIN = 1e-3  # for a recommendation that nobody asked for

Floats = NDArray[np.float64]


def changes(periods: Periods) -> list[Change]:
    """Every metric's difference; the first is the one that may raise an alert."""
    found = []
    confidence = periods.config.compare.confidence
    common = periods.common
    for at, metric in enumerate(periods.now.metrics):
        now = periods.sample_now(periods.now.values[at])
        before = periods.reference if at == 0 else periods.sample_before(periods.before.values[at])
        higher = periods.config.resolved_metrics[at].higher_is_better
        side = "drop" if higher else "rise"
        alternative = side if periods.config.compare.alternative == "drop" else "change"
        if common is None:
            tested = difference(now, before, alternative=alternative, confidence=confidence)  # type: ignore[arg-type]
            method = _unpaired_method(periods)
        else:
            ours, theirs = common
            d = paired_differences(periods.now.values[at][ours], periods.before.values[at][theirs])
            keep = ~np.isnan(d)
            clusters = periods.clusters[0]
            sample = Sample(d[keep], None if clusters is None else clusters[ours][keep])
            tested = mean_estimate(sample, confidence, alternative)  # type: ignore[arg-type]
            method = f"paired t over {count_of(keep.sum(), 'query')} that both periods scored"
        a, b = mean_estimate(now, confidence), mean_estimate(before, confidence)
        found.append(
            Change(
                metric,
                of_mean(a),
                of_mean(b),
                interval(tested),
                tested.value / b.value if b.value else float("nan"),
                method,
            )
        )
    return found


def _unpaired_method(periods: Periods) -> str:
    parts = ["Welch's t over different queries"]
    if periods.clusters[0] is not None:
        parts.append("robust to clusters")
    if periods.strata[0] is not None:
        parts.append("weekday by weekday")
    return ", ".join(parts)


def paired_by_key(periods: Periods) -> Interval | None:
    """The change over keys (query texts) that recur in both periods, each counted once; None without keys."""
    if periods.now.pair_key is None or periods.before.pair_key is None:
        return None
    now, before = together([periods.now.pair_key, periods.before.pair_key])
    means = []
    for key, values in ((now, periods.now.primary), (before, periods.before.primary)):
        known = key.codes >= 0
        n = np.bincount(key.codes[known], minlength=key.names.size)
        with np.errstate(invalid="ignore", divide="ignore"):
            means.append(np.bincount(key.codes[known], values[known], minlength=key.names.size) / n)
    d = paired_differences(means[0], means[1])
    d = d[~np.isnan(d)]
    if d.size < 2:
        return None
    return interval(mean_estimate(Sample(d), periods.config.compare.confidence, periods.alternative))


def splits(periods: Periods) -> list[Split]:
    """The change divided by every segment column."""
    names = segments_of(periods)
    m = max(1, len(names) + len(query_features(periods)))
    found = []
    for name in names:
        column = segment_column(name, periods, periods.config.drift.alpha / m)
        values = together([(periods.now.segments or {})[name], (periods.before.segments or {})[name]])[
            0
        ].names
        found.append(_split(name, column.parts(periods), [*values.tolist(), "(missing)"], periods, m))
    return found


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


def weekday_effect(table: QueryTable, timezone: str) -> bool:
    """Whether the metric depends on the day of the week, far beyond chance."""
    if table.time is None:
        return False
    weekday = (local_days(table.time, timezone) + THURSDAY) % 7
    return welch_anova_p(table.primary, weekday, least=_DAY_AT_LEAST) < _CERTAIN
