"""Page or ranking?"""

from __future__ import annotations

from typing import Any

from ltr_harness.monitoring.analysis.presentation import CAUTION
from ltr_harness.monitoring.results.answers import Interval, Presentation
from ltr_harness.monitoring.results.result import MonitorResult
from ltr_harness.report.blocks import Block, Cell, Chart, Column, Heading, Paragraph, Table
from ltr_harness.report.charts import PALETTE, spec
from ltr_harness.report.formats import p_value

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
        _by_rank(result, seen),
    ]
    if seen.ips is not None:
        blocks.append(_ips(seen, seen.ips))
    return blocks


def _by_rank(result: MonitorResult, seen: Presentation) -> Table:
    columns = [
        Column("Rank", "count"), Column("Lists before", "count"), Column("Lists now", "count"),
        Column("Positive before", "percent"), Column("Positive now", "percent"),
    ]  # fmt: skip
    notes = [
        f"Shape: total variation {seen.shape_distance:.3f}, p {p_value(seen.shape_p)}. This is not examination: good "
        "items stand high."
    ]
    rows: list[tuple[Cell, ...]] = [
        (r.rank, r.shown_before, r.shown_now, r.rate_before, r.rate_now) for r in seen.rows
    ]
    rule = result.config.get("propensity") or {}
    if now := rule.get("table"):
        before = rule["baseline_table"] or now
        columns += [Column("Examined before", "percent"), Column("Examined now", "percent")]
        rows = [
            (*row, *(table[min(r.rank, len(table)) - 1] for table in (before, now)))
            for row, r in zip(rows, seen.rows, strict=True)
        ]
        notes.append(f"Examination, relative to rank 1, is from {rule['source'] or 'the configuration'}.")
    caption = "How often the item at each rank is positive."
    return Table("by_rank", caption, tuple(columns), tuple(rows), notes=tuple(notes), sortable=False)


def _ips(seen: Presentation, change: Interval) -> Paragraph:
    said = [
        f"IPS-DCG, gains weighted by 1/propensity: {seen.ips_before:.4f} -> {seen.ips_now:.4f}, {change}, "
        f"p {p_value(change.p)}."
    ]
    if seen.ips_normalised is not None:
        said.append(f"Self-normalised: {seen.ips_normalised}.")
    if seen.effective:
        said.append(
            f"Effective number of gains: {seen.effective[0]:,.0f} before, {seen.effective[1]:,.0f} now."
        )
    said.append(
        "It is unbiased for DCG where the propensities are right; a ratio such as IPS-NDCG would not be."
    )
    return Paragraph(" ".join(said))


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
