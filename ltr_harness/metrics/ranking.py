"""Rows in rank order, shared by every metric of one evaluation: a selection, not a sort, where K allows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ltr_harness.compiled import compiled
from ltr_harness.errors import MetricError
from ltr_harness.groups import Judgments

Ties = Literal["expected", "stable", "worst", "best", "id"]

# Above this depth a sort is faster than inserting into a list of the best rows.
_INSERTION_DEPTH = 64


@dataclass(frozen=True, eq=False)
class Ranking:
    """The top rows of each query, best score first.

    A query's list holds its best `depth` rows and every further row that ties with the last of them, so
    that an expectation over the tie is exact.

    Attributes:
        offsets: int64 (n_queries + 1,), where each query's list starts in `rows`.
        rows: int64 (n_listed,), row numbers in rank order.
        tie_end: int64 (n_listed,), 0-based rank within the query at which the tie group of the row ends
            (exclusive); for any tie rule but ``expected`` every row is a group of its own.
        scores: float64 (n_rows,), as ranked.
    """

    offsets: NDArray[np.int64]
    rows: NDArray[np.int64]
    tie_end: NDArray[np.int64]
    scores: NDArray[np.float64]


class Ranker:
    """Ranks one set of queries again and again, under one tie rule, down to one depth.

    Args:
        judgments: the queries; labels order ties for ``worst`` and ``best``, document ids for ``id``.
        ties: the tie rule.
        depth: the largest cutoff asked for; None for whole lists.
    """

    def __init__(self, judgments: Judgments, ties: Ties, depth: int | None) -> None:
        self._boundaries = judgments.groups.boundaries
        self._depth = np.iinfo(np.int64).max if depth is None else depth
        listed = np.minimum(judgments.groups.sizes, self._depth)
        self._offsets = np.zeros(listed.size + 1, dtype=np.int64)
        np.cumsum(listed, out=self._offsets[1:])
        self._expected = ties == "expected"
        self._order_in_tie = _order_in_tie(judgments, ties)

    def rank(self, scores: NDArray[np.float64]) -> Ranking:
        """Rank by score, descending; `scores` is float64 (n_rows,) without NaN."""
        offsets, boundaries = self._offsets, self._boundaries
        rows = np.empty(offsets[-1], dtype=np.int64)
        tie_end = np.empty(offsets[-1], dtype=np.int64)
        overflow = np.zeros(offsets.size - 1, dtype=np.int64)
        if self._depth <= _INSERTION_DEPTH:
            any_tie = _select(scores, boundaries, offsets, self._depth, rows, tie_end, overflow)
        else:
            any_tie = _sort(scores, boundaries, offsets, rows, tie_end, overflow)
        if any_tie:
            if overflow.any():
                offsets, rows, tie_end = _with_tied_rows(scores, boundaries, offsets, rows, tie_end, overflow)
            _order_ties(offsets, rows, tie_end, self._order_in_tie, not self._expected)
        return Ranking(offsets, rows, tie_end, scores)


def _order_in_tie(judgments: Judgments, ties: Ties) -> NDArray[np.float64]:
    """A key per row, ascending within a tie. ``expected`` needs one too: sums must not depend on row order."""
    if ties in ("expected", "worst"):
        return judgments.labels
    if ties == "best":
        return -judgments.labels
    if ties == "stable":
        return np.arange(judgments.labels.size, dtype=np.float64)
    if judgments.document_ids is None:
        raise MetricError("ties=id orders tied rows by document id; expected document_ids, one per row")
    ids = judgments.document_ids
    texts = ids.astype(str) if ids.dtype.kind not in "US" else ids
    key = np.empty(texts.size, dtype=np.float64)
    key[np.argsort(texts, kind="stable")] = -np.arange(texts.size, dtype=np.float64)
    return key


@compiled
def _select(
    scores: NDArray[np.float64],
    boundaries: NDArray[np.int64],
    offsets: NDArray[np.int64],
    depth: int,
    rows: NDArray[np.int64],
    tie_end: NDArray[np.int64],
    overflow: NDArray[np.int64],
) -> bool:
    """Each query's best `depth` rows by insertion; `overflow` counts the rows tied with the last of them."""
    best = np.empty(depth, dtype=np.float64)
    any_tie = False
    for query in range(offsets.size - 1):
        start = boundaries[query]
        end = boundaries[query + 1]
        at = offsets[query]
        n = offsets[query + 1] - at
        # the first n rows in order
        for i in range(n):
            score = scores[start + i]
            j = i
            while j > 0 and best[j - 1] < score:
                best[j] = best[j - 1]
                rows[at + j] = rows[at + j - 1]
                j -= 1
            best[j] = score
            rows[at + j] = start + i
        # every further row against the last of the list
        tied_outside = 0
        last = best[n - 1]
        for row in range(start + n, end):
            score = scores[row]
            if score >= last:
                if score == last:
                    tied_outside += 1
                else:
                    j = n - 1
                    while j > 0 and best[j - 1] < score:
                        best[j] = best[j - 1]
                        rows[at + j] = rows[at + j - 1]
                        j -= 1
                    best[j] = score
                    rows[at + j] = row
                    if best[n - 1] == last:
                        tied_outside += 1
                    else:
                        tied_outside = 0
                        last = best[n - 1]
        overflow[query] = tied_outside
        i = 0
        while i < n:
            j = i + 1
            while j < n and best[j] == best[i]:
                j += 1
            stop = j if j < n else n + tied_outside
            if stop - i > 1:
                any_tie = True
            for position in range(i, j):
                tie_end[at + position] = stop
            i = j
    return any_tie


@compiled
def _sort(
    scores: NDArray[np.float64],
    boundaries: NDArray[np.int64],
    offsets: NDArray[np.int64],
    rows: NDArray[np.int64],
    tie_end: NDArray[np.int64],
    overflow: NDArray[np.int64],
) -> bool:
    """The same by sorting every query, for deep cutoffs and whole lists."""
    any_tie = False
    for query in range(offsets.size - 1):
        start = boundaries[query]
        at = offsets[query]
        n = offsets[query + 1] - at
        listed = scores[start : boundaries[query + 1]]
        order = np.argsort(-listed, kind="mergesort")
        stop = n
        while stop < listed.size and listed[order[stop]] == listed[order[n - 1]]:
            stop += 1
        overflow[query] = stop - n
        i = 0
        while i < n:
            j = i + 1
            while j < stop and listed[order[j]] == listed[order[i]]:
                j += 1
            if j - i > 1:
                any_tie = True
            for position in range(i, min(j, n)):
                rows[at + position] = start + order[position]
                tie_end[at + position] = j
            i = j
    return any_tie


@compiled
def _with_tied_rows(
    scores: NDArray[np.float64],
    boundaries: NDArray[np.int64],
    offsets: NDArray[np.int64],
    rows: NDArray[np.int64],
    tie_end: NDArray[np.int64],
    overflow: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Lengthen the lists by the rows that tie with the last listed row."""
    longer = np.empty_like(offsets)
    longer[0] = 0
    for query in range(overflow.size):
        longer[query + 1] = longer[query] + offsets[query + 1] - offsets[query] + overflow[query]
    all_rows = np.empty(longer[-1], dtype=np.int64)
    all_ends = np.empty(longer[-1], dtype=np.int64)
    for query in range(overflow.size):
        old = offsets[query]
        new = longer[query]
        n = offsets[query + 1] - old
        for i in range(n):
            all_rows[new + i] = rows[old + i]
            all_ends[new + i] = tie_end[old + i]
        if overflow[query] > 0:
            # The whole tie group is listed anew: which of its rows were kept does not matter then.
            last = scores[rows[old + n - 1]]
            i = n
            while i > 0 and scores[all_rows[new + i - 1]] == last:
                i -= 1
            for row in range(boundaries[query], boundaries[query + 1]):
                if scores[row] == last:
                    all_rows[new + i] = row
                    all_ends[new + i] = n + overflow[query]
                    i += 1
    return longer, all_rows, all_ends


@compiled
def _order_ties(
    offsets: NDArray[np.int64],
    rows: NDArray[np.int64],
    tie_end: NDArray[np.int64],
    key: NDArray[np.float64],
    break_ties: bool,
) -> None:
    """Sort each tie group by key; with `break_ties`, let every row be a group of its own afterwards."""
    for query in range(offsets.size - 1):
        at = offsets[query]
        n = offsets[query + 1] - at
        i = 0
        while i < n:
            end = tie_end[at + i]
            if end - i > 1:
                group = rows[at + i : at + end].copy()
                order = np.argsort(key[group], kind="mergesort")
                for j in range(end - i):
                    rows[at + i + j] = group[order[j]]
                    if break_ties:
                        tie_end[at + i + j] = i + j + 1
            i = end
