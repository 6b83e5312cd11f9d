"""Markdown, LaTeX and JSON: complete, escaped, and the same numbers."""

from __future__ import annotations

import json
import math
import re

import pytest

from ltr_harness import __version__
from ltr_harness.report import ReportData, json_document, latex, markdown
from ltr_harness.report.blocks import Column, Estimate, Heading, Report, Section, Table

# ---- Markdown -------------------------------------------------------------------------------------------


@pytest.mark.long
def test_markdown_tables_have_as_many_cells_as_columns(hostile_report: Report) -> None:
    text = markdown.render(hostile_report)
    width = 0
    for line in text.splitlines():
        cells = re.split(r"(?<!\\)\|", line)
        if not line.startswith("|"):
            width = 0
        elif width == 0:
            width = len(cells)
        else:
            assert len(cells) == width, line


@pytest.mark.long
def test_markdown_lets_no_html_through(hostile_report: Report) -> None:
    text = markdown.render(hostile_report)
    outside_fences = re.sub(r"^(```+)\n.*?^\1$", "", text, flags=re.DOTALL | re.MULTILINE)
    outside_code = re.sub(r"(`+)[^`].*?\1", "", outside_fences)
    assert set(re.findall(r"<[^>\s]*>", outside_code)) <= {
        "<details>",
        "</details>",
        "<summary>",
        "</summary>",
    }
    assert "\\[a\\] \\*b\\*" in text


def test_markdown_headings_say_their_group() -> None:
    columns = (Column("@10", group="ndcg"), Column("p50, µs", group="10 documents"), Column("Model"))
    section = Section("t", (Heading("T"), Table("t", "A table.", columns, ())))
    text = markdown.render(Report("T", (), (section,), lambda: ""))
    assert "| ndcg@10 | 10 documents p50, µs | Model |" in text


@pytest.mark.long
def test_markdown_carries_the_numbers(data: ReportData, report: Report) -> None:
    text = markdown.render(report)
    mean = data.comparison.summary("xgb-ndcg", "ndcg@10").mean
    assert re.search(rf"\| xgb-ndcg \| [a-z ]+ \| \*\*{mean:.4f}\*\* \[", text)
    assert "![" in text
    assert "](charts/paired_differences.svg)" in text
    assert "](charts/" not in markdown.render(report, with_charts=False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a`b", "``a`b``"),
        ("`a`", "`` `a` ``"),
        ("a\nb", "`a b`"),
    ],
)
def test_code_spans_outlast_their_content(text: str, expected: str) -> None:
    assert markdown.code_span(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "4.4 % [2.1 %, 6.7 %]",
        "0.59",
        "1. first",
        "2) second",
        "12.",
        "-0.1",
        "# no",
        "+1",
        "a*b_c",
        "3.",
        "7",
    ],
)
def test_escaped_text_is_shown_as_it_is(text: str) -> None:
    """A backslash before a digit is no escape in a reader's Markdown, and would be shown."""
    from markdown_it import MarkdownIt

    assert MarkdownIt().render(markdown.escape(text)) == f"<p>{text}</p>\n"


# ---- LaTeX ----------------------------------------------------------------------------------------------


@pytest.mark.long
def test_latex_marks_the_best_and_explains_the_marks(data: ReportData, report: Report) -> None:
    text = latex.render(next(t for t in report.tables if t.name == "metrics"))
    mean = data.comparison.summary("xgb-ndcg", "ndcg@1").mean
    assert rf"\textbf{{{mean:.4f}}}" in text
    assert text.count(r"\toprule") == text.count(r"\midrule") == text.count(r"\bottomrule") == 1
    assert r"\cmidrule(lr){2-5}" in text
    assert r"\caption{Means over 160 queries" in text
    assert r"$\blacktriangledown$ worse than lgbm-lambdarank" in text
    assert r"\begin{tabular}{l" + "r" * 16 + "}" in text


def test_latex_has_a_rule_above_rows_that_stay_at_the_bottom() -> None:
    columns = (Column("Model"), Column("@10", "metric"))
    text = latex.render(Table("t", "c", columns, (("a", 0.5),), footer=(("queries", 160),)))
    assert text.count(r"\midrule") == 2
    assert r"\emph{queries} & 160 \\" in text


def test_latex_writes_true_minus_signs() -> None:
    cells = ((Estimate(-0.5, -0.75, 0.25),), (1e-9,))
    text = latex.render(Table("t", "c", (Column("d", "difference"),), cells))
    assert r"$-$0.5000 {\scriptsize [$-$0.7500, +0.2500]}" in text


@pytest.mark.long
def test_latex_escapes_every_special_character(hostile_report: Report) -> None:
    text = latex.render(next(t for t in hostile_report.tables if t.name == "fixed_k"))
    assert r"\input" not in text
    assert r"\textbackslash{}input\{/etc/passwd\} \$x\_1\textasciicircum{}2\$ {[}a{]} {*}b{*}" in text
    depth = 0
    for brace in re.findall(r"(?<!\\)[{}]", text):
        depth += 1 if brace == "{" else -1
        assert depth >= 0
    assert depth == 0
    assert all(row.count(" & ") == 4 for row in text.splitlines() if row.endswith(r"\\"))


# ---- JSON -----------------------------------------------------------------------------------------------


def test_json_is_complete_at_full_precision(data: ReportData) -> None:
    document = json.loads(json_document.render(data))
    assert (document["schema_version"], document["written_by"]) == (3, __version__)
    assert document["verdict"] == data.comparison.verdict
    assert len(document["summaries"]) == 5 * 16
    assert len(document["pairs"]) == 4 * 16
    for found in document["summaries"]:
        assert found["mean"] == data.comparison.summary(found["model"], found["metric"]).mean
    for found in document["pairs"]:
        pair = data.paired(found["model"], found["metric"])
        assert pair is not None
        assert found["p_corrected"] == pair.p_corrected
    assert [run["record"]["seed"] if "record" in run else run["seed"] for run in document["runs"]] == [
        1,
        2,
    ] * 3


def test_json_has_null_for_what_is_undefined(data: ReportData) -> None:
    def refuse(text: str) -> float:
        raise AssertionError(text)

    text = json_document.render(data)
    document = json.loads(text, parse_constant=refuse)
    (best,) = (s for s in document["summaries"] if s["model"] == "best-feature" and s["metric"] == "ndcg@10")
    assert math.isnan(data.comparison.summary("best-feature", "ndcg@10").seed_sd)
    assert best["seed_sd"] is None


@pytest.mark.long
def test_json_follows_its_published_schema(data: ReportData, stored_report: ReportData) -> None:
    import jsonschema

    schema = json_document.schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    for one in (data, stored_report):
        document = json.loads(json_document.render(one))
        validator.validate(document)
        assert set(document) == set(schema["properties"])
    assert all(
        document[name] for name in ("slices", "changed_queries", "other_tools", "ties", "importance", "cost")
    )
    document["pairs"][0]["surplus"] = 1
    with pytest.raises(jsonschema.ValidationError, match="surplus"):
        validator.validate(document)
