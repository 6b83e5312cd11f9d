"""What a reader wants to know beside the tests: means by rule, lengths of lists, queries to read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ltr_harness.logs.contract import CHECKS, LogFinding
from ltr_harness.monitoring.analysis.periods import Periods, interval
from ltr_harness.monitoring.analysis.windows import Cut
from ltr_harness.monitoring.queries import column_of, columns_of, grades_by_rank, primary_of
from ltr_harness.monitoring.results.answers import Window
from ltr_harness.monitoring.results.summaries import Conventions, ListLengths, Online, WorstQuery
from ltr_harness.stats.corrections import holm

_WORST = 20
_CORRELATED = 4  # windows; fewer have some rank correlation or other

Floats = NDArray[np.float64]


def conventions(production: pd.DataFrame, baseline: pd.DataFrame | None) -> tuple[Conventions, ...]:
    """The mean under each rule for queries without a relevant document: an outage cannot hide behind one of them."""
    rows = []
    for which, table in (("production", production), ("baseline", baseline)):
        if table is None:
            continue
        relevant = column_of(table, "has_relevant")
        values = primary_of(table)[relevant]
        values = values[~np.isnan(values)]
        skip = float(values.mean()) if values.size else float("nan")
        share = float(relevant.mean())
        zero = skip * share if share else 0.0
        rows.append(Conventions(which, len(table), int((~relevant).sum()), skip, zero, zero + 1 - share))
    return tuple(rows)


def list_lengths(production: pd.DataFrame, baseline: pd.DataFrame | None) -> tuple[ListLengths, ...]:
    rows = []
    for which, table in (("production", production), ("baseline", baseline)):
        if table is not None:
            n = column_of(table, "n_items")
            p10, median, p90 = np.quantile(n, [0.1, 0.5, 0.9]).tolist()
            rows.append(ListLengths(which, int(n.min()), p10, median, p90, int(n.max())))
    return tuple(rows)


def stray_queries(production: pd.DataFrame, cut: Cut) -> tuple[LogFinding, ...]:
    """Queries whose time lies apart from the rest of the log, as a check of the contract."""
    at = np.flatnonzero(cut.stray[cut.codes])
    if not at.size:
        return ()
    severity, unit, meaning, _ = CHECKS["time_stray"]
    ids = production["query_id"].iloc[at]
    windows = (cut.labels[code] for code in cut.codes[at])
    named = sorted(f"query {name!r} ({window})" for name, window in zip(ids, windows, strict=True))[:3]
    return (
        LogFinding(
            "time_stray", severity, "production", at.size, len(production), unit, meaning, tuple(named)
        ),
    )


def online(
    production: pd.DataFrame, periods: Periods | None, windows: Sequence[Window], spent: float = 1.0
) -> tuple[Online, ...]:
    """Does the metric move with what users do? An offline metric is a proxy; this is the check on it."""
    rows = []
    for name, values in columns_of(production, "online").items():
        pairs = pd.DataFrame([(w.interval.value, w.online[name]) for w in windows]).dropna()
        correlation = float("nan")
        if len(pairs) >= _CORRELATED and (pairs.nunique() > 1).all():
            ranks = pairs.rank()
            correlation = float(np.corrcoef(ranks[0], ranks[1])[0, 1])
        before = None if periods is None else column_of(periods.before, f"online:{name}")
        if periods is None or before is None:
            rows.append(Online(name, float("nan"), mean_of_known(values), correlation, len(pairs)))
            continue
        now = column_of(periods.now, f"online:{name}")
        difference = interval(periods.compare((now, before), alternative="change"))
        rows.append(
            Online(name, mean_of_known(before), mean_of_known(now), correlation, len(pairs), difference)
        )
    corrected = holm([row.difference.p if row.difference else np.nan for row in rows]) / spent
    return tuple(
        replace(row, p_corrected=min(p, 1.0) if row.difference else p)
        for row, p in zip(rows, corrected.tolist(), strict=True)
    )


def mean_of_known(values: Floats) -> float:
    """NaN where nothing is known, without a warning."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else float("nan")


def worst_queries(
    production: pd.DataFrame, counted: NDArray[np.int64], periods: Periods | None
) -> list[WorstQuery]:
    """The largest losses, for reading: against the same query before where it recurs, else the lowest values.

    Shapes: `counted` (n_counted,).
    """
    values = primary_of(production)[counted]
    before = np.full(counted.size, np.nan)
    if periods is not None and periods.common is not None:
        ours, theirs = periods.common
        before[ours] = periods.values[1][theirs]
    sign = -1.0 if periods is not None and not periods.higher_is_better else 1.0
    loss = np.where(np.isnan(before), sign * values, sign * (values - before))
    n_items, days = column_of(production, "n_items")[counted], column_of(production, "time")
    near = np.arange(loss.size)
    if loss.size > _WORST:  # a million queries are not sorted for twenty
        near = np.flatnonzero(loss <= np.partition(loss, _WORST)[_WORST])
    order = near[np.lexsort((-n_items[near], loss[near]))][:_WORST]
    rows = counted[order]
    times = (
        [""] * rows.size
        if days is None
        else days[rows].astype("datetime64[ns]").astype("datetime64[D]").astype(str)
    )
    lists = [
        " ".join("-" if np.isnan(g) else f"{g:g}" for g in grades[:n])
        for grades, n in zip(grades_by_rank(production, rows), n_items[order], strict=True)
    ]
    return [
        WorstQuery(str(name), str(time), float(value), float(base), shown)
        for name, time, value, base, shown in zip(
            production["query_id"].iloc[rows], times, values[order], before[order], lists, strict=True
        )
    ]
