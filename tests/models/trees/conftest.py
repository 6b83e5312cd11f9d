"""Trained models of every kind that has trees, and rows that are hard on thresholds."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.readers.memory import from_arrays
from ltr_harness.models.ranker import FittedModel
from ltr_harness.models.tree_model import safe_feature_names

NAMES = ["bm25", "tf[title]", "price", "age", "clicks"]
N, PER_QUERY = 600, 20


@pytest.fixture(scope="session")
def rows() -> Callable[..., RankingDataset]:
    """Zeros of both signs, few, neighbouring and huge values, and missing ones; labels that some of them tell."""

    @functools.cache
    def make_dataset(seed: int, missing: float = 0.1) -> RankingDataset:
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(N, len(NAMES)))
        X[:, 2] = rng.integers(0, 4, N)
        X[:, 3] *= 1e30
        X[:, 4] = 1 + rng.integers(0, 60, N) * 2**-23  # next to each other in float32
        X[rng.random(X.shape) < 0.1] = 0.0
        X[rng.random(X.shape) < 0.05] = -0.0
        X[rng.random(X.shape) < missing] = np.nan
        y = np.nan_to_num(X[:, 0]) + np.nan_to_num(X[:, 4] - 1) * 2**18 + 0.5 * rng.normal(size=N)
        sizes = np.full(N // PER_QUERY, PER_QUERY)
        return from_arrays(X, np.clip(np.round(y), 0, 3), group_sizes=sizes, feature_names=NAMES)

    return make_dataset


@pytest.fixture(scope="session")
def train_model(rows: Callable[..., RankingDataset]) -> Callable[..., FittedModel]:
    """A model of a library, by its own parameters; each is trained once."""
    known: dict[str, FittedModel] = {}

    def model(library: str, *, missing: float = 0.1, **params: Any) -> FittedModel:
        key = json.dumps([library, missing, params])
        if key not in known:
            known[key] = _LIBRARIES[library](rows(0, missing), params)
        return known[key]

    return model


def _lightgbm(train: RankingDataset, params: dict[str, Any]) -> FittedModel:
    import lightgbm

    from ltr_harness.models.lightgbm import LightGBMModel

    given = {
        "objective": "lambdarank",
        "num_leaves": 9,
        "min_data_in_leaf": 4,
        "num_threads": 1,
        "verbosity": -1,
    }
    rounds, coded = params.pop("rounds", 12), params.pop("categorical", "auto")
    data = lightgbm.Dataset(
        train.features,
        train.labels,
        group=train.groups.sizes,
        feature_name=safe_feature_names(NAMES),
        categorical_feature=coded,
        params={**given, **params},
    )
    return LightGBMModel(booster=lightgbm.train({**given, **params}, data, rounds), threads=1)


def _xgboost(train: RankingDataset, params: dict[str, Any]) -> FittedModel:
    import xgboost

    from ltr_harness.models.xgboost import XGBoostModel

    given = {"objective": "rank:ndcg", "nthread": 1, "disable_default_eval_metric": 1} | (
        {} if params.get("booster") == "gblinear" else {"max_depth": 4}
    )
    labels = train.labels > 1 if "logi" in params.get("objective", "") else train.labels
    coded = params.pop("categorical", [])
    data = xgboost.DMatrix(
        train.features,
        labels,
        group=train.groups.sizes,
        feature_names=safe_feature_names(NAMES),
        feature_types=["c" if column in coded else "float" for column in range(len(NAMES))],
        enable_categorical=True,
    )
    return XGBoostModel(booster=xgboost.train({**given, **params}, data, 12))


def _catboost(train: RankingDataset, params: dict[str, Any]) -> FittedModel:
    catboost = pytest.importorskip("catboost", reason="needs ltr-harness[catboost]")
    from ltr_harness.models.catboost import CatBoostModel

    given = {"loss_function": "YetiRank", "depth": 3, "iterations": 12, "thread_count": 1, "verbose": 0}
    booster = catboost.CatBoost({**given, "allow_writing_files": False, **params})
    queries = np.repeat(np.arange(train.n_queries), train.groups.sizes)
    booster.fit(catboost.Pool(train.features, train.labels, group_id=queries))
    return CatBoostModel(booster=booster)


@pytest.fixture(scope="session")
def trained_on() -> Callable[[str, RankingDataset, dict[str, Any]], FittedModel]:
    """A model of a library, by its own parameters, of five columns that a test made itself."""
    return lambda library, train, params: _LIBRARIES[library](train, params)


_LIBRARIES = {"lightgbm": _lightgbm, "xgboost": _xgboost, "catboost": _catboost}
