"""Gradient boosted rankers trained by XGBoost."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field

from ltr_harness.dataset import RankingDataset
from ltr_harness.errors import DataError, Problem
from ltr_harness.rankers import xgboost_parameters as parameters
from ltr_harness.rankers.feature_names import safe_feature_names
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
from ltr_harness.rankers.xgboost_check import problems, spoken


class XGBoostRanker(Ranker):
    """XGBoost's rank:ndcg, rank:pairwise, or rank:map with an explicit threshold."""

    packages: ClassVar[tuple[str, ...]] = ("xgboost",)

    objective: str = Field("rank:ndcg", description="rank:ndcg, rank:pairwise or rank:map.")
    params: dict[str, Any] = Field(default_factory=dict, description="XGBoost's own parameters, untouched.")
    relevant: int | None = Field(
        None,
        description="For rank:map, which knows only relevant and not: the lowest label that counts as relevant in "
        "training. Evaluation keeps the grades.",
    )

    def check(self, facts: Facts | None = None) -> list[Problem]:
        return problems(self.objective, self.params, self.relevant, facts)

    @property
    def seed_matters(self) -> bool:
        return parameters.seed_matters(self.params)

    def fit(self, training: Training) -> XGBoostModel:
        import xgboost

        from ltr_harness.boosting.xgboost import Watch

        self.require(training)
        handed = parameters.complete(self.objective, self.params, training.seed, training.threads)
        rounds = training.max_rounds
        with failures_of(
            "XGBoost", xgboost.core.XGBoostError, ValueError, TypeError, AttributeError, say=spoken
        ):
            train = self._training_matrix(training.train, handed)
            watch = None
            if training.valid is not None and training.watched:
                rule = training.stopping
                # a plain DMatrix: predictions on a quantile matrix are several times slower
                valid = xgboost.DMatrix(
                    training.valid.features, **_fields(training.valid, training.valid.labels, handed)
                )
                watch = Watch(
                    *training.watched,
                    data={VALID: valid},
                    patience=None if rule is None else rule.patience,
                    min_delta=0.0 if rule is None else rule.min_delta,
                    every=1 if rule is None else rule.every,
                    judgments={VALID: training.valid.judgments},
                    on_round=training.report,
                )
            booster = xgboost.train(
                handed, train, rounds, callbacks=[watch] if watch else None, verbose_eval=False
            )
        kept = booster.num_boosted_rounds()
        trained = watch.history[-1].round if watch else kept
        n_splits = int(sum(booster.get_score(importance_type="weight").values()))
        return XGBoostModel(
            booster=booster,
            params={**handed, **({} if self.relevant is None else {"relevant": self.relevant})},
            best_round=kept,
            rounds_trained=trained,
            history=watch.history if watch else [],
            notes=tuple(training_notes(n_splits, kept, trained, rounds, training.stopping)),
        )

    def _training_matrix(self, train: RankingDataset, handed: dict[str, Any]) -> Any:
        import xgboost

        labels = train.labels if self.relevant is None else (train.labels >= self.relevant).astype(np.float64)
        fields = _fields(train, labels, handed)
        if handed["tree_method"] == "hist":  # binned at once: the same trees, an eighth of the memory
            bins = handed.get("max_bin", parameters.DEFAULT_MAX_BIN)
            return xgboost.QuantileDMatrix(train.features, max_bin=bins, **fields)
        return xgboost.DMatrix(train.features, **fields)

    @classmethod
    def load(cls, folder: Path, threads: int | None = None) -> XGBoostModel:
        return XGBoostModel.load(folder, threads)


@dataclass(frozen=True, eq=False, kw_only=True)
class XGBoostModel(FittedModel):
    """A booster that consists of the best round's trees; scores are margins, float32 inside XGBoost."""

    FILE: ClassVar[str] = "model.ubj"
    booster: Any

    def score(self, features: ArrayLike) -> NDArray[np.float64]:
        matrix = as_matrix(features, self.booster.num_features())
        if not len(matrix):
            return np.empty(0)
        return np.asarray(self.booster.inplace_predict(matrix, predict_type="margin"), dtype=np.float64)

    def save(self, folder: Path) -> str:
        self.booster.save_model(Path(folder) / self.FILE)
        return self.FILE

    @classmethod
    def load(cls, folder: Path, threads: int | None = None) -> Self:
        import xgboost

        path = model_file(folder, cls.FILE)
        try:
            booster = xgboost.Booster({"nthread": threads} if threads else None, model_file=path)
        except xgboost.core.XGBoostError as problem:
            raise DataError(f"{path}: XGBoost cannot read it: {spoken(str(problem))}") from problem
        return cls(booster=booster, best_round=booster.num_boosted_rounds())


def _fields(split: RankingDataset, labels: NDArray[np.float64], handed: dict[str, Any]) -> dict[str, Any]:
    return {
        "label": labels,
        "group": split.groups.sizes,  # never query ids: XGBoost cuts them to 32 bits
        "weight": split.judgments.query_weights,  # XGBoost weighs queries
        "feature_names": safe_feature_names(split.feature_names),
        "nthread": handed["nthread"],
    }
