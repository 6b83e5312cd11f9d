"""What the ranker was given: features and segments, a cell per query, and whether an input broke.

To ask what a change of the queries explains, queries are put into cells that both periods have. Values that the
baseline never had, such as a feature that is missing now, are in no such cell: a broken input is not another kind of
query.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ltr_harness.logs.columns import codes_of, together
from ltr_harness.monitoring.analysis.periods import Periods
from ltr_harness.monitoring.queries import column_of, columns_of
from ltr_harness.stats.decomposition import Decomposition, decompose
from ltr_harness.stats.drift import bin_edges, binned
from ltr_harness.stats.two_samples import difference

_MISSING_MORE = 0.05  # of the rows, beyond the baseline's share: too many to be news of the queries
_OUTSIDE = 0.2  # of the queries, with values that the baseline never had
_NEW_NAMES = 0.5  # of the queries, in segments that the baseline never had
_CONTINUOUS = 5  # quantile edges from which on one single value is no value at all
_SHOWN = 3

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ComparedColumn:
    """A feature or a segment of both periods.

    Attributes:
        name: of a feature, or what is made of it per query: price:mean.
        kind: number or segment.
        bins: a code per query, now and before, for sizes of drift.
        n_bins: how many codes there are.
        cells: likewise, for what can be compared: values outside of the baseline's range have cells of their own.
        apart: (cells,), cells that say nothing of the queries because the input broke there.
        missing: share of the rows without a value, before and now.
        broken: what is wrong with the input now, as a predicate; empty where nothing is.
        names: of a segment's values, in the order of their codes.
    """

    name: str
    kind: str
    bins: tuple[Codes, Codes]
    n_bins: int
    cells: tuple[Codes, Codes]
    apart: NDArray[np.bool_]
    missing: tuple[float, float]
    broken: str
    names: tuple[str, ...] = ()

    def parts(self, periods: Periods) -> Decomposition:
        """The change divided by the cells."""
        now, before = self.cells
        confidence = periods.config.compare.confidence
        return decompose(periods.sample_now(), now, periods.reference, before, confidence, self.apart)


def base_of(name: str, table: pd.DataFrame) -> str:
    """The feature that a column of queries was made of: price of price:mean."""
    return name if f"feature:{name}:std" in table else name.rpartition(":")[0]


def query_features(periods: Periods) -> dict[str, tuple[Floats, Floats]]:
    """Feature to (values now, values before), one per query.

    A feature that never differs within a query keeps its name; otherwise there are its mean, max and std, and the
    share of its rows that is missing, where some are.
    """
    now, before = columns_of(periods.now, "feature"), columns_of(periods.before, "feature")
    columns = {}
    for name in names_of(periods):
        shares = [side.get(f"{name}:missing") for side in (now, before)]
        partly = any(share is not None and np.any((share > 0) & (share < 1)) for share in shares)
        spreads = [side[f"{name}:std"] for side in (now, before)]
        if not partly and all(not np.any(spread > 0) for spread in spreads):
            columns[name] = (now[f"{name}:mean"], before[f"{name}:mean"])
            continue
        for what in ("mean", "max", "std"):
            columns[f"{name}:{what}"] = (now[f"{name}:{what}"], before[f"{name}:{what}"])
        if partly and shares[0] is not None and shares[1] is not None:
            columns[f"{name}:missing"] = (shares[0], shares[1])
    return columns


def names_of(periods: Periods) -> list[str]:
    """The features that both periods have."""
    both = [name for name in periods.now.columns if name in periods.before]
    features = (name.removeprefix("feature:") for name in both if name.startswith("feature:"))
    return list(dict.fromkeys(name.rpartition(":")[0] for name in features))


def segments_of(periods: Periods) -> list[str]:
    """The segments that both periods have."""
    return [name for name in columns_of(periods.now, "segment") if f"segment:{name}" in periods.before]


def number_column(name: str, now: Floats, before: Floats, periods: Periods, alpha: float) -> ComparedColumn:
    """A feature of queries.

    Shapes: `now, before` (n,).
    """
    edges = bin_edges(before, periods.config.drift.bins)
    if name.endswith(":missing"):
        edges = np.unique(np.append(np.nextafter(0.0, 1.0), edges[edges > 0]))  # nothing missing is a bin
    known = before[~np.isnan(before)]
    ends = [known.min(), np.nextafter(known.max(), np.inf)] if known.size else []
    range_edges = np.unique(np.concatenate((ends, edges)))
    shares = _missing_share(name, now, periods.now), _missing_share(name, before, periods.before)
    gone = _missing_more(shares[0], shares[1], periods, alpha)
    cells = binned(now, range_edges), binned(before, range_edges)
    apart = np.zeros(range_edges.size + 2, dtype=bool)
    apart[-1] = bool(gone)
    broken = gone or _odd_values(name, now, known, edges)
    return ComparedColumn(
        name,
        "number",
        (binned(now, edges), binned(before, edges)),
        edges.size + 2,
        cells,
        apart,
        (float(shares[1].mean()), float(shares[0].mean())),
        broken,
    )


def segment_column(name: str, periods: Periods, alpha: float) -> ComparedColumn:
    """A segment of queries."""
    ours, theirs = together(*(column_of(side, f"segment:{name}") for side in (periods.now, periods.before)))
    size = ours.categories.size
    codes = codes_of(ours, size), codes_of(theirs, size)
    shares = [(side == size).astype(np.float64) for side in codes]
    gone = _missing_more(shares[0], shares[1], periods, alpha)
    apart = np.zeros(size + 1, dtype=bool)
    apart[-1] = bool(gone)
    names = tuple(ours.categories)
    broken = gone or _new_names(*codes, names)
    missing = float(shares[1].mean()), float(shares[0].mean())
    return ComparedColumn(name, "segment", codes, size + 1, codes, apart, missing, broken, names)


def _missing_share(name: str, values: Floats, table: pd.DataFrame) -> Floats:
    """Per query, of its rows; tables of earlier versions know only of queries without any."""
    share = column_of(table, f"feature:{base_of(name, table)}:missing")
    return np.isnan(values).astype(np.float64) if share is None else share


def _missing_more(now: Floats, before: Floats, periods: Periods, alpha: float) -> str:
    test = difference(periods.sample_now(now), periods.sample_before(before), alternative="rise")
    if not (test.value >= _MISSING_MORE and test.p <= alpha):
        return ""
    return f"is missing in {now.mean():.1%} of its rows, {before.mean():.1%} before"


def _odd_values(name: str, now: Floats, known: Floats, edges: Floats) -> str:
    seen = now[~np.isnan(now)]
    if name.endswith(":missing") or not seen.size or not known.size:
        return ""
    if edges.size >= _CONTINUOUS and seen.min() == seen.max():
        return f"is {seen[0]:g} in every query"
    outside = float(((seen < known.min()) | (seen > known.max())).mean())
    if outside < _OUTSIDE:
        return ""
    return f"lies outside of all that the baseline had in {outside:.1%} of queries"


def _new_names(now: Codes, before: Codes, names: Sequence[str]) -> str:
    had = np.bincount(before, minlength=len(names) + 1)[:-1] > 0
    known = now[now < len(names)]
    if not known.size or not had.any():
        return ""
    new = float((~had[known]).mean())
    counts = np.bincount(known, minlength=len(names))
    if new < _NEW_NAMES:
        return ""

    def examples(chosen: NDArray[np.bool_]) -> str:
        return ", ".join(repr(names[at]) for at in np.flatnonzero(chosen)[:_SHOWN])

    if new < 1:
        return f"has values that the baseline lacks in {new:.1%} of queries, such as {examples((counts > 0) & ~had)}"
    now_and_before = f"now such as {examples(counts > 0)}, before such as {examples(had)}"
    return f"has no value in common with the baseline: {now_and_before}"
