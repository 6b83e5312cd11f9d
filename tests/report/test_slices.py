"""Slices on the page are a matrix of parts and contenders; files keep every model, verdict and p-value."""

from __future__ import annotations

import pytest

from ltr_harness.report import ReportData, html, markdown
from ltr_harness.report.blocks import Estimate, Paragraph, Report, Section, Table, plain_text, walk
from ltr_harness.report.sections.verdict import verdict_mark
from ltr_harness.report.writing import catalog

from .conftest import DEVICES, MARKETS, report_on_markets

PARTS = [f"market: {name}" for name in MARKETS] + [f"device: {name}" for name in DEVICES]


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
    table, words = on_page(report_on_markets({"leads once": [-0.2] * 5 + [0.3], "worse": [-0.3] * 6}))
    assert [column.label for column in table.columns][2:] == ["leads once"]
    assert table.rows[0][0] == "market: m5"  # against the verdict, so it is the first
    assert "leads once" not in words


def test_where_every_model_is_worse_all_have_columns() -> None:
    table, words = on_page(report_on_markets({"worse": [-0.2] * 6, "random": [-0.3] * 6}))
    assert [column.label for column in table.columns][2:] == ["worse", "random"]
    assert "every part" not in words


@pytest.mark.long
def test_without_a_script_every_row_is_there(four_models: ReportData) -> None:
    content = tuple(catalog.load("slices")(four_models))
    text = html.render(Report("t", (), (Section("slices", content),)))
    assert [part for part in PARTS if f">{part}<" not in text] == []
