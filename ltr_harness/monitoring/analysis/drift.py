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

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ltr_harness.errors import DataError, Problem
from ltr_harness.monitoring.analysis.periods import Periods, interval
from ltr_harness.monitoring.queries import together
from ltr_harness.monitoring.results.answers import FeatureDrift
from ltr_harness.stats.decomposition import decompose
from ltr_harness.stats.drift import bin_edges, binned, distances, jensen_shannon, psi, psi_threshold, worth

Floats = NDArray[np.float64]


def query_features(periods: Periods) -> dict[str, tuple[Floats, Floats]]:
    """Feature to (values now, values before), one per query.

    A feature that never differs within a query keeps its name; otherwise there are its mean, max and std.
    """
    now, before = periods.now.features or {}, periods.before.features or {}
    names = dict.fromkeys(name.rpartition(":")[0] for name in now if name in before)
    found = {}
    for name in names:
        spreads = [side[f"{name}:std"] for side in (now, before)]
        if all(not np.any(spread > 0) for spread in spreads):
            found[name] = (now[f"{name}:mean"], before[f"{name}:mean"])
        else:
            for what in ("mean", "max", "std"):
                found[f"{name}:{what}"] = (now[f"{name}:{what}"], before[f"{name}:{what}"])
    return found


def feature_drift(periods: Periods) -> list[FeatureDrift]:
    """Every feature and segment: size of the drift, and the part of the change it explains, largest first.

    Where the model is known (`drift.model`), its gain importance stands beside: drift of a feature that no tree
    asks for cannot be what went wrong. It never orders the table.
    """
    features = query_features(periods)
    segments = [n for n in (periods.now.segments or {}) if n in (periods.before.segments or {})]
    m = max(1, len(features) + len(segments))
    found = [_numeric(name, *values, periods, m) for name, values in features.items()]
    found += [_categorical(name, periods, m) for name in segments]
    if periods.config.drift.model is not None:
        gains = gain_shares(Path(periods.config.drift.model))
        found = [replace(f, gain=gains.get(f.name.partition(":")[0], float("nan"))) for f in found]
    # By how much of the change it explains, in the direction of the change; not by how far it moved.
    total = periods.sample_now().plain[0] - periods.reference.plain[0]
    return sorted(found, key=lambda f: (-np.sign(total) * f.mix.value, f.name))


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


def _item_spread(name: str, features: Mapping[str, Floats]) -> float:
    """Standard deviation of the feature over items, queries counting alike: within plus between queries."""
    base = name if f"{name}:std" in features else name.rpartition(":")[0]
    within, between = features[f"{base}:std"], features[f"{base}:mean"]
    known = ~np.isnan(between)
    return float(np.sqrt((within[known] ** 2).mean() + between[known].var())) if known.any() else float("nan")


def _numeric(name: str, now: Floats, before: Floats, periods: Periods, m: int) -> FeatureDrift:
    rule = periods.config.drift
    edges = bin_edges(before, rule.bins)
    one, two = binned(now, edges), binned(before, edges)
    independent = _worth(one, two, edges.size + 2, periods)
    distance, p, carried = distances(now, before, (independent[0] / now.size, independent[1] / before.size))
    spread = _item_spread(name, periods.before.features or {})
    with np.errstate(invalid="ignore", divide="ignore"):
        means = [np.nanmean(side) if np.any(~np.isnan(side)) else np.nan for side in (now, before)]
        shift = float((means[0] - means[1]) / spread) if spread > 0 else float("nan")
        carried = float(carried / spread) if spread > 0 else float("nan")
    return _drift(name, "number", one, two, edges.size + 2, independent, periods, m, distance, p, shift, carried,
                  float(np.isnan(before).mean()), float(np.isnan(now).mean()))  # fmt: skip


def _categorical(name: str, periods: Periods, m: int) -> FeatureDrift:
    one, two = together([(periods.now.segments or {})[name], (periods.before.segments or {})[name]])
    size = one.names.size
    now, before = (np.where(c.codes < 0, size, c.codes).astype(np.int64) for c in (one, two))
    counts = [np.bincount(c, minlength=size + 1).astype(np.float64) for c in (now, before)]
    independent = _worth(now, before, size + 1, periods)
    apart, nan = jensen_shannon(*counts), float("nan")
    return _drift(name, "segment", now, before, size + 1, independent, periods, m, apart, nan, nan, nan,
                  float((two.codes < 0).mean()), float((one.codes < 0).mean()))  # fmt: skip


def _worth(
    now: NDArray[np.int64], before: NDArray[np.int64], size: int, periods: Periods
) -> tuple[float, float]:
    """Independent queries on both sides: what users repeat is said once."""
    return worth(now, size, periods.clusters[0]), worth(before, size, periods.clusters[1])


def _drift(
    name: str, kind: str, now: NDArray[np.int64], before: NDArray[np.int64], size: int,
    independent: tuple[float, float], periods: Periods, m: int, distance: float, p: float, shift: float,
    carried: float, missing_before: float, missing_now: float,
) -> FeatureDrift:  # fmt: skip
    rule = periods.config.drift
    counts = [np.bincount(codes, minlength=size).astype(np.float64) for codes in (now, before)]
    used = int(np.count_nonzero(counts[0] + counts[1]))
    moved = psi(*counts)
    threshold = psi_threshold(*independent, used, rule.alpha / m, rule.psi_floor)
    parts = decompose(periods.sample_now(), now, periods.reference, before, periods.config.compare.confidence)
    explains = parts.mix.value / parts.total.value if parts.total.value else float("nan")
    return FeatureDrift(
        name, kind, int(now.size), int(before.size), moved, threshold, bool(moved > threshold), distance, p, shift,
        carried, missing_before, missing_now, interval(parts.mix), explains,
    )  # fmt: skip
