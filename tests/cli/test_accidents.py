"""A moment of what `scripts/fuzz` and `scripts/kills` do for an hour."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "ending"), [("fuzz", "0 of them wrong in 0 ways"), ("kills", "0 of them ended wrong")]
)
def test_files_are_mangled_and_commands_killed(
    repository: Path, tmp_path: Path, script: str, ending: str
) -> None:
    command = [
        sys.executable,
        str(repository / "scripts" / f"{script}.py"),
        "--minutes",
        "0.5",
        "--seed",
        "3",
    ]
    env = {**os.environ, "PYTHONPATH": ""}  # with scikit-learn, unlike programs that users start
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert ending in done.stdout
