"""The complete numbers at full precision, for programs."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ltr_harness.report.data import ReportData

SCHEMA_VERSION = 1


def render(data: ReportData) -> str:
    """JSON text: sorted keys, no NaN (null instead), equal for equal runs."""
    text = json.dumps(document(data), indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return text + "\n"


def document(data: ReportData) -> dict[str, Any]:
    """The report's values as JSON types."""
    from ltr_harness.report.sections.conventions import means
    from ltr_harness.report.sections.provenance import config_digest

    comparison = data.comparison
    conventions = [
        {"model": model, "metric": metric, **found._asdict()}
        for model in data.models
        for metric in data.metrics
        if (found := means(data, model, metric)) is not None
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
            "conventions": conventions,
            "runs": [{"folder": run.path.name, **run.record.model_dump()} for run in data.ordered_runs],
            "failures": [record.model_dump() for record in data.failures],
            "config_sha256": config_digest(data),
        }
    )
    return dict(body)


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
