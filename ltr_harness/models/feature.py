"""The baseline that costs nothing: rank by one feature."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field

from ltr_harness._util.stored import Count
from ltr_harness._util.text import count_of
from ltr_harness.errors import Caution, Problem
from ltr_harness.models.ranker import FieldsModel, StoredRanker, Training, TrainingFacts, as_matrix
from ltr_harness.models.tree_model import feature_problems


@dataclass(frozen=True, eq=False, kw_only=True)
class FeatureModel(FieldsModel):
    """A column's values, negated where low ones come first; minus infinity where missing."""

    ranker: ClassVar[str] = "feature"
    feature: str
    column: Count
    n_features: int
    ascending: bool

    def __post_init__(self) -> None:
        if self.column >= self.n_features:
            raise ValueError(f"column {self.column} of {count_of(self.n_features, 'feature')}")

    def score(self, features: ArrayLike) -> NDArray[np.float64]:
        values = as_matrix(features, self.n_features)[:, self.column].astype(np.float64)
        scores = -values if self.ascending else values
        scores[np.isnan(scores)] = -np.inf
        return scores


class FeatureRanker(StoredRanker):
    """Ranks by the value of one feature, such as BM25; rows where it is missing come last."""

    trained = FeatureModel
    learns: ClassVar[bool] = False
    seed_matters: ClassVar[bool] = False

    feature: int | str = Field(description="The file's own feature id, or the column's name.")
    ascending: bool = Field(False, description="Rank low values first, as for a price or a distance.")

    def check(self, facts: TrainingFacts | None = None) -> list[Problem]:
        return [] if facts is None else feature_problems("feature", [str(self.feature)], facts)

    def fit(self, training: Training) -> FeatureModel:
        self.require(training)
        names = training.train.feature_names
        column = names.index(str(self.feature))
        n_missing = int(np.isnan(training.train.features[:, column]).sum())
        missing = f"feature {self.feature} is missing in {count_of(n_missing, 'training row')}"
        text = f"{missing}; missing values rank last"
        return FeatureModel(
            feature=str(self.feature),
            column=column,
            n_features=len(names),
            ascending=self.ascending,
            params={"feature": str(self.feature), "ascending": self.ascending},
            cautions=(Caution("missing-feature-values", "note", text),) if n_missing else (),
        )
