"""Judgments and rankings of other tools as objects of Python, recognised by their content."""

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ltr_harness._util.text import shortened
from ltr_harness.data.arrays import Ints
from ltr_harness.data.columns import table_of
from ltr_harness.data.readers import foreign_judgments, id_lists
from ltr_harness.data.readers.id_lists import WORD
from ltr_harness.data.readers.unchecked_rows import (
    Role,
    UncheckedRows,
    id_text,
    rows_of_columns,
    rows_of_table,
    texts_of_lists,
)
from ltr_harness.errors import DataError, UsageError

if TYPE_CHECKING:
    from ltr_harness.data.readers.parquet import ArrowTable

ACCEPTED = (
    "a file, a dict {query: {document: value}}, a table (pandas, Polars, Arrow, DuckDB), rows of (query, document, "
    "value), or an object of ranx or ir_datasets"
)


def rows_of_object(value: Any, source: str, role: Role) -> UncheckedRows:
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
        return rows_of_table(table, role, f"{_library(value)} {kind}")
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
    foreign_judgments.refuse(mapping, source)
    ratings = _ratings(mapping) if role == "qrels" else None
    if ratings is not None:
        return _of_ratings(ratings, source)
    if _MTEB in mapping:
        return _of_mteb(mapping, source, role)
    if id_lists.is_row_of_lists(mapping):  # one line of JSON lines
        return _of_rows_of_lists([mapping], source, role)
    _refuse_mixed(mapping, source)
    form = f"dict {{query: {{document: {WORD[role]}}}}}"
    if not all(issubclass(kind, Mapping) for kind in set(map(type, mapping.values()))):
        form = "lists of documents by query, the best first"
        if role == "qrels":
            form = "lists of documents by query, all relevant"
    return _of_mapping(mapping, source, role, form)


def _refuse_mixed(mapping: Mapping[Any, Any], source: str) -> None:
    """Raise where some queries have lists of ids, and others values for each document."""
    if len(set(map(type, mapping.values()))) == 1:
        return
    first: dict[bool, Any] = {}
    for query, inner in mapping.items():
        if hasattr(inner, "__len__") and len(inner):
            first.setdefault(isinstance(inner, Mapping), query)
    if len(first) > 1:
        found = f"has values for each document, and {source}[{first[False]!r}] is a list of ids"
        raise DataError.at(f"{source}[{first[True]!r}]", found, "one form for all queries")


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
    names, listed = list(mapping), list(mapping.values())
    columns = _texts_and_values(listed, source, role)
    if columns is None:
        pairs = [_documents_and_values(*pair, source, role) for pair in zip(listed, names, strict=True)]
        listed, values = [each for each, _ in pairs], [each for _, each in pairs]
        columns = list(itertools.chain.from_iterable(listed)), list(itertools.chain.from_iterable(values))
    sizes = _sizes(listed)
    ends = np.cumsum(sizes)

    def place(row: int) -> str:
        query = int(np.searchsorted(ends, row, side="right"))
        document = list(id_lists.in_order(listed[query]))[row - int(ends[query] - sizes[query])]
        return f"{source}[{names[query]!r}][{document!r}]"

    rows = rows_of_columns((names, *columns), source, form, name, place, sizes)
    if role == "qrels":
        return rows
    empty_queries = [names[query] for query in np.flatnonzero(sizes == 0)]
    return replace(rows, without_rows=tuple(id_text(query, source, "query") for query in empty_queries))


def _texts_and_values(listed: Sequence[Any], source: str, role: Role) -> tuple[Any, Any] | None:
    """Return the documents of all queries as Arrow texts, and their values; None where they are read one by one."""
    kinds = set(map(type, listed))
    if not (kinds == {dict} or kinds <= id_lists.UNSCORED[role]):
        return None
    texts = texts_of_lists(listed, source)
    if texts is None:
        return None
    if kinds == {dict}:
        return texts, list(itertools.chain.from_iterable(map(dict.values, listed)))
    return texts, id_lists.values_without_scores(_sizes(listed), role)


def _sizes(listed: Sequence[Any]) -> Ints:
    return np.fromiter(map(len, listed), np.int64, len(listed))


def _documents_and_values(
    inner: Any, query: Any, source: str, role: Role
) -> tuple[Sequence[Any], Sequence[Any]]:
    """Return the documents of a query and their values: of a dict, or of a list or set of ids."""
    if isinstance(inner, Mapping):
        return list(inner), list(inner.values())
    pairs = id_lists.documents_and_values(inner, f"{source}[{query!r}]", role)
    return [document for document, _ in pairs], [value for _, value in pairs]


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


def table_in_memory(value: Any, source: str) -> "ArrowTable | None":
    """Return a frame as a table; None for other values. Raises DataError: the frame cannot be read as a table."""
    if not any(hasattr(value, name) for name in ("iloc", "collect_schema", "__arrow_c_stream__")):
        return None
    from ltr_harness.data.readers.parquet import ArrowTable

    try:
        return ArrowTable(table_of(value, named_index=True), Path(source))
    except (TypeError, ValueError, OverflowError, pa.ArrowException) as problem:
        raise DataError.at(source, f"cannot be read as a table: {problem}") from None


def _of_rows(value: Iterable[Any], source: str, role: Role) -> UncheckedRows:
    """Return rows that are tuples of three, or named tuples or dicts, whose fields are found by their names."""
    from ltr_harness.data.readers.parquet import ArrowTable

    iterator = iter(value)
    first = next(iterator, None)
    if first is None:
        return _of_triples([], source, role)
    rows = itertools.chain([first], iterator)
    if isinstance(first, tuple) and not hasattr(first, "_fields"):
        return _of_triples(list(rows), source, role)
    if id_lists.is_row_of_lists(first):
        return _of_rows_of_lists(list(rows), source, role)
    if isinstance(first, Mapping):
        rows = itertools.chain(_rows_without_lists(rows, source, first.keys()))
    elif not hasattr(first, "_fields"):
        found = f"holds {str(first)[:60]!r}, a {type(first).__name__}"
        raise DataError.at(
            source, found, f"rows of (query, document, {WORD[role]}), or ids that are texts or integers"
        )
    try:
        if isinstance(first, Mapping):
            table, form = pa.Table.from_pylist([dict(row) for row in rows]), "list of dicts"
        else:
            cells = zip(*rows, strict=True)
            table = pa.table(dict(zip(first._fields, map(list, cells), strict=True)))
            form = f"{_library(first)} {type(first).__name__} tuples"
    except (TypeError, ValueError, OverflowError, pa.ArrowException) as problem:
        raise DataError.at(source, f"its rows are not alike: {problem}", f"rows like {first!r}") from None
    return rows_of_table(ArrowTable(table, Path(source)), role, form)


def _rows_without_lists(rows: Iterable[Any], source: str, first_names: Collection[Any]) -> Iterator[Any]:
    """Yield rows of which none has a list of documents; DataError for one that has."""
    for number, row in enumerate(rows, 1):
        has_other_names = isinstance(row, Mapping) and row.keys() != first_names
        if has_other_names and id_lists.is_row_of_lists(row):
            found = f"has {', '.join(map(str, row))}, and row 1 has other fields"
            raise DataError.at(f"{source}: row {number}", found, "one form for all rows")
        yield row


def _of_triples(rows: Sequence[Any], source: str, role: Role) -> UncheckedRows:
    expected = f"(query, document, {WORD[role]})"
    for number, row in enumerate(rows, 1):
        if not isinstance(row, tuple) or len(row) != 3:
            raise DataError.at(f"{source}: row {number}", f"is {str(row)[:60]!r}", expected)
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    return rows_of_columns(columns, source, f"rows of {expected}")


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
        rows = list(dict.fromkeys(rows))  # equal ratings of a document count once
    except (KeyError, TypeError, ValueError) as problem:
        found = f"a rating cannot be read: {type(problem).__name__} {problem}"
        expected = '{"query": …, "ratings": [{"docId": …, "rating": "1.0"}]}'
        raise DataError.at(source, found, expected) from None
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    return rows_of_columns(columns, source, "judgments of OpenSearch's Search Relevance Workbench")
