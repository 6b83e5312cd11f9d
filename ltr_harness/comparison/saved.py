"""A comparison kept in one file: every model's per-query values, to be set beside later ones without their runs.

``comparison.parquet`` stands beside ``report.json``. It is an ordinary tidy table, one row per model, replicate and
query, that any tool can read; what a table cannot say (directions, digests of the labels, which metric decides)
is in its metadata.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import BaseModel, Field

from ltr_harness.comparison.result import Entrant
from ltr_harness.errors import DataError, Problem
from ltr_harness.runs.record import MetricName
from ltr_harness.stored import validated

if TYPE_CHECKING:
    import pyarrow as pa

    from ltr_harness.comparison.comparison import Comparison

FILE = "comparison.parquet"

_KEY = b"ltr_harness.comparison"
_VERSION = 1
_INDEX = ("model", "replicate", "query_id")


class _Versioned(BaseModel):
    version: Any = None


class _SavedEntrant(BaseModel):
    name: str
    n_queries: Annotated[int, Field(ge=1)]
    replicates: Annotated[list[str], Field(min_length=1)]
    deterministic: bool
    seeded: bool | None = None  # comparisons of before this was kept
    judgments_fingerprint: dict[str, str]
    attributes: list[tuple[str, str]]  # name, column
    source: str


class _About(BaseModel):
    """The file's metadata; more may stand there."""

    primary: MetricName
    baseline: str
    entrants: Annotated[list[_SavedEntrant], Field(min_length=1)]
    metrics: Annotated[list[tuple[MetricName, bool]], Field(min_length=1)]  # name, higher is better

    def refuse_other(self, schema: pa.Schema, rows: int) -> None:
        """Raises ValueError where the table is not what the metadata says."""
        names = [one.name for one in self.entrants]
        metrics = [name for name, _ in self.metrics]
        if len({*names}) < len(names) or self.baseline not in names:
            raise ValueError(f"its models are {', '.join(names)}, the baseline is {self.baseline}")
        if len({*metrics}) < len(metrics) or self.primary not in metrics:
            raise ValueError(f"its metrics are {', '.join(metrics)}, and {self.primary} decides")
        if rows != sum(len(one.replicates) * one.n_queries for one in self.entrants):
            raise ValueError(f"its {rows:,} rows are not those of its models' queries")
        attributes = {column for one in self.entrants for _, column in one.attributes}
        if lacking := {"query_id", *metrics, *attributes} - {*schema.names}:
            raise ValueError(f"it has no column {min(lacking)}")
        for name in metrics:
            if not _is_number(schema.field(name).type):
                raise ValueError(f"the column {name} holds {schema.field(name).type}, not numbers")


@dataclass(frozen=True, eq=False)
class Saved:
    """What a saved comparison brings into another one.

    Attributes:
        entrants: its models.
        primary: the metric that decided.
        baseline: the model the others were compared with.
    """

    entrants: tuple[Entrant, ...]
    primary: str
    baseline: str


def to_parquet(comparison: Comparison) -> bytes:
    """The file's content; the same comparison gives the same bytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    taken = {*_INDEX, *comparison.metrics}
    table = _joined([_table(entrant, comparison.metrics, taken) for entrant in comparison.entrants])
    about = {
        "version": _VERSION,
        "primary": comparison.primary,
        "baseline": comparison.baseline,
        "entrants": [
            {
                "name": entrant.name,
                "n_queries": len(entrant.query_ids),
                "replicates": list(entrant.replicates),
                "deterministic": entrant.deterministic,
                "seeded": entrant.seeded,
                "judgments_fingerprint": dict(entrant.judgments_fingerprint),
                "attributes": [[name, _column(name, taken)] for name in entrant.query_attributes],
                "source": entrant.source,
            }
            for entrant in comparison.entrants
        ],
        "metrics": [[metric, comparison.higher_is_better[metric]] for metric in comparison.metrics],
    }
    table = table.replace_schema_metadata({_KEY: json.dumps(about, sort_keys=True).encode()})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    return bytes(sink.getvalue())


def saved_at(path: Path) -> Path | None:
    """The file of the saved comparison that a path means: the file, its folder, or the JSON beside it.

    Raises:
        DataError: a JSON file without per-query values beside it: means alone cannot be compared.
    """
    if path.is_dir():
        return path / FILE if (path / FILE).is_file() else None
    if path.suffix == ".json":
        if (path.parent / FILE).is_file():
            return path.parent / FILE
        raise DataError(
            Problem(
                str(path),
                f"there is no {FILE} beside it",
                f"{FILE}, which holds the per-query values that a comparison is made of",
                "compare with -o DIR, or report, writes both",
            )
        )
    return path if path.suffix == ".parquet" and path.is_file() and _metadata(path) is not None else None


def read_saved(path: Path) -> Saved:
    """What `to_parquet` wrote.

    Raises:
        DataError: it is damaged, or written by a version that this one does not know.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        stored = _metadata(path)
        if stored is None or validated(_Versioned, stored).version != _VERSION:
            raise DataError(Problem(str(path), "is not a comparison that this version can read", FILE))
        about = validated(_About, stored)
        file = pq.ParquetFile(path.absolute())
        about.refuse_other(file.schema_arrow, file.metadata.num_rows)
        table = file.read()
        directions = dict(about.metrics)
        entrants, start = [], 0
        for one in about.entrants:
            rows = len(one.replicates) * one.n_queries
            entrants.append(_entrant(table.slice(start, rows), one, directions))
            start += rows
        return Saved(tuple(entrants), about.primary, about.baseline)
    except DataError:
        raise
    except (ValueError, OSError, pa.ArrowException) as problem:
        reason = (str(problem).strip() or type(problem).__name__).splitlines()[0]
        raise DataError(
            Problem(
                str(path), f"cannot be read as a saved comparison: {reason}", "the file as it was written"
            )
        ) from None


def _metadata(path: Path) -> bytes | None:
    """What the file says of itself; None where it is some other table or none at all."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return dict(pq.read_schema(path.absolute()).metadata or {}).get(_KEY)
    except (ValueError, OSError, pa.ArrowException):
        return None


def _column(name: str, taken: set[str]) -> str:
    """An attribute's column, under another name where a metric or the index has its own."""
    return f"query.{name}" if name in taken else name


def _table(entrant: Entrant, metrics: Sequence[str], taken: set[str]) -> pa.Table:
    import pyarrow as pa

    n, times = len(entrant.query_ids), len(entrant.replicates)

    def repeated(values: pa.Array) -> pa.ChunkedArray:
        return pa.chunked_array([values] * times)

    columns = {
        "model": pa.array([entrant.name] * (n * times)),
        "replicate": pa.array(np.repeat(np.array(entrant.replicates), n)),
        "query_id": repeated(pa.array(entrant.query_ids)),
    }
    for metric in metrics:
        columns[metric] = pa.array(entrant.values[metric].reshape(-1))
    for name, values in entrant.query_attributes.items():
        columns[_column(name, taken)] = repeated(_array(values))
    return pa.table(columns)


def _array(values: Any) -> pa.Array:
    import pyarrow as pa

    try:
        return pa.array(values)
    except pa.ArrowException:  # a column of several types: its words are what slices are cut by
        return pa.array([None if value is None else str(value) for value in values.tolist()])


def _joined(tables: Sequence[pa.Table]) -> pa.Table:
    """One table; a fact that is a number for one model and a word for another is a word for both."""
    import pyarrow as pa

    types: dict[str, set[bool]] = {}
    for table in tables:
        for field in table.schema:
            types.setdefault(field.name, set()).add(_is_number(field.type))
    mixed = {name for name, kinds in types.items() if len(kinds) > 1}
    for name in mixed:
        tables = [
            table.set_column(at, name, table.column(name).cast(pa.string()))
            if (at := table.schema.get_field_index(name)) >= 0
            else table
            for table in tables
        ]
    return pa.concat_tables(tables, promote_options="permissive").combine_chunks()


def _is_number(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _entrant(rows: pa.Table, about: _SavedEntrant, directions: dict[str, bool]) -> Entrant:
    n, times = about.n_queries, len(about.replicates)

    def first(name: str) -> Any:
        return rows.column(name).slice(0, n).to_numpy()

    return Entrant(
        name=about.name,
        query_ids=first("query_id").astype(str),
        values={metric: rows.column(metric).to_numpy().reshape(times, n) for metric in directions},
        replicates=tuple(about.replicates),
        higher_is_better=directions,
        deterministic=about.deterministic,
        # what is of an experiment was trained
        seeded=bool(about.source) and not about.deterministic if about.seeded is None else about.seeded,
        judgments_fingerprint=about.judgments_fingerprint,
        query_attributes={name: first(column) for name, column in about.attributes},
        source=about.source,
    )
