"""`data_parallel:`, the field of boosted rankers that can be trained across the workers of a cluster."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import Field, StrictBool

from ltr_harness.errors import Problem
from ltr_harness.rankers.boosted import BoostedRanker
from ltr_harness.rankers.training import Facts, Training
from ltr_harness.wording import count_of


class DataParallelRanker(BoostedRanker):
    """A boosted ranker whose library can train one model on data that are spread over several machines."""

    data_parallel: StrictBool | Annotated[int, Field(strict=True, ge=2)] = Field(
        False,
        description="Train each model across this many workers of a Dask cluster, on a part of the training queries "
        "each; true: as many as the cluster has. For data that do not fit one machine.",
    )

    def definition(self) -> dict[str, Any]:
        definition = super().definition()
        if self.data_parallel is False:  # runs from before there was the field are the same runs
            del definition["data_parallel"]
        return definition

    def across(self, n_workers: int) -> Self:
        """The same with the number of workers said: it can move a tree."""
        return self.model_copy(update={"data_parallel": n_workers}) if self.data_parallel is True else self

    def n_parts(self, training: Training) -> int:
        """Workers to train across."""
        if self.data_parallel is True:
            return 1 if training.workers is None else max(1, len(training.workers.client.nthreads()))
        return int(self.data_parallel)

    def across_problems(self, facts: Facts | None) -> list[Problem]:
        """Fields that cannot be had together with `data_parallel`."""
        if not self.data_parallel:
            return []
        reasons = [
            ("position_bias", self.position_bias, "each worker would learn biases of its own"),
            ("init_model", self.init_model is not None, "its scores would have to be spread as the rows are"),
            *self.library_limits(facts),
        ]
        return [
            Problem(
                "data_parallel", f"cannot be combined with {field}: {why}", cure="leave out one of the two"
            )
            for field, given, why in reasons
            if given
        ]

    def library_limits(self, facts: Facts | None) -> list[tuple[str, bool, str]]:
        """What else the library cannot do across workers: its name, whether it is asked for, and why not."""
        return []

    def across_notes(self, n_parts: int) -> list[str]:
        """What a reader must know of a model that was trained across workers."""
        return [
            f"trained across {count_of(n_parts, 'worker')} on parts of the training queries: bins and sums of "
            "gradients are put "
            "together from the parts, so trees differ from those of one machine"
        ]
