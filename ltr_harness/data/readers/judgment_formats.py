"""Formats of judgments and rankings from other tools, recognised by content, in memory and in files."""

import itertools
import json
import re
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import pyarrow as pa

from ltr_harness._util.files import arrow_blocks, bare_name, compression_of
from ltr_harness._util.text import count_of, shortened
from ltr_harness.data.columns import table_of
from ltr_harness.data.logs.separators import SEPARATORS, separator_in
from ltr_harness.data.queries import LONGEST_ID, Bools, Floats
from ltr_harness.data.readers import id_lists, trec
from ltr_harness.data.readers.column_names import LISTINGS, column_among, columns_named, rank_column
from ltr_harness.data.readers.csv import Delimited
from ltr_harness.data.readers.id_lists import WORD
from ltr_harness.data.readers.parquet import ArrowTable, Parquet
from ltr_harness.data.readers.rows import OfRow, RowProblems
from ltr_harness.data.readers.table_columns import OpenedTable, invalid_ids
from ltr_harness.data.readers.text_files import Bound, located, refuse_pipe, text_bytes, unpacked, unreadable
from ltr_harness.data.readers.trec import Qrels, TrecRun
from ltr_harness.data.readers.trec_lines import NameColumn, checked_names
from ltr_harness.data.readers.words import NotNumeric, listing_cure
from ltr_harness.errors import DataError, MissingExtraError, Problem, UsageError

Role = Literal["qrels", "run"]

_EXPECTED = {
    "qrels": "a finite number, such as 0, 1, 2, or -1 for what nobody judged",
    "run": trec.A_SCORE,
}


@dataclass(frozen=True, eq=False)
class UncheckedRows:
    """One value for each (query, document), not checked yet."""

    source: str  # the file, or what messages call it
    form: str  # what it was recognised as
    # queries, documents: Arrow texts, chunked, (n_rows,); "" where one is missing
    queries: Any
    documents: Any
    values: Floats  # (n_rows,)
    place: OfRow  # where a row stands, for messages
    name: str = ""  # the run's own name, or ""
    without_rows: tuple[str, ...] = ()  # queries for which a ranking lists nothing
    subtopics: Any = None  # as the queries, for judgments by subtopic; None for others

    def qrels(self, *, allow_repeats: bool = False) -> Qrels:
        """Return the rows as judgments; one of each document, unless repeats are allowed."""
        bad = ~(np.abs(self.values) < trec.LARGEST_GRADE)
        queries, documents, *subtopics = self._names("qrels", bad, allow_repeats)
        integers = self.values.astype(np.int64)
        grades = integers if np.array_equal(integers, self.values) else self.values
        each = Qrels(Path(self.source), queries, documents, grades, form=self.form, place=self.place)
        return trec.merge_subtopics(each, subtopics[0], "a column of their own") if subtopics else each

    def run(self, *, allow_repeats: bool = False) -> TrecRun:
        """Return the rows as a ranking; one of each document, unless repeats are allowed."""
        queries, documents = self._names("run", np.isnan(self.values), allow_repeats)
        queries = queries.with_more(self.without_rows)
        return TrecRun(Path(self.source), queries, documents, self.values, self.name, form=self.form)

    def _names(self, role: Role, bad: Bools, allow_repeats: bool = False) -> list[NameColumn]:
        if not len(self.values):
            raise DataError.at(self.source, f"has no rows (read as {self.form})", "at least one row")
        columns = {"query": self.queries, "document": self.documents}
        if self.subtopics is not None and not allow_repeats:
            columns["subtopic"] = self.subtopics
        self._refuse_bad_rows(columns, role, bad)
        bound = Bound.of_file(sum(int(texts.nbytes) for texts in columns.values()))
        names = []
        for column, texts in columns.items():
            encoded = texts.combine_chunks().dictionary_encode()
            values = checked_names(encoded.dictionary.to_pylist(), self.source, column, bound)
            names.append(NameColumn.by_row(values, encoded.indices.to_numpy().astype(np.int64)))
        if not allow_repeats:
            self._refuse_repeats(columns, role, names)
        return names

    def _refuse_bad_rows(self, columns: Mapping[str, Any], role: Role, bad: Bools) -> None:
        """Raise for rows whose value is bad, or without an id."""
        problems = RowProblems()
        for column, texts in columns.items():
            found = partial(_describe_invalid_id, column, texts)
            problems.report(invalid_ids(texts), self.place, found, "an id")

        def describe_value(row: int) -> str:
            value = self.values[row]
            finding = "missing or no number" if np.isnan(value) else f"{value:g}"
            return f"the {WORD[role]} is {finding}"

        problems.report(bad, self.place, describe_value, _EXPECTED[role])
        problems.finish()

    def _refuse_repeats(self, columns: Mapping[str, Any], role: Role, names: Sequence[NameColumn]) -> None:
        """Raise for documents that a query has twice."""
        before = trec.line_before(trec.lists_of(names[0], *names[2:]), names[1])
        verb = "judged" if role == "qrels" else "listed"
        expected = "each document once per query"
        if len(names) > 2:
            expected += " and subtopic"

        def describe_repeat(row: int) -> str:
            query, document = (columns[name][row].as_py() for name in ("query", "document"))
            earlier_place = self.place(int(before[row]))
            return f"document {document!r} is {verb} for query {query!r} at {earlier_place} already"

        cure = trec.CHUNKS_CURE if role == "run" else ""
        problems = RowProblems()
        problems.report_repeats(before, self.place, describe_repeat, expected, self.values, cure)
        problems.finish()


def _describe_invalid_id(column: str, texts: Any, row: int) -> str:
    text = texts[row].as_py()
    if not text:
        return f"the {column} is missing"
    quoted = text if len(text) <= 60 else text[:60] + "…"
    reason = f"{len(text):,} characters long" if len(text) > LONGEST_ID else "with a NUL byte"
    return f"the {column} is {quoted!r}, {reason}"


def columns_of(
    table: OpenedTable, role: Role, configured_columns: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the columns of query, document, and grade or score, by their names where none is configured."""
    value = column_among(LISTINGS[WORD[role]], table.columns)
    if value is None and role == "run":
        value = rank_column(table.columns)
    named = {
        "query": column_among(LISTINGS["query"], table.columns),
        "document": column_among(LISTINGS["document"], table.columns),
        WORD[role]: value,
        **(configured_columns or {}),
    }
    lacking = [field for field, column in named.items() if column is None]
    if lacking:
        expected = "; ".join(f"{field}: {', '.join(LISTINGS[field][:6])} …" for field in lacking)
        columns = shortened([repr(name) for name in columns_named(table.columns, table.columns)], 8)
        found = f"no column is the {' or the '.join(lacking)} (columns: {columns})"
        cures = [_cure_of_name(field, table.columns) for field in lacking]
        cure = next(filter(None, cures), "rename the column")
        raise DataError.at(table.path, found, f"such as {expected}", cure)
    return {field: str(column) for field, column in named.items()}


def _cure_of_name(field: str, columns: Sequence[str]) -> str:
    """Return the cure that renames a column with a fitting word in its name, such as `Gains (relevance score)`."""
    for name in columns:
        if any(column_among(LISTINGS[field], [word]) for word in re.findall(r"\w+", name)):
            return f"rename the column {name!r} to {LISTINGS[field][0]}"
    return ""


def of_table(table: OpenedTable, role: Role, form: str) -> UncheckedRows:
    """Return the rows of a table, whose columns are found by their names."""
    query, document, value = columns_of(table, role).values()
    by_rank = role == "run" and column_among(LISTINGS["score"], table.columns) is None
    subtopic = column_among(LISTINGS["subtopic"], table.columns) if role == "qrels" else None
    named_ids = [name for name in (query, document, subtopic) if name is not None]
    try:
        cells = table.read([value], named_ids)
    except DataError as error:
        raise DataError(_with_listing_cure(problem, table) for problem in error.problems) from None
    ids: list[Any] = [cells.texts(column) for column in named_ids]
    for column, texts in zip(named_ids, ids, strict=True):
        if texts is None:
            found = f"column {column!r} has the type {cells[column].type}"
            raise DataError.at(table.path, found, "ids: text or integers")
    values = cells.numbers(value)
    meaning = f"{value}: the first is the best" if by_rank else value
    form = f"{form} ({query}, {document}, {meaning})"
    subtopics: Any = ids[2] if subtopic and len(ids[2].unique()) > 1 else None
    values = -values if by_rank else values
    return UncheckedRows(str(table.path), form, ids[0], ids[1], values, table.place, subtopics=subtopics)


def _with_listing_cure(problem: Problem, table: OpenedTable) -> Problem:
    """Return the problem, with a cure where grades are words."""
    if not isinstance(problem, NotNumeric) or problem.mostly_numbers:
        return problem
    words = table.read([], [problem.column])[problem.column].unique().drop_null().to_pylist()
    return replace(problem, cure=listing_cure([word for word in words if word]))


def _of_columns(
    columns: Sequence[Sequence[Any]],
    source: str,
    form: str,
    name: str = "",
    place: OfRow | None = None,
) -> UncheckedRows:
    """Return the rows of queries, documents and values. Raises DataError: ids that are neither text nor integers."""
    ids = [_ids(columns[0], source, "query"), _ids(columns[1], source, "document")]
    try:
        texts = [pa.chunked_array([pa.array(column, pa.large_string())]) for column in ids]
    except UnicodeEncodeError:
        raise DataError.at(source, "an id is not Unicode text (a lone surrogate)", "text") from None
    place = place or (lambda row: f"{source}: row {row + 1}")
    return UncheckedRows(source, form, texts[0], texts[1], _numbers(columns[2]), place, name)


def _ids(values: Sequence[Any], source: str, column: str) -> Sequence[str]:
    if set(map(type, values)) <= {str}:  # as nearly always, and a million looks cheaper
        return values
    return [_id(value, source, column) for value in values]


def _id(value: Any, source: str, column: str) -> str:
    if isinstance(value, str | int | np.integer) and not isinstance(value, bool):
        return str(value)
    if value is None:
        return ""
    found = f"a {column} is {value!r}, a {type(value).__name__}"
    raise DataError.at(source, found, "ids: text or integers")


def _numbers(values: Sequence[Any]) -> Floats:
    """Return values as float64: NaN where one is no number, infinity for an integer beyond float64."""
    if set(map(type, values)) <= {float, int}:
        with suppress(OverflowError):
            return np.array(values, dtype=np.float64)

    def number(value: Any) -> float:
        if not isinstance(value, int | float | np.number | np.bool_) or isinstance(value, np.complexfloating):
            return float("nan")
        try:
            return float(value)
        except OverflowError:
            return float("inf") if value > 0 else float("-inf")

    return np.array([number(value) for value in values], dtype=np.float64)


ACCEPTED = (
    "a file, a dict {query: {document: value}}, a table (pandas, Polars, Arrow, DuckDB), rows of (query, document, "
    "value), or an object of ranx or ir_datasets"
)


def listing_of(value: Any, source: str, role: Role) -> UncheckedRows:
    """Return the rows of an object."""
    if _library(value) == "ranx":
        return _of_ranx(value, source, role)
    if isinstance(value, Mapping):
        return _of_any_mapping(value, source, role)
    if hasattr(value, "qrels_iter"):  # a data set of ir_datasets
        rows = value.qrels_iter() if role == "qrels" else value.scoreddocs_iter()
        return _of_rows(rows, source, role)
    table = table_in_memory(value, source)
    if table is not None:
        is_lazy = hasattr(value, "collect") and not hasattr(value, "__arrow_c_stream__")
        kind = "lazy table" if is_lazy else "table"
        return of_table(table, role, f"{_library(value)} {kind}")
    if _ratings(value) is not None:
        return _of_ratings(value, source)
    if isinstance(value, Iterable):
        return _of_rows(value, source, role)
    kind = f"{type(value).__module__}.{type(value).__name__}"
    raise UsageError.at(source, f"cannot tell what a {kind} is", ACCEPTED)


def _of_ranx(value: Any, source: str, role: Role) -> UncheckedRows:
    kind = type(value).__name__
    if kind != role.capitalize():
        raise DataError.at(source, f"is a ranx {kind}", "ranx Qrels" if role == "qrels" else "a ranx Run")
    return _of_mapping(value.to_dict(), source, role, f"ranx {kind}", value.name or "")


def _of_any_mapping(mapping: Mapping[Any, Any], source: str, role: Role) -> UncheckedRows:
    """Return the rows of ratings as OpenSearch has them, of MTEB's predictions, or of documents by query."""
    ratings = _ratings(mapping) if role == "qrels" else None
    if ratings is not None:
        return _of_ratings(ratings, source)
    if _MTEB in mapping:
        return _of_mteb(mapping, source, role)
    if id_lists.is_row_of_lists(mapping):  # one line of JSON lines
        return _of_rows_of_lists([mapping], source, role)
    form = f"dict {{query: {{document: {WORD[role]}}}}}"
    if not all(isinstance(inner, Mapping) for inner in mapping.values()):
        form = "lists of documents by query, the best first"
        if role == "qrels":
            form = "lists of documents by query, all relevant"
    return _of_mapping(mapping, source, role, form)


def _of_rows_of_lists(rows: Sequence[Any], source: str, role: Role) -> UncheckedRows:
    by_query, form = id_lists.documents_by_query(rows, source, role)
    return _of_mapping(by_query, source, role, form)


def is_single_source(value: Any) -> bool:
    """Return whether a value is one set of judgments or one ranking, not several under names or in a list."""
    if isinstance(value, Mapping):
        filled = (inner for inner in value.values() if not hasattr(inner, "__len__") or len(inner))
        inner: Any = next(filled, {})
        if isinstance(inner, Mapping):
            return not any(
                isinstance(cell, Mapping) or id_lists.is_list_of_ids(cell) for cell in inner.values()
            )
        return id_lists.is_list_of_ids(inner)
    if isinstance(value, list | tuple):
        return bool(value) and _is_row(value[0])
    return True


def _library(value: Any) -> str:
    return type(value).__module__.partition(".")[0].lstrip("_")


def _is_row(value: Any) -> bool:
    if isinstance(value, Mapping):
        nested = any(isinstance(inner, Mapping) or id_lists.is_list_of_ids(inner) for inner in value.values())
        return not nested or id_lists.query_name(value) is not None
    scalars = isinstance(value, tuple) and all(
        isinstance(cell, str) or not hasattr(cell, "__len__") for cell in value
    )
    return scalars and not any(isinstance(cell, Path) for cell in value) and len(value) > 2


def _of_mapping(
    mapping: Mapping[Any, Any], source: str, role: Role, form: str, name: str = ""
) -> UncheckedRows:
    queries, documents, values = _columns_of_mapping(mapping, source, role)
    place = lambda row: f"{source}[{queries[row]!r}][{documents[row]!r}]"  # noqa: E731
    rows = _of_columns((queries, documents, values), source, form, name, place)
    if role == "qrels":
        return rows
    return replace(rows, without_rows=tuple(str(query) for query, inner in mapping.items() if not len(inner)))


def _columns_of_mapping(
    mapping: Mapping[Any, Any], source: str, role: Role
) -> tuple[list[Any], list[Any], list[Any]]:
    """Return queries, documents and values of documents by query: dicts of values, or lists and sets of ids."""
    pairs_of_query: dict[Any, Collection[tuple[Any, Any]]] = {}
    for query, inner in mapping.items():
        if isinstance(inner, Mapping):
            pairs_of_query[query] = inner.items()
        else:
            pairs_of_query[query] = id_lists.documents_and_values(inner, f"{source}[{query!r}]", role)
    queries = [query for query, pairs in pairs_of_query.items() for _ in range(len(pairs))]
    documents = [document for pairs in pairs_of_query.values() for document, _ in pairs]
    values = [value for pairs in pairs_of_query.values() for _, value in pairs]
    return queries, documents, values


_MTEB = "mteb_model_meta"


def _of_mteb(value: Mapping[Any, Any], source: str, role: Role) -> UncheckedRows:
    """Return a retrieval task's predictions as MTEB stores them, of any subsets and splits that share no query."""
    if role == "qrels":
        raise DataError.at(source, "holds predictions of MTEB, which are a ranking", "judgments")
    part_of: dict[str, str] = {}
    rows: dict[str, Mapping[str, Any]] = {}
    for subset, split, queries in _mteb_parts(value):
        part = f"[{subset!r}]" if split is None else f"[{subset!r}][{split!r}]"
        is_by_query = isinstance(queries, Mapping)
        if not is_by_query or not all(isinstance(documents, Mapping) for documents in queries.values()):
            expected = (
                f"{{{_MTEB!r}: …, subset: {{split: {{query: {{document: score}}}}}}}}, of a retrieval task"
            )
            raise DataError.at(source + part, "is not a ranking of MTEB", expected)
        if repeated_query := next((query for query in queries if query in rows), None):
            found = f"query {repeated_query!r} stands in {part_of[repeated_query]} and in {part}"
            cure = f"""take one of them, as jq '.["{subset}"]["{split}"]' does"""
            raise DataError.at(source, found, "each query in one subset and split", cure)
        rows |= queries
        part_of |= dict.fromkeys(queries, part)
    model = value[_MTEB].get("model_name") if isinstance(value[_MTEB], Mapping) else None
    parts = shortened(list(dict.fromkeys(part_of.values())), 3)
    form = f"predictions of MTEB {parts}".rstrip()
    return _of_mapping(rows, source, role, form, str(model or ""))


def _mteb_parts(value: Mapping[Any, Any]) -> Iterator[tuple[Any, Any, Any]]:
    """Yield the subset, the split, and the lists by query; None for the split where a subset has no splits."""
    for subset, splits in value.items():
        if subset == _MTEB:
            continue
        if not isinstance(splits, Mapping):
            yield subset, None, splits
            continue
        for split, queries in splits.items():
            yield subset, split, queries


def table_in_memory(value: Any, source: str) -> ArrowTable | None:
    """Return a frame as a table; None for other values. Raises DataError: the frame cannot be read as a table."""
    if not any(hasattr(value, name) for name in ("iloc", "collect_schema", "__arrow_c_stream__")):
        return None
    try:
        return ArrowTable(table_of(value, named_index=True), Path(source))
    except (TypeError, ValueError, OverflowError, pa.ArrowException) as problem:
        raise DataError.at(source, f"cannot be read as a table: {problem}") from None


def _of_rows(value: Iterable[Any], source: str, role: Role) -> UncheckedRows:
    """Return rows that are tuples of three, or named tuples or dicts, whose fields are found by their names."""
    iterator = iter(value)
    first = next(iterator, None)
    if first is None:
        return _of_triples([], source, role)
    rows = itertools.chain([first], iterator)
    if isinstance(first, tuple) and not hasattr(first, "_fields"):
        return _of_triples(list(rows), source, role)
    if id_lists.is_row_of_lists(first):
        return _of_rows_of_lists(list(rows), source, role)
    try:
        if isinstance(first, Mapping):
            table, form = pa.Table.from_pylist([dict(row) for row in rows]), "list of dicts"
        else:
            cells = zip(*rows, strict=True)
            table = pa.table(dict(zip(first._fields, map(list, cells), strict=True)))
            form = f"{_library(first)} {type(first).__name__} tuples"
    except (TypeError, ValueError, OverflowError, pa.ArrowException) as problem:
        raise DataError.at(source, f"its rows are not alike: {problem}", f"rows like {first!r}") from None
    return of_table(ArrowTable(table, Path(source)), role, form)


def _of_triples(rows: Sequence[Any], source: str, role: Role) -> UncheckedRows:
    expected = f"(query, document, {WORD[role]})"
    for number, row in enumerate(rows, 1):
        if not isinstance(row, tuple) or len(row) != 3:
            raise DataError.at(f"{source}: row {number}", f"is {str(row)[:60]!r}", expected)
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    return _of_columns(columns, source, f"rows of {expected}")


def _ratings(value: Any) -> Any | None:
    """Return OpenSearch's list of judgments, as the Search Relevance Workbench has it; None for other values."""
    if isinstance(value, Mapping):
        hits = value.get("hits")
        if isinstance(hits, Mapping) and hits.get("hits"):
            return _ratings(hits["hits"][0].get("_source", {}))
        value = value.get("judgmentRatings")
    is_list = isinstance(value, list) and value and isinstance(value[0], Mapping)
    return value if is_list and {"query", "ratings"} <= value[0].keys() else None


def _of_ratings(value: Any, source: str) -> UncheckedRows:
    """Return the rows of OpenSearch's ratings, which are text: "0.000"."""
    try:
        rated = [(judged["query"], rating) for judged in value for rating in judged["ratings"]]
        rows = [(query, rating["docId"], float(rating["rating"])) for query, rating in rated]
    except (KeyError, TypeError, ValueError) as problem:
        found = f"a rating cannot be read: {type(problem).__name__} {problem}"
        expected = '{"query": …, "ratings": [{"docId": …, "rating": "1.0"}]}'
        raise DataError.at(source, found, expected) from None
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    return _of_columns(columns, source, "judgments of OpenSearch's Search Relevance Workbench")


_LZ4 = b"\x04\x22\x4d\x18"
_PEEKED = 1 << 16
_JSON_GROWS, _CBOR_GROWS = 10, 20  # bytes of objects for a byte of text; of CBOR, a byte can be an empty list
_LEVEL = re.compile(r"L[0-9]+")
_JSON = re.compile(rb'\s*[\[{]\s*["{\]}]')


def read_file(path: Path, role: Role, *, allow_repeats: bool = False) -> UncheckedRows | Qrels | TrecRun:
    """Read a file in the form that its first bytes and, in text, the first line's cells show."""
    if (opened := opened_table(path)) is not None:
        return of_table(opened[0], role, opened[1])
    start = _start(path)
    if start.startswith(_LZ4):
        return replace(listing_of(_read_lz4(path), str(path), role), form="lz4 file of ranx")
    if _JSON.match(start):
        listing = listing_of(_read_json(path), str(path), role)
        return replace(listing, form=f"JSON, {listing.form}")
    cells = _first_line(start).split()
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


def _has_columns(header: Sequence[str], names: Sequence[str]) -> bool:
    """Return whether a header shows query and document, or has the names that were given."""
    if names and {*names} <= {*header}:
        return True
    return all(column_among(LISTINGS[role], header) is not None for role in ("query", "document"))


def opened_table(path: Path, names: Sequence[str] = ()) -> tuple[OpenedTable, str] | None:
    """Return the table in a file and its form, if its header has the names or shows query and document; else None."""
    start = _start(path)
    if start.startswith((b"PAR1", b"ARROW1")):
        return Parquet().opened(path), "Parquet or Arrow table"
    if start.startswith(_LZ4) or _JSON.match(start):
        return None
    header = _first_line(start)
    for separator, word in SEPARATORS.items():
        cells = [cell.strip().strip('"') for cell in header.split(separator)]
        if len(cells) > 2 and _has_columns(cells, names):
            return Delimited(path, separator), f"{word}-separated table"
    if bare_name(path.name).lower().endswith(".csv"):
        separator = separator_in(header) or ","
        return Delimited(path, separator), f"{SEPARATORS[separator]}-separated table"
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
    """Return the object. Raises ValueError: a name occurs twice, of which JSON readers silently keep the last."""
    json_object = dict(pairs)
    if len(json_object) < len(pairs):
        repeated_name = next(name for name, times in Counter(name for name, _ in pairs).items() if times > 1)
        raise ValueError(f"{repeated_name!r} stands twice in one object")
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
    return rows.qrels(allow_repeats=allow_repeats) if isinstance(rows, UncheckedRows) else cast(Qrels, rows)


def run_of(value: Any, source: str = "run", *, allow_repeats: bool = False) -> TrecRun:
    """Return a ranking in any form; see `qrels_of`."""
    rows = value if isinstance(value, TrecRun) else _recognise(value, source, "run", allow_repeats)
    return rows.run(allow_repeats=allow_repeats) if isinstance(rows, UncheckedRows) else cast(TrecRun, rows)


def _recognise(
    value: Any, source: str, role: Role, allow_repeats: bool = False
) -> UncheckedRows | Qrels | TrecRun:
    if isinstance(value, str | Path):
        return read_file(located([str(value)], Path())[0], role, allow_repeats=allow_repeats)
    return listing_of(value, source, role)


def format_summaries(qrels: Qrels, runs: Mapping[str, TrecRun]) -> list[str]:
    """Return the recognised form and the size of judgments and rankings, one line each."""
    lines = [f"{name}: {format_summary(run)}" for name, run in runs.items()]
    return [f"{qrels.path}: {format_summary(qrels)}", *lines]


def format_summary(table: Qrels | TrecRun) -> str:
    """Return the recognised form and the size of judgments or of a ranking."""
    rows, word = (table.grades, "judgment") if isinstance(table, Qrels) else (table.scores, "row")
    return f"{table.form}: {count_of(table.queries.values.size, 'query')}, {count_of(rows.size, word)}"
