"""The index of a pandas frame, which files keep as a column, is no feature at any door."""

from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow.parquet as pq
import pytest

from ltr_harness.cli.commands.init import guessed_columns
from ltr_harness.comparison import evaluate_runs
from ltr_harness.data import from_frame
from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.readers.csv import Csv
from ltr_harness.data.readers.parquet import Parquet
from ltr_harness.errors import DataError
from tests.conftest import named_case

rng = np.random.default_rng(1)
FRAME = pd.DataFrame(
    {"query_id": np.repeat(np.arange(20), 5), "label": np.tile([0, 0, 1, 0, 2], 20), "x": rng.random(100)}
)
KEPT = FRAME[FRAME.x > 0.1]  # its index has holes


def of_csv(frame: pd.DataFrame, folder: Path) -> RankingDataset:
    frame.to_csv(folder / "rows.csv", index=False)
    return Csv().read(["rows.csv"], folder)


def of_parquet(frame: pd.DataFrame, folder: Path) -> RankingDataset:
    frame.to_parquet(folder / "rows.parquet")
    return Parquet().read(["rows.parquet"], folder)


def of_csv_with_index(frame: pd.DataFrame, folder: Path) -> RankingDataset:
    frame.to_csv(folder / "rows.csv")
    return Csv().read(["rows.csv"], folder)


def of_frame(frame: pd.DataFrame, folder: Path) -> RankingDataset:
    return from_frame(frame)


def of_polars(frame: pd.DataFrame, folder: Path) -> RankingDataset:
    frame.to_parquet(folder / "rows.parquet")
    return from_frame(pl.from_arrow(pq.read_table(folder / "rows.parquet")))


def of_arrow(frame: pd.DataFrame, folder: Path) -> RankingDataset:
    frame.to_parquet(folder / "rows.parquet")
    return from_frame(pq.read_table(folder / "rows.parquet"))


OTHER_DOORS = (of_csv_with_index, of_parquet, of_polars, of_arrow)


FRAMES = {
    "filtered": KEPT,
    "read from Parquet": KEPT.reset_index(names="__index_level_0__"),
    "reset": KEPT.reset_index(),
    "reset twice": KEPT.reset_index().reset_index(),
    "in another order": KEPT.sample(frac=1, random_state=1).sort_values("query_id").reset_index(),
    "read from CSV": KEPT.reset_index(names="Unnamed: 0"),
}


FRAMES_OF_DOORS = [
    *((door, name) for door in (of_csv, of_frame) for name in FRAMES),
    *((door, name) for door in OTHER_DOORS for name in ("filtered", "read from Parquet")),
]


def test_index_is_no_feature(tmp_path: Path) -> None:
    for door, frame in FRAMES_OF_DOORS:
        with named_case((door.__name__, frame)):
            assert door(FRAMES[frame], tmp_path).feature_names == ("x",)


def test_notes_name_the_place_of_a_column_without_a_name(tmp_path: Path) -> None:
    (note,) = of_csv_with_index(KEPT, tmp_path).cautions
    assert note.text == "ignored the index of rows.csv: column 1 (without a name)"
    (note,) = of_parquet(KEPT, tmp_path).cautions
    assert note.text == "ignored the index of rows.parquet: __index_level_0__"


def test_named_index_that_pandas_stored(tmp_path: Path) -> None:
    frame = FRAME.assign(part=np.arange(100) % 7).set_index("part")
    assert of_parquet(frame, tmp_path).feature_names == ("x",)
    by_query = FRAME.set_index("query_id")
    assert of_parquet(by_query, tmp_path).n_queries == 20  # a role is a role
    damaged = pq.read_table(tmp_path / "rows.parquet").replace_schema_metadata({b"pandas": b"{"})
    assert from_frame(damaged).feature_names == ("x",)


def test_other_columns_of_these_names_are_features(tmp_path: Path) -> None:
    frame = FRAME.assign(index=FRAME.x.round(2), level_0=np.arange(100) // 2)
    assert of_csv(frame, tmp_path).feature_names == ("x", "index", "level_0")
    frame = FRAME.assign(index=np.arange(100))
    assert from_frame(frame, features=["index", "x"]).feature_names == ("index", "x")


def test_columns_without_a_name_in_messages(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(",,query_id,label,x\n1,2,3,1,5\n")
    with pytest.raises(
        DataError, match=r"rows.csv:1: columns 1, 2 have no name; expected a different name for each column"
    ):
        Csv().read(["rows.csv"], tmp_path)
    (tmp_path / "rows.csv").write_text(",thing,label\n1,2,3\n")
    with pytest.raises(DataError, match=r"no column 'query_id'.*known: column 1 \(without a name\), label"):
        Csv().read(["rows.csv"], tmp_path)
    with pytest.raises(DataError, match=r"columns: 'column 1 \(without a name\)', 'thing', 'label'"):
        evaluate_runs(tmp_path / "rows.csv", {"1": {"a": 1.0}}, ["mrr"])
    with pytest.raises(DataError, match=r"the query \(column 1 \(without a name\), thing, label\)"):
        guessed_columns(["", "thing", "label"], {"label"}, {}, "rows.csv")


def test_judgments_with_an_index(tmp_path: Path) -> None:
    truth = FRAME.assign(document_id=np.arange(100))[KEPT.columns.union(["document_id"])][FRAME.x > 0.5]
    truth.to_csv(tmp_path / "truth.csv")
    rows = FRAME.assign(document_id=np.arange(100)).drop(columns="label")
    data = from_frame(rows[rows.x > 0.3], judgments=tmp_path / "truth.csv")
    assert data.feature_names == ("x",)


@pytest.mark.long
def test_text_in_a_column_called_index_is_said_as_in_others(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(
        "query_id,label,index\n" + f"1,0,5.{'0' * 100}\n" * 12_000 + "1,1,five\n"
    )
    with pytest.raises(
        DataError, match=r"rows.csv:12002: column 'index' contains 'five'; .*write numbers alone"
    ):
        Csv().read(["rows.csv"], tmp_path)
