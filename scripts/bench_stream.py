"""Evaluation of a Parquet file that is larger than the memory allowed: time beside reading alone, and peak memory.

Writes a file of so many rows: a query id, a label 0 to 4, two columns of scores. Then processes of their own, in turns,
read the columns with pyarrow alone, by its defaults and as the harness reads, and evaluate them.

    scripts/bench stream [--rows 200000000] [--ids text|int] [--rows-per-query 100] [--turns 3] [--metric ndcg@10]
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

AT_ONCE = 1_000_000


def write(path: Path, rows: int, per_query: int, ids: str) -> int:
    """Queries of half to one and a half times as many rows, a tenth of them relevant; the number of queries."""
    rng, done, queries, writer = np.random.default_rng(1), 0, 0, None
    while done < rows:
        sizes = rng.integers(max(1, per_query // 2), per_query * 3 // 2 + 1, max(1, AT_ONCE // per_query))
        numbers = queries + np.arange(sizes.size)
        queries += sizes.size
        n = int(sizes.sum())
        texts = [f"{number * 0x9E3779B97F4A7C15 % 2**64:016x}" for number in numbers.tolist()]
        query_ids = pa.array(texts) if ids == "text" else pa.array(numbers)
        label = rng.integers(1, 5, n) * (rng.random(n) < 0.1)
        live = 0.4 * label + rng.standard_normal(n)
        table = pa.table(
            {
                "query_id": query_ids.take(pa.array(np.repeat(np.arange(sizes.size), sizes))),
                "label": label.astype(np.int8),
                "live": live,
                "new": live + 0.3 * rng.standard_normal(n),
            }
        )
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
        done += n
    if writer is not None:
        writer.close()
    return queries


def read(path: str, metric: str, scores: list[str]) -> None:
    """The same columns, and nothing done with them."""
    for _ in ds.dataset(path).scanner(columns=["query_id", "label", *scores]).to_batches():
        pass


def lean(path: str, metric: str, scores: list[str]) -> None:
    """Reading as `evaluate_stream` does it: row groups are not fetched ahead, ids stay codes."""
    options = ds.ParquetFragmentScanOptions(pre_buffer=False)
    form = ds.ParquetFileFormat(dictionary_columns=["query_id"], default_fragment_scan_options=options)
    for _ in ds.dataset(path, format=form).scanner(columns=["query_id", "label", *scores]).to_batches():
        pass


def leanest(path: str, metric: str, scores: list[str]) -> None:
    """The leanest reading that pyarrow has: row group by row group, on one thread."""
    file = pq.ParquetFile(path, read_dictionary=["query_id"])
    for number in range(file.num_row_groups):
        file.read_row_group(number, columns=["query_id", "label", *scores], use_threads=False)


def evaluate(path: str, metric: str, scores: list[str]) -> None:
    """The metric of each column of scores."""
    from ltr_harness.comparison.stream import evaluate_stream

    evaluate_stream(path, metric, scores, max_grade=4)


def sample(path: str, metric: str, scores: list[str]) -> None:
    """The metric of 100,000 queries."""
    from ltr_harness.comparison.stream import evaluate_stream

    evaluate_stream(path, metric, scores, max_grade=4, sample=100_000)


TASKS: dict[str, Callable[[str, str, list[str]], None]] = {
    "read": read,
    "lean": lean,
    "leanest": leanest,
    "evaluate": evaluate,
    "sample": sample,
}


def measure_task(task: str, *arguments: str) -> dict[str, float]:
    """Seconds by the clock, of CPU, and peak MiB of a process of its own."""
    command = [sys.executable, __file__, "--task", task, *arguments]
    return dict(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=200_000_000)
    parser.add_argument("--ids", choices=["text", "int"], default="text")
    parser.add_argument("--rows-per-query", type=int, default=100)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--metric", default="ndcg@10")
    parser.add_argument("--task", choices=list(TASKS), help=argparse.SUPPRESS)
    parser.add_argument("--path", help=argparse.SUPPRESS)
    parser.add_argument("--scores", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.task:
        wall, cpu = time.perf_counter(), time.process_time()
        TASKS[given.task](given.path, given.metric, given.scores.split(","))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        seconds = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
        print(json.dumps({**seconds, "peak": peak}))
        return
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "rows.parquet"
        queries = write(path, given.rows, given.rows_per_query, given.ids)
        print(f"{given.rows:,} rows, {queries:,} queries, {path.stat().st_size / 1e9:.1f} GB", flush=True)
        print(f"{'':24}{'wall s':>8}{'CPU s':>8}{'peak MiB':>10}{'/ read':>8}{'CPU / read':>12}", flush=True)
        for scores in ("live", "live,new"):
            found: dict[str, list[dict[str, float]]] = {task: [] for task in TASKS}
            for _ in range(given.turns):
                for task, turns in found.items():
                    arguments = ["--path", str(path), "--scores", scores, "--metric", given.metric]
                    turns.append(measure_task(task, *arguments))
            best = {
                task: {key: min(turn[key] for turn in turns) for key in ("wall", "cpu")}
                for task, turns in found.items()
            }
            for task, fastest in best.items():
                peak = max(turn["peak"] for turn in found[task])
                ratios = [fastest[key] / best["read"][key] for key in ("wall", "cpu")]
                cells = f"{fastest['wall']:8.1f}{fastest['cpu']:8.1f}{peak:10.0f}{ratios[0]:8.2f}{ratios[1]:12.2f}"
                print(f"{task + ' ' + scores:<24}{cells}", flush=True)


if __name__ == "__main__":
    main()
