"""Reading MSLR-like text: our reader, scikit-learn's and the boosters' own, then the cache.

The text is generated: 136 features, about 1.4 KB per row, written as MSLR-WEB30K writes it. Each reader runs in a
process of its own, all in turn, `--runs` times; the best time counts, the largest peak of memory counts. Time is
that of the call, without imports and without compiling (our kernels are compiled once per machine); CPU time, of
all threads, tells more on a busy machine. Memory is the growth of the process's peak (VmHWM, which counts mapped
file pages too) during the call, over the size of the float32 matrix that comes out.

    scripts/bench data [--megabytes 300] [--runs 3] [--large] [--only ours,sklearn]

`--large`: 3 GB; scikit-learn is left out then, it takes minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from ltr_harness._util.compiled import compiled

N_FEATURES = 136
ROWS_PER_QUERY = 119
READERS = ("ours", "sklearn", "xgboost", "lightgbm", "cold", "warm", "bytes", "copy")
WORDS = {
    "ours": "ours: text to matrix",
    "sklearn": "scikit-learn load_svmlight_file, dense",
    "xgboost": "xgboost DMatrix(f?format=libsvm)",
    "lightgbm": "lightgbm Dataset from text without qid (bins too)",
    "cold": "ours, first read: hash, parse, fingerprint, store",
    "warm": "ours, reopened from the cache",
    "bytes": "all bytes added up by a compiled loop, mapped",
    "copy": "as many bytes copied within memory",
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=int, default=300)
    parser.add_argument("--large", action="store_true", help="3000 MB, without scikit-learn")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", default="", help=f"some of {','.join(READERS)}")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        measure(arguments.child[0], Path(arguments.child[1]))
        return
    names = [name for name in READERS if not arguments.only or name in arguments.only.split(",")]
    if arguments.large:
        names = [name for name in names if name != "sklearn"]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        n_rows = generate(folder, 3000 if arguments.large else arguments.megabytes, "lightgbm" in names)
        size = (folder / "train.txt").stat().st_size
        matrix = n_rows * N_FEATURES * 4
        print(
            f"{size / 1e6:,.0f} MB of text, {n_rows:,} rows x {N_FEATURES}, matrix {matrix / 1e6:,.0f} MB, "
            f"{len(os.sched_getaffinity(0))} cores"
        )
        child("ours", folder)  # compiles, and brings the file into the page cache
        found: dict[str, list[dict[str, float]]] = {name: [] for name in names}
        for _ in range(arguments.runs):
            for name in names:
                found[name].append(child(name, folder))
        report(found, matrix)


def report(found: dict[str, list[dict[str, float]]], matrix: int) -> None:
    best = {name: min(run["seconds"] for run in runs) for name, runs in found.items()}
    for name, runs in found.items():
        peak = max(run["peak"] for run in runs) / matrix
        ratio = f"{best[name] / best['ours']:6.1f} x ours" if "ours" in best else ""
        cpu = min(run["cpu"] for run in runs)
        print(f"{WORDS[name]:<52} {best[name]:8.3f} s {ratio}   CPU {cpu:7.3f} s   peak {peak:5.2f} x matrix")


def child(name: str, folder: Path) -> dict[str, float]:
    environment = os.environ | {"OMP_WAIT_POLICY": "PASSIVE", "LTR_HARNESS_CACHE": str(folder / "cache")}
    command = [sys.executable, __file__, "--child", name, str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{name}: {done.stderr}")
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def measure(name: str, folder: Path) -> None:
    """One reader, in this process."""
    text = folder / "train.txt"
    if name == "ours":
        from ltr_harness.data.readers.letor import Letor

        (folder / "tiny.txt").write_text("1 qid:1 1:1\n")
        Letor().read(["tiny.txt"], folder)
        report_call(lambda: Letor().read(["train.txt"], folder))
    elif name in ("cold", "warm"):
        import shutil

        from ltr_harness.data.cache import DataCache
        from ltr_harness.data.readers.letor import Letor

        if name == "cold":
            shutil.rmtree(folder / "cache", ignore_errors=True)
        (folder / "tiny.txt").write_text("1 qid:1 1:1\n")
        DataCache().read(Letor(), ["tiny.txt"], folder)
        report_call(lambda: DataCache().read(Letor(), ["train.txt"], folder).dataset)
    elif name == "sklearn":
        from sklearn.datasets import load_svmlight_file

        report_call(lambda: load_svmlight_file(str(text), dtype=np.float32, query_id=True)[0].toarray())
    elif name == "xgboost":
        import xgboost

        report_call(lambda: xgboost.DMatrix(f"{text}?format=libsvm", silent=True))
    elif name == "bytes":
        from ltr_harness.data.readers.text_files import text_bytes

        added(np.frombuffer(b"0", dtype=np.uint8))  # compiles
        report_call(lambda: added(text_bytes(text)))
    elif name == "copy":
        source, target = np.ones((2, text.stat().st_size), dtype=np.uint8)
        report_call(lambda: np.copyto(target, source))
    else:
        import lightgbm

        options = {"verbosity": -1, "header": False}
        report_call(lambda: lightgbm.Dataset(str(folder / "plain.txt"), params=options).construct())


@compiled
def added(data: np.ndarray) -> int:
    total = 0
    for byte in data:
        total += byte
    return total


def report_call(call: object) -> None:
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before = memory("VmRSS")
    start, cpu = time.perf_counter(), time.process_time()
    result = call()  # type: ignore[operator]
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    print(json.dumps({"seconds": seconds, "cpu": cpu, "peak": memory("VmHWM") - before}))
    del result


def memory(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise KeyError(field)


def generate(folder: Path, megabytes: int, without_qid: bool) -> int:
    """Write ``train.txt`` (and ``plain.txt`` with ``plain.txt.query``); the number of rows."""
    n_rows = megabytes * 1_000_000 // 1_372  # bytes per row
    write_rows(folder / "train.txt", n_rows)
    if without_qid:
        write_rows(folder / "plain.txt", n_rows, None)
        sizes = np.bincount(np.arange(n_rows) // ROWS_PER_QUERY)
        (folder / "plain.txt.query").write_text("\n".join(map(str, sizes.tolist())) + "\n")
    return n_rows


def write_rows(path: Path, n_rows: int, first_query: int | None = 1) -> None:
    """MSLR-like rows, their features out of a pool of 2,000; without query ids if `first_query` is None."""
    draws = np.random.Generator(np.random.PCG64(1))
    pool = []
    for _ in range(2000):
        values = []
        for feature in range(N_FEATURES):
            kind = feature % 5
            if kind < 2:  # counts
                values.append(str(int(draws.exponential(20))))
            elif kind < 4:
                values.append(f"{draws.exponential(8):.6f}")
            else:
                values.append(f"{-draws.exponential(10):.6f}")
        pool.append(" ".join(f"{i + 1}:{value}" for i, value in enumerate(values)))
    with open(path, "w") as stream:
        for start in range(0, n_rows, 5000):
            n = min(5000, n_rows - start)
            picked = draws.integers(len(pool), size=n).tolist()
            grades = np.minimum(4, 5 * draws.random(n) ** 2).astype(int).tolist()
            for i in range(n):
                query = (start + i) // ROWS_PER_QUERY + (first_query or 0)
                stream.write(
                    f"{grades[i]} {pool[picked[i]]}\n"
                    if first_query is None
                    else f"{grades[i]} qid:{query} {pool[picked[i]]} \n"
                )


if __name__ == "__main__":
    main()
