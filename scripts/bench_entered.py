"""The number of functions and files that a command enters: the code one reads to follow it from start to end.

    scripts/bench entered [run] [compare] [monitor] [--list] [--checkout /path/to/another/version]

`run` trains the quickstart experiment with one worker, from its file to its report; `compare` compares two of its runs;
`monitor` is the monitor's quickstart. Each is a process of its own with warm caches, counted by `sys.setprofile` in
every thread. A function counts once however often it is called; what a module's import executes, lambdas and
comprehensions do not count. Templates of the report count, because the functions made of them are entered.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RUN = ["run", "configs/quickstart.yaml", "--workers", "1", "--runs", "{folder}/runs"]
COMMANDS = {
    "run": [*RUN[:-1], "{folder}/new runs"],
    "compare": [
        "compare",
        "{folder}/runs/quickstart/lgbm-lambdarank--*",
        "{folder}/runs/quickstart/xgb-ndcg--*",
    ],
    "monitor": ["monitor", "configs/monitor_quickstart.yaml", "-o", "{folder}/monitor"],
}
WANTED = {"run": (750, 110), "compare": (None, 40), "monitor": (None, 70)}  # at most: functions, files


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("commands", nargs="*", help="run, compare or monitor; all of them unless given")
    parser.add_argument("--list", action="store_true", help="name the functions, file by file")
    parser.add_argument(
        "--checkout", type=Path, default=ROOT, help="the version to count in; default: this one"
    )
    parser.add_argument("--counted", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.counted:
        count(*arguments.counted)
        return
    names = arguments.commands or list(COMMANDS)
    if unknown := set(names) - COMMANDS.keys():
        parser.error(f"{', '.join(sorted(unknown))}: expected {', '.join(COMMANDS)}")
    with tempfile.TemporaryDirectory() as folder:
        command([sys.executable, "-m", "ltr_harness"], RUN, arguments.checkout, folder)  # fills the caches
        for name in names:
            entered = Path(folder) / f"{name}.json"
            script = [sys.executable, __file__, "--counted", str(entered)]
            command(script, COMMANDS[name], arguments.checkout, folder)
            files: dict[str, list[str]] = json.loads(entered.read_text())
            functions, most = WANTED[name]
            target = f"{functions} in {most}" if functions else f"in {most}"
            total = sum(map(len, files.values()))
            print(
                f"{name:8} {total:5,} functions in {len(files):3} files (wanted: at most {target})",
                flush=True,
            )
            if arguments.list:
                for file, entered_functions in sorted(files.items()):
                    print(f"  {len(entered_functions):3} {file}: {', '.join(entered_functions)}")


def command(start: list[str], words: list[str], checkout: Path, folder: str) -> None:
    """Run a command of the checkout's package; runs named by a pattern are looked for."""
    filled = []
    for word in words:
        path = Path(word.format(folder=folder))
        filled.append(str(next(path.parent.glob(path.name))) if "*" in path.name else str(path))
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    done = subprocess.run([*start, *filled], cwd=checkout, env=environment, capture_output=True, text=True)
    if done.returncode not in (0, 4):  # 4: the monitor's quickstart ends in alerts
        sys.exit(f"{' '.join(words)} ended with {done.returncode}:\n{done.stderr}")


def count(into: str, *words: str) -> None:
    """Run a command in this process and write down the functions that it enters, by file."""
    import ltr_harness

    package = os.path.dirname(ltr_harness.__file__) + os.sep
    entered: set[CodeType] = set()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            entered.add(frame.f_code)

    sys.argv = ["ltr-harness", *words]
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        from ltr_harness.cli import main

        main()
    finally:
        sys.setprofile(None)
        files = defaultdict(list)
        for code in sorted(entered, key=lambda entry: entry.co_firstlineno):
            if code.co_filename.startswith(package) and is_function(code):
                files[code.co_filename.removeprefix(package)].append(code.co_qualname)
        Path(into).write_text(json.dumps(files))


def is_function(code: CodeType) -> bool:
    """Return whether it is a function with a name; a class's body has no fast local variables."""
    return not code.co_name.startswith("<") and bool(code.co_flags & inspect.CO_NEWLOCALS)


if __name__ == "__main__":
    main()
