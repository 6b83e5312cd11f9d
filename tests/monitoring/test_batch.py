"""Rows of a batch: an item that a query lists again."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ltr_harness.data.logs.contract import _repeated


def test_an_item_counts_again_only_within_its_query_and_a_missing_one_never() -> None:
    queries = np.array([0, 0, 0, 0, 0, 1, 1, 1], dtype=np.int32)
    items = np.array([2, 1, 2, -1, -1, 2, 1, 1], dtype=np.int32)
    expected = [False, False, True, False, False, False, False, True]
    assert _repeated(queries, items, n_items=3).tolist() == expected


@pytest.mark.long
@settings(deadline=None)  # it may be compiled first
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(-1, 5)), max_size=40))
def test_repeated_rows_are_those_that_pandas_finds(rows: list[tuple[int, int]]) -> None:
    rows.sort(key=lambda row: row[0])
    frame = pd.DataFrame(rows, columns=["query", "item"]).astype(np.int32)
    found = _repeated(frame["query"].to_numpy(), frame["item"].to_numpy(), n_items=6)
    assert found.tolist() == (frame.duplicated() & (frame["item"] >= 0)).tolist()
