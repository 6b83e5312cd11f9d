"""Which functions are too long, or take too much?

A function has at most 80 lines without its docstring, and at most ten parameters. Compiled kernels are apart; the
parameters of commands are their options. `ALLOWED` names the façades whose parameters are keywords that users write,
each with a reason.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "ltr_harness"
LINES, PARAMETERS = 80, 10
ALLOWED = {
    "experiments/compare/compare.py: compare": "public: the fields of Method",
    "data/readers/memory.py: from_arrays": "public: keywords of the data",
    "data/readers/memory.py: from_frame": "public: the roles of columns",
    "testing/__init__.py: assert_not_worse": "public: the fields of Method",
}


Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(tree: ast.Module) -> Iterator[Function]:
    """All but compiled kernels."""
    nodes: list[ast.AST] = [tree]
    for node in nodes:
        if isinstance(node, Function) and not decorated(node, "compiled"):
            yield node
        nodes += (part for part in ast.iter_child_nodes(node) if not isinstance(part, ast.expr))


def decorated(function: Function, *names: str) -> bool:
    return any(ast.unparse(decorator).startswith(names) for decorator in function.decorator_list)


def n_lines(function: Function) -> int:
    first = function.body[0]
    docstring = 0
    if ast.get_docstring(function) is not None:
        docstring = (first.end_lineno or 0) - first.lineno + 1
    return (function.end_lineno or 0) - function.lineno + 1 - docstring


def n_parameters(function: Function) -> int:
    if decorated(function, "click.command", "command.command"):
        return 0
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return sum(one.arg not in ("self", "cls") for one in named)


def problems(path: Path) -> Iterator[tuple[str, str]]:
    """Place and what is wrong there."""
    for function in functions(ast.parse(path.read_text(encoding="utf-8"))):
        place = f"{path.relative_to(PACKAGE).as_posix()}: {function.name}"
        if (lines := n_lines(function)) > LINES:
            yield place, f"{lines} lines; at most {LINES}"
        if (count := n_parameters(function)) > PARAMETERS and place not in ALLOWED:
            yield place, f"{count} parameters; at most {PARAMETERS}"


def main() -> int:
    wrong = [problem for path in sorted(PACKAGE.rglob("*.py")) for problem in problems(path)]
    lines = [f"{place}: {text}" for place, text in wrong]
    print("\n".join(lines) or f"functions have at most {LINES} lines and {PARAMETERS} parameters")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
