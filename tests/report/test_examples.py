"""Small examples of internals, which a reader can check by hand."""

from ltr_harness._util.number_text import number_text
from ltr_harness.report.formats import file_names, interval
from ltr_harness.report.html import safe_json
from ltr_harness.report.latex import escape as escape_latex
from ltr_harness.report.markdown import escape as escape_markdown
from ltr_harness.report.sections.cost import pareto_front
from ltr_harness.report.sections.definitions import prose


def test_number_text() -> None:
    assert number_text(0.0123, "difference") == "+0.0123"
    assert number_text(0.0, "difference") == "0.0000"
    assert number_text(1e-7, "p") == "<0.0001"


def test_interval() -> None:
    assert interval(0.42, 0.44) == "[0.4200, 0.4400]"
    assert interval(-0.01, 0.02, "difference") == "[-0.0100, +0.0200]"
    assert interval(None, None) == ""


def test_file_names() -> None:
    assert file_names(["ndcg@10", "my metric", "my-metric"]) == {
        "ndcg@10": "ndcg_10",
        "my metric": "my_metric",
        "my-metric": "my_metric-2",
    }


def test_safe_json() -> None:
    assert safe_json({"name": "</script>"}) == '{"name":"\\u003c/script\\u003e"}'


def test_escape_latex() -> None:
    assert escape_latex("50 % of a_b") == "50 \\% of a\\_b"


def test_escape_markdown() -> None:
    assert escape_markdown("a|b <i> *c*") == "a\\|b &lt;i&gt; \\*c\\*"


def test_pareto_front() -> None:
    assert pareto_front([(1.0, 0.5), (2.0, 0.4), (3.0, 0.7), (3.0, 0.6)]) == [True, False, True, False]


def test_prose() -> None:
    assert prose("One line.\n\nTwo\nlines.\n\nAttributes:\n    k: cutoff") == ["One line.", "Two lines."]
