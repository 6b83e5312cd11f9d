"""`ltr-harness data split`: which query goes where, and the rows of tables copied as they stand."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltr_harness._util.catalog import did_you_mean
from ltr_harness._util.files import bare_name, opened_for_writing, suffix_of, whole_files
from ltr_harness._util.text import count_of
from ltr_harness.cli import data_source
from ltr_harness.cli.output import counts, echo, echo_cautions
from ltr_harness.data import writers
from ltr_harness.data.cache import DataCache
from ltr_harness.data.dataset import RankingDataset, values_by_query
from ltr_harness.data.readers.csv import Csv, Delimited
from ltr_harness.data.readers.parquet import Parquet
from ltr_harness.data.readers.reader import Reader
from ltr_harness.data.readers.table_columns import OpenedTable, Roles, TableColumns, joined
from ltr_harness.data.readers.table_reader import TableReader
from ltr_harness.data.splits import divided, divided_by_time, folds
from ltr_harness.errors import Caution, DataError, UsageError

QueryNumbers = NDArray[np.int64]  # numbers of queries, sorted


@dataclass(frozen=True, kw_only=True)
class Division:
    """The options of `data split` that decide which query goes where."""

    valid: float | None
    test: float | None
    folds: int | None
    by_time: str | None
    together: str | None
    stratify: str | None
    seed: int

    @property
    def shares(self) -> dict[str, float]:
        """The share of the queries for each part besides training."""
        shares = {"valid": self.valid, "test": self.test}
        return {part: share for part, share in shares.items() if share is not None}

    @property
    def columns(self) -> list[str]:
        """The columns that queries are divided by: none, or one."""
        return [column for column in (self.by_time, self.together, self.stratify) if column is not None]

    def refuse_contradictions(self) -> None:
        """Raise a UsageError if options exclude each other, or if there are none."""
        if len(self.columns) > 1:
            raise UsageError("--by-time, --together and --stratify exclude each other; expected at most one")
        if self.folds is None and not self.shares:
            raise UsageError("no split given; expected --test 0.2, with or without --valid, or --folds 5")
        if self.folds is not None and self.by_time is not None:
            raise UsageError("--folds with --by-time: every fold would train on queries later than its test")
        if self.folds is not None and self.shares:
            raise UsageError("--folds with --valid or --test; expected one of them")

    def divide(self, dataset: RankingDataset) -> dict[str, dict[str, QueryNumbers]]:
        """Return the queries of each part, by folder."""
        groups = dataset.groups
        if self.by_time is not None:
            times = _query_values(dataset, self.by_time)
            return {"": divided_by_time(groups, self.shares, times, self.by_time, dataset.source)}
        values_together = None if self.together is None else _query_values(dataset, self.together)
        strata = None if self.stratify is None else _query_values(dataset, self.stratify)
        if self.folds is None:
            return {"": divided(groups, self.shares, self.seed, unit_values=values_together, strata=strata)}
        parts = {}
        divisions = folds(groups, self.folds, self.seed, unit_values=values_together, strata=strata)
        for number, (train, valid, test) in enumerate(divisions, start=1):
            parts[f"fold{number}"] = {"train": train, "valid": valid, "test": test}
        return parts


def _query_values(dataset: RankingDataset, column: str) -> NDArray[Any]:
    values = values_by_query(dataset, column)
    if values is None:
        near = did_you_mean(column, dataset.query_attributes)
        raise DataError(f"{column!r} is not an attribute; {near}")
    return values


def split_files(
    files: Sequence[Path],
    reader_name: str | None,
    reader_options: Sequence[str],
    division: Division,
    output: Path,
    suffix: str | None,
) -> None:
    """Write the parts of files, with the size of each on stdout, and splits.tsv beside them."""
    name = reader_name or data_source.guessed_reader(files[0])
    reader = data_source.with_columns(data_source.made_reader(name, reader_options), files[0])
    for column in division.columns:
        reader, reader_options = _with_attribute(reader, name, reader_options, column)
    dataset = DataCache().read(reader, list(map(str, files)), Path()).dataset
    form = None
    if suffix is None:  # .txt.gz of rows.v2.txt.gz
        form = name if name == "lightgbm" else None
        suffix = Path(bare_name(files[0].name)).suffix + suffix_of(files[0].name)
    tables = copyable_tables(reader, files, suffix)
    for folder, parts in division.divide(dataset).items():
        paths = {part: output / folder / f"{part}{suffix}" for part in parts}
        if tables and isinstance(reader, TableReader):
            copy_rows(reader, tables, dataset, parts, paths)
            cautions = [writers.reader_options(reader_options)] if reader_options else []
        else:
            cautions = _write_parts(dataset, parts, paths, form)
        _print_sizes(dataset, parts, paths)
        echo_cautions(cautions)
        _write_assignment(dataset, parts, output / folder / "splits.tsv")


def _with_attribute(
    reader: Reader, name: str, reader_options: Sequence[str], column: str
) -> tuple[Reader, Sequence[str]]:
    """Return the reader and its options with a column among the attributes, unless the options name these."""
    if not isinstance(reader, TableReader) or name not in ("csv", "parquet"):
        raise UsageError(f"column {column!r}: {name} files have no columns; expected csv or parquet")
    names_attributes = any(option.startswith("attributes=") for option in reader_options)
    if names_attributes or column in (*reader.query_columns, *reader.attributes):
        return reader, reader_options
    with_column = reader.model_copy(update={"attributes": (column,)})
    return with_column, (*reader_options, f"attributes=[{column}]")


def _write_parts(
    dataset: RankingDataset, parts: Mapping[str, QueryNumbers], paths: Mapping[str, Path], form: str | None
) -> list[Caution]:
    """Write each part in the form of its file's name, or in the one given, and return the cautions, each once."""
    cautions: list[Caution] = []
    for part, queries in parts.items():
        cautions += writers.write_dataset(dataset.take(queries), paths[part], form)
    return list(dict.fromkeys(cautions))


def _print_sizes(
    dataset: RankingDataset, parts: Mapping[str, QueryNumbers], paths: Mapping[str, Path]
) -> None:
    for part, queries in parts.items():
        size = counts(query=len(queries), row=int(dataset.groups.sizes[queries].sum()))
        missed = dataset.judgments.take(queries).missed
        if missed is not None:
            size += f", {count_of(missed.labels.size, 'missed document')}"
        echo(f"wrote {paths[part]}: {size}")


def _write_assignment(dataset: RankingDataset, parts: Mapping[str, QueryNumbers], path: Path) -> None:
    """Write the part of each query, in the order of the data."""
    part_of_query = {query: part for part, queries in parts.items() for query in queries.tolist()}
    lines = [f"{dataset.groups.name(query)}\t{part_of_query[query]}\n" for query in sorted(part_of_query)]
    with whole_files(path) as temporary:
        temporary(path).write_text("query_id\tpart\n" + "".join(lines), encoding="utf-8")


def copyable_tables(reader: Reader, files: Sequence[Path], suffix: str) -> list[OpenedTable]:
    """Return the opened files if their rows can be copied into files of this suffix, else none."""
    if not isinstance(reader, Csv | Parquet):
        return []
    tables = reader.tables(list(map(str, files)), Path())
    bare_suffix = Path(bare_name(f"part{suffix}")).suffix
    if isinstance(reader, Parquet):
        return tables if bare_suffix in (".parquet", ".pq", ".arrow", ".feather") else []
    if bare_suffix not in (".csv", ".tsv", ".tab"):
        return []
    usual_separator = "," if bare_suffix == ".csv" else "\t"
    separator = reader.separator or usual_separator
    for table in tables:
        if not isinstance(table, Delimited) or table.separator != separator:
            return []
    return tables


def copy_rows(
    reader: TableReader,
    tables: Sequence[OpenedTable],
    dataset: RankingDataset,
    parts: Mapping[str, QueryNumbers],
    paths: Mapping[str, Path],
) -> None:
    """Write the rows of each part's queries as they stand, in the order of the files; all parts appear, or none."""
    for table in tables[1:]:
        if table.columns != tables[0].columns:
            expected = ", ".join(tables[0].columns)
            raise DataError.at(table.path, "has other columns than the first file", expected)
    part_of_row = _parts_of_rows(reader, tables, dataset, parts)
    with ExitStack() as stack:
        targets = [stack.enter_context(whole_files(paths[part]))(paths[part]) for part in parts]
        texts = [table for table in tables if isinstance(table, Delimited)]
        if texts:
            _copy_text(texts, part_of_row, targets)
        else:
            _copy_arrow(tables, part_of_row, targets)


def _parts_of_rows(
    reader: TableReader,
    tables: Sequence[OpenedTable],
    dataset: RankingDataset,
    parts: Mapping[str, QueryNumbers],
) -> NDArray[np.int64]:
    """Return the number of the part that each row of the tables belongs to."""
    part_of_query = np.full(dataset.n_queries, -1)
    for number, queries in enumerate(parts.values()):
        part_of_query[queries] = number
    if dataset.judgments.missed is None:
        part_of_row = np.repeat(part_of_query, dataset.groups.sizes)
        return part_of_row if dataset.file_order is None else part_of_row[dataset.file_order]
    # rows of missed documents are none of the dataset's
    part_of_id = dict(zip(dataset.groups.ids.tolist(), part_of_query.tolist(), strict=True))
    roles = Roles(query=reader.query_columns)
    rows = joined([TableColumns(table, roles, reader) for table in tables])
    part_of_block = np.array([part_of_id[query] for query in rows.block_ids.tolist()])
    return np.repeat(part_of_block, np.diff(np.append(rows.block_starts, rows.file_starts[-1])))


def _copy_arrow(
    tables: Sequence[OpenedTable], part_of_row: NDArray[np.int64], targets: Sequence[Path]
) -> None:
    import pyarrow as pa
    from pyarrow import feather, parquet

    contents = [table.read([], table.columns).table for table in tables]
    rows = pa.concat_tables(contents, promote_options="permissive")
    for part, target in enumerate(targets):
        of_part = rows.filter(pa.array(part_of_row == part))
        if target.suffix in (".arrow", ".feather"):
            feather.write_feather(of_part, target, compression="uncompressed")
        else:
            parquet.write_table(of_part, target, compression="zstd")


def _copy_text(tables: Sequence[Delimited], part_of_row: NDArray[np.int64], targets: Sequence[Path]) -> None:
    """Copy records as text, under the header of the first table."""
    with ExitStack() as stack:
        streams = [stack.enter_context(opened_for_writing(target, target.name)) for target in targets]
        remaining_parts: Iterator[int] = iter(part_of_row.tolist())
        for table in tables:
            records = table.records_as_they_stand()
            for header in islice(records, 1):
                if table is tables[0]:
                    for stream in streams:
                        stream.write(header)
            for record in records:
                part = next(remaining_parts, None)
                if part is None:
                    raise _other_number_of_records(table.path)
                streams[part].write(record)
        if next(remaining_parts, None) is not None:
            raise _other_number_of_records(tables[-1].path)


def _other_number_of_records(path: Path) -> DataError:
    cure = "write the parts in another format, as with --format .parquet"
    return DataError.at(path, "its rows cannot be separated as text", cure=cure)
