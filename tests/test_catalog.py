"""From a name to the thing: tables, entry points, own files, and what is said about a name nobody knows."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ltr_harness.catalog import Catalog, did_you_mean, is_own_file, load_own_file, own_file_digest
from ltr_harness.errors import MetricError, UsageError

CATALOG = Catalog("number", {"tau": "math:tau", "pi": "math:pi"}, "ltr_harness.no_such_group")


def test_names_load_what_they_name() -> None:
    import math

    assert CATALOG.load("pi") == math.pi
    assert CATALOG.names() == ["pi", "tau"]


def test_a_name_nobody_knows() -> None:
    with pytest.raises(MetricError, match=r"unknown number 'tao'; did you mean 'tau'\? \(known: pi, tau\)"):
        CATALOG.load("tao", MetricError)
    with pytest.raises(UsageError, match="unknown number 'xyz'; known: pi, tau"):
        CATALOG.load("xyz")


def test_did_you_mean_forgives_case_and_order() -> None:
    assert did_you_mean("NDCG", ["ndcg", "mrr"]) == "did you mean 'ndcg'? (known: mrr, ndcg)"
    assert did_you_mean("zzz", ["ndcg"]) == "known: ndcg"


def test_own_files(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("ANSWER = 42\n")
    assert is_own_file(f"{path}:ANSWER")
    assert not is_own_file("ndcg")
    assert CATALOG.load(f"{path}:ANSWER") == 42
    with pytest.raises(UsageError, match=r"mine.py: has no 'ANSWR'; did you mean 'ANSWER'\?"):
        load_own_file(f"{path}:ANSWR")
    with pytest.raises(
        UsageError, match=r"nowhere.py: no such file; expected a Python file that defines 'X'"
    ):
        load_own_file(f"{tmp_path}/nowhere.py:X")
    before = own_file_digest(f"{path}:ANSWER")
    path.write_text("ANSWER = 43\n")
    assert own_file_digest(f"{path}:ANSWER") != before


def test_a_broken_own_file_is_a_message_and_leaves_no_module(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text("1 / 0\n")
    before = set(sys.modules)
    with pytest.raises(
        MetricError, match=r"broken.py: cannot be imported: ZeroDivisionError: division by zero"
    ):
        load_own_file(f"{path}:X", MetricError)
    assert not [name for name in set(sys.modules) - before if "broken" in name]


def test_two_own_files_of_one_name_are_two_modules(tmp_path: Path) -> None:
    for folder, value in (("a", 1), ("b", 2)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.py").write_text(f"VALUE = {value}\n")
    assert [load_own_file(f"{tmp_path / folder}/mine.py:VALUE") for folder in "ab"] == [1, 2]
