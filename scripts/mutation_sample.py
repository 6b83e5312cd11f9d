"""Do the tests notice a changed sign? A seeded sample of changes to the package, each against the tests that run it.

    scripts/mutation_sample metrics boosting comparison comparison/stats
    scripts/mutation_sample --n 40 metrics/dcg.py
    scripts/mutation_sample --commit 1463329 metrics    # the same sample of an earlier commit

One operator, number or condition in a function is changed at a time, in memory, in a process forked for it. There run
those tests of the same folder (`tests/comparison/stats`, and the examples in `ltr_harness/comparison/stats`) that
enter the function, quickest first; the first failure ends it. Loops run as plain Python. A change is chosen by a
digest of its line and not of its place: two commits are asked about the same changes wherever both have the line.
Where the tests of a function take longer than --seconds, the slowest are left out: the score is a lower bound.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import gc
import hashlib
import importlib
import os
import pickle
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import hypothesis
import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "ltr_harness"
# Machine code wraps integers around in silence where plain Python's loops warn.
PYTEST = ["-q", "-s", "-n0", "-p", "no:cacheprovider", "-W", "ignore:overflow encountered:RuntimeWarning"]
PYTEST += ["-W", "ignore::pytest.PytestAssertRewriteWarning", "--hypothesis-seed=0", "--tb=no", "--no-header"]
OTHER: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Div,
    ast.Mod: ast.Mult, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
    ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
_NOWHERE = 75  # what a fork ends with that has nothing to change
Function = tuple[str, int, str]  # file, first line and name


@dataclass(frozen=True)
class Mutant:
    """One change of one function.

    Attributes:
        path: below the copy.
        start, end: which bytes of the file are replaced.
        function: the outermost one that holds the change.
    """

    path: str
    line: int
    start: int
    end: int
    before: str
    after: str
    function: Function
    order: str


def changes(node: ast.AST) -> Iterator[tuple[Any, str]]:
    """Yield a node, or a part of it, with the text to put in its place."""
    match node:
        case ast.Compare():
            for number, operator in enumerate(node.ops):
                ops = [*node.ops[:number], OTHER[type(operator)](), *node.ops[number + 1 :]]
                yield node, ast.unparse(ast.Compare(node.left, ops, node.comparators))
        case ast.BinOp() if type(node.op) in OTHER:
            yield node, ast.unparse(ast.BinOp(node.left, OTHER[type(node.op)](), node.right))
        case ast.AugAssign() if type(node.op) in OTHER and node.lineno == node.end_lineno:
            yield node, ast.unparse(ast.AugAssign(node.target, OTHER[type(node.op)](), node.value))
        case ast.BoolOp():
            yield node, ast.unparse(ast.BoolOp(OTHER[type(node.op)](), node.values))
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield node, ast.unparse(node.operand)
        case ast.Constant(value=bool()):
            yield node, str(not node.value)
        case ast.Constant(value=int() | float()):
            yield node, repr(node.value + 1)
        case ast.If() | ast.While() | ast.IfExp() if not isinstance(node.test, ast.UnaryOp | ast.Compare):
            yield node.test, f"not ({ast.unparse(node.test)})"
        case ast.Break():
            yield node, "continue"
        case ast.Continue():
            yield node, "break"


def mutants_of(copy: Path, path: Path, seed: int) -> list[Mutant]:
    source = path.read_bytes()
    lines = source.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    found: list[Mutant] = []
    seen: Counter[tuple[str, ...]] = Counter()

    def visit(node: ast.AST, function: Function | None) -> None:
        for old, text in changes(node) if function else ():
            start, end = (
                starts[old.lineno - 1] + old.col_offset,
                starts[old.end_lineno - 1] + old.end_col_offset,
            )
            before = source[start:end].decode()
            # the lines below keep their numbers
            after = text if isinstance(old, ast.stmt) else "(" + text + "\n" * before.count("\n") + ")"
            change = (function[2], lines[old.lineno - 1].decode().strip(), before, after)
            seen[change] += 1
            order = hashlib.sha256(repr((seed, *change, seen[change])).encode()).hexdigest()
            found.append(
                Mutant(str(path.relative_to(copy)), old.lineno, start, end, before, after, function, order)
            )
        if isinstance(node, ast.FunctionDef) and function is None:
            first = node.decorator_list[0].lineno if node.decorator_list else node.lineno
            children: list[ast.AST] = list(node.body)
            function = (str(path), first, node.name)
        elif isinstance(node, ast.JoinedStr):
            children = []  # its positions are none before Python 3.12
        else:
            children = [
                child
                for child in ast.iter_child_nodes(node)
                if child is not getattr(node, "annotation", None)
            ]
        for child in children:
            visit(child, function)

    visit(ast.parse(source), None)
    return found


def function_of(code: CodeType) -> Function:
    return code.co_filename, code.co_firstlineno, code.co_name


def codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes(constant)


def mutated_code(mutant: Mutant) -> CodeType:
    path = Path(mutant.function[0])
    source = path.read_bytes()
    source = source[: mutant.start] + mutant.after.encode() + source[mutant.end :]
    every = codes(compile(source, str(path), "exec", dont_inherit=True))
    return next(code for code in every if function_of(code) == mutant.function)


def put_in_place(function: Function, code: CodeType) -> int:
    """Change the function in this process, wherever it is held; in how many places it was."""
    gc.unfreeze()  # the tests freeze what they import, and frozen objects are not listed
    places = [
        held
        for held in gc.get_objects()
        if isinstance(held, FunctionType) and function_of(held.__code__) == function
    ]
    for held in places:
        held.__code__ = code
    return len(places)


def run_in_fork(work: Callable[[], int], cpu_seconds: float) -> int | None:
    """Return the result of `work` in a fork of this process; None where it died or took too long."""
    child = os.fork()
    if child == 0:
        status = 70
        try:
            os.setsid()
            nothing = os.open(os.devnull, os.O_RDWR)
            os.dup2(nothing, 1)
            os.dup2(nothing, 2)
            resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_seconds) + 1, int(cpu_seconds) + 1))
            status = work()
        finally:
            os._exit(status)  # whatever happened: what follows is the parent's
    deadline = time.monotonic() + 20 * cpu_seconds + 30
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < deadline:
        time.sleep(0.01)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # and what the tests may have started
    status = ended[1] if ended[0] else os.waitpid(child, 0)[1]
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else None


@dataclass(eq=False)
class Session:
    """The pytest plugin that runs the tests again and again."""

    copy: Path
    targets: list[str]
    options: argparse.Namespace
    seconds: dict[str, float] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    enters: defaultdict[Function, set[str]] = field(default_factory=lambda: defaultdict(set))

    def pytest_configure(self, config: pytest.Config) -> None:
        config.addinivalue_line("markers", "long: which an earlier commit may not know")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            raise SystemExit("a module of the tests cannot be imported")
        items = {item.nodeid: item for item in session.items}
        self._watch(items)
        for node in self.failed:
            print(f"left out, it fails without a change: {node}")
        for target in self.targets:
            self._measure(target, items)
        return True

    def _watch(self, items: dict[str, pytest.Item]) -> None:
        """Every test once, without a change: how long it takes, and which functions it enters."""
        into = self.copy / ".watched"

        def work() -> int:
            entered: set[CodeType] = set()

            def trace(frame: Any, event: str, _: object) -> None:
                entered.add(frame.f_code)

            for (node, item), following in zip(items.items(), [*list(items.values())[1:], None], strict=True):
                began = time.process_time()
                threading.settrace(trace)
                sys.settrace(trace)
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                sys.settrace(None)
                self.seconds[node] = time.process_time() - began
                for code in entered:
                    if code.co_filename.startswith(str(self.copy / PACKAGE)):
                        self.enters[function_of(code)].add(node)
                entered.clear()
            into.write_bytes(pickle.dumps((self.seconds, self.failed, dict(self.enters))))
            return 0

        if run_in_fork(work, 1800) != 0:
            raise SystemExit("the tests did not come to an end")
        self.seconds, self.failed, enters = pickle.loads(into.read_bytes())
        self.enters.update(enters)

    def _measure(self, target: str, items: dict[str, pytest.Item]) -> None:
        every = [
            mutant
            for path in files_of(self.copy, target)
            for mutant in mutants_of(self.copy, path, self.options.seed)
        ]
        sample = sorted(every, key=lambda mutant: mutant.order)[: self.options.n]
        killed: Counter[str] = Counter()
        for mutant in sorted(sample, key=lambda mutant: (mutant.path, mutant.line)):
            nodes = self._tests_of(mutant.function)
            if self._is_killed(mutant, [items[node] for node in nodes]):
                killed[mutant.path] += 1
            else:
                change = f"{mutant.path}:{mutant.line}  {mutant.before}  ->  {mutant.after}"
                print(f"survived {len(nodes)} tests: {change}", flush=True)
        sampled = Counter(mutant.path for mutant in sample)
        print(f"\n{'killed':>8} {'sampled':>8}")
        for path in sorted(sampled):
            print(f"{killed[path]:8} {sampled[path]:8}  {path}")
        print(
            f"{killed.total():8} {sampled.total():8}  {target}: {killed.total() / max(1, sampled.total()):.1%}\n",
            flush=True,
        )

    def _tests_of(self, function: Function) -> list[str]:
        chosen, total = [], 0.0
        for node in sorted(
            self.enters[function] - set(self.failed), key=lambda node: (self.seconds[node], node)
        ):
            total += self.seconds[node]
            if total > self.options.seconds and chosen:
                break
            chosen.append(node)
        # a module's fixtures are made once
        modules = list(dict.fromkeys(node.split("::")[0] for node in chosen))
        return sorted(chosen, key=lambda node: modules.index(node.split("::")[0]))

    def _is_killed(self, mutant: Mutant, items: list[pytest.Item]) -> bool:
        if not items:
            return False
        code = mutated_code(mutant)
        # a test that imports it inside would get the function as it was
        importlib.import_module(".".join(Path(mutant.path).with_suffix("").parts).removesuffix(".__init__"))

        def work() -> int:
            if not put_in_place(mutant.function, code):
                return _NOWHERE
            self.failed.clear()
            for item, following in zip(items, [*items[1:], None], strict=True):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if self.failed:
                    return 1
            return 0

        expected = sum(self.seconds[item.nodeid] for item in items)
        status = run_in_fork(work, 2 * expected + 5)
        if status == _NOWHERE:
            place = f"{mutant.path}:{mutant.line}"
            pytest.exit(f"{place}: no function {mutant.function[2]} to put a change into", returncode=2)
        return status != 0


def files_of(copy: Path, target: str) -> list[Path]:
    place = copy / PACKAGE / target
    return sorted(place.rglob("*.py")) if place.is_dir() else [place]


def measure(folder: str, targets: list[str], options: argparse.Namespace) -> int:
    """One folder of the package, in a process of its own; pytest's exit code."""
    with tempfile.TemporaryDirectory() as temporary:
        copy = Path(temporary).resolve() / "copy"
        copy.mkdir()
        archive = subprocess.run(
            ["git", "archive", options.commit], cwd=ROOT, stdout=subprocess.PIPE, check=True
        )
        subprocess.run(["tar", "-x", "-C", str(copy)], input=archive.stdout, check=True)
        os.environ.update(NUMBA_DISABLE_JIT="1", OMP_NUM_THREADS="1", PYTHONPATH=str(copy))
        data = ROOT.parent / "shared" / "data"
        if data.is_dir():
            os.environ.setdefault("LTR_HARNESS_DATA", str(data))
        os.chdir(copy)
        sys.path.insert(0, str(copy))
        # A failure is enough: the smallest one is nobody's question here.
        phases = [hypothesis.Phase.explicit, hypothesis.Phase.reuse, hypothesis.Phase.generate]
        hypothesis.settings.register_profile("first failure", phases=phases, report_multiple_bugs=False)
        hypothesis.settings.load_profile("first failure")
        places = [*(options.tests or [f"tests/{folder}"]), f"{PACKAGE}/{folder}"]
        words = [*PYTEST, "-m", options.marks, f"--basetemp={temporary}/tests", *places]
        return int(pytest.main(words, plugins=[Session(copy, targets, options)]))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("targets", nargs="+", metavar="TARGET", help="a folder or file below ltr_harness")
    parser.add_argument("--commit", default="HEAD", help="what is measured; uncommitted changes are not")
    parser.add_argument("--n", type=int, default=50, help="changes sampled of each target")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=10.0, help="CPU seconds of tests for one change")
    parser.add_argument(
        "--tests", nargs="+", metavar="PATH", help="other tests than those of the same folder"
    )
    parser.add_argument("--marks", default="not slow and not long", help="which tests, as pytest's -m")
    options = parser.parse_args()
    by_folder: defaultdict[str, list[str]] = defaultdict(list)
    for target in options.targets:
        by_folder[target.split("/")[0]].append(target)
    worst = 0
    for folder, targets in by_folder.items():
        if (child := os.fork()) == 0:
            status = 1
            try:
                status = measure(folder, targets, options)
            finally:
                sys.stdout.flush()
                os._exit(status)
        worst = max(worst, abs(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))
    return worst


if __name__ == "__main__":
    sys.exit(main())
