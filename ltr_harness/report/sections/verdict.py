"""Which model, by how much, how sure?"""

from __future__ import annotations

from ltr_harness.report.blocks import (
    Badge,
    Best,
    Block,
    Bullets,
    Cell,
    Column,
    Estimate,
    Heading,
    Paragraph,
    Table,
    Text,
    Tone,
    code,
)
from ltr_harness.report.data import ReportData
from ltr_harness.stats.method import CORRECTIONS, Correction
from ltr_harness.wording import count_of

TONES: dict[str, Tone] = {
    "better": "good",
    "worse": "bad",
    "equivalent": "neutral",
    "not distinguishable": "neutral",
    "baseline": "muted",
}


def corrected_label(correction: Correction) -> str:
    """How the corrected p-value is headed."""
    return "joint p" if correction == "joint" else f"p ({CORRECTIONS[correction]})"


def section(data: ReportData) -> list[Block]:
    blocks: list[Block] = [Heading("Verdict"), Paragraph(data.comparison.verdict, "lead")]
    if data.failures:
        blocks.append(Paragraph(failures_sentence(data), "warning"))
    blocks.append(fixed_k_table(data))
    blocks.append(Paragraph(queries_sentence(data), "note"))
    if data.comparison.notes:
        blocks.append(Bullets(tuple(data.comparison.notes)))
    return blocks


def fixed_k_table(data: ReportData) -> Table:
    """The one table that decides: every model at the primary metric and its K."""
    comparison, primary = data.comparison, data.primary
    label = data.confidence_label
    best: Best = "max" if data.higher_is_better(primary) else "min"
    # The caption says n for all; a column of its own only where models differ in it.
    counted = len({data.summary(name, primary).n for name in data.models}) > 1
    columns = (
        Column("Model"),
        Column(f"{primary} [{label} interval]", "metric", best=best, hint="Mean over queries."),
        *((Column("Queries", "count", hint="Queries with a value."),) if counted else ()),
        Column(
            f"Difference [{label} interval]",
            "difference",
            hint=f"Mean of the paired per-query differences, model minus {data.baseline}.",
        ),
        Column("p", "p", hint=f"{comparison.method.test_text}."),
        Column(corrected_label(comparison.correction), "p", hint="Corrected for testing several models."),
        Column("Verdict"),
    )
    return Table(
        name="fixed_k",
        caption=(
            "Models at ",
            code(primary),
            f" over {count_of(data.n_defined, 'query')}; differences against {data.baseline}.",
        ),
        columns=columns,
        rows=tuple(_row(data, name, counted) for name in data.models),
        notes=(
            f"{sentence(comparison.method.describe())} Corrected together: {comparison.families[0]}."
            f"{_over_seeds(data)}",
        )
        if comparison.families
        else (),
    )


def _over_seeds(data: ReportData) -> str:
    several = any(data.comparison.paired(name, data.primary).over_seeds for name in data.rivals)
    return " With several seeds, differences are judged over queries and seeds together." if several else ""


def _row(data: ReportData, name: str, counted: bool) -> tuple[Cell, ...]:
    summary = data.summary(name, data.primary)
    pair = data.paired(name, data.primary)
    head: tuple[Cell, ...] = (
        data.model_name(name),
        Estimate(summary.mean, summary.ci_low, summary.ci_high),
        *((summary.n,) if counted else ()),
    )
    if pair is None:
        word = "baseline" if name == data.baseline else "not compared"
        return (*head, None, None, None, Badge(word, "muted"))
    return (
        *head,
        Estimate(pair.difference, pair.ci_low, pair.ci_high),
        pair.p,
        pair.p_corrected,
        Badge(pair.verdict, TONES[pair.verdict]),
    )


def queries_sentence(data: ReportData) -> str:
    """Counts travel with means."""
    empty, undefined = data.n_empty, data.n_undefined
    without = f"Queries without relevant documents: {empty or 0:,} of {data.n_queries:,}."
    if undefined and empty in (None, undefined):
        without = f"Queries without relevant documents: {undefined:,} of {data.n_queries:,}."
        return f"{without} {data.primary} is undefined there; they are left out of its mean."
    if undefined:
        return (
            f"{without} {data.primary} is undefined for {count_of(undefined, 'query')}, left out of its mean."
        )
    if empty:
        return f"{without} {data.primary} has a value there; they are counted in its mean."
    return f"Every one of the {count_of(data.n_queries, 'query')} has a value of {data.primary}."


def sentence(text: str) -> str:
    """A phrase as a sentence of its own."""
    return f"{text[:1].upper()}{text[1:]}."


def failures_sentence(data: ReportData) -> Text:
    models = sorted({record.model for record in data.failures})
    return (
        f"{count_of(len(data.failures), 'run')} failed ({', '.join(models)}); see Failures. Means cover what "
        "finished."
    )
