"""Gradient boosted rankers trained by CatBoost."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ltr_harness._util.files import temporary_folder
from ltr_harness._util.stored import DERIVED
from ltr_harness._util.text import count_of
from ltr_harness.boosting.catboost import grades_of, stages
from ltr_harness.boosting.stopping import Stopper
from ltr_harness.boosting.watching import Measured
from ltr_harness.data.dataset import RankingDataset
from ltr_harness.errors import Caution, DataError, Problem, optional_module
from ltr_harness.metrics import bind
from ltr_harness.metrics.core.expected_grade import expected_grade
from ltr_harness.models import objectives as losses
from ltr_harness.models import tree_model as adapters
from ltr_harness.models.boosted import BoostedRanker
from ltr_harness.models.ranker import FittedModel, Training, TrainingFacts, failures_of, model_file

_THREADS = re.compile(r'"thread_count":\d+')


class CatBoostModel(adapters.TreeModel):
    """A CatBoost model cut to its best round; scores are raw, of a model of classes the expected grade."""

    FILE: ClassVar[str] = "model.cbm"

    @property
    def n_features(self) -> int:
        return len(self.booster.feature_names_)

    @property
    def _is_of_classes(self) -> bool:
        return bool(grades_of(self.booster))

    def _predicted(self, matrix: NDArray[np.float32], rounds: int) -> Any:
        kind = "Probability" if self._is_of_classes else "RawFormulaVal"
        predicted = self.booster.predict(
            self._typed(matrix), prediction_type=kind, ntree_end=rounds, thread_count=self.threads or -1
        )
        return expected_grade(predicted, list(self.booster.classes_)) if self._is_of_classes else predicted

    def _shares(self, matrix: NDArray[np.float32]) -> Any:
        pool = library().Pool(self._typed(matrix), cat_features=self.booster.get_cat_feature_indices())
        return self.booster.get_feature_importance(pool, type="ShapValues", thread_count=self.threads or -1)

    @property
    def n_leaves(self) -> int:
        return int(sum(self.booster.get_tree_leaf_counts()))

    @property
    def n_splits(self) -> int:
        counts = self.booster.get_tree_leaf_counts() if self.booster.tree_count_ else []
        return int(np.log2(np.maximum(counts, 1)).sum())

    def importance(self, kind: adapters.ImportanceKind = "gain") -> NDArray[np.float64]:
        if kind == "gain":
            gains = self.booster.get_feature_importance(type="PredictionValuesChange")
            return np.asarray(gains, dtype=np.float64)
        content = as_json(self.booster)
        features_of = _features_of_splits(content["features_info"])
        trees = json.dumps(content.get("oblivious_trees") or content.get("trees") or [])
        splits = re.findall(r'"split_index": (\d+)', trees)  # or levels of symmetric trees
        columns = [column for split in splits for column in features_of[int(split)]]
        return np.bincount(columns, minlength=self.n_features).astype(np.float64)

    def _typed(self, matrix: NDArray[np.float32]) -> Any:
        return typed(matrix, self.booster.get_cat_feature_indices(), self.booster.feature_names_)

    def save(self, folder: Path) -> str:
        metadata = self.booster.get_metadata()
        for name in ("train_finish_time", "model_guid"):  # equal models have equal files
            metadata[name] = ""
        metadata["params"] = _THREADS.sub('"thread_count":0', metadata["params"])
        self.booster.save_model(str(Path(folder) / self.FILE))
        return self.FILE

    @classmethod
    def load(cls, folder: Path, threads: int | None = None) -> Self:
        booster = read_booster(model_file(folder, cls.FILE))
        return cls(booster=booster, threads=threads, best_round=booster.tree_count_)


def _features_of_splits(features: Mapping[str, Any]) -> list[list[int]]:
    """Return the features that each possible split looks at: statistics of several split on each of them."""
    kinds = ("float_features", "categorical_features", "ctrs")
    numeric, categorical, statistics = (features.get(kind) or [] for kind in kinds)
    columns = [[feature["flat_feature_index"]] for feature in numeric for _ in feature.get("borders") or ()]
    columns += [
        [feature["flat_feature_index"]] for feature in categorical for _ in feature.get("values") or ()
    ]
    for statistic in statistics:
        codes = [part["cat_feature_index"] for part in statistic["elements"] if "cat_feature_index" in part]
        combined = sorted({categorical[code]["flat_feature_index"] for code in codes})
        columns += [combined for _ in statistic["borders"]]
    return columns


def _watched(booster: Any, training: Training, first: int) -> tuple[list[Measured], int]:
    """Return the values from this training's first round to where the rule stops, and the best round."""
    metrics, history = training.watched_metrics, list[Measured]()
    if training.valid is None or not metrics:
        return history, booster.tree_count_
    features = typed(
        np.asarray(training.valid.features), booster.get_cat_feature_indices(), booster.feature_names_
    )
    stopper = None if training.stopping is None else Stopper(training.stopping)
    bound = bind(metrics, training.valid.judgments)
    for measured in stages(booster, features, bound, stopper, training.threads, first):
        history += measured
        training.report(measured)
    best_round = booster.tree_count_ if stopper is None else stopper.best_round
    return history, best_round


def read_booster(path: Path) -> Any:
    """A stored model as CatBoost has it."""
    catboost = library()
    booster = catboost.CatBoost()
    try:
        booster.load_model(str(path))
    except catboost.CatBoostError as problem:
        raise DataError(f"{path}: CatBoost cannot read it: {plain_message(str(problem))}") from problem
    return booster


def as_json(booster: Any) -> Any:
    """The model as CatBoost's JSON has it, which alone says every split."""
    with temporary_folder() as folder:
        path = folder / "model.json"
        booster.save_model(str(path), format="json")
        return json.loads(path.read_text(encoding="utf-8"))


def typed(features: NDArray[np.float32], coded: Sequence[int], names: Sequence[str]) -> Any:
    """Features (n_rows, n_features) as CatBoost takes them: codes as integers, missing ones as -1."""
    if not coded:
        return features
    import pandas

    table = pandas.DataFrame(features, columns=list(names))
    for column in coded:
        values = features[:, column]
        table[names[column]] = np.where(np.isnan(values), -1, values).astype(np.int64)
    return table


def plain_message(message: str) -> str:
    """CatBoost's message without its source file and line."""
    place, _, text = message.partition(": ")
    if place.rpartition(":")[2].isdigit():
        message = text
    return " ".join(message.split())


def library() -> Any:
    """The package catboost; MissingExtraError where it is not installed."""
    return optional_module("catboost", "ranker catboost needs the package catboost", "catboost")


OWNED = adapters.set_elsewhere(
    {
        "objective": "loss_function",
        "rounds": "iterations",
        "set it under `seeds:`": "random_seed",
        "threads": "thread_count",
        "set it with the model's `categorical:`": "cat_features",
        "set it with the model's `exclude:`": "ignored_features",
        "metrics": "eval_metric custom_metric",
        "stopping": "od_pval od_wait od_type use_best_model best_model_min_trees early_stopping_rounds",
        "files": "train_dir save_snapshot snapshot_file snapshot_interval allow_writing_files name",
        "harness": "verbose silent logging_level metric_period metadata",
    }
)
_ALIASES = {
    "objective": "loss_function",
    "num_boost_round": "iterations",
    "n_estimators": "iterations",
    "num_trees": "iterations",
    "random_state": "random_seed",
    "eta": "learning_rate",
    "max_depth": "depth",
    "reg_lambda": "l2_leaf_reg",
    "colsample_bylevel": "rsm",
    "max_bin": "border_count",
    "min_child_samples": "min_data_in_leaf",
    "num_leaves": "max_leaves",
}


_RATE_BY_LENGTH = ("RMSE", "Logloss", "MultiClass")
"""Losses whose learning rate follows from the numbers of rounds and rows; of all others it is 0.03."""
_SET_THE_RATE = {"learning_rate", "l2_leaf_reg", "leaf_estimation_iterations", "leaf_estimation_method"}
"""With any of these it is 0.03, or the one that is given."""
_STEPS_BY_LENGTH = {
    *("Logloss", "CrossEntropy", "Poisson", "Expectile", "PairLogit", "PairLogitPairwise", "QuerySoftMax"),
}
"""Losses whose leaves take one step instead of many, where there are less than 200 rounds and features are few."""
_FEW_FEATURES = 20
_OF_FEW_ROWS: Mapping[str, Any] = {"subsample": 1, "boosting_type": "Ordered"}
"""What less than 100 rows, and on a GPU less than 50,000, are trained with; more have other defaults."""


class CatBoostRanker(BoostedRanker):
    """CatBoost's YetiRank, LambdaMart, StochasticRank and others by its own names; needs the extra `catboost`.

    CatBoost's own metrics see no queries, and its early stopping sees its own metrics. So it trains all rounds
    allowed, the rule is applied to the model's stages afterwards, and the best one is kept: what stopping would
    have kept, for the price of the rounds after it. A missing code is a category of its own.
    """

    packages = ("catboost",)
    library = "catboost"
    objectives = losses.CATBOOST
    trained = CatBoostModel
    # random strength, bootstrap and YetiRank's permutations are on unless all are switched off
    seed_matters: ClassVar[bool] = True

    objective: str | losses.MetricObjectiveConfig = Field(
        "YetiRank",
        description="As CatBoost writes it: YetiRank:mode=MRR;top=10, LambdaMart:metric=NDCG, PairLogit, RMSE, "
        "Logloss; {metric: ndcg@10}: its LambdaMart, where that has the metric.",
    )

    @property
    def loss(self) -> str:
        return self.objective.partition(":")[0] if isinstance(self.objective, str) else losses.METRIC

    @property
    def weighs_rows(self) -> bool:
        return self.loss in losses.CATBOOST_POINTWISE

    def optimised(self) -> losses.Optimised | None:
        optimised = super().optimised()
        return None if optimised is None else replace(optimised, depth=None)  # it has no truncation level

    def recorded(self, handed: dict[str, Any]) -> dict[str, Any]:
        # of a metric, the loss function has it
        return super().recorded(handed) if isinstance(self.objective, str) else handed

    def objective_problems(self, facts: TrainingFacts | None) -> list[Problem]:
        if isinstance(self.objective, str):
            found = losses.loss_problems(self.objective, facts)
            return [*found, *losses.value_problems(self.objective, facts)]
        return losses.translation_problems(self.objective, facts) or super().objective_problems(facts)

    @classmethod
    def canonical_name(cls, parameter: str) -> str:
        return _ALIASES.get(parameter, parameter)

    def check(self, facts: TrainingFacts | None = None) -> list[Problem]:
        catboost = library()
        problems = self.field_problems(facts)
        problems += adapters.name_problems(self.params, "CatBoost", _names(catboost), OWNED)
        if self.position_bias:
            found = "is not available with CatBoost"
            problems.append(Problem("position_bias", found, "LightGBM's lambdarank or XGBoost"))
        canonical = {self.canonical_name(name): value for name, value in self.library_params().items()}
        problems += losses.step_problems(self.loss, canonical)
        grown = str(canonical.get("grow_policy", "SymmetricTree"))
        if facts is not None and facts.stopping and grown != "SymmetricTree":
            reason = "CatBoost cuts models of symmetric trees alone, so early stopping cannot go back to the best round"
            cure = "use grow_policy: SymmetricTree, or `stopping: null` and a fixed number of `rounds:`"
            problems.append(Problem("params.grow_policy", f"found {grown}: {reason}", cure=cure))
        if problems:
            return problems
        names = ("a", "b") if facts is None else facts.feature_names
        params = self.library_params(None if facts is None else names)
        if facts is None:
            params.pop("monotone_constraints", None)
        refusal = _refusal(self.loss, self._complete(params, 0, 1), len(names))
        return [] if refusal is None else [Problem("params", f"refused: {refusal}")]

    def fit(self, training: Training) -> CatBoostModel:
        catboost = library()
        self.require(training)
        names, rounds = training.train.feature_names, training.max_rounds
        handed = self._complete(self.library_params(names), training.seed, training.threads)
        if left_out := self.left_out(names):
            handed["ignored_features"] = [names.index(name) for name in left_out]
        coded = self.categorical_columns(training.train)
        self.check_codes(training.train)
        with failures_of("CatBoost", catboost.CatBoostError, ValueError, TypeError, say=plain_message):
            key = (self.categorical, self.relevant, self.weighs_rows)
            rows = self.with_targets(training.train)
            pool = adapters.share_binned_data("catboost", training, key, lambda: self._pool(rows, coded))
            booster = catboost.CatBoost({**handed, "iterations": rounds})
            before = None if self.init_model is None else read_booster(self.init_model_file())
            booster.fit(pool, init_model=before)
            n_rounds = booster.tree_count_
            first = 0 if before is None else before.tree_count_
            history, best = _watched(booster, training, first)
            if best < n_rounds:
                booster.shrink(ntree_end=best)
        model = CatBoostModel(booster=booster, threads=training.threads, best_round=best)
        derived = self._derived(handed, booster.get_all_params(), training.train.n_features)
        trained = adapters.TrainedBooster(
            booster,
            history,
            n_rounds=n_rounds,
            learned={DERIVED: derived} if derived else {},
            cautions=_derived_cautions(derived, n_rounds, training.train.n_rows),
        )
        return self.described(model, training, handed, trained)

    def derived_params(self, params: Mapping[str, Any], load: Callable[[], FittedModel]) -> dict[str, Any]:
        model = load()
        assert isinstance(model, CatBoostModel)
        return self._derived(params, model.booster.get_all_params(), model.n_features)

    def _derived(
        self, handed: Mapping[str, Any], chosen: Mapping[str, Any], n_features: int
    ) -> dict[str, Any]:
        """Return what CatBoost chose by the number of rounds and rows, and would choose otherwise for others."""
        given, derived = {self.canonical_name(name) for name in handed}, {}
        if self.loss in _RATE_BY_LENGTH and given.isdisjoint(_SET_THE_RATE):
            derived["learning_rate"] = float(str(np.float32(chosen["learning_rate"])))
        if self.loss in _STEPS_BY_LENGTH and n_features < _FEW_FEATURES:
            derived["leaf_estimation_iterations"] = chosen["leaf_estimation_iterations"]
        of_few_rows = {name: value for name, value in _OF_FEW_ROWS.items() if chosen.get(name) == value}
        return {name: value for name, value in {**derived, **of_few_rows}.items() if name not in given}

    def _pool(self, split: RankingDataset, coded: Sequence[int]) -> Any:
        of_queries, sizes = split.weights_of_queries(), split.groups.sizes
        weights = split.weights_of_rows() if self.weighs_rows else None
        if of_queries is not None and not self.weighs_rows:
            weights = np.repeat(of_queries, sizes)
        names = adapters.safe_feature_names(split.feature_names)
        weights_name = "weight" if self.weighs_rows else "group_weight"
        return library().Pool(
            typed(np.asarray(split.features), coded, names),
            cat_features=coded,
            label=split.labels,
            group_id=np.repeat(np.arange(split.n_queries), sizes),
            feature_names=names,
            **{weights_name: weights},
        )

    def _complete(self, params: Mapping[str, Any], seed: int, threads: int) -> dict[str, Any]:
        loss = self.objective if isinstance(self.objective, str) else losses.translated(self.objective)
        defaults: dict[str, Any] = {"loss_function": loss}
        is_given = "l2_leaf_reg" in map(self.canonical_name, params)
        if self.loss in losses.LAMBDAMART and not is_given:
            defaults["l2_leaf_reg"] = losses.LAMBDAMART_RIDGE
        return {
            **defaults,
            **params,
            "random_seed": seed,
            "thread_count": threads,
            "allow_writing_files": False,
            "logging_level": "Silent",
        }


@adapters.cache_answers
def _refusal(loss: str, params: Mapping[str, Any], n_features: int) -> str | None:
    """CatBoost's refusal of values, asked on a handful of rows."""
    catboost = library()
    rows, labels = np.random.default_rng(0).normal(size=(8, n_features)), losses.tried_labels(loss) * 4
    pool = catboost.Pool(rows, label=labels, group_id=[0] * 4 + [1] * 4)
    try:
        catboost.CatBoost({**params, "iterations": 1}).fit(pool)
    except (catboost.CatBoostError, TypeError, ValueError) as problem:
        return plain_message(str(problem))
    return None


def _derived_cautions(derived: Mapping[str, Any], rounds: int, n_rows: int) -> list[Caution]:
    if not derived:
        return []
    chosen = " and ".join(f"{name} {value}" for name, value in derived.items())
    text = f"CatBoost derived {chosen} from {count_of(rounds, 'round')} and {count_of(n_rows, 'row')}"
    return [Caution("derived-parameters", "note", text, "`params` of the model fix them")]


@cache
def _names(catboost: Any) -> dict[str, str]:
    """Every name that CatBoost accepts to the one it stands for."""
    import inspect

    names: Sequence[str] = list(inspect.signature(catboost.CatBoostRegressor.__init__).parameters)[1:]
    of_logloss = ("auto_class_weights", "class_weights", "scale_pos_weight")
    return {name: _ALIASES.get(name, name) for name in (*names, *of_logloss)}
