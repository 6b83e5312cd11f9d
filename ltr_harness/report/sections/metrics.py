"""How do the models do on every metric at every cutoff?"""

from __future__ import annotations

from ltr_harness.metrics.core.grammar import MetricName
from ltr_harness.report.blocks import (
    Block,
    Cell,
    Column,
    Details,
    Estimate,
    Heading,
    Mark,
    Paragraph,
    Table,
    Text,
)
from ltr_harness.report.data import ReportData
from ltr_harness.report.sections.verdict import corrected_label


def section(data: ReportData) -> list[Block]:
    if len(data.metrics) < 2:
        return []
    with_intervals = _table(data, "metrics_intervals", intervals=True)
    return [
        Heading("All metrics"),
        Paragraph(
            "Each column is one metric at one cutoff: compare down a column. Numbers at different K answer "
            "different questions and are never comparable across K."
        ),
        _table(data, "metrics", intervals=False),
        Details("The same with intervals", (with_intervals,)),
    ]


def _table(data: ReportData, name: str, *, intervals: bool) -> Table:
    columns = [Column("Model")]
    for metric in data.metrics:
        base, _, _, k = MetricName.of(metric)
        columns.append(
            Column(
                f"@{k}" if k is not None else metric,
                "metric",
                group=base if k is not None else "",
                best="max" if data.higher_is_better(metric) else "min",
                hint=metric,
            )
        )
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (data.model_name(model), *(_cell(data, model, metric, intervals) for metric in data.metrics))
        for model in data.models
    )
    counts: tuple[Cell, ...] = (
        "queries",
        *(min(data.summary(model, metric).n for model in data.models) for metric in data.metrics),
    )
    interval_text = f", with {data.confidence_label} intervals" if intervals else ""
    return Table(
        name=name,
        caption=f"Means over queries{interval_text}; K is fixed within a column.",
        columns=tuple(columns),
        rows=rows,
        footer=(counts,),
        notes=marks_note(data),
    )


def _cell(data: ReportData, model: str, metric: str, intervals: bool) -> Estimate:
    summary = data.summary(model, metric)
    pair = data.paired(model, metric)
    mark: Mark = ""
    if pair is not None and (pair.verdict == "better" or pair.verdict == "worse"):
        mark = pair.verdict
    low, high = (summary.ci_low, summary.ci_high) if intervals else (None, None)
    return Estimate(summary.mean, low, high, mark)


def marks_note(data: ReportData) -> tuple[Text, ...]:
    """What the marks beside a mean say; nothing where there is nothing to compare with."""
    if not data.rivals:
        return ()
    comparison = data.comparison
    corrected = corrected_label(comparison.correction)
    family = f" Corrected together: {comparison.families[1]}." if len(comparison.families) > 1 else ""
    return (
        f"▲ better, ▼ worse than {data.baseline}: {corrected} below {comparison.method.alpha:g} and an interval "
        f"of the difference that excludes 0 ({comparison.method.test_text}). Best of each column in bold.{family}",
    )
