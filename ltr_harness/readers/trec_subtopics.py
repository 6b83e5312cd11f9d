"""Judgments by subtopic, as TREC's diversity qrels have them: a line for each document and subtopic of a query."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ltr_harness.readers.trec import Qrels
from ltr_harness.readers.trec_lines import Names
from ltr_harness.subtopics import Subtopics
from ltr_harness.wording import count_of


def by_document(lines: Qrels, subtopics: Names) -> Qrels:
    """One judgment for each document of a query, its highest grade, and beside it the grades by subtopic.

    Args:
        lines: every line a judgment, none twice for one subtopic.
        subtopics: each line's.
    """
    queries, documents, grades = lines.queries, lines.documents, lines.grades
    pair = queries.codes * documents.values.size + documents.codes
    _, first, of_line = np.unique(pair, return_index=True, return_inverse=True)
    order = np.argsort(first)  # as the file has them
    row = np.argsort(order)[of_line]
    first = first[order]
    highest = grades[first]
    np.maximum.at(highest, row, grades)
    # numbered within each query, by name, those with a relevant document alone: the file's order changes nothing
    relevant = np.flatnonzero(grades > 0)
    by_name = np.argsort(np.argsort(subtopics.values))
    start = queries.codes[relevant] * by_name.size
    distinct, number = np.unique(start + by_name[subtopics.codes[relevant]], return_inverse=True)
    number -= np.searchsorted(distinct, start)
    notes = lines.notes
    several = int(np.count_nonzero(np.bincount(row) > 1))
    if several:
        said = f"{count_of(several, 'document')} with judgments for several subtopics of a query (the second column)"
        notes = (*notes, f"{lines.path}: {said}; metrics that know no subtopics take the highest grade")
    return replace(
        lines,
        queries=Names(queries.values, queries.codes[first]),
        documents=Names(documents.values, documents.codes[first]),
        grades=highest,
        subtopics=Subtopics.of(row[relevant], number, grades[relevant].astype(np.float64)),
        notes=notes,
    )
