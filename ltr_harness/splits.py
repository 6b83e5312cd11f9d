"""Which queries go where: hold-out and folds. A query is never split.

The same seed and number of queries give the same split on every machine and with every NumPy: each query
draws one raw 64-bit number from the PCG64 bit generator, whose stream NumPy guarantees (that of
``Generator.permutation`` it does not), and the queries are ordered by what they drew.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ltr_harness.errors import DataError
from ltr_harness.groups import QueryGroups


def holdout(groups: QueryGroups, fraction: float, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Set a share of the queries aside, such as validation queries out of the training ones.

    Args:
        groups: the queries to divide; only their number matters.
        fraction: share to hold out, above 0 and below 1; the count is rounded to the nearest query.
        seed: whole number >= 0.

    Returns:
        Kept and held-out query indices, int64, each sorted.

    Raises:
        DataError: the fraction is outside (0, 1), or one side would have no query.

    Example:
        >>> kept, held = holdout(QueryGroups.from_sizes([3] * 10), 0.2, seed=1)
        >>> len(kept), len(held)
        (8, 2)
    """
    if not 0 < fraction < 1:
        raise DataError(
            f"holdout fraction is {fraction:g}; expected a share above 0 and below 1, such as 0.2"
        )
    n = groups.n_queries
    n_held = int(np.floor(fraction * n + 0.5))
    if n_held in (0, n):
        side = "held out" if n_held == 0 else "kept"
        raise DataError(
            f"a holdout of {fraction:g} of {n} queries leaves none {side}; expected at least one on each side"
        )
    order = shuffled(n, seed)
    return np.sort(order[n_held:]), np.sort(order[:n_held])


def folds(
    groups: QueryGroups, n: int, seed: int
) -> list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]]:
    """Cross-validation by query: in fold i, part i is test, part i + 1 valid, the rest train.

    Every query is tested exactly once. Parts differ in size by at most one query.

    Args:
        groups: the queries to divide; only their number matters.
        n: number of folds, at least 3 (each fold needs three non-empty sides).
        seed: whole number >= 0.

    Returns:
        For each fold the train, valid and test query indices, int64, each sorted.

    Raises:
        DataError: fewer than 3 folds, or fewer queries than folds.
    """
    if n < 3:
        raise DataError(f"{n} folds; expected at least 3: each fold needs a train, a valid and a test part")
    if groups.n_queries < n:
        raise DataError(f"{n} folds of {groups.n_queries} queries; expected at least one query per fold")
    parts = np.array_split(shuffled(groups.n_queries, seed), n)
    divided = []
    for i in range(n):
        j = (i + 1) % n
        train = np.concatenate([part for k, part in enumerate(parts) if k not in (i, j)])
        divided.append((np.sort(train), np.sort(parts[j]), np.sort(parts[i])))
    return divided


def shuffled(n: int, seed: int) -> NDArray[np.int64]:
    """0..n-1 in the order the seed gives, int64, stable for ever (see the top of this file).

    Raises:
        DataError: the seed is negative.
    """
    if seed < 0:
        raise DataError(f"seed is {seed}; expected a whole number >= 0")
    draws = np.random.PCG64(seed).random_raw(n)
    return np.argsort(draws, kind="stable").astype(np.int64)
