"""``comparison.parquet``, which keeps a comparison's per-query values for any tool."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field

from ltr_harness._util.stored import SCHEMA_VERSION, Form, Versioned, harness_version, refuse_twice, validated
from ltr_harness.comparison.contrasts import Origin, SystemResult
from ltr_harness.errors import DataError
from ltr_harness.experiments.runs import record

if TYPE_CHECKING:
    from ltr_harness.comparison.comparison import Comparison

FILE = "comparison.parquet"

_KEY = b"ltr_harness.comparison"

_INDEX = ("model", "replicate", "query_id")

_KEPT = ("name", "replicates", "deterministic", "seeded", "source")


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
        tables = [_with_texts(table, name) for table in tables]
    return pa.concat_tables(tables, promote_options="permissive").combine_chunks()


def _with_texts(table: pa.Table, name: str) -> pa.Table:
    """Return the table with a column as texts, if it has that column."""
    at = table.schema.get_field_index(name)
    return table if at < 0 else table.set_column(at, name, table.column(name).cast(pa.string()))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))
