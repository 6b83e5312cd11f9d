"""Records of runs and of searches: record.json and study.json."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from ltr_harness._util.display import Displayed
from ltr_harness._util.json_values import none_if_undefined
from ltr_harness._util.stored import (
    DERIVED,
    Amount,
    Count,
    Stored,
    StoredForm,
    SweepPoint,
    TrainingQueries,
    Versioned,
    read_stored,
    with_options,
)
from ltr_harness._util.text import count_of
from ltr_harness._util.user_code import is_own_file
from ltr_harness.boosting.stopping import StoppingRule
from ltr_harness.errors import Caution
from ltr_harness.experiments.inspection.agreement import JudgmentAgreement
from ltr_harness.experiments.inspection.candidates import CandidateRecall
from ltr_harness.experiments.inspection.lints import LINTS
from ltr_harness.metrics.core.metric import Metric
from ltr_harness.metrics.core.softmax import TEMPERATURE, M, with_learned
from ltr_harness.metrics.evaluation import MetricValues


def _check_no_file(name: str) -> str:
    """Return a metric's canonical name; one that leads to a file would have its code executed when it is looked up."""
    if is_own_file(name):
        raise ValueError(f"{name} is a file; expected a metric's name")
    return name


StoredMetricName = Annotated[str, AfterValidator(_check_no_file)]
Position = Annotated[str, Field(pattern=r"^-?[0-9]{1,18}$")]
Biases = (
    dict[Literal["bias_factor"], dict[Position, tuple[float | None]]]
    | dict[Literal["ti+, tj-"], dict[Position, tuple[float | None, float | None]]]
)


Derived = dict[str, bool | int | float | str]


@cache  # building one takes longer than the validation of a record
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _check_learned(learned: dict[str, Any]) -> dict[str, Any]:
    """Check the learned values that are shown or used again; a user's own model may learn anything else."""
    temperatures = learned.get(TEMPERATURE, {})
    if not isinstance(temperatures, dict) or not all(
        isinstance(temperature, float) and 0 < temperature < float("inf")
        for temperature in temperatures.values()
    ):
        raise ValueError(f"{TEMPERATURE} is not a number above 0 for each metric")
    try:
        _adapter(Derived).validate_python(learned.get(DERIVED, {}), strict=True)
    except ValidationError:
        raise ValueError(f"{DERIVED} is not a number, a text or a yes for each parameter") from None
    try:
        _adapter(Biases).validate_python(learned.get("position_bias", {}))
    except ValidationError:
        raise ValueError("position_bias is not one or two numbers for each position") from None
    return learned


def _check_reading(reading: dict[str, Any]) -> dict[str, Any]:
    """Check grades and the rule of relevance, which reports show; other options of a reader may be anything."""
    from ltr_harness.data.readers.reader import GradesOfLabels
    from ltr_harness.data.relevance.rule import Relevance

    kinds: dict[str, Any] = {"grades": GradesOfLabels, "relevance": Relevance}
    for option, kind in kinds.items():
        if reading.get(option):
            try:
                _adapter(kind).validate_python(reading[option])
            except ValidationError as error:
                raise ValueError(f"{option}: {error.errors()[0]['msg']}") from None
    return reading


class SplitFacts(Stored):
    """One split as it was used: enough to recognise it again."""

    source: str
    fingerprint: str  # features, labels, groups, ids and weights together
    judgments_fingerprint: str  # labels, groups, ids and weights: equal for every model on the same test data
    truth_fingerprint: str = ""  # relevant documents; "" where candidates are not declared
    n_queries: Count
    n_rows: Count
    n_without_relevant: Count
    n_features: Count
    candidates: tuple[CandidateRecall, ...] = ()  # of all queries and of slices, as the next one
    agreement: tuple[JudgmentAgreement, ...] = ()
    files: dict[str, str] = Field(default_factory=dict)  # path relative to data.root, or address -> SHA-256

    @property
    def judged_by(self) -> str:
        """The digest that is equal for two results about one question: the truth, of any candidates where declared."""
        return self.truth_fingerprint or self.judgments_fingerprint


class MetricSummary(Stored):
    """One metric's mean over the test queries."""

    mean: float | None  # None where every query is undefined
    n_queries: Count
    n_undefined: Count
    higher_is_better: bool

    @classmethod
    def of(cls, values: MetricValues) -> Self:
        """Return the summary of an evaluation."""
        mean, higher = none_if_undefined(values.mean), values.metric.higher_is_better
        counts = {"n_queries": values.n_queries, "n_undefined": values.n_undefined}
        return cls(mean=mean, higher_is_better=higher, **counts)

    @property
    def mean_text(self) -> str:
        return "undefined" if self.mean is None else f"{self.mean:z.4f}"

    @property
    def counted(self) -> str:
        """The queries that the mean is over."""
        return f"{self.n_queries - self.n_undefined:,} of {count_of(self.n_queries, 'query')}"


class OwnMetric(Stored):
    """A metric from a file of the user's own: its name alone would not find it again."""

    spelling: str  # path.py:Attribute(parameters)
    sha256: str  # of the file


@with_options(StoppingRule)
class StoppingFacts(Stored):
    """The rule that ended a training: its metric by name, and its options."""

    metric: StoredMetricName
    on: str

    @classmethod
    def of(cls, rule: StoppingRule) -> Self:
        return cls(metric=str(rule.metric), on="valid", **rule.used_options())

    def rule(self, metric: Metric) -> StoppingRule:
        """Return the rule, with the metric that has the name."""
        return StoppingRule(metric, **self.model_dump(exclude={"metric", "on"}))


class TuningFacts(Stored):
    """The choice of a model's options: by trials on validation data, before any test query was scored."""

    study: str  # folder in the experiment's folder of studies
    metric: StoredMetricName  # on validation data
    value: float  # the chosen trial's
    trial: Count  # its number, from 0
    chosen: dict[str, Any]  # option -> value
    trials: Count | None  # budget per model and fold
    minutes: float | None  # likewise
    n_trials: Count  # that were begun within it
    n_complete: Count
    n_pruned: Count
    n_failed: Count
    seconds: Amount  # that all of them took
    sampler: str
    inner_folds: Count | None
    seed: Count


class Latency(Stored):
    """The time of one call that scores a list of documents, in microseconds, on one thread."""

    documents: Count
    calls: Count  # that were timed
    p50: Amount  # what half of the calls did not exceed
    p99: Amount | None  # what 99 of 100 calls did not exceed; None where fewer than 100 were timed
    rounds: Count | None = None  # from the first on; None where the model has none
    mean: Annotated[float, Field(allow_inf_nan=False)] | None = (
        None  # of the primary metric by these rounds alone
    )


class PartRecord(Stored):
    """The fields of a part's own record by which the part of a model is trained again."""

    ranker: str
    config: dict[str, Any]
    rounds: Count | None
    rounds_trained: Count | None
    stopping: StoppingFacts | None


class Record(Displayed, Versioned):
    """`record.json`: one model, one fold, one seed."""

    form: ClassVar[StoredForm] = "record"
    status: Literal["complete", "failed"]
    error: str | None = None

    experiment: str
    model: str  # the name in the configuration
    ranker: str
    objective: str | None
    fold: str  # "all" without folds
    seed: Count
    deterministic: bool = False  # the seed cannot matter: one run stands for all of them

    identity: str  # whatever can move a tree
    evaluation_identity: str  # identity + metric definitions + test digest

    params: dict[str, Any]  # as handed to the library
    config: dict[str, Any]  # this model's part of the resolved experiment
    rounds: Count | None = None  # as configured, where no stopping rule decides
    point: SweepPoint | None = None  # of a sweep: the model that was swept, and the options that differ
    training_queries: TrainingQueries | None = None  # None where all of them trained it
    # `data` but root
    reading: Annotated[dict[str, Any], AfterValidator(_check_reading)]
    tuning: TuningFacts | None = None  # None where the options are as they were written
    parts: dict[str, PartRecord] = Field(default_factory=dict)  # of a model made of others, by their names
    threads: int = Field(ge=1, le=4096)
    data: dict[str, SplitFacts]  # "train", "valid", "test"
    # of the data lints, of reading the data and of training
    cautions: list[Caution] = Field(default_factory=list)

    metrics: dict[StoredMetricName, MetricSummary]  # canonical name -> summary on test
    primary: StoredMetricName
    own_metrics: dict[StoredMetricName, OwnMetric] = Field(default_factory=dict)  # by canonical name
    stopping: StoppingFacts | None
    best_round: Count | None  # 1-based; the stored model has exactly this many rounds
    rounds_trained: Count | None

    features: list[str] = Field(default_factory=list, max_length=1_000_000)  # the model's columns, in order
    categories: dict[str, list[str]] = Field(default_factory=dict)  # categorical feature -> text of each code
    n_leaves: Count | None = None  # of all trees together: what scoring a row can cost at most
    # besides the model: biases of display positions, weights of a blend, temperatures, what the library derived
    learned: Annotated[dict[str, Any], AfterValidator(_check_learned)] = Field(default_factory=dict)
    files: dict[str, str] = Field(default_factory=dict)  # file in the run folder -> SHA-256
    seconds: dict[str, Amount]  # "fit", "score", "evaluate"
    latency: list[Latency] = Field(default_factory=list)  # of models of trees with the first of the seeds
    environment: dict[str, str]  # python, platform, processor, versions of what can move a number
    packages: dict[str, str]  # all that it stood on: distribution -> version

    def __repr__(self) -> str:
        text = f"Record({self.model!r}, fold={self.fold!r}, seed={self.seed}, {self.status}"
        if self.primary in self.metrics:
            text += f", {self.primary} {self.metrics[self.primary].mean_text}"
        return f"{text})"

    def __str__(self) -> str:
        return repr(self)

    @property
    def derived_params(self) -> dict[str, Any]:
        """Parameters that the library derived from the number of rounds or rows."""
        derived: dict[str, Any] = self.learned.get(DERIVED, {})
        return derived

    @property
    def temperatures(self) -> dict[str, float]:
        """T by metric of probabilities, from validation data."""
        temperatures: dict[str, float] = self.learned.get(TEMPERATURE, {})
        return temperatures

    def measuring(self, metrics: Sequence[M]) -> list[M]:
        """Return the metrics with the values that this model learned for them, for every evaluation of a stored run."""
        return with_learned(metrics, self.learned)

    @property
    def data_cautions(self) -> list[Caution]:
        """The cautions of the data lints; other models of the data have the same."""
        return [caution for caution in self.cautions if caution.kind in LINTS]

    @property
    def training_cautions(self) -> list[Caution]:
        """The cautions of reading the data and training this model."""
        return [caution for caution in self.cautions if caution.kind not in LINTS]


STUDIES = "tuning"  # folder of studies in an experiment's folder of runs
STUDY = "study.json"


class Trial(Stored):
    """One point of the search space and what became of it."""

    number: Count  # from 0, in the order in which trials began
    status: Literal["complete", "pruned", "failed"]
    point: dict[str, Any]  # option -> value
    value: float | None  # on validation data; of a pruned trial the best so far; None if it failed
    best_round: Count | None = None
    rounds_trained: Count | None = None
    seconds: Amount
    error: str | None = None


class StudyRecord(Versioned):
    """`study.json`: one model on one fold."""

    form: ClassVar[StoredForm] = "study"
    model: str
    fold: str
    identity: str  # everything that decides what is tried and what comes of it, but the budget
    metric: StoredMetricName
    higher_is_better: bool
    space: dict[str, Any]  # option -> list of values, or range
    sampler: str
    pruner: str
    inner_folds: Count | None
    seed: Count
    trials: list[Trial]
    importance: dict[str, float] = Field(default_factory=dict)  # option -> share of what decides the value
    environment: dict[str, str]  # versions of what searches

    def __str__(self) -> str:
        return self.model if self.fold == "all" else f"{self.model}, {self.fold}"

    def trials_within(self, trials: int | None, minutes: float | None) -> Sequence[Trial]:
        """Return the trials that a budget pays for: the first of them, until either limit is reached."""
        paid_trials: list[Trial] = []
        seconds = 0.0
        for trial in self.trials:
            if used_up(len(paid_trials), seconds, trials, minutes):
                break
            paid_trials.append(trial)
            seconds += trial.seconds
        return paid_trials

    def best(self, trials: Sequence[Trial]) -> Trial | None:
        """Return the complete trial with the best value; of equals the first."""
        sign = -1 if self.higher_is_better else 1
        complete = [trial for trial in trials if trial.status == "complete" and trial.value is not None]
        return min(complete, key=lambda trial: (sign * (trial.value or 0.0), trial.number), default=None)


def used_up(n_trials: int, seconds: float, trials: int | None, minutes: float | None) -> bool:
    """Return whether a budget pays for no further trial."""
    return (trials is not None and n_trials >= trials) or (minutes is not None and seconds >= 60 * minutes)


def read_study(folder: Path) -> StudyRecord | None:
    """Return the record in a study's folder; None where there is none that can be read."""
    try:
        return read_stored(StudyRecord, folder, STUDY)
    except (OSError, ValueError):
        return None
