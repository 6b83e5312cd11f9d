"""Slices on the page are a matrix of parts and contenders; files keep every model, verdict and p-value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ltr_harness.comparison import compare
from ltr_harness.comparison.contrasts import SystemResult
from ltr_harness.report import ReportData, html, markdown
from ltr_harness.report.blocks import Estimate, Paragraph, Report, Section, Table, plain_text, walk
from ltr_harness.report.sections.verdict import verdict_mark
from ltr_harness.report.writing import catalog

MARKETS = [f"m{number}" for number in range(6)]
DEVICES = [f"d{number}" for number in range(6)]
PARTS = [f"market: {name}" for name in MARKETS] + [f"device: {name}" for name in DEVICES]


def report(gains: dict[str, list[float]], **options: Any) -> ReportData:
    """A report on six markets of 60 queries with six devices each; `gains` are of each model in each market."""
    rng = np.random.default_rng(5)
    markets, devices = np.repeat(MARKETS, 60), np.tile(DEVICES, 60)
    base = rng.uniform(0.3, 0.5, markets.size)
    systems = [
        SystemResult(
            name=name,
            query_ids=np.arange(markets.size).astype(str),
            values={"ndcg@10": (base + np.repeat(by_market, 60) + rng.normal(0, 0.01, markets.size))[None]},
            replicates=("1",),
            higher_is_better={"ndcg@10": True},
            query_attributes={"market": markets, "device": devices},
        )
        for name, by_market in {"base": [0.0] * 6, **gains}.items()
    ]
    return ReportData(compare(*systems, baseline="base", draws=500, **options), (), (), None, "t")


@pytest.fixture(scope="module")
def four_models() -> ReportData:
    return report({"mixed": [0.1, -0.1] * 3, "worse": [-0.2] * 6, "random": [-0.25] * 5 + [-0.15]})


def on_page(data: ReportData) -> tuple[Table, str]:
    content = tuple(walk(tuple(catalog.load("slices")(data)), page=True))
    (table,) = (block for block in content if isinstance(block, Table))
    return table, " ".join(plain_text(block.text) for block in content if isinstance(block, Paragraph))


def test_parts_are_down_and_contenders_across(four_models: ReportData) -> None:
    table, _ = on_page(four_models)
    assert [column.label for column in table.columns] == ["Part", "Queries", "mixed"]
    assert {row[0] for row in table.rows} == set(PARTS)
    results = {(result.label, result.model): result for result in four_models.slices}
    for part, n, cell in table.rows:
        result = results[str(part).partition(": ")[2], "mixed"]
        assert n == 60
        assert cell == Estimate(
            result.difference, result.ci_low, result.ci_high, verdict_mark(result.verdict)
        )
    assert table.ten_rows


def test_models_that_are_worse_everywhere_are_one_line(four_models: ReportData) -> None:
    _, words = on_page(four_models)
    by_model = {
        name: [result.difference for result in four_models.slices if result.model == name]
        for name in ("worse", "random")
    }
    for name, differences in by_model.items():
        assert f"{name} by {max(differences):+.4f} to {min(differences):+.4f}" in words


def test_files_keep_every_model(four_models: ReportData) -> None:
    content = tuple(catalog.load("slices")(four_models))
    (table,) = (block for block in walk(content) if isinstance(block, Table))
    assert len(table.rows) == 3 * 12
    text = markdown.render(Report("t", (), (Section("slices", content),)))
    for result in four_models.slices:
        assert f"| {result.model} | {result.attribute} | {result.label} | 60 | {result.verdict} | " in text


def test_a_model_that_leads_in_one_part_has_a_column() -> None:
    table, words = on_page(report({"leads once": [-0.2] * 5 + [0.3], "worse": [-0.3] * 6}))
    assert [column.label for column in table.columns][2:] == ["leads once"]
    assert table.rows[0][0] == "market: m5"  # against the verdict, so it is the first
    assert "leads once" not in words


def test_where_every_model_is_worse_all_have_columns() -> None:
    table, words = on_page(report({"worse": [-0.2] * 6, "random": [-0.3] * 6}))
    assert [column.label for column in table.columns][2:] == ["worse", "random"]
    assert "every part" not in words


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_ten_rows_are_shown_and_then_all(four_models: ReportData, browser: Any, tmp_path: Any) -> None:
    content = tuple(catalog.load("slices")(four_models))
    path = tmp_path / "page.html"
    path.write_text(html.render(Report("t", (), (Section("slices", content),))), encoding="utf-8")
    page = browser.new_page()
    page.goto(path.as_uri())
    rows = page.locator("#table-slices tbody tr:visible")
    assert rows.count() == 10
    page.get_by_role("button", name="Queries").click()  # the first ten of every order
    assert rows.count() == 10
    page.get_by_role("button", name="Show all 12").click()
    assert rows.count() == 12
    page.get_by_role("button", name="Show ten").click()
    assert rows.count() == 10
    page.close()


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_on_a_phone_one_metric_is_shown(data: ReportData, browser: Any, tmp_path: Any) -> None:
    content = tuple(catalog.load("slices")(data))
    path = tmp_path / "page.html"
    path.write_text(html.render(Report("t", (), (Section("slices", content),))), encoding="utf-8")
    page = browser.new_page(viewport={"width": 400, "height": 900})
    page.goto(path.as_uri())
    assert page.locator("[id^=table-slices]:visible").evaluate_all("all => all.map(one => one.id)") == [
        "table-slices"
    ]
    assert page.locator("#table-slices thead").is_visible()
    page.close()


@pytest.mark.long
def test_without_a_script_every_row_is_there(four_models: ReportData) -> None:
    content = tuple(catalog.load("slices")(four_models))
    text = html.render(Report("t", (), (Section("slices", content),)))
    assert [part for part in PARTS if f">{part}<" not in text] == []
