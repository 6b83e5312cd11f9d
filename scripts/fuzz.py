"""Every command against mangled files: a right answer or a clear error, never a traceback, a crash or a hang.

    scripts/fuzz [--minutes 60] [--seed 1] [--only evaluate]
    scripts/fuzz --minutes 8 --only stored

A small good example of each kind of file is made once: labelled rows as LETOR, CSV and Parquet, scores, qrels and
TREC runs, experiment and monitor configurations, logs, run folders, a saved comparison. Then, until the time is over,
one of them is mangled (bytes, tokens, lines, values of another type, columns) and given to a command in a process of
its own. The exit code must be one of those the command documents, and 1 only with a message of ours. What fails is
kept beside this script's output, with the command that shows it.

Half of the cases are calls of the Python interface (fuzz_calls.py) with tables and arrays in the types of Arrow,
pandas, Polars and NumPy. They end with an answer or one of our errors within 20 s, and with the same answer for the
same content in another form. `--again` repeats one.

    scripts/fuzz --minutes 5 --only calls
    scripts/fuzz --only 'per_query()' --again 123456

What is stored (records, ledgers, plans, saved comparisons, searches, histories and results of monitor, models) is
mangled harder: its JSON in types, sizes and depth, its files into pipes, devices and links. There a command has 20 s
(more where the machine has other work, by its load) and 1 GiB.
"""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from example_files import examples, mangle, mangle_stored

SECONDS_PER_CASE = 90
MEMORY = 6 << 30
SECONDS_OF_STORED = 20
MEMORY_OF_STORED = 1 << 30
CALLS_PER_PROCESS = 25


class Case(NamedTuple):
    """A command and those of its input files that may be mangled; `stored`: as what somebody handed over."""

    command: str
    arguments: list[str]
    files: list[str]
    stored: bool = False


CASES = [
    Case("evaluate", ["--data", "rows.txt", "--scores", "scores.txt"], ["rows.txt", "scores.txt"]),
    Case(
        "evaluate",
        ["--data", "rows.csv", "--column", "query=query", "--scores", "scores.csv"],
        ["rows.csv", "scores.csv"],
    ),
    Case(
        "evaluate",
        ["--data", "rows.parquet", "--column", "query=query", "--scores", "scores.npy", "--per-query"],
        ["rows.parquet", "scores.npy"],
    ),
    Case("evaluate", ["--qrels", "qrels", "--run", "a.run", "-m", "ndcg@3,map,bpref"], ["qrels", "a.run"]),
    Case(
        "explain",
        ["ndcg@3", "--query", "2", "--data", "rows.txt", "--scores", "scores.txt"],
        ["rows.txt", "scores.txt"],
    ),
    Case("explain", ["map", "--query", "2", "--qrels", "qrels", "--run", "a.run"], ["qrels", "a.run"]),
    Case("compare", ["--qrels", "qrels", "a.run", "b.run"], ["qrels", "a.run", "b.run"]),
    Case(
        "compare", ["--data", "rows.txt", "scores.txt", "other.txt"], ["rows.txt", "scores.txt", "other.txt"]
    ),
    Case("compare", ["runs/e"], ["RUN/*"]),
    Case("compare", ["saved/report.json", "runs/e"], ["saved/report.json"]),
    Case("report", ["runs/e", "-o", "out", "--format", "html,md,json,tex"], ["RUN/*"]),
    Case("predict", ["RUN", "rows.csv", "--column", "query=query", "-o", "out.csv"], ["rows.csv", "RUN/*"]),
    Case("reproduce", ["RUN"], ["RUN/*", "rows.csv"]),
    Case("show", ["run", "RUN"], ["RUN/*"]),
    Case("show", ["config", "e.yaml"], ["e.yaml"]),
    Case("check", ["e.yaml"], ["e.yaml", "rows.csv"]),
    Case("run", ["e.yaml", "--quiet"], ["e.yaml", "rows.csv"]),
    Case("run", ["e.yaml", "--quiet"], ["RUN/*", "cache/sets/*/*", "cache/files/*"]),
    Case("data", ["describe", "rows.txt"], ["rows.txt"]),
    Case("data", ["describe", "rows.txt.xz"], ["rows.txt.xz"]),
    Case(
        "data",
        ["describe", "semi.txt", "--reader-option", "unjudged=-1", "--reader-option", "beyond_float32=clip"],
        ["semi.txt"],
    ),
    Case(
        "data", ["convert", "rows.csv.bz2", "--column", "query=query", "-o", "out.parquet"], ["rows.csv.bz2"]
    ),
    Case("data", ["describe", "rows.parquet", "--column", "query=query"], ["rows.parquet"]),
    Case("data", ["describe", "rows.arrow", "--column", "query=query"], ["rows.arrow"]),
    Case("data", ["convert", "rows.arrow", "--column", "query=query", "-o", "out.parquet"], ["rows.arrow"]),
    Case("data", ["convert", "rows.csv", "--column", "query=query", "-o", "out.txt"], ["rows.csv"]),
    Case("data", ["split", "rows.txt", "-o", "parts", "--folds", "3"], ["rows.txt"]),
    Case(
        "data",
        ["split", "days.parquet", "-o", "parts", "--test", "0.3", "--by-time", "day"],
        ["days.parquet"],
    ),
    Case("init", ["rows.csv", "-o", "mine.yaml", "--accept", "leaking-feature"], ["rows.csv"]),
    Case("init", ["days.parquet", "-o", "mine.yaml"], ["days.parquet"]),
    Case(
        "evaluate",
        ["--data", "rows.arrow", "--score-column", "f1", "--column", "query=query"],
        ["rows.arrow"],
    ),
    Case("agreement", ["experiments.csv", "-o", "out"], ["experiments.csv"]),
    Case("agreement", ["experiments.parquet", "--json"], ["experiments.parquet"]),
    Case("monitor", ["monitor.yaml", "-o", "out"], ["monitor.yaml", "log.csv", "log.parquet"]),
    Case("monitor", ["events.yaml", "-o", "out"], ["events.yaml", "log.csv", "events.csv"]),
    Case("monitor", ["monitor.yaml", "--history", "history"], ["history/*", "monitor.yaml"]),
]
# RUN is a run folder of runs/s
RUNS = ["RUN/*", "RUN/record.json", "runs/s/*.*"]
CASES += [
    Case(command, arguments, files, stored=True)
    for command, arguments, files in (
        ("show", ["runs", "runs"], ["runs/s/*/record.json", "runs/s/plan.json", "runs/s/report/report.json"]),
        ("show", ["run", "RUN"], RUNS),
        ("show", ["importance", "LGBM"], RUNS),
        ("compare", ["runs/s"], RUNS),
        ("compare", ["runs/s/one*", "saved"], [*RUNS, "saved/comparison.parquet"]),
        ("show", ["runs", "runs"], ["runs/looks.jsonl"]),
        ("compare", ["runs/s"], ["runs/looks.jsonl"]),
        ("report", ["runs/s", "--format", "json"], ["runs/looks.jsonl"]),
        ("compare", ["saved/comparison.parquet"], ["saved/comparison.parquet"]),
        ("compare", ["saved/report.json"], ["saved/*.*"]),
        ("report", ["runs/s", "-o", "out", "--format", "html,md,json,tex"], RUNS),
        ("report", ["runs/s", "--format", "json,tex"], [*RUNS, "runs/s/report/*"]),
        ("predict", ["RUN", "rows.csv", "--column", "query=query", "-o", "out.csv"], RUNS),
        ("reproduce", ["RUN"], RUNS),
        ("export", ["requirements", "RUN"], RUNS),
        ("export", ["model", "LGBM", "--to", "json", "-o", "out.json"], RUNS),
        ("run", ["s.yaml", "--quiet", "--workers", "1"], [*RUNS, "runs/s/tuning/*/*"]),
        ("run", ["s.yaml", "--quiet", "--workers", "1"], ["runs/s/tuning/*/*"]),
        ("monitor", ["monitor.yaml", "--history", "history"], ["history/*"]),
        ("monitor", ["from_result.yaml", "-o", "out"], ["watched/*.*"]),
        ("monitor", ["from_run.yaml", "-o", "out"], ["runs/s/one--fold1*/*"]),
    )
]


def fill_arguments(case: Case, folder: Path, draw: random.Random) -> tuple[list[str], list[Path]]:
    """The arguments with RUN as a run folder of the example, and one to three files to mangle."""
    kind = "lgbm" if "LGBM" in case.arguments else ""
    records = folder.glob(f"runs/{'s' if case.stored else 'e'}/{kind}*/record.json")
    run = draw.choice(sorted(path.parent for path in records)).relative_to(folder)
    words = [run.as_posix() if word in ("RUN", "LGBM") else word for word in case.arguments]
    arguments = [case.command]
    for word in words:
        found = (
            sorted(path.relative_to(folder).as_posix() for path in folder.glob(word)) if "*" in word else []
        )
        arguments += found or [word]
    files = [
        path
        for name in case.files
        for path in sorted(folder.glob(name.replace("RUN", run.as_posix())))
        if path.is_file()
    ]
    return arguments, draw.sample(files, min(len(files), draw.choice([1, 1, 1, 2, 3])))


def command_code(arguments: list[str]) -> int:
    """The exit code of a command."""
    from ltr_harness.cli import cli
    from ltr_harness.cli.exit_codes import run_command

    return run_command(cli, arguments)


def call_code(name: str, number: int) -> int:
    """As the exit code of a command, how a call ends whose input this number draws."""
    from fuzz_calls import CALLS

    from ltr_harness.errors import HarnessError

    try:
        CALLS[name](random.Random(number))
    except HarnessError as problem:
        print(problem, file=sys.stderr)
        return 2
    except BaseException:
        traceback.print_exc()
        return 70
    return 0


def codes_of_calls(numbers: dict[int, str], seconds: float) -> int:
    """Make these calls until one is wrong; standard output has a line for each that began, and its code."""
    for number, name in numbers.items():
        print(number, end=" ", flush=True)
        signal.setitimer(signal.ITIMER_REAL, seconds)  # ends the process
        os.truncate("stderr", 0)
        code = call_code(name, number)
        print(code, flush=True)
        sys.stderr.flush()
        if complaint(code, Path("stderr").read_text(errors="replace"), ""):
            return code
    return 0


def run_in_child(work: Callable[[], int], folder: Path, seconds: float) -> tuple[int | None, str, int]:
    """Exit code (None: too long; negative: a signal), stderr and peak memory of work in a process of its own."""
    child = os.fork()
    if child == 0:
        os.setsid()
        os.chdir(folder)
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        out = os.open("stdout", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        err = os.open("stderr", os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_APPEND)
        os.dup2(out, 1)
        os.dup2(err, 2)
        code = 70
        try:
            code = work()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    until = time.monotonic() + seconds * load_factor()
    while time.monotonic() < until:
        done, status, used = os.wait4(child, os.WNOHANG)
        if done:
            break
        time.sleep(0.005)
    else:
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return None, "", 0
    error_text = (folder / "stderr").read_text(errors="replace")
    return os.waitstatus_to_exitcode(status), error_text, used.ru_maxrss * 1024


def load_factor() -> float:
    """Return the factor by which work may take longer, so that a busy machine makes no command a hang."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]")


def complaint(code: int | None, err: str, out: str) -> str | None:
    """Return the fault of an ending, None if it is one of those documented."""
    if code is None:
        return "no end"
    if code < 0:
        return f"killed by signal {-code}"
    if "internal error" in err:
        return next(line for line in err.splitlines() if "internal error" in line)
    if "Traceback" in err:
        return f"raised: {err.splitlines()[-1][:200]}"
    if code not in (0, 1, 2, 3, 4):
        return f"exit code {code}"
    if found := OBEYED.search(out + err):
        return f"{found[0]!r} reaches the terminal"
    if code in (1, 2) and not (err + out).strip():
        return f"exit code {code} without a word"
    return None


def load_everything() -> None:
    """Import the whole package and the libraries it uses, so that each case starts in a moment."""
    import ltr_harness

    for module in pkgutil.walk_packages(ltr_harness.__path__, "ltr_harness."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    for name in ("lightgbm", "xgboost", "pandas", "polars", "pyarrow.parquet", "scipy.stats", "fuzz_calls"):
        importlib.import_module(name)


class Ended(NamedTuple):
    """The ending of a case and its fault."""

    name: str
    code: int | None
    wrong: str | None


def findings(
    folder: Path, cases: list[Case], calls: list[str], draw: random.Random, seconds: float
) -> Iterator[Ended]:
    """Run case after case for so long."""
    load_everything()
    good, failures = folder / "good", FailedCases(folder)
    good.mkdir()
    if cases:
        examples(good)
        check_examples(good, cases, draw)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if calls and (not cases or draw.random() < 0.5):
            yield from make_calls(calls, draw, folder, failures)
        else:
            yield run_mangled(draw.choice(cases), draw, folder, failures)


def check_examples(good: Path, cases: list[Case], draw: random.Random) -> None:
    """Run each command with the files as they are."""
    case_folder = good.with_name("case")
    for case in cases:
        arguments, _ = fill_arguments(case, good, draw)
        shutil.copytree(good, case_folder)
        code, err, _ = run_in_child(partial(command_code, arguments), case_folder, SECONDS_PER_CASE)
        if code not in (0, 4):
            raise SystemExit(f"the unmangled example fails: {' '.join(arguments)}\n{err}")
        shutil.rmtree(case_folder)


class FailedCases:
    """The folders of failed cases."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._number = folder, 0

    def keep(self, case: Path, text: str) -> Path:
        """Move the folder of a case there, with a text."""
        self._number += 1
        place = case.rename(self._folder / f"finding{self._number}")
        (place / "command.txt").write_text(text)
        return place


def run_mangled(case: Case, draw: random.Random, folder: Path, failures: FailedCases) -> Ended:
    """Run a command with some of its files mangled."""
    case_folder = folder / "case"
    shutil.copytree(folder / "good", case_folder)
    arguments, files = fill_arguments(case, case_folder, draw)
    for path in files:
        for _ in range(draw.choice([1, 1, 2, 4])):
            (mangle_stored if case.stored else mangle)(path, draw)
    seconds = SECONDS_OF_STORED if case.stored else SECONDS_PER_CASE
    code, err, memory = run_in_child(partial(command_code, arguments), case_folder, seconds)
    out = (case_folder / "stdout").read_text(errors="replace") if code is not None else ""
    complaint_text = complaint(code, err, out)
    if not complaint_text and case.stored and memory > MEMORY_OF_STORED:
        complaint_text = f"took more than {MEMORY_OF_STORED >> 20} MiB"
    if complaint_text:
        names = ", ".join(path.relative_to(case_folder).as_posix() for path in files)
        command = f"ltr-harness {' '.join(arguments)}"
        place = failures.keep(case_folder, f"{command}\nmangled: {names}\n{complaint_text}\n")
        complaint_text = f"{complaint_text}\n    cd {place}; {command}    (mangled: {names})"
    else:
        shutil.rmtree(case_folder)
    return Ended(arguments[0], code, complaint_text)


def make_calls(calls: list[str], draw: random.Random, folder: Path, failures: FailedCases) -> Iterator[Ended]:
    """Make calls of the Python interface, several in a process."""
    case_folder = folder / "case"
    case_folder.mkdir()
    numbers = {draw.getrandbits(32): draw.choice(calls) for _ in range(CALLS_PER_PROCESS)}
    seconds = SECONDS_OF_STORED * load_factor()
    work = partial(codes_of_calls, numbers, seconds)
    code, err, _ = run_in_child(work, case_folder, SECONDS_OF_STORED * CALLS_PER_PROCESS)
    if code == -signal.SIGALRM:
        code = None
    lines = [line.split() for line in (case_folder / "stdout").read_text().splitlines()]
    for number, ended in lines[:-1]:
        yield Ended(numbers[int(number)], int(ended), None)
    number = int(lines[-1][0])
    name = numbers[number]
    complaint_text = complaint(code, err, "")
    if complaint_text:
        place = failures.keep(case_folder, f"{name} {number}\n{complaint_text}\n")
        complaint_text = (
            f"{name}: {complaint_text}\n    scripts/fuzz --only '{name}' --again {number}    ({place})"
        )
    else:
        shutil.rmtree(case_folder)
    yield Ended(name, code, complaint_text)


def choose_cases(only: str | None) -> tuple[list[Case], list[str]]:
    """The commands and calls of this name or kind, or all."""
    from fuzz_calls import CALLS

    cases = [case for case in CASES if only in (None, case.command) or (case.stored and only == "stored")]
    calls = [name for name in CALLS if only in (None, name, "calls")]
    if not cases and not calls:
        names = ", ".join(sorted({case.command for case in CASES} | CALLS.keys()))
        raise SystemExit(f"no case of {only!r}; there are {names}; stored; calls")
    return cases, calls


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", help="one command or call, such as evaluate or 'evaluate()'; stored; calls")
    parser.add_argument("--again", type=int, help="the number of a call that failed, with --only")
    arguments = parser.parse_args()
    if arguments.again is not None:
        raise SystemExit(call_code(arguments.only, arguments.again))
    folder = Path(tempfile.mkdtemp(prefix="ltr-harness-fuzz-"))
    os.environ["LTR_HARNESS_CACHE"] = "cache"  # each case has its own, which may be mangled
    os.environ["TMPDIR"] = str(folder)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    endings: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    found = findings(
        folder, *choose_cases(arguments.only), random.Random(arguments.seed), 60 * arguments.minutes
    )
    for ended in found:
        endings[f"{ended.name} {ended.code}"] += 1
        if ended.wrong:
            kind = ended.wrong.partition("\n")[0]
            seen[kind] += 1
            if seen[kind] <= 2:
                print(ended.wrong, flush=True)
    for name, count in sorted(endings.items()):
        print(f"{name:24}{count:8}")
    print(f"{endings.total()} cases, {seen.total()} of them wrong in {len(seen)} ways")
    if seen:
        raise SystemExit(f"what to look at is kept in {folder}")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
