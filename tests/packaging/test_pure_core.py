"""Data in memory, metrics and the comparison stand below everything that knows files of settings or terminals."""

import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "ltr_harness"
FOLDERS = ("metrics", "comparison")
FILES = tuple(f"data/{name}.py" for name in ("arrays", "queries", "judgments", "dataset", "splits"))
HEAVY = ("pydantic", "yaml", "click", "pandas")
SLOW_TO_LOAD = (*HEAVY, "numba", "scipy", "multiprocessing", "logging", "pathlib", "inspect", "email")


def modules() -> list[str]:
    paths = [path for folder in FOLDERS for path in sorted((PACKAGE / folder).rglob("*.py"))]
    paths += [PACKAGE / name for name in FILES]
    parts = (path.relative_to(PACKAGE.parent).with_suffix("").parts for path in paths)
    return [".".join(names).removesuffix(".__init__") for names in parts]


def loaded_by(names: list[str], unwanted: tuple[str, ...] = HEAVY) -> list[str]:
    """Return what a fresh process has loaded that the core must not, once it has imported these modules."""
    imports = "\n".join(f"import {name}" for name in names)
    # what NumPy loads by itself, in whatever version, is no fault of the core
    before = f"import sys, numpy.typing\nbefore = set(sys.modules)\n{imports}\n"
    program = f"{before}print(*(name for name in {unwanted!r} if name in {{*sys.modules}} - before))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.long
def test_no_module_of_the_core_loads_what_is_heavy() -> None:
    names = modules()
    assert len(names) > 60
    assert loaded_by(names) == []


def test_a_metric_loads_little_beside_numpy() -> None:
    assert loaded_by(["ltr_harness.metrics.ndcg"], SLOW_TO_LOAD) == []


@pytest.mark.long
def test_streams_bound_judgments_and_batches_of_arrow_need_no_scipy() -> None:
    names = ["ltr_harness.arrow", "ltr_harness.metrics.core.binding", "ltr_harness.comparison.stream"]
    assert loaded_by(names, (*HEAVY, "scipy")) == []
