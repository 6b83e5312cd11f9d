"""Find functions that are hard to read, and names and docstrings in a private language.

parameters          at most ten; those of commands are their options
branches            at most 15 in a function: if, for, while, except, conditional, boolean operator, comprehension
inner conditionals  a conditional expression is the whole of an assignment, a return or an argument, and not nested
tricks              no list, tuple or text times a condition or a variable, no dict indexed on the spot
words               no function and no local name is a preposition, an adverb, a pronoun or a bare participle
openings            no docstring opens with What, Whether, How ..., or is nothing but a shape
meanings            no class or alias name is defined by two modules

Compiled kernels may take and decide much. `readability.toml` has the words, and the places that stay, rule by rule,
each with its reason; a place that is listed and keeps the rule is a problem, too. Rules that are `counted` are not
bound yet: their number is printed.
"""

from __future__ import annotations

import ast
import re
import sys
import tokenize
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "ltr_harness"
PARAMETERS, BRANCHES = 10, 15
BRANCHING = (ast.If, ast.For, ast.While, ast.IfExp, ast.BoolOp, ast.ExceptHandler, ast.comprehension)
HOLDERS = (
    ast.Assign,
    ast.AnnAssign,
    ast.AugAssign,
    ast.NamedExpr,
    ast.Return,
    ast.Yield,
    ast.Call,
    ast.keyword,
    ast.Lambda,
)
SETTINGS = tomllib.loads((ROOT / "scripts" / "readability.toml").read_text(encoding="utf-8"))
WORDS, OPENINGS = frozenset(SETTINGS["words"]), frozenset(SETTINGS["openings"])
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Finding(NamedTuple):
    """A place that breaks a rule."""

    rule: str
    place: str  # `file: function`, `file` or a name
    text: str


def functions(tree: ast.Module) -> Iterator[tuple[str, Function]]:
    """Yield every function with its dotted name."""
    nodes: list[tuple[str, ast.AST]] = [("", tree)]
    for prefix, node in nodes:
        for child in ast.iter_child_nodes(node):
            name = prefix
            if isinstance(child, Function | ast.ClassDef):
                name = f"{prefix}.{child.name}" if prefix else child.name
            if isinstance(child, Function):
                yield name, child
            nodes.append((name, child))


def is_decorated(function: Function, *names: str) -> bool:
    return any(ast.unparse(decorator).startswith(names) for decorator in function.decorator_list)


def parameters(function: Function) -> list[ast.arg]:
    """Return the parameters, without `self` and `cls`."""
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return [argument for argument in named if argument.arg not in ("self", "cls")]


def own_nodes(function: Function) -> Iterator[ast.AST]:
    """Yield the nodes of a function without those of functions within it."""
    nodes: list[ast.AST] = [*function.body]
    for node in nodes:
        yield node
        if not isinstance(node, Function):
            nodes += ast.iter_child_nodes(node)


def size_findings(place: str, function: Function) -> Iterator[Finding]:
    """Yield where a function takes or decides too much."""
    if is_decorated(function, "compiled", "vectorized"):
        return
    n_parameters = len(parameters(function))
    if n_parameters > PARAMETERS and not is_decorated(function, "click.command", "command.command"):
        yield Finding("parameters", place, f"{n_parameters} parameters; at most {PARAMETERS}")
    n_branches = 1 + sum(isinstance(node, BRANCHING) for node in ast.walk(function))
    if n_branches > BRANCHES:
        yield Finding("branches", place, f"{n_branches} branches; at most {BRANCHES}")


def expression_findings(place: str, nodes: Iterable[ast.AST]) -> Iterator[Finding]:
    """Yield conditional expressions inside larger ones, and tricks."""
    for node in nodes:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.IfExp) and not isinstance(node, HOLDERS):
                yield Finding("inner conditionals", place, f"line {child.lineno}: make it a statement")
        if is_trick(node):
            yield Finding("tricks", place, f"`{ast.unparse(node)[:60]}`")


def is_trick(node: ast.AST) -> bool:
    """Return whether an expression hides a condition or a repetition in an operator."""
    if isinstance(node, ast.Subscript):
        is_step = isinstance(node.slice, ast.Slice) and isinstance(node.slice.step, ast.IfExp)
        return isinstance(node.value, ast.Dict) or is_step
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)):
        return False
    sides = (node.left, node.right)
    has_text = any(is_text_or_list(side) for side in sides)
    has_condition = any(is_condition(side) for side in sides)
    has_number = any(isinstance(side, ast.Constant) and isinstance(side.value, int) for side in sides)
    return has_text and (has_condition or not has_number)


def is_text_or_list(node: ast.AST) -> bool:
    return isinstance(node, ast.List | ast.Tuple) or isinstance(getattr(node, "value", None), str)


def is_condition(node: ast.AST) -> bool:
    is_negation = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    return is_negation or isinstance(node, ast.Compare | ast.BoolOp)


def word_findings(place: str, function: Function) -> Iterator[Finding]:
    """Yield names that are no noun and no verb phrase."""
    first = [argument.arg for argument in function.args.args[:1]]
    is_constructor = function.name in ("of", "at") and first == ["cls"]
    names = {argument.arg for argument in parameters(function)}
    for node in own_nodes(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Lambda):
            names |= {argument.arg for argument in node.args.args}
    if not is_constructor:
        names.add(function.name)
    for name in sorted(names):
        if name.strip("_") in WORDS:
            yield Finding("words", place, f"`{name}`: the noun of the thing, or a verb phrase")


def docstring_finding(place: str, docstring: str) -> Iterator[Finding]:
    """Yield a docstring that is no sentence."""
    first_line = docstring.partition("\n")[0]
    opening = re.match(r"[A-Za-z]+", docstring)
    if opening and opening[0] in OPENINGS:
        yield Finding("openings", place, f"{first_line!r}: begins with {opening[0]}")
    behind_shape = first_line.partition(")")[2]
    if first_line.startswith("(") and not re.search(r"[a-z]{3}.*\b[a-z]{2}", behind_shape):
        yield Finding("openings", place, f"{first_line!r}: a shape alone")


def defined_names(tree: ast.Module) -> Iterator[str]:
    """Yield the names of classes and aliases."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield node.name.lstrip("_")
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if re.fullmatch(r"_?[A-Z][a-z]\w*", name):
                yield name.lstrip("_")


def findings(package: Path) -> Iterator[Finding]:
    """Yield every place of a package that breaks a rule."""
    modules = defaultdict(list)
    for path in sorted(package.rglob("*.py")):
        file = path.relative_to(package).as_posix()
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, Function | ast.ClassDef | ast.Module):
                name = getattr(node, "name", "")
                yield from docstring_finding(f"{file}: {name}".rstrip(": "), ast.get_docstring(node) or "")
        for name, function in functions(tree):
            yield from size_findings(f"{file}: {name}", function)
            yield from word_findings(f"{file}: {name}", function)
            yield from expression_findings(f"{file}: {name}", own_nodes(function))
        for name in defined_names(tree):
            modules[name].append(file)
    for name, files in sorted(modules.items()):
        if len(files) > 1:
            yield Finding("meanings", name, f"defined in {', '.join(files)}")


def problems(found: Sequence[Finding], allowed: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Yield what is not allowed, and allowances that nothing needs."""
    for finding in found:
        if finding.place not in allowed.get(finding.rule, {}):
            yield f"{finding.place}: {finding.rule}: {finding.text}"
    for rule, reasons in allowed.items():
        places = {finding.place for finding in found if finding.rule == rule}
        for place in sorted(reasons.keys() - places):
            yield f"readability.toml: {rule}: {place!r} keeps the rule; remove the line"


def n_tokens(package: Path) -> int:
    """Return the number of names, operators and literals of a package."""
    kinds = (tokenize.NAME, tokenize.OP, tokenize.NUMBER, tokenize.STRING)
    total = 0
    for path in package.rglob("*.py"):
        with tokenize.open(path) as file:
            total += sum(token.type in kinds for token in tokenize.generate_tokens(file.readline))
    return total


def main() -> int:
    found = list(findings(PACKAGE))
    counted = SETTINGS["counted"]
    lines = list(problems([finding for finding in found if finding.rule not in counted], SETTINGS["allowed"]))
    counts = [f"{sum(finding.rule == rule for finding in found):,} {rule}" for rule in counted]
    print("\n".join([*lines, ", ".join([f"{n_tokens(PACKAGE):,} tokens", *counts])]))
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
