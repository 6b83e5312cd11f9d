"""Workers that are copies of a process that has loaded what they need."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from .commands import folder_of_traps  # type: ignore[import-not-found]

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere workers are not copies of one process")

SCRIPT = """
held = open(HELD, "w")
print("once")
import sys
from multiprocessing import forkserver
from pathlib import Path

from ltr_harness import run_experiment
from ltr_harness.experiments.training.pool import new_pool, worker_context

result = run_experiment(CONFIG, runs=RUNS, workers=2)
print({run.record.status for run in result.runs}, result.comparison.models)
with new_pool(1, worker_context()) as one:
    one.submit(exec, "import multiprocessing as m; p = m.get_context('forkserver').Process(target=len, args=([],)); "
               "p.start(); p.join(); print('exit', p.exitcode)").result(60)
    print("hook of its own:", one.submit(eval, "__import__('sys').excepthook.__module__").result(60))
server = Path(f"/proc/{forkserver._forkserver._forkserver_pid}")
print("holds files of its owner:", any("held" in str(file.readlink()) for file in (server / "fd").iterdir()))
print("hook here:", sys.excepthook is sys.__excepthook__)
"""


@pytest.mark.long
@LINUX
def test_workers_are_copies_of_a_process_that_has_loaded_all(
    small_config: dict[str, Any], tmp_path: Path
) -> None:
    """They import neither the script, which needs no main guard, nor anything from the current folder."""
    small_config["models"] = {name: small_config["models"][name] for name in ("lgbm", "xgb")}
    small_config["seeds"] = [1]
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(small_config))
    named = {"HELD": tmp_path / "held", "CONFIG": tmp_path / "small.yaml", "RUNS": tmp_path / "runs"}
    script = SCRIPT
    for name, path in named.items():
        script = script.replace(name, repr(str(path)))
    (tmp_path / "scripts").mkdir()
    file = tmp_path / "scripts" / "script.py"
    file.write_text(script)
    here, executed = folder_of_traps(tmp_path)
    command = [sys.executable, str(file)]
    said = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=here)
    assert not executed.exists(), executed.read_text()
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.splitlines() == [
        "once",
        "{'complete'} ('lgbm', 'xgb')",
        "exit 0",
        "hook of its own: ltr_harness.experiments.training.preloaded",
        "holds files of its owner: False",
        "hook here: True",
    ]


WITHOUT_SKLEARN = """
from pathlib import Path
from ltr_harness.experiments.training.pool import new_pool, worker_context

with new_pool(1, worker_context(sklearn=False)) as one:
    print(one.submit(eval, "__import__('lightgbm').compat.SKLEARN_INSTALLED").result(60), Path(IMPORTED).exists())
    print(one.submit(eval, "__import__('sklearn').__name__").result(60), Path(IMPORTED).exists())
"""


@pytest.mark.long
@LINUX
def test_boosters_load_without_scikit_learn_and_others_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    imported = tmp_path / "imported"
    (tmp_path / "sklearn.py").write_text(f"from pathlib import Path\nPath({str(imported)!r}).touch()\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    script = WITHOUT_SKLEARN.replace("IMPORTED", repr(str(imported)))
    said = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False
    )
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.splitlines() == ["False False", "sklearn True"]


@pytest.mark.parametrize(
    ("change", "needed"),
    [
        ({}, False),
        ({"models": {"a": {"ranker": "sklearn", "estimator": "linear_model.Ridge"}}}, True),
        ({"models": {"a": {"ranker": "./mine.py:Mine"}}}, True),
        ({"models": {"a": {"ranker": "of-another-package"}}}, True),
        ({"metrics": {"report": ["ndcg", "./mine.py:Mine"]}}, True),
        (
            {"models": {"a": {"ranker": "blend", "models": ["lgbm", "xgb"]}, "b": {"ranker": "catboost"}}},
            False,
        ),
        ({"models": None}, False),
    ],
)
def test_who_may_need_scikit_learn(
    small_config: dict[str, Any], change: dict[str, Any], needed: bool
) -> None:
    from ltr_harness.cli.commands.run import _may_need_sklearn
    from ltr_harness.experiments.config.expand import merged_tree

    assert _may_need_sklearn(merged_tree(small_config | change)) == needed
