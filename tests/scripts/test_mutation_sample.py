"""The sample of changed signs: a change that reaches no function is refused, and no survivor."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
ASKED = """
import argparse, sys
from pathlib import Path
import pytest
sys.path[:0] = [{scripts!r}, {copy!r}]
import mutation_sample

class Asking(mutation_sample.Session):
    def pytest_runtestloop(self, session):
        self.seconds = {{item.nodeid: 1.0 for item in session.items}}
        for name in ("held", "hidden"):
            mutant = mutation_sample.mutants_of(self.copy, self.copy / "ltr_sample" / f"{{name}}.py", 0)[0]
            print(name, "killed" if self._is_killed(mutant, session.items) else "survived", flush=True)
        return True

asking = Asking(Path({copy!r}), [], argparse.Namespace())
sys.exit(pytest.main(["-q", "-s", "-p", "no:cacheprovider", {test!r}], plugins=[asking]))
"""


@pytest.mark.long
def test_a_change_that_reaches_no_function_is_refused(tmp_path: Path) -> None:
    package = tmp_path / "ltr_sample"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "held.py").write_text("def two():\n    return 1 + 1\n")
    (package / "hidden.py").write_text("def three():\n    return 1 + 2\n\n\ndel three\n")
    test = tmp_path / "test_two.py"
    test.write_text(
        "def test_two():\n    from ltr_sample.held import two\n\n    assert two() == 2\n"
    )  # which it imports itself
    script = ASKED.format(scripts=str(SCRIPTS), copy=str(tmp_path), test=str(test))
    ended = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},  # none is needed, some take long to import
    )
    assert ended.returncode == 2, ended.stderr
    assert "held killed" in ended.stdout
    assert "hidden survived" not in ended.stdout
    assert "ltr_sample/hidden.py:2: no function three to put a change into" in ended.stdout
