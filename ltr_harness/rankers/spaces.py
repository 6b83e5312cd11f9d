"""Built-in search spaces by library and objective: `tune: {models: {lgb: built-in}}`.

A range for each parameter that decides how much is learned from how little: size of the trees, step, shares of rows
and features, ridge. Sampling stays on, so that a seed still matters. Lower ends suit hundreds of queries, upper ends
tens of thousands (docs/tuning.md has the table and where it comes from). What is searched replaces what the model says.
"""

from __future__ import annotations

from typing import Any, Final

from ltr_harness.rankers.catboost_losses import LAMBDAMART
from ltr_harness.rankers.catboost_losses import OBJECTIVES as CATBOOST
from ltr_harness.rankers.metric_objective import METRIC

Spaces = dict[str, Any]


def _range(low: float, high: float, log: bool = False) -> dict[str, Any]:
    return {"low": low, "high": high, "log": log}


_LIGHTGBM: Spaces = {
    "params.learning_rate": _range(0.02, 0.2, log=True),
    "params.num_leaves": _range(7, 127, log=True),
    "params.min_data_in_leaf": _range(5, 100, log=True),
    "params.lambda_l2": _range(0.01, 10.0, log=True),
    "params.feature_fraction": _range(0.4, 1.0),
    "params.bagging_fraction": _range(0.5, 0.95),
    "params.bagging_freq": [1],  # without it, bagging_fraction means nothing
}
_XGBOOST: Spaces = {
    "params.eta": _range(0.02, 0.3, log=True),
    "params.max_depth": _range(3, 9),
    "params.min_child_weight": _range(0.1, 10.0, log=True),
    "params.lambda": _range(0.01, 10.0, log=True),
    "params.colsample_bytree": _range(0.4, 1.0),
    "params.subsample": _range(0.5, 0.95),
}
_CATBOOST: Spaces = {
    "params.learning_rate": _range(0.02, 0.3, log=True),
    "params.depth": _range(4, 9),
    "params.l2_leaf_reg": _range(0.5, 20.0, log=True),
    "params.bootstrap_type": ["Bernoulli"],  # the one that knows a subsample
    "params.subsample": _range(0.5, 0.95),
    "params.rsm": _range(0.4, 1.0),
}
_WITHOUT_RIDGE = {name: values for name, values in _CATBOOST.items() if name != "params.l2_leaf_reg"}
# A pair counts where its better row stands within the first so many: a little above the usual K of 10, up to all.
_TOP_LIGHTGBM: Spaces = {"params.lambdarank_truncation_level": _range(10, 40)}

_METRIC: Spaces = {
    "objective.truncation_level": _range(10, 40),
    "objective.sigma": _range(0.5, 2.0, log=True),
}

SPACES: Final[dict[tuple[str, str], Spaces]] = {
    ("lightgbm", "lambdarank"): {**_LIGHTGBM, **_TOP_LIGHTGBM},
    ("lightgbm", "rank_xendcg"): _LIGHTGBM,
    ("lightgbm", "regression"): _LIGHTGBM,
    ("lightgbm", "multiclass"): _LIGHTGBM,
    ("lightgbm", METRIC): {**_LIGHTGBM, **_METRIC},
    ("xgboost", "rank:ndcg"): _XGBOOST,
    ("xgboost", "rank:pairwise"): _XGBOOST,
    ("xgboost", "rank:map"): _XGBOOST,
    ("xgboost", "rank_xendcg"): _XGBOOST,
    ("xgboost", "reg:squarederror"): _XGBOOST,
    ("xgboost", "multi:softprob"): _XGBOOST,
    ("xgboost", METRIC): {**_XGBOOST, **_METRIC},
    **{("catboost", objective): _CATBOOST for objective in CATBOOST},
    **{("catboost", loss): _WITHOUT_RIDGE for loss in LAMBDAMART},
}
