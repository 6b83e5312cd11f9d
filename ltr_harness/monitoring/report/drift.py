"""What moved among the features, and does it explain the drop?"""

from __future__ import annotations

import math

from ltr_harness.monitoring.report.verdict import estimate, label
from ltr_harness.monitoring.results.answers import FeatureDrift
from ltr_harness.monitoring.results.result import MonitorResult
from ltr_harness.report.blocks import Badge, Block, Cell, Column, Heading, Paragraph, Table
from ltr_harness.wording import count_of


def _state(drift: FeatureDrift) -> Badge:
    if drift.broken:
        return Badge("broken", "bad")
    return Badge("drifted", "bad") if drift.drifted else Badge("stable", "good")


def section(result: MonitorResult) -> list[Block]:
    if not result.drift:
        return []
    with_gain = any(not math.isnan(f.gain) for f in result.drift)
    broken = {f.column: f for f in result.drift if f.broken}
    drifted = sum(f.drifted for f in result.drift)
    rows: list[tuple[Cell, ...]] = [
        (
            f.name, estimate(f.mix), f.explains, estimate(f.unmatched), f.psi, f.psi_threshold,
            _state(f), f.shift, f.carried, f.distance, f.p,
            f.missing_before, f.missing_now, *((f.gain, f.psi * f.gain) if with_gain else ()),
        )
        for f in result.drift
    ]  # fmt: skip
    columns = [
        Column("Feature", "code"),
        Column(
            f"Explains [{label(result)} interval]",
            "difference",
            hint="Mix term: the part of the change due to other shares of the feature's bins.",
        ),
        Column("Share of change", "percent"),
        Column(
            "Unmatched",
            "difference",
            hint="The part that lies where only one period has values, or where the input broke: no mix.",
        ),
        Column("PSI", "number"),
        Column("PSI limit", "number", hint="The floor, or what chance would reach at this many queries."),
        Column("Drift"),
        Column("Shift in sd", "number", hint="Of the baseline; of items, where items of a query differ."),
        Column("Wasserstein in sd", "number", hint="How far the values have to be carried, on average."),
        Column(
            "KS or JS",
            "number",
            hint="Kolmogorov-Smirnov distance of numbers, Jensen-Shannon divergence of segments.",
        ),
        Column("KS p", "p", hint="With many queries everything is significant; PSI is the size."),
        Column("Missing before", "percent"),
        Column("Missing now", "percent"),
    ]
    if with_gain:
        columns += [
            Column("Gain", "percent", hint="The feature's share of the gain of all splits of the model."),
            Column("PSI x gain", "number", hint="Drift that the model can notice; no order of causes."),
        ]
    return [
        Heading("Features"),
        Paragraph(
            f"{drifted} of {count_of(len(rows), 'feature')} drifted. Drift alone is not a cause: the first "
            "column says how "
            "much of the change each one explains, and orders the table."
        ),
        *(Paragraph(f"{f.column} {f.broken}.", "warning") for f in broken.values()),
        Table("drift", "Features and segments, one value per query.", tuple(columns), tuple(rows)),
    ]
