"""The complete numbers at full precision, for programs."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, get_type_hints

import numpy as np

from ltr_harness.printable import printable
from ltr_harness.report.data import ReportData

SCHEMA_VERSION = 1

TIES = ("mean", "mean_low", "mean_high", "share_touched", "share_tied_positions")
"""What is kept of a `TieAudit`."""


def render(data: ReportData) -> str:
    """JSON text: sorted keys, no NaN (null instead), equal for equal runs."""
    text = json.dumps(document(data), indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return printable(text, lines=True) + "\n"


def document(data: ReportData) -> dict[str, Any]:
    """The report's values as JSON types; what each one is, `schema` says."""
    from ltr_harness.report.sections.conventions import means
    from ltr_harness.report.sections.features import cost, importance
    from ltr_harness.report.sections.provenance import config_digest
    from ltr_harness.report.sections.queries import changes

    comparison = data.comparison
    conventions = [
        {"model": model, "metric": metric, **found._asdict()}
        for model in data.models
        for metric in data.metrics
        if (found := means(data, model, metric)) is not None
    ]
    tools = [
        {
            "model": model,
            "metric": one.metric,
            "as": list(way.names),
            "in_full": str(way.metric),
            "mean": mean,
        }
        for one in data.other_tools
        for model, values in one.means.items()
        for way, mean in zip(one.conventions, values, strict=True)
    ]
    ties = [
        {"model": model, **{name: getattr(audit, name) for name in TIES}}
        for model, audit in data.tie_audits.items()
    ]
    changed = [
        {**change._asdict(), "difference": change.difference}
        for model in data.rivals
        for kind in changes(data, model)
        for change in kind
    ]
    shares = [
        {"model": model, "feature": feature, **share._asdict()}
        for model in data.models
        for feature, share in importance(data.runs_of(model)).items()
    ]
    costs = [
        {"model": model, **cost(records)._asdict()}
        for model in data.models
        if (records := data.records_of(model))
    ]
    body: Any = _plain(
        {
            "schema_version": SCHEMA_VERSION,
            "title": data.title,
            "verdict": comparison.verdict,
            "primary": data.primary,
            "baseline": data.baseline,
            "metrics": list(data.metrics),
            "models": list(data.models),
            "test": comparison.test,
            "correction": comparison.correction,
            "confidence": comparison.confidence,
            "family": comparison.family,
            "notes": list(comparison.notes),
            "n_queries": data.n_queries,
            "n_undefined": data.n_undefined,
            "summaries": [data.summary(model, metric) for model in data.models for metric in data.metrics],
            "pairs": list(comparison.pairs),
            "letters": data.letters.groups,
            "slices": list(data.slices),
            "changed_queries": changed,
            "conventions": conventions,
            "other_tools": tools,
            "ties": ties,
            "importance": shares,
            "cost": costs,
            "runs": [{"folder": run.path.name, **run.record.model_dump()} for run in data.ordered_runs],
            "failures": [record.model_dump() for record in data.failures],
            "config_sha256": config_digest(data),
        }
    )
    return dict(body)


def schema() -> dict[str, Any]:
    """JSON Schema of ``report.json``, from the very types whose values it holds."""
    from pydantic import TypeAdapter

    from ltr_harness.comparison.result import Paired, Summary
    from ltr_harness.comparison.slices import SliceResult
    from ltr_harness.report.sections.conventions import Means
    from ltr_harness.report.sections.features import Cost, Share
    from ltr_harness.report.sections.queries import Change
    from ltr_harness.runs.record import Record

    def properties_of(kind: Any) -> dict[str, Any]:
        if issubclass(kind, tuple):  # a NamedTuple, written by its names
            hints = get_type_hints(kind)
            return {name: TypeAdapter(hints[name]).json_schema() for name in kind._fields}
        return dict(TypeAdapter(kind).json_schema(mode="serialization")["properties"])

    def rows(description: str, *kinds: Any, **more: Any) -> dict[str, Any]:
        properties = {name: found for kind in kinds for name, found in properties_of(kind).items()} | more
        item = _nullable({"type": "object", "properties": properties, "required": sorted(properties)})
        return {
            "type": "array",
            "description": description,
            "items": {**item, "additionalProperties": False},
        }

    record = Record.model_json_schema(mode="serialization")
    definitions = record.pop("$defs")
    text, number = {"type": "string"}, {"type": "number"}
    texts = {"type": "array", "items": text}
    named = {"model": text, "metric": text}
    run = {"allOf": [{"$ref": "#/$defs/Record"}]}
    properties = {
        "schema_version": {"const": SCHEMA_VERSION},
        "title": text,
        "verdict": {**text, "description": "One sentence: which model, by how much, how sure."},
        "primary": {**text, "description": "The metric, and so the K, that decides."},
        "baseline": text,
        "metrics": texts,
        "models": {**texts, "description": "Best mean at the primary metric first."},
        "test": text,
        "correction": text,
        "confidence": number,
        "family": {**text, "description": "Which hypotheses were corrected together."},
        "notes": texts,
        "n_queries": {"type": "integer"},
        "n_undefined": {"type": "integer"},
        "summaries": rows("One model at one metric; null where a value is undefined.", Summary),
        "pairs": rows("One model against the baseline at one metric, on paired queries.", Paired),
        "letters": {
            "type": "object",
            "description": "Model to letters; models that share one do not differ at the primary metric.",
            "additionalProperties": texts,
        },
        "slices": rows("One model against the baseline on a part of the queries.", SliceResult),
        "changed_queries": rows("The largest gains and losses per query.", Change, difference=number),
        "conventions": rows("Means by the rule for queries without relevant documents.", Means, **named),
        "other_tools": rows(
            "Means of the stored scores under other tools' conventions.",
            **named,
            **{"as": texts, "in_full": text, "mean": number},
        ),
        "ties": rows(
            "What the order of equal scores decides at the primary metric.",
            model=text,
            **dict.fromkeys(TIES, number),
        ),
        "importance": rows(
            "A feature's share of a model, averaged over its runs.", Share, model=text, feature=text
        ),
        "cost": rows("What training and scoring cost, medians over runs.", Cost, model=text),
        "runs": {"type": "array", "items": run, "description": "Records of the runs, with their `folder`."},
        "failures": {"type": "array", "items": {"$ref": "#/$defs/Record"}},
        "config_sha256": {"type": ["string", "null"]},
    }
    # A run is a record with one more property, so the record must not refuse it.
    record.pop("additionalProperties", None)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "report.json of ltr-harness",
        "type": "object",
        "properties": properties,
        "required": sorted(properties),
        "additionalProperties": False,
        "$defs": {**definitions, "Record": record},
    }


def _nullable(schema: Any) -> Any:
    """Numbers that may be undefined: NaN is written as null."""
    if isinstance(schema, dict):
        found = {key: _nullable(part) for key, part in schema.items() if key != "default"}
        if found.get("type") == "number":
            found["type"] = ["number", "null"]
        return found
    return [_nullable(part) for part in schema] if isinstance(schema, list) else schema


def _plain(value: Any) -> Any:
    """JSON types only; NaN and infinities, which JSON does not know, become null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, bool | int | str) or value is None else str(value)
