"""How one model becomes many: `sweep` trains and compares all of them, `tune` chooses one on validation data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from ltr_harness.config.space import Draws, Space, Values

BUILT_IN = "built-in"
MOST_POINTS = 1000
"""That one model may become: all of them are compared with each other."""
Seed = Annotated[int, Field(ge=0, lt=2**31)]


def _not_empty(values: Any) -> Any:
    if not values:
        raise ValueError("at least one")
    return values


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SweepConfig(_Section):
    """Options of models, each with several values; every combination becomes a model of its own."""

    grid: dict[str, Values] = Field(
        default_factory=dict,
        description="Every combination: {models.lgb.params.num_leaves: [15, 31, 63], …}.",
    )
    random: dict[str, Draws] = Field(
        default_factory=dict,
        description="Points drawn at random from lists and ranges: {models.xgb.params.eta: {low: 0.01, high: 0.3, "
        "log: true}, …}.",
    )
    points: int | None = Field(
        default=None, ge=1, le=MOST_POINTS, description="How many `random` points each model gets."
    )
    seed: Seed = Field(default=1, description="Decides which points are drawn.")

    @model_validator(mode="after")
    def _points_go_with_random(self) -> Self:
        if not self.grid and not self.random:
            raise ValueError("nothing to sweep; expected grid: {…} or random: {…}")
        if self.random and self.points is None:
            raise ValueError(
                "sweep.random without sweep.points; expected how many points to draw: points: 20"
            )
        if self.points is not None and not self.random:
            raise ValueError("sweep.points without sweep.random; a grid has as many points as combinations")
        both = sorted(self.grid.keys() & self.random.keys())
        if both:
            raise ValueError(f"{', '.join(both)} in sweep.grid and in sweep.random; expected one of them")
        return self


class SweepPoint(_Section):
    """Which point of a sweep a model is; the resolved configuration says it."""

    of: str = Field(description="The model that was swept.")
    at: dict[str, Any] = Field(description="The options that differ, such as {params.num_leaves: 15}.")


class TuneConfig(_Section):
    """Options of models, searched for the values that are best on validation data."""

    models: Annotated[
        dict[str, Literal["built-in"] | dict[str, Space]],
        AfterValidator(_not_empty),
    ] = Field(
        description="Model to what is searched: {params.num_leaves: {low: 7, high: 127, log: true}, …}, or built-in."
    )
    trials: int | None = Field(default=None, ge=1, description="Budget: this many trials per model and fold.")
    minutes: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="Budget: no trial begins once a model's trials on a fold have taken this long together.",
    )
    sampler: Literal["tpe", "random"] = Field(
        default="tpe", description="tpe learns from earlier trials where to look; random does not."
    )
    pruner: Literal["median", "none"] = Field(
        default="median",
        description="median ends a trial whose best value so far is below the median of earlier trials at that round.",
    )
    inner_folds: int | None = Field(
        default=None,
        ge=3,
        le=1000,
        description="Nested cross-validation: judge a trial on this many folds of the training queries instead of on "
        "the validation data.",
    )
    parallel: int = Field(
        default=1,
        ge=1,
        le=1000,
        description="Trials of one model and fold at the same time. Beyond 1 the choice depends on their timing.",
    )
    storage: Literal["journal", "sqlite"] = Field(
        default="journal", description="How Optuna keeps the trials; several processes need a journal."
    )
    seed: Seed = Field(default=1, description="Decides what is tried, and trains every trial.")

    @model_validator(mode="after")
    def _budget(self) -> Self:
        if self.trials is None and self.minutes is None:
            raise ValueError("tune has no budget; expected trials: 50, minutes: 30, or both")
        if self.parallel > 1 and self.storage == "sqlite":
            raise ValueError("tune.parallel beyond 1 with storage: sqlite; expected storage: journal")
        return self

    def space(self, model: str) -> Mapping[str, Any]:
        """What is searched for a model; empty where it is not tuned."""
        space = self.models.get(model, {})
        return {} if isinstance(space, str) else space

    def plain_space(self, model: str) -> dict[str, Any]:
        """The same as records and identities keep it."""
        space: dict[str, Any] = self.model_dump(mode="json", exclude_none=True)["models"][model]
        return space
