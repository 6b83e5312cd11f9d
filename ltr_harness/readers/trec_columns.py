"""Columns of names and of numbers, filled a block of lines at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ltr_harness.readers import trec_hashes as hashes
from ltr_harness.readers import trec_kernels as kernels
from ltr_harness.readers.cost import Bound

Spans = tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]
"""Names one after the other, where each begins and the last ends, and which of them each row has; empty: its own."""


@dataclass(frozen=True, eq=False)
class Names:
    """A column of names, each different one stored once.

    Attributes:
        values: (n_distinct,), in the order they first appear.
        of_block: int64 (n_blocks,), which of them each block of neighbouring rows has.
        starts: int64 (n_blocks + 1,), where each block begins and the last ends.
    """

    values: NDArray[np.str_]
    of_block: NDArray[np.int64]
    starts: NDArray[np.int64]

    @classmethod
    def by_row(cls, values: NDArray[np.str_], codes: NDArray[np.int64]) -> Names:
        """Names of rows.

        Shapes: `values` (n_distinct,), `codes` (n_rows,).
        """
        starts = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]]))
        return cls(values, codes[starts], np.append(starts, codes.size))

    @cached_property
    def codes(self) -> NDArray[np.int64]:
        """int64 (n_rows,), which name each row has."""
        return np.repeat(self.of_block, np.diff(self.starts))

    def of(self, rows: NDArray[np.int64]) -> NDArray[np.str_]:
        """The names of the given rows.

        Shapes: `rows` (n,).
        """
        return self.values[self.codes[rows]]

    @cached_property
    def spans(self) -> Spans:
        """The names as bytes."""
        encoded = [value.encode("utf-8", "surrogatepass") for value in self.values.tolist()]
        packed = np.array(bytearray(b"".join(encoded)))
        offsets = np.concatenate([[0], np.cumsum([len(one) for one in encoded], dtype=np.int64)])
        return packed, offsets.astype(_offset(packed.size)), self.codes


def _offset(n_bytes: int) -> type[np.int32 | np.int64]:
    return np.int32 if n_bytes < 2**31 else np.int64


def decoded(names: Sequence[bytes]) -> list[str]:
    """Names as texts; bytes that are no UTF-8 are shown as escapes."""
    return [name.decode("utf-8", "backslashreplace") for name in names]


def checked_names(values: Sequence[str], source: str, column: str, bound: Bound) -> NDArray[np.str_]:
    """Names as an array, where they do not take more memory than they may.

    Raises:
        DataError: one long name would make all as wide.
    """
    longest = max(map(len, values))
    found = f"a {column} has {longest:,} characters, so that the {len(values):,} different ones take"
    bound.refuse(source, found, 4 * longest * len(values))
    return np.array(values, dtype=np.str_)


@dataclass(frozen=True, eq=False)
class Texts:
    """A column of names, most of them different, as bytes: texts are made when somebody asks for them.

    Attributes:
        packed: uint8, one row's name after the other.
        offsets: int32, of large files int64, (n_rows + 1,), where each begins.
        longest: bytes; None where a name is not ASCII.
        source: file, column and bound of the memory, for messages.
    """

    packed: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    longest: int | None
    source: tuple[str, str, Bound]

    @property
    def values(self) -> NDArray[np.str_]:
        """See `Names`."""
        return self._names.values

    @property
    def codes(self) -> NDArray[np.int64]:
        """See `Names`."""
        return self._names.codes

    def of(self, rows: NDArray[np.int64]) -> NDArray[np.str_]:
        """The names of the given rows.

        Shapes: `rows` (n,).
        """
        if self.longest is None:
            return self._names.of(rows)
        texts = np.zeros((rows.size, self.longest), dtype=np.uint32)
        kernels.widen(self.packed, self.offsets, rows, texts)
        return texts.view(f"<U{self.longest}")[:, 0]

    @property
    def spans(self) -> Spans:
        """See `Names`."""
        return self.packed, self.offsets, np.empty(0, dtype=np.int64)

    @cached_property
    def _names(self) -> Names:
        from pyarrow import Array, large_binary, py_buffer

        buffers = [None, py_buffer(self.offsets.astype(np.int64)), py_buffer(self.packed)]
        encoded = Array.from_buffers(large_binary(), self.offsets.size - 1, buffers).dictionary_encode()
        codes = encoded.indices.to_numpy().astype(np.int64)
        values = checked_names(decoded(encoded.dictionary.to_pylist()), *self.source)
        return Names.by_row(values, codes)


class Tokens(NamedTuple):
    """A field of some rows.

    Attributes:
        data: uint8 (n_bytes,), the whole file.
        rows: int64 (n,).
        starts, ends: int64 (n,), where the tokens stand in it.
    """

    data: NDArray[np.uint8]
    rows: NDArray[np.int64]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]


class Coded:
    """A column of names that neighbouring rows share, given where it changes."""

    def __init__(self) -> None:
        self._codes: list[NDArray[np.int64]] = []
        self._rows: list[NDArray[np.int64]] = []
        self._n = 0
        self._store = np.empty(1 << 16, dtype=np.uint8)
        self._ends = np.empty(1 << 10, dtype=np.int64)
        self._table = np.full(1 << 11, -1, dtype=np.int64)

    def add(self, tokens: Tokens) -> None:
        """Take in the names of rows that have not that of the row above."""
        data, rows, starts, ends = tokens
        self._make_room(int((ends - starts).sum()), starts.size)
        names = (self._store, self._ends, self._table)
        codes = np.empty(rows.size, dtype=np.int64)
        self._n = hashes.encode(data, starts, ends, names, self._n, codes)
        self._codes.append(codes)
        self._rows.append(rows)

    def _make_room(self, n_bytes: int, n_names: int) -> None:
        used = int(self._ends[self._n - 1]) if self._n else 0
        if used + n_bytes > self._store.size:
            self._store = np.resize(self._store, 2 * (used + n_bytes))
        if self._n + n_names > self._ends.size:
            self._ends = np.resize(self._ends, 2 * (self._n + n_names))
        if 2 * (self._n + n_names) > self._table.size:
            self._table = np.empty(1 << (4 * (self._n + n_names)).bit_length(), dtype=np.int64)
            hashes.rehash(self._store, self._ends, self._n, self._table)

    def values(self) -> list[bytes]:
        ends = self._ends[: self._n].tolist()
        whole = self._store[: ends[-1] if ends else 0].tobytes()
        return [whole[start:end] for start, end in pairwise([0, *ends])]

    def blocks(self, n_rows: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Which name each block of neighbouring rows has, and where each begins and the last ends."""
        return np.concatenate(self._codes), np.append(np.concatenate(self._rows), n_rows)


class Numbers:
    """A column of numbers, of which the plain ones are there; `strict` while Arrow takes all of them."""

    def __init__(self, most: int) -> None:
        self.values = np.empty(most)
        self.strict = True

    def add(self, tokens: Tokens) -> None:
        """Take in those that are not plain."""
        data, rows, starts, ends = tokens
        texts = _gathered(data, starts, ends)
        values = _as_numbers(texts)
        if values is None:
            self.strict = False
            values = np.array([number_of(token) for token in texts.to_pylist()])
        self.values[rows] = values


class Packed:
    """A column of names, most of them different, one after the other."""

    def __init__(self, most: int, n_bytes: int) -> None:
        self.packed = np.empty(n_bytes, dtype=np.uint8)  # pages that are not written take no memory
        self.offsets = np.empty(most + 1, dtype=_offset(n_bytes))
        self.offsets[0] = 0


def _gathered(data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]) -> Any:
    """Tokens as a `pyarrow.LargeBinaryArray`."""
    from pyarrow import Array, large_binary, py_buffer

    offsets = np.zeros(starts.size + 1, dtype=np.int64)
    packed = np.empty(int((ends - starts).sum()), dtype=np.uint8)
    kernels.gather(data, starts, ends, packed, offsets)
    return Array.from_buffers(large_binary(), starts.size, [None, py_buffer(offsets), py_buffer(packed)])


def _as_numbers(column: Any) -> NDArray[np.float64] | None:
    """A column of texts as float64, correctly rounded; None where one of them is no plain number."""
    from pyarrow import ArrowInvalid, float64, large_string

    try:
        values: NDArray[np.float64] = column.cast(large_string()).cast(float64()).to_numpy()
    except ArrowInvalid:
        return None
    return values


def number_of(token: bytes) -> float:
    """Takes what Arrow's strict reading leaves out, such as ``+1.5``; NaN for what is no number."""
    try:
        return np.nan if b"_" in token else float(token)
    except ValueError:
        return np.nan
