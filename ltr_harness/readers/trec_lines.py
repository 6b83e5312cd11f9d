"""Lines of fields between white space, as TREC's files have them, with every bad line named."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ltr_harness.errors import DataError, Problem
from ltr_harness.readers import trec_kernels as kernels
from ltr_harness.readers.cost import Bound
from ltr_harness.readers.files import located, release, text_bytes
from ltr_harness.readers.rows import LONGEST_ID, SHOWN, limited
from ltr_harness.readers.trec_columns import (
    Coded,
    Names,
    Numbers,
    Packed,
    Texts,
    Tokens,
    decoded,
    names_of,
    number_of,
)
from ltr_harness.wording import count_of

NUMBERS = ("grade", "score")
"""Fields that must be numbers."""
_NUMBERS = (*NUMBERS, "rank")
_TEXTS = ("document",)
_UNREAD = ("Q0",)

_BLOCK = 8192
"""Lines that are split at a time."""


class _Block(NamedTuple):
    """Where a block of lines begins: its first byte, line and row, the last one counted before comments go."""

    at: int
    line: int
    row: int


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
        self._more = more
        data = text_bytes(self.path)
        self._data = data[3:] if data[:3].tobytes() == b"\xef\xbb\xbf" else data
        most = len(self._data) // (2 * len(self._form)) + 1  # pages that are not written take no memory
        self._columns: dict[str, Any] = {
            field: Numbers(most)
            if field in _NUMBERS
            else Packed(most, self._data.size)
            if field in _TEXTS
            else Coded(most)
            for field in self._form
            if field not in _UNREAD
        }
        self._blocks: list[_Block] = []
        self._comments: list[int] = []  # rows that are passed over, counted with them
        self._wrong: list[tuple[int, int]] = []  # row and fields of the first of them
        self._problems: list[tuple[int, Problem]] = []
        self._n_found = 0
        n_wrong = self._read()
        if not self.n_rows:
            raise DataError(Problem(str(path), "has only blank lines and comments", f"lines `{form}`"))
        # a file of another kind, not a file with mistakes: one line says it
        every = f", like all {self.n_rows:,}" if n_wrong == self.n_rows > 1 else ""
        for row, fields in self._wrong[: 1 if every else SHOWN]:
            problem = Problem(
                self._place(row), f"the line has {count_of(fields, 'field')}{every}", f"`{form}`"
            )
            self._problems.append((row, problem))
        self._n_found = 1 if every else n_wrong
        self.finish()

    def _read(self) -> int:
        """Split all lines, hand their fields to the columns; the number of wrong lines."""
        starts = np.empty((_BLOCK, len(self._form)), dtype=np.int64)
        ends, lines, counts = np.empty_like(starts), *np.empty((2, _BLOCK), dtype=np.int64)
        at = line = raw = released = n_wrong = 0
        self.n_rows = 0
        while at < self._data.size:
            self._blocks.append(_Block(at, line, raw))
            n, at, passed = kernels.split(self._data, at, starts, ends, lines, counts)
            kept, wrong = self._kept(starts[:n], ends[:n], counts[:n], raw)
            if wrong.any():
                rows = np.flatnonzero(wrong)[: SHOWN - len(self._wrong)]
                self._wrong += [(self.n_rows + int(row), int(counts[kept][row])) for row in rows]
                n_wrong += int(wrong.sum())
            if not n_wrong:
                for place, field in enumerate(self._form):
                    if field in self._columns:
                        spans = (np.ascontiguousarray(one[kept, place]) for one in (starts[:n], ends[:n]))
                        self._columns[field].add(Tokens(self._data, *spans), self.n_rows)
            self.n_rows += wrong.size
            raw, line = raw + n, line + passed
            if at - released > 1 << 23:
                release(self._data[released:at])
                released = at
        return n_wrong

    def _kept(
        self, starts: NDArray[np.int64], ends: NDArray[np.int64], counts: NDArray[np.int64], raw: int
    ) -> tuple[Any, NDArray[np.bool_]]:
        """Which rows of a block are no comments, and which of those have another number of fields."""
        n_fields = len(self._form)
        wrong = counts < n_fields if self._more else counts != n_fields
        comments = np.flatnonzero(self._data[starts[:, 0]] == ord("#"))
        if not comments.size:
            return slice(0, counts.size), wrong
        kept = np.ones(counts.size, dtype=bool)
        kept[comments] = [
            not wrong[row] and self._is_row(starts[row], ends[row]) for row in comments.tolist()
        ]
        self._comments += (raw + np.flatnonzero(~kept)).tolist()
        rows = np.flatnonzero(kept)
        return rows, wrong[rows]

    def names(self, field: str) -> Names:
        """A field of names."""
        column = self._columns[field]
        values = column.values()
        lengths = np.array([len(value) for value in values])
        codes = column.codes[: self.n_rows].astype(np.int64)
        self._refuse_long(field, lambda: lengths[codes], int(lengths.max()))
        texts = decoded(values)
        # NumPy's texts lose NUL bytes at their end, which would make two names one
        with_nul = np.array(["\0" in text for text in texts])
        if with_nul.any():
            self._report_nul(field, with_nul[codes])
        return names_of(texts, codes, str(self.path), field, Bound.of_file(len(self._data)))

    def texts(self, field: str) -> Texts:
        """A field of names, most of which are different."""
        column = self._columns[field]
        offsets = column.offsets[: self.n_rows + 1]
        self._refuse_long(field, lambda: np.diff(offsets), column.longest)

        bound, longest = Bound.of_file(len(self._data)), column.longest if column.ascii else None
        made = Texts(column.packed[: offsets[-1]], offsets, longest, (str(self.path), field, bound))
        if column.with_nul:
            bad = np.zeros(self.n_rows, dtype=bool)
            bad[np.searchsorted(offsets, np.flatnonzero(made.packed == 0), side="right") - 1] = True
            self._report_nul(field, bad)
        if 4 * column.longest * self.n_rows > bound.most:
            _ = made.values  # or it would be refused when somebody asks for them
        return made

    def _refuse_long(self, field: str, lengths: Callable[[], NDArray[np.int64]], longest: int) -> None:
        if longest <= LONGEST_ID:
            return
        of_row = lengths()
        self.report(
            of_row > LONGEST_ID,
            lambda row: f"the {field} is {count_of(of_row[row], 'byte')} long",
            f"at most {LONGEST_ID:,}",
        )
        self.finish()

    def _report_nul(self, field: str, bad: NDArray[np.bool_]) -> None:
        self.report(bad, lambda row: f"the {field} is {self.text(row, field)}", "text without NUL bytes")

    def numbers(self, field: str, expected: str) -> NDArray[np.float64]:
        """A field of numbers; what is none is reported, NaN too, and is NaN here."""
        values: NDArray[np.float64] = self._columns[field].values[: self.n_rows]
        self.report(np.isnan(values), lambda row: f"the {field} is {self.text(row, field)}", expected)
        return values

    def numbers_if_all_are(self, field: str) -> NDArray[np.float64] | None:
        """A field of numbers; None where a line has something else there."""
        column = self._columns[field]
        return column.values[: self.n_rows] if column.strict else None

    def text(self, row: int, field: str) -> str:
        """One field as it stands in the file, in quotes."""
        _, starts, ends = self._located(row)
        at = self._form.index(field)
        raw = self._data[starts[at] : ends[at]].tobytes()
        shown = raw[:60].decode("utf-8", "backslashreplace")
        return repr(shown + "…" if len(raw) > 60 else shown)

    def line(self, row: int) -> int:
        """The number of a row's line in the file."""
        return self._located(row)[0]

    def _place(self, row: int) -> str:
        return f"{self.path}:{self.line(row)}"

    def _located(self, row: int) -> tuple[int, NDArray[np.int64], NDArray[np.int64]]:
        """A row's line, and where its fields stand: its block is split again, which only messages need."""
        raw = row
        for comment in self._comments:
            if comment > raw:
                break
            raw += 1
        block = self._blocks[bisect_right(self._blocks, raw, key=lambda one: one.row) - 1]
        starts = np.empty((raw - block.row + 1, len(self._form)), dtype=np.int64)
        ends, lines, counts = np.empty_like(starts), *np.empty((2, len(starts)), dtype=np.int64)
        kernels.split(self._data, block.at, starts, ends, lines, counts)
        return block.line + int(lines[-1]), starts[-1], ends[-1]

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
            (row, Problem(self._place(row), found(row), expected)) for row in rows[:SHOWN].tolist()
        ]

    def finish(self) -> None:
        """Raise what was reported, in the order of the lines; nothing if all is well."""
        if self._problems:
            ordered = [problem for _, problem in sorted(self._problems, key=lambda entry: entry[0])]
            raise DataError(limited(ordered, self._n_found, "such line"))

    def _is_row(self, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> bool:
        """Whether a line that starts with # has a name there and numbers where they belong."""
        numbers = [at for at, field in enumerate(self._form) if field in NUMBERS]
        return ends[0] - starts[0] > 1 and not any(
            np.isnan(number_of(self._data[starts[at] : ends[at]].tobytes())) for at in numbers
        )
