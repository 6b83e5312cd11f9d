"""Parameters of XGBoost: objectives, those that `params` may set, and those that the harness sets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ltr_harness.rankers.metric_objective import METRIC
from ltr_harness.rankers.parameters import as_number, is_on

_PAIRS: dict[str, Any] = {
    "lambdarank_pair_method": "topk",
    "lambdarank_num_pair_per_sample": 32,
    "lambdarank_normalization": True,
    "lambdarank_score_normalization": True,
    "lambdarank_unbiased": False,
}
# Each objective with the parameters that shape its loss, at XGBoost's own defaults: written out in every record.
OBJECTIVES: dict[str, dict[str, Any]] = {
    "rank:ndcg": {**_PAIRS, "ndcg_exp_gain": True},
    "rank:pairwise": _PAIRS,
    "rank:map": _PAIRS,
    "rank_xendcg": {"base_score": 0.0},  # ours: see ltr_harness.boosting.xendcg
    "reg:squarederror": {},
    "multi:softprob": {"num_class": 2},  # as many as there are grades
}
PAIRS = "lambdarank_num_pair_per_sample"
SQUARED_ERROR = "reg:squarederror"
LAMBDA = ("rank:ndcg", "rank:pairwise", "rank:map")
XENDCG = "rank_xendcg"
POINTWISE = (SQUARED_ERROR, "multi:softprob")
_LOSSES = {**OBJECTIVES, METRIC: {"base_score": 0.0}}
_OURS = (XENDCG, METRIC)

DEFAULT_MAX_BIN = 256

_METRICS = "set it under `metrics:`; the harness evaluates with its own metrics"
_STOPPING = "set it under `stopping:`; one rule stops every library"
_ROUNDS = "set it with `stopping.max_rounds` or the model's `rounds:`"
_SEEDS = "set it under `seeds:`"
_HARNESS = "the harness sets it, so that a run can be repeated"
_DATA = "data reach the library from memory; set it under `data:`"

OWNED = {
    "objective": "set it with the model's `objective:`",
    **dict.fromkeys(["eval_metric", "disable_default_eval_metric"], _METRICS),
    **dict.fromkeys(["early_stopping_rounds", "maximize", "save_best"], _STOPPING),
    **dict.fromkeys(["num_boost_round", "n_estimators", "num_round"], _ROUNDS),
    **dict.fromkeys(["seed", "seed_per_iteration"], _SEEDS),
    "nthread": "the harness divides the machine's cores among the workers",
    **dict.fromkeys(["verbosity", "silent", "validate_parameters", "verbose_eval"], _HARNESS),
    **dict.fromkeys(
        [
            "group",
            "qid",
            "weight",
            "feature_weights",
            "enable_categorical",
            "missing",
            "feature_types",
            "data",
        ],
        _DATA,
    ),
    "num_class": "it is counted from the training labels, for objective: multi:softprob",
    **dict.fromkeys(["num_target", "multi_strategy"], "a ranker has one score per row"),
    **dict.fromkeys(
        ["process_type", "updater", "refresh_leaf"],
        "the harness trains new trees; choose them by `tree_method`",
    ),
}

_ALIASES = {
    "learning_rate": "eta",
    "min_split_loss": "gamma",
    "reg_alpha": "alpha",
    "reg_lambda": "lambda",
    "n_jobs": "nthread",
    "num_threads": "nthread",
    "random_state": "seed",
    "random_seed": "seed",
}

_DART_ONLY = ["normalize_type", "one_drop", "rate_drop", "sample_type", "skip_drop"]
_CATEGORICAL_ONLY = ["max_cat_threshold", "max_cat_to_onehot"]
_OTHER_LOSSES = [
    "aft_loss_distribution",
    "aft_loss_distribution_scale",
    "expectile_alpha",
    "huber_slope",
    "max_weight",
    "quantile_alpha",
    "scale_pos_weight",
    "tweedie_variance_power",
]

# The documented parameters; whether the installed version takes them is asked of itself.
_DOCUMENTED = [
    *OWNED,
    *_DART_ONLY,
    *_CATEGORICAL_ONLY,
    *_OTHER_LOSSES,
    *OBJECTIVES["rank:ndcg"],
    "alpha",
    "base_score",
    "booster",
    "colsample_bylevel",
    "colsample_bynode",
    "colsample_bytree",
    "device",
    "eta",
    "fail_on_invalid_gpu_id",
    "gamma",
    "grow_policy",
    "interaction_constraints",
    "lambda",
    "lambdarank_bias_norm",
    "max_bin",
    "max_cached_hist_node",
    "max_delta_step",
    "max_depth",
    "max_leaves",
    "min_child_weight",
    "monotone_constraints",
    "num_parallel_tree",
    "sampling_method",
    "subsample",
    "tree_method",
]


def canonical_names() -> dict[str, str]:
    """Every documented name, aliases included, to the name it stands for."""
    return {**{name: name for name in _DOCUMENTED}, **_ALIASES}


def canonical(params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters under the names they stand for."""
    return {_ALIASES.get(name, name): value for name, value in params.items()}


def complete(objective: str, params: Mapping[str, Any], seed: int, threads: int) -> dict[str, Any]:
    """All parameters for XGBoost: the objective's own written out, yours, and the harness's."""
    loss = dict(_LOSSES[objective])
    if params.get("lambdarank_pair_method") == "mean":
        loss["lambdarank_num_pair_per_sample"] = 1  # XGBoost's default for this method
    handed = {
        "objective": objective,
        "tree_method": "hist",
        **loss,
        **params,
        "disable_default_eval_metric": True,
        "seed": seed,
        "nthread": threads,
        "verbosity": 0,
    }
    if isinstance(handed.get("monotone_constraints"), list):  # YAML has no tuples; XGBoost reads nothing else
        handed["monotone_constraints"] = tuple(handed["monotone_constraints"])
    return handed


def for_library(handed: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters with one of XGBoost's objectives: in place of ours, one whose predictions are raw scores."""
    return {**handed, "objective": SQUARED_ERROR} if handed["objective"] in _OURS else dict(handed)


def binning(handed: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Parameters that a binned matrix depends on, in a form that can be compared."""
    named = ("max_bin", "nthread", "tree_method", "device")
    return tuple((name, repr(handed.get(name))) for name in named)


def seed_matters(objective: str, params: Mapping[str, Any]) -> bool:
    """Whether anything in this training is drawn at random by the seed.

    Sampled pairs (`lambdarank_pair_method: mean`) are not: XGBoost seeds them with the round's number.
    """
    given = canonical(params)
    shares = ("subsample", "colsample_bytree", "colsample_bylevel", "colsample_bynode")
    if objective == XENDCG or given.get("booster") == "dart":
        return True
    return any(as_number(given.get(share), 1.0) < 1 for share in shares)


def without_effect(name: str, objective: str, given: Mapping[str, Any]) -> str | None:
    """Why a parameter would be ignored beside the others, or None."""
    hist = given.get("tree_method", "hist") in ("hist", "auto")
    conditions: list[tuple[list[str], bool, str]] = [
        (["ndcg_exp_gain"], objective == "rank:ndcg", f"with the objective {objective}"),
        ([*_PAIRS, "lambdarank_bias_norm"], objective.startswith("rank:"), f"with the objective {objective}"),
        (_OTHER_LOSSES, False, f"with the objective {objective}"),
        (
            ["lambdarank_bias_norm"],
            is_on(given.get("lambdarank_unbiased")),
            "without lambdarank_unbiased: true",
        ),
        (_DART_ONLY, given.get("booster") == "dart", "without booster: dart"),
        (_CATEGORICAL_ONLY, "feature_types" in given, "without categorical features"),
        (["max_bin"], hist or given.get("tree_method") == "approx", "with tree_method: exact"),
        (["max_cached_hist_node"], hist or given.get("tree_method") == "approx", "with tree_method: exact"),
        (["fail_on_invalid_gpu_id"], False, "on a CPU"),
    ]
    return next((why for names, effective, why in conditions if name in names and not effective), None)
