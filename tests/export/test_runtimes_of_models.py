"""Which runtimes a model is taken to, and why it is not."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from ltr_harness.export.verification import in_runtimes
from ltr_harness.metrics import parse_metric
from ltr_harness.rankers import catalog
from ltr_harness.rankers.ranker import FittedModel, Training
from ltr_harness.readers.memory import from_arrays

NEEDS = {"onnx": ("onnx", "onnxruntime")}
ROWS = np.random.default_rng(5).normal(size=(60, 3)).astype(np.float32)
NAMES = ("a", "b", "c")


def trained(objective: str) -> FittedModel:
    labels = np.clip(np.round(ROWS[:, 0] + 1), 0, 2)
    train = from_arrays(ROWS, labels, group_sizes=[6] * 10, feature_names=NAMES)
    ranker = catalog.load("lightgbm")(objective=objective, params={"min_data_in_leaf": 3})
    metrics = (parse_metric("ndcg@5"),)
    return ranker.fit(
        Training(train=train, valid=None, seed=1, threads=1, metrics=metrics, stopping=None, rounds=4)
    )


def test_what_is_installed_scores_as_the_library_does(tmp_path: Path) -> None:
    model = trained("lambdarank")
    found, refused = in_runtimes(model, NAMES, tmp_path)
    assert list(found) == [name for name, packages in NEEDS.items() if all(map(find_spec, packages))]
    assert refused == []
    for scores in found.values():
        # float32, as timed; what the forms lose is the business of `export model`
        np.testing.assert_allclose(scores(ROWS), model.score(ROWS), rtol=0, atol=1e-5)  # type: ignore[arg-type]


@pytest.mark.long
def test_a_model_that_no_form_has_a_place_for_says_why(tmp_path: Path) -> None:
    found, [why] = in_runtimes(trained("multiclass"), NAMES, tmp_path)
    assert found == {}
    assert "the model has trees for each of 3 classes" in why
