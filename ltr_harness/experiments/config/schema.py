"""An experiment as values: everything decided, every name resolved, nothing left of the YAML.

The descriptions are what editors show through ``configs/schema.json``.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationError,
    WithJsonSchema,
    model_validator,
)

from ltr_harness._util.catalog import did_you_mean
from ltr_harness._util.stored import StudyVariant, SweepPoint, TrainingQueries, with_options
from ltr_harness.boosting.stopping import StoppingRule
from ltr_harness.comparison.stats.method import Method
from ltr_harness.data.judgments import OneLabel
from ltr_harness.data.logs.settings import SpanText, TimeZone, one_or_many
from ltr_harness.data.readers.reader import Reader
from ltr_harness.data.time_folds import MOST_FOLDS, CalendarSpan, TimeFolds
from ltr_harness.errors import MismatchError, Problem, RankerError
from ltr_harness.experiments.config.report_parts import DEFAULT_FORMATS, ReportFormat, section_catalog
from ltr_harness.experiments.config.tune import ExperimentSection, Seed, TuneConfig, list_validator
from ltr_harness.metrics import Metric
from ltr_harness.metrics.core.metric import LARGEST_CUTOFF
from ltr_harness.models.objectives import MetricValue
from ltr_harness.models.ranker import Ranker


def checked_name(value: str) -> str:
    """Return a name that tables, folders and pages can carry; refuse others."""
    if not value.strip() or value != value.strip() or not value.isprintable() or len(value) > 200:
        raise ValueError("1 to 200 printable characters that neither begin nor end with a space")
    return value


def _check_decides(metric: Metric) -> Metric:
    if metric.diagnostic:
        reason = f"{metric.name} does not say which is better"
        raise ValueError(f"a metric that can decide, such as ndcg@10: {reason}")
    return metric


def _check_fixed_k(metric: Metric) -> Metric:
    if metric.k is None and not metric.depends_on_size:  # a probability has no K
        example = metric.with_cutoff(10) if metric.takes_cutoff else "ndcg@10"
        raise ValueError(f"a metric at a fixed K, such as {example}")
    return metric


def _check_is_valid(value: Any) -> Any:
    if value != "valid":
        reason = "chosen on the data that judges the models (test) it would flatter them, on train it would never stop"
        raise ValueError(f"'valid': the number of rounds is chosen on validation data only; {reason}")
    return value


Name = Annotated[str, AfterValidator(checked_name)]
_FILE = {"type": "string", "format": "file-path"}
Files = Annotated[
    tuple[str, ...],
    BeforeValidator(one_or_many),
    list_validator(10_000),
    WithJsonSchema({"anyOf": [_FILE, {"type": "array", "items": _FILE}]}),
]
DecidingMetric = Annotated[MetricValue, AfterValidator(_check_decides)]
FixedKMetric = Annotated[DecidingMetric, AfterValidator(_check_fixed_k)]
Grade = Annotated[int, Field(gt=0)] | Annotated[float, Field(gt=0, allow_inf_nan=False)]
SectionName = Annotated[str, AfterValidator(lambda name: section_catalog.checked_name(name))]


class Holdout(ExperimentSection):
    """A share of the training files' queries, set aside for validation or test; a query is never split."""

    holdout: float = Field(gt=0, lt=1)
    """Share of the training files' queries, such as 0.2."""
    seed: Seed = 1
    """Decides which queries; the same for every model and seed."""
    by_time: str | None = None
    """Query attribute with times: the newest queries are set aside, for test those after validation's."""
    together: str | None = None
    """Query attribute, such as user: its queries stay on one side."""
    stratify: str | None = None
    """Query attribute: the same share of each of its values is set aside."""


class TimeFoldsConfig(ExperimentSection):
    """Train on the past, test on what follows, several times: train | gap | valid | gap | test, oldest fold first."""

    by_time: str
    """Query attribute with times or dates; it decides which queries a part has."""
    test: SpanText
    """How long each test part is, such as 3 months; the last one ends with the data."""
    valid: SpanText | None = None
    """How long each validation part is."""
    gap: SpanText | None = None
    """What is left out between two parts, because labels look ahead."""
    train: Literal["expanding"] | SpanText = "expanding"
    """From the data's first day on, or a rolling window such as 24 months."""
    step: SpanText | None = None
    """From one test part to the next; as long as `test` unless given."""
    at_most: int | None = Field(default=None, ge=1, le=MOST_FOLDS)
    """The newest so many folds."""
    label_horizon: SpanText | None = None
    """How far ahead labels look, such as 30 days; a smaller gap is then an error."""
    time_zone: TimeZone = "UTC"
    """Days begin at its midnight."""

    @property
    def rule(self) -> TimeFolds:
        """The rule by which queries are divided."""
        spans = self.model_dump(include={"test", "valid", "gap", "train", "step", "label_horizon"})
        options = {
            name: CalendarSpan.of(text) for name, text in spans.items() if text not in (None, "expanding")
        }
        return TimeFolds(**options, at_most=self.at_most)


class SplitConfig(ExperimentSection):
    """The files that train, that choose the number of rounds, and that test."""

    train: Files
    """Training files, relative to data.root."""
    valid: Files | Holdout | None = None
    """Validation files, or {holdout: 0.2, seed: 1}: a share of the training queries."""
    test: Files | Holdout = Field(
        description="The files that judge the models, never used for any choice; or {holdout: 0.2, by_time: day}: a "
        "share of the training files' queries, which then neither train nor validate."
    )

    @model_validator(mode="after")
    def _divided_once(self) -> Self:
        holdouts = [side for side in (self.valid, self.test) if isinstance(side, Holdout)]
        if len({side.model_copy(update={"holdout": 0}) for side in holdouts}) > 1:
            expected = "the same by_time, together, stratify and seed, because the queries are divided once"
            raise MismatchError("valid and test are held out in different ways", expected)
        return self


class JudgmentsConfig(ExperimentSection):
    """Judgments beside the rows, matched by query and document id: what is judged and no row was missed."""

    files: Files | None = None
    """Tables, qrels or JSON, relative to data.root: the truth about all queries."""
    train: Files | None = None
    """Judgments of the training queries alone, in place of `files`."""
    valid: Files | None = None
    """Judgments of the validation queries alone."""
    test: Files | None = None
    """Judgments of the test queries alone."""
    query: str | None = None
    """Column with the query id. Default: as in the rows, or a known name."""
    document_id: str | None = None
    """Column with the document id. Default: as in the rows, or a known name."""
    label: str | None = None
    """Column with the grade. Default: as in the rows, or a known name."""
    several: OneLabel | None = None
    """How several judgments of a document become one label; an error unless given. Majority: of equals the lowest."""

    @model_validator(mode="after")
    def _check_sources(self) -> Self:
        if (self.files is None) == (not self.by_split):
            expected = "either `files`, or `train`, `valid` and `test` with files each, or some of them"
            raise ValueError(expected)
        return self

    @property
    def by_split(self) -> dict[str, tuple[str, ...]]:
        """Split to its files; empty where all splits share them."""
        return self.model_dump(include={"train", "valid", "test"}, exclude_none=True)

    @property
    def columns(self) -> dict[str, str]:
        """Role to the column that is named for it."""
        return self.model_dump(include={"query", "document_id", "label"}, exclude_none=True)


def _as_files(value: Any) -> Any:
    return {"files": value} if isinstance(value, str | list) else value


class DataLayout(ExperimentSection):
    """The options under ``data:`` beside the reader's own."""

    root: Path
    """Folder of the data files; relative to this file."""
    splits: dict[Name, SplitConfig] = Field(default_factory=dict)
    """{train, valid, test}, or several of these by the name of their fold."""
    folds: Annotated[int, Field(ge=3, le=MOST_FOLDS)] | TimeFoldsConfig | None = None
    """Make this many folds, by query, out of `files`, instead of `splits`; or {by_time: day, test: 3 months, …}."""
    files: Files | None = None
    """The files that `folds` divides."""
    fold_seed: Seed = 1
    """Decides which query falls into which of the `folds`."""
    fold_together: str | None = None
    """Query attribute, such as user: its queries stay in one of the `folds`."""
    fold_stratify: str | None = None
    """Query attribute: its values are spread evenly over the `folds`."""
    max_grade: Grade | None = None
    """The scale's highest grade; fixes ERR. Checked against the labels."""
    judgments: (
        Annotated[JudgmentsConfig, BeforeValidator(_as_files, json_schema_input_type=Files | JudgmentsConfig)]
        | None
    ) = None
    """The truth, of which the rows are the candidates: truth.parquet, or {train: …, test: …}."""
    no_candidates: Literal["zero", "skip"] = "zero"
    """Judged queries without candidates: the value 0, or left out."""


class DataConfig(DataLayout):
    """The layout, its root absolute and its splits by fold (``all`` where there is one), with the reader."""

    reader_name: str  # as it stands in the file, or ``/path/to/file.py:Class``
    reader: Reader


class MetricsConfig(ExperimentSection):
    """The metrics that are measured, and the primary one, which decides."""

    cutoffs: Annotated[tuple[Annotated[int, Field(ge=1, le=LARGEST_CUTOFF)], ...], list_validator(1_000)]
    """The fixed Ks of every table and chart."""
    report: Annotated[tuple[MetricValue, ...], list_validator(1_000, repeated=True)]
    """Metrics; each is reported at every cutoff unless it names its own, as in mrr@20."""
    primary: FixedKMetric
    """The one number that decides, such as ndcg@10; its K is the K of the comparison."""

    @cached_property
    def metrics(self) -> tuple[Metric, ...]:
        """Every metric at every cutoff, in the order of the report, each once; the primary is among them."""
        requested = [at_k for metric in self.report for at_k in metric.at(sorted(self.cutoffs))]
        return tuple(dict.fromkeys([*requested, self.primary]))

    def with_max_grade(self, max_grade: float | None) -> "MetricsConfig":
        """Return the section with the scale's highest grade in the metrics that need it."""
        return MetricsConfig(
            cutoffs=self.cutoffs,
            report=tuple(metric.with_max_grade(max_grade) for metric in self.report),
            primary=self.primary.with_max_grade(max_grade),
        )


@with_options(StoppingRule)
class StoppingConfig(ExperimentSection):
    """One rule for every library: stop when the metric has not improved for `patience` rounds."""

    metric: DecidingMetric
    """What decides, such as ndcg@10."""
    on: Annotated[Literal["valid"], BeforeValidator(_check_is_valid)] = "valid"
    """Always validation data; test data is refused."""

    def rule(self, max_grade: float | None) -> StoppingRule:
        """Return the rule, its metric having the scale's highest grade if it asks for one."""
        options = self.model_dump(exclude={"metric", "on"})
        return StoppingRule(self.metric.with_max_grade(max_grade), **options)


class CarriedConfig(ExperimentSection):
    """Values that models of the same kind learned on validation data, for a model that has none."""

    temperature: dict[str, Annotated[float, Field(gt=0, allow_inf_nan=False)]] = Field(default_factory=dict)
    """T of each metric of probabilities that is reported, such as {log_loss: 1.2}."""


class ModelOptions(ExperimentSection):
    """The options under a model beside the ranker's own."""

    rounds: int | None = Field(default=None, ge=1)
    """Train exactly this many rounds; only without `stopping`."""
    point: SweepPoint | None = None
    """Which point of a sweep this is; filled in where `sweep` is spelt out."""
    training_queries: TrainingQueries | None = None
    """Train on a share of the training queries, such as {share: 0.25, draw: 1}; all unless given."""
    variant: StudyVariant | None = None
    """Which variant of a study this is; filled in where `study` is spelt out."""
    carried: CarriedConfig | None = None
    """Taken over without validation data; `--final` fills it in from the records of the compared models."""


class ModelConfig(ModelOptions):
    """One competitor."""

    ranker_name: str  # as it stands in the file, or ``/path/to/file.py:Class``
    ranker: Ranker

    @property
    def objective(self) -> str | None:
        """The objective of training; None where the ranker has none."""
        objective = getattr(self.ranker, "objective", None)
        return None if objective is None else str(objective)

    @property
    def temperatures(self) -> dict[str, float]:
        """T by metric, for a model without validation data."""
        return {} if self.carried is None else self.carried.temperature

    def with_features(self, names: Sequence[str]) -> Self:
        """Return the model with the names of the data's features in the place of patterns."""
        return self.model_copy(update={"ranker": self.ranker.with_features(names)})

    def with_max_grade(self, max_grade: float | None) -> Self:
        """Return the model with the scale's highest grade in its objective, if that asks for one."""
        return self.model_copy(update={"ranker": self.ranker.with_max_grade(max_grade)})


@with_options(Method)
class CompareConfig(ExperimentSection):
    """The comparison of models: baseline, test, intervals, margins."""

    baseline: str
    """The model all others are compared with; the first one unless given."""
    ledger: bool = True
    """Count the comparison in looks.jsonl beside the experiments, as every other of these test queries."""

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        _ = self.method
        return self

    @property
    def method(self) -> Method:
        """The other options of the section."""
        return Method(**{option.name: getattr(self, option.name) for option in dataclasses.fields(Method)})


Formats = Annotated[
    tuple[ReportFormat, ...],
    BeforeValidator(one_or_many, json_schema_input_type=ReportFormat | tuple[ReportFormat, ...]),
    list_validator(),
]
SectionNames = Annotated[
    tuple[SectionName, ...],
    BeforeValidator(one_or_many, json_schema_input_type=SectionName | tuple[SectionName, ...]),
    list_validator(),
]


class ReportConfig(ExperimentSection):
    """The files that `run` writes about the comparison."""

    formats: Formats = DEFAULT_FORMATS
    """Of html, md, json, tex, svg and png; json alone is the quickest, as a pipeline wants it."""
    sections: SectionNames | None = Field(
        default=None,
        description="The sections, in this order; all if none is named. `ltr-harness list sections` has their "
        "names. report.json is complete whatever is chosen.",
    )


class Header(ExperimentSection):
    """The options at the top level beside the sections."""

    name: Name
    """Runs are stored under this name."""
    seeds: Annotated[tuple[Seed, ...], list_validator(10_000)] = (1,)
    """Each model is trained once per seed."""


class Outline(ExperimentSection):
    """The parts of an experiment that are about its comparison, nothing of which has to be loaded."""

    name: str
    models: dict[str, Any]  # by name, in the order of the file; variants of a study as `ModelOptions`
    compare: CompareConfig
    report: ReportConfig = ReportConfig()
    left_out: tuple[str, ...] = ()  # retired parts of a stored configuration

    @property
    def studied(self) -> dict[str, ModelOptions]:
        """The variants of studied models by name."""
        return {
            name: model
            for name, model in self.models.items()
            if isinstance(model, ModelOptions) and model.variant is not None
        }


class Experiment(Header, Outline):
    """Models, data, metrics and the rule that stops training; runs depend on all but `report`."""

    data: DataConfig
    metrics: MetricsConfig
    stopping: StoppingConfig | None = None  # None where each model says its own number of rounds
    models: dict[Name, ModelConfig]  # the points of a sweep among them
    tune: TuneConfig | None = None  # None where nothing is searched for


ROUNDS = "rounds"


def model_at(config: ModelConfig, point: Mapping[str, Any]) -> ModelConfig:
    """Return the model at a point of its search space; refuse impossible options and values together."""
    fields = config.ranker.model_dump()
    rounds = config.rounds
    canonical = getattr(config.ranker, "canonical_name", str)  # a parameter may have several names
    problems = []
    for option, value in point.items():
        field, dot, name = option.partition(".")
        if option == ROUNDS:
            rounds = value
        elif field not in fields or (dot and not isinstance(fields[field], dict)):
            cure = did_you_mean(field, [*fields, ROUNDS])
            if not dot and "params" in fields and not cure.startswith("did you mean"):
                cure = f"did you mean 'params.{option}'?"
            found = f"the ranker {config.ranker_name} has no option {option!r}"
            problems.append(Problem(option, found, cure=cure))
        elif dot:
            other_parameters = {
                key: parameter
                for key, parameter in fields[field].items()
                if canonical(key) != canonical(name)
            }
            fields[field] = {**other_parameters, name: value}
        else:
            fields[field] = value
    RankerError.refuse(problems)
    ranker = _validated_ranker(type(config.ranker), fields)
    return config.model_copy(update={"ranker": ranker, "rounds": rounds})


def _validated_ranker(kind: type[Ranker], fields: Mapping[str, Any]) -> Ranker:
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        details = error.errors(include_url=False)
        raise RankerError(
            [Problem(".".join(map(str, detail["loc"])), detail["msg"]) for detail in details]
        ) from None
