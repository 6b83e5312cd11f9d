"""Judgments of rows: labels, weights, subtopics, and judged documents that were missed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ltr_harness._util.compiled import compiled
from ltr_harness._util.text import count_of
from ltr_harness.data.alignment import refuse_other_queries, refuse_unaligned
from ltr_harness.data.arrays import (
    WORDS_AS_LABELS,
    Bools,
    Floats,
    Ints,
    KeepsArrays,
    as_column,
    as_floats,
    numbers_in,
    read_only,
    refuse_masked,
    sealed,
    truths_as_numbers,
)
from ltr_harness.data.queries import QueryGroups, as_row_flags, as_slice, of_rows, place_of, refuse_repeated
from ltr_harness.errors import DataError, Problem


@dataclass(frozen=True, eq=False)
class Subtopics(KeepsArrays):
    """Grades of rows by subtopic of their query, a meaning or a part of it; a row may have several, most have none."""

    rows: Ints  # int64 (n_pairs,), ascending
    numbers: Ints  # int64 (n_pairs,), which subtopic of the row's query, from 0
    grades: Floats  # float64 (n_pairs,), above 0: what is worth nothing is left out

    @classmethod
    def of(cls, rows: Ints, numbers: Ints, grades: Floats) -> Subtopics:
        """From pairs in any order, each once."""
        order = np.lexsort((numbers, rows))
        order = order[grades[order] > 0]
        return cls(rows[order], numbers[order], grades[order])

    @classmethod
    def of_matrix(cls, grades: ArrayLike, n_rows: int) -> Subtopics:
        """Subtopics from a matrix (n_rows, n_subtopics) of finite grades >= 0, each query's own in its columns."""
        refuse_masked(grades, "subtopics")
        try:
            matrix = np.asarray(grades)
        except ValueError:
            raise DataError(
                "subtopics has rows of different lengths; expected a grade for each subtopic in every row"
            ) from None
        except NotImplementedError as problem:  # Arrow's unions
            raise DataError(f"subtopics cannot be read: {problem}; expected numbers") from None
        matrix = numbers_in(matrix)
        if matrix.ndim != 2 or len(matrix) != n_rows or matrix.dtype.kind not in "biuf":
            raise DataError(
                f"subtopics have the shape {matrix.shape} and dtype {matrix.dtype}; expected numbers, (n_rows, "
                f"n_subtopics), for {count_of(n_rows, 'row')}"
            )
        bad = np.argwhere(~(np.isfinite(matrix) & (matrix >= 0)))
        if len(bad):
            row, column = bad[0].tolist()
            raise DataError(
                f"subtopics[{row}, {column}] is {matrix[row, column]:g} ({len(bad):,} such); expected finite "
                "grades >= 0"
            )
        rows, numbers = np.nonzero(matrix)
        return cls(rows, numbers, matrix[rows, numbers].astype(np.float64))

    def take(self, rows: Ints) -> Subtopics:
        """The given rows (n_kept,) as rows 0, 1, 2, …; -1 stands for a row without subtopics."""
        numbers, pairs = _rows_of_queries(self.rows, rows)
        return Subtopics(numbers, self.numbers[pairs], self.grades[pairs])

    def labels(self, n_rows: int) -> Floats:
        """float64 (n_subtopics, n_rows): every row's grade by the first, the second, … subtopic of its query."""
        grades = np.zeros((int(self.numbers.max(initial=0)) + 1, n_rows))
        grades[self.numbers, self.rows] = self.grades
        return grades


@dataclass(frozen=True, eq=False)
class Grades(KeepsArrays):
    """Labels that are small integers."""

    of_row: NDArray[np.uint8]  # uint8 (n_rows,)
    largest: int

    @classmethod
    def of(cls, labels: NDArray[Any]) -> Grades | None:
        """None if a label does not fit into a byte."""
        if labels.dtype == np.uint8:
            return cls(labels, int(labels.max()))
        grades = np.empty(labels.size, dtype=np.uint8)
        largest = _fit_into_bytes(read_only(labels), grades)
        return None if largest < 0 else cls(sealed(grades), largest)


@dataclass(frozen=True, eq=False)
class MissedDocuments(KeepsArrays):
    """Judged documents that were not among the candidates: they have a label and no rank."""

    queries: Ints  # (n_missed,), ascending: the number of each one's query
    labels: Floats  # (n_missed,), finite
    document_ids: NDArray[Any] | None = None  # (n_missed,) or None
    subtopics: Subtopics | None = None  # of these documents; None where the rows have none

    def take(self, queries: Ints) -> MissedDocuments:
        """Return the missed documents of some queries (n_kept,), which become queries 0, 1, 2, …"""
        numbers, rows = _rows_of_queries(self.queries, queries)
        return MissedDocuments(
            numbers,
            self.labels[rows],
            None if self.document_ids is None else self.document_ids[rows],
            None if self.subtopics is None else self.subtopics.take(rows),
        )


def _rows_of_queries(owners: Ints, queries: Ints) -> tuple[Ints, Ints]:
    """Return the rows of queries (n_kept,) for ascending `owners` (n_rows,), and each row's query among them."""
    first = np.searchsorted(owners, queries)
    counts = np.searchsorted(owners, queries, side="right") - first
    rows = np.repeat(first - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
    return np.repeat(np.arange(queries.size), counts), rows


OneLabel = Literal["majority", "mean", "max", "median"]
"""How several judgments of a document become its label; of equally frequent grades the lowest."""


@dataclass(frozen=True, eq=False)
class RawJudgments(KeepsArrays):
    """Judgments before several of one document became one label; how far they agree is in the data card."""

    queries: Ints  # (n_judgments,), ascending: the number of each one's query
    # (n_judgments,): row among the candidates and, after them, the missed documents of its query
    documents: Ints
    grades: Floats  # (n_judgments,), finite; of one document in the order of the judgments

    def take(self, queries: Ints) -> RawJudgments:
        """Return the judgments of some queries (n_kept,), which become queries 0, 1, 2, …"""
        numbers, rows = _rows_of_queries(self.queries, queries)
        return RawJudgments(numbers, self.documents[rows], self.grades[rows])


def _checked_labels(labels: ArrayLike, groups: QueryGroups) -> tuple[NDArray[Any], Grades | None]:
    """Return labels (n_rows,) in float64, those of a byte in uint8; and the grades that they are."""
    column = truths_as_numbers(as_column(labels, "labels"))
    if column.size != groups.n_rows:
        raise DataError(
            f"{count_of(column.size, 'label')} for {count_of(groups.n_rows, 'row')} in "
            f"{count_of(groups.n_queries, 'query')}; expected one label per row"
        )
    if column.dtype.itemsize == 1 and column.dtype.kind in "iu" and column.min(initial=0) >= 0:
        narrow = sealed(column.astype(np.uint8))
        return narrow, Grades.of(narrow)
    numbers = as_floats(column, copy=True)  # a copy: callers use their buffers again
    if numbers is None:
        found = f"labels are not numbers (dtype {column.dtype})"
        raise DataError(Problem("", found, "finite numbers", WORDS_AS_LABELS))
    grades = Grades.of(numbers)
    if grades is None and not np.isfinite(numbers).all():
        bad = np.flatnonzero(~np.isfinite(numbers))
        raise DataError(f"label {numbers[bad[0]]:g} {place_of(bad, groups)}; expected finite labels")
    return sealed(numbers), grades


def _checked_weights(query_weights: ArrayLike, groups: QueryGroups) -> Floats:
    column = as_column(query_weights, "query_weights")
    weights = as_floats(column, copy=True)
    if weights is None:
        raise DataError(f"query_weights are not numbers (dtype {column.dtype})")
    if weights.size != groups.n_queries:
        raise DataError(
            f"{weights.size} query_weights for {count_of(groups.n_queries, 'query')}; expected one per query"
        )
    if not np.all(np.isfinite(weights) & (weights >= 0)) or not weights.any():
        raise DataError("query_weights must be finite, >= 0 and not all zero")
    return weights


def _checked_flags(judged: ArrayLike, grades: NDArray[Any], groups: QueryGroups) -> Bools:
    """Return which rows (n_rows,) are judged; raise for one that is not, and has a grade."""
    flags = as_row_flags(judged, "judged", groups)
    unjudged = np.flatnonzero(~flags & (grades != 0))
    if unjudged.size:
        place = groups.name(groups.query_of(int(unjudged[0])))
        raise DataError(
            f"label {grades[unjudged[0]]:g} in query {place!r} belongs to a row that is not judged "
            f"({count_of(unjudged.size, 'such row')}); expected label 0 for unjudged rows"
        )
    return flags


@dataclass(frozen=True, eq=False)
class Judgments(KeepsArrays):
    """Judgments of rows: labels in query groups, checked and copied once, read-only and trusted afterwards.

    Attributes:
        labels: float64 (n_rows,), finite.
        groups: the queries; `labels` is in their row order.
        query_weights: float64 (n_queries,) or None; finite, >= 0, not all zero.
        document_ids: (n_rows,) or None; needed by ``ties=id``.
        judged: bool (n_rows,) or None where every row is; an unjudged row has label 0.
        subtopics: what rows are worth for each subtopic of their query; None where not given.
        missed: judged documents that have no row, none where the candidates are known to be all; None where nobody
            said which documents were candidates.
    """

    labels: NDArray[np.float64]
    groups: QueryGroups
    query_weights: NDArray[np.float64] | None = None
    document_ids: NDArray[Any] | None = None
    judged: NDArray[np.bool_] | None = None
    subtopics: Subtopics | None = None
    missed: MissedDocuments | None = None

    def __repr__(self) -> str:
        size = f"{count_of(self.groups.n_queries, 'query')}, {count_of(self.groups.n_rows, 'row')}"
        return f"Judgments({size})"

    @classmethod
    def checked(
        cls,
        labels: ArrayLike,
        groups: QueryGroups,
        *,
        query_weights: ArrayLike | None = None,
        document_ids: ArrayLike | Sequence[str] | None = None,
        judged: ArrayLike | None = None,
        subtopics: Subtopics | None = None,
        retrieved: ArrayLike | None = None,
        recurring: bool = False,
    ) -> Judgments:
        """Judgments from arrays in the groups' row order.

        Args:
            labels: (n_rows,), finite; what is below 0, such as a return, few metrics take.
            groups: which rows form a query.
            query_weights: (n_queries,), how much each query counts; None where all count once.
            document_ids: (n_rows,) names of the rows; None where they have none.
            judged: bool (n_rows,), judged rows; None where all are.
            subtopics: of these rows; None where there are none.
            retrieved: bool (n_rows,), the candidates; the other rows become `missed`. None where all rows are.
            recurring: whether a query may have a document in several rows, as a log of what was shown has.

        Raises:
            DataError: lengths disagree; a label is missing or infinite; a weight is negative,
                not finite, or all are zero; a row is relevant and not judged; a document is in its query twice; no
                row was retrieved. The message names the query.

        Example:
            >>> pool = [3, 1, 2], QueryGroups.from_sizes([2, 1])
            >>> judgments = Judgments.checked(*pool, retrieved=[True, False, False])
            >>> judgments.labels.tolist(), judgments.groups.sizes.tolist(), judgments.missed.labels.tolist()
            ([3.0], [1, 0], [1.0, 2.0])
        """
        columns = {"labels": labels, "document_ids": document_ids, "judged": judged, "retrieved": retrieved}
        refuse_unaligned(columns)
        # the numbers from 0 stand for no names
        if query_weights is not None and not np.array_equal(groups.ids, np.arange(groups.n_queries)):
            refuse_other_queries(query_weights, groups.ids)
        values, grades = _checked_labels(labels, groups)
        weights = None if query_weights is None else _checked_weights(query_weights, groups)
        documents = None
        if document_ids is not None:
            documents = as_column(document_ids, "document_ids")
            if documents.size != groups.n_rows:
                raise DataError(
                    f"{documents.size} document_ids for {count_of(groups.n_rows, 'row')}; expected one per row"
                )
            if not recurring:
                refuse_repeated(documents, groups)
        flags = None if judged is None else _checked_flags(judged, values, groups)
        kind = NarrowJudgments if values.dtype == np.uint8 else cls
        pool = kind(values, groups, weights, documents, flags, subtopics)
        vars(pool)["grades"] = grades  # or its cached property would look at all labels once more
        return pool if retrieved is None else pool.with_missed(as_row_flags(retrieved, "retrieved", groups))

    def with_missed(self, retrieved: NDArray[np.bool_]) -> Judgments:
        """These rows as candidates and missed documents; what was missed and is not judged is nothing at all.

        Args:
            retrieved: bool (n_rows,), the candidates, at least one.
        """
        if not retrieved.any():
            raise DataError("no row was retrieved; expected at least one candidate")
        out = np.flatnonzero(~retrieved if self.judged is None else ~retrieved & self.judged)
        queries = np.searchsorted(self.groups.boundaries, out, side="right") - 1
        subtopics = None if self.subtopics is None else self.subtopics.take(out)
        labels = self._stored_labels[out].astype(np.float64, copy=False)
        missed = MissedDocuments(queries, labels, self.documents_of(out), subtopics)
        groups = QueryGroups.from_counts(self.groups.count(retrieved), self.groups.ids)
        return self._with_rows(retrieved, groups, missed=missed)

    def with_rows(self, rows: NDArray[Any], groups: QueryGroups) -> Judgments:
        """The given rows in these groups; of neighbours nothing is copied.

        Args:
            rows: int64 (n_kept,), or bool (n_rows,), the rows kept.
            groups: of those rows, with the queries of these judgments.
        """
        return self._with_rows(rows, groups)

    def _with_rows(self, rows: NDArray[Any], groups: QueryGroups, **attributes: Any) -> Judgments:
        """Return the given rows, as `with_rows` does, with other attributes."""
        numbers = np.flatnonzero(rows) if rows.dtype == np.bool_ and self.subtopics is not None else rows
        selection = as_slice(rows)
        return replace(
            self,
            labels=of_rows(self._stored_labels, selection),
            groups=groups,
            document_ids=None if self.document_ids is None else of_rows(self.document_ids, selection),
            judged=None if self.judged is None else of_rows(self.judged, selection),
            subtopics=None if self.subtopics is None else self.subtopics.take(numbers),
            **attributes,
        )

    @cached_property
    def pool_rows(self) -> NDArray[np.int64]:
        """int64 (n_rows,): the row of `pool` that each row is; a query's missed documents follow its candidates."""
        if self.missed is None:
            return sealed(np.arange(self.groups.n_rows))
        before = np.searchsorted(self.missed.queries, np.arange(self.groups.n_queries))
        return sealed(np.arange(self.groups.n_rows) + np.repeat(before, self.groups.sizes))

    @property
    def pool(self) -> Judgments:
        """Candidates and missed documents, of which the ideal list and the number of relevant documents are.

        Itself where nobody said which documents were candidates.
        """
        return self if self.missed is None else self._merged_pool

    @cached_property
    def _merged_pool(self) -> Judgments:
        assert self.missed is not None
        missed, groups, rows = self.missed, self.groups, self.pool_rows
        ends = groups.boundaries + np.searchsorted(missed.queries, np.arange(groups.n_queries + 1))
        is_missed = np.ones(int(ends[-1]), dtype=bool)
        is_missed[rows] = False

        def merge(candidates: NDArray[Any], missing: NDArray[Any]) -> NDArray[Any]:
            column = np.empty(is_missed.size, dtype=np.result_type(candidates, missing))
            column[rows], column[is_missed] = candidates, missing
            return sealed(column)

        ids, subtopics = None, None
        if self.document_ids is not None and missed.document_ids is not None:
            ids = merge(self.document_ids, missed.document_ids)
        if self.subtopics is not None and missed.subtopics is not None:
            candidate_grades, missed_grades = self.subtopics, missed.subtopics
            subtopics = Subtopics.of(
                np.concatenate((rows[candidate_grades.rows], np.flatnonzero(is_missed)[missed_grades.rows])),
                np.concatenate((candidate_grades.numbers, missed_grades.numbers)),
                np.concatenate((candidate_grades.grades, missed_grades.grades)),
            )
        return Judgments(
            merge(self._stored_labels, missed.labels),
            QueryGroups(ends, groups.ids),
            self.query_weights,
            ids,
            None if self.judged is None else merge(self.judged, np.array(True)),
            subtopics,
        )

    @cached_property
    def n_relevant(self) -> NDArray[np.int64]:
        """int64 (n_queries,): documents with a label above 0, missed ones included."""
        return self.pool.count_rows(self.pool.label_table > 0)

    @property
    def without_relevant(self) -> NDArray[np.bool_]:
        """bool (n_queries,), the queries without a relevant document; none where labels are values and no grades."""
        return np.asarray((self.n_relevant == 0) & (self.lowest == 0))

    @cached_property
    def lowest(self) -> float:
        """The smallest label, of missed documents too, 0 where none is below: else labels are values and no grades."""
        return 0.0 if self.pool.grades is not None else float(self.pool.labels.min(initial=0))

    @cached_property
    def grades(self) -> Grades | None:
        """The labels in a byte each; None where they do not fit."""
        return Grades.of(self.labels)

    @property
    def _stored_labels(self) -> NDArray[Any]:
        """The labels in the type that they are kept in."""
        return self.labels

    @property
    def compact_labels(self) -> NDArray[Any]:
        """The labels, in a byte each where they fit."""
        return self.labels if self.grades is None else self.grades.of_row

    @property
    def label_table(self) -> NDArray[np.float64]:
        """float64 (n_table,): the grades from 0 to the largest where labels are grades, else the label of each row.

        What depends on the label alone is computed from it, once for each grade; `of_rows` has it by row.
        """
        if self.grades is None:
            return self.labels
        return _grades_to(self.grades.largest)

    def of_rows(self, by_label: NDArray[Any]) -> NDArray[Any]:
        """Return each row's value, (n_rows,).

        Args:
            by_label: (n_table,), values in the order of `label_table`.
        """
        return by_label if self.grades is None else by_label[self.grades.of_row]

    def count_rows(self, flags: NDArray[np.bool_]) -> NDArray[np.int64]:
        """int64 (n_queries,): the rows of each query whose label is flagged.

        Args:
            flags: bool (n_table,), in the order of `label_table`.
        """
        if self.grades is None:
            return self.groups.count(flags)
        key = flags.tobytes()  # metrics ask for the same grades again
        if key not in self._counts:
            self._counts[key] = sealed(self.groups.count_flagged(self.grades.of_row, flags))
        return self._counts[key]

    @cached_property
    def _counts(self) -> dict[bytes, NDArray[np.int64]]:
        """Results of `count_rows` by the flags of grades."""
        return {}

    @cached_property
    def distinct_labels(self) -> NDArray[np.float64]:
        """Each different one, ascending."""
        if self.grades is None:
            return sealed(np.unique(self.labels))
        # grades are few, and a pass for each takes less than one that writes to a place for each row
        occurs = [(self.grades.of_row == grade).any() for grade in range(self.grades.largest + 1)]
        return sealed(np.flatnonzero(occurs).astype(np.float64))

    def documents_of(self, rows: NDArray[np.int64]) -> NDArray[Any] | None:
        """The ids of the given rows; None where rows have none.

        Args:
            rows: int64 (n,).
        """
        return None if self.document_ids is None else self.document_ids[rows]

    def take(self, queries: NDArray[np.int64]) -> Judgments:
        """The given queries alone; of neighbours nothing is copied.

        Args:
            queries: int64 (n_kept,), numbers of queries in the order wanted.
        """
        groups, rows = self.groups.take(queries)
        return self._with_rows(
            rows,
            groups,
            query_weights=None if self.query_weights is None else self.query_weights[queries],
            missed=None if self.missed is None else self.missed.take(queries),
        )


@dataclass(frozen=True, eq=False)
class NarrowJudgments(Judgments):
    """Judgments whose labels stay as narrow as they came, and get eight bytes on request."""

    _given: NDArray[Any] = field(init=False)  # labels

    def __post_init__(self) -> None:
        super().__post_init__()
        vars(self)["_given"] = vars(self).pop("labels")

    @cached_property  # type: ignore[misc]  # read only, as the field is
    def labels(self) -> NDArray[np.float64]:
        return sealed(self._given.astype(np.float64, copy=False))

    @property
    def _stored_labels(self) -> NDArray[Any]:
        return self._given

    @cached_property
    def grades(self) -> Grades | None:
        """See `Judgments`."""
        return Grades.of(self._given)


@cache  # at most 256
def _grades_to(largest: int) -> Floats:
    """Return the grades from 0 on, (largest + 1,)."""
    return sealed(np.arange(largest + 1, dtype=np.float64))


@compiled
def _fit_into_bytes(labels: Floats, grades: NDArray[np.uint8]) -> int:
    """Write labels into bytes up to the first that does not fit; return the largest, or -1 where not all do."""
    largest = 0
    for row in range(labels.size):
        label = labels[row]
        if not (0.0 <= label <= 255.0 and label == np.floor(label)):
            return -1
        grade = np.uint8(label)
        grades[row] = grade
        largest = max(largest, int(grade))
    return largest
