"""The public modules: what they offer, what that costs, and that nothing else is relied on."""

from __future__ import annotations

import ast
import importlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "ltr_harness"
# modules that offer names of others, and define none
OFFERING = {
    "ltr_harness",
    *(f"ltr_harness.{path.parent.name}" for path in PACKAGE.glob("*/__init__.pyi")),
}


def python(program: str, path: Path = ROOT) -> str:
    """What a fresh Python prints."""
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(path)!r}); {program}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=path.parent)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_these_modules_offer_names() -> None:
    names = ("comparison", "data", "metrics", "models", "monitoring", "report")
    assert {"ltr_harness", *(f"ltr_harness.{name}" for name in names)} == OFFERING


@pytest.mark.parametrize("module", sorted(OFFERING))
def test_every_name_is_there(module: str) -> None:
    offering = importlib.import_module(module)
    assert dir(offering) == sorted(offering.__all__)
    for name in offering.__all__:
        assert getattr(offering, name) is not None
    with pytest.raises(AttributeError, match=rf"module '{module}' has no attribute 'missing'"):
        _ = offering.missing


@pytest.mark.long
def test_no_name_is_loaded_before_its_use() -> None:
    loaded = python(f"import {', '.join(sorted(OFFERING))}; print(*sys.modules)").split()
    assert {name for name in loaded if name.startswith("ltr_harness")} == {*OFFERING, "ltr_harness.lazy"}
    assert not {"numpy", "pandas", "pyarrow", "pydantic", "lightgbm"} & set(loaded)


@pytest.mark.long
def test_names_are_found_in_an_archive(tmp_path: Path) -> None:
    """As Spark's `--py-files` hands a package to its workers."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PACKAGE, tmp_path / "source" / "ltr_harness", ignore=ignored)
    archive = Path(shutil.make_archive(str(tmp_path / "package"), "zip", tmp_path / "source"))
    program = (
        "from ltr_harness import evaluate; print(evaluate([1], [1], ['mrr'], group_sizes=[1]).means['mrr'])"
    )
    assert python(program, archive) == "1.0"


def test_the_package_imports_names_from_the_files_that_define_them() -> None:
    passing_by = OFFERING - {"ltr_harness.metrics"}
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module in passing_by:
                offered = set(importlib.import_module(node.module).__all__) - {"__version__"}
                assert not offered & {one.name for one in node.names}, f"{path}:{node.lineno}"
