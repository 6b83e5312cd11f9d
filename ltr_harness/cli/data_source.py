"""Data named on the command line: the reader of a file, guessed or given, and its rows."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ltr_harness._util.files import bare_name
from ltr_harness.cli.output import echo_caution
from ltr_harness.errors import Caution, UsageError

if TYPE_CHECKING:
    from ltr_harness.data.dataset import RankingDataset
    from ltr_harness.data.readers.reader import Reader


def guessed_reader(path: Path) -> str:
    """Return the reader's name for a file, by its name and by the files beside it."""
    name = bare_name(path.name.lower())
    if name.endswith((".jsonl", ".ndjson", ".json")):
        found = "JSON is not read as rows with features and labels"
        raise UsageError.at(path, found, cure="write the same table as Parquet or CSV")
    if path.is_dir() or name.endswith((".parquet", ".pq", ".arrow", ".feather")):
        return "parquet"
    if name.endswith((".csv", ".tsv", ".tab")):
        return "csv"
    if any(path.with_name(path.name + suffix).is_file() for suffix in (".query", ".group")):
        return "lightgbm"
    return "letor"


def made_reader(name: str, options: Sequence[str] = ()) -> "Reader":
    """Return a reader with options as they are written in an experiment file."""
    from pydantic import ValidationError

    from ltr_harness.data import readers
    from ltr_harness.experiments.config.problems import explain_errors
    from ltr_harness.experiments.config.yaml_tree import Node, Place, parse_yaml

    kind = readers.catalog.load(name, UsageError)
    values, places = {}, {}
    for option in options:
        key, equals, text = option.partition("=")
        if not equals or not key.strip() or not text.strip():
            expected = "expected a column or another option of the reader, such as label=grade"
            raise UsageError(f"{option}: not KEY=VALUE; {expected}")
        values[key.strip()] = value = parse_yaml(text, option, Path.cwd(), lines=False)
        places[key.strip()] = value.place
    node = Node(values, Place(f"--reader {name}", 0, 0, Path.cwd()), places)
    try:
        reader: Reader = kind.model_validate_json(json.dumps(node.as_python()), strict=True)
    except ValidationError as error:
        raise UsageError(explain_errors(error, kind, node, ("data",))) from None
    return reader


def with_columns(reader: "Reader", path: Path, of_run: Mapping[str, Any] | None = None) -> "Reader":
    """Return a reader of tables with the columns of the run, or with guesses, as `init` makes them."""
    from ltr_harness.data.readers.table_reader import TableReader

    if not isinstance(reader, TableReader) or not path.exists():
        return reader
    columns = reader.tables([str(path)], Path())[0].columns
    roles = ["query"]
    if reader.relevance is None:
        roles.append("label")
    if of_run is not None:
        roles.append("retrieved")
    open_roles = [
        role for role in roles if role not in reader.model_fields_set and getattr(reader, role) not in columns
    ]
    free = [name for name in columns if name not in reader.roles()]
    chosen = _guess_columns(open_roles, free) if of_run is None else _columns_of_run(open_roles, free, of_run)
    if chosen:
        listed = ", ".join(f"{role}: {column}" for role, column in chosen.items())
        text = f"{listed} (--column chooses others)"
        echo_caution(Caution("guessed-columns", "note", text, place=str(path)))
    return reader.model_copy(update=chosen)


def _guess_columns(roles: Sequence[str], free: Sequence[str]) -> dict[str, Any]:
    from ltr_harness.data.readers.column_names import column_for

    guesses = {role: column_for(role, free) for role in roles}
    return {role: column for role, column in guesses.items() if column}


def _columns_of_run(roles: Sequence[str], free: Sequence[str], of_run: Mapping[str, Any]) -> dict[str, Any]:
    """Return the run's columns where the table has them, and else a guess of that of the queries."""
    columns: dict[str, Any] = {}
    for role in roles:
        named = of_run.get(role)
        names = [named] if isinstance(named, str) else named or []
        if names and set(names) <= set(free):
            columns[role] = tuple(named) if isinstance(named, list) else named
        elif role == "query":
            columns |= _guess_columns([role], free)
    return columns


def read_files(
    paths: Sequence[Path], reader_name: str | None, reader_options: Sequence[str] = ()
) -> "RankingDataset":
    """Read files as one dataset, through the cache."""
    from ltr_harness.data.cache import DataCache

    reader = with_columns(made_reader(reader_name or guessed_reader(paths[0]), reader_options), paths[0])
    return DataCache().read(reader, [str(path) for path in paths], Path()).dataset
