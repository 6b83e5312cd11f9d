"""`ltr-harness data split`: parts that never share a query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from ltr_harness.catalog import did_you_mean
from ltr_harness.cli import data_source, options
from ltr_harness.cli.output import counts, say, say_notes
from ltr_harness.errors import DataError, UsageError
from ltr_harness.files import bare_name, opened_for_writing, suffix_of, whole_files

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ltr_harness.dataset import RankingDataset
    from ltr_harness.readers.csv import Delimited
    from ltr_harness.readers.reader import Reader
    from ltr_harness.readers.table_part import OpenedTable

    Parts = Mapping[str, NDArray[np.int64]]


@click.command(
    "split",
    epilog="""\b
Examples:
  ltr-harness data split all.txt -o parts/ --valid 0.1 --test 0.2
  ltr-harness data split all.txt -o folds/ --folds 5 --seed 3
  ltr-harness data split log.parquet -o parts/ --test 0.2 --by-time day
  ltr-harness data split log.parquet -o parts/ --test 0.2 --together user
  ltr-harness data split log.parquet -o folds/ --folds 5 --stratify language
""",
)
@options.files
@options.reader
@options.output("Folder to write to.", required=True)
@click.option("--valid", type=float, help="Share of the queries for validation.")
@click.option("--test", type=float, help="Share of the queries for testing.")
@click.option("--folds", type=int, help="Make folds instead: each query is tested once.")
@click.option("--by-time", metavar="COLUMN", help="Oldest queries train, newest test.")
@click.option("--together", metavar="COLUMN", help="Queries of one user or session stay in one part.")
@click.option("--stratify", metavar="COLUMN", help="Each value gets its share of every part.")
@click.option("--seed", default=1, show_default=True, help="Decides which queries go where.")
@click.option(
    "--format", "suffix", help="Suffix of the files, such as .parquet; default: that of the first of FILES."
)
def command(
    files: tuple[Path, ...],
    reader_name: str | None,
    reader_options: tuple[str, ...],
    output: Path,
    valid: float | None,
    test: float | None,
    folds: int | None,
    by_time: str | None,
    together: str | None,
    stratify: str | None,
    seed: int,
    suffix: str | None,
) -> int:
    """Divide FILES by query and write the parts, and splits.tsv: which query went where.

    Columns named here describe the query and must be the same in all its rows.
    """
    by = {"time": by_time, "together": together, "strata": stratify}
    given = {what: column for what, column in by.items() if column is not None}
    if len(given) > 1:
        raise UsageError("--by-time, --together and --stratify exclude each other; expected at most one")
    if folds is not None and by_time is not None:
        raise UsageError("--folds with --by-time: every fold would train on queries later than its test")
    shares = {name: share for name, share in (("valid", valid), ("test", test)) if share is not None}
    if folds is None and not shares:
        raise UsageError("no split given; expected --test 0.2, with or without --valid, or --folds 5")
    if folds is not None and shares:
        raise UsageError("--folds with --valid or --test; expected one of them")
    name = reader_name or data_source.guessed_reader(files[0])
    said = reader_options
    for column in given.values():
        if name not in ("csv", "parquet"):
            raise UsageError(f"column {column!r}: {name} files have no columns; expected csv or parquet")
        if not any(option.startswith("attributes=") for option in said):
            said = (*said, f"attributes=[{column}]")
    dataset = data_source.read_files(files, name, said)
    form = name if name == "lightgbm" and suffix is None else None
    if suffix is None:  # .txt.gz of rows.v2.txt.gz
        suffix = Path(bare_name(files[0].name)).suffix + suffix_of(files[0].name)
    tables = tables_of(data_source.made_reader(name, said), files, suffix)
    for fold, parts in _divided(dataset, shares, folds, given, seed).items():
        paths = {part: output / fold / f"{part}{suffix}" for part in parts}
        if tables:
            copy_rows(tables, dataset, parts, paths)
            notes = [f"read it with the options {' '.join(said)}"] if said else []
        else:
            notes = _write(dataset, parts, paths, form)
        _say_parts(dataset, parts, paths, notes)
    return 0


def _divided(
    dataset: RankingDataset, shares: dict[str, float], n_folds: int | None, by: dict[str, str], seed: int
) -> dict[str, Parts]:
    """Folder to part to queries."""
    from ltr_harness.splits import divided, divided_by_time, folds

    groups, columns = dataset.groups, dataset.query_attributes
    for column in by.values():
        if column not in columns:
            raise DataError(f"{column!r} is not an attribute; {did_you_mean(column, columns)}")
    keys = {what: columns[column] for what, column in by.items()}
    if "time" in keys:
        return {"": divided_by_time(groups, shares, keys["time"])}
    if n_folds is None:
        return {"": divided(groups, shares, seed, **keys)}
    return {
        f"fold{i + 1}": dict(zip(("train", "valid", "test"), queries, strict=True))
        for i, queries in enumerate(folds(groups, n_folds, seed, **keys))
    }


def _write(dataset: RankingDataset, parts: Parts, paths: Mapping[str, Path], form: str | None) -> list[str]:
    """Write the parts; notes on what their format cannot hold."""
    from ltr_harness.writers import write_dataset

    said: dict[str, None] = {}
    for part, queries in parts.items():
        said |= dict.fromkeys(write_dataset(dataset.take(queries), paths[part], form))
    return list(said)


def _say_parts(dataset: RankingDataset, parts: Parts, paths: Mapping[str, Path], notes: list[str]) -> None:
    """What was written, and beside it which query went where."""
    part_of: dict[int, str] = {}
    for part, queries in parts.items():
        n_rows = int(dataset.groups.sizes[queries].sum())
        part_of |= dict.fromkeys(queries.tolist(), part)
        say(f"wrote {paths[part]}: {counts(query=len(queries), row=n_rows)}")
    say_notes(notes)
    assignment = next(iter(paths.values())).with_name("splits.tsv")
    with whole_files(assignment) as temporary:
        lines = (f"{dataset.groups.name(query)}\t{part_of[query]}\n" for query in sorted(part_of))
        temporary(assignment).write_text("query_id\tpart\n" + "".join(lines), encoding="utf-8")


def tables_of(reader: Reader, files: Sequence[Path], suffix: str) -> list[OpenedTable]:
    """The files, opened, if they are tables whose rows can be copied into files of this suffix; else none."""
    from ltr_harness.readers.csv import Csv, Delimited
    from ltr_harness.readers.parquet import Parquet

    if not isinstance(reader, Csv | Parquet):
        return []
    tables: list[OpenedTable] = [reader.opened(path) for path in reader.paths(list(map(str, files)), Path())]
    plain = Path(bare_name(f"part{suffix}")).suffix
    if isinstance(reader, Parquet):
        return tables if plain in (".parquet", ".pq", ".arrow", ".feather") else []
    separator = reader.separator or ("\t" if plain in (".tsv", ".tab") else ",")
    same = all(isinstance(table, Delimited) and table.separator == separator for table in tables)
    return tables if plain in (".csv", ".tsv", ".tab") and same else []


def copy_rows(
    tables: Sequence[OpenedTable], dataset: RankingDataset, parts: Parts, paths: Mapping[str, Path]
) -> None:
    """Write the rows of each part's queries as they stand, in the order of the files; all parts appear whole, or none.

    Raises DataError: the files differ in their columns.
    """
    import numpy as np

    from ltr_harness.readers.csv import Delimited

    for table in tables[1:]:
        if table.columns != tables[0].columns:
            expected = ", ".join(tables[0].columns)
            raise DataError.at(table.path, "has other columns than the first file", expected)
    number = np.full(dataset.n_queries, -1)
    for i, queries in enumerate(parts.values()):
        number[queries] = i
    of_row = np.repeat(number, dataset.groups.sizes)
    if dataset.file_order is not None:
        of_row = of_row[dataset.file_order]
    with ExitStack() as stack:
        targets = [stack.enter_context(whole_files(paths[part]))(paths[part]) for part in parts]
        if texts := [table for table in tables if isinstance(table, Delimited)]:
            _copy_text(texts, of_row, targets)
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
    return DataError.at(path, "its rows cannot be told apart as text", cure=cure)


def _copy_columns(tables: Sequence[OpenedTable], of_row: NDArray[np.int64], targets: Sequence[Path]) -> None:
    import pyarrow as pa
    from pyarrow import feather, parquet

    whole = pa.concat_tables(
        [table.read([], table.columns).table for table in tables], promote_options="permissive"
    )
    for part, target in enumerate(targets):
        rows = whole.filter(pa.array(of_row == part))
        if target.suffix in (".arrow", ".feather"):
            feather.write_feather(rows, target, compression="uncompressed")
        else:
            parquet.write_table(rows, target, compression="zstd")
