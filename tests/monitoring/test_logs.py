"""Logs as they lie around: files and folders of every format, larger than the memory, in pieces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.feather
import pyarrow.parquet as parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltr_harness.data.logs.log import open_log
from ltr_harness.errors import DataError
from ltr_harness.monitoring import queries
from ltr_harness.monitoring.load import load_monitor_config
from ltr_harness.monitoring.reading import read_log
from ltr_harness.monitoring.synthetic import SyntheticLog
from tests.conftest import examples

CONFIG = load_monitor_config(
    {
        "columns": {
            "query_id": "request_id",
            "item_id": "sku",
            "rank": "position",
            "timestamp": "ts",
            "segments": ["country"],
            "cluster_id": "user_id",
            "features": ["price"],
        },
        "relevance": {"events": {"click": 1, "buy": 4}},
        "metrics": ["ndcg@10"],
    }
)


@pytest.fixture(scope="module")
def table() -> pa.Table:
    found: pa.Table = SyntheticLog(days=3, queries_per_day=50, users=40).table()
    return found


@pytest.fixture(scope="module")
def digest(table: pa.Table) -> str:
    return queries.digest(read_log(table, CONFIG, "production")[0])


@pytest.mark.long
def test_every_format_holds_the_same_log(table: pa.Table, digest: str, tmp_path: Path) -> None:
    text = table.set_column(
        table.column_names.index("ts"),
        "ts",
        table["ts"].cast(pa.timestamp("us", "UTC"), safe=False).cast(pa.string()),
    )
    parquet.write_table(table, tmp_path / "a.parquet")
    pa.feather.write_feather(table, tmp_path / "a.feather")
    pa.csv.write_csv(text, tmp_path / "a.csv")
    frame = table.to_pandas()
    for source in (tmp_path / "a.parquet", tmp_path / "a.feather", frame, table):
        assert queries.digest(read_log(source, CONFIG, "production")[0]) == digest
    csv = read_log(tmp_path / "a.csv", CONFIG, "production")[0]
    # text keeps microseconds
    whole = read_log(table, CONFIG, "production")[0]
    metrics = [name for name in whole if name.startswith("metric:")]
    assert csv[metrics].equals(whole[metrics])
    assert np.array_equal(csv["time"] // 1000, whole["time"] // 1000)


@pytest.mark.long
def test_folders_and_partitions(table: pa.Table, digest: str, tmp_path: Path) -> None:
    for day in range(3):
        parquet.write_table(table.slice(day * 600, 600), tmp_path / f"part-{day}.parquet")
    (tmp_path / "_SUCCESS").touch()
    assert queries.digest(read_log(tmp_path, CONFIG, "production")[0]) == digest
    partitioned = tmp_path / "by_country"
    pa.dataset.write_dataset(
        table,
        partitioned,
        format="parquet",
        partitioning=pa.dataset.partitioning(pa.schema([("country", pa.string())]), flavor="hive"),
    )
    assert queries.digest(read_log(partitioned, CONFIG, "production")[0]) == digest
    (tmp_path / "odd.csv").write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match="mixes formats"):
        read_log(tmp_path, CONFIG, "production")
    (tmp_path / "void").mkdir()
    with pytest.raises(DataError, match="holds no log"):
        read_log(tmp_path / "void", CONFIG, "production")


@pytest.mark.long
@examples(30)
@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=25),
    st.integers(1, 40),
    st.integers(1, 60),
    st.integers(1, 17),
)
def test_batches_never_cut_a_query(sizes: list[int], rows: int, in_memory: int, piece: int) -> None:
    ids = np.repeat(np.arange(len(sizes)), sizes).astype(str)
    whole = pa.table({"q": ids, "n": np.arange(ids.size)})
    pieces = pa.concat_tables([whole.slice(at, piece) for at in range(0, ids.size, piece)])
    batches = list(open_log(pieces).batches(["q", "n"], "q", in_memory=in_memory, rows=rows))
    assert pa.concat_tables(batches).equals(whole)
    seen: set[str] = set()
    for batch in batches:
        mine = set(batch["q"].to_pylist())
        assert not mine & seen
        seen |= mine
    largest = max(sizes)
    assert all(len(batch) <= max(in_memory, 2 * rows + 2 * largest, piece + in_memory) for batch in batches)


@pytest.mark.long
def test_a_large_log_must_hold_its_queries_together(table: pa.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ltr_harness.data.logs.log.IN_MEMORY_ROWS", 200)
    monkeypatch.setattr("ltr_harness.data.logs.log.BATCH_ROWS", 200)
    random = np.random.default_rng(0)
    mixed = table.take(pa.array(random.permutation(table.num_rows)))
    with pytest.raises(DataError, match="sort the log by query id"):
        read_log(mixed, CONFIG, "production")


def test_ids_of_a_csv_file_are_text(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(
        "request_id,sku,position,ts,country,user_id,price,click,buy\n007,01,1,2026-01-01T00:00:00Z,D,1,2.5,1,0\n"
    )
    found = read_log(tmp_path / "log.csv", CONFIG, "production")[0]
    assert found["query_id"].tolist() == ["007"]


def test_the_table_survives_the_disk(table: pa.Table, tmp_path: Path) -> None:
    found = read_log(table, CONFIG, "production")[0]
    parquet.write_table(queries.to_arrow(found), tmp_path / "q.parquet")
    again = queries.from_arrow(
        parquet.read_table(tmp_path / "q.parquet"), list(queries.columns_of(found, "metric"))
    )
    pd.testing.assert_frame_equal(again, found)
    assert queries.digest(again) == queries.digest(found)


def test_a_missing_column_names_the_closest(table: pa.Table) -> None:
    config: dict[str, Any] = {
        "columns": {"query_id": "request_idd", "rank": "position"},
        "metrics": ["ndcg@10"],
    }
    with pytest.raises(DataError, match="did you mean 'request_id'"):
        read_log(table, load_monitor_config(config), "production")
