"""How much do days differ by themselves? A random effect of windows, which no number of queries averages out.

Queries of one day share its weather, its campaigns and its outages. Then the mean of a day is off by more than its
queries' spread says, and a test that knows only queries calls every other day a change. The variance between
the windows of a quiet time is what a new window may differ by without anything being wrong.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from ltr_harness.stats.moments import Floats
from ltr_harness.stats.two_samples import Alternative, Codes, Estimate, Sample, one_sided

_LEAST_FREEDOM = 1.5  # of a variance between windows: from fewer nothing can be said


@dataclass(frozen=True)
class WindowVariance:
    """The variance between windows, beyond what their queries' spread makes of their means.

    Attributes:
        variance: of a window's effect; 0 where the windows differ no more than their queries do.
        mean_square: of the windows' means, which the estimate was made from: what it is uncertain by.
        freedom: degrees of freedom.
        n: windows.
    """

    variance: float
    mean_square: float
    freedom: float
    n: int


def variance_between(sample: Sample, windows: Codes) -> WindowVariance | None:
    """Of the windows of one sample, around the means of their strata; None where there are too few windows.

    With r the means of the windows' residuals, s**2 their sampling variances, n their queries and H the shares with
    which each window enters its own reference: variance = (sum n r**2 - sum n s**2 (1 - H)) / sum n (1 - 2 H +
    sum H**2), at least 0. It has as many degrees of freedom as there are windows more than strata.

    Shapes: `windows` (n,).

    Example:
        Four days of 100 queries, at .7, .8, .7, .8, whose queries are all alike.

        >>> days = np.repeat(np.arange(4), 100)
        >>> between = variance_between(Sample(np.array([0.7, 0.8, 0.7, 0.8])[days]), days)
        >>> round(between.variance, 6), between.freedom
        (0.003333, 3.0)

    Source: the method of moments for one-way random effects: S. Searle, G. Casella, C. McCulloch, Variance Components
        (1992).
    """
    strata = np.zeros(windows.size, dtype=np.int64) if sample.strata is None else sample.strata
    shape = int(windows.max(initial=0)) + 1, int(strata.max(initial=0)) + 1
    counts = (
        np.bincount(windows * shape[1] + strata, minlength=shape[0] * shape[1])
        .reshape(shape)
        .astype(np.float64)
    )
    n, size = counts.sum(axis=1), counts.sum(axis=0)
    total = np.bincount(strata, sample.values, minlength=size.size)
    residual = sample.values - (total / np.maximum(size, 1.0))[strata]
    mean, variance = _windows(residual, windows, sample.clusters, n.size)
    used = (n > 1) & ~np.isnan(variance)
    own = counts / np.maximum(n, 1.0)[:, np.newaxis]
    theirs = counts / np.maximum(size, 1.0)
    leverage = (own * theirs).sum(axis=1)
    squares = np.einsum("js,st,jt->j", own, theirs.T @ theirs, own)
    freedom = float((1 - leverage)[used].sum())
    scale = float((n * (1 - 2 * leverage + squares))[used].sum())
    if freedom < _LEAST_FREEDOM or scale <= 0:
        return None
    observed = float((n * mean**2)[used].sum())
    expected = float((n * variance * (1 - leverage))[used].sum())
    return WindowVariance(
        max(observed - expected, 0.0) / scale, observed / scale, freedom, int(np.count_nonzero(used))
    )


def variance_of_neighbours(sample: Sample, windows: Codes) -> WindowVariance | None:
    """The same from differences of neighbouring windows: a lasting change moves only one of them.

    For a time in which something may have happened, where no quiet one is known.

    Shapes: `windows` (n,).

    Source: J. von Neumann, Annals of Mathematical Statistics 12 (1941).
    """
    n = np.bincount(windows).astype(np.float64)
    mean, variance = _windows(sample.values, windows, sample.clusters, n.size)
    used = (n > 1) & ~np.isnan(variance)
    mean, variance = mean[used], variance[used]
    steps = np.diff(mean) ** 2 / 2
    freedom = 2 * steps.size / 3
    if freedom < _LEAST_FREEDOM:
        return None
    observed = float(steps.mean())
    expected = float((variance[1:] + variance[:-1]).mean() / 2)
    return WindowVariance(max(observed - expected, 0.0), observed, freedom, mean.size)


def widened(
    plain: Estimate,
    between: WindowVariance,
    share: float,
    alternative: Alternative = "change",
    confidence: float = 0.95,
) -> Estimate:
    """An estimate from queries, with the variance between windows in it.

    Returns:
        With degrees of freedom by Satterthwaite, at least those of the windows; as it was where nothing is known of its
        error.
    """
    if np.isnan(plain.error) or not share:
        return plain
    sampling = plain.error**2
    # never below what windows of the quiet time were seen to vary by: a variance of 0 was only estimated
    variance = max(sampling + share * between.variance, share * between.mean_square)
    if variance <= 0:
        return plain
    terms = (share * between.mean_square) ** 2 / between.freedom
    if plain.freedom > 0:
        terms += sampling**2 / plain.freedom
    freedom = variance**2 / terms if terms > 0 else plain.freedom
    error = float(np.sqrt(variance))
    reach = float(stdtrit(freedom, (1 + confidence) / 2)) * error
    p = float(one_sided(np.array(plain.value / error), np.array(freedom), alternative))
    return Estimate(
        plain.value, plain.value - reach, plain.value + reach, p, error, freedom, plain.n, plain.clusters
    )


def _windows(values: Floats, windows: Codes, clusters: Codes | None, size: int) -> tuple[Floats, Floats]:
    """Mean of each window and the variance of that mean; NaN for a single unit."""
    n = np.bincount(windows, minlength=size).astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.bincount(windows, values, minlength=size) / n
        off = values - mean[windows]
        if clusters is None:
            units, squares = n, np.bincount(windows, off**2, minlength=size)
        else:
            pair, of = np.unique(
                windows.astype(np.int64) * (int(clusters.max()) + 1) + clusters, return_inverse=True
            )
            sums, home = np.bincount(of, off), pair // (int(clusters.max()) + 1)
            units = np.bincount(home, minlength=size).astype(np.float64)
            squares = np.bincount(home, sums**2, minlength=size)
        return mean, np.where(units > 1, squares * units / (units - 1) / n**2, np.nan)
