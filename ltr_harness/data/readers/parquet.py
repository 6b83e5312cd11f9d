"""Tables of Parquet and Arrow files, and of frames in memory."""

from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from ltr_harness._util.text import count_of, shortened
from ltr_harness.data.addresses import partition_keys, refuse_stored_keys
from ltr_harness.data.columns import ArrowColumns, is_text
from ltr_harness.data.computable import computable, computable_schema
from ltr_harness.data.readers.rows import repeated
from ltr_harness.data.readers.table_columns import OpenedTable, text_problems, type_problems
from ltr_harness.data.readers.table_reader import TableReader
from ltr_harness.data.readers.text_files import Bound, located, refuse_pipe, unreadable
from ltr_harness.errors import DataError, Problem


class Parquet(TableReader):
    """Parquet and Arrow tables with named columns; null and NaN in a feature are missing values.

    A folder, as Spark, Arrow or Dask write it, stands for the ``.parquet`` files in it, in the order of their
    names. Where it is divided by keys (``day=2024-01-01/part-0.parquet``), they are columns of whole numbers or
    texts. Arrow IPC files (``.arrow``, ``.feather``) are read as well.
    """

    def paths(self, files: Sequence[str], root: Path) -> list[Path]:
        paths: list[Path] = []
        problems: list[Problem] = []
        for path in located(files, root, folders=True):
            if not path.is_dir():
                paths.append(path)
                continue
            files_inside = sorted(
                file
                for file in path.rglob("*.parquet")
                if file.is_file() and not any(part[0] in "._" for part in file.relative_to(path).parts)
            )
            if not files_inside:
                problems.append(Problem(str(path), "the folder has no .parquet file", "at least one"))
            paths += files_inside
        DataError.refuse(problems)
        return paths

    def tables(self, files: Sequence[str], root: Path) -> list[OpenedTable]:
        tables = super().tables(files, root)
        for folder in located(files, root, folders=True):
            tables_in_folder = [table for table in tables if folder in table.path.parents]
            keys_of_table = {table: partition_keys(folder, table.path) for table in tables_in_folder}
            for key in dict.fromkeys(key for keys in keys_of_table.values() for key in keys):
                values = pa.array([keys.get(key) for keys in keys_of_table.values()], pa.string())
                with suppress(pa.ArrowInvalid):  # whole numbers where all are
                    values = values.cast(pa.int64())
                for table, value in zip(keys_of_table, values, strict=True):
                    if not isinstance(table, ParquetTable):
                        raise DataError.at(table.path, f"is an Arrow file below {key}=…", "a Parquet file")
                    table.add_key(key, value)
        return tables

    def opened(self, path: Path) -> OpenedTable:
        from pyarrow import ipc

        refuse_pipe(path)
        try:
            with open(path, "rb") as stream:
                is_arrow = stream.read(6) == b"ARROW1"
        except OSError as problem:
            raise unreadable(path, problem) from None
        if not is_arrow:
            return ParquetTable(path)
        try:
            with pa.memory_map(str(path)) as source, ipc.open_file(source) as file:
                on_disk, unpacked, batches = path.stat().st_size, 0, []
                for i in range(file.num_record_batches):  # one by one: each may be compressed
                    batches.append(file.get_batch(i))
                    unpacked += _size_in_memory(batches[-1])
                    Bound.of_file(on_disk).refuse(str(path), "unpacked, the file has", unpacked, more=True)
                return ArrowTable(pa.Table.from_batches(batches, file.schema), path, on_disk)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as problem:
            raise DataError.at(path, f"the Arrow file is damaged: {problem}") from None


class _ArrowSchema(OpenedTable):
    """Opened table with an Arrow schema, in which pandas may have stored what its index was."""

    def index_columns(self) -> set[str]:
        return super().index_columns() | (_stored_index(self.schema) & {*self.columns})


class ArrowTable(_ArrowSchema):
    """Arrow table in memory, or of a mapped file."""

    def __init__(self, table: Any, path: Path, size: int | None = None) -> None:
        self.path = path
        self.columns: list[str] = list(table.schema.names)
        self.schema: Any = computable_schema(table.schema)
        self.n_rows: int | None = table.num_rows
        self.size = _size_in_memory(table) if size is None else size
        self._table = table
        _refuse_repeated(path, self.columns)

    def read(self, numbers: Sequence[str], texts: Sequence[str]) -> ArrowColumns:
        """Read the columns, with a value for each row in place of one for each run of equal ones."""
        DataError.refuse(type_problems(self.path, self.schema, numbers))
        if self._table.num_rows == 0:
            raise DataError.at(self.path, "has no rows", "rows")
        table = self._table.select(list(dict.fromkeys([*numbers, *texts])))
        _refuse_invalid(self.path, table, texts)
        widths = [_width_of_values(column) for column in table.columns if _has_runs(column)]
        found, needed = "without runs of equal values, its columns take", table.num_rows * sum(widths)
        Bound.of_file(self.size).refuse(str(self.path), found, needed)
        table = computable(table)
        DataError.refuse(text_problems(self.path, table, numbers))
        return ArrowColumns(table)


class ParquetTable(_ArrowSchema):
    """One Parquet file, opened."""

    def __init__(self, path: Path) -> None:
        from pyarrow.parquet import ParquetFile

        self.path = path
        self._keys: dict[str, Any] = {}  # of the file's folder, pyarrow's scalars
        self.streams = path.suffix.lower() in (".parquet", ".pq")
        try:
            self._file = ParquetFile(path.absolute(), page_checksum_verification=True)
            self.schema: Any = computable_schema(self._file.schema_arrow)
            self.columns: list[str] = list(self.schema.names)
            self.size = path.stat().st_size
            self.n_rows: int | None = self._file.metadata.num_rows
        except (pa.ArrowException, UnicodeDecodeError) as problem:
            found = f"is not a Parquet file, or is damaged: {problem}"
            raise DataError.at(path, found, "a Parquet file") from None
        except OSError as problem:
            raise unreadable(path, problem) from None
        _refuse_repeated(path, self.columns)

    def add_key(self, name: str, value: Any) -> None:
        """Add a key of the file's folder as the last column."""
        refuse_stored_keys(self.path, [name], self._file.schema_arrow.names)
        self._keys[name] = value
        self.schema = self.schema.append(pa.field(name, value.type))
        self.columns = list(self.schema.names)
        self.streams = False

    def first_rows(self, names: Sequence[str], n_rows: int) -> Any:
        if any(name in self._keys for name in names):
            return super().first_rows(names, n_rows)
        try:
            batches = [*islice(self._file.iter_batches(batch_size=n_rows, columns=list(names)), 1)]
            if not batches:
                return super().first_rows(names, n_rows)
            table = pa.Table.from_batches(batches)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as problem:
            raise DataError.at(self.path, f"the Parquet file is damaged: {problem}") from None
        _refuse_invalid(self.path, table, names)
        return table

    def read(self, numbers: Sequence[str], texts: Sequence[str]) -> ArrowColumns:
        DataError.refuse(type_problems(self.path, self.schema, numbers))
        n_rows = self.n_rows
        if not n_rows:
            raise DataError.at(self.path, "has no rows", "rows")
        try:
            table = self._file.read(columns=[name for name in (*numbers, *texts) if name not in self._keys])
        except pa.ArrowMemoryError as problem:
            raise DataError.at(self.path, f"there is not enough memory to read it: {problem}") from None
        except (pa.ArrowException, OSError, UnicodeDecodeError) as problem:
            raise DataError.at(self.path, f"the Parquet file is damaged: {problem}") from None
        _refuse_invalid(self.path, table, texts)
        for name, column in zip(table.column_names, table.columns, strict=True):
            if len(column) != n_rows:  # Arrow believes each column's own count
                found = f"the Parquet file is damaged: column {name!r} has {len(column)} of {count_of(n_rows, 'row')}"
                raise DataError.at(self.path, found)
        for name, value in self._keys.items():
            if name in (*numbers, *texts):
                table = table.append_column(name, pa.repeat(value, n_rows))
        table = computable(table)
        DataError.refuse(text_problems(self.path, table, numbers))
        return ArrowColumns(table)


def _stored_index(schema: Any) -> set[str]:
    """Return the columns that pandas stored as the index of its frame; none where the metadata is damaged."""
    with suppress(ValueError, AttributeError, TypeError):
        return {name for name in schema.pandas_metadata["index_columns"] if isinstance(name, str)}
    return set()


def _refuse_repeated(path: Path, names: Sequence[str]) -> None:
    if repeated_names := repeated(names):
        found = f"has two columns {shortened([repr(name) for name in repeated_names], 5)}"
        raise DataError.at(path, found, "a different name for each column")


def _refuse_invalid(path: Path, table: Any, texts: Sequence[str]) -> None:
    """Refuse values that Arrow checks only on use: text that is no UTF-8, codes that a dictionary lacks."""
    problems = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        if name in texts or pa.types.is_dictionary(column.type) or _has_runs(column):
            try:
                column.validate(full=True)
            except pa.ArrowException as problem:
                reason = str(problem).rpartition("Invalid: ")[2]
                found = f"column {name!r} contains values that are not valid: {reason}"
                problems.append(Problem(str(path), found))
    DataError.refuse(problems)


def _has_runs(column: Any) -> bool:
    return bool(pa.types.is_run_end_encoded(column.type))


def _width_of_values(column: Any) -> int:
    """Return the largest number of bytes of a row once runs are written out."""
    if not is_text(column.type.value_type):
        return 8
    from pyarrow import compute

    lengths = [compute.max(compute.binary_length(chunk.values)).as_py() or 0 for chunk in column.chunks]
    return 8 + max(lengths, default=0)


def _has_union(kind: Any) -> bool:
    return pa.types.is_union(kind) or any(
        _has_union(kind.field(index).type) for index in range(kind.num_fields)
    )


def _size_in_memory(table: Any) -> int:
    """Return the bytes of a table or a batch, of whole buffers where Arrow cannot measure a slice of them.

    Older versions cannot with views. With unions, Arrow follows places in a damaged file beyond its end.
    """
    if any(_has_union(field.type) for field in table.schema):
        return int(table.get_total_buffer_size())
    try:
        return int(table.nbytes)
    except pa.ArrowTypeError:
        return int(table.get_total_buffer_size())
