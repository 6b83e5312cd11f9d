"""Lines of fields between white space, as TREC's files have them, with every bad line named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltr_harness.compiled import compiled
from ltr_harness.errors import DataError, Problem
from ltr_harness.readers.cost import Bound
from ltr_harness.readers.files import located, text_bytes
from ltr_harness.readers.rows import LONGEST_ID, SHOWN, limited
from ltr_harness.wording import count_of

NUMBERS = ("grade", "score")
"""Fields that must be numbers."""


@dataclass(frozen=True, eq=False)
class Names:
    """A column of names, each different one stored once.

    Attributes:
        values: (n_distinct,), in the order they first appear.
        codes: int64 (n_rows,), which of them each row has.
    """

    values: NDArray[np.str_]
    codes: NDArray[np.int64]

    def of(self, rows: NDArray[np.int64]) -> NDArray[np.str_]:
        """The names of the given rows.

        Args:
            rows: int64 (n,).
        """
        return self.values[self.codes[rows]]


def names_of(
    values: Sequence[str], codes: NDArray[np.int64], source: str, column: str, bound: Bound
) -> Names:
    """A column of names, where they do not take more memory than they may.

    Args:
        values: the different ones.
        codes: int64 (n_rows,), which of them each row has.
        source, column: what messages call them.
        bound: of the memory.

    Raises:
        DataError: one long name would make all as wide.
    """
    longest = max(map(len, values))
    found = f"a {column} has {longest:,} characters, so that the {len(values):,} different ones take"
    bound.refuse(source, found, 4 * longest * len(values))
    return Names(np.array(values, dtype=np.str_), codes)


class Lines:
    """One file's lines, split into fields; what is wrong with them is gathered and told at once.

    Lines end with LF, CRLF or CR. Blank lines are passed over, and lines that start with ``#`` unless they are as all
    others are: then a name starts with it.

    Args:
        path: plain or compressed text.
        form: the fields' names, such as ``"query iteration document grade"``; those of numbers are `NUMBERS`.
        more: further fields may follow and are ignored.

    Raises:
        DataError: no such file, no text, nothing in it, or lines with another number of fields.
    """

    def __init__(self, path: Path, form: str, *, more: bool) -> None:
        self.path = located([str(path)], Path())[0]
        self._form = form.split()
        data = text_bytes(self.path)
        self._data = data[3:] if data[:3].tobytes() == b"\xef\xbb\xbf" else data
        n_fields = len(self._form)
        most = _n_lines(self._data)
        starts = np.empty((n_fields, most), dtype=np.int64)
        ends = np.empty((n_fields, most), dtype=np.int64)
        lines = np.empty(most, dtype=np.int64)
        counts = np.empty(most, dtype=np.int64)
        n_rows = _split(self._data, starts, ends, lines, counts)
        self._starts, self._ends, self.lines = starts[:, :n_rows], ends[:, :n_rows], lines[:n_rows]
        counts = counts[:n_rows]
        wrong = counts < n_fields if more else counts != n_fields
        comments = np.flatnonzero(self._data[self._starts[0]] == ord("#"))
        if comments.size:
            kept = np.ones(n_rows, dtype=bool)
            kept[comments] = [not wrong[row] and self._is_row(row) for row in comments.tolist()]
            self._starts, self._ends, self.lines = (
                self._starts[:, kept],
                self._ends[:, kept],
                self.lines[kept],
            )
            counts, wrong, n_rows = counts[kept], wrong[kept], int(kept.sum())
        if not n_rows:
            raise DataError(Problem(str(path), "has only blank lines and comments", f"lines `{form}`"))
        self._problems: list[tuple[int, Problem]] = []
        self._n_found = 0
        every = f", like all {n_rows:,}" if wrong.all() and n_rows > 1 else ""
        if every:  # a file of another kind, not a file with mistakes: one line says it
            wrong = np.arange(n_rows) == 0
        self.report(
            wrong,
            lambda row: f"the line has {count_of(counts[row], 'field')}{every}",
            f"`{form}`",
        )
        self.finish()

    def names(self, field: str) -> Names:
        """A field of names."""
        at = self._form.index(field)
        lengths = self._ends[at] - self._starts[at]
        self.report(
            lengths > LONGEST_ID,
            lambda row: f"the {field} is {count_of(lengths[row], 'byte')} long",
            f"at most {LONGEST_ID:,}",
        )
        if (lengths > LONGEST_ID).any():
            self.finish()
        encoded = self._column(field).dictionary_encode()
        values = [value.decode("utf-8", "backslashreplace") for value in encoded.dictionary.to_pylist()]
        codes = encoded.indices.to_numpy().astype(np.int64)
        # NumPy's texts lose NUL bytes at their end, which would make two names one.
        with_nul = np.array(["\0" in value for value in values])
        self.report(
            with_nul[codes], lambda row: f"the {field} is {self.text(row, field)}", "text without NUL bytes"
        )
        return names_of(values, codes, str(self.path), field, Bound.of_file(len(self._data)))

    def numbers(self, field: str, expected: str) -> NDArray[np.float64]:
        """A field of numbers; what is none is reported, NaN too, and is NaN here."""
        column = self._column(field)
        values = _as_numbers(column)
        if values is None:
            values = np.array([_number(token) for token in column.to_pylist()])
        self.report(np.isnan(values), lambda row: f"the {field} is {self.text(row, field)}", expected)
        return values

    def numbers_if_all_are(self, field: str) -> NDArray[np.float64] | None:
        """A field of numbers; None where a line has something else there."""
        return _as_numbers(self._column(field))

    def text(self, row: int, field: str) -> str:
        """One field as it stands in the file, in quotes."""
        at = self._form.index(field)
        raw = self._data[self._starts[at, row] : self._ends[at, row]].tobytes()
        shown = raw[:60].decode("utf-8", "backslashreplace")
        return repr(shown + "…" if len(raw) > 60 else shown)

    def report(self, bad: NDArray[np.bool_], found: Callable[[int], str], expected: str) -> None:
        """Keep a problem for each bad row, for `finish` to tell.

        Args:
            bad: bool (n_lines,).
            found: what is wrong, from a line's place.
            expected: what would be right.
        """
        rows = np.flatnonzero(bad)
        self._n_found += rows.size
        self._problems += [
            (row, Problem(f"{self.path}:{self.lines[row]}", found(row), expected))
            for row in rows[:SHOWN].tolist()
        ]

    def finish(self) -> None:
        """Raise what was reported, in the order of the lines; nothing if all is well."""
        if self._problems:
            ordered = [problem for _, problem in sorted(self._problems, key=lambda entry: entry[0])]
            raise DataError(limited(ordered, self._n_found, "such line"))

    def _is_row(self, row: int) -> bool:
        """Whether a line that starts with # has a name there and numbers where they belong."""
        numbers = [at for at, field in enumerate(self._form) if field in NUMBERS]
        return self._ends[0, row] - self._starts[0, row] > 1 and not any(
            np.isnan(_number(self._data[self._starts[at, row] : self._ends[at, row]].tobytes()))
            for at in numbers
        )

    def _column(self, field: str) -> Any:
        """One field of all lines, a `pyarrow.LargeBinaryArray`."""
        from pyarrow import Array, large_binary, py_buffer

        at = self._form.index(field)
        starts = np.ascontiguousarray(self._starts[at])
        offsets = np.zeros(starts.size + 1, dtype=np.int64)
        np.cumsum(self._ends[at] - starts, out=offsets[1:])
        packed = np.empty(int(offsets[-1]), dtype=np.uint8)
        _gather(self._data, starts, offsets, packed)
        return Array.from_buffers(large_binary(), starts.size, [None, py_buffer(offsets), py_buffer(packed)])


def _as_numbers(column: Any) -> NDArray[np.float64] | None:
    """A column of texts as float64, correctly rounded; None where one of them is no plain number."""
    from pyarrow import ArrowInvalid, float64, large_string

    try:
        values: NDArray[np.float64] = column.cast(large_string()).cast(float64()).to_numpy()
    except ArrowInvalid:
        return None
    return values


def _number(token: bytes) -> float:
    """Takes what Arrow's strict reading leaves out, such as ``+1.5``; NaN for what is no number."""
    try:
        return np.nan if b"_" in token else float(token)
    except ValueError:
        return np.nan


@compiled
def _ends_line(data: NDArray[np.uint8], at: int) -> bool:
    """LF, or a CR that no LF follows."""
    return data[at] == 10 or (data[at] == 13 and (at + 1 == data.size or data[at + 1] != 10))


@compiled
def _n_lines(data: NDArray[np.uint8]) -> int:
    lines = 1
    for at in range(data.size):
        lines += _ends_line(data, at)
    return lines


@compiled
def _split(
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    lines: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> int:
    """Where the fields of each line stand, the line's number and how many fields it has; returns the rows."""
    row = 0
    line = 0
    at = 0
    size = data.size
    wanted = starts.shape[0]
    while at < size:
        line += 1
        field = 0
        while at < size and not _ends_line(data, at):
            byte = data[at]
            if byte == 32 or 9 <= byte <= 13:
                at += 1
                continue
            begin = at
            while at < size and data[at] != 32 and not 9 <= data[at] <= 13:
                at += 1
            if field < wanted:
                starts[field, row] = begin
                ends[field, row] = at
            field += 1
        at += 1
        if field > 0:
            lines[row] = line
            counts[row] = field
            row += 1
    return row


@compiled
def _gather(
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    offsets: NDArray[np.int64],
    packed: NDArray[np.uint8],
) -> None:
    for row in range(starts.size):
        at = starts[row] - offsets[row]
        for i in range(offsets[row], offsets[row + 1]):
            packed[i] = data[at + i]
