"""The latency of rankings: milliseconds per query in a table of all rankings, or in a column of their own files."""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ltr_harness._util.text import count_of, plural, shortened
from ltr_harness.comparison.comparison import Comparison
from ltr_harness.comparison.latency import ModelLatency, model_latencies
from ltr_harness.data.addresses import local_path
from ltr_harness.data.readers.column_names import LISTINGS, column_among
from ltr_harness.errors import Caution, DataError, UsageError, all_of
from ltr_harness.experiments.compare.tables import read_table

_TABLES = (".csv", ".tsv", ".parquet")
_OTHER_UNIT = 300  # times the median of another model: seconds beside milliseconds are 1,000
_EXPECTED = "milliseconds per query, 0 or more"


def compared_latencies(
    comparison: Comparison, source: str, files: Mapping[str, Path], documents: Mapping[str, float]
) -> tuple[list[ModelLatency], list[Caution]]:
    """Return the latency of every compared model, and cautions.

    Args:
        comparison: of quality.
        source: a table with ``query_id`` and a column for each model, JSON of {model: {query: milliseconds}}, or else
            the name of a column of `files`.
        files: of the models' rankings, by name.
        documents: the mean number of documents in each model's rankings, where it is known.
    """
    path = local_path(source)
    if path.exists():
        tables = _tables_of_file(path, comparison.models)
    else:
        _refuse_no_column(source, comparison.models, files)
        tables = {name: (str(files[name]), _column_of(files[name], source)) for name in comparison.models}
    milliseconds = dict(
        zip(
            comparison.models,
            all_of([partial(_checked, *tables[name], name, comparison) for name in comparison.models]),
            strict=True,
        )
    )
    return model_latencies(comparison, milliseconds, documents), _cautions(milliseconds, tables)


def _refuse_no_column(source: str, models: Sequence[str], files: Mapping[str, Path]) -> None:
    """Raise a UsageError where there is neither such a file nor a column for every model."""
    without_columns = [name for name in models if name not in files or files[name].suffix not in _TABLES]
    if Path(source).suffix in (*_TABLES, ".json") or without_columns:
        found = f"--latency {source}: is no file"
        if without_columns:
            found += f", and no column: {shortened(without_columns, 3)} {plural('has', len(without_columns))} no table"
        raise UsageError(
            f"{found}; expected a table with query_id and a column for each of {shortened(models, 4)}, or a column "
            "of rankings that are CSV or Parquet"
        )


def _tables_of_file(path: Path, models: Sequence[str]) -> dict[str, tuple[str, "pd.Series[Any]"]]:
    """Return where each model's values are from, and the values by query; DataError for models without a column."""
    if path.suffix == ".json":
        by_model = _json_values(path)
    else:
        frame = read_table(path)
        query = _query_column(frame, path)
        by_model = {str(name): frame.set_index(query)[name] for name in frame.columns if name != query}
    lacking = [name for name in models if name not in by_model]
    if lacking:
        found = f"has no latency of {shortened(lacking, 3)}"
        raise DataError.at(path, found, "a column for each model", f"its columns: {shortened(by_model, 8)}")
    return {name: (str(path), by_model[name]) for name in models}


def _json_values(path: Path) -> dict[str, "pd.Series[Any]"]:
    expected = "{model: {query: milliseconds}}"
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as problem:
        raise DataError.at(path, f"cannot be read as JSON: {problem}", expected) from None
    if not isinstance(content, dict) or not all(isinstance(values, dict) for values in content.values()):
        raise DataError.at(path, "is other JSON", expected)
    return {model: pd.Series(values, dtype=object) for model, values in content.items()}


def _query_column(frame: pd.DataFrame, path: Path) -> str:
    columns = list(map(str, frame.columns))
    if len(set(columns)) < len(columns):
        raise DataError.at(path, f"has two columns of one name: {shortened(columns, 8)}", "each once")
    query = column_among(LISTINGS["query"], columns)
    if query is None:
        raise DataError.at(path, f"has the columns {shortened(columns, 8)}", "query_id among them")
    return query


def _column_of(path: Path, column: str) -> "pd.Series[Any]":
    """Return a column of a ranking's file by query, whose rows must agree."""
    frame = read_table(path)
    query = _query_column(frame, path)
    if column not in frame.columns:
        raise DataError.at(
            path, f"has no column {column!r}", cure=f"its columns: {shortened(frame.columns, 8)}"
        )
    rows = frame[[query, column]].drop_duplicates()
    repeated = rows[query][rows[query].duplicated()]
    if not repeated.empty:
        found = f"{column} differs between rows of query {str(repeated.iloc[0])!r}"
        raise DataError.at(path, found, "one latency per query")
    return rows.set_index(query)[column]


def _checked(place: str, values: "pd.Series[Any]", model: str, comparison: Comparison) -> dict[str, float]:
    """Return a model's milliseconds by query; a DataError names the first bad value, and the first missing query."""
    queries = values.index.astype(str)
    if queries.has_duplicates:
        repeated = queries[queries.duplicated()][0]
        raise DataError.at(
            place, f"has query {repeated!r} twice", "one latency per query: the median of its calls"
        )
    numbers = pd.to_numeric(values, errors="coerce").to_numpy(np.float64, na_value=np.nan)
    numbers = np.where([isinstance(value, bool | np.bool_) for value in values], np.nan, numbers)
    bad = np.flatnonzero(~(np.isfinite(numbers) & (numbers >= 0)))
    if bad.size:
        value = values.iloc[bad[0]]
        text = repr(value) if isinstance(value, str) else str(value)
        found = f"latency {text} of {model}, query {queries[bad[0]]!r}"
        if bad.size > 1:
            found += f" ({count_of(bad.size, 'such value')})"
        raise DataError.at(place, found, _EXPECTED)
    milliseconds = dict(zip(queries.tolist(), numbers.tolist(), strict=True))
    compared_queries = comparison.system(model).query_ids.tolist()
    missing = [query for query in compared_queries if query not in milliseconds]
    if missing:
        found = f"lacks {len(missing):,} of {count_of(len(compared_queries), 'query')} for {model}"
        raise DataError.at(place, f"{found}, such as {missing[0]!r}", "a latency of every compared query")
    return milliseconds


def _cautions(
    milliseconds: Mapping[str, Mapping[str, float]], tables: Mapping[str, tuple[str, "pd.Series[Any]"]]
) -> list[Caution]:
    """Return a caution where medians are so far apart that their units may differ."""
    medians = {name: float(np.median(list(values.values()))) for name, values in milliseconds.items()}
    fast, slow = min(medians, key=medians.__getitem__), max(medians, key=medians.__getitem__)
    if not medians[slow] > _OTHER_UNIT * medians[fast] > 0:
        return []
    times = f"{medians[slow] / medians[fast]:,.0f} times"
    text = f"the median latency of {slow}, {medians[slow]:g}, is {times} that of {fast}, {medians[fast]:g}"
    return [Caution("latency-unit", "warning", text, "are both in milliseconds?", place=tables[slow][0])]
