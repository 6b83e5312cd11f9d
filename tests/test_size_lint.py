"""What the lint of sizes refuses, and what it leaves alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def lint(script: Callable[[str], ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, looking at an empty package."""
    module = script("size_lint")
    monkeypatch.setattr(module, "PACKAGE", tmp_path)
    return module


def function(lines: int, parameters: int = 0, docstring: int = 0) -> str:
    """A function of so many lines besides its docstring."""
    head = [f"def f({', '.join(f'p{i}' for i in range(parameters))}):"]
    text = ['    """' + "\n" * (docstring - 1) + '    """'] if docstring else []
    return "\n".join([*head, *text, *["    pass"] * (lines - 1)]) + "\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (function(60), []),
        (function(61), ["61 lines; at most 60"]),
        (function(60, docstring=30), []),
        (function(2, parameters=7), []),
        (function(2, parameters=8), ["8 parameters; at most 7"]),
        ("@compiled\n" + function(99, parameters=9), []),
        ("@click.command('x')\n" + function(2, parameters=9), []),
        ("@click.command('x')\n" + function(61, parameters=9), ["61 lines; at most 60"]),
    ],
)
def test_bounds(lint: ModuleType, tmp_path: Path, text: str, said: list[str]) -> None:
    path = tmp_path / "module.py"
    path.write_text(text)
    assert [problem for _, problem in lint.problems(path)] == said


@pytest.mark.long
def test_the_package_keeps_to_them(
    script: Callable[[str], ModuleType], capsys: pytest.CaptureFixture[str]
) -> None:
    assert script("size_lint").main() == 0, capsys.readouterr().out
