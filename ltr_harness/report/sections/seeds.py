"""Would it hold for another seed?"""

from __future__ import annotations

import math

from ltr_harness.report.blocks import Badge, Block, Cell, Column, Estimate, Heading, Paragraph, Table
from ltr_harness.report.data import ReportData

OVER = "over seeds"


def section(data: ReportData) -> list[Block]:
    seeded = [m for m in data.models if data.summary(m, data.primary).n_replicates > 1]
    if not seeded and not any(entrant.deterministic for entrant in data.comparison.entrants):
        return []
    two_level = any(
        not math.isnan(data.comparison.paired(name, data.primary).seed_ci_low) for name in data.rivals
    )
    columns = [
        Column("Model"),
        Column("Seeds", "count"),
        Column(
            data.primary, "metric", hint="Mean over queries and seeds; its interval is in the first table."
        ),
        Column("sd", "metric", OVER, hint="Spread of the means when only the seed changes."),
        Column("lowest", "metric", OVER),
        Column("highest", "metric", OVER),
        Column("Sign agrees", "percent", hint="Pairs of seeds whose difference has the sign of the whole."),
    ]
    if two_level:
        columns.append(
            Column(
                "Difference [queries and seeds]",
                "difference",
                hint="Queries and seeds are resampled together: what new queries and new trainings would change.",
            )
        )
    columns.append(Column("Seed matters"))
    return [
        Heading("Robustness over seeds"),
        Paragraph(
            "The interval over queries asks about other queries for the same trained models; the spread over "
            "seeds asks about other trainings on the same data. Neither contains the other."
        ),
        Table(
            name="seeds",
            caption=f"Means of {data.primary} over all queries, seed by seed.",
            columns=tuple(columns),
            rows=tuple(_row(data, name, two_level) for name in data.models),
        ),
    ]


def _row(data: ReportData, name: str, two_level: bool) -> tuple[Cell, ...]:
    summary = data.summary(name, data.primary)
    pair = data.paired(name, data.primary)
    seeded = summary.n_replicates > 1
    if data.entrants[name].deterministic:
        word = Badge("deterministic", "muted")
    else:
        word = Badge("yes") if seeded else Badge("one seed: unknown", "muted")
    joint = None if pair is None else Estimate(pair.difference, pair.seed_ci_low, pair.seed_ci_high)
    return (
        data.model_name(name),
        summary.n_replicates,
        summary.mean,
        *((summary.seed_sd, summary.seed_min, summary.seed_max) if seeded else (None, None, None)),
        None if pair is None else pair.seed_agreement,
        *((joint,) if two_level else ()),
        word,
    )
