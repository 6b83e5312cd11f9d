"""Queries as groups of rows, and columns of rows as arrays that do not change."""

from __future__ import annotations

import sys
from array import array as array_of
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from mmap import mmap
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ltr_harness._util.text import count_of
from ltr_harness.data.alignment import refuse_unaligned
from ltr_harness.data.repeats import row_before
from ltr_harness.errors import DataError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Texts = NDArray[np.str_]
Array = NDArray[Any]
"""Arrays by their elements, for the signatures of many arrays."""

A = TypeVar("A", bound=NDArray[Any])


def sealed(array: A) -> A:
    """Make an array read-only, of which nobody else has a view, and return it."""
    array.setflags(write=False)
    return array


def keep_array(values: A) -> A:
    """Return an array that does not change: itself where nobody can write to its memory, else a read-only copy."""
    root: Any = values
    while isinstance(root.base, np.ndarray):
        root = root.base
    # pandas and Arrow hand over read-only views of memory that changes
    lasts = root.flags.owndata or isinstance(root.base, mmap)
    is_fixed = lasts and not (root.flags.writeable or values.flags.writeable)
    return values if is_fixed else sealed(values.copy())


class KeepsArrays:
    """A frozen dataclass whose arrays stay as they are, whatever becomes of the buffers that it was made of."""

    def __post_init__(self) -> None:
        vars(self).update({name: _each_array(keep_array, value) for name, value in vars(self).items()})

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a pickle or a copy: NumPy does not store that an array is read-only."""
        vars(self).update({name: _each_array(sealed, value) for name, value in state.items()})


def _each_array(change: Callable[[Any], Any], value: Any) -> Any:
    """An array, or a mapping to arrays, with each of them changed; any other value as it is."""
    if isinstance(value, np.ndarray):
        return change(value)
    if isinstance(value, dict):
        return {key: _each_array(change, element) for key, element in value.items()}
    return value


LONGEST_ID = 1000
"""Characters, in files bytes, of an id or an attribute: one longer text makes an array as wide in every row."""


def as_column(values: ArrayLike, name: str) -> NDArray[Any]:
    """One-dimensional NumPy array from anything NumPy, pandas, Arrow or Polars would call a column."""
    if _holds_bytes_to_numpy(values):
        texts: list[Any] = [entry if entry is None else str(entry) for entry in values.to_pylist()]  # type: ignore[union-attr]
        return as_column(texts, name)
    numbers = _listed_numbers(values)
    if numbers is not None:
        return numbers
    width = _text_width(values, name) if isinstance(values, list | tuple) else 0
    refuse_masked(values, name)
    try:
        # NumPy finds the width in twice the time
        array = np.asarray(values, dtype=f"U{width}" if width else None)
    except NotImplementedError:  # Arrow's views in pandas
        return as_column(_entries(values, name), name)
    except ValueError:
        raise DataError(f"{name} has rows of different lengths; expected one value per row") from None
    _refuse_odd_array(array, name)
    if array.dtype.kind == "T":
        array = _with_fixed_width(array.tolist(), name)
    if array.dtype.kind == "O":
        entries = array.tolist()
        _refuse_odd_entries(entries, name)
        _text_width(entries, name)
    return array


def _holds_bytes_to_numpy(values: Any) -> bool:
    """Return True for columns of which Arrow gives NumPy the bytes, or nothing."""
    kind = str(getattr(values, "type", ""))
    odd_kinds = ("extension<arrow.uuid>", "dictionary<values=string_view")
    return kind.startswith(odd_kinds) and hasattr(values, "to_pylist")


def _with_fixed_width(entries: list[Any], name: str) -> NDArray[Any]:
    """Return NumPy's texts of any length, which few of its functions take, in an array of another kind."""
    width = _text_width(entries, name)
    only_texts = set(map(type, entries)) <= {str}
    return np.array(entries, dtype=f"U{width or 1}" if only_texts else object)


def _listed_numbers(values: Any) -> NDArray[Any] | None:
    """Return a list of Python's numbers of one kind as an array; None where it is something else."""
    if not isinstance(values, list | tuple) or not values:
        return None
    code = {float: "d", int: "q"}.get(type(values[0]))
    if code is None:
        return None
    with suppress(TypeError, OverflowError):  # something else is among the numbers
        return np.asarray(array_of(code, values))
    return None


def _refuse_odd_array(array: Array, name: str) -> None:
    """Raise where it has no single value for each row, or bytes that are no text to NumPy."""
    if array.ndim != 1:
        raise DataError(f"{name} has shape {array.shape}; expected one value per row, shape (n_rows,)")
    if array.dtype.kind == "V":
        found = f"rows of several fields (dtype {array.dtype})"
        raise DataError(f"{name} has {found}; expected one value per row")
    if array.dtype.kind == "S":
        _refuse_odd_bytes(array.tolist(), name)


def _entries(values: Any, name: str) -> list[Any]:
    """The entries of a column of which NumPy makes no array; DataError where Python has no such values either."""
    try:
        return list(values)
    except (NotImplementedError, ValueError, OverflowError) as problem:  # such as times after 9999 in pandas
        raise DataError(f"{name} cannot be read: {problem}; expected one value per row") from None


def _refuse_odd_entries(entries: Sequence[Any], name: str) -> None:
    """Raise where a row has several values, or one that cannot be written down, such as pandas' times after 9999."""
    if set(map(type, entries)) <= _PLAIN:
        return
    for row, entry in enumerate(entries):
        if isinstance(entry, _COLLECTIONS):
            raise DataError(f"{name}[{row}] is a {type(entry).__name__}; expected one value per row")
        if isinstance(entry, bytes):
            _refuse_odd_bytes([entry], name, row)
        elif type(entry) not in _PLAIN:
            try:
                str(entry)
            except Exception as problem:
                raise DataError(f"{name}[{row}] has no text: {problem}; expected text or numbers") from None


def _refuse_odd_bytes(entries: Sequence[bytes], name: str, first_row: int = 0) -> None:
    """Raise where bytes are no text to NumPy."""
    for row, entry in enumerate(entries, start=first_row):
        if not entry.isascii():
            raise DataError(f"{name}[{row}] is {entry[:20]!r}, bytes beyond ASCII; expected text")


_PLAIN = {str, int, float, bool, type(None)}
_COLLECTIONS = (list, tuple, dict, set, frozenset, np.ndarray)


def _mask_of(values: Any) -> Bools | None:
    """Return the mask of a masked array of NumPy; None where it hides nothing."""
    # loaded where there is such an array; to load it takes longer than a small evaluation
    masked_arrays = sys.modules.get("numpy.ma")
    if masked_arrays is None:
        return None
    if isinstance(values, masked_arrays.MaskedArray):
        mask: Bools = masked_arrays.getmaskarray(values)
        return mask if mask.any() else None
    if isinstance(values, list | tuple) and any(isinstance(row, masked_arrays.MaskedArray) for row in values):
        masks = [masked_arrays.getmaskarray(masked_arrays.asanyarray(row)) for row in values]
        if len({each.shape for each in masks}) == 1:  # others are refused as they are
            return np.array(masks) if np.any(masks) else None
    return None


def refuse_masked(values: Any, name: str) -> None:
    """Raise where a masked array of NumPy has no value: the numbers below its mask mean nothing."""
    if (mask := _mask_of(values)) is not None:
        masked = np.argwhere(mask)
        place = ", ".join(map(str, masked[0].tolist()))
        expected = "expected a value in every row: leave out the rows without one, or fill them"
        raise DataError(f"{name}[{place}] is masked ({len(masked):,} such); {expected}")


_NO_NUMBERS = (str, bytes, complex, np.complexfloating, np.character, np.datetime64, np.timedelta64)


WORDS_AS_LABELS = "where they are words, number them, worst first"


def all_numbers(values: Array) -> bool:
    """Return whether all are real numbers, or None: NumPy converts texts and times, and drops imaginary parts."""
    if values.dtype.kind != "O":
        return values.dtype.kind in "biuf"
    return all(
        value is None or (hasattr(value, "__float__") and not isinstance(value, _NO_NUMBERS))
        for value in values.ravel().tolist()
    )


def unmasked(features: Any, expected: str) -> Array:
    """Features as an array, NaN below a mask of NumPy; a DataError where its rows have different lengths."""
    if (mask := _mask_of(features)) is not None:
        features = np.asarray(features)
        features = np.array(features, dtype=np.result_type(features.dtype, np.float32))
        features[mask] = np.nan
    try:
        return np.asarray(features)
    except (TypeError, ValueError, NotImplementedError):
        raise DataError(f"features are not numbers; {expected}") from None


def number_matrix(features: Any, expected: str) -> Array:
    """Features as an array of numbers, NaN below a mask of NumPy; a DataError where they are none."""
    if hasattr(features, "toarray"):
        raise DataError(f"features are a sparse matrix; {expected}, such as .toarray() gives")
    matrix = numbers_in(unmasked(features, expected))
    if matrix.dtype.kind not in "biuf":
        raise DataError(f"features are not numbers (dtype {matrix.dtype}); {expected}")
    return matrix


def numbers_in(values: Array) -> Array:
    """Objects that are numbers as float64; anything else as it is."""
    if values.dtype.kind != "O":
        return values
    numbers = as_floats(values)
    return values if numbers is None else numbers


def as_floats(values: Array, *, copy: bool | None = None) -> Floats | None:
    """float64, contiguous; None where they are no numbers."""
    try:
        return np.array(values, dtype=np.float64, order="C", copy=copy) if all_numbers(values) else None
    except (TypeError, ValueError):
        return None


TRUTHS = {"false": 0, "true": 1, "0": 0, "1": 1, "0.0": 0, "1.0": 1}
"""The numbers that texts stand for in a column with true or false among them; their case does not matter."""


def truths_as_numbers(labels: Array) -> Array:
    """Labels (n_rows,) as 1 and 0 where they are the texts true and false, NaN for nothing; others as they are."""
    if labels.dtype.kind not in "OSU":
        return labels
    entries = labels.astype(np.str_) if labels.dtype.kind == "S" else labels
    words = [str(entry).strip().lower() for entry in entries.tolist()]
    distinct = set(words)
    if not {"true", "false"} & distinct or not distinct <= {*TRUTHS, "", "none", "nan"}:
        return labels
    return np.array([TRUTHS.get(word, np.nan) for word in words], dtype=np.float64)


def _text_width(values: Sequence[Any], name: str) -> int:
    """Characters of the longest text, which is no longer than `LONGEST_ID`; 0 where not all are texts."""
    kinds = set(map(type, values))
    if not any(issubclass(kind, str | bytes) for kind in kinds):
        return 0
    texts = values if kinds == {str} else [value for value in values if isinstance(value, str | bytes)]
    longest = max(map(len, texts))
    if longest > LONGEST_ID:
        index = next(
            index
            for index, value in enumerate(values)
            if isinstance(value, str | bytes) and len(value) == longest
        )
        raise DataError(f"{name}[{index}] has {longest:,} characters; expected at most {LONGEST_ID:,}")
    return longest if kinds == {str} else 0


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

    @property
    def n_queries(self) -> int:
        return len(self.boundaries) - 1

    @property
    def n_rows(self) -> int:
        return int(self.boundaries[-1])

    @property
    def sizes(self) -> NDArray[np.int64]:
        """int64 (n_queries,), rows per query."""
        return np.diff(self.boundaries)

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
        refuse_unaligned({"group_sizes": sizes, "query ids": ids})
        counts = numbers_in(as_column(sizes, "group_sizes"))
        if counts.size == 0:
            raise DataError("group_sizes is empty; expected at least one query")
        are_integers = counts.dtype.kind in "iu" or (
            counts.dtype.kind == "f" and np.array_equal(counts, np.floor(counts))
        )
        if not are_integers:
            raise DataError(f"group_sizes has dtype {counts.dtype}; expected integers, rows per query")
        bad = np.flatnonzero(counts <= 0)
        if bad.size:
            query = int(bad[0])
            raise DataError(
                f"group_sizes[{query}] is {counts[query]} ({bad.size} such); expected at least one row per query: "
                "leave empty queries out"
            )
        total = np.cumsum(counts, dtype=np.float64)  # does not wrap, as integers do
        if total[-1] > _MOST_ROWS:
            query = int(np.argmax(total > _MOST_ROWS))
            found = f"group_sizes[{query}] is {counts[query]}, with which they add up to {total[query]:.3g}"
            raise DataError(f"{found}; expected rows per query")
        names = np.arange(counts.size) if ids is None else as_column(ids, "query ids")
        if names.size != counts.size:
            raise DataError(
                f"{names.size} query ids for {counts.size} group sizes; expected one id per query"
            )
        return cls.from_counts(counts.astype(np.int64), names)

    @classmethod
    def from_counts(cls, counts: NDArray[np.int64], ids: NDArray[Any]) -> QueryGroups:
        """Groups from the number of rows of each query, which may be 0.

        Args:
            counts: int64 (n_queries,).
            ids: (n_queries,).
        """
        return cls(sealed(np.concatenate(([0], np.cumsum(counts)))), ids)

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
        # of neighbours, all rows are shifted alike
        shift = first[0] if isinstance(as_slice(queries), slice) else np.repeat(first, sizes)
        return groups, shift + np.arange(groups.n_rows)

    def name(self, query: int) -> str:
        """Return the name of a query in messages: its id in the data."""
        return str(self.ids[query])

    def query_of(self, row: int) -> int:
        """The query a row belongs to."""
        return int(np.searchsorted(self.boundaries, row, side="right")) - 1


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


def as_slice(rows: Ints) -> Ints | slice:
    """Numbers of rows (n_kept,) as an index: of neighbours, a slice copies nothing."""
    if rows.size and np.array_equal(rows, np.arange(rows[0], rows[0] + rows.size)):
        return slice(rows[0], rows[0] + rows.size)
    return rows


def of_rows(array: NDArray[Any], rows: Ints | slice) -> NDArray[Any]:
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
    column = as_column(scores, "scores")
    refuse_score_count(column, groups)
    values = as_floats(column)
    if values is None:
        raise scores_not_numbers(column)
    # carries NaN through and is the cheapest way to see one
    if np.isnan(np.minimum.reduce(values, initial=np.inf)):
        place = place_of(np.flatnonzero(np.isnan(values)), groups)
        raise DataError(f"score is NaN {place}; expected a number: infinities are fine, NaN has no rank")
    return values
