"""Values less what is known beforehand of their queries: the same difference, with less of the queries' chance in it.

What a baseline's queries have to do with their values is learned there alone. Then a change in production moves no
slope, and a query's own value never predicts itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ltr_harness.stats.between_windows import variance_between
from ltr_harness.stats.drift import bin_edges
from ltr_harness.stats.moments import Floats
from ltr_harness.stats.two_samples import Codes, Sample

_SMALLEST = 1e-8  # relative size of a direction in which covariates do not differ


@dataclass(frozen=True, eq=False)
class Regression:
    """Least squares of values on covariates that are centred at their means.

    Attributes:
        slopes: float64 (p,), 0 in directions in which the covariates do not differ.
        precision: float64 (p, p), inverse of the covariates' covariance.
        mean: of the values.
        residuals: float64 (n,), with the spread that new values would have around the true slopes: widened by
            sqrt(n / (n - p)).
    """

    slopes: Floats
    precision: Floats
    mean: float
    residuals: Floats

    @classmethod
    def of(cls, values: Floats, covariates: Floats) -> Regression:
        """The fit.

        Shapes: `values` (n,), `covariates` (n, p).

        Example:
            >>> x = np.array([[-1.0], [0.0], [0.0], [1.0]])
            >>> fit = Regression.of(np.array([0.2, 0.5, 0.5, 0.8]), x)
            >>> round(float(fit.slopes[0]), 6), round(fit.mean, 6)
            (0.3, 0.5)
        """
        n, mean = values.size, float(values.mean())
        x = covariates - covariates.mean(axis=0)
        precision = np.linalg.pinv(x.T @ x / n, rcond=_SMALLEST, hermitian=True)
        slopes = precision @ (x.T @ (values - mean) / n)
        rank = int(np.linalg.matrix_rank(precision)) if precision.size else 0
        widening = np.sqrt(n / max(n - 1 - rank, 1))
        return cls(slopes, precision, mean, (values - mean - x @ slopes) * widening)


@dataclass(frozen=True, eq=False)
class KeyEffects:
    """What values of one key (a query's text) have in common, as far as a baseline tells.

    Attributes:
        effects: float64 (n_keys,), each key's mean beyond the overall one, shrunk by how much keys differ; 0 of
            unknown keys.
        of_others: float64 (n,), for each of the baseline's values the effect as its key's other values tell it.
        noise: float64 (n_keys,), variance of the effects' estimates.
    """

    effects: Floats
    of_others: Floats
    noise: Floats

    @classmethod
    def of(cls, values: Floats, keys: Codes, size: int) -> KeyEffects:
        """Best linear predictions.

        Shapes: `values` (n,), `keys` (n,).

        Example:
            Keys that differ, and whose values do not: each is believed at once. The fourth is unknown.

            >>> values = np.array([0.2, 0.2, 0.5, 0.5, 0.8, 0.8])
            >>> fit = KeyEffects.of(values, np.array([0, 0, 1, 1, 2, 2]), 4)
            >>> (fit.effects + 0.5).round(3).tolist(), (fit.of_others + 0.5).round(3).tolist()[:2]
            ([0.2, 0.5, 0.8, 0.5], [0.2, 0.2])
        """
        off = values - values.mean()
        n = np.bincount(keys, minlength=size).astype(np.float64)
        total = np.bincount(keys, off, minlength=size)
        # codes without gaps, as they are windows to the estimator of variances
        between = variance_between(Sample(values), np.unique(keys, return_inverse=True)[1])
        spread = 0.0 if between is None else between.variance
        if spread <= 0:
            return cls(np.zeros(size), np.zeros(values.size), np.zeros(size))
        freedom = max(float((n[n > 0] - 1).sum()), 1.0)
        means = total / np.maximum(n, 1)
        within = float(((off - means[keys]) ** 2).sum()) / freedom
        ratio = within / spread
        others = (total[keys] - off) / np.maximum(n[keys] - 1 + ratio, 1e-12)
        weight = n / np.maximum(n + ratio, 1e-12)
        return cls(weight * means, others, weight**2 * within / np.maximum(n, 1))


def dummies(codes: Codes, kept: Codes, shares: Floats) -> Floats:
    """Columns of 1 and 0, less the baseline's shares; cells that are not kept are as the baseline is on average.

    Shapes: `codes` (n,), `kept` (p,), `shares` (p,).

    Returns:
        float64 (n, p).
    """
    columns: Floats = (codes[:, np.newaxis] == kept).astype(np.float64)
    known = columns.any(axis=1)
    columns[known] -= shares
    return columns


def hinges(values: Floats, reference: Floats, bins: int) -> Floats:
    """Columns whose sums are the lines that break at the reference's quantiles, less the reference's means.

    Shapes: `values` (n,), `reference` (m,).

    Returns:
        float64 (n, 1 + breaks).
    """
    breaks = bin_edges(reference, bins)
    scale = reference.max() - reference.min()

    def lines(x: Floats) -> Floats:
        return np.asarray(np.maximum(x[:, np.newaxis] - np.append(reference.min(), breaks), 0) / scale)

    inside = (values >= reference.min()) & (values <= reference.max())  # NaN is not
    columns = np.zeros((values.size, 1 + breaks.size))
    columns[inside] = lines(values[inside]) - lines(reference).mean(axis=0)
    return columns
