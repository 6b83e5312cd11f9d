"""Judgments and rankings as lists and sets of ids by query, in Python, JSON and JSON lines."""

from __future__ import annotations

import json
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ltr_harness import evaluate_runs
from ltr_harness.errors import DataError
from tests.conftest import named_case

RELEVANT = {"q1": {"d1", "d3"}, "q2": ["d1"], "q3": {"x"}}
RETRIEVED = {"q1": ["d2", "d1"], "q2": ["d1"], "q3": []}


def value(qrels: Any, run: Any, metric: str = "mrr") -> float:
    (evaluation,) = evaluate_runs(qrels, run, [metric]).values()
    return float(evaluation.means[metric])


def test_a_list_is_a_ranking_and_an_empty_one_counts() -> None:
    """1/2, 1 and 0: q3 has an answer, and nothing was retrieved."""
    assert value(RELEVANT, RETRIEVED) == 0.5
    assert value(RELEVANT, {"q1": ["d2", "d1"], "q2": ["d1"]}) == 0.75


def test_lists_rank_as_scores_do_that_fall() -> None:
    scores = {
        query: {document: -rank for rank, document in enumerate(ids)} for query, ids in RETRIEVED.items()
    }
    grades = {query: dict.fromkeys(ids, 1) for query, ids in RELEVANT.items()}
    for metric in ("ndcg@2", "recall@1", "map"):
        assert value(RELEVANT, RETRIEVED, metric) == value(grades, scores, metric)


@pytest.mark.parametrize(
    "cells",
    [
        [("d2", 0.5), ("d1", 0.25)],
        [["d1", 0.25], ["d2", 0.5]],
        [{"id": "d1", "score": 1}, {"id": "d2", "score": 7}],
        [{"doc_id": "d2"}, {"doc_id": "d1"}],
        np.array(["d2", "d1"]),
        ("d2", "d1"),
    ],
)
def test_the_items_of_a_list(cells: Any) -> None:
    assert value({"q1": {"d1"}}, {"q1": cells}) == 0.5


def test_judgments_with_grades_in_pairs() -> None:
    """Gains 2**2 - 1 and 2**1 - 1 at the ranks 2 and 1."""
    found = value({"q1": [("d1", 2), ("d2", 1)]}, {"q1": ["d2", "d1"]}, "ndcg@2")
    assert found == pytest.approx((1 + 3 / np.log2(3)) / (3 + 1 / np.log2(3)))


@pytest.mark.parametrize(
    ("query", "retrieved", "relevant"),
    [
        ("query_id", "retrieved", "relevant"),
        ("question", "retrieved_ids", "expected"),
        ("id", "contexts", "ground_truth"),
        ("queryId", "retrievedDocuments", "goldIds"),
    ],
)
def test_rows_of_json_in_one_file_or_two(tmp_path: Path, query: str, retrieved: str, relevant: str) -> None:
    rows = [
        {query: "q1", retrieved: ["a", "b"], relevant: ["b"]},
        {query: "q2", retrieved: ["c"], relevant: "c"},
    ]
    lines = tmp_path / "both.jsonl"
    lines.write_text("\n".join(map(json.dumps, rows)))
    document = tmp_path / "both.json"
    document.write_text(json.dumps(rows))
    for both in (rows, lines, document, str(document)):
        assert value(both, both) == 0.75
    one = tmp_path / "one.jsonl"
    one.write_text(json.dumps(rows[0]))
    assert value(one, one) == 0.5


def test_several_rankings_of_lists_under_names_and_in_a_list() -> None:
    worse = {"q1": ["d2", "d9"], "q2": ["d1"]}
    named = evaluate_runs(RELEVANT, {"good": RETRIEVED, "worse": worse}, ["mrr"], all_queries=True)
    assert [evaluation.means["mrr"] for evaluation in named.values()] == [0.5, pytest.approx(1 / 3)]
    listed = evaluate_runs(RELEVANT, [RETRIEVED, worse], ["mrr"], all_queries=True)
    assert list(listed) == ["run 1", "run 2"]
    rows = [{"query_id": query, "retrieved": ids} for query, ids in worse.items()]
    beside_rows = evaluate_runs(RELEVANT, {"good": RETRIEVED, "worse": rows}, ["mrr"])
    assert beside_rows["worse"].means["mrr"] == 0.5


def test_lists_are_evaluated_as_rows_are() -> None:
    """Of more queries than are read at once, some without documents, ids in and beyond ASCII, texts and integers."""
    rng = np.random.default_rng(0)
    for names in ([f"d{number}" for number in range(40)], [f"é{number}" for number in range(40)], range(40)):
        run = {
            f"q{query}": [names[i] for i in rng.permutation(40)[: rng.integers(0, 9)]] for query in range(250)
        }
        qrels = {query: {names[i] for i in rng.permutation(40)[:5]} for query in run}
        graded = [(query, document, 1) for query, documents in qrels.items() for document in documents]
        scored = [(query, document, -rank) for query, ids in run.items() for rank, document in enumerate(ids)]
        for metric in ("ndcg@5", "map"):
            n_empty = sum(not ids for ids in run.values())
            assert value(qrels, run, metric) == pytest.approx(
                value(graded, scored, metric) * (250 - n_empty) / 250
            )


class Key(str, Enum):  # noqa: UP042, as older code has them
    Q, D, E = "q1", "d1", "e1"


def test_members_of_an_enumeration_are_their_values() -> None:
    """In every form: beside integers, which are read one by one, and in a list without documents too."""
    assert value({Key.Q: {Key.D}}, {"q1": ["e1", "d1"]}) == 0.5
    assert value({"q1": {"d1"}}, {Key.Q: [Key.E, Key.D]}) == 0.5
    assert value({"q1": {"d1"}}, {Key.Q: [7, Key.D]}) == 0.5
    assert value({"q1": {"d1"}, "q2": {"d1"}}, {Key.Q: [], "q2": ["d1"]}) == 0.5
    assert value([(Key.Q, Key.D, 1)], [("q1", "e1", 2.0), (Key.Q, Key.D, 1.0)]) == 0.5


def test_a_repeated_id_has_its_place() -> None:
    run = {"q0": [], **{f"q{query}": ["a", "b"] for query in range(1, 200)}, "q200": ["a", "c", "a"]}
    with pytest.raises(DataError) as caught:
        evaluate_runs({"q200": {"a"}}, run, ["mrr"])
    found = "run['q200']['a']: document 'a' is listed for query 'q200' at run['q200']['a'] already"
    assert str(caught.value).startswith(found)
    with pytest.raises(
        DataError, match=r"run\['q200'\]\['a\\x00b'\]: the document is 'a\\x00b', with a NUL byte"
    ):
        evaluate_runs({"q200": {"a"}}, {**run, "q200": ["a", "a\0b"]}, ["mrr"])


NO_LISTS = [
    (RELEVANT, {"q1": {"d1"}}, "run['q1']: is a set, which has no order"),
    (RELEVANT, {"q1": ["d1", "d1"]}, "document 'd1' is listed for query 'q1'"),
    (RELEVANT, {"q1": ["d1", ("d2", 0.3)]}, "run['q1'][0]: has no score, and others have"),
    (RELEVANT, {"q1": ["d1", None]}, "the document is missing"),
    (RELEVANT, {"q1": ["d1", 2.5]}, "run['q1'][1]: is '2.5', a float; expected an id"),
    (RELEVANT, {"q1": ["d1", {"text": "t"}]}, "run['q1'][1]: has text; expected an id"),
    (
        RELEVANT,
        {"q1": ["d1", b"d2"]},
        "q1: holds 'd1', a str; expected rows of (query, document, score), or ids",
    ),
    (
        RELEVANT,
        {"q0": ["d1"], "q1": ["d1", b"d2"]},
        "run['q1'][1]: is \"b'd2'\", a bytes; expected an id",
    ),
    (RELEVANT, {"q1": ["d1", "\ud800"]}, "an id is not Unicode text (a lone surrogate)"),
    (RELEVANT, {"q1": []}, "has no rows"),
    ({"q1": 5}, RETRIEVED, "qrels['q1']: holds int instead of documents"),
    (RELEVANT, [{"query_id": "q1", "answer": ["a"]}], "no column is the document"),
    (
        RELEVANT,
        [{"query_id": "q1", "retrieved": ["a"]}, {"query_id": "q1", "retrieved": ["b"]}],
        "run: row 2: query 'q1' has a row already",
    ),
    (
        RELEVANT,
        [{"query_id": "q1", "retrieved": ["a"]}, {"query_id": "q2"}],
        "run: row 2: has query_id; expected a query, such as query_id, beside retrieved",
    ),
]


def test_what_is_no_list_of_ids_is_refused_with_its_place() -> None:
    for qrels, run, message in NO_LISTS:
        with named_case(message):
            with pytest.raises(DataError) as caught:
                evaluate_runs(qrels, run, ["mrr"])
            assert message in str(caught.value)
