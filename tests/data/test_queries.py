"""The rows that form a query: from ids or sizes, in any order, and the refusals."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltr_harness import evaluate, from_arrays
from ltr_harness.data.arrays import as_column
from ltr_harness.data.judgments import Judgments
from ltr_harness.data.queries import QueryGroups, check_scores
from ltr_harness.errors import DataError
from tests.conftest import named_case


@pytest.mark.long
@given(st.lists(st.integers(1, 50), min_size=1, max_size=30))
def test_sizes_become_boundaries(sizes: list[int]) -> None:
    groups = QueryGroups.from_sizes(sizes)
    assert groups.n_queries == len(sizes)
    assert groups.n_rows == sum(sizes)
    assert groups.sizes.tolist() == sizes
    assert groups.boundaries[0] == 0
    for row in (0, groups.n_rows - 1):
        query = groups.query_of(row)
        assert groups.boundaries[query] <= row < groups.boundaries[query + 1]


@pytest.mark.long
@given(st.lists(st.sampled_from("abcde"), min_size=1, max_size=40))
def test_ids_in_any_order_keep_first_appearance_and_row_order(ids: list[str]) -> None:
    groups, order = QueryGroups.from_ids(ids)
    names = list(dict.fromkeys(ids))
    assert list(groups.ids) == names
    assert groups.sizes.tolist() == [ids.count(name) for name in names]
    expected = [row for name in names for row, other in enumerate(ids) if other == name]
    assert (np.arange(len(ids)) if order is None else order).tolist() == expected
    contiguous = expected == list(range(len(ids)))
    assert (order is None) == contiguous


def test_ids_of_mixed_types_are_told_apart() -> None:
    groups, order = QueryGroups.from_ids(np.array([1, "1", 1, "1"], dtype=object))
    assert groups.n_queries == 2
    assert order is not None
    assert order.tolist() == [0, 2, 1, 3]


def test_take_keeps_whole_queries() -> None:
    groups = QueryGroups.from_sizes([2, 3, 1], ids=["a", "b", "c"])
    part, rows = groups.take(np.array([2, 0]))
    assert rows.tolist() == [5, 0, 1]
    assert part.ids.tolist() == ["c", "a"]
    assert part.sizes.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("labels", "judged", "message"),
    [
        (
            [0, np.inf, 0, np.nan],
            None,
            r"label inf in query '0', its row 1 \(2 such rows\); expected finite labels",
        ),
        (
            [1, 0, -1, 0],
            [False, True, False, True],
            r"label 1 in query '0' belongs to a row .* \(2 such rows\)",
        ),
    ],
)
def test_of_several_bad_rows_the_first_is_named(
    labels: list[float], judged: list[bool] | None, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        Judgments.checked(labels, QueryGroups.from_sizes([2, 2]), judged=judged)


def test_judgments_take_everything_along() -> None:
    judgments = Judgments.checked(
        [1, 0, 2, 0, 0, 3],
        QueryGroups.from_sizes([2, 3, 1]),
        query_weights=[1.0, 2.0, 3.0],
        document_ids=list("uvwxyz"),
        judged=[True, True, True, False, True, True],
    )
    part = judgments.take(np.array([1]))
    assert part.labels.tolist() == [2, 0, 0]
    assert part.query_weights is not None
    assert part.query_weights.tolist() == [2.0]
    assert part.document_ids is not None
    assert part.document_ids.tolist() == list("wxy")
    assert part.judged is not None
    assert part.judged.tolist() == [True, False, True]


REFUSED_SIZES = [
    ([], "group_sizes is empty"),
    ([1, 0], r"group_sizes\[1\] is 0 \(1 such\).*leave empty queries out"),
    ([2, -1, -1], r"group_sizes\[1\] is -1 \(2 such\)"),
    ([1.5], "expected integers, rows per query"),
    (["a"], "expected integers, rows per query"),
    # 4 * 2^62 is 2^64, so that in 64 bits they add up to 5
    (
        [2**62, 2**62, 2**62, 2**62 + 5],
        r"group_sizes\[0\] is 4611686018427387904, with which they add up to 4.61e\+18",
    ),
    (np.array([3, 2**64 - 1], dtype=np.uint64), r"group_sizes\[1\] is 18446744073709551615"),
    ([2.0, 1e30], r"group_sizes\[1\] is 1e\+30, with which they add up to 1e\+30"),
    ([2.0, np.inf], r"group_sizes\[1\] is inf"),
    ([[1, 2]], r"group_sizes has shape \(1, 2\)"),
]


def test_sizes_that_are_refused() -> None:
    for sizes, message in REFUSED_SIZES:
        with named_case(sizes), pytest.raises(DataError, match=message):
            QueryGroups.from_sizes(sizes)  # type: ignore[arg-type]


def test_whole_numbers_may_be_floats() -> None:
    assert QueryGroups.from_sizes([2.0, 1.0]).sizes.tolist() == [2, 1]


def test_ids_must_be_as_many_as_sizes() -> None:
    with pytest.raises(DataError, match="2 query ids for 1 group sizes; expected one id per query"):
        QueryGroups.from_sizes([3], ids=["a", "b"])


def test_scores_are_checked_against_the_groups() -> None:
    groups = QueryGroups.from_sizes([2, 1], ids=["q7", "q8"])
    assert check_scores(np.float32([1, 2, 3]), groups).dtype == np.float64
    assert check_scores([np.inf, -np.inf, 0], groups).tolist() == [np.inf, -np.inf, 0]
    with pytest.raises(DataError, match=r"score is NaN in query 'q8', its row 0 \(1 such row\)"):
        check_scores([1.0, 2.0, np.nan], groups)


def test_a_column_has_one_dimension() -> None:
    with pytest.raises(DataError, match=r"labels has shape \(\); expected one value per row"):
        as_column(3, "labels")  # type: ignore[arg-type]


def test_one_long_id_takes_no_memory_for_all() -> None:
    """As wide as the longest, an array of 10,000 ids took 4 * 10,000 * 100,000 bytes."""
    forms: list[Any] = [list, tuple, lambda ids: np.array(ids, dtype=object), pd.Series]
    for form, other in itertools.product(forms, ["a", None, 7]):
        with named_case((form, other)):
            ids = [other] * 5_000 + ["x" * 100_000] + [other] * 5_000
            with pytest.raises(
                DataError, match=r"ids\[5000\] has 100,000 characters; expected at most 1,000"
            ):
                as_column(form(ids), "ids")


KINDS_OF_LISTS = [
    ([1, 2], "int64"),
    ([1, True], "int64"),
    ([True, False], "bool"),
    ([1.0, 2], "float64"),
    ([1, 2.5], "float64"),
    ([1, 2**64], "object"),
    ([1, None], "object"),
    ([1.0, "b"], "<U32"),
    (["a", "bcd"], "<U3"),
    (["a" * 1000], "<U1000"),
    ([b"ab"], "|S2"),
]


def test_a_list_becomes_what_numpy_makes_of_it() -> None:
    for values, kind in KINDS_OF_LISTS:
        with named_case(values):
            found = as_column(values, "values")
            assert found.dtype == kind == np.asarray(values).dtype
            assert found.tolist() == np.asarray(values).tolist()


@pytest.mark.parametrize("labels", [[0, 3, 3, 1], [0.5, 0, 0.5], [300, 0, 7], [2, 2]])
def test_distinct_labels_are_told_whether_or_not_they_fit_a_byte(labels: list[float]) -> None:
    judgments = Judgments.checked(labels, QueryGroups.from_sizes([len(labels)]))
    assert judgments.distinct_labels.tolist() == sorted(set(labels))


@pytest.mark.parametrize("kept", [[0, 1], [1, 2], [2, 0], [1]])
def test_neighbouring_queries_are_taken_as_any_others(kept: list[int]) -> None:
    groups = QueryGroups.from_sizes([2, 1, 3], ids=["a", "b", "c"])
    some = Judgments.checked(np.arange(6), groups, document_ids=list("uvwxyz")).take(np.array(kept))
    rows = [row for query in kept for row in ([0, 1], [2], [3, 4, 5])[query]]
    assert some.groups.ids.tolist() == ["abc"[query] for query in kept]
    assert some.labels.tolist() == rows
    assert some.document_ids.tolist() == ["uvwxyz"[row] for row in rows]  # type: ignore[union-attr]
    assert some.documents_of(np.array([0])).tolist() == ["uvwxyz"[rows[0]]]  # type: ignore[union-attr]


NO_SINGLE_VALUES = [
    (np.zeros(4, dtype=[("a", "f8"), ("b", "U2")]), "rows of several fields"),
    (pd.Series([1, [2], 3, 4]), r"\[1\] is a list"),
    (pd.Series([1, 2, np.ones(2), 4]), r"\[2\] is a ndarray"),
]

COLUMNS = ["labels", "scores", "query_ids", "document_ids", "judged", "retrieved"]


def test_a_row_is_one_value() -> None:
    for (odd, found), name in itertools.product(NO_SINGLE_VALUES, COLUMNS):
        with named_case((name, found)):
            columns = {"labels": [0, 1, 0, 1], "scores": [1, 2, 3, 4], "query_ids": [1, 1, 2, 2], name: odd}
            with pytest.raises(DataError, match=f"{name}.*{found}.*; expected one value per row"):
                evaluate(**columns, metrics=["mrr"])


def test_ids_that_are_missing_in_pandas() -> None:
    for missing in (pd.NA, pd.NaT, None, np.nan):
        with pytest.raises(DataError, match=r"query_ids\[1\] is missing \(1 such\)"):
            QueryGroups.from_ids(pd.Series(["a", missing, "b"], dtype=object))


def test_flags_among_objects() -> None:
    flags = pd.Series([True, False, True, True], dtype=object)
    columns = {"labels": [0, 1, 0, 1], "scores": [1, 2, 3, 4], "query_ids": [1, 1, 2, 2], "metrics": ["mrr"]}
    plain = evaluate(**columns, retrieved=flags.to_numpy(bool))
    assert evaluate(**columns, retrieved=flags).means == plain.means


def test_scores_that_are_no_numbers_beside_what_was_retrieved() -> None:
    columns = {"labels": [0, 1], "query_ids": [1, 1], "metrics": ["mrr"], "retrieved": [True, True]}
    for odd in (np.array([1, 2], "m8[s]"), ["1", "2"], [1j, 2j]):
        with pytest.raises(DataError, match="scores are not numbers"):
            evaluate(scores=odd, **columns)


def test_subtopics_and_flags_among_objects() -> None:
    grades = np.array([[1, 0], [0, 1]])
    rows = {"labels": [0, 1], "scores": [1, 2], "query_ids": [1, 1], "metrics": ["alpha_ndcg"]}
    plain = evaluate(**rows, subtopics=grades)
    assert evaluate(**rows, subtopics=grades.astype(object)).means == plain.means
    with pytest.raises(DataError, match="retrieved are not numbers"):
        from_arrays([[1.0], [2.0]], [0, 1], query_ids=[1, 1], retrieved=pd.Series([pd.NA, 1], dtype=object))


def test_a_number_for_features_beside_flags() -> None:
    with pytest.raises(DataError, match="0 values of retrieved for 1 row of features"):
        from_arrays(3.0, [], query_ids=[], retrieved=np.array([], dtype=bool))


@pytest.mark.parametrize("kind", [object, "S4"])
def test_bytes_that_are_no_text(kind: Any) -> None:
    ids = np.array([b"a", b"\xff\xfe"], dtype=kind)
    calls: list[Callable[[], Any]] = [
        lambda: from_arrays([[1.0], [2.0]], [0, 1], query_ids=ids),
        lambda: from_arrays([[1.0], [2.0]], [0, 1], group_sizes=[2], document_ids=ids),
        lambda: evaluate([0, 1], [1, 2], ["mrr"], query_ids=ids),
    ]
    for call in calls:
        with pytest.raises(DataError, match=r"ids\[1\] is b'\\xff\\xfe', bytes beyond ASCII; expected text"):
            call()
    assert from_arrays([[1.0]], [0], query_ids=ids[:1]).n_queries == 1
