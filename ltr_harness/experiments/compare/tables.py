"""Per-query values in the tables of any tool."""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ltr_harness._util.tables import FORMULA
from ltr_harness._util.user_code import is_own_file
from ltr_harness.comparison.comparability import FOREIGN, LABEL_FACTS
from ltr_harness.comparison.contrasts import WEIGHT, SystemResult, text_ids
from ltr_harness.data.arrays import Floats, Texts
from ltr_harness.data.columns import decoded, table_of
from ltr_harness.data.logs.separators import refuse_other_separator
from ltr_harness.data.readers.column_names import column_for
from ltr_harness.data.time_folds import DAY, PERIOD, period_in
from ltr_harness.errors import Caution, DataError, MetricError
from ltr_harness.metrics import parse_metric
from ltr_harness.metrics.core.grammar import MetricName, metric_named
from ltr_harness.metrics.core.headroom import is_computed_column
from ltr_harness.metrics.core.presets import TOOLS, own_name
from ltr_harness.metrics.table import built_in

if TYPE_CHECKING:
    import pandas as pd


_EXPECTED = "query_id and metric columns"
_RANKING = "a ranking needs its judgments: --qrels FILE, or compare(…, qrels=…)"


def read_table(path: Path) -> "pd.DataFrame":
    """Return the table in a .parquet, .csv or .tsv file, query ids as text; DataError where it cannot be read."""
    import pandas as pd

    try:
        if path.suffix == ".parquet":
            return pd.read_parquet(path.absolute())
        with warnings.catch_warnings():
            # rows longer than the header: pandas would cut them, or take their first field for an index
            warnings.simplefilter("error", pd.errors.ParserWarning)
            separator = "," if path.suffix == ".csv" else "\t"
            names = pd.read_csv(path, sep=separator, nrows=0, index_col=False).columns
            if names.size == 1:
                refuse_other_separator(path, 1, names[0], separator, "write it so, or name it .tsv or .csv")
            query = column_for("query", names.tolist())
            kinds = {} if query is None else {query: str}
            frame = pd.read_csv(path, sep=separator, dtype=kinds, index_col=False)
        return frame if query is None else frame.replace({query: FORMULA}, r"\1", regex=True)
    # for damaged, empty, ragged or undecodable files ValueErrors; the others for what pandas notes in Parquet
    except (ValueError, TypeError, LookupError, AttributeError, OSError, pd.errors.ParserWarning) as problem:
        reason = (str(problem).strip() or type(problem).__name__).splitlines()[0]
        raise DataError.at(path, f"cannot be read as a table: {reason}", _EXPECTED) from None


_NO_VALUES = (pa.ArrowException, ValueError, OverflowError, NotImplementedError)
"""What Arrow and pandas raise where Python has no such values, as for times after 9999."""


def from_table(
    table: Any,
    name: str,
    convention: str | None,
    cautions: list[Caution],
    unit: str | None = None,
    weights: str | None = None,
) -> SystemResult:
    """Return the system of a table with ``query_id`` (column or index) and one column per metric."""
    frame = _with_text_names(_as_frame(table, name), name)
    query = column_for("query", frame.columns.tolist())
    if query is None:
        found = ", ".join(frame.columns)
        raise DataError.at(name, f"no column query_id (columns: {found})", _EXPECTED)
    if frame.columns.has_duplicates:
        repeated = frame.columns[frame.columns.duplicated()][0]
        raise DataError.at(name, f"has several columns {repeated}", "one column per metric")
    if frame.empty:
        raise DataError.at(name, "holds no query", "one row per query")
    frame = _without_arrow(frame, name)
    ids = _query_ids(frame, query, name)
    units = [column for column in _unit_columns(unit, weights) if column in frame]
    rest = [column for column in frame.columns if column not in (query, *units)]
    metrics, directions, other_columns = _metric_columns(rest, name, convention, cautions)
    label_facts = [column for column in LABEL_FACTS if column in frame]
    attributes = dict.fromkeys([*label_facts, *other_columns, *units])
    return SystemResult(
        name=name,
        query_ids=ids,
        values={metric: _metric_values(frame, column, name) for metric, column in metrics.items()},
        replicates=("1",),
        higher_is_better=directions,
        query_attributes={column: _as_numpy(frame, column, name) for column in attributes},
    )


def _as_frame(table: Any, name: str) -> "pd.DataFrame":
    """Return the table as a frame of pandas, with an index of query ids as a column."""
    if hasattr(table, "iloc"):
        frame = cast("pd.DataFrame", table)
        has_ids = column_for("query", [str(level) for level in frame.index.names]) is not None
        return frame.reset_index() if has_ids else frame
    try:
        arrow = table_of(table)
        columns = list(map(decoded, arrow.columns))  # pandas has no views, no runs and few dictionaries
        return cast("pd.DataFrame", pa.Table.from_arrays(columns, names=arrow.column_names).to_pandas())
    except (TypeError, *_NO_VALUES) as problem:
        raise DataError.at(name, f"cannot be read as a table: {problem}", _EXPECTED) from None


def _with_text_names(frame: "pd.DataFrame", name: str) -> "pd.DataFrame":
    columns = [str(column) for column in frame.columns]
    for column in columns:
        if any("\ud800" <= character <= "\udfff" for character in column):
            found = f"the name of the column {column!a} is not Unicode text (a lone surrogate)"
            raise DataError.at(name, found, "text")
    return frame.set_axis(columns, axis="columns")


def _query_ids(frame: "pd.DataFrame", query: str, name: str) -> Texts:
    """Return the ids (n_queries,) in the column of queries; a DataError names one that has several rows."""
    ids = text_ids(_as_numpy(frame, query, name), f"{name}: {query}")
    if len(set(ids.tolist())) != ids.size:
        distinct, counts = np.unique(ids, return_counts=True)
        found = f"query {str(distinct[counts > 1][0])!r} has several rows"
        raise DataError.at(name, found, "one row per query")
    return ids


def _unit_columns(unit: str | None, weights: str | None) -> list[str]:
    """Return the names of the columns that units of chance and weights are in, were the table to have them."""
    columns = [weights or WEIGHT]
    if unit is not None:
        columns.insert(0, unit)
        if unit == PERIOD or period_in(unit) is not None:
            columns.append(DAY)
    return columns


def _metric_values(frame: "pd.DataFrame", column: str, name: str) -> Floats:
    """Return the values (1, n_queries) of a metric, NaN where it has none."""
    try:
        if frame[column].dtype.kind in "cmM":  # NumPy makes numbers of times, and drops imaginary parts
            raise TypeError
        return frame[column].to_numpy(np.float64, na_value=np.nan)[None, :]
    except (TypeError, ValueError):
        raise DataError.at(name, f"column {column} has a value that is not a number") from None


def _as_numpy(frame: "pd.DataFrame", column: str, name: str) -> NDArray[Any]:
    try:
        return np.asarray(frame[column].to_numpy())
    except _NO_VALUES as problem:
        raise DataError.at(name, f"column {column} cannot be read: {problem}", _EXPECTED) from None


def _without_arrow(frame: "pd.DataFrame", name: str) -> "pd.DataFrame":
    """Return the frame with its columns of Arrow as NumPy's: pandas has no values for views, runs and more."""
    import pandas as pd

    columns = {}
    for column, kind in frame.dtypes.items():
        if hasattr(kind, "pyarrow_dtype"):
            values = pa.chunked_array(frame[column].array.__arrow_array__())
            try:
                numbers = decoded(values).to_pandas(integer_object_nulls=True).to_numpy()
                # with its type: pandas would look for times among objects, and cannot compute some
                columns[str(column)] = pd.Series(numbers, index=frame.index, dtype=numbers.dtype)
            except _NO_VALUES as problem:
                raise DataError.at(name, f"column {column} cannot be read: {problem}", _EXPECTED) from None
    return frame.assign(**columns)


def _metric_columns(
    columns: Sequence[str], table: str, convention: str | None, cautions: list[Caution]
) -> tuple[dict[str, str], dict[str, bool], list[str]]:
    """Return the column of each metric, the metrics' directions, and the columns that are no metric."""
    metrics: dict[str, str] = {}
    directions: dict[str, bool] = {}
    other_columns = []
    for column in columns:
        if column in LABEL_FACTS:
            continue
        resolved = _metric_of_column(column, convention)
        if resolved is None:
            other_columns.append(column)
            continue
        metric, higher_is_better = resolved
        if metric in metrics:
            found = f"columns {metrics[metric]} and {column} are one metric, {metric}"
            raise DataError.at(table, found, "one column per metric")
        metrics[metric] = column
        directions[metric] = higher_is_better
    if not metrics:
        raise _no_metric(table, other_columns)
    cautions += _column_cautions(metrics, other_columns, table, convention)
    return metrics, directions, other_columns


def _no_metric(table: str, columns: Sequence[str]) -> DataError:
    """Return the error about a table without a metric, with what its columns may be."""
    found = f"no column is a metric (columns: {', '.join(columns) or 'none'})"
    cure = _cure(columns)
    if not cure and column_for("document_id", columns):
        cure = _RANKING
    return DataError.at(table, found, "one column per metric, named as ndcg@10", cure)


def _column_cautions(
    metrics: Mapping[str, str], other_columns: Sequence[str], table: str, convention: str | None
) -> list[Caution]:
    """Return cautions of metrics, by name with their columns, under other names, and of columns that are no metric."""
    cautions = []
    foreign = {column: metric for metric, column in metrics.items() if metric.startswith(FOREIGN)}
    names = [(column, metric) for metric, column in metrics.items() if column not in foreign]
    renamed = [f"{column} is {metric}" for column, metric in names if column != metric]
    if renamed and convention is not None:
        text = f"as {convention} names metrics, {', '.join(renamed)}"
        cautions.append(Caution("other-name", "note", text, place=table))
    if foreign:
        foreign_names = ", ".join(f"{column} as {metric}" for column, metric in foreign.items())
        text = f"{foreign_names}: another tool's name, compared under that tool's definition"
        cautions.append(Caution("foreign-definition", "note", text, _cure(list(foreign)), table))
    ignored = [column for column in other_columns if not is_computed_column(column)]
    if ignored:
        text = f"ignored, not a metric: {', '.join(ignored)}"
        cautions.append(Caution("ignored-columns", "note", text, _cure(ignored), table))
    return cautions


def _metric_of_column(column: str, convention: str | None) -> tuple[str, bool] | None:
    """Return a column's metric name, foreign unless ours to the letter, and direction; None where it is no metric."""
    if convention is not None:
        metric = metric_named(convention, column)
        if metric is not None:
            return str(metric), metric.higher_is_better
    if is_own_file(column):  # a table brings numbers, not code to execute
        return None
    text = column.removeprefix(FOREIGN)
    try:
        metric = parse_metric(text)
    except MetricError:
        return None
    name = MetricName.of(text).name.strip()
    is_ours = text == column and built_in(name) in (name, None) and own_name(name) is None
    compared_name = str(metric) if is_ours else f"{FOREIGN}{text}"
    return compared_name, metric.higher_is_better


def _cure(names: Sequence[str]) -> str:
    """Return the conventions that know these names; "" where none does."""
    defined = {tool: [name for name in names if metric_named(tool, name)] for tool in TOOLS}
    conventions = [f"convention={tool!r}" for tool, metrics in defined.items() if metrics]
    if not conventions:
        return ""
    defined_names = dict.fromkeys(name for metrics in defined.values() for name in metrics)
    return f"{' or '.join(conventions)} defines {', '.join(defined_names)}"
