"""Weights that differ within a query: what rows and queries count, wherever rows are chosen, ordered or kept."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltr_harness.data.cache import DataCache
from ltr_harness.data.dataset import RankingDataset, fingerprint_dataset, fingerprint_judgments
from ltr_harness.data.readers.csv import Csv
from ltr_harness.data.readers.memory import from_arrays, from_frame
from ltr_harness.data.writers import write_dataset
from ltr_harness.errors import DataError
from ltr_harness.models.tree_model import by_position
from tests.conftest import examples


def weights_of(data: RankingDataset) -> tuple[list[float], list[float]]:
    """Return the weights of rows and of queries."""
    rows, queries = data.weights_of_rows(), data.judgments.query_weights
    assert rows is not None
    assert queries is not None
    return rows.tolist(), queries.tolist()


@pytest.mark.long
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
    assert any(note.startswith(f"weights differ within {n} of") for note in map(str, data.cautions)) == bool(
        n
    )
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
    learned = Csv(weight="w", unjudged=-1).read(["a.csv"], tmp_path).training_rows()
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


# --- weights that halve with age ---

DAYS = ["2024-03-31", "2024-03-30", "2024-03-29", "2024-03-29"]


def read_aged(**weight: object) -> RankingDataset:
    rows = {"query_id": [1, 1, 2, 2], "label": [0, 1, 0, 1], "x": [1, 2, 3, 4], "w": [1, 2, 3, 4]}
    return from_frame(
        pd.DataFrame({**rows, "day": DAYS}), weight={"half_life": "1 day", "by": "day", **weight}
    )


def test_weights_halve_back_from_the_newest_row_learned_from() -> None:
    data = read_aged()
    assert data.feature_names == ("x", "w")
    rows, queries = data.weights_of_rows(), data.weights_of_queries()
    assert rows is not None
    assert queries is not None
    np.testing.assert_allclose(rows, [1, 0.5, 0.25, 0.25], rtol=1e-9)
    np.testing.assert_allclose(queries, [0.75, 0.25], rtol=1e-9)
    assert data.judgments.query_weights is None  # metrics count all queries once
    assert "in training, weights halve every 1 day back from the newest row (day)" in map(str, data.cautions)
    np.testing.assert_allclose(data.take(np.array([1])).weights_of_rows(), [1, 1])
    assert data.take(np.array([1, 0])).weights_of_queries() == pytest.approx([0.25, 0.75])


def test_weights_of_a_column_are_multiplied() -> None:
    data = read_aged(column="w", half_life="2 days")
    np.testing.assert_allclose(data.weights_of_rows(), [1, 2 * 0.5**0.5, 1.5, 2], rtol=1e-9)  # type: ignore[arg-type]
    assert data.judgments.query_weights is not None
    assert data.judgments.query_weights.tolist() == [1.5, 3.5]
    assert data.row_weights is not None
    assert data.row_weights.tolist() == [1, 2, 3, 4]


@pytest.mark.long
@examples(60)
@given(
    st.lists(st.integers(0, 4000), min_size=1, max_size=8),
    st.sampled_from(["7 days", "90 days", "2 years"]),
    st.integers(0, 300),
)
def test_only_ages_matter_and_double_age_is_the_square(days: list[int], span: str, later: int) -> None:
    def weights(shift: int, factor: int = 1) -> np.ndarray:
        times = (
            np.datetime64("2010-01-01")
            + np.array(days, "timedelta64[D]") * factor
            + np.timedelta64(shift, "D")
        )
        ones = np.ones(times.size)
        columns = {"query_id": ones.astype(int), "label": ones, "x": ones}
        data = from_frame(
            {**columns, "t": times.astype("datetime64[us]")},
            features=["x"],
            weight={"half_life": span, "by": "t"},
        )
        return np.asarray(data.weights_of_rows())

    expected = 0.5 ** ((max(days) - np.array(days)) / {"7": 7, "9": 90, "2": 730.5}[span[0]])
    found = weights(0)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-300)
    np.testing.assert_allclose(weights(later), found, rtol=1e-6, atol=1e-300)
    np.testing.assert_allclose(weights(0, 2), found**2, rtol=1e-6, atol=1e-300)


def test_ages_are_kept_by_the_cache_and_part_of_the_fingerprint(tmp_path: Path) -> None:
    frame = pd.DataFrame({"query_id": [1, 1], "label": [0, 1], "x": [1, 2], "t": DAYS[:2], "r": [1, 0]})
    frame.to_csv(tmp_path / "a.csv", index=False)
    found = set()
    for half_life in ("1 day", "1 day", "2 days"):
        reader = Csv(weight={"half_life": half_life, "by": "t"}, features=("x",))
        cached = DataCache(tmp_path / "cache").read(reader, ["a.csv"], tmp_path)
        np.testing.assert_allclose(
            cached.dataset.weights_of_rows(),  # type: ignore[arg-type]
            [1, 0.5 ** (1 / int(half_life[0]))],
            rtol=1e-9,
        )
        assert cached.fingerprints.dataset == fingerprint_dataset(cached.dataset)
        found.add(cached.fingerprints.dataset)
    assert len(found) == 2
    with pytest.raises(DataError, match="weights that halve with age, which cannot be written to a file"):
        write_dataset(read_aged(), tmp_path / "b.csv")
    assert not (tmp_path / "b.csv").exists()


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ({"half_life": "90 days", "by": None}, "weight.half_life without times; expected `by:`, the column"),
        ({"half_life": "0 days"}, "a number of days, weeks, months, quarters or years, such as 3 months"),
        ({"half_life": "-3 days"}, "a number of days, weeks, months, quarters or years, such as 3 months"),
        ({"by": "dya"}, "frame: has no column 'dya'; did you mean 'day'?"),
        ({"by": "w"}, r"column 'w': holds numbers \(int64\), which may be seconds"),
        ({"column": "day"}, "column 'day' has the type .*string; expected numbers"),
        ({"older": 3}, "Extra inputs are not permitted"),
    ],
)
def test_what_cannot_be_a_half_life(weight: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_aged(**weight)


def test_a_row_without_a_time_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("query_id,label,x,day\n1,0,1,2024-01-01\n1,1,2,\n")
    with pytest.raises(DataError, match=r"a\.csv:3: column 'day' is empty; expected a time in every row"):
        Csv(weight={"half_life": "1 day", "by": "day"}).read(["a.csv"], tmp_path)


@pytest.mark.parametrize(
    "roles",
    [
        {"attributes": ["day"], "weight": {"half_life": "1 day", "by": "day"}},
        {"attributes": ["day"], "timestamp": "day", "weight": {"half_life": "1 day"}},
        {"query": "day", "weight": {"half_life": "1 day", "by": "day"}},
        {"document_id": "day", "weight": {"half_life": "1 day", "by": "day"}},
    ],
)
def test_the_column_of_times_may_have_another_role(roles: dict[str, Any], tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {"query_id": [1, 2], "label": [1, 0], "x": [0.5, 0.1], "day": ["2024-01-01", "2024-01-03"]}
    )
    frame.to_csv(tmp_path / "rows.csv", index=False)
    for data in (from_frame(frame, **roles), Csv(**roles).read(["rows.csv"], tmp_path)):
        weights = data.weights_of_rows()
        assert weights is not None
        assert weights.tolist() == [1 / 4, 1]
