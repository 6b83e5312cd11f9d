"""Presets of parameters (`preset: small`, `preset: web`) and built-in search spaces, by library and objective.

`small` is for hundreds of training queries and tens of features, `web` for thousands of queries and more than a
hundred. They make the libraries' terms as equal as they can be: the same size of trees, the same shares of rows and
features per tree, a ridge of comparable strength. Sampling is on in all of them, also where something is searched:
without it, a seed changes nothing in lambdarank and rank:ndcg, and replicates would be copies.
docs/maintainers/boosters-benchmarks.md has the numbers that presets were chosen and checked with
(`scripts/bench presets`), docs/tuning.md the sources of spaces.
"""

from typing import Any, Final

from ltr_harness.models import lightgbm_parameters, xgboost_parameters
from ltr_harness.models.objectives import CATBOOST, LAMBDAMART, LAMBDAMART_RIDGE, METRIC

Params = dict[str, Any]


def _small_and_web(params: dict[str, tuple[Any, Any]]) -> dict[str, Params]:
    """Both presets, from each parameter's value in `small` and in `web`."""
    sizes = enumerate(("small", "web"))
    return {size: {name: values[index] for name, values in params.items()} for index, size in sizes}


_LIGHTGBM = _small_and_web(
    {
        "learning_rate": (0.05, 0.05),
        "num_leaves": (7, 31),
        "min_data_in_leaf": (20, 50),
        # a bar as in recipes for large sets (100) lets nothing be learned from hundreds of queries
        "min_sum_hessian_in_leaf": (1e-3, 1e-3),
        # 1.0 is of no consequence to lambdarank; rank_xendcg without it is clearly worse
        "lambda_l2": (5.0, 1.0),
        "bagging_fraction": (0.9, 0.8),
        "bagging_freq": (1, 1),
        "feature_fraction": (0.7, 0.8),
    }
)
_XGBOOST = _small_and_web(
    {
        "eta": (0.05, 0.05),
        "grow_policy": ("lossguide", "lossguide"),
        "max_leaves": (7, 31),
        "max_depth": (0, 0),
        "min_child_weight": (1.0, 1.0),
        "lambda": (5.0, 1.0),
        "subsample": (0.9, 0.8),
        "colsample_bytree": (0.7, 0.8),
    }
)
_CATBOOST = _small_and_web(
    {
        "learning_rate": (0.05, 0.05),
        "depth": (4, 8),
        "l2_leaf_reg": (5.0, 3.0),
        "bootstrap_type": ("Bernoulli", "Bernoulli"),
        "subsample": (0.9, 0.8),
        "rsm": (0.7, 0.8),
    }
)
# Pairs whose better row stands within the first 20: beyond twice the usual K of 10 they decide nothing.
_TOP_LIGHTGBM: Params = {"lambdarank_truncation_level": 20}
_TOP_XGBOOST: Params = {"lambdarank_pair_method": "topk", "lambdarank_num_pair_per_sample": 20}


def _each(bases: dict[str, Params], more: Params, small: Params | None = None) -> dict[str, Params]:
    by_size = {"small": small or {}, "web": {}}
    return {name: {**base, **more, **by_size[name]} for name, base in bases.items()}


PRESETS: Final[dict[tuple[str, str], dict[str, Params]]] = {
    **{("lightgbm", objective): _LIGHTGBM for objective in (*lightgbm_parameters.OBJECTIVES, METRIC)},
    ("lightgbm", "lambdarank"): _each(_LIGHTGBM, _TOP_LIGHTGBM),
    ("lightgbm", "rank_xendcg"): _each(_LIGHTGBM, {}, {"learning_rate": 0.03}),
    **{("xgboost", objective): _XGBOOST for objective in (*xgboost_parameters.OBJECTIVES, METRIC)},
    **{("xgboost", objective): _each(_XGBOOST, _TOP_XGBOOST) for objective in xgboost_parameters.LAMBDA},
    ("xgboost", "rank_xendcg"): _each(_XGBOOST, {}, {"eta": 0.03, "min_child_weight": 0.1}),
    **{("catboost", objective): _CATBOOST for objective in CATBOOST},
    **{("catboost", loss): _each(_CATBOOST, {"l2_leaf_reg": LAMBDAMART_RIDGE}) for loss in LAMBDAMART},
}


Spaces = dict[str, Any]


def _range(low: float, high: float, log: bool = False) -> dict[str, Any]:
    return {"low": low, "high": high, "log": log}


_LIGHTGBM_SPACE: Spaces = {
    "params.learning_rate": _range(0.02, 0.2, log=True),
    "params.num_leaves": _range(7, 127, log=True),
    "params.min_data_in_leaf": _range(5, 100, log=True),
    "params.lambda_l2": _range(0.01, 10.0, log=True),
    "params.feature_fraction": _range(0.4, 1.0),
    "params.bagging_fraction": _range(0.5, 0.95),
    "params.bagging_freq": [1],  # without it, bagging_fraction means nothing
}
_XGBOOST_SPACE: Spaces = {
    "params.eta": _range(0.02, 0.3, log=True),
    "params.max_depth": _range(3, 9),
    "params.min_child_weight": _range(0.1, 10.0, log=True),
    "params.lambda": _range(0.01, 10.0, log=True),
    "params.colsample_bytree": _range(0.4, 1.0),
    "params.subsample": _range(0.5, 0.95),
}
_CATBOOST_SPACE: Spaces = {
    "params.learning_rate": _range(0.02, 0.3, log=True),
    "params.depth": _range(4, 9),
    "params.l2_leaf_reg": _range(0.5, 20.0, log=True),
    "params.bootstrap_type": ["Bernoulli"],  # the one that knows a subsample
    "params.subsample": _range(0.5, 0.95),
    "params.rsm": _range(0.4, 1.0),
}
_WITHOUT_RIDGE = {name: values for name, values in _CATBOOST_SPACE.items() if name != "params.l2_leaf_reg"}
# A pair counts where its better row stands within the first so many: a little above the usual K of 10, up to all.
_TOP_SPACE: Spaces = {"params.lambdarank_truncation_level": _range(10, 40)}
_METRIC_SPACE: Spaces = {
    "objective.truncation_level": _range(10, 40),
    "objective.sigma": _range(0.5, 2.0, log=True),
}

SPACES: Final[dict[tuple[str, str], Spaces]] = {
    **{key: _LIGHTGBM_SPACE for key in PRESETS if key[0] == "lightgbm"},
    **{key: _XGBOOST_SPACE for key in PRESETS if key[0] == "xgboost"},
    **{key: _CATBOOST_SPACE for key in PRESETS if key[0] == "catboost"},
    ("lightgbm", "lambdarank"): {**_LIGHTGBM_SPACE, **_TOP_SPACE},
    ("lightgbm", METRIC): {**_LIGHTGBM_SPACE, **_METRIC_SPACE},
    ("xgboost", METRIC): {**_XGBOOST_SPACE, **_METRIC_SPACE},
    **{("catboost", loss): _WITHOUT_RIDGE for loss in LAMBDAMART},
}
