"""The baseline that users have today: the order in which the rows were shown."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ltr_harness.data.dataset import RankingDataset
from ltr_harness.errors import DataError, Problem
from ltr_harness.models.ranker import FieldsModel, StoredRanker, Training, TrainingFacts

_CURE = "name their column with `position:` under `data:`"


@dataclass(frozen=True, eq=False, kw_only=True)
class PositionModel(FieldsModel):
    """The display positions of rows, negated: position 1 comes first."""

    ranker: ClassVar[str] = "position"

    def score(self, features: ArrayLike) -> NDArray[np.float64]:
        raise DataError(
            "display positions belong to rows of data and not to features; expected a trained ranker"
        )

    def score_split(self, split: RankingDataset) -> NDArray[np.float64]:
        if split.positions is None:
            raise DataError.at(split.source, "has no display positions", cure=_CURE)
        return -split.positions.astype(np.float64)


class PositionRanker(StoredRanker):
    """Ranks rows as they were shown, by the data's `position`: the present ranking, for others to be compared with."""

    trained = PositionModel
    learns: ClassVar[bool] = False
    seed_matters: ClassVar[bool] = False

    def check(self, facts: TrainingFacts | None = None) -> list[Problem]:
        if facts is None or facts.has_positions:
            return []
        return [Problem("position", "the training data has no display positions", cure=_CURE)]

    def check_scoring(self, test: RankingDataset) -> list[Problem]:
        if test.positions is not None:
            return []
        return [Problem("position", f"{test.source} has no display positions", cure=_CURE)]

    def fit(self, training: Training) -> PositionModel:
        self.require(training)
        return PositionModel(params={})
