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
    """The reader's name for a file, by its name and by what stands beside it."""
    name = bare_name(path.name.lower())
    if path.is_dir() or name.endswith((".parquet", ".pq", ".arrow", ".feather")):
        return "parquet"
    if name.endswith((".csv", ".tsv", ".tab")):
        return "csv"
    if any(path.with_name(path.name + suffix).is_file() for suffix in (".query", ".group")):
        return "lightgbm"
    return "letor"


def made_reader(name: str, options: Sequence[str] = ()) -> "Reader":
    """A reader with options as they are written in an experiment file."""
    from pydantic import ValidationError

    from ltr_harness.data import readers
    from ltr_harness.experiments.config.problems import explained
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
        reader: Reader = kind.model_validate_json(json.dumps(node.plain()), strict=True)
    except ValidationError as error:
        raise UsageError(explained(error, kind, node, ("data",))) from None
    return reader


def with_columns(reader: "Reader", path: Path, of_run: Mapping[str, Any] | None = None) -> "Reader":
    """A reader of tables with the run's columns of query, label and candidates, or those that `init` would guess."""
    from ltr_harness.data.readers.column_names import column_for
    from ltr_harness.data.readers.table_reader import TableReader

    if not isinstance(reader, TableReader) or not path.exists():
        return reader
    columns, found = reader.tables([str(path)], Path())[0].columns, {}
    free = [name for name in columns if name not in reader.roles()]
    roles = ("query", "label") if reader.relevance is None else ("query",)
    for role in roles if of_run is None else (*roles, "retrieved"):
        if role in reader.model_fields_set or getattr(reader, role) in columns:
            continue
        named = (of_run or {}).get(role)
        if named and {*([named] if isinstance(named, str) else named)} <= {*free}:
            found[role] = tuple(named) if isinstance(named, list) else named
        elif (role == "query" or of_run is None) and (guessed := column_for(role, free)):
            found[role] = guessed
    if found:
        chosen = ", ".join(f"{role}: {column}" for role, column in found.items())
        text = f"{chosen} (--column chooses others)"
        echo_caution(Caution("guessed-columns", "note", text, place=str(path)))
    return reader.model_copy(update=found)


def read_files(
    paths: Sequence[Path], reader_name: str | None, reader_options: Sequence[str] = ()
) -> "RankingDataset":
    """Files as one dataset, through the cache."""
    from ltr_harness.data.cache import DataCache

    reader = with_columns(made_reader(reader_name or guessed_reader(paths[0]), reader_options), paths[0])
    return DataCache().read(reader, [str(path) for path in paths], Path()).dataset
