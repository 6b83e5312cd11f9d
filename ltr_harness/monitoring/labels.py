"""Log, labels and page: did they change rather than the ranking? Looked at before the metric: an outage flatters it.

Where click events are lost, queries that lose all of theirs leave the mean (or count 1, under the boosters' rule),
and mean NDCG rises. A click needs the page as well, so click metrics are read beside the positives by rank and
propensities.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ltr_harness._util.text import count_of, plural
from ltr_harness.comparison.stats.two_samples import Estimate, profile_p
from ltr_harness.data.logs.contract import Contract, LogCheck
from ltr_harness.data.queries import Floats, Ints
from ltr_harness.data.relevance.labels import LABELLED, RELEVANT
from ltr_harness.monitoring.calendar import Cut, window_numbers
from ltr_harness.monitoring.config import MonitorConfig
from ltr_harness.monitoring.periods import Periods
from ltr_harness.monitoring.queries import column_of, columns_of, grades_by_rank, mean_of_known, primary_of
from ltr_harness.monitoring.result import (
    EmptyRules,
    LabelTest,
    ListLengths,
    MonitorResult,
    Presentation,
    RankRow,
    table_of,
)
from ltr_harness.monitoring.stats.several_samples import WindowVariance, bonferroni, widened
from ltr_harness.report import charts
from ltr_harness.report.blocks import Badge, Block, Chart, Column, Details, Heading, Paragraph, Tone
from ltr_harness.report.formats import p_value

WITH_RELEVANT = "queries with a relevant document"
LABELLED_DOCUMENTS, RELEVANT_DOCUMENTS = "documents with a label", "relevant documents"

_GRADUAL = 0.9

CLICK_BIAS = "click-based NDCG mixes ranking quality with presentation"
_RANKS = 10
_SIZE = 0.02  # total variation of the share of positives by rank that counts as a change
_ALPHA = 0.01
_STEADY = 0.1  # rank 1 stands still when its rate has changed by less than this share of itself


def label_tests(periods: Periods, cut: Cut, mature: Ints) -> list[LabelTest]:
    """Every label rate, over all mature queries and in every window that is large enough; `mature` (n_mature,)."""
    now, before, config = periods.now, periods.before, periods.config
    columns = {WITH_RELEVANT: _of_both("has_relevant", now, before)}
    events = columns_of(now, "event"), columns_of(before, "event")
    if config.relevance.chosen != "label":
        both = [name for name in events[0] if name in events[1]]
        columns |= {f"{name} per query": _of_both(f"event:{name}", now, before) for name in both}
    elif all(RELEVANT in of_side for of_side in events):  # a run as the baseline has none
        items = _of_both("n_items", now, before)
        labelled = [of_side.get(LABELLED, n) for of_side, n in zip(events, items, strict=True)]
        with np.errstate(invalid="ignore"):
            relevant = [of_side[RELEVANT] / n for of_side, n in zip(events, labelled, strict=True)]
        columns[RELEVANT_DOCUMENTS] = (relevant[0], relevant[1])
        if any(LABELLED in of_side for of_side in events):
            columns[LABELLED_DOCUMENTS] = (labelled[0] / items[0], labelled[1] / items[1])
    parts = [("all", mature)] if mature.size >= 2 else []
    for at, of_mature in enumerate(cut.members_of(mature) if len(cut) > 1 else ()):
        if of_mature.size >= max(config.windows.min_queries, 2) and not (cut.immature[at] or cut.stray[at]):
            parts.append((cut.labels[at], mature[of_mature]))
    tests: list[LabelTest] = []
    for what, (ours, theirs) in columns.items():
        days, base = periods.days_differ(ours, theirs), mean_of_known(theirs)
        for window, rows in parts:
            tested = periods.compare((ours, theirs), rows, "drop", days)
            tests.append(LabelTest(what, window, tested, before=base, now=mean_of_known(ours[rows])))
    p = bonferroni([test.difference.p for test in tests])
    for at, (test, corrected) in enumerate(zip(tests, p.tolist(), strict=True)):
        fallen = test.difference.value <= -config.labels.min_drop * test.before
        alert = bool(corrected <= periods.spent * config.labels.alpha and fallen and test.before > 0)
        tests[at] = dataclasses.replace(test, p_corrected=corrected, alert=alert)
    return tests


def windows_of_alerts(tests: Sequence[LabelTest], cut: Cut) -> list[int]:
    """Which windows have an alert of their labels, where that is less than half of them; none otherwise."""
    alerts = {test.window for test in tests if test.alert}
    tested = {test.window for test in tests}
    at_fault = [at for at, label in enumerate(cut.labels) if label in alerts]
    return at_fault if 2 * len(at_fault) < len(tested.intersection(cut.labels)) else []


def _of_both(name: str, now: pd.DataFrame, before: pd.DataFrame) -> tuple[Floats, Floats]:
    return now[name].to_numpy(np.float64), before[name].to_numpy(np.float64)


def orphans_by_window(times: Ints | None, cut: Cut, config: MonitorConfig) -> list[int | None]:
    """How many orphans fall into each window; None where the event log has no times; `times` (n_orphans,)."""
    if times is None:
        return [None] * len(cut)
    if len(cut) == 1 and cut.start[0] == cut.end[0]:  # a log without times is one window, and all are in it
        return [int(times.size)]
    known = times[times != np.iinfo(np.int64).min]
    numbers = window_numbers(known, config.windows)
    at = np.minimum(np.searchsorted(cut.number, numbers), len(cut) - 1)
    counts: list[int] = np.bincount(at[cut.number[at] == numbers], minlength=len(cut)).tolist()
    return [*counts]


def still_arriving(tests: Sequence[LabelTest], cut: Cut) -> bool:
    """Whether labels fall off toward the end of the log, window after window, as late purchases make them."""
    for what in {test.measure for test in tests if test.alert}:
        shares = {t.window: t for t in tests if t.measure == what and t.window != "all"}
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
    changed = len({test.measure for test in result.labels if test.alert})
    finding = f"{changed} changed" if result.labels else ""
    blocks: list[Block] = [Heading("Label health", finding=finding, matters=bool(changed))]
    if n := result.n_immature:
        text = f"{count_of(n, 'query')} {plural('is', n)} younger than the labels' maturity: shown, never tested."
        blocks.append(Paragraph(text, "note"))
    shares = {
        name: {check.log: check.share for check in result.log_checks if check.check == name}
        for name in ("no-event", "not-judged", "grade-missing")
    }
    unseen = shares["not-judged"]
    covered = []
    for log, share in shares["no-event"].items():
        below = unseen.get(log, 0.0)
        why = f" ({below:.1%} lie below the last one of their list and are not judged)" if below else ""
        covered.append(f"{1 - share - below:.1%} of {log}'s rows{why}")
    if covered:
        text = f"Users acted on {', '.join(covered)}; all others count as not relevant, examined or not."
        blocks.append(Paragraph(text, "note"))
    if missing := shares["grade-missing"]:
        labelled = ", ".join(f"{1 - share:.1%} of {log}'s rows" for log, share in missing.items())
        text = (
            f"Labels cover {labelled}. They are not missing at random: low ranks are examined less, so the "
            "metric favours the ranking that the labels come from."
        )
        blocks.append(Paragraph(text, "warning"))
    shown = [test for test in result.labels if test.window == "all" or test.alert]
    if shown:
        table = table_of(
            "labels",
            "Labels in the baseline and now; single windows only where they raise an alert.",
            shown,
            (Column("What"), "measure"),
            (Column("Window"), "window"),
            (Column("Before", "metric"), "before"),
            (Column("Now", "metric"), "now"),
            (Column(f"Difference [{result.one_sided_name}]", "difference"), "difference"),
            (Column("p corrected", "p"), "p_corrected"),
            (Column("Verdict"), lambda t: Badge("alert", "bad") if t.alert else Badge("no alert", "good")),
        )
        blocks.append(table)
    if len(result.windows) > 1:
        blocks.append(_by_window(result))
    return blocks if len(blocks) > 1 else []


def _by_window(result: MonitorResult) -> Details:
    orphans = Column("Orphan events", "count", hint="They belong to no impression.")
    young = Column("Immature", "percent", hint="Queries whose labels are still arriving.")
    rates = [
        (Column(f"{name} per query", "number"), lambda w, name=name: w.event_rates[name])
        for name in result.windows[0].event_rates
    ]
    table = table_of(
        "label_windows",
        "The state of the labels in every window, whatever its size.",
        result.windows,
        (Column("Window"), "label"),
        (Column("Queries", "count"), "n_queries"),
        (Column("Items per query", "number"), "items_per_query"),
        (Column("With a relevant document", "percent"), "relevant_share"),
        *rates,
        (orphans, "orphan_events"),
        (young, "immature_share"),
    )
    return Details("Labels window by window", (table,))


def presentation(periods: Periods) -> Presentation:
    """Positives by rank, IPS-DCG, and the signature: where rank 1, seen by all, stands still, it is the page."""
    shown = [grades_by_rank(table)[:, :_RANKS] for table in (periods.now, periods.before)]
    positive = [(grades > 0).astype(np.float64) for grades in shown]
    lists = [(~np.isnan(grades)).sum(axis=0) for grades in shown]  # (ranks,) how many reach it
    with np.errstate(invalid="ignore"):
        now, before = (of.sum(axis=0) / n for of, n in zip(positive, lists, strict=True))
    p, distance = profile_p(positive[0], positive[1])
    changed = bool(p <= _ALPHA and distance >= _SIZE)
    first = [np.where(np.isnan(grades[:, 0]), np.nan, grades[:, 0] > 0) for grades in shown]
    top = periods.compare((first[0], first[1]), alternative="change")
    steady = max(abs(top.low), abs(top.high)) <= _STEADY * before[0]
    moved = "page" if steady else "ranking"
    signature = moved if changed else "proportional" if top.p <= _ALPHA else "none"
    by_rank = zip(*(of.tolist() for of in (lists[1], lists[0], before, now)), strict=True)
    rows = tuple(RankRow(rank, *numbers) for rank, numbers in enumerate(by_rank, 1) if any(numbers[:2]))
    return Presentation(
        rows, p, distance, changed, top, signature, **_loss_by_rank(periods, positive), **_ips(periods)
    )


def _loss_by_rank(periods: Periods, positive: Sequence[Floats]) -> dict[str, Any]:
    """Whether rank 1 lost the same share of its positives as the others; `positive` (n, ranks) of both periods."""
    totals = [float(of.sum(axis=1).mean()) for of in positive]
    at_one, below = ([part.mean() for part in parts] for parts in _at_one_and_below(positive))
    if min(*at_one, *below) <= 0:
        return {}
    logarithms = []
    for one, rest in zip(*_at_one_and_below(positive), strict=True):
        share = np.log(one.mean() / rest.mean())
        logarithms.append(share + one / one.mean() - rest / rest.mean())  # whose mean it is
    uneven = periods.compare((logarithms[0], logarithms[1]), alternative="change")
    return {"rank_1_against_rest": uneven, "positives_change": float(np.log(totals[0] / totals[1]))}


def _at_one_and_below(positive: Sequence[Floats]) -> tuple[list[Floats], list[Floats]]:
    """(n,) positives at rank 1, and below it, of both periods."""
    return [of[:, 0] for of in positive], [of[:, 1:].sum(axis=1) for of in positive]


def _ips(periods: Periods) -> dict[str, Any]:
    """IPS-DCG, and the same per unit of weighted gain: how high the gains stand, whatever their amount."""
    now, before = column_of(periods.now, "ips"), column_of(periods.before, "ips")
    if now is None or before is None:
        return {}
    change = periods.compare((now, before), alternative="drop")
    sides = [_ratio(table) for table in (periods.now, periods.before)]
    normalised = periods.compare((sides[0][1], sides[1][1]), alternative="drop")
    return {
        "ips": _with_errors_of_propensities(change, _ips_by_rank, periods),
        "ips_before": float(before.mean()),
        "ips_now": float(now.mean()),
        "ips_normalised": _with_errors_of_propensities(normalised, _ratio_by_rank, periods),
        "ips_normalised_before": sides[1][0],
        "ips_normalised_now": sides[0][0],
        "effective_gains": (_effective(periods.before), _effective(periods.now)),
    }


def _ratio(table: pd.DataFrame) -> tuple[float, Floats]:
    """The sum of IPS-DCG per sum of weighted gains, and (n,) values whose mean it is and that vary as it does."""
    top, bottom = column_of(table, "ips"), column_of(table, "ips_weight")
    mean = float(bottom.mean())
    if not mean:
        return float("nan"), np.full(top.size, np.nan)
    ratio = float(top.mean()) / mean
    return ratio, ratio + (top - ratio * bottom) / mean


_ByRank = Callable[[pd.DataFrame, Floats], Floats]
"""By how much an estimate moves per unit of the logarithm of each rank's weighted gain, (ranks,)."""


def _ips_by_rank(table: pd.DataFrame, gains: Floats) -> Floats:
    discounted = gains / np.log2(np.arange(gains.size) + 2)
    return np.asarray(discounted * float(column_of(table, "ips").mean()) / (discounted.sum() or 1.0))


def _ratio_by_rank(table: pd.DataFrame, gains: Floats) -> Floats:
    shares = gains / (gains.sum() or 1.0)
    discount = 1 / np.log2(np.arange(gains.size) + 2)
    return np.asarray(shares * (discount - float(shares @ discount)))


def _with_errors_of_propensities(change: Estimate, by_rank: _ByRank, periods: Periods) -> Estimate:
    """An estimate with the errors of propensities in it; one table is off by the same in both periods."""
    rule, depth = periods.config.propensity, periods.config.primary.k or periods.config.depth
    if rule is None or rule.column:
        return change
    tables = rule.table, rule.baseline_table or rule.table
    shown = zip((periods.now, periods.before), tables, strict=True)
    now, before = (by_rank(table, _gains(table, looked, rule.clip, depth)) for table, looked in shown)
    parts = [(now - before, rule.errors)]
    if rule.baseline_table:
        parts = [(now, rule.errors), (-before, rule.baseline_errors)]
    variance = 0.0
    for moved, errors in parts:
        if errors:  # of a lognormal factor at each rank, and of rank 1's at all others
            last = np.minimum(np.arange(moved.size), len(errors) - 1)  # it stands for all later ranks
            own, spread = np.bincount(last, moved, len(errors))[1:], np.expm1(np.square(errors))
            variance += float(own**2 @ spread[1:] + own.sum() ** 2 * spread[0])
    measured = WindowVariance(variance, variance, float("inf"), 0)
    return widened(change, measured, float(variance > 0), "drop", periods.config.confidence)


def _gains(table: pd.DataFrame, propensities: tuple[float, ...], clip: float, depth: int) -> Floats:
    """(ranks,) weighted gain at each rank, 0 below `depth`."""
    shown = np.nan_to_num(grades_by_rank(table)).mean(axis=0, dtype=np.float64)
    rank = np.arange(shown.size)
    looked = np.array(propensities)[np.minimum(rank, len(propensities) - 1)]
    return np.where(rank < depth, shown / np.maximum(looked, clip), 0.0)


def _effective(table: pd.DataFrame) -> float:
    """How many equally weighted gains the weighted ones are worth."""
    squares = float(column_of(table, "ips_squares").sum())
    return float(column_of(table, "ips_weight").sum()) ** 2 / squares if squares else 0.0


_SIGNATURES = {
    "none": "The positives are spread over the ranks as before.",
    "page": (
        "Rank 1, which all users examine, is as before while other ranks moved: a changed page has this effect, and so "
        "has a ranking that is worse below rank 1."
    ),
    "proportional": "All ranks moved alike: lost events have this effect.",
    "ranking": "The shape changed, with rank 1 or without a test of it: a changed ranking has this effect; a page may.",
}


def presentation_section(result: MonitorResult) -> list[Block]:
    seen = result.presentation
    assert seen is not None
    blocks: list[Block] = [
        Heading("Presentation", finding="changed" if seen.changed else "as before", matters=seen.changed),
        Paragraph(f"{CLICK_BIAS[0].upper()}{CLICK_BIAS[1:]}. {_SIGNATURES[seen.signature]}"),
    ]
    if result.examined_text:
        blocks.append(Paragraph(result.examined_text, "note"))
    rows = [
        {"rank": r.rank, "when": when, "rate": round(rate, 5)}
        for r in seen.rows
        for when, rate in (("baseline", r.rate_before), ("production", r.rate_now))
        if rate == rate
    ]
    scale = {"domain": ["baseline", "production"], "range": [charts.PALETTE[1], charts.PALETTE[0]]}
    rank, rate = charts.quantitative("rank"), charts.quantitative("rate", format=".2%")
    drawn = charts.layer(
        {"type": "line", "point": True},
        x=rank | {"title": "rank", "axis": {"tickMinStep": 1, "grid": False}},
        y=charts.quantitative("rate", title=None, axis={"format": "%"}),
        color={"field": "when", "type": "nominal", "title": None, "scale": scale},
        tooltip=[{"field": "when"}, rank, rate],
    )
    words = [f"At rank 1 {first.rate_before:.1%} before and {first.rate_now:.1%} now." for first in seen.rows]
    title = "Share of positive items by rank, baseline and production"
    blocks.append(Chart("by_rank", title, charts.wide(rows, 160, **drawn), next(iter(words), "No ranks.")))
    footnotes = [
        f"Shape: total variation {seen.shape_distance:.3f}, p {p_value(seen.shape_p)}. This is not examination: good "
        "items stand high."
    ]
    examined: list[tuple[Column, Any]] = []
    rule = result.config.get("propensity") or {}
    if now := rule.get("table"):
        for when, looked in (("before", rule["baseline_table"] or now), ("now", now)):
            column = Column(f"Examined {when}", "percent")
            examined.append((column, lambda r, looked=looked: looked[min(r.rank, len(looked)) - 1]))
        footnotes.append(f"Examination, relative to rank 1, is from {rule['source'] or 'the configuration'}.")
    table = table_of(
        "by_rank",
        "How often the item at each rank is positive.",
        seen.rows,
        (Column("Rank", "count"), "rank"),
        (Column("Lists before", "count"), "shown_before"),
        (Column("Lists now", "count"), "shown_now"),
        (Column("Positive before", "percent"), "rate_before"),
        (Column("Positive now", "percent"), "rate_now"),
        *examined,
        footnotes=tuple(footnotes),
        sortable=False,
    )
    blocks.append(table)
    if seen.ips is not None:
        moved = f"{seen.ips_before:.4f} before, {seen.ips_now:.4f} now, {seen.ips}, p {p_value(seen.ips.p)}"
        said = [f"IPS-DCG, gains weighted by 1/propensity: {moved}."]
        if seen.ips_normalised is not None:
            now_and_before = f"{seen.ips_normalised_before:.4f} before, {seen.ips_normalised_now:.4f} now"
            decides = "IPS-DCG per unit of weighted gain, which decides as lost clicks do not move it"
            said.append(f"Self-normalised ({decides}): {now_and_before}, {seen.ips_normalised}.")
        if seen.effective_gains:
            said.append(
                "Effective number of gains: {:,.0f} before, {:,.0f} now.".format(*seen.effective_gains)
            )
        right = "where the propensities are right; a ratio such as IPS-NDCG would not be"
        blocks.append(Paragraph(" ".join([*said, f"It is unbiased for DCG {right}."])))
    return blocks


def empty_rules(logs: Mapping[str, pd.DataFrame]) -> tuple[EmptyRules, ...]:
    """The mean under each rule for queries without a relevant document: an outage cannot hide behind one of them."""
    rows = []
    for which, table in logs.items():
        relevant = column_of(table, "has_relevant")
        skip, share = mean_of_known(primary_of(table)[relevant]), float(relevant.mean())
        zero = skip * share if share else 0.0
        rows.append(EmptyRules(which, len(table), int((~relevant).sum()), skip, zero, zero + 1 - share))
    return tuple(rows)


def list_lengths(logs: Mapping[str, pd.DataFrame]) -> tuple[ListLengths, ...]:
    rows = []
    for which, table in logs.items():
        n = column_of(table, "n_items")
        p10, median, p90 = np.quantile(n, [0.1, 0.5, 0.9]).tolist()
        rows.append(ListLengths(which, int(n.min()), p10, median, p90, int(n.max())))
    return tuple(rows)


def stray_queries(production: pd.DataFrame, cut: Cut) -> tuple[LogCheck, ...]:
    """Queries whose time lies apart from the rest of the log, as a check of the contract."""
    at, contract = np.flatnonzero(cut.stray[cut.codes]), Contract("production", "")
    named = zip(production["query_id"].iloc[at], cut.codes[at], strict=True)
    contract.totals["queries"] = len(production)
    contract.count("time-stray", at.size, (f"query {name!r} ({cut.labels[code]})" for name, code in named))
    return contract.log_checks


def empty_rules_section(result: MonitorResult) -> list[Block]:
    """What queries without a relevant document do to the mean; silent where there are none."""
    empty = sum(row.n_without_relevant for row in result.empty_rules)
    if not empty:
        return []
    queries = sum(row.n_queries for row in result.empty_rules)
    finding = f"{empty:,} of {count_of(queries, 'query')}"
    table = table_of(
        "empty_rules",
        f"{result.primary} under each rule for queries without a relevant document; lost labels raise the last column.",
        result.empty_rules,
        (Column("Log"), "log"),
        (Column("Queries", "count"), "n_queries"),
        (Column("Without relevant document", "count"), "n_without_relevant"),
        (Column("left out", "metric"), "skip"),
        (Column("count 0", "metric"), "zero"),
        (Column("count 1", "metric", hint="The value that LightGBM and XGBoost report."), "one"),
        sortable=False,
    )
    return [Heading("Queries without a relevant document", finding=finding), table]


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
    if not result.log_checks:
        passed = Paragraph("Every check of the contract passed.")
        return [Heading("The log", finding="all checks passed"), lengths, passed]
    found = table_of(
        "contract",
        "Checks that did not pass; warnings more frequent than in the baseline raise alerts.",
        result.log_checks,
        (Column("Check", "code"), "check"),
        (Column("Log"), "log"),
        (Column("Severity"), lambda check: Badge(check.severity, _TONES[check.severity])),
        (Column("Count", "count"), "count"),
        (Column("Of", "count"), "total"),
        (Column("Share", "percent"), "share"),
        (Column("Meaning"), "meaning"),
        (Column("Examples", "code"), lambda check: ", ".join(check.examples)),
    )
    n_checks = len({check.check for check in result.log_checks})
    finding = f"{count_of(n_checks, 'check')} did not pass"
    return [Heading("The log", finding=finding, matters=bool(result.n_alerts("contract"))), lengths, found]
