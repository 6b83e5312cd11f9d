"""Which feature moved, and does that explain the drop? Movement and explanation are two different things.

A feature may drift a lot and matter nothing. What links drift to the drop is the mix term: with queries in
bins of the feature, the part of the drop that comes from other shares of the bins. Features are ranked by it.

Queries are tested, never rows: items of one query are alike, and a test over rows of a feature that is constant in
its query finds drift every time (with an intra-query correlation of .3, 40 times in 100). An item feature
becomes its mean, max and standard deviation per query, and tests of those hold their level. Means of many
items vary little, so their PSI is large for a shift that is small for an item; shifts are therefore in standard
deviations of the *items*.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ltr_harness.errors import DataError, Problem
from ltr_harness.monitoring.analysis.inputs import (
    ComparedColumn,
    base_of,
    names_of,
    number_column,
    query_features,
    segment_column,
    segments_of,
)
from ltr_harness.monitoring.analysis.periods import Periods, interval
from ltr_harness.monitoring.queries import column_of
from ltr_harness.monitoring.results.answers import FeatureDrift
from ltr_harness.stats.drift import distances, jensen_shannon, psi, psi_threshold, worth

Floats = NDArray[np.float64]


def feature_drift(periods: Periods) -> list[FeatureDrift]:
    """Every feature and segment: size of the drift, and the part of the change it explains, largest first.

    Where the model is known (`drift.model`), its gain importance stands beside: drift of a feature that no tree
    asks for cannot be what went wrong. It never orders the table.
    """
    features, segments = query_features(periods), segments_of(periods)
    m = max(1, len(features) + len(segments))
    alpha = periods.spent * periods.config.drift.alpha / max(1, len(names_of(periods)) + len(segments))
    drifts = [
        _drift(number_column(name, now, before, periods, alpha), periods, m, (now, before))
        for name, (now, before) in features.items()
    ]
    drifts += [_drift(segment_column(name, periods, alpha), periods, m) for name in segments]
    if periods.config.drift.model is not None:
        gains = gain_shares(Path(periods.config.drift.model))
        drifts = [replace(f, gain=gains.get(f.column, float("nan"))) for f in drifts]
    # By how much of the change it explains, in the direction of the change; not by how far it moved.
    total = periods.sample_now().plain[0] - periods.reference.plain[0]
    return sorted(drifts, key=lambda f: (-np.nan_to_num(np.sign(total) * f.mix.value), f.name))


def gain_shares(path: Path) -> dict[str, float]:
    """Each feature's share of the gain of all splits of a stored run's trees.

    Raises:
        DataError: no run, or one of a model without trees.
    """
    from ltr_harness.runs import load_run

    table = load_run(path).importance
    if table is None:
        raise DataError(
            Problem(str(path), "has no trees, and so no gain importance", "a LightGBM or XGBoost run")
        )
    total = float(table["gain"].sum())
    return {
        str(f): float(g) / total if total else 0.0
        for f, g in zip(table["feature"], table["gain"], strict=True)
    }


def _item_spread(name: str, table: pd.DataFrame) -> float:
    """Standard deviation of the feature over items, queries counting alike: within plus between queries."""
    base = base_of(name, table)
    within, between = (column_of(table, f"feature:{base}:{what}") for what in ("std", "mean"))
    known = ~np.isnan(between)
    return float(np.sqrt((within[known] ** 2).mean() + between[known].var())) if known.any() else float("nan")


@dataclass(frozen=True)
class _Moved:
    """How far a distribution moved: Kolmogorov-Smirnov with its p, or Jensen-Shannon; in standard deviations."""

    distance: float
    p: float = float("nan")
    shift: float = float("nan")
    carried: float = float("nan")


def _drift(
    column: ComparedColumn, periods: Periods, m: int, values: tuple[Floats, Floats] | None = None
) -> FeatureDrift:
    """Size and explanation of one column's drift."""
    rule, (now, before) = periods.config.drift, column.bins
    counts = [np.bincount(codes, minlength=column.n_bins).astype(np.float64) for codes in (now, before)]
    used = int(np.count_nonzero(counts[0] + counts[1]))
    # what users repeat is said once
    independent = (
        worth(now, column.n_bins, periods.clusters[0]),
        worth(before, column.n_bins, periods.clusters[1]),
    )
    moved = psi(*counts)
    threshold = psi_threshold(*independent, used, rule.alpha / m, rule.psi_floor)
    shares = independent[0] / now.size, independent[1] / before.size
    size = (
        _Moved(jensen_shannon(*counts)) if values is None else _moved(column.name, *values, shares, periods)
    )
    parts = column.parts(periods)
    return FeatureDrift(
        name=column.name,
        kind=column.kind,
        n_now=int(now.size),
        n_before=int(before.size),
        psi=moved,
        psi_threshold=threshold,
        drifted=bool(moved > threshold),
        distance=size.distance,
        p=size.p,
        shift=size.shift,
        carried=size.carried,
        missing_before=column.missing[0],
        missing_now=column.missing[1],
        within=interval(parts.within),
        mix=interval(parts.mix),
        explains=parts.mix.value / parts.total.value if parts.total.value else float("nan"),
        mix_chance=min(1.0, m * parts.mix_chance),
        unmatched=interval(parts.unmatched),
        unmatched_chance=min(1.0, m * parts.unmatched_chance),
        lacking=parts.lacking,
        column=column.name if values is None else base_of(column.name, periods.now),
        broken=column.broken,
    )


def _moved(name: str, now: Floats, before: Floats, shares: tuple[float, float], periods: Periods) -> _Moved:
    distance, p, carried = distances(now, before, shares)
    spread = _item_spread(name, periods.before)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = [np.nanmean(side) if np.any(~np.isnan(side)) else np.nan for side in (now, before)]
        shift = float((means[0] - means[1]) / spread) if spread > 0 else float("nan")
        carried = float(carried / spread) if spread > 0 else float("nan")
    return _Moved(distance, p, shift, carried)
