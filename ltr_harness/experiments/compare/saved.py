"""``comparison.parquet``, which keeps a comparison's per-query values for any tool."""

import json
from collections.abc import Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field

from ltr_harness._util.stored import (
    SCHEMA_VERSION,
    StoredForm,
    Versioned,
    harness_version,
    refuse_twice,
    validated,
)
from ltr_harness.comparison.contrasts import Origin, SystemResult
from ltr_harness.data.arrays import Array
from ltr_harness.data.columns import column_of
from ltr_harness.errors import DataError
from ltr_harness.experiments.runs import record

if TYPE_CHECKING:
    from ltr_harness.comparison.comparison import Comparison

FILE = "comparison.parquet"

_KEY = b"ltr_harness.comparison"

_INDEX = ("model", "replicate", "query_id")

_SYSTEM_FIELDS = ("name", "replicates", "deterministic", "seeded", "document_rules", "source")


@dataclass(frozen=True, eq=False, kw_only=True)
class _SavedSystem(Origin):
    name: str
    n_queries: Annotated[int, Field(ge=1)]
    replicates: Annotated[list[str], Field(min_length=1)]
    seeded: bool
    attributes: list[tuple[str, str]]  # name, column


class _Metadata(Versioned, extra="ignore"):
    """The file's metadata; keys that later versions add are ignored."""

    form: ClassVar[StoredForm] = "comparison"
    primary: record.StoredMetricName
    baseline: str
    weights: str | None  # as `Method.weights`; None in comparisons of versions before 3
    systems: Annotated[list[_SavedSystem], Field(min_length=1)]
    metrics: Annotated[
        list[tuple[record.StoredMetricName, bool]], Field(min_length=1)
    ]  # name, higher is better

    def refuse_other(self, schema: pa.Schema, rows: int) -> None:
        """Raise a ValueError where the table is not what the metadata says."""
        self._refuse_names()
        if rows != sum(len(system.replicates) * system.n_queries for system in self.systems):
            raise ValueError(f"its {rows:,} rows are not those of its models' queries")
        self._refuse_columns(schema)

    def _refuse_names(self) -> None:
        names = [system.name for system in self.systems]
        metrics = [name for name, _ in self.metrics]
        if len({*names}) < len(names) or self.baseline not in names:
            raise ValueError(f"its models are {', '.join(names)}, the baseline is {self.baseline}")
        if len({*metrics}) < len(metrics) or self.primary not in metrics:
            raise ValueError(f"its metrics are {', '.join(metrics)}, and {self.primary} decides")

    def _refuse_columns(self, schema: pa.Schema) -> None:
        refuse_twice(schema.names)
        metrics = [name for name, _ in self.metrics]
        attributes = {column for system in self.systems for _, column in system.attributes}
        if lacking := {"query_id", *metrics, *attributes} - {*schema.names}:
            raise ValueError(f"it has no column {min(lacking)}")
        for name in metrics:
            if not _is_number(schema.field(name).type):
                raise ValueError(f"the column {name} holds {schema.field(name).type}, not numbers")


@dataclass(frozen=True, eq=False)
class Saved:
    """The part of a saved comparison that another one takes over: models, deciding metric, baseline and weights."""

    systems: tuple[SystemResult, ...]
    primary: str
    baseline: str
    weights: str | None


def to_parquet(comparison: "Comparison") -> bytes:
    """Return the file's content; the same comparison gives the same bytes."""
    reserved_names = {*_INDEX, *comparison.metrics}
    tables = [_table_of(system, comparison.metrics, reserved_names) for system in comparison.systems]
    metadata = {
        "schema_version": SCHEMA_VERSION,
        "written_by": harness_version(),
        "primary": comparison.primary,
        "baseline": comparison.baseline,
        "weights": comparison.method.weights,
        "systems": [
            {
                **{name: getattr(system, name) for name in _SYSTEM_FIELDS},
                "n_queries": len(system.query_ids),
                "judgments_fingerprint": dict(system.judgments_fingerprint),
                "truth_fingerprint": dict(system.truth_fingerprint),
                "attributes": [
                    [name, _column_name(name, reserved_names)] for name in system.query_attributes
                ],
            }
            for system in comparison.systems
        ],
        "metrics": [[metric, comparison.higher_is_better[metric]] for metric in comparison.metrics],
    }
    table = _concatenate(tables).replace_schema_metadata(
        {_KEY: json.dumps(metadata, sort_keys=True).encode()}
    )
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    return bytes(sink.getvalue())


def _table_of(system: SystemResult, metrics: Sequence[str], reserved_names: Set[str]) -> pa.Table:
    """Return a row for each query of each replicate."""
    n_queries, n_replicates = len(system.query_ids), len(system.replicates)
    # repeated as Arrow's values: with Python's, Arrow imports pandas
    (name,), replicates = column_of(np.array([system.name])), column_of(np.array(system.replicates))
    columns = {
        "model": pa.repeat(name, n_queries * n_replicates),
        "replicate": pa.chunked_array([pa.repeat(replicate, n_queries) for replicate in replicates]),
        "query_id": pa.chunked_array([column_of(system.query_ids)] * n_replicates),
    }
    for metric in metrics:
        columns[metric] = column_of(system.values[metric].reshape(-1))
    for name, values in system.query_attributes.items():
        column = _attribute_column(values)
        columns[_column_name(name, reserved_names)] = pa.chunked_array([column] * n_replicates)
    return pa.table(columns)


def _attribute_column(values: Array) -> pa.Array:
    try:
        return column_of(values)
    except pa.ArrowException:  # a column of several types: its words are what slices are cut by
        return pa.array([None if value is None else str(value) for value in values.tolist()])


def saved_at(path: Path) -> Path | None:
    """Return the file of the saved comparison that a path means: the file, its folder, or the JSON beside it."""
    if path.is_dir():
        return path / FILE if (path / FILE).is_file() else None
    if path.suffix == ".json":
        if (path.parent / FILE).is_file():
            return path.parent / FILE
        expected = f"{FILE}, which holds the per-query values that a comparison is made of"
        cure = "compare with -o DIR, or report, writes both; rankings need --qrels FILE"
        raise DataError.at(path, f"there is no {FILE} beside it", expected, cure)
    return path if path.suffix == ".parquet" and path.is_file() and _read_metadata(path) is not None else None


def read_saved(path: Path) -> Saved:
    """Read what `to_parquet` wrote; raise a DataError where it is damaged, or written by a newer version."""
    try:
        raw_metadata = _read_metadata(path)
        if raw_metadata is None:
            raise DataError.at(path, "is not a saved comparison", FILE)
        stored = validated(_Metadata, raw_metadata)
        file = pq.ParquetFile(path.absolute())
        stored.refuse_other(file.schema_arrow, file.metadata.num_rows)
        table = file.read()
        directions = dict(stored.metrics)
        systems, start = [], 0
        for saved_system in stored.systems:
            n, n_replicates = saved_system.n_queries, len(saved_system.replicates)
            rows, first = table.slice(start, n * n_replicates), table.slice(start, n)
            systems.append(
                SystemResult(
                    name=saved_system.name,
                    query_ids=first.column("query_id").to_numpy().astype(str),
                    values={
                        metric: rows.column(metric).to_numpy().reshape(n_replicates, n)
                        for metric in directions
                    },
                    replicates=tuple(saved_system.replicates),
                    higher_is_better=directions,
                    deterministic=saved_system.deterministic,
                    seeded=saved_system.seeded,
                    judgments_fingerprint=saved_system.judgments_fingerprint,
                    truth_fingerprint=saved_system.truth_fingerprint,
                    document_rules=saved_system.document_rules,
                    query_attributes={
                        name: first.column(attribute_column).to_numpy()
                        for name, attribute_column in saved_system.attributes
                    },
                    source=saved_system.source,
                )
            )
            start += n * n_replicates
        return Saved(tuple(systems), stored.primary, stored.baseline, stored.weights)
    except DataError:
        raise
    except (ValueError, OSError, pa.ArrowException) as problem:
        reason = (str(problem).strip() or type(problem).__name__).splitlines()[0]
        found = f"cannot be read as a saved comparison: {reason}"
        raise DataError.at(path, found, "the file as it was written") from None


def _read_metadata(path: Path) -> bytes | None:
    """Return the metadata of a saved comparison; None where the file is another table or no table."""
    try:
        return dict(pq.read_schema(path.absolute()).metadata or {}).get(_KEY)
    except (ValueError, OSError, pa.ArrowException):
        return None


def _column_name(name: str, reserved_names: Set[str]) -> str:
    """Return the name of an attribute's column, another one where a metric or the index has its own."""
    return f"query.{name}" if name in reserved_names else name


def _concatenate(tables: Sequence[pa.Table]) -> pa.Table:
    """Return one table of all; a fact that is a number for one model and a word for another is a word for both."""
    types = {(column.name, _is_number(column.type)) for table in tables for column in table.schema}
    for name in {name for name, is_number in types if is_number and (name, False) in types}:
        tables = [_with_texts(table, name) for table in tables]
    return pa.concat_tables(tables, promote_options="permissive").combine_chunks()


def _with_texts(table: pa.Table, name: str) -> pa.Table:
    """Return the table with a column as texts, if it has that column."""
    index = table.schema.get_field_index(name)
    return table if index < 0 else table.set_column(index, name, table.column(name).cast(pa.string()))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))
