"""Rows at the ends of float32 and rows without a value: what `beyond_float32: clip` makes of 1e39 scores in every form
as in the library."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from ltr_harness.data.readers.memory import from_arrays
from ltr_harness.models.trees.forest import forest_of
from ltr_harness.models.trees.formats import FORMATS, catalog

LARGEST = float(np.finfo(np.float32).max)
VALUES = [-LARGEST, 0.0, LARGEST, np.nan]
KINDS = [
    ("lightgbm", {"min_data_in_leaf": 1, "objective": "regression"}),
    ("xgboost", {}),
    ("catboost", {"nan_mode": "Min"}),
    ("catboost", {"nan_mode": "Max"}),
]


@pytest.mark.parametrize("grades", [(1, 1, 1, 0), (0, 0, 0, 1), (0, 1, 2, 3), (3, 2, 0, 1), (2, 0, 3, 0)])
@pytest.mark.parametrize(("library", "params"), KINDS)
def test_the_ends_of_float32_stay_on_their_side(library, params, grades, trained_on, tmp_path: Path):
    X = np.zeros((100, 5))
    X[:, 2] = np.tile(VALUES, 25)
    train = from_arrays(
        X, np.tile(grades, 25), group_sizes=[20] * 5, feature_names=["a", "b", "price", "d", "e"]
    )
    model = trained_on(library, train, dict(params))
    assert len(set(model.score(train.features[:4]).round(9))) > 1
    for name in FORMATS:
        if name != "onnx" or find_spec("onnxruntime"):
            assert_same_in(name, library, model, train, tmp_path)


def assert_same_in(name, library, model, train, folder: Path):
    path, form = folder / f"{name}.json", catalog.load(name)()
    form.write(forest_of(model, train.feature_names), model, path)
    here = model.score(train.features[:4])
    there = form.read(path, train.feature_names)(train.features[:4].astype(np.float64))
    np.testing.assert_allclose(there - there[0], here - here[0], rtol=0, atol=1e-5)
    # XGBoost refuses infinity, and to Elasticsearch it is missing
    if library != "xgboost" and name != "elasticsearch-native":
        ends = np.repeat(train.features[:1], 2, axis=0)
        ends[:, 2] = -np.inf, np.inf
        # LightGBM's last threshold is infinity, and no comparison with < is true of that
        n = 1 if library == "lightgbm" and name in ("json", "opensearch", "elasticsearch") else 2
        both = form.read(path, train.feature_names)(ends[:n].astype(np.float64))
        np.testing.assert_allclose(both - there[0], model.score(ends[:n]) - here[0], rtol=0, atol=1e-5)
