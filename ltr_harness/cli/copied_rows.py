"""Rows of tables divided over files as they stand: every column under its name, no value read and written again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ltr_harness.compression import bare_name, opened_for_writing
from ltr_harness.errors import DataError, Problem
from ltr_harness.readers.delimited import Delimited
from ltr_harness.readers.parquet import Parquet

if TYPE_CHECKING:
    from ltr_harness.dataset import RankingDataset
    from ltr_harness.readers.reader import Reader
    from ltr_harness.readers.table_part import OpenedTable

_BINARY = (".parquet", ".pq", ".arrow", ".feather")


def tables_of(reader: Reader, files: Sequence[Path], suffix: str) -> list[OpenedTable]:
    """The files, opened, if they are tables whose rows can be copied into files of this suffix; else none."""
    from ltr_harness.readers.csv import Csv

    if not isinstance(reader, Csv | Parquet):
        return []
    tables: list[OpenedTable] = [reader.opened(path) for path in reader.paths(list(map(str, files)), Path())]
    plain = Path(bare_name(f"part{suffix}")).suffix
    if isinstance(reader, Parquet):
        return tables if plain in _BINARY else []
    separator = reader.separator or ("\t" if plain in (".tsv", ".tab") else ",")
    same = all(isinstance(table, Delimited) and table.separator == separator for table in tables)
    return tables if plain in (".csv", ".tsv", ".tab") and same else []


def copy_rows(
    tables: Sequence[OpenedTable],
    dataset: RankingDataset,
    parts: Mapping[str, NDArray[np.int64]],
    paths: Mapping[str, Path],
) -> None:
    """Write the rows of each part's queries, in the order of the files; all parts appear whole, or none.

    Shapes: `parts` (n_queries of the part,).

    Raises:
        DataError: the files differ in their columns.
    """
    from ltr_harness.files import whole_files

    for table in tables[1:]:
        if table.columns != tables[0].columns:
            raise DataError(
                Problem(
                    str(table.path), "has other columns than the first file", ", ".join(tables[0].columns)
                )
            )
    number = np.full(dataset.n_queries, -1)
    for i, queries in enumerate(parts.values()):
        number[queries] = i
    of_row = np.repeat(number, dataset.groups.sizes)
    if dataset.file_order is not None:
        of_row = of_row[dataset.file_order]
    with ExitStack() as stack:
        targets = [stack.enter_context(whole_files(paths[part]))(paths[part]) for part in parts]
        if isinstance(tables[0], Delimited):
            _copy_text([table for table in tables if isinstance(table, Delimited)], of_row, targets)
        else:
            _copy_columns(tables, of_row, targets)


def _copy_text(tables: Sequence[Delimited], of_row: NDArray[np.int64], targets: Sequence[Path]) -> None:
    with ExitStack() as stack:
        streams: list[IO[bytes] | Any] = [
            stack.enter_context(opened_for_writing(target, target.name)) for target in targets
        ]
        parts = iter(of_row.tolist())
        for table in tables:
            records = table.records_as_they_stand()
            for header in islice(records, 1):
                for stream in streams if table is tables[0] else ():
                    stream.write(header)
            for record in records:
                part = next(parts, None)
                if part is None:
                    raise _unequal(table.path)
                streams[part].write(record)
        if next(parts, None) is not None:
            raise _unequal(tables[-1].path)


def _unequal(path: Path) -> DataError:
    cure = "write the parts in another format, as with --format .parquet"
    return DataError(Problem(str(path), "its rows cannot be told apart as text", cure=cure))


def _copy_columns(tables: Sequence[OpenedTable], of_row: NDArray[np.int64], targets: Sequence[Path]) -> None:
    import pyarrow as pa
    from pyarrow import feather, parquet

    whole = pa.concat_tables(
        [table.read([], table.columns) for table in tables], promote_options="permissive"
    )
    for part, target in enumerate(targets):
        rows = whole.filter(pa.array(of_row == part))
        if target.suffix in (".arrow", ".feather"):
            feather.write_feather(rows, target, compression="uncompressed")
        else:
            parquet.write_table(rows, target, compression="zstd")
