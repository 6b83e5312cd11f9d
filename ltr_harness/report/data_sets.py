"""Several data sets as blocks: each one's means beside their average, what differs, and the ranks models may have."""

from ltr_harness.comparison.data_sets import AcrossDataSets, AcrossModel
from ltr_harness.report.blocks import (
    Block,
    Bullets,
    Column,
    Estimate,
    Heading,
    Paragraph,
    Report,
    Section,
    Table,
)
from ltr_harness.wording import json_text


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
    return Report("Several data sets", facts, (Section("verdict", blocks),), lambda: json_text(across))


def _table(across: AcrossDataSets) -> Table:
    def rank(one: AcrossModel) -> str:
        return f"{one.first_rank}" + (f" to {one.last_rank}" if one.last_rank != one.first_rank else "")

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
            Column("rank"),
        ),
        rows=tuple(
            (
                one.model,
                *one.means,
                one.mean,
                "baseline" if one.average is None else Estimate.of(one.average),
                rank(one),
            )
            for one in across.models
        ),
    )
