"""Gradient boosted rankers trained by LightGBM, in one process or across the workers of a cluster."""

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass
from functools import partial
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ltr_harness.boosting.watching import one_per_row
from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.features import SparseFeatures
from ltr_harness.errors import Caution, DataError, Problem
from ltr_harness.models import lightgbm_parameters as parameters
from ltr_harness.models import tree_model as adapters
from ltr_harness.models.boosted import DataParallelRanker
from ltr_harness.models.dask import Session, SharedStopping, WorkerArrays
from ltr_harness.models.lightgbm_parameters import plain_message, problems
from ltr_harness.models.objectives import METRIC, MetricObjectiveConfig, Optimised
from ltr_harness.models.ranker import Training, TrainingFacts, model_file

_ROW = re.compile(r"^\[LightGBM\] \[Debug\]\s+(\d+)\s+(-?[\d.]+(?:e[+-]?\d+)?|-?nan|-?inf)\s*$")


class _Listener:
    """Keeps the last bias said of each position."""

    def __init__(self) -> None:
        self.biases: dict[int, float] = {}

    def info(self, message: str) -> None:
        for line in message.splitlines():
            if row := _ROW.match(line):
                self.biases[int(row[1])] = float(row[2])

    def warning(self, message: str) -> None:
        pass  # LightGBM's warnings are not shown elsewhere either: what is wrong is found before training


@contextmanager
def position_biases(is_learned: bool) -> Iterator[dict[int, float]]:
    """Position to its bias after the last round, with verbosity 2; the bias is left out when the model scores."""
    if not is_learned:
        yield {}
        return
    import lightgbm
    from lightgbm import basic

    listener = _Listener()
    before = (basic._LOGGER, basic._INFO_METHOD_NAME, basic._WARNING_METHOD_NAME)
    lightgbm.register_logger(listener)
    try:
        yield listener.biases
    finally:
        basic._LOGGER, basic._INFO_METHOD_NAME, basic._WARNING_METHOD_NAME = before


_THREADS = re.compile(r"^\[num_threads: \d+\]$", re.MULTILINE)
_LEAVES = re.compile(r"^num_leaves=(\d+)$", re.MULTILINE)


class LightGBMModel(adapters.TreeModel):
    """A booster that consists of the best round's trees; scores are raw, of a model of classes the expected grade."""

    FILE: ClassVar[str] = "model.txt"

    @property
    def n_features(self) -> int:
        return int(self.booster.num_feature())

    @property
    def _is_of_classes(self) -> bool:
        return int(self.booster.num_model_per_iteration()) > 1

    def _predicted(self, matrix: NDArray[np.float32], rounds: int) -> Any:
        scores = self.booster.predict(
            matrix, raw_score=not self._is_of_classes, num_iteration=rounds, num_threads=self.threads or 0
        )
        return one_per_row(scores)

    def _shares(self, matrix: NDArray[np.float32]) -> Any:
        return self.booster.predict(matrix, pred_contrib=True, num_threads=self.threads or 0)

    @property
    def n_leaves(self) -> int:
        # one line for each tree; `dump_model` says the same as JSON of every node
        return sum(map(int, _LEAVES.findall(self.booster.model_to_string())))

    def importance(self, kind: adapters.ImportanceKind = "gain") -> NDArray[np.float64]:
        return np.asarray(self.booster.feature_importance(kind), dtype=np.float64)

    def save(self, folder: Path) -> str:
        # the file lists all parameters; the threads are the only one of them that may differ between equal models
        text = _THREADS.sub("[num_threads: 0]", self.booster.model_to_string())
        (Path(folder) / self.FILE).write_text(text, encoding="utf-8", newline="\n")
        return self.FILE

    @classmethod
    def load(cls, folder: Path, threads: int | None = None) -> Self:
        import lightgbm

        path = model_file(folder, cls.FILE)
        # 4.3 prints the parameters that later versions write. All threads share the stream: two that replace it at once
        # can leave it replaced.
        silence = redirect_stdout(StringIO()) if lightgbm.__version__.startswith("4.3.") else nullcontext()
        try:
            with silence:
                booster = lightgbm.Booster(model_file=path)
        except lightgbm.basic.LightGBMError as problem:
            raise DataError(f"{path}: LightGBM cannot read it: {plain_message(str(problem))}") from problem
        return cls(booster=booster, threads=threads, best_round=booster.current_iteration())


class LightGBMRanker(DataParallelRanker):
    """LightGBM's lambdarank or rank_xendcg, any metric, its pointwise objectives or McRank."""

    packages = ("lightgbm",)
    takes_sparse = True
    library = "lightgbm"
    objectives = parameters.OBJECTIVES
    trained = LightGBMModel
    parameters: ClassVar[ModuleType] = parameters

    objective: str | MetricObjectiveConfig = Field(
        "lambdarank",
        description="lambdarank or rank_xendcg; pointwise, such as regression or binary; multiclass (McRank: the "
        "expected grade); {metric: err@10, …}: any metric; primary: the one that decides.",
    )

    def params_problems(self, params: dict[str, Any], facts: TrainingFacts | None) -> list[Problem]:
        is_present = {"categorical_feature": self.has_categories(facts), "position": self.position_bias}
        return problems(self.loss, params, facts, {name: True for name in is_present if is_present[name]})

    @property
    def weighs_rows(self) -> bool:
        return self.loss != METRIC

    @property
    def threads_matter(self) -> bool:
        return bool(self.cautions(threads=2))

    def optimised(self) -> Optimised | None:
        if self.objective != "lambdarank":
            return super().optimised()
        given = parameters.OBJECTIVES["lambdarank"] | parameters.canonical(self.library_params())
        depth = int(adapters.as_number(given[parameters.TRUNCATION], 30))
        return Optimised(f"params.{parameters.TRUNCATION}", depth, parameters.gain_of(given))

    def cautions(self, threads: int) -> list[Caution]:
        return parameters.thread_cautions(self.library_params(), threads)

    def _library(self) -> tuple[str, Any, tuple[type[Exception], ...]]:
        from lightgbm.basic import _LIB, LightGBMError

        return "LightGBM", _LIB, (LightGBMError, ValueError, TypeError)

    def _train(self, training: Training, handed: dict[str, Any], rounds: int) -> adapters.TrainedBooster:
        import lightgbm

        from ltr_harness.boosting.lightgbm import Watch

        with position_biases(self.position_bias) as biases:
            key = (self.selection(), parameters.binning(handed))
            bin_both = partial(self._binned, training, handed)
            if self.init_model is None:
                train, valid = adapters.share_binned_data("lightgbm", training, key, bin_both)
            else:
                train, valid = bin_both()  # its scores go into the Dataset
            watch = self.watch(Watch, training, valid)
            params = self._for_training(handed, training)
            if self.position_bias:
                params = params | {"verbosity": 2}  # at which LightGBM prints its biases
            booster = lightgbm.train(
                params,
                train,
                rounds,
                init_model=None if self.init_model is None else self.init_model_file(),
                callbacks=[watch] if watch else None,
            )
        learned = adapters.learned_bias("bias_factor", biases) if biases else {}
        history = watch.history if watch else []
        return adapters.TrainedBooster(
            booster, history, learned=learned, cautions=self.cautions(training.threads)
        )

    def _train_across(self, training: Training, handed: dict[str, Any], data: WorkerArrays) -> Any:
        """The booster, cut at the best round without LightGBM's early stopping, which looks at one worker's rows."""
        import lightgbm
        from lightgbm.dask import DaskLGBMRanker

        params = parameters.canonical(self._for_training(handed, training))
        threads = params.pop("num_threads")
        ranker = DaskLGBMRanker(client=_InOrder(data.client), n_estimators=data.stopping.max_rounds, **params)
        # it takes each worker's own number of threads, which is ours, and says so
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Parameter n_jobs will be ignored")
            ranker.fit(
                data.features,
                data.labels,
                sample_weight=data.weights,
                group=data.sizes,
                feature_name=adapters.safe_feature_names(training.train.feature_names),
                categorical_feature=self.categorical_columns(training.train) or "auto",
                callbacks=[_Callback(data.stopping, threads)],
            )
        # as read from its file, which must not depend on the ports that happened to be free
        return lightgbm.Booster(model_str=_NETWORK.sub("", ranker.booster_.model_to_string()))

    def _model(self, trained: adapters.TrainedBooster, training: Training) -> LightGBMModel:
        best = trained.booster
        return LightGBMModel(booster=best, threads=training.threads, best_round=best.current_iteration())

    def _for_training(self, handed: dict[str, Any], training: Training) -> dict[str, Any]:
        """The parameters with the metric to optimise, whose gradients LightGBM asks for."""
        from ltr_harness.boosting.lightgbm_metrics import LightGBMObjective

        gradients = self.gradients(LightGBMObjective, training)
        return {**handed, "objective": gradients} if gradients else handed

    def _binned(self, training: Training, handed: dict[str, Any]) -> tuple[Any, Any]:
        split = self.prepared(training.train)
        columns = self.categorical_columns(split)
        positions = split.positions if self.position_bias else None
        train = _dataset(split, handed, categorical_feature=columns or "auto", position=positions)
        if training.valid is None:
            return train, None
        # the rows are scored in every round where LightGBM hands over no raw scores
        return train, _dataset(training.valid, handed, reference=train, free_raw_data=False)


def _dataset(split: RankingDataset, handed: dict[str, Any], **more: Any) -> Any:
    import lightgbm

    features = split.features
    return lightgbm.Dataset(
        features.csr if isinstance(features, SparseFeatures) else features,
        label=split.labels,
        group=split.groups.sizes[split.groups.has_rows],
        weight=split.weights_of_rows(),
        feature_name=adapters.safe_feature_names(split.feature_names),
        params=handed,
        **more,
    )


_NETWORK = re.compile(r"^\[(machines|local_listen_port): .*\]\n", re.MULTILINE)


class _InOrder:
    """A client that names workers in their parts' order, by which LightGBM bins features: Dask's own order varies."""

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
        from lightgbm.callback import EarlyStopException

        rounds = max(1, int(env.model.current_iteration()))

        def score(session: Session) -> NDArray[np.float64]:
            if rounds > session.scored:  # a step that finds no split adds no tree
                session.scores += env.model.predict(
                    np.asarray(session.valid.features),
                    raw_score=True,
                    start_iteration=session.scored,
                    num_iteration=rounds - session.scored,
                    num_threads=self.threads,
                )
                session.scored = rounds
            return session.scores

        keep = self.stopping.rounds_to_keep(env.iteration + 1, rounds, score)
        if keep is not None:
            raise EarlyStopException(keep - 1, [])
