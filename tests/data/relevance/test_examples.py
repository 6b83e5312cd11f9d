"""Small examples of internals, which a reader can check by hand."""

import numpy as np
import pyarrow as pa

from ltr_harness.data.logs.log import open_log
from ltr_harness.data.logs.settings import ListColumns
from ltr_harness.data.relevance.labels import grades_from_events, labels_of, quantile_grades
from ltr_harness.data.relevance.propensities import (
    doubly_robust,
    effective_size,
    from_random_order,
    from_swaps,
    inverse_propensity,
)
from ltr_harness.data.relevance.rule import Relevance


def test_grades_from_events() -> None:
    rule = Relevance(events={"click": 1, "favorite": 2, "buy": 4})
    happened = {"click": [1, 1, 0, 0, 2], "favorite": [0, 1, 0, 1, 0], "buy": [0, 1, 0, 0, 0]}
    assert grades_from_events(rule, {name: np.array(n) for name, n in happened.items()}).tolist() == [
        1.0,
        4.0,
        0.0,
        2.0,
        1.0,
    ]


def test_quantile_grades() -> None:
    assert quantile_grades(np.array([0.3, -0.1, 0.3, 2.0, 5.0]), np.array([0, 0, 0, 0, 1]), 4).tolist() == [
        1.0,
        0.0,
        1.0,
        3.0,
        0.0,
    ]


def test_labels_of() -> None:
    table = pa.table({"q": ["a", "a", "b"], "rank": [1, 2, 1], "click": [1, 1, 0], "buy": [0, 1, 0]})
    rule = Relevance(events={"click": 1, "buy": 4})
    columns = ListColumns(query_id="q", rank="rank")
    assert labels_of(open_log(table), rule, columns, "row {}".format).grades.tolist() == [1.0, 4.0, 0.0]


def test_from_swaps() -> None:
    """Two items: the first is clicked always when looked at, and rank 2 is looked at half of the time."""
    lists = np.repeat(np.arange(200), 2)
    shown = np.tile([1, 2], 200)
    original = np.concatenate((np.tile([1, 2], 100), np.tile([2, 1], 100)))
    clicked = np.where(original == 1, np.where(shown == 1, 1.0, lists % 2), 0.0)
    assert {
        k: (p, round(error, 3)) for k, (p, error) in from_swaps(lists, shown, original, clicked).items()
    } == {1: (1.0, 0.0), 2: (0.5, 0.1)}


def test_from_random_order() -> None:
    found = from_random_order(np.repeat([1, 2], 100), np.repeat([1.0, 0.0, 1.0, 0.0], [50, 50, 40, 60]))
    assert {k: (p, round(error, 3)) for k, (p, error) in found.items()} == {1: (1.0, 0.1), 2: (0.8, 0.122)}


def test_inverse_propensity() -> None:
    assert inverse_propensity(np.array([1.0, 0.0, 4.0]), np.array([1.0, 0.5, 0.25]), 0.5).tolist() == [
        1.0,
        0.0,
        8.0,
    ]


def test_doubly_robust() -> None:
    gains, looked = np.array([1.0, 0.0, 0.0]), np.array([0.5, 0.5, 0.1])
    # 0.5 + (0 - 0.05) / 0.2
    assert doubly_robust(gains, looked, np.array([0.5, 0.5, 0.5]), 0.2).tolist() == [2.0, 0.0, 0.25]


def test_effective_size() -> None:
    # 16 / 6
    assert effective_size(np.array([1.0, 1.0, 2.0])) == 2.6666666666666665
