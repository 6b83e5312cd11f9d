"""TREC judgments (qrels) and rankings (runs), formats like them, and the join of both by trec_eval's rules.

A run's rows are ordered by scores alone. An iteration that is not the same in all lines of qrels is a subtopic.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltr_harness._util.text import count_of, shortened
from ltr_harness.data.arrays import Bools, read_only, sealed
from ltr_harness.data.judgments import Judgments, NarrowJudgments, Subtopics
from ltr_harness.data.queries import QueryGroups
from ltr_harness.data.readers import trec_kernels as kernels
from ltr_harness.data.readers.trec_lines import WITHOUT_BLANKS, Lines, NameColumn, PackedNames, number_of
from ltr_harness.errors import Caution, DataError

Namer = Callable[[NDArray[np.int64]], NDArray[np.str_]]
"""A function from rows (n,) to their names (n,)."""


@dataclass(frozen=True, eq=False)
class LateJudgments(NarrowJudgments):
    """Judgments whose rows get labels of eight bytes, and names, on request."""

    names: Namer = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        del self.__dict__["document_ids"]

    @cached_property  # type: ignore[misc]  # read only, as the field is
    def document_ids(self) -> NDArray[Any] | None:
        names = self.documents_of(np.arange(self.groups.n_rows))
        return None if names is None else sealed(names)

    def documents_of(self, rows: NDArray[np.int64]) -> NDArray[Any] | None:
        """See `Judgments`; other rows get no name. Shapes: `rows` (n,)."""
        return self.names(rows)

    def take(self, queries: NDArray[np.int64]) -> Judgments:
        """Return the judgments of some queries, with labels and names on request too. Shapes: `queries` (n_kept,)."""
        judgments = Judgments(self._given, self.groups, self.query_weights, None, self.judged, self.subtopics)
        return LateJudgments(**vars(judgments.take(queries)), names=partial(self._names_of_queries, queries))

    def _names_of_queries(self, queries: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.str_]:
        """Return the names of rows (n,) of these queries (n_kept,)."""
        return self.names(self.groups.take(queries)[1][rows])


def select_names(names: Namer, subset: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.str_]:
    """Return the names of rows (n,) of a subset of the rows that `names` takes."""
    return names(subset[rows])


_RUN = "query Q0 document rank score tag"
A_SCORE = "a number: every document needs a score"
SEVERAL_CURE = "make one label of several judgments with several: majority (--several majority)"
CHUNKS_CURE = "count a document at its first chunk with documents_of='#' (--documents-of '#')"

LARGEST_GRADE = 2**53
"""From here on not every integer is a float64."""


@dataclass(frozen=True, eq=False)
class _Listed:
    """Documents of queries, one a line."""

    path: Path
    queries: NameColumn  # each line's query
    documents: NameColumn | PackedNames  # each line's document
    form: str = field(kw_only=True)  # what the file, or whatever it is, was recognised as
    cautions: tuple[Caution, ...] = field(default=(), kw_only=True)


@dataclass(frozen=True, eq=False)
class Qrels(_Listed):
    """Judgments of documents."""

    # (n_lines,), int64, or float64 where judgments are no whole numbers; negative: in the pool, but nobody judged it
    grades: NDArray[np.int64] | NDArray[np.float64]
    subtopics: Subtopics | None = None  # of the lines; None where the judgments name none
    # the place of a line, for messages
    place: Callable[[int], str] | None = field(default=None, kw_only=True)

    @property
    def n_queries(self) -> int:
        return self.queries.values.size

    @cached_property
    def judgments(self) -> Judgments:
        """The pool without any run: the same whatever run is joined to it."""
        order = np.argsort(self.queries.codes, kind="stable")
        grades = self.grades[order].astype(np.float64)
        return LateJudgments(
            np.maximum(grades, 0),
            QueryGroups.from_sizes(np.bincount(self.queries.codes), self.queries.values),
            judged=grades >= 0,
            subtopics=None if self.subtopics is None else self.subtopics.take(order),
            names=partial(select_names, self.documents.values_at, order),
        )


@dataclass(frozen=True, eq=False)
class TrecRun(_Listed):
    """Ranking of a system."""

    scores: NDArray[np.float64]  # (n_lines,), higher ranks first; never NaN
    tag: str  # the run's name in the file, that of the last line where there are several


def read_qrels(
    path: str | Path,
    fields: str = "query iteration document grade",
    form: str = "TREC qrels",
    *,
    allow_repeats: bool = False,
) -> Qrels:
    """Read judgments from a file with these fields; repeats may be allowed, whatever the second column says."""
    lines = Lines(Path(path), fields, more=False)
    queries, documents = lines.names("query"), lines.texts("document")
    grades = _levels(lines) if "level" in fields else _integer_grades(lines)
    subtopics = lines.names("iteration") if "iteration" in fields and not allow_repeats else None
    if subtopics is not None and subtopics.values.size == 1:
        subtopics = None
    if not allow_repeats:
        _refuse_repeats(lines, queries, documents, grades, "judged", subtopics)
    lines.finish()
    place = lambda row: f"{lines.path}:{lines.line(row)}"  # noqa: E731
    qrels = Qrels(lines.path, queries, documents, grades.astype(np.int64), form=form, place=place)
    return qrels if subtopics is None else merge_subtopics(qrels, subtopics, "the second column")


def _levels(lines: Lines) -> NDArray[np.float64]:
    """Return the grades (n_lines,) of levels as NTCIREVAL writes them, and report those that are none."""
    levels = lines.names("level")
    matches = [re.fullmatch(r"L([0-9]{1,9})", level) for level in levels.values.tolist()]
    grades = np.array([np.nan if match is None else float(match[1]) for match in matches])[levels.codes]
    expected = "a level of relevance, such as L0, L1, L2"
    lines.report(np.isnan(grades), lambda row: f"the level is {lines.text(row, 'level')}", expected)
    return grades


def _integer_grades(lines: Lines) -> NDArray[np.float64]:
    """Return the grades (n_lines,), and report those with a fraction or too large."""
    expected = "an integer, such as 0, 1, 2, or -1 for what nobody judged"
    grades = lines.numbers("grade", expected)
    bad = (np.abs(grades) >= LARGEST_GRADE) | (~np.isnan(grades) & (grades != np.floor(grades)))
    lines.report(bad, lambda row: f"the grade is {lines.text(row, 'grade')}", expected)
    return grades


def merge_subtopics(qrels: Qrels, subtopics: NameColumn, location: str) -> Qrels:
    """Return judgments by subtopic as one for each document, with its highest grade, and the grades beside it."""
    queries, documents, grades = qrels.queries, qrels.documents, qrels.grades
    pair = queries.codes * documents.values.size + documents.codes
    _, first, of_line = np.unique(pair, return_index=True, return_inverse=True)
    order = np.argsort(first)
    row, lines = np.argsort(order)[of_line], first[order]
    highest = grades[lines]
    np.maximum.at(highest, row, grades)
    # numbered within each query, by name, those with a relevant document alone: the file's order changes nothing
    relevant = np.flatnonzero(grades > 0)
    by_name = np.argsort(np.argsort(subtopics.values))
    start = queries.codes[relevant] * by_name.size
    distinct, number = np.unique(start + by_name[subtopics.codes[relevant]], return_inverse=True)
    number -= np.searchsorted(distinct, start)
    cautions = qrels.cautions
    if n_several := int(np.count_nonzero(np.bincount(row) > 1)):
        finding = f"{count_of(n_several, 'document')} with judgments for several subtopics ({location})"
        text = f"{finding}; metrics that know no subtopics take the highest grade"
        cautions = (*cautions, Caution("several-subtopics", "note", text, place=str(qrels.path)))
    return replace(
        qrels,
        queries=NameColumn.by_row(queries.values, queries.codes[lines]),
        documents=NameColumn.by_row(documents.values, documents.codes[lines]),
        grades=highest,
        subtopics=Subtopics.of(row[relevant], number, grades[relevant].astype(np.float64)),
        cautions=cautions,
        place=None if qrels.place is None else lambda row: str(qrels.place and qrels.place(lines[row])),
    )


def read_marco_run(path: str | Path, *, allow_repeats: bool = False) -> TrecRun:
    """Read a ranking in MS MARCO's form, lines ``query document rank``; rank 1 is the best."""
    expected = "a rank: an integer, 1 for the best (a run with scores has six columns)"
    lines = Lines(Path(path), "query document rank", more=False)
    queries, documents = lines.names("query"), lines.texts("document")
    ranks = lines.numbers("rank", expected)
    lines.report(
        ~np.isnan(ranks) & ((ranks < 1) | (ranks != np.floor(ranks))),
        lambda row: f"the rank is {lines.text(row, 'rank')}",
        expected,
    )
    if not allow_repeats:
        _refuse_repeats(lines, queries, documents, ranks, "listed")
    lines.finish()
    return TrecRun(lines.path, queries, documents, -ranks, "", form="MS MARCO run (query document rank)")


def read_run(path: str | Path, *, allow_repeats: bool = False) -> TrecRun:
    """Read a ranking from a file; documents may be allowed to stand in a list several times."""
    lines = Lines(Path(path), _RUN, more=True)
    queries, documents, tags = lines.names("query"), lines.texts("document"), lines.names("tag")
    _refuse_blanks_in_ids(lines, tags)
    scores = lines.numbers("score", A_SCORE)
    if not allow_repeats:
        _refuse_repeats(lines, queries, documents, scores, "listed")
    lines.finish()
    cautions = []
    if tags.values.size > 1:
        tag_list = f"{count_of(tags.values.size, 'run tag')} ({shortened(tags.values, 3)})"
        text = f"{tag_list}; the last line's is used"
        cautions.append(Caution("several-run-tags", "note", text, place=str(path)))
    # whether the ranks, which nothing is computed from, tell another story than the scores
    ranks, n_queries = lines.numbers_if_all_are("rank"), queries.values.size
    if ranks is None:
        text = "the ranks are not all numbers; only scores are used, so this changes nothing"
        cautions.append(Caution("ranks-without-numbers", "note", text, place=str(lines.path)))
    else:
        n = kernels.contrary_queries(queries.of_block, queries.starts, scores, ranks, n_queries)
        if n < 0:  # the rows of a query do not stand together
            codes, order = queries.codes, np.lexsort((-scores, queries.codes))
            above, row = order[:-1], order[1:]
            contrary = codes[row] == codes[above]
            contrary &= (scores[row] < scores[above]) & (ranks[row] < ranks[above])
            n = np.unique(codes[row][contrary]).size
        if n:
            finding = f"ranks contradict the scores in {n:,} of {count_of(n_queries, 'query')}"
            text = f"{finding}; scores are used, higher first"
            cautions.append(Caution("contradictory-ranks", "warning", text, place=str(lines.path)))
    tag = str(tags.values[tags.of_block[-1]])
    return TrecRun(lines.path, queries, documents, scores, tag, form="TREC run", cautions=tuple(cautions))


def _refuse_blanks_in_ids(lines: Lines, tags: NameColumn) -> None:
    """Raise where the scores stand in place of the tag, which blanks in the ids before it have moved."""
    if tags.values.size == 1:  # a tag that begins with a number
        return
    numeric = np.array([not np.isnan(number_of(tag.encode())) for tag in tags.values.tolist()])
    blocks = np.flatnonzero(numeric[tags.of_block])
    if not blocks.size:
        return
    row = int(tags.starts[blocks[0]])
    n_fields = lines.n_fields(row)
    if n_fields > len(_RUN.split()):
        found = f"the line has {n_fields} fields, and {lines.text(row, 'tag')} in place of the tag: an id has a blank"
        raise DataError.at(f"{lines.path}:{lines.line(row)}", found, f"`{_RUN}`", WITHOUT_BLANKS)


def lists_of(queries: NameColumn, *subtopics: NameColumn) -> NameColumn:
    """Return the lists of documents: the queries, or each subtopic of each query where there are subtopics."""
    for names in subtopics:
        queries = NameColumn.by_row(queries.values, queries.codes * names.values.size + names.codes)
    return queries


def may_repeat(queries: NameColumn, documents: PackedNames) -> bool:
    """Return whether a document may stand twice in one query: False is certain, and sooner than `line_before`."""
    order, boundaries = np.empty(0, dtype=np.int64), queries.starts
    if queries.of_block.size != queries.values.size:  # the rows of a query do not stand together
        order, sizes = np.argsort(queries.codes, kind="stable"), np.bincount(queries.codes)
        boundaries = np.concatenate([[0], np.cumsum(sizes)])
    return kernels.has_twice(order, boundaries, documents.packed, documents.offsets)


def line_before(queries: NameColumn, documents: NameColumn | PackedNames) -> NDArray[np.int64]:
    """Return the last row (n_rows,) before each that has its query and document; -1 without one."""
    key = queries.codes * documents.values.size + documents.codes
    order = np.argsort(key, kind="stable")
    repeats = np.flatnonzero(key[order][1:] == key[order][:-1]) + 1
    before = np.full(key.size, -1)
    before[order[repeats]] = order[repeats - 1]
    return before


def _refuse_repeats(
    lines: Lines,
    queries: NameColumn,
    documents: PackedNames,
    values: NDArray[Any],  # (n_lines,), grades, ranks or scores
    verb: str,
    subtopics: NameColumn | None = None,
) -> None:
    """Report the first document that is listed again for the same query, or the same subtopic of one."""
    if subtopics is None and not may_repeat(queries, documents):
        return
    lists = lists_of(queries) if subtopics is None else lists_of(queries, subtopics)
    before = line_before(lists, documents)

    def found(row: int) -> str:
        subtopic = "" if subtopics is None else f" and subtopic {lines.text(row, 'iteration')}"
        return (
            f"document {str(documents.values[documents.codes[row]])!r} is {verb} for query "
            f"{str(queries.values[queries.codes[row]])!r}{subtopic} on line {lines.line(int(before[row]))} already"
        )

    expected = "each document once per query"
    other_cure = CHUNKS_CURE if verb == "listed" else SEVERAL_CURE
    if subtopics is not None:
        # one label of several judgments would be one over all subtopics
        expected, other_cure = f"{expected} and subtopic (the second column)", ""
    lines.report_repeats(before, found, expected, values, other_cure)


@dataclass(frozen=True, eq=False)
class Joined:
    """A run beside the judgments of its queries: what `evaluate_bound` takes."""

    # in each query the rows that the run lists, in its order, then those that were judged and are not listed; queries
    # in the order of the qrels. A row that nobody judged has label 0
    judgments: Judgments
    scores: NDArray[np.float64]  # (n_rows,); 0 where the row is not listed
    # (n_rows,), rows that the run lists. The others have no rank, and count in R and in the ideal list
    retrieved: NDArray[np.bool_]
    cautions: tuple[Caution, ...]  # which queries were left out, and the run's own


def join(
    qrels: Qrels, run: TrecRun, *, complete: bool = False, judged_only: bool = False, depth: int | None = None
) -> Joined:
    """Join a run with the judgments of its queries by trec_eval's rules; cautions name the queries left out."""
    code_of = {name: code for code, name in enumerate(qrels.queries.values.tolist())}
    in_qrels = np.array([code_of.get(name, -1) for name in run.queries.values.tolist()], dtype=np.int32)
    included = np.zeros(qrels.n_queries, dtype=bool)
    included[in_qrels[in_qrels >= 0]] = True
    if not included.any():
        run_queries, qrels_queries = (shortened(each.queries.values, 3) for each in (run, qrels))
        found = (
            f"has no query of {qrels.path}: its queries are {run_queries}, those of the qrels {qrels_queries}"
        )
        raise DataError.at(run.path, found, "a run over the queries of the qrels")
    cautions = (*run.cautions, *_cautions_on_queries(qrels, run, in_qrels, included, complete))
    if complete:
        included[:] = True
    arrangement = _Arrangement(qrels, run, in_qrels, included, judged_only, depth)
    most = run.scores.size + qrels.grades.size
    dtype = np.uint8 if np.isin(qrels.grades, np.arange(-1, 256)).all() else np.float64
    labels: NDArray[Any] = np.zeros(most, dtype)
    (judged, retrieved), scores = np.zeros((2, most), dtype=bool), np.zeros(most)
    line = np.empty(0 if qrels.subtopics is None else most, dtype=np.int32)
    run_scores = run.scores
    if np.isneginf(run_scores).any():  # elsewhere that says "not listed": any numbers in the same order do
        run_scores = np.unique(run_scores, return_inverse=True)[1].astype(np.float64)
    sizes = arrangement.fill(
        run_scores, (labels, judged, retrieved, scores), (np.empty(0, dtype=np.int32), line)
    )
    n = int(sizes.sum())
    judgments = LateJudgments(
        labels[:n],
        QueryGroups.from_sizes(sizes[included], qrels.queries.values[included]),
        judged=judged[:n],
        subtopics=None if qrels.subtopics is None else qrels.subtopics.take(line[:n].astype(np.int64)),
        names=arrangement.names,
    )
    return Joined(judgments, scores[:n], retrieved[:n], cautions)


def _cautions_on_queries(
    qrels: Qrels, run: TrecRun, in_qrels: NDArray[np.int32], included: Bools, complete: bool
) -> Iterator[Caution]:
    """Yield a caution on the queries that the run alone has, and one on those that the qrels alone have."""
    unknown, lacking = run.queries.values[in_qrels < 0], qrels.queries.values[~included]
    if unknown.size:
        finding = f"{unknown.size:,} of its {count_of(in_qrels.size, 'query')} are not in the qrels"
        text = f"{finding} and are left out: {shortened(unknown, 3)}"
        yield Caution("unknown-queries", "note", text, place=str(run.path))
    if lacking.size:
        fate = "count with nothing listed" if complete else "are left out (--all-queries counts them)"
        n_of_all = f"{lacking.size:,} of the {count_of(included.size, 'query')}"
        text = f"{n_of_all} of the qrels are not in the run and {fate}: {shortened(lacking, 3)}"
        yield Caution("absent-queries", "note", text, place=str(run.path))


class _Arrangement:
    """The rows of a run and of its judgments, query by query, as `arrange` takes them."""

    def __init__(
        self,
        qrels: Qrels,
        run: TrecRun,
        in_qrels: NDArray[np.int32],
        included: NDArray[np.bool_],
        judged_only: bool,
        depth: int | None,
    ) -> None:
        code_of_block = in_qrels[run.queries.of_block]
        blocks = np.argsort(code_of_block, kind="stable")[np.count_nonzero(code_of_block < 0) :]
        bounds, codes = np.arange(qrels.n_queries + 1), qrels.queries.codes
        lines = np.argsort(codes, kind="stable")
        listed = np.empty(0, dtype=bool) if depth is None else ranks_in(run) <= depth
        judged = np.searchsorted(codes[lines], bounds), lines, qrels.grades.astype(np.float64)
        self._included, self._most = included, run.scores.size + qrels.grades.size
        self._listed, self._judged = run.documents, qrels.documents
        self._blocks = np.searchsorted(code_of_block[blocks], bounds), blocks, run.queries.starts
        self._names = listed, run.documents.spans, judged, qrels.documents.spans, judged_only, included

    def fill(
        self,
        scores: NDArray[np.float64],
        columns: tuple[NDArray[Any], NDArray[np.bool_], NDArray[np.bool_], NDArray[np.float64]],
        sources: tuple[NDArray[np.int32], NDArray[np.int32]],
    ) -> NDArray[np.int64]:
        """Fill columns and sources as `arrange` does, and return the number of rows of each query."""
        sizes = np.zeros(self._included.size, dtype=np.int64)
        kernels.arrange((*self._blocks, read_only(scores)), *self._names, sizes, columns, sources)
        return sizes

    @cached_property
    def sources(self) -> NDArray[np.int32]:
        """A row of the run, or -1 - line of the judgments, for each row; only names need them."""
        labels, flags, nothing = np.zeros(self._most, np.uint8), np.zeros(self._most, dtype=bool), np.empty(0)
        rows, lines = np.empty(self._most, dtype=np.int32), np.empty(0, dtype=np.int32)
        self.fill(nothing, (labels, flags, flags, nothing), (rows, lines))
        return rows

    def names(self, rows: NDArray[np.int64]) -> NDArray[np.str_]:
        """Return the documents of rows (n,)."""
        sources = self.sources[rows].astype(np.int64)
        is_listed = sources >= 0
        listed = self._listed.values_at(sources[is_listed])
        judged = self._judged.values_at(-1 - sources[~is_listed])
        names = np.empty(sources.size, dtype=np.promote_types(listed.dtype, judged.dtype))
        names[is_listed], names[~is_listed] = listed, judged
        return names


def ranks_in(run: TrecRun) -> NDArray[np.int64]:
    """Return each line's rank, from 1: by score, and by document id, descending, where scores tie."""
    codes, scores = run.queries.codes, run.scores
    order = np.lexsort((-scores, codes))
    above, row = order[:-1], order[1:]
    if ((codes[row] == codes[above]) & (scores[row] == scores[above])).any():
        names = run.documents.values
        by_name = np.empty(names.size, dtype=np.int64)
        by_name[np.argsort(names)] = np.arange(names.size)
        order = np.lexsort((-by_name[run.documents.codes], -scores, codes))
    sizes = np.bincount(codes)
    ranks = np.empty(order.size, dtype=np.int64)
    ranks[order] = np.arange(order.size) - np.repeat(np.cumsum(sizes) - sizes, sizes) + 1
    return ranks
