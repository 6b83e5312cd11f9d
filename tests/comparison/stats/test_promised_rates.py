"""Every table of docs/maintainers/promises.md: simulated worlds that were not made to keep what comparisons promise."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]

sys.path.append(str(ROOT / "scripts"))  # which import each other
script = importlib.import_module("promises")
PROMISES = {promise.name: promise for promise in script.promises()}
INSIDE = [
    (promise, world) for promise in PROMISES.values() for world in promise.worlds if promise.holds_in(world)
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("promise", "world"), INSIDE, ids=[f"{one.name}, {world.name}, {world.units}" for one, world in INSIDE]
)
def test_a_promise_is_kept(promise: Any, world: Any) -> None:
    """Three standard errors are left to chance, of all the samples that decide."""
    noise = 3 * (promise.at_most * (1 - promise.at_most) / (4 * promise.samples)) ** 0.5
    shares = {far: promise.measure(world, far) for far in promise.far}
    assert all(promise.is_kept(share, noise) for share in shares.values()), shares


@pytest.mark.long
@pytest.mark.parametrize("name", PROMISES)
def test_a_small_sample_of_each_promise(name: str) -> None:
    promise = PROMISES[name]
    world = next(world for world in promise.worlds if promise.holds_in(world))
    share = promise.measure(world, promise.far[-1], 12 / promise.samples)
    assert promise.is_kept(share, 0.15), share


def test_the_page_has_every_world() -> None:
    page = (ROOT / "docs" / "maintainers" / "promises.md").read_text(encoding="utf-8")
    tables = page.partition("<!-- table -->")[2].partition("<!-- end -->")[0].split("### ")[1:]
    assert [one.splitlines()[0] for one in tables] == list(PROMISES)
    for promise, table in zip(PROMISES.values(), tables, strict=True):
        assert promise.sentence in table
        rows = re.findall(r"^\| (.+?) \| ([\d,]+) \|.* \| (.+?) \|$", table, re.M)
        assert rows == [
            (world.name, f"{world.units:,}", promise.bound if promise.holds_in(world) else "nothing")
            for world in promise.worlds
        ]


def test_the_page_keeps_what_it_promises() -> None:
    page = (ROOT / "docs" / "maintainers" / "promises.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| .+? \| [\d,]+ \| (.+) \| (?:at most )?([\d.]+)(?: to ([\d.]+))? % \|$", page, re.M
    )
    assert len(rows) == len(INSIDE)
    for cells, first, second in rows:
        low, high = (float(first), float(second)) if second else (-100.0, float(first))
        assert all(low <= float(cell) <= high for cell in cells.split(" | ")), cells


def test_the_page_says_what_bets_cost() -> None:
    page = (ROOT / "docs" / "maintainers" / "promises.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| ([\d,]+) \| ([\d.]+) \| ([\d.]+) \|", page.partition("<!-- cost of bets -->")[2], re.M
    )
    assert [n for n, *_ in rows] == ["50", "200", "1,000", "5,000"]
    for n, *widths in rows[:2]:
        assert [float(width) for width in widths] == pytest.approx(
            [script.cost_of_bets(int(n), sd) for sd in (0.05, 0.15)], abs=0.051
        )


def test_a_promise_holds_from_so_many_of_the_rarest_kind_on() -> None:
    """A tenth of 199 queries is fewer than twenty."""
    promise = script.Promise("", "", "", (), fewest=20)
    sizes = {n: promise.holds_in(script.World("", n, lambda rng, far: 0.0, 0.1)) for n in (199, 200)}
    assert sizes == {199: False, 200: True}


def test_a_share_below_or_above_the_promise_is_not_kept() -> None:
    """One sample in two is wrong, always: 49 to 51 % is kept, 0 to 49 % and 51 to 100 % are not."""

    def keeps_promise(low: float, high: float) -> bool:
        turns = iter([1.0, 0.0] * 200)
        world = script.World("even", 1, lambda rng, far: next(turns))
        promise = script.Promise("", "", "", (world,), 1, high, low, samples=100)
        return bool(promise.is_kept(promise.measure(world, 0.0)))

    assert keeps_promise(0.49, 0.51)
    assert not keeps_promise(0.0, 0.49)
    assert not keeps_promise(0.51, 1.0)


def test_four_times_as_many_samples_decide_where_the_first_say_no() -> None:
    """Forty of the first hundred are wrong, and none of the next three hundred."""
    counted = iter([1.0] * 40 + [0.0] * 360)
    world = script.World("first", 20, lambda rng, far: next(counted))
    promise = script.Promise("", "", "", (world,), at_most=0.2, samples=100)
    assert promise.measure(world, 0.0) == pytest.approx(0.1)
    turns = iter([1.0] * 40 + [0.0] * 60)
    few = script.World("first", 19, lambda rng, far: next(turns))
    assert promise.measure(few, 0.0) == pytest.approx(0.4)
