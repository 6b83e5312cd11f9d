"""Which features are known only once somebody has acted: what follows a ranking cannot rank it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

CHANCE = 1e-9
"""Less likely than this, it is no accident that a feature is there in relevant rows alone."""

FEWEST_ROWS = 20
"""In fewer rows an honest sparse feature, such as an exact match, may be there in relevant ones alone."""


def auc(values: NDArray[np.float64], relevant: NDArray[np.bool_]) -> float:
    """The area under the ROC curve of telling relevant rows by a feature, in its better direction; NaN with one class.

    Args:
        values: float64 (n_rows,), none missing; ties count half.
        relevant: bool (n_rows,).

    Example:
        >>> auc(np.array([3.0, 1.0, 1.0, 0.0]), np.array([True, True, False, False]))  # 3.5 of 4 pairs
        0.875
    """
    yes, no = np.sort(values[relevant]), np.sort(values[~relevant])
    if not yes.size or not no.size:
        return float("nan")
    below, up_to = (int(np.searchsorted(no, yes, side).sum()) for side in ("left", "right"))
    up = (below + up_to) / (2 * yes.size * no.size)
    return float(max(up, 1 - up))


def n_only_relevant(
    values: NDArray[np.float64], relevant: NDArray[np.bool_], log_share: NDArray[np.float64]
) -> int:
    """Rows in which a feature is neither 0 nor missing, if only relevant ones are, and not by chance; else 0.

    With a share s of each query's rows relevant, k rows of it are all relevant by chance with at most s ** k.

    Args:
        values: float64 (n_rows,), NaN where missing.
        relevant: bool (n_rows,).
        log_share: float64 (n_rows,), the logarithm of the share of relevant rows in the row's query.

    Example:
        >>> relevant = np.arange(100) % 4 == 0
        >>> n_only_relevant(np.where(relevant, 7.0, 0.0), relevant, np.full(100, np.log(0.25)))
        25
    """
    there = (values != 0) & ~np.isnan(values)
    n = int(np.count_nonzero(there))
    if n < FEWEST_ROWS or not relevant[there].all() or log_share[there].sum() > np.log(CHANCE):
        return 0
    return n
