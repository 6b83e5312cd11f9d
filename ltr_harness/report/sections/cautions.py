"""What can these metrics not be trusted with on these data?"""

from __future__ import annotations

from ltr_harness.errors import MetricError
from ltr_harness.metrics import parse_metric
from ltr_harness.metrics.core.cautions import Caution, cautions
from ltr_harness.report.blocks import Block, Bullets, Heading, Paragraph
from ltr_harness.report.data import ReportData


def section(data: ReportData) -> list[Block]:
    cautions = data_cautions(data)
    if not cautions:
        return []
    return [
        Heading("Before trusting a number"),
        Paragraph("What the test data's labels and list lengths do to the metrics of this report."),
        Bullets(tuple(caution.text for caution in cautions)),
    ]


def data_cautions(data: ReportData) -> list[Caution]:
    """Of the metrics that are ours, on the stored labels; empty where those are not at hand."""
    if data.rows is None:
        return []
    metrics = []
    for name in data.metrics:
        try:
            metrics.append(parse_metric(name))
        except MetricError:  # a metric from outside speaks for itself
            continue
    return cautions(metrics, data.rows.judgments)
