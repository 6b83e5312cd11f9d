"""The tables of a run's folder: learning curve, scores, values by query, importance."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ltr_harness.dataset import RankingDataset
from ltr_harness.evaluation import Evaluation
from ltr_harness.rankers.adapters import TreeModel
from ltr_harness.rankers.ranker import FittedModel

if TYPE_CHECKING:
    import pyarrow as pa


def history_table(fitted: FittedModel) -> pa.Table:
    """The learning curve."""
    import pyarrow as pa

    points = fitted.history
    return pa.table(
        {
            "round": pa.array([point.round for point in points], pa.int64()),
            "split": pa.array([point.data for point in points], pa.string()),
            "metric": pa.array([point.metric for point in points], pa.string()),
            "value": pa.array([point.value for point in points], pa.float64()),
        }
    )


def scores_table(test: RankingDataset, scores: NDArray[np.float64]) -> pa.Table:
    """Every test row with its label and score.

    Shapes: `scores` (n_rows,).
    """
    import pyarrow as pa

    sizes = test.groups.sizes
    first_row = np.repeat(test.groups.boundaries[:-1], sizes)
    columns = {
        "query_id": pa.array(np.repeat(test.groups.ids, sizes)),
        "row": pa.array(np.arange(test.n_rows) - first_row),
        "label": pa.array(test.labels),
        "score": pa.array(scores),
    }
    if test.judgments.document_ids is not None:
        columns["document_id"] = pa.array(test.judgments.document_ids)
    return pa.table(columns)


def per_query_table(test: RankingDataset, evaluation: Evaluation) -> pa.Table:
    """Every test query with its values, and what reports slice by."""
    import pyarrow as pa

    relevant = np.add.reduceat(test.labels > 0, test.groups.boundaries[:-1], dtype=np.int64)
    columns = {
        "query_id": pa.array(test.groups.ids),
        "rows": pa.array(test.groups.sizes),
        "n_relevant": pa.array(relevant),
    }
    # What reports slice by. A name that is taken gets the data's own mark instead of replacing what stands there.
    attributes = dict(test.query_attributes)
    if test.judgments.query_weights is not None:
        attributes.setdefault("query_weight", test.judgments.query_weights)
    for name, values in attributes.items():
        free = name not in columns and name not in evaluation.metrics
        columns[name if free else f"data.{name}"] = pa.array(values)
    # NaN stays NaN: "undefined" is a value here, not a missing one
    columns |= {name: pa.array(evaluation[name].per_query, from_pandas=False) for name in evaluation.metrics}
    return pa.table(columns)


def importance_table(train: RankingDataset, fitted: TreeModel) -> pa.Table:
    """What each feature was worth to the trees."""
    import pyarrow as pa

    return pa.table(
        {
            "feature": pa.array(list(train.feature_names)),
            "gain": pa.array(fitted.importance("gain")),
            "split": pa.array(fitted.importance("split")),
        }
    )


def write_table(path: Path, table: pa.Table) -> None:
    """Write a table as the folders of runs keep it."""
    import pyarrow.parquet as parquet

    # Scores are all but incompressible, and reading them back plainly is six times as fast.
    packed = [name for name in table.column_names if name != "score"]
    compression = {name: "SNAPPY" if name in packed else "NONE" for name in table.column_names}
    parquet.write_table(table, path, use_dictionary=packed, compression=compression)
