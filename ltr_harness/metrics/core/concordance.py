"""Pairs of documents in the right order: what Kendall's tau and AP correlation are both made of."""

from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass

import numpy as np

from ltr_harness._util.compiled import compiled
from ltr_harness.data.arrays import Floats, Ints
from ltr_harness.data.queries import QueryGroups
from ltr_harness.metrics.core.ranking import Lists, Ranking


@dataclass(frozen=True, eq=False)
class LabelOrder:
    """The order that the labels alone give each query's documents."""

    grade: Ints  # (n_rows,), the label's place among the query's distinct labels, 0 the lowest
    n_grades: Ints  # (n_queries,), distinct labels of each query
    n_better: Ints  # (n_rows,), rows of the same query with a greater label
    pairs: Ints  # (n_queries,), pairs of documents with different labels

    @classmethod
    def of(cls, labels: Floats, groups: QueryGroups) -> "LabelOrder":
        """Return the order of these labels (n_rows,)."""
        grade = np.empty(groups.n_rows, dtype=np.int64)
        n_grades = np.empty(groups.n_queries, dtype=np.int64)
        n_better = np.empty(groups.n_rows, dtype=np.int64)
        query_of_row = np.repeat(np.arange(groups.n_queries), groups.sizes)
        _label_order(labels, groups.boundaries, np.lexsort((labels, query_of_row)), grade, n_grades, n_better)
        return cls(grade, n_grades, n_better, np.add.reduceat(n_better, groups.boundaries[:-1]))

    def above(self, ranking: Ranking) -> "RowsAbove":
        """Return the better and worse rows above each rank, for judgments of one query; `concordant` has their sums."""
        grades = self.grade[ranking.rows].tolist()
        counts = np.zeros((4, len(grades)))
        first = np.zeros(len(grades), dtype=np.int64)
        grades_above: list[int] = []
        start = 0
        while start < len(grades):
            end = int(ranking.tie_end[start])
            group = sorted(grades[start:end])
            for i in range(start, end):
                first[i] = start
                for count_row, compared_grades in ((0, grades_above), (2, group)):
                    counts[count_row, i] = len(compared_grades) - bisect_right(compared_grades, grades[i])
                    counts[count_row + 1, i] = bisect_left(compared_grades, grades[i])
            for grade in group:
                insort(grades_above, grade)
            start = end
        return RowsAbove(first, *counts)

    def concordant(self, ranking: Ranking) -> Floats:
        """float64 (3, n_queries), expected over ties: concordant pairs; the sum over ranks r > 1 of the share of
        documents above r that are better; the sum over documents of the share of better documents that are above it."""
        out = np.empty((3, self.n_grades.size))
        _concordant(ranking.lists, self.grade, self.n_grades, self.n_better, out)
        return out


@dataclass(frozen=True, eq=False)
class RowsAbove:
    """The better and worse rows above each rank of one query, each array (n_ranks,)."""

    start: Ints  # ranks above the document's tie group
    better: Floats  # documents above the tie group with a greater label
    worse: Floats  # those with a smaller one
    # documents of the tie group with a greater label; half of them stand above, on average
    better_tied: Floats
    worse_tied: Floats  # those with a smaller one

    def of_group(self, values: Floats) -> Floats:
        """float64 (n_ranks,), the mean of the rank's tie group; `values` (n_ranks,)."""
        _, group, sizes = np.unique(self.start, return_inverse=True, return_counts=True)
        return np.asarray((np.bincount(group, weights=values) / sizes)[group])


@compiled
def _label_order(
    labels: Floats, boundaries: Ints, ascending: Ints, grade: Ints, n_grades: Ints, n_better: Ints
) -> None:
    for query in range(n_grades.size):
        start = boundaries[query]
        end = boundaries[query + 1]
        place = 0
        i = start
        while i < end:
            j = i
            while j < end and labels[ascending[j]] == labels[ascending[i]]:
                j += 1
            for position in range(i, j):
                grade[ascending[position]] = place
                n_better[ascending[position]] = end - j
            place += 1
            i = j
        n_grades[query] = place


@compiled
def _count(tree: Ints, node: int) -> int:
    total = 0
    while node > 0:
        total += tree[node]
        node -= node & -node
    return total


@compiled
def _concordant(lists: Lists, grade: Ints, n_grades: Ints, n_better: Ints, out: Floats) -> None:
    """Walk down the ranking with a Fenwick tree of the grades seen so far: O(n log grades)."""
    offsets, rows, tie_end, _ = lists
    tree = np.zeros(n_grades.max() + 1, dtype=np.int64)
    for query in range(n_grades.size):
        first = offsets[query]
        n = offsets[query + 1] - first
        top = n_grades[query]
        tree[: top + 1] = 0
        pairs = by_rank = by_label = 0.0
        i = 0
        while i < n:
            end = tie_end[first + i]
            size = end - i
            before = after = 0
            # Grades are counted from the top, so a prefix of the tree is what is better. Counted before and
            # after the group joins: their mean is what stands above on average, half of the group included.
            for j in range(i, end):
                better = _count(tree, top - 1 - grade[rows[first + j]])
                before += better
                if n_better[rows[first + j]] > 0:
                    by_label += 0.5 * better / n_better[rows[first + j]]
            for j in range(i, end):
                node = top - grade[rows[first + j]]
                while node <= top:
                    tree[node] += 1
                    node += node & -node
            for j in range(i, end):
                better = _count(tree, top - 1 - grade[rows[first + j]])
                after += better
                if n_better[rows[first + j]] > 0:
                    by_label += 0.5 * better / n_better[rows[first + j]]
            pairs += 0.5 * (before + after)
            for j in range(size):
                if i + j > 0:
                    earlier = j / (size - 1) if size > 1 else 0.0
                    by_rank += (before + earlier * (after - before)) / size / (i + j)
            i = end
        out[0, query] = pairs
        out[1, query] = by_rank
        out[2, query] = by_label
