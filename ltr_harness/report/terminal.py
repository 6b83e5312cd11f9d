"""The verdict and the fixed-K table for a terminal, in 80 columns."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, TextIO

from ltr_harness._util.escapes import printable, without_commands
from ltr_harness._util.number_text import number_text
from ltr_harness._util.text_form import TextForm
from ltr_harness.comparison.comparison import n_effective
from ltr_harness.comparison.headroom import headroom_lines, shares_sentence
from ltr_harness.comparison.main_table import MainColumn, columns_of, coverage_text, tally_text, values_of
from ltr_harness.comparison.over_time import signs_sentence
from ltr_harness.errors import labelled
from ltr_harness.experiments.runs.record import Record
from ltr_harness.report.data import ReportData
from ltr_harness.report.sections.cost import latency_lines
from ltr_harness.report.sections.next_gain import answer_lines
from ltr_harness.report.sections.verdict import failures_sentence, queries_sentence

if TYPE_CHECKING:
    from rich.table import Table

SIGNS = {"better": "▲", "worse": "▼", "equivalent": "=", "not distinguishable": "·", "baseline": ""}
STYLES = {"better": "green", "worse": "red"}

# For terminals and files that know no more than ASCII.
_ASCII = str.maketrans({"▲": "^", "▼": "v", "·": "~", "–": "-", "…": "~", "─": "-", "−": "-"})


def show(data: ReportData, file: TextIO | None = None, *, verbose: bool = False) -> str:
    """Print to a stream, in colour and as wide as a terminal is, and return the text."""
    stream = sys.stdout if file is None else file
    form = TextForm.of(stream)
    text = render(data, width=form.width, colour=form.coloured, verbose=verbose)
    try:
        text.encode(form.encoding)
    except UnicodeEncodeError:
        text = text.translate(_ASCII).encode(form.encoding, "backslashreplace").decode(form.encoding)
    text = without_commands(text)
    stream.write(text)
    return text


def render(data: ReportData, *, width: int = 80, colour: bool = False, verbose: bool = False) -> str:
    """Return the text that `show` prints; a verbose one has the test, shares of headroom and all cautions."""
    import io

    from rich.console import Console
    from rich.text import Text

    buffer = io.StringIO()
    console = Console(
        file=buffer,
        width=max(width, 72),
        force_terminal=colour,
        color_system="standard" if colour else None,
        no_color=not colour,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )
    outcome, headline = data.comparison.headline
    console.print(Text(_one_line(headline), style=f"bold {STYLES.get(outcome, '')}".strip()))
    if (seeds := data.comparison.seeds_caution) is not None:
        console.print(Text(_one_line(f"Note: {seeds}")))
    console.print()
    console.print(_main_table(data))
    for line in _lines_below(data, verbose):
        console.print(Text(_one_line(line)))
    if data.failures:
        console.print()
        console.print(Text(_one_line(failures_sentence(data)), style="red"))
        for record in data.failures:
            console.print(Text(f"  {_failure_line(record)}"))
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"


def _main_table(data: ReportData) -> "Table":
    from rich import box
    from rich.table import Table
    from rich.text import Text

    # the verdict is a sign at the end of its row, which the line below the table explains
    columns = columns_of(data.comparison, "terminal")
    columns.sort(key=lambda column: column.format == "verdict")
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="")
    table.add_column("model", overflow="fold", min_width=8)
    for column in columns:
        _add_column(table, column, data.primary)
    leader = data.models[0] if len(data.models) > 1 else None
    for name in data.models:
        cells = [Text(_one_line(name), style="bold" if name == leader else "")]
        for column in columns:
            value, *ends = _cells(data, column, name)
            style = ""
            if column.format == "verdict":
                style = _verdict_style(data, name)
            elif column.best is not None and name == leader:
                style = "bold"
            cells += [Text(value, style=style), *map(Text, ends)]
        table.add_row(*cells)
    return table


def _add_column(table: "Table", column: MainColumn, primary: str) -> None:
    """Add a column of the main table, and beside it one of its intervals where it has them."""
    heading, *interval_heading = map(_one_line, column.terminal_headings)
    if column.format == "verdict":
        table.add_column(heading, no_wrap=True, min_width=1)
    elif primary in column.heading:  # of any length
        table.add_column(heading, justify="right", overflow="fold", min_width=7)
    else:
        table.add_column(heading, justify="right", no_wrap=True)
    if column.has_interval:
        table.add_column(*interval_heading, no_wrap=True)


def _cells(data: ReportData, column: MainColumn, name: str) -> list[str]:
    """Return the value of a column for a model, and its interval where the column has one."""
    values = values_of(data.comparison, column, name)
    if values is None:  # the word stands where the baseline's difference would
        return ["baseline", ""] if column.has_interval else [""]
    if column.format == "verdict":
        return [SIGNS[values[0]]]
    if column.format == "tally":
        return [tally_text(values)]
    value, *ends = (number_text(number, column.format) for number in values)
    return [value, " ".join(ends)] if column.has_interval else [value]


def _verdict_style(data: ReportData, name: str) -> str:
    pair = data.paired(name, data.primary)
    return "" if pair is None else STYLES.get(pair.verdict, "")


def _lines_below(data: ReportData, verbose: bool) -> Iterator[str]:
    """Yield the sentences below the table: its signs, method and queries, then headroom, folds and a caution."""
    comparison = data.comparison
    if data.rivals:
        yield _legend(data)
        test = "" if verbose else " (`--verbose` for the test)"
        yield f"{coverage_text(comparison)}{test}"
        if verbose:
            yield f"{comparison.method.describe()}; {comparison.families[0]}"
    yield queries_sentence(data)
    headroom = comparison.headroom.values()
    yield from headroom_lines(headroom, data.primary)
    if shares := shares_sentence(headroom):
        yield shares
    if signs := signs_sentence(comparison.fold_signs):
        yield signs
    for line in answer_lines(data.next_gains):
        yield f"Where the next gain is: {line}"
    yield from latency_lines(data)
    yield from comparison.cheap_label_lines
    below, folded = comparison.chosen_cautions
    if below is not None:
        yield f"Note: {labelled(below)}"
    if verbose:
        for caution in folded:
            yield f"Note: {labelled(caution)}"
    elif folded_text := comparison.chosen_cautions.folded_text:
        yield f"{folded_text}: `--verbose`"


def _legend(data: ReportData) -> str:
    """Return the signs of the verdicts in the table, and over how many queries they are."""
    verdicts = {data.comparison.paired(name).verdict for name in data.rivals}
    legend = "   ".join(f"{sign} {verdict}" for verdict, sign in SIGNS.items() if verdict in verdicts)
    return f"{legend}   (against {data.baseline}; n = {data.n_defined:,}{_effective_text(data)})"


def _failure_line(record: Record) -> str:
    first_line = (record.error or "no message was recorded").strip().splitlines()[0]
    run = f"{_one_line(record.model)}, fold {_one_line(record.fold)}, seed {record.seed}"
    return f"{run}: {_one_line(first_line)}"


def _effective_text(data: ReportData) -> str:
    """Return the effective number of queries where they have weights; "" where each counts once."""
    if data.comparison.weights is None:
        return ""
    return f", which count as {n_effective(data.comparison):,.0f} of equal weight"


def _one_line(text: str) -> str:
    """Return text from data on one line."""
    return printable(text.translate({ord("\n"): " ", ord("\t"): " "}))
