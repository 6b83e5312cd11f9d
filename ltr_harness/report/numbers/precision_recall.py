"""Precision at eleven levels of recall, interpolated query by query and averaged, and the area it stands for: AP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ltr_harness.groups import Judgments
from ltr_harness.metrics.core.ranking import RowRanker
from ltr_harness.metrics.map import MAP
from ltr_harness.report.numbers.test_rows import TestRows

LEVELS = np.arange(11) / 10
"""Of recall."""

_ROUNDING = 1e-9  # far above what sums of hits lose, far below one document of any list


class PrecisionRecall(NamedTuple):
    """One model's curve.

    Attributes:
        precision: float64 (11,), at each of `LEVELS`.
        ap: mean average precision of whole lists.
    """

    precision: NDArray[np.float64]
    ap: float


def curves(models: Sequence[str], rows: TestRows, relevant: float) -> dict[str, PrecisionRecall]:
    """Each model's curve, averaged over its replicates; empty where no query has a relevant document."""
    is_relevant = rows.judgments.labels >= relevant
    if not is_relevant.any():
        return {}
    metric = MAP(relevant=relevant)
    by_model = {}
    for model in models:
        replicates = [
            interpolated(rows.judgments, is_relevant, rows.scores(model, at))
            for at in range(len(rows.runs[model]))
        ]
        ap = float(np.nanmean(rows.per_query(model, (metric,))))
        by_model[model] = PrecisionRecall(np.mean(replicates, axis=0), ap)
    return by_model


def interpolated(
    judgments: Judgments, is_relevant: NDArray[np.bool_], scores: NDArray[np.float64]
) -> NDArray[np.float64]:
    """float64 (11,): the best precision at this recall or a higher one, averaged over queries with relevant documents.

    Within documents of one score the number of relevant ones down to a rank is what it is on average over their orders.

    Shapes: `is_relevant` (n_rows,), `scores` (n_rows,).
    """
    ranking = RowRanker(judgments, "expected", None).rank(scores)
    starts, sizes = ranking.offsets[:-1], np.diff(ranking.offsets)
    query = np.repeat(np.arange(sizes.size), sizes)
    rank = np.arange(ranking.rows.size) - starts[query] + 1.0
    group = np.cumsum(np.concatenate(([0], np.diff(ranking.tie_end + starts[query]) > 0)))
    share = np.bincount(group, is_relevant[ranking.rows]) / np.bincount(group)
    hits = np.cumsum(share[group])
    hits -= (hits - share[group])[starts][query]
    total = hits[ranking.offsets[1:] - 1]
    has_any = np.logical_or.reduceat(is_relevant[ranking.rows], starts)
    recall = np.minimum(hits / np.where(has_any, total, 1.0)[query], 1.0)
    # queries two apart, so that one search and one running maximum serve all of them
    best = np.maximum.accumulate((hits / rank - 2.0 * query)[::-1])[::-1] + 2.0 * query
    queries = np.flatnonzero(has_any)
    wanted = 2.0 * queries[:, np.newaxis] + LEVELS - _ROUNDING
    at = np.searchsorted(recall + 2.0 * query, wanted)
    return np.asarray(best[np.minimum(at, ranking.offsets[queries + 1][:, np.newaxis] - 1)].mean(axis=0))
