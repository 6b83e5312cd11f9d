"""The cost of evaluating a TREC run, beside the tools in daily use.

A synthetic run (--queries, 1,000 documents each; MS MARCO's development set is 6,980, 283 MB) and its qrels, evaluated
at ndcg@10, mrr and map by each tool in a process of its own, from the two files: seconds of CPU time, the largest
memory, and the values. Tools that are not installed are left out, and the reason is said; trec_eval is compiled from
its published source where --trec-eval names the folder. `ours, gz` reads the run compressed; `ours, 3 runs` reads the
same run three times beside the qrels.

    python scripts/bench_trec.py
    python scripts/bench_trec.py --queries 6980 --trec-eval ~/trec_eval-9.0.8
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

PYTHON = {
    "pytrec_eval": """
import sys, pytrec_eval
qrels, run = (read(open(path)) for read, path in zip((pytrec_eval.parse_qrel, pytrec_eval.parse_run), sys.argv[1:]))
found = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10", "recip_rank", "map"}).evaluate(run)
for name in ("ndcg_cut_10", "recip_rank", "map"):
    print(name, pytrec_eval.compute_aggregated_measure(name, [one[name] for one in found.values()]))
""",
    "ranx": """
import sys
from ranx import Qrels, Run, evaluate
qrels, run = Qrels.from_file(sys.argv[1], kind="trec"), Run.from_file(sys.argv[2], kind="trec")
print(evaluate(qrels, run, ["ndcg@10", "mrr", "map"], make_comparable=True))
""",
    "ir_measures": """
import sys, ir_measures
from ir_measures import AP, RR, nDCG
print(ir_measures.calc_aggregate([nDCG@10, RR, AP], ir_measures.read_trec_qrels(sys.argv[1]),
                                 ir_measures.read_trec_run(sys.argv[2])))
""",
}


def files(folder: Path, n_queries: int) -> tuple[Path, Path]:
    """Qrels of one relevant passage for each query, in four of five cases among the 1,000 that the run lists."""
    rng = np.random.default_rng(0)
    qrels, run = folder / "qrels", folder / "run"
    with qrels.open("w") as judged, run.open("w") as listed:
        for query in rng.choice(1_200_000, n_queries, replace=False).tolist():
            documents = rng.choice(8_841_823, 1000, replace=False).tolist()
            scores = np.sort(rng.gamma(3, 5, 1000))[::-1].tolist()
            listed.writelines(
                f"{query} Q0 {document} {rank} {score:.6f} bm25\n"
                for rank, (document, score) in enumerate(zip(documents, scores, strict=True), start=1)
            )
            place = min(int(rng.geometric(0.05)), 999)
            relevant = documents[place] if rng.random() < 0.8 else int(rng.integers(8_841_823))
            judged.write(f"{query} 0 {relevant} 1\n")
    return qrels, run


def commands(
    options: argparse.Namespace, folder: Path, qrels: Path, run: Path
) -> Iterator[tuple[str, list[str] | str]]:
    """Each tool's command, or why there is none."""
    ours = [sys.executable, "-m", "ltr_harness", "evaluate", "-m", "ndcg@10", "-m", "mrr", "-m", "map"]
    yield "ours", [*ours, "--qrels", str(qrels), "--run", str(run)]
    packed = folder / "run.gz"
    with run.open("rb") as source, gzip.open(packed, "wb", compresslevel=1) as target:
        shutil.copyfileobj(source, target)
    yield "ours, gz", [*ours, "--qrels", str(qrels), "--run", str(packed)]
    copies = [run, *(folder / f"run{number}" for number in (2, 3))]
    for copy in copies[1:]:
        copy.symlink_to(run)
    yield (
        "ours, 3 runs",
        [*ours, "--qrels", str(qrels), *(word for run_copy in copies for word in ("--run", str(run_copy)))],
    )
    yield "trec_eval", trec_eval(options, folder, qrels, run)
    for name, code in PYTHON.items():
        installed = importlib.util.find_spec(name) is not None
        yield name, [sys.executable, "-c", code, str(qrels), str(run)] if installed else "not installed"


def trec_eval(options: argparse.Namespace, folder: Path, qrels: Path, run: Path) -> list[str] | str:
    if options.trec_eval is None:
        return "its source is not here; --trec-eval names its folder"
    if shutil.which("make") is None or shutil.which("cc") is None:
        return "there is no compiler"
    source = shutil.copytree(options.trec_eval, folder / "trec_eval")
    build = subprocess.run(["make", "-C", str(source)], capture_output=True, text=True, check=False)
    if build.returncode:
        return f"make failed: {build.stderr.strip().splitlines()[-1:]}"
    measures = ["-m", "ndcg_cut.10", "-m", "recip_rank", "-m", "map"]
    return [str(source / "trec_eval"), *measures, str(qrels), str(run)]


def measure_command(command: list[str]) -> tuple[float, float, str]:
    """CPU seconds, peak MiB, and the output."""
    with tempfile.TemporaryFile() as output:
        one_thread = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
        started = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env={**os.environ, **one_thread}
        )
        _, status, used = os.wait4(started.pid, 0)
        started.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = " ".join(output.read().decode().split())
    if started.returncode:
        return np.nan, np.nan, text[-200:]
    largest = used.ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)
    return used.ru_utime + used.ru_stime, largest, text


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--queries", type=int, default=698)
    parser.add_argument(
        "--times", type=int, default=2, help="runs of each tool, of which the cheapest counts"
    )
    parser.add_argument("--trec-eval", type=Path, metavar="FOLDER", help="its published source")
    parser.add_argument("--only", nargs="+", default=[], metavar="TOOL", help="how their names begin")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        qrels, run = files(folder, options.queries)
        print(
            f"{options.queries:,} queries, {1000 * options.queries:,} lines, {run.stat().st_size / 1e6:.0f} MB"
        )
        for name, command in commands(options, folder, qrels, run):
            if options.only and not name.startswith(tuple(options.only)):
                continue
            if isinstance(command, str):
                print(f"{name:14}left out: {command}")
                continue
            seconds, largest, output = min(measure_command(command) for _ in range(options.times))
            print(f"{name:14}{seconds:6.2f} s of CPU {largest:7.0f} MiB  {output}", flush=True)


if __name__ == "__main__":
    main()
