"""What a reader wants to know beside the tests: means by rule, lengths of lists, online measures, queries to read."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from ltr_harness.logs.contract import CHECKS, LogFinding
from ltr_harness.monitoring.calendar import Cut
from ltr_harness.monitoring.periods import Periods
from ltr_harness.monitoring.queries import Floats, Ints, column_of, columns_of, grades_by_rank, primary_of
from ltr_harness.monitoring.result import (
    Conventions,
    ListLengths,
    MonitorResult,
    Online,
    Window,
    WorstQuery,
    table_of,
)
from ltr_harness.report.blocks import Badge, Block, Column, Details, Heading, Paragraph, Tone
from ltr_harness.stats.several_samples import bonferroni
from ltr_harness.wording import count_of

_WORST = 20
_CORRELATED = 4  # windows; fewer have some rank correlation or other


def conventions(production: pd.DataFrame, baseline: pd.DataFrame | None) -> tuple[Conventions, ...]:
    """The mean under each rule for queries without a relevant document: an outage cannot hide behind one of them."""
    rows = []
    for which, table in _logs(production, baseline):
        relevant = column_of(table, "has_relevant")
        skip, share = mean_of_known(primary_of(table)[relevant]), float(relevant.mean())
        zero = skip * share if share else 0.0
        rows.append(Conventions(which, len(table), int((~relevant).sum()), skip, zero, zero + 1 - share))
    return tuple(rows)


def list_lengths(production: pd.DataFrame, baseline: pd.DataFrame | None) -> tuple[ListLengths, ...]:
    rows = []
    for which, table in _logs(production, baseline):
        n = column_of(table, "n_items")
        p10, median, p90 = np.quantile(n, [0.1, 0.5, 0.9]).tolist()
        rows.append(ListLengths(which, int(n.min()), p10, median, p90, int(n.max())))
    return tuple(rows)


def _logs(production: pd.DataFrame, baseline: pd.DataFrame | None) -> list[tuple[str, pd.DataFrame]]:
    return [("production", production)] + ([] if baseline is None else [("baseline", baseline)])


def stray_queries(production: pd.DataFrame, cut: Cut) -> tuple[LogFinding, ...]:
    """Queries whose time lies apart from the rest of the log, as a check of the contract."""
    at = np.flatnonzero(cut.stray[cut.codes])
    if not at.size:
        return ()
    severity, unit, meaning, _ = CHECKS["time_stray"]
    ids = production["query_id"].iloc[at]
    windows = (cut.labels[code] for code in cut.codes[at])
    named = sorted(f"query {name!r} ({window})" for name, window in zip(ids, windows, strict=True))[:3]
    counts = at.size, len(production)
    return (LogFinding("time_stray", severity, "production", *counts, unit, meaning, tuple(named)),)


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
        before, difference = None if periods is None else column_of(periods.before, f"online:{name}"), None
        if periods is not None and before is not None:
            values = column_of(periods.now, f"online:{name}")
            difference = periods.compare((values, before), alternative="change")
        base = float("nan") if before is None else mean_of_known(before)
        rows.append(Online(name, correlation, len(pairs), difference, before=base, now=mean_of_known(values)))
    corrected = bonferroni([row.difference.p if row.difference else np.nan for row in rows]) / spent
    p = np.minimum(corrected, 1.0).tolist()  # NaN where nothing was tested
    return tuple(replace(row, p_corrected=own) for row, own in zip(rows, p, strict=True))


def mean_of_known(values: Floats) -> float:
    """NaN where nothing is known, without a warning."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else float("nan")


def worst_queries(production: pd.DataFrame, counted: Ints, periods: Periods | None) -> list[WorstQuery]:
    """The largest losses of (n_counted,) queries: against the same query before where it recurs, else low values."""
    values = primary_of(production)[counted]
    before = np.full(counted.size, np.nan)
    if periods is not None and periods.common is not None:
        ours, theirs = periods.common
        before[ours] = periods.values[1][theirs]
    sign = 1.0 if periods is None else periods.sign
    loss = np.where(np.isnan(before), sign * values, sign * (values - before))
    n_items, days = column_of(production, "n_items")[counted], column_of(production, "time")
    near = np.arange(loss.size)
    if loss.size > _WORST:  # a million queries are not sorted for twenty
        near = np.flatnonzero(loss <= np.partition(loss, _WORST)[_WORST])
    order = near[np.lexsort((-n_items[near], loss[near]))][:_WORST]
    rows, queries = counted[order], production["query_id"]
    moments = None if days is None else days.astype("datetime64[ns]")
    found = []
    for at, row, grades in zip(order, rows, grades_by_rank(production, rows), strict=True):
        day = "" if moments is None else str(moments[row].astype("datetime64[D]"))
        shown = " ".join("-" if np.isnan(g) else f"{g:g}" for g in grades[: n_items[at]])
        found.append(WorstQuery(str(queries.iloc[row]), day, float(values[at]), float(before[at]), shown))
    return found


_TONES: dict[str, Tone] = {"error": "bad", "warning": "neutral", "note": "muted"}


def log_section(result: MonitorResult) -> list[Block]:
    """Is the log fit to be judged?"""
    lengths = table_of(
        "list_lengths",
        "Items per query.",
        result.list_lengths,
        (Column("Log"), "log"),
        (Column("Shortest", "count"), "shortest"),
        (Column("p10", "number"), "p10"),
        (Column("Median", "number"), "median"),
        (Column("p90", "number"), "p90"),
        (Column("Longest", "count"), "longest"),
        sortable=False,
    )
    if not result.findings:
        passed = Paragraph("Every check of the contract passed.")
        return [Heading("The log", finding="all checks passed"), lengths, passed]
    found = table_of(
        "contract",
        "Findings of the checks; warnings more frequent than in the baseline raise alerts.",
        result.findings,
        (Column("Check", "code"), "check"),
        (Column("Log"), "log"),
        (Column("Severity"), lambda f: Badge(f.severity, _TONES[f.severity])),
        (Column("Count", "count"), "count"),
        (Column("Of", "count"), "total"),
        (Column("Share", "percent"), "share"),
        (Column("Meaning"), "meaning"),
        (Column("Examples", "code"), lambda f: ", ".join(f.examples)),
    )
    finding = count_of(len({f.check for f in result.findings}), "finding")
    return [Heading("The log", finding=finding, matters=bool(result.n_alerts("contract"))), lengths, found]


def worst_section(result: MonitorResult) -> list[Block]:
    """Which queries should somebody read?"""
    if not result.worst:
        return []
    paired = any(w.before == w.before for w in result.worst)
    worst = table_of(
        "worst",
        "The largest losses against the same query before."
        if paired
        else "The lowest values among mature queries.",
        result.worst,
        (Column("Query", "code"), "query"),
        (Column("Day"), "window"),
        (Column(result.primary, "metric"), "value"),
        (Column("Before", "metric"), "before"),
        (Column("Grades in the order shown", "code"), "grades"),
    )
    return [Heading("Worst queries", finding=f"{len(result.worst)} to read"), worst]


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
