"""Which model, by how much, how sure?"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from ltr_harness._util.text import count_of, plural
from ltr_harness.comparison.comparison import Outcome
from ltr_harness.comparison.contrasts import Paired
from ltr_harness.comparison.headroom import headroom_lines
from ltr_harness.comparison.over_time import signs_sentence
from ltr_harness.comparison.slices import SliceResult
from ltr_harness.errors import labelled
from ltr_harness.metrics.core import judged_share
from ltr_harness.metrics.core.grammar import MetricName
from ltr_harness.report import blocks
from ltr_harness.report.blocks import Badge, Block, Cell, Column, Details, ModelName, Paragraph, Table, Tone
from ltr_harness.report.data import ReportData

TONES: dict[str, Tone] = {"better": "good", "worse": "bad", "baseline": "muted"}


def verdict_badge(verdict: str) -> Badge:
    return Badge(verdict, TONES.get(verdict, "neutral"))


def corrected(data: ReportData, metric: str | None = None) -> Column:
    """The column of p-values at a metric."""
    hint = "Corrected for testing several models, or metrics." if data.joint(metric) else ""
    return Column(data.p_label(metric), "p", hint=hint)


PILLS: dict[Outcome, Badge] = {
    "better": Badge("better", "good"),
    "worse": Badge("worse", "bad"),
    "equivalent": Badge("equivalent", "neutral"),
    "no clear winner": Badge("undecided", "neutral"),
    "one model": Badge("one model", "neutral"),
    "nothing to compare": Badge("no result", "neutral"),
}

FAR = 4
"""A model that lies this many times further out than the widest interval around 0 stands at the axis' edge."""


def section(data: ReportData) -> list[Block]:
    comparison = data.comparison
    outcome, text = comparison.headline
    shown: list[Block] = [blocks.Banner(PILLS[outcome], text)]
    if data.failures:
        shown.append(Paragraph(failures_sentence(data), "warning"))
    shown.append(fixed_k_table(data))
    shown += [Paragraph(line) for line in headroom_lines(comparison.headroom.values(), data.primary)]
    if comparison.judged:
        line = judged_share.in_words(MetricName.of(data.primary).k, comparison.judged)
        shown.append(Paragraph(f"{line[:1].upper()}{line[1:]}."))
    if signs := signs_sentence(comparison.fold_signs):
        shown.append(Paragraph(signs))
    if comparison.cautions:
        shown.append(blocks.Bullets(tuple(map(labelled, comparison.cautions))))
    inside = [Paragraph(comparison.verdict), Paragraph(queries_sentence(data))]
    method = f"{data.weighted}means with {data.confidence_label} intervals over queries".capitalize()
    if comparison.families:
        over = "queries and seeds" if data.over_seeds else "queries"
        together = " With several seeds, differences are judged over queries and seeds together."
        test = f"{comparison.method.test_text} over {over}{comparison.method.weights_text}"
        method = f"Method: {test}, {data.joint()}{data.confidence_label} intervals of differences"
        said = comparison.method.describe()
        said = f"{said[:1].upper()}{said[1:]}; {comparison.families[0]}."
        inside.append(Paragraph(said + together * data.over_seeds))
    return [*shown, Details(method, tuple(inside))]


def fixed_k_table(data: ReportData) -> Table:
    """The one table that decides: every model at the primary metric and its K, with its difference drawn."""
    primary, label = data.primary, data.confidence_label
    summaries = {name: data.comparison.summary(name, primary) for name in data.models}
    pairs = {name: data.comparison.paired(name, primary) for name in data.rivals}

    def verdict(name: str) -> Cell:
        return verdict_badge(pairs[name].verdict if name in pairs else "baseline")

    def mean(name: str) -> Cell:
        return blocks.Estimate(summaries[name].mean, summaries[name].ci_low, summaries[name].ci_high)

    def difference(name: str) -> Cell:
        pair = pairs.get(name)
        return None if pair is None else replace(blocks.Estimate.of(pair), mark=marked(pair.verdict))

    mean_of = f"{data.weighted}mean over queries, each interval by itself".capitalize()
    heading = f"{data.weighted}{primary} [{label} CI]"
    means = Column(heading, "metric", best=data.best(primary), hint=f"{mean_of}.")
    # the column of verdicts says which is the baseline
    columns: dict[Column, Callable[[str], Cell]] = {}
    columns[Column("Model")] = lambda name: ModelName(name, data.colours[name])
    if data.rivals:
        columns[Column("Verdict")] = verdict
    columns[means] = mean
    # The header says n for all; a column of its own only where models differ in it.
    if len({summary.n for summary in summaries.values()}) > 1:
        columns[Column("Queries", "count", hint="Queries with a value.")] = lambda name: summaries[name].n
    if data.rivals:
        hint = (
            f"Mean of the paired per-query differences, model minus {data.baseline}, with "
            f"{data.joint()}{label} intervals."
        )
        axis = near(list(pairs.values()))
        columns[Column(f"Difference [{data.interval_label()}]", "difference", hint=hint, axis=axis)] = (
            difference
        )
        columns[corrected(data)] = lambda name: pairs[name].p_corrected if name in pairs else None
    if headroom := data.comparison.headroom:
        ends = "0 is a random order of the candidates, 1 the best"
        hint = f"Share of what can be gained [{label} CI]: {ends}."
        columns[Column("Gained", "number", best="max", hint=hint)] = lambda name: (
            blocks.Estimate(one.share, one.ci_low, one.ci_high) if (one := headroom.get(name)) else None
        )
    caption = f"Models at {primary}" + (f", against {data.baseline}" if data.rivals else "")
    return Table.of("fixed_k", caption, data.models, columns)


def marked(verdict: str) -> blocks.Mark:
    """How a difference is coloured."""
    return "better" if verdict == "better" else "worse" if verdict == "worse" else ""


def near(pairs: Sequence[Paired | SliceResult]) -> tuple[float, float] | None:
    """An axis with 0 on it, on which a far-off model does not squeeze those whose sign is open."""
    undecided = [pair for pair in pairs if pair.ci_low <= 0 <= pair.ci_high]
    reach = max((max(-pair.ci_low, pair.ci_high) for pair in undecided), default=math.inf)
    shown = [pair for pair in pairs if abs(pair.difference) <= FAR * (reach or math.inf)]
    return blocks.axis_of(end for pair in shown for end in (pair.ci_low, pair.ci_high))


def near_models(data: ReportData) -> list[str]:
    """The rivals that a chart of differences can show beside each other, best first."""
    low, high = near([data.comparison.paired(name) for name in data.rivals]) or (-math.inf, math.inf)
    return [name for name in data.rivals if low <= data.comparison.paired(name).difference <= high]


def queries_sentence(data: ReportData) -> str:
    """Counts travel with means."""
    undefined, n, metric = data.n_undefined, data.comparison.n_queries, data.primary
    said, weightless = _undefined_sentence(undefined, n, data.n_empty, metric), data.n_weightless
    return (
        f"{said} {count_of(weightless, 'query')} {plural('has', weightless)} weight 0."
        if weightless
        else said
    )


def _undefined_sentence(undefined: int, n: int, empty: int | None, metric: str) -> str:
    """For how many of n queries a metric is undefined, and how many have no relevant document, where that is known."""
    if not undefined and not empty:
        return f"Every one of the {count_of(n, 'query')} has a value of {metric}."
    if empty is None:
        return f"{metric} is undefined for {undefined:,} of {count_of(n, 'query')}, left out of its mean."
    without = f"Queries without relevant documents: {empty:,} of {n:,}. {metric}"
    if undefined and empty == undefined:
        return f"{without} is undefined there; they are left out of its mean."
    if undefined:
        return f"{without} is undefined for {count_of(undefined, 'query')}, left out of its mean."
    return f"{without} has a value there; they are counted in its mean."


def failures_sentence(data: ReportData) -> str:
    models = sorted({record.model for record in data.failures})
    return (
        f"{count_of(len(data.failures), 'run')} failed ({', '.join(models)}); see Failures. Means cover "
        "the finished runs."
    )
