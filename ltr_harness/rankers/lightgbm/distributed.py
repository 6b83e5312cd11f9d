"""LightGBM's model across the workers of a Dask cluster."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import lightgbm
import numpy as np
from lightgbm.callback import EarlyStopException
from numpy.typing import NDArray

from ltr_harness.rankers.cluster.coordinator import Coordinator, SharedStopping
from ltr_harness.rankers.cluster.parts import Parts
from ltr_harness.rankers.feature_names import safe_feature_names

_NETWORK = re.compile(r"^\[(machines|local_listen_port): .*\]\n", re.MULTILINE)


def train(
    data: Parts,
    stopping: SharedStopping,
    handed: Mapping[str, Any],
    names: Sequence[str],
    categorical: Sequence[int],
) -> Any:
    """The booster, cut at the best round where training was stopped.

    LightGBM's own early stopping and its `eval_set` are not used: both look at one worker's rows.
    """
    from lightgbm.dask import DaskLGBMRanker

    threads = handed["num_threads"]
    ranker = DaskLGBMRanker(
        client=_InOrder(data.client),
        n_estimators=stopping.max_rounds,
        **{name: value for name, value in handed.items() if name != "num_threads"},
    )
    with (
        warnings.catch_warnings()
    ):  # it takes each worker's own number of threads, which is ours, and says so
        warnings.filterwarnings("ignore", "Parameter n_jobs will be ignored")
        ranker.fit(
            data.features,
            data.labels,
            sample_weight=data.weights,
            group=data.sizes,
            feature_name=safe_feature_names(tuple(names)),
            categorical_feature=list(categorical) or "auto",
            callbacks=[_Callback(stopping, threads)],
        )
    # as read from its file, which must not depend on the ports that happened to be free
    return lightgbm.Booster(model_str=_NETWORK.sub("", ranker.booster_.model_to_string()))


class _InOrder:
    """A client that names workers in the order of their parts.

    LightGBM numbers its machines in this order, and each feature is binned on the rows of one machine: in the order
    of a set, which is Dask's own, every training would give another model.
    """

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def who_has(self, futures: Sequence[Any]) -> dict[str, Any]:
        holders = self._client.who_has(futures)
        return {future.key: holders[future.key] for future in futures}


@dataclass(frozen=True)
class _Callback:
    stopping: SharedStopping
    threads: int
    order = 30
    before_iteration = False

    def __call__(self, env: Any) -> None:
        rounds = max(1, int(env.model.current_iteration()))

        def score(coordinator: Coordinator) -> NDArray[np.float64]:
            if rounds > coordinator.scored:  # a step that finds no split adds no tree
                coordinator.scores += env.model.predict(
                    coordinator.valid.features,
                    raw_score=True,
                    start_iteration=coordinator.scored,
                    num_iteration=rounds - coordinator.scored,
                    num_threads=self.threads,
                )
                coordinator.scored = rounds
            return coordinator.scores

        keep = self.stopping.rounds_to_keep(env.iteration + 1, rounds, score)
        if keep is not None:
            raise EarlyStopException(keep - 1, [])
