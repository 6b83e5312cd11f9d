"""The action of .github/actions/gate: its own script, with the inputs that its file declares, and on a fresh clone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sysconfig
import venv
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest
import yaml

from tests.conftest import recorded_arguments

Ltr = Callable[..., tuple[int, str, str]]
ROOT = Path(__file__).resolve().parents[2]
ACTION = ROOT / ".github/actions/gate"
DEFAULT_RULE = "mrr@10 < baseline and significant"
RELEVANT = {f"q{n}": [f"d{n}"] for n in range(40)}


def lists(place: int) -> dict[str, list[str]]:
    """Each query's answer at a place, as a chunk."""
    found = {}
    for n in range(40):
        ids = [f"d{n + 100}#{other}" for other in range(4)]
        ids.insert(place + n % 2, f"d{n}#7")
        found[f"q{n}"] = ids
    return found


Gate = tuple[Path, Path, dict[str, str]]
"""A folder with rankings, the action's own folder, and the environment that the action gives its script."""


def gate_in(folder: Path, action: Path, bin_folder: Path) -> Gate:
    """Write the rankings, and set what the workflow's step sets."""
    for name, content in {
        "relevant": RELEVANT,
        "live": lists(0),
        "worse": lists(1),
        "alike": lists(0),
    }.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    declared = yaml.safe_load((action / "action.yml").read_text(encoding="utf-8"))
    (step,) = declared["runs"]["steps"]
    assert step["run"] == "${{ github.action_path }}/gate.sh"
    inputs = {name: field.get("default", "") for name, field in declared["inputs"].items()}
    inputs |= {"baseline": "live.json", "qrels": "relevant.json", "options": "--documents-of '#'"}
    environment = {
        variable: inputs[value.removeprefix("${{ inputs.").removesuffix(" }}")]
        for variable, value in step["env"].items()
    }
    path = os.pathsep.join([str(bin_folder), os.environ["PATH"]])
    summary = {"GITHUB_STEP_SUMMARY": str(folder / "summary.md"), "PATH": path}
    return folder, action, {**os.environ, **environment, **summary}


@pytest.fixture
def gate(tmp_path: Path, commands_folder: Path) -> Gate:
    """A copy of the action, with an `ltr-harness` that writes its arguments down."""
    copy = tmp_path / "action"
    shutil.copytree(ACTION, copy)
    return gate_in(tmp_path, copy, commands_folder)


def run(gate: Gate, **inputs: str) -> subprocess.CompletedProcess[str]:
    folder, action, environment = gate
    return subprocess.run(
        [str(action / "gate.sh")],
        cwd=folder,
        env=environment | inputs,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.long
@pytest.mark.skipif(os.name == "nt", reason="the action runs on Linux and macOS")
def test_the_step_fails_where_a_loss_is_shown(gate: Gate, ltr: Ltr, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, *_ = gate
    monkeypatch.chdir(folder)
    assert run(gate, RANKING="alike.json").returncode == 0
    code, _, err = ltr(*recorded_arguments(folder))
    assert code == 0, err
    assert f"gate passed: {DEFAULT_RULE}" in err
    rules = f"{DEFAULT_RULE}\nmrr@10 < 0.1\njudged@1 of worse < 0.9"
    assert run(gate, RANKING="worse.json", FAIL_IF=rules, METRIC="mrr@10", CODE="3").returncode == 3
    code, _, err = ltr(*recorded_arguments(folder))
    assert code == 3, err
    assert "worse: mrr@10" in err
    assert "judged@1" in err
    assert "gate passed: mrr@10 < 0.1" in err
    assert "✅" in (folder / "summary.md").read_text(encoding="utf-8")
    assert "❌" in (folder / "summary.md").read_text(encoding="utf-8")
    assert (folder / "ranking-gate/report.html").is_file()
    cases = Xml.parse(folder / "ranking-gate/gates.xml").getroot().findall("testcase")
    assert [case.find("failure") is not None for case in cases] == [True, False, True]


@pytest.mark.skipif(os.name == "nt", reason="the action runs on Linux and macOS")
def test_options_are_words_and_no_commands(gate: Gate) -> None:
    folder, *_ = gate
    run(gate, RANKING="alike.json", OPTIONS="--documents-of '#' --json $(touch stolen); touch stolen")
    words = recorded_arguments(folder)
    assert words[words.index("--documents-of") :] == [
        "--documents-of", "#", "--json", "$(touch", "stolen);", "touch", "stolen",
    ]  # fmt: skip
    assert not (folder / "stolen").exists()


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="the action runs on Linux and macOS")
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="this is no clone of the repository")
def test_the_step_installs_a_fresh_clone_and_compares_with_its_frozen_baseline(tmp_path: Path) -> None:
    clone = tmp_path / "ltr-harness"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    venv.create(tmp_path / "venv", with_pip=True)
    binaries = tmp_path / "venv" / "bin"
    # the dependencies of this installation, but for the package itself: an editable one is a file that is not read
    packages = next((tmp_path / "venv").rglob("site-packages"))
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    folder, action, environment = gate_in(tmp_path, clone / ".github/actions/gate", binaries)
    environment.pop("PYTHONPATH", None)
    # nothing is fetched, and nothing outside this environment is touched; pip's variable means the contrary
    offline = {
        "PIP_NO_BUILD_ISOLATION": "0",
        "PIP_NO_DEPS": "1",
        "PIP_IGNORE_INSTALLED": "1",
        "PIP_NO_INDEX": "1",
    }
    environment |= {**offline, "NUMBA_CACHE_DIR": str(tmp_path / "numba")}
    fresh = folder, action, environment
    installed = run(fresh, RANKING="alike.json", INSTALL=str(clone), REPORT="baseline")
    assert installed.returncode == 0, installed.stderr
    where = subprocess.run(
        [binaries / "python", "-c", "import ltr_harness; print(ltr_harness.__file__)"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert where.stdout.startswith(str(packages)), "the clone is what ran"
    # the folder of a report is a baseline, and the next build installs nothing
    failed = run(fresh, BASELINE="baseline", RANKING="worse.json")
    assert failed.returncode == 3, failed.stderr
    assert "worse: mrr@10" in failed.stderr
    cases = Xml.parse(folder / "ranking-gate/gates.xml").getroot().findall("testcase")
    assert [case.find("failure") is not None for case in cases] == [True]
