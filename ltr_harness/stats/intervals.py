"""Where the mean over all queries of this kind lies, given the queries we have."""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy.special import ndtr, ndtri, stdtrit

from ltr_harness.stats.moments import Floats, moments
from ltr_harness.stats.resampling import bootstrap_means
from ltr_harness.stats.skewness import unhall


def t_interval(values: Floats, confidence: float = 0.95) -> tuple[Floats, Floats]:
    """The usual interval of a mean: mean +- t sd / sqrt(n), over the defined queries of each column.

    Holds its confidence for a few dozen queries unless the values are very lopsided (most of them 0, say):
    then it is too narrow, and on the wrong side.

    Args:
        values: (n,) or (n, m) per-query values or differences; NaN where undefined.

    Returns:
        Lower and upper ends, shape () or (m,), in the metric's unit; NaN for fewer than two values.

    Example:
        >>> low, high = t_interval(np.array([1.0, 2.0, 3.0]))
        >>> round(float(low), 4), round(float(high), 4)
        (-0.4841, 4.4841)
    """
    sample = moments(values)
    with np.errstate(invalid="ignore"):
        quantile = stdtrit(np.maximum(sample.n - 1, 1).astype(np.float64), (1 + confidence) / 2)
        reach = quantile * sample.standard_error
    return sample.mean - reach, sample.mean + reach


def skew_adjusted_t_interval(values: Floats, confidence: float = 0.95) -> tuple[Floats, Floats]:
    """An interval of a mean that reaches further to the side where a few values lie far off: Hall's.

    Of all means m whose t = (mean - m) / (sd / sqrt(n)), turned by `skewness.hall`, lies within the quantiles of
    Student's t. It is the t interval where values are symmetric. With 20 to 50 queries whose metric is mostly 0,
    or mostly 1, the t interval covers 88 to 94 % instead of 95, and this one 95 to 97.

    Args:
        values: (n,) or (n, m) per-query values; NaN where undefined.
        confidence: of the interval.

    Returns:
        Lower and upper ends, shape () or (m,); NaN for fewer than two values.

    Example:
        >>> low, high = skew_adjusted_t_interval(np.array([1.0, 2.0, 3.0]))
        >>> round(float(low), 4), round(float(high), 4)
        (-0.4841, 4.4841)

    Source: P. Hall, "On the removal of skewness by transformation", JRSS B 54 (1992).
    """
    sample = moments(values)
    with np.errstate(invalid="ignore"):
        freedom = np.maximum(sample.n - 1, 1).astype(np.float64)
        quantile: Floats = np.asarray(stdtrit(freedom, (1 + confidence) / 2), dtype=np.float64)
        lean: Floats = np.asarray(sample.skewness / np.sqrt(np.maximum(sample.n, 1)), dtype=np.float64)
    error = sample.standard_error
    return sample.mean - unhall(quantile, lean) * error, sample.mean - unhall(-quantile, lean) * error


def bootstrap_interval(
    values: Floats,
    confidence: float = 0.95,
    *,
    method: Literal["bca", "percentile"] = "bca",
    draws: int = 10_000,
    seed: int = 0,
) -> tuple[Floats, Floats]:
    """An interval from resampling the queries, which may be lopsided where the values are.

    With 20 queries it covers 88 to 93 % instead of 95, for symmetric values too: resamples spread less than
    samples do, and neither method makes up for it as t's quantile does. From 100 queries on it does not matter.

    ``percentile`` takes the middle share of the resampled means. ``bca`` (bias-corrected and accelerated)
    moves its two ends by z0, how far the resamples' median is from the mean, and by the acceleration
    a = sum(l**3) / (6 sum(l**2)**1.5) with l the deviations from the mean, the jackknife's value for a mean.

    Args:
        values: (n,) or (n, m); NaN where undefined.
        confidence: of the interval.
        method: see above.
        draws: number of resamples.
        seed: of the resamples; the same seed gives the same interval.

    Returns:
        Lower and upper ends, shape () or (m,); NaN for fewer than two values.

    Source: B. Efron, "Better bootstrap confidence intervals", JASA 82 (1987).
    """
    columns = values.reshape(len(values), -1)
    sample = moments(columns)
    means = bootstrap_means(columns, draws, seed)
    below, above = (1 - confidence) / 2, (1 + confidence) / 2
    ends = np.full((2, columns.shape[1]), np.nan)
    for j in np.flatnonzero(sample.n > 1):
        share_low, share_high = below, above
        if method == "bca":
            # A resampled mean equal to the mean counts half; a share of 0 or 1 would have no quantile.
            under = np.mean(means[:, j] < sample.mean[j]) / 2 + np.mean(means[:, j] <= sample.mean[j]) / 2
            z0 = ndtri(np.clip(under, 0.5 / draws, 1 - 0.5 / draws))
            acceleration = sample.skewness[j] / (6 * np.sqrt(sample.n[j]))
            share_low, share_high = (
                ndtr(z0 + (z0 + z) / (1 - acceleration * (z0 + z))) for z in (ndtri(below), ndtri(above))
            )
        ends[:, j] = np.quantile(means[:, j], [share_low, share_high])
    low, high = ends.reshape(2, *values.shape[1:])
    return low, high
