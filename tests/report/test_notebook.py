"""Every public result shows itself in a notebook by the report's blocks, and in a console in few words."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from ltr_harness import Judgments, QueryGroups, compare, evaluate, from_frame, parse_metric
from ltr_harness.comparison import Comparison, PairedMoments, across_data_sets, plan_power, slice_results
from ltr_harness.metrics import tie_audit
from ltr_harness.report import ReportData, build_report, html
from ltr_harness.report.blocks import Table

QUERIES = [f"q{number}" for number in range(40)]


def table(shift: float) -> pd.DataFrame:
    values = [0.4 + shift * (1 + number % 3) + 0.01 * (number % 7) for number in range(40)]
    return pd.DataFrame({"query_id": QUERIES, "mrr": values, "market": ["de", "fr"] * 20})


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    return compare({"old": table(0.0), "new": table(0.02), "<b>": table(-0.01)})


def text_of(result: Any) -> str:
    shown = result._repr_html_()
    assert shown.startswith('<div class="ltr-harness"><style>')
    assert "<script" not in shown
    assert "<b>" not in shown
    return str(shown)


def test_a_comparison_has_the_table_of_its_report(comparison: Comparison) -> None:
    data = ReportData(comparison, (), (), None, "t")
    (shown,) = (one for one in build_report(data).tables if one.name == "fixed_k")
    assert isinstance(shown, Table)
    text = text_of(comparison)
    assert all(line.strip() in text for line in html.render_blocks([shown]).splitlines() if "<td" in line)
    assert f"</span> {comparison.headline.text.replace('<b>', '&lt;b&gt;')}</h2>" in text
    assert text_of(data) == text


def test_records_are_a_line_a_table_and_a_row(comparison: Comparison) -> None:
    summary, pair = comparison.summary("new"), comparison.paired("new")
    ends = f"({summary.ci_low:.4f} to {summary.ci_high:.4f})"
    assert repr(summary) == f"new: mrr {summary.mean:.4f} {ends} over 40 queries"
    ends = f"({pair.ci_low:+.4f} to {pair.ci_high:+.4f})"
    assert repr(pair).startswith(f"new against old: mrr {pair.difference:+.4f} {ends}, p ")
    assert repr(pair).endswith(", better, over 40 queries")
    for record in (summary, pair):
        assert record.frame().to_dict("records")[0]["mean" if record is summary else "difference"] is not None
        assert f"{record.n}" in text_of(record)
    assert list(comparison.summaries.frame()["model"]) == ["old", "new", "<b>"]
    assert list(comparison.pairs.frame()["verdict"]) == ["better", "worse"]
    assert repr(comparison.pairs).splitlines() == [repr(one) for one in comparison.pairs]
    assert text_of(comparison.pairs).count("<tr>") == 3
    slices = slice_results(comparison)
    assert {"attribute", "label", "difference"} <= set(slices.frame().columns)
    assert len(slices.frame()) == len(slices) == 4
    assert repr(slices[0]).startswith("market de: new +")
    assert "market: de" in text_of(slices)


def test_metric_values_are_numbers(comparison: Comparison) -> None:
    found = evaluate([1, 0, 0, 1], [1.0, 2.0, 2.0, 1.0], group_sizes=[2, 2], metrics=["mrr"])
    assert float(found["mrr"]) == found.means["mrr"] == 0.5
    assert repr(found["mrr"]) == "mrr 0.5000 over 2 of 2 queries"
    assert "0.5000" in text_of(found["mrr"])
    assert repr(found.judgments) == "Judgments(2 queries, 4 rows)"
    assert repr(found.judgments.groups) == "QueryGroups(2 queries, 4 rows)"


def test_plans_and_data_sets_are_their_pages(comparison: Comparison) -> None:
    plan = plan_power(comparison, 0.01, [0.8])
    assert repr(plan).splitlines()[0].endswith(" queries.")
    assert "you have" in text_of(plan)
    other = compare(
        {name: table(shift + 0.001) for name, shift in (("old", 0), ("new", 0.03), ("<b>", -0.02))}
    )
    across = across_data_sets({"one": comparison, "two": other})
    assert repr(across).splitlines() == across.lines()
    assert "on average over 2 data sets" in text_of(across)
    data = from_frame(pd.DataFrame({"q": ["a", "a"], "y": [1, 0], "f": [0.5, 1.0]}), query="q", label="y")
    assert "1 query, 2 rows" in text_of(data)


def test_an_explanation_has_its_tables_and_steps() -> None:
    explained = parse_metric("ndcg@2").explain([0, 1, 2], [3.0, 2.0, 1.0], ["<b>", "b", "c"])
    shown = text_of(explained)
    assert shown.count("<table") == 2  # the ranks and the other tools
    assert f"<span>{explained.heading}</span>" in shown
    assert "&lt;b&gt;" in shown
    assert "(1 more document below the cutoff)" in shown
    assert all(step.split(" = ")[0] in shown for step in explained.steps)


def test_moments_and_audits_are_lines() -> None:
    live, new = (
        pa.table({"query_id": [1, 2], "mrr": values, "ndcg@10": [0.5, 0.5]})
        for values in ([0.5, 1.0], [1.0, 1.0])
    )
    moments = PairedMoments.of({"live": live, "new": new})
    first, second = repr(moments).splitlines()
    assert first == "mrr: live 0.7500, new +0.2500 over 2 queries"
    assert second.startswith("ndcg@10: live 0.5000, new +0.0000")
    assert "new - live" in text_of(moments)
    judgments = Judgments.checked([1, 0, 1, 0], QueryGroups.from_sizes([2, 2]))
    audit = tie_audit("mrr", judgments, [1.0, 1.0, 2.0, 1.0])
    assert repr(audit).startswith("mrr 0.8750, from 0.7500 to 1.0000")
    assert repr(audit) in text_of(audit)


@pytest.mark.parametrize("private", ["construct", "parse_obj", "model_config"])
def test_completion_has_no_names_of_libraries(comparison: Comparison, private: str) -> None:
    for result in (comparison, comparison.pairs, comparison.pairs[0], parse_metric("ndcg@10")):
        names = dir(result)
        assert private not in names
        assert not [name for name in names if name.startswith("_")]
    assert {"pairs", "frame", "headline", "letters"} <= set(dir(comparison))
    assert {"k", "gain", "higher_is_better"} <= set(dir(parse_metric("ndcg@10")))
