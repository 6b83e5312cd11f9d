"""`objective: {metric: err@10}`, the field of boosted rankers that optimise a metric."""

from __future__ import annotations

import warnings
from typing import Annotated, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    WithJsonSchema,
    model_validator,
)

from ltr_harness.boosting.objectives import MetricObjective, Weighting, require_order
from ltr_harness.errors import MetricError, Problem
from ltr_harness.metrics import Metric, parse_metric
from ltr_harness.rankers.training import Facts

METRIC = "{metric: …}"
"""Name of any objective that is a metric, in messages, presets and search spaces."""

MetricValue = Annotated[
    Metric,
    PlainValidator(parse_metric),
    PlainSerializer(lambda metric: metric.spelling),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "examples": ["ndcg@10", "mrr@10", "ndcg(gain=linear)@5"]},
                {"type": "object", "properties": {"metric": {"type": "string"}}, "required": ["metric"]},
            ]
        }
    ),
]


class MetricObjectiveConfig(BaseModel):
    """A metric to optimise by LambdaMART, and how its pairs are weighed."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    metric: MetricValue = Field(description="What is optimised, such as err@10; primary: whatever decides.")
    truncation_level: int = Field(
        30, ge=1, description="Pairs with a row within this many ranks count; the metric's K bounds it."
    )
    sigma: float = Field(1.0, gt=0, allow_inf_nan=False, description="Steepness of the logistic function.")
    norm: bool = Field(True, description="As LightGBM's lambdarank_norm, in either library.")
    weighting: Weighting = Field(
        "swap",
        description="By how much the metric changes; ndcg_loss2++ (LambdaLoss) for ndcg and dcg alone.",
    )

    @model_validator(mode="after")
    def _can_be_optimised(self) -> Self:
        _ = self.objective
        return self

    @property
    def objective(self) -> MetricObjective:
        return MetricObjective(**{name: getattr(self, name) for name in type(self).model_fields})

    def __str__(self) -> str:
        return str(self.metric)

    def on_scale(self, max_grade: float | None) -> Self:
        """The same, with the scale's highest grade for a metric that takes it."""
        return self.model_copy(update={"metric": self.metric.on_scale(max_grade)})

    def problems(self, facts: Facts | None) -> list[Problem]:
        """Training labels that the metric is not defined for, or whose order it does not look at."""
        if facts is None or facts.judgments is None:
            return []
        try:
            with warnings.catch_warnings():
                warnings.simplefilter(
                    "ignore"
                )  # a scale that is taken from the data is said where it is used
                require_order(self.metric.resolved(facts.judgments), facts.judgments)
        except MetricError as error:
            return [Problem("objective", str(problem)) for problem in error.problems]
        return []
