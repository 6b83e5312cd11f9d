"""CatBoost's pools and their column descriptions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ltr_harness.data.readers.catboost import CatBoostPool
from ltr_harness.errors import DataError

POOL = "1\tq1\t0.5\tred\ta\t7\n0\tq1\t0.25\tblue\tb\t7\n2\tq2\t\tred\tc\t9\n"
CD = "0\tLabel\n1\tGroupId\n3\tCateg\tcolour\n4\tSampleId\n5\tAuxiliary\n"


def write(folder: Path, pool: str = POOL, cd: str = CD) -> None:
    (folder / "pool.tsv").write_text(pool)
    (folder / "pool.cd").write_text(cd)


def test_columns_are_what_the_description_says(tmp_path: Path) -> None:
    write(tmp_path)
    data = CatBoostPool(cd="pool.cd").read(["pool.tsv"], tmp_path)
    assert data.feature_names == ("2", "colour")
    assert data.labels.tolist() == [1, 0, 2]
    assert data.groups.sizes.tolist() == [2, 1]
    assert [data.groups.name(query) for query in (0, 1)] == ["q1", "q2"]
    assert data.judgments.document_ids is not None
    assert data.judgments.document_ids.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(data.features[:, 0], np.float32([0.5, 0.25, np.nan]))
    assert data.features[0, 1] == data.features[2, 1] != data.features[1, 1]
    assert dict(data.categories) == {"colour": ("blue", "red")}


def test_catboost_reads_the_same(tmp_path: Path) -> None:
    catboost = pytest.importorskip("catboost")
    write(tmp_path)
    pool = catboost.Pool(str(tmp_path / "pool.tsv"), column_description=str(tmp_path / "pool.cd"))
    data = CatBoostPool(cd="pool.cd").read(["pool.tsv"], tmp_path)
    assert [float(label) for label in pool.get_label()] == data.labels.tolist()
    assert pool.shape == data.features.shape
    assert pool.get_cat_feature_indices() == [data.feature_names.index("colour")]


def test_the_description_is_one_of_the_files_that_are_read(tmp_path: Path) -> None:
    write(tmp_path)
    assert [path.name for path in CatBoostPool().inputs(["pool.tsv"], tmp_path)] == [
        "pool.tsv",
        "pool.cd",
    ]


@pytest.mark.parametrize(
    ("cd", "said"),
    [
        ("0\tLabel\n", "0 columns are GroupId; expected exactly one"),
        ("0\tLabel\n1\tGroupId\n2\tLabel\n", "2 columns are Label; expected exactly one"),
        ("zero\tLabel\n", "pool.cd:1: column 'zero'; expected a column number, a tab, and what it is"),
        ("0\tLable\n", "unknown column type 'Lable'; did you mean 'label'"),
        ("0\tLabel\n0\tGroupId\n", "pool.cd:2: describes column 0 twice"),
        (CD + "9\tNum\n", "describes column 9; expected columns 0 to 5, which pool.tsv has"),
        (CD + "2\tNum\tcolour\n", "names 'colour' twice"),
    ],
)
def test_what_is_wrong_with_a_description_is_said(tmp_path: Path, cd: str, said: str) -> None:
    write(tmp_path, cd=cd)
    with pytest.raises(DataError) as refused:
        CatBoostPool(cd="pool.cd").read(["pool.tsv"], tmp_path)
    assert said in str(refused.value)


def test_rows_that_do_not_fit_are_named(tmp_path: Path) -> None:
    write(tmp_path, POOL + "1\tq2\tx\tred\td\t9\n")
    with pytest.raises(DataError, match=r"pool\.tsv:4"):
        CatBoostPool(cd="pool.cd").read(["pool.tsv"], tmp_path)
