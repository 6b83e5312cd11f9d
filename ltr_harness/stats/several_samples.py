"""Several groups: do queries of several days have one mean, do arms of an experiment have the shares they should?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc, fdtrc

from ltr_harness.stats.moments import Floats
from ltr_harness.stats.two_samples import Codes


def welch_anova_p(values: Floats, groups: Codes, least: int = 2) -> float:
    """Welch's analysis of variance: the p-value of all groups having one mean, whatever their variances.

    With k groups, weights w = n / variance, W = sum w and the weighted mean m:
    F = sum w (mean - m)**2 / (k - 1) / (1 + 2 (k - 2) / (k**2 - 1) h), where h = sum (1 - w / W)**2 / (n - 1),
    with k - 1 and (k**2 - 1) / (3 h) degrees of freedom.

    Shapes: `values` (n,), `groups` (n,).

    Returns:
        NaN for fewer than two groups, or where a group's values are all equal.

    Example:
        >>> welch_anova_p(np.array([1.0, 2, 3, 11, 12, 13]), np.array([0, 0, 0, 1, 1, 1])) < 0.001
        True

    Source: B. Welch, Biometrika 38 (1951).
    """
    known = ~np.isnan(values)
    values, groups = values[known], groups[known]
    n = np.bincount(groups).astype(np.float64)
    total = np.bincount(groups, values)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = total / n
        variance = np.bincount(groups, (values - mean[groups]) ** 2) / (n - 1)
    used = n >= max(least, 2)
    n, mean, variance, k = n[used], mean[used], variance[used], int(used.sum())
    if k < 2 or not (variance > 0).all():
        return float("nan")
    weight = n / variance
    centre = (weight * mean).sum() / weight.sum()
    h = ((1 - weight / weight.sum()) ** 2 / (n - 1)).sum()
    f = (weight * (mean - centre) ** 2).sum() / (k - 1) / (1 + 2 * (k - 2) / (k**2 - 1) * h)
    return float(fdtrc(k - 1, (k**2 - 1) / (3 * h), f))


_EXPECTED = 5.0  # in a cell, for chi-squared to hold


def sample_ratio_p(counts: NDArray[np.int64], shares: Floats) -> float:
    """Chi-squared: how often chance alone takes counts as far from their expected shares.

    Shapes: `counts` (k,), `shares` (k,).

    Returns:
        NaN without counts.

    Example:
        >>> round(sample_ratio_p(np.array([4850, 5150]), np.array([0.5, 0.5])), 4)
        0.0027

    Source: A. Fabijan et al., "Diagnosing sample ratio mismatch in online controlled experiments", KDD 2019.
    """
    expected = counts.sum() * shares
    if not counts.sum():
        return float("nan")
    return float(chdtrc(counts.size - 1, ((counts - expected) ** 2 / expected).sum()))


def same_shares_p(groups: Codes, places: Codes) -> float:
    """Chi-squared: whether groups have the same shares at all places, such as arms in all windows.

    Shapes: `groups` (n,), `places` (n,).

    Returns:
        NaN where fewer than two places are large enough.

    Example:
        >>> same_shares_p(np.repeat([0, 1, 0, 1], [50, 50, 20, 80]), np.repeat([0, 1], 100)) < 0.001
        True
    """
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
