"""Plain tables of metrics for a terminal."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from ltr_harness.cli.output import say
from ltr_harness.wording import printable, text_table

if TYPE_CHECKING:
    from ltr_harness.comparison import Comparison
    from ltr_harness.report.blocks import Report


def print_means(comparison: Comparison) -> None:
    """All metrics of all rankings: best first, as many side by side as 80 columns hold."""
    from ltr_harness.report import formats

    first = max(len(metric) for metric in comparison.metrics)
    columns: list[list[str]] = [[]]
    for model in comparison.ranking:
        if columns[-1] and first + sum(2 + max(len(name), 8) for name in (*columns[-1], model)) > 80:
            columns.append([])
        columns[-1].append(model)
    for models in columns:
        print_table(
            ["mean", *models],
            [
                [metric, *(formats.metric(comparison.summary(model, metric).mean) for model in models)]
                for metric in comparison.metrics
            ],
        )


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]], left: Collection[int] = (0,)) -> None:
    """Names to the left, numbers to the right, one line per row whatever the width: for eyes and for grep."""
    shown = [[printable(cell) for cell in row] for row in (head, *rows)]
    for line in text_table(shown[0], shown[1:], left):
        say(line)


def show_page(page: Report) -> None:
    """A page's words and tables."""
    from ltr_harness.report.blocks import Bullets, Paragraph, Table, plain
    from ltr_harness.report.formats import cell_text

    for section in page.sections:
        for block in section.blocks:
            if isinstance(block, Table):
                say(plain(block.caption))
                rows = [
                    [cell_text(cell, column.format) for cell, column in zip(row, block.columns, strict=True)]
                    for row in block.rows
                ]
                words = [0, *(place for place, column in enumerate(block.columns) if not column.numeric)]
                print_table([column.label for column in block.columns], rows, words)
                say()
            elif isinstance(block, Bullets):
                for item in block.items:
                    say(plain(item))
                say()
            elif isinstance(block, Paragraph):
                say(f"{plain(block.text)}.\n" if block.tone == "lead" else f"Note: {plain(block.text)}")
