"""What a monitoring run found: all stages' answers together, and their JSON document."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pandas as pd

from ltr_harness.monitoring.config import MonitorConfig
from ltr_harness.monitoring.values import Alert, Found, Interval, Verdict
from ltr_harness.report.blocks import Badge, Cell, Column, Estimate, Table
from ltr_harness.wording import json_value, printable

SCHEMA_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class MonitorResult(Found):
    """Everything found, and what was asked; `alerts` empty means healthy."""

    name: str
    metrics: tuple[str, ...]
    definition: dict[str, Any]
    relevance: str
    config_sha256: str
    production_sha256: str
    baseline_sha256: str | None
    n_queries: int
    n_rows: int
    baseline_kind: str | None
    alternative: str
    confidence: float
    alpha: float
    min_drop: float
    higher_is_better: bool
    season: str
    alerts: tuple[Alert, ...]
    notices: tuple[str, ...]
    verdict: Verdict
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


@dataclass(frozen=True, eq=False)
class Watched:
    """A result and the tables it was made from."""

    result: MonitorResult  # all answers
    config: MonitorConfig  # under which configuration
    production: pd.DataFrame  # query by query; no baseline is None
    baseline: pd.DataFrame | None


def table_of(
    name: str,
    caption: str,
    records: Iterable[Any],
    *columns: tuple[Column, str | Callable[[Any], Any]] | None,
    **options: Any,
) -> Table:
    """A row for each record: a column shows an attribute of it, or what a function makes of it; None is left out."""
    shown = [column for column in columns if column]

    def cell(record: Any, what: str | Callable[[Any], Any]) -> Cell:
        value = getattr(record, what) if isinstance(what, str) else what(record)
        return Estimate(value.value, value.low, value.high) if isinstance(value, Interval) else value

    rows = tuple(tuple(cell(record, what) for _, what in shown) for record in records)
    return Table(name, caption, tuple(column for column, _ in shown), rows, **options)


def raised(result: MonitorResult) -> Badge:
    """Of a difference that is significant and large: an alert, unless something else explains it."""
    demoted = not any(alert.kind == "change" for alert in result.alerts)
    return Badge("notice", "neutral") if demoted else Badge("alert", "bad")


def label(result: MonitorResult) -> str:
    return f"{100 * result.confidence:g} %"


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
