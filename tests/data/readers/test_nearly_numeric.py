"""A column of numbers with a few words in it: a warning, at every door, in place of a note among others."""

import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ltr_harness.data import from_frame
from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.readers.csv import Csv
from ltr_harness.data.readers.parquet import Parquet
from ltr_harness.errors import Caution
from tests.conftest import named_case

ROWS = pd.DataFrame(
    {
        "query_id": np.repeat(np.arange(400), 5),
        "label": np.tile([0, 0, 1, 0, 2], 400),
        "x": np.arange(2000) / 7,
    }
)
PRICES = [f"{price:.2f}" for price in np.arange(2000) / 3]
CURE = "write numbers alone, with a decimal point, and empty cells where a value is missing"


def from_door(door: str, frame: pd.DataFrame, folder: Path) -> tuple[RankingDataset, str, int]:
    """The data, the file's name, and how many lines stand before the first row."""
    if door == "csv":
        frame.to_csv(folder / "rows.csv", index=False)
        return Csv().read(["rows.csv"], folder), "rows.csv", 1
    if door == "parquet":
        frame.to_parquet(folder / "rows.parquet", index=False)
        return Parquet().read(["rows.parquet"], folder), "rows.parquet", 0
    return from_frame(pl.from_pandas(frame) if door == "polars" else frame), "frame", 0


def warnings_of(data: RankingDataset) -> list[Caution]:
    return [caution for caution in data.cautions if caution.severity == "warning"]


DOORS = ("csv", "parquet", "pandas", "polars")


def test_one_cell_of_two_thousand(tmp_path: Path) -> None:
    for door, text in itertools.product(DOORS, ["call us", "$12.50", "1,234.50", "12 EUR"]):
        with named_case((door, text)):
            prices = [*PRICES[:777], text, *PRICES[778:]]
            data, name, before = from_door(door, ROWS.assign(price=prices), tmp_path)
            place = f"line {778 + before}" if door == "csv" else "row 778"
            (warning,) = warnings_of(data)
            found = (
                f"1,999 of 2,000 cells of price in {name} are numbers, {text!r} in {place} is not: "
                "ignored as text"
            )
            assert (warning.kind, warning.text, warning.cure) == ("text-in-numbers", found, CURE)


@pytest.mark.parametrize("door", DOORS)
def test_all_cells_with_a_sign(tmp_path: Path, door: str) -> None:
    data, name, _ = from_door(door, ROWS.assign(price=[f"${price}" for price in PRICES]), tmp_path)
    (warning,) = warnings_of(data)
    assert warning.text.startswith(f"0 of 2,000 cells of price in {name} are numbers, '$0.00' in ")


@pytest.mark.parametrize("door", ["parquet", "pandas", "polars"])
def test_numbers_that_are_written_as_text(tmp_path: Path, door: str) -> None:
    frame = ROWS.assign(price=PRICES, flag=np.where(ROWS.x > 3, "True", "False"))
    data, name, _ = from_door(door, frame, tmp_path)
    (warning,) = warnings_of(data)
    price = f"all 2,000 cells of price in {name} are numbers, written as text"
    flag = f"all 2,000 cells of flag in {name} are true or false, written as text"
    assert warning.text == f"{price}; {flag}: ignored as text"


def test_one_warning_for_many_columns(tmp_path: Path) -> None:
    prices = {f"p{at}": ["-", *PRICES[1:]] for at in range(6)}
    (warning,) = warnings_of(from_door("csv", ROWS.assign(**prices), tmp_path)[0])
    assert warning.text.endswith("is not; likewise p3, p4, p5: ignored as text")


@pytest.mark.parametrize("door", DOORS)
def test_other_text_raises_nothing(tmp_path: Path, door: str) -> None:
    frame = ROWS.assign(
        title=[f"shoe {at}" if at % 3 else str(at) for at in range(2000)],
        sku=[f"A{at}" for at in range(2000)],
        size=[("S", "M", "L", "40", "41")[at % 5] for at in range(2000)],
        day=pd.date_range("2024-01-01", periods=2000).strftime("%Y-%m-%d"),
        clock="12:30",
        version="1.2.3",
        user_id=[str(at) for at in range(2000)] if door != "csv" else "u",
    )
    assert warnings_of(from_door(door, frame, tmp_path)[0]) == []


def test_missing_values_are_no_words(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(
        "query_id,label,x,price\n1,1,1,5\n1,0,2,NA\n1,0,3,?\n1,0,4,\n1,0,5,7\n"
    )
    (warning,) = warnings_of(Csv().read(["rows.csv"], tmp_path))
    assert warning.text.startswith("2 of 3 cells of price in rows.csv are numbers, '?' in line 4 is not")


@pytest.mark.parametrize("after", [10, 1500])
def test_bytes_that_are_no_text_in_a_column_that_nobody_reads(tmp_path: Path, after: int) -> None:
    cells = [price.encode() for price in PRICES]
    cells[after] = b"\xff"
    invalid = pa.Array.from_buffers(pa.string(), 2000, pa.array(cells, pa.binary()).buffers())
    table = pa.Table.from_pandas(ROWS, preserve_index=False).append_column("price", invalid)
    pq.write_table(table, tmp_path / "rows.parquet")
    assert Parquet().read(["rows.parquet"], tmp_path).feature_names == ("x",)
    assert from_frame(table).feature_names == ("x",)
    lines = [b"query_id,label,x,price", *(b"1,%d,2,%s" % (at % 2, cell) for at, cell in enumerate(cells))]
    (tmp_path / "rows.csv").write_bytes(b"\n".join(lines))
    assert Csv().read(["rows.csv"], tmp_path).feature_names == ("x",)
