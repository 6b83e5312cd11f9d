"""A weighted sum of features: the formula that many a search engine starts from."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field

from ltr_harness._util.stored import Count
from ltr_harness._util.text import count_of
from ltr_harness.errors import Caution, Problem
from ltr_harness.models.ranker import FieldsModel, StoredRanker, Training, TrainingFacts, as_matrix
from ltr_harness.models.tree_model import feature_problems

Weight = Annotated[float, Field(allow_inf_nan=False)]


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearModel(FieldsModel):
    """sum of weight * (value - centre); a missing value adds nothing."""

    ranker: ClassVar[str] = "linear"
    columns: tuple[Count, ...]
    weights: tuple[float, ...]
    centre: tuple[float, ...]
    n_features: int

    def __post_init__(self) -> None:
        if not len(self.columns) == len(self.weights) == len(self.centre):
            raise ValueError("columns, weights and centre are not of one length")
        if max(self.columns, default=-1) >= self.n_features:
            raise ValueError(f"column {max(self.columns)} of {count_of(self.n_features, 'feature')}")

    def score(self, features: ArrayLike) -> NDArray[np.float64]:
        values = as_matrix(features, self.n_features)[:, list(self.columns)].astype(np.float64)
        values -= np.array(self.centre)
        values[np.isnan(values)] = 0
        scores: NDArray[np.float64] = (values * np.array(self.weights)).sum(axis=1)
        return scores


class LinearRanker(StoredRanker):
    """Ranks by a weighted sum of features, as in `0.7 bm25 + 0.3 clicks`; the weights are given, not learned."""

    trained = LinearModel
    learns: ClassVar[bool] = False
    seed_matters: ClassVar[bool] = False

    weights: dict[str, Weight] = Field(
        description="Feature to its weight; negative where low values are good."
    )
    standardise: bool = Field(
        False, description="Weigh (value - mean) / standard deviation, both taken from the training rows."
    )

    def check(self, facts: TrainingFacts | None = None) -> list[Problem]:
        if not self.weights:
            return [Problem("weights", "no feature has a weight", "at least one, such as {bm25: 1.0}")]
        return [] if facts is None else feature_problems("weights", list(self.weights), facts)

    def fit(self, training: Training) -> LinearModel:
        self.require(training)
        names = training.train.feature_names
        columns = [names.index(name) for name in self.weights]
        values = training.train.features[:, columns].astype(np.float64)
        present = ~np.isnan(values)
        weights = np.array(list(self.weights.values()))
        centre = np.zeros(len(columns))
        cautions = []
        if self.standardise:
            count = np.maximum(present.sum(axis=0), 1)
            centre = np.where(present, values, 0).sum(axis=0) / count
            spread = np.sqrt((np.where(present, values - centre, 0) ** 2).sum(axis=0) / count)
            constant = [name for name, deviation in zip(self.weights, spread, strict=True) if deviation == 0]
            if constant:
                text = f"constant in training, so without effect: {', '.join(constant)}"
                cautions.append(Caution("features-without-effect", "note", text))
            weights = np.divide(weights, spread, out=np.zeros_like(weights), where=spread > 0)
        n_missing = int((~present).any(axis=1).sum())
        if n_missing:
            counts_as = "the training rows' mean" if self.standardise else "0"
            text = f"missing values in {count_of(n_missing, 'training row')} count as {counts_as}"
            cautions.append(Caution("missing-feature-values", "note", text))
        return LinearModel(
            columns=tuple(columns),
            weights=tuple(weights.tolist()),
            centre=tuple(centre.tolist()),
            n_features=len(names),
            params={"weights": dict(self.weights), "standardise": self.standardise},
            cautions=tuple(cautions),
        )
