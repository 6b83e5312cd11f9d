"""Every text that a user may meet when something is wrong, in one list, for reading in one sitting.

    .venv/bin/python scripts/messages.py > messages.txt

Taken from the source: whatever is handed to an error, a Problem, a caution, a lint or a note, or printed by a command.
What is filled in at run time stands in braces.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PACKAGE = Path(__file__).resolve().parent.parent / "ltr_harness"


_KINDS = {"Problem", "Caution", "Finding", "LogFinding", "echo", "say", "say_note", "say_notes"}


class Message(NamedTuple):
    """One text and where it stands."""

    file: str
    line: int
    kind: str
    text: str


def messages(package: Path = PACKAGE) -> Iterator[Message]:
    """Every message of the package, by file and line."""
    for path in sorted(package.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        for call in sorted(calls, key=lambda node: node.lineno):
            kind = _name(call.func)
            if (
                kind not in _KINDS
                and not kind.endswith(("Error", "BadParameter"))
                and not _is_note(call.func)
            ):
                continue
            arguments = [*call.args, *(word.value for word in call.keywords)]
            texts = [text for argument in arguments if " " in (text := _text(argument))]
            if texts:
                place = path.relative_to(package.parent).as_posix()
                yield Message(place, call.lineno, kind, "; ".join(texts))


def _is_note(function: ast.expr) -> bool:
    """``notes.append`` and ``self.notes.append``."""
    return (
        isinstance(function, ast.Attribute) and function.attr == "append" and "notes" in _name(function.value)
    )


def _name(function: ast.expr) -> str:
    """``Problem``; of ``DataError.at``, which takes what a Problem does, ``DataError``."""
    if isinstance(function, ast.Attribute):
        return _name(function.value) if function.attr == "at" else function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _text(node: ast.expr) -> str:
    """A text as it will look, as far as the source says."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(
            part.value
            if isinstance(part, ast.Constant) and isinstance(part.value, str)
            else "{" + ast.unparse(part.value if isinstance(part, ast.FormattedValue) else part) + "}"
            for part in node.values
        )
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _text(node.left) + _text(node.right)
    if isinstance(node, ast.IfExp):
        return f"{_text(node.body)} | {_text(node.orelse)}"
    return ""


def main() -> None:
    for message in messages():
        print(f"{message.file}:{message.line}  {message.kind}\n    {message.text}")


if __name__ == "__main__":
    main()
