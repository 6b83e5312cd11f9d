"""What is known of a query before it is ranked, taken out of its value: less chance of the mix in every window.

Segments enter by cells, features by broken lines, without interactions; keys such as query texts by their mean in the
baseline, shrunk. All of it is learned from the baseline. What the baseline hardly has, such as a new country or a
feature outside of its range, moves no value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ltr_harness.errors import DataError, Problem
from ltr_harness.logs.columns import codes_of, together
from ltr_harness.monitoring.config import MonitorConfig
from ltr_harness.monitoring.queries import column_of, columns_of, primary_of
from ltr_harness.stats.adjustment import KeyEffects, Regression, dummies, hinges
from ltr_harness.stats.two_samples import Codes, Sample

_BINS = 5  # of a feature; its line breaks between them
_LEAST = 20  # queries of the baseline in a cell that has a mean of its own

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Prediction:
    """What adjusting adds to the uncertainty of a difference, as the baseline's effects are estimates.

    Attributes:
        covariates: float64 (n_now, p), of production's queries, less the baseline's means.
        precision: float64 (p, p), as in `Regression`.
        key_noise: variance of the keys' estimated effects in production's mean of the primary metric.
    """

    covariates: Floats
    precision: Floats
    key_noise: float

    def widened(self, reference: Sample, rows: NDArray[Any] | None) -> Sample:
        """The baseline's sample, as uncertain as its prediction is for some of production's queries.

        Shapes: `rows` (n_rows,).
        """
        chosen = self.covariates if rows is None else self.covariates[rows]
        if not (chosen.size and reference.values.size):
            return reference
        away = chosen.mean(axis=0)
        centre = reference.values.mean()
        factor = np.sqrt(1 + away @ self.precision @ away)
        return Sample(centre + factor * (reference.values - centre), reference.clusters, reference.strata)


def adjusted_tables(
    now: pd.DataFrame, before: pd.DataFrame, config: MonitorConfig
) -> tuple[pd.DataFrame, pd.DataFrame, Prediction]:
    """Both periods with values less what `compare.adjust` says of them; queries of one key are a cluster.

    Raises:
        DataError: the baseline lacks one of the columns.
    """
    columns = [name for name in config.compare.adjust if name != config.columns.pair_key]
    ours, theirs = _covariates(now, before, columns, config)
    keys = _keys(now, before, config) if len(columns) < len(config.compare.adjust) else None
    values: tuple[list[Floats], list[Floats]] = ([], [])
    noise = []
    metrics = columns_of(now, "metric"), columns_of(before, "metric")
    for one, other in zip(*(of.values() for of in metrics), strict=True):
        known = ~np.isnan(other)
        if not known.any():  # a metric that the baseline has for no query
            values[0].append(one)
            values[1].append(other)
            continue
        fit = Regression.of(other[known], theirs[known])
        adjusted, reference = one - ours @ fit.slopes, other.copy()
        reference[known] = fit.mean + fit.residuals
        if keys is not None:
            mine, others, size = keys
            effects = KeyEffects.of(reference[known], others[known], size)
            reference[known] -= effects.of_others
            adjusted -= effects.effects[mine]
            noise.append(float((np.bincount(mine, minlength=size) / mine.size) ** 2 @ effects.noise))
        values[0].append(adjusted)
        values[1].append(reference)
    tables = [
        table.assign(**{f"metric:{name}": column for name, column in zip(metrics[0], columns, strict=True)})
        for table, columns in zip((now, before), values, strict=True)
    ]
    if keys is not None:
        tables = [table.assign(cluster=table["pair_key"]) for table in tables]
    precision = Regression.of(primary_of(before), theirs).precision
    return tables[0], tables[1], Prediction(ours, precision, noise[0] if noise else 0.0)


def _covariates(
    now: pd.DataFrame, before: pd.DataFrame, columns: Sequence[str], config: MonitorConfig
) -> tuple[Floats, Floats]:
    """(n_now, p) and (n_before, p)."""
    both: tuple[list[Floats], list[Floats]] = ([np.empty((len(now), 0))], [np.empty((len(before), 0))])
    for name in columns:
        segment = name in config.columns.segments
        sides = _segment(now, before, name) if segment else _feature(now, before, name)
        for side, columns_of_one in zip(both, sides, strict=True):
            side.append(columns_of_one)
    return np.concatenate(both[0], axis=1), np.concatenate(both[1], axis=1)


def _keys(now: pd.DataFrame, before: pd.DataFrame, config: MonitorConfig) -> tuple[Codes, Codes, int]:
    """Codes of the recurring keys, and how many there are; a query without one is a key of its own."""
    one, two = column_of(now, "pair_key"), column_of(before, "pair_key")
    if one is None or two is None:
        raise _lacking(str(config.columns.pair_key))
    ours, theirs = together(one, two)
    size = ours.categories.size
    codes = []
    for category in (ours, theirs):
        own = codes_of(category)
        missing = np.flatnonzero(own < 0)
        own[missing] = size + np.arange(missing.size)
        size += missing.size
        codes.append(own)
    return codes[0], codes[1], size


def _segment(now: pd.DataFrame, before: pd.DataFrame, name: str) -> tuple[Floats, Floats]:
    one, two = (column_of(side, f"segment:{name}") for side in (now, before))
    if one is None or two is None:
        raise _lacking(name)
    return _cells(*(codes_of(side, side.categories.size) for side in together(one, two)))


def _cells(ours: Codes, theirs: Codes) -> tuple[Floats, Floats]:
    counts = np.bincount(theirs)
    kept = np.flatnonzero(counts >= _LEAST)
    shares = counts[kept] / max(counts[kept].sum(), 1)
    return dummies(ours, kept, shares), dummies(theirs, kept, shares)


def _feature(now: pd.DataFrame, before: pd.DataFrame, name: str) -> tuple[Floats, Floats]:
    """Of the mean over a query's rows; missing in a cell of its own."""
    ours, theirs = (column_of(side, f"feature:{name}:mean") for side in (now, before))
    if ours is None or theirs is None:
        raise _lacking(name)
    gone = _cells(np.isnan(ours).astype(np.int64), np.isnan(theirs).astype(np.int64))
    known = theirs[~np.isnan(theirs)]
    if known.size < _LEAST or known.min() == known.max():
        return gone
    curves = hinges(ours, known, _BINS), hinges(theirs, known, _BINS)
    return np.hstack([gone[0], curves[0]]), np.hstack([gone[1], curves[1]])


def _lacking(name: str) -> DataError:
    return DataError(
        Problem("the baseline", f"has no column {name!r}", "what compare.adjust names", "leave it out there")
    )
