"""Several samples: shares of groups, the variance between windows of a quiet time, and a correction over them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtrc

from ltr_harness.comparison.stats.cluster_sums import Floats, UnitCodes
from ltr_harness.comparison.stats.two_samples import Alternative, Estimate, Sample, estimate_of

_EXPECTED = 5.0  # in a cell, for chi-squared to hold


def sample_ratio_p(counts: NDArray[np.int64], shares: Floats) -> float:
    """Chi-squared p of (k,) counts against their expected shares; NaN without counts (A. Fabijan et al., KDD 2019)."""
    expected = counts.sum() * shares
    if not counts.sum():
        return float("nan")
    return float(chdtrc(counts.size - 1, ((counts - expected) ** 2 / expected).sum()))


def same_shares_p(groups: UnitCodes, places: UnitCodes) -> float:
    """Chi-squared p of groups (n,) having the same shares at all places (n,); NaN below two large enough places."""
    table = np.zeros((int(places.max(initial=-1)) + 1, int(groups.max(initial=-1)) + 1))
    np.add.at(table, (places, groups), 1)
    shares = table.sum(axis=0) / max(table.sum(), 1)
    large = (table.sum(axis=1)[:, None] * shares >= _EXPECTED).all(axis=1)
    table = table[large]
    if len(table) < 2:
        return float("nan")
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    freedom = (table.shape[0] - 1) * (table.shape[1] - 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return float(chdtrc(freedom, np.nansum((table - expected) ** 2 / expected)))


_LEAST_FREEDOM = 1.5  # of a variance between windows: from fewer nothing can be said


@dataclass(frozen=True)
class WindowVariance:
    """The variance between windows, beyond what their queries' spread makes of their means."""

    variance: float  # of a window's effect; 0 where the windows differ no more than their queries do
    mean_square: float  # of the windows' means, which the estimate was made from: what it is uncertain by
    freedom: float
    n: int  # windows


def variance_between(sample: Sample, windows: UnitCodes) -> WindowVariance | None:
    """Of windows about the means of their strata (one-way random effects, by moments); None where there are too few."""
    strata = np.zeros(windows.size, dtype=np.int64) if sample.strata is None else sample.strata
    shape = int(windows.max(initial=0)) + 1, int(strata.max(initial=0)) + 1
    of_cell = np.bincount(windows * shape[1] + strata, minlength=shape[0] * shape[1])
    counts = of_cell.reshape(shape).astype(np.float64)
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


def variance_of_neighbours(sample: Sample, windows: UnitCodes) -> WindowVariance | None:
    """The same from differences of neighbours (von Neumann 1941), of which a lasting change moves one."""
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
    """An estimate from queries with the variance between windows in it; as it was where its error is unknown."""
    if np.isnan(plain.error) or not share:
        return plain
    sampling = plain.error**2
    # never below what windows of the quiet time were seen to vary by: a variance of 0 was only estimated
    variance = max(sampling + share * between.variance, share * between.mean_square)
    if variance <= 0:
        return plain
    terms = (share * between.mean_square) ** 2 / between.freedom
    if plain.df > 0:
        terms += sampling**2 / plain.df
    freedom = variance**2 / terms if terms > 0 else plain.df
    return estimate_of(plain.value, variance, freedom, alternative, confidence, plain.n)


def _windows(
    values: Floats, windows: UnitCodes, clusters: UnitCodes | None, size: int
) -> tuple[Floats, Floats]:
    """Mean of each window and the variance of that mean; NaN for a single unit."""
    n = np.bincount(windows, minlength=size).astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.bincount(windows, values, minlength=size) / n
        off = values - mean[windows]
        if clusters is None:
            units, squares = n, np.bincount(windows, off**2, minlength=size)
        else:
            many = int(clusters.max()) + 1
            pair, of = np.unique(windows.astype(np.int64) * many + clusters, return_inverse=True)
            sums, home = np.bincount(of, off), pair // many
            units = np.bincount(home, minlength=size).astype(np.float64)
            squares = np.bincount(home, sums**2, minlength=size)
        return mean, np.where(units > 1, squares * units / (units - 1) / n**2, np.nan)


def bonferroni(p: ArrayLike) -> Floats:
    """Each (m,) p times the size of the family; a p-value of NaN is no hypothesis: it stays NaN and is not counted."""
    values = np.array(p, dtype=np.float64)
    return np.minimum(values * np.count_nonzero(~np.isnan(values)), 1.0)
