"""Several data sets as blocks: each one's means beside their average, what differs, and the ranks models may have."""

from __future__ import annotations

import json

from ltr_harness.comparison.data_sets import AcrossDataSets
from ltr_harness.numbers import json_value
from ltr_harness.report.blocks import (
    Block,
    Bullets,
    Cell,
    Column,
    Estimate,
    Heading,
    Paragraph,
    Report,
    Section,
    Table,
)


def report(found: AcrossDataSets) -> Report:
    """The page, with everything in its JSON."""
    blocks: tuple[Block, ...] = (
        Heading("Several data sets"),
        Paragraph(f"{found.metric} against {found.baseline}: {found.method}", "lead"),
        _table(found),
        Bullets(tuple(found.lines())),
        *(Paragraph(note, "note") for note in found.notes),
    )
    facts = (f"{len(found.data_sets)} data sets", f"baseline {found.baseline}")
    return Report("Several data sets", facts, (Section("verdict", blocks),), lambda: document(found))


def document(found: AcrossDataSets) -> str:
    """All numbers as JSON."""
    return json.dumps(json_value(found), indent=2)


def _table(found: AcrossDataSets) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for one in found.models:
        own = one.average
        rows.append(
            (
                one.model,
                *one.means,
                one.mean,
                "baseline" if own is None else Estimate(own.difference, own.ci_low, own.ci_high),
                f"{one.first_rank}"
                if one.first_rank == one.last_rank
                else f"{one.first_rank} to {one.last_rank}",
            )
        )
    weights = ", ".join(
        f"{name} {weight:.0%} ({n:,} queries)"
        for name, weight, n in zip(found.data_sets, found.weights, found.n_queries, strict=True)
    )
    return Table(
        name="data_sets",
        caption=f"Mean {found.metric} on each data set, weighted average ({weights}), its difference from "
        f"{found.baseline}, and the ranks that a model may have by it, for all models at once.",
        columns=(
            Column("model"),
            *(Column(name, "metric") for name in found.data_sets),
            Column("average", "metric"),
            Column("change", "difference"),
            Column("rank", "text"),
        ),
        rows=tuple(rows),
    )
