"""Did the labels change rather than the ranking? Looked at before the metric, because an outage flatters it.

Where click events are lost, queries that lose all of theirs leave the mean (or count 1, under the boosters' rule),
and mean NDCG rises.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ltr_harness.monitoring.calendar import Cut, window_numbers
from ltr_harness.monitoring.config import MonitorConfig
from ltr_harness.monitoring.periods import Periods
from ltr_harness.monitoring.queries import Floats, Ints, columns_of
from ltr_harness.monitoring.result import LabelTest, MonitorResult, table_of
from ltr_harness.monitoring.summaries import mean_of_known
from ltr_harness.monitoring.windows import TIME_AXIS
from ltr_harness.relevance.grades import LABELLED, RELEVANT
from ltr_harness.report.blocks import Badge, Block, Chart, Column, Details, Heading, Paragraph, Table
from ltr_harness.report.charts import PALETTE, spec
from ltr_harness.stats.several_samples import bonferroni
from ltr_harness.wording import count_of, plural

WITH_RELEVANT = "queries with a relevant document"
LABELLED_DOCUMENTS, RELEVANT_DOCUMENTS = "documents with a label", "relevant documents"

_GRADUAL = 0.9


def label_tests(periods: Periods, cut: Cut, mature: Ints) -> list[LabelTest]:
    """Every label rate, over all mature queries and in every window that is large enough; `mature` (n_mature,).

    An alert needs a corrected p below `labels.alpha` and a relative fall of `labels.min_drop`.
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
        days, base = periods.days_differ(ours, theirs), mean_of_known(theirs)
        for window, rows in _parts(cut, mature, config):
            if rows.size >= 2:
                tested = periods.compare((ours, theirs), rows, "drop", days)
                tests.append(LabelTest(what, window, tested, before=base, now=mean_of_known(ours[rows])))
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


def _parts(cut: Cut, mature: Ints, config: MonitorConfig) -> Iterator[tuple[str, Ints]]:
    yield "all", mature
    if len(cut) > 1:
        for at, of_mature in enumerate(cut.members_of(mature)):
            members = mature[of_mature]
            if members.size >= config.windows.min_queries and not (cut.immature[at] or cut.stray[at]):
                yield cut.labels[at], members


def orphans_by_window(times: Ints | None, cut: Cut, config: MonitorConfig) -> list[int | None]:
    """How many orphans fall into each window; None where the event log has no times; `times` (n_orphans,)."""
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
        if is_end and last < _GRADUAL * first and last == min(shares[w].now for w in low):
            return True
    return False


def section(result: MonitorResult) -> list[Block]:
    changed = len({test.what for test in result.labels if test.alert})
    heading = Heading(
        "Label health", finding=f"{changed} changed" if result.labels else "", matters=bool(changed)
    )
    blocks: list[Block] = [heading, *_coverage(result)]
    shown = [test for test in result.labels if test.window == "all" or test.alert]
    if shown:
        blocks.append(
            table_of(
                "labels",
                "Labels in the baseline and now; single windows only where they raise an alert.",
                shown,
                (Column("What"), "what"),
                (Column("Window"), "window"),
                (Column("Before", "metric"), "before"),
                (Column("Now", "metric"), "now"),
                (Column(f"Difference [{result.interval_name}]", "difference"), "difference"),
                (Column("p corrected", "p"), "p_corrected"),
                (
                    Column("Verdict"),
                    lambda t: Badge("alert", "bad") if t.alert else Badge("no alert", "good"),
                ),
            )
        )
    if len(result.windows) > 1:
        if len({w.relevant_share for w in result.windows}) > 1:
            blocks.append(_chart(result))
        blocks.append(Details("Labels window by window", (_windows(result),)))
    return blocks if len(blocks) > 1 else []


def _coverage(result: MonitorResult) -> list[Block]:
    """How much of the log has labels, and what that means."""
    blocks: list[Block] = []
    if n := result.n_immature:
        text = f"{count_of(n, 'query')} {plural('is', n)} younger than the labels' maturity: shown, never tested."
        blocks.append(Paragraph(text, "note"))
    shares = {
        check: {f.log: f.share for f in result.findings if f.check == check}
        for check in ("no_event", "not_judged", "grade_missing")
    }
    unseen = shares["not_judged"]
    covered = []
    for log, share in shares["no_event"].items():
        below = (
            f" ({unseen[log]:.1%} lie below the last one of their list and are not judged)"
            if log in unseen
            else ""
        )
        covered.append(f"{1 - share - unseen.get(log, 0.0):.1%} of {log}'s rows{below}")
    if covered:
        text = f"Users acted on {', '.join(covered)}; all others count as not relevant, examined or not."
        blocks.append(Paragraph(text, "note"))
    if missing := shares["grade_missing"]:
        labelled = ", ".join(f"{1 - share:.1%} of {log}'s rows" for log, share in missing.items())
        text = (
            f"Labels cover {labelled}. They are not missing at random: low ranks are examined less, so the "
            "metric favours the ranking that the labels come from."
        )
        blocks.append(Paragraph(text, "warning"))
    return blocks


def _windows(result: MonitorResult) -> Table:
    placed = any(w.orphans is not None for w in result.windows)
    orphans = Column("Orphan events", "count", hint="They belong to no impression.")
    young = Column("Immature", "percent", hint="Queries whose labels are still arriving.")
    rates = [
        (Column(f"{name} per query", "number"), lambda w, name=name: w.event_rates[name])
        for name in result.windows[0].event_rates
    ]
    return table_of(
        "label_windows",
        "The state of the labels in every window, whatever its size.",
        result.windows,
        (Column("Window"), "label"),
        (Column("Queries", "count"), "n_queries"),
        (Column("Items per query", "number"), "items_per_query"),
        (Column("With a relevant document", "percent"), "relevant_share"),
        *rates,
        (orphans, "orphans") if placed else None,
        (young, "immature_share"),
    )


def _chart(result: MonitorResult) -> Chart:
    shares = [w.relevant_share for w in result.windows]
    rows = [
        {
            "at": w.start_ns // 1_000_000,
            "window": w.label,
            "share": round(w.relevant_share, 5),
            "queries": w.n_queries,
        }
        for w in result.windows
    ]
    share = {"field": "share", "type": "quantitative"}
    tooltip = [{"field": "window"}, share | {"format": ".1%"}, {"field": "queries", "type": "quantitative"}]
    y = share | {"title": None, "axis": {"format": "%"}, "scale": {"domainMin": 0}}
    body: dict[str, Any] = {
        "data": {"values": rows},
        "width": "container",
        "height": 120,
        "mark": {"type": "line", "point": True, "color": PALETTE[3]},
        "encoding": {"x": TIME_AXIS, "y": y, "tooltip": tooltip},
    }
    title = "Share of queries with a relevant document, by window"
    return Chart("labels", title, spec(body), f"Between {min(shares):.1%} and {max(shares):.1%}.")
