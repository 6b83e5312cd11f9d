"""`treelite`: its own file, which its inference library reads, TL2cgen compiles and FIL takes to a GPU."""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from ltr_harness.export.forest import LEAF, Forest
from ltr_harness.export.formats import ModelFormat, Scores, package
from ltr_harness.groups import Floats
from ltr_harness.rankers.ranker import FittedModel


class Treelite(ModelFormat):
    """Built node by node: its importers know no CatBoost, and that of LightGBM misplaces zeros (#376)."""

    name: ClassVar[str] = "treelite"
    rules: ClassVar[tuple[str, ...]] = (
        "float64 thresholds, leaves and sums for LightGBM and CatBoost, float32 for XGBoost, as in the library",
        "<= or < as in the library; NaN goes where the library sends it",
        "what a sparse matrix leaves out is missing and not 0: hand over dense rows",
    )

    takes_categories: ClassVar[bool] = True

    def write(self, forest: Forest, model: FittedModel, path: Path) -> None:
        build = package("treelite").model_builder
        plain = forest.by_nan().with_base_in_first_tree()
        n_trees, nothing = len(plain.trees), [0] * len(plain.trees)
        kind = "float32" if plain.float32_sum else "float64"
        builder = build.ModelBuilder(
            threshold_type=kind,
            leaf_output_type=kind,
            metadata=build.Metadata(
                num_feature=len(plain.feature_names),
                task_type="kRegressor",
                average_tree_output=False,
                num_target=1,
                num_class=[1],
                leaf_vector_shape=(1, 1),
            ),
            tree_annotation=build.TreeAnnotation(num_tree=n_trees, target_id=nothing, class_id=nothing),
            postprocessor=build.PostProcessorFunc(name="identity"),
            base_scores=[plain.base_score],
        )
        for tree in plain.trees:
            builder.start_tree()
            columns = (tree.feature, tree.threshold, tree.left, tree.right, tree.missing_left, tree.value)
            nodes = zip(*(column.tolist() for column in columns), strict=True)
            for node, (feature, threshold, left, right, missing_left, value) in enumerate(nodes):
                builder.start_node(node)
                below = {"default_left": missing_left, "left_child_key": left, "right_child_key": right}
                if feature == LEAF:
                    builder.leaf(value)
                elif node in tree.codes:
                    below |= {"category_list_right_child": plain.codes_go == "right"}
                    builder.categorical_test(feature, category_list=list(tree.codes[node]), **below)
                else:
                    builder.numerical_test(feature, threshold, opname=plain.comparison, **below)
                builder.end_node()
            builder.end_tree()
        builder.commit().serialize(path)

    def read(self, path: Path, feature_names: Sequence[str]) -> Scores:
        treelite = package("treelite")
        model = treelite.Model.deserialize(path)

        def scores(features: Floats) -> Floats:
            with np.errstate(over="ignore"):
                rows = features.astype(model.input_type)
            return np.asarray(treelite.gtil.predict(model, rows, nthread=1), dtype=np.float64).reshape(-1)

        return scores
