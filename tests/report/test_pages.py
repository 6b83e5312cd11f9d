"""``scripts/pages``: it finds nothing on the report, and every kind of defect on a page that has them all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ltr_harness.report import write_report
from ltr_harness.report.blocks import Report

pytestmark = [
    pytest.mark.long,
    # The driver's own event loop closes its sockets when the process ends.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

DEFECTS = """<!doctype html><html><head><title>All defects</title></head><body style="margin:0"><main><h1>All</h1>
<div style="height:900px">far down:</div><h2 class="banner" style="margin:0">the answer</h2>
<p id="wide" style="width:3000px">too wide</p>
<div style="overflow:auto; width:90px" tabindex="0"><p style="width:3000px">held by a box that scrolls</p></div>
<p id="cut" style="overflow:hidden; width:30px; white-space:nowrap">a long label</p>
<details><summary>folded</summary><div class="plot" id="chart">
<svg width="100" height="30"><text x="90" y="12">beyond it</text><text x="1" y="25">short…</text></svg></div></details>
<script>console.error("oh"); new Image().src = "http://127.0.0.1:9/x.png";</script></main></body></html>"""


@pytest.fixture(scope="module")
def pages(script: Callable[[str], ModuleType]) -> ModuleType:
    pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe-playwright-python")
    return script("pages")


def test_each_defect_is_found_with_its_place_and_cure(
    pages: ModuleType, browser: Any, tmp_path: Path
) -> None:
    path = tmp_path / "page.html"
    path.write_text(DEFECTS, encoding="utf-8")
    found = pages.findings(browser, path, {400: 900, 600: 1100})
    both = ["400 light", "400 dark", "600 light", "600 dark", "printed"]
    assert {(one.kind, one.place): where for one, where in found.items()} == {
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


def test_the_report_has_none_of_them(pages: ModuleType, browser: Any, written_report: Path) -> None:
    found = pages.findings(browser, written_report / "report.html", {400: 900})
    assert [str(one) for one in found] == []


def test_neither_has_the_report_of_stored_runs(
    pages: ModuleType, browser: Any, report_of_runs: Report, tmp_path: Path
) -> None:
    path = write_report(report_of_runs, tmp_path, ["html"])
    assert [str(one) for one in pages.findings(browser, path, {768: 1024})] == []


def test_a_page_that_is_too_long_or_too_large_is_found(
    pages: ModuleType, browser: Any, tmp_path: Path
) -> None:
    path = tmp_path / "page.html"
    start = '<!doctype html><html lang="en"><head><title>Long</title></head><body><main><h1>Long</h1>'
    row = f"<tr><td>{'x' * 1000}</td></tr>"
    path.write_text(f"{start}<div style='height:20000px'>tall</div></main></body></html>")
    found = {one.kind for one in pages.findings(browser, path, {400: 900})}
    assert found >= {"too long", "too many sheets"}
    assert pages.sizes(path) == []
    path.write_text(f"{start}<table>{row * 250}</table></main></body></html>")
    assert [one.kind for one in pages.sizes(path)] == ["too much markup of tables"]
    path.write_text(f"{start}{'x' * 900_000}</main></body></html>")
    assert [one.kind for one in pages.sizes(path)] == ["too large"]


def test_what_is_open_is_printed_and_all_at_a_click(
    pages: ModuleType, browser: Any, written_report: Path
) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto((written_report / "report.html").as_uri())
    pages.wait_for_charts(page)
    page.evaluate("window.print = () => { window.printed = document.documentElement.dataset.print; }")
    n_open = pages.n_sheets(page)
    assert n_open <= pages.MOST_SHEETS
    page.get_by_role("button", name="Print all").click()
    assert page.evaluate("window.printed") == "all"
    page.evaluate("document.documentElement.dataset.print = 'all'")  # a print has ended, which takes it away
    assert pages.n_sheets(page) > 2 * n_open
    page.close()


@pytest.mark.slow
def test_every_kind_of_page_of_real_runs_has_none(pages: ModuleType, browser: Any, tmp_path: Path) -> None:
    made = pages.make_pages(tmp_path, None)
    assert pages.sizes(made["report"]) == []
    found = {name: list(map(str, pages.findings(browser, path))) for name, path in made.items()}
    assert found == {name: [] for name in made}
