"""Weights that differ within a query: what rows and queries count, wherever rows are chosen, ordered or kept."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltr_harness.cache import DataCache
from ltr_harness.dataset import RankingDataset, fingerprint_dataset, fingerprint_judgments
from ltr_harness.errors import DataError
from ltr_harness.rankers.adapters import by_position
from ltr_harness.readers.csv import Csv
from ltr_harness.readers.memory import from_arrays, from_frame


def weights_of(data: RankingDataset) -> tuple[list[float], list[float]]:
    """Of rows and of queries."""
    rows, queries = data.weights_of_rows(), data.judgments.query_weights
    assert rows is not None
    assert queries is not None
    return rows.tolist(), queries.tolist()


@given(st.lists(st.lists(st.sampled_from([0.0, 0.5, 3.0]), min_size=1, max_size=4), min_size=1, max_size=5))
def test_a_row_counts_its_own_weight_and_a_query_the_mean(queries: list[list[float]]) -> None:
    flat = [weight for query in queries for weight in query]
    ids = np.repeat(np.arange(len(queries)), [len(query) for query in queries])
    arguments = {"query_ids": ids, "weights": flat}
    if not any(flat):
        with pytest.raises(DataError, match="arrays: all weights are 0; expected at least one above 0"):
            from_arrays(np.zeros((len(flat), 1)), flat, **arguments)
        return
    data = from_arrays(np.zeros((len(flat), 1)), flat, **arguments)
    rows, means = weights_of(data)
    assert rows == flat
    np.testing.assert_allclose(means, pd.Series(flat).groupby(ids).mean())
    n = sum(len(set(query)) > 1 for query in queries)
    assert (data.row_weights is None) == (not n)
    assert any(note.startswith(f"weights differ within {n} of") for note in data.notes) == bool(n)
    for query in range(len(queries)):
        assert weights_of(data.take(np.array([query])))[0] == queries[query]


def test_weights_go_where_their_rows_go() -> None:
    data = from_arrays(
        np.arange(6)[:, None],
        [0, 1, 0, 0, 2, 1],
        query_ids=["a", "b", "a", "b", "c", "c"],
        weights=[1, 2, 3, 4, 5, np.nan],
        positions=[2, 1, 1, 3, 1, 2],
        retrieved=[1, 1, 1, 1, 1, 0],
        regroup=True,
    )
    assert data.features.ravel().tolist() == [0, 2, 1, 3, 4]
    assert weights_of(data) == ([1, 3, 2, 4, 5], [2, 3, 5])
    assert weights_of(by_position(data))[0] == [3, 1, 2, 4, 5]
    assert weights_of(data.take(np.array([1, 0]))) == ([2, 4, 1, 3], [3, 2])


def test_unjudged_rows_take_their_weights_along(tmp_path: Path) -> None:
    frame = pd.DataFrame({"query_id": [1, 1, 2], "label": [-1, 1, 0], "x": [1, 2, 3], "w": [1.0, 3.0, 5.0]})
    frame.to_csv(tmp_path / "a.csv", index=False)
    learned = Csv(weight="w", unjudged=-1).read(["a.csv"], tmp_path).learnable()
    assert weights_of(learned)[0] == [3, 5]


def test_fingerprints_know_rows_and_those_of_judgments_queries_alone(tmp_path: Path) -> None:
    frame = pd.DataFrame({"query_id": [1, 1, 2], "label": [0, 1, 0], "x": [1, 2, 3], "w": [1, 3, 5]})
    rows = from_frame(frame, weight="w", features=["x"])
    swapped = from_frame(frame.assign(w=[3, 1, 5]), weight="w", features=["x"])
    queries = from_frame(frame.assign(w=[2, 2, 5]), weight="w", features=["x"])
    assert queries.row_weights is None
    assert len({fingerprint_dataset(each) for each in (rows, swapped, queries)}) == 3
    assert len({fingerprint_judgments(each.judgments) for each in (rows, swapped, queries)}) == 1
    # of version 0.2.0, which knew no weights of rows
    known = "c359fba1f36a6847f8b7ee7bacf568e00024940f8fc381cd4857800905a8c776"
    assert fingerprint_dataset(queries) == known
    frame.to_csv(tmp_path / "a.csv", index=False)
    for _ in range(2):  # from the file, and from the cache
        cached = DataCache(tmp_path / "cache").read(Csv(weight="w"), ["a.csv"], tmp_path)
        assert weights_of(cached.dataset) == ([1, 3, 5], [2, 5])
        assert cached.fingerprints.dataset == fingerprint_dataset(rows)
