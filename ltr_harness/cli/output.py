"""How commands print: results to stdout, messages to stderr, and control characters of foreign text as escapes."""

import logging
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from ltr_harness._util.text import count_of, json_text, printable, text_table, without_commands
from ltr_harness.errors import Caution, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from ltr_harness.comparison.comparison import Comparison
    from ltr_harness.report.blocks import Report
    from ltr_harness.report.data import ReportData

_ASCII = str.maketrans({"–": "-", "…": "...", **dict(zip("▁▂▃▄▅▆▇█", "_.,-~=+#", strict=True))})


class LoggedCautions(logging.Handler):
    """What the harness warns of, handed to `take`."""

    def __init__(self, take: Callable[[Caution], None]) -> None:
        super().__init__(logging.WARNING)
        self._take = take

    def emit(self, record: logging.LogRecord) -> None:
        logged: object = record.msg
        self._take(
            logged if isinstance(logged, Caution) else Caution("logged", "warning", record.getMessage())
        )


def echo(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Print, also where the terminal knows no more than ASCII."""
    stream = sys.stderr if err else sys.stdout
    shown = without_commands(printable(text, lines=True))
    encoding = stream.encoding or "utf-8"
    try:
        shown.encode(encoding)
    except UnicodeEncodeError:
        shown = shown.translate(_ASCII).encode(encoding, "backslashreplace").decode(encoding)
    try:
        click.echo(shown, err=err, nl=nl)
    except BrokenPipeError:  # the reader has gone (head, less): the command ends well; click would say 1
        if not err:
            raise click.exceptions.Exit(0) from None


def echo_caution(caution: Caution) -> None:
    """Print a caution on a line of stderr."""
    echo(f"note: {caution}", err=True)


def echo_cautions(cautions: Iterable[Caution]) -> None:
    """Print each on a line of stderr."""
    for caution in cautions:
        echo_caution(caution)


def progress_line(text: str) -> None:
    """Progress on stderr: a line that the next one overwrites."""
    click.echo(f"\r{text}", err=True, nl=False)


def echo_json(value: Any) -> None:
    """A result for programs; undefined numbers are null."""
    echo(json_text(value))


def counts(**numbers: int) -> str:
    """Numbers with their nouns: 1 query, 1,984 rows."""
    return ", ".join(count_of(number, noun) for noun, number in numbers.items())


def print_means(comparison: "Comparison") -> None:
    """All metrics of all rankings: best first, as many side by side as 80 columns hold."""
    from ltr_harness.report import formats

    first = max(len(metric) for metric in comparison.metrics)
    columns: list[list[str]] = [[]]
    for model in comparison.ranking:
        if columns[-1] and first + sum(2 + max(len(name), 8) for name in (*columns[-1], model)) > 80:
            columns.append([])
        columns[-1].append(model)
    for models in columns:
        of_metrics = (
            (name, [comparison.summary(one, name).mean for one in models]) for name in comparison.metrics
        )
        print_table(["mean", *models], [[name, *map(formats.metric, means)] for name, means in of_metrics])


def print_comparison(data: "ReportData", as_json: bool, more: Mapping[str, Any]) -> None:
    """A comparison with all means, or its values as JSON, with more keys than a report has."""
    if as_json:
        from ltr_harness.report.json_document import document

        echo_json(document(data) | dict(more))
        return
    from ltr_harness.report.terminal import show

    show(data)
    if len(data.comparison.metrics) > 1:
        echo()
        print_means(data.comparison)


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]], left: Collection[int] = (0,)) -> None:
    """Names to the left, numbers to the right, one line per row whatever the width: for eyes and for grep."""
    shown = [[printable(cell) for cell in row] for row in (head, *rows)]
    for line in text_table(shown[0], shown[1:], left):
        echo(line)


def print_page(page: "Report") -> None:
    """A page's words and tables."""
    from ltr_harness.report.blocks import Banner, Bullets, Paragraph, Table, plain, walk
    from ltr_harness.report.formats import cell_text

    for block in (block for section in page.sections for block in walk(section.blocks)):
        if isinstance(block, Table):
            echo(plain(block.caption))
            kinds = [column.format for column in block.columns]
            rows = [list(map(cell_text, row, kinds)) for row in block.rows]
            words = [0, *(place for place, column in enumerate(block.columns) if not column.numeric)]
            print_table([column.label for column in block.columns], rows, words)
            echo()
        elif isinstance(block, Bullets):
            for item in block.items:
                echo(plain(item))
            echo()
        elif isinstance(block, Banner):
            echo(f"{block.text}.\n")
        elif isinstance(block, Paragraph):
            texts = {"lead": f"{plain(block.text)}.\n", "plain": f"{plain(block.text)}\n"}
            echo(texts.get(block.tone, f"Note: {plain(block.text)}"))


def print_report(page: "Report", as_json: bool, output: "Path | None", formats: Sequence[str]) -> None:
    """A page in words and tables, or its values as JSON; and the page in a folder."""
    if as_json:
        echo(page.document())
    else:
        print_page(page)
    if output is not None:
        from ltr_harness.report.writing import write_report

        echo(f"report: {write_report(page, output, formats)}", err=as_json)


def refuse_existing(output: "Path") -> None:
    """Raise where a file exists that a command would write and must not overwrite."""
    if output.exists():
        raise UsageError.at(output, "exists already; nothing was written", cure="choose another name with -o")
