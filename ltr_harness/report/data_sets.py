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


def report(across: AcrossDataSets) -> Report:
    """The page, with everything in its JSON."""
    blocks: tuple[Block, ...] = (
        Heading("Several data sets"),
        Paragraph(f"{across.metric} against {across.baseline}: {across.method}", "lead"),
        _table(across),
        Bullets(tuple(across.lines())),
        *(Paragraph(note, "note") for note in across.notes),
    )
    facts = (f"{len(across.data_sets)} data sets", f"baseline {across.baseline}")
    return Report("Several data sets", facts, (Section("verdict", blocks),), lambda: document(across))


def document(across: AcrossDataSets) -> str:
    """All numbers as JSON."""
    return json.dumps(json_value(across), indent=2)


def _table(across: AcrossDataSets) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for one in across.models:
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
        for name, weight, n in zip(across.data_sets, across.weights, across.n_queries, strict=True)
    )
    return Table(
        name="data_sets",
        caption=f"Mean {across.metric} on each data set, weighted average ({weights}), its difference from "
        f"{across.baseline}, and the ranks that a model may have by it, for all models at once.",
        columns=(
            Column("model"),
            *(Column(name, "metric") for name in across.data_sets),
            Column("average", "metric"),
            Column("change", "difference"),
            Column("rank", "text"),
        ),
        rows=tuple(rows),
    )
