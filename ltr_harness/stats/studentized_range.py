"""The distribution of the largest difference among k means, by which all pairs are judged at once."""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.special import gammainccinv, gammaincinv, gammaln, log_ndtr, ndtr

from ltr_harness.stats.moments import Floats

_FAR = 39.0  # the largest of the normals is never beyond, except with a probability below 1e-300


@cache
def _nodes(n: int) -> tuple[Floats, Floats]:
    """Places and weights of a sum; not at import, because eigenvalues start NumPy's threads."""
    return np.polynomial.legendre.leggauss(n)


def studentized_range_sf(q: Floats, k: int, freedom: float) -> Floats:
    """P(range of k standard normals / s >= q), with s**2 an independent chi-square over its `freedom`.

    Two nested Gauss-Legendre sums for all q at once. `scipy.stats.studentized_range` gives the same, one q
    at a time: with 40 rankers that is 780 adaptive integrals, and warnings where p is near 0 or 1.

    Args:
        q: (m,), >= 0.
        k: number of means, >= 2.
        freedom: > 0.

    Returns:
        (m,) in (0, 1].
    """
    lowest = np.sqrt(2 * gammaincinv(freedom / 2, 1e-18) / freedom)
    highest = np.sqrt(2 * gammainccinv(freedom / 2, 1e-18) / freedom)
    places, weights = _nodes(64)
    at = (places + 1) / 2
    s = lowest + (highest - lowest) * at**3  # denser near 0, where few degrees of freedom decide
    half = freedom / 2
    log_density = np.log(2) + half * np.log(half) - gammaln(half) + (freedom - 1) * np.log(s) - half * s**2
    weight = np.exp(log_density) * weights * (highest - lowest) * 1.5 * at**2
    p = np.zeros(np.shape(q))
    for share, value in zip(weight, s, strict=True):
        p += share * _range_sf(q * value, k)
    return np.clip(p, np.finfo(np.float64).tiny, 1.0)


def studentized_range_quantile(p: float, k: int, freedom: float) -> float:
    """The q that the studentised range exceeds with probability p, 0 < p < 1, to the last digits.

    Args:
        p: probability of a larger range.
        k: number of means.
        freedom: degrees of freedom of the standard deviation.
    """

    def above(q: float) -> float:
        return float(np.log(studentized_range_sf(np.array([q]), k, freedom)[0] / p))

    low, high = 0.0, 8.0
    while above(high) > 0:
        low, high = high, 2 * high
    at_low, at_high = above(low), above(high)
    # Regula falsi with the Illinois rule: the value of an end that stays twice is halved, so both ends close in.
    q, side = high, 0
    for _ in range(60):
        q = (low * at_high - high * at_low) / (at_high - at_low)
        value = above(q)
        if abs(value) < 1e-12:
            break
        if value > 0:
            low, at_low, at_high = q, value, at_high / 2 if side > 0 else at_high
        else:
            high, at_high, at_low = q, value, at_low / 2 if side < 0 else at_low
        side = 1 if value > 0 else -1
    return q


def _range_sf(w: Floats, k: int) -> Floats:
    """P(range of k standard normals >= w), over the largest one z, in a form that keeps small values' digits.

    The integrand is k phi(z) (Phi(z)**(k-1) - (Phi(z) - Phi(z - w))**(k-1)).
    """
    left, right = -9.0, _FAR
    places, weights = _nodes(320)
    z = left + (right - left) * (places + 1) / 2
    weight = k * np.exp(-(z**2) / 2 + (k - 1) * log_ndtr(z)) / np.sqrt(2 * np.pi)
    weight *= weights * (right - left) / 2
    share = ndtr(z - w[:, None]) / ndtr(z)  # of the others, below z - w
    with np.errstate(divide="ignore"):
        outside = -np.expm1((k - 1) * np.log1p(-np.minimum(share, 1.0)))
    total: Floats = outside @ weight
    return total
