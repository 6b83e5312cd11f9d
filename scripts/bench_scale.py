"""Growth of wall time and peak memory of `ltr-harness run` with the queries, the models, the seeds and the cutoffs.

One of the four is 1, 2, 4 and 8 times what it is in the smallest experiment, the others stay. Each is a whole process
with one worker, from the configuration to the report, and starts without runs; data is made anew.
What does not grow (starting, drawing the charts) is part of every number; what counts is what a unit more adds, from
step to step. It stays the same where growth is linear, and is called superlinear where the units of the last step add
a quarter more than those before, beyond the tenth that measurements vary by.

    scripts/bench scale [queries|models|seeds|cutoffs ...] [--runs 2]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from bench_full_size import memory

FACTORS = (1, 2, 4, 8)


def experiment(**times: int) -> dict[str, Any]:
    """The smallest experiment with some of its sizes multiplied."""
    queries, models, seeds, cutoffs = (
        times.get(name, 1) for name in ("queries", "models", "seeds", "cutoffs")
    )
    counts = {"train": 1000, "valid": 300, "test": 750}
    bagged = {"bagging_fraction": 0.8, "bagging_freq": 1, "num_leaves": 31}
    kinds = [
        {"ranker": "lightgbm", "objective": "lambdarank", "rounds": 30, "params": bagged},
        {"ranker": "xgboost", "objective": "rank:ndcg", "rounds": 30, "params": {"subsample": 0.8}},
    ]
    return {
        "name": "scale",
        "seeds": list(range(1, seeds + 1)),
        "data": {
            "reader": "synthetic",
            "n_queries": {split: count * queries for split, count in counts.items()},
            "max_rows": 60,
        },
        "metrics": {
            "cutoffs": list(range(1, 2 * cutoffs + 1)),
            "report": ["ndcg", "mrr", "err"],
            "primary": "ndcg@2",
        },
        "models": {f"m{number}": kinds[number % 2] for number in range(2 * models)},
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = ("queries", "models", "seeds", "cutoffs")
    parser.add_argument("what", nargs="*", metavar="|".join(names), help="what grows (default: each in turn)")
    parser.add_argument("--runs", type=int, default=2, help="the fastest of so many (default 2)")
    arguments = parser.parse_args()
    if not set(arguments.what) <= set(names):
        sys.exit(f"{' '.join(arguments.what)}: expected any of {', '.join(names)}")
    measure_run(experiment())  # whatever is compiled once per machine
    for size in arguments.what or names:
        print(
            f"{size:<9}{'wall s':>8}{'+/unit':>8}{'training':>10}{'the rest':>10}{'peak MiB':>10}{'+/unit':>8}"
        )
        walls, peaks = [], []
        for factor in FACTORS:
            measurements = [measure_run(experiment(**{size: factor})) for _ in range(arguments.runs)]
            wall, train, rest, peak = (min(column) for column in zip(*measurements, strict=True))
            walls.append(wall)
            peaks.append(peak)
            more = f"{costs_per_unit(walls)[-1]:8.2f}" if factor > 1 else " " * 8
            room = f"{costs_per_unit(peaks)[-1]:8.1f}" if factor > 1 else ""
            print(f"x{factor:<8}{wall:8.2f}{more}{train:10.2f}{rest:10.2f}{peak:10.0f}{room}", flush=True)
        for name, values in (("time", walls), ("memory", peaks)):
            print(f"{name}: {'SUPERLINEAR' if is_superlinear(values) else 'linear or better'}", flush=True)


def is_superlinear(values: list[float]) -> bool:
    """Return whether the last value exceeds a line through the others by more than measurements vary by."""
    first, *_, before, last = values
    unit = max(0.0, (before - first) / (FACTORS[-2] - FACTORS[0]))
    return last > 1.1 * (before + 1.25 * unit * (FACTORS[-1] - FACTORS[-2]))


def costs_per_unit(values: list[float]) -> list[float]:
    """Return the cost of one more unit at each step."""
    pairs = zip(FACTORS, values, FACTORS[1:], values[1:], strict=False)
    return [(after - before) / (many - few) for few, before, many, after in pairs]


def measure_run(config: dict[str, Any]) -> tuple[float, float, float, float]:
    """Seconds in all, of them in training, of them elsewhere, and peak memory in MiB."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "scale.yaml"
        path.write_text(json.dumps(config))  # JSON is YAML
        command = [sys.executable, "-m", "ltr_harness", "run", str(path), "--quiet", "--workers", "1"]
        environment = {
            **os.environ,
            "LTR_HARNESS_CACHE": str(Path(scratch) / "cache"),
            "OMP_WAIT_POLICY": "PASSIVE",
        }
        started = time.perf_counter()
        process = subprocess.Popen(command, cwd=scratch, env=environment, stdout=subprocess.DEVNULL)
        peak, stop = [0], threading.Event()
        watcher = threading.Thread(target=_watch, args=(process.pid, peak, stop))
        watcher.start()
        code = process.wait()
        wall = time.perf_counter() - started
        stop.set()
        watcher.join()
        if code:
            sys.exit(f"the run ended with exit code {code}")
        records = [json.loads(file.read_text()) for file in Path(scratch).glob("runs/scale/*/record.json")]
    train = sum(record["seconds"]["fit"] for record in records)
    return wall, train, wall - train, peak[0] / 2**20


def _watch(pid: int, peak: list[int], stop: threading.Event) -> None:
    while not stop.wait(0.02):
        private, _ = memory(pid)
        peak[0] = max(peak[0], private)


if __name__ == "__main__":
    main()
