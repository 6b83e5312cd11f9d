"""Several samples: shares of groups, the variance between windows of a quiet time, and a correction over them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtrc

from ltr_harness.comparison.stats.cluster_sums import Floats, UnitCodes
from ltr_harness.comparison.stats.two_samples import Alternative, Estimate, Sample, estimate_of

_MIN_EXPECTED = 5.0  # in a cell, for chi-squared to hold


def sample_ratio_p(counts: NDArray[np.int64], shares: Floats) -> float:
    """Return the chi-squared p of counts, (k,), against expected shares; NaN without counts (A. Fabijan, KDD 2019)."""
    expected = counts.sum() * shares
    if not counts.sum():
        return float("nan")
    return float(chdtrc(counts.size - 1, ((counts - expected) ** 2 / expected).sum()))


def same_shares_p(groups: UnitCodes, places: UnitCodes) -> float:
    """Return the chi-squared p of equal shares of groups at all places, (n,) both; NaN below two large places."""
    table = np.zeros((int(places.max(initial=-1)) + 1, int(groups.max(initial=-1)) + 1))
    np.add.at(table, (places, groups), 1)
    shares = table.sum(axis=0) / max(table.sum(), 1)
    large = (table.sum(axis=1)[:, None] * shares >= _MIN_EXPECTED).all(axis=1)
    table = table[large]
    if len(table) < 2:
        return float("nan")
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    degrees_of_freedom = (table.shape[0] - 1) * (table.shape[1] - 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return float(chdtrc(degrees_of_freedom, np.nansum((table - expected) ** 2 / expected)))


_MIN_DF = 1.5  # of a variance between windows: from fewer nothing can be said


@dataclass(frozen=True)
class WindowVariance:
    """The variance between windows, beyond what their queries' spread makes of their means."""

    variance: float  # of a window's effect; 0 where the windows differ no more than their queries do
    mean_square: float  # of the windows' means, of which the estimate was made: its uncertainty goes by it
    df: float  # degrees of freedom
    n: int  # windows


def between_window_variance(sample: Sample, windows: UnitCodes) -> WindowVariance | None:
    """Estimate the variance of windows' means about their strata's (one-way random effects, by moments).

    None where there are too few windows.
    """
    strata = np.zeros(windows.size, dtype=np.int64) if sample.strata is None else sample.strata
    shape = int(windows.max(initial=0)) + 1, int(strata.max(initial=0)) + 1
    of_cell = np.bincount(windows * shape[1] + strata, minlength=shape[0] * shape[1])
    counts = of_cell.reshape(shape).astype(np.float64)
    n, size = counts.sum(axis=1), counts.sum(axis=0)
    total = np.bincount(strata, sample.values, minlength=size.size)
    residual = sample.values - (total / np.maximum(size, 1.0))[strata]
    mean, variance = _window_means(residual, windows, sample.clusters, n.size)
    is_used = (n > 1) & ~np.isnan(variance)
    stratum_shares = counts / np.maximum(n, 1.0)[:, np.newaxis]
    window_shares = counts / np.maximum(size, 1.0)
    leverage = (stratum_shares * window_shares).sum(axis=1)
    squares = np.einsum("js,st,jt->j", stratum_shares, window_shares.T @ window_shares, stratum_shares)
    degrees_of_freedom = float((1 - leverage)[is_used].sum())
    scale = float((n * (1 - 2 * leverage + squares))[is_used].sum())
    if degrees_of_freedom < _MIN_DF or scale <= 0:
        return None
    observed = float((n * mean**2)[is_used].sum())
    expected = float((n * variance * (1 - leverage))[is_used].sum())
    return WindowVariance(
        max(observed - expected, 0.0) / scale,
        observed / scale,
        degrees_of_freedom,
        int(np.count_nonzero(is_used)),
    )


def variance_of_neighbours(sample: Sample, windows: UnitCodes) -> WindowVariance | None:
    """Estimate the same from differences of neighbours (von Neumann 1941), of which a lasting change moves one."""
    n = np.bincount(windows).astype(np.float64)
    mean, variance = _window_means(sample.values, windows, sample.clusters, n.size)
    is_used = (n > 1) & ~np.isnan(variance)
    mean, variance = mean[is_used], variance[is_used]
    steps = np.diff(mean) ** 2 / 2
    degrees_of_freedom = 2 * steps.size / 3
    if degrees_of_freedom < _MIN_DF:
        return None
    observed = float(steps.mean())
    expected = float((variance[1:] + variance[:-1]).mean() / 2)
    return WindowVariance(max(observed - expected, 0.0), observed, degrees_of_freedom, mean.size)


def widen(
    estimate: Estimate,
    window_variance: WindowVariance,
    share: float,
    alternative: Alternative = "change",
    confidence: float = 0.95,
) -> Estimate:
    """Add the variance between windows to an estimate from queries; leave it as it is where its error is unknown."""
    if np.isnan(estimate.error) or not share:
        return estimate
    sampling = estimate.error**2
    # never below what windows of the quiet time were seen to vary by: a variance of 0 was only estimated
    variance = max(sampling + share * window_variance.variance, share * window_variance.mean_square)
    if variance <= 0:
        return estimate
    terms = (share * window_variance.mean_square) ** 2 / window_variance.df
    if estimate.df > 0:
        terms += sampling**2 / estimate.df
    degrees_of_freedom = variance**2 / terms if terms > 0 else estimate.df
    return estimate_of(estimate.value, variance, degrees_of_freedom, alternative, confidence, estimate.n)


def _window_means(
    values: Floats, windows: UnitCodes, clusters: UnitCodes | None, size: int
) -> tuple[Floats, Floats]:
    """Return the mean of each window, and the variance of that mean; NaN for a single unit."""
    n = np.bincount(windows, minlength=size).astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.bincount(windows, values, minlength=size) / n
        deviations = values - mean[windows]
        if clusters is None:
            units, squares = n, np.bincount(windows, deviations**2, minlength=size)
        else:
            n_clusters = int(clusters.max()) + 1
            pairs, pair_codes = np.unique(
                windows.astype(np.int64) * n_clusters + clusters, return_inverse=True
            )
            sums, window_of_pair = np.bincount(pair_codes, deviations), pairs // n_clusters
            units = np.bincount(window_of_pair, minlength=size).astype(np.float64)
            squares = np.bincount(window_of_pair, sums**2, minlength=size)
        return mean, np.where(units > 1, squares * units / (units - 1) / n**2, np.nan)


def bonferroni(p: ArrayLike) -> Floats:
    """Multiply p-values, (m,), by the size of their family; NaN is no hypothesis: it stays NaN and is not counted."""
    values = np.array(p, dtype=np.float64)
    return np.minimum(values * np.count_nonzero(~np.isnan(values)), 1.0)
