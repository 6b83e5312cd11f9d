"""A light installation, without boosters and the engine of the charts, in an environment of its own."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import importlib.util, json, random
assert not any(map(importlib.util.find_spec, ["lightgbm", "xgboost", "vl_convert"]))
from ltr_harness import compare, evaluate, evaluate_runs
from ltr_harness.report import ReportData, write_report

random.seed(1)
qrels = {f"q{n}": {f"d{place}": random.randrange(3) for place in range(10)} for n in range(40)}
runs = {
    name: {
        query: sorted(grades, key=lambda d: -grades[d] - noise * random.gauss(0, 1))
        for query, grades in qrels.items()
    }
    for name, noise in {"old": 2, "new": 0.5}.items()
}
for name, table in {"qrels": qrels, **runs}.items():
    with open(f"{name}.json", "w") as file:
        json.dump(table, file)
comparison = compare(evaluate_runs(qrels, runs, ["ndcg@5", "mrr@5"]))
assert comparison.paired("new").verdict == "better"
assert evaluate([2, 0, 1], [0.1, 0.3, 0.2], group_sizes=[3], metrics=["ndcg@3"])["ndcg@3"].mean > 0
print(write_report(ReportData(comparison, (), (), None, "light"), "report", ["html", "md", "json", "svg"]))
"""


@pytest.mark.slow
def test_rankings_are_evaluated_and_compared_without_boosters_and_charts(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    built = ["-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(wheels), str(ROOT)]
    subprocess.run([sys.executable, *built], check=True)
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    (block,) = re.findall(r'```bash title="light.sh"\n(.*?)```', page, re.DOTALL)
    assert len(block.splitlines()) == 3
    for line in block.splitlines():
        words = shlex.split(line)[1:]
        files = [str(next(tmp_path.glob(word))) if "*" in word else word for word in words]
        subprocess.run([python, "-m", "pip", *files, "-q"], check=True)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["NUMBA_CACHE_DIR"] = str(tmp_path / "numba")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [python, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
        )

    done = run("-c", PROGRAM)
    assert done.stderr.count("not installed") == 1, done.stderr  # a single note
    html = (tmp_path / "report" / "report.html").read_text(encoding="utf-8")
    assert "vl-convert-python is not installed" in html
    assert "<svg" in html or 'class="plot' in html  # marks in tables need no engine
    compared = run(
        "-m",
        "ltr_harness",
        "compare",
        "old.json",
        "new.json",
        "--qrels",
        "qrels.json",
        "-m",
        "ndcg@5",
        "-o",
        "out",
    )
    assert "new is better than old" in compared.stdout
    evaluated = run("-m", "ltr_harness", "evaluate", "--qrels", "qrels.json", "--run", "new.json", "--json")
    assert json.loads(evaluated.stdout)
    diagnoses = json.loads(run("-m", "ltr_harness", "doctor", "--json").stdout)
    assert "failed" not in {diagnosis["status"] for diagnosis in diagnoses}
    packages = next((tmp_path / "venv").rglob("site-packages"))
    sizes = {
        folder.name: sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        for folder in packages.iterdir()
        if folder.is_dir() and folder.name not in ("pip", "setuptools")
    }
    total = sum(sizes.values()) / 2**20
    largest = sorted(sizes.items(), key=lambda pair: -pair[1])[:8]
    print(f"light: {total:.0f} MiB;", ", ".join(f"{name} {size / 2**20:.0f}" for name, size in largest))
    assert total < 750  # the whole installation has twice as much
