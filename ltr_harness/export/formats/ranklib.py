"""`ranklib`: RankLib's XML of trees, which RankLib and the learning-to-rank plugins read."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from ltr_harness.export.forest import NEVER, Forest, Split, Tree, refused
from ltr_harness.export.formats.model_format import FEATURES_RULE, EngineFormat, Scores, engine_forest, nested
from ltr_harness.export.formats.plugin import refuse_feature_names, write_feature_set
from ltr_harness.files import write_whole
from ltr_harness.rankers.ranker import FittedModel


class RankLib(EngineFormat):
    """A LambdaMART of RankLib, ``model/ranklib`` of the plugins.

    Source:
        `Ensemble`, `Split` and `DataPoint` of RankLib (o19s/RankyMcRankFace); `DenseProgramaticDataPoint` of the
        plugins.
    """

    name: ClassVar[str] = "ranklib"
    rules: ClassVar[tuple[str, ...]] = (
        "RankLib compares with <= and sums in float32; thresholds are those that part float32 values as here",
        "a missing value is 0",
        "features have numbers: the column's name where all names are numbers, else its place, from 1",
        FEATURES_RULE,
    )

    def write(self, forest: Forest, model: FittedModel, path: Path) -> None:
        refuse_feature_names(forest.feature_names)
        form = engine_forest(forest, "<=", self.name)
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

    def read(self, path: Path, feature_names: Sequence[str]) -> Scores:
        with self.reading(path):
            head, *lines = path.read_text(encoding="utf-8").splitlines()
            if head.removeprefix("## ").strip() != "LambdaMART":
                raise ValueError("the first line names another kind of model")
            ensemble = ET.fromstring("".join(line.strip() for line in lines if not line.startswith("#")))
            column = {number: at for at, number in enumerate(_numbers(feature_names))}

            def grown(tree: ET.Element) -> Tree:
                weight = float(np.float32(tree.attrib["weight"]))

                def node_of(node: ET.Element) -> Split | float:
                    if node[0].tag == "output":
                        return float(np.float32(node[0].text)) * weight
                    feature, threshold, left, right = node
                    at = column[int(feature.text or "")]
                    return Split(at, float(np.float32(threshold.text)), False, left, right, NEVER)

                return Tree.grown(tree[0], node_of)

            trees = tuple(grown(tree) for tree in ensemble.iter("tree"))
        return Forest(tuple(feature_names), trees, 0.0, "<=", float32=True, float32_sum=True).scores


def _numbers(names: Sequence[str]) -> list[int]:
    """RankLib's number of each column."""
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
