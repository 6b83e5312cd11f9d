"""The verdict and the fixed-K table for a terminal, in 80 columns."""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import TextIO

from ltr_harness._util.text import printable, without_commands
from ltr_harness.comparison.comparison import n_effective
from ltr_harness.comparison.headroom import headroom_lines, shares_sentence
from ltr_harness.comparison.over_time import signs_sentence
from ltr_harness.errors import labelled
from ltr_harness.report import formats
from ltr_harness.report.blocks import plain
from ltr_harness.report.data import ReportData
from ltr_harness.report.sections.verdict import failures_sentence, queries_sentence

SIGNS = {"better": "▲", "worse": "▼", "equivalent": "=", "not distinguishable": "·", "baseline": ""}
STYLES = {"better": "green", "worse": "red"}

# For terminals and files that know no more than ASCII.
_ASCII = str.maketrans({"▲": "^", "▼": "v", "·": "~", "–": "-", "…": "~", "─": "-", "−": "-"})


def show(data: ReportData, file: TextIO | None = None) -> None:
    """Print to a stream: coloured and as wide as needed on a terminal, plain in 80 columns elsewhere."""
    stream = sys.stdout if file is None else file
    terminal = stream.isatty()
    coloured = terminal and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    width = 80
    if terminal:
        with suppress(OSError):
            width = max(72, os.get_terminal_size(stream.fileno()).columns)
    text = render(data, width=width, colour=coloured)
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = text.translate(_ASCII).encode(encoding, "backslashreplace").decode(encoding)
    stream.write(without_commands(text))


def render(data: ReportData, *, width: int = 80, colour: bool = False) -> str:
    """The same as text."""
    import io

    from rich import box
    from rich.console import Console
    from rich.table import Table
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
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="")
    label = f"{data.confidence_label} interval"
    against = bool(data.rivals)
    table.add_column("model", overflow="fold", min_width=8)
    table.add_column(_safe(f"{data.weighted}{data.primary}"), justify="right", overflow="fold", min_width=7)
    table.add_column(label, no_wrap=True)
    if against:
        table.add_column("change", justify="right", no_wrap=True)
        of_changes = data.interval_label()
        of_changes = label if of_changes == f"{data.confidence_label} CI" else of_changes
        table.add_column(of_changes, no_wrap=True)
        table.add_column(data.p_label(), justify="right", no_wrap=True)
        table.add_column("", no_wrap=True, min_width=1)
    for place, name in enumerate(data.models):
        summary, pair = data.comparison.summary(name), data.paired(name, data.primary)
        best = "bold" if place == 0 and len(data.models) > 1 else ""
        cells = [
            Text(_safe(name), style=best),
            Text(formats.metric(summary.mean), style=best),
            Text(_interval(summary.ci_low, summary.ci_high)),
        ]
        if against and pair is None:
            cells += [Text("baseline"), Text(""), Text(""), Text("")]
        elif pair is not None:
            cells += [
                Text(formats.difference(pair.difference)),
                Text(_interval(pair.ci_low, pair.ci_high, signed=True)),
                Text(formats.p_value(pair.p_corrected)),
                Text(SIGNS[pair.verdict], style=STYLES.get(pair.verdict, "")),
            ]
        table.add_row(*cells)
    outcome, text = data.comparison.headline
    console.print(Text(_safe(text), style=f"bold {STYLES.get(outcome, '')}".strip()))
    console.print()
    console.print(table)
    if against:
        for line in _about_differences(data):
            console.print(Text(line))
    headroom = data.comparison.headroom.values()
    signs = signs_sentence(data.comparison.fold_signs)
    cautions = (f"Note: {labelled(caution)}" for caution in data.comparison.cautions)
    for line in (
        queries_sentence(data),
        *headroom_lines(headroom, data.primary),
        shares_sentence(headroom),
        signs,
        *cautions,
    ):
        if line:
            console.print(Text(_safe(line)))
    if data.failures:
        console.print()
        console.print(Text(_safe(plain(failures_sentence(data))), style="red"))
        for record in data.failures:
            first = (record.error or "no message was recorded").strip().splitlines()[0]
            run = f"{_safe(record.model)}, fold {_safe(record.fold)}, seed {record.seed}"
            console.print(Text(f"  {run}: {_safe(first)}"))
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"


def _about_differences(data: ReportData) -> Iterator[str]:
    """The signs of the verdicts in the table, over how many queries they are, and by which method."""
    verdicts = {data.comparison.paired(name).verdict for name in data.rivals}
    legend = "   ".join(f"{sign} {word}" for word, sign in SIGNS.items() if word in verdicts)
    yield f"{legend}   (against {_safe(data.baseline)}; n = {data.n_defined:,}{_effective(data)})"
    over = " (of differences over queries and seeds)" if data.over_seeds else ""
    yield _safe(f"{data.comparison.method.describe()}{over}; {data.comparison.families[0]}")


def _effective(data: ReportData) -> str:
    """How many queries of equal weight tell as much, where they do not count alike."""
    if data.comparison.weights is None:
        return ""
    return f", which tell as much as {n_effective(data.comparison):,.0f} of equal weight"


def _interval(low: float, high: float, *, signed: bool = False) -> str:
    """Both ends without the zero before the point: two intervals have to fit beside a name."""
    write = formats.difference if signed else formats.metric
    ends = (re.sub(r"^([+-]?)0\.", r"\1.", write(end)) for end in (low, high))
    return " ".join(ends)


def _safe(text: str) -> str:
    """Text from data on one line."""
    return printable(text.translate({ord("\n"): " ", ord("\t"): " "}))
