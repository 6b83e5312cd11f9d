"""Any metric as the objective of XGBoost."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import xgboost
from numpy.typing import NDArray

from ltr_harness.boosting.objectives import MetricObjective, Weighting
from ltr_harness.boosting.swap_gradients import Gradients
from ltr_harness.boosting.xgboost_metrics import judgments_of
from ltr_harness.cores import available_cores
from ltr_harness.metrics import Metric, parse_metric


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
    made = MetricObjective(
        metric=parse_metric(metric),
        truncation_level=truncation_level,
        sigma=sigma,
        norm=norm,
        weighting=weighting,
    )
    return XGBoostObjective(made, threads)


class XGBoostObjective(xgboost.callback.TrainingCallback):  # type: ignore[misc]  # untyped base
    """What `objective` returns; the first data set fixes what its metric takes from data."""

    def __init__(self, objective: MetricObjective, threads: int | None = None) -> None:
        super().__init__()
        self._objective = objective
        self._threads = threads
        self._known: weakref.WeakKeyDictionary[Any, Gradients] = weakref.WeakKeyDictionary()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._objective, self._threads)

    def __call__(
        self, scores: NDArray[np.float32], matrix: Any
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        gradients = self._known.get(matrix)
        if gradients is None:
            judgments = judgments_of(matrix)
            self._objective = self._objective.resolved(judgments)
            threads = self._threads or available_cores()
            gradients = self._known[matrix] = Gradients(self._objective, judgments, threads)
        return gradients.of(scores)

    def before_training(self, model: Any) -> Any:
        if isinstance(model, xgboost.Booster):  # a ranker's training takes no objective but a name
            update = model.update
            model.update = lambda matrix, iteration, fobj=None: update(matrix, iteration, fobj=self)
        return model

    def after_training(self, model: Any) -> Any:
        if isinstance(model, xgboost.Booster):
            vars(model).pop("update", None)
        return model
