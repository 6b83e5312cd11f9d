"""CatBoost's objectives by their own strings, such as ``YetiRank:mode=MRR;top=10``, and a metric among them.

CatBoost reads over a parameter that it does not know in three of its losses, and over some that it knows; one it does
not survive. What is known here was seen by training with and without each (tests/rankers/test_catboost_losses.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ltr_harness.catalog import did_you_mean
from ltr_harness.errors import Problem
from ltr_harness.metrics import Metric
from ltr_harness.metrics.map import MAP
from ltr_harness.metrics.mrr import MRR
from ltr_harness.metrics.ndcg import NDCG
from ltr_harness.rankers.adapters import as_number
from ltr_harness.rankers.objectives import METRIC, MetricObjectiveConfig, objective_problems
from ltr_harness.rankers.ranker import Facts

_YETI = (
    "mode",
    "top",
    "dcg_type",
    "dcg_denominator",
    "num_neighbors",
    "noise",
    "noise_power",
    "permutations",
    "decay",
)
_DCG = ("top", "type", "denominator")
_STOCHASTIC = ("sigma", "mu", "nu", "num_estimations")
OBJECTIVES: Final[dict[str, tuple[str, ...]]] = {
    "YetiRank": _YETI,
    "YetiRankPairwise": _YETI,
    "LambdaMart": ("metric", "sigma", "norm", *_DCG),
    "StochasticRank": ("metric", *_STOCHASTIC, *_DCG, "decay"),
    "PairLogit": ("max_pairs",),
    "PairLogitPairwise": ("max_pairs",),
    "QuerySoftMax": ("beta",),
    "QueryRMSE": (),
    "RMSE": (),
    "MultiClass": (),
}
"""Each loss with the parameters that it reads."""

LAMBDAMART = ("LambdaMart", METRIC)
LAMBDAMART_RIDGE = 0.01
"""CatBoost 1.2.10 has LambdaMart's gradient and hessian with the wrong sign. Newton's step, their quotient, is right as
long as hardly a ridge is added to the hessian; a gradient step goes the wrong way, and learns the worst order."""
_LARGEST_RIDGE = 0.1

_LINEAR_OR_EXP = {"linear": "Base", "exp": "Exp"}


def problems(objective: str, facts: Facts | None) -> list[Problem]:
    """Objectives that CatBoost refuses, ignores or does not survive; it is asked for other values itself.

    Example:
        >>> print(*problems("LambdaMart:metric=MRR;top=10", None))
        objective: LambdaMart:metric=MRR;top=10: CatBoost ignores top with metric=MRR; leave it out
    """
    loss, _, said = objective.partition(":")
    if loss not in OBJECTIVES:
        return (
            objective_problems(objective, OBJECTIVES)
            if loss == "rank"
            else objective_problems(loss, OBJECTIVES)
        )
    refused: list[Problem] = []
    given: dict[str, str] = {}
    for entry in said.split(";") if said else ():
        name, equals, value = entry.partition("=")
        if not equals or not value:
            cure = f"{loss}:{OBJECTIVES[loss][0]}=…" if OBJECTIVES[loss] else loss
            refused.append(
                Problem("objective", f"{objective}: found {entry!r}", "name=value", f"such as {cure}")
            )
        elif name not in OBJECTIVES[loss]:
            cure = did_you_mean(name, OBJECTIVES[loss]) if OBJECTIVES[loss] else "leave it out"
            refused.append(Problem("objective", f"{objective}: {loss} has no parameter {name!r}", cure=cure))
        given[name] = value
    target = given.get("metric", "NDCG")
    ignored = _ignored(loss, target, given)
    refused += [
        Problem("objective", f"{objective}: CatBoost ignores {name} with {why}", cure="leave it out")
        for name, why in ignored.items()
    ]
    if loss == "StochasticRank" and target == "MRR" and "top" in given:
        refused.append(
            Problem(
                "objective",
                f"{objective}: with top, metric=MRR ends CatBoost's process",
                cure="leave out top",
            )
        )
    if "ERR" in (given.get("mode"), given.get("metric")) and facts is not None and facts.max_label > 1:
        refused.append(
            Problem(
                "objective",
                f"{objective}: CatBoost's ERR takes labels for probabilities; the largest training label is "
                f"{facts.max_label:g}",
                "labels from 0 to 1",
                "objective: {metric: err} with LightGBM or XGBoost has the scale's grades",
            )
        )
    return refused


def step_problems(loss: str, given: Mapping[str, Any]) -> list[Problem]:
    """Parameters (by canonical names) that reverse LambdaMart's steps."""
    if loss not in LAMBDAMART:
        return []
    refused = []
    if as_number(given.get("l2_leaf_reg"), 0.0) > _LARGEST_RIDGE:
        why = "CatBoost's LambdaMart has the hessian's sign wrong: a ridge moves leaves the wrong way"
        expected = f"at most {_LARGEST_RIDGE:g}; {LAMBDAMART_RIDGE:g} unless given"
        refused.append(Problem("params.l2_leaf_reg", f"found {given['l2_leaf_reg']}: {why}", expected))
    if given.get("leaf_estimation_method", "Newton") != "Newton":
        why = "CatBoost's LambdaMart has the gradient's sign wrong: it would learn the worst order"
        refused.append(Problem("params.leaf_estimation_method", why, "Newton"))
    return refused


def _ignored(loss: str, target: str, given: dict[str, str]) -> dict[str, str]:
    """Parameters that the loss knows and does not look at beside the others, and why."""
    if loss == "LambdaMart" and target in ("MRR", "MAP", "ERR"):
        return {name: f"metric={target}" for name in _DCG if name in given}
    if loss.startswith("YetiRank"):
        mode = given.get("mode", "Classic")
        unread = {
            "top": mode == "Classic",
            "decay": mode != "Classic",
            "dcg_type": mode not in ("DCG", "NDCG"),
            "dcg_denominator": mode not in ("DCG", "NDCG"),
        }
        return {name: f"mode={mode}" for name, is_unread in unread.items() if is_unread and name in given}
    return {}


def translated(config: MetricObjectiveConfig) -> str:
    """The metric as CatBoost's LambdaMart has it; ask `translation_problems` first."""
    metric = config.metric
    shared = f"sigma={config.sigma:g};norm={str(config.norm).lower()}"
    if isinstance(metric, NDCG):
        top = "" if metric.k is None else f";top={metric.k}"
        gain = _LINEAR_OR_EXP[metric.gain]
        return f"LambdaMart:metric=NDCG;type={gain};denominator=LogPosition{top};{shared}"
    return f"LambdaMart:metric={metric.name.upper()};{shared}"


def translation_problems(config: MetricObjectiveConfig, facts: Facts | None) -> list[Problem]:
    """Reasons why CatBoost has no such objective; empty where it has."""
    why = _other_definition(config.metric, facts)
    if why:
        cure = "LightGBM or XGBoost optimise it; or one of CatBoost's own, such as YetiRank:mode=NDCG"
        return [Problem("objective", f"CatBoost has no objective for {config.metric}: {why}", cure=cure)]
    return [
        Problem(f"objective.{name}", "CatBoost's LambdaMart has no such choice", cure="leave it out")
        for name in ("truncation_level", "weighting")
        if getattr(config, name) != MetricObjectiveConfig.model_fields[name].default
    ]


def _other_definition(metric: Metric, facts: Facts | None) -> str:
    if isinstance(metric, NDCG):
        if metric.gain not in _LINEAR_OR_EXP:
            return "its LambdaMart has gain=exp and gain=linear, and no table"
        if metric.discount != "log2":
            return "its LambdaMart has discount=log2 alone"
        return ""
    if not isinstance(metric, MRR | MAP):
        return "its LambdaMart has ndcg, mrr and map"  # and takes its DCG for NDCG
    if metric.k is not None:
        return f"its LambdaMart has {metric.name} of whole lists alone"
    if metric.relevant != 1 or (facts is not None and facts.n_fractional):
        return "every label above 0 is relevant to it"
    return ""
