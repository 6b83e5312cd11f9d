"""`evaluate`: whatever order and form the rows come in, the same numbers; whatever is wrong, said by name."""

from __future__ import annotations

import itertools
import re
import threading
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltr_harness import compare, evaluate, evaluate_runs
from ltr_harness.data.judgments import Judgments
from ltr_harness.data.queries import QueryGroups
from ltr_harness.errors import DataError, MetricError, NotComparableError
from ltr_harness.metrics import ERR, NDCG, bind
from ltr_harness.metrics.evaluation import evaluate_bound
from tests.conftest import named_case

LABELS = [3, 2, 0, 1, 0, 0]
SCORES = [0.5, 0.9, 0.1, 0.2, 0.3, 0.1]
IDS = ["a", "a", "a", "b", "b", "b"]
METRICS = ["ndcg@3", "mrr", "map@2", "err(max_grade=4)@3", "rprec", "q", "tau_ap", "bpref"]


def per_query(**inputs: Any) -> np.ndarray:
    ev = evaluate(inputs.pop("labels", LABELS), inputs.pop("scores", SCORES), metrics=METRICS, **inputs)
    return np.array([ev[name].per_query for name in METRICS])


def test_rows_may_come_in_any_order() -> None:
    expected = per_query(query_ids=IDS)
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(6)
        ev = evaluate(
            np.array(LABELS)[order], np.array(SCORES)[order], query_ids=np.array(IDS)[order], metrics=METRICS
        )
        place = [list(ev.query_ids).index(query) for query in "ab"]
        found = np.array([ev[name].per_query[place] for name in METRICS])
        np.testing.assert_array_equal(found, expected)
        assert list(ev.query_ids) == list(dict.fromkeys(np.array(IDS)[order]))  # in order of appearance


def test_sizes_say_the_same_as_ids() -> None:
    np.testing.assert_array_equal(per_query(group_sizes=[3, 3]), per_query(query_ids=IDS))


FORMS = {
    "list": list,
    "tuple": tuple,
    "float32": lambda rows: np.array(rows, dtype=np.float32),
    "big endian": lambda rows: np.array(rows, dtype=">f8"),
    "non-contiguous": lambda rows: np.repeat(np.array(rows, dtype=float), 3)[::3],
    "reversed view": lambda rows: np.array(rows[::-1], dtype=float)[::-1],
    "column of a matrix": lambda rows: np.column_stack([rows, rows])[:, 1],
    "pandas": pd.Series,
    "pandas with another index": lambda rows: pd.Series(rows, index=range(10, 16)),
    "pandas nullable": lambda rows: pd.Series(rows, dtype="Float64"),
    "pandas on Arrow": lambda rows: pd.Series(rows, dtype=pd.ArrowDtype(pa.float64())),
    "Arrow": lambda rows: pa.array(rows, type=pa.float64()),
    "Arrow in chunks": lambda rows: pa.chunked_array([rows[:2], rows[2:]], type=pa.float64()),
}


def test_any_form_of_column() -> None:
    scores = [0.5, 0.875, 0.125, 0.25, 0.375, 0.125]  # the same in float32
    expected = per_query(scores=scores, group_sizes=[3, 3])
    for form, make in FORMS.items():
        with named_case(form):
            found = per_query(
                labels=make([float(g) for g in LABELS]), scores=make(scores), group_sizes=[3, 3]
            )
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "form", [np.array, pd.Series, pa.array, lambda ids: pd.Series(ids, dtype="category")]
)
def test_any_form_of_query_ids(form: Any) -> None:
    np.testing.assert_array_equal(per_query(query_ids=form(IDS)), per_query(group_sizes=[3, 3]))
    np.testing.assert_array_equal(
        per_query(query_ids=form([7, 7, 7, 3, 3, 3])), per_query(group_sizes=[3, 3])
    )


def test_polars_columns() -> None:
    polars = pytest.importorskip("polars", reason="needs polars")
    found = per_query(
        labels=polars.Series(LABELS), scores=polars.Series(SCORES), query_ids=polars.Series(IDS)
    )
    np.testing.assert_array_equal(found, per_query(query_ids=IDS))


def test_read_only_arrays_are_read_and_left_as_they_are() -> None:
    labels, scores, sizes = np.array(LABELS, float), np.array(SCORES), np.array([3, 3])
    for array in (labels, scores, sizes):
        array.flags.writeable = False
    before = labels.copy(), scores.copy()
    np.testing.assert_array_equal(
        per_query(labels=labels, scores=scores, group_sizes=sizes), per_query(query_ids=IDS)
    )
    np.testing.assert_array_equal(labels, before[0])
    np.testing.assert_array_equal(scores, before[1])


UNFIT = [
    (
        {"group_sizes": [3, 0, 3]},
        r"group_sizes\[1\] is 0 \(1 such\); expected at least one row per query",
    ),
    ({"group_sizes": [3, -1, 4]}, r"group_sizes\[1\] is -1"),
    ({"group_sizes": [2.5, 3.5]}, r"expected integers, rows per query"),
    ({"group_sizes": [3, 2]}, r"6 labels for 5 rows in 2 queries"),
    ({"group_sizes": []}, r"group_sizes is empty; expected at least one query"),
    ({"query_ids": IDS[:5]}, r"6 labels for 5 rows in 2 queries"),
    ({"query_ids": IDS, "labels": [[3], [2, 0], 1, 0]}, r"labels has rows of different lengths"),
    ({"query_ids": []}, r"query_ids is empty; expected at least one row"),
    ({"query_ids": ["a", "a", None, "b", "b", "b"]}, r"query_ids\[2\] is missing"),
    ({"query_ids": [1.0, 1.0, np.nan, 2.0, 2.0, 2.0]}, r"query_ids\[2\] is missing \(NaN\)"),
    ({}, r"either query_ids \(one per row\) or group_sizes"),
    ({"query_ids": IDS, "group_sizes": [3, 3]}, r"either query_ids \(one per row\) or group_sizes"),
    (
        {"query_ids": IDS, "scores": [0.5, 0.9, np.nan, 0.2, 0.3, np.nan]},
        r"score is NaN in query 'a', its row 2 \(2 such rows\).*infinities are fine, NaN has no rank",
    ),
    ({"query_ids": IDS, "scores": [1.0, 2.0]}, r"2 scores for 6 rows in 2 queries"),
    ({"group_sizes": [3, 3], "scores": [1.0, 2.0]}, r"2 scores for 6 rows in 2 queries"),
    ({"group_sizes": [3, 3], "scores": list("abcdef")}, r"scores are not numbers"),
    (
        {"group_sizes": [3, 3], "scores": np.ones((6, 1))},
        r"scores has shape \(6, 1\); expected one value per row",
    ),
    (
        {"query_ids": IDS, "labels": [3, 2, 0, np.nan, 0, 0]},
        r"label nan in query 'b', its row 0 \(1 such",
    ),
    ({"query_ids": IDS, "labels": [3, 2, 0, -np.inf, 0, 0]}, r"label -inf in query 'b'"),
    ({"query_ids": IDS, "labels": [3, 2, 0, np.inf, 0, 0]}, r"label inf in query 'b'"),
    ({"query_ids": IDS, "labels": list("abcdef")}, r"labels are not numbers"),
    ({"query_ids": IDS, "query_weights": [1.0]}, r"1 query_weights for 2 queries"),
    (
        {"query_ids": IDS, "query_weights": [1.0, -1.0]},
        r"query_weights must be finite, >= 0 and not all zero",
    ),
    (
        {"query_ids": IDS, "query_weights": [0.0, 0.0]},
        r"query_weights must be finite, >= 0 and not all zero",
    ),
    ({"group_sizes": [3, 3], "document_ids": ["x"]}, r"1 document_ids for 6 rows"),
    ({"group_sizes": [3, 3], "judged": [True]}, r"1 value of judged for 6 rows"),
    (
        {"group_sizes": [3, 3], "judged": [1, 1, 1, 1, 1, 1]},
        r"judged has dtype int64; expected booleans",
    ),
    (
        {"query_ids": IDS, "judged": [True, False, True, True, True, True]},
        r"label 2 in query 'a' belongs to a row that is not judged",
    ),
    ({"group_sizes": [3, 3], "retrieved": [True]}, r"1 value of retrieved for 6 rows"),
]


def test_what_is_said_about_arrays_that_do_not_fit() -> None:
    for arguments, message in UNFIT:
        with named_case(arguments), pytest.raises(DataError, match=message):
            per_query(**arguments)


def test_lengths_are_compared_also_where_rows_must_be_rearranged() -> None:
    with pytest.raises(DataError, match=r"2 scores for 6 query_ids; expected one of each per row"):
        evaluate(LABELS, [1.0, 2.0], query_ids=list("ababab"), metrics=["mrr"])


def test_metric_problems_name_the_query() -> None:
    with pytest.raises(MetricError, match=r"err\(max_grade=2\): label 3 in query 'a' is above max_grade"):
        evaluate(LABELS, SCORES, query_ids=IDS, metrics=["err(max_grade=2)"])
    with pytest.raises(
        MetricError, match=r"ndcg: label 2.5 in query 'b' \(1 such row\): gain=exp needs integer"
    ):
        evaluate([3, 2, 0, 2.5, 0, 0], SCORES, query_ids=IDS, metrics=["ndcg"])
    with pytest.raises(
        MetricError, match=r"label 3 in query 'a' .*the gain table ends at grade 1; add its gain"
    ):
        evaluate(LABELS, SCORES, query_ids=IDS, metrics=[NDCG(gain=[0, 1])])
    with pytest.raises(
        MetricError, match=r"the discount table ends at rank 2; expected a factor for every rank up to 3"
    ):
        evaluate(LABELS, SCORES, query_ids=IDS, metrics=[NDCG(discount=[1, 0.5])])
    with pytest.raises(
        MetricError, match=r"ties=id orders tied documents by document id; expected document_ids"
    ):
        evaluate(LABELS, SCORES, query_ids=IDS, metrics=["ndcg(ties=id)"])
    with pytest.raises(MetricError, match=r"no metrics given"):
        evaluate(LABELS, SCORES, query_ids=IDS, metrics=[])


def test_one_row_queries_are_valid() -> None:
    ev = evaluate([1, 0, 2], [0.1, 0.2, 0.3], group_sizes=[1, 1, 1], metrics=["ndcg", "mrr", "map", "rprec"])
    for name in ev.metrics:
        np.testing.assert_array_equal(ev[name].per_query, [1.0, np.nan, 1.0])


def test_infinite_scores_are_ordered_normally() -> None:
    ev = evaluate([1, 0, 2], [np.inf, 0.0, -np.inf], group_sizes=[3], metrics=["dcg", "mrr"])
    assert ev.means["dcg"] == pytest.approx(1 + 3 / 2)
    assert ev.means["mrr"] == 1.0
    # equal infinities tie
    tied = evaluate([1, 0], [np.inf, np.inf], group_sizes=[2], metrics=["mrr"])
    assert tied.means["mrr"] == 0.75


@pytest.mark.long
@given(st.lists(st.floats(allow_nan=False), min_size=2, max_size=12), st.randoms(use_true_random=False))
def test_any_number_may_be_a_score(scores: list[float], random: Any) -> None:
    """Huge, denormal and infinite: only the order matters."""
    labels = [random.randint(0, 4) for _ in scores]
    labels[0] = 1
    places = {score: place for place, score in enumerate(sorted({s + 0.0 for s in scores}))}
    ranks = [float(places[score + 0.0]) for score in scores]
    a, b = (
        evaluate(labels, rows, group_sizes=[len(rows)], metrics=["ndcg@5", "mrr"]) for rows in (scores, ranks)
    )
    assert a.means == b.means


def test_empty_rule_per_metric() -> None:
    labels, scores = [0, 0, 1, 0], [2.0, 1.0, 2.0, 1.0]
    for empty, value in (("skip", np.nan), ("zero", 0.0), ("one", 1.0)):
        for name in ("ndcg", "mrr", "map", "precision", "recall", "f1", "success", "rprec", "bpref", "q"):
            metric = f"{name}(empty={empty})"
            ev = evaluate(labels, scores, group_sizes=[2, 2], metrics=[metric])
            np.testing.assert_equal(ev[metric].per_query[0], value)
            assert ev[metric].n_undefined == (1 if empty == "skip" else 0)


def test_which_queries_are_empty_depends_on_the_metric() -> None:
    """A graded metric needs a gain, a binary one a row at its threshold."""
    ev = evaluate([1, 0], [2.0, 1.0], group_sizes=[2], metrics=["ndcg", "mrr", "mrr(relevant=2)"])
    assert ev["ndcg"].n_undefined == ev["mrr"].n_undefined == 0
    assert ev["mrr(relevant=2)"].n_undefined == 1
    assert np.isnan(ev.means["mrr(relevant=2)"])  # no query, no number: never 0


def test_the_three_rules_are_tied_by_the_share_of_empty_queries() -> None:
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 3, 400) * np.repeat(rng.random(40) < 0.7, 10)
    metrics = ["ndcg(empty=skip)", "ndcg(empty=zero)", "ndcg(empty=one)"]
    ev = evaluate(labels, rng.random(400), group_sizes=[10] * 40, metrics=metrics)
    share = ev["ndcg"].n_undefined / 40
    assert 0 < share < 1
    assert ev.means["ndcg(empty=one)"] == pytest.approx(ev.means["ndcg(empty=zero)"] + share)
    assert ev.means["ndcg"] == pytest.approx(ev.means["ndcg(empty=zero)"] / (1 - share))


def test_query_weights_apply_to_every_query_alike() -> None:
    inputs: dict[str, Any] = {"group_sizes": [2, 2, 2], "query_weights": [1.0, 3.0, 6.0]}
    labels, scores = [0, 1, 1, 0, 0, 0], [2.0, 1.0] * 3
    ev = evaluate(labels, scores, metrics=["mrr", "mrr(empty=zero)", "mrr(empty=one)"], **inputs)
    assert ev.means["mrr"] == pytest.approx((1 * 0.5 + 3 * 1) / 4)
    assert ev.means["mrr(empty=zero)"] == pytest.approx((1 * 0.5 + 3 * 1) / 10)
    assert ev.means["mrr(empty=one)"] == pytest.approx((1 * 0.5 + 3 * 1 + 6) / 10)


def test_err_takes_the_largest_label_and_says_so() -> None:
    with pytest.warns(
        UserWarning, match=r"err@3 has no max_grade: taking the largest label seen, 3, from here on"
    ):
        ev = evaluate(LABELS, SCORES, query_ids=IDS, metrics=["err@3"])
    assert ev.metrics == ("err(max_grade=3)@3",)
    assert ev["err@3"] is ev["err(max_grade=3)@3"]
    assert ev.means["err@3"] == ev.means["err(max_grade=3)@3"]
    assert ev[ERR(k=3)].metric == ERR(k=3, max_grade=3)
    assert ev.means["err(ties=expected,max_grade=3)@3"] == ev.means["err@3"]
    assert dict(ev.means) == {"err(max_grade=3)@3": ev["err@3"].mean}


def test_results_answer_to_any_spelling_and_to_nothing_else() -> None:
    ev = evaluate(LABELS, SCORES, query_ids=IDS, metrics=["ndcg(as=lightgbm)@3", NDCG(k=3)])
    assert ev.metrics == ("ndcg(empty=one,ties=stable)@3", "ndcg@3")
    assert ev["ndcg(as=lightgbm)@3"] is ev["ndcg(ties=stable,empty=one)@3"]
    assert ev.means["ndcg(gain=exp)@3"] == ev[NDCG(k=3)].mean
    with pytest.raises(MetricError, match=r"ndcg@5 was not evaluated; did you mean 'ndcg@3'\?"):
        ev["ndcg@5"]
    with pytest.raises(MetricError, match=r"ndcg@5 was not evaluated"):
        ev.means["ndcg@5"]
    assert ev.directions == {"ndcg(empty=one,ties=stable)@3": True, "ndcg@3": True}


def test_a_single_metric_needs_no_list_and_a_bound_one_no_name() -> None:
    ev = evaluate([1, 0], [1.0, 2.0], group_sizes=[2], metrics="mrr")
    assert dict(ev.means) == {"mrr": 1 / 2}
    assert dict(evaluate_bound(bind("mrr", ev.judgments), [1.0, 2.0]).means) == {"mrr": 1 / 2}


def test_a_mean_is_printed_with_its_count() -> None:
    ev = evaluate([1, 0, 0, 0], [2.0, 1.0, 2.0, 1.0], group_sizes=[2, 2], metrics=["ndcg@10"])
    assert str(ev["ndcg@10"]) == "ndcg@10 1.0000 over 1 of 2 queries; 1 has no relevant document"
    assert repr(ev["ndcg@10"]) == str(ev["ndcg@10"])
    assert float(ev["ndcg@10"]) == 1.0
    cells = re.findall(r"<t[hd][^>]*>(?:<code>)?([^<\n]+)", ev._repr_html_().split("<tbody>")[1])
    assert cells == ["ndcg@10", "1.0000", "1", "1"]
    assert ev["ndcg@10"]._repr_html_() == ev._repr_html_()
    whole = evaluate([1, 0], [2.0, 1.0], group_sizes=[2], metrics=["ndcg@10", "mrr"])
    assert repr(whole) == "ndcg@10 1.0000 over 1 of 1 query\nmrr 1.0000 over 1 of 1 query"


def test_equal_judgments_have_equal_fingerprints_whatever_the_scores() -> None:
    def fingerprint(labels: list[int], scores: list[float]) -> str:
        return evaluate(labels, scores, group_sizes=[2], metrics=["mrr"]).judgments_fingerprint

    assert (
        fingerprint([1, 0], [2.0, 1.0]) == fingerprint([1, 0], [1.0, 2.0]) != fingerprint([0, 1], [1.0, 2.0])
    )


@pytest.mark.parametrize(
    ("reused", "other"),
    [("labels", [0, 1, 0, 1]), ("query_weights", [2, 1]), ("judged", [True, False, True, True])],
)
def test_what_was_evaluated_does_not_change_with_the_callers_arrays(reused: str, other: list[Any]) -> None:
    """If one buffer held two data sets in turn, both evaluations had the second one's labels."""
    one = {
        "labels": np.array([1.0, 0.0, 0.0, 1.0]),
        "query_weights": np.array([1.0, 2.0]),
        "judged": np.array([True, True, True, True]),
    }
    equal = {name: values.copy() for name, values in one.items()}

    def evaluated(data: dict[str, Any]) -> Any:
        return evaluate(scores=[4, 3, 2, 1], group_sizes=[2, 2], metrics=["mrr"], **data)

    first, alike = evaluated(one), evaluated(equal)
    one[reused][:] = other
    assert compare({"a": first, "b": alike}).metrics == ("mrr",)
    with pytest.raises(NotComparableError, match="the test data differ"):
        compare({"a": first, "b": evaluated(one)})


QRELS = {"q1": {"d1": 1, "d2": 0}}


@pytest.mark.parametrize("form", [dict, pd.DataFrame, lambda qrels: "qrels.txt"])
def test_judgments_and_a_ranking_by_document_are_for_evaluate_runs(form: Any) -> None:
    for metrics in ([], [["ndcg@10"]]):  # as ranx and pytrec_eval are called
        with pytest.raises(
            DataError, match=r"labels is a \w+; .* evaluate_runs\(qrels, run, metrics=\[…\]\)"
        ):
            evaluate(form(QRELS), form(QRELS), *metrics)


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        ([], "no metrics given; expected at least one, such as ndcg@10"),
        (None, "None is not a metric; expected name"),
        (10, "10 is not a metric; expected name"),
    ],
)
def test_metrics_that_are_none(metrics: Any, message: str) -> None:
    with pytest.raises(MetricError, match=message):
        evaluate([1, 0], [2, 1], metrics, group_sizes=[2])
    with pytest.raises(MetricError, match=message):
        evaluate_runs(QRELS, QRELS, metrics)


def test_who_breaks_ties_by_id_is_said() -> None:
    with pytest.raises(
        MetricError,
        match="ndcg_cut_10 of trec_eval: ties=id orders tied documents by document id; expected document_ids",
    ):
        evaluate([1, 0], [1, 1], ["mrr", "ndcg_cut_10"], group_sizes=[2])


def test_frame() -> None:
    frame = evaluate(LABELS, SCORES, query_ids=IDS, metrics=["ndcg@3", "mrr"]).frame()
    assert list(frame.columns) == ["ndcg@3", "mrr"]
    assert list(frame.index) == ["a", "b"]
    assert frame.index.name == "query_id"


def test_rows_that_were_not_retrieved_have_no_rank_and_count_among_the_relevant() -> None:
    inputs: dict[str, Any] = {"group_sizes": [4], "retrieved": [True, True, False, False]}
    labels, scores = [0, 1, 1, 0], [2.0, 1.0, 9.0, np.nan]  # whatever the others score
    ev = evaluate(
        labels, scores, metrics=["map", "recall", "precision", "mrr", "bpref", "precision@4"], **inputs
    )
    assert ev.means["map"] == pytest.approx((1 / 2) / 2)
    assert ev.means["recall"] == 0.5
    assert ev.means["precision"] == 0.5
    assert ev.means["precision@4"] == 0.25
    assert ev.means["mrr"] == 0.5
    assert ev.means["bpref"] == pytest.approx((1 - 1 / 2) / 2)
    nothing = evaluate(
        labels, scores, group_sizes=[4], retrieved=[False] * 4, metrics=["map", "ndcg", "judged"]
    )
    assert (nothing.means["map"], nothing.means["ndcg"]) == (0.0, 0.0)
    assert np.isnan(nothing.means["judged"])
    with pytest.raises(DataError, match="a retrieved document is scored -inf"):
        evaluate([1, 0], [-np.inf, 0.0], group_sizes=[2], retrieved=[True, False], metrics=["mrr"])


def test_unjudged_rows_are_passed_over_by_bpref_alone() -> None:
    inputs: dict[str, Any] = {"group_sizes": [3], "judged": [False, True, True]}
    ev = evaluate([0, 1, 0], [3.0, 2.0, 1.0], metrics=["bpref", "mrr", "judged@1", "judged"], **inputs)
    assert ev.means["bpref"] == 1.0
    assert ev.means["mrr"] == 0.5
    assert ev.means["judged@1"] == 0.0
    assert ev.means["judged"] == pytest.approx(2 / 3)


def test_several_metrics_and_cutoffs_give_what_each_gives_alone() -> None:
    rng = np.random.default_rng(5)
    labels, scores = rng.integers(0, 5, 600).astype(float), rng.integers(0, 9, 600).astype(float)
    names = [f"{name}@{k}" for name in ("ndcg", "mrr", "map", "err(max_grade=4)") for k in (10, 1, 3)]
    names += ["ndcg", "map", "ndcg(ties=worst)@3", "ndcg(score_precision=float32)@3", "rprec", "tau_ap"]
    together = evaluate(labels, scores, group_sizes=[20] * 30, metrics=names)
    for name in names:
        alone = evaluate(labels, scores, group_sizes=[20] * 30, metrics=[name])
        np.testing.assert_array_equal(together[name].per_query, alone[name].per_query, err_msg=name)


@pytest.mark.parametrize(
    "names",
    [
        ["ndcg@1", "mrr@1", "ndcg@5", "mrr@5"],
        ["ndcg@5", "ndcg@1", "mrr@5", "mrr@1"],
        ["mrr", "ndcg@3", "mrr@2", "ndcg@3", "map"],
    ],
)
def test_values_come_in_the_order_asked_for(names: list[str]) -> None:
    labels, scores = [0, 2, 1, 0, 1, 0, 1], [7, 6, 5, 4, 3, 2, 1]
    together = bind(names, Judgments.checked(labels, QueryGroups.from_sizes([7]))).means(scores)
    alone = [evaluate(labels, scores, group_sizes=[7], metrics=[name]).means[name] for name in names]
    assert together.tolist() == alone


def test_threads_give_the_same_bits() -> None:
    rng = np.random.default_rng(6)
    labels, scores = rng.integers(0, 5, 20_000).astype(float), rng.integers(0, 50, 20_000) / 7
    binding = bind(
        ["ndcg@10", "mrr", "err(max_grade=4)@10", "map@10"],
        Judgments.checked(labels, QueryGroups.from_sizes([40] * 500)),
    )
    expected = binding.per_query(scores)
    found: list[np.ndarray] = []
    threads = [threading.Thread(target=lambda: found.append(binding.per_query(scores))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    for values in found:
        np.testing.assert_array_equal(values, expected)


def test_grades_to_a_thousand_linear_and_sixty_exponential() -> None:
    labels = np.arange(1001.0)
    ev = evaluate(labels, labels, group_sizes=[1001], metrics=["ndcg(gain=linear)", "ndcg(gain=linear)@10"])
    assert ev.means == {"ndcg(gain=linear)": 1.0, "ndcg(gain=linear)@10": 1.0}
    grades = np.arange(61.0)
    ev = evaluate(
        grades, -grades, group_sizes=[61], metrics=["ndcg", "err(max_grade=60)", "nerr(max_grade=60)"]
    )
    gains = 2.0 ** np.arange(61) - 1
    discount = 1 / np.log2(np.arange(2, 63))
    assert ev.means["ndcg"] == pytest.approx((gains @ discount) / (gains[::-1] @ discount), rel=1e-12)
    assert 0 < ev.means["nerr(max_grade=60)"] < 1
    steep = evaluate([1000.0, 0, 999], [1.0, 2.0, 3.0], group_sizes=[3], metrics=["ndcg"]).means["ndcg"]
    assert steep == pytest.approx((0.5 + 1 / 2) / (1 + 0.5 / np.log2(3)), rel=1e-12)  # 2^999 to 2^1000
    with pytest.raises(MetricError, match=r"2\^g - 1 overflows; use gain=linear or map the grades"):
        evaluate([1025.0, 0], [1.0, 0.0], group_sizes=[2], metrics=["ndcg"])


@pytest.mark.slow
def test_one_query_of_five_million_rows() -> None:
    n = 5_000_000
    rng = np.random.default_rng(0)
    labels = (rng.random(n) < 0.1) * rng.integers(1, 5, n)
    names = [
        "ndcg@10",
        "mrr",
        "map",
        "ndcg",
        "err(max_grade=4)",
        "precision@10",
        "rprec",
        "q",
        "tau_ap",
        "bpref",
    ]
    ev = evaluate(labels, rng.random(n), group_sizes=[n], metrics=names)
    assert all(0 <= value <= 1 or name == "tau_ap" for name, value in ev.means.items())
    assert ev.means["map"] == pytest.approx(0.1, abs=0.01)
    tied = evaluate(
        labels, np.zeros(n), group_sizes=[n], metrics=["ndcg", "map", "mrr", "err(max_grade=4)@10"]
    )
    assert tied.means["ndcg"] == pytest.approx(ev.means["ndcg"], abs=0.01)
    assert tied.means["map"] == pytest.approx(0.1, abs=0.01)


@pytest.mark.slow
def test_five_million_queries_of_one_row() -> None:
    n = 5_000_000
    labels = np.random.default_rng(0).integers(0, 2, n)
    ev = evaluate(
        labels, np.zeros(n), group_sizes=np.ones(n, dtype=np.int64), metrics=["ndcg@10", "map@10", "mrr"]
    )
    assert ev.means == {"ndcg@10": 1.0, "map@10": 1.0, "mrr": 1.0}
    assert ev["mrr"].n_undefined == int((labels == 0).sum())


def test_what_a_mask_hides_is_no_value() -> None:
    given = {
        "labels": LABELS,
        "scores": SCORES,
        "query_ids": [1, 1, 1, 2, 2, 2],
        "document_ids": list("abcabc"),
    }
    given |= {
        "judged": [True] * 6,
        "retrieved": [True] * 6,
        "query_weights": [1.0, 2.0],
        "subtopics": np.ones((6, 1)),
    }
    for name, values in given.items():
        masked = np.ma.masked_array(values, np.arange(np.size(values)).reshape(np.shape(values)) == 1)
        with pytest.raises(
            DataError, match=rf"{name}\[1(, 0)?\] is masked \(1 such\); expected a value in every row"
        ):
            evaluate(**{**given, name: masked}, metrics=["mrr"])
    whole = np.ma.masked_array(SCORES, np.zeros(6))
    np.testing.assert_array_equal(per_query(scores=whole, query_ids=IDS), per_query(query_ids=IDS))


def test_only_real_numbers_are_numbers() -> None:
    for name, kind in itertools.product(
        ["labels", "scores", "query_weights"], [complex, str, "timedelta64[s]"]
    ):
        with named_case((name, kind)):
            given = {"labels": LABELS, "scores": np.arange(6), "query_weights": [1, 2]}
            given[name] = np.array(given[name]).astype(kind)
            with pytest.raises(DataError, match=f"{name} are not numbers"):
                evaluate(**given, query_ids=IDS, metrics=["mrr"])
