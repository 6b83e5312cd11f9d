"""Which of many rankers differ, all pairs at once: Tukey's test with queries as blocks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ltr_harness.stats.moments import Floats
from ltr_harness.stats.studentized_range import studentized_range_quantile, studentized_range_sf


@dataclass(frozen=True, eq=False)
class BlockedTukey:
    """All pairs of k rankers; entry [i, j] is about ``i - j``.

    Attributes:
        difference: (k, k), differences of means.
        p: (k, k), corrected over all pairs; NaN on the diagonal.
        low, high: (k, k), simultaneous intervals of the differences; NaN on the diagonal.
        n_queries: the queries used: those defined for every ranker.
        n_dropped: the others.
    """

    difference: Floats
    p: Floats
    low: Floats
    high: Floats
    n_queries: int
    n_dropped: int


def blocked_tukey(values: Floats, confidence: float = 0.95) -> BlockedTukey:
    """Tukey's honestly significant difference on the two-way layout queries x rankers.

    Queries differ far more than rankers do. The one-way test counts that difference as noise and sees nothing
    (p = .857 where this one has .0012); taking each query as a block removes it first:
    MSE = sum((x_ij - query mean_i - ranker mean_j + mean)**2) / ((n - 1)(k - 1)) and
    q = |mean_i - mean_j| / sqrt(MSE / n), referred to the studentised range of k means.

    Args:
        values: (n_queries, k >= 2); a query with a NaN anywhere is dropped and counted, blocks must be whole.

    Returns:
        Matrices over all pairs; p and intervals are NaN with fewer than two whole queries.

    Source: B. Carterette, "Multiple testing in statistical analysis of systems-based information retrieval
    experiments", TOIS 30 (2012).
    """
    whole = values[~np.isnan(values).any(axis=1)]
    n, k = whole.shape
    means = whole.mean(axis=0) if n else np.full(k, np.nan)
    difference = means[:, None] - means[None, :]
    p = np.full((k, k), np.nan)
    low, high = p.copy(), p.copy()
    freedom = (n - 1) * (k - 1)
    if freedom > 0:
        residual = whole - whole.mean(axis=1, keepdims=True) - means + means.mean()
        error = np.sqrt((residual**2).sum() / freedom / n)
        if error <= 1e-12 * np.abs(whole).max():
            error = 0.0  # the rankers differ by constants; what is left is rounding
        pairs = np.triu_indices(k, 1)
        with np.errstate(invalid="ignore", divide="ignore"):
            q = np.where(difference[pairs] == 0, 0.0, np.abs(difference[pairs]) / error)
        p[pairs] = studentized_range_sf(q, k, freedom)
        p.T[pairs] = p[pairs]
        reach = studentized_range_quantile(1 - confidence, k, freedom) * error
        apart = ~np.eye(k, dtype=bool)
        low[apart] = (difference - reach)[apart]
        high[apart] = (difference + reach)[apart]
    return BlockedTukey(difference, p, low, high, n, len(values) - n)
