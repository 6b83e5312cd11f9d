"""How do the models do on every metric at every cutoff?"""

import math

from ltr_harness.metrics.core.grammar import MetricName
from ltr_harness.report import blocks, charts, formats
from ltr_harness.report.blocks import Block, Chart, Column, Estimate, Heading, Paragraph, Table
from ltr_harness.report.data import ReportData
from ltr_harness.report.sections.verdict import marked, near_models


def section(data: ReportData) -> list[Block]:
    if len(data.metrics) < 2:
        return []
    # how many differences are more than chance, and whether one contradicts the primary metric's verdict
    pairs = [data.comparison.paired(name, metric) for metric in data.metrics for name in data.rivals]
    both = {"better", "worse"}
    sure = [pair for pair in pairs if pair.verdict in both]
    contrary = [pair for pair in sure if {pair.verdict, data.comparison.paired(pair.model).verdict} == both]
    finding = f"{len(sure):,} of {len(pairs):,} differ" if pairs else ""
    if contrary:
        said = dict.fromkeys(f"{pair.model} {pair.verdict} at {pair.metric}" for pair in contrary[:3])
        finding = f"against the verdict: {', '.join(said)}"
    with_intervals = _table(data, "metrics_intervals", intervals=True)
    return [
        Heading("All metrics", finding=finding, matters=bool(contrary)),
        Paragraph("Each column is one metric at one cutoff: compare down a column, never across K."),
        _table(data, "metrics", intervals=False),
        blocks.Details("The same with intervals", (with_intervals,)),
    ]


def _table(data: ReportData, name: str, *, intervals: bool) -> Table:
    columns = [Column("Model")]
    for metric in data.metrics:
        base, _, _, k = MetricName.of(metric)
        label, group = (metric, "") if k is None else (f"@{k}", base)
        columns.append(Column(label, "metric", group=group, best=data.best(metric), hint=metric))

    def mean(model: str, metric: str) -> Estimate:
        summary, pair = data.comparison.summary(model, metric), data.paired(model, metric)
        low, high = (summary.ci_low, summary.ci_high) if intervals else (None, None)
        return Estimate(summary.mean, low, high, "" if pair is None else marked(pair.verdict))

    counts = (
        min(data.comparison.summary(model, metric).n for model in data.models) for metric in data.metrics
    )
    means = f"{data.weighted}means".capitalize()
    interval_text = f", with {data.confidence_label} intervals" if intervals else ""
    method, families = data.comparison.method, data.comparison.families
    family = f" Verdicts are {families[1]}." if len(families) > 1 else ""
    marks = (
        f"▲ better, ▼ worse than {data.baseline}: {data.p_label()} below {method.alpha:g} and an "
        f"interval of the difference that excludes 0 ({method.test_text}). Best of each column in bold.{family}"
    )
    return Table(
        name,
        f"{means} over queries{interval_text}; K is fixed within a column.",
        tuple(columns),
        tuple((data.model_name(one), *(mean(one, metric) for metric in data.metrics)) for one in data.models),
        footer=(("queries", *counts),),
        footnotes=(marks,) if data.rivals else (),
    )


def cutoffs(data: ReportData) -> list[Block]:
    """How does the difference to the baseline depend on K?"""
    by_base: dict[str, list[tuple[int, str]]] = {}
    for metric in data.metrics:
        base, _, _, k = MetricName.of(metric)
        if k is not None:
            by_base.setdefault(base, []).append((k, metric))
    pairs = {
        (model, base, k): pair
        for model in near_models(data)
        for base, at_k in by_base.items()
        for k, metric in at_k
        if len(at_k) > 1 and not math.isnan((pair := data.comparison.paired(model, metric)).difference)
    }
    if not pairs:
        return []
    words: dict[str, list[str]] = {}
    for (model, base, k), pair in pairs.items():
        words.setdefault(model, []).append(f"{base}@{k} {formats.difference(pair.difference)}")
    families = list(dict.fromkeys(base for _, base, _ in pairs))
    rows = [
        {"model": model, "metric": base, "family": families.index(base), "k": k, "zero": 0}
        | charts.difference(pair)
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
    shared = {"x": x, "xOffset": offset, "color": colour}
    dots = charts.dots(34, clip=True)
    layers = [
        charts.layer({**charts.DASHED, "clip": True}, y={**y, "field": "zero", "aggregate": "min"}),
        charts.layer(whisker, **shared, **ends, opacity=charts.fade(0.6)),
        charts.layer(dots, **shared, y=y, opacity=charts.fade(), tooltip=[*about, *numbers]),
    ]
    joint = next(filter(None, map(data.joint, data.metrics)), "")
    title = f"Difference to {data.baseline} at each K, with {joint}{data.confidence_label} intervals"
    spec = charts.small_multiples([name for name in data.rivals if name in words], rows, {"layer": layers})
    said = " ".join(f"{model}: {', '.join(parts)}." for model, parts in words.items())
    note = "Both models are measured at the same K, so each point is a comparison of its own."
    chart = Chart("difference_over_k", title, spec, said)
    return [Heading("Difference over K"), Paragraph(note, "note"), chart]
