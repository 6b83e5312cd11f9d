"""Every door at which times enter reads them alike, and refuses what has no place in their order."""

import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.data import RankingDataset, from_frame
from ltr_harness.data.readers.csv import Csv
from ltr_harness.data.times import moments_of, timestamps
from ltr_harness.errors import DataError, HarnessError
from ltr_harness.experiments.config import load_experiment
from ltr_harness.experiments.training.folds import FoldReader
from tests.conftest import named_case

DAYS = [f"2024-{month:02}-{day:02}" for month in range(1, 11) for day in (1, 15)]  # a query each


def frame(days: list[str]) -> pd.DataFrame:
    n = len(days)
    rows = {"query_id": np.arange(n).repeat(2), "label": [0, 1] * n, "x": np.arange(2.0 * n)}
    return pd.DataFrame({**rows, "day": np.repeat(days, 2)})


def read_weighted(days: list[str], tmp_path: Path) -> RankingDataset:
    return from_frame(frame(days), features=["x"], weight={"half_life": "30 days", "by": "day"})


def weighted_in_a_file(days: list[str], tmp_path: Path) -> RankingDataset:
    frame(days).to_csv(tmp_path / "rows.csv", index=False)
    reader = Csv.model_validate({"features": ["x"], "weight": {"half_life": "30 days", "by": "day"}})
    return reader.read(["rows.csv"], tmp_path)


def fold_reader(days: list[str], tmp_path: Path, **layout: object) -> FoldReader:
    frame(days).to_parquet(tmp_path / "rows.parquet")
    data = {"reader": "parquet", "root": str(tmp_path), "attributes": ["day"], "features": ["x"], **layout}
    models = {"random": {"ranker": "random"}}
    return FoldReader(load_experiment({"name": "a", "data": data, "models": models, "stopping": None}).data)


def folded(days: list[str], tmp_path: Path) -> RankingDataset:
    reader = fold_reader(days, tmp_path, files="rows.parquet", folds={"by_time": "day", "test": "1 month"})
    return reader.read(reader.names()[-1]).test


def held_out(days: list[str], tmp_path: Path) -> RankingDataset:
    splits = {"train": "rows.parquet", "test": {"holdout": 0.1, "by_time": "day"}}
    return fold_reader(days, tmp_path, splits=splits).read("all").test


def cut(days: list[str], tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    frame(days).to_parquet(path)
    command = ["data", "split", str(path), "-o", str(tmp_path / "parts"), "--test", "0.1", "--by-time", "day"]
    assert run_command(cli, command) == 0


def judged_rows(days: list[str], tmp_path: Path) -> NDArray[np.bool_] | None:
    rule = {"events": {"click": 1}, "maturity": "40d"}
    rows = frame(days).assign(click=1)
    return from_frame(rows, features=["x"], relevance=rule, timestamp="day").judgments.judged


DOORS: dict[str, Callable[[list[str], Path], object]] = {
    "half-life": read_weighted,
    "half-life of a file": weighted_in_a_file,
    "folds": folded,
    "hold-out": held_out,
    "data split": cut,
    "maturity": judged_rows,
}
UNORDERED = {
    "0001-01-01": "times from 1678 to 2261",
    "9999-12-31T00:00:00": "times from 1678 to 2261",
    "1677-09-21": "times from 1678 to 2261",
    "NaT": "ISO 8601",
    "nan": "ISO 8601",
    "now": "ISO 8601",
    "03/04/2024": "ISO 8601",
    "2024-9-1": "ISO 8601",
    "9": "ISO 8601",
    "2024-02-30": "ISO 8601",
    "2024-03-04T00:00:00+02:00": "all with one, or none",
}


UNORDERED_VALUES = [
    *(("half-life", value) for value in UNORDERED),
    *(
        (door, value)
        for door in DOORS
        for value in ("9999-12-31T00:00:00", "2024-02-30")
        if door != "half-life"
    ),
    *((door, "2024-03-04T00:00:00+02:00") for door in DOORS if door != "half-life"),
]


def test_what_has_no_place_in_the_order_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for door, value in UNORDERED_VALUES:
        with named_case((door, value)):
            days = [*DAYS[:7], value, *DAYS[8:]]
            try:
                DOORS[door](days, tmp_path)
                said = capsys.readouterr().err
            except (HarnessError, AssertionError) as error:
                said = str(error) + capsys.readouterr().err
            said = " ".join(said.split())
            assert f"expected {UNORDERED[value]}" in said
            assert "'day'" in said
            if "have no time zone" in said:
                assert "2024-01-01" in said
                continue
            assert repr(value) in said
            places = {
                "half-life": "frame: row 15",
                "half-life of a file": "rows.csv:16",
                "maturity": "frame: row 15",
            }
            assert places.get(door, "query '7'") in said
            assert said.count("; ") >= 2  # the cure


def test_texts_are_ordered_by_their_moment_and_not_as_texts(tmp_path: Path) -> None:
    # the newest by the clock of Greenwich, and not by their letters
    days = [
        "2024-03-01T23:30:00-05:00",
        "2024-03-02T02:00:00+00:00",
        *[f"2024-02-{day:02}T00:00Z" for day in range(1, 9)],
    ]
    assert held_out(days, tmp_path).groups.ids.tolist() == [0]
    weights = read_weighted(days, tmp_path).weights_of_rows()
    assert weights is not None
    assert weights[0] == 1
    np.testing.assert_allclose(weights[2], 0.5 ** (2.5 / 24 / 30), rtol=1e-6)
    weeks = ["2024-W09", "2024-W10", "2023-W52", *(f"2024-W0{week}" for week in range(1, 8))]
    assert held_out(weeks, tmp_path).groups.ids.tolist() == [1]
    judged = judged_rows(DAYS, tmp_path)
    assert judged is not None
    assert np.flatnonzero(~judged).tolist() == [34, 35, 36, 37, 38, 39]  # from 15 September on


def test_the_forms_of_a_time_are_one_moment() -> None:
    moment = np.datetime64("2024-09-02T10:00", "ns").astype(np.int64)
    texts = [
        "2024-09-02T10:00:00",
        "2024-09-02 10:00",
        "20240902T1000",
        "2024/09/02 10",
        "2024.09.02 10:00:00.000",
    ]
    assert (timestamps(pa.array(texts), "t", "UTC") == moment).all()
    zoned = ["2024-09-02T10:00Z", "2024-09-02T12:00+02:00", "2024-09-02 05:00:00-0500", "2024-09-02T11+01"]
    assert (timestamps(pa.array(zoned), "t", "Europe/Berlin") == moment).all()
    days = ["2024-09-02", "2024-W36", "2024-W36-1", "20240902"]
    assert (timestamps(pa.array(days), "t", "UTC") == moment - 10 * 3600 * 10**9).all()
    assert timestamps(pa.array(["2024", "2024-01"]), "t", "UTC").tolist() == [1704067200 * 10**9] * 2
    for unit in ("M", "h", "s", "ms", "us", "ns"):
        times = np.array(["2024-09-01"], dtype=f"datetime64[{unit}]")
        assert moments_of(times, "t", "UTC", str) == np.datetime64("2024-09-01", "ns").astype(np.int64)


@pytest.mark.parametrize("year", [-2000, 1, 1677, 2262, 9999, 20000])
def test_arrow_times_beyond_the_range_are_named(year: int) -> None:
    for unit, zone in itertools.product(["s", "ms", "us"], [None, "UTC", "Europe/Berlin"]):
        count = int(np.datetime64(f"{year:05}-03-01", unit).astype(np.int64))
        column = pa.array([0, count], pa.timestamp(unit, zone))
        with pytest.raises(
            DataError, match=rf"column 't': holds '{year:04}-03-01 .*expected times from 1678 to 2261"
        ):
            timestamps(column, "t", "UTC")
