"""A disk that fills up anywhere: what finished is kept, nothing half-written is believed, the next command goes on."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ltr_harness import run_experiment
from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.experiments.runs import find_runs
from ltr_harness.workflow import ExperimentResult

from .commands import Command  # type: ignore[import-not-found]

pytestmark = pytest.mark.long


class SmallDisk:
    """A file system of a given size, in memory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def resize(self, kilobytes: int) -> None:
        mounted = self.folder.is_mount()
        options = f"{'remount,' if mounted else ''}size={kilobytes}k"
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self.folder)],
            check=True,
            capture_output=True,
        )


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    folder = tmp_path / "disk"
    folder.mkdir()
    small = SmallDisk(folder)
    try:
        small.resize(64)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("mounting a small file system needs root")
    yield small
    subprocess.run(["umount", "-l", str(folder)], check=True)


def numbers(runs: Path) -> dict[str, Any]:
    return {run.path.name: (run.record.metrics, run.record.files) for run in find_runs(runs / "small")}


@pytest.mark.parametrize("points", [3, pytest.param(15, marks=pytest.mark.slow)])
def test_a_disk_that_fills_at_many_points(
    small_config: dict[str, Any], disk: SmallDisk, trained_experiment: ExperimentResult, points: int
) -> None:
    small_config["report"] = {"formats": ["html", "json"], "sections": ["verdict"]}
    runs = sum(path.stat().st_size for run in trained_experiment.runs for path in run.path.iterdir()) // 1024
    kept = 0
    full = 0
    for point in range(points):
        disk.resize(runs * (point + 1) // points)
        try:
            run_experiment(small_config, runs=disk.folder)
        except OSError:
            full += 1
        finished = (
            [run for run in find_runs(disk.folder / "small") if run.record.status == "complete"]
            if (disk.folder / "small").is_dir()
            else []
        )
        assert len(finished) >= kept  # nothing finished is lost
        kept = len(finished)
        for run in finished:  # and what is there is whole
            assert run.per_query.shape[0] == 40
            assert run.test_scores["score"].notna().all()
    assert full >= 2
    disk.resize(200_000)
    done = run_experiment(small_config, runs=disk.folder)
    assert done.reused >= kept
    assert numbers(disk.folder) == numbers(trained_experiment.folder.parent)
    assert not list((disk.folder / "small").glob(".*"))
    assert done.report_path is not None
    assert done.report_path.read_text().rstrip().endswith("</html>")


def test_a_report_that_does_not_fit_costs_the_report_alone(
    small_config: dict[str, Any], disk: SmallDisk, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small_config["models"] = {
        "random": {"ranker": "random"},
        "feature": {"ranker": "feature", "feature": "match_1"},
    }
    small_config["report"] = {"formats": ["html", "json"]}
    (tmp_path / "e.yaml").write_text(json.dumps(small_config))
    command = ["run", str(tmp_path / "e.yaml"), "--runs", str(disk.folder), "--workers", "1"]
    disk.resize(600)  # the page alone has more
    assert run_command(cli, command) == 1
    out, err = capsys.readouterr()
    assert "feature  " in out  # the results come first
    assert f"error: {disk.folder}/small/report/report.html: No space left on device; free some space" in err
    assert len(find_runs(disk.folder / "small")) == 3
    assert not list((disk.folder / "small" / "report").iterdir())
    disk.resize(20_000)
    assert run_command(cli, command) == 0
    assert "every run exists already" in capsys.readouterr().err


def test_a_full_disk_is_said_in_words(small_file: Path, disk: SmallDisk, tmp_path: Path) -> None:
    disk.resize(64)
    code, _, said = Command(tmp_path, "run", small_file, "--runs", disk.folder, "--workers", "2").wait()
    assert code == 1
    assert "free some space and run the same command again, what finished is kept" in said
    assert "Traceback" not in said
    assert "defect" not in said
