"""Where data lies: what the names of folders say of the rows in them."""

from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote

from ltr_harness.errors import DataError, Problem


def partition_keys(folder: Path, file: Path) -> dict[str, str | None]:
    """What the folders from one down to a file say of all its rows, as in ``day=2024-01-01/part-0.parquet``.

    Example:
        >>> partition_keys(Path("log"), Path("log/day=2024-01-01/shop=a%2Fb/part-0.parquet"))
        {'day': '2024-01-01', 'shop': 'a/b'}
    """
    named = (part.partition("=") for part in file.relative_to(folder).parts[:-1] if "=" in part)
    return {key: None if value == "__HIVE_DEFAULT_PARTITION__" else unquote(value) for key, _, value in named}


def refuse_stored_keys(file: Path | str, keys: Iterable[str], columns: Iterable[str]) -> None:
    """Raises DataError: the file holds a key of its folders as a column, so that a row has two values of it."""
    both = sorted({*keys} & {*columns})
    cure = f"write the files without it, or rename the folders {both[0]}=…" if both else ""
    DataError.refuse(
        Problem(str(file), f"has the column {key!r}, which is a key of its folder, too", "it once", cure)
        for key in both
    )
