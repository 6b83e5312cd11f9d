"""A small ranking set whose labels depend on two of its features: enough for the metrics to move."""

from __future__ import annotations

from dataclasses import dataclass
from inspect import signature
from typing import Any

import lightgbm
import numpy as np
import pytest
from numpy.typing import NDArray


@dataclass(frozen=True)
class Split:
    X: NDArray[np.float32]
    labels: NDArray[np.float64]
    sizes: NDArray[np.int64]


def make_split(seed: int, n_queries: int = 60, noise: float = 1.5) -> Split:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 25, n_queries)
    X = rng.normal(size=(sizes.sum(), 6)).astype(np.float32)
    worth = X[:, 0] + 0.7 * X[:, 1] * X[:, 2] + noise * rng.normal(size=len(X))
    return Split(X, np.clip(np.round(worth), 0, 4), sizes)


def evaluation_arguments(*splits: Any) -> dict[str, Any]:
    """Evaluation sets of LightGBM's classes: `eval_X` and `eval_y`, before 4.7 `eval_set`."""
    rows, labels = [one.X for one in splits], [one.labels for one in splits]
    if "eval_X" in signature(lightgbm.LGBMRanker.fit).parameters:
        return {"eval_X": tuple(rows), "eval_y": tuple(labels)}
    return {"eval_set": list(zip(rows, labels, strict=True))}


@pytest.fixture(scope="session")
def train() -> Split:
    return make_split(1)


@pytest.fixture(scope="session")
def valid() -> Split:
    return make_split(2)
