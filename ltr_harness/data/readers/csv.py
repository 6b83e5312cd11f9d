"""Comma- or tab-separated files with a header row."""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field

from ltr_harness._util.files import bare_name
from ltr_harness._util.tables import FORMULA
from ltr_harness._util.text import count_of, shortened
from ltr_harness.data.columns import ArrowColumns, is_numeric, truths_of
from ltr_harness.data.logs.separators import refuse_other_separator
from ltr_harness.data.readers.rows import SHOWN, limited, repeated
from ltr_harness.data.readers.table_columns import FIRST_ROWS, OpenedTable, column_problem
from ltr_harness.data.readers.table_reader import TableReader
from ltr_harness.data.readers.text_files import release, text_bytes
from ltr_harness.data.readers.words import NotNumeric
from ltr_harness.errors import DataError, Problem

_FIELD_LIMIT = 1 << 30
_NAME_IT = 'name it: `separator: "{0}"` under `data:`, `--column \'separator="{0}"\'` for commands'
_DECIMAL_COMMA = re.compile(r"\s*[-+]?[0-9]+(\.[0-9]{3})*,[0-9]+\s*")


class Delimited(OpenedTable):
    """Opened CSV or TSV file: its columns are known, its rows are not read yet."""

    def __init__(self, path: Path, separator: str, *, header: bool = True) -> None:
        self.path = path
        self.schema = None
        self.separator = separator
        self.header = header
        self._data = text_bytes(path)
        self.size = len(self._data)
        self.n_rows: int | None = None
        first_record = next(self._records(), None)
        if first_record is None:
            raise DataError.at(path, "has only blank lines", "rows")
        line, fields = first_record[0], first_record[1]
        if header:
            self._refuse_other_encoding(line)
        if len(fields) == 1:
            refuse_other_separator(path, line, fields[0], separator, _NAME_IT)
        self.columns = fields if header else [str(i) for i in range(len(fields))]
        self._refuse_repeated_names(line)

    def _refuse_other_encoding(self, line: int) -> None:
        """Raise for a header that pyarrow would refuse in words that nobody understands."""
        try:
            bytes(self._data[: 1 << 20]).lstrip().partition(b"\n")[0].decode("utf-8")
        except UnicodeDecodeError:
            place, found = f"{self.path}:{line}", "the header is not UTF-8"
            raise DataError.at(place, found, "UTF-8 text", "save it as UTF-8") from None

    def _refuse_repeated_names(self, line: int) -> None:
        repeated_names = repeated(self.columns)
        if not repeated_names:
            return
        if header_problem := self.missing_header():
            raise DataError(header_problem)
        found = f"the header names {', '.join(map(repr, repeated_names))} twice"
        if "" in repeated_names:
            places = [str(number) for number, name in enumerate(self.columns, start=1) if not name]
            found = f"columns {shortened(places, SHOWN)} have no name"
        raise DataError.at(f"{self.path}:{line}", found, "a different name for each column")

    def missing_header(self) -> Problem | None:
        """Return the problem that at least half of the first row is numbers, unless they merely count columns."""
        if not self.header:
            return None
        numbers = [name for name in self.columns if name and _is_number(name)]
        column_numbers = [str(number) for start in (0, 1) for number in range(start, start + len(numbers))]
        n = len(numbers)
        if 2 * n < len(self.columns) or numbers in (column_numbers[:n], column_numbers[n:]):
            return None
        found = f"the first row has values, not names: {shortened(self.columns, 6)}"
        cure = "write one above the rows, or use `reader: lightgbm` for rows that begin with the label"
        return Problem(str(self.path), found, "a header with the names of the columns", cure)

    def numeric_columns(self) -> set[str]:
        """Return the columns that have numbers, true and false, or nothing in the first megabyte."""
        return {name for name, kind in self._first_types.items() if is_numeric(kind)}

    @cached_property
    def _first_types(self) -> dict[str, Any]:
        """The Arrow types of columns' values in the first megabyte."""
        from pyarrow import csv

        try:
            schema = csv.open_csv(self._stream(), **self._options()).schema
            return dict(zip(schema.names, schema.types, strict=True))
        except (pa.ArrowInvalid, UnicodeDecodeError) as problem:
            self._refuse_wrong_rows()
            raise self._unexpected(problem) from None

    def first_texts(self, names: Sequence[str]) -> dict[str, list[str]]:
        """See `OpenedTable`; everything is text here."""
        records = [fields for _, fields, _ in self._first_records]
        index_of_column = {name: self.columns.index(name) for name in names}
        return {
            name: [fields[i] for fields in records if len(fields) > i] for name, i in index_of_column.items()
        }

    @cached_property
    def _first_records(self) -> list[tuple[int, list[str], str]]:
        return list(islice(self._records(), self.header, self.header + FIRST_ROWS))

    def decimal_commas(self, columns: Sequence[str]) -> list[Problem]:
        """See `OpenedTable`; only a column's first rows are read."""
        problems = []
        for name in columns:
            column = self.columns.index(name)
            cells = [
                (line, fields[column])
                for line, fields, _ in self._first_records
                if len(fields) > column and fields[column].strip()
            ]
            if cells and all(_DECIMAL_COMMA.fullmatch(cell) for _, cell in cells):
                place, found = f"{self.path}:{cells[0][0]}", f"column {name!r} contains {cells[0][1]!r}"
                cure = "write numbers with a decimal point, or list the columns to use under `features:`"
                problems.append(Problem(place, found, "a number such as 1234.5", cure))
        return problems

    def read(self, numbers: Sequence[str], texts: Sequence[str]) -> ArrowColumns:
        """Read numbers (NULL, NaN and nothing are null), and texts without the apostrophe that `csv_cell` writes."""
        from pyarrow import compute

        try:
            table = self._parsed(self._number_types(numbers), texts)
        except pa.ArrowInvalid:
            self._refuse_wrong_rows()
            table = self._as_numbers(self._as_texts([*numbers, *texts]), numbers)
        if table.num_rows == 0:
            raise DataError.at(self.path, "has a header and no rows", "rows")
        for name in texts:
            values = compute.replace_substring_regex(table[name], FORMULA, r"\1")
            table = table.set_column(table.column_names.index(name), name, values)
        return ArrowColumns(table)

    def read_of(self, rows: NDArray[np.bool_], numbers: Sequence[str], texts: Sequence[str]) -> ArrowColumns:
        """See `OpenedTable`; the numbers of other rows are null where one of them is none."""
        from pyarrow import compute

        try:
            return self.read(numbers, texts)
        except DataError:
            table = self.read([], [*numbers, *texts]).table
        null = pa.scalar(None, pa.string())
        for index, name in enumerate(numbers):
            table = table.set_column(index, name, compute.if_else(pa.array(rows), table[name], null))
        return ArrowColumns(self._as_numbers(table, numbers))

    def _number_types(self, numbers: Sequence[str]) -> dict[str, Any]:
        """Return the types to read columns of numbers with: truth values where the first rows have true and false."""
        truths = {name for name, kind in self._first_types.items() if pa.types.is_boolean(kind)}
        return dict.fromkeys(numbers, pa.float64()) | dict.fromkeys(truths.intersection(numbers), pa.bool_())

    def _parsed(self, kinds: Mapping[str, Any], texts: Sequence[str]) -> Any:
        from pyarrow import csv

        kinds = {**kinds, **{name: pa.string() for name in texts}}
        convert = csv.ConvertOptions(column_types=kinds, include_columns=list(kinds))
        return csv.read_csv(self._stream(), convert_options=convert, **self._options())

    def _as_texts(self, columns: Sequence[str]) -> Any:
        try:
            return self._parsed({}, columns)
        except pa.ArrowInvalid as problem:
            raise self._unexpected(problem) from None

    def _as_numbers(self, table: Any, numbers: Sequence[str]) -> Any:
        """Return a table of texts with some columns as numbers. Raises DataError: each column with other text."""
        from pyarrow import compute

        null, text_cells = pa.scalar(None, pa.string()), []
        for name in numbers:
            is_empty = compute.is_in(table[name], value_set=pa.array([*_nulls()]))
            cells = compute.if_else(is_empty, null, table[name])
            values = truths_of(cells)
            if values is None:
                text_cells += self._texts_in(cells, name)
            if values is None and not text_cells:
                try:
                    values = compute.ascii_trim(cells, " \t").cast(pa.float64())
                except pa.ArrowInvalid as problem:
                    raise self._unexpected(problem) from None
            if not text_cells:
                table = table.set_column(table.column_names.index(name), name, values)
        DataError.refuse(self._not_numeric(text_cells))
        return table

    def place(self, row: int) -> str:
        """Return ``file:line`` of a row; counted each time, since only messages need it."""
        return f"{self.path}:{self._lines([row + self.header])[0]}"

    def _stream(self) -> io.BufferedReader:
        return io.BufferedReader(_Passing(self._data), 1 << 20)

    def _options(self) -> dict[str, Any]:
        from pyarrow.csv import ParseOptions, ReadOptions

        # One thread: worker processes read side by side, and threads do not survive their making.
        layout = ReadOptions(use_threads=False, column_names=None if self.header else self.columns)
        dialect = ParseOptions(delimiter=self.separator, newlines_in_values=True)
        return {"read_options": layout, "parse_options": dialect}

    def _records(self, errors: str = "backslashreplace") -> Iterator[tuple[int, list[str], str]]:
        """Yield line, fields and text of each record that is not blank, the header included."""
        csv.field_size_limit(_FIELD_LIMIT)
        lines: list[str] = []

        def read(text: Iterable[str]) -> Iterator[str]:
            for line in text:
                lines.append(line)
                yield line

        with io.TextIOWrapper(self._stream(), encoding="utf-8-sig", errors=errors, newline="") as text:
            reader = csv.reader(read(text), delimiter=self.separator)
            before = 0
            for record in reader:
                if record:
                    yield before + 1, record, "".join(lines)
                before = reader.line_num
                lines.clear()

    def records_as_they_stand(self) -> Iterator[bytes]:
        """Yield the text of each record that is not blank, its line end included, the header first."""
        for _, _, text in self._records("surrogateescape"):
            record = text if text.endswith(("\n", "\r")) else f"{text}\n"
            yield record.encode("utf-8", "surrogateescape")

    def _lines(self, records: Sequence[int]) -> list[int]:
        """Return the lines in which records start, which are counted from 0, the header included."""
        lines = [line for line, _, _ in islice(self._records(), max(records) + 1)]
        return [lines[record] for record in records]

    def _refuse_wrong_rows(self) -> None:
        """Raise if rows have too few or too many fields; pyarrow's own hook stumbles over other encodings."""
        n = len(self.columns)
        rows = [(line, len(fields)) for line, fields, _ in self._records()][int(self.header) :]
        wrong_rows = [(line, fields) for line, fields in rows if fields != n]
        comparison, cure = "", ""
        if len(wrong_rows) == len(rows) > 1 and len({fields for _, fields in rows}) == 1:
            # a header that does not fit, or commas that mean something else: one line says it
            comparison, wrong_rows = f", like all {len(rows):,}", wrong_rows[:1]
            cure = "are there decimal commas, or commas without quotes?" if self.separator == "," else ""
        if wrong_rows:
            reference = "as in the header" if self.header else "as in the first row"
            problems = [
                Problem(
                    f"{self.path}:{line}",
                    f"the row has {count_of(fields, 'field')}{comparison}",
                    f"{n}, {reference}",
                    cure if fields > n else "",
                )
                for line, fields in wrong_rows[:SHOWN]
            ]
            raise DataError(limited(problems, len(wrong_rows)))

    def _texts_in(self, cells: Any, name: str) -> "list[_TextCells]":
        """Return the texts of a column that are no numbers, if it has some."""
        values = cells.to_pylist()
        rows = [row for row, value in enumerate(values) if value is not None and not _is_number(value)]
        n_cells = len(cells) - cells.null_count
        return [_TextCells(name, rows, [values[row] for row in rows], n_cells)] if rows else []

    def _not_numeric(self, text_cells: "Sequence[_TextCells]") -> list[Problem]:
        """Return one problem for each column with texts, in the order of their lines."""
        in_order = sorted(text_cells, key=lambda texts: (texts.rows[0], self.columns.index(texts.column)))
        lines = self._lines([texts.rows[0] + self.header for texts in in_order]) if text_cells else []
        problems: list[Problem] = []
        for line, texts in zip(lines, in_order, strict=True):
            place, n = f"{self.path}:{line}", len(texts.rows)
            summary = column_problem(place, texts.column, texts.values, n, "a number")
            first = texts.values[0]
            problems.append(
                NotNumeric(
                    place,
                    summary.found,
                    summary.expected,
                    column=texts.column,
                    text=first,
                    n_texts=n,
                    n_cells=texts.n_cells,
                )
            )
        return problems

    def _unexpected(self, problem: Exception) -> DataError:
        return DataError.at(self.path, f"cannot be read as a table: {problem}")


class _TextCells(NamedTuple):
    """Texts in a column of numbers, and their rows."""

    column: str
    rows: list[int]
    values: list[str]
    n_cells: int  # that are not empty


class _Passing(io.RawIOBase):
    """A stream of a file's bytes; the part that has been read leaves memory, else a mapped file would fill it."""

    def __init__(self, data: NDArray[np.uint8]) -> None:
        self._data = data
        self._at = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        part = self._data[self._at : self._at + len(buffer)]
        memoryview(buffer)[: len(part)] = part.data
        release(part)
        self._at += len(part)
        return len(part)


def _is_number(text: str) -> bool:
    if text in _nulls():
        return True
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


@cache
def _nulls() -> frozenset[str]:
    """Return the texts that pyarrow reads as null in a column of numbers."""
    from pyarrow.csv import ConvertOptions

    return frozenset(ConvertOptions().null_values)


class Csv(TableReader):
    r"""Text tables with named columns, plain or compressed (gzip, zstd, bzip2, xz).

    An empty cell, ``NULL``, ``NA`` or ``NaN`` in a feature is a missing value. Query ids are taken as they are
    written, so ``7`` and ``007`` are two queries.
    """

    separator: str | None = Field(
        default=None,
        min_length=1,
        max_length=1,
        description=r"Character between fields. Default: a tab for files called *.tsv, else a comma.",
    )

    def opened(self, path: Path) -> Delimited:
        is_tsv = bare_name(path.name).endswith((".tsv", ".tab"))
        default = "\t" if is_tsv else ","
        return Delimited(path, self.separator or default)
