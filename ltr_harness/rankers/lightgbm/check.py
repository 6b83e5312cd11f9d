"""Checks before training of what LightGBM would reject, ignore or misread: names, values, limits of the data."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ltr_harness.catalog import did_you_mean
from ltr_harness.errors import Problem
from ltr_harness.rankers.feature_names import safe_feature_names
from ltr_harness.rankers.grade_classes import CLASSES
from ltr_harness.rankers.lightgbm.parameters import (
    OWNED,
    canonical,
    canonical_names,
    complete,
    without_effect,
)
from ltr_harness.rankers.metric_objective import METRIC
from ltr_harness.rankers.parameters import as_number, culprits, name_problems, remembered
from ltr_harness.rankers.training import Facts
from ltr_harness.wording import count_of

_LARGEST_QUERY = 10_000  # rows; a fixed limit of lambdarank
_DEFAULT_GAINS = 31  # labels 0 to 30
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


def problems(
    objective: str, params: Mapping[str, Any], facts: Facts | None, besides: Mapping[str, Any]
) -> list[Problem]:
    """Everything LightGBM would reject, ignore or misread."""
    given = {**canonical(params), **besides}
    refused = name_problems(
        params, "LightGBM", canonical_names(), OWNED, lambda name, _: without_effect(name, objective, given)
    )
    refused += _values(objective, params, given, facts, {problem.place for problem in refused})
    if facts is not None:
        refused += _limits(objective, given, facts)
    return refused


def _values(
    objective: str, params: Mapping[str, Any], given: Mapping[str, Any], facts: Facts | None, wrong: set[str]
) -> list[Problem]:
    """Values of the wrong kind or out of range: LightGBM itself is asked, on a handful of rows."""
    refused = []
    method = given.get("monotone_constraints_method", "basic")
    if method not in _MONOTONE_METHODS:
        cure = did_you_mean(str(method), _MONOTONE_METHODS)
        refused.append(Problem("params.monotone_constraints_method", f"unknown method {method!r}", cure=cure))
    names = canonical_names()
    askable = {
        name: value
        for name, value in params.items()
        if f"params.{name}" not in wrong and (facts is not None or names[name] not in _PER_FEATURE)
    }
    always = {name for name in askable if names[name] in _FRAME}
    features = safe_feature_names(facts.feature_names) if facts is not None else ["a", "b"]
    return refused + culprits(askable, always, lambda some: _refusal(objective, some, features))


def _limits(objective: str, given: Mapping[str, Any], facts: Facts) -> list[Problem]:
    """Limits that depend on the data."""
    problems = []
    if objective not in ("regression", METRIC, *CLASSES) and facts.n_fractional:
        does = "truncates" if objective == "rank_xendcg" else "refuses"
        problems.append(
            Problem(
                "objective",
                f"{objective} {does} fractional labels; found {count_of(facts.n_fractional, 'such training label')}",
                "integer labels",
                "make grades of them, as data.grades: {bins: [2, 4]} does, or use objective: regression",
            )
        )
    if objective == "lambdarank":
        problems += _lambdarank_limits(given, facts)
    leaf = as_number(given.get("min_data_in_leaf"), 20)
    if facts.n_rows < 2 * leaf:
        problems.append(
            Problem(
                "params.min_data_in_leaf",
                f"{count_of(facts.n_rows, 'training row')} cannot be split into two leaves of {leaf:g} rows: the model "
                "would be constant",
                f"at most {facts.n_rows // 2}",
            )
        )
    hessian = as_number(given.get("min_sum_hessian_in_leaf"), 1e-3)
    if objective == "rank_xendcg" and not facts.has_weights and 2 * hessian >= facts.n_queries:
        problems.append(
            Problem(
                "params.min_sum_hessian_in_leaf",
                "a query's hessian sums to less than 1 in rank_xendcg, so "
                f"{count_of(facts.n_queries, 'training query')} cannot "
                f"be split into two leaves of {hessian:g} each: the model would be constant",
                f"well below {facts.n_queries / 2:g}; 1e-3 is LightGBM's default",
            )
        )
    if facts.stopping and given.get("boosting") == "dart":
        problems.append(
            Problem(
                "params.boosting",
                "dart rescales earlier trees in every round, so early stopping cannot go back to the best one",
                cure="give the model a fixed number of `rounds:`, or use another boosting",
            )
        )
    return problems


def _lambdarank_limits(given: Mapping[str, Any], facts: Facts) -> list[Problem]:
    problems = []
    gains = given.get("label_gain")
    size = _length(gains) if gains is not None else _DEFAULT_GAINS
    if facts.max_label > size - 1:
        problems.append(
            Problem(
                "objective",
                f"the largest training label is {facts.max_label:g}, and lambdarank has gains for 0 to {size - 1}",
                cure=f"give params.label_gain with {count_of(int(facts.max_label) + 1, 'value')}, map the "
                "labels to fewer with data.grades, or use objective: rank_xendcg",
            )
        )
    if facts.largest_query > _LARGEST_QUERY:
        problems.append(
            Problem(
                "objective",
                f"a training query has {facts.largest_query} rows, and lambdarank takes at most {_LARGEST_QUERY}",
                cure="cut such queries, or use objective: rank_xendcg or XGBoost, which have no limit",
            )
        )
    return problems


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


@remembered
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


def _length(gains: Any) -> int:
    return len(gains.split(",")) if isinstance(gains, str) else len(np.atleast_1d(gains))
