"""An Optuna study of one's own: pruned by our metric, in both libraries, through `Watch` and through `feval`."""

from __future__ import annotations

from typing import Any

import lightgbm
import pytest
import xgboost

from ltr_harness import evaluate
from ltr_harness.boosting import lightgbm as in_lightgbm
from ltr_harness.boosting import xgboost as in_xgboost
from ltr_harness.boosting.pruning import prune
from ltr_harness.errors import UsageError

optuna = pytest.importorskip("optuna", reason="needs ltr-harness[tune]")
optuna.logging.set_verbosity(optuna.logging.ERROR)

METRIC = "ndcg@10"
ROUNDS = 12


def sets(train: Any, valid: Any) -> tuple[Any, Any]:
    data = lightgbm.Dataset(train.X, train.labels, group=train.sizes)
    return data, lightgbm.Dataset(valid.X, valid.labels, group=valid.sizes, reference=data)


def train_lightgbm(trial: Any, train: Any, valid: Any, how: str) -> tuple[list[float], Any]:
    data, held_out = sets(train, valid)
    rate = trial.suggest_categorical("rate", [0.3, 1e-6])
    options = {
        "objective": "lambdarank",
        "metric": "None",
        "learning_rate": rate,
        "min_data_in_leaf": 5,
        "num_threads": 1,
        "verbosity": -1,
    }
    if how == "feval":
        curves: dict[str, Any] = {}
        booster = lightgbm.train(
            options,
            data,
            ROUNDS,
            valid_sets=[held_out],
            feval=in_lightgbm.feval(METRIC, "mrr"),
            callbacks=[prune(trial, METRIC), lightgbm.record_evaluation(curves)],
        )
        return curves["valid_0"][METRIC], booster.predict(valid.X)
    watch = in_lightgbm.Watch(
        METRIC, "mrr", data={"valid": held_out}, patience=None, on_round=prune(trial, METRIC)
    )
    booster = lightgbm.train(options, data, ROUNDS, callbacks=[watch])
    return [one.value for one in watch.history if one.metric == METRIC], booster.predict(valid.X)


def train_xgboost(trial: Any, train: Any, valid: Any, how: str) -> tuple[list[float], Any]:
    rate = trial.suggest_categorical("rate", [0.3, 1e-6])
    held_out = xgboost.DMatrix(valid.X, valid.labels, group=valid.sizes)
    watch = in_xgboost.Watch(
        METRIC, "mrr", data={"valid": held_out}, patience=None, on_round=prune(trial, METRIC)
    )
    booster = xgboost.train(
        {"objective": "rank:ndcg", "eta": rate, "nthread": 1, "base_score": 0.0},
        xgboost.DMatrix(train.X, train.labels, group=train.sizes),
        ROUNDS,
        callbacks=[watch],
        verbose_eval=False,
    )
    return [one.value for one in watch.history if one.metric == METRIC], booster.predict(
        held_out, output_margin=True
    )


CASES = [(train_lightgbm, "watch"), (train_lightgbm, "feval"), (train_xgboost, "watch")]


@pytest.mark.parametrize(("fit", "how"), CASES, ids=["lightgbm-watch", "lightgbm-feval", "xgboost-watch"])
def test_a_trial_reports_our_values_and_a_bad_one_is_given_up(
    fit: Any, how: str, train: Any, valid: Any
) -> None:
    curves: list[list[float]] = []

    def objective(trial: Any) -> float:
        curve, scores = fit(trial, train, valid, how)
        curves.append(curve)
        found = evaluate(valid.labels, scores, group_sizes=valid.sizes, metrics=[METRIC]).means[METRIC]
        assert curve[-1] == pytest.approx(found, abs=1e-12)
        return max(curve)

    study = optuna.create_study(direction="maximize", pruner=optuna.pruners.NopPruner())
    study.enqueue_trial({"rate": 0.3})
    study.optimize(objective, n_trials=1)
    assert study.trials[0].state.name == "COMPLETE"
    assert list(study.trials[0].intermediate_values.items()) == list(enumerate(curves[0], start=1))
    study.pruner = optuna.pruners.ThresholdPruner(lower=2.0, n_warmup_steps=4)  # no NDCG is as high
    study.enqueue_trial({"rate": 1e-6})
    study.optimize(objective, n_trials=1)
    assert study.trials[1].state.name == "PRUNED"
    assert list(study.trials[1].intermediate_values) == [1, 2, 3, 4]
    assert len(curves) == 1


def test_a_study_that_goes_the_other_way_is_refused() -> None:
    trial = optuna.create_study(direction="minimize").ask()
    with pytest.raises(UsageError, match=r"ndcg@10 is better when it is higher; .*direction='maximize'"):
        prune(trial, METRIC)
    prune(optuna.trial.FixedTrial({}), METRIC)


def test_the_metric_must_be_measured_and_on_one_set(train: Any, valid: Any) -> None:
    data, held_out = sets(train, valid)
    trial = optuna.create_study(direction="maximize").ask()
    options = {"objective": "lambdarank", "metric": "None", "num_threads": 1, "verbosity": -1}
    watch = in_lightgbm.Watch("mrr", data={"valid": held_out}, on_round=prune(trial, METRIC))
    with pytest.raises(UsageError, match=r"ndcg@10 is not among the metrics \(mrr on valid\)"):
        lightgbm.train(options, data, 2, callbacks=[watch])
    given: dict[str, Any] = {"valid_sets": [held_out] * 2, "feval": in_lightgbm.feval(METRIC)}
    with pytest.raises(UsageError, match=r"measured on several sets .*expected data=… to name one"):
        lightgbm.train(options, data, 2, callbacks=[prune(trial, METRIC)], **given)
    lightgbm.train(options, data, 2, callbacks=[prune(trial, METRIC, data="valid_1")], **given)


@pytest.mark.filterwarnings("ignore")
def test_optunas_own_callbacks_see_our_values(train: Any, valid: Any) -> None:
    integration = pytest.importorskip("optuna_integration", reason="needs optuna-integration")
    data, held_out = sets(train, valid)
    study = optuna.create_study(direction="maximize", pruner=optuna.pruners.NopPruner())
    trial = study.ask()
    watch: Any = in_lightgbm.Watch(METRIC, data={"valid": held_out}, patience=None)
    lightgbm.train(
        {"objective": "lambdarank", "metric": "None", "num_threads": 1, "verbosity": -1},
        data,
        4,
        callbacks=[integration.LightGBMPruningCallback(trial, METRIC, valid_name="valid"), watch],
    )
    study.tell(trial, 0.5)
    assert list(study.trials[0].intermediate_values.values()) == [one.value for one in watch.history]
    trial = study.ask()
    watch = in_xgboost.Watch(
        METRIC, data={"valid": xgboost.DMatrix(valid.X, valid.labels, group=valid.sizes)}, patience=None
    )
    xgboost.train(
        {"objective": "rank:ndcg", "nthread": 1},
        xgboost.DMatrix(train.X, train.labels, group=train.sizes),
        4,
        callbacks=[watch, integration.XGBoostPruningCallback(trial, f"valid-{METRIC}")],
        verbose_eval=False,
    )
    study.tell(trial, 0.5)
    assert list(study.trials[1].intermediate_values.values()) == [one.value for one in watch.history]
