"""Columns that Arrow holds and a ranking cannot use: each named in a message, from Parquet, Arrow files and frames."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ltr_harness.data.readers.judgment_formats import run_of
from ltr_harness.data.readers.memory import from_frame
from ltr_harness.data.readers.parquet import Parquet
from ltr_harness.errors import DataError

GOOD: dict[str, Any] = {"query_id": [1, 1, 2], "label": [1, 0, 1], "f": [0.1, 0.2, 0.3]}


def raw_text(*values: bytes) -> pa.Array:
    """Text that nobody has looked at."""
    return pa.Array.from_buffers(pa.string(), len(values), pa.array(values, pa.binary()).buffers())


def dictionary_array(codes: list[int], values: list[Any]) -> pa.Array:
    """Places in a dictionary that may lack them."""
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(values), safe=False)


UNKNOWN_ZONE = pa.array([1, 1, 2], pa.timestamp("us", tz="Mars/Olympus"))
SINGLE = "is not a type of single values; expected a number, a time or a text in every row"

# The column, its role, and what is said of it.
ODD: dict[str, tuple[str, Any, dict[str, Any], str]] = {
    "list": ("a", [[1], [1], [2]], {"attributes": ("a",)}, "column 'a' cannot be an attribute: list<"),
    "struct": ("a", [{"x": 1}] * 3, {"attributes": ("a",)}, f"struct<x: int64> {SINGLE}"),
    "map": (
        "a",
        pa.array([[("x", 1)]] * 3, pa.map_(pa.string(), pa.int64())),
        {"attributes": ("a",)},
        SINGLE,
    ),
    "bytes": (
        "a",
        pa.array([b"\xff", b"\xff", b"b"]),
        {"attributes": ("a",)},
        "column 'a' cannot be an attribute: Invalid UTF8 payload",
    ),
    "zone": (
        "a",
        UNKNOWN_ZONE,
        {"attributes": ("a",)},
        "column 'a' cannot be an attribute: Cannot locate ",
    ),
    "zone of a query": (
        "query_id",
        UNKNOWN_ZONE,
        {},
        "column 'query_id' has the type timestamp[us, tz=Mars/Olympus]; expected a query id",
    ),
    "view": (
        "query_id",
        [{"view": 1}] * 3,
        {},
        "column 'query_id' has the type struct<view: int64>; expected a query id: integers or text",
    ),
    "list view": (
        "d",
        pa.array([[1], [1], [2]], pa.list_view(pa.int64())),
        {"document_id": "d"},
        "column 'd' has the type list_view<",
    ),
    "text": (
        "a",
        raw_text(b"\xff", b"\xff", b"b"),
        {"attributes": ("a",)},
        "column 'a' contains values that are not valid: Invalid UTF8 sequence at string index 0",
    ),
    "text of a query": (
        "query_id",
        raw_text(b"a", b"\xff", b"b"),
        {},
        "column 'query_id' contains values that are not valid: Invalid UTF8 sequence at string index 1",
    ),
    "places": (
        "f",
        dictionary_array([0, 5, 1], [1.0, 2.0]),
        {"features": ("f",)},
        "column 'f' contains values that are not valid: Value at position 1 out of bounds: 5 (should be in [0, 1])",
    ),
    "places below": (
        "label",
        dictionary_array([0, -1, 1], [1.0, 2.0]),
        {},
        "column 'label' contains values that are not valid: Value at position 1 out of bounds: -1",
    ),
    "places of text": (
        "query_id",
        dictionary_array([0, 5, 1], ["a", "b"]),
        {},
        "column 'query_id' contains values that are not valid: Value at position 1 out of bounds: 5",
    ),
}


@pytest.mark.parametrize("kind", ["parquet", "arrow", "frame"])
@pytest.mark.parametrize("case", ODD)
def test_an_odd_column_is_named(tmp_path: Path, case: str, kind: str) -> None:
    name, values, options, said = ODD[case]
    if kind == "parquet" and case.startswith("places"):
        pytest.skip("Parquet has no such thing")
    table = pa.table({**GOOD, name: values})
    if kind == "parquet":
        try:
            pq.write_table(table, tmp_path / "a.parquet")
        except pa.ArrowNotImplementedError as problem:
            pytest.skip(f"this version of Arrow cannot write it: {problem}")
    with pytest.raises(DataError) as caught:
        read_table(table, kind, tmp_path, **options)
    assert said in str(caught.value)
    assert str(caught.value).startswith("frame: " if kind == "frame" else f"{tmp_path}/a.{kind}: ")


@pytest.mark.parametrize("kind", ["parquet", "arrow", "frame"])
def test_two_columns_of_one_name(tmp_path: Path, kind: str) -> None:
    columns = [*GOOD.values(), [1, 2, 3]]
    table = pa.table([pa.array(column) for column in columns], names=[*GOOD, "f"])
    with pytest.raises(DataError, match="has two columns 'f'; expected a different name for each column"):
        read_table(table, kind, tmp_path)


@pytest.mark.parametrize("kind", ["parquet", "arrow", "frame"])
def test_attributes_of_any_single_value(tmp_path: Path, kind: str) -> None:
    table = pa.table(
        {
            **GOOD,
            "when": pa.array([1, 1, 2], pa.timestamp("ms", tz="UTC")),
            "price": pa.array([1, 1, 2]).cast(pa.decimal128(30, 2)),
            "lang": pa.array(["de", "de", None]).dictionary_encode(),
            "bytes": pa.array([b"a", b"a", b"b"]),
            "a.b": ["x", "x", "y"],
        }
    )
    attributes = ("when", "price", "lang", "bytes", "a.b")
    found = read_table(table, kind, tmp_path, attributes=attributes, features=("f",)).query_attributes
    assert {name: values.tolist() for name, values in found.items()} == {
        "when": ["1970-01-01 00:00:00.001Z", "1970-01-01 00:00:00.002Z"],
        "price": ["1.00", "2.00"],
        "lang": ["de", ""],
        "bytes": ["a", "b"],
        "a.b": ["x", "y"],
    }


def read_table(table: pa.Table, kind: str, folder: Path, **options: Any) -> Any:
    if kind == "frame":
        return from_frame(table, **options)
    if kind == "parquet":
        pq.write_table(table, folder / "a.parquet")
    else:
        with pa.ipc.new_file(folder / "a.arrow", table.schema) as file:
            file.write_table(table)
    return Parquet(**options).read([f"a.{kind}"], folder)


def runs_of_equal_values(lengths: tuple[int, int], columns: dict[str, tuple[float, float]]) -> pa.Table:
    ends = pa.array([lengths[0], sum(lengths)], pa.int32())
    return pa.table(
        {name: pa.RunEndEncodedArray.from_arrays(ends, pa.array(values)) for name, values in columns.items()}
    )


def test_columns_of_runs_are_numbers(tmp_path: Path) -> None:
    table = runs_of_equal_values((2, 3), {"query_id": (7, 8), "label": (1, 0), "f": (0.5, 2.5)})
    with pa.ipc.new_file(tmp_path / "a.arrow", table.schema) as file:
        file.write_table(table)
    for read in (Parquet().read(["a.arrow"], tmp_path), from_frame(table)):
        assert read.feature_names == ("f",)
        assert read.features[:, 0].tolist() == [0.5, 0.5, 2.5, 2.5, 2.5]
        assert read.judgments.labels.tolist() == [1, 1, 0, 0, 0]
        assert read.groups.ids.tolist() == [7, 8]


def test_runs_that_become_too_large() -> None:
    """Two thousand million rows in less than a kilobyte."""
    columns = {"query_id": (7, 8), "document_id": (1, 2), "score": (0.5, 2.5)}
    with pytest.raises(
        DataError, match=r"without runs of equal values, its columns take \d+\.\d GB; expected"
    ):
        run_of(runs_of_equal_values((10**9, 10**9), columns))
