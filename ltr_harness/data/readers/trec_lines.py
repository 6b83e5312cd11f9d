"""Lines of TREC's files as columns of names and of numbers, with every bad line named."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ltr_harness._util.text import count_of
from ltr_harness.data.arrays import LONGEST_ID, Ints, read_only
from ltr_harness.data.readers import trec_kernels as kernels
from ltr_harness.data.readers.rows import SHOWN, OfRow, RowProblems
from ltr_harness.data.readers.text_files import Bound, located, release, text_bytes
from ltr_harness.data.text_numbers import TextNumbers
from ltr_harness.errors import DataError, Problem

Spans = tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]
"""Names one after the other, where each begins and the last ends, and which of them each row has; empty: its own."""


@dataclass(frozen=True, eq=False)
class NameColumn:
    """A column of names, each different one stored once."""

    values: NDArray[np.str_]  # (n_distinct,), in the order they first appear
    of_block: NDArray[np.int64]  # (n_blocks,), which of them each block of neighbouring rows has
    starts: NDArray[np.int64]  # (n_blocks + 1,), where each block begins and the last ends

    @classmethod
    def by_row(cls, values: NDArray[np.str_], codes: NDArray[np.int64]) -> Self:
        """Return the names of rows as a column. Shapes: `values` (n_distinct,), `codes` (n_rows,)."""
        starts = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]]))[: codes.size]
        return cls(values, codes[starts], np.append(starts, codes.size))

    def with_more(self, names: Sequence[str]) -> "NameColumn":
        """Return the column with further names that no row has."""
        present = set(self.values.tolist())
        added = [name for name in names if name not in present]
        return NameColumn(np.concatenate([self.values, added]), self.of_block, self.starts) if added else self

    @cached_property
    def codes(self) -> NDArray[np.int64]:
        """The code of each row's name, int64 (n_rows,)."""
        return np.repeat(self.of_block, np.diff(self.starts))

    def values_at(self, rows: NDArray[np.int64]) -> NDArray[np.str_]:
        """Return the names of rows. Shapes: `rows` (n,)."""
        return self.values[self.codes[rows]]

    @cached_property
    def spans(self) -> Spans:
        """The names as bytes."""
        encoded = [value.encode("utf-8", "surrogatepass") for value in self.values.tolist()]
        packed = np.frombuffer(b"".join(encoded), dtype=np.uint8)
        offsets = np.concatenate([[0], np.cumsum([len(name) for name in encoded], dtype=np.int64)])
        return read_only(packed), read_only(offsets.astype(_offset(packed.size))), self.codes


def _offset(n_bytes: int) -> type[np.int32 | np.int64]:
    return np.int32 if n_bytes < 2**31 else np.int64


def decoded(names: Sequence[bytes]) -> list[str]:
    """Return names as texts, in which bytes that are no UTF-8 are escapes."""
    return [name.decode("utf-8", "backslashreplace") for name in names]


def checked_names(values: Sequence[str], source: str, column: str, bound: Bound) -> NDArray[np.str_]:
    """Return names as an array. Raises DataError: they would take more memory than the bound."""
    longest = max(map(len, values))
    found = f"a {column} has {longest:,} characters, so that the {len(values):,} different ones take"
    bound.refuse(source, found, 4 * longest * len(values))
    return np.array(values, dtype=np.str_)


@dataclass(frozen=True, eq=False)
class PackedNames:
    """A column of names, most of them different, as bytes: texts are made on request."""

    packed: NDArray[np.uint8]  # uint8, one row's name after the other
    offsets: NDArray[np.int64]  # int32, of large files int64, (n_rows + 1,), where each begins
    longest: int | None  # bytes; None where a name is not ASCII
    source: tuple[str, str, Bound]  # file, column and bound of the memory, for messages

    @classmethod
    def of_bytes(
        cls, packed: NDArray[np.uint8], offsets: NDArray[np.int64], source: tuple[str, str, Bound]
    ) -> Self:
        """Return names of their bytes. Raises DataError: as texts they would take more memory than the bound."""
        packed, offsets = read_only(packed), read_only(offsets)
        longest, is_ascii = kernels.longest(offsets), packed.max() < 128
        column = cls(packed, offsets, longest if is_ascii else None, source)
        if 4 * longest * (offsets.size - 1) > source[2].most:
            _ = column.values  # else it would be refused on the first request
        return column

    @classmethod
    def of_texts(cls, texts: Any, source: tuple[str, str, Bound]) -> Self:
        """Return Arrow's large texts, of which none is empty, as names; see `of_bytes`."""
        from ltr_harness.data.columns import letters_of

        letters, ends = letters_of(texts)
        packed = letters[ends[0] : ends[-1]]
        offsets: NDArray[Any] = np.empty(ends.size, dtype=_offset(packed.size))
        np.subtract(ends, ends[0], out=offsets, casting="unsafe")  # all fit
        return cls.of_bytes(packed, offsets, source)

    @property
    def values(self) -> NDArray[np.str_]:
        """See `Names`."""
        return self._names.values

    @property
    def codes(self) -> NDArray[np.int64]:
        """See `Names`."""
        return self._names.codes

    def values_at(self, rows: NDArray[np.int64]) -> NDArray[np.str_]:
        """Return the names of rows. Shapes: `rows` (n,)."""
        if self.longest is None:
            return self._names.values_at(rows)
        texts = np.zeros((rows.size, self.longest), dtype=np.uint32)
        kernels.widen(self.packed, self.offsets, rows, texts)
        return texts.view(f"<U{self.longest}")[:, 0]

    @property
    def spans(self) -> Spans:
        """See `Names`."""
        return self.packed, self.offsets, np.empty(0, dtype=np.int64)

    @cached_property
    def _names(self) -> NameColumn:
        import pyarrow as pa  # takes a tenth of a second to load, and most runs need none of it

        buffers = [None, pa.py_buffer(self.offsets.astype(np.int64)), pa.py_buffer(self.packed)]
        encoded = pa.Array.from_buffers(pa.large_binary(), self.offsets.size - 1, buffers).dictionary_encode()
        codes = encoded.indices.to_numpy().astype(np.int64)
        values = checked_names(decoded(encoded.dictionary.to_pylist()), *self.source)
        return NameColumn.by_row(values, codes)


class Coded:
    """A column of names that neighbouring rows share, given where it changes."""

    def __init__(self) -> None:
        self.names = TextNumbers()
        self.codes: list[NDArray[np.int32]] = []
        self.rows: list[NDArray[np.int64]] = []

    def add(self, data: NDArray[np.uint8], rows: Ints, starts: Ints, ends: Ints) -> None:
        """Add the names, each from its start to its end, of rows that differ from the row above."""
        self.codes.append(self.names.numbered(data, starts, ends))
        self.rows.append(rows)


class Numbers:
    """A column of numbers, into which the kernel writes the simple ones; `strict` while Arrow reads all others."""

    def __init__(self, most: int) -> None:
        self.values = np.empty(most)
        self.strict = True

    def add(self, data: NDArray[np.uint8], rows: Ints, starts: Ints, ends: Ints) -> None:
        """Add numbers that are not simple, each from its start to its end."""
        import pyarrow as pa  # as above

        offsets = np.zeros(starts.size + 1, dtype=np.int64)
        packed = np.empty(int((ends - starts).sum()), dtype=np.uint8)
        kernels.gather(data, starts, ends, packed, offsets)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(packed)]
        texts = pa.Array.from_buffers(pa.large_binary(), starts.size, buffers)
        try:  # correctly rounded
            self.values[rows] = texts.cast(pa.large_string()).cast(pa.float64()).to_numpy()
        except pa.ArrowInvalid:
            self.strict = False
            self.values[rows] = [number_of(token) for token in texts.to_pylist()]


def number_of(token: bytes) -> float:
    """Return a number that Arrow's strict reading refuses, such as ``+1.5``; NaN where it is none."""
    try:
        return np.nan if b"_" in token else float(token)
    except ValueError:
        return np.nan


NUMBERS = ("grade", "score")
"""Fields that must be numbers."""
_KINDS = dict.fromkeys((*NUMBERS, "rank"), kernels.NUMBER) | {"document": kernels.TEXT, "Q0": kernels.SKIPPED}
"""What becomes of a field; others are names that neighbouring rows share."""

WITHOUT_BLANKS = "if ids have blanks, replace each by `_`, in judgments and rankings alike"
"""The cure of lines with more fields than they should have: blanks end fields, between tabs too."""

_BLOCK = 1 << 16
"""Lines that are parsed at a time."""
_ROOM = 1 << 14
"""Names that change, and numbers that are not simple, in a block."""


class _BlockStart(NamedTuple):
    """The beginning of lines without a comment among them: its byte, and the lines and rows before it."""

    offset: int
    line: int
    row: int


class _SplitLines(NamedTuple):
    """Lines split into fields, with the line and the number of fields of each row."""

    starts: Ints  # (n_rows, n_fields), as ends
    ends: Ints
    lines: Ints  # (n_rows,), as counts
    counts: Ints
    is_bad: NDArray[np.bool_]  # (n_rows,), rows of another number of fields
    comments: list[int]  # rows that are comments
    after: int  # the first byte behind them
    passed: int  # lines


class Lines:
    """One file's lines, split into fields, without blank ones and comments; all bad lines are reported together."""

    def __init__(self, path: Path, form: str, *, more: bool) -> None:
        self.path = located([str(path)], Path())[0]
        self._form = form.split()
        self._more = more
        data = text_bytes(self.path)
        self._data = data[3:] if data[:3].tobytes() == b"\xef\xbb\xbf" else data
        most = len(self._data) // (2 * len(self._form)) + 1  # pages that are not written take no memory
        self._kinds = np.array([_KINDS.get(field, kernels.CODED) for field in self._form], dtype=np.int64)
        self._columns: dict[str, Any] = {}
        for field, kind in zip(self._form, self._kinds.tolist(), strict=True):
            if kind == kernels.CODED:
                self._columns[field] = Coded()
            elif kind == kernels.NUMBER:
                self._columns[field] = Numbers(most)
        self._kinds[np.flatnonzero(self._kinds == kernels.NUMBER)[1:]] = kernels.OTHER_NUMBER
        # names that most rows have of their own, one after the other
        n_bytes = self._data.size if kernels.TEXT in self._kinds else 0
        self._packed = np.empty(n_bytes, dtype=np.uint8)
        self._offsets: NDArray[Any] = np.empty(most + 1, dtype=_offset(n_bytes))
        self._offsets[0] = 0
        self._blocks: list[_BlockStart] = []
        self._wrong: list[tuple[int, int, int]] = []  # row, line and fields of the first of them
        self._problems = RowProblems()
        self.n_rows = 0
        n_wrong = self._read()
        if not self.n_rows:
            raise DataError.at(path, "has only blank lines and comments", f"lines `{form}`")
        self._report_wrong(n_wrong)
        self.finish()

    def _report_wrong(self, n_wrong: int) -> None:
        """Report the lines of another number of fields."""
        every, n_shown = "", SHOWN
        if n_wrong == self.n_rows > 1:  # a file of another kind, not a file with mistakes: one line says it
            every, n_shown = f", like all {self.n_rows:,}", 1
        for row, line, fields in self._wrong[:n_shown]:
            found = f"the line has {count_of(fields, 'field')}{every}"
            cure = WITHOUT_BLANKS if fields > len(self._form) else ""
            expected = f"`{' '.join(self._form)}`"
            self._problems.listed.append((row, Problem(f"{self.path}:{line}", found, expected, cure)))
        self._problems.total = 1 if every else n_wrong

    def _read(self) -> int:
        """Parse all lines into the columns, and return the number of bad lines."""
        data, n_fields = self._data, len(self._form)
        numbers = [column for column in self._columns.values() if isinstance(column, Numbers)]
        main, other = [column.values for column in (*numbers, Numbers(0), Numbers(0))][:2]
        kinds, arrays = self._kinds, (main, other, self._packed, self._offsets)
        previous = np.full((n_fields, 2), -1, dtype=np.int64)
        changes, hard = np.empty((2, _ROOM + n_fields, 4), dtype=np.int64)
        position = line = released = 0
        hash_at = -1
        while position < data.size:
            self._blocks.append(_BlockStart(position, line, self.n_rows))
            last = self.n_rows + _BLOCK
            stopped, self.n_rows, position, passed, n_changes, n_hard = kernels.parse(
                data, position, self.n_rows, last, kinds, self._more, hash_at, previous, arrays, changes, hard
            )
            line += passed
            for entries in (changes[:n_changes], hard[:n_hard]):
                for field in np.unique(entries[:, 0]).tolist():
                    rows, starts, ends = entries[entries[:, 0] == field, 1:].T.copy()
                    self._columns[self._form[field]].add(data, rows, starts, ends)
            if stopped == kernels.AT_WRONG:
                break
            if stopped == kernels.AT_HASH:
                found_line = self._split(position, 1)
                if found_line.comments:
                    position, line = found_line.after, line + 1
                else:
                    hash_at = position
            if position - released > 1 << 22:
                release(data[released:position])
                released = position
        return self._count_wrong(position, line)

    def _count_wrong(self, position: int, line: int) -> int:
        """Count the rows from the first wrong line on, and return how many of them are wrong."""
        data, n_wrong = self._data, 0
        while position < data.size:
            fields = self._split(position, _BLOCK)
            for row in np.flatnonzero(fields.is_bad)[: SHOWN - len(self._wrong)].tolist():
                before = self.n_rows + row - bisect_right(fields.comments, row)
                self._wrong.append((before, line + int(fields.lines[row]), int(fields.counts[row])))
            n_wrong += int(fields.is_bad.sum())
            self.n_rows += fields.counts.size - len(fields.comments)
            line += fields.passed
            release(data[position : fields.after])
            position = fields.after
        return n_wrong

    def _split(self, position: int, most: int) -> _SplitLines:
        """Split the next lines into fields, at most so many."""
        n_fields = len(self._form)
        starts, ends = np.empty((2, most, n_fields), dtype=np.int64)
        lines, counts = np.empty((2, most), dtype=np.int64)
        n, after, passed = kernels.split(self._data, position, starts, ends, lines, counts)
        starts, ends, lines, counts = starts[:n], ends[:n], lines[:n], counts[:n]
        is_bad = counts < n_fields if self._more else counts != n_fields
        comments = [
            row
            for row in np.flatnonzero(self._data[starts[:, 0]] == ord("#")).tolist()
            if is_bad[row] or not self._is_row(starts[row], ends[row])
        ]
        is_bad[comments] = False
        return _SplitLines(starts, ends, lines, counts, is_bad, comments, after, passed)

    def names(self, field: str) -> NameColumn:
        """Return a field of names."""
        column = self._columns[field]
        values, of_block = column.names.values(), np.concatenate(column.codes).astype(np.int64)
        starts = np.append(np.concatenate(column.rows), self.n_rows)
        lengths = np.array([len(value) for value in values])
        bound = Bound.of_file(len(self._data))

        def each(facts: NDArray[Any]) -> NDArray[Any]:
            return np.repeat(facts[of_block], np.diff(starts))

        self._refuse_long(field, lambda: each(lengths), int(lengths.max()))
        texts = decoded(values)
        # NumPy's texts lose NUL bytes at their end, which would make two names one
        with_nul = np.array(["\0" in text for text in texts])
        if with_nul.any():
            self._report_nul(field, each(with_nul))
        return NameColumn(checked_names(texts, str(self.path), field, bound), of_block, starts)

    def texts(self, field: str) -> PackedNames:
        """Return a field of names, most of which are different."""
        offsets = read_only(self._offsets[: self.n_rows + 1])
        packed = self._packed[: offsets[-1]]
        self._refuse_long(field, lambda: np.diff(offsets), kernels.longest(offsets))

        if not packed.all():
            bad = np.zeros(self.n_rows, dtype=bool)
            bad[np.searchsorted(offsets, np.flatnonzero(packed == 0), side="right") - 1] = True
            self._report_nul(field, bad)
        return PackedNames.of_bytes(packed, offsets, (str(self.path), field, Bound.of_file(len(self._data))))

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
        """Return a field of numbers, NaN where it is none, which is reported, as NaN is."""
        values: NDArray[np.float64] = self._columns[field].values[: self.n_rows]
        self.report(np.isnan(values), lambda row: f"the {field} is {self.text(row, field)}", expected)
        return values

    def numbers_if_all_are(self, field: str) -> NDArray[np.float64] | None:
        """Return a field of numbers; None where a line has something else."""
        column = self._columns[field]
        return column.values[: self.n_rows] if column.strict else None

    def text(self, row: int, field: str) -> str:
        """Return one field as it stands in the file, in quotes."""
        _, starts, ends = self._locate(row)
        number = self._form.index(field)
        raw = self._data[starts[number] : ends[number]].tobytes()
        beginning = raw[:60].decode("utf-8", "backslashreplace")
        return repr(beginning + "…" if len(raw) > 60 else beginning)

    def n_fields(self, row: int) -> int:
        """Return the number of a row's fields, including those after the last that is read."""
        block = self._block_of(row)
        return int(self._split(block.offset, row - block.row + 1).counts[-1])

    def line(self, row: int) -> int:
        """Return the number of a row's line in the file."""
        return self._locate(row)[0]

    def _block_of(self, row: int) -> _BlockStart:
        return self._blocks[bisect_right(self._blocks, row, key=lambda block: block.row) - 1]

    def _locate(self, row: int) -> tuple[int, NDArray[np.int64], NDArray[np.int64]]:
        """Return a row's line, and the starts and ends of its fields; its block is split again, for messages alone."""
        block = self._block_of(row)
        lines = self._split(block.offset, row - block.row + 1)
        return block.line + int(lines.lines[-1]), lines.starts[-1], lines.ends[-1]

    def report(self, bad: NDArray[np.bool_], found: OfRow, expected: str) -> None:
        """Keep a problem for each bad row (n_rows,), which `finish` raises."""
        self._problems.report(bad, lambda row: f"{self.path}:{self.line(row)}", found, expected)

    def report_repeats(
        self,
        before: NDArray[np.int64],
        found: OfRow,
        expected: str,
        values: NDArray[Any],
        other_cure: str = "",
    ) -> None:
        """Keep one problem for all rows (n_rows,) that repeat an earlier one, which `finish` raises."""
        self._problems.report_repeats(
            before, lambda row: f"{self.path}:{self.line(row)}", found, expected, values, other_cure
        )

    def finish(self) -> None:
        """Raise the problems that were reported, in the order of the lines, if there are any."""
        self._problems.finish("such line")

    def _is_row(self, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> bool:
        """Return whether a line that starts with # is a row: a longer first field, and numbers where they belong."""
        numbers = [index for index, field in enumerate(self._form) if field in NUMBERS]
        return ends[0] - starts[0] > 1 and not any(
            np.isnan(number_of(self._data[starts[index] : ends[index]].tobytes())) for index in numbers
        )
