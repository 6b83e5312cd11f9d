"""One self-contained HTML file: nothing is fetched, and nothing that comes from data can run.

Three things keep names from data harmless: the template escapes everything, chart data travel as JSON that
cannot close its element, and a Content-Security-Policy lets only the page's own two scripts run.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ltr_harness.report.blocks import (
    Badge,
    Cell,
    Chart,
    Estimate,
    Link,
    ModelName,
    Table,
    plain,
    sort_value,
    spans,
    walk,
)
from ltr_harness.report.charts import colour_of, page_theme
from ltr_harness.report.engine import EngineError
from ltr_harness.report.formats import cell_text, interval, value_text
from ltr_harness.report.vega import vega_bundle

if TYPE_CHECKING:
    import jinja2

    from ltr_harness.report.blocks import Page, Report

log = logging.getLogger(__name__)

_TEMPLATES = Path(__file__).parent / "templates"


class CellView(NamedTuple):
    """A cell as the template needs it."""

    kind: str  # "value", "model", "badge", "link"
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

    @property
    def bare(self) -> bool:
        """Whether its text is all there is to it."""
        return self.kind == "value" and not (self.around or self.mark or self.best or self.code)


def render(report: Report) -> str:
    """The page's text."""
    blocks = (block for section in report.sections for block in walk(section.blocks, page=True))
    charts = {block.name: block.spec for block in blocks if isinstance(block, Chart)}
    scripts = [_page_script()]
    undrawn = ""
    if charts:
        try:
            scripts.insert(0, vega_bundle())
        except EngineError as problem:
            undrawn = str(problem)
            log.warning("report.html has descriptions in place of its charts: %s", undrawn)
    return (
        _environment()
        .get_template("report.html.jinja")
        .render(
            report=report,
            css=_file("report.css"),
            scripts=scripts,
            undrawn=undrawn,
            policy=content_security_policy(scripts),
            charts_json=safe_json({"specs": charts, "theme": page_theme()}),
        )
    )


def render_page(page: Page) -> str:
    """A page of sections without runs behind it, in the same look."""
    scripts = [_page_script()]
    return (
        _environment()
        .get_template("page.html.jinja")
        .render(page=page, css=_file("report.css"), scripts=scripts, policy=content_security_policy(scripts))
    )


def warm_up() -> None:
    """Have the charts' program and the report's templates ready ahead of time."""
    with suppress(EngineError):  # who renders a page is told
        vega_bundle()
    for name in ("report.html.jinja", "blocks.html.jinja"):
        _environment().get_template(name)


@cache
def _environment() -> jinja2.Environment:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(spans=spans, plain=plain, cells=table_views, footer_cells=footer_views)
    return environment


# ---- tables ---------------------------------------------------------------------------------------------


def table_views(table: Table) -> list[list[CellView]]:
    return [
        [_view(cell, table, at, table.is_best(number, at)) for at, cell in enumerate(row)]
        for number, row in enumerate(table.rows)
    ]


def footer_views(table: Table) -> list[list[str]]:
    return [[cell_text(cell, "count") for cell in row] for row in table.footer]


def _view(cell: Cell, table: Table, at: int, best: bool) -> CellView:
    column = table.columns[at]
    numeric, value = column.numeric, sort_value(cell)
    sort = "" if value is None else str(value)
    match cell:
        case ModelName(name=name, colour=colour, note=note):
            colour_text = colour_of(colour)
            return CellView(
                "model", name, sort=sort, best=best, colour=colour_text, note=note, numeric=numeric
            )
        case Badge(text=text, tone=tone):
            return CellView("badge", text, sort=sort, tone=tone, numeric=numeric)
        case Link(text=text, href=href):
            return CellView("link", text, sort=sort, href=href, numeric=numeric)
        case Estimate():
            signed = column.format == "difference"
            return CellView(
                "value",
                _minus(value_text(cell.value, column.format)),
                around=_minus(interval(cell.low, cell.high, signed=signed)),
                mark=cell.mark,
                sort=sort,
                best=best,
                numeric=numeric,
            )
        case _:
            text = cell_text(cell, column.format)
            shown = _minus(text) if numeric else text
            return CellView(
                "value", shown, sort=sort, best=best, code=column.format == "code", numeric=numeric
            )


def _minus(text: str) -> str:
    """A minus sign as wide as the plus, so that signed numbers line up; a date keeps its hyphens."""
    return re.sub(r"(?<!\d)-(?=\d)", "−", text)


# ---- scripts --------------------------------------------------------------------------------------------


@cache
def _file(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")


def _page_script() -> str:
    return _file("copy.js") + _file("report.js")


def content_security_policy(scripts: list[str]) -> str:
    """Only these scripts run, by digest; nothing is loaded from anywhere."""
    digests = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
        for script in scripts
    )
    return (
        f"default-src 'none'; script-src {digests}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def safe_json(value: Mapping[str, Any]) -> str:
    """JSON for a ``<script>`` element: no character in it can end the element or a line of JavaScript.

    Example:
        >>> safe_json({"name": "</script>"})
        '{"name":"\\\\u003c/script\\\\u003e"}'
    """
    text = json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False, allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
