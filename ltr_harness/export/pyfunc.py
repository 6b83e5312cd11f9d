"""Scores rows with a model that `ltr-harness export mlflow` stored; a copy of this file stands beside each model.

It needs NumPy, pandas and the library that trained the model, and gives the scores of the harness to the bit.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    Score = Callable[[NDArray[np.float32]], Any]

ABOUT = "ranker.json"


def _load_pyfunc(path: str) -> "StoredModel":
    """What MLflow calls: the model in a folder."""
    return StoredModel(Path(path))


class StoredModel:
    """A model and the columns that it scores."""

    def __init__(self, folder: Path) -> None:
        about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
        self._features: list[str] = about["features"]
        self._codes = {
            name: {one: float(code) for code, text in enumerate(texts) for one in values_of(text)}
            for name, texts in about["categories"].items()
        }
        self._score = _READERS[about["ranker"]](folder / about["file"])

    def predict(self, rows: "pd.DataFrame", params: dict[str, Any] | None = None) -> "NDArray[np.float64]":
        """Scores, float64 (n_rows,), higher ranks first."""
        matrix = np.empty((len(rows), len(self._features)), dtype=np.float32)
        for column, name in enumerate(self._features):
            values, codes = rows[name], self._codes.get(name)
            matrix[:, column] = values if codes is None else [codes.get(one, np.nan) for one in values]
        if not len(matrix):
            return np.empty(0)
        return np.asarray(self._score(matrix), dtype=np.float64)


def values_of(text: str) -> tuple[str | int, ...]:
    """What a category may be in a frame: its text, and the whole number that the text stands for."""
    is_number = text.lstrip("-").isdecimal() and str(int(text)) == text
    return (text, int(text)) if is_number else (text,)


def _lightgbm(path: Path) -> "Score":
    import lightgbm

    booster = lightgbm.Booster(model_file=path)
    rounds = booster.current_iteration()
    if booster.num_model_per_iteration() > 1:
        return lambda matrix: _expected_grade(booster.predict(matrix, num_iteration=rounds))
    return lambda matrix: booster.predict(matrix, raw_score=True, num_iteration=rounds)


def _xgboost(path: Path) -> "Score":
    import xgboost

    booster = xgboost.Booster(model_file=path)
    learner = json.loads(booster.save_config())["learner"]
    if int(learner["learner_model_param"]["num_class"]) > 1:
        return lambda matrix: _expected_grade(booster.inplace_predict(matrix))
    return lambda matrix: booster.inplace_predict(matrix, predict_type="margin")


def _catboost(path: Path) -> "Score":
    import catboost
    import pandas as pd

    booster = catboost.CatBoost()
    booster.load_model(str(path))
    coded, names = booster.get_cat_feature_indices(), booster.feature_names_
    # a bias for each class; binary classification has one score
    grades = list(booster.classes_) if isinstance(booster.get_scale_and_bias()[1], list) else []

    def score(matrix: "NDArray[np.float32]") -> Any:
        table: Any = matrix
        if coded:
            table = pd.DataFrame(matrix, columns=names)
            for column in coded:
                codes = matrix[:, column]
                table[names[column]] = np.where(np.isnan(codes), -1, codes).astype(np.int64)
        if grades:
            return _expected_grade(booster.predict(table, prediction_type="Probability"), grades)
        return booster.predict(table, prediction_type="RawFormulaVal")

    return score


def _linear(path: Path) -> "Score":
    model = json.loads(path.read_text())
    columns, centre, weights = model["columns"], np.array(model["centre"]), np.array(model["weights"])

    def score(matrix: "NDArray[np.float32]") -> Any:
        values = matrix[:, columns].astype(np.float64) - centre
        return (np.where(np.isnan(values), 0, values) * weights).sum(axis=1)

    return score


def _feature(path: Path) -> "Score":
    model = json.loads(path.read_text())

    def score(matrix: "NDArray[np.float32]") -> Any:
        values = matrix[:, model["column"]].astype(np.float64)
        values = -values if model["ascending"] else values
        return np.where(np.isnan(values), -np.inf, values)

    return score


def _expected_grade(probabilities: Any, grades: list[float] | None = None) -> Any:
    shares = np.ascontiguousarray(probabilities, dtype=np.float64)
    return (shares * (np.arange(shares.shape[1]) if grades is None else grades)).sum(axis=1)


_READERS = {
    "catboost": _catboost,
    "lightgbm": _lightgbm,
    "xgboost": _xgboost,
    "feature": _feature,
    "linear": _linear,
}
