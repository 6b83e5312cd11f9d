"""Results that must not be compared, and the words of their refusals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from ltr_harness.comparison.comparability import aligned, common_queries, incompatibilities
from ltr_harness.comparison.contrasts import SystemResult
from ltr_harness.errors import NotComparableError
from ltr_harness.metrics.core.grammar import MetricName


def system(
    name: str,
    ids: str = "abc",
    metrics: tuple[str, ...] = ("ndcg@10",),
    fingerprint: Mapping[str, str] | None = None,
    higher: bool = True,
    **attributes: Any,
) -> SystemResult:
    values = {metric: np.arange(len(ids), dtype=float)[None, :] / 10 for metric in metrics}
    return SystemResult(
        name,
        np.array(list(ids)),
        values,
        ("1",),
        dict.fromkeys(metrics, higher),
        judgments_fingerprint=fingerprint or {},
        query_attributes={key: np.array(column) for key, column in attributes.items()},
    )


def problem_texts(*systems: SystemResult, metrics: list[str] | None = None) -> list[str]:
    return [str(problem) for problem in incompatibilities(systems, metrics)]


def test_alike() -> None:
    assert problem_texts(system("x"), system("y", "cab"), system("z")) == []


def test_other_folds_are_not_other_labels() -> None:
    three = system("x", fingerprint={"1": "a", "2": "b", "3": "c"})
    five = system("y", fingerprint={"1": "d", "2": "e", "3": "f", "4": "g", "5": "h"})
    assert problem_texts(three, five) == [
        "y: its test queries are divided into 5 folds, those of x into 3; expected the same folds; "
        "train both on the same division of the queries"
    ]
    assert "other labels" in problem_texts(three, system("y", fingerprint={"1": "a", "2": "b", "3": "z"}))[0]


def test_another_k_is_another_question() -> None:
    assert problem_texts(system("x"), system("y", metrics=("ndcg@5",))) == [
        "y: ndcg@5 against ndcg@10 of x: not comparable, because a different K is a different question; "
        "evaluate both at one K"
    ]


def test_another_definition_is_another_number() -> None:
    (message,) = problem_texts(system("x"), system("y", metrics=("ndcg(gain=linear)@10",)))
    assert message.startswith(
        "y: ndcg(gain=linear)@10 against ndcg@10 of x: not comparable, because another definition"
    )


def test_the_same_definition_at_another_k_is_matched_first() -> None:
    x = system("x", metrics=("ndcg(gain=linear)@10",))
    y = system("y", metrics=("ndcg@10", "ndcg(gain=linear)@5"))
    assert problem_texts(x, y)[0].startswith("y: ndcg(gain=linear)@5 against ndcg(gain=linear)@10 of x")


def test_missing_and_extra_metrics_name_what_both_have() -> None:
    messages = problem_texts(
        system("x", metrics=("ndcg@10", "mrr@10")), system("y", metrics=("ndcg@10", "err@10"))
    )
    assert messages == [
        "y: has no mrr@10, which x has; compare what both have: metrics=['ndcg@10']",
        "y: has err@10, which x does not have; compare what both have: metrics=['ndcg@10']",
    ]


def test_named_metrics_are_enough() -> None:
    x, y = system("x", metrics=("ndcg@10", "mrr@10")), system("y", metrics=("ndcg@10", "err@10"))
    assert problem_texts(x, y, metrics=["ndcg@10"]) == []
    assert problem_texts(x, y, metrics=["mrr@10", "ndcg@5"]) == [
        "x: has no ndcg@5, and its ndcg@10 is not comparable with that, because a different K is a different question; "
        "evaluate both at one K",
        "y: has no mrr@10; it has ndcg@10, err@10",
        "y: has no ndcg@5, and its ndcg@10 is not comparable with that, because a different K is a different question; "
        "evaluate both at one K",
    ]


def test_other_queries() -> None:
    assert problem_texts(system("x", "abc"), system("y", "bcde")) == [
        "y: 4 queries against 3 of x: 1 missing here, 2 only here (such as 'd', 'e'); "
        "expected the same queries; common_queries=True, or --common-queries, compares the 2 that both have"
    ]
    assert "they share no query" in problem_texts(system("x", "abc"), system("y", "de"))[0]


def test_same_ids_other_labels() -> None:
    x = system("x", fingerprint={"fold1": "1", "fold2": "2"})
    y = system("y", fingerprint={"fold1": "1", "fold2": "!"})
    assert problem_texts(x, y) == [
        "y: the test data of fold2 differ from those of x: same queries, other labels or rows; "
        "expected one set of judgments; measure both on the same files, labelled alike: `label`, `grades`, `relevance` "
        "in data; to compare two retrievers, whose candidates differ, give both the same `data.judgments` and document "
        "ids"
    ]
    # Unknown where the two were not split alike: then the queries' facts decide.
    assert problem_texts(x, system("z", fingerprint={"all": "3"})) == []


def test_facts_of_the_labels_decide_without_a_fingerprint() -> None:
    x = system("x", "abc", n_relevant=[1, 2, 0], rows=[5, 5, 5])
    y = system("y", "cba", n_relevant=[0, 3, 1], rows=[5, 5, 5])
    assert problem_texts(x, y) == [
        "y: n_relevant differs from x in 1 query, such as 'b': 3 against 2; expected one set of judgments"
    ]


def test_direction() -> None:
    assert (
        "ndcg@10: lower is better here, higher in x"
        in problem_texts(system("x"), system("y", higher=False))[0]
    )


def test_all_reasons_at_once() -> None:
    x = system("x", "abc", ("ndcg@10", "mrr@10"))
    y = system("y", "abd", ("ndcg@5", "mrr@10"))
    z = system("z", "xyz", ("ndcg@10",))
    assert len(problem_texts(x, y, z)) == 4


def test_definition_taken_apart() -> None:
    linear = MetricName.of("ndcg(gain=linear,ties=worst)@10")
    assert linear == ("ndcg(gain=linear,ties=worst)", "ndcg", {"gain=linear", "ties=worst"}, 10)
    assert MetricName.of("mrr") == ("mrr", "mrr", frozenset(), None)
    assert MetricName.of("foreign:nDCG@5") == ("foreign:nDCG", "foreign:nDCG", frozenset(), 5)
    assert MetricName.of("my metric@10") == ("my metric", "my metric", frozenset(), 10)
    assert MetricName.of("a(b)(c)@x") == ("a(b)(c)@x", "a(b)(c)@x", frozenset(), None)


def test_common_queries_says_what_each_lost() -> None:
    x = system("x", "abcd", fingerprint={"all": "1"}, rows=[1, 2, 3, 4])
    y = system("y", "dcb", fingerprint={"all": "2"}, rows=[4, 3, 2])
    (x, y), cautions = common_queries([x, y])
    assert [*map(str, cautions)] == ["x: 1 of 4 queries left out, not common to all"]
    assert x.query_ids.tolist() == ["b", "c", "d"]
    assert x.values["ndcg@10"].tolist() == [[0.1, 0.2, 0.3]]
    assert x.query_attributes["rows"].tolist() == [2, 3, 4]
    assert incompatibilities([x, y]) == []


def test_no_common_query() -> None:
    with pytest.raises(NotComparableError, match="no query is common to all"):
        common_queries([system("x", "ab"), system("y", "cd")])


def test_aligned_by_id() -> None:
    x, y = aligned([system("x", "cab"), system("y", "abc")])
    assert x.query_ids.tolist() == y.query_ids.tolist() == ["a", "b", "c"]
    assert x.values["ndcg@10"].tolist() == [[0.1, 0.2, 0.0]]
