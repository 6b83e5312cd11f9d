"""Wide LETOR files whose rows are kept sparse: the same data, messages and cautions as of an array."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ltr_harness.data import features
from ltr_harness.data.dataset import RankingDataset, fingerprint_dataset
from ltr_harness.data.features import SparseFeatures
from ltr_harness.data.readers import letor
from ltr_harness.data.readers.letor import Letor
from ltr_harness.data.readers.lightgbm import LightGbm
from ltr_harness.data.readers.text_files import Bound
from ltr_harness.errors import DataError

TEXT = """
# a comment
2 qid:1 7:0.1 900:1e-3 3:5 # docid = a
0 qid:1 2:NULL 900:-0.0 4:0.10000000149011612 # docid = b
1 qid:1 # docid = c

1:2 qid:2 1:1 5:0.30000000447034835824 5:7 # docid = d
3 qid:2 5:0 6:1e-46 # docid = e
0 qid:3 2:0.99999997019767761230469 2:0.25 # docid = f
"""
WITHOUT_WEIGHT = TEXT.replace("1:2 qid", "1 qid")


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep any file sparse, and read it a few rows at a time."""
    monkeypatch.setattr(letor, "_LEAST_SPARSE", 0)
    monkeypatch.setattr(letor, "_SPARSE", 0)
    monkeypatch.setattr(letor, "BLOCK", 4 * 900 * 2)
    monkeypatch.setattr(features, "BLOCK", 4 * 900 * 2)


def read(folder: Path, *texts: str, reader: Letor | None = None) -> RankingDataset:
    names = [f"{number}.txt" for number in range(len(texts))]
    for name, text in zip(names, texts, strict=True):
        (folder / name).write_text(text)
    return (reader or Letor()).read(names, folder)


def of_both(folder: Path, *texts: str, reader: Letor | None = None) -> tuple[RankingDataset, RankingDataset]:
    """Return the files' data as an array and as sparse rows."""
    sparse = read(folder, *texts, reader=reader)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(letor, "_LEAST_SPARSE", 1 << 40)
        dense = read(folder, *texts, reader=reader)
    assert isinstance(dense.features, np.ndarray)
    assert isinstance(sparse.features, SparseFeatures)
    return dense, sparse


@pytest.mark.usefixtures("small_limits")
@pytest.mark.parametrize("reader", [Letor(), Letor(first_index=0), Letor(n_features=1000)], ids=repr)
def test_the_same_data(tmp_path: Path, reader: Letor) -> None:
    others = [WITHOUT_WEIGHT.replace("qid:", f"qid:{number}0") for number in range(1, 4)]
    dense, sparse = of_both(tmp_path, WITHOUT_WEIGHT, *others, reader=reader)
    assert dense.features.view(np.uint32).tolist() == np.asarray(sparse.features).view(np.uint32).tolist()  # type: ignore[union-attr]
    assert fingerprint_dataset(dense) == fingerprint_dataset(sparse)
    assert dense.cautions == sparse.cautions != ()
    assert dense.judgments.document_ids is not None
    assert sparse.judgments.document_ids is not None
    assert dense.judgments.document_ids.tolist() == sparse.judgments.document_ids.tolist()


@pytest.mark.usefixtures("small_limits")
def test_regrouped_rows(tmp_path: Path) -> None:
    texts = [WITHOUT_WEIGHT, WITHOUT_WEIGHT.replace("docid = ", "docid = z")]
    dense, sparse = of_both(tmp_path, *texts, reader=Letor(regroup=True))
    assert fingerprint_dataset(dense) == fingerprint_dataset(sparse)


@pytest.mark.usefixtures("small_limits")
@pytest.mark.parametrize(
    "bad", ["1 qid:4 900:x", "1 qid:4 3:1 2:1e40", "1 4:1", "x qid:4 1:1", TEXT.splitlines()[6]], ids=str
)
def test_the_same_messages_with_line(tmp_path: Path, bad: str) -> None:
    problems = []
    for least in (0, 1 << 40):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(letor, "_LEAST_SPARSE", least)
            with pytest.raises(DataError) as caught:
                read(tmp_path, WITHOUT_WEIGHT, WITHOUT_WEIGHT.replace("qid:", "qid:9") + bad)
        problems.append(str(caught.value))
    assert problems[0] == problems[1]
    assert ".txt" in problems[0]


@pytest.mark.usefixtures("small_limits")
def test_the_widest_index_within_a_row(tmp_path: Path) -> None:
    """The first look at a file sees the first and last feature of each row."""
    dense, sparse = of_both(tmp_path, "1 qid:1 1:1 950:3 2:1\n0 qid:1 1:2\n")
    assert dense.n_features == sparse.n_features == 950
    assert fingerprint_dataset(dense) == fingerprint_dataset(sparse)


@pytest.mark.usefixtures("small_limits")
def test_files_of_libsvm(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1 3:0.5 900:1\n0 2:1\n2 1:1\n")
    (tmp_path / "a.txt.query").write_text("2\n1\n")
    sparse = LightGbm().read(["a.txt"], tmp_path)
    assert isinstance(sparse.features, SparseFeatures)
    assert sparse.features[:, 899].tolist() == [1, 0, 0]


def test_narrow_full_and_small_files_are_arrays(tmp_path: Path) -> None:
    assert isinstance(read(tmp_path, WITHOUT_WEIGHT).features, np.ndarray)
    for n_rows, n_features, n_bytes, is_sparse in (
        (1_000_000, 136, 1_200_000_000, False),
        (200_000, 2000, 45_000_000, True),
        (1000, 2000, 225_000, False),
    ):
        assert (
            letor._Shape(n_rows, n_features, 1, n_bytes, Bound.of_file(n_bytes), "", "", "").is_sparse
            is is_sparse
        )


def test_a_mistyped_index_is_refused_as_before(tmp_path: Path) -> None:
    for index in (90_000_000, 999_999_999):
        with pytest.raises(
            DataError, match="check whether that index is a typo; features with very large indices"
        ):
            read(tmp_path, f"1 qid:1 1:1 {index}:1\n0 qid:1 1:2\n")
