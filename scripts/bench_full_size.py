"""One fold of an MSLR-WEB30K-shaped set, end to end: 3.77 million rows x 136, two cores, 12 GiB.

Generates the three text files (about 5 GB, random grades), runs `ltr-harness run` twice (cold, then with all data
in the cache and one more model) and prints a time line with the memory of the process and all its children
(anonymous memory, and with the shared file pages that the kernel may take back).

    scripts/bench full_size [--share 1.0] [--rounds 30] [--folder DIR [--only-generate]]

A folder that is named keeps its text files, and files that are there are not generated again.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import bench_data

ROWS = {"train": 2_270_296, "valid": 747_218, "test": 753_611}
CONFIG = """\
name: full-size
data:
  reader: letor
  n_features: 136
  root: {folder}
  max_grade: 4
  splits: {{train: train.txt, valid: valid.txt, test: test.txt}}
metrics: {{cutoffs: [1, 5, 10], report: [ndcg, mrr, err], primary: ndcg@10}}
models:
  lgbm-lambdarank: {{ranker: lightgbm, objective: lambdarank, rounds: {rounds}}}
  xgb-ndcg: {{ranker: xgboost, objective: "rank:ndcg", rounds: {rounds}}}
{more}"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--share", type=float, default=1.0, help="of the rows, to try things out")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument(
        "--folder", type=Path, help="for the text files, which stay; default: a temporary one"
    )
    parser.add_argument("--only-generate", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as scratch:
        folder = Path(scratch)
        texts = arguments.folder or folder
        generate(texts, arguments.share)
        if arguments.only_generate:
            return
        config = folder / "full_size.yaml"
        for title, more in (("cold", ""), ("warm, one model more", "  random: {ranker: random}\n")):
            config.write_text(CONFIG.format(folder=texts.resolve(), rounds=arguments.rounds, more=more))
            print(f"== {title}")
            watch(
                [sys.executable, "-m", "ltr_harness", "run", str(config), "--runs", str(folder / "runs")],
                os.environ | {"LTR_HARNESS_CACHE": str(folder / "cache"), "OMP_WAIT_POLICY": "PASSIVE"},
            )


def generate(folder: Path, share: float) -> None:
    start = time.perf_counter()
    first_query = 1
    for split, rows in ROWS.items():
        n_rows = int(rows * share)
        if not (folder / f"{split}.txt").exists():
            bench_data.write_rows(folder / f"{split}.txt.new", n_rows, first_query)
            (folder / f"{split}.txt.new").rename(folder / f"{split}.txt")
        first_query += n_rows
    size = sum((folder / f"{split}.txt").stat().st_size for split in ROWS)
    print(f"{size / 1e9:.2f} GB of text, generated in {time.perf_counter() - start:.0f} s", flush=True)


def watch(command: list[str], environment: dict[str, str]) -> None:
    """Run a command; print its messages with the time, and its memory when that has grown by a tenth."""
    start = time.perf_counter()
    peak_private = peak_all = printed_peak = 0
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT)
        read = 0
        while process.poll() is None:
            private, everything = memory(process.pid)
            peak_private, peak_all = max(peak_private, private), max(peak_all, everything)
            output.seek(read)
            for line in output.read().splitlines():
                print(f"{time.perf_counter() - start:7.1f} s  {private / 2**30:5.2f} GiB  {line}", flush=True)
            read = output.seek(0, os.SEEK_END)
            if private > 1.1 * printed_peak + (50 << 20):
                printed_peak = private
                print(f"{time.perf_counter() - start:7.1f} s  {private / 2**30:5.2f} GiB", flush=True)
            time.sleep(0.5)
        output.seek(read)
        print(output.read(), end="")
    print(
        f"exit {process.returncode} after {time.perf_counter() - start:.1f} s; peak {peak_private / 2**30:.2f} GiB of "
        f"its own, {peak_all / 2**30:.2f} GiB with file pages"
    )


def memory(pid: int) -> tuple[int, int]:
    """Anonymous and all resident memory of a process and its children, in bytes."""
    private = everything = 0
    for process in (pid, *children(pid)):
        try:
            status = Path(f"/proc/{process}/status").read_text()
        except OSError:
            continue
        fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
        private += int(fields.get("RssAnon", "0 kB").split()[0]) * 1024
        everything += int(fields.get("VmRSS", "0 kB").split()[0]) * 1024
    return private, everything


def children(pid: int) -> list[int]:
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    return [found for child in map(int, text.split()) for found in (child, *children(child))]


if __name__ == "__main__":
    main()
