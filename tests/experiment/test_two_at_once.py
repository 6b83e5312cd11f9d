"""Two commands run the same experiment at the same time: both end well, in the numbers of one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ltr_harness.cli import cli
from ltr_harness.cli.ending import run_command
from ltr_harness.runs import find_runs

pytestmark = pytest.mark.long


def start(config: Path, runs: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "ltr_harness", "run", str(config), "--runs", str(runs), *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def numbers(runs: Path) -> dict[str, object]:
    return {run.path.name: (run.record.metrics, run.record.files) for run in find_runs(runs / "small")}


@pytest.mark.parametrize("more", [(), pytest.param(("--force",), marks=pytest.mark.slow)])
def test_two_at_once(
    small_file: Path, tmp_path: Path, more: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    page = "- html\n  - json\n  sections:\n  - verdict\n"
    small_file.write_text(small_file.read_text().replace("- json\n", page))
    both = tmp_path / "both"
    one, two = (start(small_file, both, *more, "--workers", str(n)) for n in (1, 2))
    said = [process.communicate(timeout=240) for process in (one, two)]
    assert [one.returncode, two.returncode] == [0, 0], said
    assert said[0][0] == said[1][0]  # the same table and the same path
    assert run_command(cli, ["run", str(small_file), "--runs", str(tmp_path / "alone")]) == 0
    table, _ = capsys.readouterr()
    assert said[0][0] == table.replace(str(tmp_path / "alone"), str(both))
    assert numbers(both) == numbers(tmp_path / "alone")
    assert not list((both / "small").glob(".*"))
    report = both / "small" / "report"
    assert (report / "report.html").read_text().rstrip().endswith("</html>")
    assert json.loads((report / "report.json").read_text())
