"""Does a change leave every output as it was? The same experiments by two versions of the package, file by file.

For refactorings. Runs the quickstart, the rivals, MQ2008 (where its data is) and the monitor's quickstart with another
commit and with this checkout, and compares run folders, reports and JSON. The other commit runs twice: what differs
between its own two runs (times) is not compared; neither are digests and durations.

    scripts/same_outputs HEAD~3
    scripts/same_outputs main --only quickstart
    scripts/same_outputs main --command "run configs/over-time.yaml --workers 1 --runs {out} --set data.root=/data"
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pandas as pd

ROOT = Path(__file__).resolve().parent.parent
COMMANDS = {
    "quickstart": ["run", "configs/quickstart.yaml", "--workers", "1", "--runs", "{out}"],
    "rivals": ["run", "configs/rivals.yaml", "--workers", "1", "--runs", "{out}"],
    "mq2008": [
        "run",
        "configs/mq2008.yaml",
        "--workers",
        "1",
        "--runs",
        "{out}",
        "--set",
        "data.root={data}/mq2008",
    ],
    "monitor": ["monitor", "configs/monitor_quickstart.yaml", "-o", "{out}/monitor"],
}
TOKENS = re.compile(r"\d+(?:\.\d+)?(?:e-?\d+)?|[A-Za-z_]+|[^\sA-Za-z_\d]")
DIGEST = re.compile(r"(?<![\w.])(?=\d*[a-f])[0-9a-f]{12,64}\b")
DURATION = re.compile(
    r"\b\d+(?:\.\d+)? (?:ms|s|min|h)\b|\"(?:\w*seconds\w*|calls|p50|p99|on_front|front)\": ?[\w.-]+"
)
COST = re.compile(r"^## Cost$.*?(?=^## )|<section[^>]* id=\"cost\".*?</section>", re.DOTALL | re.MULTILINE)
TIMED = ("pareto_front", "serving", "cost")  # tables and charts of times


def outputs(checkout: Path, command: list[str], out: Path) -> dict[str, Path]:
    """Run one command with the package of `checkout`; its files by their path without digests."""
    out.mkdir(parents=True)
    data = os.environ.get("LTR_HARNESS_DATA", str(ROOT.parent / "shared" / "data"))
    words = [word.format(out=out, data=data) for word in command]
    environment = {**os.environ, "PYTHONPATH": str(checkout), "XDG_CACHE_HOME": str(out.parent / "cache")}
    with (out / "stdout.txt").open("w") as stdout:
        done = subprocess.run(
            [sys.executable, "-m", "ltr_harness", *words],
            cwd=checkout, env=environment, stdout=stdout, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
    if done.returncode not in (0, 4):  # 4: the monitor's quickstart ends in alerts
        raise SystemExit(f"{' '.join(words)} ended with {done.returncode} in {checkout}:\n{done.stderr}")
    files = sorted(path for path in out.rglob("*") if path.is_file())
    return {DIGEST.sub("DIGEST", str(path.relative_to(out))): path for path in files}


def tokens(path: Path, places: dict[str, str]) -> list[str]:
    text = path.read_text(encoding="utf-8", errors="replace")
    for place, word in places.items():
        text = text.replace(place, word)
    text = COST.sub("COST", text)
    return TOKENS.findall(DURATION.sub("DURATION", DIGEST.sub("DIGEST", text)))


def difference(paths: list[Path], places: dict[str, str]) -> str | None:
    """Describe the difference of the third file where the first two agree; None where there is none."""
    if paths[0].suffix == ".parquet":
        first, again, after = (pd.read_parquet(path) for path in paths)
        if list(first.columns) != list(after.columns) or len(first) != len(after):
            return (
                f"columns or rows: {list(first.columns)} x {len(first)}, {list(after.columns)} x {len(after)}"
            )
        steady = [column for column in first if first[column].equals(again[column])]
        moved = [column for column in steady if not first[column].equals(after[column])]
        return f"columns {', '.join(moved)}" if moved else None
    if paths[0].stem in TIMED:
        return None
    if paths[0].suffix in (".png", ".npy"):
        first_bytes, second_bytes, third_bytes = (path.read_bytes() for path in paths)
        return None if first_bytes != second_bytes or first_bytes == third_bytes else "bytes"
    first, again, after = (tokens(path, places) for path in paths)
    if len(first) != len(after):
        if len(first) != len(again):
            return None
        place = next((i for i, pair in enumerate(zip(first, after, strict=False)) if pair[0] != pair[1]), 0)
        return f"{len(first)} and {len(after)} words, from {' '.join(first[place : place + 12])!r} on"
    if len(first) != len(again):
        again = first
    for i, (before, twice, now) in enumerate(zip(first, again, after, strict=True)):
        if before == twice != now:
            return f"{' '.join(first[max(i - 8, 0) : i + 4])!r} became {' '.join(after[max(i - 8, 0) : i + 4])!r}"
    return None


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("commit", help="the version to compare this checkout with")
    parser.add_argument(
        "--only", action="append", choices=COMMANDS, help="one of the commands; may be repeated"
    )
    parser.add_argument("--command", help="another command, whose {out} is a new folder; instead of these")
    arguments = parser.parse_args()
    commands = {name: COMMANDS[name] for name in arguments.only or COMMANDS}
    if arguments.command is not None:
        commands = {"command": shlex.split(arguments.command)}
    differing = 0
    with tempfile.TemporaryDirectory() as folder:
        before = Path(folder) / "checkout"
        subprocess.run(
            ["git", "worktree", "add", "-q", "--detach", before, arguments.commit], cwd=ROOT, check=True
        )
        try:
            for name, command in commands.items():
                outs = [Path(folder) / f"{name}-{part}" / "out" for part in ("first", "again", "after")]
                first, again, after = (
                    outputs(checkout, command, out)
                    for checkout, out in zip((before, before, ROOT), outs, strict=True)
                )
                places = {**{str(out): "OUT" for out in outs}, str(before): "CHECKOUT", str(ROOT): "CHECKOUT"}
                for path in sorted(first.keys() ^ after.keys()):
                    print(f"{name}: {path}: only {'before' if path in first else 'after'}")
                    differing += 1
                common = [path for path in first if path in after and path in again]
                for path in common:
                    text = difference([first[path], again[path], after[path]], places)
                    if text is not None:
                        print(f"{name}: {path}: {text}")
                        differing += 1
                print(f"{name}: {len(common)} files compared", flush=True)
                for out in outs:
                    shutil.rmtree(out.parent)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", before], cwd=ROOT, check=True)
    print("the same" if not differing else f"{differing} files differ")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
