"""The harness's metrics inside `xgboost.train`: full precision, the right direction, the best round kept.

    watch = Watch(NDCG(k=10), MRR(k=10), data={"valid": valid}, patience=50)
    booster = xgboost.train({"objective": "rank:ndcg"}, train, num_boost_round=2000, callbacks=[watch])

`custom_metric` is for those who want XGBoost's own `EarlyStopping`; XGBoost then rounds every value to six
decimals, and minimises it unless told otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import xgboost
from xgboost import collective

from ltr_harness.boosting import stopping, stored_scores, watching
from ltr_harness.boosting.watching import BoundMetrics, JudgmentsArg, Measured, Watching
from ltr_harness.boosting.xgboost_metrics import XENDCG as XENDCG
from ltr_harness.boosting.xgboost_metrics import AcrossWorkers, CustomMetric, judgments_of, packed_matrix
from ltr_harness.boosting.xgboost_metrics import objective as objective
from ltr_harness.errors import MetricError, UsageError
from ltr_harness.metrics import Metric

__all__ = ["XENDCG", "Watch", "custom_metric", "objective"]

_BREAKS_THE_LOG_LINE = " \t\n\r:"  # XGBoost prints results as text and parses them back


def custom_metric(*metrics: Metric | str, judgments: JudgmentsArg = None) -> CustomMetric:
    """The metrics as the `custom_metric` of `xgboost.train`, `xgboost.cv` and `xgboost.dask.train`.

    XGBoost has no direction: give its `EarlyStopping` all of ``metric_name``, ``data_name``,
    ``maximize=True`` and ``save_best=True``; without ``maximize`` it minimises ``mrr@10``. Values pass through
    text with six decimals. `Watch` has neither flaw, and works in `XGBRanker`, whose ``eval_metric`` is given no
    groups. The metrics are of margins, also where XGBoost gives them probabilities. Across workers it is the mean over
    all their queries, which no partition may divide.

    Args:
        metrics: values such as ``NDCG(k=10)``, or their names.
        judgments: of evaluated sets, found by rows and labels, where documents were missed or float32 is too coarse.

    Returns:
        A callable ``(scores, dmatrix) -> [(name, mean), …]``. What does not depend on the scores is computed
        once per DMatrix; after `set_label` make a new DMatrix or a new callable.

    Raises:
        MetricError: none, an unknown one, one given twice, or a name that XGBoost cannot print.
        DataError: (while training) a DMatrix without groups, with unusable labels, or without judgments that fit.
        UsageError: `log_loss` or `brier`, called by other code than XGBoost's: scores may be margins or probabilities.

    Example:
        >>> import numpy as np, xgboost
        >>> data = xgboost.DMatrix(np.zeros((3, 1)), label=[0, 1, 0], group=[3])
        >>> custom_metric("mrr")(np.array([0.3, 0.2, 0.1]), data)
        [('mrr', 0.5)]
    """
    distinct = watching.distinct_metrics(metrics)
    illegal = [name for name in map(str, distinct) if any(sign in name for sign in _BREAKS_THE_LOG_LINE)]
    if illegal:
        raise MetricError(
            f"XGBoost cannot print these names: {', '.join(map(repr, illegal))}; "
            "expected names without spaces and colons; `Watch` takes any name"
        )
    return CustomMetric(distinct, judgments)


class Watch(Watching, xgboost.callback.TrainingCallback):  # type: ignore[misc]  # untyped base
    """A callback for `xgboost.train` and `XGBRanker` that evaluates named sets in full precision, and stops.

    Needs no `custom_metric`, and no `evals` where it is given `data`. Stops on the first metric, in its own
    direction. The returned booster consists of the best round's trees, so that `predict`, `inplace_predict`, saving
    and loading all use them; its attributes ``best_iteration`` (0-based, as XGBoost counts) and ``best_score`` are
    set. What it measures stands in XGBoost's `evals_result`, for callbacks after it too. May be used for one
    training after another, also across workers, where no partition may divide a query.

    Args:
        metrics: values such as ``NDCG(k=10)`` or their names; the first one decides.
        data: name to `xgboost.DMatrix`, with groups. A plain DMatrix is evaluated several times faster than
            a QuantileDMatrix. None: the training's own `evals` or `eval_set`, by XGBoost's names.
        stop_on: the set that decides; needed when there are several.
        patience: rounds without improvement after which training stops; None never stops and keeps all rounds.
        min_delta: smallest gain over the best value that counts.
        every: evaluate each `every`-th round, and the last; other rounds cost nothing.
        judgments: name to labels, queries, weights and missed documents, where those of the data are not enough: the
            library keeps them as float32, and has neither document ids nor what was missed.
        on_round: called with an evaluated round's measurements.
        print_every: print the evaluated rounds that this number divides.
        progress: keep one line up to date on stderr.

    Attributes:
        history: `Measured(round, data, metric, value)` of every evaluated round, float64.
        best_round: 1-based number of rounds of the best model.
        best_value: the first metric's value there.

    Raises:
        UsageError: (before training) nothing to watch; another early stopping beside this, XGBoost's own as a
            callback or argument, or a second `Watch` that stops; (after the first round) DART or a linear booster
            with stopping: neither can go back to a round.
        DataError: (before training) a set without groups or with unusable labels.
    """

    _kind = xgboost.DMatrix
    _kind_name = "an xgboost.DMatrix"
    _packed = staticmethod(packed_matrix)
    _judged = staticmethod(judgments_of)

    def before_training(self, model: Any) -> Any:
        if not isinstance(model, xgboost.Booster):
            raise UsageError("Watch is for xgboost.train; expected custom_metric(…) in xgboost.cv")
        if self.stops:
            callbacks = stopping.callbacks_of_training("xgboost")
            early_stops = [
                callback for callback in callbacks if isinstance(callback, xgboost.callback.EarlyStopping)
            ]
            rules = [f"EarlyStopping, {callback.rounds} rounds" for callback in early_stops]
            stopping.refuse_second_rule(self, callbacks, "XGBoost", rules)
        arguments = stopping.arguments_of_training("xgboost")
        if given := arguments.get("callbacks"):  # before 3.1.2 XGBoost calls them in no particular order
            arguments["cb_container"].callbacks = list(dict.fromkeys(given))
        evals = arguments.get("evals") or ()
        self._choose_offered("XGBoost", {name: matrix for matrix, name in evals}, arguments.get("dtrain"))
        self._max_rounds = arguments.get("num_boost_round")
        self._evaluated = 0  # rounds
        self._log: Any = {}
        self._log_is_new = True
        self._theirs: set[tuple[str, str]] = set()
        self.begin()
        return model

    def _bound(self) -> Mapping[str, BoundMetrics]:
        if collective.get_world_size() == 1:
            return super()._bound()
        sets, judged = self._data.items(), self._judgments
        return {name: AcrossWorkers(self._metrics, matrix, judged.get(name)) for name, matrix in sets}

    def _tell(self, measured: Sequence[Measured]) -> None:
        for measurement in measured:  # where another metric of this name is reported, it keeps its place
            of_set = self._log.setdefault(measurement.data, {})
            if self._log_is_new and measurement.metric in of_set:
                self._theirs.add((measurement.data, measurement.metric))
            if (measurement.data, measurement.metric) not in self._theirs:
                of_set.setdefault(measurement.metric, []).append(measurement.value)
        self._log_is_new = False
        if collective.get_rank() == 0:
            super()._tell(measured)

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        if self.stops and self._evaluated == 0:
            self._refuse_what_cannot_be_cut(model)
        self._log = evals_log
        rounds = int(model.num_boosted_rounds())
        stop = self._is_due(rounds) and self._evaluate(model, rounds)
        if stop:  # XGBoost runs no other callback then
            callbacks = stopping.callbacks_of_training("xgboost")
            for later in callbacks[callbacks.index(self) + 1 :]:
                later.after_iteration(model, epoch, evals_log)
        return stop

    def after_training(self, model: Any) -> Any:
        rounds = int(model.num_boosted_rounds())
        if rounds > self._evaluated:  # the last round is always evaluated; XGBoost does not say which it is
            self._evaluate(model, rounds)
        self.evaluate_block()
        self._printing.end()
        if not self.stops:
            return model
        best = self._best_round
        if best < rounds:
            model = model[:best]  # keeps all attributes but these two
        model.set_attr(best_iteration=str(best - 1), best_score=repr(self.best_value))
        return model

    def _evaluate(self, model: Any, rounds: int) -> bool:
        self._evaluated = rounds
        # Feature names are compared in the first round alone: on small data that costs more than the new tree.
        first = not self.history
        scores = {
            name: stored_scores.of_xgboost(model, matrix, validate_features=first)
            for name, matrix in self._data.items()
        }
        return self.evaluate(rounds, rounds, scores)

    def _refuse_what_cannot_be_cut(self, model: Any) -> None:
        booster = json.loads(model.save_config())["learner"]["gradient_booster"]
        params = dict(stopping.arguments_of_training("xgboost").get("params") or {})
        # from 3.4 on of gbtree, which DART is a choice of there
        dropping = booster.get("dart_train_param", {})
        drops = any(float(dropping.get(name, 0)) > 0 for name in ("rate_drop", "one_drop"))
        if drops or "dart" in (booster["name"], params.get("booster")):
            raise UsageError(
                "DART rescales earlier trees in every round, so the best round cannot be restored; "
                "expected booster='gbtree', or a fixed number of rounds without early stopping"
            )
        if booster["name"] == "gblinear":
            cure = "expected booster='gbtree', or no early stopping"
            raise UsageError(f"a linear model has no rounds to return to; {cure}")


class LastBias(xgboost.callback.TrainingCallback):  # type: ignore[misc]  # untyped base
    """Position biases after the last trained round, relative to the first position, read from the configuration."""

    # position to bias of a pair's better row (ti+), and worse (tj-)
    learned: tuple[dict[int, float], ...] = ({}, {})

    def after_training(self, model: Any) -> Any:
        objective = json.loads(model.save_config())["learner"]["objective"]
        # XGBoost keeps at least 32 places; those beyond the longest query stay 0
        self.learned = tuple(
            {position: value for position, value in enumerate(objective[name]) if value != 0}
            for name in ("ti+", "tj-")
        )
        return model


class AfterEachRound(xgboost.callback.TrainingCallback):  # type: ignore[misc]  # untyped base
    """A function of the model and its rounds that is called after each of them, and says whether training ends."""

    def __init__(self, ends: Callable[[Any, int], bool]) -> None:
        super().__init__()
        self._ends = ends

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        return self._ends(model, epoch + 1)
