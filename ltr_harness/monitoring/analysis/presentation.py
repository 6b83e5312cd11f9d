"""Page or ranking? What clicks by rank and propensities say about a change of click-based metrics.

Clicks need two things: the user looked there (the page's doing) and liked it (the ranking's doing). With the
same model, a page that shows more lowers click NDCG from .842 to .795; a worse model on a steeper page raises
it. So click metrics are never read without the positives by rank beside them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ltr_harness.monitoring.analysis.periods import Periods, interval
from ltr_harness.monitoring.queries import column_of, grades_by_rank
from ltr_harness.monitoring.results.answers import Interval, Presentation, RankRow
from ltr_harness.stats.between_windows import WindowVariance, widened
from ltr_harness.stats.two_samples import Influence, between, profile_p

CAUTION = "click-based NDCG mixes ranking quality with presentation"
_RANKS = 10
_SIZE = 0.02  # total variation of the share of positives by rank that counts as a change
_ALPHA = 0.01
_STEADY = 0.1  # rank 1 stands still when its rate has changed by less than this share of itself

Floats = NDArray[np.float64]


def presentation(periods: Periods) -> Presentation:
    """Positives by rank before and now, the signature of the change, and IPS-DCG where propensities are known.

    The signature compares what a page can do with what a ranking can do. Rank 1 is looked at whatever the
    page looks like; so if the rate at rank 1 is shown to stand still (its interval stays within a tenth)
    while others move, it is the page. If all ranks fall alike, events were lost. If the shape changes and rank 1
    moves too, or too few queries tell, the ranking is the first suspect: silence needs evidence.
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
    return Presentation(rows, p, distance, changed, interval(top), signature, **_ips(periods))


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
        "ips": interval(change),
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


def _normalised(periods: Periods) -> Interval:
    """Change of sum(IPS-DCG) / sum(weighted gain): how high the gains stand, whatever their amount."""
    ratios, influences = [], []
    for table, clusters in zip((periods.now, periods.before), periods.clusters, strict=True):
        top, bottom = column_of(table, "ips"), column_of(table, "ips_weight")
        mean = float(bottom.mean())
        ratio = float(top.mean()) / mean if mean else float("nan")
        ratios.append(ratio)
        influences.append(Influence.of((top - ratio * bottom) / mean if mean else top * np.nan, clusters))
    change = between(
        ratios[0] - ratios[1],
        influences[0],
        influences[1],
        alternative="drop",
        confidence=periods.config.compare.confidence,
        n=len(periods.now) + len(periods.before),
    )
    return interval(change)


def _effective(table: pd.DataFrame) -> float:
    """How many equally weighted gains the weighted ones are worth."""
    squares = float(column_of(table, "ips_squares").sum())
    return float(column_of(table, "ips_weight").sum()) ** 2 / squares if squares else 0.0
