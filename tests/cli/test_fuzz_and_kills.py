"""A moment of what `scripts/fuzz` and `scripts/kills` do for an hour."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ltr_harness.errors import DataError, HarnessError


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


@pytest.mark.long
def test_calls_with_odd_tables_and_arrays(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(repository / "scripts"))
    monkeypatch.chdir(tmp_path)
    from fuzz_calls import CALLS, OtherAnswerError, compare_answers

    for call in CALLS.values():
        for number in range(2):
            with suppress(HarnessError):
                call(random.Random(number))

    def refuse_two(given: int) -> int:
        if given == 2:
            raise DataError("2; expected another")
        return given

    compare_answers(refuse_two, 1, 3, same=False)
    for given, message in ((2, "refused in another form: 2; expected another"), (3, "expected 1")):
        with pytest.raises(OtherAnswerError, match=message):
            compare_answers(refuse_two, 1, given, same=True)


def test_ctrl_c_while_the_command_is_imported_is_no_finding(
    script: Any, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(repository / "scripts"))
    kills = script("kills")
    interrupted = """
import sys
sys.addaudithook(lambda event, given: event == "import" and given[0] == "click" and interrupt())
def interrupt():
    raise KeyboardInterrupt
from ltr_harness.cli import main
main(["list", "metrics"])
"""
    env = {**os.environ, "PYTHONPATH": str(repository)}
    done = subprocess.run(
        [sys.executable, "-c", interrupted], env=env, capture_output=True, text=True, check=False
    )
    assert 'cli/__init__.py", line' in done.stderr
    assert not kills.is_unanswered(done.stderr)
    assert kills.is_unanswered(done.stderr.replace("in <module>", "in main"))
    assert kills.is_unanswered("error: internal error: KeyError: 1")
