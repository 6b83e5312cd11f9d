"""How do the models do on every metric at every cutoff?"""

import math
from typing import Any

from ltr_harness.metrics.core.grammar import MetricName
from ltr_harness.report import blocks, charts, formats
from ltr_harness.report.blocks import Block, Chart, Column, Estimate, Heading, Paragraph, Table, Text
from ltr_harness.report.data import ReportData
from ltr_harness.report.sections.verdict import corrected_label
from ltr_harness.wording import none_if_undefined


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
        blocks.Details("The same with intervals", (with_intervals,)),
    ]


def _table(data: ReportData, name: str, *, intervals: bool) -> Table:
    columns = [Column("Model")]
    for metric in data.metrics:
        base, _, _, k = MetricName.of(metric)
        label, group = (metric, "") if k is None else (f"@{k}", base)
        columns.append(Column(label, "metric", group=group, best=data.best(metric), hint=metric))

    def mean(model: str, metric: str) -> Estimate:
        summary, pair = data.summary(model, metric), data.paired(model, metric)
        mark: blocks.Mark = ""
        if pair is not None and (pair.verdict == "better" or pair.verdict == "worse"):
            mark = pair.verdict
        low, high = (summary.ci_low, summary.ci_high) if intervals else (None, None)
        return Estimate(summary.mean, low, high, mark)

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
    """How does a metric move with K, within one model?"""
    families = {
        base: by_k
        for base, by_k in data.families.items()
        if len(by_k) > 1 and any(data.summary(data.models[0], metric).n for metric in by_k.values())
    }
    if not families:
        return []
    return [
        Heading("Metric over K within each model"),
        Paragraph(
            "Each panel is one model. A line says how deep its quality reaches; the normaliser changes with "
            "K, so heights at different K, or a line's rise, never rank models.",
            "note",
        ),
        Chart(
            name="metric_over_k",
            title=f"Mean over K within each model, with {data.confidence_label} intervals; "
            "not comparable across K",
            spec=_cutoffs_spec(data, families),
            text=_cutoffs_words(data, families),
        ),
    ]


def _cutoffs_spec(data: ReportData, families: dict[str, dict[int, str]]) -> dict[str, Any]:
    rows = []
    for model in data.models:
        for family, (base, by_k) in enumerate(families.items()):
            for k, name in by_k.items():
                s = data.summary(model, name)
                if not math.isnan(s.mean):
                    rows.append(
                        {
                            "model": model,
                            "metric": base,
                            "family": family,
                            "k": k,
                            "mean": round(s.mean, 6),
                            "low": none_if_undefined(round(s.ci_low, 6)),
                            "high": none_if_undefined(round(s.ci_high, 6)),
                        }
                    )
    colour = {
        "field": "metric",
        "type": "nominal",
        "title": None,
        "sort": {"field": "family", "op": "min"},
        "scale": {"range": [charts.colour_of(at) for at in range(len(families))]},
        "legend": {"orient": "top", "direction": "horizontal"},
    }
    x = {"field": "k", "type": "ordinal", "title": "K", "axis": {"labelAngle": 0}}
    y = charts.quantitative("mean", title=None, scale={"zero": False})
    ends = {"y": {**y, "field": "low"}, "y2": {"field": "high"}}
    about = [*charts.tooltip("model", "metric"), {"field": "k", "title": "K"}]
    numbers = charts.tooltip(mean=".4f", low=".4f", high=".4f")
    panel = {
        "encoding": {"x": x, "color": colour, "opacity": charts.fade()},
        "layer": [
            {
                "params": [charts.zoom("y")],
                **charts.layer(
                    {"type": "rule", "strokeWidth": 1, "clip": True}, **ends, opacity=charts.fade(0.45)
                ),
            },
            charts.layer({"type": "line", "strokeWidth": 1.75, "clip": True}, y=y),
            charts.layer(
                {"type": "point", "filled": True, "size": 34, "clip": True}, y=y, tooltip=[*about, *numbers]
            ),
        ],
    }
    return charts.small_multiples(data.models, rows, panel)


def _cutoffs_words(data: ReportData, families: dict[str, dict[int, str]]) -> str:
    sentences = []
    for model in data.models:
        parts = [
            f"{base} "
            + ", ".join(
                f"{formats.metric(data.summary(model, name).mean)} at {k}" for k, name in by_k.items()
            )
            for base, by_k in families.items()
        ]
        sentences.append(f"{model}: {'; '.join(parts)}.")
    return " ".join(sentences)
