"""Would it hold for another seed?"""

from __future__ import annotations

from ltr_harness.report.blocks import Badge, Block, Cell, Column, Estimate, Heading, Paragraph, Table
from ltr_harness.report.data import ReportData


def section(data: ReportData) -> list[Block]:
    seeded = [m for m in data.models if data.summary(m, data.primary).n_replicates > 1]
    if not seeded and not any(entrant.deterministic for entrant in data.comparison.entrants):
        return []
    label = data.confidence_label
    columns = (
        Column("Model"),
        Column("Seeds", "count"),
        Column(f"{data.primary} [{label} interval over queries]", "metric"),
        Column("sd over seeds", "metric", hint="Spread of the means when only the seed changes."),
        Column("Lowest seed", "metric"),
        Column("Highest seed", "metric"),
        Column("Sign agrees", "percent", hint="Pairs of seeds whose difference has the sign of the whole."),
        Column("Seed matters"),
    )
    return [
        Heading("Robustness over seeds"),
        Paragraph(
            "The interval over queries asks about other queries for the same trained models; the spread over "
            "seeds asks about other trainings on the same data. Neither contains the other."
        ),
        Table(
            name="seeds",
            caption=f"Means of {data.primary} over all queries, seed by seed.",
            columns=columns,
            rows=tuple(_row(data, name) for name in data.models),
        ),
    ]


def _row(data: ReportData, name: str) -> tuple[Cell, ...]:
    summary = data.summary(name, data.primary)
    pair = data.paired(name, data.primary)
    mean = Estimate(summary.mean, summary.ci_low, summary.ci_high)
    agreement = None if pair is None else pair.seed_agreement
    if data.entrants[name].deterministic:
        word = Badge("deterministic", "muted")
    elif summary.n_replicates > 1:
        word = Badge("yes")
    else:
        word = Badge("one seed: unknown", "muted")
    if summary.n_replicates < 2:
        return (data.model_name(name), summary.n_replicates, mean, None, None, None, agreement, word)
    return (
        data.model_name(name),
        summary.n_replicates,
        mean,
        summary.seed_sd,
        summary.seed_min,
        summary.seed_max,
        agreement,
        word,
    )
