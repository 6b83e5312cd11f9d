"""TREC's two files, judgments (qrels) and rankings (runs), and their relatives.

Qrels are lines ``query iteration document grade``, runs ``query Q0 document rank score tag``, separated by any
white space, plain or compressed; what stands in a run after the tag is ignored. The order of a run's rows
comes from its scores alone. An iteration that is not the same in all lines is the subtopic that a judgment is about.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ltr_harness.groups import Judgments, QueryGroups
from ltr_harness.readers import trec_hashes as hashes
from ltr_harness.readers import trec_kernels as kernels
from ltr_harness.readers.trec_columns import Names, Texts
from ltr_harness.readers.trec_judgments import judgments_of, of_some
from ltr_harness.readers.trec_lines import Lines
from ltr_harness.readers.trec_subtopics import by_document
from ltr_harness.subtopics import Subtopics
from ltr_harness.wording import count_of

LARGEST_GRADE = 2**53
"""From here on not every integer is a float64."""


@dataclass(frozen=True, eq=False)
class Qrels:
    """What people said about documents.

    Attributes:
        path: the file.
        queries: each line's query.
        documents: each line's document.
        grades: (n_lines,), int64, or float64 where judgments are no whole numbers; negative: in the pool, but nobody
            judged it.
        form: what the file, or whatever it is, was recognised as.
        subtopics: of the lines; None where the judgments name none.
        notes: what a reader of the numbers should know.
    """

    path: Path
    queries: Names
    documents: Names | Texts
    grades: NDArray[np.int64] | NDArray[np.float64]
    form: str = "TREC qrels"
    subtopics: Subtopics | None = None
    notes: tuple[str, ...] = ()

    @property
    def n_queries(self) -> int:
        return self.queries.values.size

    @cached_property
    def judgments(self) -> Judgments:
        """The pool without any run: the same whatever run is joined to it."""
        order = np.argsort(self.queries.codes, kind="stable")
        grades = self.grades[order].astype(np.float64)
        return judgments_of(
            np.maximum(grades, 0),
            grades >= 0,
            QueryGroups.from_sizes(np.bincount(self.queries.codes), self.queries.values),
            None if self.subtopics is None else self.subtopics.take(order),
            partial(of_some, self.documents.of, order),
        )


@dataclass(frozen=True, eq=False)
class TrecRun:
    """What a system ranked.

    Attributes:
        path: the file.
        tag: the run's name in the file, that of the last line where there are several.
        queries: each line's query.
        documents: each line's document.
        scores: float64 (n_lines,), higher ranks first; never NaN.
        notes: what a reader of the numbers should know.
        form: what the file, or whatever it is, was recognised as.
    """

    path: Path
    tag: str
    queries: Names
    documents: Names | Texts
    scores: NDArray[np.float64]
    notes: tuple[str, ...] = ()
    form: str = "TREC run"


def read_qrels(
    path: str | Path, fields: str = "query iteration document grade", form: str = "TREC qrels"
) -> Qrels:
    """Judgments from a file.

    Raises:
        DataError: with file and line, every line of other fields, every grade that is not an integer, and every
            document that is judged twice for a query, or for a subtopic of one.
    """
    expected = "an integer, such as 0, 1, 2, or -1 for what nobody judged"
    lines = Lines(Path(path), fields, more=False)
    queries, documents = lines.names("query"), lines.texts("document")
    grades = lines.numbers("grade", expected)
    lines.report(
        (np.abs(grades) >= LARGEST_GRADE) | (~np.isnan(grades) & (grades != np.floor(grades))),
        lambda row: f"the grade is {lines.text(row, 'grade')}",
        expected,
    )
    subtopics = lines.names("iteration") if "iteration" in fields else None
    if subtopics is None or subtopics.values.size == 1:
        _refuse_twice(lines, queries, documents, "judged")
        lines.finish()
        return Qrels(lines.path, queries, documents, grades.astype(np.int64), form)
    _refuse_twice(lines, queries, documents, "judged", subtopics)
    lines.finish()
    each = Qrels(lines.path, queries, documents, grades.astype(np.int64), form)
    return of_subtopics(each, subtopics, "the second column")


def of_subtopics(each: Qrels, subtopics: Names, where: str) -> Qrels:
    """Judgments by subtopic as one judgment for each document, its highest grade, and the grades beside it."""
    judged = by_document(each.queries, each.documents, each.grades, subtopics)
    notes = each.notes
    if judged.n_several:
        said = f"{count_of(judged.n_several, 'document')} with judgments for several subtopics ({where})"
        notes = (*notes, f"{each.path}: {said}; metrics that know no subtopics take the highest grade")
    return replace(
        each,
        queries=Names.by_row(each.queries.values, each.queries.codes[judged.lines]),
        documents=Names.by_row(each.documents.values, each.documents.codes[judged.lines]),
        grades=judged.grades,
        subtopics=judged.subtopics,
        notes=notes,
    )


def read_ntcir_qrels(path: str | Path) -> Qrels:
    """Judgments in NTCIREVAL's form, lines ``query document L2``.

    Raises:
        DataError: with file and line, every line of another form and every document that is judged twice for a query.
    """
    lines = Lines(Path(path), "query document level", more=False)
    queries, documents, levels = lines.names("query"), lines.texts("document"), lines.names("level")
    forms = [re.fullmatch(r"L([0-9]{1,9})", level) for level in levels.values.tolist()]
    lines.report(
        np.array([form is None for form in forms])[levels.codes],
        lambda row: f"the level is {lines.text(row, 'level')}",
        "a level of relevance, such as L0, L1, L2",
    )
    _refuse_twice(lines, queries, documents, "judged")
    lines.finish()
    grades = np.array([0 if form is None else int(form[1]) for form in forms], dtype=np.int64)
    return Qrels(lines.path, queries, documents, grades[levels.codes], "NTCIR qrels (query document L2)")


def read_marco_run(path: str | Path) -> TrecRun:
    """A ranking in MS MARCO's form, lines ``query document rank``; rank 1 is the best.

    Raises:
        DataError: with file and line, every line of another form, every rank that is no integer from 1 on, and every
            document that is listed twice for a query.
    """
    expected = "a rank: an integer, 1 for the best (a run with scores has six columns)"
    lines = Lines(Path(path), "query document rank", more=False)
    queries, documents = lines.names("query"), lines.texts("document")
    ranks = lines.numbers("rank", expected)
    lines.report(
        ~np.isnan(ranks) & ((ranks < 1) | (ranks != np.floor(ranks))),
        lambda row: f"the rank is {lines.text(row, 'rank')}",
        expected,
    )
    _refuse_twice(lines, queries, documents, "listed")
    lines.finish()
    return TrecRun(lines.path, "", queries, documents, -ranks, form="MS MARCO run (query document rank)")


def read_run(path: str | Path) -> TrecRun:
    """A ranking from a file.

    Raises:
        DataError: with file and line, every line that is not ``query Q0 document rank score tag``, every score
            that is no number, and every document that is listed twice for a query.
    """
    lines = Lines(Path(path), "query Q0 document rank score tag", more=True)
    queries, documents, tags = lines.names("query"), lines.texts("document"), lines.names("tag")
    scores = lines.numbers("score", "a number: every document needs a score")
    _refuse_twice(lines, queries, documents, "listed")
    lines.finish()
    notes = []
    if tags.values.size > 1:
        notes.append(
            f"{path}: {count_of(tags.values.size, 'run tag')} ({some_of(tags.values)}); the last line's is used"
        )
    notes += _rank_notes(lines, queries, scores)
    return TrecRun(lines.path, str(tags.values[tags.of_block[-1]]), queries, documents, scores, tuple(notes))


def lists_of(queries: Names, *subtopics: Names) -> Names:
    """The queries, told apart by subtopic too where there are any."""
    for one in subtopics:
        queries = Names.by_row(queries.values, queries.codes * one.values.size + one.codes)
    return queries


def line_before(queries: Names, documents: Names | Texts) -> NDArray[np.int64]:
    """Where each row's query and document stood last before it; -1 where they did not."""
    key = queries.codes * documents.values.size + documents.codes
    order = np.argsort(key, kind="stable")
    again = np.flatnonzero(key[order][1:] == key[order][:-1]) + 1
    before = np.full(key.size, -1)
    before[order[again]] = order[again - 1]
    return before


def by_query(queries: Names) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows query by query, in their order; empty where they stand so; and where each query begins."""
    if queries.of_block.size == queries.values.size:
        return np.empty(0, dtype=np.int64), queries.starts
    codes = queries.codes
    boundaries = np.concatenate([[0], np.cumsum(np.bincount(codes, minlength=queries.values.size))])
    return np.argsort(codes, kind="stable"), boundaries


def _refuse_twice(
    lines: Lines, queries: Names, documents: Texts, what: str, subtopics: Names | None = None
) -> None:
    """Report every document that is listed again for the same query, or the same subtopic of one."""
    if subtopics is None and not hashes.has_twice(*by_query(queries), documents.packed, documents.offsets):
        return
    before = line_before(lists_of(queries, *([] if subtopics is None else [subtopics])), documents)

    def found(row: int) -> str:
        subtopic = "" if subtopics is None else f" and subtopic {lines.text(row, 'iteration')}"
        return (
            f"document {str(documents.values[documents.codes[row]])!r} is {what} for query "
            f"{str(queries.values[queries.codes[row]])!r}{subtopic} on line {lines.line(int(before[row]))} already"
        )

    each = "each document once per query" + ("" if subtopics is None else " and subtopic (the second column)")
    lines.report(before >= 0, found, each)


def _rank_notes(lines: Lines, queries: Names, scores: NDArray[np.float64]) -> list[str]:
    """Whether the ranks, which nothing is computed from, tell another story than the scores."""
    ranks = lines.numbers_if_all_are("rank")
    if ranks is None:
        return [f"{lines.path}: the ranks are not all numbers; only scores decide, so this changes nothing"]
    n = kernels.contrary_queries(queries.of_block, queries.starts, scores, ranks, queries.values.size)
    if n < 0:
        n = _contrary_queries(queries, scores, ranks)
    if not n:
        return []
    return [
        f"{lines.path}: ranks contradict the scores in {n:,} of {count_of(queries.values.size, 'query')}; the "
        "scores decide, "
        "higher first"
    ]


def _contrary_queries(queries: Names, scores: NDArray[np.float64], ranks: NDArray[np.float64]) -> int:
    """See the kernel; whatever the order of the rows."""
    order = np.lexsort((-scores, queries.codes))
    same = queries.codes[order][1:] == queries.codes[order][:-1]
    contrary = same & (np.diff(scores[order]) < 0) & (np.diff(ranks[order]) < 0)
    return np.unique(queries.codes[order][1:][contrary]).size


def some_of(names: Sequence[str] | NDArray[np.str_]) -> str:
    """The first names, for messages.

    Shapes: `names` (n,).
    """
    return ", ".join(map(str, names[:3])) + (", …" if len(names) > 3 else "")
