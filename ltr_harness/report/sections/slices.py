"""For which queries does a model gain or lose?"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ltr_harness.comparison.slices import SMALLEST, SliceResult
from ltr_harness.report import blocks, charts, formats
from ltr_harness.report.blocks import Block, Chart, Column, Estimate, Heading, Paragraph, Table
from ltr_harness.report.data import ReportData
from ltr_harness.report.sections.verdict import verdict_badge
from ltr_harness.stats.families import rare_kind

LABELS = {"rows": "documents per query", "n_relevant": "relevant documents", "query_weight": "traffic"}
"""What the harness's own attributes are called; those of the data keep their names."""


def section(data: ReportData) -> list[Block]:
    results = data.slices
    if not any(result.n for result in results):
        return []
    attributes = list(dict.fromkeys(result.attribute for result in results))
    files = formats.file_names(attributes)
    tables = tuple(_table(data, name, files[name], results) for name in attributes)
    n = sum(1 for result in results if result.n >= SMALLEST)
    shown: list[Block] = [
        Heading("Slices"),
        Paragraph(
            f"The same paired differences at {data.primary} within parts of the query set. The {n} intervals hold "
            f"jointly with {data.confidence_label} confidence, and so do their p-values, so a part "
            "may be picked out after looking. A part that is not distinguishable is small more often than equal."
        ),
        _chart(data, results),
        *_shaky(data, results),
    ]
    if len(tables) == 1:
        return [*shown, *tables]
    return [*shown, blocks.Details("The numbers, attribute by attribute", tables)]


def _shaky(data: ReportData, results: Sequence[SliceResult]) -> list[Block]:
    """Which verdicts a rare kind of query, of which a part may hold none, could turn round."""
    comparison = data.comparison
    width, method = comparison.value_range(), replace(comparison.method, correction="joint")
    family = sum(result.n >= SMALLEST for result in results)
    names = [
        f"{result.model} on {LABELS.get(result.attribute, result.attribute)} {result.label}"
        for result in results
        if result.verdict in ("better", "worse")
        and rare_kind(result.n, abs(result.difference), width, method, family=family)
    ]
    if not names:
        return []
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return [
        Paragraph(
            "Rests on so few queries that a rare kind, of which they may hold none, could turn the verdict round: "
            f"{'; '.join(names[:5])}{more}."
        )
    ]


def _table(data: ReportData, attribute: str, file: str, results: Sequence[SliceResult]) -> Table:
    def verdict(result: SliceResult) -> blocks.Badge:
        return (
            verdict_badge(result.verdict)
            if result.n >= SMALLEST
            else blocks.Badge("too few queries", "muted")
        )

    return Table.of(
        f"slices_{file}",
        f"By {LABELS.get(attribute, attribute)}, at {data.primary} against {data.baseline}.",
        [result for result in results if result.attribute == attribute],
        {
            Column("Model"): lambda result: data.model_name(result.model),
            Column(LABELS.get(attribute, attribute)): lambda result: result.label,
            Column("Queries", "count", hint="Queries of this part with a value."): lambda result: result.n,
            Column("Baseline", "metric"): lambda result: result.baseline_mean,
            Column("Mean", "metric"): lambda result: result.model_mean,
            Column(f"Difference [{data.confidence_label} simultaneous]", "difference"): Estimate.of,
            Column("joint p", "p"): lambda result: result.p,
            Column("Verdict"): verdict,
        },
    )


def _chart(data: ReportData, results: Sequence[SliceResult]) -> Chart:
    order: dict[str, int] = {}
    rows: list[dict[str, Any]] = []
    sure: dict[str, list[str]] = {result.model: [] for result in results}
    for result in results:
        part = f"{LABELS.get(result.attribute, result.attribute)}: {result.label}"
        order.setdefault(part, len(order))
        if result.n < SMALLEST:
            continue
        rows.append(
            {
                "model": result.model,
                "part": part,
                "at": order[part],
                "n": result.n,
                "difference": round(result.difference, 6),
                "low": round(result.ci_low, 6),
                "high": round(result.ci_high, 6),
                "zero": 0,
            }
        )
        if result.verdict in ("better", "worse"):
            sure[result.model].append(
                f"{result.verdict} by {formats.difference(result.difference)} on {part}"
            )
    names = [name for name in data.rivals if any(row["model"] == name for row in rows)]
    words = [f"{name}: {'; '.join(sure[name]) or 'nowhere distinguishable'}." for name in names]
    y = {
        "field": "part",
        "type": "nominal",
        "title": None,
        "sort": {"field": "at", "op": "min"},
        "axis": {"labelLimit": 150},
    }
    x = {
        "type": "quantitative",
        "title": "difference to the baseline",
        "axis": {"format": "+.2~f", "tickCount": 4},
    }
    about = [*charts.tooltip("model", "part"), {"field": "n", "title": "queries"}]
    panel = {
        "height": {"step": 15},
        "layer": [
            charts.layer(
                {"type": "rule", "strokeDash": [4, 3], "clip": True},
                x={**x, "field": "zero", "aggregate": "min"},
            ),
            *charts.intervals(data, names, y, x, about, size=42),
        ],
    }
    return Chart(
        name="slices",
        title=f"Difference in {data.primary} to {data.baseline} by part of the query set, with simultaneous "
        f"{data.confidence_label} intervals; each panel has its own scale",
        spec=charts.small_multiples(names, rows, panel, labels=110, own_x=True),
        text=" ".join(words),
    )
