"""Words where numbers should be: true and false are 1 and 0, others are refused with the line that cures."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from ltr_harness.comparison import evaluate_runs
from ltr_harness.data import from_arrays, from_frame
from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.readers.csv import Csv
from ltr_harness.data.readers.parquet import Parquet
from ltr_harness.errors import DataError
from ltr_harness.metrics.evaluation import evaluate
from tests.conftest import named_case

QUERIES = [1, 1, 2, 2]
TRUTHS = [True, False, False, True]
ESCI = ["Exact", "Substitute", "Irrelevant", "Complement"]
IN_ORDER = "grades: {Irrelevant: 0, Complement: 1, Substitute: 2, Exact: 3}"


def frame_of(label: Any, flag: Any) -> pd.DataFrame:
    columns = {"query_id": QUERIES, "document_id": ["a", "b", "a", "b"], "label": label, "flag": flag}
    return pd.DataFrame({**columns, "x": [0.5, 0.25, 1.0, 2.0]})


def from_door(door: str, frame: pd.DataFrame, folder: Path, **options: Any) -> RankingDataset:
    if door == "csv":
        frame.to_csv(folder / "rows.csv", index=False)
        return Csv(**options).read(["rows.csv"], folder)
    if door == "parquet":
        frame.to_parquet(folder / "rows.parquet", index=False)
        return Parquet(**options).read(["rows.parquet"], folder)
    if door == "arrow":
        return from_frame(pa.Table.from_pandas(frame), **options)
    return from_frame(pl.from_pandas(frame) if door == "polars" else frame, **options)


DOORS = ("csv", "parquet", "arrow", "pandas", "polars")


@pytest.mark.parametrize("door", DOORS)
def test_truth_values_are_labels_and_features(tmp_path: Path, door: str) -> None:
    data = from_door(door, frame_of(TRUTHS, TRUTHS), tmp_path)
    assert data.labels.tolist() == [1, 0, 0, 1]
    assert data.feature_names == ("flag", "x")
    assert data.features[:, 0].tolist() == [1, 0, 0, 1]


def test_text_of_truth_values_is_a_label(tmp_path: Path) -> None:
    for door, words in itertools.product(
        DOORS, [["True", "False", "False", "True"], ["TRUE", "0", "false", "1"]]
    ):
        with named_case((door, words)):
            data = from_door(door, frame_of(words, 1), tmp_path)
            assert data.labels.tolist() == [1, 0, 0, 1]


def test_grades_of_truth_values(tmp_path: Path) -> None:
    for door, truths in itertools.product(DOORS, [TRUTHS, ["True", "False", "False", "True"]]):
        with named_case((door, truths)):
            data = from_door(door, frame_of(truths, 1), tmp_path, grades={True: 3, False: 1})
            assert data.labels.tolist() == [3, 1, 1, 3]


def test_true_and_false_with_nothing_between_them(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("query_id,label,flag\n1,1,True\n1,0,\n1,0,NA\n1,0,FALSE\n")
    data = Csv().read(["rows.csv"], tmp_path)
    np.testing.assert_array_equal(data.features, [[1], [np.nan], [np.nan], [0]])


def test_other_numbers_beside_true(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("query_id,label,flag\n1,1,2.5\n1,0,True\n")
    with pytest.raises(DataError, match=r"rows.csv:3: column 'flag' contains 'True'; expected a number"):
        Csv(features=("flag",)).read(["rows.csv"], tmp_path)


@pytest.mark.long
def test_true_after_the_first_megabyte(tmp_path: Path) -> None:
    rows = [f"{'q' * 100}{at // 5},0,1" for at in range(12_000)]
    (tmp_path / "rows.csv").write_text("\n".join(["query_id,label,flag", *rows, "x,1,True", "x,0,False"]))
    data = Csv().read(["rows.csv"], tmp_path)
    assert data.features[-3:, 0].tolist() == [1, 1, 0]


@pytest.mark.parametrize("door", DOORS)
def test_known_scales_are_proposed_in_their_order(tmp_path: Path, door: str) -> None:
    with pytest.raises(DataError) as error:
        from_door(door, frame_of(ESCI, 1), tmp_path)
    assert str(error.value).endswith(f"where labels are words, `{IN_ORDER}` says what each stands for")
    numbers = {"Irrelevant": 0, "Complement": 1, "Substitute": 2, "Exact": 3}
    data = from_door(door, frame_of(ESCI, 1), tmp_path, grades=numbers)
    assert data.labels.tolist() == [3, 2, 0, 1]


CURES = [
    (["good", "excellent", "bad", "fair"], "`grades: {bad: 0, fair: 1, good: 2, excellent: 3}`"),
    (["Not-Relevant", "relevant", "relevant", "relevant"], '`grades: {"Not-Relevant": 0, relevant: 1}`'),
    (["yes", "no", "no", "yes"], '`grades: {"no": 0, "yes": 1}`'),
    (["b", "c", "a", "a"], "worst first, and number them from 0 with `grades:`: a, b, c"),
    (["good", "b", "bad", "a"], "worst first, and number them from 0 with `grades:`: a, b, bad, good"),
]


def test_order_is_proposed_only_where_it_is_known(tmp_path: Path) -> None:
    for (words, cure), door in itertools.product(CURES, DOORS):
        with named_case((door, words)):
            with pytest.raises(DataError) as error:
                from_door(door, frame_of(words, 1), tmp_path)
            assert cure in str(error.value)


def test_cures_by_the_role_of_the_column(tmp_path: Path) -> None:
    frame = frame_of([1, 0, 0, "?"], ["red", "blue", "red", "green"]).assign(
        price=["$1", "$2", "1,234.5", "4"]
    )
    with pytest.raises(DataError) as error:
        from_door("csv", frame, tmp_path, features=("flag", "price", "x"))
    flag, price, label = str(error.value).splitlines()
    assert flag.endswith("`categorical: [flag]` reads it as categories; or leave it out of `features:`")
    assert "'$1', '$2', '1,234.5'" in price
    assert "write numbers alone, with a decimal point, and empty cells where a value is missing" in price
    assert label.endswith("write numbers alone, with a decimal point, or leave such rows out")


def test_judgments_say_how_to_number_their_words() -> None:
    frame = frame_of(ESCI, 1)[["query_id", "document_id", "label"]]
    run = {"1": {"a": 0.5, "b": 0.25}}
    with pytest.raises(DataError, match="in the table: Irrelevant 0, Complement 1, Substitute 2, Exact 3"):
        evaluate_runs(frame, run, ["mrr"])
    with pytest.raises(DataError, match="in the table, worst first: a, b, c"):
        evaluate_runs(frame.assign(label=["b", "a", "c", "a"]), run, ["mrr"])
    truths = evaluate_runs(frame.assign(label=["False", "True", "False", "True"]), run, ["mrr"])
    assert truths["run"]["mrr"].per_query.tolist()[0] == 1 / 2


def test_arrays_say_that_words_have_no_numbers() -> None:
    with pytest.raises(DataError, match="finite numbers; where they are words, number them, worst first"):
        evaluate(["Exact", "Irrelevant"], [1, 2], group_sizes=[2], metrics=["mrr"])
    with pytest.raises(DataError, match="finite numbers; where they are words, number them, worst first"):
        from_arrays([[1], [2]], ["Exact", "Irrelevant"], group_sizes=[2])
    assert from_arrays([[1], [2]], [True, False], group_sizes=[2]).labels.tolist() == [1, 0]
