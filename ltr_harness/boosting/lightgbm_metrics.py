"""Metrics and metric objectives as LightGBM calls them: judgments of a Dataset, results that know their metric."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ltr_harness.boosting import stopping, stored_scores
from ltr_harness.boosting.stored_scores import LightGBMScores
from ltr_harness.boosting.swap_gradients import GradientsPerSet, MetricObjective, Weighting
from ltr_harness.boosting.watching import JudgmentsArg, MetricsPerSet, OncePerSet, one_per_row
from ltr_harness.data.judgments import Judgments
from ltr_harness.data.queries import QueryGroups
from ltr_harness.errors import DataError, UsageError
from ltr_harness.metrics import Binding, Metric, parse_metric


def judgments_of(dataset: Any) -> Judgments:
    """Labels, queries and query weights, the means of rows' weights as in LightGBM's metrics, of a `Dataset`."""
    return judgments_of_fields(*_fields(dataset))


def _fields(dataset: Any) -> tuple[Any, Any, Any]:
    """Labels, rows of each query, row weights: LightGBM hands over the same arrays until someone sets others."""
    labels, sizes = dataset.get_label(), dataset.get_group()
    if labels is None or len(labels) == 0:
        raise DataError("the Dataset has no labels; expected lightgbm.Dataset(…, label=…, group=…)")
    if sizes is None or len(sizes) == 0:
        raise DataError(
            "the Dataset has no query groups, and a ranking metric is a mean over queries; "
            "expected lightgbm.Dataset(…, group=rows_of_each_query)"
        )
    return labels, sizes, dataset.get_weight()


def judgments_of_fields(labels: Any, sizes: Any, weights: Any) -> Judgments:
    """`judgments_of` from a Dataset's labels (n_rows,), rows of each query (n_queries,), weights (n_rows,) or None."""
    groups = QueryGroups.from_sizes(sizes)
    query_weights = None
    if weights is not None:
        row_weights = np.asarray(weights, dtype=np.float64)
        query_weights = groups.sum(row_weights) / groups.sizes
    return Judgments.checked(labels, groups, query_weights=query_weights)


# of `lightgbm.Dataset`, which keeps them under the same names; its methods ask the library for what was never given
_GIVEN = ("data", "label", "group", "weight", "init_score", "position", "feature_name", "categorical_feature")


def packed_dataset(dataset: Any) -> dict[str, Any]:
    """Arguments of `lightgbm.Dataset` that make the same set, which can be pickled."""
    if dataset.data is None:
        raise UsageError(
            "LightGBM has freed the rows of a watched set, so it cannot be copied to another process; "
            "expected lightgbm.Dataset(…, free_raw_data=False), or Watch without data and the set among the "
            "training's validation sets"
        )
    fields = {name: getattr(dataset, name) for name in (*_GIVEN, "free_raw_data")}
    return {**fields, "params": dataset.get_params()}


class ReportedName(str):
    """A metric's name in LightGBM's results that still knows the metric: LightGBM's own names do not."""

    metric: Metric

    @classmethod
    def of(cls, metric: Metric) -> ReportedName:
        name = cls(metric)
        name.metric = metric
        return name


Row = tuple[ReportedName, float, bool]

# the names of a binding's metrics, which never change, with whether higher is better
_REPORTED: WeakKeyDictionary[Binding, list[tuple[ReportedName, bool]]] = WeakKeyDictionary()


_SETS_KEPT = 16


class PerBooster(MetricsPerSet):
    """Metrics of whatever booster is evaluated, which LightGBM does not show."""

    def __init__(self, metrics: tuple[Metric, ...], judgments: JudgmentsArg = None) -> None:
        super().__init__(metrics, judgments)
        self._scores: OncePerSet[LightGBMScores] = OncePerSet()

    def _rows(self, binding: Binding, handed: NDArray[np.float64]) -> list[Row]:
        variables = stopping.arguments_of_evaluation("lightgbm", data="cur_data")
        if not variables:
            stored_scores.refuse_unknown("LightGBM", binding.metrics)
            return rows(binding, one_per_row(handed))
        booster = variables["self"]
        scores = self._scores.get(booster, lambda: LightGBMScores(booster))
        return rows(binding, scores.of_set(booster, variables["cur_data"], handed))


class Feval(PerBooster):
    """The result of `feval`."""

    def __call__(self, scores: NDArray[np.float64], dataset: Any) -> list[Row]:
        if isinstance(dataset, np.ndarray):  # LGBMRanker passes labels and scores
            raise UsageError(
                "feval(…) is for lightgbm.train, lightgbm.cv and Booster.eval; "
                "expected LGBMRanker.fit(eval_metric=eval_metric(…)), also of ltr_harness.boosting.lightgbm"
            )
        fields = _fields(dataset)
        binding = self._bound.get(dataset, lambda: self._bind(judgments_of_fields(*fields)), *fields)
        # LightGBM owns `scores` and overwrites it in the next round: it is read here, never kept or written.
        return self._rows(binding, scores)


class EvalMetric(PerBooster):
    """The result of `eval_metric`."""

    at_most = _SETS_KEPT

    def __call__(
        self, labels: NDArray[np.float32], scores: NDArray[np.float64], weight: Any = None, group: Any = None
    ) -> list[Row]:
        if group is None:
            raise UsageError(
                "eval_metric(…) was given no query groups; expected LGBMRanker.fit(…, eval_group=…) or "
                "DaskLGBMRanker; lightgbm.train and lightgbm.cv take feval=feval(…)"
            )
        fields = (labels, group, weight)
        binding = self._bound.get(labels, lambda: self._bind(judgments_of_fields(*fields)), *fields)
        return self._rows(binding, scores)


def rows(binding: Binding, scores: NDArray[np.float64]) -> list[Row]:
    """Results of LightGBM's `feval`, from scores (n_rows,)."""
    reported = _REPORTED.get(binding)
    if reported is None:
        reported = [(ReportedName.of(metric), metric.higher_is_better) for metric in binding.metrics]
        _REPORTED[binding] = reported
    means = binding.means(scores).tolist()
    return [(name, mean, is_higher) for (name, is_higher), mean in zip(reported, means, strict=True)]


def objective(
    metric: Metric | str,
    *,
    truncation_level: int = 30,
    sigma: float = 1.0,
    norm: bool = True,
    weighting: Weighting = "swap",
    threads: int | None = None,
    judgments: JudgmentsArg = None,
) -> LightGBMObjective:
    """A metric as the `objective` of `lightgbm.train`, `lightgbm.cv`, `LGBMRanker` and `DaskLGBMRanker`.

    LambdaMART with the metric's own changes: what `lambdarank` is for NDCG. LightGBM then uses no label gain,
    truncation level or position bias, and its own metrics should be off (``metric="None"``). The model
    scores with plain LightGBM. Query weights multiply gradients; a query weighs the mean of its rows' weights.

    Args:
        metric: a value such as ``ERR(k=10, max_grade=4)``, or its name.
        truncation_level: pairs with at least one row within this many ranks count; the metric's cutoff bounds it.
        sigma: steepness of the logistic function.
        norm: as `lambdarank_norm`.
        weighting: ``swap``, or ``ndcg_loss2++`` for dcg and ndcg.
        threads: of the gradients; None for as many as there are cores. The gradients do not depend on it.
        judgments: of each training set, found by rows and labels, where missed documents count in the metric's divisor.

    Raises:
        MetricError: a metric without `swap_change`, or a value out of range; while training, labels outside
            the metric's domain.
        DataError: (while training) no groups, unusable labels, or scores that are not finite.

    Example:
        >>> import lightgbm, numpy as np
        >>> data = lightgbm.Dataset(np.eye(3), label=[0, 1, 0], group=[3], params={"verbosity": -1}).construct()
        >>> gradient, hessian = objective("mrr", norm=False)(np.array([0.3, 0.2, 0.1]), data)
        >>> int(gradient.argmin()), hessian.astype(float).round(4).tolist()
        (1, [0.1247, 0.1663, 0.0416])
    """
    metric_objective = MetricObjective(parse_metric(metric), truncation_level, sigma, norm, weighting)
    return LightGBMObjective(metric_objective, threads, judgments)


class LightGBMObjective(GradientsPerSet):
    """The result of `objective`."""

    at_most = _SETS_KEPT

    # LightGBM passes scores and a Dataset, its rankers four arrays where a callable has four parameters
    def __call__(
        self, first: NDArray[Any], second: Any, weight: Any = None, group: Any = None
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        ranker = isinstance(second, np.ndarray)
        fields, scores = ((first, group, weight), second) if ranker else (_fields(second), first)
        if fields[1] is None:
            raise UsageError(
                "objective(…) was given no query groups, and a ranking metric is a mean over queries; expected "
                "LGBMRanker.fit(…, group=rows_of_each_query)"
            )
        return self._gradients(fields[0], lambda: judgments_of_fields(*fields), *fields).at_scores(scores)
