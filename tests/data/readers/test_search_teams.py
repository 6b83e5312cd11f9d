"""Files of search teams as they lie: judgment lists, blanks, repetitions, and forms that are refused with a cure."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from ltr_harness import evaluate_runs
from ltr_harness.errors import DataError
from tests.conftest import named_case

SAMPLES = (
    Path(os.environ.get("LTR_HARNESS_DATA", Path(__file__).parents[4] / "shared" / "data")) / "search_teams"
)
needs_samples = pytest.mark.skipif(not SAMPLES.is_dir(), reason="no samples of search teams")


def judged(qrels: Any, run: Any = None, **options: Any) -> Any:
    return evaluate_runs(qrels, run or {"q1": ["a", "b"], "q2": ["b"]}, ["ndcg@3"], **options)


@needs_samples
def test_a_judgment_list_is_read_as_judgments() -> None:
    found = judged(SAMPLES / "title_judgments.txt", {"1": ["7555", "1370", "1368"]})
    assert found.recognised[0].endswith(
        "judgment list (grade qid:query # document): 40 queries, 1,390 judgments"
    )
    frame = pd.read_csv(SAMPLES / "title_features.csv", usecols=["qid", "docId", "grade"])
    by_table = judged(frame, {"1": ["7555", "1370", "1368"]})
    assert found.frame().equals(by_table.frame())


def test_a_judgment_list_without_documents_is_refused(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("3 qid:1 # d1\n2 qid:1 1:0.5\n")
    with pytest.raises(DataError, match="names no documents, or not in every line"):
        judged(tmp_path / "list.txt")


def test_blank_ratings_are_unjudged(tmp_path: Path) -> None:
    (tmp_path / "quepid.csv").write_text("query,docid,rating\nq1,a,3\nq1,b,\nq2,b,1\n")
    found = judged(tmp_path / "quepid.csv")
    assert "1 row without a grade is unjudged" in str(found.cautions[0])
    assert found.frame().equals(judged({"q1": {"a": 3, "b": -1}, "q2": {"b": 1}}).frame())
    (tmp_path / "empty.csv").write_text("query,docid,rating\nq1,a,\nq1,b,\n")
    with pytest.raises(DataError, match="the grade is missing"):
        judged(tmp_path / "empty.csv")


def test_equal_repetitions_in_json_count_once(tmp_path: Path) -> None:
    (tmp_path / "twice.json").write_text('{"q1": {"a": 1, "b": 0, "a": 1}, "q2": {"b": 1}}')
    assert (
        judged(tmp_path / "twice.json")
        .frame()
        .equals(judged({"q1": {"a": 1, "b": 0}, "q2": {"b": 1}}).frame())
    )
    (tmp_path / "other.json").write_text('{"q1": {"a": 1, "b": 0, "a": 2}, "q2": {"b": 1}}')
    with pytest.raises(DataError, match="'a' stands twice in one object, with two values"):
        judged(tmp_path / "other.json")
    ratings = [{"query": "q1", "ratings": [{"docId": "a", "rating": "1.0"}] * 2}]
    assert judged(ratings).recognised[0].endswith("1 query, 1 judgment")


RANK_EVAL = {
    "requests": [{"id": "q1", "request": {}, "ratings": [{"_index": "i", "_id": "a", "rating": 2}]}],
    "metric": {"precision": {"k": 10}},
}
RRE = {
    "index": "i",
    "topics": [{"description": "t", "query_groups": [{"name": "q1", "relevant_documents": {"2": ["a"]}}]}],
}
BOOK = {
    "name": "b",
    "query_doc_pairs": [{"query_text": "q1", "doc_id": "a", "judgements": [{"rating": 2.0}]}],
}


@pytest.mark.parametrize(
    ("value", "name"), [(RANK_EVAL, "_rank_eval"), (RRE, "RRE"), (BOOK, "book of Quepid")]
)
def test_other_forms_are_refused_with_the_line_that_makes_a_table(
    tmp_path: Path, value: Any, name: str
) -> None:
    path = tmp_path / "judgments.json"
    path.write_text(json.dumps(value))
    with pytest.raises(DataError, match=name) as refused:
        judged(path)
    line = refused.value.problems[0].cure.partition(", and several")[0]
    assert line.startswith("jq -r ")
    if shutil.which("jq"):
        command, _, table = line.rpartition(" > ")
        out = subprocess.run(shlex.split(command), check=True, capture_output=True, text=True).stdout
        (tmp_path / table).write_text(out)
        assert judged(tmp_path / table).frame().equals(judged({"q1": {"a": 2}}).frame())


def test_a_book_with_a_column_for_each_judge_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "book.csv").write_text("query,docid,Ann,Bob\nq1,a,2,2\nq1,b,0,\nq2,b,1,1\n")
    with pytest.raises(DataError, match="a book of Quepid with a column for each judge") as refused:
        judged(tmp_path / "book.csv")
    _, _, program = refused.value.problems[0].cure.partition("python -c '")
    table = tmp_path / "qrels.csv"
    exec(program.partition("'")[0].replace('"qrels.csv"', repr(str(table))), {})
    found = judged(table, several="majority")
    assert found.frame().equals(judged({"q1": {"a": 2, "b": 0}, "q2": {"b": 1}}).frame())


BAD_INPUT = [
    (
        {"q1": ["a"], "q2": {"b": 2}},
        None,
        {},
        r"\['q2'\]: has values for each document, and qrels\['q1'\] is a list",
    ),
    (None, {"q1": ["a"], "q2": {"b": 2.0}}, {}, "one form for all queries"),
    (
        None,
        [{"query_id": "q1", "retrieved": ["a"]}, {"query_id": "q2", "contexts": ["b"]}],
        {},
        "as row 1 has",
    ),
    (
        None,
        [{"query_id": "q1", "doc_id": "a", "score": 1}, {"query_id": "q2", "retrieved": ["b"]}],
        {},
        "row 2: has",
    ),
    (
        None,
        [{"question": "q1", "contexts": ["Paris is the capital of France."]}],
        {},
        "retrieved_context_ids",
    ),
    (
        [{"question": "q1", "ground_truth": "Paris is the capital of France."}],
        None,
        {},
        "put the ids under relevant_ids",
    ),
    (
        None,
        {"q1": ["x"], "q2": ["y"]},
        {"exclude": {"q1": ["x"], "q2": ["y"]}},
        "all listed documents are excluded",
    ),
    (None, {"q1": ["a", "a"]}, {}, "document 'a' is listed for query 'q1'"),
    (None, {"q1": ["a#1", "c"]}, {"documents_of": {"a#1": "a"}}, "1 id of run has no document: c"),
]


def test_bad_input_is_refused() -> None:
    for qrels, run, options, message in BAD_INPUT:
        with named_case(message), pytest.raises(DataError, match=message):
            judged(qrels or {"q1": ["a"], "q2": ["b"]}, run, **options)


def test_an_exclusion_that_empties_a_ranking_is_counted() -> None:
    found = judged({"q1": ["a"], "q2": ["b"]}, {"q1": ["x"], "q2": ["b"]}, exclude={"q1": ["x"]})
    assert "1 excluded document was taken out of its lists; 1 is empty now" in str(found.cautions[0])
    assert found.frame()["ndcg@3"].tolist() == [0.5]
