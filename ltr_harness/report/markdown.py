"""The report as GitHub-flavoured Markdown."""

import re
from collections.abc import Mapping, Sequence

from ltr_harness.report import blocks, formats

MARKS = {"": "", "better": " ▲", "worse": " ▼"}


def render(
    report: blocks.Report, *, with_charts: bool = True, undrawn: Mapping[str, str] | None = None
) -> str:
    """Return Markdown text; charts refer to the files in ``charts/``."""
    parts = [f"# {escape(report.title)}"]
    for group, sections in report.groups:
        if group:
            parts += ["---", f"**{escape(group.title)}** {escape(group.question)}"]
        for section in sections:
            parts += [_block(block, with_charts, undrawn or {}) for block in section.blocks]
    return "\n\n".join(part for part in parts if part) + "\n"


def escape(text: str) -> str:
    """Return text from data that stays text: on one line, without markup, HTML or a table cell of its own."""
    one_line = " ".join(text.split())
    entities = one_line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    escaped = re.sub(r"([\\`*_\[\]|~$])", r"\\\1", entities)
    # A bare address would become a link, a leading sign a heading or a list.
    unmarked = re.sub(r"^(?:(?=[#+-])|(\d+)(?=[.)](?:\s|$)))", r"\1\\", escaped)
    return re.sub(r"://", ":\u200b//", unmarked)


def code_span(text: str) -> str:
    """Return inline code with a fence longer than any run of backticks inside."""
    one_line = " ".join(text.split()) or " "
    fence = _fence(one_line, 1)
    pad = " " if one_line.startswith("`") or one_line.endswith("`") else ""
    return f"{fence}{pad}{one_line}{pad}{fence}"


def _fence(text: str, at_least: int) -> str:
    """Return more backticks than any run of them in a text."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    return "`" * max(longest + 1, at_least)


def inline(text: blocks.Text) -> str:
    pieces = []
    for span in blocks.spans(text):
        mark = {"strong": "**", "emphasis": "*"}.get(span.style, "")
        # blanks at both ends join it to its neighbours
        lead = " " if span.text[:1].isspace() else ""
        tail = " " if span.text[-1:].isspace() and span.text.strip() else ""
        styled = f"{mark}{lead}{escape(span.text)}{tail}{mark}"
        pieces.append(code_span(span.text) if span.style == "code" else styled)
    return "".join(pieces)


def _block(block: blocks.Block, with_charts: bool, undrawn: Mapping[str, str]) -> str:
    match block:
        case blocks.Heading(text=text, level=level, finding=finding):
            return f"{'#' * level} {escape(f'{text}: {finding}' if finding else text)}"
        case blocks.Banner(status=status, text=text):
            return f"**{escape(status.text.capitalize())}.** {escape(text)}."
        case blocks.Paragraph(text=text, tone=tone):
            if tone == "lead":
                return f"**{inline(text).strip()}**"
            return f"> {inline(text)}" if tone == "warning" else inline(text)
        case blocks.Bullets(items=items):
            return "\n".join(f"- {inline(item)}" for item in items)
        case blocks.Table():
            return _table(block)
        case blocks.Chart() if block.name in undrawn:
            reason = escape(undrawn[block.name])
            return f"*{inline(block.title).strip()}*\n\n> Not drawn: {reason}. {escape(block.text)}"
        case blocks.Chart():
            picture = f"![{escape(block.text)}](charts/{block.name}.svg)\n\n" if with_charts else ""
            return f"{picture}*{inline(block.title).strip()}*"
        case blocks.Details(page_only=True):
            return ""
        case blocks.Details(summary=summary, blocks=folded):
            inner = "\n\n".join(_block(inside, with_charts, undrawn) for inside in folded)
            return f"<details><summary>{escape(summary)}</summary>\n\n{inner}\n\n</details>"
        case blocks.Choice(options=options):
            _, first_blocks = options[0]
            first = [_block(inside, with_charts, undrawn) for inside in first_blocks]
            other_names = ", ".join(name for name, _ in options[1:])
            return "\n\n".join([*first, escape(f"report.html has the same for {other_names}.")])
        case blocks.TwoForms(files=complete):
            return "\n\n".join(_block(inside, with_charts, undrawn) for inside in complete)
        case blocks.Definitions(items=terms):
            return "\n\n".join(
                f"**{code_span(term)}** " + "\n\n".join(inline(text) for text in texts)
                for term, texts in terms
            )
        case blocks.Code(text=text, language=language):
            fence = _fence(text, 3)
            return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def _heading(column: blocks.Column) -> str:
    """Return the heading of a column after that of its group; ndcg@10 is one name."""
    if not column.group:
        return column.label
    separator = "" if column.label.startswith("@") else " "
    return f"{column.group}{separator}{column.label}"


def _alignment(column: blocks.Column) -> str:
    return "---:" if column.numeric else ":---"


def _table(table: blocks.Table) -> str:
    headings = [escape(_heading(column)) for column in table.columns]
    lines = [headings, [*map(_alignment, table.columns)]]
    for row_number, row in enumerate(table.rows):
        lines.append(
            [_cell(table, row_number, column_number, cell) for column_number, cell in enumerate(row)]
        )
    for row in table.footer:
        lines.append(_footer_cells(table, row))
    text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    footnotes = "".join(f"\n\n{inline(footnote)}" for footnote in table.footnotes)
    return f"{inline(table.caption)}\n\n{text}{footnotes}"


def _footer_cells(table: blocks.Table, row: Sequence[blocks.Cell]) -> list[str]:
    cells = []
    for cell, column in zip(row, table.columns, strict=True):
        number_format = "count" if isinstance(cell, int) else column.format
        cells.append(escape(formats.cell_text(cell, number_format)))
    if isinstance(row[0], str):
        cells[0] = f"*{cells[0]}*"
    return cells


def _cell(table: blocks.Table, row_number: int, column_number: int, cell: blocks.Cell) -> str:
    column = table.columns[column_number]
    text = formats.cell_text(cell, column.format)
    if isinstance(cell, str) and column.format == "code":
        return code_span(text).replace("|", "\\|") if text.strip() else ""
    content = escape(text) if not column.numeric else text
    if (row_number, column_number) in table.best_cells:
        head, _, tail = content.partition(" ")
        content = f"**{head}** {tail}".rstrip()
    if isinstance(cell, blocks.Estimate):
        content += MARKS[cell.mark]
    if isinstance(cell, blocks.ModelName) and cell.note:
        content += f" *({escape(cell.note)})*"
    return content
