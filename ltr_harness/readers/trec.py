"""TREC's two files, judgments (qrels) and rankings (runs), their relatives, and the two joined by trec_eval's rules.

Qrels are lines ``query iteration document grade``, runs ``query Q0 document rank score tag``, separated by any
white space, plain or compressed; what stands in a run after the tag is ignored. The order of a run's rows
comes from its scores alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltr_harness.errors import DataError, Problem
from ltr_harness.groups import Judgments, QueryGroups
from ltr_harness.readers.trec_lines import Lines, Names
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
    """

    path: Path
    queries: Names
    documents: Names
    grades: NDArray[np.int64] | NDArray[np.float64]
    form: str = "TREC qrels"

    @property
    def n_queries(self) -> int:
        return self.queries.values.size

    @cached_property
    def judgments(self) -> Judgments:
        """The pool without any run: the same whatever run is joined to it."""
        order = np.argsort(self.queries.codes, kind="stable")
        return _judgments(
            np.bincount(self.queries.codes),
            self.queries.values,
            self.documents.of(order),
            self.grades[order],
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
    documents: Names
    scores: NDArray[np.float64]
    notes: tuple[str, ...] = ()
    form: str = "TREC run"


@dataclass(frozen=True, eq=False)
class Joined:
    """A run beside the judgments of its queries: what `evaluate_bound` takes.

    Attributes:
        judgments: in each query the rows that the run lists, in its order, then those that were judged and are
            not listed; queries in the order of the qrels. A row that nobody judged has label 0.
        scores: float64 (n_rows,); 0 where the row is not listed.
        retrieved: bool (n_rows,), rows that the run lists. The others have no rank, and count in R and in the
            ideal list.
        notes: which queries were left out, and the run's own notes.
    """

    judgments: Judgments
    scores: NDArray[np.float64]
    retrieved: NDArray[np.bool_]
    notes: tuple[str, ...]


def read_qrels(
    path: str | Path, fields: str = "query iteration document grade", form: str = "TREC qrels"
) -> Qrels:
    """Judgments from a file.

    Args:
        path: plain or compressed text.
        fields: what stands in a line.
        form: what such files are called.

    Raises:
        DataError: with file and line, every line of other fields, every grade that is not an integer, and every
            document that is judged twice for a query.
    """
    expected = "an integer, such as 0, 1, 2, or -1 for what nobody judged"
    lines = Lines(Path(path), fields, more=False)
    queries, documents = lines.names("query"), lines.names("document")
    grades = lines.numbers("grade", expected)
    lines.report(
        (np.abs(grades) >= LARGEST_GRADE) | (~np.isnan(grades) & (grades != np.floor(grades))),
        lambda row: f"the grade is {lines.text(row, 'grade')}",
        expected,
    )
    _refuse_twice(lines, queries, documents, "judged")
    lines.finish()
    return Qrels(lines.path, queries, documents, grades.astype(np.int64), form)


def read_ntcir_qrels(path: str | Path) -> Qrels:
    """Judgments in NTCIREVAL's form, lines ``query document L2``.

    Raises:
        DataError: with file and line, every line of another form and every document that is judged twice for a query.
    """
    lines = Lines(Path(path), "query document level", more=False)
    queries, documents, levels = (lines.names(name) for name in ("query", "document", "level"))
    forms = [re.fullmatch(r"L(\d{1,9})", level) for level in levels.values.tolist()]
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
    queries, documents = lines.names("query"), lines.names("document")
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
    queries, documents, tags = lines.names("query"), lines.names("document"), lines.names("tag")
    scores = lines.numbers("score", "a number: every document needs a score")
    _refuse_twice(lines, queries, documents, "listed")
    lines.finish()
    notes = []
    if tags.values.size > 1:
        notes.append(
            f"{path}: {count_of(tags.values.size, 'run tag')} ({_some(tags.values)}); the last line's is used"
        )
    notes += _rank_notes(lines, queries, scores)
    return TrecRun(lines.path, str(tags.values[tags.codes[-1]]), queries, documents, scores, tuple(notes))


def join(
    qrels: Qrels,
    run: TrecRun,
    *,
    complete: bool = False,
    judged_only: bool = False,
    depth: int | None = None,
) -> Joined:
    """A run beside the judgments of its queries, by trec_eval's rules.

    Queries that only one of the files has are left out, and the notes say so. A document that is listed and not
    judged is not relevant; one that is judged and not listed counts among the relevant documents and in the ideal
    list, and earns nothing. A negative grade stands for a document in the pool that nobody judged.

    Args:
        qrels: the judgments.
        run: the ranking.
        complete: keep the queries of the qrels that the run lacks, with nothing listed, so that they count 0
            (trec_eval's ``-c``).
        judged_only: take documents that nobody judged out of the run (trec_eval's ``-J``).
        depth: documents of each query that count; None for all.

    Raises:
        DataError: the two files share no query.
    """
    code_of = {name: code for code, name in enumerate(qrels.queries.values.tolist())}
    in_qrels = np.array([code_of.get(name, -1) for name in run.queries.values.tolist()])
    kept = np.zeros(qrels.n_queries, dtype=bool)
    kept[in_qrels[in_qrels >= 0]] = True
    if not kept.any():
        raise DataError(
            Problem(
                str(run.path),
                f"has no query of {qrels.path}: its queries are {_some(run.queries.values)}, those of the qrels "
                f"{_some(qrels.queries.values)}",
                "a run over the queries of the qrels",
            )
        )
    notes = (*run.notes, *_query_notes(qrels, run, in_qrels, kept, complete))
    if complete:
        kept[:] = True
    query = in_qrels[run.queries.codes]
    line = _judged_lines(qrels, query, run.documents)
    grade = np.where(line >= 0, qrels.grades[line], -1)
    is_listed = query >= 0
    if depth is not None:
        is_listed &= _ranks(run) <= depth
    if judged_only:
        is_listed &= grade >= 0
    listed = np.flatnonzero(is_listed)
    is_unlisted = kept[qrels.queries.codes]
    is_unlisted[line[listed][line[listed] >= 0]] = False
    unlisted = np.flatnonzero(is_unlisted)

    query = np.concatenate([query[listed], qrels.queries.codes[unlisted]])
    order = np.argsort(query, kind="stable")
    judgments = _judgments(
        np.bincount(query, minlength=qrels.n_queries)[kept],
        qrels.queries.values[kept],
        np.concatenate([run.documents.of(listed), qrels.documents.of(unlisted)])[order],
        np.concatenate([grade[listed], qrels.grades[unlisted]])[order],
    )
    scores = np.concatenate([_above_nothing(run.scores)[listed], np.zeros(unlisted.size)])[order]
    return Joined(judgments, scores, order < listed.size, notes)


def _judgments(
    sizes: NDArray[np.int64],
    queries: NDArray[np.str_],
    documents: NDArray[np.str_],
    grades: NDArray[Any],
) -> Judgments:
    return Judgments.checked(
        np.maximum(grades, 0),
        QueryGroups.from_sizes(sizes, queries),
        document_ids=documents,
        judged=grades >= 0,
    )


def _judged_lines(qrels: Qrels, query: NDArray[np.int64], documents: Names) -> NDArray[np.int64]:
    """The line of the qrels that judges each document of a run for its query; -1 where none does."""
    from pyarrow import array
    from pyarrow.compute import index_in

    known = index_in(array(documents.values), value_set=array(qrels.documents.values))
    document = known.fill_null(-1).to_numpy().astype(np.int64)[documents.codes]
    # a (query, document) as one number: the join is a search among sorted integers
    n_documents = qrels.documents.values.size
    judged = qrels.queries.codes * n_documents + qrels.documents.codes
    order = np.argsort(judged)
    wanted = query * n_documents + document
    at = order[np.minimum(np.searchsorted(judged, wanted, sorter=order), judged.size - 1)]
    return np.where((query >= 0) & (document >= 0) & (judged[at] == wanted), at, -1)


def _ranks(run: TrecRun) -> NDArray[np.int64]:
    """Each line's rank, from 1: by score, and by document id, descending, where scores tie."""
    by_name = np.empty(run.documents.values.size, dtype=np.int64)
    by_name[np.argsort(run.documents.values)] = np.arange(by_name.size)
    order = np.lexsort((-by_name[run.documents.codes], -run.scores, run.queries.codes))
    sizes = np.bincount(run.queries.codes)
    ranks = np.empty(order.size, dtype=np.int64)
    ranks[order] = np.arange(order.size) - np.repeat(np.cumsum(sizes) - sizes, sizes) + 1
    return ranks


def _above_nothing(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """The scores, in the same order, without -inf, which elsewhere says that a row is not listed."""
    if not np.isneginf(scores).any():
        return scores
    return np.unique(scores, return_inverse=True)[1].astype(np.float64)


def line_before(queries: Names, documents: Names) -> NDArray[np.int64]:
    """Where each row's query and document stood last before it; -1 where they did not."""
    key = queries.codes * documents.values.size + documents.codes
    order = np.argsort(key, kind="stable")
    again = np.flatnonzero(key[order][1:] == key[order][:-1]) + 1
    before = np.full(key.size, -1)
    before[order[again]] = order[again - 1]
    return before


def _refuse_twice(lines: Lines, queries: Names, documents: Names, what: str) -> None:
    """Report every document that is listed again for the same query."""
    before = line_before(queries, documents)
    lines.report(
        before >= 0,
        lambda row: (
            f"document {str(documents.values[documents.codes[row]])!r} is {what} for query "
            f"{str(queries.values[queries.codes[row]])!r} on line {lines.lines[before[row]]} already"
        ),
        "each document once per query",
    )


def _rank_notes(lines: Lines, queries: Names, scores: NDArray[np.float64]) -> list[str]:
    """Whether the ranks, which nothing is computed from, tell another story than the scores."""
    ranks = lines.numbers_if_all_are("rank")
    if ranks is None:
        return [f"{lines.path}: the ranks are not all numbers; only scores decide, so this changes nothing"]
    order = np.lexsort((-scores, queries.codes))
    same = queries.codes[order][1:] == queries.codes[order][:-1]
    contrary = same & (np.diff(scores[order]) < 0) & (np.diff(ranks[order]) < 0)
    if not contrary.any():
        return []
    n = np.unique(queries.codes[order][1:][contrary]).size
    return [
        f"{lines.path}: ranks contradict the scores in {n:,} of {count_of(queries.values.size, 'query')}; the "
        "scores decide, "
        "higher first"
    ]


def _query_notes(
    qrels: Qrels, run: TrecRun, in_qrels: NDArray[np.int64], kept: NDArray[np.bool_], complete: bool
) -> list[str]:
    notes = []
    unknown = run.queries.values[in_qrels < 0]
    if unknown.size:
        notes.append(
            f"{run.path}: {unknown.size:,} of its {count_of(in_qrels.size, 'query')} are not in the qrels and "
            "are left out: "
            f"{_some(unknown)}"
        )
    lacking = qrels.queries.values[~kept]
    if lacking.size:
        fate = "count with nothing listed" if complete else "are left out (--all-queries counts them)"
        notes.append(
            f"{run.path}: {lacking.size:,} of the {count_of(kept.size, 'query')} of the qrels are not in the run "
            f"and {fate}: "
            f"{_some(lacking)}"
        )
    return notes


def _some(names: Sequence[str] | NDArray[np.str_]) -> str:
    return ", ".join(map(str, names[:3])) + (", …" if len(names) > 3 else "")
