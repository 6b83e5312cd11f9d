"""Did the labels change rather than the ranking? Looked at before the metric, because an outage flatters it.

If 30 % of click events are lost, queries that lose all of theirs leave the mean (or count 1, under the
boosters' rule), and mean NDCG rises. So: is the share of queries with any relevant document, or the rate of an
event, lower than in the baseline? Of ready labels: are there fewer of them, or fewer that say relevant?
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ltr_harness.monitoring.analysis.periods import Periods, interval
from ltr_harness.monitoring.analysis.summaries import mean_of_known
from ltr_harness.monitoring.analysis.window_tests import members_of
from ltr_harness.monitoring.analysis.windows import Cut, window_numbers
from ltr_harness.monitoring.config import MonitorConfig
from ltr_harness.monitoring.queries import columns_of
from ltr_harness.monitoring.results.answers import LabelTest
from ltr_harness.relevance.grades import LABELLED, RELEVANT
from ltr_harness.stats.corrections import bonferroni

WITH_RELEVANT = "queries with a relevant document"
LABELLED_DOCUMENTS, RELEVANT_DOCUMENTS = "documents with a label", "relevant documents"

_GRADUAL = 0.9

Floats = NDArray[np.float64]


def label_tests(periods: Periods, cut: Cut, mature: NDArray[np.int64]) -> list[LabelTest]:
    """Every label rate, over all mature queries and in every window that is large enough.

    An alert needs a corrected p below `labels.alpha` and a relative fall of `labels.min_drop`.

    Shapes: `mature` (n_mature,).
    """
    now, before, config = periods.now, periods.before, periods.config
    columns = {WITH_RELEVANT: _of_both("has_relevant", now, before)}
    if config.relevance.chosen == "label":
        columns |= _of_labels(now, before)
    else:
        both = [name for name in columns_of(now, "event") if f"event:{name}" in before]
        columns |= {f"{name} per query": _of_both(f"event:{name}", now, before) for name in both}
    tests: list[LabelTest] = []
    for what, (ours, theirs) in columns.items():
        days = periods.days_differ(ours, theirs)
        base = mean_of_known(theirs)
        for window, rows in _parts(cut, mature, config):
            if rows.size < 2:
                continue
            tested = periods.compare((ours, theirs), rows, "drop", days)
            tests.append(
                LabelTest(
                    what, window, base, mean_of_known(ours[rows]), interval(tested), float("nan"), False
                )
            )
    p = bonferroni([test.difference.p for test in tests])
    done = []
    for test, corrected in zip(tests, p.tolist(), strict=True):
        fallen = test.difference.value <= -config.labels.min_drop * test.before
        alert = bool(corrected <= periods.spent * config.labels.alpha and fallen and test.before > 0)
        done.append(dataclasses.replace(test, p_corrected=corrected, alert=alert))
    return done


def _of_both(name: str, now: pd.DataFrame, before: pd.DataFrame) -> tuple[Floats, Floats]:
    return now[name].to_numpy(np.float64), before[name].to_numpy(np.float64)


def _of_labels(now: pd.DataFrame, before: pd.DataFrame) -> dict[str, tuple[Floats, Floats]]:
    """Of ready labels: the share of a list that has one, and the share of those that are relevant."""
    events = columns_of(now, "event"), columns_of(before, "event")
    if any(RELEVANT not in of_side for of_side in events):
        return {}  # a result of an earlier version
    items = _of_both("n_items", now, before)
    labelled = [of_side.get(LABELLED, n) for of_side, n in zip(events, items, strict=True)]
    with np.errstate(invalid="ignore"):
        relevant = [of_side[RELEVANT] / n for of_side, n in zip(events, labelled, strict=True)]
    rates = {RELEVANT_DOCUMENTS: (relevant[0], relevant[1])}
    if any(LABELLED in of_side for of_side in events):
        rates[LABELLED_DOCUMENTS] = (labelled[0] / items[0], labelled[1] / items[1])
    return rates


def _parts(
    cut: Cut, mature: NDArray[np.int64], config: MonitorConfig
) -> Iterator[tuple[str, NDArray[np.int64]]]:
    yield "all", mature
    if len(cut) > 1:
        for at, of_mature in enumerate(members_of(cut, mature)):
            members = mature[of_mature]
            if members.size >= config.windows.min_queries and not (cut.immature[at] or cut.stray[at]):
                yield cut.labels[at], members


def orphans_by_window(times: NDArray[np.int64] | None, cut: Cut, config: MonitorConfig) -> list[int | None]:
    """How many orphans fall into each window; None where the event log has no times.

    Orphans before the first window or after the last are in no window; the contract's total holds them too.

    Shapes: `times` (n_orphans,).
    """
    if times is None:
        return [None] * len(cut)
    if len(cut) == 1 and cut.start[0] == cut.end[0]:  # a log without times is one window, and all are in it
        return [int(times.size)]
    known = times[times != np.iinfo(np.int64).min]
    numbers = window_numbers(known, config.windows)
    at = np.minimum(np.searchsorted(cut.number, numbers), len(cut) - 1)
    counts: list[int | None] = np.bincount(at[cut.number[at] == numbers], minlength=len(cut)).tolist()
    return counts


def still_arriving(tests: Sequence[LabelTest], cut: Cut) -> bool:
    """Whether labels fall off toward the end of the log, window after window, as late purchases make them."""
    for what in {test.what for test in tests if test.alert}:
        shares = {t.window: t for t in tests if t.what == what and t.window != "all"}
        windows = [label for label in cut.labels if label in shares]
        low = [label for label in windows if shares[label].alert]
        if not low or len(low) > max(2, 2 * len(windows) // 3):
            continue
        is_end = windows[-len(low) :] == low
        first, last = shares[low[0]].now, shares[low[-1]].now
        if is_end and last < _GRADUAL * first and shares[low[-1]].now == min(shares[w].now for w in low):
            return True
    return False
