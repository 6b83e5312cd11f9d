"""How many, how large, how spread, how lopsided: the moments of columns with undefined entries."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Moments:
    """Moments of the defined values of each column.

    Attributes:
        n: how many values are defined.
        mean: NaN where none is.
        sd: standard deviation with n - 1 below the line; NaN where fewer than two are defined.
        skewness: third standardised moment (no small-sample factor); 0 for a constant column, NaN for n < 2.
    """

    n: NDArray[np.int64]
    mean: Floats
    sd: Floats
    skewness: Floats

    @property
    def standard_error(self) -> Floats:
        """sd / sqrt(n), of the mean."""
        error: Floats = self.sd / np.sqrt(self.n)
        return error


def moments(values: Floats) -> Moments:
    """Moments over the first axis, NaN left out; any further axes keep their shape.

    A column whose values are all equal has a standard deviation of exactly 0, whatever rounding its mean has.

    Example:
        >>> m = moments(np.array([1.0, 2.0, 3.0, np.nan]))
        >>> int(m.n), float(m.mean), float(m.sd), float(m.skewness)
        (3, 2.0, 1.0, 0.0)
    """
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
