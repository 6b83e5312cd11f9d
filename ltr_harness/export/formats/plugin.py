"""`opensearch`, `elasticsearch`, `ranklib`: what the learning-to-rank plugins read, XGBoost's JSON or RankLib's XML."""

import json
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ltr_harness.export import formats
from ltr_harness.export.forest import NAN, NEVER, Forest, Split, Tree, refused
from ltr_harness.export.formats import EngineFormat, Missing, nested
from ltr_harness.files import write_whole
from ltr_harness.rankers.ranker import FittedModel

_LONGEST = 504
"""Bytes of a feature's name. A stored one's id is ``feature-NAME``, and an id has 512 at most."""

_MOST_FEATURES = 10_000
"""In a feature set of the plugins."""

_PART = "thresholds are those that part float32 values as here"
_ARITHMETIC = f"the plugin compares with < and sums in float32; {_PART}"


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
        refuse_feature_names(forest.feature_names)
        form = formats.engine_forest(forest, "<", self.name)
        trees = [formats.xgboost_dump(tree, form.feature_names) for tree in form.trees]
        definition = {"type": "model/xgboost+json", "definition": trees}
        body = {"model": {"name": formats.model_name(path.stem), "model": definition}}
        write_whole(path, json.dumps(body))
        write_feature_set(path, formats.used_features(form))

    def trees(self, text: str, column: Mapping[str, int]) -> Iterable[Tree]:
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


def refuse_feature_names(names: Sequence[str]) -> None:
    """Raise for names that the plugins do not store."""
    expected = f"names of 1 to {_LONGEST} bytes, which the plugin can store"
    formats.refuse_names(names, lambda name: not name.strip() or len(name.encode()) > _LONGEST, expected)


def write_feature_set(path: Path, names: Sequence[str]) -> None:
    """The body of ``_ltr/_featureset/NAME``, to be replaced: each feature is the document's field of the same name."""
    if len(names) > _MOST_FEATURES:
        expected = f"at most {_MOST_FEATURES:,}, as the plugin has"
        raise refused(f"a feature set of {len(names):,} features", expected)
    shared: dict[str, Any] = {"params": [], "template_language": "mustache"}
    features = [{"name": name, **shared, "template": formats.field_query(name)} for name in names]
    body = {"featureset": {"features": features}}
    write_whole(formats.features_path(path), json.dumps(body, indent=1))


class RankLib(EngineFormat):
    """A LambdaMART of RankLib, ``model/ranklib`` of the plugins.

    Source:
        `Ensemble`, `Split` and `DataPoint` of RankLib (o19s/RankyMcRankFace); `DenseProgramaticDataPoint` of the
        plugins.
    """

    name: ClassVar[str] = "ranklib"
    rules: ClassVar[tuple[str, ...]] = (
        f"RankLib compares with <= and sums in float32; {_PART}",
        "a missing value is 0",
        "features have numbers: the column's name where all names are numbers, else its place, from 1",
        formats.FEATURES_RULE,
    )

    def write(self, forest: Forest, model: FittedModel, path: Path) -> None:
        refuse_feature_names(forest.feature_names)
        form = formats.engine_forest(forest, "<=", self.name)
        numbers = _numbers(form.feature_names)
        trees = "".join(
            f'<tree id="{at}" weight="1.0">\n<split>\n{_written(tree, numbers)}</split>\n</tree>\n'
            for at, tree in enumerate(form.trees, 1)
        )
        leaves = max(tree.n_leaves for tree in form.trees)
        head = f"## LambdaMART\n## No. of trees = {len(form.trees)}\n## No. of leaves = {leaves}\n\n"
        write_whole(path, f"{head}<ensemble>\n{trees}</ensemble>\n")
        names = dict(zip(numbers, form.feature_names, strict=True))
        write_feature_set(path, [names.get(number, str(number)) for number in range(1, max(numbers) + 1)])

    def trees(self, text: str, column: Mapping[str, int]) -> Iterable[Tree]:
        head, *lines = text.splitlines()
        if head.removeprefix("## ").strip() != "LambdaMART":
            raise ValueError("the first line names another kind of model")
        ensemble = ET.fromstring("".join(line.strip() for line in lines if not line.startswith("#")))
        place = {number: at for at, number in enumerate(_numbers(list(column)))}
        for tree in ensemble.iter("tree"):
            weight = float(np.float32(tree.attrib["weight"]))

            def node_of(node: ET.Element, weight: float = weight) -> Split | float:
                if node[0].tag == "output":
                    return float(np.float32(node[0].text)) * weight
                feature, threshold, left, right = node
                at = place[int(feature.text or "")]
                return Split(at, float(np.float32(threshold.text)), False, left, right, NEVER)

            yield Tree.grown(tree[0], node_of)


def _numbers(names: Sequence[str]) -> list[int]:
    if not all(name.isascii() and name.isdigit() for name in names):
        return list(range(1, len(names) + 1))
    numbers = [int(name) for name in names]
    if min(numbers) < 1:
        raise refused("a feature has the number 0", "numbers from 1, as RankLib has", "name the columns")
    return numbers


def _written(tree: Tree, numbers: Sequence[int]) -> str:
    """One tag to a line: RankLib takes the first node below a tag for an element."""

    def split(node: int, level: int, left: str, right: str) -> str:
        return (
            f"<feature> {numbers[tree.feature[node]]} </feature>\n"
            f"<threshold> {float(tree.threshold[node])!r} </threshold>\n"
            f'<split pos="left">\n{left}</split>\n<split pos="right">\n{right}</split>\n'
        )

    text: str = nested(tree, split, lambda node: f"<output> {float(tree.value[node])!r} </output>\n")
    return text
