"""What rows are worth for each subtopic of their query: a meaning of an ambiguous one, or a part of a broad one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ltr_harness.errors import DataError
from ltr_harness.wording import count_of


@dataclass(frozen=True, eq=False)
class Subtopics:
    """Grades of rows by subtopic; a row may have several, and most have none."""

    rows: NDArray[np.int64]  # int64 (n_pairs,), ascending
    numbers: NDArray[np.int64]  # int64 (n_pairs,), which subtopic of the row's query, from 0
    grades: NDArray[np.float64]  # float64 (n_pairs,), above 0: what is worth nothing is left out

    @classmethod
    def of(
        cls, rows: NDArray[np.int64], numbers: NDArray[np.int64], grades: NDArray[np.float64]
    ) -> Subtopics:
        """From pairs in any order, each once."""
        order = np.lexsort((numbers, rows))
        order = order[grades[order] > 0]
        return cls(rows[order], numbers[order], grades[order])

    @classmethod
    def of_matrix(cls, grades: ArrayLike, n_rows: int) -> Subtopics:
        """Subtopics from a matrix (n_rows, n_subtopics) of finite grades >= 0, each query's own in its columns.

        Raises:
            DataError: another shape, or a grade that is none.

        Example:
            >>> Subtopics.of_matrix([[1, 0], [0, 0], [1, 2]], 3).grades.tolist()
            [1.0, 1.0, 2.0]
        """
        matrix = np.asarray(grades)
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

    def take(self, rows: NDArray[np.int64]) -> Subtopics:
        """The given rows (n_kept,) as rows 0, 1, 2, …; -1 stands for a row without subtopics."""
        first = np.searchsorted(self.rows, rows)
        counts = np.searchsorted(self.rows, rows, side="right") - first
        pairs = np.repeat(first - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
        return Subtopics(np.repeat(np.arange(rows.size), counts), self.numbers[pairs], self.grades[pairs])

    def labels(self, n_rows: int) -> NDArray[np.float64]:
        """float64 (n_subtopics, n_rows): every row's grade by the first, the second, … subtopic of its query."""
        grades = np.zeros((int(self.numbers.max(initial=0)) + 1, n_rows))
        grades[self.numbers, self.rows] = self.grades
        return grades
