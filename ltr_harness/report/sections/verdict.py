"""Which model, by how much, how sure?"""

from collections.abc import Callable

from ltr_harness.comparison.pairs import Paired
from ltr_harness.report import blocks
from ltr_harness.report.blocks import Block, Cell, Column, Estimate, Heading, Paragraph, Table
from ltr_harness.report.data import ReportData
from ltr_harness.stats.method import CORRECTIONS, Correction
from ltr_harness.wording import count_of

TONES: dict[str, blocks.Tone] = {
    "better": "good",
    "worse": "bad",
    "equivalent": "neutral",
    "not distinguishable": "neutral",
    "baseline": "muted",
}


def verdict_badge(verdict: str) -> blocks.Badge:
    return blocks.Badge(verdict, TONES[verdict])


def corrected_label(correction: Correction) -> str:
    """How the corrected p-value is headed."""
    return "joint p" if correction == "joint" else f"p ({CORRECTIONS[correction]})"


def p_column(data: ReportData) -> Column:
    return Column("p", "p", hint=f"{data.comparison.method.test_text}.")


def corrected_column(data: ReportData) -> Column:
    label = corrected_label(data.comparison.method.correction)
    return Column(label, "p", hint="Corrected for testing several models.")


def section(data: ReportData) -> list[Block]:
    shown: list[Block] = [Heading("Verdict"), Paragraph(data.comparison.verdict, "lead")]
    if data.failures:
        shown.append(Paragraph(failures_sentence(data), "warning"))
    shown += [fixed_k_table(data), Paragraph(queries_sentence(data), "note")]
    if data.comparison.notes:
        shown.append(blocks.Bullets(tuple(data.comparison.notes)))
    return shown


def fixed_k_table(data: ReportData) -> Table:
    """The one table that decides: every model at the primary metric and its K."""
    comparison, primary = data.comparison, data.primary
    label = data.confidence_label
    summaries = {name: data.summary(name, primary) for name in data.models}

    def mean(name: str) -> Cell:
        return Estimate(summaries[name].mean, summaries[name].ci_low, summaries[name].ci_high)

    def of_pair(cell: Callable[[Paired], Cell]) -> Callable[[str], Cell]:
        return lambda name: None if (pair := data.paired(name, primary)) is None else cell(pair)

    def verdict(name: str) -> Cell:
        pair = data.paired(name, primary)
        return verdict_badge("baseline" if pair is None else pair.verdict)

    columns: dict[Column, Callable[[str], Cell]] = {
        Column("Model"): data.model_name,
        Column(
            f"{primary} [{label} interval]", "metric", best=data.best(primary), hint="Mean over queries."
        ): mean,
    }
    # The caption says n for all; a column of its own only where models differ in it.
    if len({summary.n for summary in summaries.values()}) > 1:
        columns[Column("Queries", "count", hint="Queries with a value.")] = lambda name: summaries[name].n
    columns |= {
        Column(
            f"Difference [{label} interval]",
            "difference",
            hint=f"Mean of the paired per-query differences, model minus {data.baseline}.",
        ): of_pair(Estimate.of),
        p_column(data): of_pair(lambda pair: pair.p),
        corrected_column(data): of_pair(lambda pair: pair.p_corrected),
        Column("Verdict"): verdict,
    }
    notes: tuple[str, ...] = ()
    if comparison.families:
        several = any(comparison.paired(name, primary).over_seeds for name in data.rivals)
        together = " With several seeds, differences are judged over queries and seeds together."
        method = comparison.method.describe()
        notes = (
            f"{method[:1].upper()}{method[1:]}. Corrected together: {comparison.families[0]}."
            f"{together if several else ''}",
        )
    return Table.of(
        "fixed_k",
        (
            "Models at ",
            blocks.code(primary),
            f" over {count_of(data.n_defined, 'query')}; differences against {data.baseline}.",
        ),
        data.models,
        columns,
        notes=notes,
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


def failures_sentence(data: ReportData) -> str:
    models = sorted({record.model for record in data.failures})
    return (
        f"{count_of(len(data.failures), 'run')} failed ({', '.join(models)}); see Failures. Means cover what "
        "finished."
    )
