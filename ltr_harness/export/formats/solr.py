"""`solr`: the additive trees of Solr's module for learning to rank."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ltr_harness.export import formats
from ltr_harness.export.forest import LEAF, NAN, NEVER, Forest, Split, Tree
from ltr_harness.export.formats import EngineFormat, Missing, nested
from ltr_harness.files import write_whole
from ltr_harness.rankers.ranker import FittedModel

_SLACK = np.float32(1e-6)
"""What Solr adds to every threshold, in float32."""


class Solr(EngineFormat):
    """A ``MultipleAdditiveTreesModel``: the body for ``schema/model-store``.

    Source:
        `MultipleAdditiveTreesModel`, `SolrPluginUtils.invokeSetters`, `FieldValueFeature` and `CSVFeatureLogger` of
        apache/solr; SOLR-16596.
    """

    name: ClassVar[str] = "solr"
    rules: ClassVar[tuple[str, ...]] = (
        "Solr compares with <= in float32, after 0.000001 is added to every threshold, which is written lower for it; "
        "it sums in float32",
        "a missing value goes where `missing` says since 9.2, where the features' defaultValue is NaN, and is 0 before",
        formats.FEATURES_RULE,
    )
    missing_since: ClassVar[Mapping[tuple[int, int], Missing]] = {(9, 2): "there", (0, 0): "zero"}

    def write(self, forest: Forest, model: FittedModel, path: Path) -> None:
        expected = "names without = and , which part names and values where Solr logs features"
        formats.refuse_names(
            forest.feature_names, lambda name: not name.strip() or "=" in name or "," in name, expected
        )
        form, name = formats.engine_forest(forest, "<=", self.name), formats.model_name(path.stem)
        # whether a missing value goes anywhere where 0 does not
        apart = self.missing == "there" and any(
            ((tree.feature != LEAF) & (tree.missing_left != (tree.threshold >= 0))).any()
            for tree in form.trees
        )
        used = formats.used_features(form)
        trees = [{"weight": "1", "root": _written(tree, form.feature_names, apart)} for tree in form.trees]
        body = {
            "class": "org.apache.solr.ltr.model.MultipleAdditiveTreesModel",
            "name": name,
            "store": name,
            "features": [{"name": one} for one in used],
            "params": {**({"isNullSameAsZero": False} if apart else {}), "trees": trees},
        }
        write_whole(path, json.dumps(body))
        kind = "org.apache.solr.ltr.feature.FieldValueFeature"
        default = {"defaultValue": "NaN"} if apart else {}
        shared = {"store": name, "class": kind}
        features = [{**shared, "name": one, "params": {"field": one, **default}} for one in used]
        write_whole(formats.features_path(path), json.dumps(features, indent=1))

    def trees(self, text: str, column: Mapping[str, int]) -> Iterable[Tree]:
        content = json.loads(text)
        params = content["params"]
        apart = params.get("isNullSameAsZero") is False
        if apart and self.missing == "zero":
            raise ValueError("No setter corrresponding to 'isNullSameAsZero'")
        known = {one["name"] for one in content["features"]}
        place = {name: at for name, at in column.items() if name in known}
        for tree in params["trees"]:
            weight = np.float32(tree["weight"])

            def node_of(node: Mapping[str, Any], weight: np.float32 = weight) -> Split | float:
                if "feature" not in node:
                    return float(np.float32(node["value"]) * weight)
                threshold = float(np.float32(node["threshold"]) + _SLACK)
                missing_left = apart and node["missing"] == "left"
                below = node["left"], node["right"], NAN if apart else NEVER
                return Split(place[node["feature"]], threshold, missing_left, *below)

            yield Tree.grown(tree["root"], node_of)


def _written(tree: Tree, names: Sequence[str], apart: bool) -> Any:
    """Numbers are texts: Solr's setter of a number takes no number of JSON."""
    with np.errstate(over="ignore"):
        lower = without_slack(tree.threshold.astype(np.float32))
        thresholds = lower.clip(-formats.BEYOND, formats.BEYOND, dtype=np.float64)

    def split(node: int, level: int, left: Any, right: Any) -> dict[str, Any]:
        direction = {"missing": "left" if tree.missing_left[node] else "right"} if apart else {}
        threshold = {"feature": names[tree.feature[node]], "threshold": repr(float(thresholds[node]))}
        return {**threshold, **direction, "left": left, "right": right}

    return nested(tree, split, lambda node: {"value": repr(float(tree.value[node]))})


def without_slack(thresholds: NDArray[np.float32]) -> NDArray[np.float32]:
    """What to write so that Solr, which adds 0.000001, has the thresholds, or the nearest below that it can have.

    It can have 0, and nearly all that are 0.001 or more in size; closer to 0, what it can have lies up to 2e-13 apart.
    """
    near = thresholds - _SLACK
    with np.errstate(over="ignore"):
        below, above = (np.nextafter(near, np.float32(end)) for end in (-np.inf, np.inf))
        tries = np.stack([below, near, above])
    reached = tries + _SLACK
    best = np.where(reached <= thresholds, reached, -np.inf).argmax(axis=0)
    return np.asarray(np.take_along_axis(tries, best[None], axis=0)[0])
