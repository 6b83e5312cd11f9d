"""The script behind docs/maintainers/upgrading.md: what it reads of stored runs, and what it counts as different."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "maintainers" / "upgrading.md"


def pair(verdict: str, p: float, width: float, detectable: float) -> dict[str, Any]:
    return {"verdict": verdict, "p": p, "width": width, "detectable": detectable}


def facts(*pairs: dict[str, Any], differ: bool, part: str, passed: bool) -> dict[str, Any]:
    return {
        "pairs": {str(at): one for at, one in enumerate(pairs)},
        "apart": {"a b": [differ, False]},
        "slices": {"rows 3": part},
        "gates": {"margin": passed},
    }


def test_what_differs_is_counted(script: Callable[[str], ModuleType]) -> None:
    """One of two pairs turns and both widths double; letters called two equal methods different."""
    old = facts(
        pair("worse", 0.02, 0.1, 0.05), pair("better", 0.01, 0.2, 0.1), differ=True, part="worse", passed=True
    )
    now = facts(
        pair("not distinguishable", 0.06, 0.2, float("nan")),
        pair("better", 0.01, 0.4, 0.1),
        differ=False,
        part="not distinguishable",
        passed=False,
    )
    found = dict(line.strip("| ").split(" | ") for line in script("upgrading").rows([(" seeds", old, now)]))
    assert found["verdict, default test"] == "1 of 2"
    assert found["width of the interval, default test"] == "2.00 times (2.00 to 2.00) of 2"
    assert found["detectable difference, now none"] == "1 of 2"
    assert found["two models' letters, seeds"] == "1 of 1"
    assert found["letters against `all_pairs`, before, seeds"] == "1 of 1"
    assert found["letters against `all_pairs`, now, seeds"] == "0 of 1"
    assert found["verdict on a slice, seeds"] == "1 of 1"
    assert found["gate at a margin"] == "1 of 1"
    assert found["gate with a margin set"] == "0 of 0"


def test_the_page_has_every_row(script: Callable[[str], ModuleType]) -> None:
    upgrading, page = script("upgrading"), PAGE.read_text(encoding="utf-8")
    nothing = facts(pair("better", 0.01, 0.1, 0.1), differ=False, part="better", passed=True)
    kinds = ("seeds", "skew-adjusted seeds", "skew-adjusted far")
    rows = upgrading.rows([(kind, nothing, nothing) for kind in kinds])
    for row in rows:
        assert f"\n| {row.split(' | ')[0].strip('| ')} |" in page


@pytest.mark.long
def test_stored_runs_give_the_facts(script: Callable[[str], ModuleType]) -> None:
    found = script("upgrading").variants(
        ROOT / "tests" / "stored" / "v2" / "runs" / "small", ["skew-adjusted"]
    )
    of_test = {name.removeprefix("skew-adjusted ") for name in found}
    assert of_test == {"seeds", "seeds, margin", "one seed", "one seed, margin", "traffic", "far"}
    one = found["skew-adjusted seeds"]
    assert set(one["pairs"]) == {f"xgb {metric}" for metric in ("ndcg@3", "ndcg@10", "mrr@3", "mrr@10")}
    assert one["apart"] == {"lgbm xgb": [False, False]}
    assert one["gates"]["significant"]
