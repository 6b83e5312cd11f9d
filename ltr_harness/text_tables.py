"""Small tables of texts, as lines of plain text and as HTML for notebooks."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from html import escape


def text_table(head: Sequence[str], rows: Sequence[Sequence[str]], left: Collection[int] = (0,)) -> list[str]:
    """One line per row: numbers to the right, columns of words to the left.

    Args:
        head: the columns' names.
        rows: a text for each column.
        left: places of the columns of words, from 0.

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

    Args:
        head: the columns' names.
        rows: a text for each column.
        caption: what the table shows.

    Example:
        >>> html_table(["a"], [["<"]])
        '<table><thead><tr><th>a</th></tr></thead><tbody><tr><td>&lt;</td></tr></tbody></table>'
    """

    def line(tag: str, cells: Sequence[str]) -> str:
        return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"

    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    body = "".join(line("td", row) for row in rows)
    return f"<table>{title}<thead>{line('th', head)}</thead><tbody>{body}</tbody></table>"
