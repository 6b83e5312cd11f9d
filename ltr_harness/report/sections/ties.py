"""The part of each metric that the order of equal scores decides."""

import math

from ltr_harness.errors import MetricError
from ltr_harness.metrics import TieAudit, parse_metric
from ltr_harness.metrics.core.binding import tie_audits
from ltr_harness.metrics.core.grammar import MetricName
from ltr_harness.report.blocks import Block, Column, Heading, Paragraph, Table
from ltr_harness.report.data import ReportData, computed_once


def section(data: ReportData) -> list[Block]:
    audits_by_model = audits(data)
    if not audits_by_model:
        return []
    k = MetricName.of(data.primary).k
    positions = "positions" if k is None else f"top-{k} positions"

    def width(model: str) -> float:
        return audits_by_model[model].mean_high - audits_by_model[model].mean_low

    widest = max(map(width, audits_by_model))
    effect = f"their order moves {data.primary} by up to {widest:.4f}" if widest else "none that matter"
    heading = Heading("Equal scores", finding=effect, matters=widest > _smallest_shown_difference(data))
    if not any(audit.share_tied_positions for audit in audits_by_model.values()):
        sentence = f"No two documents of a query have equal scores in the {positions}"
        return [heading, Paragraph(f"{sentence}: no tie rule moves {data.primary}.")]
    tied_hint = f"{positions.capitalize()} whose document has an equal."
    touched_hint = "Queries whose value depends on the order of ties."
    return [
        heading,
        Paragraph(
            "Documents with equal scores have no order; a tool that takes them as they come reports the order of the "
            f"file. Between the worst and the best order {data.primary} could be anything in the interval below; here "
            "it follows the metric's tie rule, by default the mean over all orders."
        ),
        Table.of(
            "ties",
            f"{data.primary} over the orders of equal scores, each model's first seed.",
            audits_by_model,
            {
                Column("Model"): data.model_name,
                Column("As evaluated", "metric"): lambda model: audits_by_model[model].mean,
                Column("Worst order", "metric"): lambda model: audits_by_model[model].mean_low,
                Column("Best order", "metric"): lambda model: audits_by_model[model].mean_high,
                Column("Width", "metric"): width,
                Column("Queries touched", "percent", hint=touched_hint): lambda model: (
                    audits_by_model[model].share_touched
                ),
                Column("Tied positions", "percent", hint=tied_hint): lambda model: (
                    audits_by_model[model].share_tied_positions
                ),
            },
        ),
    ]


def _smallest_shown_difference(data: ReportData) -> float:
    """Return the smallest difference that has a verdict, which the order of equal scores could undo."""
    pairs = [data.comparison.paired(name) for name in data.rivals]
    sizes = [abs(pair.difference) for pair in pairs if pair.verdict in ("better", "worse")]
    return min(sizes, default=math.inf)


@computed_once
def audits(data: ReportData) -> dict[str, TieAudit]:
    """Return each model's audit at the primary metric, first seed; empty where the metric has none."""
    if data.rows is None:
        return {}
    try:
        metric = parse_metric(data.primary)
        if metric.depends_on_size:
            return {}
        rankings = (data.rows.scores(model) for model in data.models)
        return dict(zip(data.models, tie_audits(metric, data.rows.judgments, rankings), strict=True))
    except MetricError:  # a metric from outside, or one without a worst and a best order
        return {}
