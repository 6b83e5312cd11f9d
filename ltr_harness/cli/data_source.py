"""What `ltr-harness data …` works on: an experiment's splits, or files named on the command line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from ltr_harness.dataset import RankingDataset
from ltr_harness.readers.reader import Reader

F = TypeVar("F", bound=Callable[..., Any])

reader_option = click.option(
    "--reader", "reader_name", help="How to read files; guessed from their names unless given."
)
reader_options = click.option(
    "--option",
    "reader_options",
    multiple=True,
    metavar="NAME=VALUE",
    help="An option of the reader, such as n_features=136 or label=grade; may be given several times.",
)


def is_experiment(paths: Sequence[Path]) -> bool:
    return len(paths) == 1 and paths[0].suffix in (".yaml", ".yml")


def guessed_reader(path: Path) -> str:
    """The reader's name for a file, by its name and by what stands beside it."""
    name = path.name.lower().removesuffix(".gz").removesuffix(".zst")
    if path.is_dir() or name.endswith((".parquet", ".arrow", ".feather")):
        return "parquet"
    if name.endswith((".csv", ".tsv", ".tab")):
        return "csv"
    if any(path.with_name(path.name + suffix).is_file() for suffix in (".query", ".group")):
        return "lightgbm"
    return "letor"


def made_reader(name: str, options: Sequence[str], also: dict[str, Any] | None = None) -> Reader:
    """A reader with options as they are written in an experiment file.

    Raises:
        DataError: no such reader, or a wrong option.
    """
    from pydantic import ValidationError

    from ltr_harness import readers
    from ltr_harness.catalog import did_you_mean
    from ltr_harness.config.yaml_tree import parse_yaml
    from ltr_harness.errors import DataError, Problem

    kind = readers.catalog.load(name, DataError)
    values: dict[str, Any] = dict(also or {})
    for option in options:
        key, sign, text = option.partition("=")
        if not sign:
            raise DataError(Problem("--option", f"{option!r}", "NAME=VALUE, such as n_features=136"))
        values[key] = parse_yaml(f"value: {text}", "--option", Path()).plain()["value"]
    unknown = [key for key in values if key not in kind.model_fields]
    if unknown:
        raise DataError(
            [
                Problem(
                    "--option", f"{name} has no option {key!r}", cure=did_you_mean(key, kind.model_fields)
                )
                for key in unknown
            ]
        )
    try:
        reader: Reader = kind.model_validate(values)
    except ValidationError as problem:
        raise DataError(
            [
                Problem("--option", f"{'.'.join(map(str, wrong['loc']))}: {wrong['msg']}")
                for wrong in problem.errors()
            ]
        ) from None
    return reader


def read_files(
    paths: Sequence[Path], reader_name: str | None, options: Sequence[str], also: dict[str, Any] | None = None
) -> RankingDataset:
    """Files as one dataset, through the cache.

    Raises:
        DataError: as the reader says.
    """
    from ltr_harness.cache import DataCache

    reader = made_reader(reader_name or guessed_reader(paths[0]), options, also)
    return DataCache().read(reader, [str(path) for path in paths], Path()).dataset


def read_splits(
    paths: Sequence[Path], reader_name: str | None, options: Sequence[str]
) -> dict[str, RankingDataset]:
    """Each file as a split of its own, by ``name=file`` or by the file's name.

    Raises:
        DataError: every problem of every file.
    """
    from ltr_harness.errors import DataError, Problem

    splits: dict[str, RankingDataset] = {}
    problems: list[Problem] = []
    for path in paths:
        name, sign, file = str(path).partition("=")
        given = Path(file) if sign and not path.exists() else path
        label = name if given is not path else path.name
        try:
            splits[label if label not in splits else str(path)] = read_files([given], reader_name, options)
        except DataError as problem:
            problems += problem.problems
    if problems:
        raise DataError(problems)
    return splits
