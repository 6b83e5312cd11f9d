"""`data split`: the parts have the rows of the original as they stand, and fit the experiment made for it."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import feather

from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.data.readers.csv import Csv
from ltr_harness.data.readers.parquet import Parquet

Cli = Callable[..., tuple[int, str, str]]

# names of their own, text, an id that float32 cannot hold, a quoted line break, a comma, 007, numbers as typed
HEAD = "search_id,sku,grade,price,user_id,title\n"
ROWS = [
    f'{q:03d},s{q}-{d},{d % 2},1.{q}0,{9007199254740000 + q},"red, ""no {q}""\nshoes {d}"\n'
    for q in range(20)
    for d in range(3)
]
SAID = ("--column", "query=search_id", "--column", "label=grade")


@pytest.fixture
def ltr(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cli:
    monkeypatch.chdir(tmp_path)
    Path("all.csv").write_text(HEAD + "".join(ROWS))

    def run(*arguments: str) -> tuple[int, str, str]:
        code = run_command(cli, list(arguments))
        return code, *capsys.readouterr()

    return run


def split(ltr: Cli, file: str, *more: str) -> None:
    code, _, err = ltr("data", "split", file, "-o", "parts", "--test", "0.25", *SAID, *more)
    assert code == 0, err
    assert err == f"note: read it with the options {' '.join([*SAID[1::2], *more[1::2]])}\n"


def test_every_byte_of_the_rows_is_kept(ltr: Cli) -> None:
    split(ltr, "all.csv")
    parts = [Path("parts", f"{part}.csv").read_text() for part in ("train", "test")]
    assert all(text.startswith(HEAD) for text in parts)
    whole = "".join(text.removeprefix(HEAD) for text in parts)
    assert len(whole) == len("".join(ROWS))
    assert all(row in whole for row in ROWS)
    test = {row["search_id"] for row in csv.DictReader(parts[1].splitlines(keepends=True))}
    assert len(test) == 5
    assert sum(row.split(",")[0] in test for row in ROWS) == parts[1].count("shoes")


@pytest.mark.parametrize("suffix", [".csv.gz", ".parquet", ".arrow"])
def test_other_files_of_tables(ltr: Cli, suffix: str) -> None:
    name = f"all{suffix}"
    frame = pd.read_csv("all.csv", dtype={"search_id": str})
    if suffix == ".csv.gz":
        Path(name).write_bytes(gzip.compress((HEAD + "".join(ROWS)).encode()))
    elif suffix == ".parquet":
        frame.to_parquet(name)
    else:
        feather.write_feather(pa.Table.from_pandas(frame), name, compression="uncompressed")
    split(ltr, name)
    reader = (Csv if "csv" in suffix else Parquet)(query="search_id", label="grade", attributes=("user_id",))
    train, test = (reader.read([f"parts/{part}{suffix}"], Path()) for part in ("train", "test"))
    assert train.n_queries + test.n_queries == 20
    users = {*train.query_attributes["user_id"].tolist(), *test.query_attributes["user_id"].tolist()}
    assert users == {9007199254740000 + q for q in range(20)}
    if suffix == ".parquet":
        parts = [pd.read_parquet(f"parts/{part}.parquet") for part in ("train", "test")]
        again = pd.concat(parts).sort_values(["search_id", "sku"]).reset_index(drop=True)
        pd.testing.assert_frame_equal(again, frame)


def test_scattered_rows_stay_in_the_order_of_the_file(ltr: Cli) -> None:
    order = [*ROWS[::3], *ROWS[1::3], *ROWS[2::3]]
    Path("all.csv").write_text(HEAD + "".join(order).rstrip("\n"))  # and no line end at the end
    split(ltr, "all.csv", "--reader-option", "regroup=true")
    for part in ("train", "test"):
        text = Path("parts", f"{part}.csv").read_text().removeprefix(HEAD)
        assert text == "".join(row for row in order if row in text)


@pytest.mark.long
def test_the_experiment_made_for_the_original_fits_the_parts(ltr: Cli) -> None:
    assert ltr("init", "all.csv")[0] == 0
    options = [
        line for line in Path("experiment.yaml").read_text().splitlines() if line.startswith("  query:")
    ]
    assert options == ["  query: search_id"]
    split(ltr, "all.csv")
    text = Path("experiment.yaml").read_text()
    start = text.index("  files:")
    end = text.index("\n", text.index("  folds:"))
    splits = "  splits: {train: parts/train.csv, valid: {holdout: 0.2}, test: parts/test.csv}"
    Path("parts.yaml").write_text(text[:start] + splits + text[end:])
    code, _, err = ltr("check", "parts.yaml")
    assert code in (0, 2), err
    assert "has no column" not in err
    assert not err.startswith("error:")


def test_several_files_must_have_the_same_columns(ltr: Cli) -> None:
    Path("more.csv").write_text("grade,search_id,sku,price,user_id,title\n1,900,x,1,1,a\n")
    code, _, err = ltr("data", "split", "all.csv", "more.csv", "-o", "parts", "--test", "0.25", *SAID)
    assert code == 2
    assert "more.csv: has other columns than the first file; expected search_id, sku, grade" in err
    assert not list(Path("parts").glob("*.csv"))
