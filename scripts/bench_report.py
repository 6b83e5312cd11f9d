"""What a large report costs: 10 models, 6,000 queries, 7 metrics, in a fresh process.

Nothing is trained: the models are random rankers of three seeds and single features, whose stored runs are as
large as any.
Printed are processor seconds after the statistics, the page's size, and, where chromium is there, how long the
page takes to open.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FEATURES = ("match_1", "match_2", "match_3", "match_4", "match_5")

MEASURE = """
import sys, time
from pathlib import Path
from ltr_harness.report import DEFAULT_FORMATS, build_report, write_report
from ltr_harness.report.stored import stored_data
from ltr_harness.report.svg import warm_up

warm_up()  # as `ltr-harness report` does meanwhile
began = time.process_time(), time.perf_counter()
data = stored_data([Path(sys.argv[1])])
data.comparison.verdict
statistics = time.process_time(), time.perf_counter()
path = write_report(build_report(data), sys.argv[2], DEFAULT_FORMATS)
ended = time.process_time(), time.perf_counter()
print(f"statistics: {statistics[0] - began[0]:.1f} s of processor, {statistics[1] - began[1]:.1f} s by the clock")
print(f"report: {ended[0] - statistics[0]:.1f} s of processor, {ended[1] - statistics[1]:.1f} s by the clock")
print(f"report.html: {path.stat().st_size / 1e6:.2f} MB")
"""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--queries", type=int, default=6000)
    parser.add_argument("--models", type=int, default=10)
    arguments = parser.parse_args()
    from ltr_harness import run_experiment

    models = {f"feature-{name}": {"ranker": "feature", "feature": name} for name in FEATURES}
    models |= {f"random-{at}": {"ranker": "random"} for at in range(arguments.models - len(FEATURES))}
    config = {
        "name": "large",
        "seeds": [1, 2, 3],
        "data": {
            "reader": "synthetic",
            "n_queries": {"train": 20, "valid": 10, "test": arguments.queries},
            "max_grade": 4,
        },
        "metrics": {
            "cutoffs": [10],
            "report": ["ndcg", "mrr", "err", "map", "precision", "recall", "rbp(p=0.8)"],
            "primary": "ndcg@10",
        },
        "models": models,
        "compare": {"baseline": next(iter(models))},
    }
    with tempfile.TemporaryDirectory() as folder:
        run_experiment(config, runs=folder)
        page = Path(folder) / "report"
        subprocess.run([sys.executable, "-c", MEASURE, f"{folder}/large", str(page)], check=True)
        opening(page / "report.html")
    return 0


def opening(page: Path) -> None:
    """Seconds until the page can be read and until its last chart is drawn; the median of five."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        chromium = None
    if chromium is None:
        print("opening: not measured, needs chromium and the package playwright")
        return
    found = []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for _ in range(5):
            tab = browser.new_page(viewport={"width": 1280, "height": 900})
            tab.goto(page.as_uri())
            ready = tab.evaluate("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd")
            while not tab.evaluate(
                "[...document.querySelectorAll('.plot')].every((plot) => plot.dataset.drawn)"
            ):
                tab.wait_for_timeout(20)
            found.append((ready / 1000, tab.evaluate("performance.now()") / 1000))
            tab.close()
        browser.close()
    ready, drawn = (sorted(column)[2] for column in zip(*found, strict=True))
    print(f"opening: readable after {ready:.2f} s, the last chart drawn after {drawn:.2f} s")


if __name__ == "__main__":
    sys.exit(main())
