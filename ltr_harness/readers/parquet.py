"""Parquet files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ltr_harness.errors import DataError, Problem
from ltr_harness.readers.files import unreadable
from ltr_harness.readers.tables import TableReader


class Parquet(TableReader):
    """Parquet tables with named columns; null and NaN in a feature are missing values."""

    def opened(self, path: Path) -> ParquetTable:
        return ParquetTable(path)


class ParquetTable:
    """One Parquet file, opened."""

    def __init__(self, path: Path) -> None:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile

        self.path = path
        try:
            self._file = ParquetFile(path, memory_map=True)
        except ArrowException as problem:
            raise DataError(
                Problem(str(path), f"is no Parquet file, or a damaged one: {problem}", "a Parquet file")
            ) from None
        except OSError as problem:
            raise unreadable(path, problem) from None
        self._schema = self._file.schema_arrow
        self.columns: list[str] = list(self._schema.names)

    def numeric_columns(self) -> set[str]:
        """Columns of numbers or truth values."""
        return {field.name for field in self._schema if _is_numeric(field.type)}

    def read(self, numbers: Sequence[str], texts: Sequence[str]) -> Any:
        """The named columns, a `pyarrow.Table`."""
        from pyarrow import ArrowException

        problems = [
            Problem(
                str(self.path), f"column {name!r} has the type {self._schema.field(name).type}", "numbers"
            )
            for name in numbers
            if not _is_numeric(self._schema.field(name).type)
        ]
        if problems:
            raise DataError(problems)
        if self._file.metadata.num_rows == 0:
            raise DataError(Problem(str(self.path), "has no rows", "rows"))
        try:
            return self._file.read(columns=[*numbers, *texts])
        except (ArrowException, OSError) as problem:
            raise DataError(Problem(str(self.path), f"the Parquet file is damaged: {problem}")) from None

    def place(self, row: int) -> str:
        """File and row, counted from 1."""
        return f"{self.path}: row {row + 1}"


def _is_numeric(kind: Any) -> bool:
    from pyarrow import types

    if types.is_dictionary(kind):
        kind = kind.value_type
    return bool(
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_boolean(kind)
        or types.is_decimal(kind)
        or types.is_null(kind)
    )
