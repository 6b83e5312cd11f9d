"""Page or ranking? A click needs both, so click metrics are read beside the positives by rank and propensities."""

from typing import Any

import numpy as np
import pandas as pd

from ltr_harness.monitoring.periods import Periods
from ltr_harness.monitoring.queries import Floats, column_of, grades_by_rank
from ltr_harness.monitoring.result import MonitorResult, Presentation, RankRow, table_of
from ltr_harness.report.blocks import Block, Chart, Column, Heading, Paragraph, Table
from ltr_harness.report.charts import PALETTE, spec
from ltr_harness.report.formats import p_value
from ltr_harness.stats.several_samples import WindowVariance, widened
from ltr_harness.stats.two_samples import Estimate, Influence, between, profile_p

CAUTION = "click-based NDCG mixes ranking quality with presentation"
_RANKS = 10
_SIZE = 0.02  # total variation of the share of positives by rank that counts as a change
_ALPHA = 0.01
_STEADY = 0.1  # rank 1 stands still when its rate has changed by less than this share of itself


def presentation(periods: Periods) -> Presentation:
    """Positives by rank before and now, the signature of the change, and IPS-DCG where propensities are known.

    Rank 1 is looked at whatever the page looks like: where it is shown to stand still and others move, it is the page.
    """
    now, before = periods.now, periods.before
    ours, theirs = _positives(now), _positives(before)
    p, distance = profile_p(ours[0], theirs[0])
    changed = bool(p <= _ALPHA and distance >= _SIZE)
    top = periods.compare((_at_rank_one(now), _at_rank_one(before)), alternative="change")
    steady = max(abs(top.low), abs(top.high)) <= _STEADY * _rate(theirs, 0)
    signature = "none"
    if changed:
        signature = "page" if steady else "ranking"
    elif top.p <= _ALPHA:
        signature = "proportional"
    rows = tuple(
        RankRow(rank + 1, int(theirs[1][rank]), int(ours[1][rank]), _rate(theirs, rank), _rate(ours, rank))
        for rank in range(ours[0].shape[1])
        if ours[1][rank] or theirs[1][rank]
    )
    return Presentation(rows, p, distance, changed, top, signature, **_ips(periods))


def _positives(table: pd.DataFrame) -> tuple[Floats, Floats]:
    """(n, ranks) 1 where the item at the rank is positive, and (ranks,) how many lists reach it."""
    shown = grades_by_rank(table)[:, :_RANKS]
    return (shown > 0).astype(np.float64), (~np.isnan(shown)).sum(axis=0).astype(np.float64)


def _rate(side: tuple[Floats, Floats], rank: int) -> float:
    return float(side[0][:, rank].sum() / side[1][rank]) if side[1][rank] else float("nan")


def _at_rank_one(table: pd.DataFrame) -> Floats:
    first = table["grade:1"].to_numpy(np.float64)
    return np.where(np.isnan(first), np.nan, (first > 0).astype(np.float64))


def _ips(periods: Periods) -> dict[str, Any]:
    now, before = column_of(periods.now, "ips"), column_of(periods.before, "ips")
    if now is None or before is None:
        return {}
    change = periods.compare((now, before), alternative="drop")
    variance = _of_propensities(periods)
    measured = WindowVariance(variance, variance, float("inf"), 0)
    change = widened(change, measured, float(variance > 0), "drop", periods.config.compare.confidence)
    return {
        "ips": change,
        "ips_before": float(before.mean()),
        "ips_now": float(now.mean()),
        "ips_normalised": _normalised(periods),
        "effective": (_effective(periods.before), _effective(periods.now)),
    }


def _of_propensities(periods: Periods) -> float:
    """Variance of the change of IPS-DCG by errors of propensities; one table is off by the same in both periods."""
    rule = periods.config.propensity
    if rule is None or rule.column:
        return 0.0
    depth = periods.config.primary.k or periods.config.depth
    parts = [(_by_rank(periods.now, rule.table, rule.clip, depth), rule.errors)]
    before = -_by_rank(periods.before, rule.baseline_table or rule.table, rule.clip, depth)
    if rule.baseline_table:
        parts.append((before, rule.baseline_errors))
    else:
        parts = [(parts[0][0] + before, rule.errors)]
    variance = 0.0
    for gains, errors in parts:
        if errors:  # of a lognormal factor at each rank, and of rank 1's at all others
            last = np.minimum(np.arange(gains.size), len(errors) - 1)  # it stands for all later ranks
            own, spread = np.bincount(last, gains, len(errors))[1:], np.expm1(np.square(errors))
            variance += float(own**2 @ spread[1:] + own.sum() ** 2 * spread[0])
    return variance


def _by_rank(table: pd.DataFrame, propensities: tuple[float, ...], clip: float, depth: int) -> Floats:
    """(depth,): how much of the mean of IPS-DCG was shown at each rank."""
    shown = np.nan_to_num(grades_by_rank(table)).mean(axis=0, dtype=np.float64)
    rank = np.arange(shown.size)
    looked = np.array(propensities)[np.minimum(rank, len(propensities) - 1)]
    gains = np.where(rank < depth, shown / np.maximum(looked, clip) / np.log2(rank + 2), 0.0)
    return np.asarray(gains * float(column_of(table, "ips").mean()) / (gains.sum() or 1.0))


def _normalised(periods: Periods) -> Estimate:
    """Change of sum(IPS-DCG) / sum(weighted gain): how high the gains stand, whatever their amount."""
    ratios, influences = [], []
    for table, clusters in zip((periods.now, periods.before), periods.clusters, strict=True):
        top, bottom = column_of(table, "ips"), column_of(table, "ips_weight")
        mean = float(bottom.mean())
        ratio = float(top.mean()) / mean if mean else float("nan")
        ratios.append(ratio)
        influences.append(Influence.of((top - ratio * bottom) / mean if mean else top * np.nan, clusters))
    confidence, n = periods.config.compare.confidence, len(periods.now) + len(periods.before)
    change = ratios[0] - ratios[1]
    return between(change, *influences, alternative="drop", confidence=confidence, n=n)


def _effective(table: pd.DataFrame) -> float:
    """How many equally weighted gains the weighted ones are worth."""
    squares = float(column_of(table, "ips_squares").sum())
    return float(column_of(table, "ips_weight").sum()) ** 2 / squares if squares else 0.0


_SIGNATURES = {
    "none": "The positives are spread over the ranks as before.",
    "page": "Rank 1, which all users examine, is as before while other ranks moved: a changed page has this effect.",
    "proportional": "All ranks moved alike: lost events have this effect.",
    "ranking": "The shape changed, with rank 1 or without a test of it: a changed ranking has this effect; a page may.",
}


def section(result: MonitorResult) -> list[Block]:
    seen = result.presentation
    assert seen is not None
    blocks: list[Block] = [
        Heading("Presentation", finding="changed" if seen.changed else "as before", matters=seen.changed),
        Paragraph(f"{CAUTION[0].upper()}{CAUTION[1:]}. {_SIGNATURES[seen.signature]}"),
        _chart(seen),
        _ranks_table(result, seen),
    ]
    if seen.ips is not None:
        said = [
            f"IPS-DCG, gains weighted by 1/propensity: {seen.ips_before:.4f} before, "
            f"{seen.ips_now:.4f} now, {seen.ips}, "
            f"p {p_value(seen.ips.p)}."
        ]
        if seen.ips_normalised is not None:
            said.append(f"Self-normalised: {seen.ips_normalised}.")
        if seen.effective:
            before, now = seen.effective
            said.append(f"Effective number of gains: {before:,.0f} before, {now:,.0f} now.")
        said.append(
            "It is unbiased for DCG where the propensities are right; a ratio such as IPS-NDCG would not be."
        )
        blocks.append(Paragraph(" ".join(said)))
    return blocks


def _ranks_table(result: MonitorResult, seen: Presentation) -> Table:
    notes = [
        f"Shape: total variation {seen.shape_distance:.3f}, p {p_value(seen.shape_p)}. This is not examination: good "
        "items stand high."
    ]
    examined: list[tuple[Column, Any]] = []
    rule = result.config.get("propensity") or {}
    if now := rule.get("table"):
        for when, looked in (("before", rule["baseline_table"] or now), ("now", now)):
            column = Column(f"Examined {when}", "percent")
            examined.append((column, lambda r, looked=looked: looked[min(r.rank, len(looked)) - 1]))
        notes.append(f"Examination, relative to rank 1, is from {rule['source'] or 'the configuration'}.")
    return table_of(
        "by_rank",
        "How often the item at each rank is positive.",
        seen.rows,
        (Column("Rank", "count"), "rank"),
        (Column("Lists before", "count"), "shown_before"),
        (Column("Lists now", "count"), "shown_now"),
        (Column("Positive before", "percent"), "rate_before"),
        (Column("Positive now", "percent"), "rate_now"),
        *examined,
        notes=tuple(notes),
        sortable=False,
    )


def _chart(seen: Presentation) -> Chart:
    rows = [
        {"rank": r.rank, "when": when, "rate": round(rate, 5)}
        for r in seen.rows
        for when, rate in (("baseline", r.rate_before), ("production", r.rate_now))
        if rate == rate
    ]
    rank, rate = {"field": "rank", "type": "quantitative"}, {"field": "rate", "type": "quantitative"}
    scale = {"domain": ["baseline", "production"], "range": [PALETTE[1], PALETTE[0]]}
    body: dict[str, Any] = {
        "data": {"values": rows},
        "width": "container",
        "height": 160,
        "mark": {"type": "line", "point": True},
        "encoding": {
            "x": rank | {"title": "rank", "axis": {"tickMinStep": 1, "grid": False}},
            "y": rate | {"title": None, "axis": {"format": "%"}},
            "color": {"field": "when", "type": "nominal", "title": None, "scale": scale},
            "tooltip": [{"field": "when"}, rank, rate | {"format": ".2%"}],
        },
    }
    words = "No ranks."
    if seen.rows:
        words = f"At rank 1 {seen.rows[0].rate_before:.1%} before and {seen.rows[0].rate_now:.1%} now."
    return Chart("by_rank", "Share of positive items by rank, baseline and production", spec(body), words)
