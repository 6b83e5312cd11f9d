"""Judgments and rankings in files, in the forms that other tools write: a line in `FILES` each."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from ltr_harness.compression import arrow_blocks, bare_name, compression_of
from ltr_harness.errors import DataError, MissingExtraError, Problem
from ltr_harness.readers.column_names import column_among
from ltr_harness.readers.cost import Bound
from ltr_harness.readers.delimited import Delimited
from ltr_harness.readers.files import refuse_pipe, text_bytes, unreadable
from ltr_harness.readers.listing import DOCUMENT, QUERY, Listing, Role, of_table
from ltr_harness.readers.object_forms import listing_of
from ltr_harness.readers.packed import unpacked
from ltr_harness.readers.parquet import Parquet
from ltr_harness.readers.trec import (
    Qrels,
    TrecRun,
    read_marco_run,
    read_ntcir_qrels,
    read_qrels,
    read_run,
)

_LZ4 = b"\x04\x22\x4d\x18"
_PEEKED = 1 << 16
_JSON_GROWS, _CBOR_GROWS = 10, 20  # bytes of objects for a byte of text; of CBOR, a byte can be an empty list
_LEVEL = re.compile(r"L[0-9]+")


def read_file(path: Path, role: Role) -> Listing | Qrels | TrecRun:
    """What a file holds.

    Raises:
        DataError: it cannot be read, or its content is not right; every place that is wrong.
    """
    start = _start(path)
    return next(form.read(path, role) for form in FILES if form.fits(path, start, _first_line(start), role))


class FileForm(NamedTuple):
    """Files of one kind: told by their first bytes and, for text, by the first line's cells."""

    fits: Callable[[Path, bytes, str, Role], bool]
    read: Callable[[Path, Role], Listing | Qrels | TrecRun]


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
    _refuse_objects(path, len(text), _JSON_GROWS)
    try:
        try:
            value = json.loads(text, object_pairs_hook=_once)
        except json.JSONDecodeError as problem:
            if problem.msg != "Extra data":
                raise
            value = [json.loads(line, object_pairs_hook=_once) for line in text.splitlines() if line.strip()]
    except (ValueError, RecursionError) as problem:
        raise DataError(Problem(str(path), f"cannot be read as JSON: {problem}")) from None
    listing = listing_of(value, str(path), role)
    return replace(listing, form=f"JSON, {listing.form}")


def _refuse_objects(path: Path, size: int, grows: int) -> None:
    """Raise if what a text becomes, object by object, takes more than its file may."""
    Bound.of_file(path.stat().st_size).refuse(str(path), "its values take", grows * size)


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
    except ImportError:
        raise MissingExtraError(
            Problem(str(path), "is an lz4 file", "the package cbor2", "pip install cbor2")
        ) from None
    try:
        text = unpacked(path, "lz4", arrow_blocks(path, "lz4", times=2))  # as ranx compresses
    except OSError as problem:
        raise unreadable(path, problem) from None
    _refuse_objects(path, text.size, _CBOR_GROWS)
    try:
        value = cbor2.loads(text.tobytes())
    except (cbor2.CBORError, RuntimeError, ValueError, EOFError) as problem:
        raise DataError(Problem(str(path), f"cannot be read as an lz4 file of ranx: {problem}")) from None
    if not isinstance(value, Mapping):
        raise DataError(Problem(str(path), f"holds a {type(value).__name__}", "{query: {document: score}}"))
    return replace(listing_of(value, str(path), role), form="lz4 file of ranx")


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
