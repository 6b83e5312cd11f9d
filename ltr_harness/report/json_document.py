"""The complete numbers at full precision, for programs: one model gives ``report.json`` and its schema."""

import json
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from ltr_harness._util.escapes import printable
from ltr_harness._util.stored import SCHEMA_VERSION, harness_version
from ltr_harness.comparison.comparison import Outcome, n_effective
from ltr_harness.comparison.contrasts import Paired, Summary
from ltr_harness.comparison.headroom import ModelHeadroom
from ltr_harness.comparison.latency import ModelLatency
from ltr_harness.comparison.over_time import FoldSigns, PeriodResult
from ltr_harness.comparison.slices import SliceResult
from ltr_harness.errors import Caution
from ltr_harness.experiments.compare.next_gain import NextGain
from ltr_harness.experiments.runs.record import Record
from ltr_harness.report.data import ReportData
from ltr_harness.report.sections.calibration import Bin, calibration
from ltr_harness.report.sections.conventions import Convention, means, other_tools
from ltr_harness.report.sections.cost import Cost, FirstRounds, Serving, cost, front, serving
from ltr_harness.report.sections.features import Importance, importance
from ltr_harness.report.sections.next_gain import answer
from ltr_harness.report.sections.provenance import config_digest
from ltr_harness.report.sections.queries import ChangedQuery, all_changes, gains_and_losses
from ltr_harness.report.sections.ties import audits

_REPORT_FIELDS = ("title", "metrics", "models", "n_undefined", "slices", "failures", "latencies")
_COMPARISON_FIELDS = (
    *("verdict", "primary", "baseline", "test", "confidence"),
    *("family", "cautions", "n_queries", "pairs", "fold_signs"),
)


class OtherTool(BaseModel, extra="forbid"):
    """A metric's mean under another tool's conventions."""

    model: str
    metric: str
    names: list[str] = Field(serialization_alias="as")
    in_full: str
    mean: float


class Ties(BaseModel, extra="forbid"):
    """The stored part of a `TieAudit`."""

    model: str
    mean: float
    mean_low: float
    mean_high: float
    share_touched: float
    share_tied_positions: float


class NextGainAnswer(BaseModel, extra="forbid"):
    """A study of one model, and its answer as a sentence."""

    answer: str
    study: NextGain


class RunRecord(Record):
    """A record and the name of its run folder."""

    folder: str


class ReportDocument(BaseModel):
    """``report.json``."""

    model_config = ConfigDict(
        extra="forbid", title="report.json of ltr-harness", json_schema_serialization_defaults_required=True
    )

    schema_version: Literal[3] = SCHEMA_VERSION
    written_by: str = Field(default_factory=harness_version, description="Version of ltr-harness.")
    title: str
    outcome: Outcome = Field(description="Verdict of the comparison with the baseline.")
    headline: str = Field(description="The outcome in at most twenty words.")
    verdict: str = Field(description="One sentence: which model, by how much, with what interval.")
    primary: str = Field(description="The metric, and so the K, that decides.")
    baseline: str
    metrics: list[str]
    models: list[str] = Field(description="Best mean at the primary metric first.")
    test: str
    unit: str | None = Field(default=None, description="Unit of tests and intervals: a query attribute.")
    weights: str | None = Field(
        default=None, description="The query attribute by which queries count; null where each counts once."
    )
    confidence: float
    family: str = Field(description="Which hypotheses were corrected together.")
    cautions: list[Caution] = Field(description="What a reader of the numbers should keep in mind.")
    n_queries: int
    n_effective: float = Field(description="As many queries of equal weight tell as much.")
    n_undefined: int
    summaries: list[Summary] = Field(description="One model at one metric; null where a value is undefined.")
    pairs: list[Paired] = Field(
        description="One model against the baseline at one metric, on paired queries."
    )
    headroom: list[ModelHeadroom] = Field(
        description="Models beside a random and the best order of their candidates, at the primary metric."
    )
    judged: dict[str, float] = Field(
        default_factory=dict,
        description="Model to the mean share of judged documents among those that the primary metric looks at; empty "
        "where all are, or nobody says which.",
    )
    letters: dict[str, list[str]] = Field(
        description="Model to letters; models that share one are not shown to differ at the primary metric."
    )
    fold_signs: list[FoldSigns] = Field(
        description="In how many folds in time a model's difference has the sign of the whole."
    )
    over_time: list[PeriodResult] = Field(description="One model in a period or a fold in time.")
    slices: list[SliceResult] = Field(description="One model against the baseline on a part of the queries.")
    changed_queries: list[ChangedQuery] = Field(description="The largest gains and losses per query.")
    calibration: list[Bin] = Field(
        description="Rows in bins by predicted probability, and the share that won; each model's first seed."
    )
    conventions: list[Convention] = Field(
        description="Means by the rule for queries without relevant documents."
    )
    other_tools: list[OtherTool] = Field(
        description="Means of the stored scores under other tools' conventions."
    )
    ties: list[Ties] = Field(description="Effect of the order of equal scores on the primary metric.")
    importance: list[Importance] = Field(description="A feature's share of a model, averaged over its runs.")
    cost: list[Cost] = Field(description="Cost of training and scoring, medians over runs.")
    serving: list[Serving] = Field(description="Cost of ranking a query, by the length of its list.")
    first_rounds: list[FirstRounds] = Field(
        description="Models cut after fewer rounds; on the front, no other is as cheap and as good."
    )
    latencies: list[ModelLatency] = Field(
        default_factory=list, description="Milliseconds per query, where they were given with --latency."
    )
    next_gain: list[NextGainAnswer] = Field(
        default_factory=list, description="What a study found: one entry for each studied model."
    )
    runs: list[RunRecord] = Field(description="Records of the runs, with their `folder`.")
    failures: list[Record]
    config_sha256: str | None


def render(data: ReportData) -> str:
    """Return JSON text with sorted keys and null instead of NaN, equal for equal runs."""
    text = json.dumps(document(data), indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return printable(text, lines=True) + "\n"


def document(data: ReportData) -> dict[str, Any]:
    """Return the report's values as JSON types, by the `schema`."""
    comparison, method = data.comparison, data.comparison.method
    body = ReportDocument(
        **{name: getattr(data, name) for name in _REPORT_FIELDS},
        **{name: getattr(comparison, name) for name in _COMPARISON_FIELDS},
        outcome=comparison.headline.outcome,
        headline=comparison.headline.text,
        unit=method.unit,
        weights=method.weights if method.is_weighted else None,
        n_effective=n_effective(comparison),
        summaries=[comparison.summary(model, metric) for model in data.models for metric in data.metrics],
        headroom=list(comparison.headroom.values()),
        judged=dict(comparison.judged),
        letters={model: list(letters) for model, letters in data.letters.groups.items()},
        over_time=list(comparison.over_time),
        changed_queries=all_changes(gains_and_losses(data)),
        calibration=calibration(data),
        conventions=_conventions(data),
        other_tools=_means_by_tool(data),
        ties=_ties(data),
        importance=_importance(data),
        cost=[cost(model, records) for model in data.models if (records := data.records_of(model))],
        serving=[times for model in data.models for times in serving(model, data.records_of(model))],
        first_rounds=front(data),
        next_gain=[NextGainAnswer(answer=answer(gain), study=gain) for gain in data.next_gains],
        runs=[RunRecord(**{**run.record.model_dump(), "folder": run.path.name}) for run in data.ordered_runs],
        config_sha256=config_digest(data),
    )
    # as text, where NaN is null
    text = body.model_dump_json(by_alias=True, fallback=_as_json_value, warnings="none")
    return dict(json.loads(text))


def _conventions(data: ReportData) -> list[Convention]:
    conventions = (means(data, model, metric) for model in data.models for metric in data.metrics)
    return [convention for convention in conventions if convention is not None]


def _means_by_tool(data: ReportData) -> list[OtherTool]:
    rows = []
    for metric in other_tools(data):
        for model, values in metric.means.items():
            for tool, mean in zip(metric.conventions, values, strict=True):
                names, in_full = list(tool.names), str(tool.metric)
                rows.append(
                    OtherTool(model=model, metric=metric.metric, names=names, in_full=in_full, mean=mean)
                )
    return rows


def _ties(data: ReportData) -> list[Ties]:
    fields = [name for name in Ties.model_fields if name != "model"]
    return [
        Ties(model=model, **{name: getattr(audit, name) for name in fields})
        for model, audit in audits(data).items()
    ]


def _importance(data: ReportData) -> list[Importance]:
    return [feature for model in data.models for feature in importance(model, data.runs_of(model)).values()]


def _as_json_value(value: object) -> Any:
    """Return NumPy's numbers as Python's, and as text whatever else is no JSON."""
    return value.item() if isinstance(value, np.generic) else str(value)


def schema() -> dict[str, Any]:
    """Return the JSON Schema of ``report.json``."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **ReportDocument.model_json_schema(mode="serialization", schema_generator=_NullForNaN),
    }


class _NullForNaN(GenerateJsonSchema):
    """Numbers that may be undefined are written as null; nothing holds more than it declares."""

    def float_schema(self, schema: core_schema.FloatSchema) -> JsonSchemaValue:
        return {**super().float_schema(schema), "type": ["number", "null"]}

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        resolved = super().dataclass_schema(schema)
        self.resolve_ref_schema(resolved).setdefault("additionalProperties", False)
        return resolved
