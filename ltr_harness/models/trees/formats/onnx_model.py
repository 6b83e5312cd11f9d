"""`onnx`: a TreeEnsembleRegressor in float32, run by ONNX Runtime."""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from ltr_harness._util.files import write_whole
from ltr_harness.data.arrays import Floats
from ltr_harness.models.ranker import FittedModel
from ltr_harness.models.trees.forest import LEAF, Forest
from ltr_harness.models.trees.formats import ModelFormat, ScoreFunction, package

_INPUT, _OUTPUT = "features", "score"


class Onnx(ModelFormat):
    """One node, written here: onnxmltools refuses rankers (#382, #435, #580, #623) and has lost base_score (#672).

    Thresholds that lie between two float32 numbers, as LightGBM's do, are rounded to the side that keeps every float32
    value where it was; the nearest float32 does not.
    """

    name: ClassVar[str] = "onnx"
    rules: ClassVar[tuple[str, ...]] = (
        f"input {_INPUT!r}, float32 (n_rows, n_features) in training's column order; output {_OUTPUT!r}, (n_rows, 1)",
        "features, thresholds, leaves and sums are float32; no float32 value changes sides by a threshold's rounding",
        "<= or < as in the library; NaN goes where the library sends it",
    )

    def write(self, forest: Forest, model: FittedModel, path: Path) -> None:
        onnx = package("onnx")
        forest_float32 = forest.by_nan().in_float32().with_base_in_first_tree()
        helper, kind = onnx.helper, onnx.TensorProto.FLOAT
        # arrays of all nodes of all trees, and of all leaves
        sizes = [tree.feature.size for tree in forest_float32.trees]
        tree_of, place = np.repeat(np.arange(len(sizes)), sizes), np.concatenate(list(map(np.arange, sizes)))
        joined = forest_float32.joined
        leaf = joined("feature") == LEAF
        mode = "BRANCH_LT" if forest_float32.comparison == "<" else "BRANCH_LEQ"
        node = helper.make_node(
            "TreeEnsembleRegressor",
            [_INPUT],
            [_OUTPUT],
            domain="ai.onnx.ml",
            n_targets=1,
            aggregate_function="SUM",
            base_values=[forest_float32.base_score],
            nodes_treeids=tree_of.tolist(),
            nodes_nodeids=place.tolist(),
            nodes_featureids=np.maximum(joined("feature"), 0).tolist(),
            nodes_modes=np.where(leaf, "LEAF", mode).tolist(),
            nodes_values=joined("threshold").tolist(),
            nodes_truenodeids=np.maximum(joined("left"), 0).tolist(),
            nodes_falsenodeids=np.maximum(joined("right"), 0).tolist(),
            nodes_missing_value_tracks_true=joined("missing_left").astype(int).tolist(),
            target_treeids=tree_of[leaf].tolist(),
            target_nodeids=place[leaf].tolist(),
            target_ids=np.zeros(int(leaf.sum()), dtype=np.int64).tolist(),
            target_weights=joined("value")[leaf].tolist(),
        )
        graph = helper.make_graph(
            [node],
            "ltr_harness",
            [helper.make_tensor_value_info(_INPUT, kind, [None, len(forest.feature_names)])],
            [helper.make_tensor_value_info(_OUTPUT, kind, [None, 1])],
        )
        written = helper.make_model(
            graph,
            producer_name="ltr-harness",
            opset_imports=[helper.make_opsetid("", 15), helper.make_opsetid("ai.onnx.ml", 3)],
            ir_version=8,
        )
        helper.set_model_props(written, {"feature_names": "\n".join(forest.feature_names)})
        write_whole(path, written.SerializeToString())

    def read(self, path: Path, feature_names: Sequence[str]) -> ScoreFunction:
        runtime = package("onnxruntime", extra="onnx")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = 1
        session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

        def scores(features: Floats) -> Floats:
            with np.errstate(over="ignore"):
                rows = features.astype(np.float32)
            [found] = session.run([_OUTPUT], {_INPUT: rows})
            return np.asarray(found[:, 0], dtype=np.float64)

        return scores
