"""Pages beside the report: what a plan of queries takes, several data sets, and what is in data."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ltr_harness._util.files import write_whole
from ltr_harness._util.text import count_of, json_text, named, plural, text_table
from ltr_harness.comparison.data_sets import AcrossDataSets, AcrossModel
from ltr_harness.comparison.power import ModelPlan, PowerPlan
from ltr_harness.errors import Caution
from ltr_harness.experiments.inspection import DataCard, FeatureFacts, SplitCard
from ltr_harness.experiments.inspection.agreement import agreement_lines
from ltr_harness.experiments.inspection.candidates import recall_lines
from ltr_harness.experiments.inspection.lints import cautions_beside_lints, merge_by_cause
from ltr_harness.report import blocks, charts, html, markdown
from ltr_harness.report.blocks import Block, Cell, Column, Heading, Paragraph, Report, Section, Table
from ltr_harness.report.sections.data import agreement_blocks, recall_tables

SHOWN = 5  # models whose curves are shown; all are in the JSON


def power_page(planned: PowerPlan) -> Report:
    """Return the answer, and the curve of the detectable difference, with everything in the JSON."""
    plans = planned.plans[:SHOWN]
    tables = tuple(_curve_table(planned, plan, f"power_curve_{at + 1}") for at, plan in enumerate(plans))
    sentences = tuple(planned.said(plan, need) for plan in planned.plans for need in plan.needs)
    answer: tuple[Block, ...] = (
        _power_banner(planned),
        Paragraph(f"{planned.about}: to find a difference of {planned.difference:+g}."),
        _needs_table(planned),
        blocks.Bullets(sentences),
        *(Paragraph(str(caution), "note") for caution in planned.cautions),
    )
    curve: tuple[Block, ...] = (
        Heading(f"Detectable difference over {planned.drawn()}"),
        _chart(planned, plans),
        blocks.Details("The same in numbers", tables),
    )
    sections = (Section("verdict", answer), Section("curve", curve))
    return Report("Power", (f"difference {planned.difference:+g}",), sections, lambda: json_text(planned))


def _needs_table(planned: PowerPlan) -> Table:
    """Return for each model what the queries at hand can show, and how many would be needed, by probability."""
    powers = [f"{need.power:.0%}" for need in planned.plans[0].needs]
    columns = [Column("model"), Column("sd", "metric"), Column("at hand", "count")]
    columns += [Column(f"{power} detect", "metric") for power in powers]
    columns += [Column(f"{power} need", "count") for power in powers]
    rows: list[tuple[Cell, ...]] = []
    for plan in planned.plans:
        detectable = [need.detectable for need in plan.needs]
        draws = [need.draws for need in plan.needs]
        rows.append((plan.model, plan.sd, plan.n, *detectable, *draws))
    return Table(
        "power",
        "Standard deviation of the differences; by probability, the difference that the "
        f"{planned.drawn()} at hand show, and how many find {planned.difference:+g}.",
        tuple(columns),
        tuple(rows),
    )


def _curve_table(planned: PowerPlan, plan: ModelPlan, name: str) -> Table:
    caption = f"{plan.model}: the smallest difference that so many {planned.drawn()} show, by probability."
    powers = (Column(f"{need.power:.0%}", "metric") for need in planned.plans[0].needs)
    rows = tuple((point.n, *point.detectable) for point in plan.curve)
    return Table(name, caption, (Column(planned.drawn(), "count"), *powers), rows, sortable=False)


def _power_banner(planned: PowerPlan) -> blocks.Banner:
    """What the model that needs most needs, for the first of the powers; and whether that is at hand."""
    needs = [(plan, plan.needs[0]) for plan in planned.plans]
    plan, need = max(needs, key=lambda one: one[1].draws or math.inf)
    wanted = f"a difference of {planned.difference:+g} with {need.power:.0%} probability"
    if need.draws is None:
        found = f"No number of {planned.drawn()} finds {wanted}"
        return blocks.Banner(blocks.Badge("not found", "bad"), found)
    finds = "finds" if need.draws == 1 else "find"
    text = f"{planned.drawn(need.draws)} {finds} {wanted}"
    if plan.n is None:
        return blocks.Banner(blocks.Badge("plan", "neutral"), text)
    status = blocks.Badge("enough", "good") if plan.n >= need.draws else blocks.Badge("too few", "bad")
    return blocks.Banner(status, f"{text}; {plan.n:,} are at hand")


def _chart(planned: PowerPlan, plans: Sequence[ModelPlan]) -> blocks.Chart:
    rows: list[dict[str, Any]] = [
        {"model": plan.model, "power": f"{need.power:.0%}", "n": point.n, "detectable": round(found, 8)}
        for plan in plans
        for point in plan.curve
        for need, found in zip(plan.needs, point.detectable, strict=True)
    ]
    x = charts.quantitative("n", title="n", scale={"type": "log"}, axis={"tickCount": 4})
    y = charts.quantitative("detectable", title=None, scale={"type": "log"})
    colour, about = charts.by_colour("power", len(plans[0].needs)), charts.tooltip("n", "detectable")
    line = {"type": "line", "strokeWidth": 1.75, "point": True}
    layers = [
        charts.layer(line, x=x, y=y, color=colour, tooltip=about),
        charts.layer(charts.DASHED, y={"datum": abs(planned.difference)}),
    ]
    words = (
        f"{plan.model}: {', '.join(f'{one.detectable[0]:.4f} at {one.n:,}' for one in plan.curve)}."
        for plan in plans
    )
    return blocks.Chart(
        "power",
        f"The smallest difference that n {planned.drawn()} show; the dashed line is the one asked for",
        charts.small_multiples([plan.model for plan in plans], rows, {"layer": layers}),
        " ".join(words),
    )


def data_sets_page(across: AcrossDataSets) -> Report:
    """The page, with everything in its JSON."""

    def row(one: AcrossModel) -> tuple[Cell, ...]:
        change = "baseline" if one.average is None else blocks.Estimate.of(one.average)
        rank = f"{one.first_rank}" + (f" to {one.last_rank}" if one.last_rank != one.first_rank else "")
        return one.model, *one.means, one.mean, change, rank

    weights = ", ".join(
        f"{name} {weight:.0%} ({n:,} queries)"
        for name, weight, n in zip(across.data_sets, across.weights, across.n_queries, strict=True)
    )
    each = (Column(name, "metric") for name in across.data_sets)
    table = Table(
        "data_sets",
        f"Mean {across.metric} on each data set, weighted average ({weights}), its difference from "
        f"{across.baseline}, and the ranks that a model may have by it, for all models at once.",
        (Column("model"), *each, Column("average", "metric"), Column("change", "difference"), Column("rank")),
        tuple(map(row, across.models)),
    )
    shown: tuple[Block, ...] = (
        Heading("Several data sets"),
        Paragraph(f"{across.metric} against {across.baseline}: {across.method}", "lead"),
        table,
        blocks.Bullets(tuple(across.lines())),
        *(Paragraph(str(caution), "note") for caution in across.cautions),
    )
    facts = (f"{len(across.data_sets)} data sets", f"baseline {across.baseline}")
    return Report("Several data sets", facts, (Section("verdict", shown),), lambda: json_text(across))


def card_page(card: DataCard, cautions: Sequence[Caution], title: str) -> Report:
    """What is in the data, the worrying first."""

    def severity(one: Caution) -> Cell:
        return blocks.Badge(one.severity, "neutral" if one.severity == "note" else "bad")

    table = Table.of(
        "cautions",
        "Cautions to read before trusting results from this data.",
        cautions,
        {
            Column("Severity"): severity,
            Column("Where"): lambda one: one.place,
            Column("Found"): lambda one: one.text,
            Column("What to do"): lambda one: one.cure,
        },
    )
    truth = [
        *recall_tables({split.name: split.candidates for split in card.splits}),
        *agreement_blocks({split.name: split.agreement for split in card.splits}),
    ]
    sections = (
        Section("verdict", (_card_banner(cautions), *([table] if cautions else []))),
        Section("splits", (Heading("Splits"), _splits(card), _grades(card), *truth)),
        *((Section("overlaps", _overlaps(card), DETAIL),) if card.overlaps else ()),
        Section("features", (Heading("Features"), *map(_features, card.splits)), DETAIL),
    )
    return Report(title, (), sections)


DETAIL = blocks.Group("Detail", "What do the splits share, and what is each feature?")


def _card_banner(cautions: Sequence[Caution]) -> blocks.Banner:
    if not cautions:
        return blocks.Banner(blocks.Badge("no cautions", "good"), "Nothing suspicious found", "Cautions")
    counts = Counter(one.severity for one in cautions)
    counted = {severity: n for severity in ("error", "warning", "note") if (n := counts[severity])}
    kinds = [count_of(n, severity) for severity, n in counted.items()]
    places = dict.fromkeys(one.place for one in cautions)
    where = ", ".join(places) if len(places) <= 3 else count_of(len(places), "place")
    worst, n = next(iter(counted.items()))
    status = blocks.Badge(plural(worst, n), "neutral" if worst == "note" else "bad")
    return blocks.Banner(status, f"{' and '.join(kinds)} in {where}", "Cautions")


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
    """Yield the best single features of a split, then what is known of its judgments and of its reading."""
    defined = [feature for feature in split.features if not math.isnan(feature.ndcg)]
    if best := sorted(defined, key=lambda feature: -feature.ndcg)[:3]:
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


def _splits(card: DataCard) -> Table:
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


def _grades(card: DataCard) -> Table:
    grades = sorted({grade for split in card.splits for grade in split.grades})
    shown = grades if len(grades) <= 12 else [*grades[:6], *grades[-6:]]
    columns = [Column("Grade")]
    rows: list[list[Cell]] = [[f"{grade:g}"] for grade in shown]
    for split in card.splits:
        columns += [Column(f"Rows of {split.name}", "count"), Column("Share", "percent")]
        for grade, row in zip(shown, rows, strict=True):
            n = split.grades.get(grade, 0)
            row += [n, n / split.n_rows]
    extremes = f" The lowest and highest of {count_of(len(grades), 'grade')}."
    caption = f"Rows by grade.{'' if shown == grades else extremes}"
    return Table("grades", caption, tuple(columns), tuple(map(tuple, rows)))


def _overlaps(card: DataCard) -> tuple[Block, ...]:
    table = Table.of(
        "overlaps",
        "Overlap of two splits.",
        card.overlaps,
        {
            Column("First"): lambda one: one.first,
            Column("Second"): lambda one: one.second,
            Column("Queries in both", "count"): lambda one: one.n_queries,
            Column("of these with identical rows", "count"): lambda one: one.n_same_content,
            Column("Rows of the second whose features the first has", "count"): lambda one: one.n_rows,
        },
    )
    shared = sum(bool(one.n_queries or one.n_rows) for one in card.overlaps)
    finding = f"{shared} of {count_of(len(card.overlaps), 'pair')} share queries or rows"
    return Heading("Overlap", finding=finding, matters=any(one.n_queries for one in card.overlaps)), table


def _features(split: SplitCard) -> Table:
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
