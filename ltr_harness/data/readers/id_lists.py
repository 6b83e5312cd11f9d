"""Judgments and rankings as lists and sets of ids by query, which is how tests of retrieval have them."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ltr_harness.data.arrays import Floats, Ints
from ltr_harness.data.readers.column_names import LISTINGS, column_among
from ltr_harness.errors import DataError

WORD: dict[str, str] = {"qrels": "grade", "run": "score"}
"""What judgments and rankings have beside each document."""

_LISTS = {
    "run": (
        "retrieved", "retrieved_ids", "retrieved_doc_ids", "retrieved_documents", "retrieved_context_ids", "results",
        "result_ids", "ranking", "ranked", "ranked_ids", "contexts", "predicted", "predictions",
        "documents", "document_ids", "docs", "doc_ids",
    ),
    "qrels": (
        "relevant", "relevant_ids", "relevant_doc_ids", "relevant_documents", "expected", "expected_ids",
        "ground_truth", "ground_truth_ids", "gold", "gold_ids", "reference_context_ids", "positives", "qrels",
    ),
}  # fmt: skip
"""The names of a query's documents in a row of JSON: those that a system retrieved, and those that are relevant."""

_QUERY = (*LISTINGS["query"], "question_id", "question", "example_id", "id")
_ONE_LIST = (list, tuple, set, frozenset, np.ndarray)


def is_list_of_ids(value: Any) -> bool:
    """Return whether a value is a list or set of documents, and not of rows, files or tables; an empty one is."""
    return isinstance(value, _ONE_LIST) and all(map(_may_be_document, value))


def _may_be_document(value: Any) -> bool:
    if isinstance(value, Mapping):
        names = [name for name in value if isinstance(name, str)]
        is_nested = any(isinstance(inner, (*_ONE_LIST, Mapping)) for inner in value.values())
        return column_among(LISTINGS["query"], names) is None and not is_nested
    return _is_pair(value) or _is_id(value) or value is None or isinstance(value, float)


def _is_id(value: Any) -> bool:
    return isinstance(value, str | int | np.integer) and not isinstance(value, bool)


def _is_pair(value: Any) -> bool:
    is_number = (
        isinstance(value, tuple | list) and len(value) == 2 and isinstance(value[1], int | float | np.number)
    )
    return is_number and _is_id(value[0])


def is_row_of_lists(value: Any) -> bool:
    """Return whether a value is a row of JSON: a query, beside the documents that are relevant or retrieved."""
    if not isinstance(value, Mapping):
        return False
    if all(issubclass(kind, (*_ONE_LIST, dict)) for kind in set(map(type, value.values()))):
        return False  # a row has a query, which is no list
    return any(_list_name(value, role) is not None for role in _LISTS)


def query_name(row: Mapping[Any, Any]) -> str | None:
    """Return the name of the query in a row of JSON; None where it is no row."""
    name = _field_among(_QUERY, tuple(row))
    return None if name is None or isinstance(row[name], (*_ONE_LIST, Mapping)) else name


def _list_name(row: Mapping[Any, Any], role: str) -> str | None:
    """Return the name of the documents in a row; None where it has no query or no such documents."""
    if query_name(row) is None:
        return None
    return _field_among(_LISTS[role], tuple(row))


@lru_cache(maxsize=64)
def _field_among(names: tuple[str, ...], fields: tuple[Any, ...]) -> str | None:
    """Return the field of a row with one of these names; rows have the same fields again and again."""
    return column_among(names, [field for field in fields if isinstance(field, str)])


def documents_by_query(rows: Sequence[Any], source: str, role: str) -> tuple[dict[Any, Any], str]:
    """Return the documents of rows of JSON by query, and the names of their fields for messages.

    Raises DataError: a row lacks the query or the documents of this role, or repeats a query.
    """
    by_query: dict[Any, Any] = {}
    form = ""
    for number, row in enumerate(rows, 1):
        query = documents = None
        if isinstance(row, Mapping):
            query, documents = query_name(row), _field_among(_LISTS[role], tuple(row))
        if query is None or documents is None:
            fields = type(row).__name__
            if isinstance(row, Mapping):
                fields = ", ".join(map(str, row))
            expected = f"a query, such as query_id, beside {', '.join(_LISTS[role][:4])} …"
            raise DataError.at(f"{source}: row {number}", f"has {fields}", expected)
        if row[query] in by_query:
            found = f"query {row[query]!r} has a row already"
            raise DataError.at(f"{source}: row {number}", found, "each query once")
        row_form = f"rows of {query}, {documents}"
        form = form or row_form
        if row_form != form:
            raise DataError.at(
                f"{source}: row {number}", f"is of the form {row_form}", f"{form}, as row 1 has"
            )
        cell = row[documents]
        by_query[row[query]] = [cell] if _is_id(cell) else cell
        _refuse_sentences(by_query[row[query]], f"{source}: row {number}: {documents}", role)
    return by_query, form


_WORDS = 5  # from which on a text is a sentence, and no id
_IDS = {"run": "retrieved_context_ids", "qrels": "relevant_ids"}


def _refuse_sentences(documents: Any, place: str, role: str) -> None:
    """Raise where most documents of a row are sentences, as tools for language models have them under such names."""
    if not isinstance(documents, _ONE_LIST):
        return
    texts = documents
    if not set(map(type, documents)) <= {str}:
        texts = [text for text in documents if isinstance(text, str)]
    if len("".join(texts).split()) < _WORDS:  # no text has more words than all of them in one
        return
    sentences = [text for text in texts if len(text.split()) >= _WORDS]
    if len(sentences) * 2 > len(documents):
        found = f"holds texts, such as {sentences[0][:40]!r}"
        raise DataError.at(place, found, "ids", f"put the ids under {_IDS[role]}")


def documents_and_values(documents: Any, place: str, role: str) -> list[tuple[Any, Any]]:
    """Return the documents of one query with their grades or scores.

    A list is a ranking whose first document is the best, or a list of relevant documents, whose grades are 1.

    Raises DataError: something that is no id, a ranking without an order, or values for some of its documents only.
    """
    if isinstance(documents, Mapping):
        return list(documents.items())
    if not isinstance(documents, _ONE_LIST):
        expected = "a list of ids, the best first" if role == "run" else "a set of ids, or {document: grade}"
        raise DataError.at(place, f"holds {type(documents).__name__} instead of documents", expected)
    if role == "run" and isinstance(documents, set | frozenset):
        raise DataError.at(place, "is a set, which has no order", "a list of ids, the best first")
    cells = [
        _document_and_value(cell, f"{place}[{index}]", role) for index, cell in enumerate(in_order(documents))
    ]
    valueless = [index for index, (_, value) in enumerate(cells) if value is None]
    if len(valueless) == len(cells):
        values = values_without_scores(np.array([len(cells)]), role).tolist()
        return [(document, value) for (document, _), value in zip(cells, values, strict=True)]
    if valueless:
        word = WORD[role]
        found = f"has no {word}, and others have"
        raise DataError.at(f"{place}[{valueless[0]}]", found, f"a {word} for all or for none")
    return cells


UNSCORED: dict[str, set[type]] = {"run": {list, tuple}, "qrels": {list, tuple, set, frozenset}}
"""Lists of plain ids, whose order is that of a ranking, and in judgments also sets."""


def in_order(documents: Any) -> Any:
    """Return the documents of one query, those of a set sorted, so that its rows have the same order each time."""
    return sorted(documents, key=str) if isinstance(documents, set | frozenset) else documents


def values_without_scores(sizes: Ints, role: str) -> Floats:
    """Return the values of the documents (n_rows,) of lists (n_lists,) without any: falling ones, or grades of 1."""
    if role == "qrels":
        return np.ones(int(sizes.sum()))
    steps = np.full(int(sizes.sum()), -1.0)
    filled = sizes[sizes > 0]
    steps[np.cumsum(filled)[:-1]] += filled[:-1]  # each list begins at -1 again
    return np.cumsum(steps, out=steps)


def _document_and_value(cell: Any, place: str, role: str) -> tuple[Any, Any]:
    """Return a document, and its grade or score or None, of an id, a pair or an object such as ``{"id": "d1"}``."""
    if _is_pair(cell):
        return cell[0], cell[1]
    if not isinstance(cell, Mapping):
        if cell is not None and not _is_id(cell):
            found = f"is {str(cell)[:60]!r}, a {type(cell).__name__}"
            raise DataError.at(place, found, "an id: text or an integer")
        return cell, None
    document = column_among((*LISTINGS["document"], "id"), list(cell))
    if document is None:
        raise DataError.at(place, f"has {', '.join(map(str, cell))}", "an id, such as document_id")
    value = column_among(LISTINGS[WORD[role]], list(cell))
    if value is None:
        return cell[document], None
    return cell[document], cell[value]
