"""Checks before training of what XGBoost would reject, ignore or misread: names, values, limits of the data."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from ltr_harness.errors import Problem
from ltr_harness.rankers.feature_names import safe_feature_names
from ltr_harness.rankers.parameters import as_number, culprits, is_on, name_problems, remembered
from ltr_harness.rankers.training import Facts
from ltr_harness.rankers.xgboost.parameters import (
    OWNED,
    XENDCG,
    canonical,
    canonical_names,
    complete,
    for_library,
    without_effect,
)
from ltr_harness.wording import count_of

_LARGEST_EXP_LABEL = 31
# As long as the features are unknown, so is whether these fit them.
_PER_FEATURE = {"interaction_constraints", "monotone_constraints"}
_FRAME = {"booster", "device", "grow_policy", "tree_method"}


def problems(
    objective: str,
    params: Mapping[str, Any],
    relevant: int | None,
    facts: Facts | None,
    besides: Mapping[str, Any],
) -> list[Problem]:
    """Everything XGBoost would reject, ignore or misread."""
    given = {**canonical(params), **besides}
    names = canonical_names()
    for name in params:
        if name not in names and _is_used(objective, name, params[name]):
            names[name] = name  # newer than our table
    refused = name_problems(
        params, "XGBoost", names, OWNED, lambda name, value: without_effect(name, objective, given)
    )
    refused += _values(objective, params, facts, {problem.place for problem in refused})
    if given.get("booster") == "gblinear":
        refused.append(
            Problem(
                "params.booster",
                "gblinear has no trees, so no round can be kept",
                "gbtree, or dart with `rounds:`",
            )
        )
    refused += _threshold(objective, relevant, facts)
    if facts is not None:
        refused += _limits(objective, given, facts)
    return refused


def _values(objective: str, params: Mapping[str, Any], facts: Facts | None, wrong: set[str]) -> list[Problem]:
    """Values of the wrong kind or out of range: XGBoost itself is asked, on a handful of rows."""
    askable = {
        name: value
        for name, value in params.items()
        if f"params.{name}" not in wrong and (facts is not None or name not in _PER_FEATURE)
    }
    features = safe_feature_names(facts.feature_names) if facts is not None else ["a", "b"]
    refused = culprits(askable, _FRAME, lambda some: _ask(objective, some, features)[0])
    if refused:
        return refused
    _, unused = _ask(objective, askable, features)
    return [
        Problem(
            f"params.{name}", f"{name} is not used by this objective and tree method", cure="leave it out"
        )
        for name in askable
        if name in unused
    ]


def _is_used(objective: str, name: str, value: Any) -> bool:
    refused, unused = _ask(objective, {name: value}, ["a", "b"])
    return refused is None and name not in unused


@remembered
def _ask(objective: str, params: Mapping[str, Any], features: list[str]) -> tuple[str | None, set[str]]:
    """XGBoost's refusal of a definition, if any, and the parameters it says it does not use."""
    import xgboost

    rows = np.tile(np.arange(4.0, dtype=np.float32)[:, None], len(features))
    handed = {**for_library(complete(objective, params, seed=0, threads=1)), "verbosity": 1}
    # a booster speaks as loudly as the last one did until its own `verbosity` is read, which is after `device`
    with warnings.catch_warnings(record=True) as caught, xgboost.config_context(verbosity=1):
        warnings.simplefilter("always")
        try:
            data = xgboost.DMatrix(rows, label=[0, 1, 0, 1], group=[2, 2], feature_names=features, nthread=1)
            xgboost.Booster(handed, [data]).update(data, 0)
        except (xgboost.core.XGBoostError, AttributeError, TypeError, ValueError) as problem:
            return spoken(str(problem)), set()
    unused: set[str] = set()
    for one in caught:
        remark = spoken(str(one.message).replace("WARNING: ", ""))
        if "GPU" in remark:  # XGBoost would go on without it
            return remark, set()
        if "are not used" in remark:
            unused.update(re.findall(r'"([^"]+)"', remark))
    return None, unused


def _threshold(objective: str, relevant: int | None, facts: Facts | None) -> list[Problem]:
    if objective != "rank:map":
        if relevant is None:
            return []
        return [Problem("relevant", f"has no effect with the objective {objective}", cure="leave it out")]
    if relevant is None:
        return [
            Problem(
                "relevant",
                "not given: rank:map knows only relevant and not relevant",
                "the lowest label that counts as relevant in training, such as relevant: 1",
            )
        ]
    if relevant < 1:
        return [Problem("relevant", f"found {relevant}: every document would be relevant", "at least 1")]
    if facts is not None and facts.max_label < relevant:
        return [
            Problem(
                "relevant",
                f"no training label reaches {relevant}",
                f"at most {facts.max_label:g}, the largest label",
            )
        ]
    return []


def _limits(objective: str, given: Mapping[str, Any], facts: Facts) -> list[Problem]:
    """Limits that depend on the data."""
    refused = []
    if objective == "rank:ndcg" and is_on(given.get("ndcg_exp_gain", True)):
        cure = "set params.ndcg_exp_gain: false, map the labels with data.grades, or use objective: rank:pairwise"
        if facts.n_fractional:
            refused.append(
                Problem(
                    "objective",
                    "rank:ndcg with exponential gain refuses fractional labels; found "
                    f"{count_of(facts.n_fractional, 'such training label')}",
                    cure=cure,
                )
            )
        if facts.max_label > _LARGEST_EXP_LABEL:
            refused.append(
                Problem(
                    "objective",
                    f"the largest training label is {facts.max_label:g}, and rank:ndcg with exponential gain takes at "
                    f"most {_LARGEST_EXP_LABEL}",
                    cure=cure,
                )
            )
    if objective == XENDCG:
        refused += _xendcg_limits(given, facts)
    if facts.stopping and given.get("booster") == "dart":
        refused.append(
            Problem(
                "params.booster",
                "dart rescales earlier trees in every round, so early stopping cannot go back to the best one",
                cure="give the model a fixed number of `rounds:`, or use booster: gbtree",
            )
        )
    return refused


def _xendcg_limits(given: Mapping[str, Any], facts: Facts) -> list[Problem]:
    refused = []
    if facts.n_fractional:
        refused.append(
            Problem(
                "objective",
                f"rank_xendcg truncates fractional labels; found {count_of(facts.n_fractional, 'such training label')}",
                "integer labels",
                "rescale the labels, or use objective: rank:pairwise",
            )
        )
    mass = as_number(given.get("min_child_weight"), 1.0)
    if not facts.has_weights and 2 * mass >= facts.n_queries:
        refused.append(
            Problem(
                "params.min_child_weight",
                "a query's hessian sums to less than 1 in rank_xendcg, so "
                f"{count_of(facts.n_queries, 'training query')} cannot "
                f"be split into two leaves of {mass:g} each: the model would be constant",
                f"well below {facts.n_queries / 2:g}; 1 is XGBoost's default",
            )
        )
    return refused


def spoken(message: str) -> str:
    """XGBoost's message without time, source file and C++ stack.

    Example:
        >>> spoken("[10:44:01] /src/map.h:394: Check failed: is_binary: map needs binary labels.\\nStack trace:\\n…")
        'map needs binary labels.'
    """
    text = message.partition("\nStack trace:")[0].strip()
    text = re.sub(r"^\[\d\d:\d\d:\d\d\] \S+:\d+:\s*", "", text)
    text = re.sub(r"^Check failed: [^:]*: ", "", text)
    return " ".join(text.split())
