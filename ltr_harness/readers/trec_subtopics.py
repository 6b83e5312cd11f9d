"""Judgments by subtopic, as TREC's diversity qrels have them: a line for each document and subtopic of a query."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ltr_harness.readers.trec_columns import Names, Texts
from ltr_harness.subtopics import Subtopics


class ByDocument(NamedTuple):
    """Lines brought together, one judgment for each document of a query.

    Attributes:
        lines: int64 (n_documents,), the first line about each, ascending.
        grades: (n_documents,), the highest for any subtopic.
        subtopics: of the documents.
        n_several: documents with more than one line.
    """

    lines: NDArray[np.int64]
    grades: NDArray[Any]
    subtopics: Subtopics
    n_several: int


def by_document(
    queries: Names, documents: Names | Texts, grades: NDArray[Any], subtopics: Names
) -> ByDocument:
    """One judgment for each document of a query from lines of which none comes twice.

    Shapes: `grades` (n_lines,).
    """
    pair = queries.codes * documents.values.size + documents.codes
    _, first, of_line = np.unique(pair, return_index=True, return_inverse=True)
    order = np.argsort(first)
    row = np.argsort(order)[of_line]
    highest = grades[first[order]]
    np.maximum.at(highest, row, grades)
    # numbered within each query, by name, those with a relevant document alone: the file's order changes nothing
    relevant = np.flatnonzero(grades > 0)
    by_name = np.argsort(np.argsort(subtopics.values))
    start = queries.codes[relevant] * by_name.size
    distinct, number = np.unique(start + by_name[subtopics.codes[relevant]], return_inverse=True)
    number -= np.searchsorted(distinct, start)
    pairs = Subtopics.of(row[relevant], number, grades[relevant].astype(np.float64))
    return ByDocument(first[order], highest, pairs, int(np.count_nonzero(np.bincount(row) > 1)))
