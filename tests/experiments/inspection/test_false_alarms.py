"""Sound sets raise at most one warning and no error, and each trap is found from 50 queries of 5 rows on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest


@pytest.fixture
def alarms(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("false_alarms")


@pytest.mark.long
def test_one_small_set_of_each_kind(alarms: ModuleType) -> None:
    assert [
        kind for kind in alarms.SOUND if not alarms.count_findings(kind, alarms.sound_sets(kind, 1)).is_sound
    ] == []
    assert alarms.size_of(0) == (50, 5)
    # that every name of a rank is found is in test_column_facts.py
    traps = [trap for trap in alarms.TRAPS if trap.rpartition(": ")[2] not in alarms.RANKS[1:]]
    assert {"rank: rank_shown", "rank in part: rank_shown", "a leak"} < {*traps}
    assert [trap for trap in traps if not alarms.n_found(trap, 1)] == []


@pytest.mark.long
def test_real_sets(alarms: ModuleType, shared_data: Path) -> None:
    measured = [alarms.count_findings(name, iter([splits])) for name, splits in alarms.real_sets(shared_data)]
    assert [one for one in measured if not one.is_sound] == []
    unwanted = {"leaking-feature", "outcome-feature", "id-feature", "identical-rows"}
    assert [one for one in measured if unwanted & one.kinds.keys()] == []


@pytest.mark.slow
def test_twenty_sets_of_each_kind(alarms: ModuleType) -> None:
    assert [
        kind for kind in alarms.SOUND if not alarms.count_findings(kind, alarms.sound_sets(kind, 20)).is_sound
    ] == []
    assert {trap: n for trap in alarms.TRAPS if (n := alarms.n_found(trap, 20)) < 20} == {}


def test_what_counts_as_sound(alarms: ModuleType) -> None:
    draws = np.random.default_rng(1)
    leaking = alarms.TRAPS["a leak"][1](draws, (50, 5)).read()
    assert not alarms.count_findings("a leak", iter([{"train": leaking}])).is_sound
    assert not alarms.is_found("a leak", alarms.shop(draws, (50, 5)))
