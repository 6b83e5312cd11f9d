"""Do several groups of queries, such as those of the days of the week, have the same mean?"""

from __future__ import annotations

import numpy as np
from scipy.special import fdtrc

from ltr_harness.stats.moments import Floats
from ltr_harness.stats.two_samples import Codes


def welch_anova_p(values: Floats, groups: Codes, least: int = 2) -> float:
    """Welch's analysis of variance: the p-value of all groups having one mean, whatever their variances.

    With k groups, weights w = n / variance, W = sum w and the weighted mean m:
    F = sum w (mean - m)**2 / (k - 1) / (1 + 2 (k - 2) / (k**2 - 1) h), where h = sum (1 - w / W)**2 / (n - 1),
    with k - 1 and (k**2 - 1) / (3 h) degrees of freedom.

    Args:
        values: (n,), NaN left out.
        groups: (n,) codes >= 0.
        least: smaller groups are left out; 2 at least.

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
