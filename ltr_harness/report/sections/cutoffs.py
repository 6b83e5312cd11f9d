"""How does a metric move with K, within one model?"""

from __future__ import annotations

from typing import Any

from ltr_harness.report.blocks import Block, Chart, Heading, Paragraph
from ltr_harness.report.charts import colour_of, fade, small_multiples, zoom
from ltr_harness.report.data import ReportData
from ltr_harness.report.formats import metric as metric_text


def section(data: ReportData) -> list[Block]:
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
            spec=_spec(data, families),
            text=_words(data, families),
        ),
    ]


def _spec(data: ReportData, families: dict[str, dict[int, str]]) -> dict[str, Any]:
    rows = []
    for model in data.models:
        for family, (base, by_k) in enumerate(families.items()):
            for k, name in by_k.items():
                s = data.summary(model, name)
                if s.mean == s.mean:  # not NaN
                    rows.append(
                        {
                            "model": model,
                            "metric": base,
                            "family": family,
                            "k": k,
                            "mean": round(s.mean, 6),
                            "low": round(s.ci_low, 6) if s.ci_low == s.ci_low else None,
                            "high": round(s.ci_high, 6) if s.ci_high == s.ci_high else None,
                        }
                    )
    colour = {
        "field": "metric",
        "type": "nominal",
        "title": None,
        "sort": {"field": "family", "op": "min"},
        "scale": {"range": [colour_of(at) for at in range(len(families))]},
        "legend": {"orient": "top", "direction": "horizontal"},
    }
    x = {"field": "k", "type": "ordinal", "title": "K", "axis": {"labelAngle": 0}}
    y = {"field": "mean", "type": "quantitative", "title": None, "scale": {"zero": False}}
    tooltip = [
        {"field": "model"},
        {"field": "metric"},
        {"field": "k", "title": "K"},
        {"field": "mean", "type": "quantitative", "format": ".4f"},
        {"field": "low", "type": "quantitative", "format": ".4f"},
        {"field": "high", "type": "quantitative", "format": ".4f"},
    ]
    panel = {
        "encoding": {"x": x, "color": colour, "opacity": fade()},
        "layer": [
            {
                "params": [zoom("y")],
                "mark": {"type": "rule", "strokeWidth": 1, "clip": True},
                "encoding": {"y": {**y, "field": "low"}, "y2": {"field": "high"}, "opacity": fade(0.45)},
            },
            {"mark": {"type": "line", "strokeWidth": 1.75, "clip": True}, "encoding": {"y": y}},
            {
                "mark": {"type": "point", "filled": True, "size": 34, "clip": True},
                "encoding": {"y": y, "tooltip": tooltip},
            },
        ],
    }
    return small_multiples(data.models, rows, panel)


def _words(data: ReportData, families: dict[str, dict[int, str]]) -> str:
    sentences = []
    for model in data.models:
        parts = [
            f"{base} "
            + ", ".join(f"{metric_text(data.summary(model, name).mean)} at {k}" for k, name in by_k.items())
            for base, by_k in families.items()
        ]
        sentences.append(f"{model}: {'; '.join(parts)}.")
    return " ".join(sentences)
