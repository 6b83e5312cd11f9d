"""Paired per-query differences: what is a tie, who wins, and how large is it free of the unit."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr

from ltr_harness.stats.moments import Floats, moments

TIE = 1e-9  # metric values this close are equal: 1/3 + 1/3 must not lose to 2/3
SMALLEST_P = float(np.finfo(np.float64).tiny)  # a p-value of 0 claims more than any sample can


def paired_differences(one: Floats, other: Floats, tolerance: float = TIE) -> Floats:
    """``one - other`` per query, with exactly 0 where they differ by no more than the tolerance.

    Rounding noise would otherwise be tested as if it were a result: two models that rank alike would differ
    in the 17th digit and could do so "significantly".

    Shapes: `one` (n,), `other` (n,).
    """
    d: Floats = one - other
    return np.where(np.abs(d) <= tolerance, 0.0, d)


def sign_test_p(d: Floats, *, tolerance: float = TIE) -> Floats:
    """Sign test: would a fair coin give so uneven a number of wins and losses? Exact binomial, ties left out.

    Returns:
        p in (0, 1]; 1 where all are ties, NaN where no difference is defined.
    """
    wins, ties, losses = win_tie_loss(d, tolerance)
    decided = wins + losses
    fewer = np.minimum(wins, losses)
    p = np.clip(2 * bdtr(fewer.astype(np.float64), np.maximum(decided, 1), 0.5), SMALLEST_P, 1.0)
    return np.where(decided > 0, p, np.where(ties > 0, 1.0, np.nan))


def win_tie_loss(
    d: Floats, tolerance: float = TIE
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """How many differences are above, within and below the tolerance; undefined ones are in none.

    Example:
        >>> tuple(int(count) for count in win_tie_loss(np.array([0.5, 0.0, 1e-12, -0.1, np.nan])))
        (1, 2, 1)
    """
    wins, losses = d > tolerance, d < -tolerance
    ties = np.abs(d) <= tolerance
    return tuple(np.asarray(part.sum(axis=0), dtype=np.int64) for part in (wins, ties, losses))  # type: ignore[return-value]


def effect_size(d: Floats) -> Floats:
    """d_z = mean / sd of the differences: how large, free of the metric's unit and of n.

    With thousands of queries nearly everything is significant; 0.2 is commonly called small, 0.8 large.

    Returns:
        0 where all differences are 0; infinite where all are equal and not 0; NaN for n < 2.
    """
    sample = moments(d)
    with np.errstate(invalid="ignore", divide="ignore"):
        size = np.where((sample.mean == 0) & (sample.n > 1), 0.0, sample.mean / sample.sd)
    return np.asarray(size)
