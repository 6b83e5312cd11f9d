"""Every metric of every model at every cutoff."""

import math
from collections.abc import Mapping
from typing import Any

from ltr_harness._util.text import count_of
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
    finding = f"{n_different:,} of {len(pairs):,} differ" if pairs else count_of(len(data.metrics), "metric")
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

    counts = [
        min(data.comparison.summary(model, metric).n for model in data.models) for metric in data.metrics
    ]
    are_equal = len(set(counts)) == 1  # then a row of them says less than the caption
    over = count_of(counts[0], "query") if are_equal else "queries"
    means = f"{data.weighted}means".capitalize()
    interval_text = f", with {data.confidence_label} intervals" if intervals else ""
    rows: list[tuple[Cell, ...]] = []
    for model in data.models:
        rows.append((data.model_name(model), *(mean(model, metric) for metric in data.metrics)))
    return Table(
        name,
        f"{means} over {over}{interval_text}; K is fixed within a column.",
        (Column("Model"), *_metric_columns(data)),
        tuple(rows),
        footer=() if are_equal else (("queries", *counts),),
        footnotes=(_marks_in_words(data),) if data.rivals else (),
        sortable=not intervals,
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
    words_of: dict[str, list[str]] = {}
    for (model, k), pair in pairs.items():
        words_of.setdefault(model, []).append(f"{formats.difference(pair.difference)} at K = {k}")
    description = " ".join(f"{model}: {', '.join(words)}." for model, words in words_of.items())
    base = MetricName.of(next(iter(pairs.values())).metric).base
    joint = next((word for pair in pairs.values() if (word := data.joint(pair.metric))), "")
    title = (
        f"Difference in {base} to {data.baseline} at each K, with {joint}{data.confidence_label} intervals"
    )
    note = "Both models are measured at the same K, so each point is a separate comparison."
    names = list(words_of)
    chart = Chart("difference_over_k", title, _cutoff_spec(data, names, pairs), description)
    return [Heading("Difference over K", finding=_cutoff_finding(pairs)), Paragraph(note, "note"), chart]


def _cutoff_finding(pairs: Mapping[tuple[str, int], Paired]) -> str:
    """Return at which K models differ, and else the largest difference."""
    cutoffs_of: dict[tuple[str, str], list[str]] = {}
    for (model, k), pair in pairs.items():
        if pair.verdict in ("better", "worse"):
            cutoffs_of.setdefault((model, pair.verdict), []).append(str(k))
    if cutoffs_of:
        found = [f"{model} {verdict} at K = {', '.join(ks)}" for (model, verdict), ks in cutoffs_of.items()]
        return "; ".join(found[:2])
    (model, k), largest = max(pairs.items(), key=lambda item: abs(item[1].difference))
    return f"none differs; at most {formats.difference(largest.difference)} at K = {k} ({model})"


def _pairs_by_cutoff(data: ReportData) -> dict[tuple[str, int], Paired]:
    """Return the near models' pairs by model and K, of the primary metric where it has several K, else of the first."""
    by_base: dict[str, list[tuple[int, str]]] = {MetricName.of(data.primary).base: []}
    for metric in data.metrics:
        base, _, _, k = MetricName.of(metric)
        if k is not None:
            by_base.setdefault(base, []).append((k, metric))
    metrics = next((members for members in by_base.values() if len(members) > 1), [])
    pairs = {}
    for model in near_models(data):
        for k, metric in metrics:
            pair = data.comparison.paired(model, metric)
            if not math.isnan(pair.difference):
                pairs[model, k] = pair
    return pairs


def _cutoff_spec(
    data: ReportData, names: list[str], pairs: Mapping[tuple[str, int], Paired]
) -> dict[str, Any]:
    """Return one panel with a line for each model; its whiskers stand beside each other at each K."""
    rows = charts.with_places(
        [
            {"model": model, "k": k, "metric": pair.metric} | charts.difference(pair)
            for (model, k), pair in pairs.items()
        ],
        names,
    )
    x = {"field": "k", "type": "ordinal", "title": "K", "axis": {"labelAngle": 0}}
    y = charts.quantitative("difference", title="difference", axis={"format": "+.2~f", "tickCount": 5})
    reach = data.comparison.value_range(next(iter(pairs.values())).metric)
    if (axis := near_axis([*pairs.values()])) is not None:
        low, high = axis
        y["scale"] = {"domain": [max(low, -reach), min(high, reach)], "nice": False}
    offset = {"field": "place", "type": "ordinal"}
    ends = {"y": {**y, "field": "low"}, "y2": {"field": "high"}}
    tooltip: list[dict[str, Any]] = charts.tooltip("model", "metric")
    tooltip += charts.tooltip(difference="+.4f", low="+.4f", high="+.4f")
    shared = {"x": x, "xOffset": offset, "color": charts.named_colour(data, names)}
    whisker = {"type": "rule", "strokeWidth": 1.5, "clip": True}
    layers = [
        charts.layer({**charts.DASHED, "clip": True}, y={"datum": 0}),
        charts.layer(whisker, **shared, **ends, opacity=charts.fade(0.6)),
        charts.layer(
            {"type": "line", "strokeWidth": 1.2, "clip": True},
            **shared,
            **charts.model_dash(data, names),
            y=y,
            opacity=charts.fade(0.5),
        ),
        charts.layer(charts.dots(34, clip=True), **shared, y=y, opacity=charts.fade(), tooltip=tooltip),
    ]
    return charts.wide(rows, 220, autosize=charts.FIT, layer=layers)
