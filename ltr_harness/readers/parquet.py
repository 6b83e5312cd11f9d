"""Parquet files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ltr_harness.errors import DataError, Problem
from ltr_harness.readers.arrow_columns import (
    ArrowColumns,
    is_category,
    is_numeric,
    refuse_invalid,
    refuse_repeated,
    refuse_types,
    size_in_memory,
)
from ltr_harness.readers.cost import Bound
from ltr_harness.readers.files import located, refuse_pipe, unreadable
from ltr_harness.readers.table_part import OpenedTable
from ltr_harness.readers.tables import TableReader
from ltr_harness.wording import count_of


class Parquet(TableReader):
    """Parquet and Arrow tables with named columns; null and NaN in a feature are missing values.

    A folder, as Spark, Arrow or Dask write it, stands for the ``.parquet`` files in it, in the order of their
    names. Arrow IPC files (``.arrow``, ``.feather``) are read as well.
    """

    def paths(self, files: Sequence[str], root: Path) -> list[Path]:
        paths: list[Path] = []
        problems: list[Problem] = []
        for path in located(files, root, folders=True):
            if not path.is_dir():
                paths.append(path)
                continue
            inside = sorted(
                file
                for file in path.rglob("*.parquet")
                if file.is_file() and not any(part[0] in "._" for part in file.relative_to(path).parts)
            )
            folders = {part for file in inside for part in file.relative_to(path).parts[:-1] if "=" in part}
            if not inside:
                problems.append(Problem(str(path), "the folder has no .parquet file", "at least one"))
            if folders:
                names = ", ".join(sorted({folder.partition("=")[0] for folder in folders}))
                problems.append(
                    Problem(
                        str(path),
                        f"the folder is partitioned by {names}, whose values are in no file",
                        "files that hold all their columns",
                        f"name one such folder, as {sorted(folders)[0]}, or write without partitions",
                    )
                )
            paths += inside
        if problems:
            raise DataError(problems)
        return paths

    def opened(self, path: Path) -> OpenedTable:
        refuse_pipe(path)
        try:
            with open(path, "rb") as stream:
                is_arrow = stream.read(6) == b"ARROW1"
        except OSError as problem:
            raise unreadable(path, problem) from None
        return _arrow(path) if is_arrow else ParquetTable(path)


def _arrow(path: Path) -> OpenedTable:
    import pyarrow as pa
    from pyarrow import ipc

    try:
        with pa.memory_map(str(path)) as source, ipc.open_file(source) as file:
            on_disk, unpacked, batches = path.stat().st_size, 0, []
            for i in range(file.num_record_batches):  # one by one: each may be compressed
                batches.append(file.get_batch(i))
                unpacked += size_in_memory(batches[-1])
                Bound.of_file(on_disk).refuse(str(path), "unpacked, the file has", unpacked, more=True)
            return ArrowColumns(pa.Table.from_batches(batches, file.schema), path, on_disk)
    except (pa.ArrowException, OSError) as problem:
        raise DataError(Problem(str(path), f"the Arrow file is damaged: {problem}")) from None


class ParquetTable:
    """One Parquet file, opened."""

    def __init__(self, path: Path) -> None:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile

        self.path = path
        self.streams = path.suffix.lower() in (".parquet", ".pq")
        try:
            self._file = ParquetFile(path.absolute(), page_checksum_verification=True)
            self.schema: Any = self._file.schema_arrow
            self.columns: list[str] = list(self.schema.names)
            self.size = path.stat().st_size
            self.n_rows: int | None = self._file.metadata.num_rows
        except (ArrowException, UnicodeDecodeError) as problem:
            raise DataError(
                Problem(str(path), f"is not a Parquet file, or is damaged: {problem}", "a Parquet file")
            ) from None
        except OSError as problem:
            raise unreadable(path, problem) from None
        refuse_repeated(path, self.columns)

    def numeric_columns(self) -> set[str]:
        """Columns of numbers or truth values."""
        return {field.name for field in self.schema if is_numeric(field.type)}

    def category_columns(self) -> set[str]:
        return {field.name for field in self.schema if is_category(field.type)}

    def read(self, numbers: Sequence[str], texts: Sequence[str]) -> Any:
        """The named columns, a `pyarrow.Table`."""
        from pyarrow import ArrowException, ArrowMemoryError

        refuse_types(self.path, self.schema, numbers)
        n_rows = self.n_rows
        if not n_rows:
            raise DataError(Problem(str(self.path), "has no rows", "rows"))
        try:
            table = self._file.read(columns=[*numbers, *texts])
        except ArrowMemoryError as problem:
            raise DataError(
                Problem(str(self.path), f"there is not enough memory to read it: {problem}")
            ) from None
        except (ArrowException, OSError, UnicodeDecodeError) as problem:
            raise DataError(Problem(str(self.path), f"the Parquet file is damaged: {problem}")) from None
        refuse_invalid(self.path, table, texts)
        for name, column in zip(table.column_names, table.columns, strict=True):
            if len(column) != n_rows:  # Arrow believes each column's own count
                found = f"the Parquet file is damaged: column {name!r} has {len(column)} of {count_of(n_rows, 'row')}"
                raise DataError(Problem(str(self.path), found))
        return table

    def place(self, row: int) -> str:
        """File and row, counted from 1."""
        return f"{self.path}: row {row + 1}"
