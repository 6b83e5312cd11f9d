"""Queries as groups of rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ltr_harness._util.compiled import compiled
from ltr_harness._util.text import count_of
from ltr_harness.data.alignment import refuse_unaligned
from ltr_harness.data.arrays import (
    Array,
    Bools,
    Floats,
    Ints,
    KeepsArrays,
    as_column,
    as_floats,
    numbers_in,
    read_only,
    sealed,
)
from ltr_harness.data.repeats import row_before
from ltr_harness.errors import DataError


def _refuse_missing_ids(ids: Array) -> None:
    if ids.size == 0:
        raise DataError("query_ids is empty; expected at least one row")
    if ids.dtype.kind == "f" and np.isnan(ids).any():
        raise DataError(f"query_ids[{int(np.flatnonzero(np.isnan(ids))[0])}] is missing (NaN)")
    if ids.dtype.kind == "O":
        missing = [i for i, value in enumerate(ids) if _is_missing(value)]
        if missing:
            raise DataError(f"query_ids[{missing[0]}] is missing ({len(missing)} such)")


def _is_missing(value: Any) -> bool:
    """Return whether a value is missing: None, NaN, NaT, or pandas' NA, whose comparisons are NA."""
    if value is None:
        return True
    different = value != value
    return type(different).__name__ == "NAType" or bool(different)


_MOST_ROWS = 2**53
"""Exact in float64, and more than any data have."""


@dataclass(frozen=True, eq=False)
class QueryGroups(KeepsArrays):
    """Contiguous blocks of rows, one per query; a query all of whose judged documents were missed has no row.

    Attributes:
        boundaries: int64 (n_queries + 1,), first row of each query and the end of the last.
        ids: (n_queries,), the queries' names in the data; 0..n-1 where the data has none.

    Example:
        >>> QueryGroups.from_sizes([2, 3]).boundaries
        array([0, 2, 5])
    """

    boundaries: NDArray[np.int64]
    ids: NDArray[Any]

    def __repr__(self) -> str:
        return f"QueryGroups({count_of(self.n_queries, 'query')}, {count_of(self.n_rows, 'row')})"

    @property
    def n_queries(self) -> int:
        return len(self.boundaries) - 1

    @property
    def n_rows(self) -> int:
        return int(self.boundaries[-1])

    @property
    def sizes(self) -> NDArray[np.int64]:
        """int64 (n_queries,), rows per query."""
        return np.asarray(self.boundaries[1:] - self.boundaries[:-1])

    @cached_property
    def longest(self) -> int:
        """The most rows of a query."""
        return int(self.sizes.max())

    @cached_property
    def has_rows(self) -> NDArray[np.bool_]:
        """bool (n_queries,), which queries have rows."""
        return sealed(self.sizes > 0)

    def sum(self, values: NDArray[Any], dtype: DTypeLike | None = None) -> NDArray[Any]:
        """(n_queries,): the sum over each query's rows.

        Args:
            values: (n_rows,).
            dtype: of the sums; NumPy's choice if None.
        """
        return self._over_queries(np.add, values, dtype)

    def count(self, flags: NDArray[np.bool_]) -> NDArray[np.int64]:
        """int64 (n_queries,): the number of each query's rows that are flagged.

        Args:
            flags: (n_rows,).
        """
        return self.count_flagged(read_only(flags.view(np.uint8)), _FLAGGED)

    def count_flagged(self, values: NDArray[np.uint8], flags: NDArray[np.bool_]) -> NDArray[np.int64]:
        """int64 (n_queries,): the number of each query's rows whose value is flagged.

        Args:
            values: uint8 (n_rows,).
            flags: (n_values,), of the values from 0.
        """
        counts = np.empty(self.n_queries, dtype=np.int64)
        _count_flagged(self.boundaries, values, flags, counts)
        return counts

    def max(self, values: NDArray[Any]) -> NDArray[Any]:
        """(n_queries,): the largest of each query's rows; 0 where it has none.

        Args:
            values: (n_rows,).
        """
        return self._over_queries(np.maximum, values)

    def min(self, values: NDArray[Any]) -> NDArray[Any]:
        """(n_queries,): the smallest of each query's rows; 0 where it has none.

        Args:
            values: (n_rows,).
        """
        return self._over_queries(np.minimum, values)

    def mean(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """(n_queries,): the mean of each query's rows, exactly their value where all are equal; 0 where it has none.

        Args:
            values: (n_rows,).
        """
        lowest, sums = self.min(values), self.sum(values)
        means = np.divide(sums, self.sizes, out=np.zeros(self.n_queries), where=self.has_rows)
        return np.where(lowest == self.max(values), lowest, means)

    def any(self, flags: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """(n_queries,): whether any of each query's rows is flagged.

        Args:
            flags: (n_rows,).
        """
        return self._over_queries(np.logical_or, flags)

    def _over_queries(
        self, reduce: np.ufunc, values: NDArray[Any], dtype: DTypeLike | None = None
    ) -> NDArray[Any]:
        starts = self.boundaries[:-1]
        if self.has_rows.all():
            return np.asarray(reduce.reduceat(values, starts, dtype=dtype))
        found = reduce.reduceat(values, starts[self.has_rows], dtype=dtype)
        out = np.zeros(self.n_queries, dtype=found.dtype)
        out[self.has_rows] = found
        return out

    @classmethod
    def from_sizes(cls, sizes: ArrayLike, ids: ArrayLike | None = None) -> QueryGroups:
        """Groups from the number of rows of each query, in row order.

        Args:
            sizes: integers (n_queries,), rows of each query.
            ids: (n_queries,) names of the queries; numbers from 0 if None.

        Raises:
            DataError: a size is zero, negative or not an integer, the sizes add up to more rows than can be
                counted, or there is no query.
        """
        if ids is not None:
            refuse_unaligned({"group_sizes": sizes, "query ids": ids})
        counts = numbers_in(as_column(sizes, "group_sizes"))
        if counts.size == 0:
            raise DataError("group_sizes is empty; expected at least one query")
        are_integers = counts.dtype.kind in "iu" or (
            counts.dtype.kind == "f" and np.array_equal(counts, np.floor(counts))
        )
        if not are_integers:
            raise DataError(f"group_sizes has dtype {counts.dtype}; expected integers, rows per query")
        if counts.min() <= 0:
            bad = np.flatnonzero(counts <= 0)
            query = int(bad[0])
            raise DataError(
                f"group_sizes[{query}] is {counts[query]} ({bad.size} such); expected at least one row per query: "
                "leave empty queries out"
            )
        total = np.add.accumulate(counts, dtype=np.float64)  # does not wrap, as integers do
        if total[-1] > _MOST_ROWS:
            query = int(np.argmax(total > _MOST_ROWS))
            found = f"group_sizes[{query}] is {counts[query]}, with which they add up to {total[query]:.3g}"
            raise DataError(f"{found}; expected rows per query")
        names = sealed(np.arange(counts.size)) if ids is None else as_column(ids, "query ids")
        if names.size != counts.size:
            raise DataError(
                f"{names.size} query ids for {counts.size} group sizes; expected one id per query"
            )
        boundaries = np.zeros(counts.size + 1, dtype=np.int64)
        boundaries[1:] = total
        return cls(sealed(boundaries), names)

    @classmethod
    def from_counts(cls, counts: NDArray[np.int64], ids: NDArray[Any]) -> QueryGroups:
        """Groups from the number of rows of each query, which may be 0.

        Args:
            counts: int64 (n_queries,).
            ids: (n_queries,).
        """
        boundaries = np.zeros(counts.size + 1, dtype=np.int64)
        np.cumsum(counts, out=boundaries[1:])
        return cls(sealed(boundaries), ids)

    @classmethod
    def from_ids(cls, row_ids: ArrayLike) -> tuple[QueryGroups, NDArray[np.int64] | None]:
        """Groups from one query id per row, in whatever order; queries keep the order they first appear in.

        Args:
            row_ids: (n_rows,), the query of each row.

        Returns:
            The groups, and the row order that makes them contiguous: ``rows[order]``; None where the rows
            are contiguous already.

        Raises:
            DataError: no rows, or a missing id.
        """
        ids = as_column(row_ids, "query_ids")
        _refuse_missing_ids(ids)
        if ids.dtype.kind == "O" and all(isinstance(value, str) for value in ids):
            ids = ids.astype(str)
        starts = np.flatnonzero(np.concatenate(([True], ids[1:] != ids[:-1])))
        blocks = ids[starts]
        try:
            _, first, block_of = np.unique(blocks, return_index=True, return_inverse=True)
        except TypeError:  # ids of mixed types have no order among themselves
            texts = np.array([f"{type(value).__name__}:{value}" for value in blocks])
            _, first, block_of = np.unique(texts, return_index=True, return_inverse=True)
        if first.size == blocks.size:
            return cls(np.append(starts, ids.size).astype(np.int64), blocks), None
        rank = np.empty(first.size, dtype=np.int64)
        by_appearance = np.argsort(first, kind="stable")
        rank[by_appearance] = np.arange(first.size)
        query_of_row = np.repeat(rank[block_of], np.diff(np.append(starts, ids.size)))
        order = np.argsort(query_of_row, kind="stable").astype(np.int64)
        return cls.from_sizes(np.bincount(query_of_row), blocks[first[by_appearance]]), order

    def take(self, queries: NDArray[np.int64]) -> tuple[QueryGroups, NDArray[np.int64]]:
        """The given queries alone, and the rows they consist of.

        Args:
            queries: int64 (n_kept,), numbers of queries in the order wanted.
        """
        sizes = self.sizes[queries]
        groups = self.from_counts(sizes, self.ids[queries])
        first = self.boundaries[queries] - groups.boundaries[:-1]
        if isinstance(as_slice(queries), slice):  # rows of neighbours are neighbours
            return groups, np.arange(first[0], first[0] + groups.n_rows)
        return groups, np.repeat(first, sizes) + np.arange(groups.n_rows)

    def name(self, query: int) -> str:
        """Return the name of a query in messages: its id in the data."""
        return str(self.ids[query])

    def query_of(self, row: int) -> int:
        """The query a row belongs to."""
        return int(np.searchsorted(self.boundaries, row, side="right")) - 1


_FLAGGED = np.array([False, True])


@compiled
def _count_flagged(boundaries: Ints, values: NDArray[np.uint8], flags: Bools, counts: Ints) -> None:
    for query in range(counts.size):
        total = 0
        for row in range(boundaries[query], boundaries[query + 1]):
            total += flags[values[row]]
        counts[query] = total


def place_of(rows: Ints, groups: QueryGroups) -> str:
    """Return the place of the first of these rows (n,) for messages, and their number."""
    query = groups.query_of(rows[0])
    position = rows[0] - groups.boundaries[query]
    return f"in query {groups.name(query)!r}, its row {position} ({count_of(rows.size, 'such row')})"


def places_within(values: Floats, queries: Ints) -> tuple[Ints, Ints]:
    """Count the rows of each row's query with a smaller value, and with the same, the row itself included.

    Shapes: all (n_rows,); rows of a query need not stand together.
    """
    order, positions = np.lexsort((values, queries)), np.arange(values.size)
    query, value = queries[order], values[order]
    begins = np.append(True, query[1:] != query[:-1])[: positions.size]
    differs = begins | np.append(True, value[1:] != value[:-1])[: positions.size]
    starts, run = np.flatnonzero(differs), np.cumsum(differs) - 1
    below, same = np.empty((2, positions.size), dtype=np.int64)
    below[order] = starts[run] - np.maximum.accumulate(np.where(begins, positions, 0))
    same[order] = np.diff(np.append(starts, positions.size))[run]
    return below, same


def as_slice(rows: Array) -> Array | slice:
    """Numbers (n_kept,) or flags (n_rows,) of rows as an index: of neighbours, a slice copies nothing."""
    if rows.dtype == np.bool_:
        return slice(None) if rows.all() else rows
    if not rows.size or rows[-1] - rows[0] != rows.size - 1:
        return rows
    if np.array_equal(rows, np.arange(rows[0], rows[0] + rows.size)):
        return slice(rows[0], rows[0] + rows.size)
    return rows


def of_rows(array: NDArray[Any], rows: Array | slice) -> NDArray[Any]:
    """Return rows of a read-only array, read-only as well: a view of neighbours, else a copy."""
    part = array[rows]
    return part if isinstance(rows, slice) else sealed(part)


ONE_ROW_EACH = "one row for each document of a query"


def refuse_repeated(document_ids: Array, groups: QueryGroups) -> None:
    """Raise where a query (n_queries,) has a document (n_rows,) twice, which would count it twice."""
    before = row_before(document_ids, groups.boundaries)
    again = np.flatnonzero(before >= 0)
    if again.size:
        row = int(again[0])
        query = groups.query_of(row)
        start = groups.boundaries[query]
        rows = f"its rows {before[row] - start} and {row - start}"
        count, cure = repeats_in_words(document_ids, again, groups)
        found = f"document {str(document_ids[row])!r} of query {groups.name(query)!r} is {rows} ({count})"
        raise DataError(f"{found}; expected {ONE_ROW_EACH}; {cure}")


def repeats_in_words(document_ids: Array, again: Ints, groups: QueryGroups) -> tuple[str, str]:
    """Return how many rows (n_again,) name a document of their query again, in how many queries; and the cure."""
    # not `document_ids == first`: some objects of other libraries compare themselves with the array as a whole
    first, *further_ids = document_ids.tolist()
    if all(other == first for other in further_ids):
        return f"as in all {document_ids.size:,} rows", "are these the ids of documents?"
    queries = np.unique(np.searchsorted(groups.boundaries, again, side="right"))
    n_queries = f"{queries.size:,} of {count_of(groups.n_queries, 'query')}"
    cure = "if a join has multiplied the rows, keep one of each"
    return f"{count_of(again.size, 'such row')} in {n_queries}", cure


def as_row_flags(flags: ArrayLike, name: str, groups: QueryGroups) -> Bools:
    """One truth value per row, (n_rows,)."""
    column = as_column(flags, name)
    if column.size != groups.n_rows:
        raise DataError(
            f"{count_of(column.size, 'value')} of {name} for {count_of(groups.n_rows, 'row')}; expected one per row"
        )
    if column.dtype.kind == "O" and set(map(type, column.tolist())) <= {bool, np.bool_}:
        column = column.astype(bool)
    if column.dtype != np.bool_:
        raise DataError(f"{name} has dtype {column.dtype}; expected booleans, one per row")
    return np.ascontiguousarray(column)


def refuse_score_count(column: Array, groups: QueryGroups) -> None:
    """Raise a DataError unless a column has one score for each row."""
    if column.size != groups.n_rows:
        raise DataError(
            f"{count_of(column.size, 'score')} for {count_of(groups.n_rows, 'row')} in "
            f"{count_of(groups.n_queries, 'query')}; expected one per row"
        )


def scores_not_numbers(column: Array) -> DataError:
    """Return the error about scores that are texts, times or complex numbers."""
    return DataError(f"scores are not numbers (dtype {column.dtype})")


def check_scores(scores: ArrayLike, groups: QueryGroups) -> Floats:
    """Scores (n_rows,) as contiguous float64, infinite ones included; NaN is refused with its query."""
    values = as_scores(scores, groups)
    # carries NaN through and is the cheapest way to see one
    if np.isnan(np.minimum.reduce(values, initial=np.inf)):
        raise scores_with_nan(values, groups)
    return values


def scores_with_nan(values: Floats, groups: QueryGroups) -> DataError:
    """Return the error about scores (n_rows,) of which some are NaN."""
    place = place_of(np.flatnonzero(np.isnan(values)), groups)
    return DataError(f"score is NaN {place}; expected a number: infinities are fine, NaN has no rank")


def as_scores(scores: ArrayLike, groups: QueryGroups) -> Floats:
    """Scores (n_rows,) as contiguous float64, for a `RowRanker`, which refuses NaN itself."""
    column = as_column(scores, "scores")
    refuse_score_count(column, groups)
    values = as_floats(column)
    if values is None:
        raise scores_not_numbers(column)
    return values
