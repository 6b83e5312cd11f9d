"""Per-query values in tables: those of any tool, and ``comparison.parquet``, which keeps a comparison for any tool."""

import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pydantic import Field

from ltr_harness._util.stored import SCHEMA_VERSION, Form, Versioned, harness_version, refuse_twice, validated
from ltr_harness._util.text import FORMULA
from ltr_harness._util.user_code import is_own_file
from ltr_harness.comparison.comparability import FOREIGN, LABEL_FACTS
from ltr_harness.comparison.contrasts import WEIGHT, Origin, SystemResult, text_ids
from ltr_harness.data.columns import decoded, table_of
from ltr_harness.data.logs.separators import refuse_other_separator
from ltr_harness.data.readers.column_names import column_for
from ltr_harness.data.time_folds import DAY, PERIOD, period_in
from ltr_harness.errors import Caution, DataError, MetricError
from ltr_harness.experiments.runs import record
from ltr_harness.metrics import parse_metric
from ltr_harness.metrics.core.grammar import MetricName, metric_named
from ltr_harness.metrics.core.presets import TOOLS, own_name
from ltr_harness.metrics.table import built_in

if TYPE_CHECKING:
    import pandas as pd

    from ltr_harness.comparison.comparison import Comparison


_EXPECTED = "query_id and metric columns"
_RANKING = "a ranking needs its judgments: --qrels FILE, or compare(…, qrels=…)"


FILE = "comparison.parquet"

_KEY = b"ltr_harness.comparison"
_INDEX = ("model", "replicate", "query_id")
_KEPT = ("name", "replicates", "deterministic", "seeded", "source")


def read_table(path: Path) -> "pd.DataFrame":
    """The table in a .parquet, .csv or .tsv file, query ids as text; DataError where it cannot be read."""
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
    """One system from a table with ``query_id`` (column or index) and one column per metric, or why it is none."""
    if hasattr(table, "iloc"):
        frame = cast("pd.DataFrame", table)
        if column_for("query", [str(level) for level in frame.index.names]) is not None:
            frame = frame.reset_index()
    else:
        try:
            arrow = table_of(table)
            columns = list(map(decoded, arrow.columns))  # pandas has no views, no runs and few dictionaries
            frame = pa.Table.from_arrays(columns, names=arrow.column_names).to_pandas()
        except (TypeError, *_NO_VALUES) as problem:
            raise DataError.at(name, f"cannot be read as a table: {problem}", _EXPECTED) from None
    names = [str(column) for column in frame.columns]
    if odd := [column for column in names if any("\ud800" <= sign <= "\udfff" for sign in column)]:
        found = f"the name of the column {odd[0]!a} is not Unicode text (a lone surrogate)"
        raise DataError.at(name, found, "text")
    frame = frame.set_axis(names, axis="columns")
    query = column_for("query", frame.columns.tolist())
    if query is None:
        found = ", ".join(frame.columns)
        raise DataError.at(name, f"no column query_id (columns: {found})", _EXPECTED)
    if frame.columns.has_duplicates:
        twice = frame.columns[frame.columns.duplicated()][0]
        raise DataError.at(name, f"has several columns {twice}", "one column per metric")
    if frame.empty:
        raise DataError.at(name, "holds no query", "one row per query")
    frame = _without_arrow(frame, name)
    ids = text_ids(_as_numpy(frame, query, name), f"{name}: {query}")
    if len(set(ids.tolist())) != ids.size:
        distinct, counts = np.unique(ids, return_counts=True)
        raise DataError.at(
            name, f"query {str(distinct[counts > 1][0])!r} has several rows", "one row per query"
        )
    of_days = unit is not None and (unit == PERIOD or period_in(unit) is not None)
    named = (unit, weights or WEIGHT, DAY if of_days else None)
    units = [own for own in named if own is not None and own in frame]
    rest = [column for column in frame.columns if column not in (query, *units)]
    metrics, directions, others = _metric_columns(rest, name, convention, cautions)
    attributes = dict.fromkeys([*(fact for fact in LABEL_FACTS if fact in frame), *others, *units])
    values = {}
    for metric, column in metrics.items():
        try:
            if frame[column].dtype.kind in "cmM":  # NumPy makes numbers of times, and drops imaginary parts
                raise TypeError
            values[metric] = frame[column].to_numpy(np.float64, na_value=np.nan)[None, :]
        except (TypeError, ValueError):
            raise DataError.at(name, f"column {column} has a value that is not a number") from None
    return SystemResult(
        name=name,
        query_ids=ids,
        values=values,
        replicates=("1",),
        higher_is_better=directions,
        query_attributes={column: _as_numpy(frame, column, name) for column in attributes},
    )


def _as_numpy(frame: "pd.DataFrame", column: str, name: str) -> NDArray[Any]:
    try:
        return np.asarray(frame[column].to_numpy())
    except _NO_VALUES as problem:
        raise DataError.at(name, f"column {column} cannot be read: {problem}", _EXPECTED) from None


def _without_arrow(frame: "pd.DataFrame", name: str) -> "pd.DataFrame":
    """A frame of pandas whose columns of Arrow are those of NumPy: of views, runs and more, pandas has no values."""
    columns = {}
    for column, kind in frame.dtypes.items():
        if hasattr(kind, "pyarrow_dtype"):
            values = pa.chunked_array(frame[column].array.__arrow_array__())
            try:
                columns[str(column)] = decoded(values).to_pandas(integer_object_nulls=True).to_numpy()
            except _NO_VALUES as problem:
                raise DataError.at(name, f"column {column} cannot be read: {problem}", _EXPECTED) from None
    return frame.assign(**columns)


def _metric_columns(
    columns: Sequence[str], table: str, convention: str | None, cautions: list[Caution]
) -> tuple[dict[str, str], dict[str, bool], list[str]]:
    """The columns of what metrics are compared as, those metrics' directions, and the columns that are no metric."""
    metrics: dict[str, str] = {}
    directions: dict[str, bool] = {}
    others = []
    for column in columns:
        if column in LABEL_FACTS:
            continue
        named = _compared_as(column, convention)
        if named is None:
            others.append(column)
            continue
        metric, higher_is_better = named
        if metric in metrics:
            found = f"columns {metrics[metric]} and {column} are one metric, {metric}"
            raise DataError.at(table, found, "one column per metric")
        metrics[metric] = column
        directions[metric] = higher_is_better
    if not metrics:
        found = f"no column is a metric (columns: {', '.join(others) or 'none'})"
        cure = _cure(others) or (_RANKING if column_for("document_id", others) else "")
        raise DataError.at(table, found, "one column per metric, named as ndcg@10", cure)
    foreign = {column: metric for metric, column in metrics.items() if metric.startswith(FOREIGN)}
    names = [(column, metric) for metric, column in metrics.items() if column not in foreign]
    renamed = [f"{column} is {metric}" for column, metric in names if column != metric]
    if renamed and convention is not None:
        text = f"as {convention} names metrics, {', '.join(renamed)}"
        cautions.append(Caution("other-name", "note", text, place=table))
    if foreign:
        kept = ", ".join(f"{column} as {metric}" for column, metric in foreign.items())
        text = f"{kept}: another tool's name, compared under that tool's definition"
        cautions.append(Caution("foreign-definition", "note", text, _cure(list(foreign)), table))
    if others:
        text = f"ignored, not a metric: {', '.join(others)}"
        cautions.append(Caution("ignored-columns", "note", text, _cure(others), table))
    return metrics, directions, others


def _compared_as(column: str, convention: str | None) -> tuple[str, bool] | None:
    """The name to compare a column under, foreign unless ours to the letter, and direction; None for no metric."""
    if convention is not None and (theirs := metric_named(convention, column)) is not None:
        return str(theirs), theirs.higher_is_better
    if is_own_file(column):  # a table brings numbers, not code to execute
        return None
    text = column.removeprefix(FOREIGN)
    try:
        metric = parse_metric(text)
    except MetricError:
        return None
    name = MetricName.of(text).name.strip()
    ours = built_in(name) in (name, None) and own_name(name) is None
    return (str(metric) if ours and text == column else FOREIGN + text), metric.higher_is_better


def _cure(names: Sequence[str]) -> str:
    """Return the conventions that know these names; "" where none does."""
    known = {tool: [name for name in names if metric_named(tool, name)] for tool in TOOLS}
    tools = [f"convention={tool!r}" for tool, meant in known.items() if meant]
    if not tools:
        return ""
    meant = dict.fromkeys(name for names in known.values() for name in names)
    return f"{' or '.join(tools)} defines {', '.join(meant)}"


@dataclass(frozen=True, eq=False, kw_only=True)
class _SavedSystem(Origin):
    name: str
    n_queries: Annotated[int, Field(ge=1)]
    replicates: Annotated[list[str], Field(min_length=1)]
    seeded: bool
    attributes: list[tuple[str, str]]  # name, column


class _About(Versioned, extra="ignore"):
    """The file's metadata; more may stand there."""

    form: ClassVar[Form] = "comparison"
    primary: record.MetricName
    baseline: str
    weights: str | None  # as `Method.weights`; None in comparisons of versions before 3
    systems: Annotated[list[_SavedSystem], Field(min_length=1)]
    metrics: Annotated[list[tuple[record.MetricName, bool]], Field(min_length=1)]  # name, higher is better

    def refuse_other(self, schema: pa.Schema, rows: int) -> None:
        """Raises ValueError where the table is not what the metadata says."""
        names = [one.name for one in self.systems]
        metrics = [name for name, _ in self.metrics]
        if len({*names}) < len(names) or self.baseline not in names:
            raise ValueError(f"its models are {', '.join(names)}, the baseline is {self.baseline}")
        if len({*metrics}) < len(metrics) or self.primary not in metrics:
            raise ValueError(f"its metrics are {', '.join(metrics)}, and {self.primary} decides")
        if rows != sum(len(one.replicates) * one.n_queries for one in self.systems):
            raise ValueError(f"its {rows:,} rows are not those of its models' queries")
        refuse_twice(schema.names)
        attributes = {column for one in self.systems for _, column in one.attributes}
        if lacking := {"query_id", *metrics, *attributes} - {*schema.names}:
            raise ValueError(f"it has no column {min(lacking)}")
        for name in metrics:
            if not _is_number(schema.field(name).type):
                raise ValueError(f"the column {name} holds {schema.field(name).type}, not numbers")


@dataclass(frozen=True, eq=False)
class Saved:
    """What a saved comparison brings into another one: its models, the metric that decided, baseline and weights."""

    systems: tuple[SystemResult, ...]
    primary: str
    baseline: str
    weights: str | None


def to_parquet(comparison: "Comparison") -> bytes:
    """The file's content; the same comparison gives the same bytes."""
    taken, tables = {*_INDEX, *comparison.metrics}, []
    for system in comparison.systems:
        n, times = len(system.query_ids), len(system.replicates)
        columns = {
            "model": pa.array([system.name] * (n * times)),
            "replicate": pa.array(np.repeat(np.array(system.replicates), n)),
            "query_id": pa.chunked_array([pa.array(system.query_ids)] * times),
        }
        for metric in comparison.metrics:
            columns[metric] = pa.array(system.values[metric].reshape(-1))
        for name, values in system.query_attributes.items():
            try:
                column = pa.array(values)
            except pa.ArrowException:  # a column of several types: its words are what slices are cut by
                column = pa.array([None if value is None else str(value) for value in values.tolist()])
            columns[_column(name, taken)] = pa.chunked_array([column] * times)
        tables.append(pa.table(columns))
    about = {
        "schema_version": SCHEMA_VERSION,
        "written_by": harness_version(),
        "primary": comparison.primary,
        "baseline": comparison.baseline,
        "weights": comparison.method.weights,
        "systems": [
            {
                **{name: getattr(system, name) for name in _KEPT},
                "n_queries": len(system.query_ids),
                "judgments_fingerprint": dict(system.judgments_fingerprint),
                "truth_fingerprint": dict(system.truth_fingerprint),
                "attributes": [[name, _column(name, taken)] for name in system.query_attributes],
            }
            for system in comparison.systems
        ],
        "metrics": [[metric, comparison.higher_is_better[metric]] for metric in comparison.metrics],
    }
    table = _joined(tables).replace_schema_metadata({_KEY: json.dumps(about, sort_keys=True).encode()})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    return bytes(sink.getvalue())


def saved_at(path: Path) -> Path | None:
    """The file of the saved comparison that a path means: the file, its folder, or the JSON beside it."""
    if path.is_dir():
        return path / FILE if (path / FILE).is_file() else None
    if path.suffix == ".json":
        if (path.parent / FILE).is_file():
            return path.parent / FILE
        expected = f"{FILE}, which holds the per-query values that a comparison is made of"
        cure = "compare with -o DIR, or report, writes both; rankings need --qrels FILE"
        raise DataError.at(path, f"there is no {FILE} beside it", expected, cure)
    return path if path.suffix == ".parquet" and path.is_file() and _metadata(path) is not None else None


def read_saved(path: Path) -> Saved:
    """What `to_parquet` wrote; DataError where it is damaged, or written by a version that this one does not know."""
    try:
        stored = _metadata(path)
        if stored is None:
            raise DataError.at(path, "is not a saved comparison", FILE)
        about = validated(_About, stored)
        file = pq.ParquetFile(path.absolute())
        about.refuse_other(file.schema_arrow, file.metadata.num_rows)
        table = file.read()
        directions = dict(about.metrics)
        systems, start = [], 0
        for one in about.systems:
            n, times = one.n_queries, len(one.replicates)
            rows, first = table.slice(start, n * times), table.slice(start, n)
            systems.append(
                SystemResult(
                    name=one.name,
                    query_ids=first.column("query_id").to_numpy().astype(str),
                    values={
                        metric: rows.column(metric).to_numpy().reshape(times, n) for metric in directions
                    },
                    replicates=tuple(one.replicates),
                    higher_is_better=directions,
                    deterministic=one.deterministic,
                    seeded=one.seeded,
                    judgments_fingerprint=one.judgments_fingerprint,
                    truth_fingerprint=one.truth_fingerprint,
                    query_attributes={name: first.column(own).to_numpy() for name, own in one.attributes},
                    source=one.source,
                )
            )
            start += n * times
        return Saved(tuple(systems), about.primary, about.baseline, about.weights)
    except DataError:
        raise
    except (ValueError, OSError, pa.ArrowException) as problem:
        reason = (str(problem).strip() or type(problem).__name__).splitlines()[0]
        found = f"cannot be read as a saved comparison: {reason}"
        raise DataError.at(path, found, "the file as it was written") from None


def _metadata(path: Path) -> bytes | None:
    """What the file says of itself; None where it is some other table or none at all."""
    try:
        return dict(pq.read_schema(path.absolute()).metadata or {}).get(_KEY)
    except (ValueError, OSError, pa.ArrowException):
        return None


def _column(name: str, taken: set[str]) -> str:
    """An attribute's column, under another name where a metric or the index has its own."""
    return f"query.{name}" if name in taken else name


def _joined(tables: Sequence[pa.Table]) -> pa.Table:
    """One table; a fact that is a number for one model and a word for another is a word for both."""
    types = {(column.name, _is_number(column.type)) for table in tables for column in table.schema}
    for name in {name for name, is_number in types if is_number and (name, False) in types}:
        tables = [
            table.set_column(at, name, table.column(name).cast(pa.string()))
            if (at := table.schema.get_field_index(name)) >= 0
            else table
            for table in tables
        ]
    return pa.concat_tables(tables, promote_options="permissive").combine_chunks()


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))
