"""What is known of a query before it is ranked, taken out of its value: less chance of the mix in every window.

Segments enter by cells, features by broken lines, keys such as query texts by their mean, shrunk. All of it is learned
from the baseline; what that hardly has, such as a new country, moves no value.
"""

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
    """What adjusting adds to the uncertainty of a difference, as the baseline's effects are estimates."""

    covariates: Floats  # (n_now, p), of production's queries, less the baseline's means
    precision: Floats  # (p, p), as in `Regression`
    key_noise: float  # variance of the keys' estimated effects in production's mean of the primary metric

    def widened(self, reference: Sample, rows: NDArray[Any] | None) -> Sample:
        """The baseline's sample, as uncertain as its prediction is for (n_rows,) of production's queries."""
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
    """Both periods with values less what `compare.adjust` says of them; queries of one key are a cluster."""
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
        if name in config.columns.segments:
            ones = together(*_both(now, before, f"segment:{name}", name))
            sides = _cells(*(codes_of(one, one.categories.size) for one in ones))
        else:
            sides = _feature(*_both(now, before, f"feature:{name}:mean", name))
        for side, columns_of_one in zip(both, sides, strict=True):
            side.append(columns_of_one)
    return np.concatenate(both[0], axis=1), np.concatenate(both[1], axis=1)


def _keys(now: pd.DataFrame, before: pd.DataFrame, config: MonitorConfig) -> tuple[Codes, Codes, int]:
    """Codes of the recurring keys, and how many there are; a query without one is a key of its own."""
    ours, theirs = together(*_both(now, before, "pair_key", str(config.columns.pair_key)))
    size = ours.categories.size
    codes = []
    for category in (ours, theirs):
        own = codes_of(category)
        missing = np.flatnonzero(own < 0)
        own[missing] = size + np.arange(missing.size)
        size += missing.size
        codes.append(own)
    return codes[0], codes[1], size


def _cells(ours: Codes, theirs: Codes) -> tuple[Floats, Floats]:
    counts = np.bincount(theirs)
    kept = np.flatnonzero(counts >= _LEAST)
    shares = counts[kept] / max(counts[kept].sum(), 1)
    return dummies(ours, kept, shares), dummies(theirs, kept, shares)


def _feature(ours: Floats, theirs: Floats) -> tuple[Floats, Floats]:
    """Of the mean over a query's rows; missing in a cell of its own."""
    gone = _cells(np.isnan(ours).astype(np.int64), np.isnan(theirs).astype(np.int64))
    known = theirs[~np.isnan(theirs)]
    if known.size < _LEAST or known.min() == known.max():
        return gone
    curves = hinges(ours, known, _BINS), hinges(theirs, known, _BINS)
    return np.hstack([gone[0], curves[0]]), np.hstack([gone[1], curves[1]])


def _both(now: pd.DataFrame, before: pd.DataFrame, column: str, name: str) -> tuple[Any, Any]:
    """A column of both periods, which the baseline must have."""
    ours, theirs = column_of(now, column), column_of(before, column)
    if ours is None or theirs is None:
        found = f"has no column {name!r}"
        raise DataError(Problem("the baseline", found, "what compare.adjust names", "leave it out there"))
    return ours, theirs
