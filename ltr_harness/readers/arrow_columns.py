"""Arrow tables and columns as the readers of tables want them: what numbers, null, text and dictionaries become."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltr_harness.errors import DataError, Problem
from ltr_harness.groups import LONGEST_ID
from ltr_harness.readers.cost import Bound
from ltr_harness.readers.rows import repeated

_QUOTED = 60  # characters of a value that messages quote


def refuse_repeated(path: Path, names: Sequence[str]) -> None:
    """Raise if two columns have one name."""
    if twice := repeated(names):
        found = f"has two columns {', '.join(map(repr, twice[:5]))}{', …' if len(twice) > 5 else ''}"
        raise DataError(Problem(str(path), found, "a name of its own for each column"))


def refuse_invalid(path: Path, table: Any, texts: Sequence[str]) -> None:
    """Look at what Arrow believes until it is used: text that is no UTF-8, places in a dictionary that it lacks.

    Raises DataError: naming each such column.
    """
    from pyarrow import ArrowException, types

    problems = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        if name in texts or types.is_dictionary(column.type):
            try:
                column.validate(full=True)
            except ArrowException as problem:
                found = str(problem).rpartition("Invalid: ")[2]
                problems.append(
                    Problem(str(path), f"column {name!r} contains values that are not valid: {found}")
                )
    if problems:
        raise DataError(problems)


def is_numeric(kind: Any) -> bool:
    """Whether an Arrow type is one of numbers or truth values."""
    from pyarrow import types

    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        kind = kind.value_type
    return bool(
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_boolean(kind)
        or types.is_decimal(kind)
        or types.is_null(kind)
    )


def refuse_types(path: Path, schema: Any, numbers: Sequence[str]) -> None:
    """Raise if columns that should hold numbers are of another type."""
    problems = [
        Problem(str(path), f"column {name!r} has the type {schema.field(name).type}", "numbers")
        for name in numbers
        if not is_numeric(schema.field(name).type)
    ]
    if problems:
        raise DataError(problems)


def numbers_of(column: Any) -> NDArray[np.float64]:
    """A numeric or boolean Arrow column as float64, null as NaN."""
    from pyarrow import float64, types, uint8

    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if types.is_boolean(column.type):
        column = column.cast(uint8())
    values: NDArray[np.float64] = column.cast(float64(), safe=False).to_numpy()
    return values


def is_text(kind: Any) -> bool:
    """Whether an Arrow type is one of text."""
    from pyarrow import types

    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def is_category(kind: Any) -> bool:
    """Whether an Arrow type is one of categories, as pandas' and Polars' are: a dictionary of texts."""
    from pyarrow import types

    return bool(types.is_dictionary(kind) and is_text(kind.value_type))


def texts_of(column: Any) -> Any | None:
    """A column of text or whole numbers as Arrow's text, null as ""; None for another type."""
    from pyarrow import large_string, types

    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not (types.is_integer(column.type) or is_text(column.type)):
        return None
    return column.cast(large_string()).fill_null("")


def names_all(texts: Any) -> bool:
    """Whether no text is empty."""
    from pyarrow.compute import any as any_of
    from pyarrow.compute import equal

    return not any_of(equal(texts, "")).as_py()


def unfit_ids(texts: Any) -> NDArray[np.bool_]:
    """Which texts cannot be ids: empty ones, very long ones, and those with a NUL byte.

    NumPy loses NUL bytes at the end, which would make two ids one, and makes all texts as wide as the longest.
    """
    from pyarrow.compute import binary_length, match_substring

    length = binary_length(texts).to_numpy()
    unfit: NDArray[np.bool_] = (length == 0) | (length > LONGEST_ID) | match_substring(texts, "\0").to_numpy()
    return unfit


def values_of(column: Any) -> Any:
    """An attribute: numbers and truth values as they are (a NumPy array), everything else as Arrow's text.

    Raises pyarrow.ArrowException: the values of this type are no single values, or cannot be written as text.
    """
    from pyarrow import ArrowTypeError, large_string, types

    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if types.is_floating(kind) or (types.is_integer(kind) and column.null_count):
        return numbers_of(column)
    if types.is_integer(kind) or (types.is_boolean(kind) and not column.null_count):
        return np.asarray(column.to_numpy())
    if not (is_text(kind) or is_numeric(kind) or types.is_temporal(kind) or types.is_binary(kind)):
        raise ArrowTypeError(f"{kind} is not a type of single values")
    return column.cast(large_string()).fill_null("")


def found_in(cell: Any) -> str:
    """What a message says of a cell: ``is empty``, ``contains 'x'``."""
    value = cell.as_py()
    if value is None or value == "":
        return "is empty"
    if isinstance(value, str) and len(value) > _QUOTED:
        return f"contains {value[:_QUOTED] + '…'!r} ({len(value):,} characters)"
    return f"contains {value!r}"


def size_in_memory(table: Any) -> int:
    """Bytes of a table or a batch; whole buffers where it has views, which older versions of Arrow cannot measure."""
    from pyarrow import ArrowTypeError

    try:
        return int(table.nbytes)
    except ArrowTypeError:
        return int(table.get_total_buffer_size())


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
