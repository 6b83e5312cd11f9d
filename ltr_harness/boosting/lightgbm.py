"""The harness's metrics inside `lightgbm.train`, and early stopping that stops on the right thing.

    ndcg = NDCG(k=10)
    booster = lightgbm.train(
        {"objective": "lambdarank", "metric": "None"}, train, num_boost_round=2000,
        valid_sets=[valid], feval=feval(ndcg, MRR(k=10)), callbacks=[stop_early(ndcg, patience=50)],
    )

or, when evaluating every round is too dear, `Watch`, which evaluates only the rounds asked for.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

import lightgbm
from lightgbm.callback import EarlyStopException

from ltr_harness.boosting.callbacks import callbacks_of_training
from ltr_harness.boosting.lightgbm_metrics import (
    EvalMetric,
    Feval,
    ReportedName,
    judgments_of,
    packed_dataset,
    rows,
)
from ltr_harness.boosting.lightgbm_objective import LightGBMObjective as LightGBMObjective
from ltr_harness.boosting.lightgbm_objective import objective as objective
from ltr_harness.boosting.lightgbm_stopping import (
    AfterRound,
    StopEarly,
    collision,
    refuse_what_undoes_stopping,
    rounds_of,
)
from ltr_harness.boosting.stopping import StoppingRule
from ltr_harness.boosting.watching import Watching, distinct_metrics
from ltr_harness.errors import UsageError
from ltr_harness.groups import Judgments
from ltr_harness.metrics import Metric, parse_metric

_FIRST = -sys.maxsize  # before whoever reads results, callbacks without an order of their own among them
_RECORDING = type(lightgbm.record_evaluation({}))


def feval(*metrics: Metric | str) -> Feval:
    """The metrics as the `feval` of `lightgbm.train`, `lightgbm.cv` and `Booster.eval`.

    Set the parameter ``metric`` to the text ``"None"``: left out, or the Python value None, LightGBM also
    computes its own ``ndcg@1`` to ``ndcg@5``, and two metrics of one name end up in one curve.

    Args:
        metrics: values such as ``NDCG(k=10)``, or their names.

    Returns:
        A callable ``(scores, dataset) -> [(name, mean, higher_is_better), …]``. What does not depend on the
        scores is computed once per Dataset. `err` without `max_grade` takes the largest label of the first
        Dataset it sees and keeps it.

    Raises:
        MetricError: no metric, an unknown one, or one given twice.
        DataError: (while training) a Dataset without groups or with unusable labels.

    Example:
        >>> import lightgbm, numpy as np
        >>> quiet = {"verbosity": -1}
        >>> data = lightgbm.Dataset(np.eye(3), label=[0, 1, 0], group=[3], params=quiet).construct()
        >>> feval("mrr")(np.array([0.3, 0.2, 0.1]), data)
        [('mrr', 0.5, True)]
    """
    return Feval(distinct_metrics(metrics))


def eval_metric(*metrics: Metric | str) -> EvalMetric:
    """The metrics as the `eval_metric` of `LGBMRanker.fit` and `DaskLGBMRanker.fit`.

    Give the ranker ``metric="None"``, as for `feval`. LightGBM hands over scores as float64 and labels as
    float32. Under Dask it reports what the first worker found on its own part of the evaluation set.

    Args:
        metrics: values such as ``NDCG(k=10)``, or their names.

    Returns:
        A callable ``(labels, scores, weight, group) -> [(name, mean, higher_is_better), …]``. What does not
        depend on the scores is computed once per evaluation set. It can be pickled and copied.

    Raises:
        MetricError: no metric, an unknown one, or one given twice.
        UsageError: (while training) there are no groups, as in `lightgbm.train`, which takes `feval`.

    Example:
        >>> import numpy as np
        >>> eval_metric("mrr")(np.array([0, 1, 0]), np.array([0.3, 0.2, 0.1]), None, np.array([3]))
        [('mrr', 0.5, True)]
    """
    return EvalMetric(distinct_metrics(metrics))


def stop_early(
    metric: Metric | str,
    data: str | None = None,
    patience: int = 50,
    min_delta: float = 0.0,
    every: int = 1,
) -> StopEarly:
    """A callback for `lightgbm.train` that stops on one metric of one validation set, and on nothing else.

    The metric must be among those given to `feval`. The returned booster consists of the best round's trees,
    also when training ends before patience runs out, and also after saving and loading.

    Args:
        metric: what decides; its own direction counts.
        data: name of the validation set, as in `valid_names`; needed when there are several.
        patience: rounds without improvement after which training stops.
        min_delta: smallest gain over the best value that counts.
        every: look at each `every`-th round and the last. `feval` still runs in every round: `Watch` saves that.

    Raises:
        UsageError: (at the first round) the metric is not reported, or under a name that LightGBM's own metric
            has too; no such set, several sets, only the training set; DART, whose later trees change
            the earlier ones so that no round can be gone back to; another early stopping beside this,
            LightGBM's own as a callback or parameter, or a second one of ours; a training that is divided among
            machines, as by `DaskLGBMRanker`.
    """
    if data is not None and not isinstance(data, str):
        raise UsageError(
            f"stop_early: data is a {type(data).__name__}; expected the name of a validation set, as in valid_names"
        )
    return StopEarly(StoppingRule(parse_metric(metric), patience, min_delta, every), data)


class Watch(Watching, AfterRound):
    """A callback for `lightgbm.train` that evaluates named sets itself, in the rounds asked for, and stops.

    Needs no `feval`, and no `valid_sets` where it is given `data`. Stops on the first metric; the returned booster
    consists of the best round's trees, also when training ends before patience runs out, and also after saving and
    loading. What it measures is among the round's results, for every other callback. May be used for one
    training after another, and in `LGBMRanker.fit`.

    Args:
        metrics: values such as ``NDCG(k=10)`` or their names; the first one decides.
        data: name to `lightgbm.Dataset`; the training set may be among them. None: the training's own validation
            sets, by LightGBM's names.
        stop_on: the set that decides; needed when there are several.
        patience: rounds without improvement after which training stops; None never stops and keeps all rounds.
        min_delta: smallest gain over the best value that counts.
        every: evaluate each `every`-th round, and the last; other rounds cost nothing.
        judgments: name to labels, queries and weights, where those of the data are not precise enough: the
            library keeps them as float32, and knows no document ids.
        on_round: called with an evaluated round's measurements.
        print_every: print the evaluated rounds that this number divides.
        progress: keep one line up to date on stderr.

    Attributes:
        history: `Measured(round, data, metric, value)` of every evaluated round.
        best_round: 1-based number of rounds of the best model.
        best_value: the first metric's value there.

    Raises:
        UsageError: (at the first round) nothing to watch; `record_evaluation`, which takes every round, beside
            `every`; a training that is divided among machines, as by `DaskLGBMRanker`; see also `stop_early`.
    """

    @property
    def order(self) -> int:
        return _FIRST + self.stops  # what it does not measure, it shows to the last

    def _check_kind(self, name: str, data: Any) -> None:
        if not isinstance(data, lightgbm.Dataset):
            raise UsageError(
                f"data[{name!r}] is a {type(data).__name__}; expected a lightgbm.Dataset with groups"
            )

    def _packed(self, data: Any) -> Any:
        return packed_dataset(data)

    def _unpacked(self, packed: Any) -> Any:
        return lightgbm.Dataset(**packed)

    def __call__(self, env: Any) -> None:
        if env.iteration == env.begin_iteration or not self._bindings:
            self._start(env)
            self.begin()
            self._best_results: list[Any] = []
        attempt = env.iteration + 1
        is_last = attempt == env.end_iteration
        if not self._is_due(attempt, is_last):
            return
        results = [self._evaluate(env.model, name, self._bindings[name]) for name in self._data]
        values = {
            name: [result[2] for result in of_set if isinstance(result[1], ReportedName)]
            for name, of_set in zip(self._data, results, strict=True)
        }
        best_before = self._best_round
        stop = self.record(attempt, rounds_of(env), values)
        flat = [result for of_set in results for result in of_set]
        if self._best_round != best_before:
            self._best_results = flat
        known = {(result[0], str(result[1])) for result in env.evaluation_result_list}
        env.evaluation_result_list.extend(one for one in flat if (one[0], str(one[1])) not in known)
        if stop or is_last:
            self._printing.end()
        if self.stops and (stop or is_last):
            self._ask_the_others(env)
            raise EarlyStopException(self._best_round - 1, self._best_results)

    def _start(self, env: Any) -> None:
        if not isinstance(env.model, lightgbm.Booster):
            raise UsageError(
                "Watch is for lightgbm.train; expected feval(…) and stop_early(…) in lightgbm.cv"
            )
        model = env.model
        self._choose_offered(
            "LightGBM", dict(zip(model.name_valid_sets, model.valid_sets, strict=True)), model.train_set
        )
        self._max_rounds = env.end_iteration
        if self.stops:
            refuse_what_undoes_stopping(self, env)
        if self._every > 1 and any(isinstance(one, _RECORDING) for one in callbacks_of_training("lightgbm")):
            raise UsageError(
                f"record_evaluation keeps the results of every round, and Watch(…, every={self._every}) has some; "
                "expected every=1, or the values from Watch.history"
            )
        known = [model.train_set, *model.valid_sets]
        for name, dataset in self._data.items():
            if not any(dataset is one for one in known):
                dataset.set_reference(model.train_set)
                model.add_valid(dataset, name)

    def _ask_the_others(self, env: Any) -> None:
        """LightGBM asks nobody else in the round that ends training."""
        later = [
            one
            for one in callbacks_of_training("lightgbm")
            if not getattr(one, "before_iteration", False) and one.order > self.order
        ]
        for callback in sorted(later, key=lambda one: int(one.order)):
            callback(env)

    def _judged(self, data: Any) -> Judgments:
        return judgments_of(data)

    def _evaluate(self, model: Any, name: str, binding: Any) -> Sequence[Any]:
        results: Sequence[Any] = model.eval(
            self._data[name], name, feval=lambda scores, _: rows(binding, scores)
        )
        twice = [
            metric for metric, count in Counter(str(result[1]) for result in results).items() if count > 1
        ]
        if twice:
            raise UsageError(collision(twice))
        return results
