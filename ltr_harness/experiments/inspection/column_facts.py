"""Facts of one column by its values and the labels, whatever its name."""

import numpy as np
from numpy.typing import NDArray

CHANCE = 1e-9  # less likely than this, it is no accident that a feature is there in relevant rows alone
# in fewer rows an honest sparse feature, such as an exact match, may be there in relevant ones alone
FEWEST_ROWS = 20
# of relevant rows, and of others without it: from there on a feature tells them apart by being there
MOST = 0.9
FEWEST_QUERIES = 10  # in fewer, numbers may be from 1 to n by chance
FEWEST_RANKED = 3  # rows of a query: two are 0 and 1 too often
FEWEST_DIFFERENT = 100  # rows: among fewer, amounts are all different as well
DIFFERENT = 0.99  # of the rows
_FIRST_DATE, _LAST_DATE = 19000101, 21001232
_FIRST_SECOND, _LAST_SECOND = 946_684_800, 4_102_444_800  # the years 2000 and 2100


def auc(values: NDArray[np.float64], relevant: NDArray[np.bool_]) -> float:
    """Return the area under the ROC curve of values (n_rows,), in the better direction; NaN with one class."""
    yes, no = np.sort(values[relevant]), np.sort(values[~relevant])
    if not yes.size or not no.size:
        return float("nan")
    below, up_to = (int(np.searchsorted(no, yes, side).sum()) for side in ("left", "right"))
    up = (below + up_to) / (2 * yes.size * no.size)
    return float(max(up, 1 - up))


def tells_relevant(values: NDArray[np.float64], relevant: NDArray[np.bool_]) -> bool:
    """Return whether values (n_rows,) are neither 0 nor missing in nearly all relevant rows, and so in few others."""
    is_present = (values != 0) & ~np.isnan(values)
    if not FEWEST_ROWS <= np.count_nonzero(relevant) < relevant.size:
        return False
    return bool(is_present[relevant].mean() >= MOST and is_present[~relevant].mean() <= 1 - MOST)


def are_ids(values: NDArray[np.float64], boundaries: NDArray[np.int64]) -> bool:
    """Return whether integers (n_rows,) differ within nearly all queries, recur in others, and count no places."""
    sizes, starts = np.diff(boundaries), boundaries[:-1]
    query = np.repeat(np.arange(sizes.size), sizes)
    order = np.lexsort((values, query))
    new = (np.diff(values[order]) != 0) | (np.diff(query[order]) != 0)
    reach = np.maximum.reduceat(values, starts) - np.minimum.reduceat(values, starts) + 1
    has_rows = sizes > 1
    return bool(
        has_rows.any()
        and 1 + np.count_nonzero(new) >= 0.99 * values.size
        and values.size >= 2 * np.unique(values).size
        and np.median(reach[has_rows] / sizes[has_rows]) > 2
    )


def n_only_relevant(
    values: NDArray[np.float64], relevant: NDArray[np.bool_], log_share: NDArray[np.float64]
) -> int:
    """Return the number of rows with a feature not 0 nor missing, if only relevant ones have it, beyond chance; else 0.

    With a share s of each query's rows relevant, k rows of it are all relevant by chance with at most s ** k. Shapes:
    `values` (n_rows,), `relevant` (n_rows,), `log_share` (n_rows,).
    """
    is_present = (values != 0) & ~np.isnan(values)
    n = int(np.count_nonzero(is_present))
    if n < FEWEST_ROWS or not relevant[is_present].all() or log_share[is_present].sum() > np.log(CHANCE):
        return 0
    return n


def are_whole(values: NDArray[np.float64]) -> bool:
    """Return whether values (n_rows,) are whole numbers, none of them missing."""
    return bool(np.array_equal(values, np.floor(values)))


def queries_counted(
    values: NDArray[np.float64],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    boundaries: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Return the queries of three rows and more whose whole numbers are 1 to n, or 0 to n - 1.

    Shapes: `values` (n_rows,); `low` and `high` (n_queries,), the lowest and highest value of each query; `boundaries`
    (n_queries + 1,).
    """
    sizes = np.diff(boundaries)
    fits = (sizes >= FEWEST_RANKED) & ((low == 0) | (low == 1)) & (high - low == sizes - 1)
    rows = np.repeat(fits, sizes)
    first = np.repeat(boundaries[:-1] - low, sizes)[rows]  # where the query's lowest number would stand
    places = (first + values[rows]).astype(np.int64)
    is_taken = np.zeros(values.size, dtype=bool)
    is_taken[places] = True
    return np.asarray(fits & np.logical_and.reduceat(is_taken, boundaries[:-1]))


def count_rows_of_queries(
    values: NDArray[np.float64],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    boundaries: NDArray[np.int64],
) -> bool:
    """Return whether whole numbers are 1 to n, or 0 to n - 1, in most of ten queries; see `queries_counted`."""
    n_long = np.count_nonzero(np.diff(boundaries) >= FEWEST_RANKED)
    if n_long < FEWEST_QUERIES:
        return False
    return bool(2 * np.count_nonzero(queries_counted(values, low, high, boundaries)) > n_long)


def all_different(values: NDArray[np.float64]) -> bool:
    """Return whether integers (n_rows,) are nearly all different, and no amounts, of which few are very large."""
    if values.size < FEWEST_DIFFERENT or np.unique(values).size < DIFFERENT * values.size:
        return False
    low, middle, high = np.quantile(values, (0.05, 0.5, 0.95))
    return bool(high - middle <= 2 * (middle - low))


def are_times(values: NDArray[np.float64]) -> bool:
    """Return whether integers (n_rows,) are dates such as 20230101, or (milli)seconds since 1970 after 2000."""
    low, high = values.min(), values.max()
    if low == high:
        return False
    if low >= _FIRST_SECOND and high <= _LAST_SECOND:
        return True
    if low >= 1000 * _FIRST_SECOND and high <= 1000 * _LAST_SECOND:
        return True
    if not (low >= _FIRST_DATE and high <= _LAST_DATE):
        return False
    months, days = values // 100 % 100, values % 100
    # float32 has no odd numbers of this size: the 31st may read as a 32nd, the 1st as a 0th
    return bool(((months >= 1) & (months <= 12) & (days <= 32)).all())


def highest_per_row(high: NDArray[np.float64], sizes: NDArray[np.int64]) -> float:
    """Return the median over queries of highest value over number of rows. Shapes: `high`, `sizes` (n_queries,)."""
    return float(np.median(high / sizes))


FAR = 10
"""Times as far as known values reach from one another: from there on beyond them, values are of another unit."""


def is_of_another_range(
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    known_low: NDArray[np.float64],
    known_high: NDArray[np.float64],
) -> NDArray[np.bool_]:
    """Return which columns reach far beyond the range that is known of them; all shapes (m,), NaN for no value."""
    reach = FAR * (known_high - known_low)
    return np.asarray((reach > 0) & (np.fmax(high - known_high, known_low - low) > reach))
