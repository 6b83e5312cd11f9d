"""The report's sections and formats by name: what an experiment may choose, and where a section's code is."""

from typing import Final, Literal

from ltr_harness._util.catalog import Catalog

ReportFormat = Literal["html", "md", "json", "tex", "svg", "png"]
DEFAULT_FORMATS: Final[tuple[ReportFormat, ...]] = ("html", "md", "json", "tex", "svg")

# In the order of a reader's questions.
SECTIONS = {
    "verdict": "ltr_harness.report.sections.verdict:section",
    "next_gain": "ltr_harness.report.sections.next_gain:section",
    "metrics": "ltr_harness.report.sections.metrics:section",
    "cautions": "ltr_harness.report.sections.data:cautions_section",
    "paired": "ltr_harness.report.sections.paired:section",
    "pairs": "ltr_harness.report.sections.paired:pairs",
    "cutoffs": "ltr_harness.report.sections.metrics:cutoffs",
    "precision_recall": "ltr_harness.report.sections.precision_recall:section",
    "calibration": "ltr_harness.report.sections.calibration:section",
    "distribution": "ltr_harness.report.sections.distribution:section",
    "over_time": "ltr_harness.report.sections.over_time:section",
    "slices": "ltr_harness.report.sections.slices:section",
    "queries": "ltr_harness.report.sections.queries:section",
    "seeds": "ltr_harness.report.sections.seeds:section",
    "conventions": "ltr_harness.report.sections.conventions:section",
    "tools": "ltr_harness.report.sections.conventions:tools",
    "ties": "ltr_harness.report.sections.ties:section",
    "training": "ltr_harness.report.sections.training:section",
    "tuning": "ltr_harness.report.sections.tuning:section",
    "sweep": "ltr_harness.report.sections.tuning:sweep",
    "features": "ltr_harness.report.sections.features:section",
    "cost": "ltr_harness.report.sections.cost:section",
    "position_bias": "ltr_harness.report.sections.feedback:position_bias",
    "partial_feedback": "ltr_harness.report.sections.feedback:partial_feedback",
    "data": "ltr_harness.report.sections.data:section",
    "failures": "ltr_harness.report.sections.training:failures",
    "definitions": "ltr_harness.report.sections.definitions:section",
    "provenance": "ltr_harness.report.sections.provenance:section",
}

section_catalog = Catalog("report section", SECTIONS, "ltr_harness.sections")
