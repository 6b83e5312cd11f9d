"""`ltr-harness data split`: parts that never share a query."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ltr_harness.cli.data_source import guessed_reader, made_reader, read_files, reader_option, reader_options
from ltr_harness.cli.output import say
from ltr_harness.compression import bare_name, suffix_of
from ltr_harness.wording import count_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ltr_harness.dataset import RankingDataset

    Parts = dict[str, NDArray[np.int64]]


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
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@reader_option
@reader_options
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder to write to.",
)
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
def split_command(
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
    from ltr_harness.cli.copied_rows import copy_rows, tables_of
    from ltr_harness.errors import UsageError

    column = by_time or together or stratify
    if sum(option is not None for option in (by_time, together, stratify)) > 1:
        raise UsageError("--by-time, --together and --stratify exclude each other; expected at most one")
    if folds is not None and by_time is not None:
        raise UsageError("--folds with --by-time: every fold would train on queries later than its test")
    shares = {name: share for name, share in (("valid", valid), ("test", test)) if share is not None}
    if folds is None and not shares:
        raise UsageError("no split given; expected --test 0.2, with or without --valid, or --folds 5")
    if folds is not None and shares:
        raise UsageError("--folds with --valid or --test; expected one of them")
    name = reader_name or guessed_reader(files[0])
    options = _with_attribute(reader_options, name, column)
    dataset = read_files(files, name, options)
    form = name if name == "lightgbm" and suffix is None else None
    suffix = _suffix(files[0]) if suffix is None else suffix
    tables = tables_of(made_reader(name, options), files, suffix)
    for fold, parts in _divided(dataset, shares, folds, by_time, together, stratify, seed).items():
        paths = {part: output / fold / f"{part}{suffix}" for part in parts}
        if tables:
            copy_rows(tables, dataset, parts, paths)
            notes = [f"read it with the options {' '.join(options)}"] if options else []
        else:
            notes = _write(dataset, parts, paths, form)
        _say_parts(dataset, parts, paths, notes)
    return 0


def _suffix(path: Path) -> str:
    """``.txt.gz`` of ``rows.v2.txt.gz``."""
    return Path(bare_name(path.name)).suffix + suffix_of(path.name)


def _with_attribute(options: tuple[str, ...], reader: str, column: str | None) -> tuple[str, ...]:
    """The column by which to divide is read as an attribute, unless the options say so already."""
    from ltr_harness.errors import UsageError

    if column is None:
        return options
    if reader not in ("csv", "parquet"):
        raise UsageError(f"column {column!r}: {reader} files have no columns; expected csv or parquet")
    given = [option for option in options if option.startswith("attributes=")]
    return options if given else (*options, f"attributes=[{column}]")


def _divided(
    dataset: RankingDataset,
    shares: dict[str, float],
    n_folds: int | None,
    by_time: str | None,
    together: str | None,
    stratify: str | None,
    seed: int,
) -> dict[str, Parts]:
    """Folder to part to queries."""
    from ltr_harness.catalog import did_you_mean
    from ltr_harness.errors import DataError
    from ltr_harness.splits import divided, divided_by_time, folds

    groups, columns = dataset.groups, dataset.query_attributes
    for column in (by_time, together, stratify):
        if column is not None and column not in columns:
            raise DataError(f"{column!r} is not an attribute; {did_you_mean(column, columns)}")
    if by_time is not None:
        return {"": divided_by_time(groups, shares, columns[by_time])}
    units = None if together is None else columns[together]
    strata = None if stratify is None else columns[stratify]
    if n_folds is None:
        return {"": divided(groups, shares, seed, together=units, strata=strata)}
    sides = ("train", "valid", "test")
    return {
        f"fold{i + 1}": dict(zip(sides, queries, strict=True))
        for i, queries in enumerate(folds(groups, n_folds, seed, together=units, strata=strata))
    }


def _write(dataset: RankingDataset, parts: Parts, paths: dict[str, Path], form: str | None) -> list[str]:
    """Write the parts; notes on what their format cannot hold."""
    from ltr_harness.writers import write_dataset

    said: dict[str, None] = {}
    for part, queries in parts.items():
        said |= dict.fromkeys(write_dataset(dataset.take(queries), paths[part], form))
    return list(said)


def _say_parts(dataset: RankingDataset, parts: Parts, paths: dict[str, Path], notes: list[str]) -> None:
    """What was written, and beside it which query went where."""
    from ltr_harness.files import whole_files

    part_of: dict[int, str] = {}
    for part, queries in parts.items():
        n_rows = int(dataset.groups.sizes[queries].sum())
        part_of |= dict.fromkeys(queries.tolist(), part)
        say(f"wrote {paths[part]}: {count_of(len(queries), 'query')}, {count_of(n_rows, 'row')}")
    for note in notes:
        say(f"note: {note}", err=True)
    assignment = next(iter(paths.values())).with_name("splits.tsv")
    with whole_files(assignment) as temporary:
        lines = (f"{dataset.groups.name(query)}\t{part_of[query]}\n" for query in sorted(part_of))
        temporary(assignment).write_text("query_id\tpart\n" + "".join(lines), encoding="utf-8")
