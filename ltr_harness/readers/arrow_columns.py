"""Arrow columns to NumPy: which types are numbers, and what null, text and dictionaries become."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltr_harness.errors import DataError, Problem
from ltr_harness.readers.rows import query_ids


def is_numeric(kind: Any) -> bool:
    """Whether an Arrow type is one of numbers or truth values."""
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


def refuse_types(path: Path, schema: Any, numbers: Sequence[str]) -> None:
    """Raise if columns that should hold numbers are of another type.

    Raises:
        DataError: every such column.
    """
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


def texts_of(column: Any) -> NDArray[np.str_] | None:
    """A column of text or integers as text, null as ""; None for another type."""
    from pyarrow import string, types

    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if not (
        types.is_integer(kind) or types.is_string(kind) or types.is_large_string(kind) or "view" in str(kind)
    ):
        return None
    return np.asarray(column.cast(string()).fill_null("").to_numpy(), dtype=np.str_)


def has_nul(column: Any) -> NDArray[np.bool_]:
    """Texts with a NUL byte: NumPy loses those at the end, which would make two ids one."""
    from pyarrow import string
    from pyarrow.compute import match_substring

    found: NDArray[np.bool_] = match_substring(column.cast(string()).fill_null(""), "\0").to_numpy()
    return found


def values_of(column: Any) -> NDArray[Any]:
    """An attribute: numbers and truth values as they are, everything else as text."""
    from pyarrow import string, types

    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if types.is_floating(column.type) or (types.is_integer(column.type) and column.null_count):
        return numbers_of(column)
    if types.is_integer(column.type) or (types.is_boolean(column.type) and not column.null_count):
        return np.asarray(column.to_numpy())
    # In text files everything is text: numbers become numbers as query ids do.
    return query_ids(np.asarray(column.cast(string()).fill_null("").to_numpy(), dtype=np.str_))


def found_in(cell: Any) -> str:
    """What a message says of a cell: ``is empty``, ``contains 'x'``."""
    value = cell.as_py()
    return "is empty" if value is None or value == "" else f"contains {value!r}"
