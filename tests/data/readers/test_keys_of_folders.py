"""Folders divided by keys, as Hive and Spark write them: what their names say is a column of the rows in them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.feather as feather
import pytest

from ltr_harness import run_experiment
from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.data.cache import DataCache
from ltr_harness.data.dataset import fingerprint_dataset
from ltr_harness.data.logs.log import open_log
from ltr_harness.data.readers.parquet import Parquet
from ltr_harness.errors import DataError


def rows(n_queries: int = 60, seed: int = 0) -> pd.DataFrame:
    """Queries of five rows, sorted by day and shop."""
    rng = np.random.default_rng(seed)
    query = np.repeat(np.arange(n_queries), 5)
    good = rng.normal(size=query.size)
    return pd.DataFrame(
        {
            "session": query,
            "grade": np.clip(np.round(good + rng.normal(size=query.size)), 0, 3).astype(int),
            "bm25": good,
            "price": rng.normal(size=query.size),
            "day": np.where(query < n_queries // 2, "2024-01-01", "2024-01-02 07:00:00"),
            "shop": query // (n_queries // 4),
        }
    )


def write_partitioned(table: pd.DataFrame, folder: Path, keys: list[str]) -> Path:
    schema = pa.schema([(key, pa.string() if key == "day" else pa.int64()) for key in keys])
    parts = ds.partitioning(schema, flavor="hive")
    ds.write_dataset(pa.Table.from_pandas(table), folder, format="parquet", partitioning=parts)
    return folder


def test_rows_of_the_folder_are_those_of_one_file(tmp_path: Path) -> None:
    table = rows()
    folder = write_partitioned(table, tmp_path / "parts", ["day", "shop"])
    assert (folder / "day=2024-01-02%2007%3A00%3A00" / "shop=3").is_dir()  # written as an address is
    table.to_parquet(tmp_path / "one.parquet")
    reader = Parquet(query="session", label="grade", attributes=("day", "shop"))
    whole, parts = (reader.read([name], tmp_path) for name in ("one.parquet", "parts"))
    assert fingerprint_dataset(parts) == fingerprint_dataset(whole)
    assert [*parts.query_attributes] == ["day", "shop"]
    for name, values in whole.query_attributes.items():
        assert parts.query_attributes[name].tolist() == values.tolist()
    assert Parquet(query="session", label="grade").read(["parts"], tmp_path).feature_names == (
        "bm25",
        "price",
        "shop",
    )


def test_a_key_without_a_value_is_missing(tmp_path: Path) -> None:
    table = rows().drop(columns="day").astype({"shop": object})
    table.loc[table.session >= 45, "shop"] = None
    folder = write_partitioned(table, tmp_path / "parts", ["shop"])
    assert (folder / "shop=__HIVE_DEFAULT_PARTITION__").is_dir()
    read = Parquet(query="session", label="grade").read(["parts"], tmp_path)
    shop = read.features[:, read.feature_names.index("shop")]
    assert np.isnan(shop).sum() == 75
    assert {*shop[:225].tolist()} == {0.0, 1.0, 2.0}
    with pytest.raises(DataError, match=r"column 'shop' is empty \(75 rows, this is the first\)"):
        Parquet(query="shop", label="grade").read(["parts"], tmp_path)


def test_evaluate_gives_the_same_numbers_to_the_bit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = rows()
    write_partitioned(table, tmp_path / "parts", ["day"])
    table.to_parquet(tmp_path / "one.parquet")
    np.save(tmp_path / "scores.npy", np.random.default_rng(1).normal(size=len(table)))
    said = []
    for data in ("one.parquet", "parts"):
        arguments = ["--data", str(tmp_path / data), "--scores", str(tmp_path / "scores.npy")]
        assert run_command(cli, ["evaluate", *arguments, "--per-query", "--json"]) == 0
        said.append(json.loads(capsys.readouterr().out)["rankings"])
    assert said[0] == said[1]
    assert len(said[0][0]["per_query"]["ndcg@10"]) == 60


@pytest.mark.long
@pytest.mark.usefixtures("without_report")
def test_an_experiment_trains_on_it_as_on_one_file(tmp_path: Path) -> None:
    scores = {}
    for part, seed in (("train", 1), ("test", 2)):
        rows(seed=seed).to_parquet(tmp_path / f"{part}.parquet")
        write_partitioned(rows(seed=seed), tmp_path / part, ["day", "shop"])
    for kind in (".parquet", ""):
        columns = {"query": "session", "label": "grade", "features": ["bm25", "price"], "attributes": ["day"]}
        splits = {"train": f"train{kind}", "valid": {"holdout": 0.3, "seed": 1}, "test": f"test{kind}"}
        config = {
            "name": f"x{kind.strip('.')}",
            "data": {"reader": "parquet", "root": str(tmp_path), "splits": splits, **columns},
            "stopping": {"metric": "ndcg@10", "max_rounds": 5},
            "models": {"lgbm": {"ranker": "lightgbm", "objective": "lambdarank", "preset": "small"}},
        }
        (run,) = run_experiment(config, runs=tmp_path / "runs").runs
        scores[kind] = run.test_scores
    assert scores[""]["query_id"].nunique() == 60
    assert scores[""]["score"].nunique() > 1
    assert scores[""].equals(scores[".parquet"])


def test_a_folder_of_another_name_is_read_anew(tmp_path: Path) -> None:
    """The cache knows files by their content, and a key is in none of them."""
    write_partitioned(rows(), tmp_path / "parts", ["shop"])
    cache, reader = DataCache(tmp_path / "cache"), Parquet(query="session", label="grade")
    assert cache.read(reader, ["parts"], tmp_path).dataset.features[:, 2].max() == 3
    (tmp_path / "parts" / "shop=3").rename(tmp_path / "parts" / "shop=9")
    assert cache.read(reader, ["parts"], tmp_path).dataset.features[:, 2].max() == 9


def test_a_key_that_is_also_a_column_is_refused(tmp_path: Path) -> None:
    table = rows()
    for shop, part in table.groupby("shop"):
        folder = tmp_path / "parts" / f"shop={shop}"
        folder.mkdir(parents=True)
        # only one file has both, and not the first
        (part if shop == 2 else part.drop(columns="shop")).to_parquet(folder / "part-0.parquet")
    problem = (
        f"{tmp_path}/parts/shop=2/part-0.parquet: has the column 'shop', which is also a key of its folder; expected "
        "it once; write the files without it, or rename the folders shop=…"
    )
    for read in (
        lambda: Parquet(query="session", label="grade").read(["parts"], tmp_path),
        lambda: open_log(tmp_path / "parts"),
    ):
        with pytest.raises(DataError) as caught:
            read()
        assert str(caught.value) == problem


def test_an_arrow_file_below_a_key_is_refused(tmp_path: Path) -> None:
    (tmp_path / "parts" / "shop=1").mkdir(parents=True)
    feather.write_feather(rows(), tmp_path / "parts" / "shop=1" / "part-0.parquet")
    with pytest.raises(DataError, match=r"is an Arrow file below shop=…; expected a Parquet file"):
        Parquet(query="session", label="grade").read(["parts"], tmp_path)


def test_a_split_of_it_has_the_keys(tmp_path: Path) -> None:
    write_partitioned(rows(), tmp_path / "parts", ["day", "shop"])
    arguments = [
        str(tmp_path / "parts"),
        "--column",
        "query=session",
        "--test",
        "0.2",
        "--format",
        ".parquet",
    ]
    assert run_command(cli, ["data", "split", *arguments, "-o", str(tmp_path / "out")]) == 0
    written = [pd.read_parquet(file) for file in (tmp_path / "out").glob("*.parquet")]
    whole = pd.concat(written).sort_values(["session", "bm25"], ignore_index=True)
    pd.testing.assert_frame_equal(whole, rows().sort_values(["session", "bm25"], ignore_index=True))
