"""Every cost that has a goal, in one table: the cost, what it is measured beside, the goal, and whether it is met.

    scripts/bench all [--only start evaluate ...] [--trec-eval FOLDER] [--mq2008 FOLDER]

What is compared takes turns, of which the cheapest counts, in CPU time unless a line says otherwise. It takes at most
ten minutes on two quiet cores, so streams have 20 million rows here; `scripts/bench stream` has 200. The parts tests,
fast and ci take as long as the scripts that they run, and are measured where --only names them. A line that cannot be
measured says why. The exit code is 1 where a goal is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import bench_lists
import bench_metrics
import bench_report
import bench_run
import bench_stream
import bench_trec
import numpy as np

REPOSITORY = Path(__file__).resolve().parent.parent
ONE_THREAD = {**os.environ, **bench_metrics.ONE_THREAD}


class Line(NamedTuple):
    """A measured cost and its goal, in one unit: "" for a ratio."""

    name: str
    value: float  # NaN where it could not be measured
    goal: float
    unit: str = ""
    beside: str = ""  # what a ratio is over, or why there is no value

    def __str__(self) -> str:
        # significant digits, as goals lie between .08 and 1,024
        digits = np.format_float_positional(self.value, precision=3, fractional=False, trim="-")
        cell = "–" if np.isnan(self.value) else f"{digits}{self.unit}"
        return f"{self.name:<56}{cell:>10}{f'{self.goal:g}{self.unit}':>10}  {self.verdict:<4} {self.beside}"

    @property
    def verdict(self) -> str:
        if np.isnan(self.value):
            return "?"
        return "yes" if self.value <= self.goal else "NO"


def cpu_of(command: list[str]) -> float:
    """CPU seconds of a process and of all below it."""
    measured = [sys.executable, str(REPOSITORY / "scripts" / "cpu_seconds.py"), *command]
    done = subprocess.run(
        measured, check=True, capture_output=True, text=True, cwd=REPOSITORY, env=ONE_THREAD
    )
    return float(done.stdout)


def in_turns(calls: dict[str, Callable[[], float]], turns: int) -> dict[str, float]:
    """Return the least of each call's own measure over some turns, after one that does not count."""
    for call in calls.values():
        call()
    measured = [{name: call() for name, call in calls.items()} for _ in range(turns)]
    return {name: min(turn[name] for turn in measured) for name in calls}


def start(_: argparse.Namespace) -> Iterator[Line]:
    numpy, ours = "import numpy, numpy.typing", "from ltr_harness.metrics import NDCG"
    commands = {code: [sys.executable, "-c", code] for code in (numpy, ours)}
    seconds = in_turns({code: partial(cpu_of, command) for code, command in commands.items()}, 9)
    yield Line(ours, seconds[ours] / seconds[numpy], 1.35, beside=f"of {numpy}")


def evaluate(_: argparse.Namespace) -> Iterator[Line]:
    from ltr_harness.data.judgments import Judgments
    from ltr_harness.data.queries import QueryGroups
    from ltr_harness.metrics import bind
    from ltr_harness.metrics.evaluation import evaluate as evaluate_arrays

    sizes, grades, scores = data = bench_metrics.web_search(6000)
    names = bench_metrics.METRICS
    bound = bind(names, Judgments.checked(grades, QueryGroups.from_sizes(sizes)))
    generator = np.random.default_rng(0)
    few = generator.integers(0, 5, 10).astype(float), generator.normal(size=10)

    def changed() -> object:
        row = generator.integers(grades.size)
        grades[row], scores[row] = (grades[row] + 1) % 5, generator.normal()
        return evaluate_arrays(grades, scores, names, group_sizes=sizes)

    def small() -> None:
        for _ in range(20):
            evaluate_arrays(*few, ["ndcg@10"], group_sizes=[10])

    lightgbm = bench_metrics.lightgbm(*data)["LightGBM built-in ndcg@10"]
    calls = {"lightgbm": lightgbm, "bare": changed, "bound": lambda: bound.means(scores), "small": small}
    seconds = bench_metrics.in_turns(calls, 31)
    beside = f"of LightGBM's ndcg@10, {seconds['lightgbm'] * 1e3:.1f} ms"
    yield Line(
        "16 metrics of 709,000 changing rows", seconds["bare"] / seconds["lightgbm"], 0.45, beside=beside
    )
    yield Line("16 metrics on bound judgments", seconds["bound"] / seconds["lightgbm"], 0.08, beside=beside)
    yield Line("ndcg@10 of one query of 10 rows", seconds["small"] / 20 * 1e6, 150, " µs")


def report(_: argparse.Namespace) -> Iterator[Line]:
    with tempfile.TemporaryDirectory() as folder:
        bench_report.train(Path(folder), models=10, queries=6000)
        page = Path(folder) / "report"
        command = [sys.executable, "-c", bench_report.MEASURE, f"{folder}/large", str(page)]
        seconds = in_turns({"report": lambda: cpu_of(command)}, 2)["report"]
        yield Line("report, 10 models x 6,000 queries x 7 metrics", seconds, 3.5, " s")
        opening = bench_report.opening_of(page / "report.html")
    ready, drawn, reason = (np.nan, np.nan, opening) if isinstance(opening, str) else (*opening, "")
    yield Line("that page, readable, by the clock", ready, 0.3, " s", reason)
    yield Line("that page, with its last chart, by the clock", drawn, 0.7, " s", reason)


def run_again(_: argparse.Namespace) -> Iterator[Line]:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "ltr_harness", "run", "configs/quickstart.yaml", "--runs", folder]
        seconds = in_turns({"again": lambda: cpu_of(command)}, 3)["again"]
    yield Line("run of quickstart with nothing to train", seconds, 1, " s")


def run(options: argparse.Namespace) -> Iterator[Line]:
    name = "run on MQ2008"
    if not options.mq2008.is_dir():
        yield Line(name, np.nan, 1, beside=f"{options.mq2008} is not there; --mq2008 names the folder")
        return
    with tempfile.TemporaryDirectory() as scratch:
        overrides, job = [f"data.root={options.mq2008.resolve()}"], Path(scratch) / "job.json"
        bench_run.harness(overrides, Path(scratch) / "first")
        job.write_text(json.dumps(bench_run.straight_job(overrides, Path(scratch) / "first", None)))
        command = bench_run.harness_command(overrides, Path(scratch) / "second")
        straight = cpu_of([sys.executable, bench_run.__file__, "--straight", str(job)])
        yield Line(name, cpu_of(command) / straight, 1, beside=f"of a straight script, {straight:.1f} s")


def stream(_: argparse.Namespace) -> Iterator[Line]:
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "rows.parquet"
        bench_stream.write(path, 20_000_000, 100, "text")
        arguments = ["--path", str(path), "--scores", "live", "--metric", "ndcg@10"]
        turns = [
            {task: bench_stream.measure_task(task, *arguments) for task in ("leanest", "evaluate")}
            for _ in range(2)
        ]
    for key, words, goal in (("wall", "by the clock", 1.3), ("cpu", "CPU", 2.0)):
        least = {task: min(turn[task][key] for turn in turns) for task in turns[0]}
        beside = f"of the leanest reading, {least['leanest']:.1f} s"
        yield Line(
            f"stream of 20 million rows, {words}", least["evaluate"] / least["leanest"], goal, beside=beside
        )
    yield Line("its memory", max(turn["evaluate"]["peak"] for turn in turns), 1024, " MiB")


def trec(options: argparse.Namespace) -> Iterator[Line]:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        qrels, run_file = bench_trec.files(folder, 6980)
        commands = dict(bench_trec.commands(options, folder, qrels, run_file))
        name, ours, tool = "evaluate of a TREC run, 6,980 queries", commands["ours"], commands["trec_eval"]
        if isinstance(tool, str) or isinstance(ours, str):
            yield Line(name, np.nan, 0.2, beside=f"trec_eval: {tool}")
            return
        seconds = in_turns({"ours": partial(cpu_of, ours), "trec_eval": partial(cpu_of, tool)}, 2)
        beside = f"of trec_eval, {seconds['trec_eval']:.1f} s"
        yield Line(name, seconds["ours"] / seconds["trec_eval"], 0.2, beside=beside)


def lists(_: argparse.Namespace) -> Iterator[Line]:
    seconds, _ = bench_lists.least_seconds(100_000, 100, 2, "ndcg@10")
    frame, ids = seconds[bench_lists.FRAME], seconds[bench_lists.LISTS]
    yield Line("lists of ids, 100,000 queries x 100", ids / frame, 1.5, beside=f"of a frame, {frame:.1f} s")


def tests(_: argparse.Namespace) -> Iterator[Line]:
    yield from suite_lines("scripts/test", "scripts/test", cpu_goal=360, clock_goal=180)


def fast(_: argparse.Namespace) -> Iterator[Line]:
    yield from suite_lines("scripts/test --fast", "scripts/test", "--fast", cpu_goal=70)


def ci(_: argparse.Namespace) -> Iterator[Line]:
    yield from suite_lines(".ci/run, installed", ".ci/run", clock_goal=360)


def suite_lines(
    name: str, script: str, *options: str, cpu_goal: float | None = None, clock_goal: float | None = None
) -> Iterator[Line]:
    """Run a script of the repository and yield what it took, as far as that has a goal."""
    began, beside = time.perf_counter(), ""
    try:
        seconds = cpu_of([str(REPOSITORY / script), *options])
        clock = time.perf_counter() - began
    except subprocess.CalledProcessError:
        seconds, clock, beside = np.nan, np.nan, "it failed"
    if cpu_goal is not None:
        yield Line(f"{name}, CPU", seconds, cpu_goal, " s", beside)
    if clock_goal is not None:
        yield Line(f"{name}, by the clock", clock, clock_goal, " s", beside)


def scale(_: argparse.Namespace) -> Iterator[Line]:
    from bench_scale import SIZES, seconds_of

    for name, (small, large) in SIZES.items():
        few, many = seconds_of(name, small), seconds_of(name, large)
        beside = f"of {small:,}, {few:.2f} s; 12.5 allows 25 % beyond linear growth"
        yield Line(f"{name}: {large:,}", many / few, 1.25 * large / small, beside=beside)


PARTS: dict[str, Callable[[argparse.Namespace], Iterator[Line]]] = {
    "start": start,
    "evaluate": evaluate,
    "report": report,
    "run_again": run_again,
    "run": run,
    "stream": stream,
    "trec": trec,
    "lists": lists,
    "scale": scale,
}
SUITES: dict[str, Callable[[argparse.Namespace], Iterator[Line]]] = {"tests": tests, "fast": fast, "ci": ci}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=[*PARTS, *SUITES], default=list(PARTS), metavar="PART")
    parser.add_argument("--trec-eval", type=Path, metavar="FOLDER", help="its published source")
    data = Path(os.environ.get("LTR_HARNESS_DATA", REPOSITORY.parent / "shared" / "data"))
    parser.add_argument("--mq2008", type=Path, metavar="FOLDER", default=data / "mq2008")
    options = parser.parse_args()
    began, missed = time.perf_counter(), 0
    print(f"{'':<56}{'measured':>10}{'goal':>10}", flush=True)
    for part in options.only:
        for line in (PARTS | SUITES)[part](options):
            print(line, flush=True)
            missed += line.verdict == "NO"
    print(f"{time.strftime('%Y-%m-%d')}, {time.perf_counter() - began:.0f} s by the clock, {missed} missed")
    return min(missed, 1)


if __name__ == "__main__":
    sys.exit(main())
