"""Formats of judgments and rankings from other tools, recognised by content, in memory and in files."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ltr_harness._util.files import arrow_blocks, bare_name, compression_of
from ltr_harness._util.text import count_of
from ltr_harness.data.logs.separators import SEPARATORS, separator_in
from ltr_harness.data.readers import trec
from ltr_harness.data.readers.column_names import LISTINGS, column_among
from ltr_harness.data.readers.text_files import Bound, located, refuse_pipe, text_bytes, unpacked, unreadable
from ltr_harness.data.readers.trec import Qrels, TrecRun
from ltr_harness.errors import DataError, MissingExtraError

if TYPE_CHECKING:  # these load Arrow, which takes a tenth of a second, and TREC's files need none of it
    from ltr_harness.data.readers.table_columns import OpenedTable
    from ltr_harness.data.readers.unchecked_rows import Role, UncheckedRows

_LZ4 = b"\x04\x22\x4d\x18"
_PEEKED = 1 << 16
_JSON_GROWS, _CBOR_GROWS = 10, 20  # bytes of objects for a byte of text; of CBOR, a byte can be an empty list
_LEVEL = re.compile(r"L[0-9]+")
_JSON = re.compile(rb'\s*[\[{]\s*["{\]}]')


def read_file(path: Path, role: Role, *, allow_repeats: bool = False) -> UncheckedRows | Qrels | TrecRun:
    """Read a file in the form that its first bytes and, in text, the first line's cells show."""
    if (opened := opened_table(path)) is not None:
        from ltr_harness.data.readers.unchecked_rows import rows_of_table

        return rows_of_table(opened[0], role, opened[1])
    start = _start(path)
    if start.startswith(_LZ4):
        return replace(_rows_of_object(_read_lz4(path), str(path), role), form="lz4 file of ranx")
    if _JSON.match(start):
        listing = _rows_of_object(_read_json(path), str(path), role)
        return replace(listing, form=f"JSON, {listing.form}")
    cells = _first_line(start).split()
    if role == "qrels" and len(cells) > 1 and cells[1].startswith("qid:"):
        return _judgment_list(path, allow_repeats=allow_repeats)
    if len(cells) != 3:
        read = trec.read_qrels if role == "qrels" else trec.read_run
        return read(path, allow_repeats=allow_repeats)
    if role == "run":
        return trec.read_marco_run(path, allow_repeats=allow_repeats)
    if _LEVEL.fullmatch(cells[2]):
        form = "NTCIR qrels (query document L2)"
        return trec.read_qrels(path, "query document level", form, allow_repeats=allow_repeats)
    return trec.read_qrels(
        path, "query document grade", "qrels of three columns", allow_repeats=allow_repeats
    )


def _judgment_list(path: Path, *, allow_repeats: bool) -> Qrels:
    """Read lines ``grade qid:query # document …``, as plug-ins for learning to rank keep them."""
    from ltr_harness.data.readers.letor import Letor, read_svmlight
    from ltr_harness.data.readers.unchecked_rows import rows_of_columns

    rows = read_svmlight([path], Letor(), with_qid=True)
    if rows.document_ids is None:
        expected = "`grade qid:query # document` in every line"
        raise DataError.at(path, "names no documents, or not in every line", expected)
    queries = np.repeat(
        np.asarray(rows.block_ids).astype(np.str_), np.diff(np.append(rows.block_starts, rows.labels.size))
    )
    columns = (queries.tolist(), rows.document_ids.tolist(), rows.labels.tolist())
    listing = rows_of_columns(
        columns, str(path), "judgment list (grade qid:query # document)", place=rows.place
    )
    return listing.qrels(allow_repeats=allow_repeats)


def _has_columns(header: Sequence[str], names: Sequence[str]) -> bool:
    """Return whether a header shows query and document, or has the names that were given."""
    if names and {*names} <= {*header}:
        return True
    return all(column_among(LISTINGS[role], header) is not None for role in ("query", "document"))


def opened_table(path: Path, names: Sequence[str] = ()) -> tuple[OpenedTable, str] | None:
    """Return the table in a file and its form, if its header has the names or shows query and document; else None."""
    start = _start(path)
    if start.startswith((b"PAR1", b"ARROW1")):
        from ltr_harness.data.readers.parquet import Parquet

        return Parquet().opened(path), "Parquet or Arrow table"
    if start.startswith(_LZ4) or _JSON.match(start):
        return None
    separator = _separator_of_table(path, _first_line(start), names)
    if separator is None:
        return None
    from ltr_harness.data.readers.csv import Delimited

    return Delimited(path, separator), f"{SEPARATORS[separator]}-separated table"


def _separator_of_table(path: Path, header: str, names: Sequence[str]) -> str | None:
    """Return the separator with which the header has the columns, or that of a CSV file; None for other text."""
    for separator in SEPARATORS:
        cells = [cell.strip().strip('"') for cell in header.split(separator)]
        if len(cells) > 2 and _has_columns(cells, names):
            return separator
    if bare_name(path.name).lower().endswith(".csv"):
        return separator_in(header) or ","
    return None


def _first_line(start: bytes) -> str:
    lines = [line for line in start.decode("utf-8", "replace").splitlines() if line.strip()]
    return next((line for line in lines if not line.lstrip().startswith("#")), lines[0] if lines else "")


def _start(path: Path) -> bytes:
    """Return a file's first bytes, unpacked where it is compressed; none of a damaged file, which reading explains."""
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


def _read_json(path: Path) -> Any:
    """Read JSON: one document, or one to a line."""
    text = text_bytes(path).tobytes()
    Bound.of_file(path.stat().st_size).refuse(str(path), "its values take", _JSON_GROWS * len(text))
    try:
        try:
            return json.loads(text, object_pairs_hook=_object_without_repeats)
        except json.JSONDecodeError as problem:
            if problem.msg != "Extra data":
                raise
            return [
                json.loads(line, object_pairs_hook=_object_without_repeats)
                for line in text.splitlines()
                if line.strip()
            ]
    except (ValueError, RecursionError) as problem:
        raise DataError.at(path, f"cannot be read as JSON: {problem}") from None


def _object_without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object. Raises ValueError: a name has two values, of which JSON readers silently keep the last."""
    json_object = dict(pairs)
    if len(json_object) < len(pairs):
        repeated_name = next((name for name, value in pairs if json_object[name] != value), None)
        if repeated_name is not None:
            raise ValueError(f"{repeated_name!r} stands twice in one object, with two values")
    return json_object


def _read_lz4(path: Path) -> Mapping[Any, Any]:
    try:
        import cbor2
    except ImportError:
        raise MissingExtraError.at(path, "is an lz4 file", "the package cbor2", "pip install cbor2") from None
    try:
        text = unpacked(path, "lz4", arrow_blocks(path, "lz4", times=2))  # as ranx compresses
    except OSError as problem:
        raise unreadable(path, problem) from None
    Bound.of_file(path.stat().st_size).refuse(str(path), "its values take", _CBOR_GROWS * text.size)
    try:
        value = cbor2.loads(text.tobytes())
    except (cbor2.CBORError, RuntimeError, ValueError, EOFError) as problem:
        raise DataError.at(path, f"cannot be read as an lz4 file of ranx: {problem}") from None
    if not isinstance(value, Mapping):
        raise DataError.at(path, f"holds a {type(value).__name__}", "{query: {document: score}}")
    return value


def qrels_of(value: Any, source: str = "qrels", *, allow_repeats: bool = False) -> Qrels:
    """Return judgments in any form; one of each document, unless repeats are allowed."""
    rows = value if isinstance(value, Qrels) else _recognise(value, source, "qrels", allow_repeats)
    return rows if isinstance(rows, Qrels) else cast("UncheckedRows", rows).qrels(allow_repeats=allow_repeats)


def run_of(value: Any, source: str = "run", *, allow_repeats: bool = False) -> TrecRun:
    """Return a ranking in any form; see `qrels_of`."""
    rows = value if isinstance(value, TrecRun) else _recognise(value, source, "run", allow_repeats)
    return rows if isinstance(rows, TrecRun) else cast("UncheckedRows", rows).run(allow_repeats=allow_repeats)


def _recognise(
    value: Any, source: str, role: Role, allow_repeats: bool = False
) -> UncheckedRows | Qrels | TrecRun:
    if isinstance(value, str | Path):
        return read_file(located([str(value)], Path())[0], role, allow_repeats=allow_repeats)
    return _rows_of_object(value, source, role)


def _rows_of_object(value: Any, source: str, role: Role) -> UncheckedRows:
    """Return the rows of an object in memory, for which Arrow is loaded."""
    from ltr_harness.data.readers.judgment_objects import rows_of_object

    return rows_of_object(value, source, role)


def format_summaries(qrels: Qrels, runs: Mapping[str, TrecRun]) -> list[str]:
    """Return the recognised form and the size of judgments and rankings, one line each."""
    lines = [f"{name}: {format_summary(run)}" for name, run in runs.items()]
    return [f"{qrels.path}: {format_summary(qrels)}", *lines]


def format_summary(table: Qrels | TrecRun) -> str:
    """Return the recognised form and the size of judgments or of a ranking."""
    rows, word = (table.grades, "judgment") if isinstance(table, Qrels) else (table.scores, "row")
    return f"{table.form}: {count_of(table.queries.values.size, 'query')}, {count_of(rows.size, word)}"
