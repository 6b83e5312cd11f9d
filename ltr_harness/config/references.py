"""Figures that others printed for models of an experiment: beside which report stands what ours give.

They are no part of what is trained or evaluated: another figure is another report, and no other run.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, RootModel, WithJsonSchema

from ltr_harness.config.values import Name, not_empty
from ltr_harness.metrics import Metric, parse_metric
from ltr_harness.metrics.core.presets import PRESETS, SAME_TOOLS
from ltr_harness.own_files import is_own_file

TOOLS = (*PRESETS, *SAME_TOOLS)


def _no_file(metric: str) -> str:
    """What is printed elsewhere is no metric of somebody's own file, whose code reading a stored report would run."""
    if is_own_file(metric):
        raise ValueError("a metric's name, such as ndcg@10; not a file")
    return metric


Figures = Annotated[
    dict[Annotated[str, AfterValidator(_no_file)], Annotated[float, Field(allow_inf_nan=False)]],
    AfterValidator(not_empty),
]
Text = Annotated[str, Field(min_length=1)]


class Reference(BaseModel):
    """A published table.

    Attributes:
        tool: None where the figures are by the metrics' own definitions.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: Text = Field(description="Who printed the figures, where and when.")
    data: Text | None = Field(default=None, description="Data set and part that the figures are of.")
    tool: Annotated[str, WithJsonSchema({"type": "string", "enum": list(TOOLS)})] | None = Field(
        default=None,
        alias="as",
        description="Whose conventions the figures have, as in ndcg(as=lightgbm); ours unless given.",
    )
    note: Text | None = Field(default=None, description="What is known to differ; stands below the figures.")
    values: Annotated[dict[Name, Figures], AfterValidator(not_empty)] = Field(
        description="Model to metric to the printed figure, such as {lgb: {ndcg@10: 0.527}}; what a metric says "
        "itself, as in ndcg(gain=exp)@10, goes before `as`."
    )

    def measured(self, metric: str) -> Metric:
        """One of the metrics under the table's conventions.

        Raises:
            MetricError: no such metric, or the tool does not compute it.
        """
        return parse_metric(metric, self.tool)


class References(RootModel[tuple[Reference, ...]]):
    """Published figures of the models, which the report sets beside what is measured here."""


def as_plain(references: Collection[Reference]) -> list[dict[str, Any]]:
    """As the experiment file has them."""
    return [one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in references]
