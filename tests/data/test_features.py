"""Sparse features are the array that they stand for, whatever is asked of them."""

from __future__ import annotations

import copy
import pickle
import tracemalloc
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from ltr_harness import from_arrays
from ltr_harness.data import features as module
from ltr_harness.data.cache import Fingerprints, open_entry, write_entry
from ltr_harness.data.dataset import RankingDataset, fingerprint_dataset
from ltr_harness.data.features import SparseFeatures, column_ranges, rows_of
from ltr_harness.data.readers.rows import with_columns
from ltr_harness.data.readers.text_files import VARIABLE
from ltr_harness.errors import DataError
from ltr_harness.experiments.inspection import data_card
from tests.conftest import named_case


def array(n_rows: int = 40, n_features: int = 12) -> NDArray[np.float32]:
    """Return rows of which a tenth is filled; a column is full, one is empty, one is missing throughout."""
    draw = np.random.default_rng(3)
    dense = np.where(draw.random((n_rows, n_features)) < 0.1, draw.normal(size=(n_rows, n_features)), 0)
    dense[draw.random(dense.shape) < 0.02] = np.nan
    dense[:, 3], dense[:, 4], dense[:, 5], dense[7] = draw.normal(size=n_rows), 0, np.nan, 0
    return dense.astype(np.float32)


def both(**given: Any) -> tuple[RankingDataset, RankingDataset]:
    """Return a dataset of the array and one of the sparse matrix."""
    dense, labels = array(), np.arange(40) % 3
    arrays = [dense, csr_matrix(dense)]
    of_array, of_matrix = (from_arrays(each, labels, group_sizes=[10] * 4, **given) for each in arrays)
    assert isinstance(of_array.features, np.ndarray)
    assert isinstance(of_matrix.features, SparseFeatures)
    return of_array, of_matrix


ROWS: list[Any] = [
    slice(None), slice(5, 20), slice(30, 90), slice(9, 9), slice(9, 3), slice(None, None, 3), slice(-4, None),
    [3, 3, 0], np.array([39, 7, 7]), np.arange(40) % 2 == 0, np.empty(0, dtype=np.int64),
]  # fmt: skip


def test_rows_are_those_of_the_array_and_stay_sparse() -> None:
    dense = array()
    for rows in ROWS:
        with named_case(rows):
            part = SparseFeatures.of_array(dense)[rows]
            assert isinstance(part, SparseFeatures)
            assert part.shape == dense[rows].shape
            np.testing.assert_array_equal(part, dense[rows])
            assert not any(each.flags.writeable for each in (part.values, part.columns, part.starts))


def test_cells_and_columns_are_arrays() -> None:
    dense = array()
    sparse = SparseFeatures.of_array(dense)
    for column in (*range(12), -1):
        np.testing.assert_array_equal(sparse[:, column], dense[:, column])
    for index in (7, np.int64(-1), (3, 4), (slice(2, 5), [1, 3]), (slice(2, 5), 3)):
        np.testing.assert_array_equal(sparse[index], dense[index])
    with pytest.raises(IndexError):
        sparse[:, 12]
    np.testing.assert_array_equal(rows_of(sparse, slice(3, 9)), rows_of(dense, slice(3, 9)))


def test_numpy_takes_them_for_the_array() -> None:
    dense = array()
    sparse = SparseFeatures.of_array(dense)
    assert (sparse.shape, sparse.size, sparse.ndim, sparse.dtype) == (dense.shape, dense.size, 2, dense.dtype)
    assert np.asarray(sparse).dtype == np.float32
    assert np.asarray(sparse, dtype=np.float64).dtype == np.float64
    np.testing.assert_array_equal(np.isnan(sparse).sum(axis=0), np.isnan(dense).sum(axis=0))
    changed = np.array(sparse)
    changed[0] = 5
    np.testing.assert_array_equal(sparse, dense)
    for other in (
        copy.deepcopy(sparse),
        pickle.loads(pickle.dumps(sparse)),
        SparseFeatures.of_matrix(sparse.csr),
    ):
        np.testing.assert_array_equal(other, dense)


def test_parts_are_joined_and_blocks_have_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    dense = array()
    parts = [SparseFeatures.of_array(dense[start : start + 9]) for start in range(0, 40, 9)]
    joined = SparseFeatures.joined(parts)
    np.testing.assert_array_equal(joined, dense)
    monkeypatch.setattr(module, "BLOCK", 4 * 12 * 7)
    blocks = list(joined.blocks())
    assert [(rows.start, rows.stop) for rows, _ in blocks] == [
        *((at, at + 7) for at in range(0, 35, 7)),
        (35, 40),
    ]
    np.testing.assert_array_equal(np.concatenate([block for _, block in blocks]), dense)
    assert [block.shape for _, block in joined[:0].blocks()] == [(0, 12)]


def test_minus_0_stays_and_0_is_not_stored() -> None:
    """Fingerprints see the bits."""
    dense = np.array([[0.0, -0.0, 2.0]], dtype=np.float32)
    sparse = SparseFeatures.of_array(dense)
    assert sparse.values.size == 2
    assert np.signbit(np.asarray(sparse)).tolist() == [[False, True, False]]
    explicit = csr_matrix((np.array([0.0, -0.0, 2.0]), ([0, 0, 0], [0, 1, 2])), shape=(1, 3))
    assert SparseFeatures.of_matrix(explicit).values.size == 2


def test_ranges_of_columns() -> None:
    dense = array()
    for rows in (dense, dense[7:8], dense[:2]):
        for of_array, of_sparse in zip(
            column_ranges(rows), column_ranges(SparseFeatures.of_array(rows)), strict=True
        ):
            np.testing.assert_array_equal(of_sparse, of_array)


def test_columns_in_another_order_and_further_ones() -> None:
    of_array, of_matrix = both()
    for names in (("5", "3", "0", "new"), ("new", "1", "2"), tuple(map(str, range(14)))):
        one, other = (with_columns(dataset, names) for dataset in (of_array, of_matrix))
        assert isinstance(other.features, SparseFeatures)
        np.testing.assert_array_equal(other.features, one.features)
        starts, columns = other.features.starts, other.features.columns
        assert all((np.diff(columns[first:end]) > 0).all() for first, end in pairwise(starts))
        assert one.cautions == other.cautions


@pytest.mark.long
def test_datasets_have_the_same_fingerprint_parts_and_card(monkeypatch: pytest.MonkeyPatch) -> None:
    of_array, of_matrix = both(document_ids=np.arange(40))
    queries = np.array([3, 0])
    for make in (lambda data: data, lambda data: data.take(queries), lambda data: data.training_rows()):
        one, other = make(of_array), make(of_matrix)
        assert isinstance(other.features, SparseFeatures)
        assert fingerprint_dataset(one) == fingerprint_dataset(other)
    monkeypatch.setattr(module, "BLOCK", 4 * 12 * 7)
    cards = [data_card({"train": each, "test": each.take(queries)}).facts() for each in (of_array, of_matrix)]
    np.testing.assert_equal(cards[0], cards[1])


def test_candidates_and_regrouped_rows() -> None:
    dense, retrieved = array(), np.arange(40) % 4 > 0
    given = {"query_ids": np.arange(40) % 5, "regroup": True, "retrieved": retrieved}
    one, other = (from_arrays(each, np.arange(40) % 3, **given) for each in (dense, csr_matrix(dense)))
    assert fingerprint_dataset(one) == fingerprint_dataset(other)
    assert isinstance(other.features, SparseFeatures)


def test_the_cache_keeps_them_sparse_and_mapped(tmp_path: Path) -> None:
    _, of_matrix = both()
    write_entry(tmp_path / "entry", of_matrix, Fingerprints.of(of_matrix))
    opened = open_entry(tmp_path / "entry", verify=True)
    assert opened is not None
    features = opened[0].features
    assert isinstance(features, SparseFeatures)
    assert fingerprint_dataset(opened[0]) == fingerprint_dataset(of_matrix)
    assert isinstance(features.values.base, np.memmap)


@pytest.mark.long
def test_a_sparse_matrix_takes_the_memory_of_what_it_stores() -> None:
    matrix = csr_matrix(([1.0], ([0], [0])), shape=(5_000, 5_000))  # 100 MB as an array
    tracemalloc.start()
    try:
        data = from_arrays(matrix, np.zeros(5_000), group_sizes=[5_000])
        fingerprint_dataset(data.take(np.array([0])))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20e6


def test_an_array_that_is_too_large_is_refused_before_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = csr_matrix((1_000_000, 500))
    features = from_arrays(matrix, np.zeros(1_000_000), group_sizes=[1_000_000]).features
    monkeypatch.setenv(VARIABLE, "1GB")
    found = "features: a sparse matrix of 1,000,000 rows and 500 columns becomes dense, which takes 2.0 GB"
    for make_dense in (np.asarray, np.isnan, lambda sparse: sparse[:, [1, 2]]):
        with pytest.raises(DataError, match=f"{found}; expected at most 1.0 GB"):
            make_dense(features)
    assert features[:, 7].tolist() == [0.0] * 1_000_000
    assert np.asarray(features[:10]).shape == (10, 500)


def test_infinite_values_and_shapes_are_refused() -> None:
    for value in (np.inf, 1e39):
        matrix = csr_matrix(([1.0, value], ([0, 2], [1, 0])), shape=(3, 2))
        for retrieved in (None, [0, 1, 1]):
            with pytest.raises(DataError, match=r"features\[2, 0\] is infinite .* \(1 such\)"):
                from_arrays(matrix, [1, 0, 1], group_sizes=[3], retrieved=retrieved)
