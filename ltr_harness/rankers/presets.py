"""Presets of parameters by library and objective: `preset: small` or `preset: web`.

`small` is for hundreds of training queries and tens of features (MQ2008, LightGBM's example), `web` for thousands
of queries and more than a hundred (MSLR-WEB30K, Istella). They make the libraries' terms as equal as they can be:
the same size of trees, the same shares of rows and features per tree, a ridge of comparable strength. Sampling is
on in all of them: without it, a seed changes nothing in lambdarank and rank:ndcg, and replicates would be copies.
docs/boosters.md has the numbers they were chosen and checked with; `scripts/bench presets` makes those of `web`.
"""

from __future__ import annotations

from typing import Any, Final

from ltr_harness.rankers.catboost_losses import LAMBDAMART, LAMBDAMART_RIDGE
from ltr_harness.rankers.catboost_losses import OBJECTIVES as CATBOOST
from ltr_harness.rankers.metric_objective import METRIC

Params = dict[str, Any]

# A bar for a leaf's hessian as in recipes for large sets (100) lets nothing be learned from hundreds of queries.
_LIGHTGBM: dict[str, Params] = {
    "small": {
        "learning_rate": 0.05,
        "num_leaves": 7,
        "min_data_in_leaf": 20,
        "min_sum_hessian_in_leaf": 1e-3,
        "lambda_l2": 5.0,
        "bagging_fraction": 0.9,
        "bagging_freq": 1,
        "feature_fraction": 0.7,
    },
    "web": {
        "learning_rate": 0.05,
        "num_leaves": 31,
        "min_data_in_leaf": 50,
        "min_sum_hessian_in_leaf": 1e-3,
        "lambda_l2": 1.0,  # of no consequence to lambdarank; rank_xendcg without it is clearly worse
        "bagging_fraction": 0.8,
        "bagging_freq": 1,
        "feature_fraction": 0.8,
    },
}
_XGBOOST: dict[str, Params] = {
    "small": {
        "eta": 0.05,
        "grow_policy": "lossguide",
        "max_leaves": 7,
        "max_depth": 0,
        "min_child_weight": 1.0,
        "lambda": 5.0,
        "subsample": 0.9,
        "colsample_bytree": 0.7,
    },
    "web": {
        "eta": 0.05,
        "grow_policy": "lossguide",
        "max_leaves": 31,
        "max_depth": 0,
        "min_child_weight": 1.0,
        "lambda": 1.0,
        "subsample": 0.8,
        "colsample_bytree": 0.8,
    },
}
_CATBOOST: dict[str, Params] = {
    "small": {
        "learning_rate": 0.05,
        "depth": 4,
        "l2_leaf_reg": 5.0,
        "bootstrap_type": "Bernoulli",
        "subsample": 0.9,
        "rsm": 0.7,
    },
    "web": {
        "learning_rate": 0.05,
        "depth": 8,
        "l2_leaf_reg": 3.0,
        "bootstrap_type": "Bernoulli",
        "subsample": 0.8,
        "rsm": 0.8,
    },
}
# Pairs whose better row stands within the first 20: beyond twice the usual K of 10 they decide nothing.
_TOP_LIGHTGBM: Params = {"lambdarank_truncation_level": 20}
_TOP_XGBOOST: Params = {"lambdarank_pair_method": "topk", "lambdarank_num_pair_per_sample": 20}


def _each(bases: dict[str, Params], more: Params, small: Params | None = None) -> dict[str, Params]:
    own = {"small": small or {}, "web": {}}
    return {name: {**base, **more, **own[name]} for name, base in bases.items()}


PRESETS: Final[dict[tuple[str, str], dict[str, Params]]] = {
    ("lightgbm", "lambdarank"): _each(_LIGHTGBM, _TOP_LIGHTGBM),
    ("lightgbm", "rank_xendcg"): _each(_LIGHTGBM, {}, {"learning_rate": 0.03}),
    ("lightgbm", "regression"): _each(_LIGHTGBM, {}),
    ("lightgbm", "multiclass"): _each(_LIGHTGBM, {}),
    ("lightgbm", METRIC): _each(_LIGHTGBM, {}),
    ("xgboost", "rank:ndcg"): _each(_XGBOOST, _TOP_XGBOOST),
    ("xgboost", "rank:pairwise"): _each(_XGBOOST, _TOP_XGBOOST),
    ("xgboost", "rank:map"): _each(_XGBOOST, _TOP_XGBOOST),
    ("xgboost", "reg:squarederror"): _each(_XGBOOST, {}),
    ("xgboost", "multi:softprob"): _each(_XGBOOST, {}),
    ("xgboost", METRIC): _each(_XGBOOST, {}),
    ("xgboost", "rank_xendcg"): _each(_XGBOOST, {}, {"eta": 0.03, "min_child_weight": 0.1}),
    **{("catboost", objective): _CATBOOST for objective in CATBOOST},
    **{("catboost", loss): _each(_CATBOOST, {"l2_leaf_reg": LAMBDAMART_RIDGE}) for loss in LAMBDAMART},
}
