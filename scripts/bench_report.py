"""The cost of a large report: 10 models, 6,000 queries, 7 metrics, in a fresh process.

Nothing is trained: the models are random rankers of three seeds and single features, whose stored runs are as
large as any.
Printed are the seconds of the statistics and of the report after them, the first time (nothing cached, the charts'
program is bundled) and again; the page's size; and, where chromium is there, how long the page takes to open.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import chromium

FEATURES = ("match_1", "match_2", "match_3", "match_4", "match_5")

MEASURE = """
import gc, sys, threading, time
from pathlib import Path
from ltr_harness.report import write_report
from ltr_harness.report.writing import warm_up
from ltr_harness.report.data import stored_data

def now():
    return time.process_time(), time.perf_counter()

def say(what, since):
    at = now()
    print(f"  {what}: {at[0] - since[0]:.1f} s of CPU time, {at[1] - since[1]:.1f} s by the clock")
    return at

began = now()
gc.set_threshold(50_000, 20, 100)  # as `ltr-harness report` does, like the next line
threading.Thread(target=warm_up, daemon=True).start()
data = stored_data([Path(sys.argv[1])])
data.comparison.verdict
began = say("imports and statistics", began)
path = write_report(data, sys.argv[2])
say("report", began)
"""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--queries", type=int, default=6000)
    parser.add_argument("--models", type=int, default=10)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        train(Path(folder), arguments.models, arguments.queries)
        page = Path(folder) / "report"
        environment = {**os.environ, "XDG_CACHE_HOME": f"{folder}/cache"}
        for time in ("first", "again"):
            print(f"{time}:", flush=True)
            command = [sys.executable, "-c", MEASURE, f"{folder}/large", str(page)]
            subprocess.run(command, check=True, env=environment)
        print(f"report.html: {(page / 'report.html').stat().st_size / 1e6:.2f} MB")
        opening = opening_of(page / "report.html")
        if isinstance(opening, str):
            print(f"opening: not measured, {opening}")
        else:
            ready, drawn = opening
            print(f"opening: readable after {ready:.2f} s, the last chart drawn after {drawn:.2f} s")
    return 0


def train(folder: Path, models: int, queries: int) -> None:
    """Make the runs of an experiment called large."""
    from ltr_harness import run_experiment

    rankers = {f"feature-{name}": {"ranker": "feature", "feature": name} for name in FEATURES}
    rankers |= {f"random-{number}": {"ranker": "random"} for number in range(models - len(FEATURES))}
    config = {
        "name": "large",
        "seeds": [1, 2, 3],
        "data": {
            "reader": "synthetic",
            "n_queries": {"train": 20, "valid": 10, "test": queries},
            "max_grade": 4,
        },
        "metrics": {
            "cutoffs": [10],
            "report": ["ndcg", "mrr", "err", "map", "precision", "recall", "rbp(p=0.8)"],
            "primary": "ndcg@10",
        },
        "models": rankers,
        "compare": {"baseline": next(iter(rankers))},
    }
    run_experiment(config, runs=folder)


def opening_of(page: Path) -> tuple[float, float] | str:
    """Seconds until the page can be read and until its last chart is drawn, medians of five; or why there are none."""
    # what people read reports with, where it is there
    path = chromium.find((*chromium.WITH_WINDOW, *chromium.NAMES))
    if path is None or find_spec("playwright") is None:
        return "needs chromium and the package playwright"
    found = []
    with chromium.launched(path) as browser:
        for _ in range(5):
            tab = browser.new_page(viewport={"width": 1280, "height": 900})
            tab.goto(page.as_uri())
            ready = tab.evaluate("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd")
            while not tab.evaluate(
                "[...document.querySelectorAll('.plot:not([hidden] *)')].every((plot) => plot.dataset.drawn)"
            ):
                tab.wait_for_timeout(20)
            found.append((ready / 1000, tab.evaluate("performance.now()") / 1000))
            tab.close()
    ready, drawn = (sorted(column)[2] for column in zip(*found, strict=True))
    return ready, drawn


if __name__ == "__main__":
    sys.exit(main())
