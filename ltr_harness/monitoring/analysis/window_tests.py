"""Every window of production: its state, its difference to the baseline, and which differences are alerts."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from ltr_harness.monitoring.analysis.periods import Periods, interval, of_mean, own_clusters
from ltr_harness.monitoring.analysis.summaries import mean_of_known
from ltr_harness.monitoring.analysis.windows import Cut
from ltr_harness.monitoring.config import MonitorConfig
from ltr_harness.monitoring.queries import QueryTable
from ltr_harness.monitoring.results.answers import Change, Interval, Window
from ltr_harness.monitoring.results.history import PastWindow
from ltr_harness.stats.corrections import bonferroni, holm
from ltr_harness.stats.two_samples import (
    Estimate,
    Sample,
    betting_interval,
    difference,
    mean_estimate,
    one_sided,
)

_SATURATED = 15  # with fewer queries off the ceiling, a t interval is a guess
_BETTING_AT_MOST = 20_000  # queries; beyond, 15 of them off the ceiling move nothing
_ALLOWANCE = 0.5  # standard errors that CUSUM forgives every window


def window_rows(
    table: QueryTable, cut: Cut, orphans: Sequence[int | None], config: MonitorConfig
) -> list[Window]:
    """Every window's state, before anything is compared.

    Args:
        table: production's queries.
        cut: its windows.
        orphans: events without an impression, by window.
        config: the monitor's configuration.
    """
    clusters = own_clusters(table.cluster)
    primary = config.primary
    low, high = primary.bounds
    rows = []
    for at, members in enumerate(cut.members):
        values = table.primary[members]
        defined = ~np.isnan(values)
        kept = values[defined]
        sample = Sample(kept, None if clusters is None else clusters[members][defined])
        mean = mean_estimate(sample, config.compare.confidence)
        units = np.unique(sample.clusters).size if sample.clusters is not None else kept.size
        quantiles = np.quantile(kept, [0.1, 0.5, 0.9]) if kept.size else np.full(3, np.nan)
        bounded = None
        off = min(np.count_nonzero(kept < high), np.count_nonzero(kept > low))
        if kept.size and off < _SATURATED and kept.size <= _BETTING_AT_MOST and (low, high) == (0.0, 1.0):
            bounded = betting_interval(np.clip(kept, 0.0, 1.0), config.compare.confidence)
        status = (
            "stray"
            if cut.stray[at]
            else "immature"
            if cut.immature[at]
            else "small"
            if kept.size < config.windows.min_queries
            else "untested"
        )
        rows.append(
            Window(
                label=cut.labels[at],
                start_ns=int(cut.start[at]),
                end_ns=int(cut.end[at]),
                number=int(cut.number[at]),
                hours=float(cut.hours[at]),
                n_queries=int(members.size),
                n_defined=int(kept.size),
                n_clusters=int(units),
                means={
                    m: mean_of_known(v[members]) for m, v in zip(table.metrics, table.values, strict=True)
                },
                interval=of_mean(mean),
                bounded=bounded,
                share_zero=float((kept == low).mean()) if kept.size else float("nan"),
                share_one=float((kept >= high).mean()) if kept.size else float("nan"),
                p10=float(quantiles[0]),
                p50=float(quantiles[1]),
                p90=float(quantiles[2]),
                items_per_query=float(table.n_items[members].mean()),
                relevant_share=float(table.relevant[members].mean()),
                event_rates={name: float(n[members].mean()) for name, n in table.events.items()},
                orphans=orphans[at],
                immature_share=float((~cut.mature[members]).mean()),
                online={name: mean_of_known(v[members]) for name, v in (table.online or {}).items()},
                status=status,
            )
        )
    return rows


def compared_windows(
    rows: list[Window], cut: Cut, rows_of_now: NDArray[np.int64], periods: Periods, past: Sequence[PastWindow]
) -> list[Window]:
    """The windows with their difference to the baseline, alone and with those before them.

    Args:
        rows: from `window_rows`.
        cut: the windows of all of production.
        rows_of_now: int64 (n_now,), which query of production each query of `periods.now` is.
        periods: production beside its baseline.
        past: windows of earlier runs.
    """
    compare, trailing = periods.config.compare, periods.config.windows.trailing
    codes = cut.codes[rows_of_now]
    order = np.argsort(codes, kind="stable")
    members = np.split(order, np.searchsorted(codes[order], np.arange(1, len(cut))))
    tested: list[Window] = []
    for at, row in enumerate(rows):
        if row.status != "untested":
            tested.append(row)
            continue
        found = difference(
            periods.sample_now(rows=members[at]), periods.reference,
            alternative=periods.alternative, confidence=compare.confidence,
        )  # fmt: skip
        tested.append(dataclasses.replace(row, status="tested", change=interval(found)))
    if trailing < 2:
        return tested
    mature = ~cut.immature & ~cut.stray
    for at, row in enumerate(tested):
        if not mature[at]:
            continue
        near = np.flatnonzero(
            (cut.number > cut.number[at] - trailing) & (cut.number <= cut.number[at]) & mature
        )
        earlier = [w for w in past if cut.number[at] - trailing < w.number < cut.number[0]]
        if near.size + len(earlier) < 2:
            continue
        together_rows = np.sort(np.concatenate([members[i] for i in near]))
        if together_rows.size < periods.config.windows.min_queries:
            continue
        found = difference(
            periods.sample_now(rows=together_rows), periods.reference,
            alternative=periods.alternative, confidence=compare.confidence,
        )  # fmt: skip
        if earlier:
            found = _with_past(found, together_rows.size, earlier, periods)
        tested[at] = dataclasses.replace(row, trailing=interval(found))
    return tested


def _with_past(now: Estimate, n: int, past: Sequence[PastWindow], periods: Periods) -> Estimate:
    """The trailing difference with windows of earlier runs, of which only the numbers are left."""
    baseline_error = mean_estimate(periods.reference).error
    own = max(now.error**2 - baseline_error**2, 0.0)
    weights = np.array([n, *(w.n for w in past)], dtype=np.float64)
    weights /= weights.sum()
    values = np.array([now.value, *(w.mean - periods.reference.plain[0] for w in past)])
    variances = np.array([own, *(w.error**2 for w in past)])
    value = float(weights @ values)
    error = float(np.sqrt((weights**2) @ variances + baseline_error**2))
    freedom = float(n - 1)
    reach = float(stdtrit(freedom, (1 + periods.config.compare.confidence) / 2)) * error
    p = (
        float(one_sided(np.array(value / error), np.array(freedom), periods.alternative))
        if error > 0
        else 1.0
    )
    return Estimate(value, value - reach, value + reach, p, error, freedom, now.n, now.clusters)


def corrected(
    change: Change, windows: list[Window], periods: Periods, past: Sequence[PastWindow] = ()
) -> tuple[Change, list[Window], str]:
    """p-values of one family: the whole period, every window, every trailing window. And which are alerts.

    Args:
        change: of the whole period.
        windows: with their p-values.
        periods: production beside its baseline.
        past: windows of earlier runs.

    Returns:
        The whole period, the windows, and the family in words.
    """
    rule = periods.config.compare.correct
    alpha = periods.config.compare.alpha
    several = sum(w.status == "tested" for w in windows) > 1
    raw = [change.difference.p]
    raw += [w.change.p if w.change and several else np.nan for w in windows]
    raw += [w.trailing.p if w.trailing else np.nan for w in windows]
    p = (
        _spent(np.array(raw), windows, past)
        if rule == "spending"
        else {"bonferroni": bonferroni, "holm": holm}[rule](raw)
    )

    def alerts(difference: Interval | None, p_value: float) -> bool:
        return difference is not None and p_value <= alpha and periods.matters(difference.value)

    significant = p[0] <= alpha
    matters = periods.matters(change.difference.value)
    done = dataclasses.replace(
        change, p_corrected=float(p[0]), alert=bool(significant and matters),
        below_min_drop=bool(significant and not matters),
    )  # fmt: skip
    rows = []
    for at, row in enumerate(windows):
        own, trail = float(p[1 + at]), float(p[1 + len(windows) + at])
        rows.append(
            dataclasses.replace(
                row,
                p_corrected=own,
                alert=alerts(row.change, own),
                trailing_p_corrected=trail,
                trailing_alert=alerts(row.trailing, trail),
            )
        )
    words = f"{np.count_nonzero(~np.isnan(p))} tests: the whole period, its windows and their trailing means"
    if rule == "spending":
        words += f"; window {_look(windows, past)[-1]} on record, of as many as may come"
    return done, rows, words


def _look(windows: Sequence[Window], past: Sequence[PastWindow]) -> NDArray[np.int64]:
    """Which window on record each one is, 1 for the first; counted on the calendar, earlier runs included."""
    numbers = np.array([w.number for w in windows])
    first = min([*(w.number for w in windows if w.status != "stray"), *(w.number for w in past)])
    look: NDArray[np.int64] = np.maximum(numbers - first + 1, 1)
    return look


def _spent(
    raw: NDArray[np.float64], windows: Sequence[Window], past: Sequence[PastWindow]
) -> NDArray[np.float64]:
    """p-values that may be looked at for ever: the d-th window has alpha * 6 / (pi d)**2, which adds up to alpha.

    Its own test, its trailing mean and the period that ends with it share that evenly. The price is power: a
    late window needs a much larger drop than under a correction over one run.

    Source: K. Lan, D. DeMets, Biometrika 70 (1983), with the spending of the Basel series.
    """
    look = _look(windows, past).astype(np.float64)
    tested = [at for at, w in enumerate(windows) if w.status == "tested"]
    looks = np.concatenate((look[tested[-1:]] if tested else look[-1:], look, look))
    spent: NDArray[np.float64] = np.minimum(raw * 3 * (np.pi * looks) ** 2 / 6, 1.0)
    return spent


def with_cusum(
    windows: list[Window], periods: Periods, past: Sequence[PastWindow]
) -> tuple[list[Window], float]:
    """Windows with their cumulated drop, and the level that healthy windows rarely reach.

    S = max(0, S - z - 1/2) over the windows' differences in standard errors. The level is the (1 - alpha)
    quantile of the largest S among as many healthy windows, by simulation: a fixed 5 would be passed in 14 %
    of healthy runs. A notice, never an alert.

    Args:
        windows: with their differences.
        periods: production beside its baseline.
        past: windows of earlier runs.
    """
    tested = [w for w in windows if w.change is not None and w.status == "tested"]
    n = len(tested) + len(past)
    if n < 5:
        return windows, float("nan")
    sign = -1.0 if periods.higher_is_better else 1.0
    total = 0.0
    for w in past:
        if w.error > 0:
            total = max(0.0, total + sign * (w.mean - periods.reference.plain[0]) / w.error - _ALLOWANCE)
    found = []
    for row in windows:
        if row.change is not None and row.status == "tested" and row.change.error > 0:
            total = max(0.0, total + sign * row.change.value / row.change.error - _ALLOWANCE)
            found.append(dataclasses.replace(row, cusum=total))
        else:
            found.append(row)
    noise = np.random.Generator(np.random.PCG64([periods.config.seed, n])).standard_normal((2000, n))
    level, largest = np.zeros(2000), np.zeros(2000)
    for at in range(n):
        level = np.maximum(0.0, level + noise[:, at] - _ALLOWANCE)
        largest = np.maximum(largest, level)
    return found, float(np.quantile(largest, 1 - periods.config.compare.alpha))
