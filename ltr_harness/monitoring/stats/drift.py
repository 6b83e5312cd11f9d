"""Drift of the distribution of a quantity, one value per query, and its size."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri, kolmogorov

from ltr_harness.comparison.stats.cluster_sums import Floats, UnitCodes

_FLOOR = 1e-4  # a share of 0 would make PSI infinite
_THRESHOLDS = 12


def bin_edges(baseline: Floats, bins: int) -> Floats:
    """Return the inner edges of bins that hold about equally many of the baseline's values; the outer bins are open."""
    values = baseline[~np.isnan(baseline)]
    if values.size == 0:
        return np.empty(0)
    return np.unique(np.quantile(values, np.arange(1, bins) / bins))


def bin_codes(values: Floats, edges: Floats) -> NDArray[np.int64]:
    """Return the bin of each value, 0 … len(edges); missing values have a bin of their own, the last."""
    codes = np.searchsorted(edges, values, side="right").astype(np.int64)
    codes[np.isnan(values)] = edges.size + 1
    return codes


def psi(now: Floats, before: Floats) -> float:
    """Return the population stability index of two sets of counts per bin: sum (p - q) ln(p / q)."""
    p, q = (np.maximum(counts / max(counts.sum(), 1.0), _FLOOR) for counts in (now, before))
    return float(((p - q) * np.log(p / q)).sum())


def effective_sample_size(codes: NDArray[np.int64], size: int, clusters: UnitCodes | None) -> float:
    """Return the effective number of independent codes: smaller where those of one cluster (a user) are alike.

    n over the design effect, the mean over all thresholds of var(share below it, by cluster) / var(share below it).

    Source: J. Rao, A. Scott, JASA 76 (1981).
    """
    if clusters is None:
        return float(codes.size)
    n = codes.size
    if size > _THRESHOLDS:  # a dozen tell as much as ten thousand categories would
        codes, size = codes * _THRESHOLDS // size, _THRESHOLDS
    cluster_sizes = np.bincount(clusters).astype(np.float64)
    n_clusters = int(np.count_nonzero(cluster_sizes))
    if n_clusters < 2:
        return float(n_clusters)
    design_effects = []
    for threshold in range(size - 1):
        below = np.bincount(clusters, codes <= threshold)  # per cluster
        share = below.sum() / n
        if 0 < share < 1:
            deviations = below - share * cluster_sizes
            design_effects.append(
                float(deviations @ deviations) * n_clusters / (n_clusters - 1) / (n * share * (1 - share))
            )
    return n / max(1.0, float(np.mean(design_effects))) if design_effects else float(n)


def psi_threshold(n: float, m: float, bins: int, alpha: float, floor: float = 0.1) -> float:
    """Return the PSI from which on there is drift; without drift PSI is about chi-square times (1/n + 1/m)."""
    if min(n, m) == 0 or bins < 2:
        return float("inf")
    return max(floor, float(chdtri(bins - 1, alpha)) * (1 / n + 1 / m))


def jensen_shannon(now: Floats, before: Floats) -> float:
    """Return the Jensen-Shannon divergence of two sets of counts, in bits: 0 the same, 1 nothing in common."""
    p, q = (counts / max(counts.sum(), 1.0) for counts in (now, before))
    middle = (p + q) / 2

    def divergence_from_middle(share: Floats) -> float:
        positive = share > 0
        return float((share[positive] * np.log2(share[positive] / middle[positive])).sum())

    return (divergence_from_middle(p) + divergence_from_middle(q)) / 2


def distances(
    now: Floats, before: Floats, shares: tuple[float, float] = (1, 1)
) -> tuple[float, float, float]:
    """Return the Kolmogorov-Smirnov distance, its asymptotic p and the Wasserstein distance of (n,) and (m,) values.

    NaN is left out. `shares` are the effective sizes of both samples over their sizes.
    """
    a, b = (np.sort(values[~np.isnan(values)]) for values in (now, before))
    if min(a.size, b.size) == 0:
        return float("nan"), float("nan"), float("nan")
    pooled = np.concatenate((a, b))
    pooled.sort(kind="stable")  # two sorted runs: a merge
    cdf_a, cdf_b = (np.searchsorted(x, pooled, side="right") / x.size for x in (a, b))
    cdf_distance = np.abs(cdf_a - cdf_b)
    n, m = a.size * shares[0], b.size * shares[1]
    effective_size = np.sqrt(n * m / (n + m))
    # infinities have no distance to their equals
    is_step = (pooled[1:] > pooled[:-1]) & (cdf_distance[:-1] > 0)
    wasserstein = float(cdf_distance[:-1][is_step] @ (pooled[1:][is_step] - pooled[:-1][is_step]))
    return float(cdf_distance.max()), float(kolmogorov(effective_size * cdf_distance.max())), wasserstein
