"""Moments of columns with undefined entries: n, mean, sd, skewness; paired differences: ties, wins, effect size."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Moments:
    """Moments of the defined values of each column."""

    n: NDArray[np.int64]  # how many values are defined
    mean: Floats  # NaN where none is
    sd: Floats  # with n - 1 below the line; NaN where fewer than two are defined
    skewness: Floats  # third standardised moment; 0 for a constant column, NaN for n < 2


def moments(values: Floats) -> Moments:
    """Moments over the first axis, NaN left out; of values that are all equal the standard deviation is exactly 0."""
    defined = ~np.isnan(values)
    n = np.asarray(defined.sum(axis=0), dtype=np.int64)
    whole = bool(defined.all())
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.asarray((values if whole else np.where(defined, values, 0.0)).sum(axis=0) / n)
        off = values - mean
        if not whole:
            off[~defined] = 0.0
        highest = np.fmax.reduce(values, axis=0, initial=-np.inf)
        constant = np.asarray(highest == np.fmin.reduce(values, axis=0, initial=np.inf))
        if constant.any():
            off[:, constant] = 0.0
        squares = off * off
        square = squares.sum(axis=0)
        sd = np.where(n > 1, np.sqrt(square / (n - 1)), np.nan)
        cubes = np.multiply(squares, off, out=squares)
        skewness = np.where(square > 0, (cubes.sum(axis=0) / n) / (square / n) ** 1.5, 0.0)
    return Moments(n, mean, sd, np.where(n > 1, skewness, np.nan))


TIE = 1e-9  # metric values this close are equal: 1/3 + 1/3 must not lose to 2/3
SMALLEST_P = float(np.finfo(np.float64).tiny)  # a p-value of 0 claims more than any sample can


def paired_differences(one: Floats, other: Floats, tolerance: float = TIE) -> Floats:
    """``one - other`` per query, (n,), with exactly 0 within the tolerance: rounding noise must not be significant."""
    d: Floats = one - other
    return np.where(np.abs(d) <= tolerance, 0.0, d)


def sign_test_p(d: Floats, *, tolerance: float = TIE) -> Floats:
    """Sign test, exact, ties left out: p in (0, 1]; 1 where all are ties, NaN where no difference is defined."""
    wins, ties, losses = win_tie_loss(d, tolerance)
    decided = wins + losses
    fewer = np.minimum(wins, losses)
    p = np.clip(2 * bdtr(fewer.astype(np.float64), np.maximum(decided, 1), 0.5), SMALLEST_P, 1.0)
    return np.where(decided > 0, p, np.where(ties > 0, 1.0, np.nan))


def win_tie_loss(
    d: Floats, tolerance: float = TIE
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """How many differences are above, within and below the tolerance; undefined ones are in none."""
    wins, losses = d > tolerance, d < -tolerance
    ties = np.abs(d) <= tolerance
    return tuple(np.asarray(part.sum(axis=0), dtype=np.int64) for part in (wins, ties, losses))  # type: ignore[return-value]


def effect_size(d: Floats) -> Floats:
    """d_z, mean / sd of the differences: 0 where all are 0, infinite where all are equal, NaN for n < 2."""
    sample = moments(d)
    with np.errstate(invalid="ignore", divide="ignore"):
        size = np.where((sample.mean == 0) & (sample.n > 1), 0.0, sample.mean / sample.sd)
    return np.asarray(size)
