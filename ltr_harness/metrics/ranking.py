"""Rows in rank order, shared by every metric of one evaluation: a selection, not a sort, where K allows it.

How a query's best K rows are found, without a branch that the processor could mispredict:

1. Deal the rows out to 16 lanes (more for a deeper K) and take each lane's best score. The K-th best of these
   is reached by at least K rows, so it is a lower bound of the K-th best score.
2. Keep the rows that reach the bound: about 16 of 120 for K = 10, hardly more of 1000.
3. Place each of them by counting those that score at least as much.

The count is also the end of the row's tie group; only queries in which a tie shows up take the second,
slower way, where ties are put in the order that the tie rule asks for.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ltr_harness.compiled import compiled
from ltr_harness.errors import MetricError
from ltr_harness.groups import Judgments

Ties = Literal["expected", "stable", "worst", "best", "id"]

# A block of lanes is this wide whatever the depth: a fixed width becomes two vector instructions.
_WIDTH = 16
# Finding the bound takes the square of the number of lanes: deeper lists are sorted whole.
_DEEPEST_BOUND = 256
# Up to this many rows counting beats any other way to sort; longer lists are merged from such runs.
_RUN = 128


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
        grades: the labels of all rows in a byte each, where they fit.
    """

    offsets: NDArray[np.int64]
    rows: NDArray[np.int64]
    tie_end: NDArray[np.int64]
    scores: NDArray[np.float64]
    grades: Grades | None = None

    def by_grade(self, values: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """`values[rows]` as an index and a table, for values (n_rows,) that depend on the label alone.

        A table of a few grades stays in the processor's nearest cache; values by row have to be fetched from
        all over the memory, which takes longer than the metric itself.
        """
        if self.grades is None:
            return self.rows, values
        return self._listed_grades, values[self.grades.example]

    @cached_property
    def _listed_grades(self) -> NDArray[np.int64]:
        assert self.grades is not None
        return self.grades.of_row[self.rows].astype(np.int64)


@dataclass(frozen=True, eq=False)
class Grades:
    """Labels that are small whole numbers.

    Attributes:
        of_row: uint8 (n_rows,).
        example: int64 (largest + 1,), a row with each grade; any row for grades that no row has.
    """

    of_row: NDArray[np.uint8]
    example: NDArray[np.int64]

    @classmethod
    def of(cls, labels: NDArray[np.float64]) -> Grades | None:
        """None if a label does not fit into a byte."""
        largest = labels.max()
        if largest > 255:
            return None
        grades = labels.astype(np.uint8)
        if not np.array_equal(grades, labels):
            return None
        example = np.zeros(int(largest) + 1, dtype=np.int64)
        example[grades] = np.arange(grades.size)
        return cls(grades, example)


class Ranker:
    """Ranks one set of queries again and again, under one tie rule, down to one depth.

    Args:
        judgments: the queries; labels order ties for ``worst`` and ``best``, document ids for ``id``.
        ties: the tie rule.
        depth: the largest cutoff asked for; None for whole lists.
    """

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
        self._grades = Grades.of(judgments.labels)
        self._key = _key(judgments, ties)
        self._tie_order: NDArray[np.int64] | None = None

    def rank(self, scores: NDArray[np.float64]) -> Ranking:
        """Rank by score, descending; `scores` is float64 (n_rows,) without NaN."""
        offsets, boundaries = self._offsets, self._judgments.groups.boundaries
        rows = np.empty(offsets[-1], dtype=np.int64)
        last = np.empty(offsets.size - 1, dtype=np.float64)
        beyond = np.empty(offsets.size - 1, dtype=np.int64)
        lanes = _lanes(self._depth)
        if not _select(scores, boundaries, offsets, lanes, self._longest, rows, last, beyond):
            return Ranking(offsets, rows, self._no_ties, scores, self._grades)
        if self._tie_order is None:
            self._tie_order = self._order_of_ties()
        longer = offsets
        if self._ties == "expected" and (beyond > 0).any():
            longer = offsets.copy()
            longer[1:] += np.cumsum(np.maximum(beyond, 0))
        listed = np.empty(longer[-1], dtype=np.int64)
        tie_end = np.empty(longer[-1], dtype=np.int64)
        _list_ties(
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
        return Ranking(longer, listed, tie_end, scores, self._grades)

    def _order_of_ties(self) -> NDArray[np.int64]:
        """All rows, query by query, in the order they take when they tie."""
        if self._ties == "stable":
            return np.arange(self._key.size)
        return Ranker(self._judgments, "stable", None).rank(-self._key).rows


def _key(judgments: Judgments, ties: Ties) -> NDArray[np.float64]:
    """A key per row, ascending within a tie. ``expected`` needs one too: sums must not depend on row order."""
    if ties == "best":
        return -judgments.labels
    if ties != "id":
        return judgments.labels
    if judgments.document_ids is None:
        raise MetricError("ties=id orders tied rows by document id; expected document_ids, one per row")
    ids = judgments.document_ids
    texts = ids.astype(str) if ids.dtype.kind not in "US" else ids
    key = np.empty(texts.size, dtype=np.float64)
    key[np.argsort(texts, kind="stable")] = -np.arange(texts.size, dtype=np.float64)
    return key


def _lanes(depth: int) -> int:
    """Enough lanes for few candidates, a multiple of the width; 0 where a bound does not pay."""
    return -(-depth * 4 // (3 * _WIDTH)) * _WIDTH if depth <= _DEEPEST_BOUND else 0


@compiled
def _select(
    scores: NDArray[np.float64],
    boundaries: NDArray[np.int64],
    offsets: NDArray[np.int64],
    lanes: int,
    longest: int,
    rows: NDArray[np.int64],
    last: NDArray[np.float64],
    beyond: NDArray[np.int64],
) -> bool:
    """Each query's best rows into `rows`; True if any query has ties among the candidates.

    For such a query `rows` is left for `_list_ties`: `last` is its last listed score, and `beyond` the number
    of rows that tie with it past the list's end. Without ties `beyond` is -1.
    """
    maxima = np.empty(lanes, dtype=np.float64)
    reaching = np.empty(longest + _WIDTH, dtype=np.float64)  # scores of the candidates
    reaching_rows = np.empty(longest + _WIDTH, dtype=np.int64)
    spare = np.empty(longest, dtype=np.float64)
    spare_rows = np.empty(longest, dtype=np.int64)
    crowd = 3 * lanes if lanes > 0 else _RUN
    place = np.empty(max(_RUN, crowd), dtype=np.int64)
    any_tie = False
    for query in range(offsets.size - 1):
        start = boundaries[query]
        own = scores[start : boundaries[query + 1]]  # indices from 0 save a sign check at every access
        n = own.size
        listed = rows[offsets[query] : offsets[query + 1]]
        want = listed.size

        bound = -np.inf
        if n > lanes > 0:
            whole = n - n % lanes
            for block in range(0, lanes, _WIDTH):
                for lane in range(_WIDTH):
                    maxima[block + lane] = own[block + lane]
                for i in range(lanes + block, whole, lanes):
                    for lane in range(_WIDTH):
                        score = own[i + lane]
                        best = maxima[block + lane]
                        maxima[block + lane] = score if score > best else best
            for i in range(whole, n):
                score = own[i]
                best = maxima[i - whole]
                maxima[i - whole] = score if score > best else best
            for i in range(lanes):
                score = maxima[i]
                as_good = 0
                for j in range(lanes):
                    as_good += maxima[j] >= score
                bound = score if as_good >= want and score > bound else bound

        reach = 0
        for i in range(n):
            score = own[i]
            reaching[reach] = score
            reaching_rows[reach] = start + i
            reach += score >= bound

        beyond[query] = -1
        if reach <= crowd:
            padded = -(-reach // _WIDTH) * _WIDTH
            for i in range(reach, padded):
                reaching[i] = np.nan  # as good as nothing
            total = 0
            for i in range(reach):
                score = reaching[i]
                end = 0
                for j in range(padded):
                    end += reaching[j] >= score
                place[i] = end
                total += end
                spare_rows[end - 1] = reaching_rows[i]
            for i in range(want):
                listed[i] = spare_rows[i]
            if total > reach * (reach + 1) // 2:
                any_tie = True
                end = reach
                last[query] = -np.inf
                for i in range(reach):
                    if want <= place[i] <= end:
                        end = place[i]
                        last[query] = reaching[i]
                beyond[query] = end - want
            continue

        above = 0
        for i in range(reach):
            above += reaching[i] > bound
        if above < want:  # a crowd ties with the last row
            any_tie = True
            last[query] = bound
            beyond[query] = reach - want
            continue
        _sort(reaching, reaching_rows, reach, spare, spare_rows, place)
        tied = False
        for i in range(want):
            listed[i] = reaching_rows[i]
            tied |= i + 1 < reach and reaching[i] == reaching[i + 1]
        if tied:
            any_tie = True
            last[query] = reaching[want - 1]
            end = want
            while end < reach and reaching[end] == last[query]:
                end += 1
            beyond[query] = end - want
    return any_tie


@compiled
def _list_ties(
    scores: NDArray[np.float64],
    boundaries: NDArray[np.int64],
    offsets: NDArray[np.int64],
    rows: NDArray[np.int64],
    last: NDArray[np.float64],
    beyond: NDArray[np.int64],
    tie_order: NDArray[np.int64],
    longer: NDArray[np.int64],
    longest: int,
    listed: NDArray[np.int64],
    tie_end: NDArray[np.int64],
) -> None:
    """Copy the lists without ties, and list the others anew: a stable sort of rows already in tie order."""
    above = np.empty(longest + 1, dtype=np.float64)
    above_rows = np.empty(longest + 1, dtype=np.int64)
    equal_rows = np.empty(longest + 1, dtype=np.int64)
    spare = np.empty(longest, dtype=np.float64)
    spare_rows = np.empty(longest, dtype=np.int64)
    place = np.empty(_RUN, dtype=np.int64)
    for query in range(beyond.size):
        at = longer[query]
        n = longer[query + 1] - at
        if beyond[query] < 0:
            for i in range(n):
                listed[at + i] = rows[offsets[query] + i]
                tie_end[at + i] = i + 1
            continue
        cut = last[query]
        n_above = 0
        n_equal = 0
        for i in range(boundaries[query], boundaries[query + 1]):
            row = tie_order[i]
            score = scores[row]
            above[n_above] = score
            above_rows[n_above] = row
            n_above += score > cut
            equal_rows[n_equal] = row
            n_equal += score == cut
        _sort(above, above_rows, n_above, spare, spare_rows, place)
        i = 0
        while i < n_above:
            end = i + 1
            while end < n_above and above[end] == above[i]:
                end += 1
            while i < end:
                listed[at + i] = above_rows[i]
                tie_end[at + i] = end
                i += 1
        for i in range(n_above, n):
            listed[at + i] = equal_rows[i - n_above]
            tie_end[at + i] = n


@compiled
def _sort(
    scores: NDArray[np.float64],
    rows: NDArray[np.int64],
    n: int,
    spare: NDArray[np.float64],
    spare_rows: NDArray[np.int64],
    place: NDArray[np.int64],
) -> None:
    """Sort the first n by score, descending and stable: runs placed by counting, then merged."""
    for low in range(0, n, _RUN):
        run = scores[low : min(low + _RUN, n)]
        for i in range(run.size):
            score = run[i]
            before = 0
            for j in range(i):
                ahead = run[j] >= score
                before += ahead
                place[j] += not ahead
            place[i] = before
        for i in range(run.size):
            spare[low + place[i]] = run[i]
            spare_rows[low + place[i]] = rows[low + i]
    width = _RUN
    while True:
        for i in range(n):
            scores[i] = spare[i]
            rows[i] = spare_rows[i]
        if width >= n:
            return
        for low in range(0, n, 2 * width):
            middle = min(low + width, n)
            end = min(low + 2 * width, n)
            i = low
            j = middle
            k = low
            while i < middle and j < end:
                right = scores[j] > scores[i]  # of equal scores the left one goes first
                taken = j if right else i
                spare[k] = scores[taken]
                spare_rows[k] = rows[taken]
                j += right
                i += not right
                k += 1
            while k < end:
                taken = i if i < middle else j
                spare[k] = scores[taken]
                spare_rows[k] = rows[taken]
                i += 1
                j += 1
                k += 1
        width *= 2
