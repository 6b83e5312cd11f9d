"""The spread of each method over training seeds."""

from collections.abc import Callable, Iterator, Sequence

from ltr_harness.comparison.contrasts import Contrast, components_of
from ltr_harness.report import formats
from ltr_harness.report.blocks import Badge, Block, Cell, Column, Estimate, Heading, Paragraph, Table
from ltr_harness.report.data import ReportData

OVER_SEEDS = "over seeds"

SeedColumns = dict[Column, Callable[[str], Cell]]


def section(data: ReportData) -> list[Block]:
    has_several_seeds = any(data.comparison.summary(name).n_replicates > 1 for name in data.models)
    if not has_several_seeds and not any(system.deterministic for system in data.comparison.systems):
        return []
    columns = _columns_of_means(data)
    over_seeds = [name for name in data.rivals if data.comparison.paired(name).includes_seeds]
    if over_seeds:
        columns |= _columns_of_trained_models(data, over_seeds)
    columns[Column("Seed matters")] = lambda name: _seed_matters(data, name)
    narrowing = [Paragraph(line) for line in _narrowing_sentences(data, over_seeds)]
    return [
        Heading("Robustness over seeds", finding=_finding(data)),
        Paragraph(
            "A verdict about methods holds for other queries and other trainings together: where a model was "
            "trained with several seeds, intervals, p-values and verdicts of differences allow for both. The spread "
            "over seeds is the effect of training randomness on these queries."
        ),
        *narrowing,
        Table.of("seeds", f"Means of {data.primary} over all queries, seed by seed.", data.models, columns),
    ]


def _finding(data: ReportData) -> str:
    """Return the model whose means differ most between seeds, and by how much."""
    spreads = {
        name: summary.seed_max - summary.seed_min
        for name in dict.fromkeys((*data.contenders, data.baseline))
        if (summary := data.comparison.summary(name)).n_replicates > 1
    }
    if not spreads:
        return "one training each"
    widest = max(spreads, key=spreads.__getitem__)
    return f"means differ by at most {formats.metric(spreads[widest])} ({widest})"


def _columns_of_means(data: ReportData) -> SeedColumns:
    """Return the columns of means, their spread over seeds, and how often the difference keeps its sign."""
    summaries = {name: data.comparison.summary(name) for name in data.models}

    def spread(field: str) -> Callable[[str], Cell]:
        return lambda name: getattr(summaries[name], field) if summaries[name].n_replicates > 1 else None

    def sign_agreement(name: str) -> Cell:
        pair = data.paired(name, data.primary)
        return None if pair is None else pair.seed_agreement

    mean_hint = "Mean over queries and seeds; its interval is in the first table."
    spread_hint = "Spread of the means when only the seed changes."
    agreement_hint = "Pairs of seeds whose difference has the sign of the whole."
    return {
        Column("Model"): data.model_name,
        Column("Seeds", "count"): lambda name: summaries[name].n_replicates,
        Column(data.primary, "metric", hint=mean_hint): data.mean,
        Column("sd", "metric", OVER_SEEDS, hint=spread_hint): spread("seed_sd"),
        Column("lowest", "metric", OVER_SEEDS): spread("seed_min"),
        Column("highest", "metric", OVER_SEEDS): spread("seed_max"),
        Column("Sign agrees", "percent", hint=agreement_hint): sign_agreement,
    }


def _columns_of_trained_models(data: ReportData, over_seeds: Sequence[str]) -> SeedColumns:
    """Return the differences of the trained models themselves, where the verdict allows for other seeds."""
    pairs = {name: data.comparison.paired(name) for name in over_seeds}

    def difference(name: str) -> Cell:
        if name not in pairs:
            return None
        pair = pairs[name]
        return Estimate(pair.difference, pair.trained_ci_low, pair.trained_ci_high)

    def p_value(name: str) -> Cell:
        return pairs[name].trained_p_corrected if name in pairs else None

    difference_hint = (
        "Effect of other queries on these trained models; this interval ignores training randomness."
    )
    return {
        Column("Difference [these trained models]", "difference", hint=difference_hint): difference,
        Column("p [these trained models]", "p", hint="Corrected as in the first table."): p_value,
    }


def _seed_matters(data: ReportData, name: str) -> Badge:
    if data.comparison.system(name).deterministic:
        return Badge("deterministic", "muted")
    if data.comparison.summary(name).n_replicates > 1:
        return Badge("yes")
    return Badge("one seed: unknown", "muted")


def _narrowing_sentences(data: ReportData, models: Sequence[str]) -> Iterator[str]:
    """Yield a sentence on how much more seeds and more queries would narrow the first model's interval."""
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
