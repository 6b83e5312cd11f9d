"""From a monitoring result to the same pages that compare models: same blocks, same renderers, same charts."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from ltr_harness.catalog import Catalog
from ltr_harness.monitoring.results.result import MonitorResult
from ltr_harness.report import write_report
from ltr_harness.report.blocks import Report, Section, Text, code
from ltr_harness.wording import count_of

MONITOR_SECTIONS = {
    "verdict": "ltr_harness.monitoring.report.verdict:section",
    "arms": "ltr_harness.monitoring.report.arms:section",
    "windows": "ltr_harness.monitoring.report.windows:section",
    "slices": "ltr_harness.monitoring.report.slices:section",
    "mix": "ltr_harness.monitoring.report.mix:section",
    "drift": "ltr_harness.monitoring.report.drift:section",
    "parity": "ltr_harness.monitoring.report.parity:section",
    "labels": "ltr_harness.monitoring.report.labels:section",
    "online": "ltr_harness.monitoring.report.online:section",
    "presentation": "ltr_harness.monitoring.report.presentation:section",
    "worst": "ltr_harness.monitoring.report.worst:section",
    "log": "ltr_harness.monitoring.report.log:section",
    "definitions": "ltr_harness.monitoring.report.definitions:section",
}
catalog = Catalog("monitor section", MONITOR_SECTIONS, "ltr_harness.monitor_sections")

FORMATS = ("html", "md", "json", "svg")


def build_monitor_report(result: MonitorResult) -> Report:
    """Every section's answer; silent sections left out."""
    names = [*MONITOR_SECTIONS, *(name for name in catalog.names() if name not in MONITOR_SECTIONS)]
    sections = (Section(name, tuple(catalog.load(name)(result))) for name in names)
    state = "healthy" if result.healthy else count_of(len(result.alerts), "alert")
    facts: tuple[Text, ...] = (
        (code(result.primary),),
        state if result.baseline_kind else "no baseline",
        count_of(result.n_queries, "query"),
        count_of(result.n_rows, "row"),
    )
    kept = tuple(section for section in sections if section.blocks)
    return Report(result.name, facts, kept, result.to_json)


def write_monitor_report(
    result: MonitorResult, folder: str | Path, formats: Collection[str] = FORMATS
) -> Path:
    """``report.html``, ``report.md`` with its ``charts/`` and ``report.json``; equal inputs give equal bytes."""
    return write_report(build_monitor_report(result), folder, formats)
