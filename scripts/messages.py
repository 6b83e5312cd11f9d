"""Every text that a user may meet when something is wrong, in one list, for reading in one sitting.

    .venv/bin/python scripts/messages.py > messages.txt

Taken from the source: the texts of errors, problems, cautions and lints, the lines that commands print, and the
paragraphs, banners and hints of pages, also by way of a variable of the same function. Values that are filled in at
run time stand in braces.
"""

from __future__ import annotations

import ast
import bisect
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, TypeGuard

PACKAGE = Path(__file__).resolve().parent.parent / "ltr_harness"


_KINDS = {"Problem", "Caution", "Banner", "Column", "Paragraph", "echo", "say"}
_MAKERS = re.compile(rf"\b({'|'.join(sorted(_KINDS))}|\w*(Error|BadParameter))\b")


class Message(NamedTuple):
    """One text and where it stands."""

    file: str
    line: int
    kind: str
    text: str


def messages(package: Path = PACKAGE) -> Iterator[Message]:
    """Every message of the package, by file and line."""
    for path in sorted(package.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        lines_of_calls = [
            number for number, line in enumerate(source.splitlines(), 1) if _MAKERS.search(line)
        ]
        if not lines_of_calls:
            continue
        calls = _calls(ast.parse(source).body, {}, lines_of_calls)
        for call, variables in sorted(calls, key=lambda call_and_texts: call_and_texts[0].lineno):
            arguments = [*call.args, *(word.value for word in call.keywords)]
            texts = [text for argument in arguments if " " in (text := _text(argument, variables))]
            if texts:
                place = path.relative_to(package.parent).as_posix()
                yield Message(place, call.lineno, _name(call.func), "; ".join(texts))


def _calls(
    block: Sequence[ast.stmt], variables: dict[str, str], lines: Sequence[int]
) -> Iterator[tuple[ast.Call, dict[str, str]]]:
    """Each call that makes a message, with the texts that variables have there: ``one | another`` after a branch.

    The lines that may have such a call are sorted: statements without one are searched for variables alone.
    """
    for statement in block:
        decorators = getattr(statement, "decorator_list", [])
        at = bisect.bisect_left(lines, min(one.lineno for one in (*decorators, statement)))
        may_have_call = at < len(lines) and lines[at] <= (statement.end_lineno or 0)
        if not may_have_call and isinstance(statement, ast.FunctionDef | ast.ClassDef):
            continue
        parts = list(ast.iter_child_nodes(statement))
        inner = [part for part in parts if isinstance(part, ast.ExceptHandler | ast.match_case)]
        blocks = [getattr(statement, name, []) for name in ("body", "orelse", "finalbody")]
        blocks += [part.body for part in inner]
        for part in parts:
            if may_have_call and not isinstance(part, ast.stmt | ast.ExceptHandler | ast.match_case):
                yield from ((node, dict(variables)) for node in ast.walk(part) if _makes_message(node))
        if isinstance(statement, ast.Assign):
            for target, value in zip(_parts(statement.targets[0]), _parts(statement.value), strict=False):
                if isinstance(target, ast.Name):
                    variables[target.id] = _text(value, variables)
        if not any(blocks):
            continue
        branches = [dict(variables) for _ in blocks]
        for branch, statements in zip(branches, blocks, strict=True):
            yield from _calls(statements, branch, lines)
        if not isinstance(statement, ast.FunctionDef | ast.ClassDef):
            for name in {name for branch in branches for name in branch}:
                variables[name] = _either([branch.get(name, "") for branch in branches])


def _makes_message(node: ast.AST) -> TypeGuard[ast.Call]:
    if not isinstance(node, ast.Call):
        return False
    kind = _name(node.func)
    return kind in _KINDS or kind.endswith(("Error", "BadParameter"))


def _either(texts: Sequence[str]) -> str:
    return " | ".join(text for text in dict.fromkeys(texts) if text)


def _parts(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, ast.Tuple) else [node]


def _name(function: ast.expr) -> str:
    """``Problem``; of ``DataError.at``, which takes what a Problem does, ``DataError``."""
    if isinstance(function, ast.Attribute):
        return _name(function.value) if function.attr == "at" else function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _text(node: ast.expr, variables: Mapping[str, str] = MappingProxyType({})) -> str:
    """A text as it will look, as far as the source says."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.Name):
        return variables.get(node.id, "")
    if isinstance(node, ast.JoinedStr):
        return "".join(
            part.value
            if isinstance(part, ast.Constant) and isinstance(part.value, str)
            else "{" + ast.unparse(part.value if isinstance(part, ast.FormattedValue) else part) + "}"
            for part in node.values
        )
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _text(node.left, variables) + _text(node.right, variables)
    if isinstance(node, ast.IfExp):
        return _either([_text(node.body, variables), _text(node.orelse, variables)])
    return ""


def main() -> None:
    for message in messages():
        print(f"{message.file}:{message.line}  {message.kind}\n    {message.text.strip()}")


if __name__ == "__main__":
    main()
