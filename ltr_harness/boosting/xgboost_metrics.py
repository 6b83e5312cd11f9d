"""Metrics and objectives as XGBoost calls them: judgments of a DMatrix, means over all workers' queries, XE-NDCG."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xgboost
from numpy.typing import NDArray
from xgboost import collective

from ltr_harness._util.compiled import compiled
from ltr_harness._util.text import count_of
from ltr_harness.boosting import stopping, stored_scores, watching
from ltr_harness.boosting.swap_gradients import Both, GradientsPerSet, MetricObjective, Weighting
from ltr_harness.boosting.watching import BoundMetrics, JudgmentsArg, MetricsPerSet, OncePerSet, one_per_row
from ltr_harness.data.arrays import sealed
from ltr_harness.data.judgments import Judgments
from ltr_harness.data.queries import QueryGroups
from ltr_harness.errors import DataError, MetricError, UsageError
from ltr_harness.metrics import Binding, Metric, bind, parse_metric


def _fields(matrix: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Labels (n_rows,), boundaries of queries (n_queries + 1,) and weights (n_queries,), as they are now."""
    return matrix.get_label(), matrix.get_uint_info("group_ptr"), matrix.get_weight()


def judgments_of(matrix: Any) -> Judgments:
    """Labels, queries and query weights of an `xgboost.DMatrix`."""
    labels, of_groups, weights = _fields(matrix)
    boundaries = of_groups.astype(np.int64)
    if labels.size == 0:
        raise DataError("the DMatrix has no labels; expected xgboost.DMatrix(…, label=…, group=…)")
    if boundaries.size == 0:
        raise DataError(
            "the DMatrix has no query groups: XGBoost would silently treat all rows as one query; "
            "expected xgboost.DMatrix(…, group=rows_of_each_query)"
        )
    groups = QueryGroups.from_sizes(np.diff(boundaries))
    if weights.size not in (0, groups.n_queries):
        raise DataError(
            f"the DMatrix has {weights.size} weights for {count_of(groups.n_queries, 'query')}; expected one per query"
        )
    return Judgments.checked(labels, groups, query_weights=_none_if_empty(weights))


def _none_if_empty(values: NDArray[Any]) -> NDArray[Any] | None:
    return values if values.size else None


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
        "weight": _none_if_empty(weights),
        "base_margin": _none_if_empty(margin),
        "feature_names": matrix.feature_names,
        "feature_types": matrix.feature_types,
        "enable_categorical": True,
    }


class CustomMetric(MetricsPerSet):
    """The result of `custom_metric`."""

    def __call__(self, scores: NDArray[np.float32], matrix: Any) -> list[tuple[str, float]]:
        if isinstance(matrix, np.ndarray):  # XGBRanker passes one query's labels and scores
            raise UsageError(
                "the eval_metric of XGBRanker is given no query groups, and averages by its own rules; "
                "expected XGBRanker(callbacks=[Watch(…)]), of ltr_harness.boosting.xgboost"
            )
        bound = self._bound.get(matrix, lambda: self._means(matrix), *_fields(matrix))
        booster = stopping.arguments_of_evaluation("xgboost", data="dmat").get("self")
        if booster is None:
            stored_scores.refuse_unknown("XGBoost", self._metrics)
            values = bound.means(one_per_row(scores))
        else:
            values = bound.means(stored_scores.of_xgboost(booster, matrix))
        return [(name, float(value)) for name, value in zip(bound.names, values, strict=True)]

    def _means(self, matrix: Any) -> BoundMetrics:
        if collective.get_world_size() > 1:
            matched = (
                watching.match_judgments(self._judgments, judgments_of(matrix)) if matrix.num_row() else None
            )
            return AcrossWorkers(self._metrics, matrix, matched)
        return self._bind(judgments_of(matrix))


class AcrossWorkers:
    """Metrics over the queries of all workers, each of which has a part of them; XGBoost's are the means of means."""

    def __init__(self, metrics: Sequence[Metric], matrix: Any, judgments: Judgments | None = None) -> None:
        self.names = tuple(str(metric) for metric in metrics)
        self._binding: Binding | None = None
        if matrix.num_row():
            self._binding = bind(metrics, judgments or judgments_of(matrix))
            if self._binding.names != self.names:
                requested, resolved = next(
                    pair for pair in zip(self.names, self._binding.names, strict=True) if pair[0] != pair[1]
                )
                raise MetricError(
                    f"{requested} takes a parameter from data, and each worker has other data; "
                    f"expected such as {resolved}"
                )

    def means(self, scores: NDArray[np.float32]) -> NDArray[np.float64]:
        """Means on all workers, float64 (n_metrics,), from the scores (n_rows,) of this worker's part."""
        totals = np.zeros((2, len(self.names)))
        if self._binding is not None:
            values = self._binding.per_query(scores)
            weights = self._binding.judgments.query_weights
            counted = np.isfinite(values).astype(np.float64)
            if weights is not None:
                counted *= weights
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
    judgments: JudgmentsArg = None,
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
        judgments: of each training set, found by rows and labels, where missed documents count in the metric's divisor.

    Raises:
        MetricError: a metric without `swap_change`, or a value out of range; while training, labels outside
            the metric's domain.
        DataError: (while training) no groups, unusable labels, or scores that are not finite.

    Example:
        >>> import numpy as np, xgboost
        >>> data = xgboost.DMatrix(np.zeros((3, 1)), label=[0, 1, 0], group=[3])
        >>> gradient, hessian = objective("mrr", norm=False)(np.array([0.3, 0.2, 0.1], np.float32), data)
        >>> int(gradient.argmin()), hessian.astype(float).round(4).tolist()
        (1, [0.1247, 0.1663, 0.0416])
    """
    metric_objective = MetricObjective(parse_metric(metric), truncation_level, sigma, norm, weighting)
    return XGBoostObjective(metric_objective, threads, judgments)


class XGBoostObjective(GradientsPerSet, xgboost.callback.TrainingCallback):  # type: ignore[misc]  # untyped base
    """The result of `objective`."""

    def __call__(self, scores: NDArray[np.float32], matrix: Any) -> Both:
        return self._gradients(matrix, lambda: judgments_of(matrix), *_fields(matrix)).at_scores(scores)

    def before_training(self, model: Any) -> Any:
        if isinstance(model, xgboost.Booster):  # a ranker's training takes no objective but a name
            update = model.update
            model.update = lambda matrix, iteration, fobj=None: update(matrix, iteration, fobj=self)
        return model

    def after_training(self, model: Any) -> Any:
        if isinstance(model, xgboost.Booster):
            vars(model).pop("update", None)
        return model


class XENDCG(xgboost.callback.TrainingCallback):  # type: ignore[misc]  # untyped base
    """XE-NDCG, LightGBM's rank_xendcg, as the `obj` of `xgboost.train`.

        objective = XENDCG(seed=1)
        booster = xgboost.train(
            {"base_score": 0.0, "disable_default_eval_metric": 1}, train, 500, obj=objective, callbacks=[objective],
        )

    A row's random number depends on the seed, the round and the row alone. The round is the model's where the
    object is among the callbacks, as above, so that training goes on exactly where it was left; otherwise it
    counts its calls for each DMatrix, and one object serves one training; a copy counts anew.

    Query weights are honoured: XGBoost leaves that to a custom objective. Predictions are raw scores. The
    hessians of a query sum to less than 1, so `min_child_weight` is counted in queries: keep it near 1.

    Args:
        seed: of the random numbers; XGBoost's own `seed` does not reach them.

    Raises:
        DataError: (while training) a DMatrix without groups or with unusable labels.

    Example:
        >>> import numpy as np, xgboost
        >>> data = xgboost.DMatrix(np.zeros((3, 1)), label=[0, 1, 0], group=[3])
        >>> gradient, hessian = XENDCG(seed=1)(np.zeros(3, np.float32), data)
        >>> int(gradient.argmin()), hessian.astype(float).round(4).tolist()
        (1, [0.2222, 0.2222, 0.2222])
    """

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self._seed = seed
        self._round: int | None = None  # unknown where this is no callback
        self._prepared: OncePerSet[list[Any]] = OncePerSet()  # the set's own calls so far, and what is fixed

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._seed,)

    def before_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        # not `epoch`, which starts at 0 again when a model is trained further
        self._round = model.num_boosted_rounds() if isinstance(model, xgboost.Booster) else epoch
        return False

    def after_training(self, model: Any) -> Any:
        self._round = None
        self._prepared = OncePerSet()
        return model

    def __call__(self, scores: NDArray[np.float32], matrix: Any) -> Both:
        def prepare() -> list[Any]:
            judgments = judgments_of(matrix)
            groups, weights = judgments.groups, judgments.query_weights
            # read-only as given weights are: for others numba would compile the kernel once more
            weights = sealed(np.ones(groups.n_queries)) if weights is None else weights
            return [0, xendcg_worth(judgments.labels), groups.boundaries, weights]

        prepared = self._prepared.get(matrix, prepare, *_fields(matrix))
        calls, worth_of_rows, boundaries, weights = prepared
        prepared[0] += 1
        gammas = draw_gammas(self._seed, calls if self._round is None else self._round, scores.size)
        return xendcg_gradients(scores, worth_of_rows, boundaries, weights, gammas)


# Bruch, "An Alternative Cross Entropy Loss for Learning-to-Rank" (WWW 2021). Of one query with labels y and scores s,
# rho = softmax(s), and every round draws gamma_i from [0, 1):
#
#     phi_i = 2**y_i - gamma_i,   p_i = phi_i / sum(phi),   loss = - sum_i p_i log(rho_i)
#     g1_i  = rho_i - p_i                                  the exact gradient
#     g2_i  = rho_i (sum_j a_j - a_i),  a_j = g1_j / (1 - rho_j)
#     g3_i  = rho_i (sum_j c_j - c_i),  c_j = g2_j / (1 - rho_j)
#     gradient = g1 + g2 + g3,   hessian_i = rho_i (1 - rho_i)
#
# The second and third term are the next ones of the Neumann series of the Newton step, of which boosting could
# otherwise take only the diagonal.

_SMALLEST_REST = 1e-12  # of 1 - rho: a row that has all the probability would divide by zero
_SMALLEST_HESSIAN = 1e-16
_WEYL = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_BITS_30, _BITS_27, _BITS_31, _BITS_11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)


def xendcg_worth(labels: NDArray[np.floating]) -> NDArray[np.float64]:
    """2**label, float64 (n_rows,), fractions of labels (n_rows,) cut off as LightGBM does."""
    return np.exp2(np.trunc(labels.astype(np.float64)))


def draw_gammas(seed: int, round_: int, n_rows: int) -> NDArray[np.float64]:
    """Random numbers of [0, 1), one per row, that depend on the seed, the round (from 0) and the row alone."""
    mask = (1 << 64) - 1
    return _draw(np.uint64(seed & mask), np.uint64(round_ & mask), n_rows)


@compiled
def _draw(seed: np.uint64, round_: np.uint64, n_rows: int) -> NDArray[np.float64]:
    start = _mix_bits(_mix_bits(seed + _WEYL) + (round_ + np.uint64(1)) * _WEYL)
    gammas = np.empty(n_rows)
    counter = start
    for row in range(n_rows):
        counter += _WEYL
        gammas[row] = np.float64(_mix_bits(counter) >> _BITS_11) * 2.0**-53
    return gammas


@compiled
def _mix_bits(bits: np.uint64) -> np.uint64:
    """Every bit of the input moves every bit of the output (the finaliser of SplitMix64)."""
    bits = (bits ^ (bits >> _BITS_30)) * _MIX_1
    bits = (bits ^ (bits >> _BITS_27)) * _MIX_2
    return bits ^ (bits >> _BITS_31)


@compiled
def xendcg_gradients(
    scores: NDArray[np.floating],  # (n_rows,), raw
    worth_of_rows: NDArray[np.float64],  # (n_rows,), from `xendcg_worth`
    boundaries: NDArray[np.int64],  # (n_queries + 1,), first row of each query and the end of the last
    weights: NDArray[np.float64],  # (n_queries,); both results are multiplied by the query's
    gammas: NDArray[np.float64],  # (n_rows,), this round's draw
) -> Both:
    """Gradient and hessian of every row, float32 as both libraries keep them."""
    gradient = np.zeros(scores.size, dtype=np.float32)
    hessian = np.zeros(scores.size, dtype=np.float32)
    widest = np.diff(boundaries).max()
    rho, rest, term, total = np.empty(widest), np.empty(widest), np.empty(widest), np.empty(widest)
    for query in range(boundaries.size - 1):
        first = boundaries[query]
        n = boundaries[query + 1] - first
        if n < 2:
            continue  # alone, a row has nothing to be ranked against
        highest = np.float64(scores[first])
        for i in range(1, n):
            highest = max(highest, np.float64(scores[first + i]))
        mass = 0.0
        phis = 0.0
        for i in range(n):
            rho[i] = np.exp(np.float64(scores[first + i]) - highest)
            mass += rho[i]
            term[i] = worth_of_rows[first + i] - gammas[first + i]
            phis += term[i]
        scale = 1.0 / max(1e-15, phis)
        a_sum = 0.0
        for i in range(n):
            rho[i] /= mass
            rest[i] = 1.0 / max(1.0 - rho[i], _SMALLEST_REST)
            total[i] = rho[i] - term[i] * scale
            term[i] = total[i] * rest[i]
            a_sum += term[i]
        c_sum = 0.0
        for i in range(n):
            second = rho[i] * (a_sum - term[i])
            total[i] += second
            term[i] = second * rest[i]
            c_sum += term[i]
        for i in range(n):
            total[i] += rho[i] * (c_sum - term[i])
            gradient[first + i] = weights[query] * total[i]
            hessian[first + i] = weights[query] * max(rho[i] * (1.0 - rho[i]), _SMALLEST_HESSIAN)
    return gradient, hessian
