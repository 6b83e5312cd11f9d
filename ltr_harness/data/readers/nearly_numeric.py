"""Cautions about columns of text that would be numbers but for some of their cells, and so are no features."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ltr_harness._util.text import shortened
from ltr_harness.data.columns import decoded
from ltr_harness.data.readers.column_names import is_id, is_index, is_outcome
from ltr_harness.data.readers.table_columns import OpenedTable
from ltr_harness.data.readers.words import LIKE_NUMBER, NUMBERS_ALONE
from ltr_harness.errors import Caution, DataError

# numbers, truth values, and numbers with something beside them
_KINDS = (r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*", r"(?i)\s*(true|false)\s*", LIKE_NUMBER)
_MISSING = ("", "NA", "N/A", "NaN", "nan", "NULL", "null", "None")
_IN_FULL = 3  # columns that a caution speaks of one by one


class _MixedColumn(NamedTuple):
    """A column of text whose cells are mostly numbers."""

    name: str
    n_numbers: int
    n_cells: int  # that are not empty
    kind: str  # "numbers", or "true or false"
    other: str  # the first cell that is none; "" where all are
    place: str


def nearly_numeric(table: OpenedTable, names: Sequence[str]) -> list[Caution]:
    """Return a caution that names the columns of text among these whose cells are mostly numbers."""
    names = [name for name in names if not (is_id(name) or is_outcome(name) or is_index(name))]
    try:
        likely = [name for name, cells in table.first_texts(names).items() if _are_mostly_numbers(cells)]
        columns = [_find_mixed_column(table, name) for name in likely]
    except DataError:  # a damaged column that nobody reads is no error
        return []
    mixed_columns = [column for column in columns if column is not None]
    if not mixed_columns:
        return []
    text = "; ".join(_sentence(column, table.path.name) for column in mixed_columns[:_IN_FULL])
    if further_names := [column.name for column in mixed_columns[_IN_FULL:]]:
        text += f"; likewise {shortened(further_names, _IN_FULL)}"
    cure = f"{NUMBERS_ALONE}, and empty cells where a value is missing"
    return [Caution("text-in-numbers", "warning", f"{text}: ignored as text", cure)]


def _are_mostly_numbers(cells: Sequence[str]) -> bool:
    filled = pa.array([cell for cell in cells if cell not in _MISSING], pa.large_string())
    return 2 * max(int(_matches(filled, pattern).sum()) for pattern in _KINDS) > len(filled)


def _matches(cells: Any, pattern: str) -> NDArray[np.bool_]:
    """Return a mask of the cells (n,) of Arrow's text that match a pattern from begin to end."""
    return np.asarray(pc.match_substring_regex(cells, f"^(?:{pattern})$").fill_null(False), dtype=bool)


def _find_mixed_column(table: OpenedTable, name: str) -> _MixedColumn | None:
    """Return the figures of the whole column; None where its first rows misled."""
    cells = decoded(table.read([], [name])[name]).cast(pa.large_string())
    is_missing = pc.is_in(cells, value_set=pa.array(_MISSING, cells.type))
    is_filled = np.asarray(cells.is_valid()) & ~np.asarray(is_missing)
    is_number, is_truth, is_like_number = (_matches(cells, pattern) for pattern in _KINDS)
    if 2 * max(is_truth.sum(), is_like_number.sum(), is_number.sum()) <= is_filled.sum():
        return None
    kind, fits = ("true or false", is_truth) if is_truth.sum() > is_number.sum() else ("numbers", is_number)
    text_rows = np.flatnonzero(is_filled & ~fits)
    n_cells = int(is_filled.sum())
    if not text_rows.size:
        return _MixedColumn(name, n_cells, n_cells, kind, "", "")
    row = int(text_rows[0])
    return _MixedColumn(name, n_cells - text_rows.size, n_cells, kind, str(cells[row]), table.place(row))


def _sentence(mixed_column: _MixedColumn, file: str) -> str:
    column, n = f"{mixed_column.name} in {file}", f"{mixed_column.n_cells:,}"
    if not mixed_column.other:
        return f"all {n} cells of {column} are {mixed_column.kind}, written as text"
    row = mixed_column.place.rpartition(":")[2].strip()
    place = row if row.startswith("row") else f"line {row}"
    count = f"{mixed_column.n_numbers:,} of {n} cells"
    return f"{count} of {column} are {mixed_column.kind}, {mixed_column.other[:60]!r} in {place} is not"
