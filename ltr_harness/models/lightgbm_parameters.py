"""Parameters of LightGBM: objectives, those that `params` may set, those that the harness sets, and their checks."""

import contextlib
import os
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np

from ltr_harness._util.catalog import did_you_mean
from ltr_harness._util.number_text import plain_number
from ltr_harness._util.text import count_of
from ltr_harness.errors import Caution, Problem
from ltr_harness.models import tree_model as adapters
from ltr_harness.models.objectives import METRIC, parameters_of_others, tried_labels
from ltr_harness.models.ranker import TrainingFacts
from ltr_harness.models.tree_model import as_number, is_on

# Each objective with the parameters that shape its loss, at LightGBM's own defaults: written out in every record.
OBJECTIVES: dict[str, dict[str, Any]] = {
    "lambdarank": {"lambdarank_truncation_level": 30, "lambdarank_norm": True, "sigmoid": 1.0},
    "rank_xendcg": {},
    **{name: {} for name in ("regression", "regression_l1", "mape", "gamma")},
    "huber": {"alpha": 0.9},
    "fair": {"fair_c": 1.0},
    "quantile": {"alpha": 0.9},
    "poisson": {"poisson_max_delta_step": 0.7},
    "tweedie": {"tweedie_variance_power": 1.5},
    "binary": {
        "sigmoid": 1.0,
        "is_unbalance": False,
        "scale_pos_weight": 1.0,
        "pos_bagging_fraction": 1.0,
        "neg_bagging_fraction": 1.0,
    },
    "cross_entropy": {},
    "cross_entropy_lambda": {},
    "multiclass": {"num_class": 2},  # as many as there are grades
}
TRUNCATION = "lambdarank_truncation_level"
LAMBDA = ("lambdarank",)
_RANKING = ("lambdarank", "rank_xendcg")
_LOSSES = {**OBJECTIVES, METRIC: {}}


OWNED = adapters.set_elsewhere(
    {
        "objective": "objective",
        "rounds": "num_iterations",
        "metrics": """metric eval_at metric_freq is_provide_training_metric auc_mu_weights multi_error_top_k""",
        "stopping": "early_stopping_round early_stopping_min_delta first_metric_only",
        "set it under `seeds:`; one seed per replicate covers all of the library's": """
            seed bagging_seed data_random_seed drop_seed extra_seed feature_fraction_seed objective_seed""",
        "it is counted from the training labels, for objective: multiclass": "num_class",
        "threads": "num_threads",
        "harness": "deterministic force_row_wise force_col_wise verbosity task",
        "data": """
            categorical_feature data group_column header ignore_column label_column parser_config_file
            precise_float_parser pre_partition save_binary two_round valid weight_column""",
        "files": """
            config convert_model convert_model_language input_model num_iteration_predict output_model output_result
            pred_early_stop pred_early_stop_freq pred_early_stop_margin predict_contrib predict_disable_shape_check
            predict_leaf_index predict_raw_score refit_decay_rate saved_feature_importance_type snapshot_freq
            start_iteration_predict""",
        "its content would stay outside the run's identity; give the constraint itself": """
            forcedbins_filename forcedsplits_filename""",
        "training across machines is set up by `data_parallel`": """
            local_listen_port machine_list_filename machines num_machines time_out top_k tree_learner""",
    }
)


@cache
@adapters.store_answers("lightgbm")
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
    """All parameters for LightGBM: the objective's own written out, yours, and the harness's."""
    name_of_objective = "none" if objective == METRIC else objective
    return {
        "objective": name_of_objective,
        **_LOSSES[objective],
        **params,
        "metric": "None",  # the text; the value None leaves LightGBM's own metrics on
        "seed": seed,
        "data_random_seed": 1,  # decides only which rows make the bins: one binning serves all seeds
        "num_threads": threads,
        "deterministic": True,
        "force_row_wise": True,
        "verbosity": -1,
    }


def gain_of(given: Mapping[str, Any]) -> str:
    """The label gain in the spelling of metrics, from parameters by canonical names."""
    gains = given.get("label_gain")
    if gains is None:
        return "exp"
    values = gains.split(",") if isinstance(gains, str) else gains
    return "_".join(plain_number(float(value)) for value in values)


def seed_matters(objective: str, params: Mapping[str, Any]) -> bool:
    """Tell whether anything in this training is drawn at random."""
    given = canonical(params)
    return (
        objective == "rank_xendcg"
        or _bags(given)
        or _is_goss(given)
        or given.get("boosting") == "dart"
        or any(as_number(given.get(f"feature_fraction{suffix}"), 1.0) < 1 for suffix in ("", "_bynode"))
        or any(is_on(given.get(name)) for name in ("extra_trees", "use_quantized_grad"))
    )


# Parameters that say how trees are grown and not how features are binned; any other may change the bins.
_GROWING_ONLY = """
    bagging_by_query bagging_fraction bagging_freq boosting data_sample_strategy extra_trees feature_fraction
    feature_fraction_bynode label_gain lambda_l1 lambda_l2 lambdarank_position_bias_regularization learning_rate
    max_delta_step max_depth metric min_gain_to_split min_sum_hessian_in_leaf num_class num_leaves objective path_smooth
    seed verbosity"""


def binning(handed: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Parameters that a binned Dataset depends on, in a form that can be compared."""
    growing = {*parameters_of_others("", OBJECTIVES).split(), *_GROWING_ONLY.split()}
    given = canonical(handed).items()
    return tuple(sorted((name, repr(value)) for name, value in given if name not in growing))


def thread_cautions(params: Mapping[str, Any], threads: int) -> list[Caution]:
    """Return cautions about settings whose results depend on the threads (measured, see docs/boosters.md)."""
    given, cautions = canonical(params), []
    if threads > 1 and is_on(given.get("bagging_by_query")) and _bags(given):
        text = f"bagging_by_query with several threads (here {threads}) gives another model in every run"
        cautions.append(Caution("not-deterministic", "warning", text, "one thread repeats"))
    named = ["goss"] if _is_goss(given) else []
    named += [name for name in ("use_quantized_grad", "linear_tree") if is_on(given.get(name))]
    for name in named:
        text = f"{name} trains a different model with another number of threads (here {threads})"
        cautions.append(Caution("number-of-threads", "note", text))
    return cautions


_BALANCED = ("neg_bagging_fraction", "pos_bagging_fraction")
_FRACTIONS = ("bagging_fraction", *_BALANCED)
_DART_ONLY = "drop_rate max_drop skip_drop uniform_drop xgboost_dart_mode"
_CATEGORICAL_ONLY = "cat_l2 cat_smooth max_cat_threshold max_cat_to_onehot min_data_per_group"
_QUANTIZED_ONLY = "num_grad_quant_bins quant_train_renew_leaf stochastic_rounding"
_MONOTONE_ONLY = "monotone_constraints_method monotone_penalty"
_GPU_ONLY = "gpu_device_id gpu_device_id_list gpu_platform_id gpu_use_dp num_gpu"


def conditions(objective: str, given: Mapping[str, Any]) -> list[tuple[str, bool, str]]:
    """Parameters, whether they mean anything beside the others, and why not."""
    boosting, with_it = given.get("boosting", "gbdt"), f"with the objective {objective}"
    every = as_number(given.get("bagging_freq"), 0)
    balanced = any(as_number(given.get(name), 1.0) < 1 for name in _BALANCED)
    return [
        (parameters_of_others(objective, OBJECTIVES), False, with_it),
        ("label_gain", objective == "lambdarank", with_it),
        ("reg_sqrt", objective in ("regression", "regression_l1", "fair", "quantile", "mape"), with_it),
        ("boost_from_average", objective not in (*_RANKING, METRIC), with_it),
        ("lambdarank_position_bias_regularization", "position" in given, "without position_bias: true"),
        (_DART_ONLY, boosting == "dart", "without boosting: dart"),
        ("other_rate top_rate", _is_goss(given), "without data_sample_strategy: goss"),
        (_CATEGORICAL_ONLY, "categorical_feature" in given, "without categorical features"),
        ("linear_lambda", is_on(given.get("linear_tree")), "without linear_tree: true"),
        (_QUANTIZED_ONLY, is_on(given.get("use_quantized_grad")), "without use_quantized_grad: true"),
        (_MONOTONE_ONLY, "monotone_constraints" in given, "without monotone_constraints"),
        (_GPU_ONLY, given.get("device_type", "cpu") != "cpu", "on a CPU"),
        ("bagging_by_query", _bags(given), "without bagging_fraction below 1 and bagging_freq of at least 1"),
        ("bagging_fraction", not balanced, f"beside {' and '.join(_BALANCED)}"),
        (" ".join(_FRACTIONS), every > 0 or _fraction(given) == 1, "while bagging_freq is 0"),
        ("bagging_freq", every == 0 or not given.keys().isdisjoint(_FRACTIONS), "without bagging_fraction"),
    ]


def _is_goss(given: Mapping[str, Any]) -> bool:
    return "goss" in (given.get("boosting"), given.get("data_sample_strategy"))


def _bags(given: Mapping[str, Any]) -> bool:
    return _fraction(given) < 1 and as_number(given.get("bagging_freq"), 0) > 0


def _fraction(given: Mapping[str, Any]) -> float:
    return min(as_number(given.get(name), 1.0) for name in _FRACTIONS)


_LARGEST_QUERY = 10_000  # rows; a fixed limit of lambdarank
_DEFAULT_GAINS = 31  # labels 0 to 30
# As long as the features are unknown, so is whether these fit them.
_PER_FEATURE = """
    cegb_penalty_feature_coupled cegb_penalty_feature_lazy feature_contri interaction_constraints max_bin_by_feature
    monotone_constraints"""
_FRAME = {"bagging_fraction", "bagging_freq", "boosting", "data_sample_strategy", "device_type"}
_MONOTONE_METHODS = ("basic", "intermediate", "advanced")  # LightGBM takes any other word for basic


def problems(
    objective: str, params: Mapping[str, Any], facts: TrainingFacts | None, besides: Mapping[str, Any]
) -> list[Problem]:
    """Everything LightGBM would reject, ignore or misread."""
    given = {**canonical(params), **besides}
    names = canonical_names()
    refused = [*adapters.name_problems(params, "LightGBM", names, OWNED, conditions(objective, given))]
    refused_places = {problem.place for problem in refused}
    method = given.get("monotone_constraints_method", "basic")
    if method not in _MONOTONE_METHODS:
        cure = did_you_mean(str(method), _MONOTONE_METHODS)
        refused.append(Problem("params.monotone_constraints_method", f"unknown method {method!r}", cure=cure))
    # values of the wrong kind or out of range: LightGBM itself is asked, on a handful of rows
    askable = {
        name: value
        for name, value in params.items()
        if f"params.{name}" not in refused_places
        and (facts is not None or names[name] not in _PER_FEATURE.split())
    }
    always = {name for name in askable if names[name] in _FRAME}
    features = adapters.safe_feature_names(facts.feature_names) if facts is not None else ["a", "b"]
    refused += adapters.rejected_parameters(
        askable, always, lambda candidates: _refusal(objective, candidates, features)
    )
    if facts is not None:
        refused += _limits(objective, given, facts)
    return refused


def _lambdarank_limits(gains: Any, facts: TrainingFacts) -> Iterator[Problem]:
    """Yield labels that have no gain, and queries with too many rows."""
    size = _DEFAULT_GAINS
    if gains is not None:
        size = len(gains.split(",")) if isinstance(gains, str) else len(np.atleast_1d(gains))
    if facts.max_label > size - 1:
        yield Problem(
            "objective",
            f"the largest training label is {facts.max_label:g}, and lambdarank has gains for 0 to {size - 1}",
            cure=f"give params.label_gain with {count_of(int(facts.max_label) + 1, 'value')}, map the "
            "labels to fewer with data.grades, or use objective: rank_xendcg",
        )
    if facts.largest_query > _LARGEST_QUERY:
        yield Problem(
            "objective",
            f"a training query has {facts.largest_query} rows, and lambdarank takes at most {_LARGEST_QUERY}",
            cure="cut such queries, or use objective: rank_xendcg or XGBoost, which have no limit",
        )


def _limits(objective: str, given: Mapping[str, Any], facts: TrainingFacts) -> Iterator[Problem]:
    if objective in _RANKING and facts.n_fractional:
        verb = "truncates" if objective == "rank_xendcg" else "refuses"
        yield Problem(
            "objective",
            f"{objective} {verb} fractional labels; found "
            f"{count_of(facts.n_fractional, 'such training label')}",
            "integer labels",
            "make grades of them, as data.grades: {bins: [2, 4]} does, or use objective: regression",
        )
    if objective == "lambdarank":
        yield from _lambdarank_limits(given.get("label_gain"), facts)
    leaf = as_number(given.get("min_data_in_leaf"), 20)
    if facts.n_rows < 2 * leaf:
        yield Problem(
            "params.min_data_in_leaf",
            f"{count_of(facts.n_rows, 'training row')} cannot be split into two leaves of {leaf:g} rows: the model "
            "would be constant",
            f"at most {facts.n_rows // 2}",
        )
    hessian = as_number(given.get("min_sum_hessian_in_leaf"), 1e-3)
    if objective == "rank_xendcg":
        yield from adapters.xendcg_limits(
            "min_sum_hessian_in_leaf", hessian, "1e-3 is LightGBM's default", facts
        )
    if given.get("boosting") == "dart":
        yield from adapters.dart_limits("boosting", "use another boosting", facts)


def plain_message(message: str) -> str:
    """LightGBM's message without the source file and line it ends in."""
    check = re.fullmatch(r"Check failed: (.*) at \S+, line \d+ \.\s*", message, flags=re.DOTALL)
    if check is None:
        return message.strip()
    condition = check[1].replace("static_cast<size_t>(train_data_->num_total_features())", "n_features")
    condition = condition.replace("config->", "").replace(".size()", " length")
    return "it requires " + re.sub(r"\((-?[\w. ]+)\)", r"\1", condition)


@adapters.cache_answers
@adapters.store_answers("lightgbm")
def _refusal(objective: str, params: Mapping[str, Any], features: list[str]) -> str | None:
    import lightgbm

    rows = np.tile(np.arange(4.0)[:, None], len(features))
    handed = complete(objective, params, seed=0, threads=1)
    try:
        with _quiet():
            data = lightgbm.Dataset(
                rows, label=tried_labels(objective) * 2, group=[2, 2], feature_name=features, params=handed
            )
            lightgbm.Booster(handed, data)
    except (lightgbm.basic.LightGBMError, TypeError, ValueError) as problem:
        return plain_message(str(problem))
    return None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """No output of C++ code: LightGBM prints what it refuses at any verbosity, and we say it ourselves."""
    sys.stderr.flush()
    stderr_copy = os.dup(2)
    with open(os.devnull, "wb") as nothing:
        os.dup2(nothing.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(stderr_copy, 2)
        os.close(stderr_copy)
