"""Small examples of internals, which a reader can check by hand."""

from dataclasses import replace

import numpy as np

from ltr_harness.comparison.query_slices import query_slices
from ltr_harness.data.judgments import MissedDocuments
from ltr_harness.data.readers.memory import from_arrays
from ltr_harness.experiments.inspection.agreement import alphas
from ltr_harness.experiments.inspection.candidates import candidate_recall
from ltr_harness.experiments.inspection.card import (
    Content,
    are_ids,
    auc,
    data_card,
    n_only_relevant,
    tells_relevant,
)


def test_alphas() -> None:
    """Mid-ranks 0.5, 1.5, 3, 3."""
    assert alphas(np.array([0, 0, 1, 1]), np.array([0.0, 1.0, 2.0, 2.0])) == (0.5, 0.8333333333333334, 0.4)


def test_candidate_recall() -> None:
    """(1/3 + 1) / 2, and 2 of 4."""
    data = from_arrays([[1.0], [2.0], [3.0]], [1, 0, 1], group_sizes=[2, 1])
    missed = MissedDocuments(np.array([0, 0]), np.array([2.0, 1.0]))
    (whole,) = candidate_recall(replace(data, judgments=replace(data.judgments, missed=missed)))
    assert whole.mean == 0.6666666666666666
    assert whole.total == 0.5


def test_auc() -> None:
    """3.5 of 4 pairs."""
    assert auc(np.array([3.0, 1.0, 1.0, 0.0]), np.array([True, True, False, False])) == 0.875


def test_tells_relevant() -> None:
    """In all 20, and in 5 of the 80 others."""
    relevant = np.arange(100) < 20
    assert tells_relevant(np.where(np.arange(100) < 25, 3.0, 0.0), relevant)


def test_are_ids() -> None:
    ids = np.array([907.0, 15, 301, 15, 512, 907, 301, 512, 15])
    assert are_ids(ids, np.array([0, 3, 6, 9]))
    assert not are_ids(np.tile([1.0, 2, 3], 3), np.array([0, 3, 6, 9]))


def test_n_only_relevant() -> None:
    relevant = np.arange(100) % 4 == 0
    assert n_only_relevant(np.where(relevant, 7.0, 0.0), relevant, np.full(100, np.log(0.25))) == 25


def test_content_seen_in() -> None:
    known = Content.of(np.array([[1, 2], [3, np.nan], [0, 0]], dtype=np.float32))
    new = Content.of(np.array([[3, np.nan], [2, 1], [3, np.nan], [0, 0]], dtype=np.float32))
    assert new.seen_in(known).tolist() == [True, False, True, False]


def test_content_elsewhere() -> None:
    content = Content.of(np.array([[1], [1], [2], [2], [0], [0]], dtype=np.float32))
    splits = np.array([0, 0, 0, 1, 1, 2])
    assert content.shared_rows(splits).tolist() == [False, False, True, True, False, False]


def test_data_card() -> None:
    data = from_arrays([[1.0], [2.0], [2.0]], [0, 1, 0], query_ids=["a", "a", "b"])
    card = data_card({"train": data, "test": data})
    assert card.splits[0].grades == {0.0: 2, 1.0: 1}
    assert card.overlaps[0].n_queries == 2


def test_query_slices() -> None:
    assert [part.label for part in query_slices({"rows": np.array([5, 5, 9, 120])})] == ["5", "9", "120"]
