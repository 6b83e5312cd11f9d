"""Growth of wall time and peak memory of `ltr-harness run` with the queries, the models, the seeds and the cutoffs.

One of the four is 1, 2, 4 and 8 times what it is in the smallest experiment, the others stay. Each is a whole process
with one worker, from the configuration to the report, and starts without runs; data is made anew.
What does not grow (starting, drawing the charts) is part of every number; what counts is what a unit more adds, from
step to step. It stays the same where growth is linear, and is called superlinear where the units of the last step add
a quarter more than those before, beyond the tenth that measurements vary by.

`--decades` measures in one process instead: CPU seconds of `evaluate` by rows, and of a comparison with its letters and
slices, each of which grows by tens from 1,000 queries, 3 models, 1 metric, 2 seeds and 1 attribute of four slices.

    scripts/bench scale [queries|models|seeds|cutoffs ...] [--runs 2] [--decades]
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
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from bench_full_size import memory

FACTORS = (1, 2, 4, 8)
SIZES = {
    "agreement, experiments": (150, 1500),
    "agreement, metrics": (2, 20),
    "folds in time by the day, days": (90, 900),
}
"""What else grows, in one process: a size of it and ten times as much, for `seconds_of`."""


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
    parser.add_argument("--decades", action="store_true", help="CPU seconds by decades, in one process")
    arguments = parser.parse_args()
    if arguments.decades:
        print_decades()
        return
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


def seconds_of(name: str, size: int) -> float:
    """Return the CPU seconds of one of `SIZES` at a size, the less of two."""
    calls: list[Callable[[], object]] = {
        "agreement, experiments": [partial(agree, size, 1)] * 2,
        "agreement, metrics": [partial(agree, 50, size)] * 2,
        "folds in time by the day, days": [partial(divide_by_day, size)] * 2,
    }[name]
    seconds = []
    for call in calls:
        started = time.process_time()
        call()
        seconds.append(time.process_time() - started)
    return min(seconds)


def agree(experiments: int, metrics: int) -> None:
    """Find whether metrics agree with what past experiments measured online."""
    import pandas as pd

    from ltr_harness.experiments.compare.online_agreement import agreement

    generator = np.random.default_rng(0)
    effects = generator.normal(size=experiments)
    table = pd.DataFrame({"experiment": [f"e{number}" for number in range(experiments)]})
    table["online"], table["online_se"] = effects + 0.3 * generator.normal(size=experiments), 0.3
    for number in range(metrics):
        table[f"m{number}"] = 0.01 * (effects + 0.5 * generator.normal(size=experiments))
        table[f"m{number}_se"] = 0.004
    agreement(table)


def divide_by_day(days: int) -> None:
    """Divide days of 1,000 queries into folds, each tested on one day and trained on all before."""
    from ltr_harness.data.queries import QueryGroups
    from ltr_harness.data.time_folds import CalendarSpan, TimeFolds

    day_of_query = np.repeat(19_000 + np.arange(days), 1000)
    groups = QueryGroups.from_sizes(np.ones(day_of_query.size, dtype=np.int64))
    day = CalendarSpan.of("1 day")
    TimeFolds(test=day, valid=day).divide(groups, day_of_query)


DECADES = {
    "rows": (10_000, 100_000, 1_000_000, 10_000_000),
    "queries": (1000, 10_000, 100_000),
    "models": (3, 30),
    "metrics": (1, 10, 100),
    "seeds": (2, 20, 200),
    "attributes": (1, 10, 100),
}


def print_decades() -> None:
    """Print the CPU seconds of each size of `DECADES`."""
    compare_random()  # loads the loops
    evaluate_random(1000)
    for name, sizes in DECADES.items():
        for size in sizes:
            started = time.process_time()
            if name == "rows":
                evaluate_random(size)
            else:
                compare_random(**{name: size})
            print(f"{name:<12}{size:>12,}{time.process_time() - started:10.3f} s", flush=True)


def evaluate_random(rows: int) -> None:
    """Evaluate queries of 100 rows."""
    from ltr_harness import evaluate

    generator = np.random.default_rng(0)
    labels, scores = generator.integers(0, 5, rows), generator.normal(size=rows)
    evaluate(labels, scores, ["ndcg@10"], group_sizes=np.full(rows // 100, 100))


def compare_random(
    *, queries: int = 1000, models: int = 3, metrics: int = 1, seeds: int = 2, attributes: int = 1
) -> None:
    """Compare models of random values, with the letters and the slices of the primary metric."""
    from ltr_harness.comparison.comparing import compare_systems
    from ltr_harness.comparison.contrasts import SystemResult
    from ltr_harness.comparison.slices import slice_results

    generator = np.random.default_rng(0)
    names = [f"ndcg@{k}" for k in range(1, metrics + 1)]
    facts = {f"fact{number}": generator.integers(0, 4, queries) for number in range(attributes)}
    systems = [
        SystemResult(
            name=f"model{number}",
            query_ids=np.arange(queries).astype(str),
            values={name: generator.random((seeds, queries)) for name in names},
            replicates=tuple(map(str, range(seeds))),
            higher_is_better=dict.fromkeys(names, True),
            query_attributes=facts,
        )
        for number in range(models)
    ]
    comparison = compare_systems(systems)
    comparison.letters()
    slice_results(comparison)


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
