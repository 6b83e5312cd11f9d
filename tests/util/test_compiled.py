"""Compiled loops: kept between processes, made again where damaged, and usable where nothing can be kept."""

from __future__ import annotations

import gc
import importlib.util
import itertools
import os
import shutil
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numba.core.errors import TypingError

from ltr_harness import evaluate
from ltr_harness._util import compiled
from ltr_harness.comparison.stats.reference import flipped_sums, parts_of_grid
from ltr_harness.data.readers import svmlight_kernels as kernels
from ltr_harness.data.readers import trec_kernels

SOURCE = """
from ltr_harness._util.compiled import compiled

@compiled
def halved(number):
    return number / 2
"""
Kernel = Callable[[float], float]
_numbers = itertools.count()


def kernel(folder: Path) -> Kernel:
    """The function of the file, in a module that has not been imported yet."""
    file = folder / "kernels.py"
    if not file.exists():
        file.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location(f"kernels{next(_numbers)}", file)
    assert spec is not None
    assert spec.loader is not None
    module: types.ModuleType = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: Kernel = module.halved
    return found


def cached_kernels(folder: Path) -> list[Path]:
    return sorted((folder / "__pycache__").glob("*.nbk"))


def hits(function: Kernel) -> int:
    return sum(function.machine().stats.cache_hits.values())  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def compiled_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the kernel's machine code, to be copied."""
    folder = tmp_path_factory.mktemp("compiled")
    kernel(folder)(3.0)
    return folder


@pytest.mark.long
def test_it_is_kept_beside_its_source(tmp_path: Path) -> None:
    assert kernel(tmp_path)(3.0) == 1.5
    assert len(cached_kernels(tmp_path)) == 1
    again = kernel(tmp_path)
    assert again(5.0) == 2.5
    assert len(cached_kernels(tmp_path)) == 1
    source = tmp_path / "kernels.py"
    source.write_text(SOURCE.replace("/ 2", "/ 4"))
    os.utime(source, (source.stat().st_atime, source.stat().st_mtime + 10))  # bytecode goes by whole seconds
    assert kernel(tmp_path)(3.0) == 0.75
    assert len(cached_kernels(tmp_path)) == 1  # in place of the old one


@pytest.mark.long
def test_a_file_of_another_time_and_the_same_content_is_the_same_source(
    tmp_path: Path, compiled_folder: Path
) -> None:
    """As a fresh checkout has it."""
    shutil.copytree(compiled_folder, tmp_path, dirs_exist_ok=True)
    os.utime(tmp_path / "kernels.py", (0, 0))
    again = kernel(tmp_path)
    assert again(3.0) == 1.5
    assert hits(again) == 1


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "cut": lambda content: content[: len(content) // 2],
    "one bit of the machine code": lambda content: (
        content[:-2000] + bytes([content[-2000] ^ 1]) + content[-1999:]
    ),
    "something else": lambda content: b"\0" * 100,
    "longer": lambda content: content + b"x",
}


@pytest.mark.long
@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_damaged_is_made_again(
    damage: str, tmp_path: Path, compiled_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.copytree(compiled_folder, tmp_path, dirs_exist_ok=True)
    files = [path for path in (tmp_path / "__pycache__").iterdir() if path.suffix != ".pyc"]
    for path in files:
        path.write_bytes(DAMAGES[damage](path.read_bytes()))
    assert kernel(tmp_path)(3.0) == 1.5
    assert caplog.messages == [f"{path} is damaged: it is compiled again" for path in files]
    caplog.clear()
    assert kernel(tmp_path)(3.0) == 1.5
    assert caplog.messages == []


@pytest.fixture
def no_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Neither the source's folder nor the user's can be written: a container with a read-only file system."""
    (tmp_path / "__pycache__").write_text("a file where the folder should be")
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, "/dev/null")
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    compiled._say_uncached.cache_clear()
    return tmp_path


@pytest.mark.long
def test_without_a_place_it_works_with_one_note(no_place: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert kernel(no_place)(3.0) == 1.5
    assert kernel(no_place)(5.0) == 2.5
    (said,) = caplog.messages
    assert said.startswith("no folder for compiled code can be written")
    assert "NUMBA_CACHE_DIR" in said


@pytest.mark.long
def test_a_place_that_is_lost_costs_the_keeping_alone(tmp_path: Path) -> None:
    first = kernel(tmp_path)
    first.machine()  # type: ignore[attr-defined]
    for path in (tmp_path / "__pycache__").iterdir():
        path.unlink()
    (tmp_path / "__pycache__").rmdir()
    (tmp_path / "__pycache__").write_text("")
    assert first(3.0) == 1.5


KEPT = """
import sys
import ltr_harness
compiling = {"scipy.linalg", "numba.np.arraymath"}
heavy = {"lightgbm", "xgboost", "pandas", "pyarrow", "altair", "pydantic", "scipy.stats"}
ltr_harness.evaluate([1, 0], [2, 1], group_sizes=[2], metrics=["ndcg@10"])
assert (compiling | heavy).isdisjoint(sys.modules)
import numpy
import scipy.special
compiling.difference_update(sys.modules)  # from 1.18 on it takes scipy.linalg itself
from ltr_harness.comparison.stats.reference import flipped_sums, parts_of_grid
ones = numpy.ones((2, 1))
print(*next(flipped_sums(parts_of_grid(ones, ones > 0), 2, 4, 0)).ravel())
print(*compiling & set(sys.modules))
from ltr_harness.metrics.core import ranking
print(*(name for name in ("select", "sort_crowds", "list_ties", "_sort") if getattr(ranking, name)._machine))
"""


@pytest.mark.long
def test_the_first_metric_and_comparison_load_what_they_take_and_nothing_that_compiling_imports() -> None:
    evaluate([1, 0], [2, 1], group_sizes=[2], metrics=["ndcg@10"])  # kept from here on, at the latest
    ones = np.ones((2, 1))
    sums = next(flipped_sums(parts_of_grid(ones, ones > 0), 2, 4, 0)).ravel()
    done = subprocess.run([sys.executable, "-c", KEPT], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [" ".join(map(str, sums)), "", "select"]


@pytest.mark.long
@pytest.mark.parametrize("collecting", [True, False])
def test_the_garbage_collector_is_left_as_it_was(collecting: bool, tmp_path: Path) -> None:
    try:
        if not collecting:
            gc.disable()
        assert kernel(tmp_path)(3.0) == 1.5
        assert gc.isenabled() == collecting
        with pytest.raises(TypingError):
            kernel(tmp_path)("three")  # type: ignore[arg-type]
        assert gc.isenabled() == collecting
    finally:
        gc.enable()


@pytest.mark.parametrize("text", [b"", b"d7", b"clueweb", b"clueweb09-en0000-00-00042"])
def test_loops_that_are_not_compiled_do_not_go_on_in_bytes(text: bytes) -> None:
    """As in debuggers and where changes are sampled: an int64 and a byte are an int64 there, too."""
    data = np.frombuffer(text, np.uint8)
    with np.errstate(over="ignore"):
        plain = trec_kernels._hash._function(data, 0, data.size)
    assert plain == trec_kernels._hash(data, 0, data.size)
    number = np.frombuffer(b"1234.5e012", np.uint8)
    assert kernels._number._function(number, 0)[1:] == kernels._number(number, 0)[1:] == (1234.5e12, 10)
