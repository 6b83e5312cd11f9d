"""Judgments and rankings in the forms that other tools have them, told by what they are, in memory and in files.

A form is a line in `OBJECTS` or `FILES`: what it is called, how it is told, and how it becomes rows.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

from ltr_harness.compression import bare_name, compression_of
from ltr_harness.errors import DataError, MissingExtraError, Problem, UsageError
from ltr_harness.readers.arrow_table import ArrowColumns
from ltr_harness.readers.column_names import column_among
from ltr_harness.readers.delimited import Delimited
from ltr_harness.readers.files import located, refuse_pipe, text_bytes, unreadable
from ltr_harness.readers.listing import (
    DOCUMENT,
    QUERY,
    WORD,
    Listing,
    Role,
    first_of,
    of_mapping,
    of_rows,
    of_table,
)
from ltr_harness.readers.parquet import Parquet
from ltr_harness.readers.trec import (
    Qrels,
    TrecRun,
    read_marco_run,
    read_ntcir_qrels,
    read_qrels,
    read_run,
)

ACCEPTED = (
    "a file, a dict {query: {document: value}}, a table (pandas, Polars, Arrow, DuckDB), rows of (query, document, "
    "value), or an object of ranx or ir_datasets"
)
_LZ4 = b"\x04\x22\x4d\x18"
_PEEKED = 1 << 16


def qrels_of(value: Any, source: str = "qrels") -> Qrels:
    """Judgments in any form.

    Args:
        value: a path, or an object: see `ACCEPTED`.
        source: what messages call an object.

    Raises:
        DataError: the form is known and the content is not right; every place that is wrong.
        UsageError: no form is known that looks like this.

    Example:
        >>> qrels_of({"q1": {"d1": 2, "d2": 0}}).form
        'dict {query: {document: grade}}'
    """
    recognised = value if isinstance(value, Qrels) else _recognised(value, source, "qrels")
    return recognised.qrels() if isinstance(recognised, Listing) else cast(Qrels, recognised)


def run_of(value: Any, source: str = "run") -> TrecRun:
    """A ranking in any form; see `qrels_of`.

    Args:
        value: a path, or an object.
        source: what messages call an object.

    Example:
        >>> run_of([("q1", "d1", 0.5), ("q1", "d2", 2.5)]).form
        'rows of (query, document, score)'
    """
    recognised = value if isinstance(value, TrecRun) else _recognised(value, source, "run")
    return recognised.run() if isinstance(recognised, Listing) else cast(TrecRun, recognised)


def is_one(value: Any) -> bool:
    """Whether a value is judgments or a ranking by itself, not several under names or in a list."""
    if isinstance(value, Mapping):
        inner = next(iter(value.values()), None)
        return isinstance(inner, Mapping) and not any(isinstance(one, Mapping) for one in inner.values())
    if isinstance(value, list | tuple):
        return bool(value) and _is_row(value[0])
    return True


def _recognised(value: Any, source: str, role: Role) -> Listing | Qrels | TrecRun:
    if isinstance(value, str | Path):
        return _from_file(located([str(value)], Path())[0], role)
    for form in OBJECTS:
        if form.fits(value):
            return form.listing(value, source, role)
    raise UsageError(
        Problem(source, f"cannot tell what a {type(value).__module__}.{type(value).__name__} is", ACCEPTED)
    )


# ---- in memory


class ObjectForm(NamedTuple):
    """Objects of one kind, and how they become rows."""

    fits: Callable[[Any], bool]
    listing: Callable[[Any, str, Role], Listing]


def _library(value: Any) -> str:
    return type(value).__module__.partition(".")[0].lstrip("_")


def _is_row(value: Any) -> bool:
    if isinstance(value, Mapping):
        return not any(isinstance(inner, Mapping) for inner in value.values())
    scalars = isinstance(value, tuple) and all(
        isinstance(cell, str) or not hasattr(cell, "__len__") for cell in value
    )
    return scalars and not any(isinstance(cell, Path) for cell in value) and len(value) > 2


def _of_ranx(value: Any, source: str, role: Role) -> Listing:
    form = f"ranx {type(value).__name__}"
    if type(value).__name__ != {"qrels": "Qrels", "run": "Run"}[role]:
        raise DataError(Problem(source, f"is a {form}", "ranx Qrels" if role == "qrels" else "a ranx Run"))
    return of_mapping(value.to_dict(), source, form, value.name or "")


def _of_mapping(value: Mapping[Any, Any], source: str, role: Role) -> Listing:
    if role == "qrels" and (ratings := _ratings(value)) is not None:
        return _of_ratings(ratings, source)
    wrong = next(((query, inner) for query, inner in value.items() if not isinstance(inner, Mapping)), None)
    if wrong is not None:
        found = f"holds {type(wrong[1]).__name__} where documents should be"
        raise DataError(Problem(f"{source}[{wrong[0]!r}]", found, f"{{query: {{document: {WORD[role]}}}}}"))
    return of_mapping(value, source, f"dict {{query: {{document: {WORD[role]}}}}}")


def _of_frame(value: Any, source: str, role: Role) -> Listing:
    import pyarrow as pa

    library = _library(value)
    lazy = hasattr(value, "collect_schema") and not hasattr(value, "__arrow_c_stream__")
    try:
        if hasattr(value, "iloc"):
            named = any(name is not None for name in value.index.names)
            table = pa.Table.from_pandas(value.reset_index() if named else value, preserve_index=False)
        else:
            table = pa.table(value.collect() if lazy else value)
    except (TypeError, ValueError, OverflowError, pa.ArrowException) as problem:
        raise DataError(Problem(source, f"cannot be read as a table: {problem}")) from None
    return of_table(ArrowColumns(table, Path(source)), role, f"{library} {'lazy ' * lazy}table")


def _of_rows(value: Iterable[Any], source: str, role: Role) -> Listing:
    """Tuples of three, named tuples and dicts by their fields' names."""
    import pyarrow as pa

    first, rows = first_of(value)
    if first is None or (isinstance(first, tuple) and not hasattr(first, "_fields")):
        rows = list(rows)
        wrong = next(((at, row) for at, row in enumerate(rows) if not _is_triple(row)), None)
        if wrong is not None:
            found = f"is {str(wrong[1])[:60]!r}"
            raise DataError(
                Problem(f"{source}: row {wrong[0] + 1}", found, f"(query, document, {WORD[role]})")
            )
        return of_rows(rows, source, f"rows of (query, document, {WORD[role]})")
    try:
        if isinstance(first, Mapping):
            table, form = pa.Table.from_pylist([dict(row) for row in rows]), "list of dicts"
        else:
            cells = zip(*rows, strict=True)
            table = pa.table(dict(zip(first._fields, map(list, cells), strict=True)))
            form = f"{_library(first)} {type(first).__name__} tuples"
    except (TypeError, ValueError, OverflowError, pa.ArrowException) as problem:
        raise DataError(
            Problem(source, f"its rows are not alike: {problem}", f"rows like {first!r}")
        ) from None
    return of_table(ArrowColumns(table, Path(source)), role, form)


def _is_triple(row: Any) -> bool:
    return isinstance(row, tuple) and len(row) == 3


def _ratings(value: Any) -> Any | None:
    """OpenSearch's list of judgments, as the Search Relevance Workbench takes and returns it; None where it is none."""
    if isinstance(value, Mapping):
        hits = value.get("hits")
        if isinstance(hits, Mapping) and hits.get("hits"):
            return _ratings(hits["hits"][0].get("_source", {}))
        value = value.get("judgmentRatings")
    is_list = isinstance(value, list) and value and isinstance(value[0], Mapping)
    return value if is_list and {"query", "ratings"} <= value[0].keys() else None


def _of_ratings(value: Any, source: str) -> Listing:
    """Ratings are text there: "0.000"."""
    try:
        rows = [
            (judged["query"], rating["docId"], float(rating["rating"]))
            for judged in value
            for rating in judged["ratings"]
        ]
    except (KeyError, TypeError, ValueError) as problem:
        found = f"a rating cannot be read: {type(problem).__name__} {problem}"
        raise DataError(
            Problem(source, found, '{"query": …, "ratings": [{"docId": …, "rating": "1.0"}]}')
        ) from None
    return of_rows(rows, source, "judgments of OpenSearch's Search Relevance Workbench")


OBJECTS = (
    ObjectForm(lambda value: _library(value) == "ranx", _of_ranx),
    ObjectForm(lambda value: isinstance(value, Mapping), _of_mapping),
    ObjectForm(
        lambda value: hasattr(value, "qrels_iter"),  # a data set of ir_datasets
        lambda value, source, role: _of_rows(
            value.qrels_iter() if role == "qrels" else value.scoreddocs_iter(), source, role
        ),
    ),
    ObjectForm(
        lambda value: any(hasattr(value, name) for name in ("iloc", "collect_schema", "__arrow_c_stream__")),
        _of_frame,
    ),
    ObjectForm(
        lambda value: _ratings(value) is not None, lambda value, source, role: _of_ratings(value, source)
    ),
    ObjectForm(lambda value: isinstance(value, Iterable), _of_rows),
)


# ---- files


class FileForm(NamedTuple):
    """Files of one kind: told by their first bytes and, for text, by the first line's cells."""

    fits: Callable[[Path, bytes, str, Role], bool]
    read: Callable[[Path, Role], Listing | Qrels | TrecRun]


def _from_file(path: Path, role: Role) -> Listing | Qrels | TrecRun:
    start = _start(path)
    return next(form.read(path, role) for form in FILES if form.fits(path, start, _first_line(start), role))


def _start(path: Path) -> bytes:
    """A file's first bytes, unpacked where it is compressed; of what cannot be unpacked none: reading will say why."""
    refuse_pipe(path)
    try:
        with open(path, "rb") as stream:
            start = stream.read(_PEEKED)
        kind = compression_of(start)
        if kind is not None:
            start = b""
            with suppress(EOFError, zlib.error):
                start = next(kind.blocks(path), b"")[:_PEEKED]
    except OSError as problem:
        raise unreadable(path, problem) from None
    return start.removeprefix(b"\xef\xbb\xbf")


def _first_line(start: bytes) -> str:
    """The first line that is not blank and, if there is one, no comment."""
    lines = [line for line in start.decode("utf-8", "replace").splitlines() if line.strip()]
    return next((line for line in lines if not line.lstrip().startswith("#")), lines[0] if lines else "")


def _separator(line: str) -> str | None:
    """What stands between the cells of a header that names a query and a document; None where it names none."""
    for separator in ("\t", ",", ";"):
        cells = [cell.strip().strip('"') for cell in line.split(separator)]
        others = [name for name in DOCUMENT if name not in QUERY]
        if len(cells) > 2 and column_among(QUERY, cells) and column_among(others, cells):
            return separator
    return None


def _is_delimited(path: Path, start: bytes, line: str, role: Role) -> bool:
    return _separator(line) is not None or bare_name(path.name).lower().endswith(".csv")


def _read_delimited(path: Path, role: Role) -> Listing:
    separator = _separator(_first_line(_start(path))) or ","
    name = {"\t": "tab", ";": "semicolon"}.get(separator, "comma")
    return of_table(Delimited(path, separator), role, f"{name}-separated table")


def _read_json(path: Path, role: Role) -> Listing:
    """One document, or one to a line."""
    text = text_bytes(path).tobytes()
    try:
        try:
            value = json.loads(text, object_pairs_hook=_once)
        except json.JSONDecodeError as problem:
            if problem.msg != "Extra data":
                raise
            value = [json.loads(line, object_pairs_hook=_once) for line in text.splitlines() if line.strip()]
    except (ValueError, RecursionError) as problem:
        raise DataError(Problem(str(path), f"cannot be read as JSON: {problem}")) from None
    listing = _recognised(value, str(path), role)
    assert isinstance(listing, Listing)  # of an object
    return replace(listing, form=f"JSON, {listing.form}")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object, where no name stands in it twice: JSON readers keep the last without a word."""
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} stands twice in one object")
    return made


def _read_lz4(path: Path, role: Role) -> Listing:
    try:
        import cbor2
        import lz4.frame
    except ImportError as problem:
        raise MissingExtraError(
            Problem(str(path), "is an lz4 file", f"the package {problem.name}", "pip install lz4 cbor2")
        ) from None
    try:
        with lz4.frame.open(path) as stream:
            value = cbor2.loads(lz4.frame.decompress(stream.read()))  # ranx compresses twice
    except (RuntimeError, ValueError, EOFError, OSError) as problem:
        raise DataError(Problem(str(path), f"cannot be read as an lz4 file of ranx: {problem}")) from None
    if not isinstance(value, Mapping):
        raise DataError(Problem(str(path), f"holds a {type(value).__name__}", "{query: {document: score}}"))
    return replace(_of_mapping(value, str(path), role), form="lz4 file of ranx")


_LEVEL = re.compile(r"L\d+")

FILES = (
    FileForm(
        lambda path, start, line, role: start.startswith((b"PAR1", b"ARROW1")),
        lambda path, role: of_table(Parquet().opened(path), role, "Parquet or Arrow table"),
    ),
    FileForm(lambda path, start, line, role: start.startswith(_LZ4), _read_lz4),
    FileForm(lambda path, start, line, role: re.match(rb'\s*[\[{]\s*["{\]}]', start) is not None, _read_json),
    FileForm(_is_delimited, _read_delimited),
    FileForm(
        lambda path, start, line, role: (
            role == "qrels" and len(line.split()) == 3 and bool(_LEVEL.fullmatch(line.split()[2]))
        ),
        lambda path, role: read_ntcir_qrels(path),
    ),
    FileForm(
        lambda path, start, line, role: role == "qrels" and len(line.split()) == 3,
        lambda path, role: read_qrels(path, "query document grade", "qrels of three columns"),
    ),
    FileForm(
        lambda path, start, line, role: role == "run" and len(line.split()) == 3,
        lambda path, role: read_marco_run(path),
    ),
    FileForm(
        lambda path, start, line, role: True,
        lambda path, role: read_qrels(path) if role == "qrels" else read_run(path),
    ),
)
