"""Times that divide queries or age rows: parsed, or refused with their place, and the query's own column among them."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.errors import DataError
from ltr_harness.workflow import read

FOLDS = "folds: {by_time: day, test: 10 days}"
AGES = "weight: {half_life: 20 days, by: day}\n  folds: 3"
HELD_OUT = "splits: {train: [rows.csv], test: {holdout: 0.2, by_time: day}}"
DAYS = pd.date_range("2024-01-01", periods=40)


def rows_of(days: list[str]) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    each = {"query_id": np.arange(40), "day": days}
    rows = pd.DataFrame(each).loc[np.repeat(np.arange(40), 4)]
    return rows.assign(label=np.tile([0, 1, 0, 2], 40), x=rng.random(160))


def fold_names(folder: Path, rows: pd.DataFrame, data: str, query: str = "query_id") -> list[str]:
    """The names of the folds."""
    rows.to_csv(folder / "rows.csv", index=False)
    files = "" if "splits" in data else "files: [rows.csv]"
    (folder / "x.yaml").write_text(f"""
name: x
data:
  reader: csv
  query: {query}
  {files}
  {data}
metrics: {{report: [ndcg], primary: ndcg@5}}
models: {{one: {{ranker: feature, feature: x}}}}
""")
    return [fold.name for fold in read(folder / "x.yaml").folds]


@pytest.mark.parametrize("form", ["%Y-%m-%d", "%Y%m%d", "%Y/%m/%d", "%Y-%m-%d %H:%M", "%G-W%V-%u"])
def test_a_date_that_is_the_query_divides_queries(tmp_path: Path, form: str) -> None:
    rows = rows_of(DAYS.strftime(form).tolist()).drop(columns="query_id")
    assert fold_names(tmp_path, rows, FOLDS, "day") == ["2024-01-11", "2024-01-21", "2024-01-31"]


def test_a_part_of_the_key_of_a_query(tmp_path: Path) -> None:
    rows = rows_of(DAYS.strftime("%Y-%m-%d").tolist())
    assert fold_names(tmp_path, rows, FOLDS, "[day, query_id]") == ["2024-01-11", "2024-01-21", "2024-01-31"]


def test_whole_numbers_that_write_dates(tmp_path: Path) -> None:
    rows = rows_of(DAYS.strftime("%Y%m%d").tolist())
    folds = fold_names(tmp_path, rows, f"attributes: [day]\n  {FOLDS}")
    assert folds == ["2024-01-11", "2024-01-21", "2024-01-31"]
    rows = rows_of(list(range(20240101, 20240141)))  # the 40th of January
    with pytest.raises(DataError, match="which may be seconds"):
        fold_names(tmp_path, rows, f"attributes: [day]\n  {FOLDS}")


def test_data_split_by_the_query(tmp_path: Path) -> None:
    rows = rows_of(DAYS.strftime("%Y-%m-%d").tolist()).drop(columns="query_id")
    rows.to_csv(tmp_path / "rows.csv", index=False)
    words = [
        "data",
        "split",
        "rows.csv",
        "--by-time",
        "day",
        "--test",
        "0.25",
        "-o",
        "parts",
        "--column",
        "query=day",
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        assert run_command(cli, words) == 0
    assert pd.read_csv(tmp_path / "parts" / "test.csv").day.min() == "2024-01-31"


NO_TIMES = {
    "US dates": (DAYS.strftime("%m/%d/%Y").tolist(), r"not a time: '01/01/2024'.*to_datetime\(frame\['day'\]\)"),
    "NaT": (["NaT", *DAYS[1:].strftime("%Y-%m-%d")], "holds text that is not a time: 'NaT'"),
    "nan": (["nan", *DAYS[1:].strftime("%Y-%m-%d")], "holds text that is not a time: 'nan'"),
    "nothing": (["", *DAYS[1:].strftime("%Y-%m-%d")], "day"),
    "old": (["1600-01-01", *DAYS[1:].strftime("%Y-%m-%d")], "holds '1600-01-01'.*; expected times from 1678 to 2261"),
    "far": (["9999-12-31", *DAYS[1:].strftime("%Y-%m-%d")], "holds '9999-12-31'.*; expected times from 1678 to 2261"),
}  # fmt: skip


@pytest.mark.parametrize("case", NO_TIMES)
@pytest.mark.parametrize("data", [f"attributes: [day]\n  {FOLDS}", AGES, f"attributes: [day]\n  {HELD_OUT}"])
def test_what_is_no_time_is_refused_with_its_place(tmp_path: Path, case: str, data: str) -> None:
    days, found = NO_TIMES[case]
    with pytest.raises(DataError, match=found) as error:
        fold_names(tmp_path, rows_of(days), data)
    place = "rows.csv:2: column 'day'" if data == AGES else "rows.csv: "
    assert place in str(error.value)
