"""What a model of trees can tell besides scores: what they come from and what they cost."""

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
    """A model of trees: besides scores, it tells what they come from and what they cost."""

    @property
    @abstractmethod
    def n_leaves(self) -> int:
        """Of all trees together."""

    @abstractmethod
    def importance(self, kind: Importance = "gain") -> NDArray[np.float64]:
        """float64 (n_features,): the loss that the splits on each feature took away, or how many there are."""

    @abstractmethod
    def contributions(self, features: ArrayLike) -> NDArray[np.float64]:
        """SHAP values, float64 (n_rows, n_features + 1): what each feature adds to a row's score.

        The last column is the model's mean score; a row's values sum to its score. For why row a stands above
        row b, subtract b's from a's: the mean cancels and the rest sums to the difference of their scores.

        Args:
            features: (n_rows, n_features), in training's column order.
        """

    @abstractmethod
    def score_after(self, features: ArrayLike, rounds: int) -> NDArray[np.float64]:
        """`score` of the model's first rounds alone, float64 (n_rows,).

        Args:
            features: (n_rows, n_features), in training's column order.
            rounds: from the first on.
        """
