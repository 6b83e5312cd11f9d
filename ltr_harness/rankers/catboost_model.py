"""CatBoost models: scores, importance, contributions, and their file."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ltr_harness.boosting.watching import expected_grade
from ltr_harness.errors import DataError, MissingExtraError, Problem
from ltr_harness.rankers.grade_classes import refuse_shares
from ltr_harness.rankers.ranker import as_matrix, model_file
from ltr_harness.rankers.tree_model import Importance, TreeModel

_THREADS = re.compile(r'"thread_count":\d+')


@dataclass(frozen=True, eq=False, kw_only=True)
class CatBoostModel(TreeModel):
    """A CatBoost model cut to its best round; scores are raw, of a model of classes the expected grade."""

    FILE: ClassVar[str] = "model.cbm"
    booster: Any
    n_features: int
    threads: int | None = None

    def score(self, features: ArrayLike) -> NDArray[np.float64]:
        return self.score_after(features, 0)

    def score_after(self, features: ArrayLike, rounds: int) -> NDArray[np.float64]:
        matrix = as_matrix(features, self.n_features)
        if not len(matrix):
            return np.empty(0)
        grades = self._grades
        predicted = self.booster.predict(
            self._typed(matrix),
            prediction_type="Probability" if grades else "RawFormulaVal",
            ntree_end=rounds,
            thread_count=self.threads or -1,
        )
        return expected_grade(predicted, grades) if grades else np.asarray(predicted, dtype=np.float64)

    @property
    def _grades(self) -> list[float]:
        """Those of the classes; none where the model is not of classes."""
        return list(self.booster.classes_)

    @property
    def n_leaves(self) -> int:
        return int(sum(self.booster.get_tree_leaf_counts()))

    def importance(self, kind: Importance = "gain") -> NDArray[np.float64]:
        if kind == "split":
            return np.bincount(self._split_features(), minlength=self.n_features).astype(np.float64)
        return np.asarray(
            self.booster.get_feature_importance(type="PredictionValuesChange"), dtype=np.float64
        )

    def _split_features(self) -> list[int]:
        """The column of every split; one split for each level of a symmetric tree. Only CatBoost's JSON says it.

        A split on statistics of several categorical features together is a split on each of them.
        """
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.json"
            self.booster.save_model(str(path), format="json")
            content = json.loads(path.read_text())
        about = content["features_info"]
        numeric, coded, statistics = (
            about.get(kind) or [] for kind in ("float_features", "categorical_features", "ctrs")
        )
        columns = [[one["flat_feature_index"]] for one in numeric for _ in one.get("borders") or ()]
        columns += [[one["flat_feature_index"]] for one in coded for _ in one.get("values") or ()]
        for one in statistics:
            parts = [part for part in one["elements"] if "cat_feature_index" in part]
            of = sorted({coded[part["cat_feature_index"]]["flat_feature_index"] for part in parts})
            columns += [of for _ in one["borders"]]
        trees = json.dumps(content.get("oblivious_trees") or content.get("trees") or [])
        return [column for at in re.findall(r'"split_index": (\d+)', trees) for column in columns[int(at)]]

    def contributions(self, features: ArrayLike) -> NDArray[np.float64]:
        refuse_shares(bool(self._grades))
        coded = self.booster.get_cat_feature_indices()
        pool = library().Pool(self._typed(as_matrix(features, self.n_features)), cat_features=coded)
        return np.asarray(self.booster.get_feature_importance(pool, type="ShapValues"), dtype=np.float64)

    def _typed(self, matrix: NDArray[np.float32]) -> Any:
        return typed(matrix, self.booster.get_cat_feature_indices(), self.booster.feature_names_)

    def save(self, folder: Path) -> str:
        metadata = self.booster.get_metadata()
        for name in ("train_finish_time", "model_guid"):  # equal models have equal files
            metadata[name] = ""
        metadata["params"] = _THREADS.sub('"thread_count":0', metadata["params"])
        self.booster.save_model(str(Path(folder) / self.FILE))
        return self.FILE

    @classmethod
    def load(cls, folder: Path, threads: int | None = None) -> Self:
        booster = read_booster(model_file(folder, cls.FILE))
        return cls(
            booster=booster,
            n_features=len(booster.feature_names_),
            threads=threads,
            best_round=booster.tree_count_,
        )


def read_booster(path: Path) -> Any:
    """A stored model as CatBoost has it."""
    catboost = library()
    booster = catboost.CatBoost()
    try:
        booster.load_model(str(path))
    except catboost.CatBoostError as problem:
        raise DataError(f"{path}: CatBoost cannot read it: {spoken(str(problem))}") from problem
    return booster


def typed(features: NDArray[np.float32], coded: Sequence[int], names: Sequence[str]) -> Any:
    """Features (n_rows, n_features) as CatBoost takes them: codes as integers, missing ones as -1."""
    if not coded:
        return features
    import pandas

    table = pandas.DataFrame(features, columns=list(names))
    for column in coded:
        values = features[:, column]
        table[names[column]] = np.where(np.isnan(values), -1, values).astype(np.int64)
    return table


def spoken(message: str) -> str:
    """CatBoost's message without its source file and line.

    Example:
        >>> spoken("catboost/libs/options/plain.cpp:511: Unknown option {x} with value \\"1\\"")
        'Unknown option {x} with value "1"'
    """
    place, _, text = message.partition(": ")
    return " ".join((text if place.rpartition(":")[2].isdigit() else message).split())


def library() -> Any:
    """The package catboost."""
    try:
        import catboost
    except ImportError:
        raise MissingExtraError(
            Problem(
                "", "ranker catboost needs the package catboost", cure="pip install 'ltr-harness[catboost]'"
            )
        ) from None
    return catboost
