"""Rows in rank order, shared by every metric of one evaluation: a selection, not a sort, where K allows it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ltr_harness.errors import MetricError
from ltr_harness.groups import Judgments
from ltr_harness.metrics.core.selection import CROWDS, TIES, lanes_for, list_ties, select, sort_crowds

Ties = Literal["expected", "stable", "worst", "best", "id"]


@dataclass(frozen=True, eq=False)
class Ranking:
    """The top rows of each query, best score first.

    A query's list holds its best `depth` rows and, for ties ``expected``, every further row that ties with
    the last of them, so that an expectation over the tie is exact.

    Attributes:
        offsets: int64 (n_queries + 1,), where each query's list starts in `rows`.
        rows: int64 (n_listed,), row numbers in rank order.
        tie_end: int64 (n_listed,), 0-based rank within the query at which the tie group of the row ends
            (exclusive); for any tie rule but ``expected`` every row is a group of its own. Not to be written
            to: rankings without ties share it.
        scores: float64 (n_rows,), as ranked.
        judgments: what the rows are worth.
    """

    offsets: NDArray[np.int64]
    rows: NDArray[np.int64]
    tie_end: NDArray[np.int64]
    scores: NDArray[np.float64]
    judgments: Judgments

    def by_grade(self, values: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """`values[rows]` as an index and a table, for values (n_rows,) that depend on the label alone.

        A table of a few grades stays in the processor's nearest cache; values by row have to be fetched from
        all over the memory, which takes longer than the metric itself.

        Shapes: `values` (n_rows,).
        """
        grades = self.judgments.grades
        if grades is None:
            return self.rows, values
        return self._listed_grades, values[grades.example]

    def by_value(self, values: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """`by_grade` for any values: rows that tie are in the order of their values, so no sum depends on row order.

        Shapes: `values` (n_rows,).
        """
        ends = self.tie_end + np.repeat(self.offsets[:-1], np.diff(self.offsets))
        if np.array_equal(ends, np.arange(1, ends.size + 1)):
            return self.rows, values
        return self.rows[np.lexsort((values[self.rows], ends))], values

    @cached_property
    def _listed_grades(self) -> NDArray[np.int64]:
        grades = self.judgments.grades
        assert grades is not None
        return grades.of_row[self.rows].astype(np.int64)


class RowRanker:
    """Ranks one set of queries again and again, under one tie rule, down to one depth."""

    def __init__(self, judgments: Judgments, ties: Ties, depth: int | None) -> None:
        self._judgments = judgments
        self._ties = ties
        sizes = judgments.groups.sizes
        self._longest = int(sizes.max())
        self._depth = self._longest if depth is None else min(depth, self._longest)
        listed = np.minimum(sizes, self._depth)
        self._offsets = np.zeros(listed.size + 1, dtype=np.int64)
        np.cumsum(listed, out=self._offsets[1:])
        self._no_ties = np.arange(1, self._offsets[-1] + 1) - np.repeat(self._offsets[:-1], listed)
        if ties == "id" and judgments.documents_of(np.empty(0, dtype=np.int64)) is None:
            raise MetricError(
                "ties=id orders tied documents by document id; expected document_ids, one per row, or ties=stable"
            )
        # rows, query by query, in the order they take when they tie: of the queries that had a tie so far
        self._tie_order = np.empty(judgments.groups.n_rows, dtype=np.int64)
        self._ordered = np.zeros(sizes.size, dtype=bool)

    def rank(self, scores: NDArray[np.float64]) -> Ranking:
        """Rank by score, descending.

        Shapes: `scores` (n_rows,).
        """
        offsets, boundaries = self._offsets, self._judgments.groups.boundaries
        rows = np.empty(offsets[-1], dtype=np.int64)
        last = np.empty(offsets.size - 1, dtype=np.float64)
        beyond = np.empty(offsets.size - 1, dtype=np.int64)
        lanes = lanes_for(self._depth)
        found = select(scores, boundaries, offsets, lanes, self._longest, rows, last, beyond)
        if found & CROWDS:
            found |= sort_crowds(scores, boundaries, offsets, self._longest, rows, last, beyond)
        if not found & TIES:
            return Ranking(offsets, rows, self._no_ties, scores, self._judgments)
        self._order_ties(beyond >= 0)
        longer = offsets
        if self._ties == "expected" and (beyond > 0).any():
            longer = offsets.copy()
            longer[1:] += np.cumsum(np.maximum(beyond, 0))
        listed = np.empty(longer[-1], dtype=np.int64)
        tie_end = np.empty(longer[-1], dtype=np.int64)
        list_ties(
            scores,
            boundaries,
            offsets,
            rows,
            last,
            beyond,
            self._tie_order,
            longer,
            self._longest,
            listed,
            tie_end,
        )
        if self._ties != "expected":
            tie_end = self._no_ties
        return Ranking(longer, listed, tie_end, scores, self._judgments)

    def _order_ties(self, tied: NDArray[np.bool_]) -> None:
        """Have an order for the rows of these queries; most have no ties, and sorting all takes longer than ranking."""
        new = np.flatnonzero(tied & ~self._ordered)
        if not new.size:
            return
        groups, rows = self._judgments.groups.take(new)
        self._tie_order[rows] = rows
        if self._ties != "stable":
            key = _key(self._judgments, self._ties, rows)
            self._tie_order[rows] = rows[RowRanker(Judgments(key, groups), "stable", None).rank(-key).rows]
        self._ordered[new] = True


def _key(judgments: Judgments, ties: Ties, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """A key per row, ascending within a tie. ``expected`` needs one too: sums must not depend on row order."""
    if ties != "id":
        labels = judgments.labels[rows]
        return -labels if ties == "best" else labels
    ids = judgments.documents_of(rows)
    assert ids is not None  # or there would be no ranker
    texts = ids.astype(str) if ids.dtype.kind not in "US" else ids
    key = np.empty(texts.size, dtype=np.float64)
    key[np.argsort(texts, kind="stable")] = -np.arange(texts.size, dtype=np.float64)
    return key
