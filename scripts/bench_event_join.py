"""The cost of finding each event's impression: rows a second and peak memory, beside pandas, Polars and DuckDB.

Usage: python scripts/bench_event_join.py [--rows 20000000] [--events 20000000] [--by query|user] [--folder DIR]
           [--only ours,polars]

Joins an event log to a log of lists of ten, from Parquet to the row of every event: by query and item, or to the
user's last look at the item within a week. Each contender has a process of its own; all must match equally many
events. `labels` makes of them what a reader with `relevance:` makes, a grade for each row. `decode` reads the same
columns and does nothing: no join can be faster. Polars and DuckDB are left out where they are not installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ITEMS, CATALOGUE, WEEK = 10, 200_000, 7 * 86_400
LOG = {"query": ["query_id", "item_id"], "user": ["user", "item_id", "ts"]}
EVENTS = {
    "query": ["event", "query_id", "item_id"],
    "user": ["event", "user", "item_id", "ts"],
}


def write(folder: Path, rows: int, events: int) -> None:
    """Four weeks of lists in order of time, and events up to two days after a random row; a hundredth are orphans."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as parquet

    random = np.random.default_rng(1)
    queries, start = rows // ITEMS, 1_767_000_000
    query_seconds = np.sort(random.integers(0, 28 * 86_400, queries))
    query_hashes = (np.arange(queries, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(8)
    user = random.integers(0, max(queries // 20, 1), queries)

    def item(row: Any) -> Any:  # distinct in a list; a user sees some again
        return (row // ITEMS * 7919 % 997 * 200 + row % ITEMS * 20 + user[row // ITEMS] % 20) % CATALOGUE

    def text(prefix: str, numbers: Any) -> Any:
        return pc.binary_join_element_wise(prefix, pa.array(numbers).cast(pa.string()), "-")

    def seconds(values: Any) -> Any:
        return pa.array(start + values).cast(pa.timestamp("s", "UTC"))

    def columns(row: Any, when: Any) -> dict[str, Any]:
        query = row // ITEMS
        return {
            "query_id": text("request", query_hashes[query]),
            "user": text("u", user[query]),
            "item_id": text("sku", item(row)),
            "ts": seconds(when),
        }

    def blocks(n: int) -> Any:
        return ((start_row, min(start_row + (1 << 21), n)) for start_row in range(0, n, 1 << 21))

    writer = None
    for low, high in blocks(queries * ITEMS):
        row = np.arange(low, high)
        table = pa.table(columns(row, query_seconds[row // ITEMS]))
        writer = writer or parquet.ParquetWriter(folder / "log.parquet", table.schema)
        writer.write_table(table)
    if writer:
        writer.close()
    writer = None
    chosen = np.sort(random.integers(0, queries * ITEMS, events))
    for low, high in blocks(events):
        row = chosen[low:high]
        when = query_seconds[row // ITEMS] + random.integers(1, 2 * 86_400, row.size)
        event_columns = columns(row, when)
        orphan = pa.array(random.random(row.size) < 0.01)
        for name in ("query_id", "user"):
            event_columns[name] = pc.if_else(orphan, "nobody", event_columns[name])
        event_columns["event"] = pa.array(
            np.array(["click", "buy"])[(random.random(row.size) < 0.1).astype(int)]
        )
        table = pa.table(event_columns)
        writer = writer or parquet.ParquetWriter(folder / "events.parquet", table.schema)
        writer.write_table(table)
    if writer:
        writer.close()


def ours(log: Path, events: Path, by: str) -> int:
    from ltr_harness.data.logs.log import open_log
    from ltr_harness.data.relevance.events import match_events
    from ltr_harness.monitoring.load import load_monitor_config
    from ltr_harness.monitoring.reading import text_columns

    join: dict[str, Any] = {"path": str(events)}
    if by == "user":
        join |= {"query_id": None, "user": "user", "timestamp": "ts"}
    config = load_monitor_config(
        {
            "columns": {"rank": "rank", "item_id": "item_id", "timestamp": "ts", "cluster_id": "user"},
            "relevance": {"events": {"click": 1, "buy": 4}, "event_log": join},
        }
    )
    _, _, row, _ = match_events(
        config.relevance.event_log,
        config.columns,
        "UTC",
        open_log(log, text_columns=text_columns(config)),
        str(events),
    )
    return int((row >= 0).sum())


def labels(log: Path, events: Path, by: str) -> int:
    """Do the work that `relevance:` adds to a reader: the columns of the rule, the join, a grade for every row."""
    import numpy as np

    from ltr_harness.data.logs.log import open_log
    from ltr_harness.data.logs.settings import ListColumns
    from ltr_harness.data.relevance.labels import labels_of
    from ltr_harness.data.relevance.rule import Relevance

    join: dict[str, Any] = {"path": str(events)}
    if by == "user":
        join |= {"query_id": None, "user": "user", "timestamp": "ts"}
    rule = Relevance.model_validate({"events": {"click": 1, "buy": 4}, "event_log": join})
    columns = ListColumns.model_construct(
        query_id="query_id", item_id="item_id", rank=None, score=None, timestamp="ts", cluster_id="user"
    )
    impressions = open_log(log, text_columns=["query_id", "item_id", "user"])
    return int(np.count_nonzero(labels_of(impressions, rule, columns, "row {}".format).grades))


def with_pandas(log: Path, events: Path, by: str) -> int:
    import pandas as pd

    impressions, happened = pd.read_parquet(log, columns=LOG[by]), pd.read_parquet(events, columns=EVENTS[by])
    impressions["row"] = range(len(impressions))
    if by == "query":
        found = happened.merge(impressions, on=["query_id", "item_id"], how="left")
    else:
        found = pd.merge_asof(
            happened.sort_values("ts"),
            impressions,
            on="ts",
            by=["user", "item_id"],
            tolerance=pd.Timedelta("7D"),
        )
    return int(found["row"].notna().sum())


def with_polars(log: Path, events: Path, by: str) -> int:
    import polars as pl

    impressions = pl.read_parquet(log, columns=LOG[by]).with_row_index("row")
    happened = pl.read_parquet(events, columns=EVENTS[by])
    if by == "query":
        found = happened.join(impressions, on=["query_id", "item_id"], how="left")
    else:
        found = happened.sort("ts").join_asof(
            impressions, on="ts", by=["user", "item_id"], tolerance="7d", check_sortedness=False
        )
    return int(found["row"].count())


def with_duckdb(log: Path, events: Path, by: str) -> int:
    duckdb: Any = importlib.import_module("duckdb")  # a tool of this benchmark, no dependency
    duckdb.sql(f"CREATE TABLE shown AS SELECT {', '.join(LOG[by])}, file_row_number AS n FROM "
               f"read_parquet('{log}', file_row_number = true)")  # fmt: skip
    if by == "query":
        found = f"SELECT e.event, s.n FROM '{events}' e JOIN shown s USING (query_id, item_id)"
    else:
        found = (
            f"SELECT e.event, s.n FROM '{events}' e ASOF JOIN shown s ON e.user = s.user AND "
            f"e.item_id = s.item_id AND e.ts >= s.ts WHERE e.ts - s.ts <= INTERVAL 7 DAY"
        )
    duckdb.sql(f"CREATE TABLE found AS {found}")
    answer = duckdb.sql("SELECT count(*) FROM found").fetchall()
    return int(answer[0][0])


def decode(log: Path, events: Path, by: str) -> int:
    """Reads, and joins nothing."""
    import pyarrow.dataset as ds

    for path, names in ((log, LOG[by]), (events, EVENTS[by])):
        for _ in ds.dataset(path).scanner(columns=names).to_batches():
            pass
    return 0


CONTENDERS: dict[str, Callable[[Path, Path, str], int]] = {
    "decode": decode,
    "ours": ours,
    "labels": labels,
    "pandas": with_pandas,
    "polars": with_polars,
    "duckdb": with_duckdb,
}


def measure_process(name: str, folder: Path, by: str) -> tuple[float, float, float, str]:
    """Return wall and processor seconds, GiB at the peak, and the output of a process of its own."""
    command = [sys.executable, __file__, "--folder", str(folder), "--by", by, "--worker", name]
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    output = process.stdout.read().strip()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - started
    if process.returncode:
        output = f"ended with {process.returncode}"
    return wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / (1 << 20), output


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--events", type=int, default=20_000_000)
    parser.add_argument("--by", choices=["query", "user"], default="query")
    parser.add_argument("--only", default=",".join(CONTENDERS))
    parser.add_argument("--folder", type=Path, help="keep the logs here")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        folder = options.folder
        print(CONTENDERS[options.worker](folder / "log.parquet", folder / "events.parquet", options.by))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "events.parquet").exists():
            write(folder, options.rows, options.events)
        for name in options.only.split(","):
            if name in ("duckdb", "polars") and importlib.util.find_spec(name) is None:
                print(f"{name:<8} not installed: left out")
                continue
            wall, processor, memory, output = measure_process(name, folder, options.by)
            rate = (options.rows + options.events) / wall / 1e6
            print(
                f"{name:<8} {wall:6.1f} s ({processor:5.1f} s of CPU time)  {rate:5.1f} M rows/s  {memory:5.2f} GiB"
                f"  matched {output}",
                flush=True,
            )


if __name__ == "__main__":
    main()
