"""Gradients of LambdaMART for any metric that knows how it changes when two rows change places.

A query's rows in the order of their scores s, equal scores in row order. For every pair of rows at ranks a < b of which
at least one stands within the first `truncation_level`, i being the one that is worth more:

    p = 1 / (1 + exp(sigma (s_i - s_j)))        w = |change of the metric if the two changed places|
    gradient_i -= sigma p w,  gradient_j += sigma p w,  hessian_i and hessian_j += sigma^2 p (1 - p) w

Burges 2010, "From RankNet to LambdaRank to LambdaMART". Both results are multiplied by the query's weight. With
`norm`, as in LightGBM, w is divided by 0.01 + |s_i - s_j| unless all scores of the query are equal, and the query's
gradients and hessians are multiplied by log2(1 + L) / L, where L is twice the sum of sigma p w.

With E = exp(sigma (s - highest)), p is E_j / (E_i + E_j): one exponential for each row instead of one for each pair.
"""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ltr_harness.boosting.objectives import MetricObjective
from ltr_harness.boosting.swap_kernels import FORMS, Form, Pairs, add_gradients, fill_changes
from ltr_harness.errors import DataError
from ltr_harness.groups import Judgments, check_scores
from ltr_harness.metrics.core.ranking import RowRanker
from ltr_harness.metrics.core.swap_change import SwapChange

_LARGEST_SCORE = 1e100  # differences of larger ones overflow
_LOSS2_SHARE = 10.0  # mu of NDCG-Loss2++, as in its paper
_ROWS_PER_THREAD = 20_000  # below, starting a thread costs more than it saves


class Gradients:
    """Gradients of an objective, whose metric is resolved, on one set of queries.

    The queries are divided among the threads; their number does not change a bit of the results.
    """

    def __init__(self, objective: MetricObjective, judgments: Judgments, threads: int = 1) -> None:
        self._judgments = judgments
        boundaries = judgments.groups.boundaries
        n_parts = max(1, min(threads, int(boundaries[-1]) // _ROWS_PER_THREAD))
        ends = np.searchsorted(boundaries, np.arange(1, n_parts + 1) * boundaries[-1] // n_parts)
        cuts = np.unique(np.concatenate(([0], ends))).tolist()
        objective.metric.swap_change(judgments)  # a refusal counts the rows of all queries
        self._parts = [
            _Part.of(objective, judgments.take(np.arange(first, last)), int(boundaries[first]))
            for first, last in itertools.pairwise(cuts)
        ]

    def of(self, scores: ArrayLike) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Gradient and hessian of every row, float32 (n_rows,), from raw scores (n_rows,)."""
        checked = _finite(scores, self._judgments)
        gradient = np.zeros(checked.size, dtype=np.float32)
        hessian = np.zeros(checked.size, dtype=np.float32)

        def fill(part: _Part) -> None:
            part.fill(checked[part.rows], gradient[part.rows], hessian[part.rows])

        if len(self._parts) == 1:
            fill(self._parts[0])
        else:
            with ThreadPoolExecutor(len(self._parts)) as pool:
                list(pool.map(fill, self._parts))
        return gradient, hessian


def swap_changes(change: SwapChange, judgments: Judgments, scores: ArrayLike) -> list[NDArray[np.float64]]:
    """Sizes of the changes when ranks a + 1 and b + 1 change places: at [a, b], a < b, float64 (n, n) per query."""
    ranked = RowRanker(judgments, "stable", None).rank(_finite(scores, judgments)).rows
    boundaries = judgments.groups.boundaries
    tables = []
    for query, (start, end) in enumerate(itertools.pairwise(boundaries.tolist())):
        table = np.zeros((end - start, end - start))
        own = _own(change, query, ranked[start:end], end - start)
        fill_changes(_form(change, boundaries), ranked, own, query, table)
        tables.append(table)
    return tables


def _finite(scores: ArrayLike, judgments: Judgments) -> NDArray[np.float64]:
    checked = check_scores(scores, judgments.groups)
    if not max(checked.max(), -checked.min()) <= _LARGEST_SCORE:
        row = int(np.argmax(np.abs(checked)))
        query = judgments.groups.query_of(row)
        raise DataError(
            f"score is {checked[row]:g} in query {judgments.groups.name(query)!r}; expected finite scores: a row whose "
            "score is infinite has no gradient"
        )
    return checked


def _form(change: SwapChange, boundaries: NDArray[np.int64]) -> Form:
    sizes = np.diff(boundaries)
    depth = sizes if change.depth is None else np.minimum(change.depth, sizes)
    if change.form in ("sum", "first hit", "precision", "cascade") and not change.per_query:
        depth = np.minimum(depth, change.rank_worth.size)
    table_at = boundaries[:-1] if change.per_query else np.zeros(sizes.size, dtype=np.int64)
    parameter = change.continuation if change.form == "cascade" else change.blend
    apart = np.zeros(0) if change.apart is None else change.apart
    return Form(
        FORMS[change.form],
        np.ascontiguousarray(change.worth, dtype=np.float64),
        np.ascontiguousarray(change.scale, dtype=np.float64),
        np.ascontiguousarray(change.rank_worth, dtype=np.float64),
        table_at,
        depth,
        float(parameter),
        apart,
        boundaries,
    )


_NOTHING = np.zeros((0, 0))


def _own(change: SwapChange, query: int, rows: NDArray[np.int64], n_top: int) -> NDArray[np.float64]:
    if change.function is None:
        return _NOTHING
    return np.abs(np.asarray(change.function(query, rows, n_top), dtype=np.float64))


@dataclass(frozen=True, eq=False)
class _Part:
    """Neighbouring queries, whose gradients one thread computes."""

    rows: slice
    judgments: Judgments
    change: SwapChange
    ranker: RowRanker
    weights: NDArray[np.float64]
    objective: MetricObjective

    @classmethod
    def of(cls, objective: MetricObjective, judgments: Judgments, first_row: int) -> _Part:
        weights = judgments.query_weights
        return cls(
            slice(first_row, first_row + judgments.groups.n_rows),
            judgments,
            objective.metric.swap_change(judgments),
            RowRanker(judgments, "stable", None),
            np.ones(judgments.groups.n_queries) if weights is None else weights,
            objective,
        )

    def fill(
        self, scores: NDArray[np.float64], gradient: NDArray[np.float32], hessian: NDArray[np.float32]
    ) -> None:
        groups, settings = self.judgments.groups, self.objective
        top = settings.truncation_level
        ranked = self.ranker.rank(scores).rows
        form = _form(self.change, groups.boundaries)
        pairs = Pairs(
            self.weights,
            top,
            float(settings.sigma),
            settings.norm,
            _LOSS2_SHARE if settings.weighting == "ndcg_loss2++" else 0.0,
        )
        if self.change.function is None:
            add_gradients(form, pairs, scores, ranked, _NOTHING, 0, groups.n_queries, gradient, hessian)
            return
        for query, (start, end) in enumerate(itertools.pairwise(groups.boundaries.tolist())):
            own = _own(self.change, query, ranked[start:end], min(top, end - start))
            add_gradients(form, pairs, scores, ranked, own, query, query + 1, gradient, hessian)
