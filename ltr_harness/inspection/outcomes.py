"""Which features are known only once somebody has acted: what follows a ranking cannot rank it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

CHANCE = 1e-9
"""Less likely than this, it is no accident that a feature is there in relevant rows alone."""

FEWEST_ROWS = 20
"""In fewer rows an honest sparse feature, such as an exact match, may be there in relevant ones alone."""


MOST = 0.9
"""The share of relevant rows, and of the others without it, from which on a feature tells them apart by being there."""


def auc(values: NDArray[np.float64], relevant: NDArray[np.bool_]) -> float:
    """The area under the ROC curve of telling relevant rows by a feature, in its better direction; NaN with one class.

    Shapes: `values` (n_rows,), `relevant` (n_rows,).

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


def tells_relevant(values: NDArray[np.float64], relevant: NDArray[np.bool_]) -> bool:
    """Whether a feature is there, neither 0 nor missing, in nearly all relevant rows and in few others.

    Shapes: `values` (n_rows,), `relevant` (n_rows,).

    Example:
        >>> relevant = np.arange(100) < 20
        >>> tells_relevant(np.where(np.arange(100) < 25, 3.0, 0.0), relevant)  # in all 20, and in 5 of the 80 others
        True
    """
    there = (values != 0) & ~np.isnan(values)
    if not FEWEST_ROWS <= np.count_nonzero(relevant) < relevant.size:
        return False
    return bool(there[relevant].mean() >= MOST and there[~relevant].mean() <= 1 - MOST)


def are_ids(values: NDArray[np.float64], boundaries: NDArray[np.int64]) -> bool:
    """Whether whole numbers differ in nearly all rows of a query, come again in other queries, and count no places.

    Shapes: `values` (n_rows,), `boundaries` (n_queries + 1,).

    Example:
        >>> ids = np.array([907.0, 15, 301, 15, 512, 907, 301, 512, 15])
        >>> are_ids(ids, np.array([0, 3, 6, 9])), are_ids(np.tile([1.0, 2, 3], 3), np.array([0, 3, 6, 9]))
        (True, False)
    """
    if not np.array_equal(values, np.floor(values)):
        return False
    sizes, starts = np.diff(boundaries), boundaries[:-1]
    query = np.repeat(np.arange(sizes.size), sizes)
    order = np.lexsort((values, query))
    new = (np.diff(values[order]) != 0) | (np.diff(query[order]) != 0)
    reach = np.maximum.reduceat(values, starts) - np.minimum.reduceat(values, starts) + 1
    several = sizes > 1
    return bool(
        several.any()
        and 1 + np.count_nonzero(new) >= 0.99 * values.size
        and values.size >= 2 * np.unique(values).size
        and np.median(reach[several] / sizes[several]) > 2
    )


def n_only_relevant(
    values: NDArray[np.float64], relevant: NDArray[np.bool_], log_share: NDArray[np.float64]
) -> int:
    """Rows in which a feature is neither 0 nor missing, if only relevant ones are, and not by chance; else 0.

    With a share s of each query's rows relevant, k rows of it are all relevant by chance with at most s ** k.

    Shapes: `values` (n_rows,), `relevant` (n_rows,), `log_share` (n_rows,).

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
