"""What a monitoring run found: all stages' answers together, and their JSON document."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ltr_harness.logs.contract import LogFinding
from ltr_harness.monitoring.results.answers import (
    Adjustment,
    Alert,
    Change,
    FeatureDrift,
    Interval,
    LabelTest,
    Presentation,
    Slice,
    Split,
    Verdict,
    Window,
)
from ltr_harness.monitoring.results.arms import ArmComparison
from ltr_harness.monitoring.results.parity import Parity
from ltr_harness.monitoring.results.summaries import Conventions, ListLengths, Online, WorstQuery
from ltr_harness.numbers import json_value
from ltr_harness.wording import printable

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class MonitorResult:
    """Everything found; `alerts` empty means healthy."""

    name: str
    metrics: tuple[str, ...]
    definition: dict[str, Any]
    relevance: str
    config_sha256: str
    production_sha256: str
    baseline_sha256: str | None
    n_queries: int
    n_rows: int
    n_immature: int
    baseline_kind: str | None
    alternative: str
    confidence: float
    alpha: float
    min_drop: float
    higher_is_better: bool
    alerts: tuple[Alert, ...]
    notices: tuple[str, ...]
    verdict: Verdict
    findings: tuple[LogFinding, ...]
    conventions: tuple[Conventions, ...]
    list_lengths: tuple[ListLengths, ...]
    changes: tuple[Change, ...]
    windows: tuple[Window, ...]
    splits: tuple[Split, ...]
    slices: tuple[Slice, ...]
    n_slice_candidates: int
    drift: tuple[FeatureDrift, ...]
    labels: tuple[LabelTest, ...]
    online: tuple[Online, ...]
    presentation: Presentation | None
    keyed: Interval | None
    adjustment: Adjustment | None
    worst: tuple[WorstQuery, ...]
    cusum_level: float
    family: str
    season: str
    arms: ArmComparison | None = None
    parity: Parity | None = None
    schema_version: int = SCHEMA_VERSION
    config: dict[str, Any] = field(default_factory=dict)

    @property
    def primary(self) -> str:
        return self.metrics[0]

    @property
    def healthy(self) -> bool:
        return not self.alerts

    @property
    def exit_code(self) -> int:
        return 0 if self.healthy else 4

    @cached_property
    def document(self) -> dict[str, Any]:
        """JSON types at full precision; what cannot be told is null."""
        body: dict[str, Any] = json_value(self)
        body["healthy"] = self.healthy
        body["verdict"]["text"] = self.verdict.text
        return body

    def to_json(self) -> str:
        text = json.dumps(self.document, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
        return printable(text, lines=True) + "\n"


def json_schema() -> dict[str, Any]:
    """The schema of ``report.json``, read off these classes."""
    from pydantic import TypeAdapter

    schema = TypeAdapter(MonitorResult).json_schema(mode="serialization")
    schema = _null_for_nan(schema)
    schema["properties"] |= {"healthy": {"type": "boolean"}}
    schema["title"] = "ltr-harness monitor result"
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _null_for_nan(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_null_for_nan(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {key: _null_for_nan(value) for key, value in schema.items() if key != "default"}
    if plain.get("type") == "number":
        plain["type"] = ["number", "null"]
    return plain
