"""Worlds with a planted truth: the outcome and the cause that are right, in at least so many of the logs."""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest


def script() -> ModuleType:
    path = Path(__file__).resolve().parents[2] / "scripts" / "monitor_worlds.py"
    spec = importlib.util.spec_from_file_location("monitor_worlds", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["monitor_worlds"] = module
    spec.loader.exec_module(module)
    return module


WORLDS = script()
BY_NAME = {world.name: world for world in WORLDS.WORLDS}


def rates(found: Counter[tuple[str, str]], name: str) -> tuple[float, float]:
    """The shares of logs with a right outcome and with a right cause."""
    world, logs = BY_NAME[name], sum(found.values())
    outcome = sum(n for (outcome, _), n in found.items() if outcome in world.outcomes)
    cause = sum(n for (_, cause), n in found.items() if cause in world.causes)
    return outcome / logs, cause / logs


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [
        "worse everywhere, propensities right",
        "worse below rank 1",
        "worse in one country on one day, grades",
        "a feature moved on the last 2 of 28 days, grades",
    ],
)
def test_a_few_logs_of_a_world(name: str) -> None:
    outcome, cause = rates(WORLDS.count_outcomes(BY_NAME[name], 2), name)
    assert outcome == 1
    assert cause == 1


LEAST = {
    "another page, propensities wrong": (0.9, 0.5),
    "worse in one country": (0.9, 0.5),
    "worse in one country on one day, grades": (0.75, 0.75),  # 25 queries
    "purchases that come late": (0.65, 0.65),
}
"""Shares of logs with a right outcome and a right cause, where nine and eight of ten cannot be had."""


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_NAME)
def test_many_logs_of_a_world(name: str) -> None:
    """Never healthy over a loss that was found, and the right cause in most of 40 logs."""
    found = WORLDS.count_outcomes(BY_NAME[name], 40)
    outcome, cause = rates(found, name)
    least_outcome, least_cause = LEAST.get(name, (0.9, 0.8))
    assert outcome >= least_outcome, found
    assert cause >= least_cause, found
