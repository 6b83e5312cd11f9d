"""The complete numbers at full precision, for programs: one model gives ``report.json`` and its schema."""

from __future__ import annotations

import json
from typing import Any, Final, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from ltr_harness.comparison.result import Paired, Summary
from ltr_harness.comparison.slices import SliceResult
from ltr_harness.report.data import ReportData
from ltr_harness.report.numbers.serving import list_times
from ltr_harness.report.sections.conventions import means
from ltr_harness.report.sections.cost import cost, front
from ltr_harness.report.sections.features import importance
from ltr_harness.report.sections.provenance import config_digest
from ltr_harness.report.sections.queries import changes
from ltr_harness.runs.record import Record
from ltr_harness.wording import printable

SCHEMA_VERSION: Final = 1


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", from_attributes=True)


class ChangedQuery(_Row):
    """A query that a model serves better or worse than the baseline does."""

    model: str
    query: str
    baseline_value: float
    value: float
    difference: float
    rows: int | None
    relevant: int | None


class Convention(_Row):
    """A model's mean by each rule for queries without relevant documents, and their share."""

    model: str
    metric: str
    skip: float
    one: float
    zero: float
    share: float


class Importance(_Row):
    """A feature's share of a model."""

    model: str
    feature: str
    gain: float
    split: float


class Cost(_Row):
    """What a model's training and scoring cost."""

    model: str
    fit_seconds: float | None
    trees: int | None
    leaves: int | None
    microseconds_per_row: float | None
    threads: int


class Serving(_Row):
    """Microseconds of one call that scores a list of documents, on one thread."""

    model: str
    documents: int
    p50: float
    p99: float | None


class FirstRounds(_Row):
    """A model's first rounds alone: the primary metric's mean, microseconds for 100 documents."""

    model: str
    rounds: int
    mean: float
    p50: float
    on_front: bool


class OtherTool(_Row):
    """A metric's mean under another tool's conventions."""

    model: str
    metric: str
    names: list[str] = Field(serialization_alias="as")
    in_full: str
    mean: float


class PublishedFigure(_Row):
    """A published figure beside ours, by its source's conventions and by our definition."""

    source: str
    data: str | None
    model: str
    metric: str
    published: float
    mean: float | None
    difference: float | None
    ci_low: float | None
    ci_high: float | None
    own_metric: str
    own_mean: float | None
    share_empty: float | None
    published_without_empty: float | None
    reason: str


class Ties(_Row):
    """What is kept of a `TieAudit`."""

    model: str
    mean: float
    mean_low: float
    mean_high: float
    share_touched: float
    share_tied_positions: float


class RunRecord(Record):
    """A record and the name of its run folder."""

    folder: str


class Document(BaseModel):
    """``report.json``."""

    model_config = ConfigDict(
        extra="forbid", title="report.json of ltr-harness", json_schema_serialization_defaults_required=True
    )

    schema_version: Literal[1] = SCHEMA_VERSION
    title: str
    verdict: str = Field(description="One sentence: which model, by how much, how sure.")
    primary: str = Field(description="The metric, and so the K, that decides.")
    baseline: str
    metrics: list[str]
    models: list[str] = Field(description="Best mean at the primary metric first.")
    test: str
    correction: str
    unit: str | None = Field(default=None, description="The query attribute that tests and intervals go by.")
    confidence: float
    family: str = Field(description="Which hypotheses were corrected together.")
    notes: list[str]
    n_queries: int
    n_undefined: int
    summaries: list[Summary] = Field(description="One model at one metric; null where a value is undefined.")
    pairs: list[Paired] = Field(
        description="One model against the baseline at one metric, on paired queries."
    )
    letters: dict[str, list[str]] = Field(
        description="Model to letters; models that share one do not differ at the primary metric."
    )
    slices: list[SliceResult] = Field(description="One model against the baseline on a part of the queries.")
    changed_queries: list[ChangedQuery] = Field(description="The largest gains and losses per query.")
    conventions: list[Convention] = Field(
        description="Means by the rule for queries without relevant documents."
    )
    other_tools: list[OtherTool] = Field(
        description="Means of the stored scores under other tools' conventions."
    )
    published: list[PublishedFigure] = Field(description="Published figures of the models beside ours.")
    ties: list[Ties] = Field(description="What the order of equal scores decides at the primary metric.")
    importance: list[Importance] = Field(description="A feature's share of a model, averaged over its runs.")
    cost: list[Cost] = Field(description="What training and scoring cost, medians over runs.")
    serving: list[Serving] = Field(description="What ranking a query costs, by the length of its list.")
    first_rounds: list[FirstRounds] = Field(
        description="Models cut after fewer rounds; on the front, no other is as cheap and as good."
    )
    runs: list[RunRecord] = Field(description="Records of the runs, with their `folder`.")
    failures: list[Record]
    config_sha256: str | None


def render(data: ReportData) -> str:
    """JSON text: sorted keys, no NaN (null instead), equal for equal runs."""
    text = json.dumps(document(data), indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return printable(text, lines=True) + "\n"


def document(data: ReportData) -> dict[str, Any]:
    """The report's values as JSON types; what each one is, `schema` says."""
    comparison = data.comparison
    body = Document(
        title=data.title,
        verdict=comparison.verdict,
        primary=data.primary,
        baseline=data.baseline,
        metrics=list(data.metrics),
        models=list(data.models),
        test=comparison.test,
        correction=comparison.correction,
        unit=comparison.method.unit,
        confidence=comparison.confidence,
        family=comparison.family,
        notes=list(comparison.notes),
        n_queries=data.n_queries,
        n_undefined=data.n_undefined,
        summaries=[data.summary(model, metric) for model in data.models for metric in data.metrics],
        pairs=list(comparison.pairs),
        letters={model: list(letters) for model, letters in data.letters.groups.items()},
        slices=list(data.slices),
        changed_queries=_changed_queries(data),
        conventions=[
            Convention(model=model, metric=metric, **known._asdict())
            for model in data.models
            for metric in data.metrics
            if (known := means(data, model, metric)) is not None
        ],
        other_tools=[
            OtherTool(
                model=model, metric=one.metric, names=list(way.names), in_full=str(way.metric), mean=mean
            )
            for one in data.other_tools
            for model, values in one.means.items()
            for way, mean in zip(one.conventions, values, strict=True)
        ],
        published=_published(data),
        ties=[
            Ties(model=model, **{name: getattr(audit, name) for name in Ties.model_fields if name != "model"})
            for model, audit in data.tie_audits.items()
        ],
        importance=[
            Importance(model=model, feature=feature, **share._asdict())
            for model in data.models
            for feature, share in importance(data.runs_of(model)).items()
        ],
        cost=_costs(data),
        serving=_serving(data),
        first_rounds=[
            FirstRounds(model=one.model, on_front=one.on_front, **one.cut._asdict()) for one in front(data)
        ],
        runs=[RunRecord(**{**run.record.model_dump(), "folder": run.path.name}) for run in data.ordered_runs],
        failures=list(data.failures),
        config_sha256=config_digest(data),
    )
    # as text, where NaN is null
    read: dict[str, Any] = json.loads(body.model_dump_json(by_alias=True, fallback=_plain, warnings="none"))
    return read


def _costs(data: ReportData) -> list[Cost]:
    return [
        Cost(model=model, **cost(records)._asdict())
        for model in data.models
        if (records := data.records_of(model))
    ]


def _serving(data: ReportData) -> list[Serving]:
    return [
        Serving(model=model, **one._asdict())
        for model in data.models
        for one in list_times(data.records_of(model))
    ]


def _published(data: ReportData) -> list[PublishedFigure]:
    return [
        PublishedFigure(
            source=data.references[row.reference].source,
            data=data.references[row.reference].data,
            **{name: value for name, value in row._asdict().items() if name != "reference"},
        )
        for row in data.published
    ]


def _changed_queries(data: ReportData) -> list[ChangedQuery]:
    return [
        ChangedQuery(**change._asdict(), difference=change.difference)
        for model in data.rivals
        for kind in changes(data, model)
        for change in kind
    ]


def schema() -> dict[str, Any]:
    """JSON Schema of ``report.json``."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Document.model_json_schema(mode="serialization", schema_generator=_NullForNaN),
    }


class _NullForNaN(GenerateJsonSchema):
    """Numbers that may be undefined are written as null; nothing holds more than it declares."""

    def float_schema(self, schema: core_schema.FloatSchema) -> JsonSchemaValue:
        return {**super().float_schema(schema), "type": ["number", "null"]}

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        resolved = super().dataclass_schema(schema)
        self.resolve_ref_schema(resolved).setdefault("additionalProperties", False)
        return resolved


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's, and whatever else is no JSON as text."""
    return value.item() if isinstance(value, np.generic) else str(value)
