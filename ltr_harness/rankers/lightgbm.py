"""Gradient boosted rankers trained by LightGBM."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field

from ltr_harness.dataset import RankingDataset
from ltr_harness.errors import DataError, Problem
from ltr_harness.rankers import lightgbm_parameters as parameters
from ltr_harness.rankers.feature_names import safe_feature_names
from ltr_harness.rankers.lightgbm_check import problems, spoken
from ltr_harness.rankers.notes import training_notes
from ltr_harness.rankers.ranker import (
    VALID,
    Facts,
    FittedModel,
    Ranker,
    Training,
    as_matrix,
    failures_of,
    model_file,
)


class LightGBMRanker(Ranker):
    """LightGBM's lambdarank or rank_xendcg, or a pointwise regression on the labels for reference."""

    packages: ClassVar[tuple[str, ...]] = ("lightgbm",)

    objective: str = Field("lambdarank", description="lambdarank, rank_xendcg or regression.")
    params: dict[str, Any] = Field(default_factory=dict, description="LightGBM's own parameters, untouched.")

    def check(self, facts: Facts | None = None) -> list[Problem]:
        return problems(self.objective, self.params, facts)

    @property
    def seed_matters(self) -> bool:
        return parameters.seed_matters(self.objective, self.params)

    def fit(self, training: Training) -> LightGBMModel:
        import lightgbm

        from ltr_harness.boosting.lightgbm import Watch

        self.require(training)
        handed = parameters.complete(self.objective, self.params, training.seed, training.threads)
        rounds = training.max_rounds
        with failures_of("LightGBM", lightgbm.basic.LightGBMError, ValueError, TypeError, say=spoken):
            train = _dataset(training.train, handed)
            watch = None
            if training.valid is not None and training.watched:
                rule = training.stopping
                watch = Watch(
                    *training.watched,
                    data={VALID: _dataset(training.valid, handed, reference=train)},
                    patience=None if rule is None else rule.patience,
                    min_delta=0.0 if rule is None else rule.min_delta,
                    every=1 if rule is None else rule.every,
                    judgments={VALID: training.valid.judgments},
                    on_round=training.report,
                )
            booster = lightgbm.train(handed, train, rounds, callbacks=[watch] if watch else None)
        history = watch.history if watch else []
        kept = booster.num_trees()
        trained = history[-1].round if history else kept
        return LightGBMModel(
            booster=booster,
            threads=training.threads,
            params=handed,
            best_round=kept,
            rounds_trained=trained,
            history=history,
            notes=(
                *parameters.notes(self.params, training.threads),
                *training_notes(
                    int(booster.feature_importance("split").sum()), kept, trained, rounds, training.stopping
                ),
            ),
        )

    @classmethod
    def load(cls, folder: Path, threads: int | None = None) -> LightGBMModel:
        return LightGBMModel.load(folder, threads)


@dataclass(frozen=True, eq=False, kw_only=True)
class LightGBMModel(FittedModel):
    """A booster that consists of the best round's trees; scores are raw, not probabilities."""

    FILE: ClassVar[str] = "model.txt"
    booster: Any
    threads: int | None = None

    def score(self, features: ArrayLike) -> NDArray[np.float64]:
        matrix = as_matrix(features, self.booster.num_feature())
        if not len(matrix):
            return np.empty(0)
        scores = self.booster.predict(matrix, raw_score=True, num_threads=self.threads or 0)
        return np.asarray(scores, dtype=np.float64)

    def save(self, folder: Path) -> str:
        self.booster.save_model(Path(folder) / self.FILE)
        return self.FILE

    @classmethod
    def load(cls, folder: Path, threads: int | None = None) -> Self:
        import lightgbm

        path = model_file(folder, cls.FILE)
        try:
            booster = lightgbm.Booster(model_file=path)
        except lightgbm.basic.LightGBMError as problem:
            raise DataError(f"{path}: LightGBM cannot read it: {spoken(str(problem))}") from problem
        return cls(booster=booster, threads=threads, best_round=booster.num_trees())


def _dataset(split: RankingDataset, handed: dict[str, Any], reference: Any = None) -> Any:
    import lightgbm

    weights = split.judgments.query_weights
    return lightgbm.Dataset(
        split.features,
        label=split.labels,
        group=split.groups.sizes,
        weight=None if weights is None else np.repeat(weights, split.groups.sizes),  # LightGBM weighs rows
        feature_name=safe_feature_names(split.feature_names),
        reference=reference,
        params=handed,
    )
