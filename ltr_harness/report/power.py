"""A plan as blocks, for the terminal and for a page: what finds the difference, and the curve over n."""

from collections.abc import Sequence
from typing import Any

from ltr_harness.comparison.power import ModelPlan, PowerPlan
from ltr_harness.report import charts
from ltr_harness.report.blocks import (
    Block,
    Bullets,
    Chart,
    Column,
    Heading,
    Paragraph,
    Report,
    Section,
    Table,
)
from ltr_harness.wording import json_text

SHOWN = 5
"""Models whose curves are shown; all are in the JSON."""


def sections(planned: PowerPlan) -> tuple[Section, ...]:
    """The answer, and the curve of the detectable difference."""
    answer: list[Block] = [
        Heading("What it takes"),
        Paragraph(f"{planned.about}: to find a difference of {planned.difference:+g}", "lead"),
        _needs(planned),
        Bullets(tuple(planned.said(plan, need) for plan in planned.plans for need in plan.needs)),
        *(Paragraph(note, "note") for note in planned.notes),
    ]
    shown = planned.plans[:SHOWN]
    curve: list[Block] = [
        Heading(f"Detectable difference over {planned.drawn()}"),
        _chart(planned, shown),
        *(_curve(planned, plan, at) for at, plan in enumerate(shown)),
    ]
    return Section("verdict", tuple(answer)), Section("curve", tuple(curve))


def report(planned: PowerPlan) -> Report:
    """The page, with everything in its JSON."""
    return Report(
        "Power", (f"difference {planned.difference:+g}",), sections(planned), lambda: json_text(planned)
    )


def _needs(planned: PowerPlan) -> Table:
    powers = [need.power for need in planned.plans[0].needs]
    word = planned.drawn()
    return Table(
        name="power",
        caption=f"Standard deviation of the differences; by probability, the difference that the {word} at hand show, "
        f"and how many find {planned.difference:+g}.",
        columns=(
            Column("model"),
            Column("sd", "metric"),
            Column("at hand", "count"),
            *(Column(f"{power:.0%} detect", "metric") for power in powers),
            *(Column(f"{power:.0%} need", "count") for power in powers),
        ),
        rows=tuple(
            (
                plan.model,
                plan.sd,
                plan.n,
                *(need.detectable for need in plan.needs),
                *(need.draws for need in plan.needs),
            )
            for plan in planned.plans
        ),
    )


def _curve(planned: PowerPlan, plan: ModelPlan, at: int) -> Table:
    return Table(
        name=f"power_curve_{at + 1}",
        caption=f"{plan.model}: the smallest difference that so many {planned.drawn()} show, by probability.",
        columns=(
            Column(planned.drawn(), "count"),
            *(Column(f"{need.power:.0%}", "metric") for need in plan.needs),
        ),
        rows=tuple((point.n, *point.detectable) for point in plan.curve),
        sortable=False,
    )


def _chart(planned: PowerPlan, plans: Sequence[ModelPlan]) -> Chart:
    rows: list[dict[str, Any]] = [
        {
            "model": plan.model,
            "power": f"{need.power:.0%}",
            "n": point.n,
            "detectable": round(point.detectable[at], 8),
        }
        for plan in plans
        for point in plan.curve
        for at, need in enumerate(plan.needs)
    ]
    x = charts.quantitative("n", title="n", scale={"type": "log"}, axis={"tickCount": 4})
    y = charts.quantitative("detectable", title=None, scale={"type": "log"})
    colour = {
        "field": "power",
        "type": "nominal",
        "title": None,
        "scale": {"range": [charts.colour_of(at) for at in range(len(plans[0].needs))]},
        "legend": {"orient": "top", "direction": "horizontal"},
    }
    panel = {
        "layer": [
            charts.layer(
                {"type": "line", "strokeWidth": 1.75, "point": True},
                x=x,
                y=y,
                color=colour,
                tooltip=charts.tooltip("n", "detectable"),
            ),
            charts.layer({"type": "rule", "strokeDash": [4, 3]}, y={"datum": abs(planned.difference)}),
        ]
    }
    return Chart(
        name="power",
        title=f"The smallest difference that n {planned.drawn()} show; the dashed line is the one asked for",
        spec=charts.small_multiples([plan.model for plan in plans], rows, panel),
        text=" ".join(
            f"{plan.model}: "
            + ", ".join(f"{point.detectable[0]:.4f} at {point.n:,}" for point in plan.curve)
            + "."
            for plan in plans
        ),
    )
