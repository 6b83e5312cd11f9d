"""Any metric as the objective of LightGBM."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltr_harness.boosting.lightgbm_metrics import judgments_of_fields, require_queries
from ltr_harness.boosting.objectives import MetricObjective, Weighting
from ltr_harness.boosting.swap_gradients import Gradients
from ltr_harness.cores import available_cores
from ltr_harness.errors import UsageError
from ltr_harness.metrics import Metric, parse_metric


def objective(
    metric: Metric | str,
    *,
    truncation_level: int = 30,
    sigma: float = 1.0,
    norm: bool = True,
    weighting: Weighting = "swap",
    threads: int | None = None,
) -> LightGBMObjective:
    """A metric as the `objective` of `lightgbm.train`, `lightgbm.cv`, `LGBMRanker` and `DaskLGBMRanker`.

    LambdaMART with the metric's own changes: what `lambdarank` is for NDCG. LightGBM then knows no label gain, no
    truncation level and no position bias, and its own metrics want to be switched off (``metric="None"``). The model
    scores with plain LightGBM. Query weights multiply gradients; a query weighs the mean of its rows' weights.

    Args:
        metric: a value such as ``ERR(k=10, max_grade=4)``, or its name.
        truncation_level: pairs with at least one row within this many ranks count; the metric's cutoff bounds it.
        sigma: steepness of the logistic function.
        norm: as `lambdarank_norm`.
        weighting: ``swap``, or ``ndcg_loss2++`` for dcg and ndcg.
        threads: of the gradients; None for as many as there are cores. The gradients do not depend on it.

    Raises:
        MetricError: a metric that does not say how it changes, or a value out of range; while training, labels outside
            the metric's domain.
        DataError: (while training) no groups, unusable labels, or scores that are not finite.

    Example:
        >>> import lightgbm, numpy as np
        >>> data = lightgbm.Dataset(np.eye(3), label=[0, 1, 0], group=[3], params={"verbosity": -1}).construct()
        >>> gradient, hessian = objective("mrr", norm=False)(np.array([0.3, 0.2, 0.1]), data)
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
    return LightGBMObjective(made, threads)


_Fields = tuple[Any, Any, Any]  # labels, group sizes, row weights
_SETS_KEPT = 16


class LightGBMObjective:
    """What `objective` returns; the first data set fixes what its metric takes from data."""

    def __init__(self, objective: MetricObjective, threads: int | None = None) -> None:
        self._objective = objective
        self._threads = threads
        self._known: dict[
            int, tuple[_Fields, Gradients]
        ] = {}  # by the labels' id; they are kept, so it stays theirs

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._objective, self._threads)

    # LightGBM passes scores and a Dataset, its rankers four arrays where a callable has four parameters
    def __call__(
        self, first: NDArray[Any], second: Any, weight: Any = None, group: Any = None
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        if not isinstance(second, np.ndarray):
            require_queries(second)
            return self._gradients((second.get_label(), second.get_group(), second.get_weight())).of(first)
        if group is None:
            raise UsageError(
                "objective(…) was given no query groups, and a ranking metric is a mean over queries; expected "
                "LGBMRanker.fit(…, group=rows_of_each_query)"
            )
        return self._gradients((first, group, weight)).of(second)

    def _gradients(self, fields: _Fields) -> Gradients:
        kept, gradients = self._known.pop(id(fields[0]), (None, None))
        # LightGBM hands over the same arrays until someone sets others
        if (
            kept is None
            or gradients is None
            or any(now is not then for now, then in zip(fields, kept, strict=True))
        ):
            judgments = judgments_of_fields(*fields)
            self._objective = self._objective.resolved(judgments)
            gradients = Gradients(self._objective, judgments, self._threads or available_cores())
        self._known[id(fields[0])] = (fields, gradients)
        if len(self._known) > _SETS_KEPT:
            del self._known[next(iter(self._known))]  # the one that was not used for longest
        return gradients
