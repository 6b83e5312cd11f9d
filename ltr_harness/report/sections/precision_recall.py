"""How much precision does each step of recall cost?"""

from __future__ import annotations

from typing import Any

from ltr_harness.errors import MetricError
from ltr_harness.metrics import parse_metric
from ltr_harness.metrics.core.metric import BinaryMetric
from ltr_harness.numbers import plain_number
from ltr_harness.report.blocks import Block, Chart, Column, Heading, Paragraph, Table
from ltr_harness.report.charts import fade, model_colour, small_multiples
from ltr_harness.report.data import ReportData
from ltr_harness.report.formats import metric as metric_text
from ltr_harness.report.numbers.precision_recall import LEVELS, PrecisionRecall, curves

_ABOUT = ("map", "precision", "recall", "f1", "rprec", "bpref")
"""Metrics that ask for precision or recall; who looks at none of them is not shown the two against each other."""


def section(data: ReportData) -> list[Block]:
    relevant = _relevant(data)
    if relevant is None or data.rows is None:
        return []
    drawn = curves(data.models, data.rows, relevant)
    if not drawn:
        return []
    return [
        Heading("Precision and recall"),
        Paragraph(
            "At each level of recall the best precision at that recall or a higher one, query by query over whole "
            "lists, and then the mean over queries (eleven points; Manning, Raghavan & Schütze 2008, chapter 8). "
            "The area under a query's curve, without interpolation, is its average precision: the mean of the "
            f"precisions at its relevant documents. Relevant is a grade of {plain_number(relevant)} and above."
        ),
        Table(
            name="precision_recall",
            caption="Precision at levels of recall, and the area.",
            columns=(
                Column("Model"),
                Column("AP", "metric", best="max", hint="Mean average precision of whole lists."),
                *(Column(f"at {level:.1f}", "metric") for level in LEVELS[::2]),
            ),
            rows=tuple(
                (data.model_name(name), one.ap, *one.precision[::2].tolist()) for name, one in drawn.items()
            ),
        ),
        _chart(data, drawn),
    ]


def _relevant(data: ReportData) -> float | None:
    """From which grade on the first metric about precision or recall counts documents; None without one."""
    for name in data.metrics:
        try:
            metric = parse_metric(name)
        except MetricError:  # a metric from outside
            continue
        if metric.name in _ABOUT and isinstance(metric, BinaryMetric):
            return metric.relevant
    return None


def _chart(data: ReportData, drawn: dict[str, PrecisionRecall]) -> Chart:
    names = list(drawn)
    rows = [
        {
            "model": name,
            "recall": float(level),
            "precision": round(float(precision), 5),
            "baseline": round(float(baseline), 5),
        }
        for name in names
        for level, precision, baseline in zip(
            LEVELS, drawn[name].precision, drawn[data.baseline].precision, strict=True
        )
    ]
    x = {
        "field": "recall",
        "type": "quantitative",
        "title": "recall",
        "axis": {"tickCount": 5, "grid": False},
    }
    y = {"type": "quantitative", "title": "precision", "scale": {"domain": [0, 1]}, "axis": {"tickCount": 5}}
    numbers = [
        {"field": field, "type": "quantitative", "format": ".4f"} for field in ("precision", "baseline")
    ]
    panel: dict[str, Any] = {
        "encoding": {"x": x, "opacity": fade()},
        "layer": [
            {
                "mark": {"type": "line", "strokeDash": [4, 3], "strokeWidth": 1, "color": "#7d838c"},
                "encoding": {"y": {**y, "field": "baseline"}},
            },
            {
                "mark": {"type": "line", "strokeWidth": 1.75},
                "encoding": {"y": {**y, "field": "precision"}, "color": model_colour(data, names)},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 34},
                "encoding": {
                    "y": {**y, "field": "precision"},
                    "color": model_colour(data, names),
                    "tooltip": [{"field": "model"}, {"field": "recall", "type": "quantitative"}, *numbers],
                },
            },
        ],
    }
    words = [
        f"{name}: AP {metric_text(one.ap)}; precision {metric_text(one.precision[0])} at recall 0, "
        f"{metric_text(one.precision[5])} at one half, {metric_text(one.precision[10])} at 1."
        for name, one in drawn.items()
    ]
    return Chart(
        name="precision_recall",
        title="Precision over recall, interpolated at eleven points, mean over queries; dashed: the baseline",
        spec=small_multiples(names, rows, panel),
        text=" ".join(words),
    )
