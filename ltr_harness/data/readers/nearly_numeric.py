"""Columns of text that would be numbers but for some of their cells: say so, because they are no features."""

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


class _Mixed(NamedTuple):
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
        columns = [_mixed(table, name) for name in likely]
    except DataError:  # a damaged column that nobody reads is no error
        return []
    found = [mixed for mixed in columns if mixed is not None]
    if not found:
        return []
    said = "; ".join(_sentence(mixed, table.path.name) for mixed in found[:_IN_FULL])
    if others := [mixed.name for mixed in found[_IN_FULL:]]:
        said += f"; likewise {shortened(others, _IN_FULL)}"
    cure = f"{NUMBERS_ALONE}, and nothing where a value is missing"
    return [Caution("text-in-numbers", "warning", f"{said}: ignored as text", cure)]


def _are_mostly_numbers(cells: Sequence[str]) -> bool:
    filled = pa.array([cell for cell in cells if cell not in _MISSING], pa.large_string())
    return 2 * max(int(_matches(filled, pattern).sum()) for pattern in _KINDS) > len(filled)


def _matches(cells: Any, pattern: str) -> NDArray[np.bool_]:
    """Which cells (n,) of Arrow's text are as a pattern says from begin to end."""
    return np.asarray(pc.match_substring_regex(cells, f"^(?:{pattern})$").fill_null(False), dtype=bool)


def _mixed(table: OpenedTable, name: str) -> _Mixed | None:
    """What the whole column holds; None where its first rows misled."""
    cells = decoded(table.read([], [name])[name]).cast(pa.large_string())
    is_missing = pc.is_in(cells, value_set=pa.array(_MISSING, cells.type))
    is_filled = np.asarray(cells.is_valid()) & ~np.asarray(is_missing)
    is_number, is_truth, is_like_number = (_matches(cells, pattern) for pattern in _KINDS)
    if 2 * max(is_truth.sum(), is_like_number.sum(), is_number.sum()) <= is_filled.sum():
        return None
    kind, fits = ("true or false", is_truth) if is_truth.sum() > is_number.sum() else ("numbers", is_number)
    others = np.flatnonzero(is_filled & ~fits)
    n_cells = int(is_filled.sum())
    if not others.size:
        return _Mixed(name, n_cells, n_cells, kind, "", "")
    row = int(others[0])
    return _Mixed(name, n_cells - others.size, n_cells, kind, str(cells[row]), table.place(row))


def _sentence(mixed: _Mixed, file: str) -> str:
    column, n = f"{mixed.name} in {file}", f"{mixed.n_cells:,}"
    if not mixed.other:
        return f"all {n} cells of {column} are {mixed.kind}, written as text"
    row = mixed.place.rpartition(":")[2].strip()
    place = row if row.startswith("row") else f"line {row}"
    return f"{mixed.n_numbers:,} of {n} cells of {column} are {mixed.kind}, {mixed.other[:60]!r} in {place} is not"
