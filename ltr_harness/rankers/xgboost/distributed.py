"""XGBoost's model across the workers of a Dask cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xgboost
from numpy.typing import NDArray

from ltr_harness.rankers.cluster.coordinator import Referee, Together
from ltr_harness.rankers.cluster.parts import Parts
from ltr_harness.rankers.xgboost.parameters import DEFAULT_MAX_BIN


def train(
    data: Parts,
    together: Together,
    handed: Mapping[str, Any],
    feature_weights: Sequence[float] | None,
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
        together.max_rounds,
        callbacks=[_Callback(together)],
        verbose_eval=False,
    )
    return trained["booster"]


class _Callback(xgboost.callback.TrainingCallback):  # type: ignore[misc]  # untyped base
    def __init__(self, together: Together) -> None:
        super().__init__()
        self._together = together

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        rounds = epoch + 1

        def score(referee: Referee) -> NDArray[np.float32]:
            if referee.matrix is None:
                referee.matrix = xgboost.DMatrix(referee.valid.features)
            scores: NDArray[np.float32] = model.predict(
                referee.matrix, output_margin=True, validate_features=False
            )
            return scores

        return self._together.verdict(rounds, rounds, score) is not None
