"""The way of an experiment through the package: each step entered once, in order, with the job passed whole."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

from ltr_harness import run_experiment
from ltr_harness import workflow as experiment
from ltr_harness.comparison.comparing import compare_systems
from ltr_harness.experiments.training import check, search
from ltr_harness.experiments.training import job as plan
from ltr_harness.experiments.training import train as execute
from ltr_harness.report.writing import write_files

STEPS: dict[str, Callable[..., Any]] = {
    "read": experiment.read,
    "check": check.check,
    "list": plan.list_tasks,
    "tune": search.tune,
    "execute": execute.execute,
    "compare": compare_systems,
    "report": write_files,
}


def entered_steps(config: dict[str, Any], runs: Path) -> list[str]:
    """The steps in the order in which they were entered."""
    names: dict[CodeType, str] = {inspect.unwrap(step).__code__: name for name, step in STEPS.items()}
    seen: list[str] = []

    def profile(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code in names:
            seen.append(names[frame.f_code])

    sys.setprofile(profile)
    try:
        run_experiment(config, runs=runs)
    finally:
        sys.setprofile(None)
    return seen


@pytest.fixture
def tiny_config(small_config: dict[str, Any]) -> dict[str, Any]:
    """Two models that train in no time."""
    small_config["models"] = {"random": {"ranker": "random"}, "again": {"ranker": "random"}}
    small_config["seeds"] = [1]
    return small_config


@pytest.mark.long
def test_each_step_is_entered_once_and_in_order(tiny_config: dict[str, Any], tmp_path: Path) -> None:
    assert entered_steps(tiny_config, tmp_path) == [
        "read",
        "check",
        "list",
        "execute",
        "execute",
        "compare",
        "report",
    ]


@pytest.mark.long
def test_what_is_done_is_not_executed_again(tiny_config: dict[str, Any], tmp_path: Path) -> None:
    run_experiment(tiny_config, runs=tmp_path)
    assert entered_steps(tiny_config, tmp_path) == ["read", "check", "list", "compare", "report"]


@pytest.mark.long
def test_after_tuning_only_the_list_is_repeated(tuned_config: dict[str, Any], tmp_path: Path) -> None:
    pytest.importorskip("optuna", reason="needs the extra `tune`")
    del tuned_config["models"]["xgb"]
    tuned_config["tune"]["trials"] = 1
    steps = entered_steps(tuned_config, tmp_path)
    assert steps == [
        "read",
        "check",
        "list",
        "tune",
        "list",
        *["execute"] * (len(steps) - 7),
        "compare",
        "report",
    ]
