"""Would it hold for another seed?"""

from __future__ import annotations

from ltr_harness.report.blocks import Badge, Block, Cell, Column, Estimate, Heading, Paragraph, Table
from ltr_harness.report.data import ReportData

OVER = "over seeds"


def section(data: ReportData) -> list[Block]:
    seeded = [m for m in data.models if data.summary(m, data.primary).n_replicates > 1]
    if not seeded and not any(entrant.deterministic for entrant in data.comparison.entrants):
        return []
    over_seeds = any(data.comparison.paired(name, data.primary).over_seeds for name in data.rivals)
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
    if over_seeds:
        columns += [
            Column(
                "Difference [these trained models]",
                "difference",
                hint="What other queries would change, for these trained models; other trainings are not asked about.",
            ),
            Column("p [these trained models]", "p", hint="Corrected as in the first table."),
        ]
    columns.append(Column("Seed matters"))
    return [
        Heading("Robustness over seeds"),
        Paragraph(
            "A verdict about methods is one about other queries and other trainings together: where a model was "
            "trained with several seeds, intervals, p-values and verdicts of differences are of both. The spread over "
            "seeds is what other trainings change on these queries."
        ),
        Table(
            name="seeds",
            caption=f"Means of {data.primary} over all queries, seed by seed.",
            columns=tuple(columns),
            rows=tuple(_row(data, name, over_seeds) for name in data.models),
        ),
    ]


def _row(data: ReportData, name: str, over_seeds: bool) -> tuple[Cell, ...]:
    summary = data.summary(name, data.primary)
    pair = data.paired(name, data.primary)
    seeded = summary.n_replicates > 1
    if data.entrants[name].deterministic:
        word = Badge("deterministic", "muted")
    else:
        word = Badge("yes") if seeded else Badge("one seed: unknown", "muted")
    trained: tuple[Cell, ...] = (None, None)
    if pair is not None and pair.over_seeds:
        trained = (
            Estimate(pair.difference, pair.trained_ci_low, pair.trained_ci_high),
            pair.trained_p_corrected,
        )
    return (
        data.model_name(name),
        summary.n_replicates,
        summary.mean,
        *((summary.seed_sd, summary.seed_min, summary.seed_max) if seeded else (None, None, None)),
        None if pair is None else pair.seed_agreement,
        *(trained if over_seeds else ()),
        word,
    )
