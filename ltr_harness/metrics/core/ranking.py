"""Rows in rank order, shared by every metric of one evaluation: a selection, not a sort, where K allows it."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from ltr_harness._util.compiled import compiled
from ltr_harness.data.arrays import Bools, Floats, Ints, read_only
from ltr_harness.data.judgments import Judgments
from ltr_harness.data.queries import scores_with_nan
from ltr_harness.errors import MetricError

Ties = Literal["expected", "stable", "worst", "best", "id"]
Lists = tuple[Ints, NDArray[Any], Ints, Bools]
"""Offsets, rows or their labels, ends of ties and queries with ties of a `Ranking`, as compiled loops take them."""
BestRows = tuple[Floats, int, Ints, Floats, Ints]
"""Scores, and what `select` finds and writes: the best rows of each query, whatever the rule for ties."""


@dataclass(frozen=True, eq=False)
class Ranking:
    """The best `depth` rows of each query; for ties ``expected``, also those that tie with the last of them."""

    offsets: Ints  # (n_queries + 1,), where each query's list starts in `rows`
    rows: Ints  # (n_listed,), row numbers in rank order
    # (n_listed,), 0-based rank within the query at which the tie group of the row ends (exclusive); for any tie
    # rule but ``expected`` every row is a group of its own. Not to be written to: rankings without ties share it
    tie_end: Ints
    tied: Bools  # (n_queries,), False where no listed row of the query ties with another
    ranked: Floats  # (n_candidates,), the scores of the rows that could be listed
    judgments: Judgments  # what the rows are worth
    # (n_candidates,), the rows that could be listed; None where all could
    candidates: Ints | None = None

    @property
    def lists(self) -> Lists:
        return self.offsets, self.rows, self.tie_end, self.tied

    @cached_property
    def scores(self) -> Floats:
        """float64 (n_rows,), as ranked; -inf for missed documents."""
        if self.candidates is None:
            return self.ranked
        scores = np.full(self.judgments.groups.n_rows, -np.inf)
        scores[self.candidates] = self.ranked
        return scores

    def pool_rows(self, judgments: Judgments) -> Self:
        """The same list among the pool of these judgments, whose candidates it ranks."""
        first = judgments.pool.groups.boundaries[:-1] - judgments.groups.boundaries[:-1]
        rows = self.rows + np.repeat(first, np.diff(self.offsets))
        return replace(self, rows=rows, judgments=judgments.pool, candidates=judgments.pool_rows)

    @cached_property
    def labels(self) -> NDArray[np.uint8] | Ints:
        """(n_listed,), the place of each listed row's label in `Judgments.label_table`.

        A table of a few grades stays in the processor's nearest cache, which values by row do not.
        """
        grades = self.judgments.grades
        return self.rows if grades is None else grades.of_row[self.rows]

    @property
    def label_lists(self) -> Lists:
        """`lists` with the places of labels instead of rows."""
        return self.offsets, self.labels, self.tie_end, self.tied

    def by_value(self, values: Floats) -> tuple[Ints, Floats]:
        """An index and a table of any values (n_rows,): ties in their order, so no sum depends on row order."""
        ends = self.tie_end + np.repeat(self.offsets[:-1], np.diff(self.offsets))
        if np.array_equal(ends, np.arange(1, ends.size + 1)):
            return self.rows, values
        return self.rows[np.lexsort((values[self.rows], ends))], values


class RowRanker:
    """Ranks one set of queries again and again, under one tie rule, down to one depth."""

    def __init__(self, judgments: Judgments, ties: Ties, depth: int | None) -> None:
        self._judgments = judgments
        self._ties = ties
        self._longest = judgments.groups.longest
        self.depth = self._longest if depth is None else min(depth, self._longest)
        self._offsets, self._no_ties = list_places(judgments.groups.boundaries, self.depth)
        if ties == "id" and judgments.documents_of(np.empty(0, dtype=np.int64)) is None:
            raise MetricError(
                "ties=id orders tied documents by document id; expected document_ids, one per row, or ties=stable"
            )
        # rows, query by query, in the order they take when they tie: of the queries that had a tie so far
        self._tie_order = np.empty(judgments.groups.n_rows, dtype=np.int64)
        self._ordered = np.zeros(judgments.groups.n_queries, dtype=bool)
        self._untied = np.zeros(judgments.groups.n_queries, dtype=bool)

    def rank(self, scores: Floats) -> Ranking:
        """Rank by score, descending; `scores` (n_rows,). Raises DataError for NaN."""
        return self.rank_best(self.find_best(scores))

    def find_best(self, scores: Floats) -> BestRows:
        """Return what `rank_best` needs of scores, for any ranker of these judgments with this depth."""
        scores, offsets, boundaries = read_only(scores), self._offsets, self._judgments.groups.boundaries
        found, rows, last, beyond = list_best(scores, boundaries, offsets, self._longest, self.depth)
        if found & NAN:
            raise scores_with_nan(scores, self._judgments.groups)
        if found & CROWDS:
            found |= sort_crowds(scores, boundaries, offsets, self._longest, rows, last, beyond)
        return scores, found, rows, last, beyond

    def rank_best(self, best: BestRows) -> Ranking:
        """Rank the best rows by this ranker's rule for ties."""
        scores, found, rows, last, beyond = best
        offsets, boundaries = self._offsets, self._judgments.groups.boundaries
        if not found & TIES:
            return Ranking(offsets, rows, self._no_ties, self._untied, scores, self._judgments)
        tied = beyond >= 0
        self._order_ties(tied)
        with_ties = self._ties == "expected"
        longer, listed, tie_end = list_ties(
            scores, boundaries, offsets, rows, last, beyond, self._tie_order, self._longest, with_ties
        )
        if not with_ties:
            tie_end, tied = self._no_ties, self._untied
        return Ranking(longer, listed, tie_end, tied, scores, self._judgments)

    def _order_ties(self, tied: Bools) -> None:
        """Have an order for the rows of these queries; most have no ties, and sorting all takes longer than ranking."""
        grades, boundaries = self._judgments.grades, self._judgments.groups.boundaries
        if grades is not None and self._ties in ("expected", "worst", "best"):
            best, order = self._ties == "best", self._tie_order
            _order_by_grade(boundaries, grades.of_row, grades.largest, best, tied, self._ordered, order)
            return
        new = np.flatnonzero(tied & ~self._ordered)
        if not new.size:
            return
        if self._ties == "stable":
            self._tie_order[:] = np.arange(self._tie_order.size)
            self._ordered[:] = True
            return
        self._ordered[new] = True
        groups, rows = self._judgments.groups.take(new)
        # by a key, ascending within a tie; ``expected`` needs one too: sums must not depend on row order
        key = self._judgments.labels[rows]
        if self._ties == "best":
            key = -key
        elif self._ties == "id":
            ids = self._judgments.documents_of(rows)
            assert ids is not None  # or there would be no ranker
            texts = ids.astype(str) if ids.dtype.kind not in "US" else ids
            key[np.argsort(texts, kind="stable")] = -np.arange(texts.size)
        self._tie_order[rows] = rows[RowRanker(Judgments(key, groups), "stable", None).rank(-key).rows]


@compiled
def _order_by_grade(
    boundaries: Ints,  # (n_queries + 1,)
    grade: NDArray[np.uint8],  # (n_rows,)
    largest: int,
    best: bool,
    tied: Bools,  # (n_queries,)
    ordered: Bools,  # (n_queries,)
    order: Ints,  # (n_rows,)
) -> None:
    """Sort the rows of tied queries by grade, ascending, or the `best` first; equal grades stay in row order."""
    places = np.empty(largest + 1, dtype=np.int64)
    for query in range(tied.size):
        if ordered[query] or not tied[query]:
            continue
        ordered[query] = True
        places[:] = 0
        for row in range(boundaries[query], boundaries[query + 1]):
            places[grade[row]] += 1
        first = boundaries[query]
        for i in range(places.size):
            next_grade = i
            if best:
                next_grade = largest - i
            size = places[next_grade]
            places[next_grade] = first
            first += size
        for row in range(boundaries[query], boundaries[query + 1]):
            order[places[grade[row]]] = row
            places[grade[row]] += 1


# How a query's best K rows are found, without a branch that the processor could mispredict:
#
# 1. Deal the rows out to 16 lanes (more for a deeper K) and take each lane's best score. The K-th best of these
#    is reached by at least K rows, so it is a lower bound of the K-th best score. The last few rows, too few to go
#    round, are left out: without them the bound is a little lower, and sooner found.
# 2. Keep the rows that reach the bound: about 16 of 120 for K = 10, hardly more of 1000.
# 3. Place each of them by counting those that score at least as much.
#
# The count is also the end of the row's tie group; only queries in which a tie shows up take the second, slower way,
# where ties are put in the order that the tie rule asks for. Where counting would not pay, for deep lists of long
# queries, they are sorted. Each of the three ways is compiled when a query first takes it.

# A block of lanes is this wide whatever the depth: a fixed width becomes two vector instructions.
_WIDTH = 16
# Candidates are compared so many at a time, the last ones with nothing.
_VECTOR = 4
# Finding the bound takes the square of the number of lanes: deeper lists are sorted whole.
_DEEPEST_BOUND = 256
# Up to this many rows counting beats any other way to sort; longer lists are merged from such runs.
_RUN = 128

TIES, CROWDS, NAN = 1, 2, 4
_NO_TIE, _CROWD = -1, -2


@compiled
def list_places(
    boundaries: Ints,  # (n_queries + 1,)
    depth: int,
) -> tuple[Ints, Ints]:
    """Return where each query's list starts, (n_queries + 1,), and the rank after each listed row, (n_listed,)."""
    offsets = np.empty(boundaries.size, dtype=np.int64)
    offsets[0] = 0
    for query in range(boundaries.size - 1):
        offsets[query + 1] = offsets[query] + min(boundaries[query + 1] - boundaries[query], depth)
    ends = np.empty(offsets[-1], dtype=np.int64)
    for query in range(boundaries.size - 1):
        for place in range(offsets[query], offsets[query + 1]):
            ends[place] = place - offsets[query] + 1
    return offsets, ends


@compiled
def list_best(
    scores: Floats,  # (n_rows,)
    boundaries: Ints,  # (n_queries + 1,)
    offsets: Ints,  # (n_queries + 1,)
    longest: int,
    depth: int,
) -> tuple[int, Ints, Floats, Ints]:
    """`select` with memory for its loops: where it makes the arrays itself, they take a seventh longer."""
    rows = np.empty(offsets[-1], dtype=np.int64)
    last = np.empty(offsets.size - 1, dtype=np.float64)
    beyond = np.empty(offsets.size - 1, dtype=np.int64)
    # enough lanes for few candidates, a multiple of the width; 0 where a bound does not pay
    lanes = -(-depth * 4 // (3 * _WIDTH)) * _WIDTH if depth <= _DEEPEST_BOUND else 0
    crowd = 3 * lanes if lanes > 0 else _RUN
    free = np.empty(longest + 2 * _WIDTH, dtype=np.float64)
    # where candidates begin with a cache line, as they do by chance in every other process, all takes a sixth longer
    reaching = free[(32 - free.ctypes.data) % 64 // 8 :]
    reaching_rows = np.empty(longest + _WIDTH, dtype=np.int64)
    maxima = np.empty(lanes, dtype=np.float64)
    placed_rows, place = np.empty(crowd, dtype=np.int64), np.empty(crowd, dtype=np.int64)
    found = select(
        scores, boundaries, offsets, rows, last, beyond, maxima, reaching, reaching_rows, placed_rows, place
    )
    return found, rows, last, beyond


@compiled
def select(
    scores: Floats,  # (n_rows,)
    boundaries: Ints,  # (n_queries + 1,)
    offsets: Ints,  # (n_queries + 1,)
    rows: Ints,  # (n_listed,)
    last: Floats,  # (n_queries,)
    beyond: Ints,  # (n_queries,)
    maxima: Floats,  # float64 (lanes,)
    reaching: Floats,  # float64 (longest + _WIDTH,), scores of the candidates
    reaching_rows: Ints,  # int64 (longest + _WIDTH,)
    placed_rows: Ints,  # int64 (crowd,)
    place: Ints,  # int64 (crowd,)
) -> int:
    """Each query's best rows into `rows`; whether there are `TIES` among candidates, or `CROWDS` left to `sort_crowds`.

    With a `NAN` among the scores, the lists mean nothing.

    A query with ties is left for `list_ties`: `last` is its last listed score, and `beyond` the number
    of rows that tie with it past the list's end. Without ties `beyond` is -1. Of the `CROWDS`, `beyond` is -2 and
    `last` the bound.
    """
    lanes = maxima.size
    crowd = place.size
    flags = 0
    has_nan = False
    for query in range(offsets.size - 1):
        start = boundaries[query]
        query_scores = scores[
            start : boundaries[query + 1]
        ]  # indices from 0 save a sign check at every access
        n = query_scores.size
        listed = rows[offsets[query] : offsets[query + 1]]
        n_wanted = listed.size

        # many files list rows in rank order: as far as anybody looks, and one more to see a tie
        run = 1
        while run < n and query_scores[run - 1] > query_scores[run]:
            run += 1
        if run == n:
            for i in range(n_wanted):
                listed[i] = start + i
            beyond[query] = -1
            has_nan |= n == 1 and query_scores[0] != query_scores[0]  # alone it is compared with nothing
            continue

        bound = -np.inf
        n_dealt = 0
        if n > lanes > 0:
            n_dealt = n - n % lanes
            for block in range(0, lanes, _WIDTH):
                for lane in range(_WIDTH):
                    score = query_scores[block + lane]
                    has_nan |= score != score
                    maxima[block + lane] = score
                for i in range(lanes + block, n_dealt, lanes):
                    chunk = query_scores[i : i + _WIDTH]
                    for lane in range(_WIDTH):
                        score = chunk[lane]
                        has_nan |= score != score
                        best = maxima[block + lane]
                        maxima[block + lane] = score if score > best else best
            # each to its place, without a branch on the outcome; equal ones share the last of their places
            for i in range(lanes + 1):
                reaching[i] = -np.inf
            for i in range(lanes):
                score = maxima[i]
                end = 0
                for j in range(lanes):
                    end += maxima[j] >= score
                reaching[end] = score
            bound_place = n_wanted
            while bound_place < lanes and reaching[bound_place] == -np.inf:
                bound_place += 1
            bound = reaching[bound_place]

        for i in range(n_dealt, n):
            has_nan |= query_scores[i] != query_scores[i]
        n_reaching = 0
        for i in range(n):
            score = query_scores[i]
            reaching[n_reaching] = score
            reaching_rows[n_reaching] = start + i
            n_reaching += score >= bound

        if n_reaching > crowd:
            flags |= CROWDS
            last[query] = bound
            beyond[query] = _CROWD
            continue
        beyond[query] = _NO_TIE
        padded = -(-n_reaching // _VECTOR) * _VECTOR
        for i in range(n_reaching, padded):
            reaching[i] = np.nan  # as good as nothing
        total = 0
        for i in range(n_reaching):
            score = reaching[i]
            end = 0
            for j in range(padded):
                end += reaching[j] >= score
            place[i] = end
            total += end
            placed_rows[end - 1] = reaching_rows[i]
        for i in range(n_wanted):
            listed[i] = placed_rows[i]
        if total > n_reaching * (n_reaching + 1) // 2:
            flags |= TIES
            end = n_reaching
            last[query] = -np.inf
            for i in range(n_reaching):
                if n_wanted <= place[i] <= end:
                    end = place[i]
                    last[query] = reaching[i]
            beyond[query] = end - n_wanted
    if has_nan:
        flags |= NAN
    return flags


@compiled
def sort_crowds(
    scores: Floats,  # (n_rows,)
    boundaries: Ints,  # (n_queries + 1,)
    offsets: Ints,  # (n_queries + 1,)
    longest: int,
    rows: Ints,  # (n_listed,)
    last: Floats,  # (n_queries,)
    beyond: Ints,  # (n_queries,)
) -> int:
    """List the queries that `select` left because too many rows reach the bound, by sorting; return `TIES` or 0."""
    reaching = np.empty(longest + 1, dtype=np.float64)
    reaching_rows = np.empty(longest + 1, dtype=np.int64)
    spare = np.empty(longest, dtype=np.float64)
    spare_rows = np.empty(longest, dtype=np.int64)
    place = np.empty(_RUN, dtype=np.int64)
    flags = 0
    for query in range(beyond.size):
        if beyond[query] != _CROWD:
            continue
        listed = rows[offsets[query] : offsets[query + 1]]
        n_wanted = listed.size
        bound = last[query]
        n_above = n_reaching = 0
        for i in range(boundaries[query], boundaries[query + 1]):
            score = scores[i]
            reaching[n_reaching] = score
            reaching_rows[n_reaching] = i
            n_reaching += score >= bound
            n_above += score > bound
        if n_above < n_wanted:  # a crowd ties with the last row
            flags = TIES
            beyond[query] = n_reaching - n_wanted
            continue
        _sort(reaching[:n_reaching], reaching_rows, spare, spare_rows, place)
        beyond[query] = _NO_TIE
        tied = False
        for i in range(n_wanted):
            listed[i] = reaching_rows[i]
            tied |= i + 1 < n_reaching and reaching[i] == reaching[i + 1]
        if tied:
            flags = TIES
            last[query] = reaching[n_wanted - 1]
            end = n_wanted
            while end < n_reaching and reaching[end] == last[query]:
                end += 1
            beyond[query] = end - n_wanted
    return flags


@compiled
def list_ties(
    scores: Floats,  # (n_rows,)
    boundaries: Ints,  # (n_queries + 1,)
    offsets: Ints,  # (n_queries + 1,)
    rows: Ints,  # (n_listed,)
    last: Floats,  # (n_queries,)
    beyond: Ints,  # (n_queries,)
    tie_order: Ints,  # (n_rows,)
    longest: int,
    with_ties: bool,
) -> tuple[Ints, Ints, Ints]:
    """Copy the lists without ties, and list the others once more: a stable sort of rows already in tie order.

    Returns: offsets (n_queries + 1,), rows and ends of ties (n_listed,), of longer lists where they are `with_ties`.
    """
    longer = offsets
    if with_ties:
        longer = np.empty(offsets.size, dtype=np.int64)
        longer[0] = 0
        for query in range(beyond.size):
            n_listed = offsets[query + 1] - offsets[query] + max(beyond[query], 0)
            longer[query + 1] = longer[query] + n_listed
    listed = np.empty(longer[-1], dtype=np.int64)
    tie_end = np.empty(longer[-1], dtype=np.int64)
    above = np.empty(longest + 1, dtype=np.float64)
    above_rows = np.empty(longest + 1, dtype=np.int64)
    equal_rows = np.empty(longest + 1, dtype=np.int64)
    spare = np.empty(longest, dtype=np.float64)
    spare_rows = np.empty(longest, dtype=np.int64)
    place = np.empty(_RUN, dtype=np.int64)
    for query in range(beyond.size):
        first = longer[query]
        n = longer[query + 1] - first
        if beyond[query] < 0:
            for i in range(n):
                listed[first + i] = rows[offsets[query] + i]
                tie_end[first + i] = i + 1
            continue
        cut = last[query]
        n_above = n_equal = 0
        for i in range(boundaries[query], boundaries[query + 1]):
            row = tie_order[i]
            score = scores[row]
            above[n_above] = score
            above_rows[n_above] = row
            n_above += score > cut
            equal_rows[n_equal] = row
            n_equal += score == cut
        _sort(above[:n_above], above_rows, spare, spare_rows, place)
        i = 0
        while i < n_above:
            end = i + 1
            while end < n_above and above[end] == above[i]:
                end += 1
            while i < end:
                listed[first + i] = above_rows[i]
                tie_end[first + i] = end
                i += 1
        for i in range(n_above, n):
            listed[first + i] = equal_rows[i - n_above]
            tie_end[first + i] = n
    return longer, listed, tie_end


@compiled
def _sort(scores: Floats, rows: Ints, spare: Floats, spare_rows: Ints, place: Ints) -> None:
    """Sort by score, descending and stable: runs placed by counting, then merged."""
    n = scores.size
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
            i = k = low
            j = middle
            while i < middle and j < end:
                right = scores[j] > scores[i]  # of equal scores the left one goes first
                source = j if right else i
                spare[k] = scores[source]
                spare_rows[k] = rows[source]
                j += right
                i += not right
                k += 1
            while k < end:
                source = i if i < middle else j
                spare[k] = scores[source]
                spare_rows[k] = rows[source]
                i += 1
                j += 1
                k += 1
        width *= 2
