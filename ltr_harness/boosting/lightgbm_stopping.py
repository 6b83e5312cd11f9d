"""Early stopping of LightGBM, and refusals of what undoes it."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Any

import lightgbm
from lightgbm.callback import EarlyStopException

from ltr_harness.boosting.callbacks import (
    StoppingCallback,
    arguments_of_training,
    callbacks_of_training,
    refuse_rule_of_library,
    refuse_second_rule_of_ours,
    set_to_stop_on,
)
from ltr_harness.boosting.lightgbm_metrics import ReportedName
from ltr_harness.boosting.stopping import Stopper, StoppingRule
from ltr_harness.catalog import did_you_mean
from ltr_harness.errors import UsageError
from ltr_harness.metrics import Metric

# After LightGBM's logging and recording callbacks (10, 20) and before its early stopping (30), to refuse that in time.
_AFTER_RECORDING = 29
_LIGHTGBMS_RULE = type(lightgbm.early_stopping(1, verbose=False))


class AfterRound(StoppingCallback):
    """A callback after each round of LightGBM that evaluates or stops."""

    @property
    def before_iteration(self) -> bool:
        """False; LightGBM asks before it trains, and before it waits for other machines."""
        n_machines = arguments_of_training("lightgbm").get("params", {}).get("num_machines", 1)
        if n_machines > 1:
            raise UsageError(
                f"{type(self).__name__}: this training is divided among {n_machines} machines, of which each sees its "
                "own part of a set, and LightGBM brings no values together; expected eval_metric(…) and a fixed "
                "n_estimators with DaskLGBMRanker, or xgboost.dask.train, where Watch measures the whole set"
            )
        return False


class StopEarly(AfterRound):
    """What `stop_early` returns; it may be used for one training after another."""

    @property
    def order(self) -> int:  # LightGBM would put a place of its own before an attribute of the class
        return _AFTER_RECORDING

    def __init__(self, rule: StoppingRule, data: str | None) -> None:
        self._rule = rule
        self._data = data
        self._set = ""
        self._stopper = Stopper(rule)
        self._best_results: list[Any] = []
        self.best_round = 0

    @property
    def best_value(self) -> float:
        return self._stopper.best_value

    def __call__(self, env: Any) -> None:
        if env.iteration == env.begin_iteration:
            refuse_what_undoes_stopping(self, env)
            self._stopper = Stopper(self._rule)
            self._set = self._choose_set(env)
            self._check_reported(env)
        attempt = env.iteration + 1
        is_last = attempt == env.end_iteration
        if not is_last and attempt % self._rule.every:
            return
        stop = self._stopper.update(attempt, self._value(env))
        if self._stopper.best_round == attempt:
            self.best_round = rounds_of(env)
            self._best_results = env.evaluation_result_list
        if stop or is_last:
            raise EarlyStopException(self.best_round - 1, self._best_results)

    def _choose_set(self, env: Any) -> str:
        if isinstance(env.model, lightgbm.Booster):
            # the training set is not among them, whatever its name
            names = [str(name) for name in env.model.name_valid_sets]
        else:
            names = list(dict.fromkeys(str(result[0]) for result in env.evaluation_result_list))
        if not names:
            raise UsageError(
                "stop_early: no validation set is evaluated; expected valid_sets=[valid] besides feval=feval(…). "
                "The training set does not count: a model rarely stops improving on it"
            )
        if self._data is None:
            if len(names) > 1:
                raise UsageError(
                    f"stop_early: there are several validation sets ({', '.join(names)}); "
                    f"{set_to_stop_on('data', names)}"
                )
            return names[0]
        if self._data not in names:
            raise UsageError(
                f"stop_early: {self._data!r} is not a validation set; {did_you_mean(self._data, names)}"
            )
        return self._data

    def _check_reported(self, env: Any) -> None:
        reported = [str(result[1]) for result in env.evaluation_result_list if result[0] == self._set]
        if any(self._is_ours(result) for result in env.evaluation_result_list):
            twice = [name for name, count in Counter(reported).items() if count > 1]
            if twice:
                raise UsageError(collision(twice))
            return
        listing = ", ".join(reported) or "none"
        own = f"LightGBM's own {self._rule.metric} is another definition and cannot stand in for it; "
        raise UsageError(
            f"stop_early: {self._rule.metric} is not among the metrics reported on {self._set!r} ({listing}); "
            f"{own if str(self._rule.metric) in reported else ''}"
            f"expected feval=feval({str(self._rule.metric)!r}, …) and the parameter metric='None'"
        )

    def _value(self, env: Any) -> float:
        return next(float(result[2]) for result in env.evaluation_result_list if self._is_ours(result))

    def _is_ours(self, result: Any) -> bool:
        name = result[1]
        return (
            result[0] == self._set
            and isinstance(name, ReportedName)
            and _is_resolution(self._rule.metric, name.metric)
        )


def rounds_of(env: Any) -> int:
    """Number of rounds that the model consists of.

    A boosting step that finds no split adds nothing: with bagging, step 40 may end with 38 rounds, and the
    step's number would cut the model at a later tree than the one that was measured.
    """
    if isinstance(env.model, lightgbm.Booster):
        return max(1, int(env.model.current_iteration()))
    return int(env.iteration) + 1


def refuse_what_undoes_stopping(own: StoppingCallback, env: Any) -> None:
    if any(env.params.get(alias) == "dart" for alias in ("boosting", "boosting_type", "boost")):
        raise UsageError(
            "DART rescales earlier trees in every round, so the best round cannot be gone back to; "
            "expected another `boosting`, or a fixed number of rounds without early stopping"
        )
    callbacks = callbacks_of_training("lightgbm")
    refuse_second_rule_of_ours(own, callbacks)
    theirs = env.params.get("early_stopping_round")  # lightgbm.train has put every alias under this name
    if isinstance(theirs, int) and theirs > 0:
        refuse_rule_of_library("LightGBM", f"early_stopping_round={theirs}")
    for callback in callbacks:
        if isinstance(callback, _LIGHTGBMS_RULE) and callback.stopping_rounds > 0:
            refuse_rule_of_library("LightGBM", f"early_stopping({callback.stopping_rounds})")


def collision(names: Sequence[str]) -> str:
    return (
        f"{', '.join(names)} is reported twice on one set: LightGBM's own metric has the same name, and both would "
        "end in one curve; expected the parameter metric='None' (the text: the value None leaves them on), and "
        "distinct names in valid_names"
    )


def _is_resolution(asked: Metric, resolved: Metric) -> bool:
    """Whether a resolved metric is the one asked for, apart from parameters taken from the data."""
    return type(asked) is type(resolved) and all(
        getattr(asked, field.name) == getattr(resolved, field.name)
        or (field.name != "k" and getattr(asked, field.name) is None)
        for field in dataclasses.fields(asked)
    )
