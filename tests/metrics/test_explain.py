"""The arithmetic of one query: it adds up, says the same as evaluation, and gives each tool's one reason."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from ltr_harness import evaluate, parse_metric
from ltr_harness._util.compiled import Compiled
from ltr_harness.errors import DataError, MetricError
from ltr_harness.metrics import ERR, MAP, MRR, NDCG, function_metric
from ltr_harness.metrics.core.explanation import Explanation
from ltr_harness.metrics.explain import as_measured_by, differences_in_words
from ltr_harness.metrics.table import METRICS, catalog
from tests.conftest import named_case

LABELS = [0, 3, 1, 2, 0, 1]
SCORES = [2.0, 1.0, 2.0, 1.0, 1.0, 0.5]
DOCUMENTS = list("abcdef")

NAMES = [
    "ndcg@3",
    "ndcg",
    "ndcg@50",
    "ndcg(gain=linear,ties=worst)@4",
    "ndcg(as=letor)@6",
    "cg@2",
    "dcg@3",
    "err(max_grade=4)@4",
    "nerr(max_grade=3)@4",
    "mrr@5",
    "map@3",
    "map",
    "map(denominator=total)@3",
    "map(denominator=retrieved,ties=stable)@3",
    "precision@4",
    "precision",
    "precision@50",
    "recall@4",
    "recall(denominator=min_rk)@2",
    "f1@4",
    "success@2",
    "rbp(p=0.8)@3",
    "rbp(graded=true,max_grade=3,p=0.5)",
    "q@4",
    "rprec",
    "bpref",
    "kendall_tau_distance",
    "kendall_tau_distance(normalized=true)",
    "tau_ap",
    "tau_ap(walk=scores)",
    "tau_ap(walk=labels)",
    "spearman",
    "mean_label@2",
    "mean_label(minus=bottom)@4",
    "gauc",
    "gauc(relevant=2)",
    "pfound(max_grade=4)@3",
    "err(discount=log2,max_grade=4)",
    "alpha_ndcg@4",
    "err_ia(max_grade=4)",
    "err_ia(as=ndeval)@3",
    "judged@2",
    "n_relevant",
]
SUBTOPICS = np.array(LABELS)[:, np.newaxis] * [[1, 0], [0, 1], [1, 1], [1, 0], [0, 1], [1, 0]]


@pytest.fixture
def _without_other_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the values of other tools, which take nine tenths of an explanation."""
    monkeypatch.setattr("ltr_harness.metrics.explain._presets", lambda *_, **__: [])


def test_every_metric_can_be_explained() -> None:
    assert {parse_metric(name).name for name in NAMES} | {"rbp_residual", "brier", "log_loss"} == set(METRICS)


def test_the_explanation_ends_in_the_value_and_adds_up_to_it() -> None:
    for name in NAMES:
        with named_case(name):
            metric = parse_metric(name)
            explanation = metric.explain(LABELS, SCORES, DOCUMENTS, subtopics=SUBTOPICS)
            value = evaluate(
                LABELS, SCORES, group_sizes=[6], metrics=[metric], document_ids=DOCUMENTS, subtopics=SUBTOPICS
            )[metric].mean
            assert explanation.value == value
            counts = metric.name in ("n_relevant", "kendall_tau_distance") and "(" not in name
            text = str(int(value)) if counts else f"{value:.4f}"
            assert f"{explanation.metric} = {text}" == str(explanation).splitlines()[0]
            if metric.name == "n_relevant":
                assert "contribution" not in explanation.columns  # it does not look at ranks
            else:
                at = explanation.columns.index("contribution")
                total = sum(row[at] for row in explanation.rows if not isinstance(row[at], str))
                divisor = 1.0
                if len(explanation.steps) == 3:
                    divisor = float(explanation.steps[1].rpartition(" = ")[2])
                    by = str(int(divisor)) if divisor == int(divisor) else f"{divisor:.4f}"
                    assert explanation.steps[2] == f"{total:.4f} / {by} = {value:.4f}"
                assert total / divisor == pytest.approx(value, abs=1e-4)


@pytest.mark.long
def test_no_loop_leaves_its_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain Python refuses what machine code reads unseen: the cutoff after the last one, and what it then wrote."""
    monkeypatch.setattr(Compiled, "__call__", lambda loop, *args: loop._function(*args))
    for name in NAMES:
        parse_metric(name).explain(LABELS, SCORES, DOCUMENTS, subtopics=SUBTOPICS)


DIVISORS = [
    ("precision@9", "documents looked at = 9"),  # six rows, of which four are relevant
    ("precision(denominator=min_kn)@9", "documents looked at = 6"),
    ("judged@9", "min(K, n) = 6"),
    ("judged@2", "min(K, n) = 2"),
    ("recall@3", "relevant documents to be had = 4"),
    ("recall(denominator=min_rk)@3", "relevant documents to be had = 3"),
    ("f1@3", "(K + R) / 2 = 3.5000"),
    ("map@3", "min(R, K) = 3"),
    ("map@9", "min(R, K) = 4"),
    ("map(denominator=total)@3", "R = 4"),
    ("map(denominator=retrieved,ties=stable)@3", "relevant documents within K = 2"),
    ("q@3", "min(R, K) = 3"),
    ("rprec", "R = 4"),
    ("bpref", "R = 4"),
    (
        "kendall_tau_distance(normalized=true)",
        "pairs with different labels = 13",
    ),  # 15 without 0-0 and 1-1
    ("ndcg(gain=linear)@2", "ideal DCG = 4.2619"),  # 3 + 2 / log2 3
]


def test_what_the_sum_is_divided_by() -> None:
    for name, said in DIVISORS:
        with named_case(name):
            assert parse_metric(name).explain(LABELS, SCORES, DOCUMENTS).steps[1] == said


@pytest.mark.usefixtures("_without_other_tools")
@pytest.mark.parametrize("size", [2, 9, 30])
def test_it_adds_up_whatever_ties(size: int) -> None:
    rng = np.random.default_rng(3)
    ids = [f"d{row:02}" for row in range(size)]
    for name in NAMES:
        labels = rng.integers(0, 4, size)
        scores = rng.integers(0, rng.integers(1, 6), size)
        listed = rng.random(size) < 0.8
        for retrieved in (None, listed):
            judged = (labels > 0) | (rng.random(size) < 0.8)
            explanation = parse_metric(name).explain(
                labels,
                scores,
                ids,
                judged=judged,
                retrieved=retrieved,
                subtopics=labels[:, np.newaxis] * rng.integers(0, 2, (size, 3)),
            )
            if "contribution" not in explanation.columns or np.isnan(explanation.value):
                continue
            total = sum(row[-1] for row in explanation.rows if not isinstance(row[-1], str))
            by = float(explanation.steps[1].rpartition(" = ")[2]) if len(explanation.steps) == 3 else 1.0
            if "counts 0" not in explanation.steps[-1]:
                assert total / by == pytest.approx(explanation.value, abs=2e-4), name


@pytest.mark.usefixtures("_without_other_tools")
def test_a_query_of_which_nothing_was_retrieved() -> None:
    nothing = [False] * 6
    ev = evaluate(
        LABELS,
        SCORES,
        group_sizes=[6],
        metrics=NAMES,
        document_ids=DOCUMENTS,
        retrieved=nothing,
        subtopics=SUBTOPICS,
    )
    for name in NAMES:
        explanation = parse_metric(name).explain(
            LABELS, SCORES, DOCUMENTS, retrieved=nothing, subtopics=SUBTOPICS
        )
        np.testing.assert_equal(explanation.value, ev[name].mean, name)
        assert len(explanation.rows) == (6 if explanation.metric.uses_whole_order else 0), name


def test_a_list_that_leaves_out_relevant_rows_is_divided_by_all_of_them() -> None:
    explanation = MAP().explain([1, 1, 0], [3, 0, 2], retrieved=[True, False, True])
    assert explanation.steps == ("sum of contributions = 1.0000", "min(R, K) = 2", "1.0000 / 2 = 0.5000")
    explanation = NDCG().explain([1, 1], [2, 0], retrieved=[True, False])
    assert explanation.steps[1:] == ("ideal DCG = 1.6309", "1.0000 / 1.6309 = 0.6131")  # 1 + 1 / log2 3


def test_inversions_by_the_row_that_is_too_low() -> None:
    explanation = parse_metric("kendall_tau_distance").explain([0, 2, 1, 1], [4, 3, 3, 1])
    # above them: nothing; the 0; the 0 and, tied, half a 1; the 0
    assert [row[-1] for row in explanation.rows] == [0.0, 1.0, 1.5, 1.0]
    assert explanation.steps == ("sum of contributions = 3.5000",)
    assert str(explanation).startswith("kendall_tau_distance = 3.5000\n")


def test_what_the_order_of_equal_scores_could_make_of_it() -> None:
    explanation = MRR().explain([0, 1, 0], [2, 2, 2])
    assert explanation.interval == (1 / 3, 1.0)
    assert "\nfrom 0.3333 to 1.0000 over the orders of equal scores\n" in str(explanation)
    assert "from 0.3333 to 1.0000 over" in explanation._repr_html_()
    assert MRR(ties="stable").explain([0, 1, 0], [2, 2, 2]).interval == (1 / 3, 1.0)
    assert MRR().explain([1, 1, 0], [2, 2, 1]).interval is None
    assert parse_metric("kendall_tau_distance").explain([0, 1], [1, 1]).interval == (0.0, 1.0)
    assert parse_metric("judged").explain([0, 1], [1, 1]).interval is None


def test_a_count_is_written_as_one() -> None:
    assert str(parse_metric("n_relevant").explain([1, 0, 2], [3, 2, 1])).startswith("n_relevant = 2\n")
    assert "R = 2\n" in str(parse_metric("rprec").explain([1, 0, 2], [3, 2, 1])) + "\n"


def test_who_was_judged_is_shown_where_not_all_were() -> None:
    explanation = parse_metric("bpref").explain([1, 0, 0], [3, 2, 1], judged=[True, False, True])
    at = explanation.columns.index("judged")
    assert [row[at] for row in explanation.rows] == ["yes", "", "yes"]
    assert "judged" not in parse_metric("bpref").explain([1, 0], [2, 1], judged=[True, True]).columns


def test_a_list_that_counts_zero_because_it_is_short() -> None:
    explanation = NDCG.for_tool("letor", k=10).explain(LABELS, SCORES)
    assert explanation.value == 0.0
    assert explanation.steps[-1] == "a list of 6 documents, shorter than 10, counts 0"


def test_ndcg_row_by_row() -> None:
    explanation = NDCG(k=3).explain([3, 2, 0, 1, 2], [5, 4, 3, 2, 1])
    assert explanation.columns == (
        "rank",
        "tied ranks",
        "row",
        "label",
        "score",
        "gain",
        "discount",
        "contribution",
    )
    assert explanation.rows[1] == (
        2,
        "",
        1,
        2.0,
        4.0,
        3.0,
        pytest.approx(1 / np.log2(3)),
        pytest.approx(3 / np.log2(3)),
    )
    assert explanation.ideal == (3.0, 2.0, 2.0)
    assert explanation.n_hidden == 2
    assert explanation.steps == (
        "sum of contributions = 8.8928",
        "ideal DCG = 10.3928",  # 7 + 3 / log2 3 + 3 / 2
        "8.8928 / 10.3928 = 0.8557",
    )


def test_a_tie_across_the_cutoff_is_shown_whole() -> None:
    explanation = NDCG(k=3).explain(LABELS, SCORES)
    assert explanation.columns[2] == "row"
    assert [row[1] for row in explanation.rows] == ["1-2", "1-2", "3-5", "3-5", "3-5"]
    assert explanation.n_hidden == 1
    contributions = [row[-1] for row in explanation.rows]
    # gains 0 and 1 share ranks 1 and 2; gains 0, 3 and 7 share rank 3 and two beyond the cutoff
    assert contributions[:3] == [
        pytest.approx(0.5 * 1),
        pytest.approx(0.5 / np.log2(3)),
        pytest.approx(10 / 3 / 2),
    ]
    assert contributions[3:] == ["", ""]


def test_each_tool_with_its_reason() -> None:
    found = {preset.tool: preset for preset in NDCG(k=3).explain(LABELS, SCORES, DOCUMENTS).presets}
    assert set(found) == {
        "lightgbm",
        "xgboost",
        "catboost",
        "sklearn",
        "trec_eval",
        "pytrec_eval",
        "gdeval",
        "letor",
        "ranx",
        "ranklib",
        "ntcir",
        "opensearch",
        "mlflow",
        "torchmetrics",
    }
    assert found["lightgbm"].reason == "equal scores keep row order"
    assert found["sklearn"].reason == "a label gains its grade, not 2^grade - 1"
    assert found["gdeval"].reason == "equal scores: by document id, descending"
    for tool, preset in found.items():
        spelt = f"ndcg(as={tool})@3"
        value = evaluate(LABELS, SCORES, group_sizes=[6], metrics=[spelt], document_ids=DOCUMENTS).means[
            spelt
        ]
        assert preset.value == value
        assert preset.name == str(parse_metric(spelt))


def test_where_nothing_ties_and_grades_are_binary_all_tools_agree() -> None:
    presets = NDCG(k=3).explain([0, 1, 1], [3.0, 2.0, 1.0], list("abc")).presets
    different = {preset.tool for preset in presets if preset.reason}
    assert different == {"letor"}  # its discount
    assert "rank 2 is not discounted" in str(NDCG(k=3).explain([0, 1, 1], [3.0, 2.0, 1.0]))


def test_what_the_question_is_stays_and_what_is_convention_changes() -> None:
    presets = {p.tool: p for p in MRR(k=2, relevant=2).explain(LABELS, SCORES, DOCUMENTS).presets}
    assert presets["trec_eval"].name == "mrr(empty=zero,relevant=2,ties=id)@2"
    assert {p.tool: p.name for p in ERR(max_grade=5).explain(LABELS, SCORES).presets}["ranklib"] == (
        "err(empty=zero,max_grade=5,ties=stable)"
    )


def test_a_scale_that_was_not_asked_for_is_the_tools_own() -> None:
    assert str(as_measured_by("gdeval", ERR(k=5))) == "err(max_grade=4,ties=id)@5"
    assert str(as_measured_by("gdeval", ERR(k=5, max_grade=3))) == "err(max_grade=3,ties=id)@5"
    assert differences_in_words(NDCG(k=5), NDCG(k=5, discount="letor")) == ("rank 2 is not discounted",)


def test_the_reason_of_map_is_its_divisor() -> None:
    presets = {p.tool: p for p in MAP(k=2).explain([1, 0, 1, 1], [4, 3, 2, 1]).presets}
    assert presets["ranx"].reason == "divided by all relevant documents, R"
    assert presets["lightgbm"].reason == ""


def test_conventions_that_make_a_difference_only_together_are_all_named() -> None:
    """Two scores that only float32 ties, best label first: neither float32 nor row order alone moves the 1."""
    presets = {p.tool: p for p in NDCG(k=2, ties="best").explain([0, 1], [1.0, 1.0 + 1e-9]).presets}
    assert presets["xgboost"].value == pytest.approx(1 / np.log2(3))
    assert "equal scores keep row order" in presets["xgboost"].reason
    assert "scores that float32 cannot tell apart tie" in presets["xgboost"].reason


def test_a_tool_that_cannot_is_said_so() -> None:
    presets = {p.tool: p for p in NDCG(k=3).explain(LABELS, SCORES).presets}
    assert presets["trec_eval"].value is None
    assert "expected document_ids" in presets["trec_eval"].reason


def test_document_ids_are_not_asked_for_where_nothing_depends_on_them() -> None:
    untied = {p.tool: p for p in NDCG(k=3).explain([0, 2, 1], [3, 2, 1]).presets}
    assert untied["gdeval"].value == NDCG(k=3).explain([0, 2, 1], [3, 2, 1]).value
    assert untied["gdeval"].reason == ""
    assert untied["trec_eval"].reason == "a label gains its grade, not 2^grade - 1"
    alike = {
        p.tool: p for p in MAP().explain([0, 1, 1], [3, 2, 2]).presets
    }  # the tied documents are worth the same
    assert alike["trec_eval"].value == pytest.approx((1 / 2 + 2 / 3) / 2)


def test_a_query_without_relevant_rows() -> None:
    explanation = NDCG(k=3).explain([0, 0], [2.0, 1.0])
    assert np.isnan(explanation.value)
    assert explanation.steps == (
        "undefined: no document of the query is relevant in the sense of this metric",
    )
    assert str(explanation).startswith("ndcg@3 = undefined")
    reasons = {p.tool: p.reason for p in explanation.presets}
    assert reasons["lightgbm"] == "no relevant document counts 1"
    assert reasons["sklearn"] == "no relevant document counts 0"


def test_rows_that_were_not_retrieved() -> None:
    explanation = MAP().explain([1, 1, 0], [2.0, 0.0, 1.0], retrieved=[True, False, True])
    assert [row[2] for row in explanation.rows] == [0, 2]
    assert explanation.value == 0.5
    assert explanation.ideal == (1.0, 1.0, 0.0)
    nothing = MAP().explain([1, 0], [2.0, 1.0], retrieved=[False, False])
    assert nothing.rows == ()
    assert nothing.value == 0.0


def test_a_function_shows_its_rows_and_its_value() -> None:
    def top(labels: np.ndarray, scores: np.ndarray) -> float:
        return float(labels[scores.argmax()])

    explanation = function_metric(top, higher_is_better=True).explain([1, 2], [0.1, 0.2])
    assert explanation.value == 2.0
    assert explanation.presets == ()
    assert explanation.steps == (
        "top is a function of these labels and scores; how it gets there, its code says",
    )


def test_documents_go_by_their_names() -> None:
    explanation = NDCG(k=3).explain([1, 0], [1.0, 2.0], ["a", "b"])
    assert explanation.columns[2] == "document"
    assert [row[2] for row in explanation.rows] == ["b", "a"]


def test_as_a_terminal_shows_it() -> None:
    explanation = MRR(k=2).explain([2, 0.5, 1], [1e-5, 12.345678, 3], ["long name", "b", "c"])
    assert str(explanation).splitlines() == [
        "mrr@2 = 0.5000",
        "",
        "rank  tied ranks  document  label   score  relevant  1 / rank  contribution",
        "   1              b           0.5  12.346                   1        0.0000",
        "   2              c             1       3       yes       0.5        0.5000",
        "(1 more document below the cutoff)",
        "",
        "ideal order of labels: 2 1",
        "sum of contributions = 0.5000",
        "",
        "as             value  why",
        "catboost      0.5000  the same",
        "trec_eval     0.5000  the same",
        "pytrec_eval   0.5000  the same",
        "ranx          0.5000  the same",
        "ranklib       0.5000  the same",
        "ntcir         0.5000  the same",
        "torchmetrics  0.5000  the same",
    ]
    cells = cells_of(explanation)
    assert " | 12.346 |  | 1 | 0.0000 | " in cells
    assert "<li>(1 more document below the cutoff)</li>" in explanation._repr_html_()
    assert cells.endswith(" | torchmetrics | 0.5000 | the same")


def test_nothing_hidden_and_no_other_tool_is_not_mentioned() -> None:
    explanation = parse_metric("tau_ap").explain([1, 0], [2, 1])
    assert str(explanation).splitlines()[3:] == [
        "   1                0      1      2        0.0000",
        "   2                1      0      1        1.0000",
        "",
        "ideal order of labels: 1 0",
        "sum of contributions = 1.0000",
    ]
    assert "<li>sum of contributions = 1.0000</li></ul>" in explanation._repr_html_()
    assert "more document" not in explanation._repr_html_()


@pytest.mark.parametrize(
    ("score", "said"),
    [
        (-np.inf, "-inf"),
        (1e15, "1e+15"),
        (999_999, "999999"),
        (0.125, "0.125"),
        (0.123456, "0.123456"),
        (0.1234567, "0.12346"),
    ],
)
def test_scores_are_as_short_as_they_can_be(score: float, said: str) -> None:
    row = str(MRR().explain([1], [score], ["a"])).splitlines()[3]
    assert row.split()[3] == said


def cells_of(explanation: Explanation) -> str:
    """Return the texts of all cells of the notebook's tables, in order."""
    cells = re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", explanation._repr_html_())
    return " | ".join(re.sub("<.*?>", "", cell) for cell in cells)


def test_html_is_escaped() -> None:
    cells = cells_of(NDCG(k=3).explain([1, 0], [2.0, 1.0], ["<b>", "&"]))
    assert " | &lt;b&gt; | " in cells
    assert " | &amp; | " in cells


def test_problems_are_messages() -> None:
    with pytest.raises(DataError, match="labels is empty; expected the documents of one query"):
        NDCG(k=3).explain([], [])
    with pytest.raises(DataError, match="1 score for 2 rows"):
        NDCG(k=3).explain([1, 0], [1.0])
    with pytest.raises(DataError, match="score is NaN"):
        NDCG(k=3).explain([1, 0], [1.0, np.nan])
    with pytest.raises(MetricError, match="expected document_ids"):
        NDCG(k=3, ties="id").explain([1, 0], [1.0, 1.0])


def test_every_metric_has_a_method_of_its_table() -> None:
    for name in METRICS:
        assert callable(catalog.load(name).explain)


def test_no_zero_has_a_sign() -> None:
    """The contribution of a grade 0 is a difference of two equal sums, up to rounding."""
    explanation = NDCG().explain([2, 0, 0, 2, 0, 1], [6, 5, 4, 3, 2, 1])
    assert any(-1e-12 < row[-1] < 0 for row in explanation.rows if not isinstance(row[-1], str))
    assert "-0.0000" not in str(explanation)
    assert "-0.0000" not in explanation._repr_html_()
    almost = parse_metric("tau_ap").explain([1, 0, 1, 0], [1, 1, 1, 1])
    assert "-0.0000" not in str(replace(almost, value=-1e-9))


def test_missed_documents_stand_below_the_list_with_what_they_add() -> None:
    labels, retrieved = [3, 0, 1, 2, 0, 2], np.array([True, True, True, False, False, False])
    explanation = NDCG(k=2).explain(labels, np.arange(6.0), list("abcdef"), retrieved=retrieved)
    assert explanation.missed_columns == ("missed document", "label", "adds to ideal DCG")
    # without them the ideal is 3 1, with the first of them 3 2: the second is beyond the cutoff
    more = (3 - 1) / np.log2(3)
    assert explanation.missed == (("d", 2.0, pytest.approx(more)), ("f", 2.0, 0.0), ("e", 0.0, 0.0))
    lines = str(explanation).splitlines()
    at = lines.index("(1 more document below the cutoff)")
    assert lines[at + 1 : at + 6] == [
        "",
        "missed document  label  adds to ideal DCG",
        "d                    2             1.2619",
        "f                    2             0.0000",
        "(1 missed document with the label 0)",
    ]
    assert " | d | 2 | 1.2619" in cells_of(explanation)
    assert "<li>(1 missed document with the label 0)</li>" in explanation._repr_html_()
    # R is 1 among the listed and 3 in all; a document's subtopics are missed with it
    found = parse_metric("recall(relevant=2)@2").explain(labels, np.arange(6.0), retrieved=retrieved)
    assert found.missed_columns == ("missed row", "label", "adds to relevant documents to be had")
    assert found.missed == ((3, 2.0, 1.0), (5, 2.0, 1.0), (4, 0.0, 0.0))
    grades = np.array(labels)[:, np.newaxis] * np.eye(6)[:, [0, 3]]
    novel = parse_metric("alpha_ndcg@2").explain(
        labels, np.arange(6.0), retrieved=retrieved, subtopics=grades
    )
    assert novel.missed[0] == (3, 2.0, pytest.approx(1 / np.log2(3)))


@pytest.mark.parametrize("name", ["precision@2", "mrr", "rbp(p=0.5)@2", "ndcg(ideal=shown)@2"])
def test_missed_documents_add_nothing_where_only_ranks_count(name: str) -> None:
    explanation = parse_metric(name).explain([1, 0, 2], [1.0, 2.0, 3.0], retrieved=[True, True, False])
    assert (explanation.missed_columns, explanation.missed) == (("missed row", "label"), ((2, 2.0),))
    assert explanation.value == parse_metric(name).explain([1, 0], [1.0, 2.0]).value


def test_what_nobody_judged_was_not_missed() -> None:
    flags = {"retrieved": [True, False, False], "judged": [True, True, False]}
    explanation = NDCG(k=2).explain([1, 0, 0], [1.0, 2.0, 3.0], **flags)
    assert explanation.missed == ((1, 0.0),)
    every = parse_metric("spearman").explain([1, 0, 2], [1.0, 2.0, 3.0], retrieved=[True, True, False])
    assert (len(every.rows), every.missed) == (3, ())  # it ranks missed documents last


@pytest.mark.usefixtures("_without_other_tools")
def test_what_was_missed_adds_up() -> None:
    rng = np.random.default_rng(4)
    for name in ("ndcg@3", "map@3", "recall@3", "rprec", "q@3", "nerr(max_grade=4)@3", "bpref"):
        metric = parse_metric(name)
        for _ in range(6):
            size = int(rng.integers(2, 9))
            labels, retrieved = rng.integers(0, 4, size), rng.random(size) < 0.6
            if not retrieved.any() or not labels[retrieved].any():
                continue
            scores = rng.permutation(size)
            whole = metric.explain(labels, scores, retrieved=retrieved)
            alone = metric.explain(labels[retrieved], scores[retrieved])
            divisors = [
                float(next(step for step in one.steps[1:] if " = " in step).rpartition(" = ")[2])
                for one in (alone, whole)
            ]
            more = sum(float(row[2]) for row in whole.missed) if len(whole.missed_columns) == 3 else 0.0
            assert divisors[1] - divisors[0] == pytest.approx(more, abs=2e-4)
