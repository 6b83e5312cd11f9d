"""Logs of any size: Parquet, CSV, Arrow or JSON lines, in batches that never cut a query in two."""

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

from ltr_harness._util.catalog import did_you_mean
from ltr_harness._util.cores import require_room
from ltr_harness.data.addresses import local_path, partition_keys, refuse_stored_keys
from ltr_harness.data.columns import collected, plain_column, table_of
from ltr_harness.data.computable import computable
from ltr_harness.data.logs.separators import refuse_other_separator, separator_in
from ltr_harness.errors import DataError, Problem

_ACTIONS = {"index", "create", "update", "delete"}
_SHOWN = 10  # problems of a file
_LONGEST_HEADER = 1 << 20  # bytes
_MOST = 2_000  # columns; a search engine's index has a thousand at most


def json_lines(files: Sequence[Path]) -> Any:
    """Return a `pyarrow.Table` with a column for every field; fields of objects have dots in their names.

    Documents may stand in what a search engine wraps them in: ``{"_index": …, "_source": {…}}`` as exported, or behind
    lines such as ``{"index": {"_index": …}}`` as its bulk API takes them. Lists of objects are left out. What is a
    number in one document and text in another is text.
    """
    fields: dict[str, tuple[list[int], list[Any]]] = {}
    n = 0
    for file in files:
        for document in _documents(file):
            for name, value in _leaves(document):
                rows, values = fields.setdefault(name, ([], []))
                rows.append(n)
                values.append(value)
            n += 1
            if len(fields) > _MOST:
                raise DataError.at(file, f"has more than {_MOST:,} different fields", "documents of one kind")
    if not n:
        raise DataError.at(str(files[0]), "has no rows", "a JSON object a line")
    return pa.table({name: _column(name, rows, values, n) for name, (rows, values) in fields.items()})


def _documents(file: Path) -> Iterator[dict[str, Any]]:
    problems = []
    try:
        with _opened_bytes(file) as lines:
            for number, line in enumerate(lines, start=1):
                if line.isspace():
                    continue
                try:
                    document = json.loads(line.decode("utf-8-sig"))
                except (ValueError, RecursionError):
                    document = None
                if not isinstance(document, dict):
                    expected = "one document a line: NDJSON"
                    problems.append(Problem(f"{file}:{number}", "is not a JSON object", expected))
                    if len(problems) == _SHOWN:
                        break
                elif not _is_action(document):
                    source = document.get("_source")
                    yield source if isinstance(source, dict) else document
    except (OSError, EOFError, zlib.error) as problem:
        raise DataError.at(file, f"cannot be read: {problem}") from None
    DataError.refuse(problems)


def _opened_bytes(file: Path) -> Any:
    return gzip.open(file) if file.suffix.lower() == ".gz" else open(file, "rb")


def _is_action(document: dict[str, Any]) -> bool:
    """Return whether a line is an instruction of the bulk API, for the next line."""
    if len(document) != 1:
        return False
    ((name, value),) = document.items()
    meta = isinstance(value, dict) and all(key.startswith("_") or key == "routing" for key in value)
    return meta and name in _ACTIONS


def _leaves(document: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield every field with a value, by its path; with a stack, as a hostile document is deep."""
    stack = [("", document)]
    while stack:
        path, value = stack.pop()
        for key, part in value.items():
            name = f"{path}{key}"
            if isinstance(part, dict):
                stack.append((f"{name}.", part))
            elif part is not None and not (isinstance(part, list) and any(isinstance(e, dict) for e in part)):
                yield name, part


def _kind_of(values: list[Any]) -> Any:
    """Return the type of Arrow that holds values of JSON; of several kinds and of large numbers that is text."""
    kinds = {type(value) for value in values}
    if kinds == {list}:
        return pa.list_(pa.string())
    if kinds == {bool}:
        return pa.bool_()
    if kinds == {int} and all(abs(value) < 2**63 for value in values):
        return pa.int64()
    if kinds <= {int, float} and all(abs(value) < 2**1000 for value in values):
        return pa.float64()
    return pa.string()


def _column(name: str, rows: list[int], values: list[Any], n: int) -> Any:
    kind = _kind_of(values)
    if kind == pa.list_(pa.string()):
        values = [[_text(part) for part in value if part is not None] for value in values]
    elif kind == pa.string():
        values = [_text(value) for value in values]
    column = [None] * n
    for row, value in zip(rows, values, strict=True):
        column[row] = value
    try:
        return pa.array(column, kind)
    except UnicodeEncodeError:
        found = "holds text that is not Unicode"
        raise DataError.at(f"column {name!r}", found, "text in UTF-8", "encode it again") from None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


IN_MEMORY_ROWS = 5_000_000  # a log up to this size is read whole, and its rows may come in any order
BATCH_ROWS = 1_000_000
_READ_AHEAD = 1 << 19  # rows that are read while others are worked on

_FORMATS = {
    ".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".csv.gz": "csv", ".tsv": "csv",
    ".arrow": "ipc", ".feather": "feather", ".ipc": "ipc",
    ".ndjson": "json", ".ndjson.gz": "json", ".jsonl": "json", ".jsonl.gz": "json",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Log:
    """A table that may be larger than the memory."""

    name: str  # how messages call it
    columns: tuple[str, ...]  # names of its columns
    _source: Any  # a pyarrow Table or Dataset

    def _record_batches(self, columns: Sequence[str], rows: int) -> Iterator[Any]:
        """Yield some columns, as they are stored, of about so many rows at a time."""
        if isinstance(self._source, pa.Table):
            yield from self._source.select(list(columns)).to_batches()
            return
        import pyarrow.dataset as ds  # loads pandas, which batches in memory do not need

        require_room(pa.cpu_count() + pa.io_thread_count())
        if not isinstance(self._source.format, ds.ParquetFileFormat):
            yield from self._scanned(columns, rows)
            return
        # of a whole file, Arrow reads up to a GiB further than anybody has come; here, one piece of four batches
        current: Iterator[Any] = iter(())
        for piece, _ in self.pieces(4 * rows):
            following = piece._scanned(columns, rows)
            yield from current
            current = following
        yield from current

    def _scanned(self, columns: Sequence[str], rows: int) -> Iterator[Any]:
        """Begin to read some columns of the files, and return their batches."""
        import pyarrow.dataset as ds

        fields = {".".join(path): ds.field(*path) for path in _paths(self._source.schema)}
        projection = {name: fields[name] for name in columns}
        ahead = max(1, _READ_AHEAD // rows)
        scanner = self._source.scanner(columns=projection, batch_size=rows, batch_readahead=ahead)
        batches: Iterator[Any] = scanner.to_batches()
        is_arrow_file = isinstance(self._source.format, ds.IpcFileFormat)
        return map(_validated, batches) if is_arrow_file else batches

    def batches(
        self,
        columns: Sequence[str],
        query: str | None,
        *,
        in_memory: int | None = None,
        rows: int | None = None,
    ) -> Iterator[Any]:
        """Yield tables with some columns, whole queries each; a log that fits into the memory is one batch."""
        # a larger one must hold each query's rows together; `read_log` notices where it does not
        at_once = 1 << 17
        if rows is not None:
            at_once = 4 * rows  # tables that are slices of a batch need no copy
        rows = BATCH_ROWS if rows is None else rows
        if query is None:
            in_memory = rows
        elif in_memory is None:
            in_memory = IN_MEMORY_ROWS
        self.refuse_missing(columns)
        empty = True
        try:
            filled = (computable(batch) for batch in self._record_batches(columns, at_once) if len(batch))
            for table in whole_queries(filled, query, in_memory=in_memory, rows=rows):
                empty = False
                yield table
        except (pa.ArrowException, OSError) as problem:
            raise DataError.at(self.name, f"cannot be read: {problem}") from None
        if empty:
            raise DataError.at(self.name, "has no rows", "rows")

    def read(self, columns: Sequence[str]) -> Any:
        """Return all rows in one table with the named columns."""
        return pa.concat_tables(self.batches(columns, None))

    def pieces(self, rows: int) -> "Iterator[tuple[Log, int]]":
        """Yield logs of about so many rows, or of one row group or file, that make up this one, each with its size."""
        if isinstance(self._source, pa.Table):
            table = computable(self._source)
            for start in range(0, len(table), rows):
                indexes = pa.array(range(start, min(start + rows, len(table))))
                yield Log(self.name, self.columns, table.take(indexes)), len(indexes)
            return
        import pyarrow.dataset as ds

        source = self._source

        def log_of(fragments: list[Any]) -> Log:
            part = ds.FileSystemDataset(fragments, source.schema, source.format, source.filesystem)
            return Log(self.name, self.columns, part)

        pending: list[Any] = []
        n = 0
        for file in source.get_fragments():
            fragments = file.split_by_row_group() if hasattr(file, "split_by_row_group") else [file]
            for fragment in fragments:
                pending.append(fragment)
                n += fragment.count_rows()
                if n >= rows:
                    yield log_of(pending), n
                    pending, n = [], 0
        if n:
            yield log_of(pending), n

    def refuse_missing(self, columns: Sequence[str]) -> None:
        """Refuse columns that the log does not have, or has more than once."""
        lacking = [name for name in dict.fromkeys(columns) if name not in self.columns]
        repeats = [f"has the column {n!r} twice" for n in dict.fromkeys(columns) if self.columns.count(n) > 1]
        problems = [
            Problem(self.name, f"has no column {n!r}", cure=did_you_mean(n, self.columns)) for n in lacking
        ]
        problems += [Problem(self.name, found, "each once", "rename one of them") for found in repeats]
        DataError.refuse(problems)


def _validated(batch: Any) -> Any:
    """Return the batch if its offsets and codes stay within its buffers; Arrow follows them unchecked."""
    batch.validate(full=True)
    return batch


def whole_queries(
    pieces: Iterable[Any], query: str | None, *, in_memory: int = BATCH_ROWS, rows: int = BATCH_ROWS
) -> Iterator[Any]:
    """Yield tables of whole queries, from batches that may end within one; a log that fits into memory is one table."""
    pending: list[Any] = []
    n_pending, limit = 0, in_memory
    for piece in pieces:
        pending.append(piece)
        n_pending += len(piece)
        if n_pending <= limit:
            continue
        limit = rows
        table = pa.Table.from_batches(pending)
        end = len(table) if query is None else last_run(table, query)
        while end > 0:
            cut = end
            if end > 2 * rows:
                cut = rows if query is None else first_run(table, query, rows - 1)
            yield table.slice(0, cut)
            table = table.slice(cut)
            end -= cut
        pending, n_pending = table.to_batches(), len(table)
    if pending:
        yield pa.Table.from_batches(pending)


def open_log(source: Any, name: str | None = None, text_columns: Sequence[str] = ()) -> Log:
    """Open a log from a path, or from a pandas or Arrow table in memory."""
    table = collected(source)
    try:
        if hasattr(table, "columns"):
            table = table_of(table)
    except (pa.ArrowException, TypeError, ValueError) as problem:
        raise DataError.at(name or "log", f"cannot be read as a table: {problem}") from None
    if isinstance(table, pa.Table):
        return Log(name or "log", tuple(table.column_names), table)
    if not isinstance(table, str | Path):
        expected = "a path, or a pandas, Polars or Arrow table"
        raise DataError.at(name or "log", f"is a {type(table).__name__}", expected)
    path = local_path(table)
    return open_files(files_of(path), name, text_columns, path)


def open_files(
    files: Sequence[Path], name: str | None = None, text_columns: Sequence[str] = (), path: Path | None = None
) -> Log:
    """Open a log from files of one kind, one after the other."""
    path = path or files[0]
    try:
        dataset = _dataset(path, files, text_columns)
        names = tuple(".".join(p) for p in _paths(dataset.schema))
    except DataError:
        raise
    except (pa.ArrowException, OSError, ValueError) as problem:
        raise DataError.at(path, f"cannot be read: {problem}") from None
    return Log(name or str(path), names, dataset)


def files_of(path: Path) -> list[Path]:
    """Return the files of a log, in the order in which they are read."""
    if not path.exists():
        raise DataError.at(path, "no such file or folder", "a log: Parquet, CSV, Arrow or JSON lines")
    if path.is_file():
        return [path]
    visible = (file for file in path.rglob("*") if not file.name.startswith((".", "_")))
    files = sorted(file for file in visible if file.is_file() and _format(file) is not None)
    if not files:
        raise DataError.at(path, "holds no log", f"files ending in {', '.join(_FORMATS)}")
    return files


def _paths(fields: Any) -> Iterator[tuple[str, ...]]:
    """Yield the path of each column: the fields of the structures around it, then its own."""
    for field in fields:
        inner = _paths(field.type.fields) if pa.types.is_struct(field.type) else ((),)
        yield from ((field.name, *path) for path in inner)


def _format(file: Path) -> str | None:
    return next((form for ending, form in _FORMATS.items() if file.name.lower().endswith(ending)), None)


def _dataset(path: Path, files: Sequence[Path], text_columns: Sequence[str]) -> Any:
    form = _common_format(files)
    if form == "json":
        return json_lines(files)
    if files[0].stat().st_size == 0:
        raise DataError.at(str(files[0]), "is empty", "a header and rows")
    if form == "csv":
        form = _csv_format(files, text_columns)
    keys: set[str] = set()
    if path.is_dir():
        keys = {key for file in files for key in partition_keys(path, file)}
    if keys:
        for file in _joined_files(files, form).get_fragments():
            refuse_stored_keys(file.path, keys, file.physical_schema.names)
    base = path if keys else None
    dataset = _joined_files(files, form, base)
    if form != "parquet":
        return dataset
    return _joined_files(files, _parquet_format(dataset.schema, text_columns), base)


def _common_format(files: Sequence[Path]) -> Any:
    """Return the format of all files; raise where they have several, or an unknown one."""
    first = _format(files[0])
    for file in files:
        if first is None or _format(file) != first:
            raise DataError.at(
                file, "is of no known format or mixes formats", f"one of {', '.join(_FORMATS)}"
            )
    return first


def _csv_format(files: Sequence[Path], text_columns: Sequence[str]) -> Any:
    import pyarrow.dataset as ds

    separator = "\t" if files[0].name.lower().endswith(".tsv") else ","
    for file in files:
        _refuse_other_separator(file, separator)
    texts = pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(text_columns, pa.string()))
    parsing = pyarrow.csv.ParseOptions(delimiter=separator)
    return ds.CsvFileFormat(parse_options=parsing, convert_options=texts)


def _parquet_format(schema: Any, text_columns: Sequence[str]) -> Any:
    """Return a format in which ids stay codes, as they are in the file: five times as fast as text."""
    import pyarrow.dataset as ds

    ids = [field.name for field in schema if field.name in text_columns and pa.types.is_string(field.type)]
    no_ahead = ds.ParquetFragmentScanOptions(pre_buffer=False)  # a tenth of the memory, half the time
    return ds.ParquetFileFormat(dictionary_columns=ids, default_fragment_scan_options=no_ahead)


def _joined_files(files: Sequence[Path], form: Any, base: Path | None = None) -> Any:
    """Return files as one dataset, with the keys of their folders below `base` as columns."""
    import pyarrow.dataset as ds

    return ds.dataset(
        [str(file.absolute()) for file in files],
        format=form,
        partitioning=None if base is None else ds.partitioning(flavor="hive"),
        partition_base_dir=None if base is None else str(base.absolute()),
    )


def _refuse_other_separator(file: Path, separator: str) -> None:
    """Raise DataError if the header of a text table has another separator than its name promises."""
    with _opened_bytes(file) as lines:
        header = lines.readline(_LONGEST_HEADER).decode("utf-8", "replace").strip()
    cure = "call the file .csv" if separator == "\t" else "write it with commas"
    if separator == "," and separator_in(header) == "\t":
        cure = "call the file .tsv"
    refuse_other_separator(file, 1, header, separator, cure)


def last_run(table: Any, name: str) -> int:
    """Return the number of rows before the last run of equal values of a column."""
    start, rows = len(table), 1024
    while start > 0:  # the end alone is looked at where that suffices
        start = max(0, len(table) - rows)
        changes = np.flatnonzero(_differs(table.slice(start), name, len(table) - start - 1))
        if changes.size:
            return start + int(changes[-1]) + 1
        rows *= 8
    return 0


def first_run(table: Any, name: str, row: int = 0) -> int:
    """Return the number of rows up to the end of the run of equal values that a row belongs to."""
    rows = 1024
    while row < len(table):
        changes = np.flatnonzero(_differs(table.slice(row, rows), name, 0))
        if changes.size:
            return row + int(changes[0])
        if row + rows >= len(table):
            break
        row, rows = row + rows - 1, 8 * rows
    return len(table)


def _differs(table: Any, name: str, row: int) -> NDArray[np.bool_]:
    """Return a mask of the rows (n_rows,) with another value than a given one; missing values are equal."""
    column = plain_column(table[name], name)
    value = column[row]
    differs = pc.not_equal(column, value).fill_null(True) if value.is_valid else column.is_valid()
    return np.asarray(differs.to_numpy())
