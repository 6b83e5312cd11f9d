"""Every window of production: its state, its difference to the baseline, and which differences are alerts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ltr_harness.monitoring.analysis.past import with_past
from ltr_harness.monitoring.analysis.periods import Periods, interval, of_mean, own_clusters
from ltr_harness.monitoring.analysis.running import OF_ALPHA
from ltr_harness.monitoring.analysis.summaries import mean_of_known
from ltr_harness.monitoring.analysis.windows import Cut, hours_of_week
from ltr_harness.monitoring.config import MonitorConfig
from ltr_harness.monitoring.queries import column_of, columns_of, primary_of
from ltr_harness.monitoring.results.answers import Change, Interval, Window
from ltr_harness.monitoring.results.history import PastWindow
from ltr_harness.stats.betting import bounded_means
from ltr_harness.stats.contributions import Contributions
from ltr_harness.stats.corrections import bonferroni, holm
from ltr_harness.stats.two_samples import Sample, mean_estimate

_SATURATED = 15  # with fewer queries off the ceiling, a t interval is a guess
_BETTING_AT_MOST = 20_000  # queries; beyond, 15 of them off the ceiling move nothing


def window_rows(
    table: pd.DataFrame, cut: Cut, orphans: Sequence[int | None], config: MonitorConfig
) -> list[Window]:
    """Every window's state, before anything is compared."""
    cluster, primary = column_of(table, "cluster"), primary_of(table)
    clusters = None if cluster is None else own_clusters(cluster)
    items, relevant = column_of(table, "n_items"), column_of(table, "has_relevant")
    metrics, events, online = (columns_of(table, name) for name in ("metric", "event", "online"))
    time, (low, high) = column_of(table, "time"), config.primary.bounds
    hours = None if time is None else hours_of_week(time, config.windows.timezone)
    rows = []
    for at, members in enumerate(cut.members):
        values = primary[members]
        defined = ~np.isnan(values)
        kept = values[defined]
        sample = Sample(kept, None if clusters is None else clusters[members][defined])
        mean = mean_estimate(sample, config.compare.confidence)
        units = np.unique(sample.clusters).size if sample.clusters is not None else kept.size
        quantiles = np.quantile(kept, [0.1, 0.5, 0.9]) if kept.size else np.full(3, np.nan)
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
                means={name: mean_of_known(v[members]) for name, v in metrics.items()},
                interval=of_mean(mean),
                bounded=_bounded(kept, config),
                share_zero=float((kept == low).mean()) if kept.size else float("nan"),
                share_one=float((kept >= high).mean()) if kept.size else float("nan"),
                p10=float(quantiles[0]),
                p50=float(quantiles[1]),
                p90=float(quantiles[2]),
                items_per_query=float(items[members].mean()),
                relevant_share=float(relevant[members].mean()),
                event_rates={name: float(n[members].mean()) for name, n in events.items()},
                orphans=orphans[at],
                immature_share=float((~cut.mature[members]).mean()),
                online={name: mean_of_known(v[members]) for name, v in online.items()},
                status=_status(cut, at, kept.size, config),
                hours_of_week={} if hours is None else _counts(hours[members[defined]]),
            )
        )
    return rows


def _status(cut: Cut, at: int, n_defined: int, config: MonitorConfig) -> str:
    if cut.stray[at]:
        return "stray"
    if cut.immature[at]:
        return "immature"
    return "small" if n_defined < config.windows.min_queries else "untested"


def _bounded(values: NDArray[np.float64], config: MonitorConfig) -> tuple[float, float] | None:
    """An interval for values nearly all of which are at an end of the scale; None for others."""
    low, high = config.primary.bounds
    off = min(np.count_nonzero(values < high), np.count_nonzero(values > low))
    if off >= _SATURATED or not 0 < values.size <= _BETTING_AT_MOST or (low, high) != (0.0, 1.0):
        return None
    sample, bounds = Contributions.of(values[:, None]), (np.array([low]), np.array([high]))
    _, _, below, above = bounded_means(sample, *bounds, 1 - config.compare.confidence, 0)
    return float(below[0]), float(above[0])


def _counts(hours: NDArray[np.int64]) -> dict[str, int]:
    """How many queries there are of each hour that has one."""
    return {str(hour): n for hour, n in enumerate(np.bincount(hours).tolist()) if n}


def compared_windows(
    rows: list[Window], cut: Cut, rows_of_now: NDArray[np.int64], periods: Periods, past: Sequence[PastWindow]
) -> list[Window]:
    """The windows with their difference to the baseline, alone and with those before them.

    Shapes: `rows_of_now` (n_now,).
    """
    trailing, least = periods.config.windows.trailing, periods.config.windows.min_queries
    members = members_of(cut, rows_of_now)
    tested: list[Window] = []
    for at, row in enumerate(rows):
        if row.status != "untested" or members[at].size < least:
            tested.append(row)
            continue
        change = interval(periods.compare(rows=members[at]))
        adjusted = None
        if periods.prediction is not None:
            sample = periods.sample_now(rows=members[at])
            adjusted = of_mean(mean_estimate(sample, periods.config.compare.confidence))
        tested.append(dataclasses.replace(row, status="tested", change=change, adjusted=adjusted))
    if trailing < 2:
        return tested
    mature = ~cut.immature & ~cut.stray
    for at, row in enumerate(tested):
        if not (mature[at] and members[at].size):
            continue
        near = np.flatnonzero(
            (cut.number > cut.number[at] - trailing) & (cut.number <= cut.number[at]) & mature
        )
        earlier = [w for w in past if cut.number[at] - trailing < w.number < cut.number[0]]
        if near.size + len(earlier) < 2:
            continue
        together_rows = np.sort(np.concatenate([members[i] for i in near]))
        if together_rows.size < least:
            continue
        joined = earlier and periods.common is None
        estimate = (
            with_past(together_rows, earlier, periods) if joined else periods.compare(rows=together_rows)
        )
        tested[at] = dataclasses.replace(row, trailing=interval(estimate))
    return tested


def members_of(cut: Cut, rows_of_now: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """The queries of `periods.now` in each window.

    Shapes: `rows_of_now` (n_now,).
    """
    codes = cut.codes[rows_of_now]
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.searchsorted(codes[order], np.arange(1, len(cut))))


def corrected(
    change: Change, windows: list[Window], periods: Periods, past: Sequence[PastWindow] = ()
) -> tuple[Change, list[Window], str]:
    """p-values of one family: the whole period first, then every window and trailing window. And which are alerts.

    Returns:
        The whole period, the windows, and the family in words.
    """
    rule = periods.config.compare.correct
    alpha = periods.config.compare.alpha
    several = sum(w.status == "tested" for w in windows) > 1
    raw = [change.difference.p]
    raw += [w.change.p if w.change and several else np.nan for w in windows]
    raw += [w.trailing.p if w.trailing else np.nan for w in windows]
    if rule in ("spending", "sequence"):
        p = _spent(np.array(raw), windows, past, 1.0 if rule == "spending" else 1 - OF_ALPHA)
    else:
        p = _in_turn(np.array(raw), alpha, {"bonferroni": bonferroni, "holm": holm}[rule])

    def alerts(difference: Interval | None, p_value: float) -> bool:
        return difference is not None and p_value <= alpha and periods.matters(difference.value)

    significant = p[0] <= alpha
    matters = periods.matters(change.difference.value)
    done = dataclasses.replace(
        change,
        p_corrected=float(p[0]),
        alert=bool(significant and matters),
        below_min_drop=bool(significant and not matters),
    )
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
    if rule == "sequence":
        words += ", and, asymptotically, the mean of all windows on record after each of them"
    if rule in ("bonferroni", "holm"):
        words += "; the period at half of alpha, the others at the other half, and at all of it once the period moved"
    else:
        words += f"; window {last_look(windows, past)} on record, of as many as may come"
    return done, rows, words


def _in_turn(
    raw: NDArray[np.float64], alpha: float, correct: Callable[[NDArray[np.float64]], NDArray[np.float64]]
) -> NDArray[np.float64]:
    """p-values as parts of alpha: half is the first test's, half the others', and all of it once the first is passed.

    Shapes: `raw` (n,).

    Source: B. Wiens, Pharmaceutical Statistics 2 (2003), the fallback procedure.
    """
    others = correct(raw[1:])
    if np.isnan(others).all():
        return raw
    first = min(2 * raw[0], 1.0)
    others = others if first <= alpha else np.minimum(2 * others, 1.0)
    return np.concatenate(([first], others))


def share_to_spend(windows: Sequence[Window], past: Sequence[PastWindow], config: MonitorConfig) -> float:
    """The share of alpha that a run may use for what it tests once, such as slices: all shares add up to 1."""
    if config.compare.correct not in ("spending", "sequence"):
        return 1.0
    return float(6 / (np.pi * last_look(windows, past)) ** 2)


def last_look(windows: Sequence[Window], past: Sequence[PastWindow]) -> int:
    """Which window on record the last one that counts is."""
    look = _look(windows, past)
    counted = [at for at, w in enumerate(windows) if w.status in ("tested", "untested")]
    return int(look[counted[-1] if counted else -1])


def _look(windows: Sequence[Window], past: Sequence[PastWindow]) -> NDArray[np.int64]:
    """Which window on record each one is, 1 for the first; counted on the calendar, earlier runs included."""
    numbers = np.array([w.number for w in windows])
    first = min([*(w.number for w in windows if w.status != "stray"), *(w.number for w in past)])
    look: NDArray[np.int64] = np.maximum(numbers - first + 1, 1)
    return look


def _spent(
    raw: NDArray[np.float64], windows: Sequence[Window], past: Sequence[PastWindow], of_alpha: float
) -> NDArray[np.float64]:
    """p-values that may be looked at for ever: the d-th window has alpha * 6 / (pi d)**2, which adds up to alpha.

    Its own test, its trailing mean and the period that ends with it share that evenly. The price is power: a
    late window needs a much larger drop than under a correction over one run.

    Source: K. Lan, D. DeMets, Biometrika 70 (1983), with the spending of the Basel series.
    """
    look = _look(windows, past).astype(np.float64)
    looks = np.concatenate(([last_look(windows, past)], look, look))
    spent: NDArray[np.float64] = np.minimum(raw * 3 * (np.pi * looks) ** 2 / 6 / of_alpha, 1.0)
    return spent
