"""Random numbers that are the same on every platform: exact functions of raw PCG64 integers.

NumPy guarantees the integers of a bit generator for ever, those of its distributions it does not.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class Draws:
    """One stream of numbers of a seed; other streams are independent of it."""

    def __init__(self, seed: int, stream: int) -> None:
        self._bits = np.random.PCG64(np.random.SeedSequence([seed, stream]))

    def uniform(self, n: int) -> NDArray[np.float64]:
        """Multiples of 2**-53 in [0, 1)."""
        return (self._bits.random_raw(n) >> np.uint64(11)).astype(np.float64) / (1 << 53)

    def normal(self, n: int) -> NDArray[np.float64]:
        """Near normal, mean 0, standard deviation 1: the sum of twelve 16-bit numbers needs no logarithm."""
        sixteenths = self._bits.random_raw(3 * n).view(np.uint16).reshape(n, 12)
        sums: NDArray[np.int64] = sixteenths.sum(axis=1, dtype=np.int64)
        return (sums - 393_210) / 65_536.0
