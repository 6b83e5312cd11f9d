"""Find the documented functions whose docstrings do not describe their parameters.

Documented are the names of ``docs/reference/python-*.md`` with their public methods, and whatever is public in the
metrics, the testing suites and the extension bases. Such a function, if it takes an array, or three parameters and
more, describes its parameters under ``Args:``; the line of an array says its shape, such as ``(n_rows,)``. A parameter
may be described in the class (its ``Attributes:``) where a dataclass or a pydantic model declares it. A method without
a docstring overrides one that has it, and the options of a command are described by its help.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "ltr_harness"
REFERENCE = sorted((ROOT / "docs" / "reference").glob("python-*.md"))
NO_METRICS = {
    Path("metrics") / name for name in ("arrow.py", "evaluate_runs.py", "evaluation.py", "explain.py")
}
EXTENSION_BASES = {"models/ranker.py", "data/readers/reader.py"}
ARRAY = re.compile(r"\b(NDArray|ArrayLike|ndarray)\b")
SHAPE = re.compile(r"\([nmkN\d]\w*[^)]*\)|\bany shape\b|\bscalar\b")
MANY = 3


def parameters(function: ast.FunctionDef) -> list[ast.arg]:
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return [parameter for parameter in named if parameter.arg not in ("self", "cls")]


def parameter_texts(docstring: str) -> dict[str, str]:
    """Parameter to its text under ``Args:``."""
    match = re.search(r"^Args:\n((?:[ \t]+.*\n|\n)*)", docstring + "\n", re.MULTILINE)
    texts: dict[str, str] = {}
    name = ""
    for line in (match[1] if match else "").splitlines():
        head = re.match(r"    (\*{0,2}\w+(?:, \*{0,2}\w+)*)(?: \([^)]*\))?: ?(.*)", line)
        if head:
            for name in head[1].replace("*", "").split(", "):
                texts[name] = head[2]
        elif name:
            texts[name] += " " + line.strip()
    return texts


def problems(function: ast.FunctionDef) -> list[str]:
    arguments = parameters(function)
    arrays = [
        argument.arg
        for argument in arguments
        if argument.annotation is not None and ARRAY.search(ast.unparse(argument.annotation))
    ]
    if not arrays and len(arguments) < MANY:
        return []
    texts = parameter_texts(ast.get_docstring(function) or "")
    missing = [argument.arg for argument in arguments if argument.arg not in texts]
    if missing:
        return [f"Args: does not describe {', '.join(missing)}"]
    return [f"Args: gives {name} no shape" for name in arrays if not SHAPE.search(texts[name])]


def public_functions(tree: ast.Module) -> list[tuple[str, ast.FunctionDef]]:
    """Functions and methods whose names are public, those of private classes left out."""
    functions = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            functions.append((node.name, node))
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            inherits = bool(node.bases)
            functions += [
                (f"{node.name}.{method.name}", method)
                for method in node.body
                if isinstance(method, ast.FunctionDef)
                and not (inherits and ast.get_docstring(method) is None)  # documented where it is declared
            ]
    return [
        (name, function)
        for name, function in functions
        if not function.name.startswith("_")
        and not any(
            re.search(r"\b(overload|command|group)\b", ast.unparse(d)) for d in function.decorator_list
        )
    ]


def documented_names() -> dict[str, tuple[str, ...]]:
    """The functions and classes of the reference's pages, with the modules that they are defined in."""
    pages = "".join(page.read_text(encoding="utf-8") for page in REFERENCE)
    modules: dict[str, tuple[str, ...]] = {}
    for module, name in re.findall(r"^::: (\S+)\.(\w+)$", pages, re.M):
        stub = ROOT / module.replace(".", "/") / "__init__.pyi"
        lines = stub.read_text(encoding="utf-8") if stub.is_file() else ""
        offered = re.search(rf"^from (\S+) import {name} as", lines, re.M)
        modules[name] = (*modules.get(name, ()), offered[1] if offered else module)
    return modules


def wholly_documented(path: Path) -> bool:
    """Return whether every public name of this file of the package is read by people who extend it."""
    extended = path.parts[0] in ("metrics", "testing") and "core" not in path.parts and path not in NO_METRICS
    return extended or path.as_posix() in EXTENSION_BASES


def main() -> int:
    count = 0
    documented = documented_names()
    for path in sorted(PACKAGE.rglob("*.py")):
        is_whole = wholly_documented(path.relative_to(PACKAGE))
        module = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        for name, function in public_functions(ast.parse(path.read_text(encoding="utf-8"))):
            if not is_whole and not module.startswith(documented.get(name.split(".")[0], ("-",))):
                continue
            for problem in problems(function):
                count += 1
                print(f"{path.relative_to(PACKAGE.parent)}:{function.lineno}: {name}: {problem}")
    print(f"{count} problems" if count else "every documented function says what it takes", file=sys.stderr)
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
