"""One score for each row from the probabilities of its grades."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ltr_harness.errors import MetricError


def expected_grade(probabilities: ArrayLike, grades: ArrayLike | None = None) -> NDArray[np.float64]:
    """Sums of grade times probability, float64 (n_rows,), from (n_rows, n_grades) and the columns' grades (n_grades,).

    Source:
        Li, Burges & Wu 2007, "McRank: Learning to Rank Using Multiple Classification and Gradient Boosting".
    """
    # rows in order: sums must not depend on how the library lays its columns
    row_probabilities = np.ascontiguousarray(probabilities, dtype=np.float64)
    row_sums = row_probabilities.sum(axis=1)
    if not np.allclose(row_sums, 1.0, rtol=0, atol=1e-3):
        worst_sum = row_sums[np.argmax(np.abs(row_sums - 1))]
        raise MetricError(
            f"a row has {row_probabilities.shape[1]} predictions that sum to {worst_sum:g}; expected "
            "one score per row, or the probabilities of the grades 0, 1, 2 …"
        )
    column_grades = (
        np.arange(row_probabilities.shape[1]) if grades is None else np.asarray(grades, dtype=np.float64)
    )
    return np.asarray((row_probabilities * column_grades).sum(axis=1))
