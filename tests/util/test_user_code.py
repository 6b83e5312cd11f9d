"""The digest of a user's own file is that of the code which runs, the modules beside it that it imports included."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ltr_harness import parse_metric, run_experiment
from ltr_harness._util.catalog import load_own_file
from ltr_harness._util.user_code import (
    code_digest,
    distribution_of,
    imported_modules,
    installed_names,
    installed_version,
)
from ltr_harness.errors import UsageError
from ltr_harness.experiments.config import load_experiment
from ltr_harness.experiments.runs import find_runs
from ltr_harness.experiments.training.job import Job, changed_files, other_files, ranker_definition
from ltr_harness.experiments.training.progress import Progress


def write_modules(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def names(folder: Path, file: str) -> list[str]:
    return [path.relative_to(folder).as_posix() for path in imported_modules(folder / file)]


@pytest.mark.parametrize(
    ("source", "imported"),
    [
        ("import numpy as np\nimport os.path\n", []),
        ("import helper\n", ["helper.py"]),
        ("from helper import *\n", ["helper.py"]),
        ("def f():\n    import helper\n", ["helper.py"]),
        ("import importlib\nx = importlib.import_module('helper')\n", ["helper.py"]),
        ("x = __import__('helper')\n", ["helper.py"]),
        ("import second\n", ["helper.py", "second.py"]),
        ("from tools import scale\n", ["tools/__init__.py", "tools/base.py", "tools/scale.py"]),
        ("import tools.base\n", ["tools/__init__.py", "tools/base.py"]),
        ("from loose.part import x\n", ["loose/part.py"]),
        ("import circle\n", ["circle.py", "other.py"]),
        ("import broken\n", ["broken.py"]),
        ("import ltr_harness.metrics\n", []),
        ("from . import helper\n", ["helper.py"]),
        ("from .. import helper\n", []),
    ],
    ids=lambda value: value.splitlines()[-1].strip() if isinstance(value, str) else "",
)
def test_what_a_file_imports_from_its_folder(tmp_path: Path, source: str, imported: list[str]) -> None:
    beside = {
        "helper": "",
        "second": "import helper",
        "tools/__init__": "",
        "tools/scale": "from .base import x",
        "tools/base": "x = 1",
        "loose/part": "x = 1",
        "circle": "import other",
        "other": "import circle, own",
        "broken": "this is no Python",
        "ltr_harness/metrics": "",
    }
    write_modules(tmp_path, {"own": source, **beside})
    assert names(tmp_path, "own.py") == imported


def test_the_digest_of_a_file_alone_is_that_of_its_bytes(tmp_path: Path) -> None:
    write_modules(tmp_path, {"own": "import math\n"})
    assert code_digest(tmp_path / "own.py") == hashlib.sha256(b"import math\n").hexdigest()


def test_the_digest_moves_with_every_file_and_with_no_place(tmp_path: Path) -> None:
    files = {"own": "import helper", "helper": "from part import x", "part": "x = 1"}
    first = code_digest(write_modules(tmp_path / "a", files) / "own.py")
    assert code_digest(write_modules(tmp_path / "b", files) / "own.py") == first
    others = {first}
    for name, text in files.items():
        others.add(
            code_digest(write_modules(tmp_path / f"c-{name}", {**files, name: f"{text}\n"}) / "own.py")
        )
    renamed = {"own": "import helper", "helper": "from part import x", "part2": "x = 1"}
    others.add(code_digest(write_modules(tmp_path / "d", renamed) / "own.py"))
    assert len(others) == 5


def test_a_file_that_changes_is_executed_again_in_the_same_process(tmp_path: Path) -> None:
    own = tmp_path / "own.py"
    own.write_text("VALUE = 1\n")
    assert load_own_file(f"{own}:VALUE") == 1
    module = sys.modules[load_own_file(f"{own}:__name__")]
    assert load_own_file(f"{own}:VALUE") == 1
    assert sys.modules[load_own_file(f"{own}:__name__")] is module  # executed once while it is the same
    own.write_text("VALUE = 2\n")  # of one size and second: Python's own cache would not notice
    assert load_own_file(f"{own}:VALUE") == 2


def test_a_module_that_changes_is_executed_again_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    write_modules(tmp_path, {"own": "from own_files_helper import VALUE", "own_files_helper": "VALUE = 1"})
    assert load_own_file(f"{tmp_path}/own.py:VALUE") == 1
    write_modules(tmp_path, {"own_files_helper": "VALUE = 2"})
    assert load_own_file(f"{tmp_path}/own.py:VALUE") == 2


def test_a_file_that_leaves_is_a_message(tmp_path: Path) -> None:
    write_modules(tmp_path, {"own": "import sys\nsys.exit(0)"})
    with pytest.raises(UsageError, match="cannot be imported: SystemExit: 0"):
        load_own_file(f"{tmp_path}/own.py:X")


OWN = """
from dataclasses import replace
from experiment_helper import FIRST
from ltr_harness.models.feature import FeatureRanker
from ltr_harness.models.random import RandomRanker
from ltr_harness.data.readers.synthetic import Synthetic

class Ranker(FeatureRanker):
    feature: str = FIRST

    @property
    def hidden(self): return FIRST

    def fit(self, training):
        return FeatureRanker(feature=FIRST).fit(training)

class Seeded(RandomRanker): pass

class Reader(Synthetic):
    def inputs(self, files, root): return (root / "file.txt",)

    def read(self, files, root):
        found = super().read(["test"], root)
        return replace(found, features=found.features[:, ::-1].copy() if FIRST == "match_2" else found.features)

def metric(labels, scores): return float(FIRST == "match_1")
"""
HELPER = 'FIRST = "{}"\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, without_report: None) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "file.txt").touch()
    return write_modules(tmp_path, {"own": OWN, "experiment_helper": HELPER.format("match_1")})


def config(**changes: Any) -> dict[str, Any]:
    return {
        "name": "own",
        "data": {
            "reader": "synthetic",
            "n_queries": {"train": 20, "valid": 10, "test": 20},
            "n_features": 12,
        },
        "metrics": {"cutoffs": [3], "report": ["ndcg"], "primary": "ndcg@3"},
        "models": {"one": {"ranker": "feature", "feature": "match_1"}},
        **changes,
    }


def one_run(settings: dict[str, Any], accept: Sequence[str] = ()) -> tuple[int, Any]:
    """Run the experiment and return the number of reused runs, and the run."""
    result = run_experiment(settings, runs="runs", accept=accept)
    assert not result.failures, result.failures[0].record.error
    return result.reused, find_runs(Path("runs/own"))[0]


@pytest.mark.long
def test_a_ranker_whose_module_changes_is_trained_again(folder: Path) -> None:
    settings = config(models={"one": {"ranker": "./own.py:Ranker", "feature": "match_1"}})
    _, first = one_run(settings)
    assert one_run(settings)[0] == 1
    write_modules(folder, {"experiment_helper": HELPER.format("match_2")})
    reused, second = one_run(settings)
    assert reused == 0
    assert second.record.identity != first.record.identity
    assert second.record.metrics != first.record.metrics


@pytest.mark.long
def test_a_metric_whose_module_changes_is_evaluated_again(folder: Path) -> None:
    own = "./own.py:metric(higher_is_better=true)"
    settings = config(metrics={"cutoffs": [3], "report": ["ndcg", own], "primary": "ndcg@3"})
    assert one_run(settings)[1].record.metrics["metric"].mean == 1.0
    write_modules(folder, {"experiment_helper": HELPER.format("match_2")})
    assert one_run(settings)[1].record.metrics["metric"].mean == 0.0
    assert parse_metric(own).digest == code_digest(folder / "own.py")


@pytest.mark.long
def test_what_was_read_by_a_reader_whose_module_changes_is_read_again(folder: Path) -> None:
    splits = {"train": ["a"], "valid": ["b"], "test": ["c"]}
    data = {**config()["data"], "reader": "./own.py:Reader", "root": str(folder), "splits": splits}
    accept = ["query-in-two-splits"]  # the reader gives every split the same queries
    before = one_run(config(data=data), accept)[1].record.data["test"].fingerprint
    write_modules(folder, {"experiment_helper": HELPER.format("match_2")})
    assert one_run(config(data=data), accept)[1].record.data["test"].fingerprint != before


@pytest.mark.long
def test_a_ranker_of_an_installed_package_goes_by_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ltr_harness.experiments.config.schema import ModelConfig
    from ltr_harness.models.random import RandomRanker

    class Theirs(RandomRanker):
        pass

    Theirs.__module__ = "their_module.rankers"
    assert ranker_definition(ModelConfig(ranker_name="random", ranker=RandomRanker()))["ranker"] == "random"
    install(tmp_path, "3", "first")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])  # all packages of this environment take a second
    facts = ranker_definition(ModelConfig(ranker_name="theirs", ranker=Theirs()))
    assert facts["ranker"] == "theirs their_module.rankers 3"


class Edit(Progress):
    """Somebody edits the ranker's module when the plan is made and no worker has begun."""

    def planned(self, job: Job) -> None:
        Path("experiment_helper.py").write_text(HELPER.format("match_2"))


@pytest.mark.long
def test_workers_refuse_code_that_is_not_that_of_the_plan(folder: Path) -> None:
    settings = config(models={"one": {"ranker": "./own.py:Seeded"}}, seeds=[1, 2])
    with pytest.raises(UsageError) as refused:
        run_experiment(settings, runs="runs", workers=2, progress=Edit())
    helper = folder / "experiment_helper.py"
    assert str(refused.value) == f"{helper}: has changed since the command began; run it again"
    assert not list(Path("runs/own").glob("one--*"))


def test_what_a_worker_elsewhere_must_have(folder: Path) -> None:
    scores = folder / "scores.txt"
    scores.write_text("1\n2\n")
    own = "./own.py:metric(higher_is_better=true)"
    settings = config(
        models={"theirs": {"ranker": "scores", "file": str(scores)}},
        metrics={"cutoffs": [3], "report": ["ndcg", own], "primary": "ndcg@3"},
    )
    files = other_files(load_experiment(settings))
    assert sorted(Path(path).name for path in files) == ["experiment_helper.py", "own.py", "scores.txt"]
    assert changed_files(files) == []
    (folder / "own.py").unlink()
    scores.write_text("2\n1\n")
    assert sorted(Path(path).name for path in changed_files(files)) == ["own.py", "scores.txt"]


def test_modules_of_one_name_beside_two_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder, value in (("a", 1), ("b", 2)):
        files = {"own": "from own_files_helper import VALUE", "own_files_helper": f"VALUE = {value}"}
        write_modules(tmp_path / folder, files)
        monkeypatch.syspath_prepend(tmp_path / folder)
        assert load_own_file(f"{tmp_path / folder}/own.py:VALUE") == value


def test_files_of_one_folder_share_its_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    write_modules(tmp_path, {"own_files_helper": "class Shared: pass"})
    for name in ("first", "second"):
        write_modules(tmp_path, {name: "from own_files_helper import Shared"})
    first, second = (load_own_file(f"{tmp_path}/{name}.py:Shared") for name in ("first", "second"))
    assert first is second


def install(site: Path, version: str, name: str) -> None:
    """Write the files of an installed package of one version that adds `name` to a group of entry points."""
    for old in site.glob("*.dist-info"):
        shutil.rmtree(old)
    about = site / f"theirs-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: theirs\nVersion: {version}\n")
    (about / "entry_points.txt").write_text(f"[some.group]\n{name} = their_module:Thing\n")
    (about / "top_level.txt").write_text("their_module\n")
    os.utime(site, (int(version), int(version)))


def test_what_is_installed_while_a_process_runs_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(tmp_path / "nowhere"), ""])
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert installed_names("some.group") == {}
        assert installed_version("their_module.part") == "of unknown version"
    for version, name in (("1", "first"), ("2", "second")):
        install(tmp_path, version, name)
        for _ in range(2):
            assert {one: point.value for one, point in installed_names("some.group").items()} == {
                name: "their_module:Thing"
            }
            assert installed_names("another.group") == {}
            assert installed_version("their_module.part") == version


def test_what_packages_consist_of_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every identity of a ranker or a metric from outside goes by a version."""
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    install(tmp_path, "1", "first")
    assert installed_version("their_module") == "1"
    for file in ("top_level.txt", "entry_points.txt"):
        assert installed_names("some.group").keys() == {"first"}
        (tmp_path / "theirs-1.dist-info" / file).unlink()  # an installer changes the folder above, too
    assert installed_version("their_module") == "1"
    assert installed_names("some.group").keys() == {"first"}


def test_a_module_belongs_to_the_package_that_lists_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As names or, without them, among its files: `metadata.packages_distributions` knows no more."""
    # each in a folder of the path: in which order one folder lists them is the finder's
    declared, listed = tmp_path / "a" / "first-1.dist-info", tmp_path / "b" / "second-2.dist-info"
    for folder, name in ((declared, "First"), (listed, "Second")):
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (declared / "top_level.txt").write_text("one_of_first\nshared_by_both\n")
    (declared / "RECORD").write_text("not_declared.py,,\n")
    files = [
        "shared_by_both/a.py",
        "a_folder/b/c.py",
        "a_file.py",
        "compiled.cpython-311.so",
        "data_only/d.txt",
    ]
    (listed / "RECORD").write_text("".join(f"{file},,\n" for file in ["../bin/run", *files]))
    for folder in (listed, declared):
        monkeypatch.syspath_prepend(str(folder.parent))
    owners = dict.fromkeys(["one_of_first", "shared_by_both.a"], "First")
    owners |= dict.fromkeys(["a_folder.b", "a_file", "compiled"], "Second") | {"numpy.linalg": "numpy"}
    owners |= dict.fromkeys(["not_declared", "data_only", "a", ""])
    assert {module: distribution_of(module) for module in owners} == owners
