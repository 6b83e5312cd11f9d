"""The page in a real browser, with the network off, and the checks of ``scripts/pages``."""

from __future__ import annotations

import csv
import dataclasses
import io
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from ltr_harness import agreement
from ltr_harness.comparison.contrasts import SystemResult
from ltr_harness.data.judgments import Judgments
from ltr_harness.data.queries import QueryGroups
from ltr_harness.report import ReportData, build_report, html, write_report
from ltr_harness.report import run_index as experiments
from ltr_harness.report.blocks import Report, Section
from ltr_harness.report.online_agreement import agreement_page
from ltr_harness.report.run_index import read_experiments
from ltr_harness.report.stored_scores import TestRows
from ltr_harness.report.writing import catalog
from tests.conftest import without_charts
from tests.experiments.compare.test_online_agreement import world

SHOWN = ".plot:not([hidden] *)"
DRAWN = f"document.querySelectorAll('{SHOWN}').length === document.querySelectorAll('{SHOWN} svg').length"

pytestmark = [
    pytest.mark.long,
    # The driver's own event loop closes its sockets when the process ends.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]


def page_of(report: Report, folder: Path) -> Path:
    """Write the page alone: pictures and tables in files take as long again."""
    path = folder / "report.html"
    path.write_text(html.render(report), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def report_path(report: Report, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return page_of(report, tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="module")
def text_path(report_path: Path) -> Path:
    return without_charts(report_path)


@pytest.fixture(scope="module")
def short_path(data: ReportData, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of a few sections, which is loaded in half the time."""
    few = dataclasses.replace(data, sections=("verdict", "metrics", "paired", "distribution"))
    return page_of(build_report(few), tmp_path_factory.mktemp("short"))


SCREEN = {"width": 1280, "height": 900}
WHITE, BLACK = "rgb(255, 255, 255)", "rgb(20, 23, 27)"
QUICK = {"draws": 200, "with_runs": False}

# What a reader can change of a page: all but the charts' insides, the place of the focus and what follows scrolling.
STATE = """(() => {
  const page = document.documentElement.cloneNode(true);
  for (const plot of page.querySelectorAll(".plot")) plot.replaceChildren(plot.childElementCount);
  for (const one of page.querySelectorAll("script, style, .copy")) one.remove();  // what copies says so for a moment
  const html = page.outerHTML.replaceAll(/ (class|aria-pressed|aria-current)="(false|true)?"/g, "");
  return [html, innerWidth, innerHeight, localStorage.length].join();
})()"""
CALM = """(async () => {
  try { localStorage.clear(); } catch { return; /* the blank page */ }
  scrollTo(0, 0);
  document.activeElement.blur();
  for (const one of document.querySelectorAll(".table, nav ol")) one.scrollLeft = 0;
  await new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go)));
})()"""


DEFECTS = """<!doctype html><html><head><title>All defects</title></head><body style="margin:0"><main><h1>All</h1>
<div style="height:900px">far down:</div><h2 class="banner" style="margin:0">the answer</h2>
<p id="wide" style="width:3000px">too wide</p>
<div style="overflow:auto; width:90px" tabindex="0"><p style="width:3000px">held by a box that scrolls</p></div>
<p id="cut" style="overflow:hidden; width:30px; white-space:nowrap">a long label</p>
<details><summary>folded</summary><div class="plot" id="chart">
<svg width="100" height="30"><text x="90" y="12">beyond it</text><text x="1" y="25">short…</text></svg></div></details>
<div style="height:20000px">many sheets</div>
<script>console.error("oh"); new Image().src = "http://127.0.0.1:9/x.png";</script></main></body></html>"""


@pytest.fixture(scope="module")
def pages(script: Callable[[str], ModuleType]) -> ModuleType:
    """``scripts/pages``."""
    pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe-playwright-python")
    return script("pages")


@pytest.fixture(scope="module")
def window(browser: Any) -> Iterator[Any]:
    """One window for all tests: another one costs a second."""
    allowed = ["clipboard-read", "clipboard-write"]
    context = browser.new_context(offline=True, viewport=SCREEN, permissions=allowed)
    yield context.new_page()
    context.close()


@pytest.fixture(scope="module")
def page_states() -> dict[Path, str]:
    """The state of each page when it was new."""
    return {}


@pytest.fixture
def open_page(window: Any, page_states: dict[Path, str]) -> Iterator[Callable[..., Any]]:
    """Show a file without a network; when the test ends, the console must have been silent.

    A page that the test before has left as it was is not loaded again: most of what this file costs is the loading.
    """
    ends: list[Callable[[], None]] = []
    said: list[str] = []

    def listen(event: str, listener: Callable[[Any], None]) -> None:
        window.on(event, listener)
        ends.append(lambda: window.remove_listener(event, listener))

    def open_it(path: Path, *, anew: bool = False) -> Any:
        window.emulate_media(media="null", color_scheme="null")
        listen("console", lambda message: said.append(f"{message.type}: {message.text}"))
        listen("pageerror", lambda error: said.append(f"error: {error}"))
        listen("request", lambda asked: said.extend([asked.url] if asked.url != path.as_uri() else []))
        window.evaluate(CALM)
        if anew or window.url != path.as_uri() or window.evaluate(STATE) != page_states.get(path):
            window.set_viewport_size(SCREEN)
            window.goto(path.as_uri())
            wait_until(window, DRAWN)
            page_states[path] = window.evaluate(STATE)
        return window

    yield open_it
    for end in ends:
        end()
    assert [line for line in said if not line.startswith("data:")] == []


def wait_until(page: Any, expression: str, seconds: float = 30) -> None:
    """Wait for a condition by asking from outside: the page's policy forbids evaluating text inside it."""
    end = time.monotonic() + seconds
    while not page.evaluate(expression):
        assert time.monotonic() < end, f"still not: {expression}"
        page.wait_for_timeout(20)


def column(page: Any, table: str, at: int) -> list[str]:
    cells = page.locator(f"#table-{table} tbody tr > :nth-child({at})")
    return [text.strip() for text in cells.all_inner_texts()]


def unfold(page: Any) -> None:
    """Open every section, as a reader who wants them all would."""
    page.evaluate("document.querySelectorAll('section > details').forEach((one) => { one.open = true; })")


def background(page: Any) -> str:
    return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))


def test_every_chart_is_drawn(report_path: Path, open_page: Callable[..., Any]) -> None:
    page = open_page(report_path)
    assert page.locator(".plot svg").count() == 6
    assert page.locator("#chart-paired_differences svg path").count() > 4


def test_dark_follows_the_system_and_the_button(report_path: Path, open_page: Callable[..., Any]) -> None:
    page = open_page(report_path)
    label = "getComputedStyle(document.querySelector('#chart-difference_over_k text')).fill"
    seen = {}
    for system, found, other in (("light", WHITE, BLACK), ("dark", BLACK, WHITE)):
        page.emulate_media(color_scheme=system)
        assert background(page) == found
        page.locator("#theme").click()
        assert background(page) == other
        seen[other] = page.evaluate(label)
        page.evaluate("delete document.documentElement.dataset.theme")
    assert seen[WHITE] != seen[BLACK]


def test_a_picked_model_stands_out_everywhere(report_path: Path, open_page: Callable[..., Any]) -> None:
    page = open_page(report_path)
    faint = "document.querySelectorAll('#chart-value_distribution .mark-rect path[opacity=\"0.1\"]').length"
    assert page.evaluate(faint) == 0
    page.locator("#table-fixed_k button.model").first.click()
    wait_until(page, f"{faint} > 0")
    assert page.locator("#table-metrics tr.picked").count() == 1
    assert page.locator("#table-metrics button.model[aria-pressed=true]").count() == 1
    page.keyboard.press("Escape")
    wait_until(page, f"{faint} === 0")
    assert page.locator("tr.picked").count() == 0


def test_charts_zoom_with_the_key_and_the_page_scrolls_without(
    report_path: Path, open_page: Callable[..., Any]
) -> None:
    page = open_page(report_path)
    unfold(page)
    chart = page.locator("#chart-paired_differences .plot")
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    texts = "[...document.querySelectorAll('#chart-paired_differences .role-axis-label text')]"
    labels = f"{texts}.map(t => t.textContent).sort().join()"  # their order is the renderer's business
    before, top = page.evaluate(labels), page.evaluate("scrollY")
    page.mouse.move(box["x"] + box["width"] * 0.7, box["y"] + box["height"] / 2)
    page.mouse.wheel(0, 300)
    page.wait_for_timeout(400)
    assert page.evaluate("scrollY") > top
    assert page.evaluate(labels) == before
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.7, box["y"] + box["height"] / 2)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -300)
    page.keyboard.up("Control")
    wait_until(page, f"{labels} !== {before!r}", seconds=5)
    page.mouse.dblclick(box["x"] + box["width"] * 0.7, box["y"] + box["height"] / 2)
    wait_until(page, f"{labels} === {before!r}", seconds=5)


def test_what_is_printed_fits_the_sheet(report_path: Path, open_page: Callable[..., Any]) -> None:
    page = open_page(report_path)
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 703, "height": 1000})  # A4 between its margins; charts stay as drawn
    widths = page.evaluate("[...document.querySelectorAll('.plot svg')].map((one) => one.clientWidth)")
    assert max(widths) <= 703
    assert page.locator("#table-fixed_k").bounding_box()["width"] <= 703
    after = "(one) => getComputedStyle(one).breakAfter"
    assert {page.locator(kind).first.evaluate(after) for kind in ("h2", "dt", "caption")} == {"avoid"}


def test_no_width_scrolls_sideways_and_charts_are_no_wider_than_their_place(
    report_path: Path, open_page: Callable[..., Any]
) -> None:
    page = open_page(report_path)
    wider = "[...document.querySelectorAll('.plot')].filter((plot) => plot.scrollWidth > plot.clientWidth)"
    for width in (1280, 320, 480, 1920):
        if width != SCREEN["width"]:
            page.set_viewport_size({"width": width, "height": 800})
            page.wait_for_timeout(400)  # charts are redrawn a moment after the last change
        wait_until(page, DRAWN)
        wait_until(page, f"document.documentElement.scrollWidth <= {width}", seconds=5)
        assert page.locator("#table-fixed_k").is_visible()
        if width in (1280, 480):  # on narrower ones a chart is scrolled in its place
            wait_until(page, f"{wider}.length === 0", seconds=10)
        assert page.locator(".plot svg").count() == 6


def test_every_chart_is_drawn_once(report_path: Path, report: Report, open_page: Callable[..., Any]) -> None:
    page = open_page(report_path)
    count = """embed => { const draw = window.vegaEmbed; window.drawn = [];
        window.vegaEmbed = (plot, ...how) => { window.drawn.push(plot.dataset.chart); return draw(plot, ...how); }; }"""
    unfold(page)
    wait_until(page, DRAWN)
    page.evaluate(count)
    page.set_viewport_size({"width": 1290, "height": 900})  # charts are drawn again
    names = page.locator(SHOWN).evaluate_all("plots => plots.map(one => one.dataset.chart)")
    wait_until(page, f"window.drawn.includes({names[-1]!r})")
    page.wait_for_timeout(100)
    assert page.evaluate("window.drawn") == names
    hidden = page.locator(".plot svg").evaluate_all("all => all.map(one => one.getAttribute('aria-hidden'))")
    assert set(hidden) == {"true"}
    # the library calls each place "Vega visualization"
    said = page.locator(SHOWN).evaluate_all("plots => plots.map(one => one.getAttribute('aria-label'))")
    written = {chart.name: chart.text for chart in report.charts}
    with_minus_signs = [re.sub(r"(?<=[ \[])-(?=\d)", "−", written[name]) for name in names]  # as in tables
    assert said == with_minus_signs
    assert set(page.locator(SHOWN).evaluate_all("all => all.map(one => one.getAttribute('role'))")) == {"img"}


def test_the_first_screen_answers(text_path: Path, open_page: Callable[..., Any], data: ReportData) -> None:
    """Status, headline, and every model's verdict, mean and difference: in view, without scrolling either way."""
    page = open_page(text_path)
    banner = page.locator("#verdict .banner")
    region = "document.querySelector('#table-fixed_k').parentElement"
    for width, height, scheme in ((1280, 800, "light"), (768, 1024, "dark"), (400, 900, "light")):
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": height})
        assert banner.inner_text().replace("−", "-").endswith(data.comparison.headline.text)
        assert banner.locator(".badge").is_visible()
        box = page.locator("#table-fixed_k").bounding_box()
        assert box["y"] + box["height"] <= height
        assert page.evaluate(f"{region}.scrollWidth") <= page.evaluate(f"{region}.clientWidth")
        for pair in map(data.comparison.paired, data.rivals):
            row = page.locator("#table-fixed_k tbody tr", has_text=pair.model)
            assert pair.verdict in row.inner_text()
            assert f"{pair.difference:+.4f}".replace("-", "−") in row.inner_text()
            assert row.locator(".whisker").is_visible()


def test_print_is_light_and_without_navigation(text_path: Path, open_page: Callable[..., Any]) -> None:
    page = open_page(text_path)
    page.emulate_media(color_scheme="dark")
    assert background(page) == BLACK
    page.emulate_media(media="print", color_scheme="dark")
    assert background(page) == WHITE
    assert not page.locator("nav").is_visible()


def test_what_is_open_is_printed_and_all_at_a_click(
    text_path: Path, open_page: Callable[..., Any], pages: ModuleType
) -> None:
    page = open_page(text_path)
    page.evaluate("window.print = () => { window.printed = document.documentElement.dataset.print; }")
    n_open = pages.n_sheets(page)
    assert n_open <= pages.MOST_SHEETS
    page.get_by_role("button", name="Print all").click()
    assert page.evaluate("window.printed") == "all"
    page.evaluate("document.documentElement.dataset.print = 'all'")  # a print has ended, which takes it away
    assert pages.n_sheets(page) > 2 * n_open


def test_a_section_is_folded_unless_its_finding_matters(
    text_path: Path, open_page: Callable[..., Any]
) -> None:
    page = open_page(text_path)
    for one in page.locator("section.folded").all():
        matters = one.locator("summary .finding.matters").count() == 1
        assert one.evaluate("section => section.firstElementChild.open") == matters
    slices = page.locator("#slices details").first
    slices.evaluate("one => { one.open = false; }")
    page.locator("nav a[href='#slices']").click()
    wait_until(page, "document.querySelector('#slices details').open")


def test_a_table_wider_than_the_page_and_the_strip_of_sections_say_so(
    text_path: Path, open_page: Callable[..., Any]
) -> None:
    page = open_page(text_path)

    def frame(table: str) -> Any:
        return page.locator(".framed", has=page.locator(f"#table-{table}"))

    def words(table: str) -> str:
        return str(frame(table).locator(".copy").evaluate("bar => getComputedStyle(bar, '::before').content"))

    def shade(table: str) -> str:
        return str(frame(table).evaluate("one => getComputedStyle(one, '::after').content"))

    unfold(page)
    strip = "getComputedStyle(document.querySelector('nav'), '::after').content"
    assert page.evaluate(strip) == "none"
    assert (words("fixed_k"), shade("fixed_k")) == ("none", "none")
    assert frame("fixed_k").get_by_role("region").get_attribute("aria-label").endswith("lgbm-lambdarank")
    # it takes the room below the names of the sections, and in a narrower window that is not enough
    assert frame("metrics").bounding_box()["x"] < page.locator("main").bounding_box()["x"]
    assert words("metrics") == "none"
    page.set_viewport_size({"width": 1000, "height": 900})
    wait_until(page, "document.querySelector('.hidden-right #table-metrics') !== null")
    assert (words("metrics"), shade("metrics")) == ('"more columns →"', '""')
    region = frame("metrics").get_by_role("region")
    assert region.get_attribute("aria-label").endswith("within a column. (scrolls sideways)")
    assert region.get_attribute("tabindex") == "0"
    firsts = [row.locator("th, td").first for row in frame("metrics").locator("tr").all()]
    lefts = [cell.bounding_box()["x"] for cell in firsts]
    region.evaluate("area => { area.scrollLeft = area.scrollWidth; }")
    wait_until(page, "document.querySelector('.hidden-left #table-metrics') !== null")
    assert (words("metrics"), shade("metrics")) == ("none", "none")
    assert [cell.bounding_box()["x"] for cell in firsts] == lefts
    page.set_viewport_size({"width": 400, "height": 900})
    wait_until(page, "document.querySelector('.hidden-right #table-seeds') !== null")
    assert words("seeds") == '"more columns →"'
    assert words("fixed_k") == "none"  # its rows stand below each other there
    wait_until(page, f"{strip} === '\"\"'", seconds=5)
    assert page.locator("nav").evaluate("one => getComputedStyle(one, '::after').top") == "0px"
    page.evaluate("document.querySelector('nav ol').scrollLeft = 9999")
    wait_until(page, f"{strip} === 'none'", seconds=5)


def test_the_keyboard_reaches_everything(text_path: Path, open_page: Callable[..., Any]) -> None:
    page = open_page(text_path, anew=True)  # from where a page begins
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the verdict"
    wanted, reached = {"model", "table", "BUTTON", "A"}, set()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.className || document.activeElement.tagName"))
        if wanted <= reached:
            return
    pytest.fail(f"the keyboard reaches only {reached}")


def test_what_was_opened_is_open_the_next_time(text_path: Path, open_page: Callable[..., Any]) -> None:
    page = open_page(text_path)
    table = page.locator("#table-metrics_intervals")
    assert not table.is_visible()
    page.locator("#metrics > details > summary").click()
    page.get_by_text("The same with intervals").click()
    assert table.is_visible()
    wait_until(page, "localStorage.length === 1")
    page.reload()
    assert table.is_visible()
    assert not page.locator("#cutoffs > details").evaluate("one => one.open")
    for no_such_list in ("[1, null, {}", "[1, null, {}]"):
        page.evaluate("text => localStorage.setItem('ltr-harness: ' + document.title, text)", no_such_list)
        page.reload()
        assert not table.is_visible()
    wait_until(page, DRAWN)


def test_a_table_is_copied_in_three_forms(
    text_path: Path, open_page: Callable[..., Any], data: ReportData
) -> None:
    page = open_page(text_path)
    bar = page.locator(".framed", has=page.locator("#table-fixed_k")).locator(".copy")

    def copy_by_button(name: str) -> str:
        bar.get_by_role("button", name=name).click()
        page.wait_for_timeout(100)
        return str(page.evaluate("navigator.clipboard.readText()"))

    pair, summary = data.paired(data.models[0], data.primary), data.comparison.summary(data.models[0])
    assert pair is not None
    rows = list(csv.reader(io.StringIO(copy_by_button("CSV"))))
    assert rows[0][:6] == [
        "Model",
        "Verdict",
        f"ndcg@10 [{data.confidence_label} CI]",
        *[f"ndcg@10 [{data.confidence_label} CI] {end}" for end in ("low", "high")],
        f"Difference [{data.interval_label()}]",
    ]
    assert rows[1][0] == data.models[0]
    assert rows[1][1] == pair.verdict
    assert float(rows[1][2]) == summary.mean  # every digit
    assert float(rows[1][3]) == pytest.approx(summary.ci_low, abs=5e-5)
    assert float(rows[1][7]) == pytest.approx(pair.ci_high, abs=5e-5)
    text = copy_by_button("Markdown").splitlines()
    assert len(text) == 2 + len(data.models)
    assert text[2].startswith(
        f"| {data.models[0]} | {pair.verdict} | **{summary.mean:.4f}** \\[{summary.ci_low:.4f}, "
    )
    tex = copy_by_button("LaTeX")
    assert rf"\textbf{{{summary.mean:.4f}}}" in tex
    assert tex.count(r" \\") == 1 + len(data.models)


def test_tables_sort_by_number_both_ways(
    text_path: Path, open_page: Callable[..., Any], data: ReportData
) -> None:
    page = open_page(text_path)
    head = page.locator("#table-fixed_k thead th").nth(2)
    best_first = list(data.models)

    def names() -> list[str]:
        return [text.split()[0] for text in column(page, "fixed_k", 1)]

    assert names() == best_first
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    assert names() == best_first
    head.locator("button").press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    assert names() == best_first[::-1]
    page.locator("#table-fixed_k thead th").nth(4).locator("button").click()
    assert head.get_attribute("aria-sort") is None
    assert names()[-1] == data.baseline  # it has no p-value; what is missing stays last
    page.locator("#table-fixed_k thead th").nth(4).locator("button").click()
    assert names()[-1] == data.baseline


def test_the_distribution_of_another_metric_can_be_chosen(
    short_path: Path, open_page: Callable[..., Any]
) -> None:
    page = open_page(short_path)
    select = page.get_by_role("combobox", name="Metric", exact=True)
    assert select.locator("option").all_inner_texts() == [
        "ndcg@10",
        "mrr@10",
        "err(max_grade=4)@10",
        "map@10",
    ]
    assert not page.locator("#table-distribution_mrr_10").is_visible()
    select.focus()
    page.keyboard.press("ArrowDown")
    assert page.locator("#table-distribution_mrr_10").is_visible()
    wait_until(page, DRAWN)
    assert page.locator("#chart-value_distribution_mrr_10 svg .mark-rect path").count() > 10
    assert page.locator(".plot svg").count() == 4  # what is not chosen is not drawn
    page.emulate_media(media="print")
    visible = [
        name
        for name in ("distribution", "distribution_mrr_10")
        if page.locator(f"#table-{name}").is_visible()
    ]
    assert visible == ["distribution_mrr_10"]
    assert not select.is_visible()


@pytest.fixture(scope="module")
def hostile_path(hostile_report: Report, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return page_of(hostile_report, tmp_path_factory.mktemp("hostile"))


def test_copied_names_are_no_formulas(hostile_path: Path, open_page: Callable[..., Any]) -> None:
    page = open_page(hostile_path)
    bar = page.locator(".framed", has=page.locator("#table-fixed_k")).locator(".copy")
    bar.get_by_role("button", name="CSV").click()
    page.wait_for_timeout(100)
    rows = list(csv.reader(io.StringIO(str(page.evaluate("navigator.clipboard.readText()")))))
    assert {len(row) for row in rows} == {len(rows[0])}
    assert "'=1+1" in [row[0] for row in rows]
    assert not [cell for row in rows for cell in row if cell.startswith("=")]


def test_hostile_names_run_nothing(
    hostile_path: Path, hostile_names: list[str], open_page: Callable[..., Any]
) -> None:
    page = open_page(hostile_path)
    page.on("dialog", lambda dialog: pytest.fail(f"a name opened a dialog: {dialog.message}"))
    page.locator("#table-fixed_k button.model").evaluate_all("all => all.forEach((one) => one.click())")
    assert page.locator("#table-fixed_k button.model[aria-pressed=true]").count() == len(hostile_names)
    unfold(page)
    page.locator("#chart-value_distribution .mark-rect path").first.hover()
    page.wait_for_selector("#vg-tooltip-element.visible")
    assert page.evaluate("window.pwned") is None
    assert page.title() == hostile_names[1]
    assert page.locator("img").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280


class MadeRows(TestRows):
    """Rows whose scores are their place."""

    def scores(self, model: str, replicate: int = 0) -> Any:
        return np.arange(self.judgments.groups.n_rows, dtype=float)


def test_hostile_queries_documents_and_attributes_run_nothing(
    make_data: Callable[..., ReportData],
    make_system: Callable[..., SystemResult],
    hostile_names: list[str],
    open_page: Callable[..., Any],
    tmp_path: Path,
) -> None:
    n = 6 * len(hostile_names)
    strange = np.array([f"{name}{at}" for at in range(6) for name in hostile_names])
    systems = [
        dataclasses.replace(
            make_system(name, 0.1 * at, n=n, empty=0, metrics=["ndcg@10"]),
            query_ids=strange,
            query_attributes={name: np.repeat(np.array(hostile_names), 6) for name in hostile_names},
        )
        for at, name in enumerate("AB")
    ]
    data = make_data(systems=systems, draws=200)
    groups = QueryGroups.from_sizes([3] * n)
    documents = np.array([f"{name}{row}" for name in strange for row in range(3)])
    judgments = Judgments.checked(np.tile([0, 1, 2], n), groups, document_ids=documents)
    places = {query: at for at, query in enumerate(strange.tolist())}
    rows = MadeRows(judgments, places, np.arange(n), dict.fromkeys("AB", ((),)))
    data.__dict__["rows"] = rows  # in place of what run folders would hold
    page = open_page(write_report(data, tmp_path, ["html"]))
    page.on("dialog", lambda dialog: pytest.fail(f"a name opened a dialog: {dialog.message}"))
    for details in page.locator("details").all():
        details.evaluate("element => { element.open = true; }")
    assert page.locator("#table-lists_1 tbody tr").count() == 3
    assert page.locator("#table-slices tbody tr").count() > 3
    assert page.evaluate("window.pwned") is None
    assert page.locator("img").count() == 0


def test_tables_of_many_columns_are_printed_whole(
    make_data: Callable[..., ReportData],
    make_system: Callable[..., SystemResult],
    open_page: Callable[..., Any],
    tmp_path: Path,
) -> None:
    metrics = [
        f"{base}@{k}" for base in ("ndcg", "mrr", "map", "err(max_grade=4)", "recall") for k in (1, 3, 5, 10)
    ]
    systems = [make_system(f"lgbm-model-{at}", 0.01 * at, metrics=metrics) for at in range(3)]
    data = dataclasses.replace(make_data(systems=systems, **QUICK), sections=("verdict", "metrics", "paired"))
    page = open_page(without_charts(page_of(build_report(data), tmp_path)))
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 703, "height": 1000})
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    widths = "Object.fromEntries([...document.querySelectorAll('main table')].map((one) => [one.id, one.offsetWidth]))"
    wide = {name: width for name, width in page.evaluate(widths).items() if width > 703}
    assert wide == {}
    sizes = [
        page.locator(f"#table-{name} td").nth(1).evaluate("(one) => getComputedStyle(one).fontSize")
        for name in ("fixed_k", "metrics")
    ]
    assert [float(size.removesuffix("px")) for size in sizes] == [
        pytest.approx(points * 4 / 3, abs=0.01) for points in (8.5, 4.5)
    ]


def test_many_models_can_be_filtered(
    make_data: Callable[..., ReportData],
    make_system: Callable[..., SystemResult],
    open_page: Callable[..., Any],
    tmp_path: Path,
) -> None:
    names = [f"model-{at:02d}" for at in range(16)]
    systems = [make_system(name, 0.0, n=60, metrics=["ndcg@10"]) for name in names]
    data = dataclasses.replace(make_data(systems=systems, **QUICK), sections=("verdict",))
    page = open_page(write_report(data, tmp_path, ["html"]))
    assert page.locator("#table-fixed_k tbody tr:visible").count() == 16
    page.locator("#verdict .filter").fill("MODEL-07")
    assert page.locator("#table-fixed_k tbody tr:visible").count() == 1


@pytest.fixture(scope="module")
def stored_path(report_of_runs: Report, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return page_of(report_of_runs, tmp_path_factory.mktemp("stored"))


def test_a_query_opens_to_both_lists(stored_path: Path, open_page: Callable[..., Any]) -> None:
    page = open_page(without_charts(stored_path))
    unfold(page)
    lists = page.locator("#table-lists_1")
    assert not lists.is_visible()
    summary = page.locator("#queries details details details summary").first
    summary.press("Enter")
    assert lists.is_visible()
    assert lists.locator("tbody tr").count() > 3
    summary.press("Enter")
    assert not lists.is_visible()


def slices_page(data: ReportData, folder: Path) -> Path:
    slices = Section("slices", tuple(catalog.load("slices")(data)))
    return page_of(Report("t", (), (slices,)), folder)


def test_ten_rows_of_slices_are_shown_and_then_all(
    four_models: ReportData, open_page: Callable[..., Any], tmp_path: Path
) -> None:
    page = open_page(slices_page(four_models, tmp_path))
    rows = page.locator("#table-slices tbody tr:visible")
    assert rows.count() == 10
    page.get_by_role("button", name="Queries").click()  # the first ten of every order
    assert rows.count() == 10
    page.get_by_role("button", name="Show all 12").click()
    assert rows.count() == 12
    page.get_by_role("button", name="Show ten").click()
    assert rows.count() == 10


def test_on_a_phone_slices_of_one_metric_are_shown(
    data: ReportData, open_page: Callable[..., Any], tmp_path: Path
) -> None:
    page = open_page(slices_page(data, tmp_path))
    page.set_viewport_size({"width": 400, "height": 900})
    page.reload()
    assert page.locator("[id^=table-slices]:visible").evaluate_all("all => all.map(one => one.id)") == [
        "table-slices"
    ]
    assert page.locator("#table-slices thead").is_visible()


def test_the_metrics_of_agreement_scroll_within_their_table(
    open_page: Callable[..., Any], tmp_path: Path
) -> None:
    page = open_page(page_of(agreement_page(agreement(world())), tmp_path))
    for width, fits in ((400, False), (1280, True)):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        scrolls = page.evaluate("(t => t.scrollWidth > t.clientWidth)(document.querySelector('.table'))")
        assert scrolls is not fits


def test_the_page_of_all_experiments(
    experiment_folder: Path, open_page: Callable[..., Any], pages: ModuleType, tmp_path: Path
) -> None:
    shutil.copytree(experiment_folder, tmp_path / "small")
    shutil.copytree(experiment_folder, tmp_path / "again")
    os.utime(next((tmp_path / "again").glob("*/record.json")), (4e9, 4e9))
    (tmp_path / "<img src=x onerror=alert(1)>").mkdir()
    path = tmp_path / "index.html"
    path.write_text(html.render(experiments.report(read_experiments(tmp_path), path)))
    page = open_page(path)
    assert page.locator("#chart-over_time_1 svg .mark-symbol path").count() == 2
    assert column(page, "experiments", 1) == ["again", "small"]  # the newest first
    assert page.locator("#table-experiments_further svg.trend").count() == 1
    assert page.evaluate("document.documentElement.scrollWidth") <= SCREEN["width"]
    assert page.locator("img").count() == 0
    assert list(map(str, pages.inaccessible(page))) == []
    page.locator("#table-experiments a").first.click(trial=True)
    href = page.locator("#table-experiments a").first.evaluate("link => link.href")
    assert href == (tmp_path / "again" / "report" / "report.html").as_uri()


def test_each_defect_is_found_with_its_place_and_cure(
    pages: ModuleType, browser: Any, tmp_path: Path
) -> None:
    path = tmp_path / "page.html"
    path.write_text(DEFECTS, encoding="utf-8")
    found = pages.findings(browser, path, {400: 900, 600: 1100})
    both = ["400 light", "400 dark", "600 light", "600 dark", "printed"]
    assert {(one.kind, one.place): where for one, where in found.items()} == {
        ("too long", "the page"): ["400"],
        ("too many sheets", "the page"): ["printed"],
        ("outside the first screen", 'h2.banner "the answer"'): ["400"],
        ("wider than the window", '#wide "too wide"'): both,
        ("cut label", '#cut "a long label"'): both,
        ("cut label", '#chart text "beyond it"'): both,
        ("cut label", '#chart text "short…"'): both,
        ("axe: html-has-lang", "html"): ["400 light", "600 light"],
        ("console", "error: oh"): ["any width"],
        ("console", "error: Failed to load resource: net::ERR_INTERNET_DISCONNECTED"): ["any width"],
        ("request", "http://127.0.0.1:9/x.png"): ["any width"],
    }
    (cut,) = (one for one in found if one.place.startswith("#cut"))
    assert str(cut).endswith(" px of text in 30; give it room, or let it wrap")


def test_the_report_of_stored_runs_has_none_of_them(
    pages: ModuleType, browser: Any, stored_path: Path
) -> None:
    assert list(map(str, pages.findings(browser, stored_path, {400: 900}))) == []


def test_a_page_that_is_too_large_is_found(pages: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    row = f"<tr><td>{'x' * 1000}</td></tr>"
    path.write_text(f"<table>{row * 190}</table>")
    assert pages.sizes(path) == []
    path.write_text(f"<table>{row * 250}</table>")
    assert [one.kind for one in pages.sizes(path)] == ["too much markup of tables"]
    path.write_text("x" * 900_000)
    assert [one.kind for one in pages.sizes(path)] == ["too large"]


@pytest.mark.slow
def test_every_kind_of_page_of_real_runs_has_none(pages: ModuleType, browser: Any, tmp_path: Path) -> None:
    made = pages.make_pages(tmp_path, None)
    assert pages.sizes(made["report"]) == []
    found = {name: list(map(str, pages.findings(browser, path))) for name, path in made.items()}
    assert found == {name: [] for name in made}
