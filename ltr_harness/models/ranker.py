"""Base classes: what training is given, a ranker that can be checked and trained, and the model that scores rows."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from statistics import median_low
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import BaseModel, ConfigDict

from ltr_harness._util.files import file_digest, stored_file
from ltr_harness._util.stored import DERIVED, read_stored
from ltr_harness.boosting.stopping import StoppingRule
from ltr_harness.boosting.watching import Measured
from ltr_harness.data.arrays import number_matrix
from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.features import SparseFeatures
from ltr_harness.data.judgments import Judgments
from ltr_harness.errors import Caution, DataError, HarnessError, Problem, RankerError, TrainingError
from ltr_harness.metrics import Metric

VALID = "valid"
"""How histories call the split that training is watched on."""


@dataclass(frozen=True, eq=False)
class Workers:
    """A cluster for models that are trained across its workers, and how data gets into a worker's memory."""

    client: Any  # a `distributed.Client`
    # a worker's address, ``train`` or ``valid``, and its queries from - to, to the future of a `RankingDataset` there
    load: Callable[[str, str, int, int], Any]


@dataclass(frozen=True, eq=False)
class BlendPart:
    """A trained model of the experiment that another one is made of."""

    ranker: str  # its name in the experiment
    model: FittedModel
    file: Path  # where the model is stored


@dataclass(frozen=True, kw_only=True)
class Training:
    """Everything a ranker is given to train with.

    Attributes:
        train: what it learns from.
        valid: what it is watched on, and stopped on; None where nothing is.
        seed: of whatever is random.
        threads: the model's share of the machine; part of the record, since some settings depend on it.
        metrics: evaluated on `valid` for the learning curves.
        stopping: when to stop; None trains `rounds` rounds.
        rounds: fixed number of rounds, or, with `stopping`, an upper limit in place of its `max_rounds`.
        progress: called after each evaluated round with the round and the metrics' means on `valid`.
        workers: of a cluster, for `data_parallel` models.
        decision_metric: what decides on `valid`: the stopping rule's metric, else the primary one.
        parts: of a ranker with `parts`, by name: the models trained on the same fold with the same seed.

    Raises:
        RankerError: stopping without validation data.
    """

    train: RankingDataset
    valid: RankingDataset | None = None
    seed: int = 0
    threads: int = 1
    metrics: tuple[Metric, ...] = ()
    stopping: StoppingRule | None = None
    rounds: int | None = None
    progress: Callable[[int, Mapping[str, float]], None] | None = None
    workers: Workers | None = None
    decision_metric: Metric | None = None
    parts: Mapping[str, BlendPart] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.stopping is not None and self.valid is None:
            raise RankerError(
                f"stopping on {self.stopping.metric} needs validation data, and there is none; "
                "expected a validation split, or a fixed number of rounds"
            )

    @property
    def max_rounds(self) -> int:
        """Rounds after which training ends at the latest.

        Raises:
            RankerError: neither a rule nor a number of rounds is given, or the number is below 1.
        """
        if self.rounds is not None:
            if self.rounds < 1:
                raise RankerError(Problem("rounds", f"found {self.rounds}", "at least 1"))
            return self.rounds
        if self.stopping is None:
            found = "not given, and there is no stopping rule"
            raise RankerError.at("rounds", found, "one of the two", "add `stopping:`")
        return self.stopping.max_rounds

    @property
    def watched_metrics(self) -> tuple[Metric, ...]:
        """The metrics of the learning curves, the one that decides first."""
        if self.stopping is None:
            return self.metrics
        return (
            self.stopping.metric,
            *(watched for watched in self.metrics if watched != self.stopping.metric),
        )

    def report(self, measured: Sequence[Measured]) -> None:
        """Pass an evaluated round on to `progress`."""
        if self.progress is not None:
            self.progress(measured[0].round, {point.metric: point.value for point in measured})


@dataclass(frozen=True)
class TrainingFacts:
    """The facts of the training data that a ranker checks before training.

    Attributes:
        feature_names: as in the data.
        n_rows, n_queries: in the training split.
        largest_query: rows of its largest query.
        max_label: its largest label.
        n_fractional: rows whose label is not an integer, where none is below 0.
        has_weights: its queries or rows have weights.
        stopping: training stops early.
        n_without_relevant: queries without a relevant document.
        has_positions: rows have their display position.
        categories: features that are codes of texts.
        judgments: the labels themselves.
    """

    feature_names: tuple[str, ...]
    n_rows: int
    n_queries: int
    largest_query: int
    max_label: float
    n_fractional: int
    has_weights: bool
    stopping: bool
    n_without_relevant: int = 0
    has_positions: bool = False
    categories: tuple[str, ...] = ()
    judgments: Judgments | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, train: RankingDataset, stopping: bool) -> TrainingFacts:
        labels = train.labels
        return cls(
            feature_names=train.feature_names,
            n_rows=train.n_rows,
            n_queries=train.n_queries,
            largest_query=int(train.groups.sizes.max()),
            max_label=float(labels.max()),
            n_fractional=int((labels != np.floor(labels)).sum()) if train.judgments.lowest == 0 else 0,
            has_weights=train.weights_of_rows() is not None,
            stopping=stopping,
            n_without_relevant=int(np.count_nonzero(train.groups.max(labels) <= 0)),
            has_positions=train.positions is not None,
            categories=tuple(train.categories),
            judgments=train.judgments,
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedModel(ABC):
    """A trained ranker. What `load` brings back scores the same; the rest lives in the run's record.

    Attributes:
        params: complete, as handed to the library.
        best_round: rounds the model consists of; None where there are none.
        rounds_trained: rounds it was trained for before the best was kept.
        history: the learning curves: `(round, data, metric, value)`, on the split `VALID`.
        cautions: what a reader of its numbers should keep in mind, such as that the model is constant; those of
            severity ``warning`` stand beside the result in reports.
        learned: what training found out besides the model, such as the bias of each display position.
    """

    params: Mapping[str, Any] = field(default_factory=dict)
    best_round: int | None = None
    rounds_trained: int | None = None
    history: Sequence[Measured] = ()
    cautions: tuple[Caution, ...] = ()
    learned: Mapping[str, Any] = field(default_factory=dict)

    @abstractmethod
    def score(self, features: ArrayLike) -> NDArray[np.float64]:
        """float64 (n_rows,), higher is better, from float32 (n_rows, n_features) in training's column order.

        Args:
            features: float32 (n_rows, n_features), in training's column order.

        Raises:
            DataError: a wrong number of columns.
        """

    def score_split(self, split: RankingDataset) -> NDArray[np.float64]:
        """`score` of a split's rows; what goes by their ids instead of their features says so here.

        Sparse features are scored as arrays of a few rows at a time.
        """
        features = split.features
        if isinstance(features, SparseFeatures):
            return np.concatenate([self.score(block) for _, block in features.blocks()])
        return self.score(features)

    @abstractmethod
    def save(self, folder: Path) -> str:
        """Write the model into an existing folder; the name of the file."""

    @classmethod
    @abstractmethod
    def load(cls, folder: Path, threads: int | None = None) -> Self:
        """The model that `save` wrote.

        Args:
            folder: where it is.
            threads: for scoring; None leaves it to the library.

        Raises:
            DataError: there is no model, or it cannot be read.
        """


def medians(values: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the median of each key that all have; of two in the middle the smaller, so that it is one of theirs."""
    mappings = list(values)
    shared = [key for key in mappings[0] if all(key in mapping for mapping in mappings)]
    return {key: median_low(mapping[key] for mapping in mappings) for key in shared}


class Ranker(BaseModel, ABC):
    """A model's definition; its fields are its keys in the experiment file, besides `ranker:`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    packages: ClassVar[tuple[str, ...]] = ()
    """Distributions whose version can move a tree: part of a run's identity."""

    boosted: ClassVar[bool] = False
    """Trained in rounds, so that there is something to stop, or a number of `rounds:` to give."""

    learns: ClassVar[bool] = True
    """True where other training queries can give another model: `study:` refuses rankers that learn nothing."""

    selects_features: ClassVar[bool] = False
    """True where the options `features` and `exclude` choose what it learns from."""

    takes_sparse: ClassVar[bool] = False
    """True where `fit` works with `SparseFeatures`; others are given arrays, refused where they do not fit."""

    @abstractmethod
    def check(self, facts: TrainingFacts | None = None) -> list[Problem]:
        """Everything the library would reject, ignore or misread; empty when it can work.

        Args:
            facts: of the training data; None checks what needs no data.
        """

    def check_scoring(self, test: RankingDataset) -> list[Problem]:
        """Obstacles to scoring the test split with a trained model; empty for all that score features."""
        return []

    @property
    @abstractmethod
    def seed_matters(self) -> bool:
        """True where another seed can give another model; if not, one replicate stands for all."""

    @property
    def threads_matter(self) -> bool:
        """True where another number of threads can give another model; if so, they are part of its identity."""
        return False

    def carried(self, learned: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
        """Options that a final model takes from what the compared ones learned; most take none.

        Args:
            learned: `FittedModel.learned` of each fold and seed.
        """
        return {}

    def derived_params(self, params: Mapping[str, Any], load: Callable[[], FittedModel]) -> dict[str, Any]:
        """Return what a stored model's library derived from the number of rounds or rows; most derive nothing.

        Args:
            params: of the stored model, as handed to the library.
            load: reads the stored model.
        """
        return {}

    def parts(self) -> tuple[str, ...]:
        """Names of the experiment's models that it is made of: they are trained before, and reach it in `Training`."""
        return ()

    @property
    def needs_valid(self) -> bool:
        """True where it needs validation data without `stopping`, to choose something by `Training.decision_metric`."""
        return False

    def cautions(self, threads: int) -> list[Caution]:
        """Return cautions about training with that many threads; `check` prints them."""
        return []

    def cautions_for_metric(self, primary: Metric, max_grade: float) -> list[Caution]:
        """Return cautions about its objective, where `primary` decides; `check` prints them.

        Args:
            primary: the metric that decides.
            max_grade: the largest training label.
        """
        return []

    def search_space(self) -> dict[str, Any]:
        """The search space of `tune` where the configuration has ``built-in``; empty where there is nothing sensible.

        Option to a list of values or to ``{"low": …, "high": …, "log": …}``, as in ``params.learning_rate``.
        """
        return {}

    def metrics(self) -> tuple[Metric, ...]:
        """Metrics that it learns by; their code is part of a run's identity."""
        return ()

    def with_max_grade(self, max_grade: float | None) -> Self:
        """The same, its metrics having the scale's highest grade if they ask for one.

        Args:
            max_grade: of the experiment's scale; None where not given.
        """
        return self

    def with_features(self, names: Sequence[str]) -> Self:
        """The same, its patterns of features, such as ``ctr_*``, replaced by the names that they match.

        Args:
            names: of the data's features.

        Raises:
            RankerError: a pattern that matches no feature.
        """
        return self

    def inputs(self) -> tuple[Path, ...]:
        """Files that the ranker reads besides the data; their content is part of a run's identity."""
        return ()

    def definition(self) -> dict[str, Any]:
        """Everything about the definition that can move a score, for the run's identity and record."""
        definition = self.model_dump(mode="json")
        digests = {}
        for path in self.inputs():
            with suppress(OSError):  # `check` says that it is not there
                digests[path.name] = file_digest(path)
        return {**definition, "inputs": digests} if digests else definition

    @abstractmethod
    def fit(self, training: Training) -> FittedModel:
        """Train.

        Raises:
            RankerError: `check` finds a problem.
            TrainingError: the library fails.
        """

    @classmethod
    @abstractmethod
    def load(cls, folder: Path, threads: int | None = None) -> FittedModel:
        """A stored model of this ranker; see `FittedModel.load`."""

    def fit_to(self, training: Training) -> FittedModel:
        """Train with features as the ranker takes them."""
        if self.takes_sparse:
            return self.fit(training)
        valid = None if training.valid is None else with_array(training.valid)
        return self.fit(replace(training, train=with_array(training.train), valid=valid))

    def require(self, training: Training) -> None:
        """Refuse to train what `check` finds fault with."""
        RankerError.refuse(self.check(TrainingFacts.of(training.train, training.stopping is not None)))


def with_derived(params: Mapping[str, Any], learned: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the option `params` with what the library derived for the compared models; nothing where it did not."""
    derived = medians(params_learned.get(DERIVED, {}) for params_learned in learned)
    return {"params": {**derived, **params}} if derived else {}


def with_array(split: RankingDataset) -> RankingDataset:
    """Return a split whose features are an array; DataError where sparse ones do not fit the memory as one."""
    if not isinstance(split.features, SparseFeatures):
        return split
    return replace(split, features=split.features.dense())


class StoredRanker(Ranker):
    """A ranker whose models are all of one class, which can load them."""

    trained: ClassVar[type[FittedModel]]

    @classmethod
    def load(cls, folder: Path, threads: int | None = None) -> FittedModel:
        return cls.trained.load(folder, threads)


def as_matrix(features: ArrayLike, n_features: int) -> NDArray[np.float32]:
    """float32 (n_rows, n_features), without a copy where it is that already; a DataError for another shape.

    Args:
        features: (n_rows, n_features).
        n_features: that the model was trained on.
    """
    if hasattr(features, "columns"):
        cure = "`Run.score` finds columns by name; .to_numpy() takes them by place"
        raise DataError.at("frame", "a model without its run has no column names", cure=cure)
    given = number_matrix(features, f"expected shape (n_rows, {n_features})")
    matrix = np.asarray(given, dtype=np.float32)
    if matrix.ndim != 2 or matrix.shape[1] != n_features:
        raise DataError(
            f"features have shape {matrix.shape}; expected (n_rows, {n_features}), as in training"
        )
    return np.ascontiguousarray(matrix)


def model_file(folder: Path, name: str) -> Path:
    """The path of a stored model; DataError where it is not there, or no regular file of the folder."""
    try:
        return stored_file(Path(folder), name)
    except OSError as problem:
        found = "no such file" if isinstance(problem, FileNotFoundError) else problem.strerror
        raise DataError(
            f"{Path(folder) / name}: {found}; expected a model stored there by a finished run"
        ) from None


class FieldsModel(FittedModel):
    """A model that is stored as JSON of its own fields, beside the name of its ranker."""

    FILE: ClassVar[str] = "model.json"
    ranker: ClassVar[str]

    def save(self, folder: Path) -> str:
        shared = {field.name for field in fields(FittedModel)}
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in shared}
        (Path(folder) / self.FILE).write_text(json.dumps({"ranker": self.ranker, **values}) + "\n")
        return self.FILE

    @classmethod
    def load(cls, folder: Path, threads: int | None = None) -> Self:
        path = model_file(folder, cls.FILE)
        try:
            return read_stored(cls, path.parent, path.name)
        except ValueError as problem:
            raise DataError(f"{path}: is not a stored model ({problem})") from None


@contextmanager
def failures_of(
    library: str,
    *errors: type[Exception],
    say: Callable[[str], str] = str.strip,
    kind: type[HarnessError] = TrainingError,
) -> Iterator[None]:
    """Turn a library's failure into an error in its words; our own errors and Ctrl-C pass through.

    Args:
        library: whose failure it is, as the message begins.
        errors: those that it raises.
        say: its message to ours.
        kind: of our error.
    """
    try:
        yield
    except HarnessError:
        raise
    except MemoryError as problem:
        short = f"{library} ran out of memory; expected fewer rows, features or threads"
        raise kind(short) from problem
    except errors as problem:
        raise kind(f"{library}: {say(str(problem))}") from problem
