"""How much of each model's mean is decided by the order of equal scores."""

from __future__ import annotations

from collections.abc import Sequence

from ltr_harness.errors import MetricError
from ltr_harness.metrics import TieAudit, parse_metric, tie_audit
from ltr_harness.report.numbers.test_rows import TestRows


def tie_audits(primary: str, models: Sequence[str], rows: TestRows) -> dict[str, TieAudit]:
    """Each model's audit at the primary metric, first seed; empty where the metric has none."""
    try:
        metric = parse_metric(primary)
        return {model: tie_audit(metric, rows.judgments, rows.scores(model)) for model in models}
    except MetricError:  # a metric from outside, or one without a worst and a best order
        return {}
