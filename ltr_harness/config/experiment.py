"""What an experiment is, as values: everything decided, every name resolved, nothing left of the YAML.

`ltr_harness.config.load_experiment` makes these from a file. The descriptions below are what editors show
through ``configs/schema.json``.
"""

from __future__ import annotations

import dataclasses
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_type_hints

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    create_model,
    model_validator,
)

from ltr_harness.config.references import Reference
from ltr_harness.config.report_sections import known_section
from ltr_harness.config.search import SweepPoint, TuneConfig
from ltr_harness.config.values import (
    DecidingMetric,
    Files,
    FixedKMetric,
    Grade,
    Name,
    Seed,
    at_most,
    not_empty,
    one_or_many,
    only_valid,
    unique,
)
from ltr_harness.metrics import Metric
from ltr_harness.metrics.core.metric import LARGEST_CUTOFF
from ltr_harness.rankers.objectives import MetricValue
from ltr_harness.rankers.ranker import Ranker
from ltr_harness.readers.reader import Reader
from ltr_harness.stats.method import Method

MOST_FOLDS = 1000


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


class Holdout(_Section):
    """A share of the training files' queries, set aside for validation or test; a query is never split."""

    holdout: float = Field(gt=0, lt=1, description="Share of the training files' queries, such as 0.2.")
    seed: Seed = Field(default=1, description="Decides which queries; the same for every model and seed.")
    by_time: str | None = Field(
        default=None,
        description="Query attribute with times: the newest queries are set aside, for test those after validation's.",
    )
    together: str | None = Field(
        default=None, description="Query attribute, such as user: its queries stay on one side."
    )
    stratify: str | None = Field(
        default=None, description="Query attribute: the same share of each of its values is set aside."
    )


class SplitConfig(_Section):
    """Which files train, choose the number of rounds, and judge."""

    train: Files = Field(description="Training files, relative to data.root.")
    valid: Files | Holdout | None = Field(
        default=None,
        description="Validation files, or {holdout: 0.2, seed: 1}: a share of the training queries.",
    )
    test: Files | Holdout = Field(
        description="The files that judge the models, never used for any choice; or {holdout: 0.2, by_time: day}: a "
        "share of the training files' queries, which then neither train nor validate."
    )

    @model_validator(mode="after")
    def _divided_once(self) -> Self:
        if isinstance(self.valid, Holdout) and isinstance(self.test, Holdout):
            own = {"holdout"}
            if self.valid.model_dump(exclude=own) != self.test.model_dump(exclude=own):
                raise ValueError(
                    "valid and test are held out in different ways; expected the same by_time, together, stratify and "
                    "seed, because the queries are divided once"
                )
        return self


class DataLayout(_Section):
    """What stands under ``data:`` beside the reader's own options."""

    root: Path = Field(description="Folder of the data files; relative to this file.")
    splits: dict[Name, SplitConfig] = Field(
        default_factory=dict,
        description="{train, valid, test}, or several of these by the name of their fold.",
    )
    folds: int | None = Field(
        default=None,
        ge=3,
        le=MOST_FOLDS,
        description="Make this many folds, by query, out of `files`, instead of `splits`.",
    )
    files: Files | None = Field(default=None, description="The files that `folds` divides.")
    fold_seed: Seed = Field(default=1, description="Decides which query falls into which of the `folds`.")
    fold_together: str | None = Field(
        default=None, description="Query attribute, such as user: its queries stay in one of the `folds`."
    )
    fold_stratify: str | None = Field(
        default=None, description="Query attribute: its values are spread evenly over the `folds`."
    )
    max_grade: Grade | None = Field(
        default=None, description="The scale's highest grade; fixes ERR. Checked against the labels."
    )


class DataConfig(DataLayout):
    """Where the rows come from and how they are divided.

    Attributes:
        reader_name: as it stands in the file, or ``/path/to/file.py:Class``.
        reader: with its own options.
        root: absolute.
        splits: by fold; the fold is ``all`` where there is only one. Empty where `folds` divides `files`.
    """

    reader_name: str
    reader: Reader


class MetricsConfig(_Section):
    """What is measured, and which number decides."""

    cutoffs: Annotated[
        tuple[Annotated[int, Field(ge=1, le=LARGEST_CUTOFF)], ...],
        AfterValidator(not_empty),
        at_most(1_000),
        AfterValidator(unique),
    ] = Field(description="The fixed Ks of every table and chart.")
    report: Annotated[tuple[MetricValue, ...], AfterValidator(not_empty), at_most(1_000)] = Field(
        description="Metrics; each is reported at every cutoff unless it names its own, as in mrr@20."
    )
    primary: FixedKMetric = Field(
        description="The one number that decides, such as ndcg@10; its K is the K of the comparison."
    )

    @cached_property
    def metrics(self) -> tuple[Metric, ...]:
        """Every metric at every cutoff, in the order of the report, each once; the primary is among them."""
        wanted = [at_k for metric in self.report for at_k in metric.at(sorted(self.cutoffs))]
        return tuple(dict.fromkeys([*wanted, self.primary]))

    def on_scale(self, max_grade: float | None) -> MetricsConfig:
        """The same metrics, those that need the scale's highest grade having it."""
        return MetricsConfig(
            cutoffs=self.cutoffs,
            report=tuple(metric.on_scale(max_grade) for metric in self.report),
            primary=self.primary.on_scale(max_grade),
        )


class StoppingConfig(_Section):
    """One rule for every library: stop when the metric has not improved for `patience` rounds."""

    metric: DecidingMetric = Field(description="What decides, such as ndcg@10.")
    on: Annotated[Literal["valid"], BeforeValidator(only_valid)] = Field(
        default="valid", description="Always validation data; test data is refused."
    )
    patience: int = Field(default=50, ge=1, description="Rounds without improvement before training stops.")
    min_delta: float = Field(
        default=0.0, ge=0, allow_inf_nan=False, description="An improvement is more than this."
    )
    every: int = Field(default=1, ge=1, description="Evaluate each n-th round only.")
    max_rounds: int = Field(default=2000, ge=1, description="Train at most this many rounds.")


class ModelOptions(_Section):
    """What stands under a model beside the ranker's own options."""

    rounds: int | None = Field(
        default=None, ge=1, description="Train exactly this many rounds; only without `stopping`."
    )
    point: SweepPoint | None = Field(
        default=None, description="Which point of a sweep this is; filled in where `sweep` is spelt out."
    )


class ModelConfig(ModelOptions):
    """One competitor.

    Attributes:
        ranker_name: as it stands in the file, or ``/path/to/file.py:Class``.
        ranker: with its own options.
    """

    ranker_name: str
    ranker: Ranker

    @property
    def objective(self) -> str | None:
        """What it is trained for; None where the ranker has nothing of the kind."""
        objective = getattr(self.ranker, "objective", None)
        return None if objective is None else str(objective)

    def on_scale(self, max_grade: float | None) -> Self:
        """The same, what it optimises having the scale's highest grade if it asks for one."""
        return self.model_copy(update={"ranker": self.ranker.on_scale(max_grade)})


class CompareConfig(_Section):
    """How models are set against each other."""

    baseline: str = Field(description="The model all others are compared with; the first one unless given.")
    _outdated: str = PrivateAttr(default="")

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        _ = self.method
        return self

    @property
    def outdated(self) -> str:
        """What the options of version 0.2 that were written mean now; "" where there are none."""
        return self._outdated

    @property
    def method(self) -> Method:
        """The other options of the section."""
        return Method(**{option.name: getattr(self, option.name) for option in dataclasses.fields(Method)})


def _with_options(section: type[CompareConfig]) -> type[CompareConfig]:
    """The section with one key for each field of `Method`, which declares kind, default, bounds and description."""
    kinds = get_type_hints(Method)
    options: dict[str, Any] = {
        option.name: (
            kinds[option.name],
            Field(
                option.default, **{key: value for key, value in option.metadata.items() if key != "expected"}
            ),
        )
        for option in dataclasses.fields(Method)
    }
    return create_model(
        "CompareSection", __base__=section, __doc__=section.__doc__, __module__=__name__, **options
    )


CompareSection = _with_options(CompareConfig)

ReportFormat = Literal["html", "md", "json", "tex", "svg", "png"]


class ReportConfig(_Section):
    """What `run` writes of the comparison."""

    formats: Annotated[
        tuple[ReportFormat, ...],
        BeforeValidator(one_or_many),
        AfterValidator(not_empty),
        AfterValidator(unique),
    ] = Field(
        default=("html", "md", "json", "tex", "svg"),
        description="Of html, md, json, tex, svg and png; json alone is the quickest, as a pipeline wants it.",
    )
    sections: (
        Annotated[
            tuple[Annotated[str, AfterValidator(known_section)], ...],
            BeforeValidator(one_or_many),
            AfterValidator(not_empty),
            AfterValidator(unique),
        ]
        | None
    ) = Field(
        default=None,
        description="Which sections, in this order; all where none is named. `ltr-harness list sections` has their "
        "names. report.json is complete whatever is chosen.",
    )


class Header(_Section):
    """What stands at the top level beside the sections."""

    name: Name = Field(description="Runs are stored under this name.")
    seeds: Annotated[tuple[Seed, ...], AfterValidator(not_empty), at_most(10_000), AfterValidator(unique)] = (
        Field(default=(1,), description="Each model is trained once per seed.")
    )


class Experiment(Header):
    """Models, data, metrics and the rule that stops training: everything a run depends on.

    Attributes:
        stopping: None where each model says its own number of rounds.
        models: by the name that tables call them, in the order of the file; the points of a sweep among them.
        tune: None where nothing is searched for.
        report: what is written of the comparison; no run depends on it.
        references: published figures that the report sets beside ours; no run depends on them.
    """

    data: DataConfig
    metrics: MetricsConfig
    stopping: StoppingConfig | None = None
    models: dict[Name, ModelConfig]
    compare: CompareConfig
    tune: TuneConfig | None = None
    report: ReportConfig = ReportConfig()
    references: tuple[Reference, ...] = ()
