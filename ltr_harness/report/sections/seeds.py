"""Would it hold for another seed?"""

from collections.abc import Callable, Iterator, Sequence

from ltr_harness.comparison.contrasts import Contrast, components_of
from ltr_harness.report.blocks import Badge, Block, Cell, Column, Estimate, Heading, Paragraph, Table
from ltr_harness.report.data import ReportData

OVER = "over seeds"


def section(data: ReportData) -> list[Block]:
    summaries = {name: data.comparison.summary(name) for name in data.models}
    seeded = {name for name, summary in summaries.items() if summary.n_replicates > 1}
    if not seeded and not any(system.deterministic for system in data.comparison.systems):
        return []

    def spread(which: str) -> Callable[[str], Cell]:
        return lambda name: getattr(summaries[name], which) if name in seeded else None

    def matters(name: str) -> Badge:
        if data.comparison.system(name).deterministic:
            return Badge("deterministic", "muted")
        return Badge("yes") if name in seeded else Badge("one seed: unknown", "muted")

    pairs = {name: data.comparison.paired(name) for name in data.rivals}
    changed = "Spread of the means when only the seed changes."
    mean = "Mean over queries and seeds; its interval is in the first table."
    agree = "Pairs of seeds whose difference has the sign of the whole."
    columns: dict[Column, Callable[[str], Cell]] = {
        Column("Model"): data.model_name,
        Column("Seeds", "count"): lambda name: summaries[name].n_replicates,
        Column(data.primary, "metric", hint=mean): data.mean,
        Column("sd", "metric", OVER, hint=changed): spread("seed_sd"),
        Column("lowest", "metric", OVER): spread("seed_min"),
        Column("highest", "metric", OVER): spread("seed_max"),
        Column("Sign agrees", "percent", hint=agree): lambda name: (
            pairs[name].seed_agreement if name in pairs else None
        ),
    }
    trained = {name: pair for name, pair in pairs.items() if pair.includes_seeds}
    if trained:

        def difference(name: str) -> Cell:
            if (pair := trained.get(name)) is None:
                return None
            return Estimate(pair.difference, pair.trained_ci_low, pair.trained_ci_high)

        queries = "Effect of other queries on these trained models; this interval ignores training randomness"
        columns |= {
            Column("Difference [these trained models]", "difference", hint=f"{queries}."): difference,
            Column("p [these trained models]", "p", hint="Corrected as in the first table."): lambda name: (
                trained[name].trained_p_corrected if name in trained else None
            ),
        }
    columns[Column("Seed matters")] = matters
    narrower = [Paragraph(line) for line in _what_would_narrow(data, list(trained))]
    return [
        Heading("Robustness over seeds"),
        Paragraph(
            "A verdict about methods holds for other queries and other trainings together: where a model was "
            "trained with several seeds, intervals, p-values and verdicts of differences allow for both. The spread "
            "over seeds is the effect of training randomness on these queries."
        ),
        *narrower,
        Table.of("seeds", f"Means of {data.primary} over all queries, seed by seed.", data.models, columns),
    ]


def _what_would_narrow(data: ReportData, models: Sequence[str]) -> Iterator[str]:
    """Return which of more seeds and more queries would narrow the first model's interval, and by how much."""
    comparison = data.comparison
    for model in models[:1]:
        sides = comparison.system(model), comparison.system(comparison.baseline)
        components = components_of(Contrast(*sides, data.primary), comparison.sampling)
        if components is not None:
            by_seeds, by_queries = components.narrowing
            yield (
                f"What would make {model} against {comparison.baseline} surer: any number of further seeds narrows the "
                f"interval by at most {by_seeds:.0%}, any number of further queries by at most {by_queries:.0%}."
            )
