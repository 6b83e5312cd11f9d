"""`opensearch`, `elasticsearch`: the learning-to-rank plugins' JSON of trees, as XGBoost dumps them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ltr_harness.export.forest import NAN, NEVER, Forest, Split, Tree, refused
from ltr_harness.export.formats.model_format import (
    FEATURES_RULE,
    EngineFormat,
    Missing,
    Scores,
    engine_forest,
    features_path,
    model_name,
    refuse_names,
    used_features,
    xgboost_dump,
)
from ltr_harness.files import write_whole
from ltr_harness.rankers.ranker import FittedModel

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
        FEATURES_RULE,
    )
    missing_since: ClassVar[Mapping[tuple[int, int], Missing]] = {
        (3, 8): "there",
        (3, 2): "right",
        (0, 0): "zero",
    }

    def write(self, forest: Forest, model: FittedModel, path: Path) -> None:
        refuse_feature_names(forest.feature_names)
        form = engine_forest(forest, "<", self.name)
        trees = [xgboost_dump(tree, form.feature_names) for tree in form.trees]
        definition = {"type": "model/xgboost+json", "definition": trees}
        body = {"model": {"name": model_name(path.stem), "model": definition}}
        write_whole(path, json.dumps(body))
        write_feature_set(path, [form.feature_names[column] for column in used_features(form)])

    def read(self, path: Path, feature_names: Sequence[str]) -> Scores:
        with self.reading(path):
            trees = json.loads(path.read_text(encoding="utf-8"))["model"]["model"]["definition"]
            column = {name: at for at, name in enumerate(feature_names)}

            def node_of(node: Mapping[str, Any]) -> Split | float:
                if "leaf" in node:
                    return float(np.float32(node["leaf"]))
                yes, no = node["children"]
                if [node["yes"], node["no"]] != [yes["nodeid"], no["nodeid"]]:
                    raise ValueError("yes and no are not the children, in this order")
                missing_left = self.missing == "there" and node["missing"] == node["yes"]
                kind = NEVER if self.missing == "zero" else NAN
                threshold = float(np.float32(node["split_condition"]))
                return Split(column[node["split"]], threshold, missing_left, yes, no, kind)

            grown = tuple(Tree.grown(tree, node_of) for tree in trees)
        return Forest(tuple(feature_names), grown, 0.0, "<", float32=True, float32_sum=True).scores


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
        FEATURES_RULE,
    )
    missing_since: ClassVar[Mapping[tuple[int, int], Missing]] = {(8, 11): "there", (0, 0): "zero"}


def refuse_feature_names(names: Sequence[str]) -> None:
    """Raise for names that the plugins do not store.

    Raises:
        DataError: there are any.
    """
    refuse_names(
        names,
        lambda name: not name.strip() or len(name.encode()) > _LONGEST,
        f"names of 1 to {_LONGEST} bytes, which the plugin can store",
    )


def write_feature_set(path: Path, names: Sequence[str]) -> None:
    """The body of ``_ltr/_featureset/NAME``: each feature is the number in the document's field of the same name.

    A document without the field does not match, which is what missing means. Where the index has no such field, the
    engine says so at the first search: this template is there to be replaced.

    Raises:
        DataError: they are more than a set holds.
    """
    if len(names) > _MOST_FEATURES:
        raise refused(
            f"a feature set of {len(names):,} features", f"at most {_MOST_FEATURES:,}, as the plugin has"
        )

    def feature(name: str) -> dict[str, Any]:
        query = {"exists": {"field": name}}
        score = {"query": query, "field_value_factor": {"field": name}, "boost_mode": "replace"}
        template = {"function_score": score}
        return {"name": name, "params": [], "template_language": "mustache", "template": template}

    body = {"featureset": {"features": [feature(name) for name in names]}}
    write_whole(features_path(path), json.dumps(body, indent=1))
