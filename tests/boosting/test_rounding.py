"""The scores and labels that libraries round before our metrics see them, as the documentation lists them."""

from __future__ import annotations

import re
from pathlib import Path

import lightgbm
import numpy as np
import pytest
import xgboost

from ltr_harness.boosting import lightgbm_metrics, xgboost_metrics
from ltr_harness.boosting.lightgbm import feval
from ltr_harness.data.judgments import Judgments
from ltr_harness.data.queries import QueryGroups

PAGE = Path(__file__).parents[2] / "docs" / "interop.md"
ROUNDED = np.float64(np.float32(0.1))


@pytest.mark.parametrize("library", ["LightGBM", "XGBoost"])
def test_labels_and_weights_become_float32(library: str) -> None:
    rows, labels = np.eye(2), [0.1, 0.1]
    if library == "XGBoost":
        matrix = xgboost.DMatrix(rows, labels, group=[1, 1], weight=[0.1, 0.2], nthread=1)
        found = xgboost_metrics.judgments_of(matrix)
    else:
        quiet = {"verbosity": -1, "num_threads": 1}
        data = lightgbm.Dataset(rows, labels, group=[1, 1], weight=[0.1, 0.2], params=quiet).construct()
        found = lightgbm_metrics.judgments_of(data)
        # judgments of one's own have weights as they are
        own = Judgments.checked(labels, QueryGroups.from_sizes([1, 1]), query_weights=[0.1, 0.2])
        metric = feval("mean_label@1", judgments=own)
        assert metric([1.0, 1.0], data)[0][1] == pytest.approx(0.1, abs=1e-17)  # type: ignore[arg-type]
    assert found.labels[0] == ROUNDED != 0.1
    assert found.query_weights is not None
    assert found.query_weights[0] == ROUNDED
    listed = re.search(rf"^\| {library} \| ([^|;]+ to float32)", PAGE.read_text(encoding="utf-8"), re.M)
    assert listed is not None
    assert {"labels", "weights"} <= set(re.findall(r"\w+", listed.group(1)))
