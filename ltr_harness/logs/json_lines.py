"""JSON lines: a document a line, as programs log them and OpenSearch and Elasticsearch export them, as a table."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ltr_harness.errors import DataError, Problem

_ACTIONS = {"index", "create", "update", "delete"}
_SHOWN = 10  # problems of a file
_MOST = 2_000  # columns; a search engine's index has a thousand at most


def json_lines(files: Sequence[Path]) -> Any:
    """A `pyarrow.Table` with a column for every field; fields of objects have dots in their names.

    Documents may stand in what a search engine wraps them in: ``{"_index": …, "_source": {…}}`` as exported, or behind
    lines such as ``{"index": {"_index": …}}`` as its bulk API takes them. Lists of objects are left out. What is a
    number in one document and text in another is text.

    Raises:
        DataError: lines that are no JSON object, with their places; a damaged file; no document.
    """
    import pyarrow as pa

    fields: dict[str, tuple[list[int], list[Any]]] = {}
    n = 0
    for file in files:
        for document in _documents(file):
            for name, value in _leaves(document):
                at, values = fields.setdefault(name, ([], []))
                at.append(n)
                values.append(value)
            n += 1
            if len(fields) > _MOST:
                raise DataError(
                    Problem(str(file), f"has more than {_MOST:,} different fields", "documents of one kind")
                )
    if not n:
        raise DataError(Problem(str(files[0]), "has no rows", "a JSON object a line"))
    return pa.table({name: _column(name, at, values, n) for name, (at, values) in fields.items()})


def _documents(file: Path) -> Iterator[dict[str, Any]]:
    problems = []
    try:
        with gzip.open(file) if file.suffix.lower() == ".gz" else open(file, "rb") as lines:
            for number, line in enumerate(lines, start=1):
                if line.isspace():
                    continue
                document = _parsed(line)
                if document is None:
                    problems.append(
                        Problem(f"{file}:{number}", "is not a JSON object", "one document a line: NDJSON")
                    )
                    if len(problems) == _SHOWN:
                        break
                elif not _is_action(document):
                    source = document.get("_source")
                    yield source if isinstance(source, dict) else document
    except (OSError, EOFError, zlib.error) as problem:
        raise DataError(Problem(str(file), f"cannot be read: {problem}")) from None
    if problems:
        raise DataError(problems)


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        document = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _is_action(document: dict[str, Any]) -> bool:
    """Whether a line says what the bulk API is to do with the next one."""
    if len(document) != 1:
        return False
    ((name, value),) = document.items()
    meta = isinstance(value, dict) and all(key.startswith("_") or key == "routing" for key in value)
    return meta and name in _ACTIONS


def _leaves(document: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Every field with a value, by its path; a stack, as a hostile document is deep."""
    left = [("", document)]
    while left:
        path, value = left.pop()
        for key, part in value.items():
            name = f"{path}{key}"
            if isinstance(part, dict):
                left.append((f"{name}.", part))
            elif part is not None and not (isinstance(part, list) and any(isinstance(e, dict) for e in part)):
                yield name, part


def _column(name: str, at: list[int], values: list[Any], n: int) -> Any:
    import pyarrow as pa

    kinds = {type(value) for value in values}
    if kinds == {list}:
        values, kind = (
            [[_text(part) for part in value if part is not None] for value in values],
            pa.list_(pa.string()),
        )
    elif kinds == {bool}:
        kind = pa.bool_()
    elif kinds == {int} and all(abs(value) < 2**63 for value in values):
        kind = pa.int64()
    elif kinds <= {int, float} and all(abs(value) < 2**1000 for value in values):
        kind = pa.float64()
    else:
        values, kind = [_text(value) for value in values], pa.string()
    column = [None] * n
    for row, value in zip(at, values, strict=True):
        column[row] = value
    try:
        return pa.array(column, kind)
    except UnicodeEncodeError:
        raise DataError(
            Problem(f"column {name!r}", "holds text that is not Unicode", "text in UTF-8", "encode it again")
        ) from None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
