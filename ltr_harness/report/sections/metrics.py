"""Every metric of every model at every cutoff."""

import math
from typing import Any

from ltr_harness.comparison.contrasts import Paired
from ltr_harness.metrics.core.grammar import MetricName
from ltr_harness.report import blocks, charts, formats
from ltr_harness.report.blocks import Block, Cell, Chart, Column, Estimate, Heading, Paragraph, Table
from ltr_harness.report.data import ReportData
from ltr_harness.report.sections.verdict import near_axis, near_models, verdict_mark


def section(data: ReportData) -> list[Block]:
    if len(data.metrics) < 2:
        return []
    # how many differences are more than chance, and whether one contradicts the primary metric's verdict
    pairs = [data.comparison.paired(name, metric) for metric in data.metrics for name in data.rivals]
    opposite = {"better": "worse", "worse": "better"}
    n_different = sum(pair.verdict in opposite for pair in pairs)
    contrary = [
        pair
        for pair in pairs
        if pair.verdict in opposite and data.comparison.paired(pair.model).verdict == opposite[pair.verdict]
    ]
    finding = f"{n_different:,} of {len(pairs):,} differ" if pairs else ""
    if contrary:
        verdicts = dict.fromkeys(f"{pair.model} {pair.verdict} at {pair.metric}" for pair in contrary[:3])
        finding = f"against the verdict: {', '.join(verdicts)}"
    with_intervals = _table(data, "metrics_intervals", intervals=True)
    return [
        Heading("All metrics", finding=finding, matters=bool(contrary)),
        Paragraph("Each column is one metric at one cutoff: compare down a column, never across K."),
        _table(data, "metrics", intervals=False),
        blocks.Details("The same with intervals", (with_intervals,)),
    ]


def _metric_columns(data: ReportData) -> list[Column]:
    """Return a column for each metric; the cutoffs of one stand under its name."""
    columns = []
    for metric in data.metrics:
        base, _, _, k = MetricName.of(metric)
        label, group = (metric, "") if k is None else (f"@{k}", base)
        columns.append(Column(label, "metric", group=group, best=data.best(metric), hint=metric))
    return columns


def _table(data: ReportData, name: str, *, intervals: bool) -> Table:
    def mean(model: str, metric: str) -> Estimate:
        summary, pair = data.comparison.summary(model, metric), data.paired(model, metric)
        low, high = (summary.ci_low, summary.ci_high) if intervals else (None, None)
        return Estimate(summary.mean, low, high, "" if pair is None else verdict_mark(pair.verdict))

    counts = (
        min(data.comparison.summary(model, metric).n for model in data.models) for metric in data.metrics
    )
    means = f"{data.weighted}means".capitalize()
    interval_text = f", with {data.confidence_label} intervals" if intervals else ""
    rows: list[tuple[Cell, ...]] = []
    for model in data.models:
        rows.append((data.model_name(model), *(mean(model, metric) for metric in data.metrics)))
    return Table(
        name,
        f"{means} over queries{interval_text}; K is fixed within a column.",
        (Column("Model"), *_metric_columns(data)),
        tuple(rows),
        footer=(("queries", *counts),),
        footnotes=(_marks_in_words(data),) if data.rivals else (),
    )


def _marks_in_words(data: ReportData) -> str:
    method, families = data.comparison.method, data.comparison.families
    text = (
        f"▲ better, ▼ worse than {data.baseline}: {data.p_label()} below {method.alpha:g} and an "
        f"interval of the difference that excludes 0 ({method.test_text}). Best of each column in bold."
    )
    if len(families) > 1:
        text += f" Verdicts are {families[1]}."
    return text


def cutoffs(data: ReportData) -> list[Block]:
    """The difference from the baseline at each K."""
    pairs = _pairs_by_cutoff(data)
    if not pairs:
        return []
    differences: dict[str, list[str]] = {}
    for (model, base, k), pair in pairs.items():
        differences.setdefault(model, []).append(f"{base}@{k} {formats.difference(pair.difference)}")
    description = " ".join(f"{model}: {', '.join(texts)}." for model, texts in differences.items())
    names = [name for name in data.rivals if name in differences]
    joint = next((word for metric in data.metrics if (word := data.joint(metric))), "")
    title = f"Difference to {data.baseline} at each K, with {joint}{data.confidence_label} intervals"
    note = "Both models are measured at the same K, so each point is a comparison of its own."
    chart = Chart("difference_over_k", title, _cutoff_spec(names, pairs), description)
    return [Heading("Difference over K"), Paragraph(note, "note"), chart]


def _pairs_by_cutoff(data: ReportData) -> dict[tuple[str, str, int], Paired]:
    """Return the pairs of each model at each K, of the metrics that have several, by model, metric without K and K."""
    by_base: dict[str, list[tuple[int, str]]] = {}
    for metric in data.metrics:
        base, _, _, k = MetricName.of(metric)
        if k is not None:
            by_base.setdefault(base, []).append((k, metric))
    pairs = {}
    for model in near_models(data):
        for base, cutoffs_of_base in by_base.items():
            if len(cutoffs_of_base) < 2:
                continue
            for k, metric in cutoffs_of_base:
                pair = data.comparison.paired(model, metric)
                if not math.isnan(pair.difference):
                    pairs[model, base, k] = pair
    return pairs


def _cutoff_spec(names: list[str], pairs: dict[tuple[str, str, int], Paired]) -> dict[str, Any]:
    """Return a panel for each model, with a colour for each metric."""
    families = list(dict.fromkeys(base for _, base, _ in pairs))
    rows = [
        {"model": model, "metric": base, "family": families.index(base), "k": k, "zero": 0}
        | charts.difference(pair)
        for (model, base, k), pair in pairs.items()
    ]
    colour = charts.by_colour("metric", len(families), sort={"field": "family", "op": "min"})
    x = {"field": "k", "type": "ordinal", "title": "K", "axis": {"labelAngle": 0}}
    y = charts.quantitative("difference", title="difference", axis={"format": "+.2~f", "tickCount": 5})
    if (axis := near_axis([*pairs.values()])) is not None:
        y["scale"] = {**y.get("scale", {}), "domain": list(axis), "nice": False}
    offset = {"field": "family", "type": "ordinal"}  # whiskers of one K beside each other
    ends = {"y": {**y, "field": "low"}, "y2": {"field": "high"}}
    tooltip: list[dict[str, Any]] = [*charts.tooltip("model", "metric"), {"field": "k", "title": "K"}]
    tooltip += charts.tooltip(difference="+.4f", low="+.4f", high="+.4f")
    whisker = {"type": "rule", "strokeWidth": 1.5, "clip": True}
    shared = {"x": x, "xOffset": offset, "color": colour}
    dots = charts.dots(34, clip=True)
    layers = [
        charts.layer({**charts.DASHED, "clip": True}, y={**y, "field": "zero", "aggregate": "min"}),
        charts.layer(whisker, **shared, **ends, opacity=charts.fade(0.6)),
        charts.layer(dots, **shared, y=y, opacity=charts.fade(), tooltip=tooltip),
    ]
    return charts.small_multiples(names, rows, {"layer": layers})
