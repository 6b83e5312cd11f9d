"""The family as a whole: what every member declares, and that a new one takes one file and one line."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
from pathlib import Path

import pytest

import ltr_harness.metrics
from ltr_harness.errors import MetricError
from ltr_harness.metrics import Metric
from ltr_harness.metrics.table import ALIASES, METRICS, catalog
from tests.conftest import named_case

FOLDER = Path(ltr_harness.metrics.__file__).parent


def metric_classes() -> dict[str, str]:
    """Class name to file stem of every class in the folder that has a metric's name."""
    found = {}
    for path in sorted(FOLDER.glob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and any(
                isinstance(part, ast.AnnAssign)
                and isinstance(part.target, ast.Name)
                and part.target.id == "name"
                and isinstance(part.value, ast.Constant)
                for part in node.body
            ):
                found[node.name] = path.stem
    return found


def test_every_metric_of_the_folder_is_in_the_table() -> None:
    missing = [
        f'    "{stem}": "ltr_harness.metrics.{stem}:{name}",'
        for name, stem in metric_classes().items()
        if METRICS.get(stem) != f"ltr_harness.metrics.{stem}:{name}"
    ]
    assert not missing, "add to METRICS in ltr_harness/metrics/table.py:\n" + "\n".join(missing)
    assert list(METRICS) == sorted(METRICS)


def test_every_metric_declares_itself() -> None:
    for name in METRICS:
        with named_case(name):
            kind: type[Metric] = catalog.load(name)
            assert issubclass(kind, Metric)
            assert kind.name == name
            assert kind.__module__ == f"ltr_harness.metrics.{name}"
            assert isinstance(kind.higher_is_better, bool)
            assert isinstance(kind.takes_cutoff, bool)
            low, high = kind.bounds
            assert low < high
            assert kind.source
            assert dataclasses.is_dataclass(kind)


def test_every_metric_refuses_what_none_understands() -> None:
    for name in METRICS:
        with named_case(name):
            kind: type[Metric] = catalog.load(name)
            needed = {"p": 0.8} if "p" in {field.name for field in dataclasses.fields(kind)} else {}
            kind(**needed)
            with pytest.raises(
                MetricError, match=f"{name}: empty='sometimes'; expected one of skip, zero, one"
            ):
                kind(**needed, empty="sometimes")


def test_every_docstring_says_what_a_search_engineer_asks() -> None:
    for name in METRICS:
        with named_case(name):
            kind: type[Metric] = catalog.load(name)
            text = inspect.getdoc(kind)
            assert text is not None
            assert kind.__doc__ is not None
            assert kind.__doc__ != (kind.__mro__[1].__doc__ or "")
            assert text.splitlines()[0].endswith((".", "K.", "?"))
            for part in ("Source:", "Example:", ">>>"):
                assert part in text, part
            own = {field.name for field in dataclasses.fields(kind)} & set(
                vars(kind).get("__annotations__", {})
            )
            for field in own:
                assert f"{field}:" in text, f"{name}: no word about {field}"


def test_editors_and_type_checkers_are_given_the_same_names() -> None:
    stub = Path(ltr_harness.metrics.__file__).with_suffix(".pyi").read_text()
    given = re.findall(r"^from (\S+) import (\w+) as \2$", stub, re.M)
    assert len(given) == len(stub.splitlines())
    assert sorted(name for _, name in given) == sorted(ltr_harness.metrics.__all__)
    assert {f"{module}:{name}" for module, name in given} >= set(METRICS.values())


def test_names_can_be_imported() -> None:
    for target in METRICS.values():
        name = target.rpartition(":")[2]
        assert getattr(ltr_harness.metrics, name) is catalog.load(target.rpartition(".")[2].partition(":")[0])
        assert name in ltr_harness.metrics.__all__
    with pytest.raises(AttributeError, match="has no attribute 'NCDG'"):
        ltr_harness.metrics.NCDG  # noqa: B018
    assert not set(ALIASES) & set(METRICS)
