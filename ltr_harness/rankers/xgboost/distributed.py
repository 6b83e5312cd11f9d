"""XGBoost's model across the workers of a Dask cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xgboost
from numpy.typing import NDArray

from ltr_harness.rankers.cluster.coordinator import Coordinator, SharedStopping
from ltr_harness.rankers.cluster.parts import Parts
from ltr_harness.rankers.xgboost.parameters import DEFAULT_MAX_BIN


def train(
    data: Parts,
    stopping: SharedStopping,
    handed: Mapping[str, Any],
    feature_weights: Sequence[float] | None,
    objective: Any = None,
) -> Any:
    """The booster, with all rounds that were trained."""
    import dask.array
    from xgboost import dask as across

    fields: dict[str, Any] = {"qid": data.queries}
    if feature_weights is not None:
        fields["feature_weights"] = dask.array.from_array(np.asarray(feature_weights))
    if handed["tree_method"] == "hist":
        bins = handed.get("max_bin", DEFAULT_MAX_BIN)
        matrix = across.DaskQuantileDMatrix(data.client, data.features, data.labels, max_bin=bins, **fields)
    else:
        matrix = across.DaskDMatrix(data.client, data.features, data.labels, **fields)
    trained = across.train(
        data.client,
        dict(handed),
        matrix,
        stopping.max_rounds,
        obj=objective,
        callbacks=[_Callback(stopping)],
        verbose_eval=False,
    )
    return trained["booster"]


class _Callback(xgboost.callback.TrainingCallback):  # type: ignore[misc]  # untyped base
    def __init__(self, stopping: SharedStopping) -> None:
        super().__init__()
        self._stopping = stopping

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        rounds = epoch + 1

        def score(coordinator: Coordinator) -> NDArray[np.float32]:
            if coordinator.matrix is None:
                coordinator.matrix = xgboost.DMatrix(coordinator.valid.features)
            scores: NDArray[np.float32] = model.predict(
                coordinator.matrix, output_margin=True, validate_features=False
            )
            return scores

        return self._stopping.rounds_to_keep(rounds, rounds, score) is not None
