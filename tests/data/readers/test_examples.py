"""Small examples of internals, which a reader can check by hand."""

from pathlib import Path

import numpy as np

from ltr_harness.data.readers.column_names import (
    column_among,
    column_for,
    event_weight,
    features_line,
    is_id,
    is_outcome,
    is_place,
)
from ltr_harness.data.readers.judgment_formats import qrels_of, run_of
from ltr_harness.data.readers.memory import from_arrays
from ltr_harness.data.readers.reader import ValueOptions
from ltr_harness.data.readers.rows import Rows, query_ids, remap_codes
from ltr_harness.data.readers.synthetic import Synthetic
from ltr_harness.data.readers.truth import judgments_of, merge_labels, with_judgments
from ltr_harness.data.readers.words import grades_in_words


def test_qrels_of() -> None:
    assert qrels_of({"q1": {"d1": 2, "d2": 0}}).form == "dict {query: {document: grade}}"


def test_run_of() -> None:
    assert run_of([("q1", "d1", 0.5), ("q1", "d2", 2.5)]).form == "rows of (query, document, score)"


def test_with_judgments() -> None:
    rows = from_arrays([[0.5], [1.0]], [0, 1], query_ids=["a", "a"], document_ids=["x", "y"])
    truth = judgments_of({"a": {"y": 1, "z": 2}, "b": {"x": 1}})
    judged = with_judgments(rows, truth).judgments
    assert (
        judged.missed.document_ids.tolist(),
        judged.groups.ids.tolist(),
        judged.groups.sizes.tolist(),
    ) == (["z", "x"], ["a", "b"], [2, 0])


def test_one_label_each() -> None:
    documents, grades = np.array([3, 3, 3, 3, 5]), np.array([0.0, 2.0, 2.0, 0.0, 1.0])
    assert [merge_labels(documents, grades, rule)[1].tolist() for rule in ("majority", "mean", "max")] == [
        [0.0, 1.0],
        [1.0, 1.0],
        [2.0, 1.0],
    ]


def test_query_ids() -> None:
    assert (
        repr((query_ids(np.array(["10", "-2"])), query_ids(np.array(["10", "007"]))))
        == "(array([10, -2]), array(['10', '007'], dtype='<U3'))"
    )


def test_labelled() -> None:
    nothing = np.empty(0, dtype=np.int64)
    rows = Rows(
        features=np.ones((2, 1), dtype=np.float32),
        feature_names=("0",),
        labels=np.array([2.0, -1.0]),
        block_starts=nothing,
        block_ids=nothing,
        place=str,
    )
    found = rows.labelled(ValueOptions(unjudged=-1))
    assert repr((found.labels, found.judged, found.cautions)) == (
        "(array([2., 0.]), array([ True, False]), (Caution(kind='unjudged-documents', "
        "severity='note', text='1 of 2 documents is not judged (unjudged: -1)', cure='', place=''),))"
    )
    assert rows.labelled(ValueOptions(unjudged=7)).judged is None


def test_graded() -> None:
    words = ValueOptions(grades={"bad": 0, "good": 1, 3: 2})
    np.testing.assert_array_equal(words.graded(["good", "3.0", 3, "great"]), [1, 2, 2, np.nan])
    assert ValueOptions(grades={"bins": [2, 4]}).graded([0.5, 2, 3.9, 4, 11]).tolist() == [0, 1, 1, 2, 2]


def test_grades_in_words() -> None:
    assert grades_in_words({"bad": 0.0, "2": 1.5}) == "bad is 0, 2 is 1.5"


def test_truth_of_synthetic_data() -> None:
    reader = Synthetic(n_queries={"train": 2, "valid": 1, "test": 1})
    rows = reader.read(["test"], Path())
    assert reader.truth(rows).shape == (rows.n_rows,)


def test_recoded() -> None:
    assert (
        repr(remap_codes(np.array([0, 1, np.nan, 2], np.float32), ("a", "b", "c"), ("c", "a")).tolist())
        == "[1.0, nan, nan, 0.0]"
    )


def test_is_id() -> None:
    assert [name for name in ("user_id", "Session", "bm25", "valid", "brand-id") if is_id(name)] == [
        "user_id",
        "Session",
        "brand-id",
    ]


def test_is_place() -> None:
    assert [name for name in ("Ranks", "FinishPosition", "page_rank", "y5") if is_place(name)] == [
        "Ranks",
        "FinishPosition",
    ]


def test_is_outcome() -> None:
    assert [
        name
        for name in ("orders", "is_clicked", "Add to cart", "click_rate", "n_orders_30d")
        if is_outcome(name)
    ] == ["orders", "is_clicked", "Add to cart"]


def test_event_weight() -> None:
    assert [event_weight(name) for name in ("click_bool", "carts", "is_bought", "dwell", "bm25")] == [
        1,
        3,
        4,
        None,
        None,
    ]


def test_features_line() -> None:
    assert features_line(["bm25", "match: title"]) == '`features: [bm25, "match: title"]`'
    assert features_line(list(map(str, range(21)))) == "the others under `features:`"
    assert features_line([]) == "no other feature is left to learn from"


def test_column_for() -> None:
    assert (column_for("query", ["Search-ID", "score"]), column_for("query", ["impression", "score"])) == (
        "Search-ID",
        None,
    )


def test_column_among() -> None:
    assert (
        column_among(["doc_id"], ["score", "docId"]),
        column_among(["rank", "session"], ["Ranks", "sessions"]),
    ) == ("docId", "Ranks")
