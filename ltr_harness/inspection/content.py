"""One pass over a feature matrix: ranges, and hashes of rows and columns by which equal ones are found.

A hash is the upper halves of two random linear combinations of the values' bits: two different rows share one
with probability 2**-64 or so.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

_BLOCK = 1 << 22  # values looked at together


@dataclass(frozen=True, eq=False)
class Content:
    """What a matrix holds.

    Attributes:
        low, high: float32 (n_features,), NaN where a feature is missing everywhere.
        n_missing, n_zero: int64 (n_features,).
        mean: float64 (n_features,), of values that are not missing.
        rows: uint64 (n_rows,), a hash of each row.
        columns: uint64 (n_features,), a hash of each column.
    """

    low: NDArray[np.float32]
    high: NDArray[np.float32]
    mean: NDArray[np.float64]
    n_missing: NDArray[np.int64]
    n_zero: NDArray[np.int64]
    rows: NDArray[np.uint64]
    columns: NDArray[np.uint64]

    @classmethod
    def of(cls, features: NDArray[np.float32]) -> Content:
        n_rows, n_features = features.shape
        low = np.full(n_features, np.inf, dtype=np.float32)
        high = np.full(n_features, -np.inf, dtype=np.float32)
        total = np.zeros(n_features)
        n_missing = np.zeros(n_features, dtype=np.int64)
        n_zero = np.zeros(n_features, dtype=np.int64)
        rows = np.empty(n_rows, dtype=np.uint64)
        sums = np.zeros((2, n_features), dtype=np.uint64)
        bits_of_chance = np.random.PCG64(20)
        along = [_odd(bits_of_chance, n_features) for _ in range(2)]
        step = max(1, _BLOCK // n_features)
        for start in range(0, n_rows, step):
            block = features[start : start + step] + np.float32(0)  # -0 becomes 0
            missing = np.isnan(block)
            block[missing] = np.nan  # one of the many
            words = block.view(np.uint32).astype(np.uint64)
            rows[start : start + step] = _upper_halves(words @ along[0], words @ along[1])
            for k in range(2):
                sums[k] += _odd(bits_of_chance, len(block)) @ words
            n_missing += missing.sum(axis=0)
            n_zero += (block == 0).sum(axis=0)
            total += np.nansum(block, axis=0, dtype=np.float64)
            low = np.fmin(low, np.fmin.reduce(block, axis=0))
            high = np.fmax(high, np.fmax.reduce(block, axis=0))
        absent = n_missing == n_rows
        low[absent] = high[absent] = np.nan
        mean = np.divide(total, n_rows - n_missing, out=np.full(n_features, np.nan), where=~absent)
        return cls(low, high, mean, n_missing, n_zero, rows, _upper_halves(sums[0], sums[1]))

    @cached_property
    def constant(self) -> NDArray[np.bool_]:
        """Features with one value in all rows, or none."""
        n_rows = len(self.rows)
        one_value = (self.low == self.high) & (self.n_missing == 0)
        return np.asarray(one_value | (self.n_missing == n_rows))

    @cached_property
    def duplicate_of(self) -> NDArray[np.int64]:
        """For each feature the first one with the same values in all rows; itself where there is none."""
        _, first, which = np.unique(self.columns, return_index=True, return_inverse=True)
        return first[which].astype(np.int64)

    @cached_property
    def n_repeated_rows(self) -> int:
        """Rows whose features an earlier row has already."""
        return len(self.rows) - len(np.unique(self.rows))


def _odd(bits: np.random.PCG64, n: int) -> NDArray[np.uint64]:
    return bits.random_raw(n) | np.uint64(1)


def _upper_halves(a: NDArray[np.uint64], b: NDArray[np.uint64]) -> NDArray[np.uint64]:
    joined: NDArray[np.uint64] = (a & np.uint64(0xFFFFFFFF00000000)) | (b >> np.uint64(32))
    return joined
