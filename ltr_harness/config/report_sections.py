"""Which sections a report may have, by the name that ``report: {sections: […]}`` chooses them with."""

from __future__ import annotations

from ltr_harness.catalog import Catalog, did_you_mean
from ltr_harness.errors import UsageError

# In the order of a reader's questions.
SECTIONS = {
    "verdict": "ltr_harness.report.sections.verdict:section",
    "metrics": "ltr_harness.report.sections.metrics:section",
    "cautions": "ltr_harness.report.sections.cautions:section",
    "paired": "ltr_harness.report.sections.paired:section",
    "pairs": "ltr_harness.report.sections.pairs:section",
    "cutoffs": "ltr_harness.report.sections.cutoffs:section",
    "precision_recall": "ltr_harness.report.sections.precision_recall:section",
    "distribution": "ltr_harness.report.sections.distribution:section",
    "slices": "ltr_harness.report.sections.slices:section",
    "queries": "ltr_harness.report.sections.queries:section",
    "seeds": "ltr_harness.report.sections.seeds:section",
    "conventions": "ltr_harness.report.sections.conventions:section",
    "tools": "ltr_harness.report.sections.tools:section",
    "published": "ltr_harness.report.sections.published:section",
    "ties": "ltr_harness.report.sections.ties:section",
    "training": "ltr_harness.report.sections.training:section",
    "tuning": "ltr_harness.report.sections.tuning:section",
    "sweep": "ltr_harness.report.sections.sweep:section",
    "features": "ltr_harness.report.sections.features:section",
    "cost": "ltr_harness.report.sections.cost:section",
    "position_bias": "ltr_harness.report.sections.position_bias:section",
    "partial_feedback": "ltr_harness.report.sections.partial_feedback:section",
    "data": "ltr_harness.report.sections.data:section",
    "failures": "ltr_harness.report.sections.failures:section",
    "definitions": "ltr_harness.report.sections.definitions:section",
    "provenance": "ltr_harness.report.sections.provenance:section",
}

catalog = Catalog("report section", SECTIONS, "ltr_harness.sections")


def known_section(name: str) -> str:
    """Refuses what is no section of the report.

    Raises:
        UsageError: with the nearest name and all there are.
    """
    if name not in (names := catalog.names()):
        raise UsageError(f"unknown report section {name!r}; {did_you_mean(name, names)}")
    return name
