"""An Arrow table as the readers of tables want it, from memory or from a mapped file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ltr_harness.errors import DataError, Problem
from ltr_harness.readers.arrow_columns import (
    is_category,
    is_numeric,
    refuse_invalid,
    refuse_repeated,
    refuse_types,
    size_in_memory,
)
from ltr_harness.readers.cost import Bound


class ArrowColumns:
    """An Arrow table, opened as the table readers want it."""

    streams = False

    def __init__(self, table: Any, path: Path, size: int | None = None) -> None:
        self.path = path
        self.columns: list[str] = list(table.schema.names)
        self.schema: Any = table.schema
        self.n_rows: int | None = table.num_rows
        self.size = size_in_memory(table) if size is None else size
        self._table = table
        refuse_repeated(path, self.columns)

    def numeric_columns(self) -> set[str]:
        return {field.name for field in self.schema if is_numeric(field.type)}

    def category_columns(self) -> set[str]:
        return {field.name for field in self.schema if is_category(field.type)}

    def read(self, numbers: Sequence[str], texts: Sequence[str]) -> Any:
        refuse_types(self.path, self.schema, numbers)
        if self._table.num_rows == 0:
            raise DataError(Problem(str(self.path), "has no rows", "rows"))
        columns = self._run_ends_decoded(self._table.select([*numbers, *texts]))
        refuse_invalid(self.path, columns, texts)
        return columns

    def _run_ends_decoded(self, table: Any) -> Any:
        """The table with a number for each row in place of one for each run of equal ones, however long it is."""
        from pyarrow import compute, types

        runs = [
            (at, field)
            for at, field in enumerate(table.schema)
            if types.is_run_end_encoded(field.type) and is_numeric(field.type)
        ]
        needed = 8 * table.num_rows * len(runs)
        Bound.of_file(self.size).refuse(
            str(self.path), "without runs of equal values, its columns take", needed
        )
        for at, field in runs:
            table = table.set_column(at, field.name, compute.run_end_decode(table.column(at)))
        return table

    def place(self, row: int) -> str:
        """Row, counted from 1."""
        return f"{self.path}: row {row + 1}"
