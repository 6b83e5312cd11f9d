"""Start-up time of `ltr-harness --help` and `import ltr_harness`, beside `python -c pass` and `import numpy`.

    scripts/bench startup [--rounds 15]

Whole processes, started in turn, compile cache and file cache warm; printed is the lower quartile of their wall
time and its ratio to an empty Python and to `import numpy`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "import numpy": [sys.executable, "-c", "import numpy"],
    "import numpy, numpy.typing": [sys.executable, "-c", "import numpy, numpy.typing"],
    "import ltr_harness": [sys.executable, "-c", "import ltr_harness"],
    "from ltr_harness.metrics import NDCG": [sys.executable, "-c", "from ltr_harness.metrics import NDCG"],
    "ltr-harness --help": [str(Path(sys.executable).with_name("ltr-harness")), "--help"],
    "ltr-harness run --help": [str(Path(sys.executable).with_name("ltr-harness")), "run", "--help"],
}


def seconds(command: list[str]) -> float | None:
    """Wall time of one process; None if it fails."""
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, check=False)
    return None if done.returncode else time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    working = {name: command for name, command in COMMANDS.items() if seconds(command) is not None}
    times: dict[str, list[float]] = {name: [] for name in working}
    for _ in range(arguments.rounds):
        for name, command in working.items():
            seconds_taken = seconds(command)
            if seconds_taken is not None:
                times[name].append(seconds_taken)
    quartile = {name: float(np.percentile(seconds_taken, 25)) for name, seconds_taken in times.items()}
    print(f"{'':40}{'ms':>8}{'/ python':>10}{'/ numpy':>10}")
    for name in COMMANDS:
        if name not in quartile:
            print(f"{name:40}{'does not run':>20}")
            continue
        seconds_taken = quartile[name]
        print(
            f"{name:40}{seconds_taken * 1e3:8.0f}{seconds_taken / quartile['python -c pass']:10.1f}"
            f"{seconds_taken / quartile['import numpy']:10.1f}"
        )


if __name__ == "__main__":
    main()
