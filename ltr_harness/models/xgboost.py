"""Gradient boosted rankers trained by XGBoost, in one process or across the workers of a cluster."""

import json
import re
from collections.abc import Sequence
from functools import cached_property, partial
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from packaging.version import Version
from pydantic import Field

from ltr_harness.boosting.watching import one_per_row
from ltr_harness.data.dataset import RankingDataset
from ltr_harness.errors import DataError, Problem
from ltr_harness.models import tree_model as adapters
from ltr_harness.models import xgboost_parameters as parameters
from ltr_harness.models.boosted import DataParallelRanker
from ltr_harness.models.dask import Session, SharedStopping, WorkerArrays
from ltr_harness.models.objectives import MetricObjectiveConfig, Optimised
from ltr_harness.models.ranker import Training, TrainingFacts, model_file
from ltr_harness.models.xgboost_parameters import plain_message, problems


class XGBoostModel(adapters.TreeModel):
    """A booster of the best round's trees; a score is a float32 margin, of a model of classes the expected grade."""

    FILE: ClassVar[str] = "model.ubj"

    @property
    def n_features(self) -> int:
        return int(self.booster.num_features())

    @cached_property
    def _is_of_classes(self) -> bool:
        learner = json.loads(self.booster.save_config())["learner"]
        return int(learner["learner_model_param"]["num_class"]) > 1

    def _predicted(self, matrix: NDArray[np.float32], rounds: int) -> Any:
        kind = "value" if self._is_of_classes else "margin"
        predicted = self.booster.inplace_predict(matrix, predict_type=kind, iteration_range=(0, rounds))
        return one_per_row(predicted)

    def _shares(self, matrix: NDArray[np.float32]) -> Any:
        import xgboost

        data = xgboost.DMatrix(
            matrix,
            feature_names=self.booster.feature_names,
            feature_types=self.booster.feature_types,
            enable_categorical=True,
        )
        return self.booster.predict(data, pred_contribs=True)

    @property
    def n_leaves(self) -> int:
        return sum(tree.count("leaf=") for tree in self.booster.get_dump())

    def importance(self, kind: adapters.ImportanceKind = "gain") -> NDArray[np.float64]:
        importance_type = "total_gain" if kind == "gain" else "weight"
        named = self.booster.get_score(importance_type=importance_type)
        names = self.booster.feature_names or [f"f{i}" for i in range(self.n_features)]
        return np.array([float(named.get(name, 0.0)) for name in names])

    def save(self, folder: Path) -> str:
        # not `save_model`, which may lose the end of a file on a full disk without a word
        (Path(folder) / self.FILE).write_bytes(self.booster.save_raw("ubj"))
        return self.FILE

    @classmethod
    def load(cls, folder: Path, threads: int | None = None) -> Self:
        import xgboost

        path = model_file(folder, cls.FILE)
        # from 3.1 on the base score is a list, in place of which versions before add 0.5
        is_older = Version(xgboost.__version__) < Version("3.1")
        if is_older and re.search(rb"base_scoreSL.{8}\[", Path(path).read_bytes(), re.DOTALL):
            found = f"is of XGBoost 3.1 or newer, which XGBoost {xgboost.__version__} misreads"
            raise DataError.at(path, found, "XGBoost 3.1 or newer", "pip install 'xgboost>=3.1'")
        try:
            booster = xgboost.Booster({"nthread": threads} if threads else None, model_file=path)
        except xgboost.core.XGBoostError as problem:
            raise DataError(f"{path}: XGBoost cannot read it: {plain_message(str(problem))}") from problem
        return cls(booster=booster, best_round=booster.num_boosted_rounds())


class XGBoostRanker(DataParallelRanker):
    """XGBoost's rank:ndcg, rank:pairwise, or rank:map; rank_xendcg; any metric; its pointwise objectives or McRank."""

    packages = ("xgboost",)
    takes_sparse = True
    library = "xgboost"
    objectives = parameters.OBJECTIVES
    trained = XGBoostModel
    parameters: ClassVar[ModuleType] = parameters

    objective: str | MetricObjectiveConfig = Field(
        "rank:ndcg",
        description="rank:ndcg, rank:pairwise, rank:map or rank_xendcg; pointwise, such as reg:squarederror or "
        "binary:logistic; multi:softprob (McRank: the expected grade); {metric: err@10, …}: any metric; primary: the "
        "one that decides.",
    )
    later_fields: ClassVar[tuple[str, ...]] = ("data_parallel",)  # `relevant` was always there

    def library_params(self, names: Sequence[str] | None = None) -> dict[str, Any]:
        params = super().library_params(names)
        return {**params, "lambdarank_unbiased": True} if self.position_bias else params

    def params_problems(self, params: dict[str, Any], facts: TrainingFacts | None) -> list[Problem]:
        listed = []
        if self.position_bias and self.loss not in parameters.LAMBDA:
            del params["lambdarank_unbiased"]
        if self.position_bias and "lambdarank_unbiased" in self.params:
            found = "cannot be combined with position_bias"
            listed.append(Problem("params.lambdarank_unbiased", found, "one of them"))
        besides = {"feature_types": True} if self.has_categories(facts) else {}
        return listed + problems(self.loss, params, facts, besides)

    def optimised(self) -> Optimised | None:
        if self.loss not in parameters.LAMBDA:
            return super().optimised()
        given = parameters.complete(self.loss, parameters.canonical(self.library_params()), seed=0, threads=1)
        gain = None
        if self.loss == "rank:ndcg":
            gain = "exp" if adapters.is_on(given["ndcg_exp_gain"]) else "linear"
        all_pairs = given["lambdarank_pair_method"] == "mean"
        depth = None if all_pairs else int(adapters.as_number(given[parameters.PAIRS], 32))
        return Optimised(f"params.{parameters.PAIRS}", depth, gain)

    @property
    def weighs_rows(self) -> bool:
        return self.objective in parameters.POINTWISE

    def selection(self) -> tuple[Any, ...]:
        return (*super().selection(), self.weighs_rows)

    def _library(self) -> tuple[str, Any, tuple[type[Exception], ...]]:
        from xgboost.core import _LIB, XGBoostError

        return "XGBoost", _LIB, (XGBoostError, ValueError, TypeError, AttributeError)

    def _train(self, training: Training, handed: dict[str, Any], rounds: int) -> adapters.TrainedBooster:
        import xgboost

        from ltr_harness.boosting.xgboost import LastBias, Watch

        key = (self.selection(), self._needs_names(handed), parameters.binning(handed))
        train, valid = adapters.share_binned_data(
            "xgboost", training, key, lambda: self._binned(training, handed)
        )
        watch = self.watch(Watch, training, valid)
        objective = self._objective(training)
        bias = LastBias() if handed.get("lambdarank_unbiased") else None
        booster = xgboost.train(
            parameters.for_library(handed),
            train,
            rounds,
            obj=objective,
            xgb_model=None if self.init_model is None else self.init_model_file(),
            callbacks=[callback for callback in (objective, bias, watch) if callback is not None],
            verbose_eval=False,
        )
        learned = adapters.learned_bias("ti+, tj-", *bias.learned) if bias else {}
        return adapters.TrainedBooster(booster, watch.history if watch else [], learned=learned)

    def _train_across(self, training: Training, handed: dict[str, Any], data: WorkerArrays) -> Any:
        import dask.array
        from xgboost import dask as across

        from ltr_harness.boosting.xgboost import AfterEachRound

        fields: dict[str, Any] = {"qid": data.queries}
        if weights := self._feature_weights(training.train):
            fields["feature_weights"] = dask.array.from_array(np.asarray(weights))
        rows = (data.client, data.features, data.labels)
        if handed["tree_method"] == "hist":
            bins = handed.get("max_bin", parameters.DEFAULT_MAX_BIN)
            matrix = across.DaskQuantileDMatrix(*rows, max_bin=bins, **fields)
        else:
            matrix = across.DaskDMatrix(*rows, **fields)
        trained = across.train(
            data.client,
            parameters.for_library(handed),
            matrix,
            data.stopping.max_rounds,
            obj=self._objective(training),
            callbacks=[AfterEachRound(partial(_is_over, data.stopping))],
            verbose_eval=False,
        )
        return trained["booster"]

    def _model(self, trained: adapters.TrainedBooster, training: Training) -> XGBoostModel:
        booster = trained.booster[: trained.best_round] if trained.best_round else trained.booster
        booster.feature_names = adapters.safe_feature_names(training.train.feature_names)
        return XGBoostModel(booster=booster, best_round=booster.num_boosted_rounds())

    def _objective(self, training: Training) -> Any:
        """Return the function of the gradients of an objective that is not XGBoost's own; None for those that are."""
        from ltr_harness.boosting.xgboost_metrics import XENDCG, XGBoostObjective

        if self.objective == parameters.XENDCG:
            return XENDCG(seed=training.seed)
        return self.gradients(XGBoostObjective, training)

    def across_limits(self, facts: TrainingFacts | None) -> list[tuple[str, bool, str]]:
        weighted = facts is not None and facts.has_weights
        coded = bool(self.categorical or (facts is not None and facts.categories))
        draws, same_numbers = (
            self.objective == parameters.XENDCG,
            "every worker would draw the same random numbers",
        )
        return [
            *super().across_limits(facts),
            ("the objective rank_xendcg", draws, f"{same_numbers}; LightGBM's works"),
            ("query weights", weighted, "xgboost.dask takes none; LightGBM's does"),
            ("categorical", coded, "xgboost.dask binds them to data frames; LightGBM's works"),
        ]

    def _binned(self, training: Training, handed: dict[str, Any]) -> tuple[Any, Any]:
        import xgboost

        from ltr_harness.models.xgboost_matrices import plain_array, quantile_matrix

        split = self.prepared(training.train)
        if self.position_bias:  # XGBoost takes a row's place within its query for its position
            split = adapters.by_position(split)
        fields = self._fields(split, handed)
        if weights := self._feature_weights(split):
            fields["feature_weights"] = weights
        if handed["tree_method"] == "hist":  # binned at once: the same trees, an eighth of the memory
            bins = handed.get("max_bin", parameters.DEFAULT_MAX_BIN)
            train = quantile_matrix(split.features, bins, fields)
        else:
            train = xgboost.DMatrix(plain_array(split.features), **fields)
        if training.valid is None:
            return train, None
        # a plain DMatrix: predictions on a quantile matrix are several times slower
        valid_features = plain_array(training.valid.features)
        return train, xgboost.DMatrix(valid_features, **self._fields(training.valid, handed))

    def _feature_weights(self, split: RankingDataset) -> list[float] | None:
        """0 for features that are left out: they would be drawn otherwise, and the draw be wasted."""
        left_out = set(self.left_out(split.feature_names))
        return [float(name not in left_out) for name in split.feature_names] if left_out else None

    def _fields(self, split: RankingDataset, handed: dict[str, Any]) -> dict[str, Any]:
        fields: dict[str, Any] = {"label": split.labels, "nthread": handed["nthread"]}
        if self._needs_names(handed):
            fields["feature_names"] = adapters.safe_feature_names(split.feature_names)
        if self.weighs_rows:  # XGBoost weighs queries, and rows where there are none
            fields["weight"] = split.weights_of_rows()
        else:
            with_rows, weights = split.groups.has_rows, split.weights_of_queries()
            fields["group"] = split.groups.sizes[with_rows]  # never query ids: XGBoost cuts them to 32 bits
            fields["weight"] = None if weights is None else weights[with_rows]
        if columns := set(self.categorical_columns(split)):
            kinds = ["float" for _ in range(split.n_features)]
            for column in columns:
                kinds[column] = "c"
            fields |= {"feature_types": kinds, "enable_categorical": True}
        return fields

    def _needs_names(self, handed: dict[str, Any]) -> bool:
        """Tell whether training needs the features' names: copying them each round costs XGBoost a small tree."""
        constrained = {"monotone_constraints", "interaction_constraints"} & handed.keys()
        return self.init_model is not None or bool(constrained)


def _is_over(stopping: SharedStopping, model: Any, rounds: int) -> bool:
    """Tell whether training ends with this round, on each worker."""

    def score(session: Session) -> NDArray[np.float32]:
        import xgboost

        if session.matrix is None:
            session.matrix = xgboost.DMatrix(np.asarray(session.valid.features))
        return np.asarray(model.predict(session.matrix, output_margin=True, validate_features=False))

    return stopping.rounds_to_keep(rounds, rounds, score) is not None
