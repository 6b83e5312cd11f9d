"""Has the distribution of a quantity, one value per query, moved, and by how much?"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri, kolmogorov

from ltr_harness.comparison.stats.cluster_sums import Floats, UnitCodes

_FLOOR = 1e-4  # a share of 0 would make PSI infinite
_THRESHOLDS = 12


def bin_edges(baseline: Floats, bins: int) -> Floats:
    """Inner edges of bins that hold about equally many of the baseline's values; both outer bins are open."""
    known = baseline[~np.isnan(baseline)]
    if known.size == 0:
        return np.empty(0)
    return np.unique(np.quantile(known, np.arange(1, bins) / bins))


def binned(values: Floats, edges: Floats) -> NDArray[np.int64]:
    """Bin of each value, 0 … len(edges); a missing value has a bin of its own, the last."""
    codes = np.searchsorted(edges, values, side="right").astype(np.int64)
    codes[np.isnan(values)] = edges.size + 1
    return codes


def psi(one: Floats, other: Floats) -> float:
    """Population stability index of two sets of counts per bin: sum (p - q) ln(p / q)."""
    p, q = (np.maximum(counts / max(counts.sum(), 1.0), _FLOOR) for counts in (one, other))
    return float(((p - q) * np.log(p / q)).sum())


def worth(codes: NDArray[np.int64], size: int, clusters: UnitCodes | None) -> float:
    """How many independent values these are worth: fewer where those of one cluster (a user) are alike.

    n over the design effect, the mean over all thresholds of var(share below it, by cluster) / var(share below it).

    Source: J. Rao, A. Scott, JASA 76 (1981).
    """
    if clusters is None:
        return float(codes.size)
    n = codes.size
    if size > _THRESHOLDS:  # a dozen tell as much as ten thousand categories would
        codes, size = codes * _THRESHOLDS // size, _THRESHOLDS
    own = np.bincount(clusters).astype(np.float64)
    many = int(np.count_nonzero(own))
    if many < 2:
        return float(many)
    effects = []
    for threshold in range(size - 1):
        below = np.bincount(clusters, codes <= threshold)  # per cluster
        share = below.sum() / n
        if 0 < share < 1:
            off = below - share * own
            effects.append(float(off @ off) * many / (many - 1) / (n * share * (1 - share)))
    return n / max(1.0, float(np.mean(effects))) if effects else float(n)


def psi_threshold(n: float, m: float, bins: int, alpha: float, floor: float = 0.1) -> float:
    """From which PSI on there is drift; without it PSI is about chi-square times (1/n + 1/m)."""
    if min(n, m) == 0 or bins < 2:
        return float("inf")
    return max(floor, float(chdtri(bins - 1, alpha)) * (1 / n + 1 / m))


def jensen_shannon(one: Floats, other: Floats) -> float:
    """Jensen-Shannon divergence of two sets of counts, in bits: 0 the same, 1 nothing in common."""
    p, q = (counts / max(counts.sum(), 1.0) for counts in (one, other))
    middle = (p + q) / 2

    def relative(share: Floats) -> float:
        some = share > 0
        return float((share[some] * np.log2(share[some] / middle[some])).sum())

    return (relative(p) + relative(q)) / 2


def distances(one: Floats, other: Floats, shares: tuple[float, float] = (1, 1)) -> tuple[float, float, float]:
    """Kolmogorov-Smirnov distance of (n,) and (m,) values, its asymptotic p, and Wasserstein distance; NaN left out."""
    a, b = (np.sort(values[~np.isnan(values)]) for values in (one, other))
    if min(a.size, b.size) == 0:
        return float("nan"), float("nan"), float("nan")
    everywhere = np.concatenate((a, b))
    everywhere.sort(kind="stable")  # two sorted runs: a merge
    below_a, below_b = (np.searchsorted(x, everywhere, side="right") / x.size for x in (a, b))
    apart = np.abs(below_a - below_b)
    n, m = a.size * shares[0], b.size * shares[1]
    effective = np.sqrt(n * m / (n + m))
    # infinities have no distance to their equals
    steps = (everywhere[1:] > everywhere[:-1]) & (apart[:-1] > 0)
    carried = float(apart[:-1][steps] @ (everywhere[1:][steps] - everywhere[:-1][steps]))
    return float(apart.max()), float(kolmogorov(effective * apart.max())), carried
