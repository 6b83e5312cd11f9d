"""Output of commands: results to stdout, messages to stderr, and control characters of foreign text as escapes."""

import logging
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from ltr_harness._util.escapes import printable, without_commands
from ltr_harness._util.json_values import json_text
from ltr_harness._util.tables import text_table
from ltr_harness._util.text import count_of
from ltr_harness.errors import Caution, UsageError, merge_by_cause

if TYPE_CHECKING:
    from pathlib import Path

    from ltr_harness.comparison.comparison import Comparison
    from ltr_harness.report.blocks import Report, Table
    from ltr_harness.report.data import ReportData

_ASCII = str.maketrans({"–": "-", "…": "...", **dict(zip("▁▂▃▄▅▆▇█", "_.,-~=+#", strict=True))})


class LoggedCautions(logging.Handler):
    """A handler that passes logged cautions to `take`."""

    def __init__(self, take: Callable[[Caution], None]) -> None:
        super().__init__(logging.WARNING)
        self._take = take

    def emit(self, record: logging.LogRecord) -> None:
        logged: object = record.msg
        self._take(
            logged if isinstance(logged, Caution) else Caution("logged", "warning", record.getMessage())
        )


def echo(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Print text, in ASCII where the terminal has no more."""
    stream = sys.stderr if err else sys.stdout
    escaped = without_commands(printable(text, lines=True))
    encoding = stream.encoding or "utf-8"
    try:
        escaped.encode(encoding)
    except UnicodeEncodeError:
        escaped = escaped.translate(_ASCII).encode(encoding, "backslashreplace").decode(encoding)
    try:
        click.echo(escaped, err=err, nl=nl)
    except BrokenPipeError:  # the reader has gone (head, less): the command ends well; click would say 1
        if not err:
            raise click.exceptions.Exit(0) from None


def echo_again(text: str) -> None:
    """Print a text that was printed before, with its colours."""
    sys.stdout.write(without_commands(text))


def echo_caution(caution: Caution) -> None:
    """Print a caution on a line of stderr."""
    echo(f"note: {caution}", err=True)


def echo_cautions(cautions: Iterable[Caution]) -> None:
    """Print each on a line of stderr, and once what several places have."""
    for caution in merge_by_cause(cautions):
        echo_caution(caution)


def progress_line(text: str) -> None:
    """Print progress on stderr, a line that the next one overwrites."""
    click.echo(f"\r{text}", err=True, nl=False)


def echo_json(value: Any) -> None:
    """Print a result for programs; undefined numbers are null."""
    echo(json_text(value))


def counts(**numbers: int) -> str:
    """Return numbers with their nouns: 1 query, 1,984 rows."""
    return ", ".join(count_of(number, noun) for noun, number in numbers.items())


def print_means(comparison: "Comparison") -> None:
    """Print all metrics of all rankings: best first, as many side by side as 80 columns hold."""
    from ltr_harness.report import formats

    head_width = max(len(metric) for metric in comparison.metrics)
    blocks: list[list[str]] = [[]]
    for model in comparison.ranking:
        widths = [2 + max(len(name), 8) for name in (*blocks[-1], model)]
        if blocks[-1] and head_width + sum(widths) > 80:
            blocks.append([])
        blocks[-1].append(model)
    for models in blocks:
        rows = []
        for metric in comparison.metrics:
            means = [comparison.summary(model, metric).mean for model in models]
            rows.append([metric, *map(formats.metric, means)])
        print_table(["mean", *models], rows)


def print_comparison(
    data: "ReportData", as_json: bool, more: Mapping[str, Any], *, verbose: bool = False
) -> None:
    """Print a comparison with all means, or its values as JSON, with more keys than a report has."""
    if as_json:
        from ltr_harness.report.json_document import document

        echo_json(document(data) | dict(more))
        return
    from ltr_harness.report.terminal import show

    show(data, verbose=verbose)
    if len(data.comparison.metrics) > 1:
        echo()
        print_means(data.comparison)


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]], left: Collection[int] = (0,)) -> None:
    """Print names to the left, numbers to the right, one line per row whatever the width: for eyes and for grep."""
    cells = [[printable(cell) for cell in row] for row in (head, *rows)]
    for line in text_table(cells[0], cells[1:], left):
        echo(line)


def print_page(page: "Report", *, folded: bool = False) -> None:
    """Print the words and tables of a page, and on demand what is folded on it."""
    from ltr_harness.report.blocks import Banner, Bullets, Details, Paragraph, Table, plain_text, walk

    printed = (
        block
        for section in page.sections
        for block in section.blocks
        if folded or not isinstance(block, Details)
    )
    for block in walk(tuple(printed)):
        if isinstance(block, Table):
            _print_block_table(block)
        elif isinstance(block, Bullets):
            for item in block.items:
                echo(plain_text(item))
            echo()
        elif isinstance(block, Banner):
            echo(f"{block.text}.\n")
        elif isinstance(block, Paragraph):
            texts = {"lead": f"{plain_text(block.text)}.\n", "plain": f"{plain_text(block.text)}\n"}
            echo(texts.get(block.tone, f"Note: {plain_text(block.text)}"))


def _print_block_table(table: "Table") -> None:
    from ltr_harness.report.blocks import plain_text
    from ltr_harness.report.formats import cell_text

    echo(plain_text(table.caption))
    kinds = [column.format for column in table.columns]
    rows = [list(map(cell_text, row, kinds)) for row in table.rows]
    words = [0, *(number for number, column in enumerate(table.columns) if not column.numeric)]
    print_table([column.label for column in table.columns], rows, words)
    echo()


def print_report(
    page: "Report", as_json: bool, output: "Path | None", formats: Sequence[str], *, verbose: bool
) -> None:
    """Print a page in words and tables, or its values as JSON, and write it to the folder."""
    if as_json:
        echo(page.document())
    else:
        print_page(page, folded=verbose)
    if output is not None:
        from ltr_harness.report.writing import write_report

        echo(f"report: {write_report(page, output, formats)}", err=as_json)


def refuse_existing(output: "Path") -> None:
    """Raise a UsageError if the file exists already."""
    if output.exists():
        raise UsageError.at(output, "exists already; nothing was written", cure="choose another name with -o")
