"""What `ltr-harness data …` works on: an experiment's splits, or files named on the command line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from ltr_harness.compression import bare_name
from ltr_harness.dataset import RankingDataset
from ltr_harness.readers.reader import Reader

F = TypeVar("F", bound=Callable[..., Any])

reader_option = click.option(
    "--reader", "reader_name", help="How to read files; guessed from their names unless given."
)
reader_options = click.option(
    "--set",
    "reader_options",
    multiple=True,
    metavar="KEY=VALUE",
    help="An option of the reader, such as n_features=136, label=grade or regroup=true; may be given several times.",
)

rows_of_run = click.option(
    "--data",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Labelled rows.  [default: the run's test split]",
)


def is_experiment(paths: Sequence[Path]) -> bool:
    return len(paths) == 1 and paths[0].suffix in (".yaml", ".yml")


def guessed_reader(path: Path) -> str:
    """The reader's name for a file, by its name and by what stands beside it."""
    name = bare_name(path.name.lower())
    if path.is_dir() or name.endswith((".parquet", ".pq", ".arrow", ".feather")):
        return "parquet"
    if name.endswith((".csv", ".tsv", ".tab")):
        return "csv"
    if any(path.with_name(path.name + suffix).is_file() for suffix in (".query", ".group")):
        return "lightgbm"
    return "letor"


def made_reader(name: str, options: Sequence[str] = ()) -> Reader:
    """A reader with options as they are written in an experiment file.

    Raises:
        UsageError: no such reader, or wrong options.
    """
    import json

    from pydantic import ValidationError

    from ltr_harness import readers
    from ltr_harness.config.explain import explained
    from ltr_harness.config.yaml_text import parse_yaml
    from ltr_harness.config.yaml_tree import Node, Place
    from ltr_harness.errors import UsageError

    kind = readers.catalog.load(name, UsageError)
    node = Node({}, Place(f"--reader {name}", 0, 0, Path.cwd()))
    for option in options:
        key, equals, text = option.partition("=")
        said = f"--set {option}"
        if not equals or not key.strip() or not text.strip():
            raise UsageError(f"{said}: not KEY=VALUE; expected an option of the reader, such as label=grade")
        value = parse_yaml(text, said, Path.cwd(), lines=False)
        node = Node(
            {**node.mapping, key.strip(): value}, node.place, {**node.key_places, key.strip(): value.place}
        )
    try:
        reader: Reader = kind.model_validate_json(json.dumps(node.plain()), strict=True)
    except ValidationError as error:
        raise UsageError([problem for _, problem in explained(error, kind, node, ("data",))]) from None
    return reader


def read_files(paths: Sequence[Path], reader_name: str | None, options: Sequence[str] = ()) -> RankingDataset:
    """Files as one dataset, through the cache.

    Raises:
        DataError: as the reader says.
    """
    from ltr_harness.cache import DataCache

    reader = made_reader(reader_name or guessed_reader(paths[0]), options)
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
