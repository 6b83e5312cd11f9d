"""Data written and read back are the same, to the bit, in every format."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from ltr_harness.data.dataset import RankingDataset, fingerprint_dataset
from ltr_harness.data.readers.csv import Csv
from ltr_harness.data.readers.letor import Letor
from ltr_harness.data.readers.lightgbm import LightGbm
from ltr_harness.data.readers.memory import from_arrays
from ltr_harness.data.readers.parquet import Parquet
from ltr_harness.data.writers import format_of, subtopic_columns, write_dataset
from ltr_harness.errors import DataError
from tests.conftest import examples, named_case

FILES = {
    "rows.txt": Letor,
    "rows.txt.gz": Letor,
    "rows.letor.zst": Letor,
    "rows": LightGbm,
    "rows.csv": Csv,
    "rows.tsv.gz": Csv,
    "rows.csv.zst": Csv,
    "rows.txt.bz2": Letor,
    "rows.csv.xz": Csv,
    "rows.parquet": Parquet,
    "rows.arrow": Parquet,
}

PLAIN = [file for file in FILES if not file.endswith((".gz", ".zst", ".bz2", ".xz"))]
"""Without compression, which the real data go through."""

ids = st.text("abcXYZ0123456789_-.:é", min_size=1, max_size=6)
floats = st.floats(width=32, allow_infinity=False, allow_nan=True, allow_subnormal=True)


@st.composite
def datasets(draw: st.DrawFn) -> RankingDataset:
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    n_rows, n_features = sum(sizes), draw(st.integers(1, 3))
    names = draw(st.lists(ids, min_size=len(sizes), max_size=len(sizes), unique=True))
    rows = st.lists(
        st.lists(floats, min_size=n_features, max_size=n_features), min_size=n_rows, max_size=n_rows
    )

    def column(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return st.none() | st.lists(values, min_size=n_rows, max_size=n_rows)

    grades = st.integers(0, 4) | st.floats(0, 1e300, allow_subnormal=False)
    retrieved, documents = draw(column(st.booleans()).filter(lambda flags: flags is None or any(flags))), None
    if draw(st.booleans()):  # a document comes once in its query
        documents = draw(st.lists(ids, min_size=n_rows, max_size=n_rows, unique=True))
    of_queries = st.lists(st.floats(0.1, 10), min_size=len(sizes), max_size=len(sizes))
    weights = draw(column(st.floats(0.1, 10)) | of_queries.map(lambda each: np.repeat(each, sizes)))
    return from_arrays(
        draw(rows),
        draw(st.lists(grades, min_size=n_rows, max_size=n_rows)),
        query_ids=np.repeat(names, sizes),
        feature_names=[f"f{j}" for j in range(n_features)] if draw(st.booleans()) else None,
        weights=weights,
        positions=draw(column(st.integers(0, 2**31 - 1))),
        document_ids=documents,
        retrieved=retrieved,
        subtopics=draw(
            st.none() | st.lists(st.lists(grades, min_size=2, max_size=2), min_size=n_rows, max_size=n_rows)
        ),
        attributes={"lang": np.repeat(draw(st.lists(ids, min_size=len(sizes), max_size=len(sizes))), sizes)},
    )


def options(dataset: RankingDataset) -> dict[str, Any]:
    there = {
        "weight": dataset.judgments.query_weights,
        "position": dataset.positions,
        "document_id": dataset.judgments.document_ids,
        "retrieved": dataset.judgments.missed,
    }
    return {
        **{role: role for role, column in there.items() if column is not None},
        "attributes": tuple(dataset.query_attributes),
        "subtopics": subtopic_columns(dataset),
        "features": dataset.feature_names,
    }


def what_the_format_holds(dataset: RankingDataset, kind: type) -> RankingDataset:
    if kind in (Csv, Parquet):
        return dataset
    dataset = dataset.take(np.flatnonzero(dataset.groups.has_rows))
    judgments = replace(dataset.judgments, missed=None, subtopics=None)
    first = 0 if dataset.feature_names[0] == "0" else 1
    names = tuple(str(first + j) for j in range(dataset.n_features))
    if kind is Letor:
        judgments, positions = replace(judgments, query_weights=None), None
        dataset = replace(dataset, row_weights=None)
    else:
        groups = replace(dataset.groups, ids=np.arange(dataset.n_queries))
        judgments, positions = replace(judgments, document_ids=None, groups=groups), dataset.positions
    return replace(
        dataset, judgments=judgments, positions=positions, feature_names=names, query_attributes={}
    )


def assert_survives(dataset: RankingDataset, file: str, folder: Path) -> None:
    """Write a data set, read it back and compare the two, but for the parts that the format has no place for."""
    kind = FILES[file]
    write_dataset(dataset, folder / file, None if format_of(folder / file) else "lightgbm")
    reader = kind(**options(dataset)) if kind in (Csv, Parquet) else kind()
    read = reader.read([file], folder)
    expected = what_the_format_holds(dataset, kind)
    assert fingerprint_dataset(read) == fingerprint_dataset(expected), file
    for name, values in expected.query_attributes.items():
        assert read.query_attributes[name].astype(str).tolist() == values.tolist(), file


@pytest.mark.long
@examples(40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(datasets())
def test_every_format_gives_back_a_data_set(tmp_path: Path, dataset: RankingDataset) -> None:
    for stale in tmp_path.iterdir():
        stale.unlink()
    for file in PLAIN:
        assert_survives(dataset, file, tmp_path)


@pytest.mark.long
def test_real_data_survives_every_format(shared_data: Path, tmp_path: Path) -> None:
    data = Letor().read(["mq2008/S1.txt"], shared_data).take(np.arange(12))
    for file in FILES:
        assert_survives(data, file, tmp_path)


def test_two_rows_as_text(tmp_path: Path) -> None:
    data = from_arrays([[0.5], [2.0]], [1, 0], query_ids=["a", "a"], document_ids=["x", "y"])
    write_dataset(data, tmp_path / "rows.txt")
    assert (tmp_path / "rows.txt").read_text() == "1 qid:a 0:0.5 # docid = x\n0 qid:a 0:2 # docid = y\n"


def test_the_same_rows_give_the_same_bytes(tmp_path: Path) -> None:
    data = from_arrays([[0.1], [2.0]], [1, 0], query_ids=["a", "a"])
    for file in ("a.txt.gz", "a.csv.gz", "a.parquet"):
        (tmp_path / "x").mkdir(exist_ok=True)
        write_dataset(data, tmp_path / file)
        write_dataset(data, tmp_path / "x" / file)
        assert (tmp_path / file).read_bytes() == (tmp_path / "x" / file).read_bytes()


def test_what_has_no_place_is_said(tmp_path: Path) -> None:
    data = from_arrays(
        [[1.0], [2.0]],
        [1, 0],
        query_ids=["a", "a"],
        feature_names=["bm25"],
        positions=[1, 2],
        weights=[1, 1],
        document_ids=["x", "y"],
        attributes={"lang": ["de", "de"]},
    )
    said = write_dataset(data, tmp_path / "a.txt")
    assert [one.kind for one in said] == ["numbered-features", "left-out-of-the-file"]
    assert [one.text for one in said] == [
        "features are numbered from 1; their names are in a.txt.features",
        "attributes, positions, weights have no place in this format and are left out",
    ]
    assert (tmp_path / "a.txt.features").read_text() == "bm25\n"
    assert write_dataset(data, tmp_path / "a", "lightgbm")[1].text == (
        "attributes, query ids, document ids have no place in this format and are left out"
    )
    assert [str(one) for one in write_dataset(data, tmp_path / "a.csv")] == [
        "read it with the options weight=weight position=position document_id=document_id attributes=[lang]"
    ]


def test_documents_that_nobody_judged(tmp_path: Path) -> None:
    data = from_arrays([[1.0], [2.0]], [1, 0], query_ids=["a", "a"])
    data = replace(data, judgments=replace(data.judgments, judged=np.array([True, False])))
    for file, reader in FILES.items():
        with named_case(file):
            said = write_dataset(data, tmp_path / file, None if format_of(tmp_path / file) else "lightgbm")
            assert (
                str(said[0])
                == "documents that are not judged have the label -1; read it with the option unjudged=-1"
            )
            judgments = reader(unjudged=-1).read([file], tmp_path).judgments
            assert judgments.labels.tolist() == [1, 0]
            assert judgments.judged.tolist() == [True, False]


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        (
            "a.txt",
            {"query_ids": ["a b", "a b"]},
            r"query id 'a b' \(1 such\); expected ids without spaces, # and NUL bytes; write csv",
        ),
        ("a.txt", {"query_ids": ["a#", "a#"]}, "query id 'a#'"),
        ("a.txt", {"query_ids": ["a\0b", "a\0b"]}, "query id"),
        (
            "a.txt",
            {"document_ids": ["a b", "c"]},
            r"document id 'a b' \(1 such\); expected ids without spaces and NUL bytes; write csv",
        ),
        ("a.csv", {"feature_names": ["label"]}, "two columns would be called 'label'"),
        (
            "a.what",
            {},
            "has no suffix that names its format; expected one of letor, lightgbm, csv, parquet, arrow",
        ),
    ],
)
def test_what_cannot_be_written_leaves_nothing(
    tmp_path: Path, file: str, change: dict[str, Any], message: str
) -> None:
    data = from_arrays([[1.0], [2.0]], [1, 0], **{"query_ids": ["a", "a"], **change})
    with pytest.raises(DataError, match=message):
        write_dataset(data, tmp_path / file)
    assert list(tmp_path.iterdir()) == []


def test_qrels_have_what_was_judged_and_missed_documents(tmp_path: Path) -> None:
    data = from_arrays(
        [[0.5], [2.0], [np.nan]],
        [1, 0, 2],
        query_ids=["a", "a", "b"],
        document_ids=["x", "y", "x"],
        retrieved=[1, 1, 0],
    )
    cautions = write_dataset(data, tmp_path / "truth.qrels")
    assert (tmp_path / "truth.qrels").read_text() == "a 0 x 1\na 0 y 0\nb 0 x 2\n"
    assert [one.text for one in cautions] == ["qrels hold the judgments alone, without features"]
    judged = replace(data.judgments, judged=np.array([True, False]))
    write_dataset(replace(data, judgments=judged), tmp_path / "some.qrels.gz")
    assert gzip.decompress((tmp_path / "some.qrels.gz").read_bytes()) == b"a 0 x 1\nb 0 x 2\n"


@pytest.mark.parametrize(
    ("labels", "ids", "said"),
    [
        ([1, 0], None, "qrels name documents, and the data have no document ids"),
        ([1, 0.5], ["x", "y"], "1 label with a fraction; expected grades: qrels have integers"),
        ([1, 0], ["x", "y z"], "document id 'y z'"),
    ],
)
def test_qrels_that_cannot_be(tmp_path: Path, labels: list[float], ids: list[str] | None, said: str) -> None:
    data = from_arrays([[0.5], [2.0]], labels, query_ids=["a", "a"], document_ids=ids)
    with pytest.raises(DataError, match=said):
        write_dataset(data, tmp_path / "truth.qrels")
    assert list(tmp_path.iterdir()) == []
