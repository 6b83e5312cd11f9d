"""The forms that models are written in, one line in `FORMATS` each, and what search engines' forms share."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, Self

import numpy as np
from numpy.typing import NDArray

from ltr_harness._util.catalog import Catalog
from ltr_harness._util.text import shortened
from ltr_harness.errors import DataError, UsageError, optional_module
from ltr_harness.models.ranker import FittedModel
from ltr_harness.models.trees.forest import LEAF, Forest, Tree, refused

FORMATS = {
    "elasticsearch": "ltr_harness.models.trees.formats.plugin:Elasticsearch",
    "elasticsearch-native": "ltr_harness.models.trees.formats.native:ElasticsearchNative",
    "json": "ltr_harness.models.trees.formats.dump:Dump",
    "onnx": "ltr_harness.models.trees.formats.onnx_model:Onnx",
    "opensearch": "ltr_harness.models.trees.formats.plugin:OpenSearch",
}

catalog = Catalog("format", FORMATS, "ltr_harness.formats", "ltr_harness.models:ModelFormat")

ScoreFunction = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""From float64 (n_rows, n_features), NaN for missing, to float64 (n_rows,)."""


class ModelFormat(ABC):
    """One form. Its two halves know nothing of each other, so that the second can find the first in the wrong."""

    name: ClassVar[str]

    rules: ClassVar[tuple[str, ...]]
    """How the engine evaluates, in plain lines: thresholds, comparison, missing values, arithmetic."""

    versions: str = ""
    """Of the engine, whose rules `read` follows, such as "before 3.2"; empty where all read alike."""

    def for_engine(self, version: str) -> Self:
        """The form as a version of its engine reads it.

        Raises:
            UsageError: all versions read it alike, or this is no version.
        """
        found = f"all versions read the form {self.name} alike"
        raise UsageError.at("--engine-version", found, cure="leave it out")

    @abstractmethod
    def write(self, forest: Forest, model: FittedModel, path: Path) -> None:
        """Write the file, and beside it, in the same folder, what the engine wants besides.

        Args:
            forest: the model's trees.
            model: the same, with the library's own object, for forms that the library writes.
            path: of the file; whatever else is written stands beside it.

        Raises:
            DataError: the form has no place for something that the model needs.
        """

    @abstractmethod
    def read(self, path: Path, feature_names: Sequence[str]) -> ScoreFunction:
        """Return the scores that the engine computes from the written file alone.

        Args:
            path: of the file.
            feature_names: of the columns that are handed to the result, as in the data.

        Raises:
            DataError: the engine would not read it.
        """


def package(name: str, extra: str | None = None) -> Any:
    """A library that a form needs, imported now."""
    extra = extra or name
    return optional_module(name, f"--to {extra}: needs the package {name}", extra)


FEATURES_RULE: Final = (
    "the features that it wants stand beside the file, in *.features.json; replace their queries by yours"
)

Missing = Literal["there", "right", "zero"]
"""Where an engine sends a missing value: where the file says, always right, or where 0 goes."""

DEEPEST: Final = 300
"""Levels of a tree. One takes two levels of nested JSON, of which the plugins' parsers and Python's read 1,000."""

BEYOND: Final = 2.0**128
"""The number after float32's largest: JSON has it, float32 reads it as infinity, and float64 as above every float32."""


class EngineFormat(ModelFormat):
    """A form that a search engine reads, with the history of what its versions do with missing values."""

    missing_since: ClassVar[Mapping[tuple[int, int], Missing]] = {(0, 0): "there"}
    """From which version on which rule holds, the newest first."""

    comparison: ClassVar[Literal["<=", "<"]] = "<="
    """The relation to the threshold of values that go left."""

    float32: ClassVar[bool] = True
    """Whether the engine compares features and adds leaves in float32; if not, in float64."""

    def __init__(self, version: tuple[int, int] | None = None) -> None:
        starts = list(self.missing_since)
        index = next(i for i, start in enumerate(starts) if version is None or version >= start)
        # by the version that is written for; `versions` do the same
        self.missing = self.missing_since[starts[index]]
        since, until = ("{}.{}".format(*starts[i]) for i in (index, index - 1))
        if index > 0:
            self.versions = f"before {until}" if index == len(starts) - 1 else f"{since} to before {until}"
        elif len(starts) > 1:
            self.versions = f"{since} and later"

    def for_engine(self, version: str) -> Self:
        if len(self.missing_since) == 1:
            return super().for_engine(version)
        found = re.match(r"([0-9]+)\.([0-9]+)(\.|$)", version)
        if not found:
            raise UsageError.at("--engine-version", f"{version!r} is not a version", "one such as 8.11")
        return type(self)((int(found[1]), int(found[2])))

    @abstractmethod
    def trees(self, text: str, column: Mapping[str, int]) -> Iterable[Tree]:
        """The trees of a written file, with columns by their names; any error is that the engine would not read it."""

    def read(self, path: Path, feature_names: Sequence[str]) -> ScoreFunction:
        column = {name: index for index, name in enumerate(feature_names)}
        try:
            with np.errstate(over="ignore"):  # a number beyond float32 is infinite there too
                trees = tuple(self.trees(path.read_text(encoding="utf-8"), column))
        except (ValueError, LookupError, TypeError) as problem:
            found, expected = f"{self.name} would not read it ({problem})", f"a model of the form {self.name}"
            raise DataError.at(path, found, expected) from None
        names, single = tuple(feature_names), self.float32
        return self.scores(Forest(names, trees, 0.0, self.comparison, float32=single, float32_sum=single))

    def scores(self, forest: Forest) -> ScoreFunction:
        """Return the scores that the engine gives by the trees that it has read."""
        return forest.scores


def engine_forest(
    forest: Forest, written: Literal["<=", "<"], engine: str, leaves: type[np.floating[Any]] = np.float32
) -> Forest:
    """The model as an engine computes it that has every direction of missing values; `BEYOND` stands for infinity."""
    form = forest.by_nan().in_float32(written).with_base_in_first_tree()
    trees = []
    for tree in form.trees:
        with np.errstate(over="ignore"):
            values = tree.value.astype(np.float32)
        if np.isnan(tree.threshold).any() or not np.isfinite(values).all():
            raise refused("a threshold is NaN, or a leaf beyond float32", f"finite numbers, as {engine} has")
        thresholds = np.clip(tree.threshold, -BEYOND, BEYOND)
        trees.append(replace(tree, threshold=thresholds, value=tree.value.astype(leaves).astype(np.float64)))
    return replace(form, trees=tuple(trees))


def xgboost_dump(tree: Tree, names: Sequence[str]) -> Any:
    """A tree as XGBoost dumps its own, with all digits: nine are another number to who compares in float64."""
    order, waiting = [], [(0, 0)]
    while waiting:
        node, level = waiting.pop()
        order.append((node, level))
        if tree.feature[node] != LEAF:
            waiting += [(int(tree.right[node]), level + 1), (int(tree.left[node]), level + 1)]
    deepest = max(level for _, level in order)
    if deepest > DEEPEST:
        expected = f"at most {DEEPEST}, which search engines read"
        raise refused(f"a tree has {deepest} levels", expected, "limit max_depth")
    built: dict[int, dict[str, Any]] = {}
    for node, level in reversed(order):  # both nodes below are there before the one above
        if tree.feature[node] == LEAF:
            built[node] = {"nodeid": node, "leaf": float(tree.value[node])}
            continue
        yes, no = int(tree.left[node]), int(tree.right[node])
        missing = yes if tree.missing_left[node] else no
        built[node] = {
            "nodeid": node,
            "depth": level,
            "split": names[tree.feature[node]],
            "split_condition": float(tree.threshold[node]),
            "yes": yes,
            "no": no,
            "missing": missing,
            "children": [built.pop(yes), built.pop(no)],
        }
    return built[0]


def used_features(forest: Forest) -> list[str]:
    """The features that some split looks at, in the columns' order; the first one where there is no split."""
    names = forest.feature_names
    used = [names[column] for column in np.unique(forest.joined("feature")) if column != LEAF]
    return used or [names[0]]


def field_query(name: str) -> dict[str, Any]:
    """Return a query of OpenSearch and Elasticsearch that needs a field and whose score is the field's value."""
    query = {"exists": {"field": name}}
    score = {"query": query, "field_value_factor": {"field": name}, "boost_mode": "replace"}
    return {"function_score": score}


def features_path(path: Path) -> Path:
    """Return the path of the features' file beside a model's: ``ranker.features.json`` of ``ranker.json``."""
    return path.with_suffix(".features.json")


def refuse_names(names: Sequence[str], is_wrong: Callable[[str], object], expected: str) -> None:
    """Raise for the names that an engine would reject or misread."""
    refused_names = [name for name in names if is_wrong(name)]
    if refused_names:
        listed = shortened([repr(name[:60]) for name in refused_names], 5)
        raise refused(f"features named {listed}", expected, "rename the columns and train again")
