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
        (function(80), []),
        (function(81), ["81 lines; at most 80"]),
        (function(80, docstring=30), []),
        (function(2, parameters=10), []),
        (function(2, parameters=11), ["11 parameters; at most 10"]),
        ("@compiled\n" + function(99, parameters=12), []),
        ("@click.command('x')\n" + function(2, parameters=12), []),
        ("@click.command('x')\n" + function(81, parameters=12), ["81 lines; at most 80"]),
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
