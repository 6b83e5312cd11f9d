"""Splits of one experiment share one feature map."""

from __future__ import annotations

import numpy as np
import pytest

from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.judgments import Judgments
from ltr_harness.data.queries import QueryGroups
from ltr_harness.data.readers.rows import check_alignment, with_columns
from ltr_harness.errors import DataError


def align(datasets: dict[str, RankingDataset]) -> dict[str, RankingDataset]:
    """All splits with the columns of the training split, as folds have them."""
    check_alignment(datasets)
    names = datasets["train"].feature_names
    return {split: with_columns(dataset, names) for split, dataset in datasets.items()}


def split(*names: str, sparse: bool = True) -> RankingDataset:
    judgments = Judgments.checked([1.0, 0.0], QueryGroups.from_sizes([2]))
    values = [[float(i) for i, _ in enumerate(names)], [10.0 + i for i, _ in enumerate(names)]]
    return RankingDataset(np.array(values, np.float32), judgments, names, source="s.txt", sparse=sparse)


def test_equal_maps_are_left_alone() -> None:
    train, test = split("1", "2"), split("1", "2")
    aligned = align({"train": train, "test": test})
    assert aligned["train"] is train
    assert aligned["test"] is test


def test_narrower_sparse_splits_are_padded_with_zeros_and_a_note() -> None:
    aligned = align({"test": split("1", "2"), "train": split("1", "2", "3", "4")})
    assert aligned["test"].features.tolist() == [[0, 1, 0, 0], [10, 11, 0, 0]]
    assert aligned["test"].feature_names == ("1", "2", "3", "4")
    assert tuple(map(str, aligned["test"].cautions)) == (
        "2 features (3, 4) never occur in this split and are 0.0 in all its rows",
    )
    assert aligned["test"].features.flags.c_contiguous


@pytest.mark.parametrize(
    ("last", "names"), [(6, "5 features (2, 3, 4, 5, 6)"), (7, "6 features (2, 3, 4, 5, 6, …)")]
)
def test_five_features_are_named(last: int, names: str) -> None:
    train = split(*(str(name) for name in range(1, last + 1)))
    (caution,) = align({"train": train, "test": split("1")})["test"].cautions
    assert caution.text.startswith(f"{names} never occur in this split")


def test_a_file_without_index_0_beside_one_with_it() -> None:
    aligned = align({"train": split("0", "1"), "test": split("1")})
    assert aligned["test"].features.tolist() == [[0, 0], [0, 10]]


def test_wider_splits_are_refused_all_together() -> None:
    with pytest.raises(DataError) as caught:
        align({"train": split("1"), "valid": split("1", "2"), "test": split("0", "1")})
    assert str(caught.value).splitlines() == [
        "valid split (s.txt): has the feature 2 that the train split does not have (2 features against 1); "
        "expected the features of the train split; "
        "set `n_features: 2` if the training files only leave them out because they are 0",
        "test split (s.txt): has the feature 0 that the train split does not have (2 features against 1); "
        "expected the features of the train split; set `first_index: 0` if features count from 0 in all files",
    ]
    with pytest.raises(DataError, match="set `n_features: 4`"):
        align({"train": split("0", "1"), "test": split("0", "1", "2", "3")})


def test_table_columns_go_by_name() -> None:
    train, test = split("a", "b", sparse=False), split("b", "a", sparse=False)
    aligned = align({"train": train, "test": test})
    assert aligned["test"].features.tolist() == [[1, 0], [11, 10]]
    assert aligned["test"].cautions == ()
    with pytest.raises(DataError) as caught:
        align({"train": train, "test": split("a", "c", sparse=False)})
    assert str(caught.value).splitlines() == [
        "test split (s.txt): has the feature c that the train split does not have (2 features against 2); "
        "expected the features of the train split; name the columns to use with `features:`",
        "test split (s.txt): lacks the feature b; expected every feature of the train split",
    ]
