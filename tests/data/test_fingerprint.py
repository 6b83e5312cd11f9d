"""A fingerprint sees values, not memory; and every value."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ltr_harness.data.dataset import (
    RankingDataset,
    fingerprint_arrays,
    fingerprint_dataset,
    fingerprint_judgments,
)
from ltr_harness.data.judgments import Judgments
from ltr_harness.data.queries import QueryGroups
from ltr_harness.errors import Caution


def dataset(**changes: object) -> RankingDataset:
    groups = QueryGroups.from_sizes([2, 1], ids=np.array([10, 20]))
    judgments = Judgments.checked([0.0, 2.0, 1.0], groups, query_weights=[1.0, 2.0])
    features = np.arange(6, dtype=np.float32).reshape(3, 2)
    return replace(RankingDataset(features, judgments, ("1", "2")), **changes)  # type: ignore[arg-type]


def test_digest_is_the_one_of_earlier_releases() -> None:
    # Records keep these; a change here makes every stored run look like another data set.
    expected = hashlib.sha256(b"<i8(2,);" + np.array([1, 2], dtype="<i8").tobytes()).hexdigest()
    assert fingerprint_arrays(np.array([1, 2], dtype=np.int64)) == expected
    text = hashlib.sha256(b"text(2,);" + np.array([2, 1], dtype="<i8").tobytes() + "éa".encode()).hexdigest()
    assert fingerprint_arrays(np.array(["é", "a"])) == text
    assert (
        fingerprint_dataset(dataset()) == "f22de9fb94ddd503d9f476496de2e34b662705d5f8f8cfb81645309b9124eda3"
    )


@pytest.mark.long
@given(hnp.arrays(np.float32, hnp.array_shapes(max_dims=2, min_side=0)))
def test_memory_layout_is_invisible(array: np.ndarray) -> None:
    expected = fingerprint_arrays(np.ascontiguousarray(array))
    assert fingerprint_arrays(np.asfortranarray(array)) == expected
    assert fingerprint_arrays(array.astype(">f4")) == expected
    assert fingerprint_arrays(array.repeat(2, axis=0)[::2]) == expected


def test_every_nan_is_one_nan() -> None:
    bits = np.array([0x7FC00000, 0xFFC00000, 0x7F800001], dtype=np.uint32)
    assert len({fingerprint_arrays(bits[i : i + 1].view(np.float32)) for i in range(3)}) == 1


def test_large_strided_arrays_are_digested_in_blocks() -> None:
    array = np.arange(3_000_000, dtype=np.float32).reshape(-1, 3)
    wide = np.repeat(array, 2, axis=1)[:, ::2]
    assert fingerprint_arrays(wide) == fingerprint_arrays(array)


@pytest.mark.long
@given(st.lists(st.text(max_size=3), max_size=5), st.lists(st.text(max_size=3), max_size=5))
def test_text_is_equal_only_to_itself(left: list[str], right: list[str]) -> None:
    digests = [fingerprint_arrays(np.array(values, dtype=object)) for values in (left, right)]
    assert (digests[0] == digests[1]) == (left == right)


def test_order_type_shape_and_absence_count() -> None:
    a, b = np.array([1, 2]), np.array([3, 4])
    digests = {
        fingerprint_arrays(a, b),
        fingerprint_arrays(b, a),
        fingerprint_arrays(np.array([1, 2, 3, 4])),
        fingerprint_arrays(np.array([[1, 2], [3, 4]])),
        fingerprint_arrays(a.astype(np.int32), b),
        fingerprint_arrays(a, None, b),
        fingerprint_arrays(a, b, None),
    }
    assert len(digests) == 7


@pytest.mark.parametrize("dtype", [np.int32, np.int64, "U2", "U9", object])
def test_ids_count_as_text(dtype: object) -> None:
    ids = np.array([10, 20]).astype("U2") if dtype in ("U2", "U9", object) else np.array([10, 20])
    groups = QueryGroups.from_sizes([2, 1], ids=ids.astype(dtype))
    same = Judgments.checked([0.0, 2.0, 1.0], groups, query_weights=[1.0, 2.0])
    assert fingerprint_judgments(same) == fingerprint_judgments(dataset().judgments)


def test_every_part_of_a_dataset_counts() -> None:
    base = dataset()
    groups = base.groups
    labels = base.labels
    variants = [
        base,
        dataset(features=base.features + 1),
        dataset(feature_names=("1", "3")),
        dataset(positions=np.array([1, 2, 1], dtype=np.int32)),
        dataset(row_weights=np.array([0.5, 1.5, 2])),
        dataset(row_weights=np.array([1.5, 0.5, 2])),
        dataset(judgments=Judgments.checked(labels, groups)),
        dataset(
            judgments=replace(base.judgments, judged=np.array([True, True, False])),
        ),
        dataset(judgments=Judgments.checked(labels + 1, groups, query_weights=[1.0, 2.0])),
        dataset(
            judgments=Judgments.checked(
                labels, QueryGroups.from_sizes([1, 2], groups.ids), query_weights=[1.0, 2.0]
            )
        ),
        dataset(
            judgments=Judgments.checked(
                labels, QueryGroups.from_sizes([2, 1], [10, 21]), query_weights=[1.0, 2.0]
            )
        ),
        dataset(
            judgments=Judgments.checked(
                labels, groups, query_weights=[1.0, 2.0], document_ids=["a", "b", "c"]
            )
        ),
    ]
    assert len({fingerprint_dataset(variant) for variant in variants}) == len(variants)
    cautioned = dataset(source="elsewhere", cautions=(Caution("kind", "note", "text"),))
    assert fingerprint_dataset(cautioned) == fingerprint_dataset(base)
