"""How do the models do on every metric at every cutoff?"""

import math
from typing import Any

from ltr_harness.comparison.pairs import Paired
from ltr_harness.metrics.core.grammar import MetricName
from ltr_harness.report import blocks, charts, formats
from ltr_harness.report.blocks import Block, Chart, Column, Estimate, Heading, Paragraph, Table, Text
from ltr_harness.report.data import ReportData
from ltr_harness.report.sections.verdict import corrected_label, marked, near_models
from ltr_harness.wording import none_if_undefined


def section(data: ReportData) -> list[Block]:
    if len(data.metrics) < 2:
        return []
    with_intervals = _table(data, "metrics_intervals", intervals=True)
    return [
        _heading(data),
        Paragraph("Each column is one metric at one cutoff: compare down a column, never across K."),
        _table(data, "metrics", intervals=False),
        blocks.Details("The same with intervals", (with_intervals,)),
    ]


def _heading(data: ReportData) -> Heading:
    """How many differences are more than chance, and whether one contradicts the primary metric's verdict."""
    pairs = [pair for m in data.metrics for name in data.rivals if (pair := data.paired(name, m)) is not None]
    both = {"better", "worse"}
    sure = [pair for pair in pairs if pair.verdict in both]
    contrary = [pair for pair in sure if {pair.verdict, data.comparison.paired(pair.model).verdict} == both]
    if contrary:
        said = [f"{pair.model} {pair.verdict} at {pair.metric}" for pair in contrary[:3]]
        names = ", ".join(dict.fromkeys(said))
        return Heading("All metrics", finding=f"against the verdict: {names}", matters=True)
    return Heading("All metrics", finding=f"{len(sure):,} of {len(pairs):,} differ" if pairs else "")


def _table(data: ReportData, name: str, *, intervals: bool) -> Table:
    columns = [Column("Model")]
    for metric in data.metrics:
        base, _, _, k = MetricName.of(metric)
        label, group = (metric, "") if k is None else (f"@{k}", base)
        columns.append(Column(label, "metric", group=group, best=data.best(metric), hint=metric))

    def mean(model: str, metric: str) -> Estimate:
        summary, pair = data.summary(model, metric), data.paired(model, metric)
        low, high = (summary.ci_low, summary.ci_high) if intervals else (None, None)
        return Estimate(summary.mean, low, high, "" if pair is None else marked(pair.verdict))

    counts = (min(data.summary(model, metric).n for model in data.models) for metric in data.metrics)
    interval_text = f", with {data.confidence_label} intervals" if intervals else ""
    return Table(
        name=name,
        caption=f"Means over queries{interval_text}; K is fixed within a column.",
        columns=tuple(columns),
        rows=tuple(
            (data.model_name(model), *(mean(model, metric) for metric in data.metrics))
            for model in data.models
        ),
        footer=(("queries", *counts),),
        notes=marks_note(data),
    )


def marks_note(data: ReportData) -> tuple[Text, ...]:
    """What the marks beside a mean say; nothing where there is nothing to compare with."""
    if not data.rivals:
        return ()
    comparison = data.comparison
    corrected = corrected_label(comparison.method.correction)
    family = f" Corrected together: {comparison.families[1]}." if len(comparison.families) > 1 else ""
    return (
        f"▲ better, ▼ worse than {data.baseline}: {corrected} below {comparison.method.alpha:g} and an interval "
        f"of the difference that excludes 0 ({comparison.method.test_text}). Best of each column in bold.{family}",
    )


def cutoffs(data: ReportData) -> list[Block]:
    """How does the difference to the baseline depend on K?"""
    pairs = {
        (model, base, k): pair
        for model in near_models(data)
        for base, by_k in data.families.items()
        for k, metric in by_k.items()
        if len(by_k) > 1
        and (pair := data.paired(model, metric)) is not None
        and not math.isnan(pair.difference)
    }
    if not pairs:
        return []
    words: dict[str, list[str]] = {}
    for (model, base, k), pair in pairs.items():
        words.setdefault(model, []).append(f"{base}@{k} {formats.difference(pair.difference)}")
    about = "Both models are measured at the same K, so each point is a comparison of its own."
    return [
        Heading("Difference over K"),
        Paragraph(about, "note"),
        Chart(
            name="difference_over_k",
            title=f"Difference to {data.baseline} at each K, with {data.confidence_label} intervals",
            spec=_cutoffs_spec(data, pairs),
            text=" ".join(f"{model}: {', '.join(parts)}." for model, parts in words.items()),
        ),
    ]


def _cutoffs_spec(data: ReportData, pairs: dict[tuple[str, str, int], Paired]) -> dict[str, Any]:
    families = list(dict.fromkeys(base for _, base, _ in pairs))
    rows = [
        {
            "model": model,
            "metric": base,
            "family": families.index(base),
            "k": k,
            "difference": round(pair.difference, 6),
            "low": none_if_undefined(round(pair.ci_low, 6)),
            "high": none_if_undefined(round(pair.ci_high, 6)),
            "zero": 0,
        }
        for (model, base, k), pair in pairs.items()
    ]
    colour = charts.by_colour("metric", len(families), sort={"field": "family", "op": "min"})
    x = {"field": "k", "type": "ordinal", "title": "K", "axis": {"labelAngle": 0}}
    y = charts.quantitative("difference", title="difference", axis={"format": "+.2~f", "tickCount": 5})
    offset = {"field": "family", "type": "ordinal"}  # whiskers of one K beside each other
    ends = {"y": {**y, "field": "low"}, "y2": {"field": "high"}}
    about = [*charts.tooltip("model", "metric"), {"field": "k", "title": "K"}]
    numbers = charts.tooltip(difference="+.4f", low="+.4f", high="+.4f")
    whisker = {"type": "rule", "strokeWidth": 1.5, "clip": True}
    zero = {"type": "rule", "strokeDash": [4, 3], "clip": True}
    panel = {
        "layer": [
            charts.layer(zero, y={**y, "field": "zero", "aggregate": "min"}),
            charts.layer(whisker, x=x, xOffset=offset, color=colour, **ends, opacity=charts.fade(0.6)),
            charts.layer(
                {"type": "point", "filled": True, "size": 34, "clip": True},
                x=x, xOffset=offset, y=y, color=colour, opacity=charts.fade(), tooltip=[*about, *numbers],
            ),
        ],
    }  # fmt: skip
    drawn = {model for model, _, _ in pairs}
    return charts.small_multiples([name for name in data.rivals if name in drawn], rows, panel)
