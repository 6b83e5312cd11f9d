"""Scores of files and tables in the row order of the data they belong to.

One number per line (or a ``.npy`` array) is in the order of the data's files. A table names its rows: by query and
document, by query and ``row`` (counted from 0 within the query), or, with a query alone or nothing, by that order.
Columns that could name rows and are not used so are refused. A table without scores may have ranks.
"""

import tokenize
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ltr_harness._util.catalog import did_you_mean
from ltr_harness._util.files import bare_name
from ltr_harness._util.text import count_of, plural
from ltr_harness.data.columns import A_RANK, ArrowColumns, are_ranks
from ltr_harness.data.judgments import Judgments
from ltr_harness.data.readers.column_names import column_for, rank_column
from ltr_harness.data.readers.csv import Csv
from ltr_harness.data.readers.parquet import Parquet
from ltr_harness.data.readers.rows import bad_rows
from ltr_harness.data.readers.table_columns import OpenedTable, invalid_ids
from ltr_harness.data.readers.text_files import located
from ltr_harness.data.readers.trec import A_SCORE
from ltr_harness.data.readers.trec_lines import Lines
from ltr_harness.errors import Caution, DataError, Problem

_BY_ORDER = "if the rows stand in the order of the data"


class ScoreTable:
    """A table of scores, with the columns that identify each score's row of the data."""

    _query: str | None  # None where rows are identified by their order alone
    _document: str | None = None  # None where documents are not named, or the data has no names of them
    _has_row: bool  # there is a column ``row``, counted from 0 within the query
    _label: str | None

    def __init__(self, table: OpenedTable, by: str, judgments: Judgments, named: Mapping[str, str]) -> None:
        """Choose columns by their names. Raises DataError: columns could name rows, and it is not clear which."""
        self._table = table
        self._judgments, self._groups = judgments, judgments.groups
        columns = [name for name in table.columns if name not in ("score", "row")]
        self._label = next((name for name in (named.get("label"), "label") if name in columns), None)
        named_document = named.get("document_id")
        free = [name for name in columns if name not in (self._label, named_document)]
        self._query = column_for("query", free, named.get("query"))
        self._has_row = self._query is not None and "row" in table.columns
        rest = [name for name in columns if name not in (self._label, self._query)]
        self._choose_document(column_for("document_id", rest, named_document), rest)
        numbers = [by]
        if self._has_row:
            numbers.append("row")
        if self._label is not None:
            numbers.append(self._label)
        self._columns = table.read(numbers, [name for name in (self._query, self._document) if name])

    def _choose_document(self, document: str | None, columns: Sequence[str]) -> None:
        """Choose the column that names documents if it is needed; raise where it, or another, cannot be used."""
        is_named = self._query is not None and document is not None
        if is_named and self._judgments.document_ids is not None:
            self._document = document
            return
        if self._has_row or (self._query is not None and self._label is not None):
            return  # the labels themselves say whose scores these are
        if is_named:
            found = f"names its rows by {self._query} and {document}, and the data has no document ids"
            expected = "document ids in the data too, or a column row, counted from 0 within the query"
            cure = "say which column of the data is the document (document_id)"
            cure = f"{cure}, or leave {document} out {_BY_ORDER}"
            raise DataError.at(self._table.path, found, expected, cure)
        self._refuse_unused([name for name in columns if column_for("position", [name]) is None])

    def _refuse_unused(self, columns: Sequence[str]) -> None:
        """Refuse to match rows by their order where a column could name them."""
        if not columns:
            return
        query = self._query
        texts = self._table.read([], [*columns, query] if query else list(columns))
        queries = None
        if query is not None:
            ids = self._as_text(texts, query).fill_null("").to_numpy().astype(np.str_)
            queries = np.unique(ids, return_inverse=True)[1]
        names = [name for name in columns if _could_name(texts.texts(name), queries)]
        if not names:
            return
        noun, name = ("query", "query_id") if query is None else ("document", "document_id")
        found = f"has the {plural('column', len(names))} {', '.join(names)}"
        if query:
            found += f" with {query}"
        found += f": say which is the {noun}"
        expected = "query_id, and document_id or row, which counts from 0 within the query"
        cure = f"call the {noun}'s column {name}, or leave out other columns {_BY_ORDER}"
        raise DataError.at(self._table.path, found, expected, cure)

    def matched(
        self, by: str, order: NDArray[np.int64], other_queries: bool
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return the scores of the rows that are used, higher ones ranking first, and their rows of the data.

        `order` is (n_rows,). Raises DataError: each score that is none; rows that are not in the data's order, as far
        as their queries and labels say.
        """
        groups, columns = self._groups, self._columns
        scores = columns.numbers(by)
        bad, finding, expected = np.isnan(scores), "the score is missing or NaN", A_SCORE
        if by != "score":
            bad, finding = ~are_ranks(scores), f"the {by} is missing or no rank"
            expected = f"{A_RANK}, 1 for the best"
            scores = -scores
        DataError.refuse(bad_rows(bad, self._table.place, lambda row: finding, expected))
        data_rows, used = order, np.arange(scores.size)
        if self._query is not None and (self._document is not None or self._has_row):
            data_rows, used = self._rows_named(self._query, other_queries)
        else:
            _refuse_other_count(self._table.path, scores.size, self._judgments)
            if self._query is not None:
                data_queries = np.repeat(np.arange(groups.n_queries), groups.sizes)[order]
                differing = np.flatnonzero(self._codes(self._query, groups.ids) != data_queries)
                if differing.size:
                    row = int(differing[0])
                    in_data = (
                        f"{groups.name(int(data_queries[row]))!r} ({count_of(differing.size, 'such row')})"
                    )
                    found = f"query {str(columns.cell(self._query, row))!r} where the data has {in_data}"
                    second = "row, from 0 within the query, or document_id, where the data has one too"
                    expected = f"the rows of the data in their order, or a second column that names the row: {second}"
                    raise DataError.at(self._table.place(row), found, expected)
        if self._label is not None:  # it says which data the table was made for
            labels, data_labels = columns.numbers(self._label)[used], self._judgments.labels[data_rows]
            differing = np.flatnonzero(labels != data_labels)
            if differing.size:
                first = differing[0]
                in_data = f"{data_labels[first]:g} ({count_of(differing.size, 'such row')})"
                found = f"label {labels[first]:g} where the data has {in_data}"
                expected = "scores of the same rows: is this another split, or another order?"
                raise DataError.at(self._table.place(int(used[first])), found, expected)
        return scores[used], data_rows

    def _rows_named(
        self, query_column: str, other_queries: bool
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the data's row of each row of the table, every one exactly once; and the table's rows used."""
        groups, columns = self._groups, self._columns
        query = self._codes(query_column, groups.ids)
        data_query = np.repeat(np.arange(groups.n_queries), groups.sizes)
        second, data_named, part = self._within_query(query)
        span = max(int(data_named.max()) + 1, 1)
        data_key = data_query * span + data_named
        order: NDArray[np.int64] = np.argsort(data_key, kind="stable")
        key = query * span + part
        positions = np.searchsorted(data_key, key, sorter=order)
        data_rows: NDArray[np.int64] = order[np.minimum(positions, order.size - 1)]
        unknown = (query < 0) | (part < 0) | (data_key[data_rows] != key)

        def name(row: int) -> str:
            part = columns.cell(second, row)
            part = f"{part:g}" if isinstance(part, float) else part
            noun = "row" if second == "row" else "document"
            return f"query {str(columns.cell(query_column, row))!r}, {noun} {part}"

        def row_problems(bad: NDArray[np.bool_], found: str, expected: str) -> list[Problem]:
            return bad_rows(bad, self._table.place, lambda row: f"{name(row)} {found}", expected)

        is_stray = unknown & (query >= 0) if other_queries else unknown
        expected = "scores of these rows alone"
        if self._judgments.missed is not None:
            expected += ": missed documents have no rank"
        problems = row_problems(is_stray, "is not a row of the data", expected)
        data_rows = data_rows[~unknown]
        source = np.flatnonzero(~unknown)
        is_repeat = ~unknown
        is_repeat[source[np.unique(data_rows, return_index=True)[1]]] = False
        problems += row_problems(is_repeat, "has a score already", "one score per row")
        unscored = np.flatnonzero(np.bincount(data_rows, minlength=groups.n_rows) == 0)
        if unscored.size:
            row = int(unscored[0])
            place = groups.query_of(row)
            first = f"first in query {groups.name(place)!r}, its row {row - int(groups.boundaries[place])}"
            found = f"{unscored.size:,} of {count_of(groups.n_rows, 'row')} have no score, {first}"
            expected = "a score for every row: leaving rows out would change every metric"
            problems.append(Problem(str(self._table.path), found, expected))
        DataError.refuse(problems)
        return data_rows, source

    def _within_query(self, query: NDArray[np.int64]) -> tuple[str, NDArray[np.int64], NDArray[np.int64]]:
        """Return the column that identifies a query's rows, and its values in the data and in the table, as numbers."""
        groups, documents = self._groups, self._judgments.document_ids
        starts = np.repeat(groups.boundaries[:-1], groups.sizes)
        if self._document is not None and documents is not None:
            values, data_named = np.unique(documents.astype(str), return_inverse=True)
            ordered = np.sort(starts * values.size + data_named)
            repeats = np.flatnonzero(np.diff(ordered) == 0)
            if not repeats.size:
                return self._document, data_named, self._codes(self._document, values)
            if not self._has_row:
                start, document = divmod(int(ordered[repeats[0]]), values.size)
                finding = f"comes more than once in query {groups.name(groups.query_of(start))!r} of the data"
                found = f"names rows by {self._document}, but document {str(values[document])!r} {finding}"
                expected = f"a column `row`, the row within the query from 0, instead of {self._document}"
                raise DataError.at(self._table.path, found, expected)
        row_numbers = self._columns.numbers("row")
        is_row = (query >= 0) & (row_numbers >= 0) & (row_numbers == np.floor(row_numbers))
        is_row &= row_numbers < groups.sizes[np.maximum(query, 0)]
        return "row", np.arange(groups.n_rows) - starts, np.where(is_row, row_numbers, -1).astype(np.int64)

    def _codes(self, name: str, values: NDArray[Any]) -> NDArray[np.int64]:
        """Return the place of each cell of a column among the values, -1 where it is absent."""
        from pyarrow.compute import index_in

        texts = pa.array([str(value) for value in values.tolist()], type=pa.string())
        places = index_in(self._as_text(self._columns, name), value_set=texts).fill_null(-1)
        return np.asarray(places.to_numpy().astype(np.int64))

    def _as_text(self, columns: ArrowColumns, name: str) -> Any:
        try:
            return columns[name].cast(pa.string())
        except pa.ArrowNotImplementedError:
            found = f"column {name!r} has the type {columns[name].type}"
            raise DataError.at(self._table.path, found, "ids: text or integers") from None


def _count_rows(numbers: NDArray[np.float64], queries: NDArray[np.int64] | None) -> bool:
    """Return whether numbers count the rows from 0 or 1, in their order: those of the file or of each query."""
    if numbers[0] in (0, 1) and (np.diff(numbers) == 1).all():
        return True
    if queries is None:
        return False
    order, sizes = np.argsort(queries, kind="stable"), np.bincount(queries)
    expected = np.arange(len(queries)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return any(np.array_equal(numbers[order], expected + first) for first in (0, 1))


def _could_name(texts: Any | None, queries: NDArray[np.int64] | None) -> bool:
    """Return whether a column may identify a row's query, or its document in a query, and is no count of rows."""
    if texts is None or invalid_ids(texts).any():
        return False
    values = texts.to_numpy(zero_copy_only=False).astype(np.str_)
    codes = np.unique(values, return_inverse=True)[1]
    n_values = int(codes.max()) + 1
    try:
        numbers = values.astype(np.float64)
    except ValueError:
        pass
    else:
        if not np.array_equal(numbers, np.floor(numbers)) or _count_rows(numbers, queries):
            return False
    if queries is None:
        return n_values > 1
    if len(queries) == int(queries.max()) + 1:
        return False  # one row per query: the query says it
    return np.unique(queries * n_values + codes).size == len(codes)


_TEXT = (".csv", ".tsv", ".tab")
_TABLES = (*_TEXT, ".parquet", ".pq", ".arrow", ".feather")

# What NumPy raises besides where a header is damaged: it reads it as Python.
_HEADER = (tokenize.TokenError, SyntaxError, TypeError, MemoryError)


def _ranks_for_scores(table: OpenedTable) -> str:
    """Return the column of ranks of a table where nothing is called as scores are; DataError without one."""
    ranks = rank_column(table.columns)
    if ranks is None or any("score" in name.lower() for name in table.columns):
        cure = did_you_mean("score", table.columns)
        lacking = Problem(str(table.path), "has no column 'score'", cure=cure)
        raise DataError(table.missing_header() or lacking)
    return ranks


def read_scores(
    path: str | Path,
    judgments: Judgments,
    *,
    file_order: NDArray[np.int64] | None = None,  # (n_rows,)
    columns: Mapping[str, str] | None = None,
    other_queries: bool = False,
    cautions: list[Caution] | None = None,
) -> NDArray[np.float64]:
    """Return one score for every row of the judgments, float64 (n_rows,) in their row order."""
    file = located([str(path)], Path())[0]
    order = np.arange(judgments.groups.n_rows) if file_order is None else file_order
    name = bare_name(file.name)
    if name.endswith(_TABLES):
        reader = Csv() if name.endswith(_TEXT) else Parquet()
        table = reader.opened(file)
        by = "score" if "score" in table.columns else _ranks_for_scores(table)
        if by != "score" and cautions is not None:
            text = f"{path} has no column 'score': {by!r} ranks its rows, 1 being the best"
            cautions.append(Caution("ranks-for-scores", "note", text))
        scored = ScoreTable(table, by, judgments, columns or {})
        scores, order = scored.matched(by, order, other_queries)
    else:
        if name.endswith(".npy"):
            scores = _read_array(file)
        else:
            lines = Lines(file, "score", more=False)
            scores = lines.numbers("score", A_SCORE)
            lines.finish()
        _refuse_other_count(file, scores.size, judgments)
    placed = np.empty(scores.size)
    placed[order] = scores
    return placed


def _read_array(file: Path) -> NDArray[np.float64]:
    try:
        values = np.load(file, allow_pickle=False)
    except (ValueError, OSError, EOFError, *_HEADER) as problem:
        raise DataError.at(file, f"cannot be read as an array: {problem}") from None
    if not isinstance(values, np.ndarray) or values.ndim != 1 or values.dtype.kind not in "fiu":
        shape = f"{values.dtype} of shape {values.shape}" if isinstance(values, np.ndarray) else "no array"
        raise DataError.at(file, f"holds {shape}", "numbers, one per row: shape (n_rows,)")
    scores = values.astype(np.float64)
    missing = np.flatnonzero(np.isnan(scores))
    if missing.size:
        found = f"the score is NaN ({count_of(missing.size, 'such row')})"
        raise DataError.at(f"{file}: row {missing[0] + 1}", found, A_SCORE)
    return scores


def _refuse_other_count(file: Path, n_scores: int, judgments: Judgments) -> None:
    """Refuse another number of scores than there are rows."""
    groups = judgments.groups
    if n_scores != groups.n_rows:
        rows = f"{count_of(groups.n_rows, 'row')} in {count_of(groups.n_queries, 'query')}"
        by_query = "one per query? every document of a query has its own score"
        cure = by_query if n_scores == groups.n_queries else ""
        expected = "one score per row, in the order of the data"
        raise DataError.at(file, f"{count_of(n_scores, 'score')} for {rows}", expected, cure)
