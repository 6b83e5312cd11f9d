"""A model with some of its options given other values: what a trial of a search trains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from ltr_harness.catalog import did_you_mean
from ltr_harness.config.experiment import ModelConfig
from ltr_harness.errors import Problem, RankerError
from ltr_harness.rankers.ranker import Ranker

ROUNDS = "rounds"


def model_at(config: ModelConfig, point: Mapping[str, Any]) -> ModelConfig:
    """The model at a point of its search space.

    Raises:
        RankerError: an option that does not exist or cannot have such a value; all of them.

    Example:
        >>> from ltr_harness.rankers.xgboost import XGBoostRanker
        >>> model = ModelConfig(ranker_name="xgboost", ranker=XGBoostRanker(params={"learning_rate": 0.3}))
        >>> model_at(model, {"params.eta": 0.1}).ranker.params
        {'eta': 0.1}
    """
    fields = config.ranker.model_dump()
    rounds = config.rounds
    problems = []
    for option, value in point.items():
        field, dot, name = option.partition(".")
        if option == ROUNDS:
            rounds = value
        elif field not in fields or (dot and not isinstance(fields[field], dict)):
            cure = did_you_mean(field, [*fields, ROUNDS])
            if not dot and "params" in fields and not cure.startswith("did you mean"):
                cure = f"did you mean 'params.{option}'?"
            problems.append(
                Problem(option, f"the ranker {config.ranker_name} has no option {option!r}", cure=cure)
            )
        elif dot:
            others = {key: kept for key, kept in fields[field].items() if not _same(config.ranker, key, name)}
            fields[field] = {**others, name: value}
        else:
            fields[field] = value
    if problems:
        raise RankerError(problems)
    try:
        ranker = type(config.ranker).model_validate(fields)
    except ValidationError as error:
        raise RankerError(
            [Problem(".".join(map(str, one["loc"])), one["msg"]) for one in error.errors(include_url=False)]
        ) from None
    return ModelConfig(ranker_name=config.ranker_name, ranker=ranker, rounds=rounds)


def _same(ranker: Ranker, one: str, other: str) -> bool:
    """Two names of one parameter."""
    canonical = getattr(ranker, "canonical_name", str)
    return bool(canonical(one) == canonical(other))
