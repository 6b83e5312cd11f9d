"""The floor of every comparison: scores that know nothing."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ltr_harness._util.stored import Count
from ltr_harness.errors import Problem
from ltr_harness.models.ranker import FieldsModel, StoredRanker, Training, TrainingFacts


@dataclass(frozen=True, eq=False, kw_only=True)
class RandomModel(FieldsModel):
    """Uniform scores in [0, 1)."""

    ranker: ClassVar[str] = "random"
    seed: Count

    def score(self, features: ArrayLike) -> NDArray[np.float64]:
        # a counter-based generator: the same stream on every machine, and row i never depends on how many follow
        return np.random.Generator(np.random.Philox(seed=self.seed)).random(len(np.asarray(features)))


class RandomRanker(StoredRanker):
    """Ranks each query's documents in random order: what a metric is worth without any model.

    A row's score depends on the seed and the row's place in the split and on nothing else, the same on every
    machine.
    """

    trained = RandomModel
    learns: ClassVar[bool] = False
    seed_matters: ClassVar[bool] = True

    def check(self, facts: TrainingFacts | None = None) -> list[Problem]:
        return []

    def fit(self, training: Training) -> RandomModel:
        return RandomModel(seed=training.seed, params={"seed": training.seed})
