"""Time and memory of a monitoring run: 4 million rows within 20 s and 4 GiB on two cores.

Usage: python scripts/bench_monitor.py [--rows 4000000] [--big] [--limits] [--folder DIR]

Writes made-up logs as Parquet (partly sorted by query, as logs are), then runs `ltr-harness monitor` on them in
a process of its own: contract, metrics, 30 windows, slices, drift, files and report included. ``--big`` adds a
log of ten times as many rows, which is read in batches. ``--limits`` runs it a second time with `alerts.below`, for
every metric, and prints the ratios of CPU time and memory: at most 1.15.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CONFIG = """\
name: bench
columns:
  {query_id: request_id, item_id: sku, rank: position, score: score, timestamp: ts, cluster_id: user_id,
   segments: [country, device], features: [f1, f3, f7, price]}
relevance: {events: {click: 1, buy: 4}}
metrics: [ndcg@10, ndcg@3, mrr@10, err@10]
propensity: {column: examination}
"""
LIMITS = "alerts: {below: {ndcg@10: 0.5, ndcg@3: 0.4, mrr@10: 0.3, err@10: 0.2}}\n"
ITEMS = 10
DAYS = 30


def write_log(path: Path, rows: int, seed: int) -> None:
    """Day by day, so that making the log needs no more memory than reading it."""
    import pyarrow.parquet as parquet

    from ltr_harness.monitoring.synthetic import SyntheticLog

    per_day = rows // ITEMS // DAYS
    writer = None
    for day in range(DAYS):
        start = f"2026-01-{day + 1:02d}"
        table = SyntheticLog(
            seed=seed * 1000 + day,
            start=start,
            days=1,
            queries_per_day=per_day,
            items=ITEMS,
            users=per_day // 3,
        ).table()
        writer = writer or parquet.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer:
        writer.close()


def run(config: Path, log: Path, baseline: Path) -> tuple[float, float, float]:
    """Return seconds, seconds of CPU time (all cores; stable on a busy machine) and GiB of one run."""
    command = [
        sys.executable, "-m", "ltr_harness", "monitor", str(config), "--log", str(log),
        "--baseline", str(baseline), "-o", str(config.parent / "out"), "--exit-zero", "--quiet",
    ]  # fmt: skip
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"monitor ended with {process.returncode}")
    return time.perf_counter() - started, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / (1 << 20)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--big", action="store_true", help="also ten times as many rows")
    parser.add_argument("--limits", action="store_true", help="also with a limit for every metric")
    parser.add_argument("--folder", type=Path, help="keep the logs here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        config, with_limits = folder / "bench.yaml", folder / "limits.yaml"
        config.write_text(CONFIG)
        with_limits.write_text(CONFIG + LIMITS)
        baseline = folder / "baseline.parquet"
        if not baseline.exists():
            write_log(baseline, options.rows // 4, 1)
        sizes = [options.rows, *([10 * options.rows] if options.big else [])]
        first = None
        for rows in sizes:
            log = folder / f"log-{rows}.parquet"
            if not log.exists():
                write_log(log, rows, 2)
            seconds, processor, memory = run(config, log, baseline)
            first = first or seconds
            print(
                f"{rows:>12,} rows  {seconds:6.1f} s ({processor:.1f} s of CPU time)  {memory:5.2f} GiB  "
                f"{seconds / first:5.1f} times the first",
                flush=True,
            )
            if options.limits:
                seconds, processor_limits, memory_limits = run(with_limits, log, baseline)
                print(
                    f"{'with limits':>17}  {seconds:6.1f} s ({processor_limits:.1f} s of CPU time)  "
                    f"{memory_limits:5.2f} GiB  {processor_limits / processor:.2f} times the CPU time, "
                    f"{memory_limits / memory:.2f} times the memory",
                    flush=True,
                )


if __name__ == "__main__":
    main()
