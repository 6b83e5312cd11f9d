"""How much of the numbers is decided by the order of equal scores?"""

from __future__ import annotations

from ltr_harness.metrics.core.grammar import MetricName
from ltr_harness.report.blocks import Block, Cell, Column, Heading, Paragraph, Table
from ltr_harness.report.data import ReportData


def section(data: ReportData) -> list[Block]:
    audits = data.tie_audits
    if not audits:
        return []
    k = MetricName.of(data.primary).k
    positions = "positions" if k is None else f"top-{k} positions"
    heading = Heading("Equal scores")
    if not any(audit.share_tied_positions for audit in audits.values()):
        return [
            heading,
            Paragraph(
                f"No two documents of a query have equal scores in the {positions}: no tie rule moves {data.primary}."
            ),
        ]
    rows: list[tuple[Cell, ...]] = [
        (
            data.model_name(model),
            audit.mean,
            audit.mean_low,
            audit.mean_high,
            audit.mean_high - audit.mean_low,
            audit.share_touched,
            audit.share_tied_positions,
        )
        for model, audit in audits.items()
    ]
    return [
        heading,
        Paragraph(
            "Documents with equal scores have no order; a tool that takes them as they come reports the order of "
            "the file. "
            f"Between the worst and the best order {data.primary} could be anything in the interval below; here it is "
            "what its own tie rule says, by default the mean over all orders."
        ),
        Table(
            name="ties",
            caption=f"{data.primary} over the orders of equal scores, each model's first seed.",
            columns=(
                Column("Model"),
                Column("As evaluated", "metric"),
                Column("Worst order", "metric"),
                Column("Best order", "metric"),
                Column("Width", "metric", best="min"),
                Column(
                    "Queries touched", "percent", hint="Queries whose value depends on the order of ties."
                ),
                Column(
                    "Tied positions", "percent", hint=f"{positions.capitalize()} whose document has an equal."
                ),
            ),
            rows=tuple(rows),
        ),
    ]
