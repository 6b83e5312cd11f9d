"""Data from Python: arrays, and frames of pandas and Arrow, checked as files are; Parquet folders and Arrow files."""

from __future__ import annotations

import itertools
import re
import tracemalloc
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from scipy.sparse import coo_matrix, csr_matrix

from ltr_harness import compare, evaluate
from ltr_harness.arrow import per_query
from ltr_harness.comparison import evaluate_stream
from ltr_harness.data.dataset import fingerprint_dataset
from ltr_harness.data.logs.log import open_log
from ltr_harness.data.readers.memory import from_arrays, from_frame
from ltr_harness.data.readers.parquet import Parquet
from ltr_harness.errors import Caution, DataError, UsageError
from tests.conftest import named_case

FRAME = pd.DataFrame(
    {
        "query_id": ["q1", "q1", "q2"],
        "label": [1, 0, 2],
        "f": [0.5, np.nan, 1.0],
        "g": [1, 2, 3],
        "doc": ["a", "b", "c"],
        "lang": ["de", "de", "en"],
    }
)
ROLES: dict[str, Any] = {"document_id": "doc", "attributes": ("lang",)}


def test_arrays_frames_and_files_agree(tmp_path: Path) -> None:
    FRAME.to_parquet(tmp_path / "a.parquet")
    file = Parquet(**ROLES).read(["a.parquet"], tmp_path)
    arrays = from_arrays(
        FRAME[["f", "g"]],
        FRAME["label"],
        query_ids=FRAME["query_id"],
        feature_names=["f", "g"],
        document_ids=FRAME["doc"],
        attributes={"lang": FRAME["lang"]},
    )
    assert fingerprint_dataset(arrays) == fingerprint_dataset(file)
    assert arrays.query_attributes["lang"].tolist() == ["de", "en"]
    for frame in (FRAME, FRAME.set_index(FRAME.index + 5), pa.Table.from_pandas(FRAME)):
        assert fingerprint_dataset(from_frame(frame, **ROLES)) == fingerprint_dataset(file)


def test_a_lazy_frame_is_collected() -> None:
    polars = pytest.importorskip("polars", reason="needs polars (the extra `test`)")
    lazy = polars.from_pandas(FRAME).lazy().filter(polars.col("f").is_not_nan() | polars.col("f").is_null())
    assert from_frame(lazy, **ROLES).labels.tolist() == FRAME.label.tolist()
    assert open_log(lazy).columns == tuple(FRAME.columns)
    table = pd.DataFrame({"query_id": range(30), "ndcg@10": np.linspace(0, 1, 30)})
    tables = [table, table.assign(**{"ndcg@10": table["ndcg@10"] / 2})]
    whole, of_lazy = compare(*tables), compare(*(polars.from_pandas(one).lazy() for one in tables))
    assert of_lazy.summary("scores 2").mean == whole.summary("scores 2").mean == 0.25


def test_one_row_is_a_frame_and_none_is_not() -> None:
    assert from_frame(FRAME[:1], **ROLES).n_rows == 1
    for frame in (FRAME[:0], pa.Table.from_pandas(FRAME[:0])):
        with pytest.raises(DataError, match="has no rows; expected rows"):
            from_frame(frame, **ROLES)


def test_group_sizes_weights_and_positions() -> None:
    data = from_arrays(
        np.ones((3, 1)), [1, 0, 2], group_sizes=[2, 1], weights=[1, 3, 5], positions=[1.0, 2.0, 1.0]
    )
    assert data.groups.boundaries.tolist() == [0, 2, 3]
    assert data.judgments.query_weights is not None
    assert data.judgments.query_weights.tolist() == [2, 5]
    assert data.positions is not None
    assert data.positions.dtype == np.int32


UNFIT = [
    ({"labels": [1, 0]}, "arrays: 2 labels; expected 3, one for each row of features"),
    ({"labels": [1, -np.inf, 0]}, r"arrays: labels\[1\] is -inf \(1 such\); expected finite numbers"),
    ({"labels": ["a", "b", "c"]}, "labels are not numbers"),
    ({"features": np.ones(3)}, r"features have shape \(3,\)"),
    ({"features": [["x"], ["y"], ["z"]]}, "features are not numbers"),
    ({"features": [[1.0], [np.inf], [1.0]]}, r"features\[1, 0\] is infinite"),
    (
        {"features": [[1.0], [1e39], [1.0]]},
        r"features\[1, 0\] is infinite or beyond the range of float32",
    ),
    ({"query_ids": [1, 1]}, "2 query_ids; expected 3"),
    ({"query_ids": [1, None, 1]}, r"query_ids\[1\] is missing"),
    ({"query_ids": [1, 2, 1]}, "arrays: row 2: query '1' is not contiguous"),
    ({"query_ids": None}, "give either query_ids, one per row, or group_sizes, one per query"),
    ({"group_sizes": [3]}, "give either query_ids"),
    ({"query_ids": None, "group_sizes": [2]}, "group_sizes add up to 2; expected 3"),
    ({"feature_names": ["a", "b"]}, "2 feature names, 2 of them different; expected 1"),
    ({"weights": [1, -2, 1]}, r"weights\[1\] is -2"),
    ({"positions": [1, 2.5, 3]}, r"positions\[1\] is 2.5 \(1 such\); expected integers >= 0"),
    (
        {"attributes": {"lang": ["a", "b", "a"]}},
        "arrays: row 1: attribute 'lang' is b here and a in the first row",
    ),
]


def test_what_does_not_fit() -> None:
    for change, message in UNFIT:
        with named_case(message):
            good: dict[str, Any] = {"features": np.ones((3, 1)), "labels": [1, 0, 1], "query_ids": [7, 7, 8]}
            arguments = {**good, **change}
            with pytest.raises(DataError, match=message):
                from_arrays(arguments.pop("features"), arguments.pop("labels"), **arguments)


def test_regrouping_leaves_a_note() -> None:
    data = from_arrays([[1.0], [2.0], [3.0]], [1, 0, 1], query_ids=[5, 6, 5], regroup=True)
    assert data.features[:, 0].tolist() == [1, 3, 2]
    assert data.cautions == (
        Caution(
            "regrouped-rows", "note", "1 of 2 queries were scattered and have been regrouped (regroup: true)"
        ),
    )


def test_a_frame_without_its_columns() -> None:
    with pytest.raises(DataError, match="frame: has no column 'query_id'; did you mean `query: query`"):
        from_frame(FRAME.rename(columns={"query_id": "query"}))
    with pytest.raises(DataError, match="frame: is not a table"):
        from_frame(5)
    with pytest.raises(DataError, match="from_frame, label: Input should be a valid string"):
        from_frame(FRAME, label=5)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="frame: row 3: column 'label' contains inf"):
        from_frame(FRAME.assign(label=[1, 0, np.inf]), **ROLES)


# --- folders and Arrow files ---------------------------------------------------------------------------------


def test_a_folder_of_parquet_files_as_spark_writes_it(tmp_path: Path) -> None:
    folder = tmp_path / "train"
    folder.mkdir()
    (folder / "_SUCCESS").touch()
    (folder / ".part-0.parquet.crc").write_text("x")
    (folder / "_temporary.parquet").write_text("x")
    FRAME.iloc[:2].to_parquet(folder / "part-00000.snappy.parquet")
    FRAME.iloc[2:].to_parquet(folder / "part-00001.snappy.parquet")
    reader = Parquet(**ROLES)
    assert [path.name[:10] for path in reader.inputs(["train"], tmp_path)] == ["part-00000", "part-00001"]
    whole = from_frame(FRAME, **ROLES)
    assert fingerprint_dataset(reader.read(["train"], tmp_path)) == fingerprint_dataset(whole)


def test_folders_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "also_empty").mkdir()
    with pytest.raises(DataError) as caught:
        Parquet().read(["empty", "also_empty"], tmp_path)
    assert str(caught.value).splitlines() == [
        f"{tmp_path}/empty: the folder has no .parquet file; expected at least one",
        f"{tmp_path}/also_empty: the folder has no .parquet file; expected at least one",
    ]


@pytest.mark.parametrize("compression", ["uncompressed", "zstd"])
def test_arrow_files(tmp_path: Path, compression: str) -> None:
    feather.write_feather(FRAME, tmp_path / "a.arrow", compression=compression)
    read = Parquet(**ROLES).read(["a.arrow"], tmp_path)
    assert fingerprint_dataset(read) == fingerprint_dataset(from_frame(FRAME, **ROLES))
    cut = (tmp_path / "a.arrow").read_bytes()[:-20]
    (tmp_path / "cut.arrow").write_bytes(cut)
    with pytest.raises(DataError, match=r"cut\.arrow: the Arrow file is damaged"):
        Parquet().read(["cut.arrow"], tmp_path)


@pytest.mark.parametrize("checksums", [True, False])
def test_text_that_is_no_text(tmp_path: Path, checksums: bool) -> None:
    pq.write_table(
        pa.Table.from_pandas(FRAME),
        tmp_path / "a.parquet",
        compression="none",
        use_dictionary=False,
        write_statistics=False,
        write_page_checksum=checksums,
    )
    content = (tmp_path / "a.parquet").read_bytes()
    assert content.count(b"q2") == 1 or not checksums
    (tmp_path / "a.parquet").write_bytes(content.replace(b"q2", b"\xa22", 1))
    of_text = "column 'query_id' contains values that are not valid: Invalid UTF8"
    said = "the Parquet file is damaged" if checksums else of_text
    with pytest.raises(DataError, match=rf"a\.parquet: {said}"):
        Parquet(**ROLES).read(["a.parquet"], tmp_path)


def test_a_sparse_matrix_has_0_where_nothing_is_stored() -> None:
    dense = np.array([[0.0, 1.5], [2.0, np.nan], [0.0, 0.0]])
    one, other = (
        from_arrays(features, [1, 0, 2], group_sizes=[2, 1]) for features in (csr_matrix(dense), dense)
    )
    assert fingerprint_dataset(one) == fingerprint_dataset(other)
    with pytest.raises(DataError, match=r"features have shape \(3, 0\)"):
        from_arrays(csr_matrix((3, 0)), [1, 0, 2], group_sizes=[2, 1])
    with pytest.raises(DataError, match=r"features are not numbers \(dtype complex128\)"):
        from_arrays(csr_matrix(dense + 1j), [1, 0, 2], group_sizes=[2, 1])


def test_every_form_of_a_sparse_matrix_has_the_values_of_the_array() -> None:
    labels, retrieved = [1, 0, 2], [1, 0, 1]
    forms, kinds = ("csr", "csc", "coo", "lil", "dok", "bsr"), (bool, np.int64, np.float32, np.float64)
    for form, kind in itertools.product(forms, kinds):
        with named_case((form, kind)):
            dense = np.array([[0, 1, 3], [2**24 + 1, 0, 0], [0, 0, 0]]).astype(kind)
            sparse = csr_matrix(dense).asformat(form)
            for given in ({}, {"retrieved": retrieved}):
                one, other = (from_arrays(each, labels, group_sizes=[3], **given) for each in (sparse, dense))
                np.testing.assert_array_equal(one.features, other.features)
            with pytest.raises(DataError, match="2 values of retrieved for 3 rows of features"):
                from_arrays(sparse, labels, group_sizes=[3], retrieved=[1, 0])


def test_a_sparse_matrix_adds_up_what_is_stored_twice_and_stays_as_it_is() -> None:
    at = [0, 0, 1], [0, 0, 1]
    matrix = coo_matrix(([2.0**24, 1.0, 5.0], at), shape=(2, 2))
    np.testing.assert_array_equal(
        from_arrays(matrix, [1, 0], group_sizes=[2]).features,
        np.array([[2**24 + 1, 0], [0, 5]], dtype=np.float32),
    )
    assert matrix.nnz == 3


def test_a_sparse_matrix_is_dense_only_once_and_in_float32() -> None:
    matrix = csr_matrix(([1.0], ([0], [0])), shape=(20_000, 500))  # 40 MB in float32, 80 MB in float64
    tracemalloc.start()
    try:
        np.asarray(from_arrays(matrix, np.zeros(20_000), group_sizes=[20_000]).features)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 60e6


FEATURES = np.array([[0.0, 1.5], [2.0, 3.0], [0.0, 0.5]])


def rows(features: Any = FEATURES, **others: Any) -> Any:
    return from_arrays(features, **({"labels": [1, 0, 2], "group_sizes": [2, 1]} | others))


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64])
def test_features_below_a_mask_are_missing(kind: type) -> None:
    mask = [[True, False], [False, False], [False, True]]
    found = rows(np.ma.masked_array(FEATURES.astype(kind), mask)).features
    np.testing.assert_array_equal(found, np.where(mask, np.nan, FEATURES.astype(kind)))


def test_features_below_the_masks_of_a_list_are_missing() -> None:
    masked = [np.ma.masked_array(row, [False, True]) for row in FEATURES]
    found = rows(masked).features
    np.testing.assert_array_equal(found, np.column_stack((FEATURES[:, 0], [np.nan] * 3)))


def test_masked_values_in_lists_are_refused() -> None:
    for name in ("weights", "positions", "document_ids"):
        with pytest.raises(DataError, match=rf"{name}\[1\] is masked \(1 such\)"):
            rows(**{name: [1, np.ma.masked, 3]})
    with pytest.raises(DataError, match=r"subtopics\[0, 1\] is masked \(3 such\)"):
        rows(subtopics=[np.ma.masked_array([1, 0], [False, True])] * 3)


def test_masked_values_of_rows_are_refused() -> None:
    for name in ("weights", "positions", "document_ids"):
        masked = np.ma.masked_array([1, 2, 3], [False, True, False])
        with pytest.raises(
            DataError, match=rf"{name}\[1\] is masked \(1 such\); expected a value in every row"
        ):
            rows(**{name: masked})
    with pytest.raises(DataError, match=r"attribute 'day'\[0\] is masked"):
        rows(attributes={"day": np.ma.masked_array([1, 1, 2], [True, True, False])})
    whole = np.ma.masked_array([1, 2, 3], False)  # nothing is masked
    assert rows(weights=whole).weights_of_rows().tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    "features",
    [
        FEATURES + 1j,
        FEATURES.astype(str),
        FEATURES.astype("S"),
        FEATURES.astype(str).astype(object),
        FEATURES.astype("datetime64[D]"),
        FEATURES.astype("timedelta64[s]"),
        (FEATURES + 1j).astype(object),
    ],
)
def test_features_that_are_no_numbers(features: Any) -> None:
    with pytest.raises(
        DataError, match=rf"features are not numbers \(dtype {re.escape(str(features.dtype))}\)"
    ):
        rows(features)


def test_objects_that_are_numbers_are_features() -> None:
    found = rows([[Decimal("0.5"), None], [True, Fraction(1, 4)], [np.float32(2), 7]])
    np.testing.assert_array_equal(found.features, [[0.5, np.nan], [1, 0.25], [2, 7]])


def test_texts_of_any_length_are_ids_and_attributes() -> None:
    kind = getattr(np.dtypes, "StringDType", None)
    if kind is None:
        pytest.skip("NumPy 2 has StringDType")
    texts = {"query_ids": ["a", "a", "bb"], "document_ids": ["x", "yyy", "z"]}
    found, expected = (
        rows(
            group_sizes=None,
            attributes={"of": make(texts["query_ids"])},
            **{k: make(v) for k, v in texts.items()},
        )
        for make in (partial(np.array, dtype=kind()), list)
    )
    assert fingerprint_dataset(found) == fingerprint_dataset(expected)
    assert found.query_attributes["of"].tolist() == ["a", "bb"]
    with pytest.raises(DataError, match=r"query_ids\[1\] is missing"):
        rows(group_sizes=None, query_ids=np.array(["a", None, "b"], dtype=kind(na_object=None)))
    with pytest.raises(DataError, match="features are not numbers"):
        rows(FEATURES.astype(str).astype(kind()))


def test_subtopics_of_different_lengths() -> None:
    with pytest.raises(DataError, match="subtopics has rows of different lengths"):
        rows(subtopics=[[1], [1, 0], [0]])


WORDS, TRUTHS = ["yes", "no", "yes"], ["True", "False", " true"]
COLUMNS_OF_TEXT: dict[str, Callable[[list[str]], Any]] = {
    "list": list,
    "NumPy": np.array,
    "objects": partial(np.array, dtype=object),
    "bytes": partial(np.array, dtype="S"),
    "pandas": pd.Series,
    "categories": partial(pd.Series, dtype="category"),
    "Arrow": pa.array,
    "chunks": lambda words: pa.chunked_array([words]),
}


@pytest.mark.parametrize("column", COLUMNS_OF_TEXT.values(), ids=COLUMNS_OF_TEXT)
def test_words_as_labels_have_the_same_cure_in_every_kind_of_array(
    column: Callable[[list[str]], Any],
) -> None:
    for words in (WORDS, ["True", "no", "True"], ["1", "0", "1"]):
        _refuse_as_labels(column(words))


def test_words_as_labels_have_it_in_a_series_of_polars() -> None:
    polars = pytest.importorskip("polars", reason="needs polars (the extra `test`)")
    _refuse_as_labels(polars.Series(WORDS))
    _take_as_truths(polars.Series(TRUTHS))


@pytest.mark.parametrize("column", COLUMNS_OF_TEXT.values(), ids=COLUMNS_OF_TEXT)
def test_true_and_false_as_text_are_1_and_0_in_every_kind_of_array(
    column: Callable[[list[str]], Any],
) -> None:
    _take_as_truths(column(TRUTHS))


def test_true_and_false_are_read_from_arrays_as_from_tables() -> None:
    """Digits may stand among them, and a row with neither has no label."""
    for words in (TRUTHS, ["TRUE", "0", "1.0"]):
        frame = pd.DataFrame({"query_id": 1, "label": words, "f": [1.0, 2.0, 3.0]})
        assert rows(labels=words).labels.tolist() == from_frame(frame).labels.tolist() == [1, 0, 1]
    for empty in ("", None):
        with pytest.raises(DataError, match=r"labels\[1\] is nan \(1 such\)"):
            rows(labels=["True", empty, "False"])


def _take_as_truths(labels: Any) -> None:
    assert rows(labels=labels, group_sizes=[3]).labels.tolist() == [1, 0, 1]
    assert evaluate(labels, [1.0, 3.0, 2.0], ["mrr"], group_sizes=[3])["mrr"].mean == 0.5


def _refuse_as_labels(labels: Any) -> None:
    found = (
        r"labels are not numbers \(dtype .+\); expected finite numbers; where they are words, number them, .*"
    )
    with pytest.raises(DataError, match=f"^arrays: {found}$"):
        from_arrays(FEATURES, labels, group_sizes=[3])
    with pytest.raises(DataError, match=f"^{found}$"):
        evaluate(labels, [1.0, 2.0, 3.0], ["mrr"], group_sizes=[3])


def test_words_as_labels_have_it_in_tables_of_arrow_too() -> None:
    table = pa.table({"query_id": [1, 1], "label": ["good", "bad"], "score": [1.0, 2.0]})
    found = "column 'label': has the type string; expected numbers; where they are words, number them, worst first"
    with pytest.raises(DataError, match=found):
        per_query(table, ["mrr"])
    with pytest.raises(DataError, match=found):
        evaluate_stream(table, "err", "score")


@pytest.mark.parametrize(
    ("given", "cure"),
    [
        ({"qid": "qid"}, "no argument 'qid'; did you mean query='qid'?"),
        ({"query": "qid", "lable": "label"}, "no argument 'lable'; did you mean 'label'?"),
        ({"query": "qid", "grade": "label"}, "no argument 'grade'; did you mean label='label'?"),
    ],
)
def test_an_argument_that_from_frame_lacks_is_refused_with_the_one_that_is_meant(
    given: dict[str, str], cure: str
) -> None:
    frame = pd.DataFrame({"qid": [1, 1], "label": [1, 0], "bm25": [2.0, 1.0]})
    with pytest.raises(UsageError, match=re.escape(f"from_frame: {cure}")):
        from_frame(frame, **given)
