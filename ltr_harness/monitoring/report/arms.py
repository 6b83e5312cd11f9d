"""Which arm of the A/B test is better?"""

from __future__ import annotations

from ltr_harness.monitoring.analysis.arm_words import p_of, units_in_words
from ltr_harness.monitoring.report.verdict import estimate, label
from ltr_harness.monitoring.results.arms import ArmComparison
from ltr_harness.monitoring.results.result import MonitorResult
from ltr_harness.report.blocks import Badge, Block, Column, Heading, Paragraph, Table, Tone

_TONES: dict[str, Tone] = {"better": "good", "worse": "bad", "withheld": "bad"}


def section(result: MonitorResult) -> list[Block]:
    arms = result.arms
    if arms is None:
        return []
    return [
        Heading("Arms"),
        Paragraph(arms.verdict, "warning" if arms.withheld else "lead"),
        _differences(arms, result),
        _shares(arms),
        *(Paragraph(f"{note[:1].upper()}{note[1:]}.", "note") for note in arms.notes),
    ]


def _differences(arms: ArmComparison, result: MonitorResult) -> Table:
    columns = (
        Column("Arm", "code"),
        Column("Measure", "code"),
        Column(arms.control, "metric"),
        Column("Mean", "metric"),
        Column(f"Difference [{label(result)} interval]", "difference"),
        Column("Relative", "relative"),
        Column("p", "p", hint="One test, uncorrected."),
        Column("p corrected", "p", hint=arms.family),
        Column("Queries", "count"),
        Column("Verdict"),
    )
    rows = tuple(
        (
            d.arm, d.measure, d.control, d.mean, estimate(d.difference), d.relative, d.difference.p, d.p_corrected,
            d.n_queries, Badge(d.verdict, _TONES.get(d.verdict, "neutral")),
        )
        for d in arms.differences
    )  # fmt: skip
    return Table(
        "arms",
        f"Every arm of {arms.column} against {arms.control}: means over queries.",
        columns,
        rows,
        notes=(
            f"The test of `compare`, by {arms.unit}. {arms.family[:1].upper()}{arms.family[1:]}: p corrected and "
            "the intervals hold for all measures of all arms.",
        ),
    )


def _shares(arms: ArmComparison) -> Table:
    total = sum(arm.n_units for arm in arms.arms)
    rows = tuple(
        (a.name, a.n_queries, a.n_units, a.n_units / total if total else None, a.expected) for a in arms.arms
    )
    return Table(
        "arm_shares",
        "Who got which arm; below p = .001 no verdict is given.",
        (
            Column("Arm", "code"),
            Column("Queries", "count"),
            Column("Units", "count", hint=f"{units_in_words(arms.unit)}: what was given an arm."),
            Column("Share", "percent"),
            Column("Expected", "percent"),
        ),
        rows,
        notes=(
            f"Chi-squared of these shares: {p_of(arms.ratio_p)}; of the same shares in all windows: "
            f"{p_of(arms.drift_p)}.",
        ),
        sortable=False,
    )
