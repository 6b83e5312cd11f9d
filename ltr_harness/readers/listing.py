"""Rows of query, document and value from anywhere, checked in one place: judgments or a ranking."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ltr_harness.errors import DataError, Problem
from ltr_harness.groups import LONGEST_ID
from ltr_harness.readers.arrow_columns import numbers_of, texts_of, unfit_ids
from ltr_harness.readers.column_names import ROLES, column_among
from ltr_harness.readers.cost import Bound
from ltr_harness.readers.rows import SHOWN, limited
from ltr_harness.readers.table_part import OpenedTable
from ltr_harness.readers.trec import LARGEST_GRADE, Qrels, TrecRun, line_before, lists_of, of_subtopics
from ltr_harness.readers.trec_columns import Names, checked_names

Role = Literal["qrels", "run"]

# Beside the names that tables of features use; the most telling first. PyTerrier has a docid of its own beside docno.
QUERY = (*ROLES["query"], "q_id", "queryid", "topic", "topic_id", "query_text", "query_number", "qno")
DOCUMENT = ("docno", *ROLES["document_id"], "did", "d_id", "pid", "passage_id", "doc_no", "documentid")
VALUE = {
    "qrels": (*ROLES["label"], "judgement", "gain", "score"),
    "run": ("score", "sim", "similarity", "prediction", "pred", "y_pred"),
}
RANK = ROLES["position"]
SUBTOPIC = ("subtopic", "subtopic_id", "iteration")
WORD: dict[str, str] = {"qrels": "grade", "run": "score"}
_EXPECTED = {
    "qrels": "a finite number, such as 0, 1, 2, or -1 for what nobody judged",
    "run": "a number: every document needs a score",
}


@dataclass(frozen=True, eq=False)
class Listing:
    """One value for each (query, document), not checked yet.

    Attributes:
        source: the file, or what messages call it.
        form: what it was recognised as.
        queries, documents: Arrow texts, chunked, (n_rows,); "" where one is missing.
        values: float64 (n_rows,).
        place: where a row stands, for messages.
        name: the run's own name, or "".
        subtopics: as the queries, for judgments by subtopic; None for others.
    """

    source: str
    form: str
    queries: Any
    documents: Any
    values: NDArray[np.float64]
    place: Callable[[int], str]
    name: str = ""
    subtopics: Any = None

    def qrels(self) -> Qrels:
        """The rows as judgments.

        Raises:
            DataError: every id that is none, every grade that is no finite number, every document judged twice.
        """
        bad = ~(np.abs(self.values) < LARGEST_GRADE)
        queries, documents, *subtopics = self._names("qrels", bad)
        whole = self.values.astype(np.int64)
        grades = whole if np.array_equal(whole, self.values) else self.values
        each = Qrels(Path(self.source), queries, documents, grades, self.form)
        return of_subtopics(each, subtopics[0], "a column of their own") if subtopics else each

    def run(self) -> TrecRun:
        """The rows as a ranking.

        Raises:
            DataError: every id that is none, every score that is no number, every document listed twice.
        """
        queries, documents = self._names("run", np.isnan(self.values))
        return TrecRun(Path(self.source), self.name, queries, documents, self.values, form=self.form)

    def _names(self, role: Role, bad: NDArray[np.bool_]) -> list[Names]:
        if not len(self.values):
            raise DataError(Problem(self.source, f"has no rows (read as {self.form})", "at least one row"))
        columns = {"query": self.queries, "document": self.documents}
        if self.subtopics is not None:
            columns["subtopic"] = self.subtopics
        problems: list[tuple[int, Problem]] = []
        total = 0

        def report(rows: NDArray[Any], found: Callable[[int], str], expected: str) -> None:
            nonlocal total
            total += rows.size
            problems.extend(
                (row, Problem(self.place(row), found(row), expected)) for row in rows[:SHOWN].tolist()
            )

        for column, texts in columns.items():
            unfit = np.flatnonzero(unfit_ids(texts))
            report(unfit, lambda row, c=column, t=texts: _unfit(c, t[row].as_py()), "an id")  # type: ignore[misc]
        word = WORD[role]
        report(np.flatnonzero(bad), lambda row: f"the {word} is {_shown(self.values[row])}", _EXPECTED[role])
        if not problems:
            size = sum(int(texts.nbytes) for texts in columns.values())
            names = [_encoded(self.source, size, *column) for column in columns.items()]
            before = line_before(lists_of(names[0], *names[2:]), names[1])
            what = "judged" if role == "qrels" else "listed"
            once = "each document once per query" + " and subtopic" * (len(names) > 2)
            report(
                np.flatnonzero(before >= 0),
                lambda row: (
                    f"document {columns['document'][row].as_py()!r} is {what} for query "
                    f"{columns['query'][row].as_py()!r} at {self.place(int(before[row]))} already"
                ),
                once,
            )
        if problems:
            ordered = [problem for _, problem in sorted(problems, key=lambda entry: entry[0])]
            raise DataError(limited(ordered, total))
        return names


def _unfit(column: str, text: str) -> str:
    if not text:
        return f"the {column} is missing"
    shown = text if len(text) <= 60 else text[:60] + "…"
    return f"the {column} is {shown!r}" + (
        f", {len(text):,} characters long" if len(text) > LONGEST_ID else ", with a NUL byte"
    )


def _shown(value: float) -> str:
    return "missing or no number" if np.isnan(value) else f"{value:g}"


def _encoded(source: str, size: int, column: str, texts: Any) -> Names:
    encoded = texts.combine_chunks().dictionary_encode()
    codes = encoded.indices.to_numpy().astype(np.int64)
    values = checked_names(encoded.dictionary.to_pylist(), source, column, Bound.of_file(size))
    return Names.by_row(values, codes)


def of_table(table: OpenedTable, role: Role, form: str, name: str = "") -> Listing:
    """The rows of a table, its columns told by their names.

    Raises:
        DataError: no column says what it is, ids that are neither text nor integers, values that are no numbers.
    """
    named = {
        "query": column_among(QUERY, table.columns),
        "document": column_among([one for one in DOCUMENT if one not in QUERY], table.columns),
        WORD[role]: column_among(VALUE[role], table.columns),
    }
    by_rank = named[WORD[role]] is None and role == "run"
    if by_rank:
        named[WORD[role]] = column_among(RANK, table.columns)
    lacking = [what for what, column in named.items() if column is None]
    if lacking:
        names = {"query": QUERY, "document": DOCUMENT, "grade": VALUE["qrels"], "score": VALUE["run"]}
        expected = "; ".join(f"{what}: {', '.join(names[what][:6])} …" for what in lacking)
        columns = ", ".join(map(repr, table.columns[:8])) + (", …" if len(table.columns) > 8 else "")
        raise DataError(
            Problem(
                str(table.path),
                f"no column is the {' or the '.join(lacking)} (columns: {columns})",
                f"such as {expected}",
                "rename the column",
            )
        )
    query, document, value = (str(column) for column in named.values())
    about = column_among(SUBTOPIC, table.columns) if role == "qrels" else None
    columns = table.read([value], [query, document, *([about] if about else [])])
    ids = []
    for column in (query, document, *([about] if about else [])):
        texts = texts_of(columns[column])
        if texts is None:
            kind = columns[column].type
            raise DataError(
                Problem(str(table.path), f"column {column!r} has the type {kind}", "ids: text or integers")
            )
        ids.append(texts)
    values = numbers_of(columns[value])
    form = f"{form} ({query}, {document}, {value}{': the first is the best' if by_rank else ''})"
    subtopics = ids[2] if about and len(ids[2].unique()) > 1 else None
    values = -values if by_rank else values
    return Listing(str(table.path), form, ids[0], ids[1], values, table.place, name, subtopics)


def of_rows(rows: Iterable[tuple[Any, Any, Any]], source: str, form: str) -> Listing:
    """The rows of anything in memory.

    Raises:
        DataError: ids that are neither text nor integers.
    """
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    return _of_columns(columns, source, form, "", lambda row: f"{source}: row {row + 1}")


def of_mapping(mapping: Any, source: str, form: str, name: str = "") -> Listing:
    """The rows of ``{query: {document: value}}``.

    Raises:
        DataError: ids that are neither text nor integers.
    """
    queries = [query for query, inner in mapping.items() for _ in range(len(inner))]
    documents = [document for inner in mapping.values() for document in inner]
    values = [value for inner in mapping.values() for value in inner.values()]
    place = lambda row: f"{source}[{queries[row]!r}][{documents[row]!r}]"  # noqa: E731
    return _of_columns((queries, documents, values), source, form, name, place)


def _of_columns(
    columns: Sequence[Sequence[Any]], source: str, form: str, name: str, place: Callable[[int], str]
) -> Listing:
    import pyarrow as pa

    ids = [_ids(column, source, word) for word, column in zip(("query", "document"), columns, strict=False)]
    try:
        texts = [pa.chunked_array([pa.array(column, pa.large_string())]) for column in ids]
    except UnicodeEncodeError:
        raise DataError(Problem(source, "an id is not Unicode text (a lone surrogate)", "text")) from None
    return Listing(source, form, texts[0], texts[1], _numbers(columns[2]), place, name)


def _ids(values: Sequence[Any], source: str, column: str) -> Sequence[str]:
    if set(map(type, values)) <= {str}:  # as nearly always, and a million looks cheaper
        return values
    return [_id(value, source, column) for value in values]


def _id(value: Any, source: str, column: str) -> str:
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return str(value)
    if value is None:
        return ""
    found = f"a {column} is {value!r}, a {type(value).__name__}"
    raise DataError(Problem(source, found, "ids: text or integers"))


def _numbers(values: Sequence[Any]) -> NDArray[np.float64]:
    if set(map(type, values)) <= {float, int}:
        with suppress(OverflowError):
            return np.array(values, dtype=np.float64)
    return np.array([_number(value) for value in values], dtype=np.float64)


def _number(value: Any) -> float:
    """NaN for what is no number; an integer beyond float64 is infinite."""
    if not isinstance(value, int | float | np.number | np.bool_) or isinstance(value, np.complexfloating):
        return float("nan")
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def first_of(rows: Iterable[Any]) -> tuple[Any, Iterable[Any]]:
    """The first of some rows, None where there is none, and all of them."""
    rows = iter(rows)
    first = next(rows, None)
    return first, rows if first is None else itertools.chain([first], rows)
