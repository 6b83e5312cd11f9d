"""Small tables as text, HTML and CSV."""

import io
import math
import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from ltr_harness._util.escapes import printable

FORMULA = r"^'('*[=+\-@])"
"""A cell that `csv_cell` put an apostrophe before; the group is the cell without."""

_WOULD_BE_FORMULA = re.compile(r"'*[=+\-@]")
_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?", re.ASCII)


def text_table(head: Sequence[str], rows: Sequence[Sequence[str]], left: Collection[int] = (0,)) -> list[str]:
    """One line per row: numbers to the right, columns of words to the left."""
    lines = [list(head), *map(list, rows)]
    columns = []
    for index, column in enumerate(zip(*lines, strict=True)):
        pad = str.ljust if index in left else str.rjust
        width = max(map(len, column))
        columns.append([pad(cell, width) for cell in column])
    return ["  ".join(cells).rstrip() for cells in zip(*columns, strict=True)]


def csv_cell(text: str) -> str:
    """A text in a CSV file: no formula, and control characters as escapes; a number stays."""
    escaped = printable(text)
    return f"'{escaped}" if _WOULD_BE_FORMULA.match(escaped) and not _NUMBER.fullmatch(escaped) else escaped


def _csv_value(value: Any) -> Any:
    """Return a cell of CSV: "" for NaN, and texts that no spreadsheet takes for a formula."""
    if isinstance(value, float) and math.isnan(value):
        return ""
    return csv_cell(value) if isinstance(value, str) else value


def csv_text(rows: Iterable[Sequence[Any]]) -> str:
    """Rows as CSV: texts by `csv_cell`, numbers in full, nothing for None and NaN."""
    import csv  # slow to import, and needed by few commands

    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    for row in rows:
        writer.writerow(map(_csv_value, row))
    return table.getvalue()
