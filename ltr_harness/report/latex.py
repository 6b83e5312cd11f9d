"""Tables as LaTeX, ready for ``\\input``: booktabs rules, best in bold, marks explained in the caption."""

import re

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


def escape(text: str) -> str:
    """Text from data as text of LaTeX, on one line."""
    one_line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return "".join(_SPECIAL.get(character, character) for character in one_line)


def render(table: blocks.Table) -> str:
    """A ``table`` environment; needs the packages booktabs and amssymb (for the marks)."""
    columns = "".join("r" if column.numeric else "l" for column in table.columns)
    footnotes = " ".join(map(_inline, table.footnotes))
    caption = f"{_inline(table.caption)} {footnotes}".strip()
    groups, rules, at = [], [], 1
    for group, width in table.groups:
        groups += [rf"\multicolumn{{{width}}}{{c}}{{{escape(group)}}}"] if group else [""] * width
        rules += [rf"\cmidrule(lr){{{at}-{at + width - 1}}}"] if group else []
        at += width
    lines = [
        rf"% {blocks.OURS}; needs \usepackage{{booktabs,amssymb}}, amssymb for the significance marks",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{caption}}}",
        rf"\label{{tab:{re.sub(r'[^A-Za-z0-9]', '-', table.name)}}}",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        *([" & ".join(groups) + r" \\", "".join(rules)] if groups else []),
        " & ".join(escape(column.label) for column in table.columns) + r" \\",
        r"\midrule",
    ]
    for number, row in enumerate(table.rows):
        of_row = enumerate(zip(row, table.columns, strict=True))
        cells = (_cell(*both, (number, at) in table.best_cells) for at, both in of_row)
        lines.append(" & ".join(cells) + r" \\")
    if table.footer:
        lines.append(r"\midrule")
        for row in table.footer:
            cells = (
                rf"\emph{{{escape(formats.cell_text(cell, 'text'))}}}"
                if isinstance(cell, str | blocks.Badge | blocks.ModelName)
                else _number(formats.cell_text(cell, "count"))
                for cell in row
            )
            lines.append(" & ".join(cells) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}", r"\end{table}"]
    return "\n".join(lines) + "\n"


def _cell(cell: blocks.Cell, column: blocks.Column, best: bool) -> str:
    if isinstance(cell, blocks.Estimate):
        value = _number(number_text(cell.value, column.format))
        value = rf"\textbf{{{value}}}" if best else value
        around = _number(formats.interval(cell.low, cell.high, column.format))
        tail = rf" {{\scriptsize {around}}}" if around else ""
        return value + MARKS[cell.mark] + tail
    text = formats.cell_text(cell, column.format)
    if column.numeric:
        written = _number(text)
    elif column.format == "code":
        written = rf"\texttt{{{escape(text)}}}"
    else:
        written = escape(text)
    if best:
        written = rf"\textbf{{{written}}}"
    if isinstance(cell, blocks.ModelName) and cell.note:
        written += f" ({escape(cell.note)})"
    return written


def _number(text: str) -> str:
    signs = text.replace("<", "$<$").replace("%", r"\%").replace("–", "--")
    return re.sub(r"(?<!-)-(?=\d)", "$-$", signs)


def _inline(text: blocks.Text) -> str:
    if isinstance(text, str):
        return escape(blocks.plain(text))
    written = []
    for span in blocks.spans(text):
        lead = " " if span.text[:1].isspace() else ""
        tail = " " if span.text[-1:].isspace() and span.text.strip() else ""
        body = escape(span.text)
        macro = {"code": "texttt", "strong": "textbf", "emphasis": "emph"}.get(span.style)
        written.append(lead + (rf"\{macro}{{{body}}}" if macro else body) + tail)
    return "".join(written)
