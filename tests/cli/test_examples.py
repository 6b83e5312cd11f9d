"""Small examples of internals, which a reader can check by hand."""

from ltr_harness.cli.ci_files import CheckedGate, as_junit
from ltr_harness.cli.metric_names import split, tools_named, with_relevant
from ltr_harness.cli.output import counts
from ltr_harness.cli.trec_eval import parse_measures
from ltr_harness.errors import Caution
from ltr_harness.metrics import MRR, NDCG


def test_as_junit() -> None:
    lines = as_junit("a is better", [CheckedGate("mrr < 0.4", [])]).decode().splitlines()
    assert lines[2].strip() == '<testcase classname="ltr-harness compare" name="mrr &lt; 0.4" />'


def test_split() -> None:
    assert split(["ndcg@10,mrr", "rbp(graded=true,p=0.8)"]) == ["ndcg@10", "mrr", "rbp(graded=true,p=0.8)"]


def test_tools_named() -> None:
    text = "P_5 of trec_eval is precision(empty=zero,ties=id)@5"
    assert tools_named(["P_5", "mrr"]) == (Caution("other-name", "note", text),)


def test_with_relevant() -> None:
    assert str(with_relevant(MRR(), 2)) == "mrr(relevant=2)"
    assert str(with_relevant(MRR(relevant=3), 2)) == "mrr(relevant=3)"
    assert str(with_relevant(NDCG(), 2)) == "ndcg"


def test_counts() -> None:
    assert counts(query=1, row=1984) == "1 query, 1,984 rows"


def test_parse_measures() -> None:
    assert parse_measures(["P.10,5", "rbp(p=0.8)", "map"]) == {"map": (), "P": ("5", "10"), "rbp(p=0.8)": ()}
