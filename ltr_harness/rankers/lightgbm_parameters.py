"""LightGBM: objectives, what may be set in `params`, what is set for you, and where its limits are."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np

from ltr_harness.catalog import did_you_mean
from ltr_harness.errors import Problem
from ltr_harness.rankers.feature_names import safe_feature_names
from ltr_harness.rankers.parameters import culprits, name_problems
from ltr_harness.rankers.ranker import Facts

# Each objective with the parameters that shape its loss, at LightGBM's own defaults: written out in every record.
OBJECTIVES: dict[str, dict[str, Any]] = {
    "lambdarank": {"lambdarank_truncation_level": 30, "lambdarank_norm": True, "sigmoid": 1.0},
    "rank_xendcg": {},
    "regression": {},
}

_LARGEST_QUERY = 10_000  # rows; a fixed limit of lambdarank
_DEFAULT_GAINS = 31  # labels 0 to 30

_METRICS = "say it under `metrics:`; the harness evaluates with its own metrics"
_STOPPING = "say it under `stopping:`; one rule stops every library"
_SEEDS = "say it under `seeds:`; one seed per replicate covers all of the library's"
_HARNESS = "the harness sets it, so that a run can be repeated"
_DATA = "data reach the library from memory; say it under `data:`"
_FILES = "runs store models and scores themselves"
_OUTSIDE = "its content would stay outside the run's identity; give the constraint itself"

OWNED = {
    "objective": "say it as the model's `objective:`",
    "num_iterations": "say it as `stopping.max_rounds`, or as the model's `rounds:`",
    **dict.fromkeys(
        [
            "metric",
            "eval_at",
            "metric_freq",
            "is_provide_training_metric",
            "auc_mu_weights",
            "multi_error_top_k",
        ],
        _METRICS,
    ),
    **dict.fromkeys(["early_stopping_round", "early_stopping_min_delta", "first_metric_only"], _STOPPING),
    **dict.fromkeys(
        [
            "seed",
            "bagging_seed",
            "data_random_seed",
            "drop_seed",
            "extra_seed",
            "feature_fraction_seed",
            "objective_seed",
        ],
        _SEEDS,
    ),
    "num_threads": "the harness divides the machine's cores among the workers",
    **dict.fromkeys(["deterministic", "force_row_wise", "force_col_wise", "verbosity", "task"], _HARNESS),
    **dict.fromkeys(
        [
            "categorical_feature",
            "data",
            "group_column",
            "header",
            "ignore_column",
            "label_column",
            "parser_config_file",
            "precise_float_parser",
            "pre_partition",
            "save_binary",
            "two_round",
            "valid",
            "weight_column",
        ],
        _DATA,
    ),
    **dict.fromkeys(
        [
            "config",
            "convert_model",
            "convert_model_language",
            "input_model",
            "num_iteration_predict",
            "output_model",
            "output_result",
            "pred_early_stop",
            "pred_early_stop_freq",
            "pred_early_stop_margin",
            "predict_contrib",
            "predict_disable_shape_check",
            "predict_leaf_index",
            "predict_raw_score",
            "refit_decay_rate",
            "saved_feature_importance_type",
            "snapshot_freq",
            "start_iteration_predict",
        ],
        _FILES,
    ),
    **dict.fromkeys(["forcedbins_filename", "forcedsplits_filename"], _OUTSIDE),
    **dict.fromkeys(
        [
            "local_listen_port",
            "machine_list_filename",
            "machines",
            "num_machines",
            "time_out",
            "top_k",
            "tree_learner",
        ],
        "a model is trained in one process; whole runs are what is distributed",
    ),
}

_OTHER_LOSSES = [
    "alpha",
    "fair_c",
    "is_unbalance",
    "neg_bagging_fraction",
    "num_class",
    "poisson_max_delta_step",
    "pos_bagging_fraction",
    "scale_pos_weight",
    "tweedie_variance_power",
]
_LAMBDARANK_ONLY = ["label_gain", "lambdarank_norm", "lambdarank_truncation_level", "sigmoid"]
_REGRESSION_ONLY = ["boost_from_average", "reg_sqrt"]
# parameter -> the other that must be set for it to mean anything, in words and as a test
_DART_ONLY = ["drop_rate", "max_drop", "skip_drop", "uniform_drop", "xgboost_dart_mode"]
_GOSS_ONLY = ["other_rate", "top_rate"]
_CATEGORICAL_ONLY = ["cat_l2", "cat_smooth", "max_cat_threshold", "max_cat_to_onehot", "min_data_per_group"]
_QUANTIZED_ONLY = ["num_grad_quant_bins", "quant_train_renew_leaf", "stochastic_rounding"]
_MONOTONE_ONLY = ["monotone_constraints_method", "monotone_penalty"]
_GPU_ONLY = ["gpu_device_id", "gpu_device_id_list", "gpu_platform_id", "gpu_use_dp", "num_gpu"]

# As long as the features are unknown, so is whether these fit them.
_PER_FEATURE = {
    "cegb_penalty_feature_coupled",
    "cegb_penalty_feature_lazy",
    "feature_contri",
    "interaction_constraints",
    "max_bin_by_feature",
    "monotone_constraints",
}
_FRAME = {"bagging_fraction", "bagging_freq", "boosting", "data_sample_strategy", "device_type"}
_MONOTONE_METHODS = ("basic", "intermediate", "advanced")  # LightGBM takes any other word for basic


@cache
def canonical_names() -> dict[str, str]:
    """Every name the installed LightGBM accepts, aliases included, to the name it stands for."""
    from lightgbm.basic import _ConfigAliases

    table = _ConfigAliases._get_all_param_aliases()
    return {name: meaning for meaning, names in table.items() for name in (meaning, *names)}


def canonical(params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters under the names they stand for."""
    names = canonical_names()
    return {names.get(name, name): value for name, value in params.items()}


def complete(objective: str, params: Mapping[str, Any], seed: int, threads: int) -> dict[str, Any]:
    """What LightGBM is handed: the objective's own parameters written out, yours, and the harness's."""
    return {
        "objective": objective,
        **OBJECTIVES[objective],
        **params,
        "metric": "None",  # the text; the value None leaves LightGBM's own metrics on
        "seed": seed,
        "data_random_seed": 1,  # decides only which rows make the bins: one binning serves all seeds
        "num_threads": threads,
        "deterministic": True,
        "force_row_wise": True,
        "verbosity": -1,
    }


def problems(objective: str, params: Mapping[str, Any], facts: Facts | None) -> list[Problem]:
    """Everything LightGBM would reject, ignore or misread."""
    if objective not in OBJECTIVES:
        # in `params`, LightGBM takes an unknown objective as a reason to stop, but None for regression
        return [
            Problem("objective", f"unknown objective {objective!r}", cure=did_you_mean(objective, OBJECTIVES))
        ]
    given = canonical(params)
    found = name_problems(
        params, "LightGBM", canonical_names(), OWNED, lambda name, _: _without_effect(name, objective, given)
    )
    found += _values(objective, params, given, facts, {problem.place for problem in found})
    if facts is not None:
        found += _limits(objective, given, facts)
    return found


def seed_matters(objective: str, params: Mapping[str, Any]) -> bool:
    """Whether anything in this training is drawn at random."""
    given = canonical(params)
    return (
        objective == "rank_xendcg"
        or _bags(given)
        or "goss" in (given.get("boosting"), given.get("data_sample_strategy"))
        or given.get("boosting") == "dart"
        or _number(given.get("feature_fraction"), 1.0) < 1
        or _number(given.get("feature_fraction_bynode"), 1.0) < 1
        or _is_on(given.get("extra_trees"))
        or _is_on(given.get("use_quantized_grad"))
    )


def notes(params: Mapping[str, Any], threads: int) -> list[str]:
    """Settings whose results depend on the threads (measured; boosting alone says nothing)."""
    given = canonical(params)
    found = []
    if threads > 1 and _is_on(given.get("bagging_by_query")):
        found.append(
            f"bagging_by_query with {threads} threads gives another model in every run; one thread repeats"
        )
    if "goss" in (given.get("boosting"), given.get("data_sample_strategy")):
        found.append(f"goss gives another model with another number of threads (here {threads})")
    if _is_on(given.get("use_quantized_grad")):
        found.append(
            f"use_quantized_grad gives another model with another number of threads (here {threads})"
        )
    return found


def spoken(message: str) -> str:
    """LightGBM's message without the source file and line it ends in.

    Example:
        >>> spoken("Check failed: (num_leaves) > (1) at /src/config_auto.cpp, line 352 .\\n")
        'it requires num_leaves > 1'
    """
    check = re.fullmatch(r"Check failed: (.*) at \S+, line \d+ \.\s*", message, flags=re.DOTALL)
    if check is None:
        return message.strip()
    condition = check[1].replace("static_cast<size_t>(train_data_->num_total_features())", "n_features")
    condition = condition.replace("config->", "").replace(".size()", " length")
    return "it requires " + re.sub(r"\((-?[\w. ]+)\)", r"\1", condition)


def _without_effect(name: str, objective: str, given: Mapping[str, Any]) -> str | None:
    boosting = given.get("boosting", "gbdt")
    conditions: list[tuple[list[str], bool, str]] = [
        (_LAMBDARANK_ONLY, objective == "lambdarank", f"with the objective {objective}"),
        (_REGRESSION_ONLY, objective == "regression", f"with the objective {objective}"),
        (_OTHER_LOSSES, False, f"with the objective {objective}"),
        (["lambdarank_position_bias_regularization"], False, "without display positions"),
        (_DART_ONLY, boosting == "dart", "without boosting: dart"),
        (
            _GOSS_ONLY,
            "goss" in (boosting, given.get("data_sample_strategy")),
            "without data_sample_strategy: goss",
        ),
        (_CATEGORICAL_ONLY, False, "without categorical features"),
        (["linear_lambda"], _is_on(given.get("linear_tree")), "without linear_tree: true"),
        (_QUANTIZED_ONLY, _is_on(given.get("use_quantized_grad")), "without use_quantized_grad: true"),
        (_MONOTONE_ONLY, "monotone_constraints" in given, "without monotone_constraints"),
        (_GPU_ONLY, given.get("device_type", "cpu") != "cpu", "on a CPU"),
        (
            ["bagging_by_query"],
            _bags(given),
            "without bagging_fraction below 1 and bagging_freq of at least 1",
        ),
        (
            ["bagging_fraction"],
            _number(given.get("bagging_fraction"), 1.0) == 1 or _number(given.get("bagging_freq"), 0) > 0,
            "while bagging_freq is 0",
        ),
        (
            ["bagging_freq"],
            given.get("bagging_freq") == 0 or "bagging_fraction" in given,
            "without bagging_fraction",
        ),
    ]
    return next((why for names, effective, why in conditions if name in names and not effective), None)


def _values(
    objective: str, params: Mapping[str, Any], given: Mapping[str, Any], facts: Facts | None, wrong: set[str]
) -> list[Problem]:
    """Values of the wrong kind or out of range: LightGBM itself is asked, on a handful of rows."""
    found = []
    method = given.get("monotone_constraints_method", "basic")
    if method not in _MONOTONE_METHODS:
        cure = did_you_mean(str(method), _MONOTONE_METHODS)
        found.append(Problem("params.monotone_constraints_method", f"unknown method {method!r}", cure=cure))
    names = canonical_names()
    askable = {
        name: value
        for name, value in params.items()
        if f"params.{name}" not in wrong and (facts is not None or names[name] not in _PER_FEATURE)
    }
    always = {name for name in askable if names[name] in _FRAME}
    features = safe_feature_names(facts.feature_names) if facts is not None else ["a", "b"]
    return found + culprits(askable, always, lambda some: _refusal(objective, some, features))


def _refusal(objective: str, params: Mapping[str, Any], features: list[str]) -> str | None:
    import lightgbm

    rows = np.tile(np.arange(4.0)[:, None], len(features))
    handed = complete(objective, params, seed=0, threads=1)
    try:
        with _quiet():
            data = lightgbm.Dataset(
                rows, label=[0, 1, 0, 1], group=[2, 2], feature_name=features, params=handed
            )
            lightgbm.Booster(handed, data)
    except (lightgbm.basic.LightGBMError, TypeError, ValueError) as problem:
        return spoken(str(problem))
    return None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """No output of C++ code: LightGBM prints what it refuses at any verbosity, and we say it ourselves."""
    sys.stderr.flush()
    kept = os.dup(2)
    with open(os.devnull, "wb") as nothing:
        os.dup2(nothing.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _limits(objective: str, given: Mapping[str, Any], facts: Facts) -> list[Problem]:
    """Limits that depend on the data."""
    found = []
    if objective != "regression" and facts.n_fractional:
        does = "truncates them" if objective == "rank_xendcg" else "refuses them"
        found.append(
            Problem(
                "objective",
                f"{facts.n_fractional} training labels are not whole numbers, and {objective} {does}",
                "whole grades",
                "rescale the labels, or use objective: regression",
            )
        )
    if objective == "lambdarank":
        gains = given.get("label_gain")
        size = _length(gains) if gains is not None else _DEFAULT_GAINS
        if facts.max_label > size - 1:
            found.append(
                Problem(
                    "objective",
                    f"the largest training label is {facts.max_label:g}, and lambdarank has gains for 0 to {size - 1}",
                    cure=f"give params.label_gain with {int(facts.max_label) + 1} values, map the labels to fewer "
                    "grades, or use objective: rank_xendcg",
                )
            )
        if facts.largest_query > _LARGEST_QUERY:
            found.append(
                Problem(
                    "objective",
                    f"a training query has {facts.largest_query} rows, and lambdarank takes at most {_LARGEST_QUERY}",
                    cure="cut such queries, or use objective: rank_xendcg or XGBoost, which have no limit",
                )
            )
    leaf = _number(given.get("min_data_in_leaf"), 20)
    if facts.n_rows < 2 * leaf:
        found.append(
            Problem(
                "params.min_data_in_leaf",
                f"{facts.n_rows} training rows cannot be split into two leaves of {leaf:g} rows: the model "
                "would be constant",
                f"at most {facts.n_rows // 2}",
            )
        )
    hessian = _number(given.get("min_sum_hessian_in_leaf"), 1e-3)
    if objective == "rank_xendcg" and not facts.has_weights and 2 * hessian >= facts.n_queries:
        found.append(
            Problem(
                "params.min_sum_hessian_in_leaf",
                f"a query's hessian sums to less than 1 in rank_xendcg, so {facts.n_queries} training queries cannot "
                f"be split into two leaves of {hessian:g} each: the model would be constant",
                f"well below {facts.n_queries / 2:g}; 1e-3 is LightGBM's default",
            )
        )
    if facts.stopping and given.get("boosting") == "dart":
        found.append(
            Problem(
                "params.boosting",
                "dart rescales earlier trees in every round, so early stopping cannot go back to the best one",
                cure="give the model a fixed number of `rounds:`, or use another boosting",
            )
        )
    return found


def _bags(given: Mapping[str, Any]) -> bool:
    return _number(given.get("bagging_fraction"), 1.0) < 1 and _number(given.get("bagging_freq"), 0) > 0


def _number(value: Any, default: float) -> float:
    """A parameter as a number; one that is none is found elsewhere."""
    try:
        return float(default if value is None else value)
    except (TypeError, ValueError):
        return default


def _is_on(value: Any) -> bool:
    return value is True or str(value).lower() in ("true", "+")


def _length(gains: Any) -> int:
    return len(gains.split(",")) if isinstance(gains, str) else len(np.atleast_1d(gains))
