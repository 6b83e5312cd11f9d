"""Metrics and metric objectives as XGBoost calls them: judgments of a DMatrix, means over all workers' queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xgboost
from numpy.typing import NDArray
from xgboost import collective

from ltr_harness.boosting.objectives import MetricObjective, Weighting
from ltr_harness.boosting.swap_gradients import GradientsPerSet
from ltr_harness.boosting.watching import BoundMetrics, MetricsPerSet, one_per_row
from ltr_harness.errors import DataError, MetricError, UsageError
from ltr_harness.groups import Judgments, QueryGroups
from ltr_harness.metrics import Binding, Metric, bind
from ltr_harness.wording import count_of


def judgments_of(matrix: Any) -> Judgments:
    """Labels, queries and query weights of an `xgboost.DMatrix`."""
    labels = matrix.get_label()
    boundaries = matrix.get_uint_info("group_ptr").astype(np.int64)
    if labels.size == 0:
        raise DataError("the DMatrix has no labels; expected xgboost.DMatrix(…, label=…, group=…)")
    if boundaries.size == 0:
        raise DataError(
            "the DMatrix has no query groups: XGBoost would silently treat all rows as one query; "
            "expected xgboost.DMatrix(…, group=rows_of_each_query)"
        )
    groups = QueryGroups.from_sizes(np.diff(boundaries))
    weights = matrix.get_weight()
    if weights.size not in (0, groups.n_queries):
        raise DataError(
            f"the DMatrix has {weights.size} weights for {count_of(groups.n_queries, 'query')}; expected one per query"
        )
    return Judgments.checked(labels, groups, query_weights=weights if weights.size else None)


def packed_matrix(matrix: Any) -> dict[str, Any]:
    """Arguments of `xgboost.DMatrix` that make the same matrix, which can be pickled."""
    try:
        features = matrix.get_data()
    except xgboost.core.XGBoostError:
        raise UsageError(
            "a watched set lies in XGBoost's external memory and cannot be copied to another process; "
            "expected an xgboost.DMatrix, or Watch without data and the set among the training's evals"
        ) from None
    weights, margin = matrix.get_weight(), matrix.get_base_margin()
    return {
        "data": features,
        "label": matrix.get_label(),
        "group": np.diff(matrix.get_uint_info("group_ptr")),
        "weight": weights if weights.size else None,
        "base_margin": margin if margin.size else None,
        "feature_names": matrix.feature_names,
        "feature_types": matrix.feature_types,
        "enable_categorical": True,
    }


class CustomMetric(MetricsPerSet):
    """What `custom_metric` returns."""

    def __call__(self, scores: NDArray[np.float32], matrix: Any) -> list[tuple[str, float]]:
        if isinstance(matrix, np.ndarray):  # XGBRanker passes one query's labels and scores
            raise UsageError(
                "the eval_metric of XGBRanker is given no query groups, and averages by its own rules; "
                "expected XGBRanker(callbacks=[Watch(…)]), of ltr_harness.boosting.xgboost"
            )
        bound = self._bound.of(matrix, lambda: self._means(matrix))
        values = bound.means(one_per_row(scores))
        return [(name, float(value)) for name, value in zip(bound.names, values, strict=True)]

    def _means(self, matrix: Any) -> BoundMetrics:
        if collective.get_world_size() > 1:
            return AcrossWorkers(self._metrics, matrix)
        return self._bind(judgments_of(matrix))


class AcrossWorkers:
    """Metrics over the queries of all workers, each of which has a part of them, perhaps an empty one.

    XGBoost takes the mean of the workers' means, whatever their numbers of queries.
    """

    def __init__(self, metrics: Sequence[Metric], matrix: Any, judgments: Judgments | None = None) -> None:
        self.names = tuple(str(metric) for metric in metrics)
        self._binding: Binding | None = None
        if matrix.num_row():
            self._binding = bind(metrics, judgments or judgments_of(matrix))
            if self._binding.names != self.names:
                asked, resolved = next(
                    pair for pair in zip(self.names, self._binding.names, strict=True) if pair[0] != pair[1]
                )
                raise MetricError(
                    f"{asked} takes a parameter from data, and each worker has other data; expected such as {resolved}"
                )

    def means(self, scores: NDArray[np.float32]) -> NDArray[np.float64]:
        """Means on all workers, float64 (n_metrics,), from the scores (n_rows,) of this worker's part."""
        totals = np.zeros((2, len(self.names)))
        if self._binding is not None:
            values = self._binding.per_query(scores)
            weights = self._binding.judgments.query_weights
            counted = np.isfinite(values) * (1.0 if weights is None else weights)
            totals[:] = (counted * np.nan_to_num(values)).sum(axis=1), counted.sum(axis=1)
        sums, weight = np.reshape(collective.allreduce(totals, collective.Op.SUM), totals.shape)
        means = np.full(len(self.names), np.nan)
        np.divide(sums, weight, out=means, where=weight > 0)
        return means


def objective(
    metric: Metric | str,
    *,
    truncation_level: int = 30,
    sigma: float = 1.0,
    norm: bool = True,
    weighting: Weighting = "swap",
    threads: int | None = None,
) -> XGBoostObjective:
    """A metric as the `obj` of `xgboost.train`, `xgboost.cv` and `xgboost.dask.train`; for rankers, a callback.

        booster = xgboost.train({"base_score": 0.0, "disable_default_eval_metric": 1}, train, 500, obj=objective("mrr"))
        ranker = xgboost.XGBRanker(callbacks=[objective("mrr")])

    `XGBRanker` and `DaskXGBRanker` refuse every callable as their `objective`; among their callbacks it takes the place
    of whatever objective they name. LambdaMART with the metric's own changes: what `rank:ndcg` is for NDCG, with
    hessians half as large as XGBoost's. Query weights multiply gradients. The model scores with plain XGBoost.

    Args:
        metric: a value such as ``ERR(k=10, max_grade=4)``, or its name.
        truncation_level: pairs with at least one row within this many ranks count; the metric's cutoff bounds it.
        sigma: steepness of the logistic function.
        norm: as LightGBM's `lambdarank_norm`, which XGBoost has in two parts.
        weighting: ``swap``, or ``ndcg_loss2++`` for dcg and ndcg.
        threads: of the gradients; None for as many as there are cores. The gradients do not depend on it.

    Raises:
        MetricError: a metric that does not say how it changes, or a value out of range; while training, labels outside
            the metric's domain.
        DataError: (while training) no groups, unusable labels, or scores that are not finite.

    Example:
        >>> import numpy as np, xgboost
        >>> data = xgboost.DMatrix(np.zeros((3, 1)), label=[0, 1, 0], group=[3])
        >>> gradient, hessian = objective("mrr", norm=False)(np.array([0.3, 0.2, 0.1], np.float32), data)
        >>> int(gradient.argmin()), hessian.astype(float).round(4).tolist()
        (1, [0.1247, 0.1663, 0.0416])
    """
    made = MetricObjective.of(metric, truncation_level, sigma, norm, weighting)
    return XGBoostObjective(made, threads)


class XGBoostObjective(GradientsPerSet, xgboost.callback.TrainingCallback):  # type: ignore[misc]  # untyped base
    """What `objective` returns."""

    def __call__(
        self, scores: NDArray[np.float32], matrix: Any
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        return self._gradients(matrix, lambda: judgments_of(matrix)).of(scores)

    def before_training(self, model: Any) -> Any:
        if isinstance(model, xgboost.Booster):  # a ranker's training takes no objective but a name
            update = model.update
            model.update = lambda matrix, iteration, fobj=None: update(matrix, iteration, fobj=self)
        return model

    def after_training(self, model: Any) -> Any:
        if isinstance(model, xgboost.Booster):
            vars(model).pop("update", None)
        return model
