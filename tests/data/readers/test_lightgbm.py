"""LightGBM's layout: rows, and beside them sizes, weights and positions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.readers.lightgbm import LightGbm
from ltr_harness.data.readers.rows import check_alignment, with_columns
from ltr_harness.errors import Caution, DataError
from tests.conftest import named_case

ROWS = "1 1:0.5\n0 2:1\n2 1:0.25\n"


def read_files(folder: Path, *names: str, reader: LightGbm | None = None, **files: str) -> RankingDataset:
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    return (reader or LightGbm()).read(names or ["a"], folder)


def test_the_librarys_own_example(shared_data: Path) -> None:
    folder = shared_data / "lightgbm_lambdarank"
    reader = LightGbm()
    splits = {name: reader.read([f"rank.{name}"], folder) for name in ("train", "test")}
    train, test = splits["train"], splits["test"]
    assert (train.n_queries, train.n_rows) == (201, 3005)
    assert (test.n_queries, test.n_rows) == (50, 768)
    assert train.groups.sizes[:2].tolist() == [1, 13]
    assert set(train.labels) == {0, 1, 2, 3, 4}
    check_alignment(splits)
    assert with_columns(splits["test"], splits["train"].feature_names).n_features == 300
    assert splits["train"].n_features == 300
    assert train.positions is not None
    names = (folder / "rank.train.position").read_text().split()
    assert train.positions[:3].tolist() == [0, 1, 2]
    assert len(set(zip(names, train.positions.tolist(), strict=True))) == len(set(names))
    assert tuple(map(str, train.cautions)) == (
        "positions are names (pos_1, …), numbered from 0 in the order in which they come up",
    )
    assert test.positions is None
    assert reader.inputs(["rank.train"], folder) == tuple(
        folder / f"rank.train{suffix}" for suffix in ("", ".query", ".position")
    )


def test_the_same_values_as_the_library_reads(shared_data: Path) -> None:
    lightgbm = pytest.importorskip("lightgbm")
    path = shared_data / "lightgbm_lambdarank" / "rank.test"
    data = LightGbm().read(["rank.test"], path.parent)
    theirs = lightgbm.Dataset(str(path), params={"verbose": -1}).construct()
    np.testing.assert_array_equal(theirs.get_label(), data.labels)
    np.testing.assert_array_equal(theirs.get_group(), data.groups.sizes)


def test_sizes_weights_and_positions(tmp_path: Path) -> None:
    data = read_files(tmp_path, a=ROWS, a__group="2\n1\n", a__weight="1\n2\n4\n", a__position="3\n1\n2\n")
    assert data.groups.sizes.tolist() == [2, 1]
    assert data.groups.ids.tolist() == [0, 1]
    assert data.features.tolist() == [[0.5, 0], [0, 1], [0.25, 0]]
    assert data.judgments.query_weights is not None
    assert data.judgments.query_weights.tolist() == [(1 + 2) / 2, 4]
    assert data.row_weights is not None
    assert data.row_weights.tolist() == [1, 2, 4]
    assert data.positions is not None
    assert data.positions.tolist() == [3, 1, 2]
    assert data.sparse
    assert data.cautions == (
        Caution(
            "row-weights", "note", "weights differ within 1 of 2 queries, which count their mean in metrics"
        ),
    )


@pytest.mark.parametrize(
    ("positions", "expected"),
    [
        ("1_000\n1000\n1_000\n", [0, 1, 0]),  # names, as LightGBM takes them
        ("01\n1\n+1\n", [0, 1, 2]),
        ("2147483648\n1\n2147483648\n", [0, 1, 0]),
    ],
)
def test_positions_that_are_no_plain_integers_are_names(
    tmp_path: Path, positions: str, expected: list[int]
) -> None:
    data = read_files(tmp_path, a=ROWS, a__group="2\n1\n", a__position=positions)
    assert data.positions is not None
    assert data.positions.tolist() == expected
    [caution] = data.cautions
    assert caution.text.startswith(f"positions are names ({positions.split()[0]}, …), numbered from 0")


def test_a_weight_for_each_query_as_xgboost_has_them(tmp_path: Path) -> None:
    data = read_files(tmp_path, a=ROWS, a__group="2\n1\n", a__weight="1.5\n4\n")
    assert data.weights_of_rows().tolist() == [1.5, 1.5, 4]
    said = "a.weight has a weight for each query, as XGBoost reads it; all rows of a query have it"
    assert said in map(str, data.cautions)
    with pytest.raises(
        DataError, match=r"has 1 line; expected 3, one for each row of a, or 2, one for each query"
    ):
        read_files(tmp_path, a=ROWS, a__group="2\n1\n", a__weight="1.5\n")


def test_several_files(tmp_path: Path) -> None:
    data = read_files(tmp_path, "a", "b", a=ROWS, b=ROWS, a__query="2\n1\n", b__query="3\n")
    assert data.groups.sizes.tolist() == [2, 1, 3]
    assert data.groups.ids.tolist() == [0, 1, 2]


@pytest.mark.parametrize(("separator", "name"), [(",", "CSV"), ("\t", "TSV")])
def test_tables_have_the_label_first(tmp_path: Path, separator: str, name: str) -> None:
    text = "1,0.5,NA\n0,,1\n2,0.25,0\n".replace(",", separator)
    data = read_files(tmp_path, a=text, a__query="3")
    np.testing.assert_array_equal(
        data.features, np.array([[0.5, np.nan], [np.nan, 1], [0.25, 0]], np.float32)
    )
    assert data.labels.tolist() == [1, 0, 2]
    assert data.feature_names == ("0", "1")
    assert not data.sparse
    named = read_files(tmp_path, a=f"grade,x,y\n{text}".replace(",", separator), reader=LightGbm(header=True))
    assert named.feature_names == ("x", "y")


def test_what_is_not_used_is_said(tmp_path: Path) -> None:
    data = read_files(tmp_path, a=ROWS, a__query="3", a__group="3", a__init="0\n0\n0\n")
    assert tuple(map(str, data.cautions)) == (
        "a.group is not used: a.query gives the sizes",
        "a.init is not used: models start from zero here",
    )


BROKEN = {
    "no sizes": ({}, "a: there is no a.query (or .group) beside it; expected the number of rows"),
    "too few": (
        {"a.query": "1\n1\n"},
        "a.query: the sizes of its 2 queries add up to 2; expected 3, the number of rows of a",
    ),
    "too many": ({"a.query": "2\n2\n"}, "a.query: the sizes of its 2 queries add up to 4; expected 3"),
    "zero": (
        {"a.query": "3\n0\n"},
        "a.query:2: the size is 0; expected an integer >= 1",
    ),
    "negative": ({"a.query": "4\n-1\n"}, "a.query:2: the size is -1"),
    "fraction": ({"a.query": "1.5\n1.5\n"}, "a.query:1: the size is 1.5"),
    "infinite": ({"a.query": "inf"}, "a.query:1: the size is inf"),
    "nan": ({"a.query": "nan"}, "a.query:1: the size is nan"),
    "no number": ({"a.query": "three"}, "a.query:1: holds 'three'; expected an integer >= 1"),
    "underscore": ({"a.query": "0_3"}, "a.query:1: holds '0_3'"),
    "empty": ({"a.query": ""}, "a.query: the file is empty"),
    "blank line": ({"a.query": "1\n\n2\n"}, "a.query:2: holds ''"),
    "weights short": (
        {"a.query": "3", "a.weight": "1\n1\n"},
        "a.weight: has 2 lines; expected 3, one for each row",
    ),
    "weight negative": (
        {"a.query": "3", "a.weight": "1\n-1\n1\n"},
        "a.weight:2: the weight is -1; expected a weight",
    ),
    "weight text": (
        {"a.query": "3", "a.weight": "1\nx\n1\n"},
        "a.weight:2: holds 'x'; expected a weight >= 0",
    ),
    "positions long": ({"a.query": "3", "a.position": "1\n" * 4}, "a.position: has 4 lines; expected 3"),
    "qid": (
        {"a": "1 qid:1 1:1\n", "a.query": "1"},
        "a:1: 'qid:1' in a file whose queries are given by sizes",
    ),
    "bad row": ({"a": "1 1:1\n1 x\n", "a.query": "2"}, "a:2: 'x' where a feature should be"),
    "csv text": ({"a": "1,2\n0,x\n", "a.query": "2"}, "a:2: column '0' contains 'x'; expected a number"),
    "csv width": (
        {"a": "1,2\n0\n", "a.query": "2"},
        "a:2: the row has 1 field; expected 2, as in the first row",
    ),
    "csv header": (
        {"a": "l,f\n0,1\n", "a.query": "1"},
        "a:1: column 'label' contains 'l'; expected a number",
    ),
    "csv label": (
        {"a": "inf,2\n", "a.query": "1"},
        "a:1: column 'label' contains inf; expected a finite label",
    ),
}


def test_broken_companions(tmp_path: Path) -> None:
    for case, (files, message) in BROKEN.items():
        folder = tmp_path / case
        folder.mkdir()
        for name, text in ({"a": ROWS} | files).items():
            (folder / name).write_text(text)
        with named_case(case):
            with pytest.raises(DataError) as caught:
                LightGbm().read(["a"], folder)
            assert str(caught.value).startswith(f"{folder}/{message}"), str(caught.value)


def test_files_that_do_not_match(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"b\.weight: a lack such a file; expected one for every file or for none"
    ):
        read_files(tmp_path, "a", "b", a=ROWS, b=ROWS, a__query="3", b__query="3", b__weight="1\n1\n1\n")
    with pytest.raises(DataError, match="the files of a split differ in format"):
        read_files(tmp_path, "a", "c", c="1,2\n", c__query="1")
    with pytest.raises(DataError, match=r"d: has the 2 features 0, 1; expected the 1 of .*c: 0"):
        read_files(tmp_path, "c", "d", d="1,2,3\n", d__query="1")
