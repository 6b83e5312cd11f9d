"""The inputs of the ranker: which feature or segment moved or broke, and whether that explains the drop.

What links drift to the drop is the mix term: the part that comes from other shares of the cells that both periods
have. Queries are tested, never rows: items of one query are alike, and a test over rows finds drift where none is.
Means of many items vary little, so shifts are in standard deviations of the *items*.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ltr_harness._util.text import count_of
from ltr_harness.comparison.stats.two_samples import difference
from ltr_harness.data.arrays import Bools, Floats, Ints
from ltr_harness.data.columns import codes_of, with_common_categories
from ltr_harness.errors import DataError, Problem
from ltr_harness.experiments.runs import load_run
from ltr_harness.monitoring.calendar import dense_codes
from ltr_harness.monitoring.periods import Periods
from ltr_harness.monitoring.queries import column_of, columns_of
from ltr_harness.monitoring.result import FeatureDrift, FeatureOverTime, MonitorResult, table_of
from ltr_harness.monitoring.stats.adjustment import Decomposition, DifferenceParts, decompose
from ltr_harness.monitoring.stats.drift import (
    bin_codes,
    bin_edges,
    distances,
    effective_sample_size,
    jensen_shannon,
    psi,
    psi_threshold,
)
from ltr_harness.report.blocks import Badge, Block, Column, Details, Heading, Paragraph, Table

_MIN_MORE_MISSING = 0.05  # of the rows, beyond the baseline's share: too many to be news of the queries
_MIN_OUTSIDE = 0.2  # of the queries, with values that the baseline never had
_MIN_NEW_NAMES = 0.5  # of the queries, in segments that the baseline never had
_MIN_CONTINUOUS_EDGES = 5  # quantile edges from which on one single value is no value at all
_MAX_EXAMPLES = 3


@dataclass(frozen=True, eq=False)
class ComparedColumn:
    """A feature or a segment of both periods; of a feature of items a statistic per query, such as price:mean."""

    name: str
    kind: str  # number or segment
    bins: tuple[Ints, Ints]  # a code per query, now and before, for sizes of drift
    n_bins: int  # how many codes there are
    parts: Decomposition  # of the change, by what can be compared
    missing: tuple[float, float]  # share of the rows without a value, before and now
    broken: str  # what is wrong with the input now, as a predicate; empty where nothing is
    names: tuple[str, ...] = ()  # of a segment's values, in the order of their codes
    values: tuple[Floats, Floats] | None = None  # of a feature, now and before


def compared_columns(periods: Periods) -> list[ComparedColumn]:
    """Return every feature and segment that both periods have."""
    features = query_features(periods)
    segments = [name for name in columns_of(periods.now, "segment") if f"segment:{name}" in periods.before]
    alpha = periods.spent * periods.config.drift.alpha / max(1, len(feature_names(periods)) + len(segments))
    numbers = [number_column(name, *values, periods, alpha) for name, values in features.items()]
    return [*numbers, *(segment_column(name, periods, alpha) for name in segments)]


def base_of(name: str, table: pd.DataFrame) -> str:
    """Return the feature that a column of queries was made of: price of price:mean."""
    return name if f"feature:{name}:std" in table else name.rpartition(":")[0]


def query_features(periods: Periods) -> dict[str, tuple[Floats, Floats]]:
    """Return each feature's values now and before, one per query: mean, max and std where it differs within one."""
    now, before = columns_of(periods.now, "feature"), columns_of(periods.before, "feature")
    columns = {}
    for name in feature_names(periods):
        shares = now[f"{name}:missing"], before[f"{name}:missing"]
        partly = any(np.any((share > 0) & (share < 1)) for share in shares)
        spreads = [side[f"{name}:std"] for side in (now, before)]
        if not partly and all(not np.any(spread > 0) for spread in spreads):
            columns[name] = (now[f"{name}:mean"], before[f"{name}:mean"])
            continue
        for statistic in ("mean", "max", "std"):
            columns[f"{name}:{statistic}"] = (now[f"{name}:{statistic}"], before[f"{name}:{statistic}"])
        if partly:
            columns[f"{name}:missing"] = shares
    return columns


def feature_names(periods: Periods) -> list[str]:
    """Return the features that both periods have."""
    shared = [name for name in periods.now.columns if name in periods.before]
    features = (name.removeprefix("feature:") for name in shared if name.startswith("feature:"))
    return list(dict.fromkeys(name.rpartition(":")[0] for name in features))


def number_column(name: str, now: Floats, before: Floats, periods: Periods, alpha: float) -> ComparedColumn:
    """Compare a feature of queries, (n_now,) and (n_before,) values."""
    edges = bin_edges(before, periods.config.drift.bins)
    if name.endswith(":missing"):
        edges = np.unique(np.append(np.nextafter(0.0, 1.0), edges[edges > 0]))  # nothing missing is a bin
    reference = before[~np.isnan(before)]
    ends = [reference.min(), np.nextafter(reference.max(), np.inf)] if reference.size else []
    range_edges = np.unique(np.concatenate((ends, edges)))
    shares = _missing_share(name, periods.now), _missing_share(name, periods.before)
    bins = bin_codes(now, edges), bin_codes(before, edges)
    cells = bin_codes(now, range_edges), bin_codes(before, range_edges)
    odd = _odd_values(name, now, reference, edges)
    rest = _divide_change(cells, range_edges.size + 2, shares, odd, periods, alpha)
    return ComparedColumn(name, "number", bins, edges.size + 2, *rest, values=(now, before))


def segment_column(name: str, periods: Periods, alpha: float) -> ComparedColumn:
    """Compare a segment of queries."""
    category_now, category_before = with_common_categories(
        *(column_of(side, f"segment:{name}") for side in (periods.now, periods.before))
    )
    size = category_now.categories.size
    codes = codes_of(category_now, size), codes_of(category_before, size)
    shares = [(side == size).astype(np.float64) for side in codes]
    names, n = tuple(category_now.categories), size + 1
    rest = _divide_change(codes, n, (shares[0], shares[1]), _new_names(*codes, names), periods, alpha)
    return ComparedColumn(name, "segment", codes, n, *rest, names)


def _divide_change(
    cells: tuple[Ints, Ints],
    n_cells: int,
    shares: tuple[Floats, Floats],
    odd: str,
    periods: Periods,
    alpha: float,
) -> tuple[Decomposition, tuple[float, float], str]:
    """Divide the change by cells; return also the shares of missing rows before and now, and what is broken."""
    missing_text, (now, before) = "", shares
    test = difference(periods.sample_now(now), periods.sample_before(before), alternative="rise")
    if test.value >= _MIN_MORE_MISSING and test.p <= alpha:
        missing_text = f"is missing in {now.mean():.1%} of its rows, {before.mean():.1%} before"
    excluded = np.zeros(n_cells, dtype=bool)
    excluded[-1] = bool(missing_text)  # where too many are missing, the cell says nothing of the queries
    values_now, values_before, confidence = periods.sample_now(), periods.reference, periods.config.confidence
    parts = decompose(values_now, cells[0], values_before, cells[1], confidence, excluded)
    return parts, (float(before.mean()), float(now.mean())), missing_text or odd


def _missing_share(name: str, table: pd.DataFrame) -> Floats:
    """Return the share of each query's rows without a value."""
    return table[f"feature:{base_of(name, table)}:missing"].to_numpy(np.float64)


def _odd_values(name: str, now: Floats, reference: Floats, edges: Floats) -> str:
    seen = now[~np.isnan(now)]
    if name.endswith(":missing") or not seen.size or not reference.size:
        return ""
    if edges.size >= _MIN_CONTINUOUS_EDGES and seen.min() == seen.max():
        return f"is {seen[0]:g} in every query"
    outside = float(((seen < reference.min()) | (seen > reference.max())).mean())
    if outside < _MIN_OUTSIDE:
        return ""
    return f"lies outside of all that the baseline had in {outside:.1%} of queries"


def _new_names(now: Ints, before: Ints, names: Sequence[str]) -> str:
    had = np.bincount(before, minlength=len(names) + 1)[:-1] > 0
    codes = now[now < len(names)]
    if not codes.size or not had.any():
        return ""
    new = float((~had[codes]).mean())
    counts = np.bincount(codes, minlength=len(names))
    if new < _MIN_NEW_NAMES:
        return ""

    def examples(chosen: Bools) -> str:
        return ", ".join(repr(names[code]) for code in np.flatnonzero(chosen)[:_MAX_EXAMPLES])

    if new < 1:
        return f"has values that the baseline lacks in {new:.1%} of queries, such as {examples((counts > 0) & ~had)}"
    now_and_before = f"now such as {examples(counts > 0)}, before such as {examples(had)}"
    return f"has no value in common with the baseline: {now_and_before}"


def feature_drift(columns: Sequence[ComparedColumn], periods: Periods) -> list[FeatureDrift]:
    """Return the drift of every feature and segment, those that explain most of the change first."""
    rule, m, drifts = periods.config.drift, len(columns), []
    gains = {} if rule.model is None else gain_shares(Path(rule.model))
    for column in columns:
        (now, before), parts = column.bins, column.parts
        counts = [np.bincount(codes, minlength=column.n_bins).astype(np.float64) for codes in (now, before)]
        used = int(np.count_nonzero(counts[0] + counts[1]))
        # what users repeat is said once
        codes_and_clusters = zip(column.bins, periods.clusters, strict=True)
        size_now, size_before = (
            effective_sample_size(codes, column.n_bins, clusters) for codes, clusters in codes_and_clusters
        )
        moved, shares = psi(*counts), (size_now / now.size, size_before / before.size)
        threshold = psi_threshold(size_now, size_before, used, rule.alpha / m, rule.psi_floor)
        name, movement = column.name, dict[str, Any](distance=jensen_shannon(*counts))
        if column.values is not None:
            name, movement = base_of(column.name, periods.now), _movement(column, shares, periods)
        drift = FeatureDrift(
            **difference_parts(parts, m),
            **movement,
            name=column.name,
            column=name,
            kind=column.kind,
            n_now=int(now.size),
            n_before=int(before.size),
            psi=moved,
            psi_threshold=threshold,
            drifted=bool(moved > threshold),
            missing_before=column.missing[0],
            missing_now=column.missing[1],
            share_of_change=parts.mix.value / parts.total.value if parts.total.value else float("nan"),
            unmatched_p=min(1.0, m * parts.unmatched_p),
            broken=column.broken,
            gain_share=gains.get(name, float("nan")),
        )
        drifts.append(drift)
    # By how much of the change it explains, in the direction of the change; not by how far it moved.
    total = periods.sample_now().unweighted_mean[0] - periods.reference.unweighted_mean[0]
    return sorted(drifts, key=lambda f: (-np.nan_to_num(np.sign(total) * f.mix.value), f.name))


_MAX_FEATURES_DRAWN = 6  # features
# queries of a window: with fewer, a bin is empty by chance, and PSI is far too high
_MIN_QUERIES_PER_BIN = 10


def features_over_time(
    columns: Sequence[ComparedColumn],
    drift: Sequence[FeatureDrift],
    members: Sequence[Ints],
    periods: Periods,
) -> tuple[FeatureOverTime, ...]:
    """Return the most drifted features in all windows; `members` are the (n_queries,) queries of each."""
    by_name = {column.name: column for column in columns}
    series = []
    for name in most_drifted(drift)[:_MAX_FEATURES_DRAWN]:
        # within the windows that `drift` is about it may be the same for all items of a query
        column = by_name.get(name) or by_name[f"{name}:mean"]
        series.append(_feature_over_time(column, members, periods, len(columns)))
    return tuple(series)


def most_drifted(drift: Sequence[FeatureDrift]) -> list[str]:
    """Return the features by how far they moved, broken ones first; of each feature the statistic that moved most."""
    names: dict[str, str] = {}
    for moved in sorted(drift, key=lambda f: (not f.broken, -f.psi, f.name)):
        names.setdefault(moved.column, moved.name)
    return [*names.values()]


def _feature_over_time(
    column: ComparedColumn, members: Sequence[Ints], periods: Periods, m: int
) -> FeatureOverTime:
    """Return the PSI of each window against the baseline, and the values from which it is drift, of `m` columns."""
    rule, (now, before), n_bins = periods.config.drift, column.bins, column.n_bins
    clusters, clusters_before = periods.clusters
    counts_before = np.bincount(before, minlength=n_bins).astype(np.float64)
    size_before = effective_sample_size(before, n_bins, clusters_before)
    moved, limits = [], []
    for rows in members:
        if rows.size < _MIN_QUERIES_PER_BIN * rule.bins:
            moved.append(float("nan"))
            limits.append(float("nan"))
            continue
        codes = now[rows]
        counts = np.bincount(codes, minlength=n_bins).astype(np.float64)
        used = int(np.count_nonzero(counts + counts_before))
        window_clusters = None if clusters is None else dense_codes(clusters[rows])
        size_now = effective_sample_size(codes, n_bins, window_clusters)
        moved.append(psi(counts, counts_before))
        limits.append(psi_threshold(size_now, size_before, used, rule.alpha / m, rule.psi_floor))
    return FeatureOverTime(column.name, tuple(moved), tuple(limits))


def gain_shares(path: Path) -> dict[str, float]:
    """Return each feature's share of the gain of all splits of a stored run's trees; refuse a run without trees."""
    table = load_run(path).importance
    if table is None:
        found = "has no trees, and so no gain importance"
        raise DataError(Problem(str(path), found, "a LightGBM or XGBoost run"))
    total = float(table["gain"].sum())
    shares = table["gain"].astype(float) / (total or 1.0)
    return dict(zip(map(str, table["feature"]), shares.tolist(), strict=True))


def difference_parts(parts: Decomposition, m: int) -> dict[str, Any]:
    """Return the parts of a change by name, with the mix's p corrected for `m` columns."""
    values = {field.name: getattr(parts, field.name) for field in fields(DifferenceParts)}
    return values | {"mix_p": min(1.0, m * parts.mix_p)}


def _movement(column: ComparedColumn, shares: tuple[float, float], periods: Periods) -> dict[str, Any]:
    """Return how far the values moved, in distances and in standard deviations of items; queries count alike."""
    assert column.values is not None
    now, before = column.values
    distance, p, wasserstein = distances(now, before, shares)
    base = base_of(column.name, periods.before)
    means = column_of(periods.before, f"feature:{base}:mean")
    stds = column_of(periods.before, f"feature:{base}:std")
    is_defined, spread = ~np.isnan(means), 0.0
    if is_defined.any():
        spread = float(np.sqrt((stds[is_defined] ** 2).mean() + means[is_defined].var()))
    if spread == 0:
        spread = float("nan")
    shift = (_nan_mean(now) - _nan_mean(before)) / spread
    return {"distance": distance, "p": p, "shift": shift, "wasserstein": wasserstein / spread}


def _nan_mean(values: Floats) -> float:
    """Return the mean without missing values; NaN where all are missing, without a warning."""
    return float("nan") if np.isnan(values).all() else float(np.nanmean(values))


def section(result: MonitorResult) -> list[Block]:
    if not result.drift:
        return []
    broken_inputs = {f.column: f for f in result.drift if f.broken}
    drifted = sum(f.drifted for f in result.drift)
    finding = f"{drifted} of {len(result.drift)} drifted"
    if broken_inputs:
        finding = f"{len(broken_inputs)} broken, {finding}"
    matters = bool(broken_inputs) or result.verdict.cause == "covariate"
    blocks: list[Block] = [Heading("Features", finding=finding, matters=matters)]
    if result.examined_text:
        blocks.append(Paragraph(result.examined_text, "note"))
    blocks += [
        Paragraph(
            f"{drifted} of {count_of(len(result.drift), 'feature')} drifted. Drift alone is not a cause: the first "
            "column has the share of the change that each one explains, and orders the table."
        ),
        *(Paragraph(f"{f.column} {f.broken}.", "warning") for f in broken_inputs.values()),
        _table(result, result.drift, "drift"),
    ]
    if result.whole is not None:
        blocks.append(Details("All of production", (_table(result, result.whole.drift, "drift_whole"),)))
    return blocks


def _table(result: MonitorResult, drift: Sequence[FeatureDrift], name: str) -> Table:
    scope = ", in all of production" if name == "drift_whole" else ""
    missing = any(f.missing_before or f.missing_now for f in drift)
    mix = "Mix term: the part of the change due to other shares of the feature's bins."
    unmatched = "The part where only one period has values, or where the input broke: not a mix."

    def state(f: FeatureDrift) -> Badge:
        if f.broken:
            return Badge("broken", "bad")
        return Badge("drifted", "bad") if f.drifted else Badge("stable", "good")

    limit = "The floor, or the value that chance reaches at this many queries."
    in_sd = "Standard deviation of the baseline, over items if the items of a query differ."
    wasserstein = "Mean distance that the values moved."
    distance = "Kolmogorov-Smirnov distance of numbers, Jensen-Shannon divergence of segments."
    weighted = "Drift weighted by importance; not an order of causes."
    of_gain = "The feature's share of the gain of all splits of the model."
    return table_of(
        name,
        f"Features and segments, one value per query{scope}.",
        drift,
        (Column("Feature", "code"), "name"),
        (Column(f"Explains [{result.interval_name}]", "difference", hint=mix), "mix"),
        (Column("Share of change", "percent"), "share_of_change"),
        (Column("Unmatched", "difference", hint=unmatched), "unmatched"),
        (Column("PSI", "number"), "psi"),
        (Column("PSI limit", "number", hint=limit), "psi_threshold"),
        (Column("Drift"), state),
        (Column("Shift in sd", "number", hint=in_sd), "shift"),
        (Column("Wasserstein in sd", "number", hint=wasserstein), "wasserstein"),
        (Column("KS or JS", "number", hint=distance), "distance"),
        (Column("KS p", "p", hint="With many queries everything is significant; PSI is the size."), "p"),
        (Column("Missing before", "percent"), "missing_before") if missing else None,
        (Column("Missing now", "percent"), "missing_now") if missing else None,
        (Column("Gain", "percent", hint=of_gain), "gain_share"),
        (Column("PSI x gain", "number", hint=weighted), lambda f: f.psi * f.gain_share),
    )
