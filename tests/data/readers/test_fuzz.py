"""Random tables and companion files: an error that names the place, or the values that are there; never a crash."""

from __future__ import annotations

import contextlib
import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st

from ltr_harness.data.readers.csv import Csv
from ltr_harness.data.readers.lightgbm import LightGbm
from ltr_harness.data.readers.parquet import Parquet
from ltr_harness.errors import DataError
from tests.conftest import examples

pytestmark = pytest.mark.long

quick = examples(150, suppress_health_check=[HealthCheck.function_scoped_fixture])

cells = st.sampled_from(
    ["1", "0", "2.5", "-1", "", "NULL", "nan", "inf", "1e400", "1e39", "x", '"1"',
     '"a,b"', '"', "é", " 1", "1_0", "0x1", "\x00"]
)  # fmt: skip
ends = st.sampled_from(["\n", "\r\n", "\n\n", ""])
NULLS = {"", "NULL", "nan"}


@quick
@given(st.lists(st.tuples(st.lists(cells, min_size=2, max_size=4), ends), max_size=6))
def test_csv_agrees_with_pythons_own_reading(tmp_path: Path, rows: list[tuple[list[str], str]]) -> None:
    text = "query_id,label,f\n" + "".join(",".join(row) + end for row, end in rows)
    (tmp_path / "a.csv").write_bytes(text.encode())
    try:
        data = Csv(features=("f",), regroup=True).read(["a.csv"], tmp_path)
    except DataError as problem:
        assert str(tmp_path / "a.csv") in str(problem)  # noqa: PT017, either outcome is fine
        return
    expected = [row for row in csv.reader(io.StringIO(text, newline="")) if row][1:]
    order = sorted(range(len(expected)), key=lambda i: [row[0] for row in expected].index(expected[i][0]))
    assert np.repeat(data.groups.ids, data.groups.sizes).astype(str).tolist() == [
        expected[i][0] for i in order
    ]
    assert data.labels.tolist() == [float(expected[i][1]) for i in order]
    wanted = [np.float32("nan" if expected[i][2] in NULLS else expected[i][2]) for i in order]
    np.testing.assert_array_equal(data.features[:, 0], wanted)


@quick
@given(st.binary(max_size=80), st.binary(max_size=20))
@example(b"\x80\r", b"")  # a header that is no text
@example(b'"a\n\x80"\n1\n', b"")
def test_no_bytes_crash_the_other_readers(tmp_path: Path, content: bytes, sizes: bytes) -> None:
    (tmp_path / "a").write_bytes(content)
    (tmp_path / "a.query").write_bytes(sizes)
    for reader in (Csv(), LightGbm(n_features=3), Parquet()):
        with contextlib.suppress(DataError):
            reader.read(["a"], tmp_path)


@quick
@given(
    st.lists(st.sampled_from(["2", "1", "0", "-1", "x", "", "1.5", "99999999999999999999"]), max_size=4),
    st.lists(st.sampled_from(["1", "0.5", "-1", "nan", "x", ""]), max_size=4),
    st.integers(1, 4),
)
def test_companions_fit_or_are_refused(
    tmp_path: Path, sizes: list[str], weights: list[str], n_rows: int
) -> None:
    (tmp_path / "a").write_text("".join(f"{i % 2} 1:{i}\n" for i in range(n_rows)))
    (tmp_path / "a.query").write_text("\n".join(sizes))
    (tmp_path / "a.weight").write_text("\n".join(weights))
    try:
        data = LightGbm().read(["a"], tmp_path)
    except DataError as problem:
        assert str(tmp_path / "a") in str(problem)  # noqa: PT017
        return
    assert data.groups.sizes.tolist() == [int(float(size)) for size in sizes if size]
    assert data.n_rows == n_rows
    assert data.features[:, 0].tolist() == list(range(n_rows))


def small_parquet(path: Path, **options: Any) -> bytes:
    if not path.exists():
        table = pa.table({"query_id": ["a", "a", "b"], "label": [1, 0, 2], "f": [0.5, None, 1.0]})
        pq.write_table(table, path, write_page_checksum=True, **options)
    return path.read_bytes()


def test_a_parquet_file_with_any_one_byte_gone(tmp_path: Path) -> None:
    """Among them the counts of rows, of the file and of each column."""
    content = small_parquet(tmp_path / "whole.parquet", write_statistics=False)
    told = set()
    text = content.index(b"ARROW:schema")  # of one kind: of its bytes every eighth will do
    for at in (*range(text), *range(text, len(content), 8)):
        (tmp_path / "bad.parquet").write_bytes(content[:at] + b"\0" + content[at + 1 :])
        try:
            read = Parquet().read(["bad.parquet"], tmp_path)
        except DataError as problem:
            told.add(problem.problems[0].found)
        else:
            assert read.n_rows == 3
    assert "the Parquet file is damaged: column 'f' has 0 of 3 rows" in told


@quick
@given(st.data())
def test_a_parquet_file_with_flipped_bytes(tmp_path: Path, data: st.DataObject) -> None:
    content = bytearray(small_parquet(tmp_path / "whole.parquet"))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    (tmp_path / "bad.parquet").write_bytes(content)
    with contextlib.suppress(DataError):
        Parquet().read(["bad.parquet"], tmp_path)
