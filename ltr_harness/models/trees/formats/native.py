"""`elasticsearch-native`: a trained model of Elasticsearch's own learning to rank, as eland writes them."""

import base64
import gzip
import json
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ltr_harness._util.files import write_whole
from ltr_harness.data.arrays import Floats
from ltr_harness.errors import UsageError
from ltr_harness.models.ranker import FittedModel
from ltr_harness.models.trees import formats
from ltr_harness.models.trees.forest import LEAF, Forest, InnerNode, Tree, refused
from ltr_harness.models.trees.formats import EngineFormat, Missing, ScoreFunction

_LARGEST = 100 * 2**20
"""Bytes of a request's body, Elasticsearch's ``http.max_content_length`` unless it is set otherwise."""

_SUM: dict[str, Any] = {"weighted_sum": {}}
_OPERATORS = {"<=": "lte", "<": "lt"}


class ElasticsearchNative(EngineFormat):
    """The model's half of the body of ``_ml/trained_models/NAME``; the other half is the features' file.

    Source:
        `TreeInferenceModel`, `EnsembleInferenceModel`, `WeightedSum`, `BoundedWindowInferenceModel`,
        `QueryFeatureExtractor`, `LearningToRankConfig` and `LearningToRankRescorer` of elastic/elasticsearch; of
        elastic/eland `_model_serializer` and `MLModel.import_ltr_model`.
    """

    name: ClassVar[str] = "elasticsearch-native"
    rules: ClassVar[tuple[str, ...]] = (
        "features are float32, thresholds, leaves and sums float64, <= or < as in the library; the score is float32",
        "a value is missing where the feature's query does not match, and goes where `default_left` says; so do "
        "infinite values",
        "since 8.19 and 9.0.1 the trees' least sum is taken from the score where it is below 0",
        formats.FEATURES_RULE,
    )
    # from 8.15 on the body has no `input`
    missing_since: ClassVar[Mapping[tuple[int, int], Missing]] = {
        (8, 19): "there",
        (8, 15): "there",
        (8, 12): "there",
    }
    float32 = False

    def __init__(self, version: tuple[int, int] = (8, 19)) -> None:
        if version < (8, 12):
            found, cure = "{}.{} has no learning to rank of its own", "--to elasticsearch is for the plugin"
            raise UsageError.at("--engine-version", found.format(*version), "8.12 or later", cure)
        super().__init__(version)
        self._version = version

    def write(self, forest: Forest, model: FittedModel, path: Path) -> None:
        expected = "names without {{, which begins a parameter, whose parts between dots are not empty"
        formats.refuse_names(
            forest.feature_names,
            lambda name: "{{" in name or not all(map(str.strip, name.split("."))),
            expected,
        )
        form = formats.engine_forest(forest, forest.comparison, "Elasticsearch", leaves=np.float64)
        names = formats.used_features(form)
        shared = {"target_type": "regression", "feature_names": names}
        place = {form.feature_names.index(name): position for position, name in enumerate(names)}
        trees = [{"tree": {**shared, "tree_structure": _nodes(tree, form, place)}} for tree in form.trees]
        ensemble = {**shared, "trained_models": trees, "aggregate_output": _SUM}
        definition = json.dumps({"trained_model": {"ensemble": ensemble}}, separators=(",", ":"))
        packed = base64.b64encode(gzip.compress(definition.encode(), mtime=0)).decode()
        body: dict[str, Any] = {"input": {"field_names": names}} if self._version < (8, 15) else {}
        text = json.dumps({**body, "compressed_definition": packed})
        if len(text) > _LARGEST:
            found, expected = f"a file of {len(text) >> 20:,} MiB", f"at most {_LARGEST >> 20} MiB"
            raise refused(found, f"{expected}, as Elasticsearch reads", "train fewer or smaller trees")
        write_whole(path, text)
        queries = [{"feature_name": name, "query": formats.field_query(name)} for name in names]
        extractors = [{"query_extractor": query} for query in queries]
        config = {"learning_to_rank": {"feature_extractors": extractors}}
        write_whole(formats.features_path(path), json.dumps({"inference_config": config}, indent=1))

    def trees(self, text: str, column: Mapping[str, int]) -> Iterable[Tree]:
        try:
            packed = base64.b64decode(json.loads(text)["compressed_definition"], validate=True)
            definition = json.loads(gzip.decompress(packed))
        except (OSError, EOFError, zlib.error) as problem:
            raise ValueError(str(problem)) from None
        ensemble = definition["trained_model"]["ensemble"]
        if (output := ensemble.get("aggregate_output", _SUM)) != _SUM:
            raise ValueError(f"aggregate_output is {output}, not a sum")
        return [_tree(trained["tree"], column) for trained in ensemble["trained_models"]]

    def scores(self, forest: Forest) -> ScoreFunction:
        least = sum(float(tree.value[tree.feature == LEAF].min()) for tree in forest.trees)
        shift = max(0.0, -least) if self._version >= (8, 19) else 0.0

        def scores(features: Floats) -> Floats:
            with np.errstate(over="ignore"):
                rows = features.astype(np.float32).astype(np.float64)
                rows[np.isinf(rows)] = np.nan
                return (forest.scores(rows) + shift).astype(np.float32).astype(np.float64)

        return scores


def _nodes(tree: Tree, forest: Forest, place: Mapping[int, int]) -> list[dict[str, Any]]:
    columns = (tree.feature, tree.threshold, tree.left, tree.right, tree.missing_left, tree.value)
    nodes: list[dict[str, Any]] = []
    for feature, threshold, left, right, missing_left, value in zip(
        *(values.tolist() for values in columns), strict=True
    ):
        number = {"node_index": len(nodes)}
        if feature == LEAF:
            nodes.append({**number, "leaf_value": value})
            continue
        split = {
            "split_feature": place.get(feature),
            "threshold": threshold,
            "decision_type": _OPERATORS[forest.comparison],
            "default_left": missing_left,
            "left_child": left,
            "right_child": right,
        }
        nodes.append({**number, **split})
    return nodes


def _tree(content: Mapping[str, Any], column: Mapping[str, int]) -> Tree:
    """A tree whose splits may have any of the four operators, as one of ``<=``."""
    nodes = content["tree_structure"]
    columns = [column[name] for name in content["feature_names"]]

    def node_of(index: int) -> InnerNode | float:
        node = nodes[index]
        if "left_child" not in node:
            return float(node["leaf_value"])
        operator, threshold = node["decision_type"], float(node["threshold"])
        if operator not in ("lt", "lte", "gt", "gte"):
            raise ValueError(f"{operator!r} is not an operator")
        if operator in ("lt", "gte"):
            threshold = float(np.nextafter(threshold, -np.inf))
        above = operator.startswith("g")
        first, second = node["left_child"], node["right_child"]
        below = (second, first) if above else (first, second)
        return InnerNode(columns[node["split_feature"]], threshold, node["default_left"] != above, *below)

    return Tree.grown(0, node_of)
