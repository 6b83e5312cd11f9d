"""Trees as arrays score to the bit as the library that grew them; what is no sum of such trees is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import xgboost
from packaging.version import Version

from ltr_harness.data.dataset import RankingDataset
from ltr_harness.errors import DataError
from ltr_harness.models.random import RandomModel
from ltr_harness.models.ranker import FittedModel
from ltr_harness.models.trees.forest import LEAF, NEVER, ZERO, Forest, InnerNode, Tree, forest_of

Trained = Callable[..., FittedModel]
Rows = Callable[..., RankingDataset]

KINDS: list[tuple[str, dict[str, Any]]] = [
    ("lightgbm", {}),
    ("lightgbm", {"zero_as_missing": True}),
    ("lightgbm", {"use_missing": False}),
    ("lightgbm", {"missing": 0.0}),
    ("lightgbm", {"boosting": "dart", "drop_rate": 0.5}),
    ("lightgbm", {"boosting": "rf", "bagging_fraction": 0.5, "bagging_freq": 1}),
    ("lightgbm", {"objective": "regression"}),
    ("lightgbm", {"objective": "tweedie"}),
    ("lightgbm", {"min_data_in_leaf": 500}),  # no split at all
    ("xgboost", {}),
    ("xgboost", {"booster": "dart", "rate_drop": 0.5}),
    ("xgboost", {"booster": "dart", "rate_drop": 0.5, "base_score": -0.586, "max_bin": 3}),
    ("xgboost", {"objective": "rank:pairwise", "base_score": 0.3}),
    ("xgboost", {"objective": "reg:squarederror"}),
    ("xgboost", {"objective": "binary:logistic", "base_score": 0.2}),
    ("xgboost", {"objective": "binary:logitraw", "base_score": 0.2}),
    ("xgboost", {"objective": "count:poisson", "base_score": 1.7}),
    ("xgboost", {"objective": "count:poisson"}),
    ("xgboost", {"objective": "reg:tweedie"}),
    ("xgboost", {"objective": "reg:squaredlogerror"}),
    ("xgboost", {"objective": "reg:absoluteerror"}),
    ("xgboost", {"objective": "reg:pseudohubererror"}),
    ("xgboost", {"objective": "reg:quantileerror", "quantile_alpha": 0.7}),
    ("xgboost", {"num_parallel_tree": 2}),
    ("xgboost", {"gamma": 1e9}),  # no split at all
    ("catboost", {}),
    ("catboost", {"nan_mode": "Max"}),
    ("catboost", {"grow_policy": "Depthwise"}),
    ("catboost", {"grow_policy": "Lossguide", "nan_mode": "Max"}),
    ("catboost", {"loss_function": "RMSE"}),
    ("catboost", {"loss_function": "MAE"}),
]


@pytest.mark.parametrize(("library", "params"), KINDS)
def test_scores_are_the_librarys(
    library: str, params: dict[str, Any], train_model: Trained, rows: Rows
) -> None:
    model, split = train_model(library, **params), rows(1, missing=0.3)
    forest = forest_of(model, split.feature_names)
    scores = forest.scores(split.features.astype(np.float64))
    tolerance = 1e-15 if library == "catboost" else 0  # which adds its bias last
    if library == "xgboost" and Version(xgboost.__version__) < Version(
        "3.1"
    ):  # which says seven digits of its base
        tolerance = 3e-7
    np.testing.assert_allclose(scores, model.score(split.features), rtol=tolerance, atol=tolerance)
    assert np.count_nonzero(forest.joined("feature") == LEAF) == model.n_leaves  # type: ignore[attr-defined]


def test_a_model_cut_to_its_best_round_is_whole(train_model: Trained, rows: Rows) -> None:
    split = rows(1)
    booster = train_model("xgboost").booster[:5]  # type: ignore[attr-defined]
    assert len(forest_of(type(train_model("xgboost"))(booster=booster), split.feature_names).trees) == 5
    model = train_model("lightgbm", num_leaves=8)
    model.booster.best_iteration = 4  # type: ignore[attr-defined]
    forest = forest_of(model, split.feature_names)
    scores = forest.scores(split.features.astype(np.float64))
    np.testing.assert_array_equal(scores, model.score(split.features))


@pytest.mark.parametrize(
    ("library", "params", "message"),
    [
        ("lightgbm", {"objective": "multiclass", "num_class": 4}, "trees for each of 4 classes"),
        ("xgboost", {"objective": "multi:softprob", "num_class": 4}, "trees for each of 4 classes"),
        ("catboost", {"loss_function": "MultiClass"}, "trees for each of 4 classes"),
        ("lightgbm", {"objective": "regression", "linear_tree": True}, "the leaves hold linear models"),
        ("xgboost", {"booster": "gblinear"}, "gblinear has no trees"),
        (
            "lightgbm",
            {"categorical": [2], "min_data_per_group": 1, "cat_l2": 0, "num_leaves": 60},
            r"splits on categories of 'price'; expected splits on numbers; train without them \(`exclude:`\)",
        ),
        ("xgboost", {"categorical": [2], "max_depth": 8}, "splits on categories of 'price'"),
        ("xgboost", {"categorical": [2], "max_depth": 8, "max_cat_to_onehot": 1}, "categories of 'price'"),
    ],
)
def test_refusals(
    library: str, params: dict[str, Any], message: str, train_model: Trained, rows: Rows
) -> None:
    model = train_model(library, missing=0.0, **params)
    with pytest.raises(DataError, match=message) as refusal:
        forest_of(model, rows(1).feature_names)
    [problem] = refusal.value.problems
    assert problem.place == "export model"
    assert problem.expected


def test_what_has_no_trees_is_refused() -> None:
    with pytest.raises(DataError, match="a RandomModel has no trees; expected a model of LightGBM"):
        forest_of(RandomModel(seed=1), ["a"])


X = np.array([[np.nan], [0.0], [-0.0], [1e-36], [0.1], [np.nextafter(0.1, 1)], [np.inf]])


@pytest.mark.parametrize(
    ("rule", "left"),
    [
        # NaN, 0, -0, what LightGBM takes for 0, the threshold, just above it, infinity
        ({}, [0, 1, 1, 1, 1, 0, 0]),
        ({"missing_left": True}, [1, 1, 1, 1, 1, 0, 0]),
        ({"missing_type": NEVER}, [1, 1, 1, 1, 1, 0, 0]),
        ({"missing_type": ZERO}, [0, 0, 0, 0, 1, 0, 0]),
        ({"comparison": "<"}, [0, 1, 1, 1, 0, 0, 0]),
        ({"float32": True}, [0, 1, 1, 1, 0, 0, 0]),  # float32(0.1) > 0.1
    ],
)
def test_which_side_a_value_goes(rule: dict[str, Any], left: list[int]) -> None:
    forest_rule = {name: rule.pop(name) for name in ("comparison", "float32") if name in rule}
    split = InnerNode(0, 0.1, **{"missing_left": False, "left": 1.0, "right": 0.0, **rule})
    tree = Tree.grown(split, lambda node: node)
    assert Forest(("a",), (tree,), **forest_rule).scores(X).tolist() == left


def test_sums_in_float32() -> None:
    leaf = Tree.grown(2**-24, float)
    rows = np.zeros((1, 1))
    assert Forest(("a",), (leaf, leaf), 1.0).scores(rows).tolist() == [1 + 2**-23]
    assert Forest(("a",), (leaf, leaf), 1.0, float32_sum=True).scores(rows).tolist() == [1.0]
    assert Forest(("a",), (), 0.5).scores(rows).tolist() == [0.5]
