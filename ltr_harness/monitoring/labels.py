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
from numpy.typing import NDArray

from ltr_harness._util.text import count_of, plural
from ltr_harness.comparison.stats.two_samples import Estimate, profile_p
from ltr_harness.data.arrays import Floats, Ints
from ltr_harness.data.logs.contract import Contract, LogCheck
from ltr_harness.data.relevance.labels import LABELLED, RELEVANT
from ltr_harness.monitoring.calendar import Cut, window_numbers
from ltr_harness.monitoring.config import MonitorConfig
from ltr_harness.monitoring.periods import Periods
from ltr_harness.monitoring.queries import column_of, columns_of, grades_by_rank, mean_of_defined, primary_of
from ltr_harness.monitoring.result import (
    EmptyRules,
    LabelTest,
    ListLengths,
    MonitorResult,
    Presentation,
    RankRow,
    table_of,
)
from ltr_harness.monitoring.stats.several_samples import WindowVariance, bonferroni, widen
from ltr_harness.report import charts
from ltr_harness.report.blocks import Badge, Block, Chart, Column, Details, Heading, Paragraph, Table, Tone
from ltr_harness.report.formats import p_value

WITH_RELEVANT = "queries with a relevant document"
LABELLED_DOCUMENTS, RELEVANT_DOCUMENTS = "documents with a label", "relevant documents"

_MAX_LAST_RATIO = 0.9

CLICK_BIAS = "click-based NDCG mixes ranking quality with presentation"
_MAX_RANKS = 10
_MIN_DISTANCE = 0.02  # total variation of the share of positives by rank that counts as a change
_SHAPE_ALPHA = 0.01
_MAX_STEADY_CHANGE = 0.1  # rank 1 stands still when its rate has changed by less than this share of itself


def label_tests(periods: Periods, cut: Cut, mature: Ints) -> list[LabelTest]:
    """Test every label rate, over all mature queries and in every window that is large enough; `mature` (n_mature,)."""
    config = periods.config
    parts = _tested_parts(cut, mature, config)
    tests: list[LabelTest] = []
    for measure, (now, before) in _label_rates(periods).items():
        variations, base = periods.unit_variations(now, before), mean_of_defined(before)
        for window, rows in parts:
            difference = periods.compare((now, before), rows, "drop", variations)
            tests.append(LabelTest(measure, window, difference, before=base, now=mean_of_defined(now[rows])))
    p = bonferroni([test.difference.p for test in tests])
    corrected_tests = []
    for test, corrected in zip(tests, p.tolist(), strict=True):
        fell = test.before > 0 and test.difference.value <= -config.labels.min_drop * test.before
        alert = bool(fell and corrected <= periods.spent * config.labels.alpha)
        corrected_tests.append(dataclasses.replace(test, p_corrected=corrected, alert=alert))
    return corrected_tests


def _tested_parts(cut: Cut, mature: Ints, config: MonitorConfig) -> list[tuple[str, Ints]]:
    """Return all (n_mature,) queries, and those of each window that is large enough."""
    parts = []
    if mature.size >= 2:
        parts.append(("all", mature))
    if len(cut) < 2:
        return parts
    least = max(config.windows.min_queries, 2)
    for window, rows in enumerate(cut.members_of(mature)):
        if rows.size >= least and not (cut.immature[window] or cut.stray[window]):
            parts.append((cut.labels[window], mature[rows]))
    return parts


def _label_rates(periods: Periods) -> dict[str, tuple[Floats, Floats]]:
    """Return the values that each rate of labels is a mean of: (n_now,) and (n_before,)."""
    now, before = periods.now, periods.before
    rates = {WITH_RELEVANT: _columns_of_both("has_relevant", now, before)}
    if periods.config.relevance.chosen == "label":
        return rates | _document_rates(now, before)
    events = columns_of(before, "event")
    for name in columns_of(now, "event"):
        if name in events:
            rates[f"{name} per query"] = _columns_of_both(f"event:{name}", now, before)
    return rates


def _document_rates(now: pd.DataFrame, before: pd.DataFrame) -> dict[str, tuple[Floats, Floats]]:
    """Return the shares of documents with a label, and of these the relevant ones; none where a run is the baseline."""
    counts = columns_of(now, "event"), columns_of(before, "event")
    if not all(RELEVANT in of_period for of_period in counts):
        return {}
    items = _columns_of_both("n_items", now, before)
    labelled = [of_period.get(LABELLED, n) for of_period, n in zip(counts, items, strict=True)]
    with np.errstate(invalid="ignore"):
        relevant = [of_period[RELEVANT] / n for of_period, n in zip(counts, labelled, strict=True)]
    rates = {RELEVANT_DOCUMENTS: (relevant[0], relevant[1])}
    if any(LABELLED in of_period for of_period in counts):
        rates[LABELLED_DOCUMENTS] = (labelled[0] / items[0], labelled[1] / items[1])
    return rates


def windows_of_alerts(tests: Sequence[LabelTest], cut: Cut) -> list[int]:
    """Return the windows with an alert of their labels, where that is less than half of them; none otherwise."""
    alerts = {test.window for test in tests if test.alert}
    tested = {test.window for test in tests}
    at_fault = [number for number, label in enumerate(cut.labels) if label in alerts]
    return at_fault if 2 * len(at_fault) < len(tested.intersection(cut.labels)) else []


def _columns_of_both(name: str, now: pd.DataFrame, before: pd.DataFrame) -> tuple[Floats, Floats]:
    return now[name].to_numpy(np.float64), before[name].to_numpy(np.float64)


def orphans_by_window(times: Ints | None, cut: Cut, config: MonitorConfig) -> list[int | None]:
    """Count the orphans of each window by their times, (n_orphans,); None where the event log has no times."""
    if times is None:
        return [None] * len(cut)
    if len(cut) == 1 and cut.start[0] == cut.end[0]:  # a log without times is one window, and all are in it
        return [int(times.size)]
    defined_times = times[times != np.iinfo(np.int64).min]
    numbers = window_numbers(defined_times, config.windows)
    places = np.minimum(np.searchsorted(cut.number, numbers), len(cut) - 1)
    counts: list[int] = np.bincount(places[cut.number[places] == numbers], minlength=len(cut)).tolist()
    return [*counts]


def still_arriving(tests: Sequence[LabelTest], cut: Cut) -> bool:
    """Return whether labels fall off toward the end of the log, window after window, as late purchases make them."""
    measures = {test.measure for test in tests if test.alert}
    return any(_falls_toward_end(measure, tests, cut) for measure in measures)


def _falls_toward_end(measure: str, tests: Sequence[LabelTest], cut: Cut) -> bool:
    """Return whether the windows with an alert are the last ones, fewer than most, and the last is the lowest."""
    by_window = {test.window: test for test in tests if test.measure == measure and test.window != "all"}
    in_order = [by_window[label] for label in cut.labels if label in by_window]
    low = [test for test in in_order if test.alert]
    if not low or len(low) > max(2, 2 * len(in_order) // 3) or in_order[-len(low) :] != low:
        return False
    first, last = low[0].now, low[-1].now
    return last < _MAX_LAST_RATIO * first and last == min(test.now for test in low)


def section(result: MonitorResult) -> list[Block]:
    changed = len({test.measure for test in result.labels if test.alert})
    finding = f"{changed} changed" if result.labels else ""
    blocks: list[Block] = []
    if n := result.n_immature:
        text = f"{count_of(n, 'query')} {plural('is', n)} younger than the labels' maturity: shown, never tested."
        blocks.append(Paragraph(text, "note"))
    blocks += _coverage(result)
    tests = [test for test in result.labels if test.window == "all" or test.alert]
    if tests:
        table = table_of(
            "labels",
            "Labels in the baseline and now; single windows only where they raise an alert.",
            tests,
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
    return [Heading("Label health", finding=finding, matters=bool(changed)), *blocks] if blocks else []


def _coverage(result: MonitorResult) -> list[Block]:
    """Return the shares of rows that users acted on, and of those with a label."""
    shares = {
        name: {check.log: check.share for check in result.log_checks if check.check == name}
        for name in ("no-event", "not-judged", "grade-missing")
    }
    blocks: list[Block] = []
    phrases = []
    for log, share in shares["no-event"].items():
        unjudged = shares["not-judged"].get(log, 0.0)
        phrase = f"{1 - share - unjudged:.1%} of {log}'s rows"
        if unjudged:
            phrase += f" ({unjudged:.1%} lie below the last one of their list and are not judged)"
        phrases.append(phrase)
    if phrases:
        text = f"Users acted on {', '.join(phrases)}; all others count as not relevant, examined or not."
        blocks.append(Paragraph(text, "note"))
    if missing := shares["grade-missing"]:
        labelled = ", ".join(f"{1 - share:.1%} of {log}'s rows" for log, share in missing.items())
        text = (
            f"Labels cover {labelled}. They are not missing at random: low ranks are examined less, so the "
            "metric favours the ranking that the labels come from."
        )
        blocks.append(Paragraph(text, "warning"))
    return blocks


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
    """Return positives by rank, IPS-DCG, and the signature: where rank 1, seen by all, stands still, it is the page."""
    grades = [grades_by_rank(table)[:, :_MAX_RANKS] for table in (periods.now, periods.before)]
    positive = [(of_period > 0).astype(np.float64) for of_period in grades]
    p, distance = profile_p(positive[0], positive[1])
    tops = [of_period[:, 0] for of_period in grades]
    first = [np.where(np.isnan(top), np.nan, top > 0) for top in tops]
    rank_1_change = periods.compare((first[0], first[1]), alternative="change")
    rows = _rank_rows(grades)
    changed = bool(p <= _SHAPE_ALPHA and distance >= _MIN_DISTANCE)
    rank_1_rate = {row.rank: row.rate_before for row in rows}.get(1, float("nan"))
    if not changed:
        signature = "proportional" if rank_1_change.p <= _SHAPE_ALPHA else "none"
    elif max(abs(rank_1_change.low), abs(rank_1_change.high)) <= _MAX_STEADY_CHANGE * rank_1_rate:
        signature = "page"
    else:
        signature = "ranking"
    return Presentation(
        rows,
        p,
        distance,
        changed,
        rank_1_change,
        signature,
        **_loss_by_rank(periods, positive),
        **_ips(periods),
    )


def _rank_rows(grades: Sequence[NDArray[np.float32]]) -> tuple[RankRow, ...]:
    """Return the positives at each rank that some list reaches; `grades` (n, ranks) of production and the baseline."""
    lists = [(~np.isnan(of_period)).sum(axis=0) for of_period in grades]  # (ranks,)
    positives = [(of_period > 0).sum(axis=0) for of_period in grades]
    with np.errstate(invalid="ignore"):
        now, before = (n / n_lists for n, n_lists in zip(positives, lists, strict=True))
    columns = (of_ranks.tolist() for of_ranks in (lists[1], lists[0], before, now))
    by_rank = enumerate(zip(*columns, strict=True), start=1)
    return tuple(RankRow(rank, *numbers) for rank, numbers in by_rank if any(numbers[:2]))


def _loss_by_rank(periods: Periods, positive: Sequence[Floats]) -> dict[str, Any]:
    """Compare the losses of positives at rank 1 and below it; `positive` is (n, ranks), now and before."""
    totals = [float(of_period.sum(axis=1).mean()) for of_period in positive]
    at_rank_1, below = _at_rank_1_and_below(positive)
    if min(n.mean() for n in (*at_rank_1, *below)) <= 0:
        return {}
    logarithms = []
    for first, rest in zip(at_rank_1, below, strict=True):
        ratio = np.log(first.mean() / rest.mean())
        logarithms.append(ratio + first / first.mean() - rest / rest.mean())  # whose mean it is
    uneven = periods.compare((logarithms[0], logarithms[1]), alternative="change")
    return {"rank_1_against_rest": uneven, "positives_change": float(np.log(totals[0] / totals[1]))}


def _at_rank_1_and_below(positive: Sequence[Floats]) -> tuple[list[Floats], list[Floats]]:
    """Return the positives of each query at rank 1 and below it, (n,) of both periods."""
    at_rank_1 = [of_period[:, 0] for of_period in positive]
    below = [of_period[:, 1:].sum(axis=1) for of_period in positive]
    return at_rank_1, below


def _ips(periods: Periods) -> dict[str, Any]:
    """Compare IPS-DCG, and the same per unit of weighted gain: how high the gains stand, whatever their amount."""
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
        "effective_gains": (_effective_gains(periods.before), _effective_gains(periods.now)),
    }


def _ratio(table: pd.DataFrame) -> tuple[float, Floats]:
    """Return IPS-DCG per weighted gain, as sums, and (n,) values whose mean that is and that vary as it does."""
    top, bottom = column_of(table, "ips"), column_of(table, "ips_weight")
    mean = float(bottom.mean())
    if not mean:
        return float("nan"), np.full(top.size, np.nan)
    ratio = float(top.mean()) / mean
    return ratio, ratio + (top - ratio * bottom) / mean


_EffectByRank = Callable[[pd.DataFrame, Floats], Floats]
"""By how much an estimate moves per unit of the logarithm of each rank's weighted gain, (ranks,)."""


def _ips_by_rank(table: pd.DataFrame, gains: Floats) -> Floats:
    discounted = gains / np.log2(np.arange(gains.size) + 2)
    return np.asarray(discounted * float(column_of(table, "ips").mean()) / (discounted.sum() or 1.0))


def _ratio_by_rank(table: pd.DataFrame, gains: Floats) -> Floats:
    shares = gains / (gains.sum() or 1.0)
    discount = 1 / np.log2(np.arange(gains.size) + 2)
    return np.asarray(shares * (discount - float(shares @ discount)))


def _with_errors_of_propensities(
    change: Estimate, effect_by_rank: _EffectByRank, periods: Periods
) -> Estimate:
    """Add the errors of propensities to an estimate; a single table is off by the same in both periods."""
    rule, depth = periods.config.propensity, periods.config.primary.k or periods.config.depth
    if rule is None or rule.column:
        return change
    tables = rule.table, rule.baseline_table or rule.table
    periods_and_tables = zip((periods.now, periods.before), tables, strict=True)
    now, before = (
        effect_by_rank(table, _gains(table, propensities, rule.clip, depth))
        for table, propensities in periods_and_tables
    )
    if rule.baseline_table:
        parts = [(now, rule.errors), (-before, rule.baseline_errors)]
    else:
        parts = [(now - before, rule.errors)]
    variance = sum(_table_variance(weights, errors) for weights, errors in parts if errors)
    measured = WindowVariance(variance, variance, float("inf"), 0)
    return widen(change, measured, float(variance > 0), "drop", periods.config.confidence)


def _table_variance(weights: Floats, errors: Sequence[float]) -> float:
    """Return the variance of a (ranks,) weighted sum: each rank has a lognormal factor, and all others rank 1's too."""
    last = np.minimum(np.arange(weights.size), len(errors) - 1)  # it stands for all later ranks
    by_error = np.bincount(last, weights, len(errors))[1:]
    spread = np.expm1(np.square(errors))
    return float(by_error**2 @ spread[1:] + by_error.sum() ** 2 * spread[0])


def _gains(table: pd.DataFrame, propensities: tuple[float, ...], clip: float, depth: int) -> Floats:
    """Return the weighted gain at each rank, (ranks,), 0 below `depth`."""
    mean_grades = np.nan_to_num(grades_by_rank(table)).mean(axis=0, dtype=np.float64)
    rank = np.arange(mean_grades.size)
    propensity = np.array(propensities)[np.minimum(rank, len(propensities) - 1)]
    return np.where(rank < depth, mean_grades / np.maximum(propensity, clip), 0.0)


def _effective_gains(table: pd.DataFrame) -> float:
    """Return the number of equally weighted gains that the weighted ones are worth."""
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
    finding = "changed" if seen.changed else "as before"
    blocks: list[Block] = [
        Heading("Presentation", finding=finding, matters=seen.changed),
        Paragraph(f"{CLICK_BIAS[0].upper()}{CLICK_BIAS[1:]}. {_SIGNATURES[seen.signature]}"),
    ]
    if result.examined_text:
        blocks.append(Paragraph(result.examined_text, "note"))
    blocks += [_rank_chart(seen), _rank_table(seen, result.config.get("propensity") or {})]
    if seen.ips is not None:
        blocks.append(Paragraph(_ips_sentences(seen, seen.ips)))
    return blocks


def _rank_chart(seen: Presentation) -> Chart:
    rows = [
        {"rank": r.rank, "when": when, "rate": round(rate, 5)}
        for r in seen.rows
        for when, rate in (("baseline", r.rate_before), ("production", r.rate_now))
        if rate == rate
    ]
    scale = {"domain": ["baseline", "production"], "range": [charts.PALETTE[1], charts.PALETTE[0]]}
    rank, rate = charts.quantitative("rank"), charts.quantitative("rate", format=".2%")
    layer = charts.layer(
        {"type": "line", "point": True},
        x=rank | {"title": "rank", "axis": {"tickMinStep": 1, "grid": False}},
        y=charts.quantitative("rate", title=None, axis={"format": "%"}),
        color={"field": "when", "type": "nominal", "title": None, "scale": scale},
        tooltip=[{"field": "when"}, rank, rate],
    )
    text = "No ranks."
    if seen.rows:
        first = seen.rows[0]
        text = f"At rank 1 {first.rate_before:.1%} before and {first.rate_now:.1%} now."
    title = "Share of positive items by rank, baseline and production"
    return Chart("by_rank", title, charts.wide(rows, 160, **layer), text)


def _rank_table(seen: Presentation, propensity: Mapping[str, Any]) -> Table:
    """Return the rows by rank; with the table of examination where the configuration has one."""
    footnotes = [
        f"Shape: total variation {seen.shape_distance:.3f}, p {p_value(seen.shape_p)}. This is not examination: good "
        "items stand high."
    ]
    examination: list[tuple[Column, Any]] = []
    if now := propensity.get("table"):
        for when, table in (("before", propensity["baseline_table"] or now), ("now", now)):
            column = Column(f"Examined {when}", "percent")
            examination.append((column, lambda r, table=table: table[min(r.rank, len(table)) - 1]))
        source = propensity["source"] or "the configuration"
        footnotes.append(f"Examination, relative to rank 1, is from {source}.")
    return table_of(
        "by_rank",
        "How often the item at each rank is positive.",
        seen.rows,
        (Column("Rank", "count"), "rank"),
        (Column("Lists before", "count"), "shown_before"),
        (Column("Lists now", "count"), "shown_now"),
        (Column("Positive before", "percent"), "rate_before"),
        (Column("Positive now", "percent"), "rate_now"),
        *examination,
        footnotes=tuple(footnotes),
        sortable=False,
    )


def _ips_sentences(seen: Presentation, change: Estimate) -> str:
    numbers = f"{seen.ips_before:.4f} before, {seen.ips_now:.4f} now, {change}, p {p_value(change.p)}"
    sentences = [f"IPS-DCG, gains weighted by 1/propensity: {numbers}."]
    if seen.ips_normalised is not None:
        now_and_before = f"{seen.ips_normalised_before:.4f} before, {seen.ips_normalised_now:.4f} now"
        definition = "IPS-DCG per unit of weighted gain, which decides as lost clicks do not move it"
        sentences.append(f"Self-normalised ({definition}): {now_and_before}, {seen.ips_normalised}.")
    if seen.effective_gains:
        before, now = seen.effective_gains
        sentences.append(f"Effective number of gains: {before:,.0f} before, {now:,.0f} now.")
    right = "where the propensities are right; a ratio such as IPS-NDCG would not be"
    return " ".join([*sentences, f"It is unbiased for DCG {right}."])


def empty_rules(logs: Mapping[str, pd.DataFrame]) -> tuple[EmptyRules, ...]:
    """Return the mean under each rule for queries without a relevant document: no outage hides behind one of them."""
    rows = []
    for log, table in logs.items():
        relevant = column_of(table, "has_relevant")
        skip, share = mean_of_defined(primary_of(table)[relevant]), float(relevant.mean())
        zero = skip * share if share else 0.0
        rows.append(EmptyRules(log, len(table), int((~relevant).sum()), skip, zero, zero + 1 - share))
    return tuple(rows)


def list_lengths(logs: Mapping[str, pd.DataFrame]) -> tuple[ListLengths, ...]:
    rows = []
    for log, table in logs.items():
        n = column_of(table, "n_items")
        p10, median, p90 = np.quantile(n, [0.1, 0.5, 0.9]).tolist()
        rows.append(ListLengths(log, int(n.min()), p10, median, p90, int(n.max())))
    return tuple(rows)


def stray_queries(production: pd.DataFrame, cut: Cut) -> tuple[LogCheck, ...]:
    """Check the contract for queries whose time lies apart from the rest of the log."""
    rows, contract = np.flatnonzero(cut.stray[cut.codes]), Contract("production", "")
    named = zip(production["query_id"].iloc[rows], cut.codes[rows], strict=True)
    contract.totals["queries"] = len(production)
    contract.count("time-stray", rows.size, (f"query {name!r} ({cut.labels[code]})" for name, code in named))
    return contract.log_checks


def empty_rules_section(result: MonitorResult) -> list[Block]:
    """Do queries without a relevant document move the mean? Left out where there are none."""
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
    table = table_of(
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
    return [Heading("The log", finding=finding, matters=bool(result.n_alerts("contract"))), lengths, table]
