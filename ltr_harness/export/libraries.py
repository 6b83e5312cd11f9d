"""Trees of LightGBM, XGBoost and CatBoost as a `Forest` that scores to the bit as they do."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ltr_harness.errors import DataError, Problem
from ltr_harness.export.forest import LEAF, NAN, Forest, Split, Tree
from ltr_harness.rankers.ranker import FittedModel

_ONE_SCORE = "a ranking objective or squared error, whose score is a sum over trees"


def forest_of(model: FittedModel, feature_names: Sequence[str]) -> Forest:
    """A fitted model's trees.

    Raises:
        DataError: it has no trees, or is more than a sum of trees: of classes, with linear models in the leaves, or
            with CatBoost's statistics of categories.
    """
    from ltr_harness.rankers.catboost import CatBoostModel
    from ltr_harness.rankers.lightgbm import LightGBMModel
    from ltr_harness.rankers.xgboost import XGBoostModel

    names = tuple(feature_names)
    if isinstance(model, LightGBMModel):
        forest = _of_lightgbm(model.booster.model_to_string(num_iteration=-1), names)
    elif isinstance(model, XGBoostModel):
        forest = _of_xgboost(json.loads(model.booster.save_raw("json"))["learner"], names)
    elif isinstance(model, CatBoostModel):
        forest = _of_catboost(model.booster, names)
    else:
        raise refused(f"a {type(model).__name__} has no trees", "a model of LightGBM, XGBoost or CatBoost")
    if not forest.trees:
        raise refused("the model was trained for no round and has no trees")
    return forest


def refused(found: str, expected: str = "", cure: str = "") -> DataError:
    """The error of a model that a form has no place for."""
    return DataError(Problem("export model", found, expected, cure))


def _refuse_classes(n_scores: int) -> None:
    if n_scores > 1:
        found = f"the model has trees for each of {n_scores} classes, and its score is the expected grade"
        raise refused(found, _ONE_SCORE)


def _of_lightgbm(text: str, names: tuple[str, ...]) -> Forest:
    head, *parts = text.partition("\nend of trees")[0].split("\nTree=")
    about = dict(line.partition("=")[::2] for line in head.splitlines())
    _refuse_classes(int(about["num_tree_per_iteration"]))
    trees = [dict(line.partition("=")[::2] for line in part.splitlines()) for part in parts]
    if any(tree.get("is_linear") == "1" for tree in trees):
        raise refused("the leaves hold linear models", "leaves of numbers", "train without `linear_tree`")
    return Forest(names, tuple(map(_lightgbm_tree, trees)))


def _lightgbm_tree(tree: Mapping[str, str]) -> Tree:
    """Inner nodes first, then the leaves; LightGBM's number for leaf i is ~i."""

    def column(name: str) -> NDArray[np.float64]:
        return np.array(tree.get(name, "").split(), dtype=np.float64)

    values = column("leaf_value")
    if values.size == 1:  # a tree that never split says no more than its value
        return Tree.of([LEAF], [0.0], [-1], [-1], [False], [NAN], values)
    decision = column("decision_type").astype(np.int8)
    feature, coded = column("split_feature").astype(np.int64), (decision & 1) != 0
    words = np.array(tree.get("cat_threshold", "").split(), dtype="<u4")
    ends = column("cat_boundaries").astype(np.int64)

    def codes(node: int) -> list[int]:
        at = int(threshold[node])
        bits = np.unpackbits(words[ends[at] : ends[at + 1]].view(np.uint8), bitorder="little")
        return np.flatnonzero(bits).tolist()

    threshold = column("threshold")
    n_inner, leaves = feature.size, np.full(values.size, -1)

    def child(name: str) -> NDArray[np.int64]:
        at = column(name).astype(np.int64)
        return np.concatenate([np.where(at < 0, n_inner + ~at, at), leaves])

    return Tree.of(
        np.concatenate([feature, leaves]),
        np.concatenate([threshold, np.zeros(values.size)]),
        child("left_child"),
        child("right_child"),
        np.concatenate([((decision & 2) != 0) & ~coded, np.zeros(values.size, bool)]),
        np.concatenate([(decision >> 2) & 3, np.full(values.size, NAN)]),
        np.concatenate([np.zeros(n_inner), values]),
        codes={node: codes(node) for node in np.flatnonzero(coded).tolist()},
    )


_LOGIT: Final = ("binary:logistic", "reg:logistic")
_LOG: Final = ("count:poisson", "reg:gamma", "reg:tweedie", "survival:cox")


def _of_xgboost(learner: Mapping[str, Any], names: tuple[str, ...]) -> Forest:
    booster = learner["gradient_booster"]
    if booster["name"] == "gblinear":
        raise refused("gblinear has no trees", "booster gbtree or dart")
    about = learner["learner_model_param"]
    _refuse_classes(max(int(about["num_class"]), int(about.get("num_target", 1))))
    stated = json.loads(about["base_score"])  # since 3.1 a list
    base, objective = float(stated[0] if isinstance(stated, list) else stated), learner["objective"]["name"]
    if objective in _LOGIT:
        base = -math.log(1 / base - 1)
    elif objective in _LOG:
        base = math.log(base)
    grown = booster.get("gbtree", booster)["model"]["trees"]
    weights = booster.get("weight_drop", [1.0] * len(grown))
    # inplace_predict takes the base out of the sum of base and leaf before it weighs the leaf
    bases = [np.float32(base if "weight_drop" in booster else 0)] * len(grown)
    return Forest(
        names,
        tuple(map(_xgboost_tree, grown, weights, bases)),
        float(np.float32(base)),
        "<",
        float32=True,
        float32_sum=True,
        codes_go="right",
    )


def _xgboost_tree(tree: Mapping[str, Any], weight: float, base: np.float32) -> Tree:
    left, split = np.asarray(tree["left_children"]), np.asarray(tree["split_indices"])
    is_leaf = left == -1
    listed = (tree[f"categories{name}"] for name in ("_nodes", "_segments", "_sizes"))
    numbers = np.asarray(tree["split_conditions"], dtype=np.float32)
    return Tree.of(
        np.where(is_leaf, LEAF, split),
        np.where(is_leaf, 0, numbers),
        left,
        tree["right_children"],
        tree["default_left"],
        np.full(left.size, NAN),
        np.where(is_leaf, (base + numbers - base) * np.float32(weight), 0),
        codes={
            node: tree["categories"][start : start + size] for node, start, size in zip(*listed, strict=True)
        },
    )


def _of_catboost(booster: Any, names: tuple[str, ...]) -> Forest:
    _refuse_classes(len(booster.classes_))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        booster.save_model(str(path), format="json")
        content = json.loads(path.read_text(encoding="utf-8"))
    about = content["features_info"]
    numeric = about.get("float_features") or []
    if coded := [names[one["flat_feature_index"]] for one in about.get("categorical_features") or ()]:
        raise refused(
            f"CatBoost splits on statistics of the categories of {', '.join(map(repr, coded))}",
            "splits on numbers or codes",
            "train without them (`exclude:`)",
        )
    scale, [bias] = content["scale_and_bias"]
    columns = [
        (one["flat_feature_index"], one["nan_value_treatment"] != "AsTrue") for one in numeric
    ]  # true is to the right

    def split(node: Mapping[str, Any], left: Any, right: Any) -> Split:
        return Split(*_at(columns, node), left, right)

    def of_symmetric(tree: Mapping[str, Any]) -> Tree:
        splits, values = tree.get("splits") or [], tree["leaf_values"]

        def node_of(place: tuple[int, int]) -> Split | float:
            level, leaf = place
            if level == len(splits):
                return float(values[leaf] * scale)
            return split(splits[level], (level + 1, leaf), (level + 1, leaf | 1 << level))

        return Tree.grown((0, 0), node_of)

    def of_other(tree: Mapping[str, Any]) -> Tree:
        def node_of(node: Mapping[str, Any]) -> Split | float:
            if "split" not in node:
                return float(node["value"] * scale)
            return split(node["split"], node["left"], node["right"])

        return Tree.grown(tree, node_of)

    symmetric = content.get("oblivious_trees")
    trees = [of_symmetric(tree) for tree in symmetric or ()] or [
        of_other(tree) for tree in content.get("trees") or ()
    ]
    return Forest(names, tuple(trees), float(bias), float32=True)


def _at(columns: Sequence[tuple[int, bool]], node: Mapping[str, Any]) -> tuple[int, float, bool]:
    column, missing_left = columns[node["float_feature_index"]]
    return column, float(node["border"]), missing_left
