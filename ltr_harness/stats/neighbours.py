"""Neighbouring periods that are alike, whose intervals are too narrow: how many of them are joined to one unit."""

from __future__ import annotations

import numpy as np

from ltr_harness.stats.contributions import Codes, Contributions
from ltr_harness.stats.moments import Floats

FEWEST = 10  # units that are left at least
ENOUGH = 50  # periods that show how alike neighbours are; measured, see docs/promises.md
_ALIKE = 0.5  # standard errors


def autocorrelation(sample: Contributions) -> float:
    """Of what neighbouring units, in order of time, add beyond the mean: the largest column's; -1 if none varies."""
    squares = (sample.off**2).sum(axis=0)
    products = (sample.off[1:] * sample.off[:-1]).sum(axis=0)
    # of G independent units it is 1/G too low on average
    of_columns = products[squares > 0] / squares[squares > 0] + 1 / len(sample.off)
    return float(of_columns.max(initial=-1.0))


def alike(sample: Contributions) -> bool:
    """Whether the autocorrelation is at least half a standard error above 0."""
    return bool(autocorrelation(sample) > _ALIKE / len(sample.off) ** 0.5)


def blocks(periods: Codes, number: int) -> Codes:
    """Codes of so many neighbouring periods each; what is left over belongs to the last.

    Example:
        >>> blocks(np.array([0, 1, 2, 3, 4]), 2).tolist()
        [0, 0, 1, 1, 1]
    """
    n = int(periods.max(initial=0)) + 1
    return np.asarray(np.minimum(periods // number, max(n // number, 1) - 1))


def how_many(values: Floats, periods: Codes) -> int:
    """How many neighbouring periods, (n,) from 0 on, of (n, m) values make a unit: twice as many while they correlate
    and enough units are left.

    Example:
        Forty days of which eight are good, then eight bad.

        >>> days = np.arange(40)
        >>> how_many((days // 8 % 2 + np.sin(days))[:, None], days), how_many(np.sin(3 * days)[:, None], days)
        (4, 1)
    """
    number = 1
    while True:
        sample = Contributions.of(values, blocks(periods, number))
        if len(sample.sums) < 2 * FEWEST or autocorrelation(sample) <= 0:
            return number
        number *= 2
