"""At which rank did each row stand, and do ranks and scores agree?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ltr_harness.logs.batch import LogRows
from ltr_harness.logs.contract import Contract, are_ranks
from ltr_harness.monitoring.config import MonitorConfig

Floats = NDArray[np.float64]


def ranking(
    rows: LogRows, config: MonitorConfig, contract: Contract
) -> tuple[Floats, NDArray[np.int64], bool]:
    """Scores (higher first), ranks from 1, and whether they can be trusted."""
    columns = config.columns
    start, sizes = rows.boundaries[:-1], rows.sizes
    sound, ranks = True, np.arange(rows.boundaries[-1]) - np.repeat(start, sizes) + 1
    scores: Floats = np.empty(0)
    if columns.score:
        scores = rows.numbers(columns.score)
        sound = contract.check("score_invalid", np.isnan(scores), rows.name)
    against = np.zeros(sizes.size, dtype=bool)
    if columns.score and sound:
        against = _some_neighbours(rows, scores[1:] > scores[:-1])
        # Without a rank the rows are in order of score; with one they are unless the two disagree.
        ordered = scores[np.lexsort((-scores, rows.query_of_row))] if against.any() else scores
        tied = _some_neighbours(rows, ordered[1:] == ordered[:-1])
        constant = (np.minimum.reduceat(scores, start) == np.maximum.reduceat(scores, start)) & (sizes > 1)
        _queries(contract, "constant_score", constant, rows)
        _queries(contract, "score_tied", tied & ~constant, rows)
    if columns.rank:
        given = rows.numbers(columns.rank)
        if not contract.check("rank_invalid", ~are_ranks(given), rows.name):
            return scores, ranks, False
        ranks = given.astype(np.int64)
        twice = _some_neighbours(rows, ranks[1:] == ranks[:-1])
        _queries(contract, "rank_tied", twice, rows)
        _queries(contract, "rank_gap", (ranks[rows.boundaries[1:] - 1] != sizes) & ~twice, rows)
        _queries(contract, "rank_and_score", against, rows)
        scores = -given
    _queries(contract, "one_item", sizes == 1, rows)
    k = config.primary.k
    if k is not None:
        _queries(contract, "shorter_than_k", sizes < k, rows)
    return scores, ranks, sound


def _some_neighbours(rows: LogRows, holds: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """(n_queries,) whether it holds for some pair of neighbouring rows of the query."""
    following = np.concatenate((np.zeros(1, dtype=bool), holds))
    following[rows.boundaries[:-1]] = False  # the row before belongs to another query
    some: NDArray[np.bool_] = np.logical_or.reduceat(following, rows.boundaries[:-1])
    return some


def _queries(contract: Contract, check: str, bad: NDArray[np.bool_], rows: LogRows) -> None:
    contract.check(check, bad, lambda at: f"query {str(rows.queries[at])!r}")
