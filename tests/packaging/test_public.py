"""The public modules: what they offer, what that costs, and that nothing else is documented."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import json
import os
import pydoc
import re
import subprocess
import sys
import textwrap
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ltr_harness import compare, evaluate, from_frame
from ltr_harness.comparison import Method, PairedMoments
from ltr_harness.data.readers.parquet import Parquet
from ltr_harness.errors import MissingExtraError
from ltr_harness.metrics import Metric
from ltr_harness.testing import assert_not_worse

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "ltr_harness"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
REFERENCE = ROOT / "docs" / "reference"
# public module to its public names, as the overview of the reference lists them
LISTED = {
    module: set(re.findall(r"`(\w+)`", names))
    for module, names in re.findall(
        r"^\| \[`(\S+)`\]\(\S+\) \| (.*) \|$", (REFERENCE / "python.md").read_text(encoding="utf-8"), re.M
    )
}
# modules that offer names of others, and define none
OFFERING = {"ltr_harness", *(f"ltr_harness.{path.parent.name}" for path in PACKAGE.glob("*/__init__.pyi"))}
ENTRY_POINTS = {f"ltr_harness.{group}" for group in ("metrics", "rankers", "readers", "formats", "sections")}


def load_module(module: str) -> Any:
    """The module, where the library that it is about is installed."""
    try:
        return importlib.import_module(module)
    except (ModuleNotFoundError, MissingExtraError) as problem:
        pytest.skip(str(problem))


def python(program: str, path: Path = ROOT, **variables: str) -> str:
    """Return the output of a fresh Python."""
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(path)!r}); {program}"]
    environment = {**os.environ, **variables}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=path.parent, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def is_public(dotted: str) -> bool:
    """Return whether this is a public module, a package of some, or a public name of one."""
    module, _, name = dotted.rpartition(".")
    return name in LISTED.get(module, ()) or any(f"{one}.".startswith(f"{dotted}.") for one in LISTED)


def private_uses(code: str) -> list[str]:
    """List the names of the package that code imports, or takes from an imported module, and that are not public."""
    tree = ast.parse(code)
    modules = {}  # the name of an imported module to the module
    used = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "ltr_harness":
            used += [f"{node.module}.{one.name}" for one in node.names]
            modules |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
        elif isinstance(node, ast.Import):
            names = [one for one in node.names if one.name.partition(".")[0] == "ltr_harness"]
            used += [one.name for one in names]
            modules |= {
                one.asname or "ltr_harness": one.name if one.asname else "ltr_harness" for one in names
            }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = modules.get(node.value.id)
            used += [f"{module}.{node.attr}"] if module in LISTED else []
    return sorted({one for one in used if not is_public(one)})


def programs() -> Iterator[tuple[str, str]]:
    """Yield each piece of Python in the documentation, behind the name of its page."""
    for page in PAGES:
        for block in re.findall(r"^```python.*?\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S):
            yield page.name, block
    notebook = json.loads((ROOT / "docs" / "notebook.ipynb").read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            yield "notebook.ipynb", re.sub(r"^[!%].*", "", "".join(cell["source"]), flags=re.M)
    for path in sorted(PACKAGE.rglob("*.py")):
        lines = re.findall(r"^ *>>> ((?:from|import) ltr_harness.*)", path.read_text(encoding="utf-8"), re.M)
        yield str(path.relative_to(ROOT)), "\n".join(lines)


@pytest.mark.parametrize("module", sorted(LISTED))
def test_the_reference_lists_what_a_module_offers(module: str) -> None:
    offered = load_module(module)
    assert set(offered.__all__) == LISTED[module]
    assert all(getattr(offered, name) is not None for name in LISTED[module])


def test_each_name_is_documented_once_below_its_module() -> None:
    documented: list[str] = []
    for page in sorted(REFERENCE.glob("python-*.md")):
        module = ""
        for line in page.read_text(encoding="utf-8").splitlines():
            if line.startswith("## "):
                module = line[3:]
                assert f"[`{module}`]({page.name})" in (REFERENCE / "python.md").read_text(encoding="utf-8")
            elif line.startswith("::: "):
                assert line[4:].rpartition(".")[0] == module, f"{page.name}: {line}"
                documented.append(line[4:])
    assert [one for one in documented if not is_public(one)] == []
    assert len(documented) == len(set(documented))
    for module, names in LISTED.items():
        offered = load_module(module)
        for name in names - {"__version__"}:
            value = getattr(offered, name)
            if isinstance(value, type) and issubclass(value, Metric) and value is not Metric:
                continue  # it has a page
            places = [f"{one}.{name}" for one in LISTED if getattr(load_module(one), name, None) is value]
            assert len(set(places) & set(documented)) == 1, f"{module}.{name}"


def test_documentation_imports_public_names_alone() -> None:
    found = [
        (where, used) for where, program in programs() for used in private_uses(textwrap.dedent(program))
    ]
    assert found == []


def test_documentation_names_public_names_alone() -> None:
    texts = {page.name: page.read_text(encoding="utf-8") for page in PAGES}
    texts |= {name: inspect.getdoc(value) or "" for name, value in public_callables()}
    for where, text in texts.items():
        named = set(re.findall(r"\bltr_harness(?:\.[A-Za-z_]\w*)+(?![\w/]|\.\w)", text))
        assert {one for one in named if not is_public(one)} <= ENTRY_POINTS, where


def test_private_names_are_found() -> None:
    assert private_uses("from ltr_harness.data.queries import QueryGroups") == [
        "ltr_harness.data.queries.QueryGroups"
    ]
    assert private_uses("from ltr_harness import Judgments, workflow") == ["ltr_harness.workflow"]
    assert private_uses("import ltr_harness\nltr_harness.evaluate\nltr_harness.workflow") == [
        "ltr_harness.workflow"
    ]
    assert private_uses("from ltr_harness import arrow\narrow.per_query\narrow.by_query") == [
        "ltr_harness.arrow.by_query"
    ]
    assert private_uses("import ltr_harness.arrow as a, numpy\na.means, numpy.mean, a.QUERY") == [
        "ltr_harness.arrow.QUERY"
    ]


# takes further keywords, and why
OPEN = {
    "Metric.__call__": "refuses every call",
    "Metric.for_tool": "the parameters of each metric, which its class has as fields",
    "from_frame": "refuses every other argument, with the one that is meant",
    "RankingEvaluator.can_evaluate": "MLflow's interface",
    "RankingEvaluator.evaluate": "MLflow's interface",
}


def public_callables() -> Iterator[tuple[str, Any]]:
    """Each public function and class, and each method that the package defines."""
    for module, names in LISTED.items():
        for name in names - {"__version__"}:
            value = getattr(load_module(module), name)
            if not (inspect.isfunction(value) or inspect.isclass(value)):
                continue
            yield name, value
            own = [one for one in getattr(value, "__mro__", ()) if one.__module__.startswith("ltr_harness")]
            for kind in own:
                for method, function in vars(kind).items():
                    function = getattr(function, "__func__", function)  # of a class method
                    if inspect.isfunction(function) and (method == "__call__" or not method.startswith("_")):
                        yield f"{kind.__name__}.{method}", function


def keywords(function: Any) -> dict[str, Any]:
    """Names of keyword-only parameters to their defaults."""
    taken = inspect.signature(function).parameters.values()
    return {one.name: one.default for one in taken if one.kind == one.KEYWORD_ONLY}


def test_parameters_are_written_out() -> None:
    callables = dict(public_callables())
    assert len(callables) > 200
    takes_more = {
        name
        for name, value in callables.items()
        if any(one.kind == one.VAR_KEYWORD for one in inspect.signature(value).parameters.values())
    }
    assert takes_more == OPEN.keys()


def test_the_keywords_of_a_comparison_are_the_fields_of_its_method() -> None:
    fields = {field.name: field.default for field in dataclasses.fields(Method)}
    for function in (compare, assert_not_worse):
        given = keywords(function)
        assert {name: given.get(name, "lacks it") for name in fields} == fields
    assert keywords(PairedMoments.compare).items() <= fields.items()


def test_the_keywords_of_a_frame_are_the_options_of_the_reader_of_tables() -> None:
    options = {name: option.default for name, option in Parquet.model_fields.items()}
    given = keywords(from_frame)
    assert {name: given.get(name, "lacks it") for name in options} == options
    assert given.keys() - options.keys() == {"source", "judgments", "several"}


def test_signatures_have_types_by_name() -> None:
    for name, value in public_callables():
        signature = str(inspect.signature(value))
        assert "numpy._typing" not in signature, name
        assert len(signature) < 800 or inspect.isclass(value), name


def test_functions_and_classes_have_docstrings_of_their_own() -> None:
    for name, value in public_callables():
        text = inspect.getdoc(value) or ""
        assert "." in name or (text and not text.startswith(f"{name}(")), (
            name
        )  # as dataclasses get by themselves


def test_the_help_of_evaluate_begins_on_one_screen() -> None:
    signature_and_summary = pydoc.plain(pydoc.render_doc(evaluate)).partition("    Args:")[0]
    lines = [part for line in signature_and_summary.splitlines() for part in textwrap.wrap(line, 100) or [""]]
    assert len(lines) <= 24


@pytest.mark.parametrize("module", sorted(OFFERING))
def test_a_module_that_offers_names_says_what_it_lacks(module: str) -> None:
    offering = importlib.import_module(module)
    assert dir(offering) == sorted(offering.__all__)
    with pytest.raises(AttributeError, match=rf"module '{module}' has no attribute 'missing'"):
        _ = offering.missing


@pytest.mark.long
def test_no_name_is_loaded_before_its_use() -> None:
    there = python(f"import {', '.join(sorted(OFFERING))}; print(*sys.modules)").split()
    assert {name for name in there if name.startswith("ltr_harness")} == {
        *OFFERING,
        "ltr_harness._util",
        "ltr_harness._util.lazy",
        "ltr_harness._util.moved",
    }
    assert not {"numpy", "pandas", "pyarrow", "pydantic", "lightgbm"} & set(there)


@pytest.mark.long
def test_names_are_found_in_an_archive(tmp_path: Path) -> None:
    """As Spark's `--py-files` hands a package to its workers."""
    archive = tmp_path / "package.zip"
    with zipfile.ZipFile(
        archive, "w"
    ) as packed:  # without compression, which takes as long as to import from it
        for path in PACKAGE.rglob("*"):
            if "__pycache__" not in path.parts:
                packed.write(path, path.relative_to(ROOT))
    program = (
        "from ltr_harness import evaluate; print(evaluate([1], [1], ['mrr'], group_sizes=[1]).means['mrr'])"
    )
    # compiled, loops say the same: that takes seconds, and nothing keeps the code of an archive beside its source
    assert python(program, archive, NUMBA_DISABLE_JIT="1") == "1.0"


@pytest.mark.long
def test_the_package_imports_names_from_the_files_that_define_them() -> None:
    passing_by = OFFERING - {"ltr_harness.metrics"}
    for path in PACKAGE.rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        if not any(f"from {module} import" in source for module in passing_by):
            continue  # most files: to parse all takes seconds
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ImportFrom) and node.module in passing_by:
                offered = LISTED[node.module] - {"__version__"}
                assert not offered & {one.name for one in node.names}, f"{path}:{node.lineno}"
