"""Rows of queries, documents and values as other tools write them, until they are checked."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from ltr_harness._util.text import count_of, plural, shortened
from ltr_harness.data.arrays import LONGEST_ID, Bools, Floats, Ints
from ltr_harness.data.columns import ArrowColumns, text_array
from ltr_harness.data.readers import trec
from ltr_harness.data.readers.column_names import LISTINGS, column_among, columns_named, rank_column
from ltr_harness.data.readers.id_lists import WORD, in_order
from ltr_harness.data.readers.rows import OfRow, RowProblems
from ltr_harness.data.readers.table_columns import OpenedTable, invalid_ids
from ltr_harness.data.readers.text_files import Bound
from ltr_harness.data.readers.trec import Qrels, TrecRun
from ltr_harness.data.readers.trec_lines import NameColumn, PackedNames, checked_names
from ltr_harness.data.readers.words import NotNumeric, listing_cure
from ltr_harness.errors import Caution, DataError, Problem

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
    # queries, documents: Arrow texts, chunked, (n_rows,), of queries also codes; "" where one is missing
    queries: Any
    documents: Any
    values: Floats  # (n_rows,)
    place: OfRow  # where a row stands, for messages
    name: str = ""  # the run's own name, or ""
    without_rows: tuple[str, ...] = ()  # queries for which a ranking lists nothing
    subtopics: Any = None  # as the queries, for judgments by subtopic; None for others
    cautions: tuple[Caution, ...] = ()

    def qrels(self, *, allow_repeats: bool = False) -> Qrels:
        """Return the rows as judgments; one of each document, unless repeats are allowed."""
        bad = ~(np.abs(self.values) < trec.LARGEST_GRADE)
        queries, documents, *subtopics = self._names("qrels", bad, allow_repeats)
        integers = self.values.astype(np.int64)
        grades = integers if np.array_equal(integers, self.values) else self.values
        each = Qrels(
            Path(self.source),
            queries,
            documents,
            grades,
            form=self.form,
            place=self.place,
            cautions=self.cautions,
        )
        return trec.merge_subtopics(each, subtopics[0], "a column of their own") if subtopics else each

    def run(self, *, allow_repeats: bool = False) -> TrecRun:
        """Return the rows as a ranking; one of each document, unless repeats are allowed."""
        queries, documents = self._names("run", np.isnan(self.values), allow_repeats)
        queries = queries.with_more(self.without_rows)
        return TrecRun(Path(self.source), queries, documents, self.values, self.name, form=self.form)

    def _names(self, role: Role, bad: Bools, allow_repeats: bool = False) -> list[Any]:
        if not len(self.values):
            raise DataError.at(self.source, f"has no rows (read as {self.form})", "at least one row")
        columns = {"query": self.queries, "document": self.documents}
        if self.subtopics is not None and not allow_repeats:
            columns["subtopic"] = self.subtopics
        self._refuse_bad_rows(columns, role, bad)
        bound = Bound.of_file(sum(int(texts.nbytes) for texts in columns.values()))
        names: list[Any] = []
        for column, texts in columns.items():
            if column == "document":
                names.append(PackedNames.of_texts(texts.combine_chunks(), (self.source, column, bound)))
                continue
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
            problems.report(_invalid_rows(texts), self.place, found, "an id")

        def describe_value(row: int) -> str:
            value = self.values[row]
            finding = "missing or no number" if np.isnan(value) else f"{value:g}"
            return f"the {WORD[role]} is {finding}"

        problems.report(bad, self.place, describe_value, _EXPECTED[role])
        problems.finish()

    def _refuse_repeats(self, columns: Mapping[str, Any], role: Role, names: Sequence[Any]) -> None:
        """Raise for documents that a query has twice."""
        if len(names) == 2 and not trec.may_repeat(*names):
            return
        before = trec.line_before(trec.lists_of(names[0], *names[2:]), names[1])
        verb = "judged" if role == "qrels" else "listed"
        expected = "each document once per query"
        if len(names) > 2:
            expected += " and subtopic"

        def describe_repeat(row: int) -> str:
            query, document = (columns[name][row].as_py() for name in ("query", "document"))
            earlier_place = self.place(int(before[row]))
            return f"document {document!r} is {verb} for query {query!r} at {earlier_place} already"

        cure = trec.CHUNKS_CURE if role == "run" else trec.SEVERAL_CURE
        problems = RowProblems()
        problems.report_repeats(before, self.place, describe_repeat, expected, self.values, cure)
        problems.finish()


def _invalid_rows(texts: Any) -> Bools:
    """Return a mask of the rows whose text, given itself or by a code, cannot be an id."""
    if not pa.types.is_dictionary(texts.type):
        return invalid_ids(texts)
    coded = texts.combine_chunks()
    invalid: Bools = invalid_ids(pa.chunked_array([coded.dictionary]))[coded.indices.to_numpy()]
    return invalid


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
        cure = next(filter(None, cures), "")
        is_book = lacking == ["grade"] and [name.lower() for name in table.columns[:2]] == ["query", "docid"]
        if not cure and is_book:  # no column sounds like a grade: each is named after its judge
            cure = f"a book of Quepid with a column for each judge: {_MELT.format(path=table.path)}, and --several"
        raise DataError.at(table.path, found, f"such as {expected}", cure or "rename the column")
    return {field: str(column) for field, column in named.items()}


_MELT = (
    """python -c 'import pandas; pandas.read_csv("{path}").melt(["query", "docid"], value_name="rating")"""
    """.to_csv("qrels.csv", index=False)'"""
)


def _cure_of_name(field: str, columns: Sequence[str]) -> str:
    """Return the cure that renames a column with a fitting word in its name, such as `Gains (relevance score)`."""
    for name in columns:
        if any(column_among(LISTINGS[field], [word]) for word in re.findall(r"\w+", name)):
            return f"rename the column {name!r} to {LISTINGS[field][0]}"
    return ""


def rows_of_table(table: OpenedTable, role: Role, form: str) -> UncheckedRows:
    """Return the rows of a table, whose columns are found by their names."""
    query, document, value = columns_of(table, role).values()
    by_rank = role == "run" and column_among(LISTINGS["score"], table.columns) is None
    subtopic = column_among(LISTINGS["subtopic"], table.columns) if role == "qrels" else None
    named_ids = [name for name in (query, document, subtopic) if name is not None]
    try:
        cells = table.read([value], named_ids)
    except DataError as error:
        raise DataError(_with_listing_cure(problem, table) for problem in error.problems) from None
    ids = [id_texts(cells, column, table.path) for column in named_ids]
    values, meaning = cells.numbers(value), value
    cautions: tuple[Caution, ...] = ()
    if role == "qrels":
        values, cautions = _without_blanks(values, table)
    if by_rank:
        values, meaning = -values, f"{value}: the first is the best"
    form = f"{form} ({query}, {document}, {meaning})"
    subtopics = ids[2] if subtopic and len(ids[2].unique()) > 1 else None
    return UncheckedRows(
        str(table.path), form, ids[0], ids[1], values, table.place, subtopics=subtopics, cautions=cautions
    )


def _without_blanks(grades: Floats, table: OpenedTable) -> tuple[Floats, tuple[Caution, ...]]:
    """Return grades in which those of empty cells are -1, and a caution; as they are where all cells are empty."""
    is_blank = np.isnan(grades)
    n = int(np.count_nonzero(is_blank))
    if not n or n == grades.size:
        return grades, ()
    text = f"{count_of(n, 'row')} without a grade {plural('is', n)} unjudged"
    return np.where(is_blank, -1.0, grades), (Caution("blank-grades", "note", text, place=str(table.path)),)


def id_texts(cells: ArrowColumns, column: str, path: Path) -> Any:
    """Return a column of ids as Arrow texts; DataError where it has neither texts nor integers."""
    texts = cells.texts(column)
    if texts is None:
        found = f"column {column!r} has the type {cells[column].type}"
        raise DataError.at(path, found, "ids: text or integers")
    return texts


def _with_listing_cure(problem: Problem, table: OpenedTable) -> Problem:
    """Return the problem, with a cure where grades are words."""
    if not isinstance(problem, NotNumeric) or problem.mostly_numbers:
        return problem
    words = table.read([], [problem.column])[problem.column].unique().drop_null().to_pylist()
    return replace(problem, cure=listing_cure([word for word in words if word]))


def rows_of_columns(
    columns: Sequence[Any],
    source: str,
    form: str,
    name: str = "",
    place: OfRow | None = None,
    sizes: Ints | None = None,  # (n_queries,), rows of each query, where the queries are given once each
) -> UncheckedRows:
    """Return the rows of queries, documents and values. Raises DataError: ids that are neither text nor integers.

    The documents may be Arrow texts, and the values an array.
    """
    queries, documents, values = columns
    query_texts = _id_texts(queries, source, "query").combine_chunks()
    if sizes is not None:  # a code for each row
        with_rows = np.flatnonzero(sizes)
        encoded = query_texts.take(pa.array(with_rows)).dictionary_encode()
        codes = np.repeat(encoded.indices.to_numpy(), sizes[with_rows])
        query_texts = pa.DictionaryArray.from_arrays(codes, encoded.dictionary)
    if not isinstance(documents, pa.ChunkedArray):
        documents = _id_texts(documents, source, "document")
    place = place or (lambda row: f"{source}: row {row + 1}")
    rows_of_queries = pa.chunked_array([query_texts])
    return UncheckedRows(source, form, rows_of_queries, documents, _numbers(values), place, name)


_LISTS_AT_ONCE = 100
"""Lists whose texts stay in the processor's cache while they are joined."""


def texts_of_lists(lists: Sequence[Any], source: str) -> Any | None:
    """Return the texts of lists and sets, or the keys of dicts, one after the other; None where some are no texts.

    Raises DataError: one is not Unicode.
    """
    filled = list(filter(len, lists))
    has_sets = not {set, frozenset}.isdisjoint(map(type, filled))

    def blocks() -> Iterator[Sequence[Any]]:
        for first in range(0, len(filled), _LISTS_AT_ONCE):
            block = filled[first : first + _LISTS_AT_ONCE]
            yield list(map(in_order, block)) if has_sets else block

    try:
        return pa.chunked_array([text_array(blocks(), sum(map(len, filled)))])
    except TypeError:
        return None
    except UnicodeEncodeError:
        raise DataError.at(source, "an id is not Unicode text (a lone surrogate)", "text") from None


def _id_texts(values: Sequence[Any], source: str, column: str) -> Any:
    """Return ids as Arrow has texts. Raises DataError: one is neither text nor an integer, or not Unicode."""
    texts = texts_of_lists([values], source)
    if texts is None:
        texts = texts_of_lists([[id_text(value, source, column) for value in values]], source)
    return texts


def id_text(value: Any, source: str, column: str) -> str:
    """Return an id as text, "" for None. Raises DataError: it is neither text nor an integer."""
    if isinstance(value, str):
        return str.__str__(value)  # of an enumeration's member, the value
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return str(value)
    if value is None:
        return ""
    found = f"a {column} is {value!r}, a {type(value).__name__}"
    raise DataError.at(source, found, "ids: text or integers")


def _numbers(values: Sequence[Any] | Floats) -> Floats:
    """Return values as float64: NaN where one is no number, infinity for an integer beyond float64."""
    if isinstance(values, np.ndarray):
        return values
    if set(map(type, values)) <= {float, int}:
        with suppress(OverflowError):
            return np.fromiter(values, np.float64, len(values))

    def number(value: Any) -> float:
        if not isinstance(value, int | float | np.number | np.bool_) or isinstance(value, np.complexfloating):
            return float("nan")
        try:
            return float(value)
        except OverflowError:
            return float("inf") if value > 0 else float("-inf")

    return np.array([number(value) for value in values], dtype=np.float64)
