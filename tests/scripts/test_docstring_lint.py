"""The functions that the lint of docstrings asks to describe their parameters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

UNDESCRIBED = "def three(a, b, c):\n    pass\n"
METHOD = "class {name}:\n    def three(self, a, b, c):\n        pass\n"


@pytest.fixture(scope="module")
def lint(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("docstring_lint")


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("metrics/mine.py", UNDESCRIBED, "three: Args: does not describe a, b, c"),
        ("testing/suite.py", UNDESCRIBED, "three: Args: does not describe a, b, c"),
        ("models/ranker.py", UNDESCRIBED, "three: Args: does not describe a, b, c"),
        ("metrics/core/loops.py", UNDESCRIBED, None),
        ("models/mine.py", UNDESCRIBED, None),
        (
            "metrics/evaluation.py",
            UNDESCRIBED.replace("three", "evaluate"),
            "evaluate: Args: does not describe a, b, c",
        ),
        ("boosting/lightgbm.py", METHOD.format(name="Watch"), "Watch.three: Args: does not describe a, b, c"),
        # documented as ltr_harness.Run
        ("experiments/runs/run.py", METHOD.format(name="Run"), "Run.three: Args: does not describe a, b, c"),
        ("metrics/evaluation.py", METHOD.format(name="Internal"), None),
        ("comparison/stats/mine.py", UNDESCRIBED.replace("three", "evaluate"), None),
    ],
)
def test_holds_for_what_is_documented(
    lint: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    file: str,
    text: str,
    said: str | None,
) -> None:
    package = tmp_path / "ltr_harness"
    monkeypatch.setattr(lint, "PACKAGE", package)
    path = package / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    assert lint.main() == (said is not None)
    assert said is None or said in capsys.readouterr().out
