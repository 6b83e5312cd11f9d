"""What a reader wants to know beside the tests: means by rule, lengths of lists, queries to read."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ltr_harness.monitoring.change import common_queries
from ltr_harness.monitoring.periods import Periods
from ltr_harness.monitoring.queries import QueryTable
from ltr_harness.monitoring.result import Conventions, ListLengths, WorstQuery

_WORST = 20


def conventions(production: QueryTable, baseline: QueryTable | None) -> tuple[Conventions, ...]:
    """The mean under each rule for queries without a relevant row: an outage cannot hide behind one of them."""
    found = []
    for which, table in (("production", production), ("baseline", baseline)):
        if table is None:
            continue
        values = table.primary[table.relevant]
        values = values[~np.isnan(values)]
        skip = float(values.mean()) if values.size else float("nan")
        share = float(table.relevant.mean())
        zero = skip * share if share else 0.0
        found.append(
            Conventions(which, len(table), int((~table.relevant).sum()), skip, zero, zero + 1 - share)
        )
    return tuple(found)


def list_lengths(production: QueryTable, baseline: QueryTable | None) -> tuple[ListLengths, ...]:
    found = []
    for which, table in (("production", production), ("baseline", baseline)):
        if table is not None:
            n = table.n_items
            p10, median, p90 = np.quantile(n, [0.1, 0.5, 0.9]).tolist()
            found.append(ListLengths(which, int(n.min()), p10, median, p90, int(n.max())))
    return tuple(found)


def worst_queries(
    production: QueryTable, counted: NDArray[np.int64], periods: Periods | None
) -> list[WorstQuery]:
    """The largest losses, for reading: against the same query before where it recurs, else the lowest values."""
    values = production.primary[counted]
    before = np.full(counted.size, np.nan)
    if periods is not None:
        common = common_queries(periods)
        if common is not None:
            before[common[0]] = periods.before.primary[common[1]]
    sign = -1.0 if periods is not None and not periods.higher_is_better else 1.0
    loss = np.where(np.isnan(before), sign * values, sign * (values - before))
    order = np.lexsort((-production.n_items[counted], loss))[:_WORST]
    found = []
    for at in order.tolist():
        row = int(counted[at])
        grades = production.by_rank[row]
        shown = " ".join(
            "-" if np.isnan(g) else f"{g:g}" for g in grades[: int(min(production.n_items[row], grades.size))]
        )
        time = "" if production.time is None else str(np.datetime64(int(production.time[row]), "ns"))[:10]
        found.append(WorstQuery(str(production.ids[row]), time, float(values[at]), float(before[at]), shown))
    return found
