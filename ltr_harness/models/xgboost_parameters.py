"""Parameters of XGBoost: objectives, those that `params` may set, those that the harness sets, and their checks."""

import re
import warnings
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np

from ltr_harness._util.text import count_of
from ltr_harness.errors import Problem
from ltr_harness.models import tree_model as adapters
from ltr_harness.models.objectives import METRIC, parameters_of_others, tried_labels
from ltr_harness.models.ranker import TrainingFacts
from ltr_harness.models.tree_model import as_number, is_on

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
    "rank_xendcg": {},  # ours: see ltr_harness.boosting.xgboost_metrics
    **{f"reg:{error}error": {} for error in ("squared", "squaredlog", "absolute")},
    "reg:pseudohubererror": {"huber_slope": 1.0},
    "reg:quantileerror": {"quantile_alpha": 0.5},  # ours, as the next: XGBoost has no default
    "reg:expectileerror": {"expectile_alpha": 0.5},
    "reg:tweedie": {"tweedie_variance_power": 1.5},
    **{name: {} for name in ("reg:gamma", "count:poisson", "binary:hinge")},
    **{name: {"scale_pos_weight": 1.0} for name in ("reg:logistic", "binary:logistic", "binary:logitraw")},
    "multi:softprob": {"num_class": 2},  # as many as there are grades
}
PAIRS = "lambdarank_num_pair_per_sample"
LAMBDA = ("rank:ndcg", "rank:pairwise", "rank:map")
XENDCG = "rank_xendcg"
POINTWISE = tuple(name for name in OBJECTIVES if not name.startswith("rank"))
_OURS = (XENDCG, METRIC)
# Parameters of every objective that have another default here.
_DEFAULTS = {"count:poisson": {"max_delta_step": 0.7}, **{key: {"base_score": 0.0} for key in _OURS}}

DEFAULT_MAX_BIN = 256

OWNED = adapters.set_elsewhere(
    {
        "objective": "objective",
        "metrics": "eval_metric disable_default_eval_metric",
        "stopping": "early_stopping_rounds maximize save_best",
        "rounds": "num_boost_round n_estimators num_round",
        "set it under `seeds:`": "seed seed_per_iteration",
        "threads": "nthread",
        "harness": "verbosity silent validate_parameters verbose_eval",
        "data": "group qid weight feature_weights enable_categorical missing feature_types data",
        "it is counted from the training labels, for objective: multi:softprob": "num_class",
        "a ranker has one score per row": "num_target multi_strategy",
        "the harness trains new trees; choose them by `tree_method`": "process_type updater refresh_leaf",
    }
)

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

_DART_ONLY = ("normalize_type", "one_drop", "rate_drop", "sample_type", "skip_drop")
_CATEGORICAL_ONLY = "max_cat_threshold max_cat_to_onehot"
_DROPPING_ONLY = "normalize_type sample_type skip_drop"
_OTHER_LOSSES = "aft_loss_distribution aft_loss_distribution_scale max_weight"

_FURTHER = """
    alpha base_score booster colsample_bylevel colsample_bynode colsample_bytree device eta fail_on_invalid_gpu_id gamma
    grow_policy interaction_constraints lambda lambdarank_bias_norm max_bin max_cached_hist_node max_delta_step
    max_depth max_leaves min_child_weight monotone_constraints num_parallel_tree sampling_method subsample
    tree_method"""


# What versions that are old and allowed lack; of a parameter they do what is its default.
_SINCE = {
    "lambdarank_normalization": "2.1",
    "lambdarank_score_normalization": "3.0",
    "reg:expectileerror": "3.3",
}


@cache
def canonical_names() -> dict[str, str]:
    """Every documented name, aliases included, to the name it stands for; the installed version takes more or fewer."""
    documented = f"{' '.join(_DART_ONLY)} {_CATEGORICAL_ONLY} {_OTHER_LOSSES} {_FURTHER}".split()
    return {
        name: name for name in (*parameters_of_others("", OBJECTIVES).split(), *OWNED, *documented)
    } | _ALIASES


def canonical(params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters under the names they stand for."""
    return {_ALIASES.get(name, name): value for name, value in params.items()}


def complete(objective: str, params: Mapping[str, Any], seed: int, threads: int) -> dict[str, Any]:
    """All parameters for XGBoost: the objective's own written out, yours, and the harness's."""
    loss = {**OBJECTIVES.get(objective, {}), **_DEFAULTS.get(objective, {})}
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
    return {**handed, "objective": "reg:squarederror"} if handed["objective"] in _OURS else dict(handed)


def binning(handed: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Parameters that a binned matrix depends on, in a form that can be compared."""
    named = ("max_bin", "nthread", "tree_method", "device")
    return tuple((name, repr(handed.get(name))) for name in named)


def seed_matters(objective: str, params: Mapping[str, Any]) -> bool:
    """Tell whether anything in this training is drawn by the seed."""
    given = canonical(params)
    shares = ("subsample", "colsample_bytree", "colsample_bylevel", "colsample_bynode")
    if objective == XENDCG or drops_trees(given):
        return True
    if any(as_number(given.get(share), 1.0) < 1 for share in shares):
        return True
    of_loss = {name: value for name, value in given.items() if name in OBJECTIVES.get(objective, {})}
    return objective in LAMBDA and _draws_pairs(objective, of_loss)


def drops_trees(given: Mapping[str, Any]) -> bool:
    """Tell whether later rounds change earlier trees: DART, in newer versions a choice of `booster: gbtree`."""
    if given.get("booster") == "dart":
        return True
    drops = as_number(given.get("rate_drop"), 0.0) > 0 or is_on(given.get("one_drop"))
    return drops and _gbtree_drops()


def _gbtree_drops() -> bool:
    """Tell whether the installed version drops trees without `booster: dart`."""
    return "rate_drop" not in _ask("rank:pairwise", {"rate_drop": 0.5}, ["a", "b"])


@adapters.cache_answers
@adapters.store_answers("xgboost")
def _draws_pairs(objective: str, of_loss: Mapping[str, Any]) -> bool:
    """Try whether two seeds give two models: `mean` draws pairs by the round, in newer versions by the seed."""
    import xgboost

    rows = np.random.Generator(np.random.Philox(key=[0, 0])).normal(size=(200, 2))
    largest = 1 if objective == "rank:map" else 4
    labels = np.clip(np.round(rows[:, 0] + largest / 2), 0, largest)
    predicted = []
    for seed in (1, 2):
        handed = complete(objective, {**of_loss, "min_child_weight": 0}, seed, threads=1)
        data = xgboost.DMatrix(rows, label=labels, group=[20] * 10, nthread=1)
        try:
            booster = xgboost.train(handed, data, 5, verbose_eval=False)
        except (xgboost.core.XGBoostError, AttributeError, TypeError, ValueError):
            return False  # a value that is refused elsewhere
        predicted.append(booster.predict(data, output_margin=True))
    return not np.array_equal(*predicted)


def conditions(objective: str, given: Mapping[str, Any]) -> list[tuple[str, bool, str]]:
    """Parameters, whether they mean anything beside the others, and why not."""
    method, with_it = given.get("tree_method", "hist"), f"with the objective {objective}"
    unbiased, binned = is_on(given.get("lambdarank_unbiased")), method in ("hist", "auto", "approx")
    is_dart = given.get("booster") == "dart" or given.keys().isdisjoint(_DART_ONLY) or _gbtree_drops()
    return [
        (f"{parameters_of_others(objective, OBJECTIVES)} {_OTHER_LOSSES}", False, with_it),
        ("lambdarank_bias_norm", objective in LAMBDA, with_it),
        ("lambdarank_bias_norm", unbiased, "without lambdarank_unbiased: true"),
        (" ".join(_DART_ONLY), is_dart, "without booster: dart"),
        (_DROPPING_ONLY, drops_trees(given), "without rate_drop or one_drop"),
        (_CATEGORICAL_ONLY, "feature_types" in given, "without categorical features"),
        ("max_bin max_cached_hist_node", binned, "with tree_method: exact"),
        ("fail_on_invalid_gpu_id", False, "on a CPU"),
    ]


_LARGEST_EXP_LABEL = 31
# As long as the features are unknown, so is whether these fit them.
_PER_FEATURE = {"interaction_constraints", "monotone_constraints"}
_FRAME = {"booster", "device", "grow_policy", "tree_method"}


def problems(
    objective: str, params: Mapping[str, Any], facts: TrainingFacts | None, besides: Mapping[str, Any]
) -> list[Problem]:
    """Return everything that XGBoost would reject, ignore or misread."""
    given = {**canonical(params), **besides}
    if objective in _SINCE and "Unknown objective" in str(_ask(objective, {}, ["a", "b"])):
        return [_lacking("objective", objective, "choose another")]
    names = canonical_names() | _newer_names(objective, params)
    refused = [*adapters.name_problems(params, "XGBoost", names, OWNED, conditions(objective, given))]
    refused_places = {problem.place for problem in refused}
    checked = {name: value for name, value in params.items() if f"params.{name}" not in refused_places}
    refused += _refused_by_library(objective, checked, facts)
    if given.get("booster") == "gblinear":
        found = "gblinear has no trees, so no round can be kept"
        refused.append(Problem("params.booster", found, "gbtree, or dart with `rounds:`"))
    for name in ("quantile_alpha", "expectile_alpha"):
        if "," in str(given.get(name)):
            found = f"{given[name]} would give a row several scores"
            refused.append(Problem(f"params.{name}", found, "one number"))
    if facts is not None:
        refused += _limits(objective, given, facts)
    return refused


def _newer_names(objective: str, params: Mapping[str, Any]) -> dict[str, str]:
    """Return parameters that the table lacks and XGBoost uses, as names of their own."""
    canonical, newer = canonical_names(), {}
    for name in params:
        if name in canonical:
            continue
        refused_or_unused = _ask(objective, {name: params[name]}, ["a", "b"])
        if isinstance(refused_or_unused, list) and name not in refused_or_unused:
            newer[name] = name
    return newer


def _refused_by_library(
    objective: str, params: Mapping[str, Any], facts: TrainingFacts | None
) -> list[Problem]:
    """Return values of the wrong kind, out of range or unused, by trying them on a handful of rows."""
    features = ["a", "b"]
    if facts is not None:
        features = adapters.safe_feature_names(facts.feature_names)
    else:
        params = {name: value for name, value in params.items() if name not in _PER_FEATURE}

    def refusal(candidates: Mapping[str, Any]) -> str | None:
        refused_or_unused = _ask(objective, candidates, features)
        return refused_or_unused if isinstance(refused_or_unused, str) else None

    rejected = adapters.rejected_parameters(params, _FRAME, refusal)
    if rejected:
        return rejected
    unused = _ask(objective, params, features)
    return [_unused(name) for name in params if name in unused]


@adapters.cache_answers
@adapters.store_answers("xgboost")
def _ask(objective: str, params: Mapping[str, Any], features: list[str]) -> str | list[str]:
    """XGBoost's refusal of a definition, or the parameters that it says it does not use."""
    import xgboost

    rows = np.tile(np.arange(4.0, dtype=np.float32)[:, None], len(features))
    handed = {**for_library(complete(objective, params, seed=0, threads=1)), "verbosity": 1}
    # a booster speaks as loudly as the last one did until its own `verbosity` is read, which is after `device`
    with warnings.catch_warnings(record=True) as caught, xgboost.config_context(verbosity=1):
        warnings.simplefilter("always")
        try:
            data = xgboost.DMatrix(
                rows, label=tried_labels(objective) * 2, group=[2, 2], feature_names=features, nthread=1
            )
            xgboost.Booster(handed, [data]).update(data, 0)
        except (xgboost.core.XGBoostError, AttributeError, TypeError, ValueError) as problem:
            return plain_message(str(problem))
    unused: list[str] = []
    for warning in caught:
        message = plain_message(str(warning.message).replace("WARNING: ", ""))
        if "GPU" in message:  # XGBoost would go on without it
            return message
        if "are not used" in message:
            unused += re.findall(r'"([^"]+)"', message)
    return unused


def _unused(name: str) -> Problem:
    """Return the problem of a parameter that XGBoost does not use, with its version where that is the reason."""
    from packaging.version import Version
    from xgboost import __version__

    if Version(__version__) < Version(_SINCE.get(name, "0")):
        return _lacking(f"params.{name}", name, "leave it out")
    found = f"{name} is not used by this objective and tree method"
    return Problem(f"params.{name}", found, cure="leave it out")


def _lacking(place: str, name: str, otherwise: str) -> Problem:
    from xgboost import __version__

    found, since = f"XGBoost {__version__} has no {name}", _SINCE[name]
    return Problem(
        place, found, f"XGBoost {since} or newer", f"pip install 'xgboost>={since}', or {otherwise}"
    )


def _limits(objective: str, given: Mapping[str, Any], facts: TrainingFacts) -> Iterator[Problem]:
    fractional = f"found {count_of(facts.n_fractional, 'such training label')}"
    if objective == "rank:ndcg" and is_on(given.get("ndcg_exp_gain", True)):
        cure = "set params.ndcg_exp_gain: false, map the labels with data.grades, or use objective: rank:pairwise"
        if facts.n_fractional:
            refused = "rank:ndcg with exponential gain refuses fractional labels"
            yield Problem("objective", f"{refused}; {fractional}", cure=cure)
        if facts.max_label > _LARGEST_EXP_LABEL:
            yield Problem(
                "objective",
                f"the largest training label is {facts.max_label:g}, and rank:ndcg with exponential gain takes at "
                f"most {_LARGEST_EXP_LABEL}",
                cure=cure,
            )
    if objective == XENDCG:
        if facts.n_fractional:
            truncated = f"rank_xendcg truncates fractional labels; {fractional}"
            cure = "rescale the labels, or use objective: rank:pairwise"
            yield Problem("objective", truncated, "integer labels", cure)
        mass = as_number(given.get("min_child_weight"), 1.0)
        yield from adapters.xendcg_limits("min_child_weight", mass, "1 is XGBoost's default", facts)
    if given.get("booster") == "dart":
        yield from adapters.dart_limits("booster", "use booster: gbtree", facts)
    elif drops_trees(given):
        name = "rate_drop" if "rate_drop" in given else "one_drop"
        yield from adapters.dart_limits(name, f"leave out {name}", facts)


def plain_message(message: str) -> str:
    """XGBoost's message without time, source file and C++ stack."""
    text = message.partition("\nStack trace:")[0].strip()
    text = re.sub(r"^\[\d\d:\d\d:\d\d\] \S+:\d+:\s*", "", text)
    text = re.sub(r"^Check failed: [^:]*: ", "", text)
    return " ".join(text.split())
