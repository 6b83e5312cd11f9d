"""Page or ranking?"""

from __future__ import annotations

from typing import Any

from ltr_harness.monitoring.presentation import CAUTION
from ltr_harness.monitoring.result import MonitorResult
from ltr_harness.report.blocks import Block, Chart, Column, Heading, Paragraph, Table
from ltr_harness.report.charts import PALETTE, spec

_SIGNATURES = {
    "none": "The positives are spread over the ranks as before.",
    "page": "Rank 1, which everybody looks at, is as before while other ranks moved: this is what a changed page does.",
    "proportional": "All ranks moved alike: this is what lost events do.",
    "ranking": "The shape changed, and rank 1 with it, or nobody can tell: a changed ranking does this; so may a page.",
}


def section(result: MonitorResult) -> list[Block]:
    seen = result.presentation
    if seen is None:
        return []
    blocks: list[Block] = [
        Heading("Presentation"),
        Paragraph(f"{CAUTION[0].upper()}{CAUTION[1:]}. {_SIGNATURES[seen.signature]}"),
        _chart(result),
        Table(
            "by_rank",
            "How often the item at each rank is positive.",
            (
                Column("Rank", "count"), Column("Lists before", "count"), Column("Lists now", "count"),
                Column("Positive before", "percent"), Column("Positive now", "percent"),
            ),
            tuple((r.rank, r.shown_before, r.shown_now, r.rate_before, r.rate_now) for r in seen.rows),
            notes=((f"Shape: total variation {seen.shape_distance:.3f}, p = {seen.shape_p:.4f}. This is not "
                f"examination: good items stand high."),),
            sortable=False,
        ),
    ]  # fmt: skip
    if seen.ips is not None:
        text = (
            f"IPS-DCG, gains weighted by 1/propensity: {seen.ips_before:.4f} -> {seen.ips_now:.4f}, "
            f"{seen.ips.value:+.4f} [{seen.ips.low:+.4f}, {seen.ips.high:+.4f}], p = {seen.ips.p:.4f}."
        )
        if seen.ips_normalised is not None:
            n = seen.ips_normalised
            text += f" Self-normalised: {n.value:+.4f} [{n.low:+.4f}, {n.high:+.4f}]."
        if seen.effective:
            text += (
                f" Effective number of gains: {seen.effective[0]:,.0f} before, {seen.effective[1]:,.0f} now."
            )
        blocks.append(
            Paragraph(
                text
                + " It is unbiased for DCG where the propensities are right; a ratio such as IPS-NDCG would not be."
            )
        )
    return blocks


def _chart(result: MonitorResult) -> Chart:
    seen = result.presentation
    rows: list[dict[str, Any]] = []
    for r in seen.rows if seen else ():
        for when, rate in (("baseline", r.rate_before), ("production", r.rate_now)):
            if rate == rate:
                rows.append({"rank": r.rank, "when": when, "rate": round(rate, 5)})
    body: dict[str, Any] = {
        "data": {"values": rows},
        "width": "container",
        "height": 160,
        "mark": {"type": "line", "point": True},
        "encoding": {
            "x": {
                "field": "rank",
                "type": "quantitative",
                "title": "rank",
                "axis": {"tickMinStep": 1, "grid": False},
            },
            "y": {"field": "rate", "type": "quantitative", "title": None, "axis": {"format": "%"}},
            "color": {
                "field": "when",
                "type": "nominal",
                "title": None,
                "scale": {"domain": ["baseline", "production"], "range": [PALETTE[1], PALETTE[0]]},
            },
            "tooltip": [
                {"field": "when"},
                {"field": "rank", "type": "quantitative"},
                {"field": "rate", "type": "quantitative", "format": ".2%"},
            ],
        },
    }
    first = seen.rows[0] if seen and seen.rows else None
    words = (
        f"At rank 1 {first.rate_before:.1%} before and {first.rate_now:.1%} now." if first else "No ranks."
    )
    return Chart("by_rank", "Share of positive items by rank, baseline and production", spec(body), words)
