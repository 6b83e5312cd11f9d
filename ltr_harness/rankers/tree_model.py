"""Models of trees: contributions, importance and size, besides scores."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ltr_harness.rankers.ranker import FittedModel

Importance = Literal["gain", "split"]


@dataclass(frozen=True, eq=False, kw_only=True)
class TreeModel(FittedModel):
    """A model of trees, with contributions, importance and size besides scores."""

    @property
    @abstractmethod
    def n_leaves(self) -> int:
        """Of all trees together."""

    @abstractmethod
    def importance(self, kind: Importance = "gain") -> NDArray[np.float64]:
        """float64 (n_features,): the loss that the splits on each feature took away, or how many there are."""

    @abstractmethod
    def contributions(self, features: ArrayLike) -> NDArray[np.float64]:
        """SHAP values, float64 (n_rows, n_features + 1), from features (n_rows, n_features) in training's column order.

        The last column is the model's mean score; a row's values sum to its score. For why row a stands above
        row b, subtract b's from a's: the mean cancels and the rest sums to the difference of their scores.
        """

    @abstractmethod
    def score_after(self, features: ArrayLike, rounds: int) -> NDArray[np.float64]:
        """Scores of the model's first rounds alone, float64 (n_rows,), from features (n_rows, n_features)."""
