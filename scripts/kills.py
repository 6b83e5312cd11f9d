"""Every command that writes, killed or interrupted at any moment and run again: nothing half-written, nothing lost.

    scripts/kills [--minutes 60] [--seed 1] [--only run]

Each command first runs undisturbed; what it leaves is what must be there in the end. Then, until the time is over, it
is started again in a fresh folder, all its processes or it alone get SIGKILL, SIGTERM or SIGINT at a random moment,
none goes on, and what it left so far must be whole. It is started again, as often as it takes to end by
itself, and must end as if nothing had happened.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from example_files import examples

UNFINISHED = ".unfinished"  # the next command that writes there removes it
SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
GONE_WITHIN = 60  # seconds after which no process of a command that was hit may be left


class Work(NamedTuple):
    """A command, and which files it leaves: the same bytes whenever and however often it runs."""

    name: str
    arguments: list[str]
    leaves: list[str]


RUN_FILES = ["*/model.*", "*/test_scores.parquet", "*/per_query.parquet", "*/importance.parquet"]
WORKS = [
    Work("run", ["run", "e.yaml", "--runs", "new", "--workers", "1"], [f"new/e/{name}" for name in RUN_FILES]),
    Work("run-2", ["run", "e.yaml", "--runs", "new", "--workers", "2"], [f"new/e/{name}" for name in RUN_FILES]),
    Work("dask", ["run", "e.yaml", "--runs", "new", "--workers", "dask:2"], [f"new/e/{name}" for name in RUN_FILES]),
    Work("compare", ["compare", "runs/e", "-o", "new"], ["new/report.*", "new/*.parquet"]),
    Work("report", ["report", "runs/e", "-o", "new"], ["new/report.*", "new/*.parquet"]),
    Work("convert", ["data", "convert", "rows.csv", "--column", "query=query", "-o", "new.parquet"], ["new.parquet"]),
    Work("split", ["data", "split", "rows.txt", "-o", "new", "--folds", "3"], ["new/**/*.txt", "new/*.tsv"]),
    Work("predict", ["predict", "RUN", "rows.csv", "--column", "query=query", "-o", "new.csv"], ["new.csv"]),
    Work("monitor", ["monitor", "monitor.yaml", "-o", "new", "--exit-zero"], ["new/report.*", "new/*.csv"]),
    Work("history", ["monitor", "monitor.yaml", "--history", "new", "--exit-zero"], ["new/*"]),
    Work("init", ["init", "rows.csv", "-o", "new.yaml", "--accept", "leaking-feature"], ["new.yaml"]),
]  # fmt: skip


def start_command(work: Work, folder: Path) -> subprocess.Popen[str]:
    """The command in a session of its own, so that its workers get the signal too."""
    run = min(folder.glob("runs/e/lgbm*/record.json")).parent
    words = [str(run) if word == "RUN" else word for word in work.arguments]
    return subprocess.Popen(
        [sys.executable, "-m", "ltr_harness", *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def files_left(work: Work, folder: Path) -> dict[str, str]:
    """Every file that the command left, by its path in the folder, as a hash."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for pattern in work.leaves
        for path in sorted(folder.glob(pattern))
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    }


def run_undisturbed(work: Work, good: Path, folder: Path) -> tuple[dict[str, str], float]:
    """Return the files that the command leaves and its seconds, after a first time that warms the caches."""
    files: list[dict[str, str]] = []
    for _ in range(2):
        shutil.copytree(good, folder)
        began = time.monotonic()
        process = start_command(work, folder)
        _, err = process.communicate()
        seconds = time.monotonic() - began
        if process.returncode:
            raise SystemExit(f"{work.name} fails undisturbed:\n{err}")
        files.append(files_left(work, folder))
        shutil.rmtree(folder)
    if files[0] != files[1] or not files[0]:
        differ = sorted(name for name in files[0] if files[0][name] != files[1].get(name))
        raise SystemExit(f"{work.name} does not leave the same files twice: {differ or 'none at all'}")
    return files[0], seconds


def run_disturbed(
    work: Work, folder: Path, expected: dict[str, str], seconds: float, draw: random.Random
) -> str | None:
    """Disturb the command one to three times, then let it end; what is wrong with what it left."""
    story = []
    for _ in range(draw.choice([1, 1, 2, 3])):
        process = start_command(work, folder)
        blow, moment = draw.choice(SIGNALS), draw.uniform(0, 1.05) * seconds
        alone = draw.random() < 0.4
        story.append(f"{blow.name} {'to it alone ' if alone else ''}after {moment:.3f} s")
        time.sleep(moment)
        if process.poll() is None:
            (os.kill if alone else os.killpg)(process.pid, blow)
        try:
            _, err = process.communicate(timeout=GONE_WITHIN)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return f"{'; '.join(story)}: processes of it go on and hold its output open"
        if is_unanswered(err):
            return f"{'; '.join(story)}: {err}"
        for name, content in files_left(work, folder).items():
            if expected.get(name) != content:
                return f"{'; '.join(story)}: {name} is not what the undisturbed command leaves"
    process = start_command(work, folder)
    _, err = process.communicate()
    # a file that is there already is never overwritten by init: it says so, and it is whole
    if process.returncode and not (work.name == "init" and files_left(work, folder) == expected):
        return f"{'; '.join(story)}: then exit code {process.returncode}: {err}"
    ended = files_left(work, folder)
    if ended != expected:
        differ = sorted(
            name for name in ended.keys() | expected.keys() if ended.get(name) != expected.get(name)
        )
        return f"{'; '.join(story)}: then other files than undisturbed: {', '.join(differ)}"
    unfinished = sorted({path.name for path in folder.rglob(".*") if path.name.startswith(UNFINISHED)})
    return f"{'; '.join(story)}: leaves {', '.join(unfinished)}" if unfinished else None


def is_unanswered(err: str) -> bool:
    """Return whether stderr has a traceback where Ctrl-C is a message.

    It is one from `main` on; before, while the command's first module is imported, Python itself answers.
    """
    is_running = any(name in err for name in ("in main", "distributed"))
    return "internal error" in err or ("Traceback" in err and is_running)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", help=f"one of {', '.join(work.name for work in WORKS)}")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="ltr-harness-kills-"))
    os.environ |= {"LTR_HARNESS_CACHE": str(folder / "cache"), "TMPDIR": str(folder), "OMP_NUM_THREADS": "1"}
    good, case_folder = folder / "good", folder / "here"
    good.mkdir()
    examples(good)
    works = [work for work in WORKS if arguments.only in (None, work.name)]
    expected = {work.name: run_undisturbed(work, good, case_folder) for work in works}
    draw = random.Random(arguments.seed)
    done: Counter[str] = Counter()
    n_wrong = 0
    until = time.monotonic() + 60 * arguments.minutes
    while time.monotonic() < until:
        work = draw.choice(works)
        shutil.copytree(good, case_folder)
        problem = run_disturbed(work, case_folder, *expected[work.name], draw)
        done[work.name] += 1
        if problem:
            n_wrong += 1
            finding_folder = case_folder.rename(folder / f"finding{n_wrong}")
            print(f"{work.name}: {problem}\n    kept in {finding_folder}", flush=True)
        else:
            shutil.rmtree(case_folder)
    for name, count in sorted(done.items()):
        print(f"{name:16}{count:8}")
    print(f"{done.total()} commands disturbed, {n_wrong} of them ended wrong")
    if n_wrong:
        raise SystemExit(1)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
