"""The rules of readability, each with a function that breaks it and one that keeps it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def lint(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("readability_lint")


def rules(lint: ModuleType, folder: Path, text: str) -> list[str]:
    """Return the rules that a module of this text breaks."""
    (folder / "module.py").write_text(text)
    return [finding.rule for finding in lint.findings(folder)]


def function(body: str, parameters: str = "x") -> str:
    return f"def compute({parameters}):\n    {body}\n"


IFS = "\n    ".join(["if x: x += 1"] * 14)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (function("return x", ", ".join(f"p{i}" for i in range(10))), []),
        (function("return x", ", ".join(f"p{i}" for i in range(11))), ["parameters"]),
        ("@click.command('x')\n" + function("return x", ", ".join(f"p{i}" for i in range(11))), []),
        (function(IFS), []),
        (function(f"{IFS}\n    return x and 1"), ["branches"]),
        ("@compiled\n" + function(f"{IFS}\n    return x and 1"), []),
        (function("return 1 if x else 2"), []),
        (function("return print(1 if x else 2)"), []),
        (function("return 1 + (1 if x else 2)"), ["inner conditionals"]),
        (function("return 1 if x else 2 if y else 3"), ["inner conditionals"]),
        (function("return ['a'] * (x > 1)"), ["tricks"]),
        (function("return 'a' * x"), ["tricks"]),
        (function("return 'a' * 3"), []),
        (function("return {1: 2}[x]"), ["tricks"]),
        (function("said = x"), ["words"]),
        (function("return lambda own: own"), ["words"]),
        (function("return x", "own"), ["words"]),
        ("def told():\n    return 1\n", ["words"]),
        ("class Table:\n    @classmethod\n    def of(cls, x):\n        return cls\n", []),
        (function('"""Whether x is positive."""'), ["openings"]),
        (function('"""(n_rows,) labels."""'), ["openings"]),
        (function('"""(n_rows,): the labels of the rows."""'), []),
        (function('"""Return True for positive x."""'), []),
    ],
)
def test_rules(lint: ModuleType, tmp_path: Path, text: str, expected: list[str]) -> None:
    assert rules(lint, tmp_path, text) == expected


def test_a_name_with_two_meanings(lint: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text("Kind = int\n")
    assert rules(lint, tmp_path, "class _Kind: ...\n") == ["meanings"]


def test_a_function_within_another_is_counted_once(lint: ModuleType, tmp_path: Path) -> None:
    text = "def outer():\n    def inner():\n        said = 1\n    return inner\n"
    (tmp_path / "module.py").write_text(text)
    assert [finding.place for finding in lint.findings(tmp_path)] == ["module.py: outer.inner"]


def test_places_that_are_allowed(lint: ModuleType) -> None:
    findings = [lint.Finding("words", "a.py: f", "`own`"), lint.Finding("words", "b.py: f", "`own`")]
    allowed = {"words": {"a.py: f": "a reason", "c.py: f": "a reason"}}
    assert list(lint.problems(findings, allowed)) == [
        "b.py: f: words: `own`",
        "readability.toml: words: 'c.py: f' keeps the rule; remove the line",
    ]
