"""Rows in, one line per query out: the frame on which every later stage works."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pandas.api.types import union_categoricals

from ltr_harness.data.arrays import Bools, Floats, Ints
from ltr_harness.data.columns import category_of
from ltr_harness.data.dataset import fingerprint_arrays

_GRADES = "grade_by_rank"  # the grades' column in a file
_NUMBERS = {"bool", "double", "float", *(f"{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64))}


@dataclass(frozen=True, eq=False, kw_only=True)
class QueryColumns:
    """One log, query by query: a column for each field, or for each of its parts, such as ``segment:country``."""

    query_id: "NDArray[Any] | pd.Index[Any] | pd.Series[Any]"
    # canonical name to (n,) values, NaN where undefined; the first is the one that alerts
    metric: Mapping[str, Floats]
    n_items: NDArray[np.int32]  # int32 (n,), rows of the query
    has_relevant: Bools  # (n,), whether any row is relevant
    grade: NDArray[np.float32]  # float32 (n, depth), the grade at rank 1 … depth, NaN where nothing was shown
    # int64 (n,), nanoseconds since 1970 UTC of the query's first row; None without timestamps
    time: Ints | None = None
    cluster: pd.Categorical | None = None
    pair_key: pd.Categorical | None = None
    arm: pd.Categorical | None = None
    # event to int32 (n,), how often it happened in the query
    event: Mapping[str, NDArray[np.int32]] | None = None
    segment: Mapping[str, pd.Categorical] | None = None  # column to (n,) values; categories are sorted
    # column:mean, :max and :std of the rows of a query, and the share :missing, to (n,) values
    feature: Mapping[str, Floats] | None = None
    online: Mapping[str, Floats] | None = None  # column to (n,) means over the query's rows
    parity: Mapping[str, NDArray[Any]] | None = None  # see `parity_of_rows`
    ips: Floats | None = None  # (n,), IPS-DCG, the sum of gain/propensity, and of its square
    ips_weight: Floats | None = None
    ips_squares: Floats | None = None

    def frame(self) -> pd.DataFrame:
        """Return the table of queries."""
        grades = {str(index + 1): self.grade[:, index] for index in range(self.grade.shape[1])}
        columns: dict[str, Any] = {}
        for name, values in {**vars(self), "grade": grades}.items():
            if isinstance(values, Mapping):
                columns |= {f"{name}:{part}": column for part, column in values.items()}
            elif values is not None:
                columns[name] = values
        return _frame(columns)


def _frame(columns: Mapping[str, Any]) -> pd.DataFrame:
    """Return a frame with names that are Python's texts: stages look many up, and Arrow's are made at each look."""
    frame = pd.DataFrame(dict(enumerate(columns.values())), copy=False)
    frame.columns = pd.Index(list(columns), dtype=object)
    return frame


def columns_of(table: pd.DataFrame, name: str) -> dict[str, Any]:
    """Return a field of `QueryColumns` that is a mapping: a NumPy array for each key, or a category of segments."""
    prefix = f"{name}:"
    return {c.removeprefix(prefix): column_of(table, c) for c in table.columns if c.startswith(prefix)}


def column_of(table: pd.DataFrame, name: str) -> Any:
    """Return a column as a NumPy array, or as a category; None where the table has none of that name."""
    if name not in table.columns:
        return None
    column = table[name]
    return column.array if isinstance(column.dtype, pd.CategoricalDtype) else column.to_numpy()


def primary_of(table: pd.DataFrame) -> Floats:
    """Return the values of the metric that alerts, (n,)."""
    return np.asarray(table[next(name for name in table.columns if name.startswith("metric:"))].to_numpy())


def mean_of_defined(values: Floats) -> float:
    """Return the mean of the defined values; NaN where none is, without a warning."""
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if defined.size else float("nan")


def grades_by_rank(table: pd.DataFrame, rows: Ints | None = None) -> NDArray[np.float32]:
    """Return the grades of some rows, (n,), or of all, as `QueryColumns` has them, (n, depth)."""
    grades = [table[name].to_numpy(np.float32) for name in table.columns if name.startswith("grade:")]
    return np.stack(grades if rows is None else [column[rows] for column in grades], axis=1)


def queries_of(table: pd.DataFrame, rows: NDArray[Any]) -> pd.DataFrame:
    """Return the chosen queries, (n_kept,), or the table itself where these are all of them."""
    places = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
    everything = places.size == len(table) and np.array_equal(places, np.arange(places.size))
    return table if everything else table.take(places)


def places_of(ids: "pd.Series[Any]", other_ids: "pd.Series[Any]") -> Ints:
    """Return the place of each id, (n,), among others, (m,); -1 of an id that is not among them."""
    places = pc.index_in(_arrow(ids), value_set=_arrow(other_ids))
    return np.asarray(places.fill_null(-1).to_numpy(zero_copy_only=False), np.int64)


def without_pages(table: pd.DataFrame) -> pd.DataFrame:
    """Drop columns that no comparison with the baseline looks at: a large table is copied more than once."""
    pages = ("grade:", "event:", "online:", "parity:", "ips")
    return table.loc[:, [not name.startswith(pages) for name in table.columns]]


def concatenate(parts: list[pd.DataFrame]) -> pd.DataFrame:
    """Join the queries of several tables, in order of their ids; `parts` is emptied on the way, to save memory."""
    if len(parts) == 1:
        return parts.pop()
    # a frame would be rebuilt for each column taken out of it
    columns_of_parts = [{name: part[name] for name in part.columns} for part in parts]
    parts.clear()
    columns = {}
    for name in list(columns_of_parts[0]):
        pieces = [columns_of_part.pop(name) for columns_of_part in columns_of_parts]
        if isinstance(pieces[0].dtype, pd.CategoricalDtype):
            columns[name] = pd.Series(union_categoricals(pieces, sort_categories=True))
        else:
            columns[name] = pd.concat(pieces, ignore_index=True)
    table = _frame(columns)
    order = pc.sort_indices(_arrow(table["query_id"])).to_numpy()
    return queries_of(table, order.astype(np.int64))


def digest(table: pd.DataFrame) -> str:
    """Return the SHA-256 of everything in the table: the same queries, whatever file, row order or batches."""
    metrics = columns_of(table, "metric")
    categories = [column_of(table, name) for name in ("cluster", "pair_key", "arm")]
    categories += columns_of(table, "segment").values()
    numbers = (columns_of(table, name).values() for name in ("event", "feature", "online", "parity"))
    return fingerprint_arrays(
        *_text_bytes(table["query_id"]),
        np.array(list(metrics), dtype=object),
        np.vstack(list(metrics.values())),
        column_of(table, "n_items"),
        grades_by_rank(table),
        column_of(table, "time"),
        *(column for columns in numbers for column in columns),
        *(
            part
            for category in categories
            if category is not None
            for part in (category.codes.astype(np.int32), *_text_bytes(category.categories))
        ),
        column_of(table, "ips"),
    )


def to_arrow(table: pd.DataFrame) -> Any:
    """Return a `pyarrow.Table` that `from_arrow` reads back."""
    columns: dict[str, Any] = {}
    for name in table.columns:
        values = column_of(table, name)
        if name == "grade:1":
            grades = grades_by_rank(table)
            flat = pa.array(grades.reshape(-1))
            columns[_GRADES] = pa.FixedSizeListArray.from_arrays(flat, grades.shape[1])
        elif isinstance(values, pd.Categorical):
            codes = pa.array(values.codes.astype(np.int32), mask=values.codes < 0)
            columns[name] = pa.DictionaryArray.from_arrays(codes, pa.array(values.categories, pa.string()))
        elif name == "time":
            columns[name] = pa.array(values).cast(pa.timestamp("ns", "UTC"))
        elif not name.startswith("grade:"):
            kind = pa.string() if name == "query_id" else None
            columns[name.removeprefix("metric:")] = pa.array(values, kind)
    return pa.table(columns)


def from_arrow(table: Any, metrics: Sequence[str]) -> pd.DataFrame:
    """Read what `to_arrow` wrote; KeyError where it lacks a column, ValueError where one lacks numbers."""
    columns: dict[str, Any] = {}
    needed = ["query_id", *metrics, "n_items", "has_relevant", _GRADES]
    for name in dict.fromkeys([*needed, *table.column_names]):
        column = table[name].combine_chunks()
        if name == _GRADES:
            grades = column.flatten().to_numpy(zero_copy_only=False).reshape(len(table), -1)
            columns |= {f"grade:{index + 1}": grades[:, index] for index in range(grades.shape[1])}
        elif name.startswith(("cluster", "pair_key", "arm", "segment:")):
            columns[name] = category_of(column)
        else:
            values = column.cast("int64") if name == "time" else column
            _refuse_unreadable(name, values)
            column_name = f"metric:{name}" if name in metrics else name
            columns[column_name] = values.to_numpy(zero_copy_only=False)
    return _frame(columns)


def _refuse_unreadable(name: str, values: Any) -> None:
    """Refuse a stored column without numbers, or with an empty place where there can be none."""
    if name != "query_id" and str(values.type) not in _NUMBERS:
        raise ValueError(f"its column {name} holds {values.type}, not numbers")
    if name in ("query_id", "n_items", "has_relevant", "time") and values.null_count:
        raise ValueError(f"its column {name} has an empty place")


def _text_bytes(texts: Any) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Return the lengths and bytes of texts, which identify them without a Python object each."""
    array = _arrow(texts)
    _, offsets, letters = array.buffers()
    ends = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    if letters is None:
        return np.diff(ends), None
    return np.diff(ends), np.frombuffer(letters, np.uint8)[ends[0] : ends[-1]]


def _arrow(texts: Any) -> Any:
    """Return a column, or an index, of text as one Arrow array: pandas' own, where it holds one."""
    array = pa.array(texts, pa.large_string())
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
