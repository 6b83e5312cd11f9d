"""Tables as LaTeX, ready for ``\\input``: booktabs rules, best in bold, marks explained in the caption."""

import re
from collections.abc import Iterable

from ltr_harness._util.number_text import number_text
from ltr_harness.report import blocks, formats

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "[": "{[}",  # a row that starts with a bracket would be an argument of the line break before it
    "]": "{]}",
    "*": "{*}",
    "\"": r"\textquotedbl{}",
    "–": "--",
    "−": "$-$",
    "…": r"\ldots{}",
    "▲": r"$\blacktriangle$",
    "▼": r"$\blacktriangledown$",
    "×": r"$\times$",
}  # fmt: skip

MARKS = {"": "", "better": r"$^{\blacktriangle}$", "worse": r"$^{\blacktriangledown}$"}


_MACROS = {"code": "texttt", "strong": "textbf", "emphasis": "emph"}


def escape(text: str) -> str:
    """Return text from data as text of LaTeX, on one line."""
    unprintable = {ord(character): " " for character in text if not character.isprintable()}
    one_line = " ".join(text.translate(unprintable).split())
    return "".join(_SPECIAL.get(character, character) for character in one_line)


def render(table: blocks.Table) -> str:
    """Return a ``table`` environment; it needs the packages booktabs and amssymb (for the marks)."""
    alignments = "".join(map(_alignment, table.columns))
    footnotes = " ".join(map(_inline, table.footnotes))
    caption = f"{_inline(table.caption)} {footnotes}".strip()
    lines = [
        rf"% {blocks.OURS}; needs \usepackage{{booktabs,amssymb}}, amssymb for the significance marks",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{caption}}}",
        rf"\label{{tab:{re.sub(r'[^A-Za-z0-9]', '-', table.name)}}}",
        rf"\begin{{tabular}}{{{alignments}}}",
        r"\toprule",
    ]
    if table.groups:
        lines += _group_lines(table)
    lines += [_line(escape(column.label) for column in table.columns), r"\midrule"]
    for row_number, row in enumerate(table.rows):
        cells = []
        for column_number, (cell, column) in enumerate(zip(row, table.columns, strict=True)):
            cells.append(_cell(cell, column, (row_number, column_number) in table.best_cells))
        lines.append(_line(cells))
    if table.footer:
        lines.append(r"\midrule")
        lines += [_line(map(_footer_cell, row)) for row in table.footer]
    lines += [r"\bottomrule", r"\end{tabular}", r"\end{table}"]
    return "\n".join(lines) + "\n"


def _alignment(column: blocks.Column) -> str:
    return "r" if column.numeric else "l"


def _line(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"


def _group_lines(table: blocks.Table) -> list[str]:
    """Return the line of names above the columns of each group, and the rules below these names."""
    cells, rules, first = [], [], 1
    for group, width in table.groups:
        if group:
            cells.append(rf"\multicolumn{{{width}}}{{c}}{{{escape(group)}}}")
            rules.append(rf"\cmidrule(lr){{{first}-{first + width - 1}}}")
        else:
            cells += [""] * width
        first += width
    return [_line(cells), "".join(rules)]


def _footer_cell(cell: blocks.Cell) -> str:
    if isinstance(cell, str | blocks.Badge | blocks.ModelName):
        return rf"\emph{{{escape(formats.cell_text(cell, 'text'))}}}"
    return _number(formats.cell_text(cell, "count"))


def _cell(cell: blocks.Cell, column: blocks.Column, best: bool) -> str:
    if isinstance(cell, blocks.Estimate):
        value = _number(number_text(cell.value, column.format))
        value = rf"\textbf{{{value}}}" if best else value
        interval_text = _number(formats.interval(cell.low, cell.high, column.format))
        tail = rf" {{\scriptsize {interval_text}}}" if interval_text else ""
        return value + MARKS[cell.mark] + tail
    text = formats.cell_text(cell, column.format)
    if column.numeric:
        content = _number(text)
    elif column.format == "code":
        content = rf"\texttt{{{escape(text)}}}"
    else:
        content = escape(text)
    if best:
        content = rf"\textbf{{{content}}}"
    if isinstance(cell, blocks.ModelName) and cell.note:
        content += f" ({escape(cell.note)})"
    return content


def _number(text: str) -> str:
    signs = text.replace("<", "$<$").replace("%", r"\%").replace("–", "--")
    return re.sub(r"(?<!-)-(?=\d)", "$-$", signs)


def _inline(text: blocks.Text) -> str:
    pieces = []
    for span in blocks.spans(text):
        lead = " " if span.text[:1].isspace() else ""
        tail = " " if span.text[-1:].isspace() and span.text.strip() else ""
        body = escape(span.text)
        if span.style in _MACROS:
            body = rf"\{_MACROS[span.style]}{{{body}}}"
        pieces.append(f"{lead}{body}{tail}")
    return "".join(pieces)
