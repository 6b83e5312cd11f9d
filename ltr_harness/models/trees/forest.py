"""Forest: a model's trees as plain arrays, whatever library grew it, and its scores by that library's rules."""

import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Final, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ltr_harness._util.compiled import compiled
from ltr_harness.data.arrays import Bools, Floats, Ints
from ltr_harness.errors import DataError
from ltr_harness.models.ranker import FittedModel

LEAF = -1
NEVER, ZERO, NAN = 0, 1, 2
"""What counts as missing at a node: nothing (NaN is read as 0), zero and NaN, or NaN alone; LightGBM's numbers."""

_ZERO = float(np.float32(1e-35))  # LightGBM's zero


class InnerNode(NamedTuple):
    """An inner node as `Tree.grown` asks for it; `left` and `right` are whatever stands for the nodes below."""

    feature: int
    threshold: float
    missing_left: bool
    left: Any
    right: Any
    missing_type: int = NAN


@dataclass(frozen=True, eq=False)
class Tree:
    """One tree, an array element for each node; the root is the first."""

    feature: NDArray[np.int32]  # the column that is looked at; -1 at leaves
    threshold: Floats  # what it is compared with
    left: NDArray[np.int32]  # left, right: the nodes below; -1 at leaves
    right: NDArray[np.int32]
    missing_left: Bools  # whether a missing value goes left
    missing_type: NDArray[np.int8]  # what counts as missing: `NEVER`, `ZERO` or `NAN`
    value: Floats  # of leaves; 0 elsewhere

    @classmethod
    def grown(cls, root: Any, node_of: Callable[[Any], InnerNode | float]) -> Self:
        """A tree from whatever form nests its nodes, in the order in which they are come by, left before right."""
        rows: list[list[Any]] = []
        waiting: list[tuple[Any, int, int]] = [(root, -1, 0)]
        while waiting:
            place, above, side = waiting.pop()
            if above >= 0:
                rows[above][side] = len(rows)
            node = node_of(place)
            if isinstance(node, InnerNode):
                waiting += [(node.right, len(rows), 3), (node.left, len(rows), 2)]
                rows.append([node.feature, node.threshold, -1, -1, node.missing_left, node.missing_type, 0.0])
            else:
                rows.append([LEAF, 0.0, -1, -1, False, NAN, node])
        return cls.of(*zip(*rows, strict=True))

    @classmethod
    def of(cls, *columns: Any) -> Self:
        """A tree of its seven columns, whatever types they have."""
        kinds = (np.int32, np.float64, np.int32, np.int32, np.bool_, np.int8, np.float64)
        return cls(*(np.asarray(column, dtype=kind) for column, kind in zip(columns, kinds, strict=True)))


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees whose values are added, and the rules by which whoever evaluates them goes down."""

    feature_names: tuple[str, ...]  # of the columns, as in the data
    trees: tuple[Tree, ...]  # in the order in which they are added
    base_score: float = 0.0  # what is added to their sum
    # what goes left: values ``<=`` the threshold (LightGBM, CatBoost), or ``<`` (XGBoost)
    comparison: Literal["<=", "<"] = "<="
    float32: bool = False  # whether features are rounded to float32 before comparing (XGBoost, CatBoost)
    float32_sum: bool = False  # whether sums are rounded to float32 after each tree (XGBoost)

    def by_nan(self) -> Self:
        """The same scores with no node but such at which NaN alone is missing."""

        def by_nan(tree: Tree) -> Tree:
            zero_left = tree.threshold > 0 if self.comparison == "<" else tree.threshold >= 0
            is_split = tree.feature != LEAF
            turns_zero = is_split & (tree.missing_type == ZERO) & (tree.missing_left != zero_left)
            if turns_zero.any():
                name = self.feature_names[tree.feature[np.argmax(turns_zero)]]
                found = f"a split on {name!r} sends 0 where missing values go"
                raise refused(
                    f"{found}, and the form knows no such split", cure="train without `zero_as_missing`"
                )
            missing_left = np.where(tree.missing_type == NEVER, zero_left, tree.missing_left)
            return replace(tree, missing_left=missing_left, missing_type=np.full_like(tree.missing_type, NAN))

        return replace(self, trees=tuple(map(by_nan, self.trees)))

    def in_float32(self, comparison: Literal["<=", "<"] | None = None) -> Self:
        """The same sides for float32 features by float32 thresholds: of ``<=`` the last value that goes left, of ``<``
        the one after it.
        """
        written = comparison or self.comparison

        def rounded(tree: Tree) -> Tree:
            exact = tree.threshold
            with np.errstate(over="ignore"):
                nearest = exact.astype(np.float32)
                beyond = nearest >= exact if self.comparison == "<" else nearest > exact
                last = np.where(beyond, np.nextafter(nearest, np.float32(-np.inf)), nearest)
                moved = last if written == "<=" else np.nextafter(last, np.float32(np.inf))
            return replace(tree, threshold=moved.astype(np.float64))

        return replace(self, trees=tuple(map(rounded, self.trees)), comparison=written, float32=True)

    def with_base_in_first_tree(self) -> Self:
        """The same scores to the bit where `base_score` is what sums begin with: engines may add it last."""
        first, *later_trees = self.trees
        values = np.where(first.feature == LEAF, first.value + self.base_score, 0.0)
        if self.float32_sum:
            values = values.astype(np.float32).astype(np.float64)
        return replace(self, trees=(replace(first, value=values), *later_trees), base_score=0.0)

    def scores(self, features: Floats) -> Floats:
        """float64 (n_rows,): the trees' values added one after the other, in float64 unless `float32_sum`."""
        rows = np.asarray(features, dtype=np.float64)
        if self.float32:
            with np.errstate(over="ignore"):
                rows = rows.astype(np.float32).astype(np.float64)
        return _summed(rows, float(self.base_score), self.comparison == "<", self.float32_sum, *self._flat)

    @cached_property
    def _flat(self) -> tuple[NDArray[Any], ...]:
        """The place where each tree begins, and the arrays of all trees one after the other."""
        sizes = [tree.feature.size for tree in self.trees]
        starts = np.cumsum([0, *sizes], dtype=np.int64)[:-1]
        shift = np.repeat(starts, sizes)
        return (
            starts,
            self.joined("feature"),
            self.joined("threshold"),
            self.joined("left") + shift,
            self.joined("right") + shift,
            *map(self.joined, ("missing_left", "missing_type", "value")),
        )

    def joined(self, name: str) -> NDArray[Any]:
        """An array of all trees' nodes, one tree after the other."""
        nothing = Tree.of(*[()] * 7)
        return np.concatenate([getattr(tree, name) for tree in (nothing, *self.trees)])


@compiled
def _summed(
    features: Floats,
    base: float,
    strict: bool,
    single: bool,
    roots: Ints,
    feature: NDArray[np.int32],
    threshold: Floats,
    left: Ints,
    right: Ints,
    missing_left: Bools,
    missing_type: NDArray[np.int8],
    value: Floats,
) -> Floats:
    out = np.empty(features.shape[0])
    for row in range(features.shape[0]):
        total = base
        for root in roots:
            node = root
            while feature[node] >= 0:
                x = features[row, feature[node]]
                kind = missing_type[node]
                if np.isnan(x) and kind != 2:
                    x = 0.0
                if np.isnan(x) or (kind == 1 and abs(x) <= _ZERO):
                    goes_left = missing_left[node]
                elif strict:
                    goes_left = x < threshold[node]
                else:
                    goes_left = x <= threshold[node]
                node = left[node] if goes_left else right[node]
            total += value[node]
            if single:
                total = np.float64(np.float32(total))
        out[row] = total
    return out


def forest_of(model: FittedModel, feature_names: Sequence[str]) -> Forest:
    """A fitted model's trees; refused is what is more than a sum of trees."""
    from ltr_harness.models.catboost import CatBoostModel
    from ltr_harness.models.lightgbm import LightGBMModel
    from ltr_harness.models.xgboost import XGBoostModel

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
    return DataError.at("export model", found, expected, cure)


def _refuse_classes(n_scores: int) -> None:
    if n_scores > 1:
        found = f"the model has trees for each of {n_scores} classes, and its score is the expected grade"
        raise refused(found, "a ranking objective or squared error, whose score is a sum over trees")


def _refuse_codes(names: Sequence[str], coded: Collection[int]) -> None:
    if coded:
        listed = ", ".join(repr(names[column]) for column in sorted(coded))
        found = f"the model splits on categories of {listed}"
        raise refused(found, "splits on numbers", "train without them (`exclude:`)")


def _of_lightgbm(text: str, names: tuple[str, ...]) -> Forest:
    head, *parts = text.partition("\nend of trees")[0].split("\nTree=")
    header = dict(line.partition("=")[::2] for line in head.splitlines())
    _refuse_classes(int(header["num_tree_per_iteration"]))
    trees = [dict(line.partition("=")[::2] for line in part.splitlines()) for part in parts]
    if any(tree.get("is_linear") == "1" for tree in trees):
        raise refused("the leaves hold linear models", "leaves of numbers", "train without `linear_tree`")
    coded: set[int] = set()
    for tree in trees:
        is_coded = _column(tree, "decision_type").astype(np.int8) & 1 != 0
        coded.update(_column(tree, "split_feature")[is_coded].astype(int).tolist())
    _refuse_codes(names, coded)
    return Forest(names, tuple(map(_lightgbm_tree, trees)))


def _column(tree: Mapping[str, str], name: str) -> Floats:
    return np.array(tree.get(name, "").split(), dtype=np.float64)


def _lightgbm_tree(tree: Mapping[str, str]) -> Tree:
    """Inner nodes first, then the leaves; LightGBM's number for leaf i is ~i."""
    column = partial(_column, tree)
    values = column("leaf_value")
    if values.size == 1:  # a tree that never split says no more than its value
        return Tree.of([LEAF], [0.0], [-1], [-1], [False], [NAN], values)
    decision = column("decision_type").astype(np.int8)
    feature = column("split_feature")
    n_inner, leaves = feature.size, np.full(values.size, -1)

    def child(name: str) -> Ints:
        children = column(name).astype(np.int64)
        return np.concatenate([np.where(children < 0, n_inner + ~children, children), leaves])

    return Tree.of(
        np.concatenate([feature, leaves]),
        np.concatenate([column("threshold"), np.zeros(values.size)]),
        child("left_child"),
        child("right_child"),
        np.concatenate([(decision & 2) != 0, np.zeros(values.size, bool)]),
        np.concatenate([(decision >> 2) & 3, np.full(values.size, NAN)]),
        np.concatenate([np.zeros(n_inner), values]),
    )


_LOGIT: Final = ("binary:logistic", "reg:logistic")
_LOG: Final = ("count:poisson", "reg:gamma", "reg:tweedie", "survival:cox")


def _base_of_xgboost(text: str, objective: str) -> float:
    """Return the score that all rows begin with, on the scale of the trees."""
    stated = json.loads(text)  # since 3.1 a list
    base = float(stated[0] if isinstance(stated, list) else stated)
    if objective in _LOGIT:
        return -math.log(1 / base - 1)
    return math.log(base) if objective in _LOG else base


def _of_xgboost(learner: Mapping[str, Any], names: tuple[str, ...]) -> Forest:
    booster = learner["gradient_booster"]
    if booster["name"] == "gblinear":
        raise refused("gblinear has no trees", "booster gbtree or dart")
    parameters = learner["learner_model_param"]
    _refuse_classes(max(int(parameters["num_class"]), int(parameters.get("num_target", 1))))
    base = _base_of_xgboost(parameters["base_score"], learner["objective"]["name"])
    content = booster.get("gbtree", booster)["model"]
    tree_texts = content["trees"]
    _refuse_codes(
        names, {tree["split_indices"][node] for tree in tree_texts for node in tree["categories_nodes"]}
    )
    # of DART; XGBoost 3.3 and later have them beside the trees, and a plain product
    weights = booster.get("weight_drop") or content.get("weight_drop") or [1.0 for _ in tree_texts]
    # before, inplace_predict takes the base out of the sum of base and leaf before it weighs the leaf
    taken_out = np.float32(base if "weight_drop" in booster else 0)
    trees = []
    for tree, weight in zip(tree_texts, weights, strict=True):
        left, split = np.asarray(tree["left_children"]), np.asarray(tree["split_indices"])
        is_leaf = left == -1
        numbers = np.asarray(tree["split_conditions"], dtype=np.float32)
        columns = (
            np.where(is_leaf, LEAF, split),
            np.where(is_leaf, 0, numbers),
            left,
            tree["right_children"],
            tree["default_left"],
            np.full(left.size, NAN),
            np.where(is_leaf, (taken_out + numbers - taken_out) * np.float32(weight), 0),
        )
        trees.append(Tree.of(*columns))
    return Forest(names, tuple(trees), float(np.float32(base)), "<", float32=True, float32_sum=True)


def _of_catboost(booster: Any, names: tuple[str, ...]) -> Forest:
    from ltr_harness.boosting.catboost import grades_of
    from ltr_harness.models.catboost import as_json

    _refuse_classes(len(grades_of(booster)))
    content = as_json(booster)
    features_info = content["features_info"]
    numeric = features_info.get("float_features") or []
    if categorical := [
        names[feature["flat_feature_index"]] for feature in features_info.get("categorical_features") or ()
    ]:
        found = f"CatBoost splits on statistics of the categories of {', '.join(map(repr, categorical))}"
        raise refused(found, "splits on numbers or codes", "train without them (`exclude:`)")
    scale, [bias] = content["scale_and_bias"]
    # true is to the right
    columns = [
        (feature["flat_feature_index"], feature["nan_value_treatment"] != "AsTrue") for feature in numeric
    ]

    def split(node: Mapping[str, Any], left: Any, right: Any) -> InnerNode:
        column, missing_left = columns[node["float_feature_index"]]
        return InnerNode(column, float(node["border"]), missing_left, left, right)

    def of_symmetric(tree: Mapping[str, Any]) -> Tree:
        splits, values = tree.get("splits") or [], tree["leaf_values"]

        def node_of(place: tuple[int, int]) -> InnerNode | float:
            level, leaf = place
            if level == len(splits):
                return float(values[leaf] * scale)
            return split(splits[level], (level + 1, leaf), (level + 1, leaf | 1 << level))

        return Tree.grown((0, 0), node_of)

    def node_of_other(node: Mapping[str, Any]) -> InnerNode | float:
        if "split" not in node:
            return float(node["value"] * scale)
        return split(node["split"], node["left"], node["right"])

    trees = [of_symmetric(tree) for tree in content.get("oblivious_trees") or ()]
    trees += [Tree.grown(tree, node_of_other) for tree in content.get("trees") or ()]
    return Forest(names, tuple(trees), float(bias), float32=True)
