"""`json`: dumps as LightGBM and XGBoost write them, which Vespa reads."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from ltr_harness._util.files import write_whole
from ltr_harness.models.lightgbm import LightGBMModel
from ltr_harness.models.ranker import FittedModel
from ltr_harness.models.trees.forest import LEAF, Forest, InnerNode, Tree
from ltr_harness.models.trees.formats import EngineFormat, engine_forest, xgboost_dump


class Dump(EngineFormat):
    """As Vespa's importers read them: LightGBM's dump of its models, XGBoost's form for those of XGBoost and CatBoost.

    What Vespa would read otherwise than it is meant is put right: thresholds are the float32 numbers that part float32
    values by ``<`` as the library does, a missing value goes where the library sends it, base_score is in the first
    tree, and features have their names in the data.

    Source:
        docs.vespa.ai/en/ranking/lightgbm.html and xgboost.html; of vespa-engine/vespa `LightGBMParser`,
        `AbstractXGBoostParser` and `FastForest`.
    """

    name: ClassVar[str] = "json"
    rules: ClassVar[tuple[str, ...]] = (
        "Vespa compares with < and sums in float64; thresholds are float32, as its fast forests have them, and part "
        "float32 values as here",
        "a missing value is NaN and goes where `default_left` or `missing` says",
    )
    comparison = "<"
    float32 = False

    def write(self, forest: Forest, model: FittedModel, path: Path) -> None:
        form = engine_forest(forest, "<", "Vespa")
        if isinstance(model, LightGBMModel):
            content = model.booster.dump_model(num_iteration=-1)
            content["feature_names"] = list(forest.feature_names)
            for dumped, tree in zip(content["tree_info"], form.trees, strict=True):
                _put_right(dumped["tree_structure"], tree)
        else:
            content = [xgboost_dump(tree, form.feature_names) for tree in form.trees]
        write_whole(path, json.dumps(content))

    def trees(self, text: str, column: Mapping[str, int]) -> Iterable[Tree]:
        content = json.loads(text)

        def of_xgboost(node: Mapping[str, Any]) -> InnerNode | float:
            if "leaf" in node:
                return float(node["leaf"])
            below = {child["nodeid"]: child for child in node["children"]}
            yes, no, missing_left = node["yes"], node["no"], node["missing"] == node["yes"]
            threshold = float(node["split_condition"])
            return InnerNode(column[node["split"]], threshold, missing_left, below[yes], below[no])

        def of_lightgbm(node: Mapping[str, Any]) -> InnerNode | float:
            if "leaf_value" in node:
                return float(node["leaf_value"])
            column_index, threshold = columns[node["split_feature"]], float(node["threshold"])
            return InnerNode(
                column_index, threshold, node["default_left"], node["left_child"], node["right_child"]
            )

        if isinstance(content, list):
            return [Tree.grown(tree, of_xgboost) for tree in content]
        columns = [column[name] for name in content["feature_names"]]
        return [Tree.grown(tree["tree_structure"], of_lightgbm) for tree in content["tree_info"]]


def _put_right(root: dict[str, Any], tree: Tree) -> None:
    waiting = [(root, 0)]
    while waiting:
        node, index = waiting.pop()
        if tree.feature[index] != LEAF:
            node["threshold"], node["default_left"] = (
                float(tree.threshold[index]),
                bool(tree.missing_left[index]),
            )
            waiting += [(node["left_child"], tree.left[index]), (node["right_child"], tree.right[index])]
