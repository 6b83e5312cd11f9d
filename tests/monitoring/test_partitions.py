"""Logs beyond one machine and event logs beyond the memory: the result does not know how it was read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet as parquet
import pytest
import yaml

from ltr_harness import load_run
from ltr_harness.errors import DataError, UsageError
from ltr_harness.experiments.training.dask import local_cluster
from ltr_harness.monitoring import MonitorResult, monitor
from ltr_harness.monitoring.synthetic import SyntheticLog
from tests.monitoring import test_not_shown

pytestmark = pytest.mark.long

Cli = Callable[..., tuple[int, str, str]]

CONFIG: dict[str, Any] = {
    "columns": {
        "query_id": "request_id", "item_id": "sku", "rank": "position", "score": "score", "timestamp": "ts",
        "cluster_id": "user_id", "segments": ["country", "device"], "features": ["f3", "price"],
    },
    "relevance": {"events": {"click": 1, "buy": 4}},
    "metrics": ["ndcg@10", "mrr@10"],
    "windows": {"min_queries": 20},
}  # fmt: skip


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return SyntheticLog(days=3, queries_per_day=30, users=40, drop=0.8).table()


@pytest.fixture(scope="module")
def baseline() -> pa.Table:
    return SyntheticLog(days=3, queries_per_day=30, users=40, seed=3).table()


@pytest.fixture(scope="module")
def of_columns(table: pa.Table) -> MonitorResult:
    """The result of the log whose events are columns."""
    return monitor(CONFIG, log=table)


def small_batches(patch: pytest.MonkeyPatch, rows: int = 250) -> None:
    # monitoring first: importing it copies log's value, which must be the true one
    for name in (
        "monitoring.reading.BATCH_ROWS",
        "data.logs.log.BATCH_ROWS",
        "data.logs.log.IN_MEMORY_ROWS",
    ):
        patch.setattr(f"ltr_harness.{name}", rows)


# ---- a cluster of two processes ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    pytest.importorskip("distributed", reason="needs ltr-harness[dask]")
    with local_cluster(2) as started:
        yield started.client


# What the cluster's own threads and sockets warn of is not ours.
on_cluster = pytest.mark.filterwarnings("default::ResourceWarning", "default::DeprecationWarning")


@on_cluster
def test_workers_score_with_the_stored_model(cluster: Any) -> None:
    run = next((Path(__file__).parents[1] / "experiments" / "runs" / "frozen" / "v1").glob("xgb--*"))
    random = np.random.default_rng(2)
    model = load_run(run)
    log = pd.DataFrame(random.normal(size=(800, 12)), columns=model.record.features)
    log["score"] = model.score(log)
    log.iloc[::7, 0] = np.nan
    log = log.assign(query_id=np.repeat(np.arange(100).astype(str), 8), relevance=random.integers(0, 3, 800))
    config = {"columns": {"score": "score"}, "metrics": ["ndcg@5"], "parity": {"model": str(run)}}
    found = monitor(config, log=log, dask=cluster)
    assert found.to_json() == monitor(config, log=log).to_json()
    assert found.parity is not None
    assert 0 < found.parity.whole.share.value < 0.2


@on_cluster
@pytest.mark.parametrize("form", ["parquet", "partitioned", "csv", "memory"])
def test_partitions_give_the_same_result_to_the_bit(
    form: str,
    table: pa.Table,
    baseline: pa.Table,
    cluster: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source: Any = tmp_path / f"log.{form}"
    if form == "parquet":  # groups of 97 rows cut nearly every query of 12
        parquet.write_table(table, source, row_group_size=97)
    elif form == "partitioned":
        source = tmp_path / "by_day"
        day = pa.array(np.repeat(["1", "2", "3"], 30 * 12))
        pa.dataset.write_dataset(
            table.append_column("day", day), source, format="parquet",
            partitioning=pa.dataset.partitioning(pa.schema([("day", pa.string())]), flavor="hive"),
        )  # fmt: skip
    elif form == "csv":
        at = table.column_names.index("ts")
        text = table.set_column(
            at, "ts", table["ts"].cast(pa.timestamp("s", "UTC"), safe=False).cast("string")
        )
        source = tmp_path / "parts"
        source.mkdir()
        for number in range(4):  # 264 rows end in the middle of no query; 265 do
            pa.csv.write_csv(text.slice(number * 265, 265), source / f"{number}.csv")
        pa.csv.write_csv(text.slice(4 * 265), source / "4.csv")
    else:
        source = table
    before = baseline if form == "memory" else None
    alone = monitor(CONFIG, log=source, baseline=before)
    small_batches(monkeypatch)
    together = monitor(CONFIG, log=source, baseline=before, dask=cluster)
    assert together.to_json() == alone.to_json()
    assert alone.n_rows == 3 * 30 * 12


@on_cluster
def test_a_worker_finds_what_one_process_finds(cluster: Any, table: pa.Table, tmp_path: Path) -> None:
    frame = table.to_pandas()
    frame.loc[[5, 1000], "score"] = np.nan
    frame.loc[700, "position"] = 0
    told = []
    for dask in (None, cluster):
        with pytest.raises(DataError) as caught:
            monitor(CONFIG, log=frame, dask=dask)
        told.append(str(caught.value))
    assert told[0] == told[1]
    assert "2 of 1,080 scores are missing" in told[0]
    nameless = table.to_pandas()
    nameless.loc[[30, 900], "request_id"] = None
    for dask in (None, cluster):
        with pytest.raises(DataError, match=r"2 of 1,080 rows without a query id, such as row 31, row 901"):
            monitor(CONFIG, log=nameless, dask=dask)
    mixed = table.to_pandas().sample(frac=1, random_state=0)
    with pytest.raises(DataError, match="sort the log by query id"):
        monitor(CONFIG, log=mixed, dask=cluster)


@on_cluster
def test_workers_see_items_that_were_not_shown(cluster: Any) -> None:
    week = test_not_shown.log(n=60).sort_values("query", kind="stable")
    across = monitor(test_not_shown.SETTINGS, log=week, dask=cluster)
    assert across.to_json() == monitor(test_not_shown.SETTINGS, log=week).to_json()


@on_cluster
def test_from_the_command_line(ltr: Cli, cluster: Any, table: pa.Table, tmp_path: Path) -> None:
    parquet.write_table(table, tmp_path / "log.parquet", row_group_size=500)
    (tmp_path / "m.yaml").write_text(yaml.safe_dump(CONFIG))
    usual = ["monitor", tmp_path / "m.yaml", "--log", tmp_path / "log.parquet", "--json"]
    alone = ltr(*usual)[:2]
    assert ltr(*usual, "--dask", cluster.scheduler.address)[:2] == alone
    assert alone[0] == 0
    code, _, err = ltr(*usual, "--dask", "nowhere")
    assert code == 2
    assert "no scheduler answers" in err


@pytest.mark.slow
@on_cluster
def test_a_cluster_of_ones_own(ltr: Cli, table: pa.Table, tmp_path: Path) -> None:
    parquet.write_table(table, tmp_path / "log.parquet")
    (tmp_path / "m.yaml").write_text(yaml.safe_dump(CONFIG))
    usual = ["monitor", tmp_path / "m.yaml", "--log", tmp_path / "log.parquet", "--json"]
    found = ltr(*usual, "--dask")
    assert found[:2] == ltr(*usual)[:2], found[2]


def test_a_missing_package_is_named(table: pa.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with pytest.raises(UsageError, match=r"pip install .*'distributed>="):
        monitor(CONFIG, log=table, dask="local")


# ---- event logs -------------------------------------------------------------------------------------------


def long_events(table: pa.Table, key: str) -> pd.DataFrame:
    """The clicks and purchases of a log as a table of their own, in another order, with strangers among them."""
    frame = table.to_pandas()
    parts = [frame.loc[frame[name] > 0].assign(event=name) for name in ("click", "buy")]
    strangers = frame.iloc[:7].assign(event="click", **{key: "nobody", "sku": "nothing"})
    found = pd.concat([*parts, strangers])[[key, "sku", "ts", "event"]]
    return found.sample(frac=1, random_state=1)


def join_in_partitions(table: pa.Table, folder: Path, **join: Any) -> dict[str, Any]:
    key = "request_id" if "user" not in join else "user_id"
    path = folder / f"{key}.parquet"
    events = long_events(table, key)
    events["ts"] += pd.Timedelta("1s")
    events.to_parquet(path, row_group_size=100)
    rule = {"path": str(path), "item_id": "sku", **(join or {"query_id": key})}
    return {**CONFIG, "relevance": {"events": {"click": 1, "buy": 4}, "event_log": rule}}


@pytest.mark.parametrize("rows", [120, 333, 1_000_000])
def test_an_event_log_is_joined_in_batches(
    rows: int, table: pa.Table, of_columns: MonitorResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_batches(monkeypatch, rows)
    found = monitor(join_in_partitions(table, tmp_path), log=table)
    assert [w.means for w in found.windows] == [w.means for w in of_columns.windows]
    assert [w.event_rates for w in found.windows] == [w.event_rates for w in of_columns.windows]
    orphan = next(f for f in found.log_checks if f.check == "orphan-event")
    events = int(table["click"].to_numpy().sum() + table["buy"].to_numpy().sum())
    assert (orphan.count, orphan.total) == (7, events + 7)


def test_the_last_look_may_lie_in_another_batch(
    table: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Users see the same few items again and again; each event goes to the latest look, wherever it is stored."""
    frame = table.to_pandas()
    frame["user_id"] = "u" + (np.arange(len(frame)) // 12 % 3).astype(str)
    frame["sku"] = "s" + frame["position"].astype(str)
    few = pa.Table.from_pandas(frame, preserve_index=False)
    config = join_in_partitions(few, tmp_path, query_id=None, user="user_id", timestamp="ts", window="2d")
    whole = monitor(config, log=few)
    small_batches(monkeypatch, 360)
    assert monitor(config, log=few).to_json() == whole.to_json()
    assert sum(sum(w.event_rates.values()) for w in whole.windows) > 1
    by_query = monitor(join_in_partitions(few, tmp_path), log=few)
    assert [w.event_rates for w in whole.windows] == [w.event_rates for w in by_query.windows]


@on_cluster
def test_an_event_log_on_a_cluster(
    table: pa.Table, cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = join_in_partitions(table, tmp_path)
    alone = monitor(config, log=table)
    small_batches(monkeypatch)
    assert monitor(config, log=table, dask=cluster).to_json() == alone.to_json()


def test_the_baseline_may_have_events_of_its_own(table: pa.Table, baseline: pa.Table, tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    config = join_in_partitions(table, tmp_path)
    theirs = join_in_partitions(baseline, tmp_path / "b")["relevance"]["event_log"]["path"]
    config["relevance"]["event_log"]["baseline_path"] = theirs
    found = monitor(config, log=table, baseline=baseline)
    assert {f.log: f.count for f in found.log_checks if f.check == "orphan-event"} == {
        "production": 7,
        "baseline": 7,
    }
    assert [c.baseline.value for c in found.changes] == [
        c.baseline.value for c in monitor(CONFIG, log=table, baseline=baseline).changes
    ]


@on_cluster
def test_a_cluster_places_orphans_as_one_process_does(
    table: pa.Table, cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = join_in_partitions(table, tmp_path, query_id="request_id", timestamp="ts")
    alone = monitor(config, log=table)
    assert sum(w.orphan_events or 0 for w in alone.windows) == 7
    small_batches(monkeypatch)
    assert monitor(config, log=table, dask=cluster).to_json() == alone.to_json()
