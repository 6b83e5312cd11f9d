"""The base of all gradient boosted rankers: the choice of features and queries."""

from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

import numpy as np
from pydantic import Field, StrictBool

from ltr_harness._util.catalog import did_you_mean
from ltr_harness._util.text import count_of, plural
from ltr_harness.boosting.swap_gradients import GradientsPerSet
from ltr_harness.boosting.watching import Watching, watch_by_rule
from ltr_harness.data.arrays import Bools, sealed
from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.features import Features, SparseFeatures
from ltr_harness.errors import Caution, Problem, RankerError
from ltr_harness.metrics import Metric
from ltr_harness.models import objectives as losses
from ltr_harness.models.dask import WorkerArrays, cut, train_across
from ltr_harness.models.presets import PRESETS, SPACES
from ltr_harness.models.ranker import VALID, StoredRanker, Training, TrainingFacts, failures_of, with_derived
from ltr_harness.models.selection import FeatureName, FeatureSelection
from ltr_harness.models.tree_model import TrainedBooster, TreeModel, fixed_threads, training_cautions

WatchOfLibrary = TypeVar("WatchOfLibrary", bound=Watching)
Objective = TypeVar("Objective", bound=GradientsPerSet)
ModelOfLibrary = TypeVar("ModelOfLibrary", bound=TreeModel)


def _with_zeros(features: Features, columns: Bools) -> Features:
    """Return features with 0 in all rows of some columns, a mask (n_features,)."""
    if isinstance(features, SparseFeatures):
        places = np.where(columns, -1, np.arange(features.n_features))
        return features.with_columns(places, features.n_features)
    array = np.array(features)
    array[:, columns] = 0
    return sealed(array)


class BoostedRanker(StoredRanker):
    """Trees, grown round by round until the stopping rule ends it."""

    boosted: ClassVar[bool] = True
    selects_features: ClassVar[bool] = True
    library: ClassVar[str]
    objectives: ClassVar[Collection[str]]
    """Those of the library that an experiment may name."""
    later_fields: ClassVar[tuple[str, ...]] = ("relevant", "data_parallel")
    """Fields that came after the first runs."""

    objective: str | losses.MetricObjectiveConfig
    params: dict[str, Any] = Field(
        default_factory=dict, description="The library's own parameters, untouched."
    )
    preset: str | None = Field(
        None,
        description="Parameters to start from: small (hundreds of queries) or web (thousands and more); `params` win.",
    )
    features: tuple[FeatureName, ...] | None = Field(
        None,
        description="Learn from these features alone; ids, column names or patterns such as ctr_*. All unless given.",
    )
    exclude: tuple[FeatureName, ...] = Field((), description="Learn from all features but these.")
    categorical: tuple[FeatureName, ...] = Field(
        (),
        description="Features whose values are codes 0, 1, 2 … without an order; texts are categorical already.",
    )
    monotone: dict[str, Literal[-1, 1]] = Field(
        default_factory=dict,
        description="Feature to 1 (more never lowers the score) or -1 (never raises it).",
    )
    relevant: int | None = Field(
        None,
        description="For objectives whose labels are relevant or not: the lowest label that counts as relevant in "
        "training. Evaluation keeps the grades.",
    )
    drop_blank: bool = Field(
        False,
        description="For rank_xendcg: leave out training queries without a relevant document: it learns noise from "
        "them.",
    )
    position_bias: bool = Field(
        False, description="Learn the bias of display positions beside the trees, where labels are clicks."
    )
    init_model: Path | None = Field(
        None, description="Go on from this model: a run folder, or a model file of the same library."
    )

    # --- what the fields mean ---

    @property
    def loss(self) -> str:
        """The objective's name, of metrics the one they have in common: presets and rules go by it."""
        return self.objective if isinstance(self.objective, str) else losses.METRIC

    @property
    @abstractmethod
    def weighs_rows(self) -> bool:
        """True where the objective gives each row its own weight; others take one per query, the mean of its rows'."""

    def metrics(self) -> tuple[Metric, ...]:
        return () if isinstance(self.objective, str) else (self.objective.metric,)

    def with_max_grade(self, max_grade: float | None) -> Self:
        if isinstance(self.objective, str):
            return self
        return self.model_copy(update={"objective": self.objective.with_max_grade(max_grade)})

    def recorded(self, handed: dict[str, Any]) -> dict[str, Any]:
        """The parameters handed to the library, as the record keeps them: with the metric that is optimised."""
        ours = {"relevant": self.relevant is not None, "objective": not isinstance(self.objective, str)}
        return {**handed, **self.model_dump(mode="json", include={name for name in ours if ours[name]})}

    def carried(self, learned: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
        return with_derived(self.params, learned)

    def described(
        self, model: ModelOfLibrary, training: Training, handed: dict[str, Any], trained: TrainedBooster
    ) -> ModelOfLibrary:
        """The model with all that its record keeps."""
        n_kept = model.best_round or 0
        rounds = trained.n_rounds
        if not rounds:
            rounds = trained.history[-1].round if trained.history else n_kept
        of_data = self.selection_cautions(training.train)
        cautions_on_trees = training_cautions(
            model.n_splits, n_kept, rounds, training.max_rounds, training.stopping
        )
        return replace(
            model,
            params=self.recorded(handed),
            rounds_trained=rounds,
            history=trained.history,
            cautions=(*trained.cautions, *of_data, *cautions_on_trees),
            learned=trained.learned or {},
        )

    def library_params(self, names: Sequence[str] | None = None) -> dict[str, Any]:
        """Preset, `params` on top, and monotone constraints, which are by position and so need the features' names."""
        given = {self.canonical_name(name) for name in self.params}
        preset = PRESETS.get((self.library, self.loss), {}).get(self.preset or "", {})
        params = {name: value for name, value in preset.items() if self.canonical_name(name) not in given}
        params |= self.params
        if self.monotone and names is not None:
            params["monotone_constraints"] = [self.monotone.get(name, 0) for name in names]
        return params

    @classmethod
    @abstractmethod
    def canonical_name(cls, parameter: str) -> str:
        """The name that an alias stands for."""

    def definition(self) -> dict[str, Any]:
        # a preset may change between versions of the harness; what it stood for is what moved the trees
        definition = {**super().definition(), "preset": None, "params": self.library_params()}
        for name in self.later_fields:  # runs from before there was the field are the same runs
            if not definition.get(name, True):
                del definition[name]
        code = {
            f"metric {metric.name}": metric.digest for metric in self.metrics() if metric.digest is not None
        }
        return {**definition, "inputs": {**definition.get("inputs", {}), **code}} if code else definition

    def search_space(self) -> dict[str, Any]:
        return SPACES.get((self.library, self.loss), {})

    def inputs(self) -> tuple[Path, ...]:
        return () if self.init_model is None else (self.init_model_file(),)

    def init_model_file(self) -> Path:
        """The model to go on from, in a run folder or by itself."""
        assert self.init_model is not None
        return self.init_model / self.trained.FILE if self.init_model.is_dir() else self.init_model

    trained: ClassVar[type[TreeModel]]

    def prepared(self, train: RankingDataset) -> RankingDataset:
        """The training data as the library gets it."""
        if self.drop_blank:
            best = train.groups.max(train.labels)
            train = train.take(np.flatnonzero(best > 0))
        self.check_codes(train)
        train = self.with_targets(train)
        if left_out := set(self.left_out(train.feature_names)):
            # A constant column is never split on, so the model keeps its width and scores the data as they are.
            is_left_out = np.array([name in left_out for name in train.feature_names])
            train = replace(train, features=_with_zeros(train.features, is_left_out))
        return train

    def with_targets(self, train: RankingDataset) -> RankingDataset:
        """The rows with label 1 from the grade `relevant` on and 0 below, where it is given."""
        if self.relevant is None:
            return train
        labels = (train.labels >= self.relevant).astype(np.float64)
        return replace(train, judgments=replace(train.judgments, labels=labels))

    def selection(self) -> tuple[Any, ...]:
        """Key of `prepared` besides the data."""
        fields = (self.drop_blank, self.features, self.exclude, self.categorical)
        return (*fields, self.relevant, self.position_bias)

    def selection_cautions(self, train: RankingDataset) -> list[Caution]:
        """Return cautions about the rows and columns that were learned from."""
        cautions = []
        n_without_relevant = TrainingFacts.of(train, stopping=False).n_without_relevant
        if self.objective == "rank_xendcg" and n_without_relevant:
            of_all = f"{n_without_relevant:,} of {count_of(train.n_queries, 'training query')}"
            share = f"{of_all} {plural('has', n_without_relevant)} no relevant document"
            text, cure = f"{share}: rank_xendcg learns noise from them", "`drop_blank: true` leaves them out"
            if self.drop_blank:
                text, cure = f"{share} and are left out of training (drop_blank)", ""
            cautions.append(Caution("blank-queries", "note", text, cure))
        if left_out := self.left_out(train.feature_names):
            n = train.n_features
            text = f"learned from {n - len(left_out)} of {count_of(n, 'feature')}"
            cautions.append(Caution("left-out-features", "note", text))
        weights, groups = train.weights_of_rows(), train.groups
        if not (weights is None or self.weighs_rows) and (groups.min(weights) < groups.max(weights)).any():
            text = f"the objective {self.objective} takes one weight per query, the mean of its rows'"
            cautions.append(Caution("row-weights-averaged", "note", text))
        if self.init_model is not None:
            text = f"training went on from {self.init_model.name}; rounds count from its first tree"
            cautions.append(Caution("continued-training", "note", text))
        return cautions

    def left_out(self, names: Sequence[str]) -> list[str]:
        """Features that the model must not learn from."""
        return self.selected_features.left_out(names)

    @property
    def selected_features(self) -> FeatureSelection:
        """The features that the model learns from."""
        return FeatureSelection(self.features, self.exclude)

    def with_selection(self, selection: FeatureSelection) -> Self:
        """Return the ranker with another choice of features."""
        return self.model_copy(update=selection._asdict())

    def with_features(self, names: Sequence[str]) -> Self:
        return self.with_selection(self.selected_features.resolved(names))

    def categorical_names(self, texts: Iterable[str]) -> list[str]:
        """Every categorical feature, once: the codes named here and those of texts in the data."""
        return list(dict.fromkeys([*map(str, self.categorical), *texts]))

    def has_categories(self, facts: TrainingFacts | None) -> bool:
        """Tell whether some feature is categorical; before the data are known, one may be."""
        return facts is None or bool(self.categorical_names(facts.categories))

    def categorical_columns(self, train: RankingDataset) -> list[int]:
        return [train.feature_names.index(name) for name in self.categorical_names(train.categories)]

    def check_codes(self, train: RankingDataset) -> None:
        """Refuse values of categorical features that are no codes."""
        problems = []
        for column in self.categorical_columns(train):
            name, values = train.feature_names[column], train.features[:, column]
            good = (values >= 0) & (values == np.floor(values)) & (values < 2**24)
            bad = np.flatnonzero(~(np.isnan(values) | good))
            if bad.size:
                found = f"feature {name!r} holds {values[bad[0]]:g} ({count_of(bad.size, 'such row')})"
                problems.append(Problem("categorical", found, "codes 0, 1, 2 …; missing values are fine"))
        RankerError.refuse(problems)

    def optimised(self) -> losses.Optimised | None:
        """Depth and gain of the objective; None where it looks at all of the list, in no unit of a metric."""
        if isinstance(self.objective, str):
            return None
        metric, depth = self.objective.metric, self.objective.truncation_level
        return losses.Optimised("objective.truncation_level", depth, getattr(metric, "gain", None), metric.k)

    def cautions_for_metric(self, primary: Metric, max_grade: float) -> list[Caution]:
        optimised = self.optimised()
        return [] if optimised is None else losses.objective_cautions(optimised, primary, max_grade)

    # --- what can be wrong with them ---

    def objective_problems(self, facts: TrainingFacts | None) -> list[Problem]:
        """An objective that the library does not have, or that the training labels do not fit."""
        if isinstance(self.objective, str):
            name_problems = losses.objective_problems(self.objective, self.objectives)
            return name_problems or [*losses.value_problems(self.objective, facts)]
        return self.objective.problems(facts)

    def field_problems(self, facts: TrainingFacts | None) -> list[Problem]:
        """Problems of the fields above; those of `params` are the library's."""
        problems = self.objective_problems(facts)
        other_problems = [
            *losses.label_problems(self.loss, self.relevant, facts),
            *self._option_problems(not problems, facts),
        ]
        if self.loss not in losses.CLASSES:
            return [*problems, *other_problems]
        is_set = {name: bool(getattr(self, name, False)) for name in type(self).model_fields}
        is_set["monotone"] |= "monotone_constraints" in map(self.canonical_name, self.params)
        return [*problems, *losses.class_problems(self.loss, is_set, facts), *other_problems]

    def _option_problems(self, is_known: bool, facts: TrainingFacts | None) -> Iterator[Problem]:
        """Yield the problems of options; those that depend on the objective only where it is known."""
        if is_known:
            yield from self._problems_with_objective()
        if self.drop_blank and facts is not None and facts.n_without_relevant == facts.n_queries:
            yield Problem("drop_blank", "no training query has a relevant document: nothing would be left")
        selection = self.selected_features
        if self.features is not None and self.exclude and not selection.has_patterns:
            yield Problem("exclude", "cannot be combined with `features`", "one of them")
        yield from self._monotone_problems(() if facts is None else facts.categories)
        if facts is not None:
            yield from self._feature_problems(facts.feature_names)
        if self.position_bias and facts is not None and not facts.has_positions:
            cure = "`position:` among the reader's options, or a .position file"
            yield Problem("position_bias", "the training data has no display positions", cure)
        if self.init_model is not None:
            path = self.init_model_file()
            if not path.is_file():
                expected = f"a run folder with a {self.trained.FILE}, or such a file"
                yield Problem("init_model", f"{path}: no such file", expected)

    def _problems_with_objective(self) -> Iterator[Problem]:
        presets = PRESETS.get((self.library, self.loss), {})
        if self.preset is not None and self.preset not in presets:
            cure = did_you_mean(self.preset, presets)
            yield Problem("preset", f"unknown preset {self.preset!r}", cure=cure)
        if self.drop_blank and self.objective != "rank_xendcg":
            reason = "rank_xendcg alone learns noise from queries without a relevant document"
            found = f"has no effect with the objective {self.objective}: {reason}"
            yield Problem("drop_blank", found, cure="leave it out")

    def _monotone_problems(self, categories: Iterable[str]) -> Iterator[Problem]:
        categorical = self.categorical_names(categories)
        for name in self.monotone:
            if name in categorical:
                yield Problem("monotone", f"feature {name!r} is categorical: its codes have no order")
        if self.monotone and "monotone_constraints" in map(self.canonical_name, self.params):
            yield Problem("monotone", "cannot be combined with params.monotone_constraints", "one of them")

    def _feature_problems(self, names: Sequence[str]) -> Iterator[Problem]:
        """Yield a problem for each feature that the data lack, or one where none is left to learn from."""
        is_unknown = False
        for field in ("features", "exclude", "categorical", "monotone"):
            for name in map(str, getattr(self, field) or ()):
                if name not in names:
                    is_unknown = True
                    yield Problem(field, f"the data has no feature {name!r}", cure=did_you_mean(name, names))
        if not is_unknown and len(self.left_out(names)) == len(names):
            yield Problem("exclude" if self.features is None else "features", "no feature is left")


class DataParallelRanker(BoostedRanker):
    """A boosted ranker whose library can train one model on data that are spread over several machines."""

    parameters: ClassVar[ModuleType]
    """The module of the library's parameters."""

    data_parallel: StrictBool | Annotated[int, Field(strict=True, ge=2)] = Field(
        False,
        description="Train each model across this many workers of a Dask cluster, on a part of the training queries "
        "each; true: as many as the cluster has. For data that do not fit one machine.",
    )

    @classmethod
    def canonical_name(cls, parameter: str) -> str:
        name: str = cls.parameters.canonical_names().get(parameter, parameter)
        return name

    @property
    def seed_matters(self) -> bool:
        return bool(self.parameters.seed_matters(self.loss, self.library_params()))

    def check(self, facts: TrainingFacts | None = None) -> list[Problem]:
        listed = self.field_problems(facts)
        if self.data_parallel:
            cure, limits = "leave out one of the two", self.across_limits(facts)
            refused = [
                f"cannot be combined with {field}: {reason}" for field, is_given, reason in limits if is_given
            ]
            listed += [Problem("data_parallel", problem, cure=cure) for problem in refused]
        if self.loss not in (*self.objectives, losses.METRIC):
            return listed
        params = self.library_params(None if facts is None or listed else facts.feature_names)
        if self.position_bias and self.loss not in self.parameters.LAMBDA:
            found = f"has no effect with the objective {self.objective}"
            listed.append(Problem("position_bias", found, cure="leave it out"))
        return listed + self.params_problems(params, facts)

    @abstractmethod
    def params_problems(self, params: dict[str, Any], facts: TrainingFacts | None) -> list[Problem]:
        """Whatever the library would reject, ignore or misread of its parameters."""

    def fit(self, training: Training) -> TreeModel:
        self.require(training)
        params = self.library_params(training.train.feature_names)
        handed = self.parameters.complete(self.loss, params, training.seed, training.threads)
        if self.loss in losses.CLASSES:
            handed["num_class"] = int(training.train.labels.max()) + 1
        name, native, errors = self._library()
        say = self.parameters.plain_message
        if self.data_parallel:
            n_parts, train = self.n_parts(training), partial(self._train_across, training, handed)
            with failures_of(name, *errors, OSError, say=say):
                trained = train_across(n_parts, training, self.prepared, train)
        else:
            with fixed_threads(native), failures_of(name, *errors, say=say):
                trained = self._train(training, handed, training.max_rounds)
        return self.described(self._model(trained, training), training, handed, trained)

    @abstractmethod
    def _library(self) -> tuple[str, Any, tuple[type[Exception], ...]]:
        """Its name, what ctypes has loaded of it, and the errors that it raises."""

    @abstractmethod
    def _train(self, training: Training, handed: dict[str, Any], rounds: int) -> TrainedBooster:
        """Train in this process."""

    @abstractmethod
    def _train_across(self, training: Training, handed: dict[str, Any], data: WorkerArrays) -> Any:
        """The booster, with all rounds or cut at the best one."""

    @abstractmethod
    def _model(self, trained: TrainedBooster, training: Training) -> TreeModel:
        """The best round's trees, and how many rounds that is."""

    def watch(self, kind: type[WatchOfLibrary], training: Training, valid: Any) -> WatchOfLibrary | None:
        """The library's callback that evaluates and stops, where something is watched."""
        if training.valid is None or not training.watched_metrics:
            return None
        sets: dict[str, Any] = {"data": {VALID: valid}, "judgments": {VALID: training.valid.judgments}}
        return watch_by_rule(
            kind, training.stopping, training.watched_metrics, **sets, on_round=training.report
        )

    def gradients(self, kind: type[Objective], training: Training) -> Objective | None:
        """The library's function of the gradients of a metric; None for an objective by name."""
        if isinstance(self.objective, str):
            return None
        judgments, with_missed = training.train.judgments, []
        if judgments.missed is not None:
            weighted = replace(judgments, query_weights=training.train.weights_of_queries())
            parts = cut(judgments.groups, self.n_parts(training))
            with_missed = [weighted.take(np.arange(*part)) for part in parts]
        return kind(self.objective.resolved(judgments), training.threads, with_missed)

    def with_n_workers(self, n_workers: int) -> Self:
        """Return the ranker with the number of workers fixed, since it can move a tree."""
        return self.model_copy(update={"data_parallel": n_workers}) if self.data_parallel is True else self

    def n_parts(self, training: Training) -> int:
        """Workers to train across; 1 without a cluster."""
        if self.data_parallel is True:
            return 1 if training.workers is None else max(1, len(training.workers.client.nthreads()))
        return int(self.data_parallel) or 1

    def across_limits(self, facts: TrainingFacts | None) -> list[tuple[str, bool, str]]:
        """Return the options that training across workers lacks: name, whether it is set, and the reason."""
        return [
            ("position_bias", self.position_bias, "each worker would learn biases of its own"),
            ("init_model", self.init_model is not None, "its scores would have to be spread as the rows are"),
        ]
