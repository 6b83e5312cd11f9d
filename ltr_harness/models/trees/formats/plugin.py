"""`opensearch`, `elasticsearch`: what the learning-to-rank plugins read, in the form of XGBoost's JSON."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ltr_harness._util.files import write_whole
from ltr_harness.models.ranker import FittedModel
from ltr_harness.models.trees import formats
from ltr_harness.models.trees.forest import NAN, NEVER, Forest, InnerNode, Tree, refused
from ltr_harness.models.trees.formats import EngineFormat, Missing

_LONGEST = 504
"""Bytes of a feature's name. A stored one's id is ``feature-NAME``, and an id has 512 at most."""

_MOST_FEATURES = 10_000
"""In a feature set of the plugins."""

_ARITHMETIC = (
    "the plugin compares with < and sums in float32; thresholds are those that part float32 values as here"
)


class OpenSearch(EngineFormat):
    """``model/xgboost+json`` of OpenSearch's plugin: the body of ``_createmodel``.

    Source:
        `XGBoostJsonParser` and `NaiveAdditiveDecisionTree` of opensearch-project/opensearch-learning-to-rank-base and
        of o19s/elasticsearch-learning-to-rank; issues #200, #286 and #378 of the former, changes #206 in 3.2.0 and
        #379 in 3.8.0, which #380 to #385 took to the branches 3.2 to 3.7 after these were released.
    """

    name: ClassVar[str] = "opensearch"
    rules: ClassVar[tuple[str, ...]] = (
        _ARITHMETIC,
        "a value is missing where the feature's query does not match: it goes where `missing` says since 3.8, always "
        "right from 3.2 to 3.7, and is 0 before",
        formats.FEATURES_RULE,
    )
    missing_since: ClassVar[Mapping[tuple[int, int], Missing]] = {
        (3, 8): "there",
        (3, 2): "right",
        (0, 0): "zero",
    }
    comparison = "<"

    def write(self, forest: Forest, model: FittedModel, path: Path) -> None:
        formats.refuse_names(
            forest.feature_names,
            lambda name: not name.strip() or len(name.encode()) > _LONGEST,
            f"names of 1 to {_LONGEST} bytes, which the plugin can store",
        )
        form = formats.engine_forest(forest, "<", self.name)
        trees = [formats.xgboost_dump(tree, form.feature_names) for tree in form.trees]
        definition = {"type": "model/xgboost+json", "definition": trees}
        body = {"model": {"name": _model_name(path.stem), "model": definition}}
        write_whole(path, json.dumps(body))
        _write_feature_set(path, formats.used_features(form))

    def trees(self, text: str, column: Mapping[str, int]) -> Iterable[Tree]:
        def node_of(node: Mapping[str, Any]) -> InnerNode | float:
            if "leaf" in node:
                return float(np.float32(node["leaf"]))
            yes, no = node["children"]
            if [node["yes"], node["no"]] != [yes["nodeid"], no["nodeid"]]:
                raise ValueError("yes and no are not the children, in this order")
            missing_left = self.missing == "there" and node["missing"] == node["yes"]
            kind = NEVER if self.missing == "zero" else NAN
            threshold = float(np.float32(node["split_condition"]))
            return InnerNode(column[node["split"]], threshold, missing_left, yes, no, kind)

        return [Tree.grown(tree, node_of) for tree in json.loads(text)["model"]["model"]["definition"]]


class Elasticsearch(OpenSearch):
    """``model/xgboost+json`` of the plugin for Elasticsearch: the same file, and another history.

    Source:
        as of `OpenSearch`; issue #481, changes #480 and #482 of o19s/elasticsearch-learning-to-rank.
    """

    name: ClassVar[str] = "elasticsearch"
    rules: ClassVar[tuple[str, ...]] = (
        _ARITHMETIC,
        "a value is missing where the feature's query does not match: it goes where `missing` says since 8.11 (plugin "
        "1.5.9), and is 0 before",
        formats.FEATURES_RULE,
    )
    missing_since: ClassVar[Mapping[tuple[int, int], Missing]] = {(8, 11): "there", (0, 0): "zero"}


def _model_name(stem: str) -> str:
    """The file's name without its ending, which is what the model is called."""
    # addresses and queries of the engines have other characters
    if not re.fullmatch(r"[\w.-]{1,200}", stem, re.ASCII):
        cure = "name the file so"
        raise refused(f"the file's name, {stem!r}, is the model's", "letters, digits and any of _ - .", cure)
    return stem


def _write_feature_set(path: Path, names: Sequence[str]) -> None:
    """The body of ``_ltr/_featureset/NAME``, to be replaced: each feature is the document's field of the same name."""
    if len(names) > _MOST_FEATURES:
        expected = f"at most {_MOST_FEATURES:,}, as the plugin has"
        raise refused(f"a feature set of {len(names):,} features", expected)
    shared: dict[str, Any] = {"params": [], "template_language": "mustache"}
    features = [{"name": name, **shared, "template": formats.field_query(name)} for name in names]
    body = {"featureset": {"features": features}}
    write_whole(formats.features_path(path), json.dumps(body, indent=1))
