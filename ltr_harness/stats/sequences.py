"""Tests that may be looked at as often as one likes: p-values that hold at all times at once."""

import numpy as np
from scipy.special import lambertw

from ltr_harness.stats.contributions import Floats
from ltr_harness.stats.two_samples import Alternative


def always_valid_p(
    z: Floats, information: Floats, tightest: float, alpha: float = 0.05, alternative: Alternative = "drop"
) -> Floats:
    """p-values of a growing mean: at most a share alpha of healthy series ever has one at or below alpha.

    The normal mixture of Robbins, for sums of independent parts whose variance is known or well estimated.

    Source: H. Robbins, Annals of Mathematical Statistics 41 (1970); I. Waudby-Smith, D. Arbour, R. Sinha, E. Kennedy,
        A. Ramdas, Annals of Statistics 52 (2024) for estimated variances.
    """
    r = _information(information, tightest, 2 * alpha if alternative != "change" else alpha)
    both = np.sqrt(1 + r) * np.exp(-(z**2) * r / (2 * (1 + r)))
    if alternative == "change":
        return np.asarray(np.minimum(both, 1.0))
    asked = z < 0 if alternative == "drop" else z > 0
    return np.asarray(np.where(asked, np.minimum(both / 2, 1.0), 1.0))


def always_valid_reach(information: Floats, tightest: float, alpha: float = 0.05) -> Floats:
    """Standard errors by which intervals around a growing mean reach, so that all of them hold together."""
    r = _information(information, tightest, alpha)
    return np.asarray(np.sqrt(2 * (1 + r) / r * np.log(np.sqrt(1 + r) / alpha)))


def _information(information: Floats, tightest: float, level: float) -> Floats:
    """In units of the mixture's variance, such that the boundary is lowest at `tightest`."""
    return np.asarray(information / tightest * float(-lambertw(-(level**2) / np.e, -1).real - 1))
