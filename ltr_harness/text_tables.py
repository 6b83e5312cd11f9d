"""Small tables of texts, as lines of plain text, as HTML for notebooks, and as CSV that a spreadsheet may open."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Collection, Iterable, Sequence
from html import escape
from typing import Any

from ltr_harness.printable import printable

FORMULA = r"^'('*[=+\-@])"
"""A cell that `csv_cell` put an apostrophe before; the group is the cell without."""

_WOULD_BE_FORMULA = re.compile(r"'*[=+\-@]")
_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?", re.ASCII)


def text_table(head: Sequence[str], rows: Sequence[Sequence[str]], left: Collection[int] = (0,)) -> list[str]:
    """One line per row: numbers to the right, columns of words to the left.

    Example:
        >>> text_table(["metric", "mean"], [["ndcg@10", "0.5"]])
        ['metric   mean', 'ndcg@10   0.5']
    """
    lines = [list(head), *map(list, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if place in left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


def html_table(head: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> str:
    """The same as HTML, every text escaped.

    Example:
        >>> html_table(["a"], [["<"]])
        '<table><thead><tr><th>a</th></tr></thead><tbody><tr><td>&lt;</td></tr></tbody></table>'
    """

    def line(tag: str, cells: Sequence[str]) -> str:
        return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"

    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    body = "".join(line("td", row) for row in rows)
    return f"<table>{title}<thead>{line('th', head)}</thead><tbody>{body}</tbody></table>"


def csv_cell(text: str) -> str:
    """A text in a CSV file: no formula, and control characters as escapes; a number stays.

    Example:
        >>> csv_cell("=1+1"), csv_cell("-1.5"), csv_cell("'@a")
        ("'=1+1", '-1.5', "''@a")
    """
    shown = printable(text)
    return f"'{shown}" if _WOULD_BE_FORMULA.match(shown) and not _NUMBER.fullmatch(shown) else shown


def csv_text(rows: Iterable[Sequence[Any]]) -> str:
    """Rows as CSV: texts by `csv_cell`, numbers in full, nothing for None and NaN."""
    table = io.StringIO()
    csv.writer(table, lineterminator="\n").writerows([_csv_value(value) for value in row] for row in rows)
    return table.getvalue()


def _csv_value(value: Any) -> Any:
    if isinstance(value, str):
        return csv_cell(value)
    return "" if value is None or (isinstance(value, float) and math.isnan(value)) else value
