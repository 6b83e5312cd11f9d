"""Features of rows: an array, or a sparse matrix whose values are nearly all 0."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ltr_harness._util.text import count_of
from ltr_harness.data.arrays import Ints, KeepsArrays, sealed
from ltr_harness.data.queries import of_rows

BLOCK = 64 << 20
"""Bytes of the rows of a sparse matrix that are dense at a time."""

_CURE = "leave out columns that are nearly always 0"


@dataclass(frozen=True, eq=False)
class SparseFeatures(KeepsArrays):
    """The values of rows that are not 0, row by row; what is not stored is 0, and NaN means missing.

    Some of its rows are sparse as well, a column is an array. NumPy's functions take it for the array (n_rows,
    n_features) that it stands for, which is refused with its size where it does not fit into the memory.

    Attributes:
        values: float32 (n_stored,).
        columns: int32 (n_stored,), the column of each value, ascending within a row.
        starts: int64 (n_rows + 1,), the first value of each row, and the end of the last.
        n_features: columns.

    Example:
        >>> features = SparseFeatures(np.ones(2, np.float32), np.array([0, 2], np.int32), np.array([0, 1, 2]), 3)
        >>> np.asarray(features).tolist(), features[:, 2].tolist(), features[1:].shape
        ([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]], [0.0, 1.0], (1, 3))
    """

    values: NDArray[np.float32]
    columns: NDArray[np.int32]
    starts: NDArray[np.int64]
    n_features: int

    dtype = np.dtype(np.float32)
    ndim = 2

    @classmethod
    def of_matrix(cls, matrix: Any) -> SparseFeatures:
        """Return the features (n_rows, n_features) of a sparse matrix of SciPy, which stays as it is."""
        rows = matrix.tocsr(copy=True)
        rows.sum_duplicates()  # before they are rounded; it sorts them too
        with np.errstate(over="ignore", under="ignore"):
            values = rows.data.astype(np.float32)
        starts, columns = rows.indptr.astype(np.int64), rows.indices.astype(np.int32)
        return cls.without_zeros(values, columns, starts, rows.shape[1])

    @classmethod
    def of_array(cls, array: NDArray[np.float32]) -> SparseFeatures:
        """Return the features of an array (n_rows, n_features)."""
        rows, columns = np.nonzero(array.view(np.int32))
        starts = np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=len(array)))))
        values = sealed(array[rows, columns])
        return cls(values, sealed(columns.astype(np.int32)), sealed(starts), array.shape[1])

    @classmethod
    def joined(cls, parts: Sequence[SparseFeatures]) -> SparseFeatures:
        """Return the rows of all parts, one after the other."""
        ends = np.cumsum([part.starts[-1] for part in parts])
        firsts = ends - [part.starts[-1] for part in parts]
        starts = [part.starts[:-1] + first for part, first in zip(parts, firsts, strict=True)]
        return cls(
            sealed(np.concatenate([part.values for part in parts])),
            sealed(np.concatenate([part.columns for part in parts])),
            sealed(np.concatenate([*starts, ends[-1:]])),
            parts[0].n_features,
        )

    @classmethod
    def without_zeros(
        cls,
        values: NDArray[np.float32],
        columns: NDArray[np.int32],
        starts: NDArray[np.int64],
        n_features: int,
    ) -> SparseFeatures:
        """Return features of which the values that are 0 are not stored; -0, another number in bits, is.

        Args:
            values, columns: (n_stored,), columns ascending within a row.
            starts: (n_rows + 1,).
            n_features: columns.
        """
        is_stored = values.view(np.int32) != 0
        if not is_stored.all():
            starts = np.concatenate(([0], np.cumsum(is_stored)))[starts]
            values, columns = values[is_stored], columns[is_stored]
        return cls(sealed(values), sealed(columns), sealed(starts), n_features)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self), self.n_features

    @property
    def size(self) -> int:
        """The number of cells, most of which are 0."""
        return len(self) * self.n_features

    @property
    def nbytes(self) -> int:
        return self.values.nbytes + self.columns.nbytes + self.starts.nbytes

    def __len__(self) -> int:
        return len(self.starts) - 1

    @overload
    def __getitem__(self, rows: slice | list[int] | NDArray[Any]) -> SparseFeatures: ...

    @overload
    def __getitem__(self, cells: int | tuple[Any, Any]) -> NDArray[np.float32]: ...

    def __getitem__(self, index: Any) -> SparseFeatures | NDArray[np.float32]:
        if isinstance(index, tuple):
            rows, column = index
            if isinstance(column, int | np.integer) and isinstance(rows, slice) and rows == slice(None):
                return self._column(int(column))
            cells: NDArray[np.float32] = self.dense()[index]
            return cells
        if isinstance(index, int | np.integer):
            row: NDArray[np.float32] = self[[int(index)]].dense()[0]
            return row
        if isinstance(index, slice) and index.step in (None, 1):
            first, end, _ = index.indices(len(self))
            starts = self.starts[first : max(end, first) + 1]
            stored = slice(starts[0], starts[-1])
            return SparseFeatures(
                self.values[stored], self.columns[stored], sealed(starts - starts[0]), self.n_features
            )
        return self._take(np.arange(len(self))[index])

    def _take(self, rows: NDArray[np.int64]) -> SparseFeatures:
        """Return some rows, by their numbers (n_kept,)."""
        sizes = np.diff(self.starts)[rows]
        starts = np.concatenate(([0], np.cumsum(sizes)))
        stored = np.arange(starts[-1]) + np.repeat(self.starts[rows] - starts[:-1], sizes)
        values, columns = sealed(self.values[stored]), sealed(self.columns[stored])
        return SparseFeatures(values, columns, sealed(starts), self.n_features)

    def _column(self, column: int) -> NDArray[np.float32]:
        """Return the values (n_rows,) of a column."""
        starts, rows, values = self._by_column
        column = range(self.n_features)[column]
        stored = slice(starts[column], starts[column + 1])
        dense = np.zeros(len(self), dtype=np.float32)
        dense[rows[stored]] = values[stored]
        return sealed(dense)

    @cached_property
    def _by_column(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.float32]]:
        """The first value of each column, and the rows and values, column by column."""
        by_column = self.csr.tocsc()
        return by_column.indptr, by_column.indices, by_column.data

    @property
    def csr(self) -> Any:
        """The matrix as SciPy's, for libraries that take it."""
        from scipy.sparse import csr_matrix

        matrix = csr_matrix((self.values, self.columns, self.starts), shape=self.shape)
        matrix.has_sorted_indices = True
        return matrix

    def with_columns(self, places: NDArray[np.int64], n_features: int) -> SparseFeatures:
        """Return the features with other columns, some perhaps without any value.

        Args:
            places: (n_features,) of these, where each column goes; -1 for those that are left out.
            n_features: of the result.
        """
        columns = places[self.columns].astype(np.int32)
        is_kept = columns >= 0
        starts = np.concatenate(([0], np.cumsum(is_kept)))[self.starts]
        values, columns = self.values[is_kept], columns[is_kept]
        if (np.diff(places[places >= 0]) < 0).any():
            row_of_value = np.repeat(np.arange(len(self)), np.diff(starts))
            order = np.lexsort((columns, row_of_value))
            values, columns = values[order], columns[order]
        return SparseFeatures(sealed(values), sealed(columns), sealed(starts), n_features)

    def dense(self) -> NDArray[np.float32]:
        """Return the array, read-only.

        Raises:
            DataError: it does not fit into the memory.
        """
        self.refuse_dense(self.dtype.itemsize)
        return self._filled()

    def refuse_dense(self, bytes_per_cell: int) -> None:
        """Raise where a dense matrix with so many bytes a cell does not fit into the memory."""
        from ltr_harness.data.readers.text_files import Bound

        size = f"a sparse matrix of {count_of(len(self), 'row')} and {count_of(self.n_features, 'column')}"
        found = f"{size} becomes dense, which takes"
        Bound.of_file(0, meant=True).refuse("features", found, self.size * bytes_per_cell, _CURE)

    def _filled(self) -> NDArray[np.float32]:
        dense = np.zeros(self.shape, dtype=np.float32)
        dense[np.repeat(np.arange(len(self)), np.diff(self.starts)), self.columns] = self.values
        return sealed(dense)

    def astype(self, dtype: DTypeLike) -> NDArray[Any]:
        """Return the array with values of another type, as the method of an array does."""
        return self.dense().astype(dtype)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        dense = self.dense()
        if dtype is not None and np.dtype(dtype) != self.dtype:
            return dense.astype(dtype)
        return dense.copy() if copy else dense

    def blocks(self) -> Iterator[tuple[slice, NDArray[np.float32]]]:
        """Yield a few rows at a time, as arrays, with their places; one block at least."""
        step = max(BLOCK // (self.dtype.itemsize * max(self.n_features, 1)), 1)
        for start in range(0, max(len(self), 1), step):
            rows = slice(start, min(start + step, len(self)))
            yield rows, self[rows]._filled()


Features = NDArray[np.float32] | SparseFeatures
"""float32 (n_rows, n_features); NaN means missing."""


def sealed_features(features: Features) -> Features:
    """Make features read-only, of which nobody else has a view, and return them."""
    return features if isinstance(features, SparseFeatures) else sealed(features)


def rows_of(features: Features, rows: Ints | slice) -> Features:
    """Return some rows, read-only: a view of neighbours, else a copy."""
    return features[rows] if isinstance(features, SparseFeatures) else of_rows(features, rows)


def column_ranges(features: Features) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the lowest and highest value of each column (n_features,), NaN where all are missing."""
    if not isinstance(features, SparseFeatures):
        return np.fmin.reduce(features, axis=0), np.fmax.reduce(features, axis=0)
    by_column = features.csr.tocsc()
    n_stored = np.diff(by_column.indptr)
    low = np.where(n_stored < len(features), np.float32(0), np.float32(np.nan))
    high = low.copy()
    if by_column.data.size:
        is_stored = n_stored > 0
        firsts = by_column.indptr[:-1][is_stored]
        low[is_stored] = np.fmin(low[is_stored], np.fmin.reduceat(by_column.data, firsts))
        high[is_stored] = np.fmax(high[is_stored], np.fmax.reduceat(by_column.data, firsts))
    return low, high
