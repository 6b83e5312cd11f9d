"""Pages beside the report: a plan of queries, several data sets, and the card of data."""

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ltr_harness._util.files import write_whole
from ltr_harness._util.json_values import json_text
from ltr_harness._util.tables import text_table
from ltr_harness._util.text import count_of, named, plural
from ltr_harness.comparison.caution_choice import TWO_SEEDS, choose_cautions
from ltr_harness.comparison.comparison import Outcome
from ltr_harness.comparison.data_sets import AcrossDataSets, AcrossModel
from ltr_harness.comparison.power import ModelPlan, PowerPlan
from ltr_harness.errors import Caution, merge_by_cause
from ltr_harness.experiments.inspection import DataCard, FeatureFacts, SplitCard
from ltr_harness.experiments.inspection.agreement import agreement_lines
from ltr_harness.experiments.inspection.candidates import recall_lines
from ltr_harness.experiments.inspection.lints import cautions_beside_lints
from ltr_harness.report import blocks, charts, html, markdown
from ltr_harness.report.blocks import (
    Block,
    Cell,
    Column,
    Heading,
    Paragraph,
    Report,
    Section,
    Table,
    caution_blocks,
)
from ltr_harness.report.sections.data import agreement_blocks, recall_tables
from ltr_harness.report.sections.verdict import PILLS, near_axis, verdict_badge, verdict_mark

_COUNTS = {2: "two", 3: "three", 4: "four", 5: "five", 6: "six", 7: "seven", 8: "eight", 9: "nine"}
N_CURVES = 5  # models whose curves are shown; all are in the JSON


def power_page(power_plan: PowerPlan) -> Report:
    """Return the answer, and the curve of the detectable difference, with everything in the JSON."""
    plans = power_plan.plans[:N_CURVES]
    tables = tuple(
        _curve_table(power_plan, plan, f"power_curve_{number + 1}") for number, plan in enumerate(plans)
    )
    sentences = tuple(power_plan.said(plan, need) for plan in power_plan.plans for need in plan.needs)
    answer: tuple[Block, ...] = (
        _power_verdict(power_plan),
        Paragraph(f"{power_plan.about}: to find a difference of {power_plan.difference:+g}."),
        *_left_out(power_plan),
        _needs_table(power_plan),
        blocks.Bullets(sentences),
        *caution_blocks(choose_cautions(power_plan.cautions)),
    )
    curve: tuple[Block, ...] = (
        Heading(f"Detectable difference over {power_plan.drawn()}"),
        _curve_chart(power_plan, plans),
        blocks.Details("The same in numbers", tables),
    )
    sections = (Section("verdict", answer), Section("curve", curve))
    return Report(
        "Power", (f"difference {power_plan.difference:+g}",), sections, lambda: json_text(power_plan)
    )


def _left_out(power_plan: PowerPlan) -> list[Block]:
    """Return a line with the models that no plan is needed for."""
    names = power_plan.left_out
    if not names:
        return []
    verb = "differs" if len(names) == 1 else "differ"
    return [Paragraph(f"Left out: {', '.join(names)}, which already {verb}.")]


def _needs_table(power_plan: PowerPlan) -> Table:
    """Return for each model what the queries at hand can show, and how many would be needed, by probability."""
    powers = [f"{need.power:.0%}" for need in power_plan.plans[0].needs]
    columns = [Column("model"), Column("sd", "metric"), Column("you have", "count")]
    columns += [Column(f"these show, {power}", "metric") for power in powers]
    columns += [Column(f"needed, {power}", "count") for power in powers]
    rows: list[tuple[Cell, ...]] = []
    for plan in power_plan.plans:
        detectable = [need.detectable for need in plan.needs]
        draws = [need.draws for need in plan.needs]
        rows.append((plan.model, plan.sd, plan.n, *detectable, *draws))
    return Table(
        "power",
        "Standard deviation of the differences; by probability, the difference that the "
        f"{power_plan.drawn()} at hand show, and how many find {power_plan.difference:+g}.",
        tuple(columns),
        tuple(rows),
    )


def _curve_table(power_plan: PowerPlan, plan: ModelPlan, name: str) -> Table:
    caption = f"{plan.model}: the smallest difference that so many {power_plan.drawn()} show, by probability."
    powers = (Column(f"{need.power:.0%}", "metric") for need in power_plan.plans[0].needs)
    rows = tuple((point.n, *point.detectable) for point in plan.curve)
    return Table(name, caption, (Column(power_plan.drawn(), "count"), *powers), rows, sortable=False)


def _power_verdict(power_plan: PowerPlan) -> blocks.Banner:
    """Return the numbers of draws that the contenders need at the first power, and whether they are at hand."""
    needs = {plan.model: plan.needs[0] for plan in power_plan.plans}
    draws = sorted(need.draws for need in needs.values() if need.draws is not None)
    effect = f"a difference of {power_plan.difference:+g} with {power_plan.plans[0].needs[0].power:.0%} probability"
    if not draws:
        text = f"No number of {power_plan.drawn()} finds {effect}"
        return blocks.Banner(blocks.Badge("not found", "bad"), text)
    least, most = draws[0], draws[-1]
    numbers = power_plan.drawn(most)
    if least < most:
        numbers = f"{least:,} to {numbers}"
    at_hand = sorted({plan.n for plan in power_plan.plans if plan.n is not None})
    if not at_hand:
        verb = "finds" if most == 1 else "find"
        return blocks.Banner(blocks.Badge("plan", "neutral"), f"{numbers} {verb} {effect}")
    fewest, largest = at_hand[0], at_hand[-1]
    n_at_hand = f"{fewest:,}" if fewest == largest else f"{fewest:,} to {largest:,}"
    unreachable = [model for model, need in needs.items() if need.draws is None]
    text = f"{numbers} for {_contenders_in_words(list(needs), unreachable)} (you have {n_at_hand})"
    if unreachable:
        text += f"; no number is enough for {', '.join(unreachable)}"
    is_enough = fewest >= most and not unreachable
    status = blocks.Badge("enough", "good") if is_enough else blocks.Badge("too few", "bad")
    return blocks.Banner(status, text)


def _contenders_in_words(models: Sequence[str], unreachable: Collection[str]) -> str:
    """Return the models for which some number of draws is enough: by name, or by their number where all are such."""
    if unreachable:
        return ", ".join(model for model in models if model not in unreachable)
    if len(models) == 1:
        return models[0]
    return f"the {_COUNTS.get(len(models), str(len(models)))} contenders"


def _curve_chart(power_plan: PowerPlan, plans: Sequence[ModelPlan]) -> blocks.Chart:
    rows: list[dict[str, Any]] = [
        {"model": plan.model, "power": f"{need.power:.0%}", "n": point.n, "detectable": round(smallest, 8)}
        for plan in plans
        for point in plan.curve
        for need, smallest in zip(plan.needs, point.detectable, strict=True)
    ]
    x = charts.quantitative("n", title="n", scale={"type": "log"}, axis={"tickCount": 4})
    y = charts.quantitative("detectable", title=None, scale={"type": "log"})
    colour, tooltips = charts.by_colour("power", len(plans[0].needs)), charts.tooltip("n", "detectable")
    line = {"type": "line", "strokeWidth": 1.75, "point": True}
    layers = [
        charts.layer(line, x=x, y=y, color=colour, tooltip=tooltips),
        charts.layer(charts.DASHED, y={"datum": abs(power_plan.difference)}),
    ]
    words = (
        f"{plan.model}: {', '.join(f'{point.detectable[0]:.4f} at {point.n:,}' for point in plan.curve)}."
        for plan in plans
    )
    return blocks.Chart(
        "power",
        f"The smallest difference that n {power_plan.drawn()} show; the dashed line is the one asked for",
        charts.small_multiples([plan.model for plan in plans], rows, {"layer": layers}),
        " ".join(words),
    )


def data_sets_page(summary: AcrossDataSets) -> Report:
    """Return the page of several data sets, with everything in its JSON."""
    baseline_first = [
        summary.baseline,
        *(row.model for row in summary.models if row.model != summary.baseline),
    ]
    colours = {name: number for number, name in enumerate(baseline_first)}
    seeds_cautions = [caution for caution in summary.cautions if caution.kind == TWO_SEEDS]
    content: list[Block] = [_data_sets_banner(summary)]
    content += [Paragraph(f"{text}.", "note") for text in dict.fromkeys(map(str, seeds_cautions))]
    *sentences, possibly_best = summary.lines()
    content += [_average_table(summary, colours), Paragraph(possibly_best)]
    content += caution_blocks(choose_cautions(summary.cautions, summary.losers))
    in_words = (
        blocks.Bullets(tuple(sentences)),
        Paragraph(f"{summary.metric} against {summary.baseline}: {summary.method}."),
    )
    content.append(
        blocks.TwoForms((blocks.Details("Each model in words, and the method", in_words),), in_words)
    )
    facts = (
        (blocks.code(summary.metric),),
        count_of(len(summary.data_sets), "data set"),
        count_of(len(summary.models), "model"),
        f"baseline {summary.baseline}",
    )
    n_same_sign = [row.same_sign for row in summary.models if row.average is not None]
    finding = (
        f"the sign is the same on at least {min(n_same_sign)} of {len(summary.data_sets)}"
        if n_same_sign
        else ""
    )
    each = (Heading("On each data set", finding=finding), _table_of_each_set(summary, colours))
    sections = (Section("verdict", tuple(content)), Section("sets", each))
    return Report(", ".join(summary.data_sets), facts, sections, lambda: json_text(summary))


def _data_sets_banner(summary: AcrossDataSets) -> blocks.Banner:
    """Return the answer about the best model that is better on average, else about the one closest to it."""
    names = [row.model for row in summary.models]
    rivals = [(row.model, row.average) for row in summary.models if row.average is not None]
    over_sets = f"on average over {count_of(len(summary.data_sets), 'data set')}"
    if not rivals:
        return blocks.Banner(
            PILLS["one model"], f"{names[0]}: {summary.metric} {summary.models[0].mean:.4f} {over_sets}"
        )
    order = ("better", "not distinguishable", "worse")  # a margin, and so equivalence, is for one data set
    model, average = min(rivals, key=lambda rival: order.index(rival[1].verdict))
    low, high = average.ci_low, average.ci_high
    if average.difference < 0:
        low, high = -high, -low
    by = f"by {abs(average.difference):.4f} ({low:+.4f} to {high:+.4f}) {over_sets}"
    outcome: Outcome = "no clear winner"
    first, second = sorted((model, summary.baseline), key=names.index)
    text = f"No clear winner: {first} leads {second} {by}"
    if average.verdict in ("better", "worse"):
        outcome, text = average.verdict, f"{model} is {average.verdict} than {summary.baseline} {by}"
    return blocks.Banner(PILLS[outcome], text)


def _average_table(summary: AcrossDataSets, colours: Mapping[str, int]) -> Table:
    """Return the main table: the average over the data sets, with its difference drawn."""
    averages = [row.average for row in summary.models if row.average is not None]
    axis = near_axis(averages)
    joint = "joint " if len(averages) > 1 else ""

    def verdict(row: AcrossModel) -> Cell:
        return verdict_badge("baseline" if row.average is None else row.average.verdict)

    def difference(row: AcrossModel) -> Cell:
        if row.average is None:
            return None
        return replace(blocks.Estimate.of(row.average), mark=verdict_mark(row.average.verdict))

    def rank(row: AcrossModel) -> Cell:
        return (
            f"{row.first_rank}" if row.last_rank == row.first_rank else f"{row.first_rank} to {row.last_rank}"
        )

    weights = ", ".join(
        f"{name} {weight:.0%} ({n:,} queries)"
        for name, weight, n in zip(summary.data_sets, summary.weights, summary.n_queries, strict=True)
    )
    rank_hint = "The ranks that a model may have by the average, for all models at once."
    return Table.of(
        "data_sets",
        f"Weighted average of {summary.metric} over the data sets ({weights}), against {summary.baseline}.",
        summary.models,
        {
            Column("Model"): lambda row: blocks.ModelName(row.model, colours[row.model]),
            Column("Verdict"): verdict,
            Column(f"Average {summary.metric}", "metric"): lambda row: row.mean,
            Column(f"Difference [{joint}interval]", "difference", axis=axis): difference,
            Column(f"{joint}p", "p"): lambda row: None if row.average is None else row.average.p_corrected,
            Column("Rank", "tally", hint=rank_hint): rank,
        },
    )


def _table_of_each_set(summary: AcrossDataSets, colours: Mapping[str, int]) -> Table:
    columns = [Column("Model")]
    for name in summary.data_sets:
        columns += [Column(name, "metric"), Column(f"{name}, difference", "difference")]
    rows: list[tuple[Cell, ...]] = []
    for row in summary.models:
        cells: list[Cell] = [blocks.ModelName(row.model, colours[row.model])]
        for place, mean in enumerate(row.means):
            difference: Cell = None
            if row.by_data_set:
                part = row.by_data_set[place]
                difference = replace(blocks.Estimate.of(part), mark=verdict_mark(part.verdict))
            cells += [mean, difference]
        rows.append(tuple(cells))
    caption = (
        f"Mean {summary.metric} on each data set, and its difference from {summary.baseline}, corrected over models "
        "and data sets together."
    )
    return Table("data_sets_each", caption, tuple(columns), tuple(rows))


def card_page(card: DataCard, cautions: Sequence[Caution], title: str) -> Report:
    """Return the page of a data card, its cautions first."""

    def severity(caution: Caution) -> Cell:
        return blocks.Badge(caution.severity, "neutral" if caution.severity == "note" else "bad")

    table = Table.of(
        "cautions",
        "Cautions to read before trusting results from this data.",
        cautions,
        {
            Column("Severity"): severity,
            Column("Where"): lambda caution: caution.place,
            Column("Found"): lambda caution: caution.text,
            Column("What to do"): lambda caution: caution.cure,
        },
    )
    judgments = [
        *recall_tables({split.name: split.candidates for split in card.splits}),
        *agreement_blocks({split.name: split.agreement for split in card.splits}),
    ]
    verdict: list[Block] = [_card_banner(cautions)]
    if cautions:
        verdict.append(table)
    sections = [
        Section("verdict", tuple(verdict)),
        Section("splits", (Heading("Splits"), _split_table(card), _grade_table(card), *judgments)),
    ]
    if card.overlaps:
        sections.append(Section("overlaps", _overlap_blocks(card), DETAIL))
    sections.append(Section("features", (Heading("Features"), *map(_feature_table, card.splits)), DETAIL))
    return Report(title, (), tuple(sections))


DETAIL = blocks.SectionGroup("Detail", "What do the splits share, and what is each feature?")


def _card_banner(cautions: Sequence[Caution]) -> blocks.Banner:
    if not cautions:
        return blocks.Banner(blocks.Badge("no cautions", "good"), "Nothing suspicious found", "Cautions")
    counts = Counter(caution.severity for caution in cautions)
    n_by_severity = {severity: n for severity in ("error", "warning", "note") if (n := counts[severity])}
    kinds = [count_of(n, severity) for severity, n in n_by_severity.items()]
    places = dict.fromkeys(caution.place for caution in cautions)
    places_text = ", ".join(places) if len(places) <= 3 else count_of(len(places), "place")
    worst, n = next(iter(n_by_severity.items()))
    status = blocks.Badge(plural(worst, n), "neutral" if worst == "note" else "bad")
    return blocks.Banner(status, f"{' and '.join(kinds)} in {places_text}", "Cautions")


def write_card(page: Report, folder: Path) -> list[Path]:
    """Write ``data_card.html`` and ``data_card.md``."""
    files = {folder / "data_card.html": html.render(page), folder / "data_card.md": markdown.render(page)}
    for path, text in files.items():
        write_whole(path, text)
    return [*files]


def card_text(card: DataCard, cautions: Sequence[Caution]) -> str:
    """Return the card for a terminal, without the features; its first line counts the cautions."""
    cautions = merge_by_cause(cautions)
    headings = ["split", "queries", "rows", "features", "rows per query", "no relevant", "grades"]
    rows = [_card_row(split) for split in card.splits]
    lines = [f"{_card_banner(cautions).text}.", "", *text_table(headings, rows, left=[0, 4, 6])]
    lines += dict.fromkeys(named("feature", split.feature_names) for split in card.splits)
    for split in card.splits:
        lines += [f"{split.name}: {line}" for line in _split_lines(split)]
    if cautions:
        lines.append("")
        lines += [f"{caution.severity}: {caution}" for caution in cautions]
    return "\n".join(lines) + "\n"


def _card_row(split: SplitCard) -> list[str]:
    low, _, median, _, _, high = split.sizes
    sizes = f"{low:,.0f} / {median:,.0f} / {high:,.0f}"
    grades = " ".join(f"{grade:g}:{n / split.n_rows:.0%}" for grade, n in list(split.grades.items())[:8])
    if len(split.grades) > 8:
        grades += " …"
    counts = [f"{count:,}" for count in (split.n_queries, split.n_rows, split.n_features)]
    return [split.name, *counts, sizes, f"{split.n_without_relevant:,}", grades]


def _split_lines(split: SplitCard) -> Iterator[str]:
    """Yield the best single features of a split, then lines on its judgments and on its reading."""
    defined_features = [feature for feature in split.features if not math.isnan(feature.ndcg)]
    if best := sorted(defined_features, key=lambda feature: -feature.ndcg)[:3]:
        features = ", ".join(f"{feature.name} {feature.ndcg:.4f}" for feature in best)
        yield (
            f"best single features by NDCG@10: {features} (random order {split.random_ndcg:.4f}; "
            f"{count_of(split.n_sampled, 'query')})"
        )
    yield from recall_lines(split.candidates)
    yield from agreement_lines(split.agreement)
    for caution in cautions_beside_lints(split.dataset.cautions):
        if caution.severity == "note":
            yield f"note: {caution}"


def _split_table(card: DataCard) -> Table:
    repeated = Column("Repeated rows", "count", hint="an earlier row of the split has the same features")
    ties = Column("Forced ties", "count", hint="same query, same features, another label")
    return Table.of(
        "splits",
        "A query is the rows that are ranked against each other.",
        card.splits,
        {
            Column("Split"): lambda split: split.name,
            Column("Queries", "count"): lambda split: split.n_queries,
            Column("Rows", "count"): lambda split: split.n_rows,
            Column("Features", "count"): lambda split: split.n_features,
            Column("Rows per query: min", "count"): lambda split: split.sizes[0],
            Column("median", "number"): lambda split: split.sizes[2],
            Column("90 %", "number"): lambda split: split.sizes[4],
            Column("max", "count"): lambda split: split.sizes[5],
            Column("Queries without relevant document", "count"): lambda split: split.n_without_relevant,
            Column("with one grade", "count"): lambda split: split.n_one_grade,
            Column("with one row", "count"): lambda split: split.n_single,
            repeated: lambda split: split.n_repeated_rows,
            ties: lambda split: split.n_forced_ties,
            Column("NDCG@10 of random order", "metric"): lambda split: split.random_ndcg,
        },
        footnotes=tuple(
            f"{split.name}: {text}"
            for split in card.splits
            for text in (split.dataset.source, *map(str, cautions_beside_lints(split.dataset.cautions)))
            if text
        ),
    )


def _grade_table(card: DataCard) -> Table:
    grades = sorted({grade for split in card.splits for grade in split.grades})
    listed_grades = grades if len(grades) <= 12 else [*grades[:6], *grades[-6:]]
    columns = [Column("Grade")]
    rows: list[list[Cell]] = [[f"{grade:g}"] for grade in listed_grades]
    for split in card.splits:
        columns += [Column(f"Rows of {split.name}", "count"), Column("Share", "percent")]
        for grade, row in zip(listed_grades, rows, strict=True):
            n = split.grades.get(grade, 0)
            row += [n, n / split.n_rows]
    caption = "Rows by grade."
    if listed_grades != grades:
        caption += f" The lowest and highest of {count_of(len(grades), 'grade')}."
    return Table("grades", caption, tuple(columns), tuple(map(tuple, rows)))


def _overlap_blocks(card: DataCard) -> tuple[Block, ...]:
    table = Table.of(
        "overlaps",
        "Overlap of two splits.",
        card.overlaps,
        {
            Column("First"): lambda overlap: overlap.first,
            Column("Second"): lambda overlap: overlap.second,
            Column("Queries in both", "count"): lambda overlap: overlap.n_queries,
            Column("of these with identical rows", "count"): lambda overlap: overlap.n_same_content,
            Column("Rows of the second whose features the first has", "count"): lambda overlap: (
                overlap.n_rows
            ),
        },
    )
    shared = sum(bool(overlap.n_queries or overlap.n_rows) for overlap in card.overlaps)
    finding = f"{shared} of {count_of(len(card.overlaps), 'pair')} share queries or rows"
    return Heading(
        "Overlap", finding=finding, matters=any(overlap.n_queries for overlap in card.overlaps)
    ), table


def _feature_table(split: SplitCard) -> Table:
    def remark(feature: FeatureFacts) -> str:
        if feature.constant:
            return "constant"
        return f"same as {feature.duplicate_of}" if feature.duplicate_of else ""

    return Table.of(
        f"features-{split.name}".replace(" ", "-"),
        f"Features of {split.name}. NDCG@10: of ranking by the feature alone, in the better direction, over "
        f"{count_of(split.n_sampled, 'query')} with relevant documents; random order gives {split.random_ndcg:.4f}.",
        split.features,
        {
            Column("Feature", "code"): lambda feature: feature.name,
            Column("NDCG@10", "metric"): lambda feature: feature.ndcg,
            Column("Order"): lambda feature: "descending" if feature.descending else "ascending",
            Column("Lowest", "number"): lambda feature: feature.low,
            Column("Mean", "number"): lambda feature: feature.mean,
            Column("Highest", "number"): lambda feature: feature.high,
            Column("Missing", "percent"): lambda feature: feature.n_missing / split.n_rows,
            Column("Zero", "percent"): lambda feature: feature.n_zero / split.n_rows,
            Column("Remarks"): remark,
        },
    )
