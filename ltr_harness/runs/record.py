"""What one training run leaves behind, in words that outlive the code."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from ltr_harness.inspection import Finding
from ltr_harness.own_files import is_own_file

SCHEMA_VERSION: Final = 1


def _no_file(name: str) -> str:
    """A metric's canonical name; one that leads to a file would have its code executed by whoever looks it up."""
    if is_own_file(name):
        raise ValueError(f"{name} is a file; expected a metric's name")
    return name


MetricName = Annotated[str, AfterValidator(_no_file)]


class Stored(BaseModel):
    """What stands in a file beside the runs: unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class SplitFacts(Stored):
    """One split as it was used: enough to recognise it again."""

    source: str
    fingerprint: str  # features, labels, groups, ids and weights together
    judgments_fingerprint: str  # labels, groups, ids and weights: equal for every model on the same test data
    n_queries: int
    n_rows: int
    n_without_relevant: int
    n_features: int
    files: dict[str, str] = Field(default_factory=dict)  # path relative to data.root -> SHA-256


class MetricSummary(Stored):
    """One metric's mean over the test queries."""

    mean: float | None  # None where every query is undefined
    n_queries: int
    n_undefined: int
    higher_is_better: bool


class OwnMetric(Stored):
    """A metric from a file of the user's own: its name alone would not find it again."""

    spelling: str  # path.py:Attribute(parameters)
    sha256: str  # of the file


class StoppingFacts(Stored):
    metric: MetricName
    on: str
    patience: int
    min_delta: float
    every: int
    max_rounds: int


class TuningFacts(Stored):
    """How a model's options were chosen: by trials on validation data, before any test query was scored."""

    study: str  # folder in the experiment's folder of studies
    metric: MetricName  # on validation data
    value: float  # the chosen trial's
    trial: int  # its number, from 0
    chosen: dict[str, Any]  # option -> value
    trials: int | None  # budget per model and fold
    minutes: float | None  # likewise
    n_trials: int  # that were begun within it
    n_complete: int
    n_pruned: int
    n_failed: int
    seconds: float  # that all of them took
    sampler: str
    inner_folds: int | None
    seed: int


class Latency(Stored):
    """What one call that scores a list of documents took, in microseconds, on one thread."""

    documents: int
    calls: int  # that were timed
    p50: float  # what half of the calls did not exceed
    p99: float | None  # what 99 of 100 calls did not exceed; None where fewer than 100 were timed
    rounds: int | None = None  # from the first on; None where the model has none
    mean: float | None = None  # of the primary metric by these rounds alone


class Record(Stored):
    """`record.json`: one model, one fold, one seed."""

    schema_version: Literal[1] = SCHEMA_VERSION
    status: Literal["complete", "failed"]
    error: str | None = None

    experiment: str
    model: str  # the name in the configuration
    ranker: str
    objective: str | None
    fold: str  # "all" without folds
    seed: int
    deterministic: bool = False  # the seed cannot matter: one run stands for all of them

    identity: str  # whatever can move a tree
    evaluation_identity: str  # identity + metric definitions + test digest

    params: dict[str, Any]  # as handed to the library
    config: dict[str, Any]  # this model's part of the resolved experiment
    rounds: int | None = None  # as configured, where no stopping rule decides
    point: dict[str, Any] | None = None  # of a sweep: the model that was swept, and the options that differ
    reading: dict[str, Any] = Field(default_factory=dict)  # the configuration's `data`, without its root
    tuning: TuningFacts | None = None  # None where the options are as they were written
    threads: int
    data: dict[str, SplitFacts]  # "train", "valid", "test"
    findings: list[Finding] = Field(default_factory=list)  # of the data lints; accepted ones say so

    metrics: dict[MetricName, MetricSummary]  # canonical name -> summary on test
    primary: MetricName
    own_metrics: dict[MetricName, OwnMetric] = Field(
        default_factory=dict
    )  # canonical name -> where it comes from
    stopping: StoppingFacts | None
    best_round: int | None  # 1-based; the stored model has exactly this many rounds
    rounds_trained: int | None

    features: list[str] = Field(default_factory=list)  # the columns that the model scores, in its order
    categories: dict[str, list[str]] = Field(default_factory=dict)  # categorical feature -> text of each code
    n_leaves: int | None = None  # of all trees together: what scoring a row can cost at most
    learned: dict[str, Any] = Field(default_factory=dict)  # besides the model: biases of display positions
    files: dict[str, str] = Field(default_factory=dict)  # file in the run folder -> SHA-256
    notes: list[str] = Field(
        default_factory=list
    )  # what the reader must know: regrouped rows, constant model …
    seconds: dict[str, float]  # "fit", "score", "evaluate"
    latency: list[Latency] = Field(default_factory=list)  # of models of trees with the first of the seeds
    environment: dict[str, str]  # python, platform, processor, versions of what can move a number
    packages: dict[str, str] = Field(default_factory=dict)  # all that it stood on: distribution -> version
