"""The action of .github/actions/gate: its own script, with the inputs that its file declares, on a fresh clone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest
import yaml

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


@pytest.fixture
def gate(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A folder with a clone's action and rankings, and the environment that the action gives its script."""
    shutil.copytree(ACTION, tmp_path / "clone/gate")
    for name, content in {
        "relevant": RELEVANT,
        "live": lists(0),
        "worse": lists(1),
        "alike": lists(0),
    }.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    action = yaml.safe_load((tmp_path / "clone/gate/action.yml").read_text(encoding="utf-8"))
    (step,) = action["runs"]["steps"]
    assert step["run"] == "${{ github.action_path }}/gate.sh"
    inputs = {name: field.get("default", "") for name, field in action["inputs"].items()}
    inputs |= {"baseline": "live.json", "qrels": "relevant.json", "options": "--documents-of '#'"}
    environment = {
        variable: inputs[value.removeprefix("${{ inputs.").removesuffix(" }}")]
        for variable, value in step["env"].items()
    }
    # `ltr-harness` of this installation comes first
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    summary = {"GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"), "PATH": path}
    return tmp_path, {**os.environ, **environment, **summary}


def run(gate: tuple[Path, dict[str, str]], **inputs: str) -> subprocess.CompletedProcess[str]:
    folder, environment = gate
    return subprocess.run(
        [str(folder / "clone/gate/gate.sh")],
        cwd=folder,
        env=environment | inputs,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.long
@pytest.mark.skipif(os.name == "nt", reason="the action runs on Linux and macOS")
def test_the_step_fails_where_a_loss_is_shown(gate: tuple[Path, dict[str, str]]) -> None:
    folder, _ = gate
    passed = run(gate, RANKING="alike.json")
    assert passed.returncode == 0, passed.stderr
    assert f"gate passed: {DEFAULT_RULE}" in passed.stderr
    rules = f"{DEFAULT_RULE}\nmrr@10 < 0.1\njudged@1 of worse < 0.9"
    failed = run(gate, RANKING="worse.json", FAIL_IF=rules, METRIC="mrr@10")
    assert failed.returncode == 3, failed.stderr
    assert "worse: mrr@10" in failed.stderr
    assert "judged@1" in failed.stderr
    assert "gate passed: mrr@10 < 0.1" in failed.stderr
    assert "✅" in (folder / "summary.md").read_text(encoding="utf-8")
    assert "❌" in (folder / "summary.md").read_text(encoding="utf-8")
    assert (folder / "ranking-gate/report.html").is_file()
    cases = Xml.parse(folder / "ranking-gate/gates.xml").getroot().findall("testcase")
    assert [case.find("failure") is not None for case in cases] == [True, False, True]


@pytest.mark.long
@pytest.mark.skipif(os.name == "nt", reason="the action runs on Linux and macOS")
def test_options_are_words_and_no_commands(gate: tuple[Path, dict[str, str]]) -> None:
    folder, _ = gate
    done = run(gate, RANKING="alike.json", OPTIONS="--documents-of '#' --json $(touch stolen); touch stolen")
    assert done.returncode == 2
    assert not (folder / "stolen").exists()
