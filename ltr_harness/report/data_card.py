"""The data card as a page: splits, findings, grades, overlaps, features."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from ltr_harness.files import write_whole
from ltr_harness.inspection import DataCard, Finding, SplitCard
from ltr_harness.report import html, markdown
from ltr_harness.report.blocks import Badge, Block, Cell, Column, Heading, Page, Paragraph, Section, Table
from ltr_harness.wording import count_of, named, text_table

FORMATS = ("html", "md")


def card_page(card: DataCard, findings: Sequence[Finding], title: str) -> Page:
    """What is in the data, the worrying first."""
    return Page(
        title,
        (
            Section("findings", _findings(findings)),
            Section("splits", (Heading("Splits"), _splits(card), _grades(card))),
            Section("overlaps", _overlaps(card)),
            Section("features", (Heading("Features"), *(_features(split) for split in card.splits))),
        ),
    )


def write_card(page: Page, folder: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Write ``data_card.html`` and ``data_card.md``.

    Raises:
        OSError: the folder cannot be written.
    """
    written = []
    for form in formats:
        text = html.render_page(page) if form == "html" else markdown.render(page)
        path = folder / f"data_card.{form}"
        write_whole(path, text)
        written.append(path)
    return written


def card_text(card: DataCard, findings: Sequence[Finding]) -> str:
    """The card for a terminal, without the features."""
    rows = []
    for split in card.splits:
        low, _, median, _, _, high = split.sizes
        grades = " ".join(f"{grade:g}:{n / split.n_rows:.0%}" for grade, n in list(split.grades.items())[:8])
        more = " …" if len(split.grades) > 8 else ""
        counts = (split.n_queries, split.n_rows, split.n_features)
        sizes = f"{low:,.0f} / {median:,.0f} / {high:,.0f}"
        without = f"{split.n_without_relevant:,}"
        rows.append([split.name, *(f"{count:,}" for count in counts), sizes, without, f"{grades}{more}"])
    head = ["split", "queries", "rows", "features", "rows per query", "no relevant", "grades"]
    lines = text_table(head, rows, left=[0, 4, 6])
    lines += dict.fromkeys(named("feature", split.feature_names) for split in card.splits)
    for split in card.splits:
        known = [feature for feature in split.features if not math.isnan(feature.ndcg)]
        best = sorted(known, key=lambda feature: -feature.ndcg)[:3]
        if best:
            listed = ", ".join(f"{feature.name} {feature.ndcg:.4f}" for feature in best)
            lines.append(
                f"{split.name}: best single features by NDCG@10: {listed} (random order {split.random_ndcg:.4f}; "
                f"{count_of(split.n_sampled, 'query')})"
            )
        lines += [f"{split.name}: note: {note}" for note in split.notes]
    lines.append("")
    lines += [str(finding) for finding in findings] or ["nothing suspicious found"]
    return "\n".join(lines) + "\n"


def _findings(findings: Sequence[Finding]) -> tuple[Block, ...]:
    if not findings:
        return Heading("Findings"), Paragraph("Nothing suspicious was found.", "lead")
    return (
        Heading("Findings"),
        Table(
            name="findings",
            caption="What to look at before believing numbers made from this data.",
            columns=(Column("Severity"), Column("Where"), Column("Found"), Column("What to do")),
            rows=tuple(
                (Badge(f.severity, "bad" if f.severity != "note" else "neutral"), f.place, f.found, f.cure)
                for f in findings
            ),
        ),
    )


def _splits(card: DataCard) -> Table:
    return Table(
        name="splits",
        caption="A query is the rows that are ranked against each other.",
        columns=(
            Column("Split"),
            Column("Queries", "count"),
            Column("Rows", "count"),
            Column("Features", "count"),
            Column("Rows per query: min", "count"),
            Column("median", "number"),
            Column("90 %", "number"),
            Column("max", "count"),
            Column("Queries without relevant document", "count"),
            Column("with one grade", "count"),
            Column("with one row", "count"),
            Column("Repeated rows", "count", hint="an earlier row of the split has the same features"),
            Column("Forced ties", "count", hint="same query, same features, another label"),
            Column("NDCG@10 of random order", "metric"),
            Column("Source", "code"),
        ),
        rows=tuple(
            (
                split.name,
                split.n_queries,
                split.n_rows,
                split.n_features,
                split.sizes[0],
                split.sizes[2],
                split.sizes[4],
                split.sizes[5],
                split.n_without_relevant,
                split.n_one_grade,
                split.n_single,
                split.n_repeated_rows,
                split.n_forced_ties,
                split.random_ndcg,
                split.source,
            )
            for split in card.splits
        ),
        notes=tuple(f"{split.name}: {note}" for split in card.splits for note in split.notes),
    )


def _grades(card: DataCard) -> Table:
    grades = sorted({grade for split in card.splits for grade in split.grades})
    shown = grades if len(grades) <= 12 else [*grades[:6], *grades[-6:]]
    rows: list[tuple[Cell, ...]] = []
    for grade in shown:
        row: list[Cell] = [f"{grade:g}"]
        for split in card.splits:
            n = split.grades.get(grade, 0)
            row += [n, n / split.n_rows]
        rows.append(tuple(row))
    return Table(
        name="grades",
        caption="Rows by grade."
        + ("" if shown == grades else f" The lowest and highest of {count_of(len(grades), 'grade')}."),
        columns=(
            Column("Grade"),
            *(
                column
                for split in card.splits
                for column in (Column(f"Rows of {split.name}", "count"), Column("Share", "percent"))
            ),
        ),
        rows=tuple(rows),
    )


def _overlaps(card: DataCard) -> tuple[Block, ...]:
    if not card.overlaps:
        return ()
    return (
        Heading("Overlap"),
        Table(
            name="overlaps",
            caption="What two splits have in common.",
            columns=(
                Column("First"),
                Column("Second"),
                Column("Queries in both", "count"),
                Column("of these with identical rows", "count"),
                Column("Rows of the second whose features the first has", "count"),
            ),
            rows=tuple((o.first, o.second, o.n_queries, o.n_same_content, o.n_rows) for o in card.overlaps),
        ),
    )


def _features(split: SplitCard) -> Table:
    return Table(
        name=f"features-{split.name}".replace(" ", "-"),
        caption=f"Features of {split.name}. NDCG@10: of ranking by the feature alone, in the better direction, over "
        f"{count_of(split.n_sampled, 'query')} with relevant documents; random order gives {split.random_ndcg:.4f}.",
        columns=(
            Column("Feature", "code"),
            Column("NDCG@10", "metric"),
            Column("Order"),
            Column("Lowest", "number"),
            Column("Mean", "number"),
            Column("Highest", "number"),
            Column("Missing", "percent"),
            Column("Zero", "percent"),
            Column("Remarks"),
        ),
        rows=tuple(
            (
                feature.name,
                feature.ndcg,
                "descending" if feature.descending else "ascending",
                feature.low,
                feature.mean,
                feature.high,
                feature.n_missing / split.n_rows,
                feature.n_zero / split.n_rows,
                "constant"
                if feature.constant
                else f"same as {feature.duplicate_of}"
                if feature.duplicate_of
                else "",
            )
            for feature in split.features
        ),
    )
