"""Small ranking sets with graded labels, blank queries, one-row queries and, where asked for, query weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.judgments import Judgments
from ltr_harness.data.queries import QueryGroups
from ltr_harness.models.ranker import TrainingFacts

NAMES = ("bm25", "clicks[30d]", "title match", "a:b", "age", "6")


def make(seed: int, n_queries: int = 80, weights: bool = False, noise: float = 1.0) -> RankingDataset:
    rng = np.random.default_rng(seed)
    groups = QueryGroups.from_sizes(rng.integers(1, 25, n_queries))
    X = rng.normal(size=(groups.n_rows, len(NAMES))).astype(np.float32)
    worth = X[:, 0] + 0.7 * X[:, 1] * X[:, 2] + noise * rng.normal(size=len(X))
    query_weights = rng.uniform(0.2, 3, n_queries) if weights else None
    labels = np.clip(np.round(worth), 0, 4)
    return RankingDataset(
        X,
        Judgments.checked(labels, groups, query_weights=query_weights),
        NAMES,
        source=f"made from seed {seed}",
    )


@pytest.fixture(scope="session")
def make_dataset() -> Callable[..., RankingDataset]:
    return make


@pytest.fixture(scope="session")
def train() -> RankingDataset:
    return make(1)


@pytest.fixture(scope="session")
def valid() -> RankingDataset:
    return make(2)


@pytest.fixture(scope="session")
def test() -> RankingDataset:
    return make(3)


@pytest.fixture(scope="session")
def facts(train: RankingDataset) -> Callable[..., TrainingFacts]:
    """TrainingFacts of the training data, with some of them changed."""
    return lambda **changes: replace(TrainingFacts.of(train, stopping=True), **changes)


@pytest.fixture(scope="session")
def problem_texts() -> Callable[[Any], dict[str, str]]:
    """A function that returns the texts of problems by their places."""
    return lambda problems: {problem.place: str(problem) for problem in problems}
