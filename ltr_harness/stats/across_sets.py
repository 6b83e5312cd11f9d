"""Several data sets: differences averaged over them, tested within them, and which ranks models may have."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ltr_harness.stats.estimates import MeanEstimate
from ltr_harness.stats.moments import Floats
from ltr_harness.stats.resampling import SAME_SUM, flipped_sums, on_grid


def flips_within_p(parts: Sequence[Floats], weights: Sequence[float], *, draws: int, seed: int) -> Floats:
    """Sign flips of the weighted mean of several data sets' mean differences, each flipped within its set.

    The statistic is that mean over its standard error, sqrt(sum w**2 s**2 / n), both from the flipped differences: how
    far apart the data sets are is no chance. p = (#{|T*| >= |T|} + 1) / (draws + 1).

    Args:
        parts: for each data set (n_k, m) differences, or totals of units; NaN where undefined.
        weights: of the data sets.
        draws: random sign patterns.
        seed: of the draws; the same seed gives the same p.

    Returns:
        (m,) p; 1 where all differences are 0, NaN where a data set has fewer than two.

    Example:
        One sign in both data sets: 2 of 2**12 patterns are as extreme.

        >>> parts = [np.full((6, 1), 0.1) + np.arange(6)[:, None] / 100, np.full((6, 1), 0.3)]
        >>> bool(flips_within_p(parts, [0.5, 0.5], draws=10_000, seed=0)[0] < 0.002)
        True
    """
    m = parts[0].shape[1]
    mean, variance = np.zeros((draws + 1, m)), np.zeros((draws + 1, m))
    defined = np.ones(m, bool)
    for number, (values, weight) in enumerate(zip(parts, weights, strict=True)):
        grid, unit = on_grid(values)
        n = np.count_nonzero(~np.isnan(values), axis=0)
        defined &= n > 1
        count = np.maximum(n, 2)
        sums = np.concatenate([grid.sum(axis=0)[None], *flipped_sums(grid, draws, seed + number)]) * unit
        own = sums / count
        square = np.nansum(values**2, axis=0) / count
        mean += weight * own
        variance += weight**2 * np.maximum(square - own**2, 0.0) / (count - 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        t = np.abs(np.where(mean == 0, 0.0, mean / np.sqrt(variance)))
        # where no sign varies within any set both are infinite, and equal
        reached = (t[1:] >= t[0] * (1 - SAME_SUM)).sum(axis=0)
    return np.where(defined, (reached + 1) / (draws + 1), np.nan)


def spread_of_models(
    parts: Sequence[Floats], units: Sequence[NDArray[np.integer] | None], weights: Sequence[float]
) -> Floats:
    """(p, p): covariance of p models' weighted means over data sets, as other queries (or units) would have them.

    Args:
        parts: for each data set (n_k, p) values; rows with an undefined one are left out.
        units: for each data set (n_k,) codes of whom each query belongs to; None where each is its own.
        weights: of the data sets.
    """
    spread = np.zeros((parts[0].shape[1],) * 2)
    for values, codes, weight in zip(parts, units, weights, strict=True):
        whole = ~np.isnan(values).any(axis=1)
        kept = values[whole]
        if len(kept) < 2:
            continue
        off = (kept - kept.mean(axis=0)) / len(kept)
        if codes is not None:
            totals = np.zeros((int(codes.max()) + 1, off.shape[1]))
            np.add.at(totals, codes[whole], off)
            off = totals
        spread += weight**2 * (off.T @ off)
    return spread


def critical_of_pairs(
    covariance: Floats, freedom: float, confidence: float, *, draws: int, seed: int
) -> float:
    """How many standard errors no difference of two models' means is off by, all pairs at once.

    Args:
        covariance: (p, p) of the models' means.
        freedom: degrees of freedom of the errors.
        confidence: of all pairs together.
        draws: normal ones.
        seed: of the draws.
    """
    rng = np.random.default_rng(seed)
    drawn = rng.multivariate_normal(
        np.zeros(len(covariance)), covariance, size=draws, method="eigh", check_valid="ignore"
    )
    drawn /= np.sqrt(rng.chisquare(min(freedom, 1e9), size=(draws, 1)) / min(freedom, 1e9))
    one, other = np.triu_indices(len(covariance), 1)
    own = np.diag(covariance)
    error = np.sqrt(np.maximum(own[one] + own[other] - 2 * covariance[one, other], 0.0))
    differ = error > 1e-12 * np.sqrt(max(float(own.max()), 1e-300))
    if not differ.any():
        return 0.0
    largest = (np.abs(drawn[:, one[differ]] - drawn[:, other[differ]]) / error[differ]).max(axis=1)
    return float(np.quantile(largest, confidence))


def rank_intervals(
    pairs: dict[tuple[int, int], MeanEstimate], size: int, reach: float, adjusted: bool
) -> list[tuple[int, int]]:
    """First and last rank that each model may have, for all models at once; rank 1 has the largest mean.

    A model ranks below each one that is surely above it: whose difference has an interval above 0, where all pairs'
    intervals hold at once.

    Args:
        pairs: (i, j) with i < j to the difference of model i and model j.
        size: models.
        reach: of the intervals, from `critical_of_pairs`.
        adjusted: allow for skewness.

    Example:
        >>> one = {(0, 1): MeanEstimate(0.5, 0.1, 99, 0.0), (0, 2): MeanEstimate(0.4, 0.1, 99, 0.0),
        ...        (1, 2): MeanEstimate(-0.1, 0.1, 99, 0.0)}
        >>> rank_intervals(one, 3, 2.4, True)
        [(1, 1), (2, 3), (2, 3)]

    Source: M. Mogstad, J. Romano, A. Shaikh, D. Wilhelm, "Inference for ranks", Review of Economic Studies 91 (2024).
    """
    above, below = [0] * size, [0] * size
    for (one, other), estimate in pairs.items():
        low, high = estimate.within(reach, adjusted)
        if low > 0:
            above[other] += 1
            below[one] += 1
        elif high < 0:
            above[one] += 1
            below[other] += 1
    return [(1 + above[model], size - below[model]) for model in range(size)]
