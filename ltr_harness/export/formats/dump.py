"""`json`: what LightGBM and XGBoost dump of themselves, which Vespa reads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ltr_harness.errors import DataError, Problem
from ltr_harness.export.forest import Forest, Split, Tree
from ltr_harness.export.formats.model_format import ModelFormat, Scores
from ltr_harness.files import write_whole
from ltr_harness.rankers.feature_names import safe_feature_names
from ltr_harness.rankers.lightgbm.ranker import LightGBMModel
from ltr_harness.rankers.ranker import FittedModel
from ltr_harness.rankers.xgboost.ranker import XGBoostModel


class Dump(ModelFormat):
    """The libraries' dumps, as Vespa's importers of them turn them into ranking expressions.

    Source:
        docs.vespa.ai/en/ranking/lightgbm.html and xgboost.html; `LightGBMParser` and `XGBoostParser` of vespa-engine.
    """

    name: ClassVar[str] = "json"
    rules: ClassVar[tuple[str, ...]] = (
        "Vespa compares with < in float64: a value that equals a threshold goes right, where LightGBM goes left",
        "thresholds and sums are float64; XGBoost's thresholds have all digits, which older versions of Vespa need",
        "a missing value is NaN and goes where default_left or `missing` says; zero_as_missing is not heeded",
        "XGBoost's dump lacks base_score: all scores are lower by it, and no order changes",
    )

    def write(self, forest: Forest, model: FittedModel, path: Path) -> None:
        if isinstance(model, LightGBMModel):
            content = model.booster.dump_model(num_iteration=-1)
        elif isinstance(model, XGBoostModel):
            content = [_parsed(tree) for tree in model.booster.get_dump(dump_format="json")]
        else:
            raise DataError(
                Problem("--to json", "Vespa reads dumps of LightGBM and XGBoost", cure="use --to onnx")
            )
        write_whole(path, json.dumps(content))

    def read(self, path: Path, feature_names: Sequence[str]) -> Scores:
        content = json.loads(path.read_text(encoding="utf-8"))
        column = {name: at for at, name in enumerate(safe_feature_names(feature_names))}
        if isinstance(content, list):
            trees = [Tree.grown(tree, lambda node: _of_xgboost(node, column)) for tree in content]
        else:
            columns = [column[name] for name in content["feature_names"]]
            roots = (tree["tree_structure"] for tree in content["tree_info"])
            trees = [Tree.grown(root, lambda node: _of_lightgbm(node, columns)) for root in roots]
        return Forest(tuple(feature_names), tuple(trees), comparison="<").scores


def _parsed(tree: str) -> Any:
    try:
        # nine digits tell a float32 from its neighbours, and are another number to who compares in float64
        return json.loads(tree, parse_float=lambda digits: float(np.float32(digits)))
    except json.JSONDecodeError as problem:
        at = tree[max(problem.pos - 20, 0) : problem.pos + 20]
        raise DataError(
            Problem("--to json", f"XGBoost's dump is not JSON at {at!r}", "feature names without backslashes")
        ) from None


def _of_xgboost(node: Mapping[str, Any], column: Mapping[str, int]) -> Split | float:
    if "leaf" in node:
        return float(node["leaf"])
    below = {child["nodeid"]: child for child in node["children"]}
    threshold, missing_left = float(node["split_condition"]), node["missing"] == node["yes"]
    return Split(column[node["split"]], threshold, missing_left, below[node["yes"]], below[node["no"]])


def _of_lightgbm(node: Mapping[str, Any], columns: Sequence[int]) -> Split | float:
    if "leaf_value" in node:
        return float(node["leaf_value"])
    at = columns[node["split_feature"]]
    return Split(at, float(node["threshold"]), node["default_left"], node["left_child"], node["right_child"])
