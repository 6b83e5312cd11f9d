"""Two commands run the same experiment at the same time: both end well, in the numbers of one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.experiments.runs import find_runs

from .commands import Command  # type: ignore[import-not-found]

pytestmark = pytest.mark.long


def numbers(runs: Path) -> dict[str, object]:
    return {run.path.name: (run.record.metrics, run.record.files) for run in find_runs(runs / "small")}


@pytest.mark.parametrize("more", [(), pytest.param(("--force",), marks=pytest.mark.slow)])
def test_two_at_once(
    small_file: Path, tmp_path: Path, more: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    page = "- html\n  - json\n  sections:\n  - verdict\n"
    small_file.write_text(small_file.read_text().replace("- json\n", page))
    both = tmp_path / "both"
    arguments = ("run", small_file, "--runs", both, *more)
    commands = [Command(tmp_path / f"said{n}", *arguments, "--workers", str(n)) for n in (1, 2)]
    (code, said, _), other = (command.wait() for command in commands)
    assert code == other[0] == 0, [command.stderr for command in commands]
    assert said == other[1]  # the same table and the same path
    assert run_command(cli, ["run", str(small_file), "--runs", str(tmp_path / "alone")]) == 0
    table, _ = capsys.readouterr()
    assert said == table.replace(str(tmp_path / "alone"), str(both))
    assert numbers(both) == numbers(tmp_path / "alone")
    assert not list((both / "small").glob(".*"))
    report = both / "small" / "report"
    assert (report / "report.html").read_text().rstrip().endswith("</html>")
    assert json.loads((report / "report.json").read_text())
