"""The columns of the main table are listed once, and every form has them."""

import json
import re

import pytest

from ltr_harness.comparison import main_table
from ltr_harness.comparison.comparison import Comparison
from ltr_harness.comparison.main_table import MainColumn, columns_of, values_of
from ltr_harness.report import ReportData, build_report, html, json_document, latex, markdown
from ltr_harness.report.blocks import Report
from ltr_harness.report.terminal import render


@pytest.fixture
def median(monkeypatch: pytest.MonkeyPatch) -> MainColumn:
    """A column that no form has, added where columns are listed."""
    added = MainColumn("Median of queries", "summaries", ("median",), "metric")
    columns = main_table.main_columns
    monkeypatch.setattr(main_table, "main_columns", lambda comparison: (*columns(comparison), added))
    return added


def test_a_column_is_added_in_one_place(data: ReportData, median: MainColumn) -> None:
    data = ReportData(_copy(data.comparison), (), (), None, "t", sections=("verdict",))
    medians = {model: data.comparison.summary(model).median for model in data.models}
    report = build_report(data)
    (table,) = (table for table in report.tables if table.name == "fixed_k")
    page, tables = html.render(report), latex.render(table)
    notebook, text = data.comparison._repr_html_(), markdown.render(report)
    terminal = render(data, width=120)
    for form in (page, tables, text, notebook, terminal):
        assert median.heading in form
        assert all(f"{value:.4f}" in form for value in medians.values())
    assert dict(data.comparison.table.set_index("model")["median"]) == medians
    document = json.loads(json_document.render(data))
    stored = {one["model"]: one["median"] for one in document[median.record] if one["metric"] == "ndcg@10"}
    assert stored == medians


def test_report_json_has_the_fields_of_every_column(data: ReportData) -> None:
    document = json.loads(json_document.render(data))
    columns = data.comparison.main_columns
    assert {column.heading for column in columns} >= {"Verdict", "Difference", "ndcg@10", "Queries"}
    for column in columns:
        for model in data.models:
            values = values_of(data.comparison, column, model)
            if values is None or values == ("baseline",):
                continue
            (stored,) = (
                one
                for one in document[column.record]
                if one["model"] == model and one.get("metric", "ndcg@10") == "ndcg@10"
            )
            assert tuple(stored[field] for field in column.fields) == values


def test_forms_show_the_same_headings_in_the_same_order(data: ReportData, report: Report) -> None:
    (table,) = (table for table in report.tables if table.name == "fixed_k")
    page = [column.heading for column in columns_of(data.comparison, "page")]
    assert [column.label.partition(" [")[0] for column in table.columns] == ["Model", *page]
    shown = re.findall(r'<th scope="col"[^>]*>([^<]*)<', data.comparison._repr_html_())
    assert shown == [column.label for column in table.columns]


def _copy(comparison: Comparison) -> Comparison:
    """Return a comparison of the same values that has not listed its columns."""
    values = {
        name: value for name, value in vars(comparison).items() if name in Comparison.__dataclass_fields__
    }
    return Comparison(**values)
