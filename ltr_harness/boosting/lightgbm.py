"""The harness's metrics inside `lightgbm.train`, and early stopping that stops on the right thing.

    ndcg = NDCG(k=10)
    booster = lightgbm.train(
        {"objective": "lambdarank", "metric": "None"}, train, num_boost_round=2000,
        valid_sets=[valid], feval=feval(ndcg, MRR(k=10)), callbacks=[stop_early(ndcg, patience=50)],
    )

or, when evaluating every round is too slow, `Watch`, which evaluates only the chosen rounds.
"""

from __future__ import annotations

import dataclasses
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, NoReturn

import lightgbm
import numpy as np
from lightgbm.callback import EarlyStopException
from numpy.typing import NDArray

from ltr_harness._util.catalog import did_you_mean
from ltr_harness.boosting import lightgbm_metrics, stopping
from ltr_harness.boosting.lightgbm_metrics import EvalMetric, Feval, ReportedName, rows
from ltr_harness.boosting.lightgbm_metrics import objective as objective
from ltr_harness.boosting.stored_scores import LightGBMScores, is_table
from ltr_harness.boosting.watching import JudgmentsArg, Watching, distinct_metrics
from ltr_harness.errors import UsageError
from ltr_harness.metrics import Metric, parse_metric

__all__ = ["Watch", "eval_metric", "feval", "objective", "stop_early"]

# After LightGBM's logging and recording callbacks (10, 20) and before its early stopping (30), to refuse that in time.
_AFTER_RECORDING = 29
_LIGHTGBMS_RULE = type(lightgbm.early_stopping(1, verbose=False))


class AfterRound(stopping.StoppingCallback):
    """A callback after each round of LightGBM that evaluates or stops."""

    @property
    def before_iteration(self) -> bool:
        """False; LightGBM asks before it trains, and before it waits for other machines."""
        n_machines = stopping.arguments_of_training("lightgbm").get("params", {}).get("num_machines", 1)
        if n_machines > 1:
            raise UsageError(
                f"{type(self).__name__}: this training is divided among {n_machines} machines, of which each sees its "
                "own part of a set, and LightGBM does not combine their values; expected eval_metric(…) and a fixed "
                "n_estimators with DaskLGBMRanker, or xgboost.dask.train, where Watch evaluates the whole set"
            )
        return False


def _validation_sets(env: Any) -> list[str]:
    if isinstance(env.model, lightgbm.Booster):
        # the training set is not among them, whatever its name
        return [str(name) for name in env.model.name_valid_sets]
    return list(dict.fromkeys(str(result[0]) for result in env.evaluation_result_list))


class StopEarly(AfterRound):
    """The result of `stop_early`; it may be used for one training after another."""

    @property
    def order(self) -> int:  # LightGBM would put a place of its own before an attribute of the class
        return _AFTER_RECORDING

    def __init__(self, rule: stopping.StoppingRule, data: str | None) -> None:
        self._rule = rule
        self._data = data
        self._set = ""
        self._stopper = stopping.Stopper(rule)
        self._best_results: list[Any] = []
        self.best_round = 0

    @property
    def best_value(self) -> float:
        return self._stopper.best_value

    def __call__(self, env: Any) -> None:
        if env.iteration == env.begin_iteration:
            refuse_conflicting_stopping(self, env)
            self._stopper = stopping.Stopper(self._rule)
            self._choose_set(env)
        attempt = env.iteration + 1
        is_last = attempt == env.end_iteration
        if not is_last and attempt % self._rule.every:
            return
        value = next(float(result[2]) for result in env.evaluation_result_list if self._is_ours(result))
        stop = self._stopper.update(attempt, value)
        if self._stopper.best_round == attempt:
            self.best_round = rounds_of(env)
            self._best_results = env.evaluation_result_list
        if stop or is_last:
            raise EarlyStopException(self.best_round - 1, self._best_results)

    def _choose_set(self, env: Any) -> None:
        """Take the validation set to stop on, which must report the metric."""
        self._set = self._named_set(_validation_sets(env))
        reported = [str(result[1]) for result in env.evaluation_result_list if result[0] == self._set]
        if any(self._is_ours(result) for result in env.evaluation_result_list):
            refuse_collision(reported)
        else:
            self._refuse_unreported(reported)

    def _named_set(self, names: list[str]) -> str:
        """Return the validation set that the caller named, or the only one."""
        if not names:
            raise UsageError(
                "stop_early: no validation set is evaluated; expected valid_sets=[valid] besides feval=feval(…). "
                "The training set does not count: a model rarely stops improving on its own training rows"
            )
        if self._data is None:
            if len(names) > 1:
                found = f"stop_early: there are several validation sets ({', '.join(names)})"
                raise UsageError(f"{found}; {stopping.set_to_stop_on('data', names)}")
            return names[0]
        if self._data not in names:
            found = f"stop_early: {self._data!r} is not a validation set"
            raise UsageError(f"{found}; {did_you_mean(self._data, stopping.sets_to_stop_on(names) or names)}")
        return self._data

    def _refuse_unreported(self, reported: list[str]) -> NoReturn:
        """Refuse the names reported on the set, of which none is the metric's."""
        name = str(self._rule.metric)
        listing = ", ".join(reported) or "none"
        found = f"stop_early: {name} is not among the metrics reported on {self._set!r} ({listing})"
        if name in reported:
            found += f"; LightGBM's own {name} is another definition and cannot stand in for it"
        raise UsageError(f"{found}; expected feval=feval({name!r}, …) and the parameter metric='None'")

    def _is_ours(self, result: Any) -> bool:
        """Tell whether a result is the metric's on the set, apart from parameters that it takes from the data."""
        of_set, name = result[:2]
        if of_set != self._set or not isinstance(name, ReportedName):
            return False
        requested, resolved = self._rule.metric, name.metric
        return type(requested) is type(resolved) and all(
            getattr(requested, field.name) == getattr(resolved, field.name)
            or (field.name != "k" and getattr(requested, field.name) is None)
            for field in dataclasses.fields(requested)
        )


def rounds_of(env: Any) -> int:
    """Number of rounds that the model consists of: a boosting step that finds no split adds none."""
    if isinstance(env.model, lightgbm.Booster):
        return max(1, int(env.model.current_iteration()))
    return int(env.iteration) + 1


def refuse_conflicting_stopping(callback: stopping.StoppingCallback, env: Any) -> None:
    if any(env.params.get(alias) == "dart" for alias in ("boosting", "boosting_type", "boost")):
        raise UsageError(
            "DART rescales earlier trees in every round, so the best round cannot be restored; "
            "expected another `boosting`, or a fixed number of rounds without early stopping"
        )
    callbacks = stopping.callbacks_of_training("lightgbm")
    patiences = [other.stopping_rounds for other in callbacks if isinstance(other, _LIGHTGBMS_RULE)]
    rules = [f"early_stopping({rounds})" for rounds in patiences if rounds > 0]
    given = env.params.get("early_stopping_round")  # lightgbm.train has put every alias under this name
    if isinstance(given, int) and given > 0:
        rules.insert(0, f"early_stopping_round={given}")
    stopping.refuse_second_rule(callback, callbacks, "LightGBM", rules)


def refuse_collision(reported: Iterable[str]) -> None:
    twice = [name for name, count in Counter(reported).items() if count > 1]
    if twice:
        raise UsageError(
            f"{', '.join(twice)} is reported twice on one set: LightGBM's own metric has the same name, and both would "
            "end in one curve; expected the parameter metric='None' (the text: the value None leaves them on), and "
            "distinct names in valid_names"
        )


_FIRST = -sys.maxsize  # before whoever reads results, callbacks without an order of their own among them
_RECORDING = type(lightgbm.record_evaluation({}))


def feval(*metrics: Metric | str, judgments: JudgmentsArg = None) -> Feval:
    """The metrics as the `feval` of `lightgbm.train`, `lightgbm.cv` and `Booster.eval`.

    They are of raw scores, whatever the objective. LightGBM gives them what the objective makes of these, such as
    probabilities. The scores are found from the rows where the set has ``free_raw_data=False``, and elsewhere by the
    inverse, to twelve digits. What other code gives is taken for raw.

    Set the parameter ``metric`` to the text ``"None"``: left out, or the Python value None, LightGBM also
    computes its own ``ndcg@1`` to ``ndcg@5``, and two metrics of one name end up in one curve.

    Args:
        metrics: values such as ``NDCG(k=10)``, or their names.
        judgments: of evaluated sets, found by rows and labels, where documents were missed or float32 is too coarse.

    Returns:
        A callable ``(scores, dataset) -> [(name, mean, higher_is_better), …]``. What does not depend on the
        scores is computed once per Dataset. `err` without `max_grade` takes the largest label of the first
        Dataset it sees and keeps it.

    Raises:
        MetricError: none, an unknown one, or one given twice.
        DataError: (while training) a Dataset without groups, with unusable labels, or without judgments that fit.
        UsageError: (while training) predictions too near to a limit to have an inverse, such as probabilities above
            0.99995; `log_loss` or `brier`, called by other code than LightGBM's.

    Example:
        >>> import lightgbm, numpy as np
        >>> from ltr_harness import Judgments, QueryGroups
        >>> quiet = {"verbosity": -1}
        >>> data = lightgbm.Dataset(np.eye(3), label=[0, 1, 0], group=[3], params=quiet).construct()
        >>> feval("mrr")(np.array([0.3, 0.2, 0.1]), data)
        [('mrr', 0.5, True)]

        Of four documents, two of them relevant, one relevant document was not retrieved:

        >>> pool = Judgments.checked(
        ...     [0, 1, 0, 1], QueryGroups.from_sizes([4]), retrieved=[True, True, True, False]
        ... )
        >>> feval("recall", judgments=pool)(np.array([0.3, 0.2, 0.1]), data)
        [('recall', 0.5, True)]
    """
    return Feval(distinct_metrics(metrics), judgments)


def eval_metric(*metrics: Metric | str, judgments: JudgmentsArg = None) -> EvalMetric:
    """The metrics as the `eval_metric` of `LGBMRanker.fit` and `DaskLGBMRanker.fit`.

    Give the ranker ``metric="None"``, as for `feval`. The metrics are of raw scores, as there; LightGBM keeps no rows
    of the evaluation set, and labels as float32. Under Dask it reports what the first worker found on its own part of
    the evaluation set.

    Args:
        metrics: values such as ``NDCG(k=10)``, or their names.
        judgments: of evaluated sets, found by rows and labels, where documents were missed or float32 is too coarse.

    Returns:
        A callable ``(labels, scores, weight, group) -> [(name, mean, higher_is_better), …]``. What does not
        depend on the scores is computed once per evaluation set. It can be pickled and copied.

    Raises:
        MetricError: none, an unknown one, or one given twice.
        UsageError: (while training) there are no groups, as in `lightgbm.train`, which takes `feval`; predictions
            without an inverse, as there.
        DataError: (while training) an evaluation set without judgments that fit.

    Example:
        >>> import numpy as np
        >>> eval_metric("mrr")(np.array([0, 1, 0]), np.array([0.3, 0.2, 0.1]), None, np.array([3]))
        [('mrr', 0.5, True)]
    """
    return EvalMetric(distinct_metrics(metrics), judgments)


def stop_early(
    metric: Metric | str, data: str | None = None, patience: int = 50, min_delta: float = 0.0, every: int = 1
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
            LightGBM's own as a callback or parameter, or a second `stop_early`; a training that is divided among
            machines, as by `DaskLGBMRanker`.
    """
    if data is not None and not isinstance(data, str):
        raise UsageError(
            f"stop_early: data is a {type(data).__name__}; expected the name of a validation set, as in valid_names"
        )
    return StopEarly(stopping.StoppingRule(parse_metric(metric), patience, min_delta, every), data)


def _add_unreported(env: Any, results: Sequence[Any]) -> None:
    """Add the results that LightGBM does not have by their set and metric to those of its round."""
    reported = {(result[0], str(result[1])) for result in env.evaluation_result_list}
    if reported:
        results = [result for result in results if (result[0], str(result[1])) not in reported]
    env.evaluation_result_list.extend(results)


class Watch(Watching, AfterRound):
    """A callback for `lightgbm.train` that evaluates named sets itself, in the chosen rounds, and stops.

    Needs no `feval`, and no `valid_sets` where it is given `data`. Stops on the first metric; the returned booster
    consists of the best round's trees, also when training ends before patience runs out, and also after saving and
    loading. What it measures is of raw scores, whatever the objective, and among the round's results, for every
    other callback. May be used for one training after another, and in LightGBM's classes.

    Args:
        metrics: values such as ``NDCG(k=10)`` or their names; the first one decides.
        data: name to `lightgbm.Dataset`; the training set may be among them. None: the training's own validation
            sets, by LightGBM's names.
        stop_on: the set that decides; needed when there are several.
        patience: rounds without improvement after which training stops; None never stops and keeps all rounds.
        min_delta: smallest gain over the best value that counts.
        every: evaluate each `every`-th round, and the last; other rounds cost nothing, unless the objective has a link
            or the booster is a random forest: then their trees are scored too.
        judgments: name to labels, queries, weights and missed documents, where those of the data are not enough: the
            library keeps them as float32, and has neither document ids nor what was missed.
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

    _kind = lightgbm.Dataset
    _kind_name = "a lightgbm.Dataset"
    _packed = staticmethod(lightgbm_metrics.packed_dataset)
    _judged = staticmethod(lightgbm_metrics.judgments_of)

    _scores: LightGBMScores
    _rows: Sequence[tuple[Any, Any]] = ()  # sets that may be watched, each with its features

    @property
    def before_iteration(self) -> bool:
        self._keep_rows()
        return super().before_iteration

    def _keep_rows(self) -> None:
        """Keep the features of sets that are not yet binned: LightGBM frees them then."""
        offered = stopping.arguments_of_training("lightgbm").get("valid_sets") or ()
        offered = [offered] if isinstance(offered, lightgbm.Dataset) else offered
        sets = [*offered, *(self._given or {}).values()]
        tables = [
            (dataset, dataset.data)
            for dataset in sets
            if isinstance(dataset, lightgbm.Dataset) and is_table(dataset.data)
        ]
        self._rows = (*self._rows, *tables)

    def __getstate__(self) -> dict[str, Any]:
        state = {**super().__getstate__(), "_rows": ()}
        state.pop("_scores", None)  # of the last training: a pickle takes no inverse of its link
        return state

    def __call__(self, env: Any) -> None:
        if env.iteration == env.begin_iteration or not self._bindings:
            self._start(env)
            self.begin()
            self._best_results: list[Any] = []
        attempt = env.iteration + 1
        is_last = attempt == env.end_iteration
        if not self._is_due(attempt, is_last):
            return
        if self._evaluates_blocks:
            scores = {name: self._scores_of(env, name) for name in self._data}
            stop = self.evaluate(attempt, rounds_of(env), scores)
            if is_last:
                self.evaluate_block()
        else:
            stop = self._evaluate_and_report(env)
        if not (stop or is_last):
            return
        self._printing.end()
        self._rows = ()
        if self.stops:
            self._run_later_callbacks(env)
            raise EarlyStopException(self._best_round - 1, self._best_results)

    def _evaluate_and_report(self, env: Any) -> bool:
        """Evaluate each set, and show the values to other callbacks; True when training should stop."""
        results_of = {name: self._evaluate(env, name, self._bindings[name]) for name in self._data}
        values = {
            name: [result[2] for result in results if isinstance(result[1], ReportedName)]
            for name, results in results_of.items()
        }
        best_before = self._best_round
        stop = self.record(env.iteration + 1, rounds_of(env), values)
        results = list(chain.from_iterable(results_of.values()))
        if self._best_round != best_before:
            self._best_results = results
        _add_unreported(env, results)
        return stop

    def _run_later_callbacks(self, env: Any) -> None:
        """Run the callbacks after this one: LightGBM runs no other in the round that ends training."""
        callbacks = stopping.callbacks_of_training("lightgbm")
        after_round = [each for each in callbacks if not getattr(each, "before_iteration", False)]
        for callback in sorted(after_round, key=lambda each: int(each.order)):
            if callback.order > self.order:
                callback(env)

    def _refuse_recording(self) -> None:
        callbacks = stopping.callbacks_of_training("lightgbm")
        if any(isinstance(callback, _RECORDING) for callback in callbacks):
            raise UsageError(
                f"record_evaluation keeps the results of every round, and Watch(…, every={self._every}) has some; "
                "expected every=1, or the values from Watch.history"
            )

    def _start(self, env: Any) -> None:
        model = env.model
        if not isinstance(model, lightgbm.Booster):
            expected = "expected feval(…) and stop_early(…) in lightgbm.cv"
            raise UsageError(f"Watch is for lightgbm.train; {expected}")
        offered = dict(zip(model.name_valid_sets, model.valid_sets, strict=True))
        self._choose_offered("LightGBM", offered, model.train_set)
        self._max_rounds = env.end_iteration
        if self.stops:
            refuse_conflicting_stopping(self, env)
        if self._every > 1:
            self._refuse_recording()
        self._keep_rows()
        own_sets = [model.train_set, *model.valid_sets]
        for name, dataset in self._data.items():
            if not any(dataset is own_set for own_set in own_sets):
                dataset.set_reference(model.train_set)
                dataset.params = model.params | (dataset.params or {})  # before 4.5 its threads are for all
                model.add_valid(dataset, name)
        self._scores = LightGBMScores(model)
        if not self._scores.needs_rows:
            self._rows = ()

    def _evaluate(self, env: Any, name: str, binding: Any) -> Sequence[Any]:
        results = env.model.eval(
            self._data[name],
            name,
            feval=lambda handed, _: rows(binding, self._stored_scores(env, name, handed)),
        )
        if not self.history:  # later rounds have the same names
            refuse_collision(str(result[1]) for result in results)
        return list(results)

    def _scores_of(self, env: Any, name: str) -> NDArray[np.float64]:
        """Return a set's scores (n_rows,) now; LightGBM overwrites its own in the next round."""
        found: list[NDArray[np.float64]] = []

        def keep(handed: Any, _: Any) -> list[Any]:
            found.append(np.array(self._stored_scores(env, name, handed)))
            return []

        env.model.eval(self._data[name], name, feval=keep)
        return found[0]

    def _stored_scores(self, env: Any, name: str, handed: Any) -> NDArray[np.float64]:
        """Return the scores (n_rows,) of the stored model, from those that LightGBM hands over for a set."""
        dataset, attempt = self._data[name], env.iteration + 1
        features = next((features for table_set, features in self._rows if table_set is dataset), None)
        is_last = attempt == env.end_iteration
        return self._scores.of_set(env.model, dataset, handed, features, attempt, is_last)
