"""A metric, ranker, reader, section, format and command is one file in its folder and one line in its table."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from ltr_harness import cli, metrics
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.data import readers
from ltr_harness.experiments.config import report_parts
from ltr_harness.metrics.table import METRICS
from ltr_harness.models import table as rankers
from ltr_harness.models.trees import formats
from ltr_harness.report import sections

FILES = {
    "metrics/added.py": '''
"""Whether the row on top is relevant."""

from dataclasses import dataclass
from typing import ClassVar

from ltr_harness.metrics.success import Success


@dataclass(frozen=True, kw_only=True)
class Added(Success):
    """Success under another name."""

    name: ClassVar[str] = "added"
''',
    "models/added.py": '''
"""Chance under another name."""

from ltr_harness.models.random import RandomRanker


class Added(RandomRanker):
    pass
''',
    "data/readers/added.py": '''
"""Two queries of three rows, whatever the files are called."""

import numpy as np

from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.queries import QueryGroups
from ltr_harness.data.readers.memory import from_arrays
from ltr_harness.data.readers.reader import Reader


class Added(Reader):
    default_splits = {"train": ("a",), "valid": ("b",), "test": ("c",)}
    highest: int = 1

    def read(self, files, root):
        n = len(files[0])
        labels = np.array([0, self.highest, 0, 0, 0, self.highest])
        features = np.arange(12.0).reshape(6, 2) + ord(files[0])
        return from_arrays(features, labels, group_sizes=[3, 3], source=files[0])
''',
    "report/sections/added.py": '''
"""What is new?"""

from ltr_harness.report.blocks import Heading, Paragraph


def section(data):
    return [Heading("Added"), Paragraph(f"{len(data.models)} models at {data.primary}.")]
''',
    "models/trees/formats/added.py": '''
"""A dump under another name."""

from ltr_harness.models.trees.formats.dump import Dump


class Added(Dump):
    name = "added"
''',
    "cli/commands/added.py": '''
"""`ltr-harness added`."""

import click


@click.command("added")
def command():
    """Says hello."""
    click.echo("hello")
    return 0
''',
}

EXPERIMENT = {
    "name": "added",
    "data": {"reader": "added", "highest": 3, "max_grade": 3},
    "metrics": {"cutoffs": [1], "report": ["added", "ndcg"], "primary": "added@1"},
    "stopping": None,
    "models": {"one": {"ranker": "added"}, "two": {"ranker": "random"}},
    "seeds": [1],
}


@pytest.fixture
def added_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The package with one file more in each folder and one line more in each table."""
    places = {
        "metrics": metrics,
        "models": importlib.import_module("ltr_harness.models"),
        "data/readers": readers,
        "report/sections": sections,
        "models/trees/formats": formats,
        "cli/commands": importlib.import_module("ltr_harness.cli.commands"),
    }
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
        package = places[name.rpartition("/")[0]]
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(path.parent)])
    monkeypatch.setitem(METRICS, "added", "ltr_harness.metrics.added:Added")
    monkeypatch.setitem(rankers.RANKERS, "added", "ltr_harness.models.added:Added")
    monkeypatch.setitem(readers.READERS, "added", "ltr_harness.data.readers.added:Added")
    monkeypatch.setitem(report_parts.SECTIONS, "added", "ltr_harness.report.sections.added:section")
    monkeypatch.setitem(formats.FORMATS, "added", "ltr_harness.models.trees.formats.added:Added")
    monkeypatch.setitem(cli.COMMANDS["Setup"], "added", "Says hello.")
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("ltr_harness.") and name.endswith(".added")]:
        del sys.modules[name]


@pytest.mark.long
def test_one_of_each_is_used_by_an_experiment(
    added_package: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = added_package / "experiment.yaml"
    path.write_text(yaml.safe_dump(EXPERIMENT))
    runs = added_package / "runs"
    code = run_command(cli.cli, ["run", str(path), "--runs", str(runs), "--workers", "1"])
    said = capsys.readouterr()
    assert code == 0, said.err
    page = (runs / "added" / "report" / "report.html").read_text()
    assert "2 models at added@1." in page
    assert (
        "Whether the row on top is relevant" not in page
    )  # the class's docstring defines it, not the file's
    assert "Success under another name" in page


@pytest.mark.parametrize("kind", ["metrics", "rankers", "readers", "sections"])
def test_one_of_each_is_listed(added_package: Path, capsys: pytest.CaptureFixture[str], kind: str) -> None:
    assert run_command(cli.cli, ["list", kind]) == 0
    assert "added" in capsys.readouterr().out


def test_a_command_is_in_the_help_and_runs(added_package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(cli.cli, ["--help"]) == 0
    assert "Says hello." in capsys.readouterr().out
    assert run_command(cli.cli, ["added"]) == 0
    assert capsys.readouterr().out == "hello\n"


def test_a_format_is_written_and_read(
    added_package: Path, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    [run] = (repository / "tests" / "experiments" / "runs" / "frozen" / "v1").glob("lgbm--*")
    command = ["export", "model", str(run), "--to", "added", "-o", str(added_package / "model.json")]
    assert run_command(cli.cli, command) == 0
    assert "24 of 24" in capsys.readouterr().out
