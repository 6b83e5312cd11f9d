"""One pass over a feature matrix: ranges, and hashes of rows and columns by which equal ones are found.

A hash is the upper halves of two random linear combinations of the values' bits: two different rows share one
with probability 2**-64 or so.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ltr_harness.compiled import compiled


@dataclass(frozen=True, eq=False)
class Content:
    """What a matrix holds.

    Attributes:
        low, high: float32 (n_features,), NaN where a feature is missing everywhere.
        n_missing, n_zero: int64 (n_features,).
        mean: float64 (n_features,), of values that are not missing.
        rows: uint64 (n_rows,), a hash of each row.
        blank: bool (n_rows,), rows whose values are all zero or missing: they tell nothing of their document.
        columns: uint64 (n_features,), a hash of each column.
    """

    low: NDArray[np.float32]
    high: NDArray[np.float32]
    mean: NDArray[np.float64]
    n_missing: NDArray[np.int64]
    n_zero: NDArray[np.int64]
    rows: NDArray[np.uint64]
    blank: NDArray[np.bool_]
    columns: NDArray[np.uint64]

    @classmethod
    def of(cls, features: NDArray[np.float32]) -> Content:
        """Digests of every row and of every feature.

        Shapes: `features` (n_rows, n_features).
        """
        n_rows, n_features = features.shape
        bits = np.random.PCG64(20)
        along, down = (bits.random_raw(2 * n) | np.uint64(1) for n in (n_features, n_rows))
        low = np.full(n_features, np.inf, dtype=np.float32)
        high = np.full(n_features, -np.inf, dtype=np.float32)
        counts = np.zeros((2, n_features), dtype=np.int64)
        total = np.zeros(n_features)
        rows = np.empty((2, n_rows), dtype=np.uint64)
        blank = np.ones(n_rows, dtype=np.bool_)
        columns = np.zeros((2, n_features), dtype=np.uint64)
        _scan(
            features,
            along.reshape(2, -1),
            down.reshape(2, -1),
            low,
            high,
            counts,
            total,
            rows,
            blank,
            columns,
        )
        n_missing, n_zero = counts
        absent = n_missing == n_rows
        low[absent] = high[absent] = np.nan
        mean = np.divide(total, n_rows - n_missing, out=np.full(n_features, np.nan), where=~absent)
        return cls(low, high, mean, n_missing, n_zero, _upper_halves(*rows), blank, _upper_halves(*columns))

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
        return int((self._sorted[1:] == self._sorted[:-1]).sum())

    @cached_property
    def _sorted(self) -> NDArray[np.uint64]:
        return np.sort(self.rows)

    def seen_in(self, known: Content) -> NDArray[np.bool_]:
        """Which rows another matrix has as well; blank ones, which are alike everywhere, left out.

        Example:
            >>> known = Content.of(np.array([[1, 2], [3, np.nan], [0, 0]], dtype=np.float32))
            >>> new = Content.of(np.array([[3, np.nan], [2, 1], [3, np.nan], [0, 0]], dtype=np.float32))
            >>> new.seen_in(known)
            array([ True, False,  True, False])
        """
        order = np.argsort(self.rows)
        asked = self.rows[order]
        at = np.searchsorted(known._sorted, asked)
        seen = np.empty(asked.size, dtype=np.bool_)
        seen[order] = known._sorted[np.minimum(at, len(known._sorted) - 1)] == asked
        return seen & ~self.blank

    def elsewhere(self, query: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which rows another query of the matrix has as well; blank ones left out.

        Shapes: `query` (n_rows,).

        Example:
            >>> content = Content.of(np.array([[1], [1], [2], [2], [0], [0]], dtype=np.float32))
            >>> content.elsewhere(np.array([0, 0, 0, 1, 1, 2]))
            array([False, False,  True,  True, False, False])
        """
        order = np.argsort(self.rows, kind="stable")
        starts = np.flatnonzero(np.diff(self.rows[order], prepend=~self.rows[order[0]]))
        ends = np.append(starts[1:], order.size)
        shared = np.empty(order.size, dtype=np.bool_)
        shared[order] = np.repeat(query[order[starts]] != query[order[ends - 1]], ends - starts)
        return shared & ~self.blank


@compiled
def _scan(
    features: NDArray[np.float32],
    along: NDArray[np.uint64],
    down: NDArray[np.uint64],
    low: NDArray[np.float32],
    high: NDArray[np.float32],
    counts: NDArray[np.int64],
    total: NDArray[np.float64],
    rows: NDArray[np.uint64],
    blank: NDArray[np.bool_],
    columns: NDArray[np.uint64],
) -> None:
    """Fill ranges, counts (missing, zero), sums and hashes."""
    n_rows, n_features = features.shape
    one = np.empty(n_features, dtype=np.float32)
    bits = one.view(np.uint32)
    for i in range(n_rows):
        first, second = np.uint64(0), np.uint64(0)
        for j in range(n_features):
            value = features[i, j]
            if np.isnan(value):
                value = np.float32(np.nan)  # one of the many
                counts[0, j] += 1
            else:
                if value == 0:
                    value = np.float32(0)  # -0 is the same number
                    counts[1, j] += 1
                else:
                    blank[i] = False
                total[j] += value
                low[j] = min(low[j], value)
                high[j] = max(high[j], value)
            one[j] = value
            word = np.uint64(bits[j])
            first += along[0, j] * word
            second += along[1, j] * word
            columns[0, j] += down[0, i] * word
            columns[1, j] += down[1, i] * word
        rows[0, i] = first
        rows[1, i] = second


def _upper_halves(a: NDArray[np.uint64], b: NDArray[np.uint64]) -> NDArray[np.uint64]:
    joined: NDArray[np.uint64] = (a & np.uint64(0xFFFFFFFF00000000)) | (b >> np.uint64(32))
    return joined
