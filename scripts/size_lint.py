"""Which functions are too long, or take too much?

A function has at most 60 lines without its docstring, and at most seven parameters. Compiled kernels are apart, and so
are the functions of commands, whose parameters are their options. `ALLOWED` names the public façades whose parameters
are keywords that users write, each with a reason.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "ltr_harness"
LINES, PARAMETERS = 60, 7
APART = ("compiled", "click.command", "click.group")
ALLOWED = {
    "cli/rankings.py: load_rankings": "keywords: the options that evaluate, explain and compare share",
    "comparison/__init__.py: compare": "public: keywords of what is compared and how",
    "evaluation.py: evaluate": "public: keywords of the data",
    "experiment/experiment.py: prepare": "the keywords of run_experiment",
    "experiment/experiment.py: run_experiment": "public: the options of `run`",
    "readers/memory.py: from_arrays": "public: keywords of the data",
    "runs/identity.py: training_identity": "keywords: each is a part of the identity",
}

# Found when the bounds were set; a name leaves the list when its function is divided, and none is added.
KNOWN = {
    "cli/commands/monitor.py: _watched",
    "comparison/contrasts.py: contrast",
    "comparison/inputs.py: gather",
    "monitoring/analysis/slices.py: _confirmed",
    "monitoring/analysis/slices.py: __init__",
    "monitoring/load.py: _rules",
    "monitoring/report/labels.py: section",
    "monitoring/report/windows.py: _chart",
    "monitoring/stages.py: analysed",
    "monitoring/synthetic.py: table",
    "monitoring/verdict/alerts.py: alerts_of",
    "stats/decomposition.py: decompose",
}


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not any(
            ast.unparse(decorator).startswith(APART) for decorator in node.decorator_list
        ):
            yield node


def n_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    first = function.body[0]
    docstring = 0
    if ast.get_docstring(function) is not None:
        docstring = (first.end_lineno or 0) - first.lineno + 1
    return (function.end_lineno or 0) - function.lineno + 1 - docstring


def n_parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
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
    lines = [f"{place}: {text}" for place, text in wrong if place not in KNOWN]
    print("\n".join(lines) or f"functions have at most {LINES} lines and {PARAMETERS} parameters")
    for place in sorted(KNOWN):
        print(
            f"{place}: {dict(wrong).get(place, 'is within the bounds: take it off the list')}",
            file=sys.stderr,
        )
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
