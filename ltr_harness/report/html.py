"""One self-contained HTML file: nothing is fetched, and nothing that comes from data can run.

The template escapes everything, chart data cannot close their element, and only the page's own two scripts may run.
"""

import base64
import gzip
import hashlib
import json
import logging
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ltr_harness._util.number_text import number_text
from ltr_harness.errors import Caution
from ltr_harness.report import blocks, formats
from ltr_harness.report.chart_engine import EngineError, vega_bundle
from ltr_harness.report.charts import PALETTE, colour_of, theme

if TYPE_CHECKING:
    import jinja2


log = logging.getLogger(__name__)

_TEMPLATES = Path(__file__).parent / "templates"


class CellView(NamedTuple):
    """A cell as the template needs it."""

    kind: str  # "value", "model", "badge", "link", "trend"
    text: str
    around: str = ""  # the interval, set smaller
    mark: str = ""
    sort: str = ""
    best: bool = False
    code: bool = False
    tone: str = ""
    colour: str = ""
    note: str = ""
    href: str = ""
    numeric: bool = False
    plot: dict[str, float] | None = None  # where an estimate lies on its column's axis, in percent

    def classes(self, in_drawn_table: bool) -> str:
        """Return the classes of its element; numbers have none, as most cells are numbers."""
        names = [] if self.numeric else ["words"]
        if self.plot:
            names.append("drawn")
        elif in_drawn_table and self.sort == "":
            names.append("none")
        return " ".join(names)

    @property
    def bare(self) -> bool:
        """True where a cell is nothing but its text."""
        return self.kind == "value" and not (
            self.around or self.mark or self.best or self.code or "`" in self.text
        )


def render(report: blocks.Report) -> str:
    """Return the text of the page."""
    page_blocks = (block for section in report.sections for block in blocks.walk(section.blocks, page=True))
    charts = {block.name: block.spec for block in page_blocks if isinstance(block, blocks.Chart)}
    script = _template_text("copy.js") + _template_text("report.js")
    library = undrawn = ""
    if charts:
        try:
            library = vega_bundle()
        except EngineError as problem:
            undrawn = str(problem)
            text = f"report.html has descriptions instead of charts: {undrawn}"
            log.warning(Caution("undrawn-charts", "note", text))
    # only these scripts run, by digest; nothing is loaded from anywhere
    digests = [hashlib.sha256(code.encode()).digest() for code in (script, library) if code]
    allowed = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    policy = (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    # follows the page's CSS variables; marks have no words of their own: the page says each chart as a whole
    own_theme = {}
    if report.facts:
        own_theme = {**theme("var(--ink)", "var(--muted)", "var(--line)", "transparent"), "aria": False}
    template = _environment().get_template("page.html.jinja")
    return template.render(
        report=report,
        css=f"{_template_text('report.css')}\n{_colour_rules()}",
        script=script,
        library=compressed(library),
        undrawn=undrawn,
        policy=policy,
        charts_json=safe_json({"specs": charts, "theme": own_theme}),
    )


def render_blocks(content: Sequence[blocks.Block]) -> str:
    """Return blocks for the page of another program, such as a notebook, with a style that stays with them.

    Charts are left out: the program that draws them belongs to our page.
    """
    template = _environment().get_template("notebook.html.jinja")
    css = f"{_template_text('notebook.css')}\n{_colour_rules('.ltr-harness ')}"
    without_charts = [block for block in content if not isinstance(block, blocks.Chart)]
    return template.render(content=without_charts, css=css)


def warm_up() -> None:
    """Load the charts' program and the report's templates ahead of time."""
    with suppress(EngineError):  # raised again where a page is rendered
        compressed(vega_bundle())
    for name in ("page.html.jinja", "blocks.html.jinja"):
        _environment().get_template(name)


@cache
def _environment() -> "jinja2.Environment":
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        spans=blocks.spans,
        plain=_attribute_text,
        cells=table_views,
        cell_text=formats.cell_text,
        row_colour=row_colour,
        scale=scale,
        signs=_with_signs,
    )
    return environment


def table_views(table: blocks.Table) -> list[list[CellView]]:
    return [
        [
            _view(cell, column, (row_number, column_number) in table.best_cells)
            for column_number, (cell, column) in enumerate(zip(row, table.columns, strict=True))
        ]
        for row_number, row in enumerate(table.rows)
    ]


def row_colour(row: Sequence[CellView]) -> str:
    """Return the class with the colour of a row's first model; "" where it names none."""
    return next((view.colour for view in row if view.kind == "model"), "")


def _view(cell: blocks.Cell, column: blocks.Column, best: bool) -> CellView:
    text = formats.cell_text(cell, column.format)
    view = CellView("value", text, sort=_sort_text(cell, column.format), numeric=column.numeric)
    match cell:
        case blocks.ModelName(colour=colour, note=note):
            return view._replace(kind="model", best=best, colour=_colour_class(colour), note=note)
        case blocks.Badge(tone=tone):
            return view._replace(kind="badge", tone=tone)
        case blocks.Link(href=href):
            return view._replace(kind="link", href=href)
        case blocks.Trend():
            return view._replace(kind="trend", numeric=False)
        case blocks.Estimate(value=value, low=low, high=high, mark=mark):
            around = _with_minus_signs(formats.interval(low, high, column.format))
            text = _with_minus_signs(number_text(value, column.format))
            plot = None if column.axis is None else _axis_positions(cell, column.axis)
            return view._replace(text=text, around=around, mark=mark, best=best, plot=plot)
        case _:
            text = _with_minus_signs(text) if column.numeric else text
            return view._replace(text=text, best=best, code=column.format == "code")


def _sort_text(cell: blocks.Cell, number_format: blocks.Format) -> str:
    """Return the key by which a cell is ordered: means and differences with every digit, which copies have too."""
    key = blocks.sort_value(cell)
    if key is None:
        return ""
    has_every_digit = number_format in ("metric", "difference") or not isinstance(key, float)
    return str(key) if has_every_digit else f"{key:.9g}"


def _colour_rules(scope: str = "") -> str:
    """Return the style of rows in the colour of each number; rings where a hue is there for the second time."""
    rules = [f"{scope}.m{number} {{ --swatch: {colour_of(number)}; }}" for number in range(len(PALETTE) + 1)]
    ring = "background: none; border: .15rem solid var(--swatch); box-sizing: border-box;"
    return "\n".join([*rules, f"{scope}.again .model::before {{ {ring} }}"])


def _colour_class(number: int) -> str:
    if number <= len(PALETTE):
        return f"m{number}"
    return f"m{(number - 1) % len(PALETTE) + 1} again"


def _axis_positions(cell: blocks.Estimate, axis: tuple[float, float]) -> dict[str, float] | None:
    """Return the places of an estimate and its ends in percent of the axis; None where there is nothing to draw."""
    numbers = {"value": cell.value, "low": cell.low, "high": cell.high, "zero": 0.0}
    if any(number is None or math.isnan(number) for number in numbers.values()):
        return None
    start, end = axis
    return {
        name: round(100 * min(max((float(number or 0) - start) / (end - start), 0.0), 1.0), 2)
        for name, number in numbers.items()
    } | {"beyond": float(cell.value > end) - float(cell.value < start)}


def scale(axis: tuple[float, float]) -> list[tuple[float, str]]:
    """Return the place in percent, and the text, of an axis' marks: zero, and a round number on either side."""
    start, end = axis
    longest = max(-start, end)
    unit = 10.0 ** math.floor(math.log10(longest))
    step = next((multiple for multiple in (5 * unit, 2 * unit, unit) if multiple <= longest), unit)
    marks = []
    for number, text in ((-step, f"{-step:+g}"), (0.0, "0"), (step, f"{step:+g}")):
        if start <= number <= end:
            short = _with_minus_signs(text).replace("0.", ".")
            marks.append((100 * (number - start) / (end - start), short))
    return marks


def _with_minus_signs(text: str) -> str:
    """Return text with minus signs as wide as the plus.

    Dates, exponents, and names such as that of the run folder "lgbm--all--s1--0d97ac5b5154" keep their hyphens.
    """
    return re.sub(r"(?<![\w-])-(?=\.?\d)", "−", text)


def _with_signs(text: str) -> str:
    """Return prose with the minus signs and arrows of tables."""
    return _with_minus_signs(text).replace("->", "→")


def _attribute_text(text: blocks.Text) -> str:
    """Return a text for an attribute, which has no styles."""
    return _with_signs("".join(span.text for span in blocks.spans(text)))


@cache
def _template_text(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")


@cache
def compressed(library: str) -> str:
    """Return a script as base64 of gzip, a third of its size: the page unpacks it when it draws its first chart."""
    return base64.b64encode(gzip.compress(library.encode(), mtime=0)).decode() if library else ""


def safe_json(value: Mapping[str, Any]) -> str:
    """Return JSON for a ``<script>`` element: no character in it can end the element or a line of JavaScript."""
    text = json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False, allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
