"""The values that a run keeps about each query, for slices."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.judgments import Judgments
from ltr_harness.data.queries import QueryGroups
from ltr_harness.experiments.training.train import per_query_columns
from ltr_harness.metrics import bind
from ltr_harness.metrics.evaluation import evaluate_bound


def test_attributes_and_weights_are_kept_and_replace_nothing() -> None:
    judgments = Judgments.checked(
        [1, 0, 0, 2, 1], QueryGroups.from_sizes([2, 3]), query_weights=np.array([3.0, 1.0])
    )
    attributes = {"country": np.array(["de", "fr"]), "rows": np.array([7, 8]), "mrr": np.array([True, False])}
    test = RankingDataset(np.zeros((5, 1), np.float32), judgments, ("x",), query_attributes=attributes)
    evaluation = evaluate_bound(bind(["mrr"], judgments), [2.0, 1.0, 3.0, 2.0, 1.0])
    found = pa.table(per_query_columns(test, evaluation)).to_pydict()
    assert found["country"] == ["de", "fr"]
    assert (found["rows"], found["data.rows"]) == ([2, 3], [7, 8])
    assert (found["mrr"], found["data.mrr"]) == ([1.0, 0.5], [True, False])
    assert found["query_weight"] == [3.0, 1.0]
